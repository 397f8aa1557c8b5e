//! A session with a runtime: its life, its frames, and where the eyes are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_proto::units::Size;
use openxr as xr;

use crate::error::VrError;
use crate::sys::{Gpu, Made, load};

/// Both eyes.
const VIEWS: xr::ViewConfigurationType = xr::ViewConfigurationType::PRIMARY_STEREO;

/// How often a runtime is asked for news while it wants no frames.
const IDLE: Duration = Duration::from_millis(10);

/// How long a runtime may take to let go of a session that wants to end (guess: several frames).
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// An application's one session. It belongs to one thread.
pub(crate) struct Session {
    pub(crate) handle: xr::Session<xr::Vulkan>,
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) instance: xr::Instance,
    /// The space that all poses are in: its origin is where the head was at first, upright.
    pub(crate) space: xr::Space,
    /// What the runtime calls itself.
    pub(crate) runtime: String,
    /// What it recommends for an eye, in pixels.
    pub(crate) recommended: Size,
    waiter: xr::FrameWaiter,
    stream: xr::FrameStream<xr::Vulkan>,
    blend: xr::EnvironmentBlendMode,
    /// Whether the runtime says what time it is.
    clocked: bool,
    /// Whether the runtime says how often its display does.
    refreshes: bool,
    running: bool,
    focused: bool,
    ends: Option<Instant>,
}

/// What is to be done now.
pub(crate) enum Step {
    /// Draw a frame, and end it with [`Session::end`].
    Frame(Frame),
    /// Nothing yet.
    Wait,
    /// Go: the session is over.
    Over,
}

/// A frame that has begun.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// When it will be seen.
    pub(crate) display: xr::Time,
    /// Whether anybody will see it.
    pub(crate) seen: bool,
    /// From one frame's display to the next.
    pub(crate) period: xr::Duration,
}

/// How an eye looks.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) pose: xr::Posef,
    pub(crate) fov: xr::Fovf,
}

impl Session {
    /// Begins with the active runtime; `name` is what it is told of us.
    pub(crate) fn open(name: &str) -> Result<Session, VrError> {
        let entry = load()?;
        let there = entry
            .enumerate_extensions()
            .map_err(VrError::openxr("list its extensions (is one active?)"))?;
        if !there.khr_vulkan_enable2 {
            let what = "the OpenXR runtime lacks XR_KHR_vulkan_enable2";
            return Err(VrError(what.into()));
        }
        let mut wanted = xr::ExtensionSet::default();
        wanted.khr_vulkan_enable2 = true;
        wanted.fb_display_refresh_rate = there.fb_display_refresh_rate;
        wanted.khr_convert_timespec_time = there.khr_convert_timespec_time;
        let about = xr::ApplicationInfo {
            application_name: name,
            application_version: 1,
            engine_name: "OpenUVR",
            engine_version: 1,
            api_version: xr::Version::new(1, 0, 0),
        };
        let instance = entry.create_instance(&about, &wanted, &[], &());
        let instance = instance.map_err(VrError::openxr("begin"))?;
        let properties = instance.properties();
        let properties = properties.map_err(VrError::openxr("say what it is"))?;
        let system = instance
            .system(xr::FormFactor::HEAD_MOUNTED_DISPLAY)
            .map_err(VrError::openxr("find a headset"))?;
        let views = instance.enumerate_view_configuration_views(system, VIEWS);
        let views = views.map_err(VrError::openxr("show two eyes"))?;
        let [left, _] = views[..] else {
            let what = "the OpenXR runtime has not two views for two eyes";
            return Err(VrError(what.into()));
        };
        let modes = instance.enumerate_environment_blend_modes(system, VIEWS);
        let modes = modes.map_err(VrError::openxr("say how it blends"))?;
        let blend = modes.first().copied();
        let Made {
            gpu,
            session,
            waiter,
            stream,
        } = Gpu::session(&instance, system)?;
        let space = session
            .create_reference_space(xr::ReferenceSpaceType::LOCAL, xr::Posef::IDENTITY)
            .map_err(VrError::openxr("make a space"))?;
        Ok(Session {
            refreshes: there.fb_display_refresh_rate,
            clocked: there.khr_convert_timespec_time,
            handle: session,
            gpu,
            instance,
            space,
            runtime: properties.runtime_name,
            recommended: Size::new(
                left.recommended_image_rect_width,
                left.recommended_image_rect_height,
            ),
            waiter,
            stream,
            blend: blend.unwrap_or(xr::EnvironmentBlendMode::OPAQUE),
            running: false,
            focused: false,
            ends: None,
        })
    }

    /// Follows the runtime, and waits for the next frame if it wants one. With `stop` the session is asked to end;
    /// it is over when the runtime has agreed, or does not within three seconds.
    pub(crate) fn step(&mut self, stop: bool) -> Result<Step, VrError> {
        if self.follow()? {
            return Ok(Step::Over);
        }
        if stop && self.ends.is_none() {
            self.ends = Some(Instant::now() + ENDS_WITHIN);
            if !self.running {
                return Ok(Step::Over);
            }
            let asked = self.handle.request_exit();
            asked.map_err(VrError::openxr("end the session"))?;
        }
        if self.ends.is_some_and(|at| Instant::now() >= at) {
            return Ok(Step::Over);
        }
        if !self.running {
            std::thread::sleep(IDLE);
            return Ok(Step::Wait);
        }
        let state = self.waiter.wait();
        let state = state.map_err(VrError::openxr("wait for a frame"))?;
        let begun = self.stream.begin();
        begun.map_err(VrError::openxr("begin a frame"))?;
        Ok(Step::Frame(Frame {
            display: state.predicted_display_time,
            period: state.predicted_display_period,
            seen: state.should_render,
        }))
    }

    /// Refreshes a second of its display, if the runtime says it.
    pub(crate) fn refresh(&self) -> Option<f32> {
        let rate = self
            .refreshes
            .then(|| self.handle.get_display_refresh_rate());
        rate?.ok().filter(|rate| *rate > 0.0)
    }

    /// What time it is for the runtime: of one that does not say so the time at which a frame will be seen.
    pub(crate) fn now(&self, frame: Frame) -> Result<xr::Time, VrError> {
        match self.clocked {
            true => (self.instance.now()).map_err(VrError::openxr("say what time it is")),
            false => Ok(frame.display),
        }
    }

    /// How long after `now` the frame will be seen, in nanoseconds, of a runtime that says what time it is.
    pub(crate) fn until_seen(&self, frame: Frame, now: xr::Time) -> Option<i64> {
        let until = frame.display.as_nanos().checked_sub(now.as_nanos())?;
        self.clocked.then_some(until)
    }

    /// Whether the person's devices are this application's.
    pub(crate) fn is_focused(&self) -> bool {
        self.focused
    }

    /// Hears what the runtime says; whether the session is over.
    fn follow(&mut self) -> Result<bool, VrError> {
        let mut storage = xr::EventDataBuffer::new();
        loop {
            let event = self.instance.poll_event(&mut storage);
            let event = event.map_err(VrError::openxr("tell its events"))?;
            let state = match event {
                None => return Ok(false),
                Some(xr::Event::SessionStateChanged(event)) => event.state(),
                Some(xr::Event::InstanceLossPending(_)) => return Ok(true),
                Some(_) => continue,
            };
            self.focused = state == xr::SessionState::FOCUSED;
            match state {
                xr::SessionState::READY => {
                    let begun = self.handle.begin(VIEWS);
                    begun.map_err(VrError::openxr("begin the session"))?;
                    self.running = true;
                }
                xr::SessionState::STOPPING => {
                    let ended = self.handle.end();
                    ended.map_err(VrError::openxr("end the session"))?;
                    self.running = false;
                }
                xr::SessionState::EXITING | xr::SessionState::LOSS_PENDING => return Ok(true),
                _ => {}
            }
        }
    }

    /// Both eyes as they will be at the frame's display time; `None` while nobody knows where they look.
    pub(crate) fn views(&self, frame: Frame) -> Result<Option<[View; 2]>, VrError> {
        let located = self.handle.locate_views(VIEWS, frame.display, &self.space);
        let (flags, views) = located.map_err(VrError::openxr("locate the eyes"))?;
        let view = |view: &xr::View| View {
            pose: view.pose,
            fov: view.fov,
        };
        Ok(match &views[..] {
            [left, right] if flags.contains(xr::ViewStateFlags::ORIENTATION_VALID) => {
                Some([view(left), view(right)])
            }
            _ => None,
        })
    }

    /// Ends a frame: with what each eye sees, or with nothing.
    pub(crate) fn end(
        &mut self,
        frame: Frame,
        seen: Option<[(View, xr::SwapchainSubImage<'_, xr::Vulkan>); 2]>,
    ) -> Result<(), VrError> {
        let ended = match seen {
            Some(seen) => {
                let views = seen.map(|(view, picture)| {
                    xr::CompositionLayerProjectionView::new()
                        .pose(view.pose)
                        .fov(view.fov)
                        .sub_image(picture)
                });
                let layer = xr::CompositionLayerProjection::new()
                    .space(&self.space)
                    .views(&views);
                self.stream.end(frame.display, self.blend, &[&layer])
            }
            None => self.stream.end(frame.display, self.blend, &[]),
        };
        ended.map_err(VrError::openxr("end a frame"))
    }
}
