//! What a portal shows to a session when it asks how it does, keeps it alive, or stops it.
//!
//! ```text
//!  0         1      2         3      4         20   36          44          108
//!  | version | kind | actions | zero | session | id | not after | signature |
//!  | 1       | 2    | bits    |      | UUID    |    | u64, s    | Ed25519   |
//! ```
//! Unlike a ticket it may be shown again until its time is over: status, renewal and stop may be done twice with the
//! effect of once, a connection also needs a ticket, and it travels under TLS or through a Unix socket alone.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::key::{SIGNATURE, TicketKey, TicketSigner};
use super::{CLOCK_SKEW, SessionUuid, TICKET_VERSION, UnixTime, from_text};

/// How long a token may live, from when it is shown.
pub const MAX_TOKEN_LIFE: Duration = Duration::from_secs(3600);

/// Bytes of a token.
const TOKEN: usize = 108;

/// What its bytes are signed behind.
const PURPOSE: &[u8] = b"openuvr control token";

/// The kind of a control token, in its second byte.
const KIND: u8 = 2;

/// What a portal may ask of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// How it does.
    Status,
    /// To live longer.
    Renew,
    /// To end.
    Stop,
    /// To take a browser's connection that the portal carries.
    Connect,
}

/// Some of the [`Action`]s.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Actions(u8);

impl Actions {
    /// Every one.
    pub const ALL: Actions = Actions(0b1111);

    /// These.
    #[must_use]
    pub fn of(actions: &[Action]) -> Actions {
        Actions(actions.iter().fold(0, |bits, action| bits | bit(*action)))
    }

    /// Whether this one is among them.
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

/// Leave to do something with a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ControlToken {
    /// With which.
    pub session: SessionUuid,
    /// What.
    pub actions: Actions,
    /// The last second in which it may be shown.
    pub not_after: UnixTime,
    /// Its own id, random, for the portal's log.
    pub id: [u8; 16],
}

impl ControlToken {
    /// The token's text, signed: what stands behind `Bearer` (RFC 6750, section 2.1).
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

    /// The token of this text, if it is by the owner of `key`, for this `session`, and lets one do this
    /// `action` at `now`.
    ///
    /// # Errors
    /// [`TokenRefused`]
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

/// Why a token lets nobody do anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenRefused {
    /// It is no token of this version.
    #[error("that is not a control token")]
    Malformed,
    /// Its signature is not the portal's.
    #[error("the control token is not signed by the portal of this session")]
    Forged,
    /// It is for another session.
    #[error("the control token is for another session")]
    OtherSession,
    /// Its time is over, or has not come.
    #[error("the control token has expired, or the clocks of portal and host differ")]
    Expired,
    /// It is for other actions.
    #[error("the control token does not allow this")]
    NotAllowed,
}
