//! STUN and TURN servers for browsers. A browser whose network blocks the host's datagrams connects through a relay.
//!
//! The gateway itself queries the STUN servers for its reflexive address. It does not use the TURN servers: a browser's
//! relay sends to an address of the host, which must be reachable from the relay.

mod file;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

pub use self::file::IceFileError;

/// The STUN port for UDP (RFC 8489 section 8.1).
const STUN_PORT: u16 = 3478;

/// A server, with the members of WebRTC's `RTCIceServer`.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct IceServer {
    /// URI as in RFC 7064 and 7065: `stun:HOST:PORT`, `turn:HOST:PORT?transport=udp`.
    urls: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<String>,
}

/// The text does not describe a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected stun:HOST[:PORT] or turn:USER:SECRET@HOST[:PORT]")]
pub struct InvalidIceServer;

impl FromStr for IceServer {
    type Err = InvalidIceServer;

    /// Parses `stun:HOST[:PORT]` or `turn:USER:SECRET@HOST[:PORT][?transport=udp|tcp]`. `turns` is `turn` with TLS.
    fn from_str(text: &str) -> Result<IceServer, InvalidIceServer> {
        let (scheme, rest) = text.split_once(':').ok_or(InvalidIceServer)?;
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login.split_once(':').ok_or(InvalidIceServer)?), place),
            None => (None, rest),
        };
        let (address, query) = match place.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (place, None),
        };
        let goes = match (scheme, login, query) {
            ("stun" | "stuns", None, None) => true,
            ("turn" | "turns", Some((user, secret)), query) => {
                let known = matches!(query, None | Some("transport=udp" | "transport=tcp"));
                known && !user.is_empty() && !secret.is_empty()
            }
            _ => false,
        };
        match goes && is_address(address) {
            true => Ok(IceServer {
                urls: format!("{scheme}:{place}"),
                username: login.map(|(user, _)| user.to_owned()),
                credential: login.map(|(_, secret)| secret.to_owned()),
            }),
            false => Err(InvalidIceServer),
        }
    }
}

impl IceServer {
    /// Host and port of a STUN server that is queried over UDP.
    #[must_use]
    pub fn stun(&self) -> Option<(&str, u16)> {
        let place = self.urls.strip_prefix("stun:")?;
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                (host, port.strip_prefix(':'))
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        let port = port.map_or(Some(STUN_PORT), |port| port.parse().ok());
        Some((host, port?))
    }
}

/// Whether the text is `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`.
fn is_address(text: &str) -> bool {
    let host = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((host, rest)) = rest.split_once(']') else {
                return false;
            };
            let port = rest.strip_prefix(':').is_none_or(is_port);
            return host.parse::<std::net::Ipv6Addr>().is_ok()
                && port
                && (rest.is_empty() || rest.starts_with(':'));
        }
        None => match text.split_once(':') {
            Some((host, port)) if is_port(port) => host,
            Some(_) => return false,
            None => text,
        },
    };
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    !host.is_empty() && host.len() <= 253 && host.chars().all(known)
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Hides the secret, which is sent only to logged-in browsers.
impl fmt::Debug for IceServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.urls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_parsed_for_browsers() {
        let json = |text: &str| {
            let server: IceServer = text.parse().unwrap();
            serde_json::to_string(&server).unwrap()
        };
        assert_eq!(
            json("stun:stun.example.org"),
            r#"{"urls":"stun:stun.example.org"}"#
        );
        assert_eq!(
            json("turn:me:a:b@c@192.0.2.1:3478?transport=tcp"),
            r#"{"urls":"turn:192.0.2.1:3478?transport=tcp","username":"me","credential":"a:b@c"}"#
        );
        assert!(json("turns:me:s@[2001:db8::1]:5349").contains("turns:[2001:db8::1]:5349"));
        let server: IceServer = "turn:me:hidden@relay".parse().unwrap();
        assert!(!format!("{server:?}").contains("hidden"));
    }

    #[test]
    fn the_host_queries_only_stun_over_udp() {
        let of = |text: &str| {
            let server: IceServer = text.parse().unwrap();
            server.stun().map(|(host, port)| format!("{host} {port}"))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of("stun:stun.example.org"), some("stun.example.org 3478"));
        assert_eq!(of("stun:192.0.2.1:80"), some("192.0.2.1 80"));
        assert_eq!(of("stun:[2001:db8::1]"), some("2001:db8::1 3478"));
        assert_eq!(of("stun:[2001:db8::1]:80"), some("2001:db8::1 80"));
        assert_eq!(of("stuns:stun.example.org"), None);
        assert_eq!(of("turn:me:secret@192.0.2.1"), None);
    }

    #[test]
    fn invalid_servers_are_refused() {
        for text in [
            "",
            "stun:",
            "relay:3478",
            "http://relay",
            "turn:relay",
            "turn:me@relay",
            "turn::s@relay",
            "turn:me:s@relay:0",
            "turn:me:s@relay:70000",
            "turn:me:s@relay?transport=sctp",
            "turn:me:s@re lay",
            "turn:me:s@[::1",
            "stun:[::1]x",
            "stun:me:s@relay",
        ] {
            assert_eq!(text.parse::<IceServer>(), Err(InvalidIceServer), "{text}");
        }
    }
}
