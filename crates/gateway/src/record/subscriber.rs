//! The host's frames on their way to the recorder's queue, in the thread that the host gives to each subscriber.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use openuvr_proto::id::FrameId;
use openuvr_proto::send::subscriber::{Departure, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::wire::control::GoodbyeReason;

use super::Tell;
use super::queue::{Frame, Queue};
use crate::updates::ended;

/// A recorder's end of its subscription.
pub(super) struct Frames {
    queue: Arc<Queue>,
    tell: Tell,
    /// The file, for people.
    file: String,
    open: Option<(FrameId, Frame)>,
    /// A frame found no room: what follows builds on it.
    broken: bool,
    /// The first frame is there.
    begun: bool,
    /// Set when the host has ended it.
    over: Arc<AtomicBool>,
}

impl Frames {
    pub(super) fn new(
        queue: Arc<Queue>,
        tell: Tell,
        file: String,
        over: Arc<AtomicBool>,
    ) -> Frames {
        Frames {
            queue,
            tell,
            file,
            open: None,
            broken: false,
            begun: false,
            over,
        }
    }

    fn missed(&self) {
        // What comes behind its end is none of the recording.
        if !self.queue.is_closed() && self.queue.missed() {
            let file = &self.file;
            (self.tell)(&format!(
                "this machine or its disk can't keep up: {file} lacks frames; the stream goes on"
            ));
        }
    }
}

impl Subscriber for Frames {
    fn begin(&mut self, _: Instant, frame: &openuvr_proto::send::subscriber::Frame) {
        let begun = Frame {
            captured: Instant(frame.header.captured),
            key: frame.header.is_key(),
            size: frame.configuration.map(|configuration| configuration.size),
            bytes: Vec::new(),
        };
        self.open = Some((frame.header.frame, begun));
        self.begun = true;
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
        // That nothing left of it is what the host writes down.
        let nothing = Departure {
            overflowed: true,
            ..Departure::default()
        };
        if self.queue.is_closed() {
            return Progress::Left(nothing);
        }
        if self.broken && !frame.key {
            self.missed();
            return match self.queue.has_room() {
                // With this a key frame is asked for.
                true => Progress::Missed,
                false => Progress::Left(nothing),
            };
        }
        let bytes = u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX);
        self.broken = !self.queue.frame(frame);
        if self.broken {
            self.missed();
            return Progress::Left(nothing);
        }
        Progress::Left(Departure {
            first: Some(now),
            last: Some(now),
            bytes,
            ..Departure::default()
        })
    }

    fn dropped(&mut self, _: Instant, frame: FrameId, stage: Stage, _: DropCause) {
        self.open.take_if(|(open, _)| *open == frame);
        // Others were never encoded, or came before the recording.
        if self.begun && stage == Stage::FirstSent {
            self.missed();
        }
    }

    fn update(&mut self, _: Instant, update: Update) {
        if let Update::Ended(_) = update {
            self.over.store(true, Ordering::Release);
        }
        match update {
            Update::Ended(GoodbyeReason::Quit | GoodbyeReason::SourceEnded) => {}
            Update::Ended(why) => {
                let (file, why) = (&self.file, ended(why));
                (self.tell)(&format!("{file} ends here: {why}"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use openuvr_proto::id::ConfigEpoch;
    use openuvr_proto::input::echo::InputEcho;
    use openuvr_proto::send::subscriber;
    use openuvr_proto::wire::video::{DrawingTimes, FrameHeader, SlicePlace};

    use super::*;

    const NOW: Instant = Instant(0);

    /// Gives it a frame of a megabyte.
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
            capacity: None,
        };
        frames.begin(NOW, &frame);
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

    #[test]
    fn a_slow_disk_costs_frames_and_one_key_frame() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let to = said.clone();
        let tell: Tell = Arc::new(move |words: &str| to.lock().unwrap().push(words.to_owned()));
        let (queue, items) = Queue::new();
        let mut frames = Frames::new(queue.clone(), tell, "it".to_owned(), Arc::default());
        let left = |progress: &Progress| matches!(progress, Progress::Left(l) if l.first.is_some());
        let mut number = 1;
        while left(&give(&mut frames, number, number == 1)) {
            number += 1;
        }
        assert_eq!(number, 33, "32 MiB wait at most");
        // Nobody is asked for a key frame while there is no room for it.
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
