//! The CSV with one row for each captured frame and subscriber (RFC 4180, but with LF line ends; row 1 is the header).
//!
//! The time of a stage is in nanoseconds on the clock of the machine where the stage happens.
//! `FirstReceived_host_clock_ns` is the time of the client's first stage on the host's clock. With it, the times of all
//! other client stages can be converted to the host's clock. Unmeasured values are empty. The sound columns contain the
//! client's last report: latency (median and 99th percentile over the last second), jitter and playout delay in
//! nanoseconds; sample frames concealed in total and in the longest concealment; payloads discarded; and underruns.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::time::Duration;

use openuvr_proto::id::{RenditionId, SubscriberId};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{Fidelity, FrameRecord, Outcome, Stage};
use openuvr_proto::wire::control::AudioReport;
use openuvr_proto::wire::video::EchoKind;

/// Maximum number of clients whose playback reports are kept (guess: more clients than connect to a host within hours).
const MAX_CLIENTS: usize = 1024;

/// How long a row may be buffered before it is written to the disk.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// The columns before and after the columns of the stages.
const BEFORE: [&str; 5] = ["subscriber", "frame", "outcome", "stage", "cause"];
const AFTER: [&str; 33] = [
    "FirstReceived_host_clock_ns",
    "clock_error_bound_ns",
    "key_frame",
    "qp",
    "datagrams",
    "fec_datagrams",
    "bytes",
    "motion_to_photon_ns",
    "input_echo",
    "fragments_lost",
    "loss_runs",
    "fec_recovered",
    "retransmitted",
    "rendition",
    "stream",
    "view",
    "pose",
    "audio_latency_ns",
    "audio_delay_ns",
    "audio_concealed_samples",
    "audio_latency_p99_ns",
    "audio_jitter_ns",
    "audio_longest_concealment_samples",
    "audio_discarded_payloads",
    "audio_underruns",
    "imu_to_display_ns",
    "predict_to_display_ns",
    "render_to_display_ns",
    "ecn_not_ect",
    "ecn_ect1",
    "ecn_ect0",
    "ecn_ce",
    "repeats",
];

/// Writes the rows.
pub struct Csv {
    out: BufWriter<Box<dyn Write + Send>>,
    flushed: Option<Instant>,
    /// Each client's last playback report.
    audio: HashMap<SubscriberId, AudioReport>,
}

impl Csv {
    /// Writes the header.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn new(out: Box<dyn Write + Send>) -> std::io::Result<Csv> {
        let mut out = BufWriter::with_capacity(64 << 10, out);
        let stages = Stage::ALL
            .iter()
            .map(|stage| format!("{}_ns", stage.name()));
        let names: Vec<String> = (BEFORE.into_iter().map(String::from).chain(stages))
            .chain(AFTER.into_iter().map(String::from))
            .collect();
        writeln!(out, "{}", names.join(","))?;
        out.flush()?;
        Ok(Csv {
            out,
            flushed: None,
            audio: HashMap::new(),
        })
    }

    /// Stores a client's playback report, which is written in the client's next rows.
    pub fn audio(&mut self, subscriber: SubscriberId, report: &AudioReport) {
        if self.audio.len() < MAX_CLIENTS || self.audio.contains_key(&subscriber) {
            self.audio.insert(subscriber, *report);
        }
    }

    /// Writes the row of a frame. A client passes `None` as `rendition`, because it does not know the rendition.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn row(
        &mut self,
        record: &FrameRecord,
        rendition: Option<RenditionId>,
    ) -> std::io::Result<()> {
        let out = &mut self.out;
        write!(out, "{},{}", record.subscriber, record.frame.0)?;
        match record.outcome {
            Outcome::Displayed(fidelity) => write!(out, ",{},,", fidelity_name(fidelity))?,
            Outcome::SentUnacknowledged => write!(out, ",sent_unacknowledged,,")?,
            Outcome::Dropped { stage, why } => write!(out, ",dropped,{},{why:?}", stage.name())?,
        }
        for stage in Stage::ALL {
            optional(out, at(record, *stage))?;
        }
        let here = record.client.first_received_here;
        optional(out, here.map(|here| here.at.0))?;
        optional(out, here.map(|here| here.bound.as_nanos()))?;
        let cost = record.cost;
        // A frame that was not encoded has no quantiser.
        if cost.bytes > 0 {
            let key = u8::from(cost.key_frame);
            let (datagrams, parity) = (cost.datagrams, cost.parity);
            write!(
                out,
                ",{key},{},{datagrams},{parity},{}",
                cost.qp, cost.bytes
            )?;
        } else {
            out.write_all(b",,,,,")?;
        }
        optional(out, record.motion_to_photon.map(|span| span.as_nanos()))?;
        write!(out, ",{},{}", echo_name(record.echo), record.missing)?;
        let (runs, repaired, resent) = (record.runs, record.repaired, record.resent);
        write!(out, ",{runs},{repaired},{resent}")?;
        optional(out, rendition.map(|rendition| rendition.0))?;
        write!(out, ",{},{}", record.view.stream, record.view.view)?;
        optional(out, record.pose.map(|pose| pose.0))?;
        let audio = self.audio.get(&record.subscriber);
        let latency = audio.and_then(|report| report.latency);
        optional(out, latency.map(|span| span.as_nanos()))?;
        optional(out, audio.map(|report| report.target.as_nanos()))?;
        optional(out, audio.map(|report| report.concealed))?;
        let slowest = audio.and_then(|report| report.latency_p99);
        optional(out, slowest.map(|span| span.as_nanos()))?;
        optional(out, audio.map(|report| report.jitter.as_nanos()))?;
        optional(out, audio.map(|report| report.longest_concealment))?;
        optional(out, audio.map(|report| report.discarded))?;
        optional(out, audio.map(|report| report.underruns))?;
        for (_, span) in record.age.named() {
            optional(out, span.map(|span| span.as_nanos()))?;
        }
        let ecn = record.ecn;
        optional(out, ecn.map(|ecn| ecn.not_ect))?;
        optional(out, ecn.map(|ecn| ecn.ect1))?;
        optional(out, ecn.map(|ecn| ecn.ect0))?;
        optional(out, ecn.map(|ecn| ecn.ce))?;
        // Like the quantiser, this value is known only for a frame that was encoded.
        let repeats = (cost.bytes > 0).then_some(u8::from(cost.repeats));
        optional(out, repeats)?;
        writeln!(out)
    }

    /// Flushes the rows if a flush is due.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn tick(&mut self, now: Instant) -> std::io::Result<()> {
        match self.flushed {
            Some(before) if now.since(before) < FLUSH_EVERY => Ok(()),
            _ => {
                self.flushed = Some(now);
                self.out.flush()
            }
        }
    }

    /// Flushes all rows.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn finish(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// The time of `stage`, in nanoseconds on the clock of the machine where the stage happens.
fn at(record: &FrameRecord, stage: Stage) -> Option<i64> {
    let client = || {
        let span = record.client.since_first_received(stage)?;
        let span = i64::try_from(span.as_nanos()).ok()?;
        record.client.first_received?.0.checked_add(span)
    };
    record.host.at(stage).map(|at| at.0).or_else(client)
}

/// Writes an empty field if there is no value.
fn optional(out: &mut impl Write, value: Option<impl std::fmt::Display>) -> std::io::Result<()> {
    match value {
        Some(value) => write!(out, ",{value}"),
        None => out.write_all(b","),
    }
}

/// The fidelity's name in the CSV and the table.
#[must_use]
pub fn fidelity_name(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Complete => "complete",
        Fidelity::Concealed => "concealed",
        Fidelity::Tainted => "tainted",
    }
}

fn echo_name(echo: EchoKind) -> &'static str {
    match echo {
        EchoKind::None => "none",
        EchoKind::Injected => "injected",
        EchoKind::Consumed => "consumed",
    }
}
