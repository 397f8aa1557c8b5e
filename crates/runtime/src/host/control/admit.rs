//! Admission of devices through a gateway: see [`Admission`].

use std::time::{SystemTime, UNIX_EPOCH};

use openuvr_net::address::path_of;
use openuvr_proto::control::handshake::DeviceStatus;
use openuvr_proto::control::identity::{ClientId, PublicKey};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::UnixTime;
use openuvr_proto::time::Instant;

use super::super::Notice;
use super::super::admit::{Admission, AdmissionGrant, AdmitRefused};
use super::Control;

impl Control {
    pub(super) fn admit(
        &mut self,
        now: Instant,
        admission: Admission,
    ) -> Result<AdmissionGrant, AdmitRefused> {
        let Admission {
            key,
            name,
            pin,
            ticket,
            from,
        } = admission;
        let standing = self.trust.statuses()(&ClientId::of(&key));
        let as_player = |title| AdmissionGrant {
            title,
            max_role: Role::Player,
        };
        if let Some(ticket) = ticket {
            if let DeviceStatus::Forbidden(_) = standing {
                return Err(AdmitRefused::Forbidden);
            }
            self.update_time_of_day();
            let shown = self.handshake.shown_ticket(path_of(from), &ticket, &key);
            self.post_pairing_events();
            let max_role = shown.map_err(AdmitRefused::Ticket)?;
            let title = name.as_str().to_owned();
            return Ok(AdmissionGrant { title, max_role });
        }
        if let Some(pin) = pin.filter(|_| standing != DeviceStatus::Allowed(key)) {
            let paired = (self.handshake).typed_pin(now, path_of(from), &pin, standing);
            self.post_pairing_events();
            paired.map_err(AdmitRefused::Pin)?;
            self.shared.notice(Notice::Paired {
                name: name.as_str().to_owned(),
                fingerprint: key.fingerprint(),
            });
            let title = name.as_str().to_owned();
            self.trust.paired(key, name);
            return Ok(as_player(title));
        }
        match (standing, self.handshake.admitted(&key)) {
            (DeviceStatus::Allowed(known), _) if known == key => {
                self.trust.session_started(key);
                Ok(as_player(self.trust.display_name(key, name.as_str())))
            }
            (DeviceStatus::Forbidden(_), _) => Err(AdmitRefused::Forbidden),
            (_, Some(max_role)) => Ok(AdmissionGrant {
                title: name.as_str().to_owned(),
                max_role,
            }),
            _ => Err(AdmitRefused::Unknown),
        }
    }

    /// The highest role that a device with a session can get. Some tickets permit only observing.
    pub(super) fn max_role(&mut self, key: &PublicKey) -> Role {
        let listed = self.trust.statuses()(&ClientId::of(key)) != DeviceStatus::Unknown;
        let by_ticket = self.handshake.admitted(key).filter(|_| !listed);
        by_ticket.unwrap_or(Role::Player)
    }

    /// Sets the handshake's time of day if it accepts tickets.
    pub(super) fn update_time_of_day(&mut self) {
        if self.handshake.takes_tickets() {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
            let seconds = since_1970.map_or(0, |span| span.as_secs());
            self.handshake.time_of_day(UnixTime(seconds));
        }
    }
}
