//! Channels: their numbers, frequencies and bonded blocks.
//!
//! Spec: IEEE 802.11-2020, 19.3.15 (numbers), 21.3.14 (blocks of 40 and 80 MHz), Annex E (operating classes).

use std::fmt;
use std::str::FromStr;

/// A frequency band.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Band {
    /// 2.4 GHz.
    Ghz2_4,
    /// 5 GHz.
    Ghz5,
    /// 6 GHz.
    Ghz6,
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Band::Ghz2_4 => "2.4",
            Band::Ghz5 => "5",
            Band::Ghz6 => "6",
        })
    }
}

impl FromStr for Band {
    type Err = String;

    fn from_str(text: &str) -> Result<Band, String> {
        let all = [Band::Ghz2_4, Band::Ghz5, Band::Ghz6];
        let found = all.into_iter().find(|band| band.to_string() == text);
        found.ok_or_else(|| "expected 2.4, 5 or 6 (GHz)".to_owned())
    }
}

/// The signal in dBm above which a station waits for the end of a transmission (IEEE 802.11-2020, 17.3.10.6: minimum
/// sensitivity of a receiver at a width of 20 MHz).
pub const CCA_THRESHOLD: i32 = -82;

/// The centre of a channel of 20 MHz, in MHz.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Frequency(pub u32);

impl Frequency {
    /// The frequency of a channel; `None` if the number is outside the band.
    #[must_use]
    pub fn of_channel(band: Band, number: u32) -> Option<Frequency> {
        let mhz = match (band, number) {
            (Band::Ghz2_4, 1..=13) => 2407 + 5 * number,
            (Band::Ghz2_4, 14) => 2484,
            (Band::Ghz5, 32..=177) => 5000 + 5 * number,
            (Band::Ghz6, 1..=233) => 5950 + 5 * number,
            _ => return None,
        };
        Some(Frequency(mhz))
    }

    /// The band of the channel; `None` if the frequency is outside the three bands.
    #[must_use]
    pub fn band(self) -> Option<Band> {
        match self.0 {
            2401..=2495 => Some(Band::Ghz2_4),
            5150..=5895 => Some(Band::Ghz5),
            5945..=7125 => Some(Band::Ghz6),
            _ => None,
        }
    }

    /// The number of the channel; `None` if the frequency is outside the channels of the three bands.
    #[must_use]
    pub fn channel(self) -> Option<u32> {
        Some(match self.band()? {
            Band::Ghz2_4 if self.0 == 2484 => 14,
            Band::Ghz2_4 => self.0.checked_sub(2407)? / 5,
            Band::Ghz5 => (self.0 - 5000) / 5,
            Band::Ghz6 => self.0.checked_sub(5950)? / 5,
        })
    }
}

/// The width of a block of channels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Width {
    /// One channel.
    Mhz20,
    /// Two channels.
    Mhz40,
    /// Four channels.
    Mhz80,
}

impl Width {
    /// All widths, the widest first.
    pub const ALL: [Width; 3] = [Width::Mhz80, Width::Mhz40, Width::Mhz20];

    /// The width in MHz.
    #[must_use]
    pub const fn mhz(self) -> u32 {
        match self {
            Width::Mhz20 => 20,
            Width::Mhz40 => 40,
            Width::Mhz80 => 80,
        }
    }
}

impl FromStr for Width {
    type Err = String;

    fn from_str(text: &str) -> Result<Width, String> {
        let found = (Width::ALL.into_iter()).find(|width| width.mhz().to_string() == text);
        found.ok_or_else(|| "expected 20, 40 or 80 (MHz)".to_owned())
    }
}

/// A block of adjacent channels, with its primary channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block {
    band: Band,
    primary: Frequency,
    width: Width,
    /// The lowest channel of the block.
    lowest: Frequency,
}

impl Block {
    /// The block of this width around a primary channel; `None` if there is none. Blocks lie at fixed frequencies. The
    /// 2.4 GHz band has room for only three networks of 20 MHz, so all its blocks are 20 MHz wide here.
    #[must_use]
    pub fn new(primary: Frequency, width: Width) -> Option<Block> {
        let (band, number) = (primary.band()?, primary.channel()?);
        // The first and the last channel of the part of the band that contains the primary channel. Blocks are counted
        // from the first one.
        let (first, last) = match (band, number) {
            (Band::Ghz2_4, _) => (number, number),
            (Band::Ghz5, 32) => (32, 32),
            (Band::Ghz5, 36..=64) => (36, 64),
            (Band::Ghz5, 68..=96) => (68, 96),
            (Band::Ghz5, 100..=144) => (100, 144),
            (Band::Ghz5, 149..=177) => (149, 177),
            (Band::Ghz6, 1..=233) => (1, 233),
            _ => return None,
        };
        let (index, rest) = ((number - first) / 4, (number - first) % 4);
        let count = width.mhz() / 20;
        let lowest = first + 4 * (index - index % count);
        let highest = lowest + 4 * (count - 1);
        let there = rest == 0 && highest <= last;
        there.then_some(Block {
            band,
            primary,
            width,
            lowest: Frequency::of_channel(band, lowest)?,
        })
    }

    /// The band of the block.
    #[must_use]
    pub fn band(&self) -> Band {
        self.band
    }

    /// The primary channel, which beacons use.
    #[must_use]
    pub fn primary(&self) -> Frequency {
        self.primary
    }

    /// The number of the primary channel.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.primary.channel().unwrap_or_default()
    }

    /// The width of the block.
    #[must_use]
    pub fn width(&self) -> Width {
        self.width
    }

    /// The channels of 20 MHz in the block, from low to high.
    pub fn channels(&self) -> impl Iterator<Item = Frequency> + use<> {
        let lowest = self.lowest.0;
        (0..self.width.mhz() / 20).map(move |n| Frequency(lowest + 20 * n))
    }

    /// The channel number of the centre of the block.
    #[must_use]
    pub fn centre_number(&self) -> u32 {
        let lowest = self.lowest.channel().unwrap_or_default();
        lowest + 2 * (self.width.mhz() / 20 - 1)
    }

    /// Whether the primary channel is the lower channel of its pair of 20 MHz channels.
    #[must_use]
    pub fn extends_upwards(&self) -> bool {
        self.channels()
            .step_by(2)
            .any(|lower| lower == self.primary)
    }

    /// The lower and upper edges of the block in MHz.
    #[must_use]
    pub fn edges(&self) -> (u32, u32) {
        let low = self.lowest.0 - 10;
        (low, low + self.width.mhz())
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, mhz, width) = (self.number(), self.primary.0, self.width.mhz());
        write!(f, "channel {number} ({mhz} MHz, {width} MHz wide)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(band: Band, number: u32, width: Width) -> Option<Block> {
        Block::new(Frequency::of_channel(band, number)?, width)
    }

    #[test]
    fn numbers_and_frequencies_agree() {
        for (band, number, mhz) in [
            (Band::Ghz2_4, 1, 2412),
            (Band::Ghz2_4, 13, 2472),
            (Band::Ghz2_4, 14, 2484),
            (Band::Ghz5, 36, 5180),
            (Band::Ghz5, 165, 5825),
            (Band::Ghz5, 177, 5885),
            (Band::Ghz6, 1, 5955),
            (Band::Ghz6, 233, 7115),
        ] {
            let frequency = Frequency::of_channel(band, number).unwrap();
            assert_eq!(frequency, Frequency(mhz));
            assert_eq!(
                (frequency.band(), frequency.channel()),
                (Some(band), Some(number))
            );
        }
        for outside in [0, 2400, 2500, 4900, 5935, 60_480, u32::MAX] {
            assert_eq!(Frequency(outside).band(), None);
        }
    }

    #[test]
    fn blocks_lie_at_the_frequencies_of_the_standard() {
        for (number, centre, up) in [
            (36, 42, true),
            (40, 42, false),
            (48, 42, false),
            (52, 58, true),
            (100, 106, true),
            (144, 138, false),
            (149, 155, true),
            (161, 155, false),
        ] {
            let block = block(Band::Ghz5, number, Width::Mhz80).unwrap();
            assert_eq!(block.centre_number(), centre, "{block}");
            assert_eq!(block.extends_upwards(), up, "{block}");
            assert!(block.channels().any(|channel| channel == block.primary()));
        }
        assert_eq!(
            block(Band::Ghz5, 40, Width::Mhz40).unwrap().centre_number(),
            38
        );
        assert_eq!(
            block(Band::Ghz6, 5, Width::Mhz80).unwrap().centre_number(),
            7
        );
        assert_eq!(
            block(Band::Ghz5, 36, Width::Mhz80).unwrap().edges(),
            (5170, 5250)
        );
        assert_eq!(
            block(Band::Ghz2_4, 6, Width::Mhz20).unwrap().edges(),
            (2427, 2447)
        );
    }

    #[test]
    fn other_blocks_do_not_exist() {
        for (band, number, width) in [
            (Band::Ghz2_4, 6, Width::Mhz40),
            (Band::Ghz5, 38, Width::Mhz20),
            (Band::Ghz5, 32, Width::Mhz40),
            (Band::Ghz5, 181, Width::Mhz20),
            (Band::Ghz6, 3, Width::Mhz20),
            (Band::Ghz6, 233, Width::Mhz40),
        ] {
            assert_eq!(block(band, number, width), None, "{band} {number}");
        }
        // Channel 165 is the lowest channel of an 80 MHz block, which ends with channel 177.
        assert!(block(Band::Ghz5, 165, Width::Mhz80).is_some());
    }

    #[test]
    fn each_block_contains_its_primary_channel() {
        for band in [Band::Ghz2_4, Band::Ghz5, Band::Ghz6] {
            for number in 0..=300 {
                for width in Width::ALL {
                    let Some(block) = block(band, number, width) else {
                        continue;
                    };
                    let channels: Vec<Frequency> = block.channels().collect();
                    assert_eq!(channels.len() * 20, width.mhz() as usize);
                    assert!(channels.contains(&block.primary()));
                    let (low, high) = block.edges();
                    let middle = Frequency::of_channel(band, block.centre_number());
                    assert!(band == Band::Ghz2_4 || middle.unwrap().0 == (low + high) / 2);
                }
            }
        }
    }
}
