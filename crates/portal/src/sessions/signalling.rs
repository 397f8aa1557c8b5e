//! The signalling of a browser that plays through the portal: a WebSocket to the session's gateway, which the portal
//! opens in the browser's place.
//!
//! The session hears who comes, as what, and from where; nothing that the browser has shown to the portal. Of its answer
//! only the status counts, so it can give the browser neither cookies nor headers.

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

/// Where a gateway is asked, and what it is told beside the token: `crates/gateway/src/portal_requests.rs` reads it.
const SIGNALLING: &str = "/session/signalling";
const DISMISS: &str = "/session/dismiss";
const TICKET: &str = "x-openuvr-ticket";
const DEVICE: &str = "x-openuvr-device";
const NAME: &str = "x-openuvr-name";
const FROM: &str = "x-forwarded-for";

/// Words of a page's wishes at most: one of each kind.
const MOST_WISHES: usize = 3;

/// A browser that comes to a session.
pub(crate) struct Visitor<'a> {
    /// What is kept of its log-in.
    pub(crate) login: &'a str,
    /// Whose it is.
    pub(crate) name: &'a str,
    /// Where it is.
    pub(crate) from: IpAddr,
    /// As what it comes at most.
    pub(crate) role: Role,
    /// What its page wants, of words that [`wishes`] leaves.
    pub(crate) wishes: String,
}

/// Of what a page asks for in the address of its WebSocket, what the session hears: to watch, although it might play;
/// how large the picture is to be, and how many bits it takes.
pub(crate) fn wishes(query: &str) -> String {
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
    // Each once, and few: a page's query may be as long as a request's head.
    let mut heard: Vec<&str> = Vec::new();
    for word in words {
        if !heard.contains(&word) && heard.len() < MOST_WISHES {
            heard.push(word);
        }
    }
    heard.iter().map(|word| format!("&{word}")).collect()
}

/// The key by which a session knows a log-in while it runs. Another session hears another one, and none can tell the
/// log-in from it.
fn device(session: SessionId, login: &str) -> PublicKey {
    let whole = format!("{session} {login}");
    let hash = digest(&SHA256, whole.as_bytes());
    foreign_key("portal log-in", hash.as_ref())
}

impl Tickets {
    /// Opens a WebSocket to the session for this browser.
    ///
    /// # Errors
    /// The session can't be reached, or does not let it in.
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
        let request = Request::get(format!("{SIGNALLING}?reports{}", visitor.wishes))
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

    /// Ends all connections of a log-in to the session, which go on without the portal otherwise.
    ///
    /// # Errors
    /// The session can't be reached, or refuses.
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
    fn a_session_hears_what_the_page_wants_and_nothing_else() {
        let whole = "reports&role=watch&size=1280x720&bitrate=5000000";
        assert_eq!(wishes(whole), "&role=watch&size=1280x720&bitrate=5000000");
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
            assert_eq!(wishes(nothing), "", "{nothing}");
        }
        let many: String = (0..100).map(|n| format!("&bitrate={n}")).collect();
        assert_eq!(wishes(&many), "&bitrate=0&bitrate=1&bitrate=2");
        assert_eq!(wishes("role=watch&role=watch"), "&role=watch");
    }
}
