//! Parameters of a network: radios, stations, queues and channel access.

use super::air::Air;
use super::rate::RateRule;
use super::timing::{Profile, Radio, Timing};
use super::{Impossible, MICROSECOND, Nanos};

pub use openuvr_sim::medium::Direction;

/// The access categories of EDCA, from the most urgent to the least.
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
    /// All categories, from the most urgent to the least.
    pub const ALL: [Category; 4] = [
        Category::Voice,
        Category::Video,
        Category::BestEffort,
        Category::Background,
    ];

    /// The category's name.
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

/// Channel access parameters of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Number of slots that AIFS adds to a SIFS.
    pub aifsn: u8,
    /// Initial contention window, in slots.
    pub cw_min: u32,
    /// Maximum contention window, in slots.
    pub cw_max: u32,
    /// TXOP limit. `None` allows one PPDU of any permitted duration.
    pub txop: Option<Nanos>,
}

/// Channel access parameters by category, for the access point and for stations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edca {
    /// The access point's parameters, in the order of [`Category::ALL`].
    pub access_point: [Access; 4],
    /// The stations' parameters, in the same order.
    pub station: [Access; 4],
}

impl Edca {
    /// Equal parameters for all categories.
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

    /// The usual default parameters, from the comments in hostapd.conf, which follow table 9-155 of the standard.
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

/// Delivery order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A packet is delivered when its own MPDU arrives, regardless of gaps before it.
    PerMpdu,
    /// Packets are delivered in sending order, as a receiver passes them to its applications.
    InOrder,
}

/// Delivery time of a received MPDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryTime {
    /// The end of the acknowledgement, as in the study.
    Acknowledged,
    /// The MPDU's own last bit.
    OwnEnd,
}

/// One station.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// Losses on the station's channel, in both directions.
    pub air: Air,
    /// Rate control in both directions.
    pub rate: RateRule,
    /// Number of spatial streams in both directions. `None` means the number that the radios have.
    pub streams: Option<u8>,
}

/// A network.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The radios.
    pub radio: Radio,
    /// If set, these durations replace those of the radios.
    pub timing: Option<Timing>,
    /// The stations.
    pub stations: Vec<Station>,
    /// Channel access parameters.
    pub edca: Edca,
    /// RTS threshold in bytes. `None` means that RTS is never sent.
    pub rts_above: Option<u32>,
    /// Maximum number of MPDUs in a PPDU. It is also the block acknowledgement window.
    pub max_ampdu: u32,
    /// Retry limit of an MPDU, and of an RTS.
    pub retry_limit: u8,
    /// Maximum number of packets queued at the access point, for all stations together.
    pub access_point_buffer: usize,
    /// Whether each queue of the access point is managed by its own PIE (RFC 8033), which drops arriving packets.
    pub access_point_pie: bool,
    /// Maximum number of packets queued at a station.
    pub station_buffer: usize,
    /// Delivery order.
    pub delivery: Delivery,
    /// Delivery time.
    pub moment: DeliveryTime,
    /// Whether the contention window grows, as after a collision, if all MPDUs of a PPDU are lost.
    pub backs_off_when_all_lost: bool,
    /// Whether the access point sends to several stations in one PPDU (OFDMA).
    pub ofdma: bool,
}

impl Setup {
    /// A network with one station and the study's parameters (its table 4).
    #[must_use]
    pub fn paper() -> Setup {
        Setup {
            radio: Radio::default(),
            timing: None,
            stations: vec![Station {
                air: Air::losing(0.1),
                rate: RateRule::Fixed,
                streams: None,
            }],
            edca: Edca::uniform(31, 1023),
            rts_above: Some(0),
            max_ampdu: 256,
            retry_limit: 7,
            access_point_buffer: 1000,
            access_point_pie: false,
            station_buffer: 150,
            delivery: Delivery::PerMpdu,
            moment: DeliveryTime::Acknowledged,
            backs_off_when_all_lost: false,
            ofdma: false,
        }
    }

    /// Durations of the network's frames.
    ///
    /// # Errors
    /// Returns an error if the setup is impossible.
    pub fn timing(&self) -> Result<Timing, Impossible> {
        let impossible = |what: &str| Err(Impossible(what.to_owned()));
        let timing = match &self.timing {
            Some(timing) => timing.clone(),
            None => self.radio.timing()?,
        };
        if self.stations.is_empty() {
            return impossible(
                "a network without stations has no traffic: stations must be at least 1",
            );
        }
        if self.stations.len() > MAX_STATIONS {
            return Err(Impossible(format!(
                "{} stations: must be at most {MAX_STATIONS}",
                self.stations.len()
            )));
        }
        if self.ofdma && self.radio.profile == Profile::VhtSu {
            return impossible("802.11ac has no OFDMA: ofdma=on needs profile=he-su or eht-su");
        }
        if self.max_ampdu == 0 {
            return impossible("max-ampdu=0: must be at least 1");
        }
        if self.access_point_buffer == 0 || self.station_buffer == 0 {
            return impossible("ap-buffer and station-buffer must be at least 1");
        }
        let windows = self.edca.access_point.iter().chain(&self.edca.station);
        for access in windows {
            if access.cw_min > access.cw_max || access.cw_max > 32_767 {
                return Err(Impossible(format!(
                    "contention window {} to {}: cw-min must be at most cw-max, and cw-max at most 32767",
                    access.cw_min, access.cw_max
                )));
            }
        }
        for station in &self.stations {
            station.air.check()?;
            self.timing_with(station)?;
        }
        if self.ofdma && self.stations.iter().any(|s| s.streams.is_some()) {
            return impossible(
                "with ofdma=on, all stations must have the same number of spatial streams: omit server-streams",
            );
        }
        Ok(timing)
    }

    /// Durations of the PPDUs to and from a station.
    ///
    /// # Errors
    /// Returns an error if the parameters of the radio are impossible.
    pub fn timing_with(&self, station: &Station) -> Result<Timing, Impossible> {
        if let Some(timing) = &self.timing {
            return Ok(timing.clone());
        }
        let streams = station.streams.unwrap_or(self.radio.streams);
        Radio {
            streams,
            ..self.radio
        }
        .timing()
    }
}

/// Maximum number of stations, as for a real access point.
pub const MAX_STATIONS: usize = 128;
