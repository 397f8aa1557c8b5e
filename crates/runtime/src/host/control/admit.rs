//! Whether a device that comes through a gateway may come in: see [`Admission`].

use openuvr_net::address::path_of;
use openuvr_proto::control::handshake::DeviceStatus;
use openuvr_proto::control::identity::ClientId;
use openuvr_proto::time::Instant;

use super::super::Notice;
use super::super::admit::{Admission, AdmitRefused};
use super::Control;

impl Control {
    pub(super) fn admit(
        &mut self,
        now: Instant,
        admission: Admission,
    ) -> Result<String, AdmitRefused> {
        let Admission {
            key,
            name,
            pin,
            from,
        } = admission;
        let standing = self.trust.look()(&ClientId::of(&key));
        if let Some(pin) = pin.filter(|_| standing != DeviceStatus::Allowed(key)) {
            let paired = (self.handshake).typed_pin(now, path_of(from), &pin, standing);
            self.tell_pairing();
            paired.map_err(AdmitRefused::Pin)?;
            self.shared.notice(Notice::Paired {
                name: name.as_str().to_owned(),
                fingerprint: key.fingerprint(),
            });
            let title = name.as_str().to_owned();
            self.trust.paired(key, name);
            return Ok(title);
        }
        match standing {
            DeviceStatus::Allowed(known) if known == key => {
                self.trust.seen(key);
                Ok(self.trust.joined(key, name.as_str()))
            }
            DeviceStatus::Forbidden(_) => Err(AdmitRefused::Forbidden),
            _ => Err(AdmitRefused::Unknown),
        }
    }
}
