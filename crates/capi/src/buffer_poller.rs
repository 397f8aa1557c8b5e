//! Continuous mode as in the paper (sections IV-A1 and IV-C, Fig. 9 a): a thread of the library polls the pixel buffer of an
//! application that submits no pictures itself.
//!
//! The thread has its own OpenGL context, which shares the application's buffers. OpenGL does not report when the
//! buffer holds a complete picture. So the thread copies the buffer until two copies in a row are equal, but at most
//! eight times, and sends only pictures that differ from the previous one. A picture can still be torn if the
//! application is interrupted while it fills the buffer, or draws faster than the buffer can be copied. Pictures that
//! are submitted with `openuvr_frame_ready` are never torn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use openuvr_media::capture::RenderInfo;
use openuvr_media::capture::gl::{SkipReason, Submit};
use openuvr_media::capture::submit::{Frame, FrameDemand};
use openuvr_proto::units::Size;
use openuvr_runtime::guest::Guest;
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::ThreadRole;

use crate::enums::BufferName;
use crate::error::Outcome;
use crate::gl::{BufferCopier, SharingContext, Source, unreadable};
use crate::log::{Log, OPENUVR_LOG_LEVEL};
use crate::picture::Layout;
use crate::skip_log::SkipLog;
use crate::worker::Worker;

/// The time between the start and the first copy (guess: an application that submits pictures itself submits the first
/// one within this time). During this time, the buffer may not hold a picture yet.
const GRACE: Duration = Duration::from_secs(1);

/// The interval at which the thread checks whether the target rate permits a picture, and whether the buffer holds a new
/// one: an eighth of a frame at 60 frames/s.
const WATCHED: Duration = Duration::from_millis(2);

/// The interval at which the thread checks whether a MUD watches, and whether the thread must end.
const UNWATCHED: Duration = Duration::from_millis(20);

/// The timeout of a copy on the GPU (guess); a copy normally takes a millisecond.
const COPY: Duration = Duration::from_secs(1);

/// The maximum number of copies in search of two equal ones. At 1920x1080, a copy takes a few milliseconds with a software
/// renderer, so the search takes about two frames at 60 frames/s.
const TRIES: usize = 8;

/// The thread that polls the buffer. Dropping the value ends the thread.
pub(crate) struct BufferPoller {
    layout: Arc<Mutex<Layout>>,
    _worker: Worker,
}

impl BufferPoller {
    pub(crate) fn start(
        context: SharingContext,
        name: BufferName,
        layout: Layout,
        guest: &Arc<Guest>,
        log: &Arc<Log>,
    ) -> Outcome<BufferPoller> {
        let layout = Arc::new(Mutex::new(layout));
        let (current, guest, log) = (layout.clone(), guest.clone(), log.clone());
        let worker = Worker::run(ThreadRole::Encode, "ouvr-poll", move |stopped| {
            if !passes(GRACE, stopped) {
                return;
            }
            log.write(
                OPENUVR_LOG_LEVEL::OPENUVR_LOG_INFO,
                "the application submits no pictures, so the library polls its pixel buffer; to avoid torn pictures, \
                 call openuvr_frame_ready after each picture",
            );
            let newest = Arc::<Mutex<Option<Box<dyn Frame>>>>::default();
            let copied = newest.clone();
            let submit: Submit = Arc::new(move |frame: Box<dyn Frame>, _: RenderInfo| {
                *lock(&copied) = Some(frame);
                None
            });
            let ended = context.copy_buffers(submit, |copier| {
                let mut pictures = Pictures {
                    copier,
                    newest: &newest,
                    last: None,
                    log: &log,
                    skip_log: SkipLog::default(),
                };
                while !stopped.load(Ordering::Relaxed) {
                    match guest.wanted() {
                        FrameDemand::Now => {
                            let layout = *lock(&current);
                            match pictures.next(name, layout) {
                                Some(frame) => submit_to(&guest, frame, layout.size),
                                None => sleep(WATCHED),
                            }
                        }
                        FrameDemand::TooSoon => sleep(WATCHED),
                        FrameDemand::Unwatched => sleep(UNWATCHED),
                        FrameDemand::Closed => return,
                    }
                }
            });
            if let Err(failure) = ended {
                let why = format!(
                    "cannot poll the pixel buffer: {}; call openuvr_frame_ready after each picture",
                    failure.why
                );
                log.write(OPENUVR_LOG_LEVEL::OPENUVR_LOG_WARNING, &why);
            }
        })?;
        Ok(BufferPoller {
            layout,
            _worker: worker,
        })
    }

    /// Sets the layout of the buffer, from the next picture on.
    pub(crate) fn set_layout(&self, layout: Layout) {
        *lock(&self.layout) = layout;
    }
}

/// Waits for `span`. Returns false if the thread must end earlier.
fn passes(span: Duration, stopped: &AtomicBool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < span {
        if stopped.load(Ordering::Relaxed) {
            return false;
        }
        sleep(UNWATCHED);
    }
    true
}

/// Submits a picture. The input and the pose that it shows are unknown, because the application may have retrieved
/// newer ones since it filled the buffer.
fn submit_to(guest: &Guest, frame: Box<dyn Frame>, size: Size) {
    // Tells the host the size.
    let _ = guest.drawn(size);
    // `None` if the host has ended, which the next check reports.
    let _ = guest.frames().submit(frame, RenderInfo::default());
}

/// Copies pictures out of the buffer, and finds those that are complete and new.
struct Pictures<'a> {
    copier: &'a mut BufferCopier,
    /// The slot into which `copier` puts each copy.
    newest: &'a Mutex<Option<Box<dyn Frame>>>,
    /// A copy of the last returned picture, if two copies of that picture were equal.
    last: Option<Box<dyn Frame>>,
    log: &'a Log,
    skip_log: SkipLog,
}

impl Pictures<'_> {
    /// Returns the buffer's picture; `None` if it equals the previous one, or cannot be read now.
    ///
    /// The ring of buffers has room for two copies here and two in the host, so this type keeps at most two copies.
    fn next(&mut self, name: BufferName, layout: Layout) -> Option<Box<dyn Frame>> {
        let mut first = self.copy(name, layout)?;
        let last = self.last.take();
        if let Some(last) = last
            && equal(&*first, &*last)
        {
            self.last = Some(last);
            return None;
        }
        for _ in 1..TRIES {
            let second = self.copy(name, layout)?;
            let complete = equal(&*first, &*second);
            let before = std::mem::replace(&mut first, second);
            if complete {
                self.last = Some(before);
                break;
            }
        }
        first.rest();
        Some(first)
    }

    fn copy(&mut self, name: BufferName, layout: Layout) -> Option<Box<dyn Frame>> {
        match self.copier.copy(name, layout, COPY) {
            Ok(()) => {
                self.skip_log.on_accepted();
                lock(self.newest).take()
            }
            // The host has not returned the buffers of earlier pictures yet.
            Err(SkipReason::RingFull) => None,
            Err(why) => {
                let failure = unreadable(why, Source::Buffer(name, layout));
                if self.skip_log.should_log(&failure.why, Instant::now()) {
                    self.log
                        .write(OPENUVR_LOG_LEVEL::OPENUVR_LOG_WARNING, &failure.why);
                }
                None
            }
        }
    }
}

/// Whether two copies have the same size and the same bytes.
fn equal(a: &dyn Frame, b: &dyn Frame) -> bool {
    let (a, b) = (a.picture(), b.picture());
    a.size == b.size && a.planes[0].data == b.planes[0].data
}
