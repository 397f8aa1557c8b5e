//! The link by which a portal sends a person's client to a session: `openuvr://HOST:PORT/?key=KEY&ticket=TICKET`.
//!
//! Anybody can write a link into a page, so that it says where to connect and nothing else: no file, no command,
//! no setting of the client.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::control::ticket::SignedTicket;

use super::config::PortalWord;
use super::target::Target;

/// With which a link begins.
pub const SCHEME: &str = "openuvr://";

/// Characters of a link at most; a ticket has 187, a key 43, a name of a host 253 (RFC 1035, section 2.3.4).
const LONGEST: usize = 1024;

/// What a link says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortalLink {
    /// Where the session is.
    pub target: Target,
    /// What its host is to show and to be shown.
    pub word: PortalWord,
}

/// It is no link of a portal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a portal's link is openuvr://HOST:PORT/?key=…&ticket=…: copy all of it")]
pub struct BadLink;

/// The text of a key in a link and in what a session says of itself: base64url without padding.
#[must_use]
pub fn key_text(key: &PublicKey) -> String {
    URL_SAFE_NO_PAD.encode(key.0)
}

/// The key of such a text; `None` too for a key that proves nothing.
#[must_use]
pub fn key_of(text: &str) -> Option<PublicKey> {
    let bytes = (text.len() <= 64).then(|| URL_SAFE_NO_PAD.decode(text).ok());
    let key = PublicKey(bytes??.try_into().ok()?);
    (!key.is_weak()).then_some(key)
}

impl fmt::Display for PortalLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PortalWord { host, ticket } = &self.word;
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
    if text.len() > LONGEST {
        return None;
    }
    let rest = text.strip_prefix(SCHEME)?;
    let (authority, query) = rest.split_once('?')?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    // Of what a program registered for the scheme gets, an Ethernet address is no part.
    let target: Target = authority
        .parse()
        .ok()
        .filter(|_| !authority.contains('/'))?;
    let (mut key, mut ticket) = (None, None);
    for pair in query.split('&') {
        // What a later portal says besides is passed over.
        match pair.split_once('=') {
            Some(("key", text)) => key = Some(key_of(text)?),
            Some(("ticket", text)) => ticket = Some(text.parse::<SignedTicket>().ok()?),
            _ => {}
        }
    }
    Some(PortalLink {
        target,
        word: PortalWord {
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
            holder: Holder::FirstToCome,
            not_after: UnixTime(7),
            id: [2; 16],
        };
        PortalLink {
            target: "[::1]:4710".parse().unwrap(),
            word: PortalWord {
                host: Identity::from_bytes([3; 32]).public(),
                ticket: ticket.sign(&TicketSigner::from_seed(&[4; 32]).unwrap()),
            },
        }
    }

    #[test]
    fn a_link_is_read_as_it_was_written() {
        let text = link().to_string();
        assert!(text.starts_with("openuvr://[::1]:4710/?key="));
        assert_eq!(text.parse(), Ok(link()));
        assert_eq!(format!("{text}&later=1").parse(), Ok(link()));
    }

    #[test]
    fn what_is_no_link_is_refused() {
        let text = link().to_string();
        let weak = key_text(&PublicKey([0; 32]));
        let query = text.split_once('?').unwrap().1;
        for bad in [
            String::new(),
            "openuvr://".to_owned(),
            text.replace("openuvr", "http"),
            text.replace("&ticket=", "&other="),
            text.replace("?key=", "?key=A"),
            text.replace(&key_text(&link().word.host), &weak),
            format!("openuvr://-evil/?{query}"),
            format!("openuvr://a/b/?{query}"),
            format!("openuvr://user@host/?{query}"),
            format!("openuvr://eth0/52:54:00:12:34:56/?{query}"),
            format!("{text}{}", "&".repeat(LONGEST)),
        ] {
            assert_eq!(bad.parse::<PortalLink>(), Err(BadLink), "{bad}");
        }
    }
}
