//! wpa_supplicant: its configuration, and the events of its log.
//!
//! Spec: wpa_supplicant.conf(5) and `src/common/wpa_ctrl.h` of wpa_supplicant 2.10.

use crate::credentials::{Credentials, Security};

/// The configuration file of a client of one network.
///
/// `psk` in quotation marks serves SAE as well. The parser takes the last quotation mark of a line as the end, so a key may
/// contain others. The name is written in hexadecimal digits.
#[must_use]
pub fn configuration(credentials: &Credentials) -> String {
    let (methods, protection) = match credentials.security {
        Security::Mixed => ("SAE WPA-PSK", 1),
        Security::Wpa3 => ("SAE", 2),
    };
    let (ssid, key) = (credentials.ssid.hex(), credentials.key.text());
    let lines = [
        // Permits both methods by which SAE derives its password element, as the access point does.
        "sae_pwe=2".to_owned(),
        // No second interface for peer-to-peer groups.
        "p2p_disabled=1".to_owned(),
        "network={".to_owned(),
        format!("ssid={ssid}"),
        // Probe requests contain the name, so that a network with a hidden name is found as well.
        "scan_ssid=1".to_owned(),
        format!("key_mgmt={methods}"),
        format!("ieee80211w={protection}"),
        "proto=RSN".to_owned(),
        "pairwise=CCMP".to_owned(),
        format!("psk=\"{key}\""),
        "}".to_owned(),
    ];
    lines.join("\n") + "\n"
}

/// An event of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The client has joined the network.
    Connected,
    /// The client has left, or lost, the network.
    Disconnected,
    /// A scan has not found the network. wpa_supplicant scans again.
    NotFound,
    /// The key is probably wrong. wpa_supplicant tries again after a while.
    WrongKey,
    /// The access point has refused the client for another reason.
    Refused,
}

/// The event that a line of wpa_supplicant's log reports, such as `wlan0: CTRL-EVENT-CONNECTED - …` for the interface
/// `wlan0`. A line may contain a network's name, but it never begins with one. A network's name therefore cannot
/// imitate an event.
#[must_use]
pub fn event(interface: &str, line: &str) -> Option<Event> {
    let text = line.strip_prefix(interface)?.strip_prefix(": ")?;
    Some(match text.split_whitespace().next()? {
        "CTRL-EVENT-CONNECTED" => Event::Connected,
        "CTRL-EVENT-DISCONNECTED" => Event::Disconnected,
        "CTRL-EVENT-NETWORK-NOT-FOUND" => Event::NotFound,
        // With a wrong password, the confirmation of SAE fails (IEEE 802.11-2020, 12.4.8.6.4; status 15: challenge
        // failure).
        "CTRL-EVENT-AUTH-REJECT"
            if text.contains(" auth_type=3 ") && text.trim_end().ends_with(" status_code=15") =>
        {
            Event::WrongKey
        }
        "CTRL-EVENT-SSID-TEMP-DISABLED" if text.trim_end().ends_with("reason=WRONG_KEY") => {
            Event::WrongKey
        }
        "CTRL-EVENT-SSID-TEMP-DISABLED" | "CTRL-EVENT-AUTH-REJECT" | "CTRL-EVENT-ASSOC-REJECT" => {
            Event::Refused
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::passphrase::Passphrase;
    use crate::ssid::Ssid;

    #[test]
    fn both_kinds_of_security_have_a_configuration() {
        let mut desk = Credentials {
            ssid: Ssid::new("desk\"\n#").unwrap(),
            key: Passphrase::new("a\"b#c\"de").unwrap(),
            security: Security::Mixed,
        };
        let text = configuration(&desk);
        assert!(text.contains("\nssid=6465736b220a23\n"));
        assert!(text.contains("\npsk=\"a\"b#c\"de\"\n"));
        assert!(text.contains("key_mgmt=SAE WPA-PSK\nieee80211w=1\n"));
        desk.security = Security::Wpa3;
        assert!(configuration(&desk).contains("key_mgmt=SAE\nieee80211w=2\n"));
    }

    #[test]
    fn events_are_read_from_the_log() {
        for (line, wanted) in [
            (
                "wlan0: CTRL-EVENT-CONNECTED - Connection to 02:00:00:00:00:00 completed [id=0 id_str=]",
                Some(Event::Connected),
            ),
            (
                "wlan0: CTRL-EVENT-SSID-TEMP-DISABLED id=0 ssid=\"a\" auth_failures=1 duration=10 reason=WRONG_KEY",
                Some(Event::WrongKey),
            ),
            (
                "wlan0: CTRL-EVENT-SSID-TEMP-DISABLED id=0 ssid=\"reason=WRONG_KEY\" reason=CONN_FAILED",
                Some(Event::Refused),
            ),
            (
                "wlan0: CTRL-EVENT-AUTH-REJECT 02:00:00:00:00:00 auth_type=3 auth_transaction=2 status_code=15",
                Some(Event::WrongKey),
            ),
            (
                "wlan0: CTRL-EVENT-AUTH-REJECT 02:00:00:00:00:00 auth_type=0 auth_transaction=2 status_code=17",
                Some(Event::Refused),
            ),
            (
                "wlan0: CTRL-EVENT-NETWORK-NOT-FOUND ",
                Some(Event::NotFound),
            ),
            (
                "wlan0: Trying to associate with SSID 'wlan0: CTRL-EVENT-CONNECTED '",
                None,
            ),
            ("wlan1: CTRL-EVENT-CONNECTED - x", None),
            ("", None),
        ] {
            assert_eq!(event("wlan0", line), wanted, "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_name_or_key_adds_no_line(
            ssid in prop::collection::vec(any::<u8>(), 1..=32),
            key in "[ -~]{8,63}",
        ) {
            let text = configuration(&Credentials {
                ssid: Ssid::new(ssid).unwrap(),
                key: Passphrase::new(&key).unwrap(),
                security: Security::Mixed,
            });
            prop_assert_eq!(text.lines().count(), 11);
        }
    }
}
