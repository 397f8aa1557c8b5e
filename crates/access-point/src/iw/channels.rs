//! `iw phy PHY channels`: the channels of a card, with the rules of its country.
//!
//! ```text
//! Band 2:
//!         * 5180 MHz [36]
//!           Maximum TX power: 23.0 dBm
//!           Channel widths: 20MHz HT40+ VHT80
//!         * 5260 MHz [52]
//!           Maximum TX power: 20.0 dBm
//!           Radar detection
//!           Channel widths: 20MHz HT40+ VHT80
//!           DFS state: usable (for 17 sec)
//!           DFS CAC time: 60000 ms
//!         * 5905 MHz [181] (disabled)
//! ```
//! "No IR" means that an access point must not use the channel: only clients of another access point may transmit on
//! it.

use std::time::Duration;

use super::{frequency, word_behind};
use crate::channel::{Block, Frequency, Width};

/// Maximum number of channels of a card. The three bands have 111.
const MAX_CHANNELS: usize = 256;

/// Maximum duration of a check for radar. The weather channels of Europe need 10 minutes (ETSI EN 301 893, table D.1).
const LONGEST_CHECK: Duration = Duration::from_secs(1200);

/// A channel of 20 MHz.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// The channel's frequency.
    pub frequency: Frequency,
    /// Whether an access point may transmit on the channel at all.
    pub permits_access_points: bool,
    /// How long the access point must listen for radar before it transmits; `None` if no check is required.
    pub radar_check: Option<Duration>,
    /// Whether a block of 40 MHz may extend downwards (first value) and upwards (second value).
    pub pairs: [bool; 2],
    /// Whether a block of 80 MHz may contain the channel.
    pub in_80_mhz: bool,
}

impl Channel {
    /// Whether the channel may be part of this block, as its primary channel or as another one.
    #[must_use]
    pub fn permits(&self, block: &Block) -> bool {
        // Each channel of the block is the lower or the upper one of a pair.
        let upwards = (block.channels().position(|one| one == self.frequency))
            .is_some_and(|position| position % 2 == 0);
        let pair = self.pairs[usize::from(upwards)];
        self.permits_access_points
            && match block.width() {
                Width::Mhz20 => true,
                Width::Mhz40 => pair,
                Width::Mhz80 => pair && self.in_80_mhz,
            }
    }
}

/// Reads the channels.
#[must_use]
pub fn parse(text: &str) -> Vec<Channel> {
    let mut channels: Vec<Channel> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("* ") {
            if channels.len() >= MAX_CHANNELS {
                break;
            }
            let mhz = rest
                .split_once(" MHz [")
                .and_then(|(mhz, _)| frequency(mhz));
            let Some(frequency) = mhz else {
                continue;
            };
            channels.push(Channel {
                frequency,
                permits_access_points: !rest.contains("(disabled)"),
                radar_check: None,
                pairs: [false; 2],
                in_80_mhz: false,
            });
            continue;
        }
        let Some(channel) = channels.last_mut() else {
            continue;
        };
        match line {
            "No IR" | "Passive scan" | "No IBSS" => {
                channel.permits_access_points = false;
            }
            "Radar detection" => {
                // A default, which the line with the time replaces.
                channel.radar_check = Some(Duration::from_secs(60));
            }
            _ if let Some(widths) = line.strip_prefix("Channel widths:") => {
                let has = |wanted: &str| widths.split_whitespace().any(|width| width == wanted);
                channel.pairs = [has("HT40-"), has("HT40+")];
                channel.in_80_mhz = has("VHT80");
            }
            _ if let Some(time) = word_behind(line, "DFS CAC time: ") => {
                let time = time.parse().ok().map(Duration::from_millis);
                if let (Some(check), Some(time)) = (&mut channel.radar_check, time) {
                    *check = time.min(LONGEST_CHECK);
                }
            }
            _ => {}
        }
    }
    channels
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "Band 1:\n\t* 2412 MHz [1] \n\t  Maximum TX power: 20.0 dBm\n\t  Channel widths: 20MHz HT40+\n\
        \t* 2484 MHz [14] (disabled)\nBand 2:\n\t* 5180.0 MHz [36] \n\t  Maximum TX power: 23.0 dBm\n\
        \t  Channel widths: 20MHz HT40+ VHT80 VHT160\n\t* 5200 MHz [40] \n\t  No IR\n\t  Channel widths: 20MHz HT40- VHT80\n\
        \t* 5600 MHz [120] \n\t  Radar detection\n\t  Channel widths: 20MHz HT40- VHT80\n\
        \t  DFS state: usable (for 17 sec)\n\t  DFS CAC time: 600000 ms\n";

    #[test]
    fn channels_have_the_rules_of_the_country() {
        let channels = parse(TEXT);
        let of = |mhz| *channels.iter().find(|c| c.frequency.0 == mhz).unwrap();
        assert_eq!(channels.len(), 5);
        assert!(of(2412).permits_access_points && !of(2484).permits_access_points);
        assert_eq!(of(5180).pairs, [false, true]);
        assert!(of(5180).in_80_mhz && !of(2412).in_80_mhz);
        assert!(!of(5200).permits_access_points);
        assert!(of(5600).permits_access_points);
        assert_eq!(of(5600).radar_check, Some(Duration::from_secs(600)));
    }

    #[test]
    fn a_block_needs_its_width_at_each_channel() {
        let channel = parse(TEXT)[2];
        let block = |width| Block::new(Frequency(5180), width).unwrap();
        assert!(channel.permits(&block(Width::Mhz80)));
        let no_80 = Channel {
            in_80_mhz: false,
            ..channel
        };
        assert!(no_80.permits(&block(Width::Mhz40)) && !no_80.permits(&block(Width::Mhz80)));
        let alone = Channel {
            pairs: [true, false],
            ..channel
        };
        assert!(alone.permits(&block(Width::Mhz20)) && !alone.permits(&block(Width::Mhz40)));
    }

    proptest! {
        #[test]
        fn any_text_has_bounded_channels(text in "(\t\\* [0-9]{1,9} MHz \\[[0-9]\\]\n|\\PC{0,20}\n){0,300}") {
            prop_assert!(parse(&text).len() <= MAX_CHANNELS);
        }
    }
}
