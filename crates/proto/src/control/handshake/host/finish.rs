//! Handles the client's last handshake message, Finish. In it, the client proves knowledge of the PIN or possession of
//! its key. The host then admits or refuses the client.

use zerocopy::IntoBytes;

use super::{
    Claim, DeviceStatus, HostHandshake, Paired, PairingEvent, Reaction, Refusal, Rejection, Stage,
};
use crate::control::handshake::layout::{Confirm, Finish, NOISE_3, Reason, name_from_bytes};
use crate::control::handshake::noise::{Keys, Noise, is_tagged, tag};
use crate::control::handshake::{Established, HALF_OPEN_TIMEOUT};
use crate::control::identity::{ClientId, PublicKey, sha256};
use crate::id::PathId;
use crate::time::Instant;

impl HostHandshake {
    /// Answers a Finish if its tag proves knowledge of the key in the Answer. A repeated Finish gets the same reply.
    pub(super) fn answer_finish(
        &mut self,
        now: Instant,
        from: PathId,
        datagram: &[u8],
        standing: &dyn Fn(&ClientId) -> DeviceStatus,
    ) -> Option<Reaction> {
        let finish = Finish::parse(datagram)?;
        let index = self.halves.iter().position(|half| {
            half.session == finish.head.session()
                && half.from == from
                && finish.head.pattern() == Some(half.pattern)
        })?;
        let half = &self.halves[index];
        // A tag under the Answer's key proves that the sender has read the Answer. A Finish from any other sender does
        // not count as a try.
        if !is_tagged(&half.key, datagram) {
            return None;
        }
        let digest = sha256(&[datagram]);
        if let Stage::Ended { finish, reply } = &half.stage {
            return (*finish == digest).then(|| Reaction {
                reply: Some(reply.clone()),
                established: None,
            });
        }
        let mut half = self.halves.remove(index)?;
        let ended = Stage::Ended {
            finish: digest,
            reply: Vec::new(),
        };
        let Stage::Answered(noise, claim) = std::mem::replace(&mut half.stage, ended) else {
            return None;
        };
        let outcome = match claim {
            Claim::Pin { window } => {
                self.finish_by_pin(now, from, window, noise, &finish, standing)
            }
            _ if finish.noise != [0; NOISE_3] => Err(Rejection::Silently),
            Claim::Key { id, key } => finish_by_key(self.standing(&id, standing), key, noise),
            Claim::Ticket(claim) => self.finish_by_ticket(from, *claim, noise, standing),
        };
        let (reply, established) = match outcome {
            Ok((keys, peer, paired)) => {
                let mut confirm = Confirm::new(half.session, half.pattern);
                confirm.tag = tag(&keys.confirm, confirm.as_bytes());
                let established = Established {
                    session: half.session,
                    secret: keys.secret,
                    peer,
                    version: half.version,
                };
                (
                    confirm.as_bytes().to_vec(),
                    Some((from, established, paired)),
                )
            }
            Err(Rejection::With(refusal)) => {
                let mut refused = self.refusal(half.session, half.nonce, &refusal);
                refused.tag = tag(&half.key, refused.as_bytes());
                (refused.as_bytes().to_vec(), None)
            }
            Err(Rejection::Silently) => return None,
        };
        half.stage = Stage::Ended {
            finish: digest,
            reply: reply.clone(),
        };
        half.expires = now + HALF_OPEN_TIMEOUT;
        self.halves.push_back(half);
        Some(Reaction {
            reply: Some(reply),
            established,
        })
    }

    fn finish_by_pin(
        &mut self,
        now: Instant,
        from: PathId,
        window: u64,
        mut noise: Noise,
        finish: &Finish,
        standing: &dyn Fn(&ClientId) -> DeviceStatus,
    ) -> Result<(Keys, PublicKey, Paired), Rejection> {
        // The window is checked again, so its limits and delays apply to concurrent exchanges as if the exchanges ran
        // one after the other.
        if self.admitting(now, from)?.serial != window {
            return Err(Refusal(Reason::PairingClosed, 0).into());
        }
        // From here on, a Finish with a wrong PIN or from a forbidden device uses up a try.
        let name = noise.read(&finish.noise);
        let (Some(name), Some(peer)) = (name, noise.peer()) else {
            self.count_wrong(now, from, |tries_left| PairingEvent::WrongPin {
                from,
                tries_left,
            });
            return Err(Refusal(Reason::PairingFailed, 0).into());
        };
        if let DeviceStatus::Forbidden(_) = standing(&ClientId::of(&peer)) {
            self.count_wrong(now, from, |tries_left| PairingEvent::ForbiddenTried {
                from,
                tries_left,
            });
            return Err(Refusal(Reason::Forbidden, 0).into());
        }
        let keys = noise.keys()?;
        self.window = None;
        let name = name_from_bytes(&name);
        Ok((keys, peer, Paired::New { name }))
    }

    /// Counts a failed try and emits its event. The last try closes the window.
    pub(super) fn count_wrong(
        &mut self,
        now: Instant,
        from: PathId,
        event: impl Fn(u32) -> PairingEvent,
    ) {
        let Some(window) = &mut self.window else {
            return;
        };
        self.events
            .push_back(event(window.count_wrong(now, from.network())));
        if window.is_used_up() {
            self.window = None;
            self.events.push_back(PairingEvent::TooManyWrong);
        }
    }
}

/// Checks whether the device is still allowed. The Finish's tag has been verified, and only the owner of `key` could
/// have made it.
fn finish_by_key(
    status: DeviceStatus,
    key: PublicKey,
    noise: Noise,
) -> Result<(Keys, PublicKey, Paired), Rejection> {
    match status {
        DeviceStatus::Allowed(now) if now == key => Ok((noise.keys()?, key, Paired::Known)),
        DeviceStatus::Forbidden(now) if now == key => Err(Refusal(Reason::Forbidden, 0).into()),
        _ => Err(Refusal(Reason::UnknownDevice, 0).into()),
    }
}
