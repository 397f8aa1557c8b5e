//! `iw dev IFACE scan`: the networks that are received.
//!
//! ```text
//! BSS 02:00:00:00:01:00(on wlan0)
//!         freq: 5180
//!         signal: -48.00 dBm
//!         SSID: office\x20
//!         HT operation:
//!                  * primary channel: 36
//!                  * secondary channel offset: above
//!         VHT operation:
//!                  * channel width: 1 (80 MHz)
//!                  * center freq segment 1: 42
//!         BSS Load:
//!                  * station count: 3
//!                  * channel utilisation: 57/255
//! ```
//! Everything here comes from unknown networks; see the parent module.

use super::{frequency, word_behind};
use crate::channel::{Band, Block, CCA_THRESHOLD, Frequency, Width};
use crate::ssid::Ssid;

/// Maximum number of networks that are stored. If there are more, the first ones are kept (guess: enough for an
/// exhibition hall).
const MAX_NETWORKS: usize = 1024;

/// The weakest and the strongest possible signal, in dBm: below thermal noise, and a transmitter next to the antenna.
const SIGNALS: (i32, i32) = (-110, 30);

/// A network, that is, the access point that sends its beacons.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// The network's name, unless it is hidden.
    pub ssid: Option<Ssid>,
    /// The network's primary channel.
    pub frequency: Frequency,
    /// The signal with which this machine receives the network, in dBm.
    pub signal: i32,
    /// The lower and upper edges of the network's block of channels, in MHz.
    pub edges: (u32, u32),
    /// The use of the network's primary channel, as the access point reports it, in 1/255 of the time (IEEE
    /// 802.11-2020, 9.4.2.27).
    pub utilisation: Option<u8>,
}

impl Network {
    /// A network about which nothing else is known. It is assumed to be 80 MHz wide in 6 GHz (guess: usual there), and 20
    /// MHz elsewhere.
    #[must_use]
    pub fn new(frequency: Frequency, signal: i32, ssid: Option<Ssid>) -> Network {
        let usual = match frequency.band() {
            Some(Band::Ghz6) => Width::Mhz80,
            _ => Width::Mhz20,
        };
        Network {
            ssid,
            frequency,
            signal: signal.clamp(SIGNALS.0, SIGNALS.1),
            edges: edges(frequency, usual),
            utilisation: None,
        }
    }
}

/// The edges of a network with this primary channel. The channel may be one that the standard does not define.
fn edges(primary: Frequency, width: Width) -> (u32, u32) {
    match Block::new(primary, width) {
        Some(block) => block.edges(),
        None => around(primary.0, width),
    }
}

fn around(centre: u32, width: Width) -> (u32, u32) {
    let half = width.mhz() / 2;
    (centre.saturating_sub(half), centre.saturating_add(half))
}

/// The data about a network while its lines are read.
#[derive(Default)]
struct Lines {
    frequency: Option<Frequency>,
    signal: Option<i32>,
    ssid: Option<Ssid>,
    /// Whether the secondary channel is above the primary channel; `None` if there is no secondary channel.
    pair_above: Option<bool>,
    /// The width of 802.11ac: 1 means 80 MHz. The values 2 and 3 are deprecated and mean 160 MHz and 80 + 80 MHz.
    vht_width: Option<u32>,
    vht_centre: Option<u32>,
    utilisation: Option<u8>,
}

impl Lines {
    fn add(&mut self, line: &str) {
        if let Some(mhz) = word_behind(line, "freq: ") {
            self.frequency = self.frequency.or_else(|| frequency(mhz));
        } else if let Some(dbm) = word_behind(line, "signal: ") {
            let whole = dbm.split('.').next().and_then(|dbm| dbm.parse().ok());
            // A value such as `57/100` is ignored, because its unit depends on the driver.
            self.signal = self.signal.or(whole);
        } else if let Some(name) = line.strip_prefix("SSID: ") {
            self.ssid = self.ssid.take().or_else(|| ssid(name));
        } else if let Some(place) = line.strip_prefix("* secondary channel offset: ") {
            self.pair_above = match place {
                "above" => Some(true),
                "below" => Some(false),
                _ => None,
            };
        } else if let Some(width) = word_behind(line, "* channel width: ") {
            self.vht_width = self.vht_width.or_else(|| width.parse().ok());
        } else if let Some(centre) = word_behind(line, "* center freq segment 1: ") {
            self.vht_centre = self.vht_centre.or_else(|| centre.parse().ok());
        } else if let Some(part) = word_behind(line, "* channel utilisation: ") {
            let part = part.split('/').next().and_then(|part| part.parse().ok());
            self.utilisation = self.utilisation.or(part);
        }
    }

    fn network(self) -> Option<Network> {
        let frequency = self.frequency?;
        let band = frequency.band()?;
        // Some drivers report no dBm. The signal is then assumed to be at the threshold of a busy channel.
        let signal = self.signal.unwrap_or(CCA_THRESHOLD);
        let mut network = Network::new(frequency, signal, self.ssid);
        let pair = |above| if above { 10_i64 } else { -10 };
        network.edges = match (band, self.vht_width, self.vht_centre, self.pair_above) {
            (Band::Ghz5, Some(1..=3), Some(centre), _)
                if let Some(centre) = Frequency::of_channel(band, centre) =>
            {
                around(centre.0, Width::Mhz80)
            }
            (Band::Ghz2_4 | Band::Ghz5, _, _, Some(above)) => {
                let centre = i64::from(frequency.0) + pair(above);
                around(u32::try_from(centre).ok()?, Width::Mhz40)
            }
            _ => network.edges,
        };
        network.utilisation = self.utilisation;
        Some(network)
    }
}

/// Reads the networks.
#[must_use]
pub fn parse(text: &str) -> Vec<Network> {
    let (mut networks, mut lines) = (Vec::new(), None::<Lines>);
    for line in text.lines() {
        if line.starts_with("BSS ") {
            networks.extend(lines.replace(Lines::default()).and_then(Lines::network));
            if networks.len() >= MAX_NETWORKS {
                return networks;
            }
        } else if let Some(lines) = &mut lines {
            // Trailing spaces do not belong to a name, because `iw` writes a name's own trailing spaces as \x20.
            lines.add(line.trim());
        }
    }
    networks.extend(lines.and_then(Lines::network));
    networks
}

/// A name as `iw` writes it: spaces at the ends, backslashes and bytes outside ASCII are written as `\xNN`. `None` if
/// it is too long or hidden, that is, empty or zeros.
fn ssid(text: &str) -> Option<Ssid> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.strip_prefix(b"x").and_then(|digits| digits.get(..2));
        let byte = digits
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        // An escape is four characters long.
        bytes.push(byte.unwrap_or(*first));
        rest = match byte {
            Some(_) => &behind[3..],
            None => behind,
        };
        if bytes.len() > crate::ssid::LONGEST {
            return None;
        }
    }
    let hidden = bytes.iter().all(|byte| *byte == 0);
    Ssid::new(bytes).filter(|_| !hidden)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "BSS 02:00:00:00:01:00(on wlan0)\n\tlast seen: 12.3s [boottime]\n\tfreq: 5180\n\
        \tcapability: ESS Privacy (0x0011)\n\tsignal: -48.00 dBm\n\tSSID: office\\x20\n\
        \tHT operation:\n\t\t * primary channel: 36\n\t\t * secondary channel offset: above\n\
        \t\t * STA channel width: any\n\tVHT operation:\n\t\t * channel width: 1 (80 MHz)\n\
        \t\t * center freq segment 1: 42\n\t\t * center freq segment 2: 0\n\
        \tBSS Load:\n\t\t * station count: 3\n\t\t * channel utilisation: 57/255\n\
        BSS 02:00:00:00:02:00(on wlan0) -- associated\n\tfreq: 2437.0\n\tsignal: -71.-50 dBm\n\tSSID: \n\
        BSS 02:00:00:00:03:00(on wlan0)\n\tfreq: 5240\n\tsignal: -60.00 dBm\n\tSSID: \\x00\\x00\n\
        \tHT operation:\n\t\t * secondary channel offset: below\n";

    #[test]
    fn networks_have_edges_and_load() {
        let all = parse(TEXT);
        assert_eq!(all.len(), 3);
        assert_eq!(
            all[0],
            Network {
                ssid: Ssid::new("office "),
                frequency: Frequency(5180),
                signal: -48,
                edges: (5170, 5250),
                utilisation: Some(57),
            }
        );
        let second = (&all[1].ssid, all[1].signal, all[1].edges);
        assert_eq!(second, (&None, -71, (2427, 2447)));
        let third = (&all[2].ssid, all[2].edges, all[2].utilisation);
        assert_eq!(third, (&None, (5210, 5250), None));
    }

    #[test]
    fn names_are_unescaped_once() {
        for (text, name) in [
            ("caf\\xc3\\xa9", Some("café")),
            ("\\x5cx41", Some("\\x41")),
            ("\\xzz\\", Some("\\xzz\\")),
            ("\\x\u{e9}a", Some("\\x\u{e9}a")),
            ("", None),
        ] {
            assert_eq!(ssid(text), name.and_then(Ssid::new), "{text}");
        }
        assert_eq!(ssid(&"x".repeat(33)), None);
    }

    #[test]
    fn a_hostile_network_is_one_of_many_and_no_more() {
        // `iw` prints the texts of WPS unchanged.
        let hostile = "BSS 02:00:00:00:04:00(on wlan0)\n\tfreq: 5180\n\tsignal: 99999999999.0 dBm\n\tSSID: a\n\
            \tWPS:\t * Version: 1.0\n\t\t * Manufacturer: x\nBSS 00:00:00:00:00:00(on wlan0)\n\tfreq: 4294967295\n\
            \tsignal: 2000.00 dBm\n";
        let all = parse(hostile);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].signal, CCA_THRESHOLD);
        let many =
            "BSS 02:00:00:00:05:00(on wlan0)\n\tfreq: 5180\n\tsignal: 2000.00 dBm\n".repeat(5000);
        let all = parse(&many);
        assert_eq!(all.len(), MAX_NETWORKS);
        assert_eq!(all[0].signal, SIGNALS.1);
    }

    proptest! {
        #[test]
        fn any_text_is_read(
            text in "(BSS a\n|\tfreq: [0-9]{1,10}\n|\t\\* (channel width|center freq segment 1): [0-9]{1,10}\n|\\PC{0,40}\n){0,60}"
        ) {
            for network in parse(&text) {
                prop_assert!(network.edges.0 < network.edges.1);
                prop_assert!(network.frequency.band().is_some());
            }
        }

        #[test]
        fn names_of_iw_are_those_of_the_network(bytes in prop::collection::vec(any::<u8>(), 1..=32)) {
            // Escapes the name like `print_ssid_escaped` of `iw`.
            let last = bytes.len() - 1;
            let written: String = bytes.iter().enumerate().map(|(n, byte)| match byte {
                b' ' if n != 0 && n != last => " ".to_owned(),
                33..=126 if *byte != b'\\' => char::from(*byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            }).collect();
            let hidden = bytes.iter().all(|byte| *byte == 0);
            prop_assert_eq!(ssid(&written), Ssid::new(bytes).filter(|_| !hidden));
        }
    }
}
