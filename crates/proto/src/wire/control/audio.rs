//! What a client says of the sound that it plays, in bytes.

use std::time::Duration;

use crate::bytes::{Reader, Reject, Writer};

/// A client's sound, told about once a second. What is counted is counted since the session's start, so that a
/// report that is lost takes nothing with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AudioReport {
    /// The number of the audio stream.
    pub stream: u8,
    /// From a sample's capture to its being heard, as far as the client's device says: median of the payloads
    /// played since the report before. `None`: nothing was played, or the clocks have not met.
    pub latency: Option<Duration>,
    /// The 99th percentile of the same, by nearest rank.
    pub latency_p99: Option<Duration>,
    /// How wrong both may be: the clocks' bound.
    pub bound: Option<Duration>,
    /// How much later than the fastest payloads nearly all of the last seconds came.
    pub jitter: Duration,
    /// The play-out delay that is aimed at.
    pub target: Duration,
    /// Payloads played.
    pub played: u64,
    /// Sample frames that were concealed, because their payload was lost or late.
    pub concealed: u64,
    /// Sample frames of the longest concealment, with the silence behind it where more was missing than is
    /// concealed.
    pub longest_concealment: u32,
    /// How often the device would have run dry.
    pub underruns: u64,
    /// Payloads that came too late or were too many.
    pub discarded: u64,
}

/// In place of a span that is not known.
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
