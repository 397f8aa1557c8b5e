//! What the portal signs: tickets for people, and tokens with which it asks sessions itself.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt as _, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HOST};
use openuvr_proto::control::identity::NoRandomness;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{
    Action, Actions, ControlToken, Holder, MAX_OPEN_TICKET_LIFE, MAX_TICKET_LIFE, SessionUuid,
    Ticket, TicketSigner, UnixTime,
};
use tokio::time::timeout;

use super::figures::Figures;
use super::link::{self, Unreachable};
use crate::launch::{Endpoint, SessionId};
use crate::store::{Store, StoreError};

/// The name of the key in the database.
const KEY: &str = "tickets";

/// How long a token of the portal's own is good for: one request.
const TOKEN_LIFE: Duration = Duration::from_secs(60);

/// How long the body of an answer may take; a guess.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest answer that is read, in bytes: that of some hundred subscribers, of which a host has 64.
const MAX_RESPONSE: usize = 32 * 1024;

/// Why there is no signature, or no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random(#[from] NoRandomness),
    /// The database failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The key in the database is none.
    #[error("the key of tickets in the database is damaged: restore the database")]
    Key,
    /// The session can't be reached.
    #[error("{0}")]
    Connection(#[from] Unreachable),
    /// It says no.
    #[error("it answers {0}")]
    Refused(hyper::StatusCode),
}

/// The portal's key.
pub(crate) struct Tickets {
    signer: TicketSigner,
}

impl Tickets {
    /// The key that the database keeps, or a new one.
    pub(crate) async fn open(store: &Store) -> Result<Tickets, ControlError> {
        let new = hex(TicketSigner::generate()?.seed().as_slice());
        let kept = store.key(KEY, &new).await?;
        let seed = unhex(&kept).ok_or(ControlError::Key)?;
        let signer = TicketSigner::from_seed(&seed).ok_or(ControlError::Key)?;
        Ok(Tickets { signer })
    }

    /// The half that sessions are told.
    pub(crate) fn public(&self) -> String {
        self.signer.public().to_string()
    }

    /// A ticket for this holder, as text, and until when it must be shown.
    pub(crate) fn ticket(
        &self,
        session: SessionId,
        role: Role,
        holder: Holder,
    ) -> Result<(String, u64), ControlError> {
        // Half of what a host takes, so that clocks may differ.
        let life = match holder {
            Holder::FirstToCome => MAX_OPEN_TICKET_LIFE,
            Holder::Key(_) => MAX_TICKET_LIFE,
        };
        let not_after = now().plus(life / 2);
        let ticket = Ticket {
            session: SessionUuid(session.bytes()),
            role,
            holder,
            not_after,
            id: Ticket::new_id()?,
        };
        Ok((ticket.sign(&self.signer).to_string(), not_after.0))
    }

    /// Keeps a session alive; what it says of its subscribers, if it says that.
    pub(crate) async fn renew(
        &self,
        session: SessionId,
        at: &Endpoint,
    ) -> Result<Option<Figures>, ControlError> {
        let token = self.token(session, &[Action::Status, Action::Renew])?;
        let request = Request::post("/session/renew")
            .header(HOST, "session")
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .body(String::new())
            .map_err(Unreachable::because)?;
        let answer = link::request(session, at, request).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(ControlError::Refused(status));
        }
        // One that is too long, breaks off or does not end tells nothing: what was asked for is done.
        let body = Limited::new(answer.into_body(), MAX_RESPONSE).collect();
        let body = match timeout(TIMEOUT, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => Bytes::new(),
        };
        Ok(Figures::read(Instant::now(), &body))
    }

    /// A token with which the portal asks a session for these.
    pub(super) fn token(
        &self,
        session: SessionId,
        actions: &[Action],
    ) -> Result<String, ControlError> {
        let token = ControlToken {
            session: SessionUuid(session.bytes()),
            actions: Actions::of(actions),
            not_after: now().plus(TOKEN_LIFE),
            id: Ticket::new_id()?,
        };
        Ok(token.sign(&self.signer).to_string())
    }
}

fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime(since.unwrap_or_default().as_secs())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
