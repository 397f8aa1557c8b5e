//! `iw phy PHY info`: the abilities of a card.
//!
//! ```text
//! Wiphy phy0
//!         Supported Ciphers:
//!                 * CMAC (00-0f-ac:6)
//!         Supported interface modes:
//!                  * managed
//!                  * AP
//!         Band 2:
//!                 Capabilities: 0x19ff
//!                         RX LDPC
//!                         HT20/HT40
//!                         RX HT40 SGI
//!                 VHT Capabilities (0x338ab9b2):
//!                         short GI (80 MHz)
//!                 HE Iftypes: managed, AP
//!         valid interface combinations:
//!                  * #{ managed, AP } <= 8,
//!                    total <= 8, #channels <= 1, radar detect widths: { 20 MHz (no HT), 20 MHz, 40 MHz }
//! ```

use std::collections::BTreeMap;

use super::word_behind;
use crate::channel::{Band, Width};

/// The abilities of a card.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Phy {
    /// Whether the card can be an access point.
    pub access_point: bool,
    /// Whether the card protects management frames, as WPA3 requires (IEEE 802.11w).
    pub protects_management: bool,
    /// The widths at which the card detects radar.
    pub radar_widths: Vec<Width>,
    /// The abilities of the card in each band that it supports.
    pub bands: BTreeMap<Band, Abilities>,
}

/// Abilities in one band.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Abilities {
    /// 802.11n.
    pub ht: bool,
    /// 802.11ac.
    pub vht: bool,
    /// 802.11ax as an access point.
    pub he: bool,
    /// Low-density parity-check codes, for 802.11n and 802.11ac.
    pub ldpc: [bool; 2],
    /// Short guard intervals at each width, narrowest first.
    pub short_guard: [bool; 3],
}

/// The part of the output in which a line lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Other,
    Modes,
    Band(Band),
    Combinations,
}

/// Reads the abilities.
#[must_use]
pub fn parse(text: &str) -> Phy {
    let mut phy = Phy::default();
    let mut section = Section::Other;
    // Whether the lines describe 802.11ac, which repeats words of 802.11n.
    let mut vht = false;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if indent <= 1 {
            vht = false;
            section = match line {
                "Supported interface modes:" => Section::Modes,
                "valid interface combinations:" => Section::Combinations,
                _ => match word_behind(line, "Band ").map(|word| word.trim_end_matches(':')) {
                    Some("1") => Section::Band(Band::Ghz2_4),
                    Some("2") => Section::Band(Band::Ghz5),
                    Some("4") => Section::Band(Band::Ghz6),
                    _ => Section::Other,
                },
            };
            if let Section::Band(band) = section {
                phy.bands.entry(band).or_default();
            }
            continue;
        }
        phy.protects_management |= line.starts_with("* CMAC ");
        match section {
            Section::Modes => phy.access_point |= line == "* AP",
            Section::Combinations => add_radar_widths(&mut phy.radar_widths, line),
            Section::Band(band) => {
                let abilities = phy.bands.entry(band).or_default();
                if line.starts_with("VHT Capabilities") {
                    (abilities.vht, vht) = (true, true);
                } else if let Some(kinds) = line.strip_prefix("HE Iftypes:") {
                    abilities.he |= kinds.split(',').any(|kind| kind.trim() == "AP");
                    vht = false;
                } else if line.starts_with("Frequencies") {
                    vht = false;
                }
                match line {
                    "HT20" | "HT20/HT40" => abilities.ht = true,
                    "RX LDPC" => abilities.ldpc[usize::from(vht)] = true,
                    "RX HT20 SGI" => abilities.short_guard[0] = true,
                    "RX HT40 SGI" => abilities.short_guard[1] = true,
                    "short GI (80 MHz)" => abilities.short_guard[2] = true,
                    _ => {}
                }
            }
            Section::Other => {}
        }
    }
    phy
}

/// Adds the widths of a line such as `total <= 8, #channels <= 1, radar detect widths: { 20 MHz (no HT), 20 MHz }`.
fn add_radar_widths(widths: &mut Vec<Width>, line: &str) {
    let list = line.split_once("radar detect widths: {");
    let list = list.and_then(|(_, rest)| rest.split('}').next());
    for one in list.unwrap_or_default().split(',') {
        let width = one.trim().strip_suffix(" MHz").map(str::parse);
        if let Some(Ok(width)) = width
            && !widths.contains(&width)
        {
            widths.push(width);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "Wiphy phy0\n\twiphy index: 0\n\tSupported Ciphers:\n\t\t* CCMP-128 (00-0f-ac:4)\n\
        \t\t* CMAC (00-0f-ac:6)\n\tAvailable Antennas: TX 0 RX 0\n\tSupported interface modes:\n\t\t * managed\n\
        \t\t * AP\n\t\t * AP/VLAN\n\tBand 1:\n\t\tCapabilities: 0x107e\n\t\t\tHT20/HT40\n\t\t\tRX HT20 SGI\n\
        \t\tFrequencies:\n\t\t\t* 2412 MHz [1] (20.0 dBm)\n\tBand 2:\n\t\tCapabilities: 0x107e\n\t\t\tRX LDPC\n\
        \t\t\tHT20/HT40\n\t\t\tRX HT20 SGI\n\t\t\tRX HT40 SGI\n\t\tVHT Capabilities (0x03d071b2):\n\
        \t\t\tshort GI (80 MHz)\n\t\tHE Iftypes: managed, AP\n\t\t\tHE MAC Capabilities (0x0):\n\
        \tsoftware interface modes (can always be added):\n\t\t * monitor\n\tvalid interface combinations:\n\
        \t\t * #{ managed, AP } <= 8, #{ P2P-device } <= 1,\n\
        \t\t   total <= 8, #channels <= 1, STA/AP BI must match, \
        radar detect widths: { 20 MHz (no HT), 20 MHz, 40 MHz, 80 MHz, 160 MHz }\n";

    #[test]
    fn abilities_are_read_by_band() {
        let phy = parse(TEXT);
        assert!(phy.access_point && phy.protects_management);
        assert_eq!(phy.radar_widths, [Width::Mhz20, Width::Mhz40, Width::Mhz80]);
        let two = phy.bands[&Band::Ghz2_4];
        assert!(two.ht && !two.vht && !two.he);
        let five = phy.bands[&Band::Ghz5];
        assert!(five.ht && five.vht && five.he);
        assert_eq!(five.ldpc, [true, false]);
        assert_eq!(five.short_guard, [true; 3]);
        assert_eq!(phy.bands.len(), 2);
    }

    #[test]
    fn a_card_of_clients_is_no_access_point() {
        let phy = parse(
            &TEXT
                .replace("\t\t * AP\n", "")
                .replace("\t\t* CMAC", "\t\t* X"),
        );
        assert!(!phy.access_point && !phy.protects_management);
        assert_eq!(parse(""), Phy::default());
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(\t{0,3}\\PC{0,30}\n){0,60}") {
            prop_assert!(parse(&text).radar_widths.len() <= 3);
        }
    }
}
