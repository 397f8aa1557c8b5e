//! Sends the host's frames to a video player. Each slice is packetized and sent at once, on the thread that the host gives
//! each subscriber.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_clock as clock;
use openuvr_proto::id::FrameId;
use openuvr_proto::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};

use super::outlet::{Outlet, SendOutcome};
use super::parameters::ParameterObserver;
use super::stream::RtpStream;
use crate::packetise::payloads;

/// A track that is set up.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) stream: Mutex<RtpStream>,
    pub(super) outlet: Outlet,
    /// The player has paused or disconnected, so nothing more is sent.
    pub(super) closed: AtomicBool,
    /// The newest frame whose sending has started; 0 if there is none.
    newest: AtomicU32,
}

impl Delivery {
    pub(super) fn new(stream: RtpStream, outlet: Outlet) -> Delivery {
        Delivery {
            stream: Mutex::new(stream),
            outlet,
            closed: AtomicBool::new(false),
            newest: AtomicU32::new(0),
        }
    }

    /// The newest frame whose sending has started.
    pub(super) fn newest(&self) -> FrameId {
        FrameId(self.newest.load(Ordering::Relaxed))
    }

    pub(super) fn stream(&self) -> MutexGuard<'_, RtpStream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one payload. Also returns the packet's size on the wire without UDP and IP headers.
    pub(super) fn send(
        &self,
        captured: Instant,
        last: bool,
        payload: &[u8],
        waits: bool,
    ) -> (SendOutcome, usize) {
        if self.closed.load(Ordering::Relaxed) {
            return (SendOutcome::Gone, 0);
        }
        let packet = self.stream().packet(captured, last, payload);
        (self.outlet.rtp(&packet, waits), packet.len())
    }
}

/// The subscriber for a player.
pub(super) struct Slices {
    video: Arc<Delivery>,
    /// Whether the host has ended the subscription.
    ended: Arc<AtomicBool>,
    watching: ParameterObserver,
    /// Locked until the response to PLAY has been sent, because ffmpeg discards earlier packets.
    answering: Arc<Mutex<()>>,
    open: Option<OpenFrame>,
}

/// The frame in progress.
struct OpenFrame {
    frame: FrameId,
    captured: Instant,
    key: bool,
    departure: Departure,
    gone: bool,
}

impl Slices {
    pub(super) fn new(
        video: Arc<Delivery>,
        ended: Arc<AtomicBool>,
        watching: ParameterObserver,
        answering: Arc<Mutex<()>>,
    ) -> Slices {
        Slices {
            video,
            ended,
            watching,
            answering,
            open: None,
        }
    }
}

impl Subscriber for Slices {
    fn start_frame(&mut self, _: Instant, frame: &Frame) {
        drop((self.answering.lock()).unwrap_or_else(PoisonError::into_inner));
        let newest = frame.header.frame.0;
        self.video.newest.store(newest, Ordering::Relaxed);
        self.open = Some(OpenFrame {
            frame: frame.header.frame,
            captured: Instant(frame.header.captured),
            key: frame.header.is_key(),
            departure: Departure::default(),
            gone: false,
        });
    }

    fn slice(&mut self, _: Instant, slice: &Slice<'_>) {
        let Some(open) = &mut self.open else { return };
        if open.key && slice.place.index == 0 {
            self.watching.note(slice.bytes);
        }
        let ends = slice.place.index + 1 == slice.place.count;
        let left = &mut open.departure;
        payloads(slice.bytes, |payload, last| {
            let (sent, bytes) = self.video.send(open.captured, last && ends, payload, true);
            open.gone |= sent == SendOutcome::Gone;
            left.overflowed |= sent == SendOutcome::Full;
            if sent == SendOutcome::Sent {
                let now = clock::now();
                left.first.get_or_insert(now);
                left.last = Some(now);
                left.datagrams += 1;
                left.bytes += u32::try_from(bytes).unwrap_or(u32::MAX);
            }
        });
    }

    fn end(&mut self, _: Instant) -> Progress {
        match self.open.take() {
            Some(open) if !open.gone => Progress::Sent(open.departure),
            _ => Progress::Missed,
        }
    }

    fn dropped(&mut self, _: Instant, frame: FrameId, _: Stage, _: DropCause) {
        self.open.take_if(|open| open.frame == frame);
    }

    fn update(&mut self, _: Instant, update: Update) {
        if let Update::Ended(_) = update {
            self.ended.store(true, Ordering::Relaxed);
        }
    }
}
