//! hostapd: its configuration, and the events of its log.
//!
//! Spec: `hostapd.conf` of hostapd 2.10, which Debian 12 packages.

use std::fmt::Write as _;

use crate::channel::{Band, Block, Width};
use crate::choice::Candidate;
use crate::credentials::{Credentials, Security};
use crate::iw::phy::Abilities;
use crate::iw::regulatory::Country;

/// The channel of an access point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tuning {
    /// This block.
    Block(Block),
    /// hostapd chooses one of these primary channels, based on its own survey (ACS). All have the same band and width.
    Survey(Vec<Block>),
}

impl Tuning {
    /// Lets hostapd choose among the ranked blocks.
    #[must_use]
    pub fn survey(ranked: &[Candidate]) -> Tuning {
        Tuning::Survey(ranked.iter().map(|one| one.block).collect())
    }

    /// Any of the possible blocks, which all have the same band and width.
    fn any(&self) -> Option<&Block> {
        match self {
            Tuning::Block(block) => Some(block),
            Tuning::Survey(blocks) => blocks.first(),
        }
    }
}

/// An access point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessPoint<'a> {
    /// The access point's interface.
    pub interface: &'a str,
    /// The network's name, key and security. In 6 GHz, only WPA3 applies.
    pub credentials: &'a Credentials,
    /// The country, which beacons state; `None` if it is unknown.
    pub country: Option<Country>,
    /// The access point's channel.
    pub tuning: Tuning,
    /// The abilities of the card in this band.
    pub abilities: Abilities,
    /// Whether the card protects management frames. Without this protection, [`Security::Mixed`] permits only WPA2.
    pub protects_management: bool,
}

impl AccessPoint<'_> {
    /// The configuration file.
    ///
    /// `wpa_passphrase` is used for SAE as well. With `sae_password`, parts of a key such as `|mac=` would have a
    /// special meaning. The name is written in hexadecimal digits, so that no character has a special meaning.
    #[must_use]
    pub fn configuration(&self) -> String {
        let Some(block) = self.tuning.any() else {
            return String::new();
        };
        let mut lines = vec![
            format!("interface={}", self.interface),
            "driver=nl80211".to_owned(),
            "logger_stdout=-1".to_owned(),
            "logger_stdout_level=2".to_owned(),
            format!("ssid2={}", self.credentials.ssid.hex()),
            "utf8_ssid=1".to_owned(),
            // Clients can exchange data only with the host.
            "ap_isolate=1".to_owned(),
        ];
        if let Some(country) = self.country.filter(|country| country.is_one()) {
            lines.push(format!("country_code={country}"));
            lines.push("ieee80211d=1".to_owned());
            if block.band() == Band::Ghz5 {
                // Radar detection; it requires a country.
                lines.push("ieee80211h=1".to_owned());
            }
        }
        lines.push(match block.band() {
            Band::Ghz2_4 => "hw_mode=g".to_owned(),
            Band::Ghz5 | Band::Ghz6 => "hw_mode=a".to_owned(),
        });
        match &self.tuning {
            Tuning::Block(block) => lines.push(format!("channel={}", block.number())),
            Tuning::Survey(blocks) => {
                let mut numbers: Vec<u32> = blocks.iter().map(Block::number).collect();
                numbers.sort_unstable();
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                lines.push("channel=acs_survey".to_owned());
                lines.push(format!("chanlist={}", numbers.join(" ")));
            }
        }
        lines.extend(self.modulation(block));
        lines.extend(self.security(block.band()));
        lines.join("\n") + "\n"
    }

    /// 802.11n, 802.11ac and 802.11ax, as far as the card supports them.
    fn modulation(&self, block: &Block) -> Vec<String> {
        let Abilities {
            ht,
            vht,
            he,
            ldpc,
            short_guard,
        } = self.abilities;
        let mut lines = vec!["wmm_enabled=1".to_owned()];
        // The value of `he_oper_chwidth` and `vht_oper_chwidth`: 0 for 20 or 40 MHz, and 1 for 80 MHz.
        let code = u32::from(block.width() == Width::Mhz80);
        let centre = match self.tuning {
            Tuning::Block(_) if code == 1 => Some(block.centre_number()),
            // Below 80 MHz, no centre is set. In a survey, hostapd computes the centre for the channel that it chooses.
            _ => None,
        };
        let width = |kind: &str| {
            let mut lines = vec![format!("{kind}_oper_chwidth={code}")];
            lines.extend(centre.map(|number| format!("{kind}_oper_centr_freq_seg0_idx={number}")));
            lines
        };
        if block.band() == Band::Ghz6 {
            let class = match block.width() {
                Width::Mhz20 => 131,
                Width::Mhz40 => 132,
                Width::Mhz80 => 133,
            };
            lines.push(format!("op_class={class}"));
            lines.push("ieee80211ax=1".to_owned());
            lines.extend(width("he"));
            return lines;
        }
        if ht {
            let mut flags = String::new();
            if block.width() != Width::Mhz20 {
                flags += match block.extends_upwards() {
                    true => "[HT40+]",
                    false => "[HT40-]",
                };
            }
            let words = [
                (ldpc[0], "[LDPC]"),
                (short_guard[0], "[SHORT-GI-20]"),
                (short_guard[1], "[SHORT-GI-40]"),
            ];
            flags.extend(words.iter().filter(|(has, _)| *has).map(|(_, word)| *word));
            lines.push("ieee80211n=1".to_owned());
            lines.push(format!("ht_capab={flags}"));
        }
        if vht && block.band() == Band::Ghz5 {
            let words = [(ldpc[1], "[RXLDPC]"), (short_guard[2], "[SHORT-GI-80]")];
            let words = words.iter().filter(|(has, _)| *has);
            let flags: String = words.map(|(_, word)| *word).collect();
            lines.push("ieee80211ac=1".to_owned());
            lines.push(format!("vht_capab={flags}"));
            lines.extend(width("vht"));
        }
        if he {
            lines.push("ieee80211ax=1".to_owned());
            if block.band() == Band::Ghz5 {
                lines.extend(width("he"));
            }
        }
        lines
    }

    fn security(&self, band: Band) -> Vec<String> {
        let (methods, protection) = match (self.credentials.security, band) {
            (Security::Mixed, Band::Ghz2_4 | Band::Ghz5) if self.protects_management => {
                ("WPA-PSK SAE", 1)
            }
            (Security::Mixed, Band::Ghz2_4 | Band::Ghz5) => ("WPA-PSK", 0),
            (Security::Wpa3, _) | (_, Band::Ghz6) => ("SAE", 2),
        };
        vec![
            "auth_algs=1".to_owned(),
            "wpa=2".to_owned(),
            format!("wpa_key_mgmt={methods}"),
            "rsn_pairwise=CCMP".to_owned(),
            format!("ieee80211w={protection}"),
            "sae_require_mfp=1".to_owned(),
            // SAE can derive its password element by hunting-and-pecking or by hash-to-element. The value 2 permits
            // both methods, and the value 1 permits only hash-to-element, which 6 GHz requires.
            format!("sae_pwe={}", if band == Band::Ghz6 { 1 } else { 2 }),
            format!("wpa_passphrase={}", self.credentials.key.text()),
        ]
    }
}

/// An event of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The access point sends beacons.
    Enabled,
    /// The access point no longer sends beacons.
    Disabled,
    /// The access point listens for radar.
    RadarCheck,
    /// A client with this address has joined.
    Joined(String),
    /// A client with this address has left.
    Left(String),
    /// A client probably uses a wrong key.
    WrongKey(String),
}

/// The event that a line of hostapd's log reports, such as `wlan0: AP-STA-CONNECTED 02:00:00:00:01:00` for the
/// interface `wlan0`.
#[must_use]
pub fn event(interface: &str, line: &str) -> Option<Event> {
    let text = line.strip_prefix(interface)?.strip_prefix(": ")?;
    let mut words = text.split_whitespace();
    let name = words.next()?;
    let mut station = || {
        let address = words.next().filter(|word| is_address(word))?;
        Some(address.to_owned())
    };
    Some(match name {
        "AP-ENABLED" => Event::Enabled,
        "AP-DISABLED" | "INTERFACE-DISABLED" => Event::Disabled,
        "DFS-CAC-START" => Event::RadarCheck,
        "AP-STA-CONNECTED" => Event::Joined(station()?),
        "AP-STA-DISCONNECTED" => Event::Left(station()?),
        "AP-STA-POSSIBLE-PSK-MISMATCH" => Event::WrongKey(station()?),
        _ => return None,
    })
}

/// Whether a line of the log may state the cause of a failure. The first such line is used, because later ones report
/// consequences.
#[must_use]
pub fn is_cause(line: &str) -> bool {
    let causes = [
        "ould not",
        "ailed",
        "not allowed",
        "rrors found",
        "Line ",
        "nvalid",
        "rfkill",
        "nable to",
        "No such",
        "not found",
        "not supported",
    ];
    causes.iter().any(|cause| line.contains(cause))
}

/// Whether a word is an Ethernet address.
fn is_address(word: &str) -> bool {
    let byte = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    word.split(':').count() == 6 && word.split(':').all(byte)
}

/// The configurations of all bands, widths and kinds of security, for a test with hostapd's own parser.
#[must_use]
pub fn samples(interface: &str, credentials: &Credentials) -> Vec<String> {
    let abilities = Abilities {
        ht: true,
        vht: true,
        he: true,
        ldpc: [true; 2],
        short_guard: [true; 3],
    };
    let mut samples = Vec::new();
    for (band, number) in [
        (Band::Ghz2_4, 6),
        (Band::Ghz5, 40),
        (Band::Ghz5, 100),
        (Band::Ghz6, 5),
    ] {
        for width in Width::ALL {
            let frequency = crate::channel::Frequency::of_channel(band, number);
            let Some(block) = frequency.and_then(|frequency| Block::new(frequency, width)) else {
                continue;
            };
            let mut tunings = vec![Tuning::Block(block)];
            if band != Band::Ghz6 {
                tunings.push(Tuning::Survey(vec![block]));
            }
            for tuning in tunings {
                for security in [Security::Mixed, Security::Wpa3] {
                    let mut text = AccessPoint {
                        interface,
                        credentials: &Credentials {
                            security,
                            ..credentials.clone()
                        },
                        country: "DE".parse().ok(),
                        tuning: tuning.clone(),
                        abilities,
                        protects_management: true,
                    }
                    .configuration();
                    // A comment that identifies the sample in messages.
                    let _ = writeln!(text, "# {block}, {security:?}, {tuning:?}");
                    samples.push(text);
                }
            }
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::channel::Frequency;
    use crate::passphrase::Passphrase;
    use crate::ssid::Ssid;

    fn credentials(security: Security) -> Credentials {
        Credentials {
            ssid: Ssid::new("desk").unwrap(),
            key: Passphrase::new("12345678").unwrap(),
            security,
        }
    }

    fn lines(mhz: u32, width: Width, security: Security) -> Vec<String> {
        let access_point = AccessPoint {
            interface: "wlan0",
            credentials: &credentials(security),
            country: Some("DE".parse().unwrap()),
            tuning: Tuning::Block(Block::new(Frequency(mhz), width).unwrap()),
            abilities: Abilities {
                ht: true,
                vht: true,
                he: true,
                ldpc: [true, false],
                short_guard: [true, true, true],
            },
            protects_management: true,
        };
        let text = access_point.configuration();
        text.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn has(lines: &[String], all: &[&str]) {
        for line in all {
            assert!(lines.iter().any(|one| one == line), "{line}: {lines:#?}");
        }
    }

    #[test]
    fn the_papers_channel_is_80_mhz_in_5_ghz() {
        let lines = lines(5200, Width::Mhz80, Security::Mixed);
        has(
            &lines,
            &[
                "hw_mode=a",
                "channel=40",
                "ht_capab=[HT40-][LDPC][SHORT-GI-20][SHORT-GI-40]",
                "vht_capab=[SHORT-GI-80]",
                "vht_oper_chwidth=1",
                "vht_oper_centr_freq_seg0_idx=42",
                "he_oper_centr_freq_seg0_idx=42",
                "country_code=DE",
                "ieee80211h=1",
                "ssid2=6465736b",
                "wpa_key_mgmt=WPA-PSK SAE",
                "ieee80211w=1",
                "wpa_passphrase=12345678",
            ],
        );
    }

    #[test]
    fn other_bands_have_their_own_lines() {
        let six = lines(5975, Width::Mhz80, Security::Mixed);
        has(
            &six,
            &[
                "channel=5",
                "op_class=133",
                "ieee80211ax=1",
                "he_oper_centr_freq_seg0_idx=7",
                "wpa_key_mgmt=SAE",
                "ieee80211w=2",
                "sae_pwe=1",
            ],
        );
        assert!(!six.iter().any(|line| line.starts_with("ieee80211n")));
        let low = lines(2437, Width::Mhz20, Security::Wpa3);
        has(
            &low,
            &[
                "hw_mode=g",
                "ht_capab=[LDPC][SHORT-GI-20][SHORT-GI-40]",
                "ieee80211w=2",
            ],
        );
        assert!(
            !low.iter()
                .any(|line| line.contains("vht") || line.contains("80211h"))
        );
    }

    #[test]
    fn hostapds_own_survey_has_a_list_of_channels() {
        let blocks = [5180, 5220].map(|mhz| Block::new(Frequency(mhz), Width::Mhz80).unwrap());
        let text = AccessPoint {
            interface: "wlan0",
            credentials: &credentials(Security::Mixed),
            country: Some(Country::WORLD),
            tuning: Tuning::Survey(blocks.to_vec()),
            abilities: Abilities {
                vht: true,
                ..Abilities::default()
            },
            protects_management: false,
        }
        .configuration();
        assert!(text.contains("wpa_key_mgmt=WPA-PSK\nrsn_pairwise=CCMP\nieee80211w=0\n"));
        assert!(text.contains("channel=acs_survey\nchanlist=36 44\n"));
        assert!(text.contains("vht_oper_chwidth=1\n") && !text.contains("centr_freq"));
        assert!(!text.contains("country"));
    }

    #[test]
    fn events_are_read_from_the_log() {
        let joined = event(
            "wlan0",
            "wlan0: AP-STA-CONNECTED 02:00:00:00:01:00 auth_alg=sae",
        );
        assert_eq!(joined, Some(Event::Joined("02:00:00:00:01:00".to_owned())));
        assert_eq!(event("wlan0", "wlan0: AP-ENABLED "), Some(Event::Enabled));
        assert_eq!(
            event(
                "wlan0",
                "wlan0: DFS-CAC-START freq=5260 chan=52 cac_time=60s"
            ),
            Some(Event::RadarCheck)
        );
        for other in [
            "",
            "wlan0: AP-STA-CONNECTED \u{1b}[2J",
            "wlan0: interface state UNINITIALIZED->ENABLED",
            "AP-ENABLED",
            "wlan1: AP-ENABLED ",
        ] {
            assert_eq!(event("wlan0", other), None, "{other}");
        }
        assert!(is_cause("Could not configure driver mode"));
    }

    proptest! {
        #[test]
        fn a_name_or_key_adds_no_line(
            ssid in prop::collection::vec(any::<u8>(), 1..=32),
            key in "[ -~]{8,63}",
        ) {
            let sample = samples("wlan0", &credentials(Security::Mixed));
            let hostile = Credentials {
                ssid: Ssid::new(ssid).unwrap(),
                key: Passphrase::new(&key).unwrap(),
                security: Security::Mixed,
            };
            let written = samples("wlan0", &hostile);
            let line_of_key = format!("wpa_passphrase={key}");
            for (one, other) in sample.iter().zip(&written) {
                prop_assert_eq!(one.lines().count(), other.lines().count());
                prop_assert!(other.lines().any(|line| line == line_of_key));
            }
        }

        #[test]
        fn any_line_is_an_event_or_none(line in "(wlan0: AP-STA-CONNECTED )?\\PC{0,60}") {
            if let Some(Event::Joined(address)) = event("wlan0", &line) {
                prop_assert_eq!(address.len(), 17);
            }
        }
    }
}
