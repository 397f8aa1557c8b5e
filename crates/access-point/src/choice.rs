//! Selects the channel with the least interference, as in the OpenUVR paper.
//!
//! The user lists the bands in order of preference; the first band that has a permitted channel is used. Within this
//! band, the width is the largest one that the card, the country and the user permit. It is at most 80 MHz, the paper's
//! width. Among the blocks of that width, the one with the largest expected share of free time is used:
//!
//! ```text
//! free = (1 − measured) · Π (1 − share(network))        over the networks that overlap the block
//! ```
//! - *measured*: the use of the block's busiest channel, according to the card's survey or to an access point's report.
//! - *share*: the share of the time that a network is expected to use in the future. A measurement of about 100 ms does
//!   not show it. If the signal of a network is so strong that stations here must wait for the network's transmissions,
//!   its share counts fully. A weaker network counts less, in proportion to its signal in dB above the noise.
//!
//! A network counts once, however wide it is, because its transmissions occupy all of its channels at once. A
//! transmission needs the whole block: if one of its channels is busy, the transmission waits or uses a smaller width.

use std::fmt;
use std::time::Duration;

use crate::channel::{Band, Block, CCA_THRESHOLD, Frequency, Width};
use crate::iw::channels::Channel;
use crate::iw::phy::{Abilities, Phy};
use crate::iw::scan::Network;
use crate::iw::survey::Survey;

/// The signal in dBm that counts as noise: thermal noise in 20 MHz, −101 dBm, plus a noise figure of 6 dB (guess).
const NOISE: i32 = -95;

/// The share of the time that a network is expected to use (guess: it carries a video stream all the time, or much more
/// data for some of the time).
const USUAL_SHARE: f64 = 0.1;

/// The channels of 2.4 GHz that do not overlap.
const SEPARATE: [u32; 3] = [1, 6, 11];

/// The channels that the user permits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The bands, in order of preference.
    pub bands: Vec<Band>,
    /// The number of the primary channel; `None` means any.
    pub channel: Option<u32>,
    /// The maximum width.
    pub widest: Width,
    /// Whether channels that are shared with radar are permitted. They are checked for radar before their use.
    pub radar: bool,
}

/// The networks and measurements around the card.
#[derive(Clone, Copy, Debug)]
pub struct Air<'a> {
    /// The networks.
    pub networks: &'a [Network],
    /// The measured use, if known.
    pub survey: &'a [Survey],
}

/// A block of channels, and its interference.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// The block.
    pub block: Block,
    /// The duration of the check for radar before the block is used; `None` if it needs no check.
    pub radar_check: Option<Duration>,
    /// The block's interference.
    pub interference: Interference,
}

/// The interference of a block.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Interference {
    /// The share of the time in which the block is expected to be busy, 0 to 1.
    pub busy: f64,
    /// The measured use of the block's busiest channel, 0 to 1; `None` if there is no measurement.
    pub measured: Option<f64>,
    /// The number of networks that overlap the block.
    pub networks: usize,
    /// The signal of the strongest of these networks, in dBm.
    pub strongest: Option<i32>,
    /// The sum of the signals of these networks in mW, for the choice between equally busy blocks.
    power: f64,
    /// The share of the time in which the primary channel by itself is expected to be busy.
    primary: f64,
}

impl fmt::Display for Interference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.networks, self.strongest) {
            (0, _) | (_, None) => write!(f, "no other network")?,
            (1, Some(signal)) => write!(f, "1 other network at {signal} dBm")?,
            (count, Some(signal)) => {
                write!(f, "{count} other networks, the strongest at {signal} dBm")?;
            }
        }
        match self.measured {
            Some(share) => write!(f, ", measured {:.0} % busy", 100.0 * share),
            None => write!(f, ", busy time not measured"),
        }
    }
}

/// Why there is no channel. Each message is one line with a remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoChannel {
    /// The card lacks the bands, or lacks 802.11ax, which the 6 GHz band requires.
    #[error(
        "the card can't be an access point at {0} GHz: choose other bands (--band), or use another card"
    )]
    Band(String),
    /// The radio rules permit access points on none of the channels.
    #[error(
        "the radio rules in force permit no access point at {0} GHz: set your country, as in --country DE, or choose \
         other bands (--band)"
    )]
    Forbidden(String),
    /// All permitted channels are shared with radar, and the user has not permitted such channels.
    #[error(
        "all permitted channels at {0} GHz are DFS channels (radar): permit them with --radar (the start then takes a \
         minute or more), or choose other bands with --band"
    )]
    Radar(String),
    /// All permitted channels are shared with radar, which the card cannot detect at any permitted width.
    #[error(
        "all permitted channels at {0} GHz are DFS channels (radar), and the card can't detect radar at a permitted \
         width: choose other bands (--band), or use another card"
    )]
    NoRadarDetection(String),
    /// The permitted channels are not among those that are selected without `--channel`.
    #[error(
        "none of the permitted channels at {0} GHz can be selected automatically (at 2.4 GHz, only 1, 6 and 11 can): \
         select a channel with --channel, or choose other bands with --band"
    )]
    OnlyManual(String),
    /// The specified channel is not permitted, or does not exist.
    #[error(
        "channel {0} is not possible with this card, country and options: choose one that `openuvr ap \
         --list-channels` lists, or leave \
         out --channel"
    )]
    Number(u32),
}

/// The permitted blocks in the first usable band, all of the maximum permitted width. The block with the least
/// interference comes first. There is at least one.
///
/// # Errors
/// [`NoChannel`] if there is none.
pub fn rank(
    channels: &[Channel],
    phy: &Phy,
    selection: &Selection,
    air: Air<'_>,
) -> Result<Vec<Candidate>, NoChannel> {
    for band in &selection.bands {
        for width in widths(selection) {
            let blocks = blocks(channels, phy, selection, *band, width);
            if blocks.is_empty() {
                continue;
            }
            let mut candidates: Vec<Candidate> = (blocks.into_iter())
                .map(|(block, radar_check)| Candidate {
                    block,
                    radar_check,
                    interference: interference(&block, air),
                })
                .collect();
            candidates.sort_by(|one, other| {
                let (a, b) = (&one.interference, &other.interference);
                (a.busy.total_cmp(&b.busy))
                    .then(a.primary.total_cmp(&b.primary))
                    .then(a.power.total_cmp(&b.power))
                    .then(one.radar_check.cmp(&other.radar_check))
                    .then(one.block.cmp(&other.block))
            });
            return Ok(candidates);
        }
    }
    Err(reason(channels, phy, selection))
}

/// The permitted widths, the widest first.
fn widths(selection: &Selection) -> impl Iterator<Item = Width> + use<> {
    let widest = selection.widest;
    (Width::ALL.into_iter()).filter(move |width| *width <= widest)
}

/// The card's abilities in this band; `None` if the card cannot be an access point in this band.
fn abilities(phy: &Phy, band: Band) -> Option<&Abilities> {
    // The 6 GHz band requires 802.11ax.
    (phy.bands.get(&band)).filter(|abilities| band != Band::Ghz6 || abilities.he)
}

/// The permitted blocks of a band and a width, each with the duration of its check for radar.
fn blocks(
    channels: &[Channel],
    phy: &Phy,
    selection: &Selection,
    band: Band,
    width: Width,
) -> Vec<(Block, Option<Duration>)> {
    let Some(abilities) = abilities(phy, band) else {
        return Vec::new();
    };
    let has = match (band, width) {
        (Band::Ghz6, _) | (_, Width::Mhz20) => true,
        (_, Width::Mhz40) => abilities.ht,
        (_, Width::Mhz80) => abilities.vht,
    };
    if !has {
        return Vec::new();
    }
    let of = |frequency: Frequency| channels.iter().find(|one| one.frequency == frequency);
    let block = |channel: &Channel| {
        let block = Block::new(channel.frequency, width)?;
        let separate = || band != Band::Ghz2_4 || SEPARATE.contains(&block.number());
        let selected = selection
            .channel
            .map_or_else(separate, |number| number == block.number());
        if block.band() != band || !selected {
            return None;
        }
        let mut check = None;
        for one in block.channels() {
            let channel = of(one).filter(|channel| channel.permits(&block))?;
            check = check.max(channel.radar_check);
        }
        let detects = selection.radar && phy.radar_widths.contains(&width);
        (check.is_none() || detects).then_some((block, check))
    };
    channels.iter().filter_map(block).collect()
}

/// The reason why [`rank`] finds nothing.
fn reason(channels: &[Channel], phy: &Phy, selection: &Selection) -> NoChannel {
    if let Some(number) = selection.channel {
        return NoChannel::Number(number);
    }
    let names = names(&selection.bands);
    let usable = |band: &Band| selection.bands.contains(band) && abilities(phy, *band).is_some();
    let mut there = (channels.iter())
        .filter(|one| one.frequency.band().as_ref().is_some_and(usable))
        .peekable();
    if there.peek().is_none() {
        return NoChannel::Band(names);
    }
    if !there.any(|channel| channel.permits_access_points) {
        return NoChannel::Forbidden(names);
    }
    // Obstacles are removed one after the other until there are blocks. The obstacle that was removed last is the
    // reason.
    let with_radar = Selection {
        radar: true,
        ..selection.clone()
    };
    let bands = bands_with_blocks(channels, phy, &with_radar);
    if !bands.is_empty() {
        return NoChannel::Radar(self::names(&bands));
    }
    let detecting = Phy {
        radar_widths: Width::ALL.to_vec(),
        ..phy.clone()
    };
    let bands = bands_with_blocks(channels, &detecting, &with_radar);
    if !bands.is_empty() {
        return NoChannel::NoRadarDetection(self::names(&bands));
    }
    NoChannel::OnlyManual(names)
}

/// The bands of the selection that have a permitted block.
fn bands_with_blocks(channels: &[Channel], phy: &Phy, selection: &Selection) -> Vec<Band> {
    let has_block = |band: &Band| {
        widths(selection).any(|width| !blocks(channels, phy, selection, *band, width).is_empty())
    };
    (selection.bands.iter().copied())
        .filter(has_block)
        .collect()
}

fn names(bands: &[Band]) -> String {
    let names: Vec<String> = bands.iter().map(Band::to_string).collect();
    names.join(", ")
}

/// The interference of a block.
#[must_use]
pub fn interference(block: &Block, air: Air<'_>) -> Interference {
    let overlapping = overlapping(block.edges(), air.networks);
    let reported = (overlapping.iter())
        .filter(|network| block.channels().any(|channel| channel == network.frequency))
        .filter_map(|network| network.utilisation)
        .map(|parts| f64::from(parts) / 255.0);
    let surveyed = (air.survey.iter())
        .filter(|survey| {
            block
                .channels()
                .any(|channel| channel == survey.frequency())
        })
        .filter_map(Survey::busy);
    let measured = reported.chain(surveyed).reduce(f64::max);
    let free = |networks: &[&Network]| -> f64 {
        networks
            .iter()
            .map(|network| 1.0 - share(network.signal))
            .product()
    };
    let (low, high) = (block.primary().0 - 10, block.primary().0 + 10);
    let power = |network: &&Network| 10_f64.powf(f64::from(network.signal) / 10.0);
    Interference {
        busy: 1.0 - (1.0 - measured.unwrap_or(0.0)) * free(&overlapping),
        measured,
        networks: overlapping.len(),
        strongest: overlapping.iter().map(|network| network.signal).max(),
        power: overlapping.iter().map(power).sum(),
        primary: 1.0 - free(&self::overlapping((low, high), air.networks)),
    }
}

fn overlapping((low, high): (u32, u32), networks: &[Network]) -> Vec<&Network> {
    let overlaps = |network: &&Network| network.edges.0 < high && low < network.edges.1;
    networks.iter().filter(overlaps).collect()
}

/// The share of the time for which a network with this signal is expected to keep this host from transmitting.
fn share(signal: i32) -> f64 {
    let above = f64::from(signal - NOISE) / f64::from(CCA_THRESHOLD - NOISE);
    USUAL_SHARE * above.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests;
