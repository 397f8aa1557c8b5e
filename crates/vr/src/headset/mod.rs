//! A headset as a client. Head and controller poses go to the host, and the host's pictures go to the headset's
//! runtime. Each picture comes with the poses and fields of view with which it was rendered, so that the runtime can
//! reproject it to the current head pose.
//!
//! A separate thread runs the runtime's frame loop. Each frame shows the newest picture, repeating the last one if
//! necessary.

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
use openuvr_proto::display::RefreshTiming;
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
use head::{moving_pose, view_of};

/// The queue length of samples and haptics. When a queue is full, new entries are dropped.
const QUEUE_LEN: usize = 16;

/// The head and the controllers at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Sampling time, on the monotonic clock.
    pub at: Instant,
    /// The head's pose, if tracked.
    pub head: Option<Pose>,
    /// The active controllers.
    pub controllers: Controllers,
    /// The display's refresh times on the monotonic clock, as predicted by the runtime; `None` if the runtime does not
    /// provide its current time.
    pub refresh: Option<RefreshTiming<Instant>>,
}

/// The properties of an open headset.
#[derive(Clone, PartialEq, Debug)]
pub struct About {
    /// The runtime's name.
    pub runtime: String,
    /// The recommended size of each eye's image.
    pub eye: Size,
    /// The display's refresh rate in Hz, if the runtime provides it.
    pub refresh: Option<f32>,
}

/// A picture that has not been uploaded yet.
struct PendingPicture {
    size: Size,
    bgrx: Vec<u8>,
    views: Option<Views>,
}

#[derive(Default)]
struct Shared {
    pending: Mutex<Option<PendingPicture>>,
    /// A reusable buffer.
    spare: Mutex<Vec<u8>>,
    stop: AtomicBool,
    /// Why the session has ended.
    ended: Mutex<Option<String>>,
}

/// A headset. Dropping it ends its session.
pub struct Headset {
    shared: Arc<Shared>,
    haptics: SyncSender<Haptic>,
    about: About,
    thread: Option<JoinHandle<()>>,
}

impl Headset {
    /// Starts a session with the active runtime. The receiver gets a sample of head and controllers for each
    /// frame. `clock` reads the monotonic clock.
    ///
    /// # Errors
    /// Returns an error if the OpenXR loader, runtime, headset or Vulkan is missing or fails, or if no thread can be
    /// created.
    pub fn open(clock: fn() -> Instant) -> Result<(Headset, Receiver<Sample>), VrError> {
        let shared = Arc::<Shared>::default();
        let (samples, receiver) = sync_channel(QUEUE_LEN);
        let (haptics, haptic_receiver) = sync_channel(QUEUE_LEN);
        let (ready, opened) = sync_channel(1);
        let thread_shared = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("ouvr-headset".into());
        // A session must stay on one thread.
        let thread = thread.spawn(move || {
            let session = HeadsetSession::open(clock).and_then(|mut session| {
                let _ = ready.send(Ok(session.about()));
                session.run(&thread_shared, &samples, &haptic_receiver)
            });
            let why = match session {
                Ok(()) => "the OpenXR runtime has ended the session".to_owned(),
                Err(why) => {
                    let _ = ready.try_send(Err(VrError(why.0.clone())));
                    why.0
                }
            };
            *lock(&thread_shared.ended) = Some(why);
        });
        let thread = thread.map_err(|e| VrError(format!("cannot start a thread: {e}")))?;
        let gone =
            || VrError("internal error, please report it: the headset thread has ended".into());
        let about = opened.recv().map_err(|_| gone())??;
        let headset = Headset {
            shared,
            haptics,
            about,
            thread: Some(thread),
        };
        Ok((headset, receiver))
    }

    /// The headset's properties.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// A presenter of pictures on the headset. It fails when the session has ended.
    #[must_use]
    pub fn presenter(&self) -> Box<dyn Presenter> {
        Box::new(HeadsetPresenter {
            shared: Arc::clone(&self.shared),
            views: None,
        })
    }

    /// Vibrates a controller.
    pub fn vibrate(&self, haptic: Haptic) {
        // The request is dropped if the session has ended or the queue is full.
        let _ = self.haptics.try_send(haptic);
    }
}

impl Drop for Headset {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was printed to standard error.
            let _ = thread.join();
        }
    }
}

/// The client's presenter.
struct HeadsetPresenter {
    shared: Arc<Shared>,
    views: Option<Views>,
}

impl Presenter for HeadsetPresenter {
    fn viewpoint(&mut self, viewpoint: &Viewpoint) {
        self.views = viewpoint.views;
    }

    fn present(&mut self, _: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        if let Some(why) = &*lock(&self.shared.ended) {
            return Err(PresentError(why.clone()));
        }
        let mut bgrx = std::mem::take(&mut *lock(&self.shared.spare));
        bgrx.resize(picture.size.pixels() * 4, 0);
        to_bgrx(picture, &mut bgrx)?;
        *lock(&self.shared.pending) = Some(PendingPicture {
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
struct HeadsetSession {
    session: Session,
    devices: Devices,
    head: xr::Space,
    clock: fn() -> Instant,
    /// The displayed picture, and the views that it was rendered with.
    shown: Option<(Upload, Option<Views>)>,
}

impl HeadsetSession {
    fn open(clock: fn() -> Instant) -> Result<HeadsetSession, VrError> {
        let session = Session::open("OpenUVR client")?;
        let head = session
            .handle
            .create_reference_space(xr::ReferenceSpaceType::VIEW, xr::Posef::IDENTITY);
        Ok(HeadsetSession {
            devices: Devices::new(&session)?,
            head: head.map_err(VrError::openxr("create a reference space"))?,
            session,
            clock,
            shown: None,
        })
    }

    fn about(&self) -> About {
        About {
            runtime: self.session.runtime.clone(),
            eye: self.session.recommended,
            refresh: self.session.refresh_rate(),
        }
    }

    /// Runs the frame loop until the session ends.
    fn run(
        &mut self,
        shared: &Shared,
        samples: &SyncSender<Sample>,
        haptics: &Receiver<Haptic>,
    ) -> Result<(), VrError> {
        loop {
            for haptic in haptics.try_iter() {
                self.devices.vibrate(&self.session, &haptic)?;
            }
            match self.session.step(shared.stop.load(Ordering::Relaxed))? {
                Step::Ended => return Ok(()),
                Step::Wait => {}
                Step::Frame(frame) => {
                    // Poses are sampled for the current time. When the host draws a picture, it predicts the poses for
                    // the display time of that picture. If the runtime does not provide its current time, the poses are
                    // sampled for the display time of this frame.
                    let now = self.session.now(frame)?;
                    let _ = samples.try_send(self.sample(frame, now)?);
                    self.upload_pending(shared)?;
                    self.show(frame)?;
                }
            }
        }
    }

    fn sample(&self, frame: Frame, now: xr::Time) -> Result<Sample, VrError> {
        let at = (self.clock)();
        let period = u64::try_from(frame.period.as_nanos()).ok();
        let refresh = self.session.time_to_display(frame, now).zip(period);
        let refresh = refresh.map(|(until, period)| RefreshTiming {
            phase: Instant(at.0.saturating_add(until)),
            period: Duration::from_nanos(period),
        });
        let located = self.head.relate(&self.session.space, now);
        let (location, velocity) = located.map_err(VrError::openxr("locate the head"))?;
        Ok(Sample {
            at,
            head: moving_pose(&location, &velocity),
            controllers: self.devices.states_at(&self.session, now)?,
            refresh,
        })
    }

    /// Uploads the pending picture, if any.
    fn upload_pending(&mut self, shared: &Shared) -> Result<(), VrError> {
        let Some(PendingPicture { size, bgrx, views }) = lock(&shared.pending).take() else {
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

    /// Ends a frame with the displayed picture. The picture is placed at the views with which it was rendered, or fixed
    /// to the eyes if these views are unknown.
    fn show(&mut self, frame: Frame) -> Result<(), VrError> {
        let eyes = self.session.views(frame)?;
        let Some((upload, views)) = self.shown.as_ref().filter(|_| frame.visible) else {
            return self.session.end(frame, None);
        };
        let (views, count) = match views {
            Some(views) => {
                let count = u32::try_from(views.count()).unwrap_or(1);
                (Some([view_of(views.left()), view_of(views.right())]), count)
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

/// The receive timeout of the thread that sends samples to the host. After this time, the thread checks whether to
/// stop.
pub const SAMPLE_WAIT: Duration = Duration::from_millis(100);

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
