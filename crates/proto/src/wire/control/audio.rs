//! The client's report on an audio stream, and its encoding.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bytes::{Reader, Reject, Writer};

/// A client's report on its audio, sent about once a second. The counters are cumulative since the session's start, so
/// a lost report loses no counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AudioReport {
    /// The number of the audio stream.
    pub stream: u8,
    /// Median time from the capture of a payload's first sample to its playback, over the payloads played since the
    /// previous report. It includes the delay of the client's device. `None` if nothing was played, the device does not
    /// report its delay, or the clocks are not synchronised.
    #[serde(with = "crate::validated::optional_span")]
    pub latency: Option<Duration>,
    /// The 99th percentile of the same time, by nearest rank.
    #[serde(with = "crate::validated::optional_span")]
    pub latency_p99: Option<Duration>,
    /// Error bound of both latencies: the error bound of the clock estimate.
    #[serde(with = "crate::validated::optional_span")]
    pub bound: Option<Duration>,
    /// Jitter: nearly all payloads of the last seconds arrived at most this much later than the fastest payloads.
    #[serde(with = "crate::validated::span")]
    pub jitter: Duration,
    /// The target play-out delay.
    #[serde(with = "crate::validated::span")]
    pub target: Duration,
    /// Payloads played.
    pub played: u64,
    /// Sample frames that were concealed because their payload was lost or late.
    pub concealed: u64,
    /// Length of the longest gap without a payload, in sample frames: the concealment and, in a longer gap, the silence
    /// after it.
    pub longest_concealment: u32,
    /// Number of underruns of the device that occurred or were avoided by concealment.
    pub underruns: u64,
    /// Payloads that were discarded because they were late or did not fit into the buffer.
    pub discarded: u64,
}

/// Encodes an unknown duration.
const UNKNOWN: u32 = u32::MAX;

fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(UNKNOWN - 1)
}

fn optional(span: Option<Duration>) -> u32 {
    span.map_or(UNKNOWN, |span| micros(span).min(UNKNOWN - 1))
}

pub(super) fn write(w: &mut Writer<'_>, report: &AudioReport) {
    w.u8(report.stream)
        .u32(optional(report.latency))
        .u32(optional(report.latency_p99))
        .u32(optional(report.bound))
        .u32(micros(report.jitter))
        .u32(micros(report.target))
        .u64(report.played)
        .u64(report.concealed)
        .u32(report.longest_concealment)
        .u64(report.underruns)
        .u64(report.discarded);
}

pub(super) fn parse(r: &mut Reader<'_>) -> Result<AudioReport, Reject> {
    let span = |micros: u32| Duration::from_micros(micros.into());
    let optional = |micros: u32| (micros != UNKNOWN).then(|| span(micros));
    Ok(AudioReport {
        stream: r.u8()?,
        latency: optional(r.u32()?),
        latency_p99: optional(r.u32()?),
        bound: optional(r.u32()?),
        jitter: span(r.u32()?),
        target: span(r.u32()?),
        played: r.u64()?,
        concealed: r.u64()?,
        longest_concealment: r.u32()?,
        underruns: r.u64()?,
        discarded: r.u64()?,
    })
}
