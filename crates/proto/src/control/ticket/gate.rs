//! The host's verification of tickets: redeemed tickets and admitted devices.

use std::collections::VecDeque;

use super::{
    CLOCK_SKEW, Holder, KeyHash, MAX_OPEN_TICKET_LIFE, MAX_TICKET_LIFE, SessionUuid, SignedTicket,
    TicketKey, TicketRefused, UnixTime,
};
use crate::control::identity::{ClientId, PublicKey};
use crate::control::negotiate::Role;

/// Maximum number of remembered redeemed tickets, 56 bytes each. A ticket is remembered until it would be rejected as
/// expired.
pub const MAX_USED: usize = 4096;

/// Maximum number of devices admitted by tickets while the host runs, 33 bytes each.
pub const MAX_ADMITTED: usize = 1024;

/// Redeems the tickets of one portal for one session.
#[derive(Debug)]
pub struct TicketGate {
    key: TicketKey,
    session: SessionUuid,
    /// The redeemed tickets; at most [`MAX_USED`].
    used: VecDeque<Used>,
    /// The admitted devices; at most [`MAX_ADMITTED`].
    admitted: Vec<(PublicKey, Role)>,
}

#[derive(Debug)]
struct Used {
    id: [u8; 16],
    by: KeyHash,
    /// The ticket is rejected as expired after this time.
    until: UnixTime,
}

impl TicketGate {
    /// A gate for tickets of `session` signed by the owner of `key`.
    #[must_use]
    pub fn new(key: TicketKey, session: SessionUuid) -> TicketGate {
        TicketGate {
            key,
            session,
            used: VecDeque::new(),
            admitted: Vec::new(),
        }
    }

    /// The portal's key.
    #[must_use]
    pub fn key(&self) -> TicketKey {
        self.key
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> SessionUuid {
        self.session
    }

    /// Redeems `ticket` for the device that has proved possession of the key `device`, and returns the highest role.
    /// From then on, the device is [admitted](TicketGate::admitted). The same device may present its ticket again,
    /// because the reply may be lost; no other device may.
    ///
    /// # Errors
    /// [`TicketRefused`] if the ticket is rejected. In that case, nothing changes.
    pub fn redeem(
        &mut self,
        now: UnixTime,
        ticket: &SignedTicket,
        device: &PublicKey,
    ) -> Result<Role, TicketRefused> {
        let ticket = ticket.verify(&self.key)?;
        if ticket.session != self.session {
            return Err(TicketRefused::OtherSession);
        }
        let until = ticket.not_after.plus(CLOCK_SKEW);
        if now > until {
            return Err(TicketRefused::Expired);
        }
        let by = KeyHash::of(device);
        let life = match ticket.holder {
            Holder::Key(hash) if hash != by => return Err(TicketRefused::OtherKey),
            Holder::Key(_) => MAX_TICKET_LIFE,
            Holder::FirstUse => MAX_OPEN_TICKET_LIFE,
        };
        if ticket.not_after > now.plus(life).plus(CLOCK_SKEW) {
            return Err(TicketRefused::TooLong);
        }
        self.used.retain(|used| now <= used.until);
        match self.used.iter().find(|used| used.id == ticket.id) {
            Some(used) if used.by != by => return Err(TicketRefused::Used),
            Some(_) => {}
            None if self.used.len() == MAX_USED => return Err(TicketRefused::Full),
            None => {}
        }
        self.admit(device, ticket.role)?;
        if !self.used.iter().any(|used| used.id == ticket.id) {
            self.used.push_back(Used {
                id: ticket.id,
                by,
                until,
            });
        }
        Ok(ticket.role)
    }

    /// The highest role of the device with this key, if a ticket admitted it.
    #[must_use]
    pub fn admitted(&self, device: &PublicKey) -> Option<Role> {
        let found = self.admitted.iter().find(|(key, _)| key == device);
        found.map(|(_, role)| *role)
    }

    /// The key of the device with this client id, if a ticket admitted it.
    #[must_use]
    pub fn admitted_key(&self, client: &ClientId) -> Option<PublicKey> {
        let found = self.admitted.iter().map(|(key, _)| key);
        found.copied().find(|key| ClientId::of(key) == *client)
    }

    /// The number of remembered tickets.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.used.len()
    }

    /// Admits a device. A newer ticket replaces its role.
    fn admit(&mut self, device: &PublicKey, role: Role) -> Result<(), TicketRefused> {
        if let Some(known) = self.admitted.iter_mut().find(|(key, _)| key == device) {
            known.1 = role;
            return Ok(());
        }
        if self.admitted.len() == MAX_ADMITTED {
            return Err(TicketRefused::Full);
        }
        self.admitted.push((*device, role));
        Ok(())
    }
}
