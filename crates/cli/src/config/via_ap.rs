//! Settings of a client that joins the host's access point.

use openuvr_access_point::{Credentials, Ssid, iw};

use super::kind::{Form, Kind};

/// The beginning of the text of a QR code.
const QR: &str = "WIFI:";

/// An access point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ViaAp {
    /// The text of its QR code.
    Credentials(Credentials),
    /// Its name; the key is in a file, or typed.
    Name(Ssid),
}

/// An access point: the text of its QR code, or its name.
pub(super) fn via_ap() -> Kind<ViaAp> {
    Kind {
        placeholder: "QR|NAME",
        range: String::new(),
        allowed: "the text of the QR code of `openuvr ap`, as in WIFI:T:WPA;S:NAME;P:KEY;;, or a name of 1 to 32 bytes"
            .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| match text.starts_with(QR) {
            true => text.parse().ok().map(ViaAp::Credentials),
            false => Ssid::new(text).filter(|name| name.text().is_some()).map(ViaAp::Name),
        }),
        absent: None,
    }
}

/// The name of a network interface.
pub(super) fn interface() -> Kind<String> {
    Kind {
        placeholder: "IFACE",
        range: String::new(),
        allowed: "the name of a network interface, such as wlan0".to_owned(),
        form: Form::Text,
        parse: Box::new(|text| iw::interfaces::is_name(text).then(|| text.to_owned())),
        absent: None,
    }
}

/// The text of a QR code without its key, for messages; `None` for another text.
pub(super) fn without_key(text: &str) -> Option<String> {
    text.starts_with(QR).then(|| format!("{QR}…"))
}
