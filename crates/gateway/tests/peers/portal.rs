//! A portal's signatures for its session.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use openuvr_gateway::lease::Lease;
use openuvr_proto::control::ticket::{
    Action, Actions, ControlToken, SessionUuid, Ticket, TicketSigner, UnixTime,
};

use super::support::TIMEOUT;

pub(super) struct Portal {
    pub(super) signer: TicketSigner,
    pub(super) session: SessionUuid,
}

impl Portal {
    pub(super) fn new() -> Portal {
        Portal {
            signer: TicketSigner::generate().unwrap(),
            session: SessionUuid::generate().unwrap(),
        }
    }

    pub(super) fn lease(&self) -> Lease {
        Lease::new(Instant::now(), self.signer.public(), self.session, TIMEOUT)
    }

    pub(super) fn in_a_minute() -> UnixTime {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        UnixTime(since_1970.as_secs()).plus(Duration::from_secs(60))
    }

    /// The value of a header with a token for these actions.
    pub(super) fn bearer(&self, actions: &[Action]) -> String {
        let token = ControlToken {
            session: self.session,
            actions: Actions::of(actions),
            not_after: Portal::in_a_minute(),
            id: Ticket::new_id().unwrap(),
        };
        format!("Bearer {}", token.sign(&self.signer))
    }
}
