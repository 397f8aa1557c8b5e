//! The lease of a portal session. The session continues while a player or observer is connected or the portal renews
//! the lease. A stop request of the portal ends the session.
//!
//! The lease itself does not end the session: the host polls [`Lease::ended`].

use std::sync::Mutex;
use std::time::{Duration, Instant};

use openuvr_proto::control::ticket::{
    Action, ControlToken, SessionUuid, SignedTicket, TicketKey, TokenRefused, UnixTime,
};
use openuvr_runtime::lock::lock;

/// The lease of one session. Thread-safe.
#[derive(Debug)]
pub struct Lease {
    key: TicketKey,
    session: SessionUuid,
    span: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    began: Instant,
    /// The last time at which a client was connected or the portal renewed the lease.
    kept: Instant,
    connected: usize,
    stopped: bool,
}

/// Status of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Its identifier.
    pub session: SessionUuid,
    /// Run time.
    pub age: Duration,
    /// Number of players and observers.
    pub connected: usize,
    /// Time until the session ends if no client is connected and the portal does not renew the lease.
    pub left: Duration,
    /// Whether the portal has requested the session's end.
    pub stopped: bool,
}

/// Why a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LeaseEnd {
    /// The portal stopped it.
    #[error("the portal stopped the session")]
    Stopped,
    /// There was no connection and no renewal by the portal for this time.
    #[error(
        "the session expired: for {} s, no client was connected and the portal did not renew the session",
        .0.as_secs()
    )]
    Expired(Duration),
}

impl Lease {
    /// A lease of `span` from `now` on, controlled by the owner of `key`.
    #[must_use]
    pub fn new(now: Instant, key: TicketKey, session: SessionUuid, span: Duration) -> Lease {
        let state = State {
            began: now,
            kept: now,
            connected: 0,
            stopped: false,
        };
        Lease {
            key,
            session,
            span,
            state: Mutex::new(state),
        }
    }

    /// Whether the text is a ticket that names this session. This check is cheap, and fails for the many clients that
    /// do not know the session's name. The host verifies the signature later.
    #[must_use]
    pub(crate) fn is_for(&self, ticket: &str) -> bool {
        (ticket.parse::<SignedTicket>()).is_ok_and(|ticket| ticket.names(self.session))
    }

    /// Sets the number of connected players and observers at `now`.
    pub fn connected(&self, now: Instant, clients: usize) {
        let mut state = lock(&self.state);
        if clients > 0 || state.connected > 0 {
            state.kept = now;
        }
        state.connected = clients;
    }

    /// Whether the session has ended at `now`, and why.
    #[must_use]
    pub fn ended(&self, now: Instant) -> Option<LeaseEnd> {
        let state = lock(&self.state);
        let idle = now.saturating_duration_since(state.kept);
        match state.stopped {
            true => Some(LeaseEnd::Stopped),
            false if state.connected == 0 && idle >= self.span => {
                Some(LeaseEnd::Expired(self.span))
            }
            false => None,
        }
    }

    /// Executes `action` if the portal's token permits it. Returns the resulting status.
    ///
    /// # Errors
    /// [`TokenRefused`] if the token does not permit the action. The lease is then unchanged.
    pub fn act(
        &self,
        now: Instant,
        time: UnixTime,
        token: &str,
        action: Action,
    ) -> Result<Status, TokenRefused> {
        ControlToken::verify(token, &self.key, self.session, action, time)?;
        let mut state = lock(&self.state);
        match action {
            Action::Status | Action::Connect => {}
            Action::Renew => state.kept = now,
            Action::Stop => state.stopped = true,
        }
        let idle = match state.connected {
            0 => now.saturating_duration_since(state.kept),
            _ => Duration::ZERO,
        };
        Ok(Status {
            session: self.session,
            age: now.saturating_duration_since(state.began),
            connected: state.connected,
            left: self.span.saturating_sub(idle),
            stopped: state.stopped,
        })
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::control::ticket::{Actions, TicketSigner};

    use super::*;

    const SESSION: SessionUuid = SessionUuid([4; 16]);
    const SPAN: Duration = Duration::from_secs(60);

    fn later(began: Instant, seconds: u64) -> Instant {
        began + Duration::from_secs(seconds)
    }

    #[test]
    fn an_unused_session_expires() {
        let signer = TicketSigner::from_seed(&[1; 32]).unwrap();
        let began = Instant::now();
        let lease = Lease::new(began, signer.public(), SESSION, SPAN);
        assert_eq!(lease.ended(later(began, 59)), None);
        assert_eq!(lease.ended(later(began, 60)), Some(LeaseEnd::Expired(SPAN)));
        // A client plays for a long time and disconnects.
        lease.connected(later(began, 50), 1);
        assert_eq!(lease.ended(later(began, 500)), None);
        lease.connected(later(began, 500), 0);
        assert_eq!(lease.ended(later(began, 559)), None);
        assert_eq!(
            lease.ended(later(began, 560)),
            Some(LeaseEnd::Expired(SPAN))
        );
    }

    #[test]
    fn the_portal_renews_it_and_stops_it() {
        let signer = TicketSigner::from_seed(&[1; 32]).unwrap();
        let began = Instant::now();
        let lease = Lease::new(began, signer.public(), SESSION, SPAN);
        let time = UnixTime(1_000_000);
        let token = |actions, session| {
            let token = ControlToken {
                session,
                actions,
                not_after: time,
                id: [0; 16],
            };
            token.sign(&signer)
        };
        let all = token(Actions::ALL, SESSION);
        let at = later(began, 40);
        let status = lease.act(at, time, &all, Action::Status).unwrap();
        assert_eq!(status.left, Duration::from_secs(20));
        let status = lease.act(at, time, &all, Action::Renew).unwrap();
        assert_eq!((status.left, status.connected), (SPAN, 0));
        assert_eq!(lease.ended(later(began, 90)), None);
        let less = token(Actions::of(&[Action::Status]), SESSION);
        let refused = lease.act(at, time, &less, Action::Stop);
        assert_eq!(refused, Err(TokenRefused::NotAllowed));
        let other = token(Actions::ALL, SessionUuid([5; 16]));
        let refused = lease.act(at, time, &other, Action::Stop);
        assert_eq!(refused, Err(TokenRefused::OtherSession));
        assert_eq!(lease.ended(at), None);
        assert!(lease.act(at, time, &all, Action::Stop).unwrap().stopped);
        assert_eq!(lease.ended(at), Some(LeaseEnd::Stopped));
    }
}
