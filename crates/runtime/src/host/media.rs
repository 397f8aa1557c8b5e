//! The media thread captures pictures and produces the player's rendition. It handles one frame at a time from the
//! capture to the link, slice by slice. Secondary renditions are produced from the same pictures in their own threads.

mod encoder;
mod pipeline;
mod placement;
mod player;
mod secondary;
mod session_path;
mod subscriber;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, PoisonError, atomic::Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::pool::{Pool, PooledPicture};
use openuvr_media::capture::{Capture, CaptureEvent};
use openuvr_media::convert::Converter;
use openuvr_proto::host::LinkState;
use openuvr_proto::id::SubscriberId;
use openuvr_proto::send::rendition::AppliedInput;
use openuvr_proto::time::Instant;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::GoodbyeReason;

pub(super) use self::encoder::open;
use self::pipeline::{PictureInfo, Pipeline};
use self::player::PlayerRole;
pub(super) use self::secondary::ReturnedPipeline;
use self::secondary::{SecondaryRendition, SharedPicture};
use super::{Encodings, MEDIA_COMMANDS, MediaCommand, Notice, Shared, UNCHANGED};
use crate::sched::Scheduler;
use crate::scheduling_latency::WakeupSite;

/// Retry interval for a picture that could not be submitted because a secondary rendition's slot was locked. The
/// rendition's thread holds the lock for less than a microsecond, unless it is preempted.
const RETRY_AFTER: Duration = Duration::from_millis(1);

pub(super) struct Media {
    shared: Arc<Shared>,
    capture: Box<dyn Capture>,
    media_commands: Receiver<MediaCommand>,
    /// Commands that arrived during a frame and are handled after the frame.
    deferred: VecDeque<MediaCommand>,
    /// The channel through which the threads of secondary renditions return their pipelines.
    returns: SyncSender<MediaCommand>,
    encodings: Arc<Encodings>,
    scheduler: Scheduler,
    /// The rendition that this thread produces: the player's rendition if there is a player.
    primary: Option<Pipeline>,
    secondaries: Vec<SecondaryRendition>,
    /// Threads that are ending or have ended.
    ending: Vec<JoinHandle<()>>,
    role: PlayerRole,
    /// The bitrate limit set by the application, if any.
    bitrate_limit: Option<Bitrate>,
    /// The GOP size set by the application, if any. The inner `None`: key frames only on request.
    key_frame_interval: Option<Option<u32>>,
    /// The converter for the next primary rendition.
    converter: Converter,
    /// The pool for pictures that secondary renditions share.
    pool: Pool,
    /// The size of the primary rendition's pictures.
    size: Size,
    /// The capture's maximum frame rate.
    fps: f64,
    /// Wake-up sites of this thread's timers, for a due frame and for pacing.
    timer: WakeupSite,
    pacing: WakeupSite,
}

impl Media {
    pub(super) fn new(
        shared: Arc<Shared>,
        (capture, converter): (Box<dyn Capture>, Converter),
        encodings: Arc<Encodings>,
        scheduler: Scheduler,
        (returns, media_commands): (SyncSender<MediaCommand>, Receiver<MediaCommand>),
    ) -> Media {
        let fps = encodings.all()[0].rendition.policy.fps;
        let [timer, pacing] = ["host-media-timer", "host-pacing-timer"].map(|n| scheduler.site(n));
        Media {
            shared,
            capture,
            media_commands,
            deferred: VecDeque::new(),
            returns,
            encodings,
            scheduler,
            primary: None,
            secondaries: Vec::new(),
            ending: Vec::new(),
            role: PlayerRole::default(),
            bitrate_limit: None,
            key_frame_interval: None,
            fps,
            converter,
            pool: Pool::default(),
            size: Size::default(),
            timer,
            pacing,
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.stopping() && self.turn() {}
        self.end_all();
    }

    /// Waits for the next event and handles it. Returns whether the source continues.
    fn turn(&mut self) -> bool {
        self.take_commands();
        let until = self.next_deadline();
        let event = (self.capture).next(until.map(|at| at.since(clock::now())));
        self.shared.to_media.received();
        self.shared.heartbeat.media_answers();
        if let (Ok(CaptureEvent::TimedOut), Some(until)) = (&event, until) {
            self.timer.woke(until);
        }
        match event {
            Ok(CaptureEvent::Frame) => {
                let changed = self.capture.changed();
                if let Some(primary) = &mut self.primary {
                    primary.changed(self.capture.size(), changed.as_ref());
                }
                self.frame(true);
            }
            Ok(CaptureEvent::TimedOut | CaptureEvent::Woken) => {
                self.take_commands();
                if self.frame_deadline().is_some_and(|at| at <= clock::now()) {
                    // The picture is unchanged, but a subscriber needs it, static refinement is due, or the frame rate
                    // must be constant.
                    self.frame(false);
                }
            }
            // The next frame has the new size and starts a new epoch.
            Ok(CaptureEvent::Resized(_)) => {}
            Ok(CaptureEvent::Hidden) => self.shared.source_shown(false),
            Ok(CaptureEvent::Shown) => self.shared.source_shown(true),
            Ok(CaptureEvent::Ended(why)) => {
                self.shared.end_source(GoodbyeReason::SourceEnded);
                self.shared.finish(Notice::SourceEnded(why.into()));
                return false;
            }
            Err(e) => {
                self.shared.end_source(GoodbyeReason::Failed);
                self.shared
                    .finish(Notice::Failed(format!("capture failed: {e}")));
                return false;
            }
        }
        true
    }

    fn take_commands(&mut self) {
        // The loop is bounded by the queue's capacity. The control thread has a higher priority and could otherwise add
        // commands endlessly.
        for _ in 0..MEDIA_COMMANDS {
            let next = self.deferred.pop_front();
            let Some(command) = next.or_else(|| self.media_commands.try_recv().ok()) else {
                break;
            };
            self.command_media(command);
        }
        let bitrate_limit = Bitrate(self.shared.bitrate_limit.swap(0, Ordering::Relaxed));
        if bitrate_limit != Bitrate(0) {
            self.limit(bitrate_limit);
        }
        let frames = &self.shared.key_frame_interval;
        let frames = u32::try_from(frames.swap(UNCHANGED, Ordering::Relaxed));
        if let Ok(frames) = frames {
            self.set_key_frame_interval(Some(frames).filter(|frames| *frames != 0));
        }
        self.settle();
        let watched = self.primary.is_some() || !self.secondaries.is_empty();
        self.capture.set_watched(watched);
        if let Some(primary) = &self.primary {
            let fps = primary.fps();
            if std::mem::replace(&mut self.fps, fps) != fps {
                self.capture.limit_fps(fps);
            }
        }
        self.report_control_events();
    }

    fn report_control_events(&mut self) {
        let Some(primary) = &mut self.primary else {
            return;
        };
        let mut newest = None;
        while let Some(event) = primary.poll_control_event() {
            self.shared.notice(Notice::ControlEvent {
                rendition: primary.id(),
                event,
            });
            newest = Some(event);
        }
        if let Some(event) = newest {
            let mut sessions = self.shared.sessions();
            sessions.control_event(event);
            self.shared.flush(&mut sessions);
        }
    }

    /// The time at which a frame is due even if the picture does not change.
    fn frame_deadline(&self) -> Option<Instant> {
        self.capture.picture()?;
        self.primary.as_ref()?.next_deadline()
    }

    /// The time at which the next action is due even if the picture does not change.
    fn next_deadline(&mut self) -> Option<Instant> {
        let mut pending = false;
        for secondary in &mut self.secondaries {
            pending |= secondary.retry();
        }
        let again = pending.then(|| clock::now() + RETRY_AFTER);
        self.frame_deadline().into_iter().chain(again).min()
    }

    /// Encodes and sends the newest picture. `fresh` states whether it was just captured.
    fn frame(&mut self, fresh: bool) {
        let captured = clock::now();
        self.take_commands();
        let links = self.follow_links(captured);
        let info = PictureInfo {
            captured,
            drawn: self.capture.render_info(),
            injected: self.injected(),
        };
        let Some(picture) = self.capture.picture() else {
            return;
        };
        if let Some(primary) = &mut self.primary
            && primary.frame(&picture, &info, fresh)
        {
            self.send_rest();
        }
        self.report_ends();
        self.report_control_events();
        self.report_size();
        if fresh {
            self.share(&info, links);
        }
    }

    fn injected(&self) -> Option<AppliedInput> {
        let injected = self.shared.injected.lock();
        *injected.unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the primary rendition with the link states of its subscribers. Returns the link states for each
    /// secondary rendition.
    fn follow_links(&mut self, now: Instant) -> Vec<Vec<(SubscriberId, LinkState)>> {
        let sessions = self.shared.sessions();
        if let Some(primary) = &mut self.primary {
            primary.follow_links(|id| sessions.link(now, id));
        }
        let look = |id: &SubscriberId| Some((*id, sessions.link(now, *id)?));
        let links =
            |secondary: &SecondaryRendition| secondary.members.iter().filter_map(look).collect();
        self.secondaries.iter().map(links).collect()
    }

    /// Sends the rest of the frame, paced by the player's link. In the meantime, feedback and retransmission requests
    /// are handled. All other commands wait for the end of the frame.
    fn send_rest(&mut self) {
        while let Some(at) = self.primary.as_mut().and_then(Pipeline::send_rest) {
            let wait = at.since(clock::now());
            match self.media_commands.recv_timeout(wait) {
                Ok(command @ (MediaCommand::Feedback(..) | MediaCommand::Resend(..))) => {
                    self.command_media(command)
                }
                Ok(command) => self.deferred.push_back(command),
                Err(RecvTimeoutError::Timeout) => self.pacing.woke(at),
                // The host is stopping.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
            }
        }
    }

    /// Records frame outcomes in the sessions.
    fn report_ends(&mut self) {
        let Some(primary) = &mut self.primary else {
            return;
        };
        primary.report_send_errors();
        let Some(first) = primary.poll_end() else {
            return;
        };
        let (now, mut sessions) = (clock::now(), self.shared.sessions());
        sessions.record(now, &first);
        while let Some(end) = primary.poll_end() {
            sessions.record(now, &end);
        }
        self.shared.flush(&mut sessions);
    }

    fn report_size(&mut self) {
        let size = self.primary.as_ref().map_or(self.size, Pipeline::size);
        if size.is_valid() && std::mem::replace(&mut self.size, size) != size {
            self.shared.notice(Notice::Resized(size));
        }
    }

    /// Shares the newest picture with secondary renditions. There is at most one copy of the captured picture, and one
    /// of the picture that the primary rendition has converted; each secondary rendition uses one of these copies. The
    /// player's frame has already been sent.
    fn share(&mut self, info: &PictureInfo, links: Vec<Vec<(SubscriberId, LinkState)>>) {
        if self.secondaries.is_empty() {
            return;
        }
        let Some(picture) = self.capture.picture() else {
            return;
        };
        let converted = self.primary.as_ref();
        let converted = converted.and_then(|primary| primary.converted(picture.size));
        let copy = |of| Arc::new(self.pool.copy_of(of));
        let (mut captured_copy, mut converted_copy) =
            (None::<Arc<PooledPicture>>, None::<Arc<PooledPicture>>);
        for (secondary, links) in self.secondaries.iter_mut().zip(links) {
            let shared = match &converted {
                Some(nv12) if secondary.takes_nv12() => {
                    converted_copy.get_or_insert_with(|| copy(nv12))
                }
                _ => captured_copy.get_or_insert_with(|| copy(&picture)),
            };
            secondary.offer(SharedPicture {
                picture: shared.clone(),
                size: picture.size,
                info: *info,
                changed: self.capture.changed(),
                superseded: 0,
                links,
            });
        }
    }
}
