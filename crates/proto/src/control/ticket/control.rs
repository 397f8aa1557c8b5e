//! Control tokens: a portal's permission to query, renew or stop a session.
//!
//! ```text
//!  0         1      2         3      4         20   36          44          108
//!  | version | kind | actions | zero | session | id | not after | signature |
//!  | 1       | 2    | bits    |      | UUID    |    | u64, s    | Ed25519   |
//! ```
//! Unlike a ticket, a token may be reused until it expires. Reuse is harmless: status, renewal and stop are idempotent,
//! a connection additionally needs a ticket, and the token travels only under TLS or through a Unix socket.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::key::{SIGNATURE, TicketKey, TicketSigner};
use super::{CLOCK_SKEW, SessionUuid, TICKET_VERSION, UnixTime, from_text};

/// Maximum remaining lifetime of a token when it is presented.
pub const MAX_TOKEN_LIFE: Duration = Duration::from_secs(3600);

/// Bytes of a token.
const TOKEN: usize = 108;

/// Domain separation prefix of the signature.
const PURPOSE: &[u8] = b"openuvr control token";

/// The kind of a control token, in its second byte.
const KIND: u8 = 2;

/// A portal's request to a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Query the status.
    Status,
    /// Extend the lifetime.
    Renew,
    /// Stop the session.
    Stop,
    /// Accept a browser's connection that the portal proxies.
    Connect,
}

/// A set of [`Action`]s.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Actions(u8);

impl Actions {
    /// All actions.
    pub const ALL: Actions = Actions(0b1111);

    /// The set of these actions.
    #[must_use]
    pub fn of(actions: &[Action]) -> Actions {
        Actions(actions.iter().fold(0, |bits, action| bits | bit(*action)))
    }

    /// Whether the set contains this action.
    #[must_use]
    pub fn contains(self, action: Action) -> bool {
        self.0 & bit(action) != 0
    }
}

fn bit(action: Action) -> u8 {
    match action {
        Action::Status => 1,
        Action::Renew => 2,
        Action::Stop => 4,
        Action::Connect => 8,
    }
}

/// Permission to control a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ControlToken {
    /// The session.
    pub session: SessionUuid,
    /// The permitted actions.
    pub actions: Actions,
    /// The last second of its validity.
    pub not_after: UnixTime,
    /// A random id for the portal's log.
    pub id: [u8; 16],
}

impl ControlToken {
    /// The signed text, used after `Bearer` (RFC 6750, section 2.1).
    #[must_use]
    pub fn sign(&self, signer: &TicketSigner) -> String {
        let mut bytes = [0; TOKEN];
        bytes[..4].copy_from_slice(&[TICKET_VERSION, KIND, self.actions.0, 0]);
        bytes[4..20].copy_from_slice(&self.session.0);
        bytes[20..36].copy_from_slice(&self.id);
        bytes[36..44].copy_from_slice(&self.not_after.0.to_le_bytes());
        let (body, signature) = bytes.split_at_mut(TOKEN - SIGNATURE);
        signature.copy_from_slice(&signer.sign(PURPOSE, body));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The token in this text, if the owner of `key` signed it and it permits `action` on `session` at `now`.
    ///
    /// # Errors
    /// [`TokenRefused`] if any of these conditions is not met.
    pub fn verify(
        text: &str,
        key: &TicketKey,
        session: SessionUuid,
        action: Action,
        now: UnixTime,
    ) -> Result<ControlToken, TokenRefused> {
        let bytes = from_text(text).ok_or(TokenRefused::Malformed)?;
        let bytes: [u8; TOKEN] = bytes.try_into().map_err(|_| TokenRefused::Malformed)?;
        let (body, signature) = bytes.split_at(TOKEN - SIGNATURE);
        let token = ControlToken::parse(body).ok_or(TokenRefused::Malformed)?;
        if !key.verifies(PURPOSE, body, signature) {
            return Err(TokenRefused::Forged);
        }
        if token.session != session {
            return Err(TokenRefused::OtherSession);
        }
        let latest = now.plus(MAX_TOKEN_LIFE).plus(CLOCK_SKEW);
        if now > token.not_after.plus(CLOCK_SKEW) || token.not_after > latest {
            return Err(TokenRefused::Expired);
        }
        match token.actions.contains(action) {
            true => Ok(token),
            false => Err(TokenRefused::NotAllowed),
        }
    }

    fn parse(body: &[u8]) -> Option<ControlToken> {
        let (head, rest) = body.split_first_chunk::<4>()?;
        let (session, rest) = rest.split_first_chunk()?;
        let (id, not_after) = rest.split_first_chunk()?;
        let not_after = u64::from_le_bytes(not_after.try_into().ok()?);
        let known = head[0] == TICKET_VERSION && head[1] == KIND && head[3] == 0;
        (known && head[2] & !Actions::ALL.0 == 0).then_some(ControlToken {
            session: SessionUuid(*session),
            actions: Actions(head[2]),
            not_after: UnixTime(not_after),
            id: *id,
        })
    }
}

/// Why a token is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenRefused {
    /// Not a token of this version.
    #[error("that is not a control token")]
    Malformed,
    /// Its signature is not the portal's.
    #[error("the control token is not signed by the portal of this session")]
    Forged,
    /// It is for another session.
    #[error("the control token is for another session")]
    OtherSession,
    /// It has expired, or its remaining lifetime exceeds [`MAX_TOKEN_LIFE`] (both with a tolerance of [`CLOCK_SKEW`]).
    #[error("the control token has expired, or the clocks of portal and host differ")]
    Expired,
    /// It does not permit the action.
    #[error("the control token does not allow this")]
    NotAllowed,
}
