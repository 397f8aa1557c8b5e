//! A secondary rendition, in addition to the media thread's rendition. It has its own thread without real-time
//! priority, so it cannot delay the player.
//!
//! ```text
//! media thread ─► slot: the newest picture, shared ─► convert, encode, send
//!              ─► media_commands                          ◄─ outcomes: to the control thread
//! ```
//! At most one picture waits in the slot. A newer picture replaces it, and the replaced picture is recorded as a
//! dropped frame. The media thread never waits for the slot: if the slot is locked, the media thread retries later.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;

use openuvr_clock as clock;
use openuvr_media::capture::Waker;
use openuvr_media::capture::pool::PooledPicture;
use openuvr_media::capture::submit::Frame as _;
use openuvr_media::damage::Block;
use openuvr_proto::host::LinkState;
use openuvr_proto::id::{RenditionId, SubscriberId};
use openuvr_proto::units::{Bitrate, Size};

use super::pipeline::{PictureInfo, Pipeline};
use crate::host::{MEDIA_COMMANDS, MediaCommand, Notice, PanicReporter, Shared};
use crate::sched::{self, Scheduler};
use crate::scheduling_latency::WakeupSite;

/// A picture that is passed to the thread of a secondary rendition.
pub(super) struct SharedPicture {
    pub(super) picture: Arc<PooledPicture>,
    /// The size of the source. The picture may be larger, because it may be padded.
    pub(super) size: Size,
    pub(super) info: PictureInfo,
    /// The region in which the picture differs from the previous one that the thread got; `None` if unknown.
    pub(super) changed: Option<Block>,
    /// Number of pictures that this picture replaced.
    pub(super) superseded: u32,
    /// Link states of the rendition's subscribers.
    pub(super) links: Vec<(SubscriberId, LinkState)>,
}

impl SharedPicture {
    /// Merges the metadata of an older picture that this picture replaces.
    fn supersede(&mut self, older: &SharedPicture) {
        self.superseded += older.superseded + 1;
        self.changed = match (self.changed.take(), &older.changed) {
            (Some(newer), Some(before)) if self.size == older.size => Some(newer.joined(before)),
            _ => None,
        };
    }
}

/// State that the media thread and the rendition's thread share.
#[derive(Default)]
struct Slot {
    waiting: Mutex<Option<SharedPicture>>,
    /// Whether the rendition's encoder accepts NV12 pictures of the source's size.
    takes_nv12: AtomicBool,
    /// Whether the media thread recalls the pipeline.
    recalled: AtomicBool,
    /// The wake-up site of the rendition's thread for new pictures.
    wakeup_site: WakeupSite,
}

/// A returned pipeline with the commands that its thread has not handled.
pub(in crate::host) struct ReturnedPipeline {
    pub(super) pipeline: Pipeline,
    pub(super) media_commands: Receiver<MediaCommand>,
    slot: Arc<Slot>,
}

/// The media thread's handle to a secondary rendition.
pub(super) struct SecondaryRendition {
    pub(super) id: RenditionId,
    /// The subscribers of the rendition.
    pub(super) members: Vec<SubscriberId>,
    media_commands: SyncSender<MediaCommand>,
    /// Commands that did not fit into the channel.
    unsent: VecDeque<MediaCommand>,
    slot: Arc<Slot>,
    /// A picture that could not be submitted because the slot was locked.
    pending: Option<SharedPicture>,
    thread: JoinHandle<()>,
}

impl SecondaryRendition {
    /// Starts the thread. The thread returns its pipeline to the media thread through `returns`, and wakes the media
    /// thread with `capturing`.
    ///
    /// # Errors
    /// Returns the system's error if the thread cannot be started. The pipeline is then dropped.
    pub(super) fn start(
        mut pipeline: Pipeline,
        shared: &Arc<Shared>,
        scheduler: &Scheduler,
        (returns, capturing): (SyncSender<MediaCommand>, Waker),
    ) -> std::io::Result<SecondaryRendition> {
        let (media_commands, inbox) = sync_channel(MEDIA_COMMANDS);
        let slot = Arc::new(Slot {
            wakeup_site: scheduler.site("host-media-to-rendition"),
            ..Slot::default()
        });
        let (id, members) = (pipeline.id(), pipeline.members());
        let thread = Thread {
            shared: shared.clone(),
            pipeline,
            media_commands: inbox,
            slot: slot.clone(),
            timer: scheduler.site("host-rendition-timer"),
            picture: None,
        };
        let report = PanicReporter(shared.clone(), "rendition");
        // The thread has no real-time priority, because the player has precedence.
        let role = sched::ThreadRole::Background;
        let thread = scheduler.spawn(role, "ouvr-rendition", move || {
            let _report = report;
            if let Some(returned) = thread.run() {
                // This fails only if the host is stopping.
                let _ = returns.send(MediaCommand::Returned(Box::new(returned)));
                capturing.wake();
            }
        })?;
        Ok(SecondaryRendition {
            id,
            members,
            media_commands,
            unsent: VecDeque::new(),
            slot,
            pending: None,
            thread,
        })
    }

    /// Forwards a command for one of the subscribers. If there is no room, feedback and retransmission requests are
    /// dropped, because clients repeat them.
    pub(super) fn command_media(&mut self, command: MediaCommand) {
        match &command {
            MediaCommand::Add { id, .. } => self.members.push(*id),
            MediaCommand::Remove(id) => {
                self.members.retain(|member| member != id);
                if self.forget(*id) {
                    return;
                }
            }
            _ => {}
        }
        let lost = matches!(
            command,
            MediaCommand::Feedback(..) | MediaCommand::Resend(..)
        );
        if !lost {
            self.unsent.push_back(command);
        } else if self.unsent.is_empty() {
            let _ = self.media_commands.try_send(command);
            self.thread.thread().unpark();
        }
        self.retry();
    }

    /// Drops the unsent commands of a subscriber that has left. Returns whether the subscriber's `Add` was among them.
    fn forget(&mut self, gone: SubscriberId) -> bool {
        let joined =
            |command: &MediaCommand| matches!(command, MediaCommand::Add { id, .. } if *id == gone);
        let unknown = self.unsent.iter().any(joined);
        self.unsent
            .retain(|command| command.subscriber() != Some(gone));
        unknown
    }

    /// Whether the returned pipeline was in this rendition's thread.
    pub(super) fn owns(&self, returned: &ReturnedPipeline) -> bool {
        Arc::ptr_eq(&self.slot, &returned.slot)
    }

    /// Retries unsent commands and the pending picture. Returns whether any remain.
    pub(super) fn retry(&mut self) -> bool {
        if self.unsent.is_empty() && self.pending.is_none() {
            return false;
        }
        while let Some(command) = self.unsent.pop_front() {
            if let Err(TrySendError::Full(command) | TrySendError::Disconnected(command)) =
                self.media_commands.try_send(command)
            {
                self.unsent.push_front(command);
                break;
            }
        }
        if let Some(pending) = self.pending.take() {
            self.put(pending);
        }
        self.thread.thread().unpark();
        self.pending.is_some() || !self.unsent.is_empty()
    }

    /// Submits the newest picture. It replaces a picture that is still waiting.
    pub(super) fn offer(&mut self, mut newest: SharedPicture) {
        if let Some(pending) = self.pending.take() {
            newest.supersede(&pending);
        }
        self.put(newest);
        self.slot.wakeup_site.sent();
        self.thread.thread().unpark();
    }

    fn put(&mut self, mut picture: SharedPicture) {
        match self.slot.waiting.try_lock() {
            Ok(mut slot) => {
                if let Some(older) = slot.take() {
                    picture.supersede(&older);
                }
                *slot = Some(picture);
            }
            Err(TryLockError::WouldBlock) => self.pending = Some(picture),
            // The thread panicked.
            Err(TryLockError::Poisoned(_)) => {}
        }
    }

    /// Whether the rendition's encoder accepts NV12 pictures of the source's size.
    pub(super) fn takes_nv12(&self) -> bool {
        self.slot.takes_nv12.load(Ordering::Relaxed)
    }

    /// Limits the video's bitrate from the next frame on.
    pub(super) fn limit(&mut self, bitrate_limit: Bitrate) {
        self.unsent.push_back(MediaCommand::Limit(bitrate_limit));
        self.retry();
    }

    /// Changes the GOP size from the next frame on.
    pub(super) fn set_key_frame_interval(&mut self, frames: Option<u32>) {
        self.unsent
            .push_back(MediaCommand::KeyFrameInterval(frames));
        self.retry();
    }

    /// Recalls the pipeline. The thread returns it with [`MediaCommand::Returned`].
    pub(super) fn recall(&self) {
        self.slot.recalled.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
    }

    /// Ends the thread, unless the thread is already ending because it returns the pipeline. Returns the thread and the
    /// unsent commands.
    pub(super) fn end(self) -> (JoinHandle<()>, VecDeque<MediaCommand>) {
        drop(self.media_commands);
        self.thread.thread().unpark();
        (self.thread, self.unsent)
    }
}

/// The rendition's thread.
struct Thread {
    shared: Arc<Shared>,
    pipeline: Pipeline,
    media_commands: Receiver<MediaCommand>,
    slot: Arc<Slot>,
    /// The wake-up site of this thread's timer.
    timer: WakeupSite,
    /// The newest picture with its metadata.
    picture: Option<(Arc<PooledPicture>, PictureInfo)>,
}

impl Thread {
    /// Runs until the rendition has no subscribers, or the media thread recalls the pipeline. Returns the pipeline if
    /// it was recalled.
    fn run(mut self) -> Option<ReturnedPipeline> {
        loop {
            self.slot.wakeup_site.received();
            if !self.take_commands() {
                self.pipeline.end();
                return None;
            }
            if self.slot.recalled.load(Ordering::Relaxed) {
                return Some(ReturnedPipeline {
                    pipeline: self.pipeline.prepare_move(),
                    media_commands: self.media_commands,
                    slot: self.slot,
                });
            }
            if let Some(waiting) = self.take_picture() {
                self.on_picture(waiting);
                continue;
            }
            let deadline = self.pipeline.next_deadline();
            match deadline.filter(|_| self.picture.is_some()) {
                Some(at) if at <= clock::now() => self.repeat(),
                Some(at) => {
                    std::thread::park_timeout(at.since(clock::now()));
                    self.timer.woke(at);
                }
                None => std::thread::park(),
            }
        }
    }

    /// Handles pending commands. Returns whether the channel is still open.
    fn take_commands(&mut self) -> bool {
        let open = loop {
            match self.media_commands.try_recv() {
                Ok(command) => self.pipeline.command_media(command),
                Err(TryRecvError::Empty) => break true,
                Err(TryRecvError::Disconnected) => break false,
            }
        };
        self.report_control_events();
        open
    }

    fn take_picture(&self) -> Option<SharedPicture> {
        let waiting = self.slot.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Handles a new picture.
    fn on_picture(&mut self, waiting: SharedPicture) {
        for _ in 0..waiting.superseded {
            self.pipeline.superseded();
            self.report_ends();
        }
        let links = waiting.links;
        self.pipeline.follow_links(|id| {
            let known = links.iter().find(|(of, _)| *of == id);
            known.map(|(_, link)| *link)
        });
        (self.pipeline).changed(waiting.size, waiting.changed.as_ref());
        self.picture = Some((waiting.picture, waiting.info));
        self.frame(waiting.info, true);
        let takes = self.pipeline.takes_nv12(waiting.size);
        self.slot.takes_nv12.store(takes, Ordering::Relaxed);
    }

    /// Encodes the current picture again, because a subscriber needs it, static refinement is due, or the frame rate
    /// must be constant.
    fn repeat(&mut self) {
        if let Some((_, info)) = &self.picture {
            let info = PictureInfo {
                captured: clock::now(),
                ..*info
            };
            self.frame(info, false);
        }
    }

    fn frame(&mut self, info: PictureInfo, fresh: bool) {
        let Some((picture, _)) = &self.picture else {
            return;
        };
        if self.pipeline.frame(&picture.picture(), &info, fresh) {
            while let Some(at) = self.pipeline.send_rest() {
                std::thread::park_timeout(at.since(clock::now()));
                let _ = self.take_commands();
            }
        }
        self.report_ends();
        self.report_control_events();
    }

    /// Sends frame outcomes to the control thread.
    fn report_ends(&mut self) {
        self.pipeline.report_send_errors();
        let mut sent = false;
        while let Some(end) = self.pipeline.poll_end() {
            // This fails only if the host is stopping.
            sent |= self.shared.ends.send(end).is_ok();
        }
        if sent {
            self.shared.wake_control();
        }
    }

    fn report_control_events(&mut self) {
        while let Some(event) = self.pipeline.poll_control_event() {
            let rendition = self.pipeline.id();
            let notice = Notice::ControlEvent { rendition, event };
            self.shared.notice(notice);
        }
    }
}
