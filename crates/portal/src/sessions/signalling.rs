//! Signalling of a browser that plays through the portal. The portal opens a WebSocket to the session's gateway on the
//! browser's behalf.
//!
//! The session gets the browser's device key, role, user name and address, but no credentials that the browser has for
//! the portal. From the head of the session's response, the portal uses only the status, so a session cannot set
//! cookies or headers in the browser.

use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::Upgraded;
use hyper::{Request, StatusCode};
use openuvr_proto::control::handshake::foreign_key;
use openuvr_proto::control::identity::{NoRandomness, PublicKey};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{Action, Holder, KeyHash};

use super::control::{ControlError, Tickets};
use super::link::{self, Unreachable};
use crate::launch::{Endpoint, SessionId};

/// Paths and headers of requests to a gateway. `crates/gateway/src/portal_requests.rs` reads them.
const SIGNALLING: &str = "/session/signalling";
const DISMISS: &str = "/session/dismiss";
const TICKET: &str = "x-openuvr-ticket";
const DEVICE: &str = "x-openuvr-device";
const NAME: &str = "x-openuvr-name";
const FROM: &str = "x-forwarded-for";

/// Maximum number of options that a page can pass. There are three kinds of options.
const MAX_OPTIONS: usize = 3;

/// A browser that connects to a session.
pub(crate) struct Visitor<'a> {
    /// Hash of the browser's log-in token.
    pub(crate) login: &'a str,
    /// The user's name.
    pub(crate) name: &'a str,
    /// The browser's address.
    pub(crate) from: IpAddr,
    /// The highest role that the browser may have.
    pub(crate) role: Role,
    /// The page's options, filtered by [`page_options`].
    pub(crate) options: String,
}

/// Filters the query of a page's WebSocket URL. The portal passes only these options to the session: observing only,
/// picture size and bitrate.
pub(crate) fn page_options(query: &str) -> String {
    let number = |text: &str| {
        let digits = text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits && !text.is_empty()
    };
    let words = query.split('&').filter(|word| match word.split_once('=') {
        Some(("role", role)) => role == "watch",
        Some(("bitrate", bits)) => number(bits),
        Some(("size", size)) => size
            .split_once('x')
            .is_some_and(|(width, height)| number(width) && number(height)),
        _ => false,
    });
    // The number of options is limited and duplicates are dropped, because a page's query may be as long as a request's
    // head.
    let mut heard: Vec<&str> = Vec::new();
    for word in words {
        if !heard.contains(&word) && heard.len() < MAX_OPTIONS {
            heard.push(word);
        }
    }
    heard.iter().map(|word| format!("&{word}")).collect()
}

/// The device key that represents a log-in in a session. Each session sees a different key, and a key does not reveal
/// the log-in.
fn device(session: SessionId, login: &str) -> PublicKey {
    let whole = format!("{session} {login}");
    let hash = digest(&SHA256, whole.as_bytes());
    foreign_key("portal log-in", hash.as_ref())
}

impl Tickets {
    /// Opens a WebSocket to the session for this browser.
    ///
    /// # Errors
    /// Returns an error if the session is unreachable or refuses the browser.
    pub(crate) async fn signalling(
        &self,
        session: SessionId,
        at: &Endpoint,
        visitor: &Visitor<'_>,
    ) -> Result<Upgraded, ControlError> {
        let device = device(session, visitor.login);
        let holder = Holder::Key(KeyHash::of(&device));
        let (ticket, _) = self.ticket(session, visitor.role, holder)?;
        let token = self.token(session, &[Action::Connect])?;
        let mut key = [0; 16];
        rand::fill(&mut key).map_err(|_| NoRandomness)?;
        let name =
            HeaderValue::from_bytes(visitor.name.as_bytes()).map_err(Unreachable::because)?;
        let request = Request::get(format!("{SIGNALLING}?reports{}", visitor.options))
            .header(HOST, "session")
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, BASE64_STANDARD.encode(key))
            .header(TICKET, ticket)
            .header(DEVICE, hex(&device.0))
            .header(NAME, name)
            .header(FROM, visitor.from.to_canonical().to_string())
            .body(String::new())
            .map_err(Unreachable::because)?;
        let answer = link::request(session, at, request).await?;
        match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                let upgraded = hyper::upgrade::on(answer).await;
                Ok(upgraded.map_err(Unreachable::because)?)
            }
            status => Err(ControlError::Refused(status)),
        }
    }

    /// Ends all connections from browsers with this log-in to the session. This is necessary, because the media
    /// connections do not pass through the portal.
    ///
    /// # Errors
    /// Returns an error if the session is unreachable or refuses the request.
    pub(crate) async fn dismiss(
        &self,
        session: SessionId,
        at: &Endpoint,
        login: &str,
    ) -> Result<(), ControlError> {
        let token = self.token(session, &[Action::Connect])?;
        let request = Request::post(DISMISS)
            .header(HOST, "session")
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .header(DEVICE, hex(&device(session, login).0))
            .body(String::new())
            .map_err(Unreachable::because)?;
        match link::request(session, at, request).await?.status() {
            status if status.is_success() => Ok(()),
            status => Err(ControlError::Refused(status)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_options_reach_a_session() {
        let whole = "reports&role=watch&size=1280x720&bitrate=5000000";
        assert_eq!(
            page_options(whole),
            "&role=watch&size=1280x720&bitrate=5000000"
        );
        for nothing in [
            "",
            "reports",
            "role=player",
            "size=1280",
            "size=x",
            "size=1x1x1",
            "bitrate=",
            "bitrate=1%0d%0a",
            "bitrate=12345678901",
            "ticket=1",
        ] {
            assert_eq!(page_options(nothing), "", "{nothing}");
        }
        let many: String = (0..100).map(|n| format!("&bitrate={n}")).collect();
        assert_eq!(page_options(&many), "&bitrate=0&bitrate=1&bitrate=2");
        assert_eq!(page_options("role=watch&role=watch"), "&role=watch");
    }
}
