//! A headset that is a client: what its runtime knows of head and hands goes to the host, and pictures of the host
//! go to its runtime, with the poses and fields of view that they were drawn with, so that it re-aims them to
//! where the head looks when they are shown.
//!
//! It has a thread of its own, which follows the runtime's frames. Each of them shows the newest picture; that
//! was shown before if no new one came.

mod devices;
mod head;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::cursor::Cursor;
use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, Presenter, to_bgrx};
use openuvr_proto::controller::{Controllers, Haptic};
use openuvr_proto::display::Refresh;
use openuvr_proto::id::FrameId;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::{Viewpoint, Views};
use openxr as xr;

use crate::error::VrError;
use crate::session::{Frame, Session, Step};
use crate::sys::Upload;
use devices::Devices;
use head::{drawn, moving};

/// Samples that wait to be sent; what comes while all wait is lost, as any pose but the newest is.
const MOST: usize = 16;

/// Head and hands at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// When they were there, on the monotonic clock.
    pub at: Instant,
    /// The head, if it is tracked.
    pub head: Option<Pose>,
    /// The controllers that there are.
    pub hands: Controllers,
    /// When the display shows pictures, on the monotonic clock, as its runtime predicts it; `None` of one that does
    /// not say what time it is.
    pub refresh: Option<Refresh<Instant>>,
}

/// What is known of a headset that was opened.
#[derive(Clone, PartialEq, Debug)]
pub struct About {
    /// What its runtime calls itself.
    pub runtime: String,
    /// What the runtime recommends for each eye's picture.
    pub eye: Size,
    /// Refreshes a second of its display, if the runtime says it.
    pub refresh: Option<f32>,
}

/// A picture that waits to be shown.
struct Waiting {
    size: Size,
    bgrx: Vec<u8>,
    views: Option<Views>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Option<Waiting>>,
    /// Memory of pictures that were shown.
    spare: Mutex<Vec<u8>>,
    stop: AtomicBool,
    /// Why there is no headset any more.
    over: Mutex<Option<String>>,
}

/// A headset. Dropping it ends its session.
pub struct Headset {
    shared: Arc<Shared>,
    feel: SyncSender<Haptic>,
    about: About,
    thread: Option<JoinHandle<()>>,
}

impl Headset {
    /// Begins a session with the active runtime; where the samples of head and hands come, one for each of its
    /// frames.
    /// `clock` is the monotonic one.
    ///
    /// # Errors
    /// One line: there is no loader, no runtime, no headset or no Vulkan, or no thread.
    pub fn open(clock: fn() -> Instant) -> Result<(Headset, Receiver<Sample>), VrError> {
        let shared = Arc::<Shared>::default();
        let (samples, sampled) = sync_channel(MOST);
        let (feel, felt) = sync_channel(MOST);
        let (ready, made) = sync_channel(1);
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("ouvr-headset".into());
        // All of a session belongs to one thread.
        let thread = thread.spawn(move || {
            let worn = Worn::open(clock).and_then(|mut worn| {
                let _ = ready.send(Ok(worn.about()));
                worn.follow(&theirs, &samples, &felt)
            });
            let why = match worn {
                Ok(()) => "the headset's runtime has ended the session".to_owned(),
                Err(why) => {
                    let _ = ready.try_send(Err(VrError(why.0.clone())));
                    why.0
                }
            };
            *lock(&theirs.over) = Some(why);
        });
        let thread = thread.map_err(|e| VrError(format!("can't start a thread: {e}")))?;
        let gone = || VrError("the headset's thread has ended: please report it".into());
        let about = made.recv().map_err(|_| gone())??;
        let headset = Headset {
            shared,
            feel,
            about,
            thread: Some(thread),
        };
        Ok((headset, sampled))
    }

    /// What is known of it.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Where pictures for it go. It fails when the session is over.
    #[must_use]
    pub fn presenter(&self) -> Box<dyn Presenter> {
        Box::new(Shown {
            shared: Arc::clone(&self.shared),
            views: None,
        })
    }

    /// Lets a hand feel something.
    pub fn feel(&self, haptic: Haptic) {
        // A session that is over feels nothing, and one that is far behind not everything.
        let _ = self.feel.try_send(haptic);
    }
}

impl Drop for Headset {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

/// The surface of the client.
struct Shown {
    shared: Arc<Shared>,
    views: Option<Views>,
}

impl Presenter for Shown {
    fn viewpoint(&mut self, viewpoint: &Viewpoint) {
        self.views = viewpoint.views;
    }

    fn present(&mut self, _: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        if let Some(why) = &*lock(&self.shared.over) {
            return Err(PresentError(why.clone()));
        }
        let mut bgrx = std::mem::take(&mut *lock(&self.shared.spare));
        bgrx.resize(picture.size.pixels() * 4, 0);
        to_bgrx(picture, &mut bgrx)?;
        *lock(&self.shared.waiting) = Some(Waiting {
            size: picture.size,
            bgrx,
            views: self.views,
        });
        Ok(())
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        Ok(())
    }
}

/// The session, on its thread.
struct Worn {
    session: Session,
    devices: Devices,
    head: xr::Space,
    clock: fn() -> Instant,
    /// What is shown, and with what it was drawn.
    shown: Option<(Upload, Option<Views>)>,
}

impl Worn {
    fn open(clock: fn() -> Instant) -> Result<Worn, VrError> {
        let session = Session::open("OpenUVR client")?;
        let head = session
            .handle
            .create_reference_space(xr::ReferenceSpaceType::VIEW, xr::Posef::IDENTITY);
        Ok(Worn {
            devices: Devices::new(&session)?,
            head: head.map_err(VrError::openxr("make a space"))?,
            session,
            clock,
            shown: None,
        })
    }

    fn about(&self) -> About {
        About {
            runtime: self.session.runtime.clone(),
            eye: self.session.recommended,
            refresh: self.session.refresh(),
        }
    }

    /// Follows the runtime until it ends the session, or is to.
    fn follow(
        &mut self,
        shared: &Shared,
        samples: &SyncSender<Sample>,
        felt: &Receiver<Haptic>,
    ) -> Result<(), VrError> {
        loop {
            for haptic in felt.try_iter() {
                self.devices.feel(&self.session, &haptic)?;
            }
            match self.session.step(shared.stop.load(Ordering::Relaxed))? {
                Step::Over => return Ok(()),
                Step::Wait => {}
                Step::Frame(frame) => {
                    // Now, and not when the picture will be seen: when that is, the host knows, whose own
                    // picture comes then.
                    let now = self.session.now(frame)?;
                    let _ = samples.try_send(self.sample(frame, now)?);
                    self.take(shared)?;
                    self.show(frame)?;
                }
            }
        }
    }

    fn sample(&self, frame: Frame, now: xr::Time) -> Result<Sample, VrError> {
        let at = (self.clock)();
        let period = u64::try_from(frame.period.as_nanos()).ok();
        let refresh = self.session.until_seen(frame, now).zip(period);
        let refresh = refresh.map(|(until, period)| Refresh {
            phase: Instant(at.0.saturating_add(until)),
            period: Duration::from_nanos(period),
        });
        let located = self.head.relate(&self.session.space, now);
        let (location, velocity) = located.map_err(VrError::openxr("locate the head"))?;
        Ok(Sample {
            at,
            head: moving(&location, &velocity),
            hands: self.devices.at(&self.session, now)?,
            refresh,
        })
    }

    /// Takes the picture that waits, if one does.
    fn take(&mut self, shared: &Shared) -> Result<(), VrError> {
        let Some(Waiting { size, bgrx, views }) = lock(&shared.waiting).take() else {
            return Ok(());
        };
        if self
            .shown
            .as_ref()
            .is_none_or(|(upload, _)| upload.size() != size)
        {
            self.shown = None;
            let (gpu, handle) = (&self.session.gpu, &self.session.handle);
            self.shown = Some((Upload::new(gpu, handle, size)?, views));
        }
        if let Some((upload, of)) = &mut self.shown {
            upload.show(&bgrx)?;
            *of = views;
        }
        *lock(&shared.spare) = bgrx;
        Ok(())
    }

    /// Ends a frame with what is shown: where it was drawn for, or before the eyes if nobody says so.
    fn show(&mut self, frame: Frame) -> Result<(), VrError> {
        let eyes = self.session.views(frame)?;
        let Some((upload, views)) = self.shown.as_ref().filter(|_| frame.seen) else {
            return self.session.end(frame, None);
        };
        let (views, count) = match views {
            Some(views) => {
                let count = u32::try_from(views.count()).unwrap_or(1);
                (Some([drawn(views.left()), drawn(views.right())]), count)
            }
            None => (eyes, 1),
        };
        let seen = views.map(|[left, right]| {
            [
                (left, upload.part(0, count)),
                (right, upload.part(count - 1, count)),
            ]
        });
        self.session.end(frame, seen)
    }
}

/// How long whoever sends samples waits for one before it looks whether it is to end.
pub const SAMPLE_WAIT: Duration = Duration::from_millis(100);

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
