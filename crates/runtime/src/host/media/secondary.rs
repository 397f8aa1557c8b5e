//! A rendition beside the one that the capturing thread makes, in a thread of its own, which is an
//! ordinary one: it can't delay the player.
//!
//! ```text
//! capturing thread ─► slot: the newest picture, shared ─► convert, encode, send
//!                  ─► media_commands                          ◄─ ends: to the control thread
//! ```
//! One picture waits at most. A newer one takes its place, and the older is a frame that is dropped by
//! name. The capturing thread never waits for the slot: one that it finds taken is offered the picture
//! again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;

use openuvr_media::capture::Waker;
use openuvr_media::capture::pool::Copied;
use openuvr_media::capture::submit::Frame as _;
use openuvr_media::damage::Block;
use openuvr_proto::host::LinkState;
use openuvr_proto::id::{RenditionId, SubscriberId};
use openuvr_proto::units::{Bitrate, Size};

use super::pipeline::{PictureInfo, Pipeline};
use crate::clock;
use crate::scheduling_latency::WakeupSite;
use crate::host::{MEDIA_COMMANDS, MediaCommand, Notice, PanicReporter, Shared};
use crate::sched::{self, Scheduler};

/// A picture on its way to another thread.
pub(super) struct SharedPicture {
    pub(super) picture: Arc<Copied>,
    /// Of the source; the picture may be padded to more.
    pub(super) size: Size,
    pub(super) info: PictureInfo,
    /// Where it differs from the one that this thread got before; `None`: perhaps everywhere.
    pub(super) changed: Option<Block>,
    /// Pictures whose place it took.
    pub(super) superseded: u32,
    /// What is known of the links of those who take it.
    pub(super) links: Vec<(SubscriberId, LinkState)>,
}

impl SharedPicture {
    /// It takes the place of an older one.
    fn supersede(&mut self, older: &SharedPicture) {
        self.superseded += older.superseded + 1;
        self.changed = match (self.changed.take(), &older.changed) {
            (Some(newer), Some(before)) if self.size == older.size => Some(newer.joined(before)),
            _ => None,
        };
    }
}

/// What both threads see.
#[derive(Default)]
struct Slot {
    waiting: Mutex<Option<SharedPicture>>,
    /// Its encoder takes pictures of the source's size as NV12.
    takes_nv12: AtomicBool,
    /// The pipeline is wanted by the capturing thread.
    recalled: AtomicBool,
    /// Where pictures are handed over.
    wakeup_site: WakeupSite,
}

/// A pipeline that comes back, with what it was not told yet.
pub(in crate::host) struct ReturnedPipeline {
    pub(super) pipeline: Pipeline,
    pub(super) media_commands: Receiver<MediaCommand>,
    slot: Arc<Slot>,
}

/// The capturing thread's end.
pub(super) struct SecondaryRendition {
    pub(super) id: RenditionId,
    /// Who takes it.
    pub(super) members: Vec<SubscriberId>,
    media_commands: SyncSender<MediaCommand>,
    /// Commands that found no room.
    unsent: VecDeque<MediaCommand>,
    slot: Arc<Slot>,
    /// A picture that found the slot taken.
    pending: Option<SharedPicture>,
    thread: JoinHandle<()>,
}

impl SecondaryRendition {
    /// Starts the thread; `back` and `capturing` lead to the capturing one.
    ///
    /// # Errors
    /// The system's, if it starts no more threads: the pipeline is gone then.
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
        // Not real-time: what it does may wait for whatever the player needs.
        let role = sched::ThreadRole::Background;
        let thread = scheduler.spawn(role, "ouvr-rendition", move || {
            let _report = report;
            if let Some(returned) = thread.run() {
                // Fails only if the host stops.
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

    /// Passes on an order for one of its members. What finds no room and comes again is lost.
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

    /// Drops what was not told yet of a subscriber that is gone; whether its coming was not.
    fn forget(&mut self, gone: SubscriberId) -> bool {
        let came =
            |command: &MediaCommand| matches!(command, MediaCommand::Add { id, .. } if *id == gone);
        let unknown = self.unsent.iter().any(came);
        self.unsent
            .retain(|command| command.subscriber() != Some(gone));
        unknown
    }

    /// Whether this came from its thread.
    pub(super) fn owns(&self, returned: &ReturnedPipeline) -> bool {
        Arc::ptr_eq(&self.slot, &returned.slot)
    }

    /// Offers what found no room before; whether some is left.
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

    /// The newest picture, which takes the place of one that waits.
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
            // The thread is gone.
            Err(TryLockError::Poisoned(_)) => {}
        }
    }

    /// Whether it takes pictures of the source's size as NV12.
    pub(super) fn takes_nv12(&self) -> bool {
        self.slot.takes_nv12.load(Ordering::Relaxed)
    }

    /// What the video may take at most from the next frame on.
    pub(super) fn limit(&mut self, bitrate_limit: Bitrate) {
        self.unsent.push_back(MediaCommand::Limit(bitrate_limit));
        self.retry();
    }

    /// Asks for the pipeline, which comes back as [`MediaCommand::Returned`].
    pub(super) fn recall(&self) {
        self.slot.recalled.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
    }

    /// The thread ends, unless it is about to give the pipeline back. What it was not told.
    pub(super) fn end(self) -> (JoinHandle<()>, VecDeque<MediaCommand>) {
        drop(self.media_commands);
        self.thread.thread().unpark();
        (self.thread, self.unsent)
    }
}

/// The rendition's own thread.
struct Thread {
    shared: Arc<Shared>,
    pipeline: Pipeline,
    media_commands: Receiver<MediaCommand>,
    slot: Arc<Slot>,
    /// Where this thread is woken by its timer.
    timer: WakeupSite,
    /// The newest picture, and what is known of it.
    picture: Option<(Arc<Copied>, PictureInfo)>,
}

impl Thread {
    /// Until nobody takes the rendition, or the capturing thread wants it back.
    fn run(mut self) -> Option<ReturnedPipeline> {
        loop {
            self.slot.wakeup_site.received();
            if !self.take_commands() {
                self.pipeline.end();
                return None;
            }
            if self.slot.recalled.load(Ordering::Relaxed) {
                return Some(ReturnedPipeline {
                    pipeline: self.pipeline.moved(),
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

    /// Whether there will be more of them.
    fn take_commands(&mut self) -> bool {
        let goes_on = loop {
            match self.media_commands.try_recv() {
                Ok(command) => self.pipeline.command_media(command),
                Err(TryRecvError::Empty) => break true,
                Err(TryRecvError::Disconnected) => break false,
            }
        };
        self.report_control_events();
        goes_on
    }

    fn take_picture(&self) -> Option<SharedPicture> {
        let waiting = self.slot.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A picture has come.
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

    /// Nothing moved, but somebody needs the picture, or a better one.
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

    /// Tells the control thread how frames ended.
    fn report_ends(&mut self) {
        self.pipeline.report_send_errors();
        let mut reported = false;
        while let Some(end) = self.pipeline.poll_end() {
            // Fails only if the host stops.
            reported |= self.shared.ends.send(end).is_ok();
        }
        if reported {
            self.shared.wake_control();
        }
    }

    fn report_control_events(&mut self) {
        while let Some(decision) = self.pipeline.poll_control_event() {
            let rendition = self.pipeline.id();
            let reported = Notice::Decision {
                rendition,
                decision,
            };
            self.shared.notice(reported);
        }
    }
}
