//! The trace: frames as slices on a timeline, for ui.perfetto.dev and chrome://tracing.
//!
//! The file is in the JSON array form of the *Trace Event Format* (Google, "Trace Event Format", the document to which
//! the Catapult project refers). That form does not require the closing bracket, so the file of a killed program is
//! also valid. All times are on the host's clock. A client's timestamps are converted, and its slices contain the error
//! bound of the conversion.
//!
//! Slices of one track must not overlap (Perfetto, FAQ, "overlapping events in JSON traces"), but frames do overlap:
//! one frame is on the link while the next is sent. Each kind of slice therefore has several lanes, and a slice takes
//! the first free lane.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::time::Duration;

use openuvr_proto::control_event::ControlEvent;
use openuvr_proto::id::{FrameId, RenditionId, SubscriberId};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{FrameRecord, Outcome, Stage};
use openuvr_proto::wire::control::AudioReport;
use serde::Serialize;
use serde_json::json;

use super::totals::MAX_SUBSCRIBERS;

/// The maximum delay before an event is written.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// The maximum number of unwritten bytes.
const BUFFER: usize = 64 << 10;

/// The number of lanes for each kind of slice, which limits how many frames can overlap. At 60 frames/s, 8 lanes are
/// enough for 130 ms on the link.
const LANES: usize = 8;

/// How many frames are remembered, so that their capture and encoding are drawn only once. This covers the maximum
/// delay of a report (2 s) at 240 frames/s.
const REMEMBERED: usize = 512;

/// The interval of the bitrate counter.
const RATE_EVERY: Duration = Duration::from_millis(500);

/// The host's process number. The clients have the following numbers. Zero would be the idle process.
const HOST: u32 = 1;

/// The number of track numbers that each process gets. The ranges are disjoint, because Perfetto requires unique track
/// numbers across processes. Each kind of slice has ten track numbers. The tracks on which the host sends to a client
/// are in the client's range.
const TRACKS: u32 = 100;

/// First track of the host's sending, relative to the client's range.
const SENT: u32 = 50;

/// First track of the link, relative to the client's range.
const LINK: u32 = 70;

/// First track of dropped frames, relative to the client's range.
const DROPS: u32 = 90;

/// Consecutive stages on one machine. A slice connects two consecutive measured stages.
const AT_HOST: &[Stage] = &[Stage::Captured, Stage::Converted, Stage::Encoded];
const SENDING: &[Stage] = &[Stage::FirstSent, Stage::LastSent];
const AT_CLIENT: &[Stage] = &[
    Stage::FirstReceived,
    Stage::Recoverable,
    Stage::Decoded,
    Stage::Submitted,
    Stage::Presented,
];

/// Writes the events.
pub(super) struct Trace {
    out: Box<dyn Write + Send>,
    /// The events to write. Only whole events are written, so the file is always valid up to its end.
    waiting: Vec<u8>,
    flushed: Option<Instant>,
    /// The time at which each lane is free again, by track.
    lanes: HashMap<u32, Instant>,
    /// Frames whose shared slices have already been drawn.
    drawn: VecDeque<(Option<RenditionId>, FrameId)>,
    sessions: HashMap<SubscriberId, Session>,
}

/// The state of a subscriber.
struct Session {
    /// The process number of the subscriber.
    process: u32,
    qp: Option<u8>,
    /// The start of the current interval of the bitrate counter, and the bytes since then.
    rate: Option<(Instant, u64)>,
    /// The time of the last counter value. Counters must not go back in time.
    counted: Option<Instant>,
}

/// One event: the fields of the format.
#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    ph: &'a str,
    /// Microseconds.
    ts: f64,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'a str>,
    /// Microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    /// A string, because a JSON number has only 53 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<serde_json::Value>,
}

/// An event with only the mandatory fields.
fn event<'a>(name: &'a str, ph: &'a str, at: Instant, pid: u32, tid: u32) -> Event<'a> {
    Event {
        name,
        ph,
        ts: micros(at.0),
        pid,
        tid,
        cat: None,
        dur: None,
        id: None,
        bp: None,
        s: None,
        args: None,
    }
}

/// Converts nanoseconds to microseconds. The result is exact to the nanosecond for 100 days.
#[allow(clippy::cast_precision_loss)]
fn micros(nanos: i64) -> f64 {
    nanos as f64 / 1e3
}

/// A slice to draw.
struct Slice {
    from: (Stage, Instant),
    to: (Stage, Instant),
    process: u32,
    /// The track number of the first lane for slices of this kind.
    kind: u32,
    /// The name of the track.
    track: String,
}

impl Trace {
    /// Opens the array and names the host.
    pub(super) fn new(out: Box<dyn Write + Send>) -> std::io::Result<Trace> {
        let mut trace = Trace {
            out,
            waiting: b"[\n".to_vec(),
            flushed: None,
            lanes: HashMap::new(),
            drawn: VecDeque::new(),
            sessions: HashMap::new(),
        };
        trace.name("process_name", HOST, HOST * TRACKS, "host", false)?;
        trace.flush()?;
        Ok(trace)
    }

    /// Draws one frame of one subscriber.
    pub(super) fn frame(
        &mut self,
        record: &FrameRecord,
        name: &str,
        rendition: Option<RenditionId>,
    ) -> std::io::Result<()> {
        let Some(client) = self.process_of(record.subscriber, name, rendition)? else {
            return Ok(());
        };
        let mut slices = Vec::new();
        let frame = (rendition, record.frame);
        if !self.drawn.contains(&frame) {
            if self.drawn.len() == REMEMBERED {
                self.drawn.pop_front();
            }
            self.drawn.push_back(frame);
            let (block, of) = block_of(rendition);
            chain(&mut slices, AT_HOST, record, HOST, block, &of);
        }
        let to = format!(" to {name}");
        let block = client * TRACKS;
        chain(&mut slices, SENDING, record, HOST, block + SENT, &to);
        if let (Some(sent), Some(here)) = (
            record.host.at(Stage::FirstSent),
            record.client.here(Stage::FirstReceived),
        ) {
            slices.push(Slice {
                from: (Stage::FirstSent, sent),
                // A span may be negative within the error bound. It is then drawn as empty.
                to: (Stage::FirstReceived, here.at.max(sent)),
                process: HOST,
                kind: block + LINK,
                track: format!("link: FirstSent→FirstReceived{to}"),
            });
        }
        chain(&mut slices, AT_CLIENT, record, client, block, "");
        self.draw(slices, record)?;
        if let Outcome::Dropped { stage, why } = record.outcome {
            self.dropped(record, client, stage, &format!("dropped: {why:?}"), name)?;
        }
        self.counters(record, name)?;
        if self.waiting.len() >= BUFFER {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the events, if they are due.
    pub(super) fn tick(&mut self, now: Instant) -> std::io::Result<()> {
        match self.flushed {
            Some(before) if now.since(before) < FLUSH_EVERY => Ok(()),
            _ => {
                self.flushed = Some(now);
                self.flush()
            }
        }
    }

    /// Closes the array.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        self.waiting.extend_from_slice(b"\n]\n");
        self.flush()
    }

    /// The process of a subscriber; `None` if there have been too many subscribers.
    fn process_of(
        &mut self,
        id: SubscriberId,
        name: &str,
        rendition: Option<RenditionId>,
    ) -> std::io::Result<Option<u32>> {
        if let Some(known) = self.sessions.get(&id) {
            return Ok(Some(known.process));
        }
        if self.sessions.len() == MAX_SUBSCRIBERS {
            return Ok(None);
        }
        let process = HOST + 1 + u32::try_from(self.sessions.len()).unwrap_or(0);
        self.sessions.insert(
            id,
            Session {
                process,
                qp: None,
                rate: None,
                counted: None,
            },
        );
        let gets = rendition.map_or(String::new(), |rendition| format!(", {rendition}"));
        let title = match id {
            SubscriberId::Session(session) => {
                format!("client {name} (session {}{gets})", session.0)
            }
            SubscriberId::Other(_) => format!("subscriber {name} ({id}{gets})"),
        };
        self.name("process_name", process, process * TRACKS, &title, true)?;
        Ok(Some(process))
    }

    /// Draws the slices of a frame and links them.
    fn draw(&mut self, slices: Vec<Slice>, record: &FrameRecord) -> std::io::Result<()> {
        let name = format!("frame {}", record.frame.0);
        let mut linked = Vec::new();
        for slice in slices {
            let Some(track) = self.lane(&slice)? else {
                continue;
            };
            let span = slice.to.1.since(slice.from.1);
            let kind = format!("{}→{}", slice.from.0.name(), slice.to.0.name());
            let mut drawn = event(&name, "X", slice.from.1, slice.process, track);
            drawn.cat = Some(&kind);
            drawn.dur = Some(micros(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)));
            drawn.args = Some(self.about(&slice, record));
            self.push(&drawn)?;
            // An arrow binds to the slice that contains its time, and an empty slice contains no time.
            if !span.is_zero() {
                linked.push((slice.from.1, slice.process, track));
            }
        }
        let id = format!(
            "0x{:x}",
            u64::from(record.subscriber.number()) << 32 | u64::from(record.frame.0)
        );
        let last = linked.len().saturating_sub(1);
        if last == 0 {
            return Ok(());
        }
        for (i, (at, process, track)) in linked.into_iter().enumerate() {
            let ph = match i {
                0 => "s",
                _ if i == last => "f",
                _ => "t",
            };
            let mut arrow = event("frame", ph, at, process, track);
            arrow.cat = Some("frame");
            arrow.id = Some(&id);
            arrow.bp = (ph == "f").then_some("e");
            self.push(&arrow)?;
        }
        Ok(())
    }

    /// The arguments that are shown for a selected slice.
    fn about(&self, slice: &Slice, record: &FrameRecord) -> serde_json::Value {
        let mut args =
            json!({ "frame": record.frame.0, "subscriber": record.subscriber.to_string() });
        let bound = record.client.first_received_here.map(|here| here.bound);
        if AT_CLIENT.contains(&slice.to.0)
            && let Some(bound) = bound
        {
            args["clock_bound_us"] = json!(bound.as_secs_f64() * 1e6);
        }
        if slice.to.0 == Stage::Encoded {
            args["key_frame"] = json!(record.cost.key_frame);
            args["repeats"] = json!(record.cost.repeats);
            args["qp"] = json!(record.cost.qp);
            args["bytes"] = json!(record.cost.bytes);
        }
        if slice.to.0 == Stage::LastSent {
            args["datagrams"] = json!(record.cost.datagrams);
        }
        if AT_CLIENT.contains(&slice.to.0)
            && let Some(ecn) = record.ecn
        {
            args["ecn_ect1"] = json!(ecn.ect1);
            args["ecn_ce"] = json!(ecn.ce);
        }
        if let Outcome::Displayed(fidelity) = record.outcome {
            args["outcome"] = json!(openuvr_runtime::csv::fidelity_name(fidelity));
            for (name, span) in record.age.named() {
                if let Some(span) = span {
                    args[format!("{name}_ms")] = json!(span.as_secs_f64() * 1e3);
                }
            }
        }
        args
    }

    /// The first free lane for the slice; `None` if all lanes are in use. A lane is named at its first use.
    fn lane(&mut self, slice: &Slice) -> std::io::Result<Option<u32>> {
        for (number, track) in (slice.kind..).take(LANES).enumerate() {
            match self.lanes.get_mut(&track) {
                Some(free) if *free > slice.from.1 => continue,
                Some(free) => *free = slice.to.1,
                None => {
                    self.lanes.insert(track, slice.to.1);
                    let name = match number {
                        0 => slice.track.clone(),
                        _ => format!("{} ({})", slice.track, number + 1),
                    };
                    self.name("thread_name", slice.process, track, &name, true)?;
                }
            }
            return Ok(Some(track));
        }
        Ok(None)
    }

    fn dropped(
        &mut self,
        record: &FrameRecord,
        client: u32,
        stage: Stage,
        label: &str,
        name: &str,
    ) -> std::io::Result<()> {
        let stamps = Stage::ALL.iter().filter_map(|stage| record.host.at(*stage));
        let Some(at) = stamps.max() else {
            return Ok(());
        };
        let track = client * TRACKS + DROPS;
        if self.lanes.insert(track, at).is_none() {
            self.name(
                "thread_name",
                HOST,
                track,
                &format!("dropped to {name}"),
                true,
            )?;
        }
        let mut instant = event(label, "i", at, HOST, track);
        instant.cat = Some("dropped");
        instant.s = Some("t");
        instant.args = Some(json!({
            "frame": record.frame.0,
            "subscriber": record.subscriber.to_string(),
            "before": stage.name(),
        }));
        self.push(&instant)
    }

    /// Draws a control event. `of` is its rendition if there are several renditions.
    pub(super) fn decision(
        &mut self,
        now: Instant,
        of: Option<RenditionId>,
        decision: &ControlEvent,
    ) -> std::io::Result<()> {
        let track = HOST * TRACKS + DROPS;
        if self.lanes.insert(track, now).is_none() {
            self.name("thread_name", HOST, track, "control events", true)?;
        }
        let words = match of {
            Some(rendition) => format!("{rendition}: {decision}"),
            None => decision.to_string(),
        };
        let mut instant = event(&words, "i", now, HOST, track);
        instant.cat = Some("decision");
        instant.s = Some("p");
        self.push(&instant)
    }

    /// The quantiser when it changes, and the bitrate twice per second.
    fn counters(&mut self, record: &FrameRecord, name: &str) -> std::io::Result<()> {
        let (Some(at), Some(session)) = (
            record.host.at(Stage::LastSent),
            self.sessions.get_mut(&record.subscriber),
        ) else {
            return Ok(());
        };
        if record.cost.bytes == 0 {
            return Ok(());
        }
        let bytes = u64::from(record.cost.bytes);
        if session.counted.is_some_and(|before| before > at) {
            // The record is late. Its bytes count, too.
            if let Some((_, before)) = &mut session.rate {
                *before += bytes;
            }
            return Ok(());
        }
        session.counted = Some(at);
        let process = session.process;
        let qp =
            (session.qp.replace(record.cost.qp) != Some(record.cost.qp)).then_some(record.cost.qp);
        let mut rate = None;
        session.rate = Some(match session.rate {
            Some((since, before)) if at.since(since) >= RATE_EVERY => {
                #[allow(clippy::cast_precision_loss)] // Bytes of half a second.
                let bits = (before + bytes) as f64 * 8.0;
                rate = Some(bits / at.since(since).as_secs_f64() / 1e6);
                (at, 0)
            }
            Some((since, before)) => (since, before + bytes),
            None => (at, 0),
        });
        if let Some(qp) = qp {
            self.counter(process, &format!("qp to {name}"), at, "qp", json!(qp))?;
        }
        if let Some(rate) = rate {
            let name = format!("bitrate to {name}");
            self.counter(process, &name, at, "Mb/s", json!(rate))?;
        }
        Ok(())
    }

    /// Records the sound playback of a client, if a frame of that client was drawn before.
    pub(super) fn audio(
        &mut self,
        now: Instant,
        subscriber: SubscriberId,
        report: &AudioReport,
    ) -> std::io::Result<()> {
        let Some(process) = self.sessions.get(&subscriber).map(|s| s.process) else {
            return Ok(());
        };
        let ms = |span: Duration| json!(span.as_secs_f64() * 1e3);
        if let Some(latency) = report.latency {
            self.counter(
                process,
                &format!("sound of {process}"),
                now,
                "latency ms",
                ms(latency),
            )?;
        }
        let delay = ms(report.target);
        let name = format!("sound buffer of {process}");
        self.counter(process, &name, now, "ms", delay)?;
        // These three values cover the time since the start of the session.
        let concealed = json!(report.concealed as f64 / 48.0);
        let name = format!("concealed sound of {process}");
        self.counter(process, &name, now, "ms", concealed)?;
        let longest = json!(f64::from(report.longest_concealment) / 48.0);
        let name = format!("longest sound concealment of {process}");
        self.counter(process, &name, now, "ms", longest)?;
        let late = json!(report.discarded);
        self.counter(
            process,
            &format!("late sound packets of {process}"),
            now,
            "packets",
            late,
        )
    }

    /// Writes a counter value for a subscriber's process. Perfetto draws counters with the same process and name as one
    /// track. Several subscribers may have the same name, so each uses its own process.
    fn counter(
        &mut self,
        process: u32,
        name: &str,
        at: Instant,
        unit: &str,
        value: serde_json::Value,
    ) -> std::io::Result<()> {
        let mut counter = event(name, "C", at, process, process * TRACKS);
        counter.args = Some(json!({ unit: value }));
        self.push(&counter)
    }

    /// Names a process or a track (`thread`).
    fn name(
        &mut self,
        label: &str,
        process: u32,
        track: u32,
        name: &str,
        behind: bool,
    ) -> std::io::Result<()> {
        let mut named = event(label, "M", Instant(0), process, track);
        named.args = Some(json!({ "name": name }));
        self.push_after(&named, behind)
    }

    fn push(&mut self, event: &Event<'_>) -> std::io::Result<()> {
        self.push_after(event, true)
    }

    /// Writes an event. `behind` states whether another event precedes it.
    fn push_after(&mut self, event: &Event<'_>, behind: bool) -> std::io::Result<()> {
        if behind {
            self.waiting.extend_from_slice(b",\n");
        }
        serde_json::to_writer(&mut self.waiting, event)?;
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.write_all(&self.waiting)?;
        self.waiting.clear();
        self.out.flush()
    }
}

/// The first of the host's tracks for a rendition, and the suffix of the names of these tracks. The tracks of secondary
/// renditions follow the ranges of all clients.
fn block_of(rendition: Option<RenditionId>) -> (u32, String) {
    match rendition {
        None | Some(RenditionId(1)) => (HOST * TRACKS, String::new()),
        Some(further) => {
            let clients = u32::try_from(MAX_SUBSCRIBERS).unwrap_or(u32::MAX / TRACKS / 2);
            let block = (HOST + clients).saturating_add(further.0);
            (block.saturating_mul(TRACKS), format!(" of {further}"))
        }
    }
}

/// Adds a slice between every two consecutive measured stages. The tracks of the n-th slice start at `base` + 10·n.
fn chain(
    slices: &mut Vec<Slice>,
    stages: &[Stage],
    record: &FrameRecord,
    process: u32,
    base: u32,
    suffix: &str,
) {
    let at = |stage: Stage| {
        let here = || record.client.here(stage).map(|mapped| mapped.at);
        record.host.at(stage).or_else(here)
    };
    let mut before: Option<(Stage, Instant)> = None;
    for (number, stage) in (0..).zip(stages) {
        let Some(now) = at(*stage) else { continue };
        if let Some(from) = before
            && now >= from.1
        {
            let usual = stages[usize::try_from(number).unwrap_or(1) - 1];
            slices.push(Slice {
                from,
                to: (*stage, now),
                process,
                kind: base + number * 10,
                track: format!("{}→{}{suffix}", usual.name(), stage.name()),
            });
        }
        before = Some((*stage, now));
    }
}
