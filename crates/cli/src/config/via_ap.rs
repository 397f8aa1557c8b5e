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
    /// The name of the network. The key is in a file or is typed.
    Name(Ssid),
}

/// An access point: the text of its QR code, or the name of its network.
pub(super) fn via_ap() -> Kind<ViaAp> {
    Kind {
        placeholder: "QR|NAME",
        range: String::new(),
        allowed: "the text of the QR code of `openuvr ap`, such as WIFI:T:WPA;S:NAME;P:KEY;;, or a name of 1 to 32 bytes"
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

/// The text of a QR code without its key, for messages; `None` for any other text.
pub(super) fn without_key(text: &str) -> Option<String> {
    text.starts_with(QR).then(|| format!("{QR}…"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ClientConfig, Environment, Settings as _};

    fn client(args: &[&str]) -> Result<ClientConfig, String> {
        let environment = Environment {
            display: Some(":7".to_owned()),
            wayland: None,
            config_dir: Some("/nonexistent".into()),
            machine: "desk".to_owned(),
        };
        let words = ["client"].iter().chain(args);
        let matches = ClientConfig::command()
            .try_get_matches_from(words)
            .map_err(|why| why.to_string())?;
        let effective = ClientConfig::from_matches_in(&matches, &environment);
        effective
            .map(|effective| effective.config)
            .map_err(|why| why.to_string())
    }

    #[test]
    fn an_access_point_is_a_qr_code_or_a_name() {
        let by_code = client(&["--via-ap", "WIFI:T:SAE;S:desk;P:12345678;;"]).unwrap();
        assert!(matches!(by_code.via_ap, Some(ViaAp::Credentials(_))));
        let by_name = client(&["--via-ap", "desk", "--ap-key-file", "k"]).unwrap();
        assert_eq!(by_name.via_ap, Ssid::new("desk").map(ViaAp::Name));
        assert_eq!(client(&[]).unwrap().via_ap, None);
    }

    #[test]
    fn a_refused_code_is_not_repeated_with_its_key() {
        let why = client(&["--via-ap", "WIFI:T:WEP;S:desk;P:12345678;;"]).unwrap_err();
        assert!(
            why.contains("WIFI:…") && !why.contains("12345678;"),
            "{why}"
        );
    }

    #[test]
    fn contradictions_are_refused() {
        let code = "WIFI:T:SAE;S:desk;P:12345678;;";
        for args in [
            &["--ap-interface", "wlan0"][..],
            &["--ap-key-file", "k"],
            &["--via-ap", code, "--ap-key-file", "k"],
            &["--via-ap", code, "--portal", "https://play.example.org"],
            &["--via-ap", code, "--ap-interface", "../x"],
        ] {
            assert!(client(args).is_err(), "{args:?}");
        }
    }
}
