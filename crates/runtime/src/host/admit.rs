//! Devices that come through a gateway, whose connection is somebody else's: a browser, say. They are let
//! in by the same list and the same pairing window as clients.

use std::net::SocketAddr;

use openuvr_net::address::path_of;
use openuvr_proto::control::handshake::{DeviceStatus, PinRefused};
use openuvr_proto::control::identity::{ClientId, DeviceName, PublicKey};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::time::Instant;

use super::Notice;
use super::control::Control;

/// A device that wants to come in. That it is who it says it is, its gateway has made sure of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admission {
    /// Under what it is stored: [`foreign_key`](openuvr_proto::control::handshake::foreign_key).
    pub key: PublicKey,
    /// What it calls itself.
    pub name: DeviceName,
    /// What its person typed, if the device is not known yet.
    pub pin: Option<Pin>,
    /// Where it is: wrong PINs are counted by that.
    pub from: SocketAddr,
}

/// Why a device does not come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AdmitRefused {
    /// It never paired, or was forgotten, and gave no PIN.
    #[error("this host does not know this device: a PIN is needed")]
    Unknown,
    /// The host forbids it.
    #[error("the host forbids this device")]
    Forbidden,
    /// Its PIN did not do.
    #[error("{0}")]
    Pin(PinRefused),
}

/// Hears whether it may: by which name people know it.
pub(super) type Answer = Box<dyn FnOnce(Result<String, AdmitRefused>) + Send>;

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
