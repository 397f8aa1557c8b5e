//! A run: a video stream and bulk transfers over one bottleneck.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::send::congestion::Range;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;
use openuvr_sim::aqm::{Actions, Discipline, Ecn, Packet};
use openuvr_sim::bottleneck::Bottleneck;
use openuvr_sim::flows;
use openuvr_sim::flows::bulk::Bulk;

use super::controller::Kind;
use super::video::{Complete, DatagramId, Feedback, Totals, Video};

/// The settings of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The controller of the video.
    pub controller: Kind,
    /// The discipline of the bottleneck's queue.
    pub discipline: Discipline,
    /// The bottleneck's rate.
    pub rate: Bitrate,
    /// The delay in each direction, without queueing.
    pub one_way: Duration,
    /// The limit of the queue, as the time that the bottleneck takes to send a full queue.
    pub queue: Duration,
    /// The bulk transfers.
    pub competitors: Vec<flows::Kind>,
    /// Minimum, initial and maximum target rate of the video.
    pub range: Range,
    /// Frames per second.
    pub fps: f64,
    /// Time before the measurement, in which the rates settle.
    pub settling: Duration,
    /// Duration of the measurement.
    pub lasting: Duration,
    /// Seed of the frame sizes and of the queue's random decisions.
    pub seed: u64,
}

/// Observations of a run. Unless stated otherwise, they begin after the settling time.
#[derive(Debug, Clone)]
pub struct Observed {
    /// Complete frames that were captured after the settling time.
    pub complete: Vec<Complete>,
    /// Totals of the video.
    pub totals: Totals,
    /// The number of bytes that each bulk transfer has delivered.
    pub delivered: Vec<u64>,
    /// The queue's counters, including the settling time.
    pub actions: Actions,
    /// The time series, including the settling time.
    pub series: Vec<Point>,
}

/// A point of the time series. Each value is for a span of the length [`POINT`], or for the end of the span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The end of the span, counted from the start of the run.
    pub at: Duration,
    /// The video's rate in this span, in bits per second.
    pub video: f64,
    /// The rate of all bulk transfers in this span, in bits per second.
    pub bulk: f64,
    /// The video's target rate at the end of the span.
    pub target: Bitrate,
    /// The longest latency of the frames that became complete in this span; zero if there are none.
    pub latency: Duration,
    /// The time that the bottleneck would take to send its queue, at the end of the span.
    pub queue: Duration,
    /// Number of packets that the queue marked in this span.
    pub marked: u64,
    /// Number of packets that the queue dropped in this span.
    pub dropped: u64,
}

/// Duration of a point's span.
pub const POINT: Duration = Duration::from_millis(100);

/// Time between the starts of two bulk transfers, so that they are not synchronised (guess).
const STAGGER: Duration = Duration::from_millis(130);

/// The flow number of the video. Bulk transfers are numbered from 1.
const VIDEO: u64 = 0;

/// The content of a packet.
#[derive(Debug, Clone, Copy)]
enum Content {
    Video(DatagramId),
    Bulk(u64),
}

/// A message to a sender.
#[derive(Debug, Clone, Copy)]
enum Message {
    Video(Feedback),
    /// The acknowledgement of a bulk transfer's packet: the index of the transfer, the packet's number, and whether the
    /// packet was marked.
    Ack(usize, u64, bool),
}

/// Simulates a run.
#[must_use]
pub fn run(setting: &Setting) -> Observed {
    Run::new(setting).finish()
}

struct Run<'a> {
    setting: &'a Setting,
    now: Instant,
    video: Video,
    bulk: Vec<Bulk>,
    bottleneck: Bottleneck<Content>,
    /// Packets between the bottleneck and the client, and messages from the client. Both delays are constant, so both
    /// queues are in the order of arrival.
    forth: VecDeque<(Instant, Packet<Content>)>,
    back: VecDeque<(Instant, Message)>,
    feedback: Vec<Feedback>,
    complete: Vec<Complete>,
    series: Series,
}

/// The virtual time at which a run starts.
const START: Instant = Instant(1_000_000_000);

impl<'a> Run<'a> {
    fn new(setting: &'a Setting) -> Run<'a> {
        let interval = Duration::from_secs_f64(1.0 / setting.fps);
        let controller = setting.controller.open(setting.range, interval);
        let bulk = (1_u32..).zip(&setting.competitors).map(|(number, kind)| {
            let control = kind.open(setting.rate);
            Bulk::new(u64::from(number), control, START + STAGGER * number)
        });
        let limit = setting.rate.0 as f64 / 8.0 * setting.queue.as_secs_f64();
        let limit = usize::try_from(super::controller::whole(limit)).unwrap_or(usize::MAX);
        Run {
            setting,
            now: START,
            video: Video::new(VIDEO, controller, interval, START, setting.seed),
            bulk: bulk.collect(),
            bottleneck: Bottleneck::new(setting.discipline, limit, setting.seed),
            forth: VecDeque::new(),
            back: VecDeque::new(),
            feedback: Vec::new(),
            complete: Vec::new(),
            series: Series::default(),
        }
    }

    fn finish(mut self) -> Observed {
        let settled = START + self.setting.settling;
        let end = settled + self.setting.lasting;
        let mut before = None;
        while self.now < end {
            self.turn();
            if before.is_none() && self.now >= settled {
                before = Some((self.video.totals(), self.delivered()));
            }
            let points = START + POINT * (self.series.count() + 1);
            // The clock advances even if a timer is due again at the same time.
            let least = self.now + Duration::from_nanos(1);
            self.now = self.next().unwrap_or(end).min(points).max(least);
            if self.now >= points {
                self.note_point(points);
            }
        }
        let (totals, delivered) = before.unwrap_or_default();
        let (all, all_delivered) = (self.video.totals(), self.delivered());
        let captured = |frame: &Complete| frame.captured >= settled;
        Observed {
            complete: self.complete.iter().copied().filter(captured).collect(),
            totals: Totals {
                due: all.due - totals.due,
                skipped: all.skipped - totals.skipped,
                lost: all.lost - totals.lost,
                arrived_bytes: all.arrived_bytes - totals.arrived_bytes,
            },
            delivered: (all_delivered.iter().zip(&delivered))
                .map(|(all, before)| all - before)
                .collect(),
            actions: self.bottleneck.actions(),
            series: self.series.points,
        }
    }

    fn delivered(&self) -> Vec<u64> {
        self.bulk.iter().map(Bulk::delivered).collect()
    }

    fn next(&self) -> Option<Instant> {
        let bulk = self.bulk.iter().filter_map(Bulk::next_timeout);
        let on_way = [
            self.bottleneck.next_timeout(),
            self.forth.front().map(|(at, _)| *at),
            self.back.front().map(|(at, _)| *at),
            Some(self.video.next_timeout()),
        ];
        bulk.chain(on_way.into_iter().flatten()).min()
    }

    /// Processes all events that are due now.
    fn turn(&mut self) {
        let now = self.now;
        let rate = self.setting.rate;
        let takes = move |from: Instant, len: usize| from + transmission(len, rate);
        while let Some((left, packet)) = self.bottleneck.poll(now, takes) {
            self.forth.push_back((left + self.setting.one_way, packet));
        }
        while let Some((_, packet)) = self.forth.pop_front_if(|(at, _)| *at <= now) {
            self.arrive(packet);
        }
        while let Some((_, message)) = self.back.pop_front_if(|(at, _)| *at <= now) {
            match message {
                Message::Video(feedback) => self.video.on_feedback(now, feedback),
                Message::Ack(flow, number, marked) => self.bulk[flow].on_ack(now, number, marked),
            }
        }
        self.video.handle_timeout(now);
        while let Some(packet) = self.video.poll_transmit(now) {
            self.bottleneck.send(now, packet.map(Content::Video), takes);
        }
        for flow in &mut self.bulk {
            flow.handle_timeout(now);
            while let Some(packet) = flow.poll_transmit(now) {
                self.bottleneck.send(now, packet.map(Content::Bulk), takes);
            }
        }
    }

    /// Delivers a packet to the client.
    fn arrive(&mut self, packet: Packet<Content>) {
        let (now, at) = (self.now, self.now + self.setting.one_way);
        match packet.content {
            Content::Bulk(number) => {
                let flow = usize::try_from(packet.flow - 1).unwrap_or(0);
                let message = Message::Ack(flow, number, packet.ecn == Ecn::Ce);
                self.back.push_back((at, message));
            }
            Content::Video(id) => {
                let packet = packet.map(|_| id);
                let complete = self.video.on_arrival(now, &packet, &mut self.feedback);
                if let Some(frame) = complete {
                    self.series.latency = self.series.latency.max(frame.at.since(frame.captured));
                    self.complete.push(frame);
                }
                let messages = self.feedback.drain(..).map(Message::Video);
                self.back.extend(messages.map(|message| (at, message)));
            }
        }
    }

    fn note_point(&mut self, at: Instant) {
        let video = self.video.totals().arrived_bytes;
        let bulk: u64 = self.delivered().iter().sum();
        let actions = self.bottleneck.actions();
        let dropped = actions.dropped + actions.overflowed;
        let series = &mut self.series;
        let rate = |now: u64, before: u64| (now - before) as f64 * 8.0 / POINT.as_secs_f64();
        let (video_before, bulk_before, marked_before, dropped_before) = series.before;
        series.points.push(Point {
            at: at.since(START),
            video: rate(video, video_before),
            bulk: rate(bulk, bulk_before),
            target: self.video.controller().target(),
            latency: std::mem::take(&mut series.latency),
            queue: transmission(self.bottleneck.bytes(), self.setting.rate),
            marked: actions.marked - marked_before,
            dropped: dropped - dropped_before,
        });
        series.before = (video, bulk, actions.marked, dropped);
    }
}

/// The points so far. `before` has the totals at the newest point: bytes of the video, bytes of the bulk transfers,
/// marks and drops. `latency` is the longest latency since then.
#[derive(Debug, Default)]
struct Series {
    points: Vec<Point>,
    before: (u64, u64, u64, u64),
    latency: Duration,
}

impl Series {
    fn count(&self) -> u32 {
        u32::try_from(self.points.len()).unwrap_or(u32::MAX)
    }
}

/// The time that a transmitter with this rate takes to send `bytes`.
fn transmission(bytes: usize, rate: Bitrate) -> Duration {
    Duration::from_secs_f64(bytes as f64 * 8.0 / (rate.0 as f64).max(1.0))
}
