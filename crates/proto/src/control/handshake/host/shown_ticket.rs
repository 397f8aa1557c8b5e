//! Tickets that arrive in the handshake, or over a connection that is sealed by other means, such as a browser's
//! connection.

use super::{DeviceStatus, HostHandshake, Paired, PairingEvent, Refusal, Rejection, TicketClaim};
use crate::control::handshake::layout::Reason;
use crate::control::handshake::noise::{Keys, Noise};
use crate::control::identity::{ClientId, PublicKey};
use crate::control::negotiate::Role;
use crate::control::ticket::{SignedTicket, TicketRefused};
use crate::id::PathId;

impl HostHandshake {
    /// Verifies and redeems the ticket of a client. The client has proved possession of its key.
    pub(super) fn finish_by_ticket(
        &mut self,
        from: PathId,
        claim: TicketClaim,
        noise: Noise,
        standing: &dyn Fn(&ClientId) -> DeviceStatus,
    ) -> Result<(Keys, PublicKey, Paired), Rejection> {
        if let DeviceStatus::Forbidden(_) = standing(&ClientId::of(&claim.device)) {
            return Err(Refusal(Reason::Forbidden, 0).into());
        }
        let keys = noise.keys()?;
        let ticket = claim.ticket;
        let role = ticket.and_then(|ticket| self.redeem(&ticket, &claim.device));
        let role = self.report_refusal(from, role)?;
        let name = claim.name;
        Ok((keys, claim.device, Paired::Ticket { name, role }))
    }

    /// Redeems a ticket that the device at `from` with the key `key` presents. Returns the highest role that the ticket
    /// grants.
    ///
    /// # Errors
    /// [`TicketRefused`] if the ticket is rejected.
    pub fn shown_ticket(
        &mut self,
        from: PathId,
        ticket: &str,
        key: &PublicKey,
    ) -> Result<Role, TicketRefused> {
        let role = ticket.parse().and_then(|ticket| self.redeem(&ticket, key));
        self.report_refusal(from, role)
    }

    fn redeem(&mut self, ticket: &SignedTicket, key: &PublicKey) -> Result<Role, TicketRefused> {
        let now = self.time_of_day;
        let gate = self.tickets.as_mut().ok_or(TicketRefused::NotTaken)?;
        gate.redeem(now, ticket, key)
    }

    /// Emits an event if the ticket was rejected.
    fn report_refusal(
        &mut self,
        from: PathId,
        role: Result<Role, TicketRefused>,
    ) -> Result<Role, TicketRefused> {
        if let Err(why) = role {
            let refused = PairingEvent::TicketRefused { from, why };
            self.events.push_back(refused);
        }
        role
    }
}

impl From<TicketRefused> for Rejection {
    fn from(why: TicketRefused) -> Rejection {
        Refusal(why.into(), 0).into()
    }
}
