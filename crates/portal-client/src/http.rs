//! HTTP requests to a portal, with JSON bodies: one at a time, on the calling thread.
//!
//! A portal's responses are not trusted. They are limited in size, parsed into types, and displayed without control
//! characters.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use openuvr_pinning::CertificateHash;
use openuvr_terminal::one_line::visible;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector as _, TcpConnector};

use crate::address::PortalAddress;

use super::tls::{LastRejection, Tls};

/// The timeout of a request (guess). A portal answers a request to start a session only after its engine has accepted
/// the session.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum size of a response in bytes, enough for a list of thousands of sessions.
const LONGEST: u64 = 4 << 20;

/// The maximum number of cookies per response. A log-in sets two.
const MOST_COOKIES: usize = 4;

/// The header with the CSRF token. A portal requires it in all requests that require a log-in, except GET and HEAD
/// requests.
const CSRF: &str = "x-openuvr-csrf";

/// The credentials of a log-in.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    /// The cookie, `NAME=VALUE`.
    pub(super) cookie: String,
    pub(super) csrf: String,
}

/// The HTTP client for one portal.
pub(super) struct Http {
    agent: Agent,
    address: PortalAddress,
    rejection: LastRejection,
}

pub(super) struct Response {
    pub(super) status: u16,
    /// The cookies that the response sets, each as `NAME=VALUE`.
    pub(super) cookies: Vec<String>,
    body: Vec<u8>,
}

impl Http {
    /// Creates a client without sending a request.
    ///
    /// # Errors
    /// Returns a one-line error if certificates cannot be verified on this system.
    pub(super) fn new(address: &PortalAddress, pinned: Option<CertificateHash>) -> Result<Http> {
        let rejection = LastRejection::default();
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // Redirects are not followed, because the password must be sent only to the portal.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("openuvr/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(TIMEOUT));
        if address.is_loopback() {
            config = config.proxy(None);
        }
        let connectors = ().chain(ConnectProxyConnector::default());
        let connectors = connectors.chain(TcpConnector::default());
        let agent = match address.secure {
            true => {
                let tls = Tls::new(pinned, &rejection).map_err(|why| anyhow!(why))?;
                Agent::with_parts(
                    config.build(),
                    connectors.chain(tls),
                    DefaultResolver::default(),
                )
            }
            false => Agent::with_parts(config.build(), connectors, DefaultResolver::default()),
        };
        Ok(Http {
            agent,
            address: address.clone(),
            rejection,
        })
    }

    pub(super) fn address(&self) -> &PortalAddress {
        &self.address
    }

    /// Sends a request, and waits for the response.
    ///
    /// # Errors
    /// Returns a one-line error if there is no response, or an unreadable one.
    pub(super) fn request(
        &self,
        method: &str,
        path: &str,
        credentials: Option<&Credentials>,
        body: Option<&Value>,
    ) -> Result<Response> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.address));
        if let Some(Credentials { cookie, csrf }) = credentials {
            request = request.header("cookie", cookie).header(CSRF, csrf);
        }
        let answered = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json");
                self.agent.run(request.body(body.to_string())?)
            }
            None => self.agent.run(request.body(())?),
        };
        let mut answer = answered.map_err(|why| self.failed(&why))?;
        let set = answer.headers().get_all("set-cookie").iter();
        let set = set.filter_map(|set| set.to_str().ok()?.split(';').next());
        let cookies = set.take(MOST_COOKIES).map(str::to_owned).collect();
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(LONGEST).read_to_vec();
        Ok(Response {
            status,
            cookies,
            body: body.map_err(|why| self.failed(&why))?,
        })
    }

    fn failed(&self, why: &ureq::Error) -> anyhow::Error {
        let at = &self.address;
        match self.rejection.get() {
            Some(refused) => anyhow!(
                "the certificate of {at} is not trusted ({}): if the portal's operator confirms this \
                 fingerprint, use --portal-fingerprint {}",
                visible(&refused.why),
                refused.hash
            ),
            None => anyhow!("no answer from {at}: {}", visible(&why.to_string())),
        }
    }
}

impl Response {
    /// The body, if the request succeeded.
    ///
    /// # Errors
    /// Returns a one-line error if the request failed, with the portal's message. Also returns a one-line error if the
    /// response does not come from a portal.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        self.check_success()?;
        serde_json::from_slice(&self.body).map_err(|_| {
            anyhow!(
                "the server is not an OpenUVR portal, or its version does not match this client"
            )
        })
    }

    /// Checks that the request succeeded, for responses without a body.
    ///
    /// # Errors
    /// As for [`json`](Response::json).
    pub(super) fn check_success(&self) -> Result<()> {
        if (200..300).contains(&self.status) {
            return Ok(());
        }
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        match body["error"].as_str() {
            Some(why) => bail!("the portal refused: {}", visible(why)),
            None => bail!(
                "unexpected HTTP status {} from the portal: check its address",
                self.status
            ),
        }
    }
}
