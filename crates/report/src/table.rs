//! The live table: the time of each stage, now and in the whole run, in 80 columns.
//!
//! On a terminal, the rows of the table are redrawn once per second. In other outputs, a line is appended every
//! [`LINES_EVERY`] for each subscriber that has recently received frames. Only frames that were displayed completely,
//! or sent to a subscriber without reports, count for the times. A span between two clocks has an error bound. This
//! module writes nothing itself.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::control_event::ControlEvent;
use openuvr_proto::id::{RenditionId, SubscriberId};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DisplayLatency, FrameRecord, Outcome, Stage};
use openuvr_proto::wire::control::AudioReport;
use openuvr_proto::wire::video::EchoKind;

use super::sound;
use super::spread::{Percentiles, Spread, WINDOW};
use super::totals::{MAX_SUBSCRIBERS, Subscriber, Totals};
use openuvr_terminal::out::TerminalSize;
use openuvr_terminal::wrap::wrapped;

/// The interval at which the table is redrawn on a terminal.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// The interval at which lines are appended in other outputs.
const LINES_EVERY: Duration = Duration::from_secs(5);

/// If no frame of a subscriber arrives for this long, the table shows no rates for this subscriber.
const STILL: Duration = Duration::from_secs(10);

/// The spans of a frame's journey. The span of the link is the time that the first datagram takes. Slices are sent
/// while later slices are being encoded, so the client may receive the first slice before the last slice is sent.
const SPANS: [(Stage, Stage); 13] = [
    (Stage::Captured, Stage::Converted),
    (Stage::Converted, Stage::FirstSlice),
    (Stage::FirstSlice, Stage::Encoded),
    (Stage::Encoded, Stage::LastSent),
    (Stage::FirstSent, Stage::FirstReceived),
    (Stage::FirstReceived, Stage::Recoverable),
    (Stage::Recoverable, Stage::Decoded),
    (Stage::Decoded, Stage::Submitted),
    WITHOUT_DECODED,
    (Stage::Submitted, Stage::Presented),
    TOTAL,
    CLIENT_TOTAL,
    (Stage::Captured, Stage::Presented),
];

/// The total of a frame's journey. It ends with the submission for display, because not every client reports when a
/// picture becomes visible.
const TOTAL: (Stage, Stage) = (Stage::Captured, Stage::Submitted);

/// The span that replaces the spans to and from `Decoded` for a client that does not report this stage, such as a
/// browser.
const WITHOUT_DECODED: (Stage, Stage) = (Stage::Recoverable, Stage::Submitted);

/// The client's part of the journey. It is the total of a table without the host's stages.
const CLIENT_TOTAL: (Stage, Stage) = (Stage::FirstReceived, Stage::Submitted);

/// The table's text when there are no subscribers.
#[derive(Clone, Copy, Debug)]
pub struct IdleText {
    /// Before the first subscriber.
    pub yet: &'static str,
    /// After the last subscriber has left.
    pub now: &'static str,
}

pub(super) struct Table {
    terminal: bool,
    idle_text: IdleText,
    drawn: Option<Instant>,
    started: Option<Instant>,
    /// The connected subscribers, with or without frames.
    present: HashMap<SubscriberId, (Role, String)>,
    renditions: HashMap<SubscriberId, RenditionId>,
    /// Whether there has been any subscriber.
    had_subscribers: bool,
    journeys: HashMap<SubscriberId, Journey>,
    /// The transport of each client's video, even before its first frame.
    links: HashMap<SubscriberId, TransportKind>,
    /// The last control event, with its rendition if there are several renditions.
    decision: Option<(Option<RenditionId>, ControlEvent)>,
}

/// The minimum number of values for which the 99th percentile can differ from the maximum. Only inputs that change a
/// picture have a motion-to-photon latency, so there may be fewer values. The table's row then states their number.
const MEANINGFUL: u64 = 100;

/// The output of the table.
pub(super) enum Drawing {
    /// Rows that replace the previous rows.
    Rows(Vec<String>),
    /// Lines that are appended to the previous output.
    Lines(String),
}

/// The spans and counts of one subscriber's frames.
struct Journey {
    spans: Vec<Spread>,
    /// Motion-to-photon latency of frames for which it is known when the application read the input.
    exact: Spread,
    /// Lower bounds of the motion-to-photon latency of frames for which it is only known when the input was injected
    /// into the window system.
    at_least: Spread,
    /// The ages of displayed frames, in the order of [`DisplayLatency::named`].
    ages: [Spread; 3],
    /// The error bound of ages that start on the host's clock.
    age_bound: Option<Duration>,
    recent: VecDeque<Recent>,
    bound: Option<Duration>,
    /// The last report of the client's sound playback.
    audio: Option<AudioReport>,
    started: Instant,
    last_record: Instant,
}

/// The counts of a recent frame.
struct Recent {
    at: Instant,
    complete: bool,
    unacknowledged: bool,
    bytes: u32,
    datagrams: u32,
    fec: u32,
    lost: u16,
    recovered: u16,
    retransmitted: u16,
    /// Number of datagrams that arrived with ECT(1) or CE, and number of those with CE.
    l4s: (u16, u16),
}

impl Journey {
    fn new(now: Instant) -> Journey {
        Journey {
            spans: SPANS.iter().map(|_| Spread::new()).collect(),
            exact: Spread::new(),
            at_least: Spread::new(),
            ages: [(); 3].map(|()| Spread::new()),
            age_bound: None,
            recent: VecDeque::new(),
            bound: None,
            audio: None,
            started: now,
            last_record: now,
        }
    }

    fn add(&mut self, now: Instant, record: &FrameRecord) {
        self.last_record = now;
        self.expire(now);
        // Twice the number of frames in the window at 240 frames/s.
        if self.recent.len() == 2400 {
            self.recent.pop_front();
        }
        let complete = record.outcome.is_complete();
        let unacknowledged = record.outcome == Outcome::SentUnacknowledged;
        self.recent.push_back(Recent {
            at: now,
            complete,
            unacknowledged,
            bytes: record.cost.bytes,
            datagrams: record.cost.datagrams,
            fec: record.cost.parity,
            lost: record.missing,
            recovered: record.repaired,
            retransmitted: record.resent,
            l4s: record
                .ecn
                .map_or((0, 0), |ecn| (ecn.ect1.saturating_add(ecn.ce), ecn.ce)),
        });
        if !(complete || unacknowledged) {
            return;
        }
        if let Some(here) = record.client.first_received_here {
            self.bound = Some(here.bound);
        }
        for (spread, (from, to)) in self.spans.iter_mut().zip(SPANS) {
            if let Some(span) = span(record, from, to) {
                spread.add(now, span);
            }
        }
        self.age_bound = record.age.bound.or(self.age_bound);
        for (spread, (_, span)) in self.ages.iter_mut().zip(record.age.named()) {
            if let Some(span) = span {
                spread.add(now, span);
            }
        }
        match (record.motion_to_photon, record.echo) {
            (Some(span), EchoKind::Consumed) => self.exact.add(now, span),
            (Some(span), EchoKind::Injected) => self.at_least.add(now, span),
            _ => {}
        }
    }

    /// The values of one of [`SPANS`].
    fn span(&mut self, wanted: (Stage, Stage)) -> Option<&mut Spread> {
        let place = SPANS.iter().position(|span| *span == wanted)?;
        self.spans.get_mut(place)
    }

    fn expire(&mut self, now: Instant) {
        while let Some(oldest) = self.recent.front()
            && now.since(oldest.at) >= WINDOW
        {
            self.recent.pop_front();
        }
    }
}

/// The span between two stages, if both were measured, on a single clock if possible. A span between two clocks may be
/// negative within the error bound. Such a span counts as zero. `None` also for [`WITHOUT_DECODED`] if the client
/// reports `Decoded`.
fn span(record: &FrameRecord, from: Stage, to: Stage) -> Option<Duration> {
    if (from, to) == WITHOUT_DECODED && record.client.since_first_received(Stage::Decoded).is_some()
    {
        return None;
    }
    let here = |stage| {
        let mapped = || record.client.here(stage).map(|mapped| mapped.at);
        record.host.at(stage).or_else(mapped)
    };
    let client = |stage| record.client.since_first_received(stage);
    match (client(from), client(to)) {
        (Some(from), Some(to)) => to.checked_sub(from),
        _ => Some(here(to)?.since(here(from)?)),
    }
}

impl Table {
    pub(super) fn new(terminal: bool, idle_text: IdleText) -> Table {
        Table {
            terminal,
            idle_text,
            drawn: None,
            started: None,
            present: HashMap::new(),
            renditions: HashMap::new(),
            had_subscribers: false,
            journeys: HashMap::new(),
            links: HashMap::new(),
            decision: None,
        }
    }

    /// Records that a subscriber has joined or has changed its role.
    pub(super) fn joined(&mut self, id: SubscriberId, role: Role, name: &str) {
        self.had_subscribers = true;
        if self.present.len() < MAX_SUBSCRIBERS || self.present.contains_key(&id) {
            self.present.insert(id, (role, name.to_owned()));
        }
    }

    pub(super) fn assign_rendition(&mut self, id: SubscriberId, rendition: RenditionId) {
        if self.present.contains_key(&id) {
            self.renditions.insert(id, rendition);
        }
    }

    /// A subscriber's rendition; `None` if there is only one rendition.
    fn rendition(&self, id: SubscriberId) -> Option<RenditionId> {
        let own = self.renditions.get(&id).copied()?;
        let several = self.renditions.values().any(|other| *other != own);
        several.then_some(own)
    }

    /// Name and role, and the rendition if there are several renditions.
    fn title(&self, id: SubscriberId, role: Role, name: &str) -> String {
        let (name, role) = (short(name), role.name());
        match self.rendition(id) {
            Some(rendition) => format!("{name} ({role}, {rendition})"),
            None => format!("{name} ({role})"),
        }
    }

    pub(super) fn left(&mut self, id: SubscriberId) {
        self.renditions.remove(&id);
        self.present.remove(&id);
    }

    /// Records a control event. `of` is its rendition if there are several renditions.
    pub(super) fn decision(&mut self, of: Option<RenditionId>, decision: &ControlEvent) {
        self.decision = Some((of, *decision));
    }

    pub(super) fn link(&mut self, id: SubscriberId, transport: TransportKind) {
        if self.links.len() >= MAX_SUBSCRIBERS {
            self.links.retain(|id, _| self.journeys.contains_key(id));
        }
        self.links.insert(id, transport);
    }

    /// Records a client's report of its sound playback.
    pub(super) fn audio(&mut self, id: SubscriberId, report: &AudioReport) {
        if let Some(journey) = self.journeys.get_mut(&id) {
            journey.audio = Some(*report);
        }
    }

    pub(super) fn add(&mut self, now: Instant, record: &FrameRecord) {
        self.started.get_or_insert(now);
        if !self.journeys.contains_key(&record.subscriber) && self.journeys.len() == MAX_SUBSCRIBERS
        {
            let silent = self.journeys.iter().min_by_key(|(_, j)| j.last_record);
            if let Some(id) = silent.map(|(id, _)| *id) {
                self.journeys.remove(&id);
            }
        }
        let journey = self.journeys.entry(record.subscriber);
        journey
            .or_insert_with(|| Journey::new(now))
            .add(now, record);
    }

    /// The output that is due, if any.
    pub(super) fn draw(
        &mut self,
        now: Instant,
        totals: &Totals,
        room: TerminalSize,
    ) -> Option<Drawing> {
        let every = if self.terminal {
            DRAW_EVERY
        } else {
            LINES_EVERY
        };
        let started = *self.started.get_or_insert(now);
        if now.since(self.drawn.unwrap_or(started)) < every {
            return None;
        }
        self.drawn = Some(now);
        Some(match self.terminal {
            true => Drawing::Rows(self.rows(now, totals, room)),
            false => Drawing::Lines(self.plain(now, totals)),
        })
    }

    /// The final output: all rows of all subscribers.
    pub(super) fn finish(&mut self, totals: &Totals, columns: usize) -> String {
        let mut text = String::new();
        for (id, subscriber) in totals.in_order() {
            let title = self.title(id, subscriber.role, &subscriber.name);
            if let Some(journey) = self.journeys.get_mut(&id) {
                // Show the last seconds before this record, because this subscriber may have left before others.
                let last = journey.last_record;
                let rate = mean_rate(journey, subscriber);
                push(&mut text, format_args!("{title}  whole run: {rate}\n"));
                push(
                    &mut text,
                    format_args!("last 5 s: {}\n", flow(last, journey)),
                );
                self.subscriber_rows(&mut text, last, id, subscriber, columns);
            }
        }
        text
    }

    /// All rows of each subscriber whose rows fit, and one line for each of the others.
    fn rows(&mut self, now: Instant, totals: &Totals, room: TerminalSize) -> Vec<String> {
        let mut text = String::new();
        let all = self.present.iter();
        let mut all: Vec<_> = all
            .map(|(id, (role, name))| (*id, *role, name.clone()))
            .collect();
        all.sort_by_key(|(id, role, name)| (*role != Role::Player, name.clone(), id.number()));
        // Leave one row for typed text, and one for a message.
        let most = room.rows.saturating_sub(2);
        for (i, (id, role, name)) in all.iter().enumerate() {
            let rows = match totals.of(*id).filter(|_| self.is_moving(*id, now)) {
                Some(subscriber) => {
                    let headline = self.headline(now, *id, subscriber);
                    let mut rows = headline.clone();
                    self.subscriber_rows(&mut rows, now, *id, subscriber, room.columns);
                    let others = all.len() - i - 1;
                    match text.lines().count() + rows.lines().count() + others > most {
                        true => headline,
                        false => rows,
                    }
                }
                None => self.idle_row(now, *id, *role, name),
            };
            if text.lines().count() < most {
                text.push_str(&rows);
            }
        }
        if all.is_empty() {
            text.push_str(match self.had_subscribers {
                true => self.idle_text.now,
                false => self.idle_text.yet,
            });
        } else if let Some((of, decision)) = &self.decision {
            let of = of.map_or(String::new(), |rendition| format!("{rendition}: "));
            push(
                &mut text,
                format_args!("last control event: {of}{decision}"),
            );
        }
        // On a terminal with few rows, show the top of the table.
        text.lines().take(most).map(str::to_owned).collect()
    }

    fn is_moving(&self, id: SubscriberId, now: Instant) -> bool {
        let journey = self.journeys.get(&id);
        journey.is_some_and(|journey| now.since(journey.last_record) < STILL)
    }

    /// The row of a subscriber without new frames.
    fn idle_row(&self, now: Instant, id: SubscriberId, role: Role, name: &str) -> String {
        let line = self.title(id, role, name);
        match self.journeys.get(&id) {
            Some(journey) => {
                let seconds = now.since(journey.last_record).as_secs();
                format!("{line}  no new picture for {seconds} s\n")
            }
            None => format!("{line}  no picture yet\n"),
        }
    }

    fn subscriber_rows(
        &mut self,
        text: &mut String,
        now: Instant,
        id: SubscriberId,
        subscriber: &Subscriber,
        columns: usize,
    ) {
        let Some(journey) = self.journeys.get_mut(&id) else {
            return;
        };
        let link = self.links.get(&id);
        let unit = link.map_or_else(
            || "ms".to_owned(),
            |transport| format!("over {}, in ms", transport.name()),
        );
        push(
            text,
            format_args!("{unit:25}{:^24} {:>16}\n", "last 5 s", "whole run"),
        );
        let names = "   p50   p95   p99   max";
        push(text, format_args!("{:25}{names} {names}\n", ""));
        let bound = journey.bound;
        let has_total = journey
            .span(TOTAL)
            .is_some_and(|spread| spread.run().is_some());
        for (spread, (from, to)) in journey.spans.iter_mut().zip(SPANS) {
            if (from, to) == CLIENT_TOTAL && has_total {
                continue;
            }
            let label = format!("{}→{}", from.name(), to.name());
            let crosses = from.side() != to.side();
            row(text, now, &label, spread, bound.filter(|_| crosses));
        }
        for (name, spread) in [
            ("motion-to-photon", &mut journey.exact),
            ("motion-to-photon ≥", &mut journey.at_least),
        ] {
            let label = match spread.count() {
                count @ 1..MEANINGFUL => format!("{name} ({count})"),
                _ => name.to_owned(),
            };
            row(text, now, &label, spread, None);
        }
        let names = DisplayLatency::default().named();
        for (n, (age, (name, _))) in journey.ages.iter_mut().zip(names).enumerate() {
            // Both ends of the first age are on the client's clock, so it has no error bound.
            let bound = journey.age_bound.filter(|_| n > 0);
            row(text, now, name, age, bound);
        }
        if let Some(audio) = &journey.audio {
            push(text, format_args!("  {}\n", sound::in_words(audio)));
        }
        if let Some(loss_recovery) = loss_recovery(journey) {
            push(text, format_args!("  last 5 s: {loss_recovery}\n"));
        }
        let ended = format!("{}", subscriber.count);
        for line in wrapped(&ended, columns.saturating_sub(2)) {
            push(text, format_args!("  {line}\n"));
        }
    }

    /// The top line: name, role, and recent rates.
    fn headline(&mut self, now: Instant, id: SubscriberId, subscriber: &Subscriber) -> String {
        let mut line = self.title(id, subscriber.role, &subscriber.name);
        if let Some(journey) = self.journeys.get_mut(&id) {
            push(&mut line, format_args!("  {}", flow(now, journey)));
        }
        line.push('\n');
        line
    }

    /// The recent percentiles of the whole journey or, at a client, of the client's part.
    fn total(&mut self, now: Instant, id: SubscriberId) -> Option<((Stage, Stage), Percentiles)> {
        let journey = self.journeys.get_mut(&id)?;
        [TOTAL, CLIENT_TOTAL].into_iter().find_map(|total| {
            let recent = journey.span(total)?.recent(now)?;
            Some((total, recent))
        })
    }

    /// A line for each subscriber that has recently received frames.
    fn plain(&mut self, now: Instant, totals: &Totals) -> String {
        let mut text = String::new();
        for (id, subscriber) in totals.in_order() {
            if !self.is_moving(id, now) {
                continue;
            }
            let total = self.total(now, id);
            let rendition = self.rendition(id);
            let Some(journey) = self.journeys.get_mut(&id) else {
                continue;
            };
            push(&mut text, format_args!("{}", subscriber.name));
            if subscriber.role == Role::Observer {
                text.push_str(" (observer)");
            }
            if let Some(rendition) = rendition {
                push(&mut text, format_args!(" ({rendition})"));
            }
            push(&mut text, format_args!(": {}", flow(now, journey)));
            if let Some(transport) = self.links.get(&id) {
                push(&mut text, format_args!("  {}", transport.name()));
            }
            if let Some(((from, to), total)) = total {
                push(
                    &mut text,
                    format_args!("; {}→{} {}", from.name(), to.name(), in_words(&total)),
                );
                let crosses = from.side() != to.side();
                if let Some(bound) = journey.bound.filter(|_| crosses) {
                    push(&mut text, format_args!(" ±{}", number(bound)));
                }
            }
            if let Some(exact) = journey.exact.recent(now) {
                push(
                    &mut text,
                    format_args!("; motion-to-photon {}", in_words(&exact)),
                );
            }
            if let Some(least) = journey.at_least.recent(now) {
                push(
                    &mut text,
                    format_args!("; motion-to-photon ≥ {}", in_words(&least)),
                );
            }
            if let Some(audio) = &journey.audio {
                push(&mut text, format_args!("; {}", sound::in_words(audio)));
            }
            if let Some(loss_recovery) = loss_recovery(journey) {
                push(&mut text, format_args!("; {loss_recovery}"));
            }
            push(&mut text, format_args!("; {}\n", subscriber.count));
        }
        text
    }
}

/// The name, truncated to its column.
fn short(name: &str) -> String {
    name.chars().take(16).collect()
}

/// The mean frame rate from the first to the last record.
fn mean_rate(journey: &Journey, subscriber: &Subscriber) -> String {
    let run = journey.last_record.since(journey.started);
    let seconds = run.max(Duration::from_millis(100)).as_secs_f64();
    // The first frame starts the first interval and is not counted.
    let rate = |frames: u64| frames.saturating_sub(1) as f64 / seconds;
    match (subscriber.count.complete, subscriber.count.unacknowledged) {
        (complete, 0) => format!("{:.1} complete frames/s", rate(complete)),
        (_, sent) => format!("{:.1} frames/s sent", rate(sent)),
    }
}

/// Frame rate, bitrate, loss, and the share of marked L4S packets over the window.
fn flow(now: Instant, journey: &mut Journey) -> String {
    journey.expire(now);
    let started = journey.started;
    let seconds = now.since(started).clamp(Duration::from_millis(100), WINDOW);
    let seconds = seconds.as_secs_f64();
    let of = |count: fn(&Recent) -> u32| {
        // The first frame starts the first interval and is not counted.
        let recent = journey.recent.iter().filter(|frame| frame.at > started);
        // Sum integers, because an empty sum of floats would be -0.
        recent.map(count).map(u64::from).sum::<u64>() as f64
    };
    let frames = of(|frame| u32::from(frame.complete)) / seconds;
    let unacknowledged = of(|frame| u32::from(frame.unacknowledged)) / seconds;
    let mut text = match unacknowledged > 0.0 {
        true => format!("{unacknowledged:.1} frames/s sent"),
        false => format!("{frames:.1} complete frames/s"),
    };
    let (bytes, datagrams) = (of(|frame| frame.bytes), of(|frame| frame.datagrams));
    // A client does not know how many bytes were sent.
    if bytes > 0.0 {
        let rate = bytes * 8.0 / seconds / 1e6;
        push(&mut text, format_args!("  {rate:.1} Mb/s"));
    }
    // A recorder has no link.
    if datagrams > 0.0 {
        let lost = of(|frame| u32::from(frame.lost));
        let loss = lost / datagrams * 100.0;
        push(&mut text, format_args!("  loss {loss:.2} %"));
    }
    let l4s = of(|frame| frame.l4s.0.into());
    if l4s > 0.0 {
        let share = of(|frame| frame.l4s.1.into()) / l4s * 100.0;
        push(&mut text, format_args!("  L4S, CE {share:.1} %"));
    }
    text
}

/// The loss recovery in the window, if any.
fn loss_recovery(journey: &Journey) -> Option<String> {
    let of = |count: fn(&Recent) -> u32| journey.recent.iter().map(count).map(u64::from).sum();
    let sums: [fn(&Recent) -> u32; 3] = [
        |frame| frame.fec,
        |frame| frame.recovered.into(),
        |frame| frame.retransmitted.into(),
    ];
    let [fec, recovered, retransmitted]: [u64; 3] = sums.map(of);
    (fec + recovered + retransmitted > 0).then(|| {
        format!(
            "{fec} FEC datagrams, {recovered} fragments recovered, {retransmitted} retransmitted"
        )
    })
}

/// Shown instead of the percentiles if all values are zero: the later stage was never reached after the earlier one.
const OVERLAPPING: &str = "overlapping";

/// Appends a row, if there are measurements.
fn row(text: &mut String, now: Instant, label: &str, spread: &mut Spread, bound: Option<Duration>) {
    let Some(run) = spread.run() else { return };
    push(text, format_args!("{label:25}"));
    let numbers = |of: Option<Percentiles>| match of {
        Some(p) if p.max.is_zero() => format!("{OVERLAPPING:>24}"),
        Some(p) => [p.p50, p.p95, p.p99, p.max]
            .map(|span| format!("{:>6}", number(span)))
            .concat(),
        None => format!("{:>24}", ""),
    };
    push(
        text,
        format_args!("{} {}", numbers(spread.recent(now)), numbers(Some(run))),
    );
    if let Some(bound) = bound {
        push(text, format_args!(" ±{}", number(bound)));
    }
    text.push('\n');
}

fn in_words(p: &Percentiles) -> String {
    let [p50, p95, p99, max] = [p.p50, p.p95, p.p99, p.max].map(number);
    format!("p50 {p50} p95 {p95} p99 {p99} max {max} ms")
}

/// Milliseconds in at most four characters, or seconds from 10 s.
fn number(span: Duration) -> String {
    let ms = span.as_secs_f64() * 1e3;
    match ms {
        ..9.995 => format!("{ms:.2}"),
        ..99.95 => format!("{ms:.1}"),
        ..9999.5 => format!("{ms:.0}"),
        _ => format!("{:.0}s", (ms / 1e3).min(999.0)),
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(arguments);
}
