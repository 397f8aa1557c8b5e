//! Data that the portal signs: tickets for clients, and tokens for the portal's own requests to sessions.

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

/// Name of the signing key in the database.
const KEY: &str = "tickets";

/// Lifetime of a token for one request of the portal.
const TOKEN_LIFE: Duration = Duration::from_secs(60);

/// Timeout for the body of a response; a guess.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of a response in bytes. It is enough for about a hundred subscribers; a host has at most 64
/// observers.
const MAX_RESPONSE: usize = 32 * 1024;

/// Why signing or a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// The system provides no random numbers.
    #[error("the system provides no random numbers")]
    Random(#[from] NoRandomness),
    /// The database failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The key in the database is invalid.
    #[error("the ticket key in the database is damaged: restore a backup of the database")]
    Key,
    /// The session is unreachable.
    #[error("{0}")]
    Connection(#[from] Unreachable),
    /// The session refused the request.
    #[error("unexpected HTTP status {0}")]
    Refused(hyper::StatusCode),
}

/// The portal's signing key.
pub(crate) struct Tickets {
    signer: TicketSigner,
}

impl Tickets {
    /// Loads the signing key from the database, or creates one.
    pub(crate) async fn open(store: &Store) -> Result<Tickets, ControlError> {
        let new = hex(TicketSigner::generate()?.seed().as_slice());
        let kept = store.key(KEY, &new).await?;
        let seed = unhex(&kept).ok_or(ControlError::Key)?;
        let signer = TicketSigner::from_seed(&seed).ok_or(ControlError::Key)?;
        Ok(Tickets { signer })
    }

    /// The public key. Sessions verify signatures with it.
    pub(crate) fn public(&self) -> String {
        self.signer.public().to_string()
    }

    /// Creates a ticket for this holder. Returns its text and its expiry.
    pub(crate) fn ticket(
        &self,
        session: SessionId,
        role: Role,
        holder: Holder,
    ) -> Result<(String, u64), ControlError> {
        // Tickets have half the maximum lifetime that hosts accept, so that hosts accept them even if the clocks of
        // portal and host differ.
        let life = match holder {
            Holder::FirstUse => MAX_OPEN_TICKET_LIFE,
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

    /// Renews a session's lease. Returns the session's subscriber statistics; `None` if the response contains no valid
    /// statistics.
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
        // If the body is too long, incomplete or endless, there are no statistics, but the renewal itself has
        // succeeded.
        let body = Limited::new(answer.into_body(), MAX_RESPONSE).collect();
        let body = match timeout(TIMEOUT, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => Bytes::new(),
        };
        Ok(Figures::read(Instant::now(), &body))
    }

    /// Creates a token that permits the portal these actions.
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
