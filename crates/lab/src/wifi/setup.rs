//! What a network is: its radios, stations, queues and rules of access.

use super::air::Air;
use super::rate::RateRule;
use super::timing::{Radio, Timing};
use super::{Impossible, MICROSECOND, Nanos};

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// From the access point.
    Down,
    /// To the access point.
    Up,
}

/// The access categories of EDCA, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// AC_VO.
    Voice,
    /// AC_VI.
    Video,
    /// AC_BE.
    BestEffort,
    /// AC_BK.
    Background,
}

impl Category {
    /// All of them, the most urgent first.
    pub const ALL: [Category; 4] = [
        Category::Voice,
        Category::Video,
        Category::BestEffort,
        Category::Background,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Category::Voice => "voice",
            Category::Video => "video",
            Category::BestEffort => "best-effort",
            Category::Background => "background",
        }
    }
}

/// How a queue gets at the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The slots in the pause before backoff counts down, beside a SIFS.
    pub aifsn: u8,
    /// Backoff is at most so many slots at first.
    pub cw_min: u32,
    /// And after many collisions.
    pub cw_max: u32,
    /// How long one access may last; `None`: one PPDU, as long as that may be.
    pub txop: Option<Nanos>,
}

/// Access by category, for the access point and for stations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edca {
    /// In the order of [`Category::ALL`].
    pub access_point: [Access; 4],
    /// Likewise.
    pub station: [Access; 4],
}

impl Edca {
    /// The same for all: no category is preferred.
    #[must_use]
    pub fn uniform(cw_min: u32, cw_max: u32) -> Edca {
        let all = Access {
            aifsn: 2,
            cw_min,
            cw_max,
            txop: None,
        };
        Edca {
            access_point: [all; 4],
            station: [all; 4],
        }
    }

    /// What access points are delivered with (the comments in hostapd.conf, after table 9-155 of the
    /// standard).
    #[must_use]
    pub fn standard() -> Edca {
        let access = |aifsn, cw_min, cw_max, txop: Option<u64>| Access {
            aifsn,
            cw_min,
            cw_max,
            txop: txop.map(|units| units * 32 * MICROSECOND),
        };
        let background = access(7, 15, 1023, None);
        Edca {
            access_point: [
                access(1, 3, 7, Some(47)),
                access(1, 7, 15, Some(94)),
                access(3, 15, 63, None),
                background,
            ],
            station: [
                access(2, 3, 7, Some(47)),
                access(2, 7, 15, Some(94)),
                access(3, 15, 1023, None),
                background,
            ],
        }
    }
}

/// When a packet counts as delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// As soon as its own MPDU is through, whatever is missing before it.
    PerMpdu,
    /// Behind all that were sent before it, as a receiver hands packets to its applications.
    InOrder,
}

/// From when on an MPDU that came through is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// When the acknowledgement has ended, as the study counts.
    Acknowledged,
    /// When its own last bit is there.
    OwnEnd,
}

/// One station.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// What is lost on its way, both ways.
    pub air: Air,
    /// How its rate is chosen, both ways.
    pub rate: RateRule,
}

/// A network.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The radios.
    pub radio: Radio,
    /// Other durations than those of the radios.
    pub timing: Option<Timing>,
    /// The stations.
    pub stations: Vec<Station>,
    /// How queues get at the channel.
    pub edca: Edca,
    /// A PPDU with more bytes than this is announced by RTS and CTS; `None`: none is.
    pub rts_above: Option<u32>,
    /// MPDUs in a PPDU at most, and under way at a time.
    pub max_ampdu: u32,
    /// How often an MPDU is sent again before it is given up, and an RTS.
    pub retry_limit: u8,
    /// Packets that wait at the access point at most, for all stations together.
    pub access_point_buffer: usize,
    /// Packets that wait at a station at most.
    pub station_buffer: usize,
    /// In which order packets are delivered.
    pub delivery: Delivery,
    /// And when.
    pub moment: Moment,
    /// Backoff grows, as after a collision, where nothing of a PPDU came through.
    pub backs_off_when_all_lost: bool,
    /// The access point sends to several stations at once, in parts of the channel.
    pub ofdma: bool,
}

impl Setup {
    /// One station, with the parameters of the study (its table 4).
    #[must_use]
    pub fn paper() -> Setup {
        Setup {
            radio: Radio::default(),
            timing: None,
            stations: vec![Station {
                air: Air::losing(0.1),
                rate: RateRule::Fixed,
            }],
            edca: Edca::uniform(31, 1023),
            rts_above: Some(0),
            max_ampdu: 256,
            retry_limit: 7,
            access_point_buffer: 1000,
            station_buffer: 150,
            delivery: Delivery::PerMpdu,
            moment: Moment::Acknowledged,
            backs_off_when_all_lost: false,
            ofdma: false,
        }
    }

    /// How long things take in it.
    ///
    /// # Errors
    /// If no such network can be.
    pub fn timing(&self) -> Result<Timing, Impossible> {
        let impossible = |what: &str| Err(Impossible(what.to_owned()));
        let timing = match &self.timing {
            Some(timing) => timing.clone(),
            None => self.radio.timing()?,
        };
        if self.stations.is_empty() {
            return impossible("a network without stations has no traffic: stations is at least 1");
        }
        if self.stations.len() > MAX_STATIONS {
            return Err(Impossible(format!(
                "{} stations: there is room for {MAX_STATIONS}",
                self.stations.len()
            )));
        }
        if self.max_ampdu == 0 {
            return impossible("a PPDU without a packet: max-ampdu is at least 1");
        }
        if self.access_point_buffer == 0 || self.station_buffer == 0 {
            return impossible(
                "a queue in which nothing may wait sends nothing: at least 1 packet",
            );
        }
        let windows = self.edca.access_point.iter().chain(&self.edca.station);
        for access in windows {
            if access.cw_min > access.cw_max || access.cw_max > 32_767 {
                return Err(Impossible(format!(
                    "contention windows {} to {}: the first is at most the second, that at most \
                     32767",
                    access.cw_min, access.cw_max
                )));
            }
        }
        for station in &self.stations {
            station.air.check()?;
        }
        Ok(timing)
    }
}

/// Stations of one network at most: as many as a real access point speaks with at a time.
pub const MAX_STATIONS: usize = 128;
