//! A test portal: signs tickets and tokens.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{
    Actions, ControlToken, Holder, KeyHash, MAX_OPEN_TICKET_LIFE, SessionUuid, Ticket, TicketKey,
    TicketSigner, UnixTime,
};
use openuvr_runtime::client::config::PortalCredentials;
use openuvr_runtime::client::link::PortalLink;

/// A portal's key and one session.
pub(crate) struct Portal {
    pub(crate) signer: TicketSigner,
    pub(crate) session: SessionUuid,
}

impl Portal {
    pub(crate) fn new() -> Portal {
        Portal {
            signer: TicketSigner::generate().expect("randomness"),
            session: SessionUuid::generate().expect("randomness"),
        }
    }

    pub(crate) fn key(&self) -> TicketKey {
        self.signer.public()
    }

    /// The command-line arguments that pass the key and the session to a host.
    pub(crate) fn args(&self) -> [String; 2] {
        [
            format!("--ticket-key={}", self.key()),
            format!("--ticket-session={}", self.session),
        ]
    }

    /// A ticket that is valid for the longest time permitted for a ticket without a key: a test may use the ticket only
    /// after starting several programs. If no key is given, the ticket belongs to the first device that uses it.
    pub(crate) fn ticket(&self, role: Role, holder: Option<&PublicKey>) -> Ticket {
        Ticket {
            session: self.session,
            role,
            holder: holder.map_or(Holder::FirstUse, |key| Holder::Key(KeyHash::of(key))),
            not_after: now().plus(MAX_OPEN_TICKET_LIFE),
            id: Ticket::new_id().expect("randomness"),
        }
    }

    /// A link with this ticket to the host that has this address and key.
    pub(crate) fn link(&self, address: &str, host: PublicKey, ticket: &Ticket) -> String {
        let link = PortalLink {
            target: address.parse().expect("an address"),
            credentials: PortalCredentials {
                host,
                ticket: ticket.sign(&self.signer),
            },
        };
        link.to_string()
    }

    /// The bearer token.
    pub(crate) fn token(&self, actions: Actions) -> String {
        let token = ControlToken {
            session: self.session,
            actions,
            not_after: now().plus(Duration::from_secs(60)),
            id: Ticket::new_id().expect("randomness"),
        };
        token.sign(&self.signer)
    }
}

pub(crate) fn now() -> UnixTime {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime(since_1970.expect("after 1970").as_secs())
}
