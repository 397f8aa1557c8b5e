//! The table `[turn]` of the configuration: STUN and TURN servers for browsers, with credentials for a day.
//!
//! Browsers never get the secret. A browser gets a user name that contains the expiry. The password is the MAC of this
//! user name, as with coturn's `use-auth-secret` (draft-uberti-behave-turn-rest-00).

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Lifetime of the credentials in seconds: a day, as section 2.2 of the draft recommends.
const LIFETIME: u64 = 86_400;

/// Maximum length of a server's URI in characters. It allows for the longest host name (RFC 1035), scheme, port and
/// query.
const MAX_LENGTH: usize = 300;

/// The table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TurnSection {
    /// URIs of servers: `stun:HOST[:PORT]`, `turn:HOST[:PORT][?transport=tcp]`, `turns:…` (RFC 7064, RFC 7065).
    pub(crate) servers: Vec<String>,
    /// File with the secret that the portal shares with the relay.
    #[serde(default)]
    pub(crate) secret_file: Option<PathBuf>,
}

/// The servers, and the secret.
pub(crate) struct Turn {
    servers: Vec<String>,
    secret: Option<hmac::Key>,
}

/// ICE servers, with the fields of an `RTCIceServer` in `RTCPeerConnection`'s configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct IceServer {
    urls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<String>,
}

/// Why the table is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnError {
    /// Invalid server.
    #[error(
        "turn.servers: {0:?} is not a server: use stun:HOST[:PORT] or turn:HOST[:PORT][?transport=tcp], with the secret in turn.secret_file"
    )]
    Server(String),
    /// The table has a relay, but no secret.
    #[error("turn.servers has a relay: set turn.secret_file to the file with its secret")]
    NoSecret,
    /// The secret file cannot be read, or is empty.
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
}

impl Turn {
    /// The servers of the table; no servers without a table.
    ///
    /// # Errors
    /// Returns a one-line description of the table's problem.
    pub(crate) fn open(section: Option<&TurnSection>) -> Result<Turn, TurnError> {
        let Some(section) = section else {
            return Ok(Turn {
                servers: Vec::new(),
                secret: None,
            });
        };
        if let Some(wrong) = section.servers.iter().find(|of| !is_server(of)) {
            return Err(TurnError::Server(wrong.clone()));
        }
        let secret = section.secret_file.as_deref().map(secret).transpose()?;
        if secret.is_none() && section.servers.iter().any(|of| is_relay(of)) {
            return Err(TurnError::NoSecret);
        }
        Ok(Turn {
            servers: section.servers.clone(),
            secret,
        })
    }

    /// The servers, with credentials for a browser that plays this session.
    pub(crate) fn servers(&self, session: &str) -> Vec<IceServer> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        self.servers_at(since.unwrap_or_default().as_secs(), session)
    }

    fn servers_at(&self, now: u64, session: &str) -> Vec<IceServer> {
        let (relays, others): (Vec<String>, Vec<String>) =
            self.servers.iter().cloned().partition(|of| is_relay(of));
        let username = format!("{}:{session}", now.saturating_add(LIFETIME));
        let credential = self.secret.as_ref().map(|secret| {
            let tag = hmac::sign(secret, username.as_bytes());
            BASE64_STANDARD.encode(tag.as_ref())
        });
        let free = IceServer {
            urls: others,
            username: None,
            credential: None,
        };
        let paid = IceServer {
            urls: relays,
            username: Some(username),
            credential,
        };
        let mut all = vec![free, paid];
        all.retain(|of| !of.urls.is_empty());
        all
    }
}

fn secret(file: &Path) -> Result<hmac::Key, TurnError> {
    let wrong = |why: String| TurnError::File {
        path: file.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(file).map_err(|why| wrong(why.to_string()))?;
    let text = text.trim();
    match text.is_empty() {
        false => Ok(hmac::Key::new(
            // The relay computes this MAC with HMAC-SHA1, like the attribute MESSAGE-INTEGRITY of STUN (RFC 8489,
            // section 14.5).
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            text.as_bytes(),
        )),
        true => Err(wrong(
            "the file is empty: it must contain the relay's secret".to_owned(),
        )),
    }
}

fn is_relay(server: &str) -> bool {
    server.starts_with("turn")
}

fn is_server(text: &str) -> bool {
    let Some((scheme, place)) = text.split_once(':') else {
        return false;
    };
    let (address, query) = match place.split_once('?') {
        Some((address, query)) => (address, Some(query)),
        None => (place, None),
    };
    let fits = match scheme {
        "stun" | "stuns" => query.is_none(),
        "turn" | "turns" => matches!(query, None | Some("transport=udp" | "transport=tcp")),
        _ => false,
    };
    let known = |c: char| c.is_ascii_alphanumeric() || "[]:.-".contains(c);
    fits && text.len() <= MAX_LENGTH && !address.is_empty() && address.chars().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(servers: &[&str], secret: Option<&Path>) -> TurnSection {
        TurnSection {
            servers: servers.iter().map(|of| (*of).to_owned()).collect(),
            secret_file: secret.map(Path::to_owned),
        }
    }

    #[test]
    fn credentials_have_an_expiry_and_a_mac() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "north\n").unwrap();
        let servers = [
            "stun:a.example",
            "turn:b.example:3478?transport=tcp",
            "turns:[::1]:1",
        ];
        let turn = Turn::open(Some(&section(&servers, Some(&file)))).unwrap();
        let told = turn.servers_at(1_000_000, "s");
        assert_eq!(told[0].urls, ["stun:a.example"]);
        assert_eq!(told[0].credential, None);
        assert_eq!(told[1].urls, servers[1..]);
        assert_eq!(told[1].username.as_deref(), Some("1086400:s"));
        // The expected value is the output of: printf 1086400:s | openssl dgst -sha1 -hmac north -binary | base64
        assert_eq!(
            told[1].credential.as_deref(),
            Some("kvfqmynyZLYq9KFlLJzMaKJGkDc=")
        );
        let none = Turn::open(None).unwrap();
        assert_eq!(none.servers_at(0, "s"), []);
    }

    #[test]
    fn invalid_servers_are_refused() {
        for wrong in [
            "",
            "turn:",
            "turn:me:secret@relay",
            "http://relay",
            "stun:a?transport=tcp",
            "turn:a?transport=sctp",
            "turn:a b",
        ] {
            let refused = Turn::open(Some(&section(&[wrong], None)));
            assert!(matches!(refused, Err(TurnError::Server(_))), "{wrong}");
        }
        let refused = Turn::open(Some(&section(&["turn:relay"], None)));
        assert!(matches!(refused, Err(TurnError::NoSecret)));
        let nowhere = section(&["turn:relay"], Some(Path::new("/nonexistent")));
        assert!(matches!(
            Turn::open(Some(&nowhere)),
            Err(TurnError::File { .. })
        ));
        Turn::open(Some(&section(&["stun:a"], None))).unwrap();
    }
}
