//! The link with which a portal starts a client and its session: `openuvr://HOST:PORT/?key=KEY&ticket=TICKET`.
//!
//! Any web page can contain a link, so a link contains only the host's address, the host's key and a ticket. It cannot
//! set a file, a command or a client setting.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::control::ticket::SignedTicket;

use super::config::PortalCredentials;
use super::target::Target;

/// The scheme of a link.
pub const SCHEME: &str = "openuvr://";

/// The maximum length of a link in characters. A ticket has 187 characters, a key 43, and a host name at most 253 (RFC
/// 1035, section 2.3.4).
const MAX_LEN: usize = 1024;

/// A parsed link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortalLink {
    /// The session's address.
    pub target: Target,
    /// The host's key and the ticket to present.
    pub credentials: PortalCredentials,
}

/// The error for a text that is not a portal link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a portal link (openuvr://HOST:PORT/?key=…&ticket=…): copy the whole link")]
pub struct BadLink;

/// The text form of a key, in links and in session announcements: base64url without padding.
#[must_use]
pub fn key_text(key: &PublicKey) -> String {
    URL_SAFE_NO_PAD.encode(key.0)
}

/// Parses the text of [`key_text`]; `None` if it is invalid or the key is weak.
#[must_use]
pub fn key_of(text: &str) -> Option<PublicKey> {
    let bytes = (text.len() <= 64).then(|| URL_SAFE_NO_PAD.decode(text).ok());
    let key = PublicKey(bytes??.try_into().ok()?);
    (!key.is_weak()).then_some(key)
}

impl fmt::Display for PortalLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PortalCredentials { host, ticket } = &self.credentials;
        let key = key_text(host);
        write!(f, "{SCHEME}{}/?key={key}&ticket={ticket}", self.target)
    }
}

impl FromStr for PortalLink {
    type Err = BadLink;

    fn from_str(text: &str) -> Result<PortalLink, BadLink> {
        parse(text).ok_or(BadLink)
    }
}

fn parse(text: &str) -> Option<PortalLink> {
    if text.len() > MAX_LEN {
        return None;
    }
    let rest = text.strip_prefix(SCHEME)?;
    let (authority, query) = rest.split_once('?')?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    // A link must not contain an Ethernet address.
    let target: Target = authority
        .parse()
        .ok()
        .filter(|_| !authority.contains('/'))?;
    let (mut key, mut ticket) = (None, None);
    for pair in query.split('&') {
        // Ignore unknown parameters, which newer portals may add.
        match pair.split_once('=') {
            Some(("key", text)) => key = Some(key_of(text)?),
            Some(("ticket", text)) => ticket = Some(text.parse::<SignedTicket>().ok()?),
            _ => {}
        }
    }
    Some(PortalLink {
        target,
        credentials: PortalCredentials {
            host: key?,
            ticket: ticket?,
        },
    })
}

#[cfg(test)]
mod tests {
    use openuvr_proto::control::identity::Identity;
    use openuvr_proto::control::negotiate::Role;
    use openuvr_proto::control::ticket::{Holder, SessionUuid, Ticket, TicketSigner, UnixTime};

    use super::*;

    fn link() -> PortalLink {
        let ticket = Ticket {
            session: SessionUuid([1; 16]),
            role: Role::Player,
            holder: Holder::FirstUse,
            not_after: UnixTime(7),
            id: [2; 16],
        };
        PortalLink {
            target: "[::1]:4710".parse().unwrap(),
            credentials: PortalCredentials {
                host: Identity::from_bytes([3; 32]).public(),
                ticket: ticket.sign(&TicketSigner::from_seed(&[4; 32]).unwrap()),
            },
        }
    }

    #[test]
    fn a_link_survives_a_round_trip() {
        let text = link().to_string();
        assert!(text.starts_with("openuvr://[::1]:4710/?key="));
        assert_eq!(text.parse(), Ok(link()));
        assert_eq!(format!("{text}&later=1").parse(), Ok(link()));
    }

    #[test]
    fn a_malformed_link_is_refused() {
        let text = link().to_string();
        let weak = key_text(&PublicKey([0; 32]));
        let query = text.split_once('?').unwrap().1;
        for bad in [
            String::new(),
            "openuvr://".to_owned(),
            text.replace("openuvr", "http"),
            text.replace("&ticket=", "&other="),
            text.replace("?key=", "?key=A"),
            text.replace(&key_text(&link().credentials.host), &weak),
            format!("openuvr://-evil/?{query}"),
            format!("openuvr://a/b/?{query}"),
            format!("openuvr://user@host/?{query}"),
            format!("openuvr://eth0/52:54:00:12:34:56/?{query}"),
            format!("{text}{}", "&".repeat(MAX_LEN)),
        ] {
            assert_eq!(bad.parse::<PortalLink>(), Err(BadLink), "{bad}");
        }
    }
}
