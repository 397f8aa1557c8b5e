//! Questions to a portal and its answers: JSON by HTTP, one at a time, on the thread that asks.
//!
//! What a portal answers is taken as anybody's: it is bounded, parsed into types, and shown without control
//! characters.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector as _, TcpConnector};

use crate::config::portal::{CertificateHash, PortalAddress};
use crate::config::visible;

use super::tls::{Seen, Tls};

/// How long a portal may take for one answer: it answers a start when its engine has taken it (guess).
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of an answer at most: a list of thousands of sessions.
const LONGEST: u64 = 4 << 20;

/// Cookies that are taken of one answer: a log-in sets two.
const MOST_COOKIES: usize = 4;

/// What requests but GET carry beside the cookie.
const CSRF: &str = "x-openuvr-csrf";

/// By what a portal knows who asks.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    /// The cookie, `NAME=VALUE`.
    pub(super) cookie: String,
    /// What goes beside it.
    pub(super) csrf: String,
}

/// A portal.
pub(super) struct Http {
    agent: Agent,
    address: PortalAddress,
    seen: Seen,
}

/// What it answered.
pub(super) struct Answer {
    /// The status of HTTP.
    pub(super) status: u16,
    /// The cookies that it set, `NAME=VALUE`.
    pub(super) cookies: Vec<String>,
    body: Vec<u8>,
}

impl Http {
    /// Asks nothing yet.
    ///
    /// # Errors
    /// One line: no certificate can be looked at here.
    pub(super) fn new(address: &PortalAddress, pinned: Option<CertificateHash>) -> Result<Http> {
        let seen = Seen::default();
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // Nobody but the portal gets a password.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("openuvr/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(PATIENCE));
        if address.is_loopback() {
            config = config.proxy(None);
        }
        let connectors = ().chain(ConnectProxyConnector::default());
        let connectors = connectors.chain(TcpConnector::default());
        let agent = match address.secure {
            true => {
                let tls = Tls::new(pinned, &seen).map_err(|why| anyhow!(why))?;
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
            seen,
        })
    }

    /// Where it is.
    pub(super) fn address(&self) -> &PortalAddress {
        &self.address
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// One line: there is no answer, or none that can be read.
    pub(super) fn ask(
        &self,
        method: &str,
        path: &str,
        who: Option<&Credentials>,
        body: Option<&Value>,
    ) -> Result<Answer> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.address));
        if let Some(Credentials { cookie, csrf }) = who {
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
        Ok(Answer {
            status,
            cookies,
            body: body.map_err(|why| self.failed(&why))?,
        })
    }

    fn failed(&self, why: &ureq::Error) -> anyhow::Error {
        let at = &self.address;
        match self.seen.refused() {
            Some(refused) => anyhow!(
                "the certificate of {at} is not trusted ({}): if this is its fingerprint, compared with what \
                 the portal's operator says, give --portal-fingerprint {}",
                visible(&refused.why),
                refused.hash
            ),
            None => anyhow!("{at} does not answer: {}", visible(&why.to_string())),
        }
    }
}

impl Answer {
    /// What it says, if the portal has done what was asked.
    ///
    /// # Errors
    /// One line: the portal's own for why not, or that this is no portal.
    pub(super) fn done<T: DeserializeOwned>(&self) -> Result<T> {
        self.is_done()?;
        serde_json::from_slice(&self.body).map_err(|_| {
            anyhow!("what answers there is no portal of OpenUVR, or one of another version")
        })
    }

    /// Whether the portal has done what was asked, where it says no more.
    ///
    /// # Errors
    /// As [`done`](Answer::done).
    pub(super) fn is_done(&self) -> Result<()> {
        if (200..300).contains(&self.status) {
            return Ok(());
        }
        let said: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        match said["error"].as_str() {
            Some(why) => bail!("the portal says: {}", visible(why)),
            None => bail!("the portal answers {}: is its address right?", self.status),
        }
    }
}
