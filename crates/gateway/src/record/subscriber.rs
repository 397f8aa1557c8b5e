//! Queues the host's frames for the recorder, on the thread that the host gives each subscriber.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use openuvr_proto::id::FrameId;
use openuvr_proto::send::subscriber::{Departure, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::wire::control::GoodbyeReason;

use super::Notify;
use super::queue::{Cause, Frame, MAX_BYTES, Queue};
use crate::updates::ended;

/// The recorder's subscriber.
pub(super) struct Frames {
    queue: Arc<Queue>,
    tell: Notify,
    /// Name of the file in messages.
    file: String,
    open: Option<(FrameId, Frame)>,
    /// Whether a frame found no room, so that the following frames cannot be decoded.
    broken: bool,
    /// Whether the first frame has arrived.
    started: bool,
    /// Set when the host ended the subscription.
    unsubscribed: Arc<AtomicBool>,
    /// Closed after the last frame.
    _drained: SyncSender<()>,
}

impl Frames {
    pub(super) fn new(
        queue: Arc<Queue>,
        tell: Notify,
        file: String,
        unsubscribed: Arc<AtomicBool>,
        drained: SyncSender<()>,
    ) -> Frames {
        Frames {
            queue,
            tell,
            file,
            open: None,
            broken: false,
            started: false,
            unsubscribed,
            _drained: drained,
        }
    }

    /// Counts a missing frame, and reports a cause that has not been reported yet. `cause` is `None` for a frame that
    /// is missing only because of an earlier one.
    fn missed(&self, cause: Option<Cause>) {
        // Frames after the end do not belong to the recording.
        if self.queue.is_closed() {
            return;
        }
        self.queue.missed();
        let Some(cause) = cause.filter(|cause| self.queue.is_news(*cause)) else {
            return;
        };
        let (file, waits) = (&self.file, MAX_BYTES >> 20);
        (self.tell)(&match cause {
            Cause::Disk => format!(
                "frames are missing in {file}: the disk is slower than the stream, and {waits} MiB are queued; use \
                a faster disk or a lower --bitrate. The stream continues"
            ),
            Cause::Processor => format!(
                "frames are missing in {file}: the recorder got too little processor time, and {waits} MiB were \
                queued; reduce the load of this machine. The stream continues"
            ),
        });
    }
}

impl Subscriber for Frames {
    fn start_frame(&mut self, _: Instant, frame: &openuvr_proto::send::subscriber::Frame) {
        let started = Frame {
            captured: Instant(frame.header.captured),
            key: frame.header.is_key(),
            size: frame.configuration.map(|configuration| configuration.size),
            fps: frame.configuration.map(|configuration| configuration.fps),
            bytes: Vec::new(),
        };
        self.open = Some((frame.header.frame, started));
        self.started = true;
    }

    fn slice(&mut self, _: Instant, slice: &Slice<'_>) {
        if let Some((_, frame)) = &mut self.open {
            frame.bytes.extend_from_slice(slice.bytes);
        }
    }

    fn end(&mut self, now: Instant) -> Progress {
        let Some((_, frame)) = self.open.take() else {
            return Progress::Missed;
        };
        // With this value, the host records the frame as dropped.
        let nothing = Departure {
            overflowed: true,
            ..Departure::default()
        };
        if self.queue.is_closed() {
            return Progress::Sent(nothing);
        }
        if self.broken && !frame.key {
            self.missed(None);
            return match self.queue.has_room() {
                // This result makes the host send a key frame.
                true => Progress::Missed,
                false => Progress::Sent(nothing),
            };
        }
        let bytes = u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX);
        self.broken = !self.queue.frame(frame);
        if self.broken {
            self.missed(Some(Cause::Disk));
            return Progress::Sent(nothing);
        }
        Progress::Sent(Departure {
            first: Some(now),
            last: Some(now),
            bytes,
            ..Departure::default()
        })
    }

    fn dropped(&mut self, _: Instant, frame: FrameId, stage: Stage, why: DropCause) {
        self.open.take_if(|(open, _)| *open == frame);
        // Only encoded frames since the start of the recording count as missing.
        if self.started && stage == Stage::FirstSent {
            // A frame that waits for a key frame is missing because of an earlier drop, which has already been
            // reported.
            let full = why == DropCause::SendBufferFull;
            self.missed(full.then_some(Cause::Processor));
        }
    }

    fn update(&mut self, _: Instant, update: Update) {
        if let Update::Ended(_) = update {
            self.unsubscribed.store(true, Ordering::Release);
        }
        match update {
            Update::Ended(GoodbyeReason::Quit | GoodbyeReason::SourceEnded) => {}
            Update::Ended(why) => {
                let (file, why) = (&self.file, ended(why));
                (self.tell)(&format!("the recording {file} ends: {why}"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, sync_channel};
    use std::time::Duration;

    use openuvr_proto::ecn::Ecn;
    use openuvr_proto::id::ConfigEpoch;
    use openuvr_proto::input::echo::InputEcho;
    use openuvr_proto::send::subscriber;
    use openuvr_proto::wire::video::{DrawingTimes, FrameHeader, SlicePlace};

    use super::super::queue::Item;
    use super::*;

    const NOW: Instant = Instant(0);

    /// Delivers a frame of one megabyte.
    fn give(frames: &mut Frames, number: u32, key: bool) -> Progress {
        let reference = if key { 0 } else { number - 1 };
        let frame = subscriber::Frame {
            header: FrameHeader {
                frame: FrameId(number),
                reference: FrameId(reference),
                epoch: ConfigEpoch(0),
                stream: 0,
                view: 0,
                captured: 0,
                clock_epoch: 0,
                echo: InputEcho::default(),
            },
            configuration: None,
            pose: None,
            views: None,
            times: DrawingTimes::default(),
            slices: 1,
            interval: Duration::ZERO,
            link: None,
            pacing: None,
            ecn: Ecn::NotEct,
        };
        frames.start_frame(NOW, &frame);
        let slice = Slice {
            place: SlicePlace {
                index: 0,
                count: 1,
                first_mb: 0,
                mbs: 1,
            },
            clean_after: None,
            bytes: &vec![1; 1 << 20],
        };
        frames.slice(NOW, &slice);
        frames.end(NOW)
    }

    type Messages = Arc<Mutex<Vec<String>>>;

    /// A recorder's subscriber, its queue, and its messages.
    fn frames() -> (Frames, (Arc<Queue>, Receiver<Item>), Messages) {
        let said = Messages::default();
        let to = said.clone();
        let tell: Notify = Arc::new(move |words: &str| to.lock().unwrap().push(words.to_owned()));
        let (queue, items) = Queue::new();
        let (unsubscribed, drained) = (Arc::default(), sync_channel(1).0);
        let frames = Frames::new(queue.clone(), tell, "it".to_owned(), unsubscribed, drained);
        (frames, (queue, items), said)
    }

    #[test]
    fn the_cause_of_missing_frames_is_reported() {
        let (mut frames, (queue, _items), said) = frames();
        give(&mut frames, 1, true);
        // The host's queue was full, and the next frames depend on the lost frame. The disk is not the cause.
        for (frame, why) in [
            (2, DropCause::SendBufferFull),
            (3, DropCause::AwaitingKeyFrame),
            (4, DropCause::AwaitingKeyFrame),
        ] {
            frames.dropped(NOW, FrameId(frame), Stage::FirstSent, why);
        }
        // Frame 5 was never encoded, so it is not part of the recording.
        frames.dropped(NOW, FrameId(5), Stage::Converted, DropCause::Superseded);
        assert_eq!(queue.all_missed(), 3);
        let mut number = 6;
        while matches!(give(&mut frames, number, number == 6), Progress::Sent(l) if l.first.is_some())
        {
            number += 1;
        }
        let said = said.lock().unwrap();
        let [processor, disk] = &said[..] else {
            panic!("expected each cause once: {said:?}");
        };
        assert!(
            processor.contains("processor time") && !processor.contains("disk"),
            "{processor}"
        );
        assert!(
            disk.contains("disk") && !disk.contains("processor"),
            "{disk}"
        );
    }

    #[test]
    fn a_slow_disk_costs_frames_and_one_key_frame() {
        let (mut frames, (queue, items), said) = frames();
        let left = |progress: &Progress| matches!(progress, Progress::Sent(l) if l.first.is_some());
        let mut number = 1;
        while left(&give(&mut frames, number, number == 1)) {
            number += 1;
        }
        assert_eq!(number, 33, "at most 32 MiB are queued");
        // No key frame is requested while there is no room for it.
        for _ in 0..50 {
            number += 1;
            let progress = give(&mut frames, number, false);
            assert!(progress != Progress::Missed && !left(&progress));
        }
        for _ in 0..20 {
            let item = items.recv().unwrap();
            queue.taken(&item);
        }
        assert_eq!(give(&mut frames, number + 1, false), Progress::Missed);
        assert!(left(&give(&mut frames, number + 2, true)));
        assert!(left(&give(&mut frames, number + 3, false)));
        assert_eq!(queue.all_missed(), 52);
        assert_eq!(said.lock().unwrap().len(), 1, "{said:?}");
    }
}
