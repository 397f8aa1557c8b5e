//! Figures of the Unity Render Streaming study (Casasnovas, Michaelides, Carrascosa-Zamacois,
//! Bellalta) from its own captures: server in Unity, client in Chrome, over Wi-Fi 6, at 50 Mb/s.
//!
//! They are references, not targets: other programs send differently.

/// Figures for one frame rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Frames per second.
    pub fps: f64,
    /// Mean size of a frame in kilobytes (section 6.2).
    pub frame_kb: f64,
    /// Mean number of batches per frame (section 6.3).
    pub batches: f64,
    /// Share of the slots of 5.56 ms without a packet, percent (figure 13).
    pub idle: f64,
    /// Jitter from Chrome's statistics, ms (figure 15b).
    pub jitter: f64,
    /// Mean time from a frame's first packet to its last at the client, ms (figure 15c).
    pub assembly: f64,
    /// Mean number of packets that arrive simultaneously (figure 18).
    pub aggregate: f64,
}

/// The three frame rates.
pub const RATES: [Rate; 3] = [
    Rate {
        fps: 30.0,
        frame_kb: 201.0,
        batches: 4.56,
        idle: 25.0,
        jitter: 20.0,
        assembly: 21.0,
        aggregate: 14.0,
    },
    Rate {
        fps: 60.0,
        frame_kb: 99.0,
        batches: 2.54,
        idle: 20.0,
        jitter: 9.0,
        assembly: 9.0,
        aggregate: 13.0,
    },
    Rate {
        fps: 90.0,
        frame_kb: 77.0,
        batches: 2.1,
        idle: 15.0,
        jitter: 7.0,
        assembly: 6.0,
        aggregate: 14.0,
    },
];

/// Interval of batches, ms (section 6.3).
pub const INTERVAL: f64 = 5.56;

/// Share of video packets within microseconds of the previous one, percent (section 6.1).
pub const MICROSECONDS: f64 = 97.0;

/// Share of downlink in the load, and of video in the downlink, percent (section 5.2).
pub const DOWN: f64 = 99.3;
/// See [`DOWN`].
pub const VIDEO: f64 = 99.5;

/// Share of packets that arrive simultaneously with others, down and up, percent (section 8.1).
pub const AT_ONCE: (f64, f64) = (89.7, 10.1);

/// Round trip, ms (figure 15a).
pub const ROUND_TRIP: f64 = 1.5;

/// Maximum share of retransmitted packets, percent (section 7.2); none was lost finally.
pub const REPEATED: f64 = 0.03;

/// A row of table 3, for Alteration Hunting at 90 frames per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Whether it is downlink.
    pub down: bool,
    /// The stream.
    pub name: &'static str,
    /// Mean bytes of a packet, with the Ethernet header: a STUN response of 64 bytes counts as 106.
    pub bytes: f64,
    /// Mean interval, ms.
    pub ms: f64,
    /// Megabits per second.
    pub mbps: f64,
}

/// Table 3.
pub const TABLE_3: [Row; 9] = [
    row(true, "STUN", 122.0, 1287.42, 0.0008),
    row(true, "RTP audio", 83.0, 20.0, 0.033),
    row(true, "RTP video", 1242.16, 0.19, 53.45),
    row(true, "DTLS", 107.01, 8.94, 0.096),
    row(true, "other UDP", 112.0, 8.26, 0.11),
    row(false, "STUN", 124.0, 1287.48, 0.0008),
    row(false, "RTCP", 434.62, 67.27, 0.052),
    row(false, "DTLS", 174.97, 4.90, 0.31),
    row(false, "other UDP", 147.64, 443.75, 0.0026),
];

const fn row(down: bool, name: &'static str, bytes: f64, ms: f64, mbps: f64) -> Row {
    Row {
        down,
        name,
        bytes,
        ms,
        mbps,
    }
}

/// The figures for the nearest frame rate, if it is close.
#[must_use]
pub fn nearest(fps: f64) -> Option<&'static Rate> {
    let off = |rate: &&Rate| (fps / rate.fps - 1.0).abs();
    // Within a tenth: an encoder that can't keep up sends 85 of 90 frames.
    let nearest = RATES.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
    (off(&nearest) < 0.1).then_some(nearest)
}
