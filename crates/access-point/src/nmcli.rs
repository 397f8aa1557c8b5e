//! NetworkManager's command `nmcli`: its terse output, and the profiles of connections.
//!
//! Spec: nmcli(1), nm-settings-nmcli(5), of NetworkManager 1.42. In terse output, fields are separated by `:`, and `:` and
//! `\` in a field are preceded by `\`.

use crate::channel::{Band, Block, Frequency};
use crate::credentials::{Credentials, Security};
use crate::iw::scan::Network;
use crate::ssid::Ssid;

/// Maximum number of networks that are read.
const MAX_NETWORKS: usize = 1024;

/// The arguments that list devices and their states.
pub const DEVICES: [&str; 5] = ["-t", "-f", "DEVICE,STATE", "device", "status"];

/// Whether NetworkManager owns this interface, according to the output of [`DEVICES`].
#[must_use]
pub fn owns(text: &str, interface: &str) -> bool {
    text.lines().any(|line| match fields(line).as_slice() {
        [device, state] => device == interface && !matches!(state.as_str(), "unmanaged" | ""),
        _ => false,
    })
}

/// The arguments that scan.
#[must_use]
pub fn scan(interface: &str) -> Vec<&str> {
    let mut words = vec!["-t", "-f", "FREQ,SIGNAL,SSID", "device", "wifi", "list"];
    words.extend(["--rescan", "yes", "ifname", interface]);
    words
}

/// The networks of a scan. Signals are percentages of the range from −100 to −40 dBm (NetworkManager,
/// `nm_wifi_utils_level_to_quality`). Widths are unknown. A name may contain line breaks, so lines in other forms are
/// skipped.
#[must_use]
pub fn networks(text: &str) -> Vec<Network> {
    let network = |line: &str| {
        let [frequency, signal, name] = fields(line).try_into().ok()?;
        let mhz = frequency.strip_suffix(" MHz")?.parse().ok()?;
        let percent: i32 = signal.parse().ok()?;
        let frequency = Frequency(mhz);
        frequency.band()?;
        let dbm = -100 + percent.clamp(0, 100) * 3 / 5;
        Some(Network::new(frequency, dbm, Ssid::new(name)))
    };
    text.lines()
        .filter_map(network)
        .take(MAX_NETWORKS)
        .collect()
}

fn fields(line: &str) -> Vec<String> {
    let (mut all, mut field, mut chars) = (Vec::new(), String::new(), line.chars());
    while let Some(c) = chars.next() {
        match c {
            ':' => all.push(std::mem::take(&mut field)),
            '\\' => field.extend(chars.next()),
            c => field.push(c),
        }
    }
    all.push(field);
    all
}

/// A profile of a connection: a name, and settings as arguments of `nmcli`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The profile's name.
    pub name: String,
    settings: Vec<String>,
    key: String,
}

/// Why NetworkManager cannot create or join a network, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProfileError {
    /// The band is 6 GHz.
    #[error("NetworkManager supports no access points at 6 GHz: use --band 5,2.4")]
    Band,
    /// The name is not text.
    #[error("NetworkManager requires a network name in UTF-8: choose another name")]
    Name,
    /// The key has spaces at its ends, which would be lost.
    #[error(
        "the key begins or ends with a space, which NetworkManager removes: choose another key"
    )]
    Key,
}

impl Profile {
    /// An access point. NetworkManager selects the width, and starts its own DHCP server.
    ///
    /// # Errors
    /// [`ProfileError`] if NetworkManager does not support such a network.
    pub fn of_access_point(
        interface: &str,
        credentials: &Credentials,
        block: &Block,
    ) -> Result<Profile, ProfileError> {
        let band = match block.band() {
            Band::Ghz2_4 => "bg",
            Band::Ghz5 => "a",
            Band::Ghz6 => return Err(ProfileError::Band),
        };
        let mut profile = Profile::new("openuvr-ap", interface, credentials)?;
        profile.add(&[
            ("802-11-wireless.mode", "ap"),
            ("802-11-wireless.band", band),
            ("802-11-wireless.channel", &block.number().to_string()),
            ("ipv4.method", "shared"),
            ("ipv6.method", "link-local"),
        ]);
        Ok(profile)
    }

    /// A client, which keeps its default route and its name servers.
    ///
    /// # Errors
    /// [`ProfileError`] if NetworkManager does not support such a network.
    pub fn of_client(interface: &str, credentials: &Credentials) -> Result<Profile, ProfileError> {
        let mut profile = Profile::new("openuvr-via-ap", interface, credentials)?;
        profile.add(&[
            ("802-11-wireless.hidden", "yes"),
            ("ipv4.method", "auto"),
            ("ipv4.never-default", "yes"),
            ("ipv4.ignore-auto-dns", "yes"),
            ("ipv6.method", "link-local"),
        ]);
        Ok(profile)
    }

    fn new(
        role: &str,
        interface: &str,
        credentials: &Credentials,
    ) -> Result<Profile, ProfileError> {
        let key = credentials.key.text();
        if key.trim() != key {
            return Err(ProfileError::Key);
        }
        let name = format!("{role}-{interface}");
        let methods = match credentials.security {
            // WPA3 is used if both the access point and the client support it.
            Security::Mixed => "wpa-psk",
            Security::Wpa3 => "sae",
        };
        let mut profile = Profile {
            name: name.clone(),
            settings: Vec::new(),
            key: key.to_owned(),
        };
        profile.add(&[
            ("type", "wifi"),
            ("ifname", interface),
            ("con-name", &name),
            ("autoconnect", "no"),
            ("ssid", credentials.ssid.text().ok_or(ProfileError::Name)?),
            ("802-11-wireless.powersave", "2"),
            ("802-11-wireless-security.key-mgmt", methods),
            ("802-11-wireless-security.proto", "rsn"),
            ("802-11-wireless-security.pairwise", "ccmp"),
            ("802-11-wireless-security.group", "ccmp"),
            // The key is not stored, but passed when the connection starts.
            ("802-11-wireless-security.psk-flags", "2"),
        ]);
        Ok(profile)
    }

    fn add(&mut self, settings: &[(&str, &str)]) {
        let words = settings.iter().flat_map(|(name, value)| [name, value]);
        self.settings.extend(words.map(|word| (*word).to_owned()));
    }

    /// The arguments that add the profile. NetworkManager keeps it only in memory. Arguments are visible to other users
    /// of this machine, so they do not include the key.
    #[must_use]
    pub fn add_arguments(&self) -> Vec<&str> {
        let mut words = vec!["connection", "add", "save", "no"];
        words.extend(self.settings.iter().map(String::as_str));
        words
    }

    /// The content of the file with the key, for [`up_arguments`](Self::up_arguments).
    #[must_use]
    pub fn secrets(&self) -> String {
        format!("802-11-wireless-security.psk:{}\n", self.key)
    }

    /// The arguments that start the connection of the profile. `file` contains the key.
    #[must_use]
    pub fn up_arguments<'a>(&'a self, file: &'a str) -> Vec<&'a str> {
        let mut words = vec!["-w", "60", "connection", "up", "id", &self.name];
        words.extend(["passwd-file", file]);
        words
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::channel::Width;
    use crate::passphrase::Passphrase;

    fn credentials() -> Credentials {
        Credentials {
            ssid: Ssid::new("desk").unwrap(),
            key: Passphrase::new("12345678").unwrap(),
            security: Security::Wpa3,
        }
    }

    #[test]
    fn managed_devices_are_told_from_others() {
        let text =
            "wlan0:connected\nwlan1:unmanaged\nlo:connected (externally)\na\\:b:disconnected\n";
        assert!(owns(text, "wlan0") && owns(text, "a:b"));
        assert!(!owns(text, "wlan1") && !owns(text, "wlan2") && !owns("", "wlan0"));
    }

    #[test]
    fn networks_have_signals_in_dbm() {
        let text =
            "5180 MHz:100:office\\:2\n2437 MHz:0:\n2437 MHz:x:y\n60480 MHz:50:a\nbroken name\n";
        let all = networks(text);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].signal, all[1].signal), (-40, -100));
        assert_eq!(all[0].ssid, Ssid::new("office:2"));
        assert_eq!(all[1].ssid, None);
    }

    #[test]
    fn a_profile_has_no_key_in_its_arguments() {
        let block = Block::new(Frequency(5180), Width::Mhz80).unwrap();
        let profile = Profile::of_access_point("wlan0", &credentials(), &block).unwrap();
        let words = profile.add_arguments();
        assert!(
            words
                .windows(2)
                .any(|pair| pair == ["802-11-wireless.channel", "36"])
        );
        assert!(!words.iter().any(|word| word.contains("12345678")));
        assert_eq!(profile.secrets(), "802-11-wireless-security.psk:12345678\n");
        assert_eq!(profile.up_arguments("/f").last(), Some(&"/f"));
    }

    #[test]
    fn unsuitable_networks_are_refused() {
        let six = Block::new(Frequency(5955), Width::Mhz20).unwrap();
        let of = |credentials: &Credentials| Profile::of_client("wlan0", credentials).unwrap_err();
        let refused = Profile::of_access_point("wlan0", &credentials(), &six);
        assert_eq!(refused, Err(ProfileError::Band));
        let mut other = credentials();
        other.ssid = Ssid::new([0xff]).unwrap();
        assert_eq!(of(&other), ProfileError::Name);
        let mut other = credentials();
        other.key = Passphrase::new("12345678 ").unwrap();
        assert_eq!(of(&other), ProfileError::Key);
    }

    proptest! {
        #[test]
        fn any_text_has_bounded_networks(text in "([0-9]{1,6} MHz:[0-9]{1,9}:|\\PC{0,20}\n){0,60}") {
            for network in networks(&text) {
                prop_assert!((-100..=-40).contains(&network.signal));
            }
        }

        #[test]
        fn fields_are_unescaped(all in prop::collection::vec("[a-z:\\\\]{0,6}", 1..5)) {
            let escape = |field: &String| field.replace('\\', "\\\\").replace(':', "\\:");
            let line: Vec<String> = all.iter().map(escape).collect();
            prop_assert_eq!(fields(&line.join(":")), all);
        }
    }
}
