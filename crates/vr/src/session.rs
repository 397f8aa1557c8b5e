//! An OpenXR session: lifecycle, frame loop and eye poses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_proto::units::Size;
use openxr as xr;

use crate::error::VrError;
use crate::sys::{Gpu, NewSession, load};

/// Both eyes.
const VIEWS: xr::ViewConfigurationType = xr::ViewConfigurationType::PRIMARY_STEREO;

/// The interval at which events are polled while the runtime requests no frames.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long the runtime may take to end a session on request (guess: many frames).
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// The session of an application. It is used only on one thread.
pub(crate) struct Session {
    pub(crate) handle: xr::Session<xr::Vulkan>,
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) instance: xr::Instance,
    /// The reference space of all poses: upright, with its origin at the initial head position.
    pub(crate) space: xr::Space,
    /// The runtime's name.
    pub(crate) runtime: String,
    /// The recommended size of an eye's image, in pixels.
    pub(crate) recommended: Size,
    waiter: xr::FrameWaiter,
    stream: xr::FrameStream<xr::Vulkan>,
    blend: xr::EnvironmentBlendMode,
    /// Whether the runtime provides its current time.
    has_clock: bool,
    /// Whether the runtime provides the refresh rate of its display.
    has_refresh_rate: bool,
    running: bool,
    focused: bool,
    exit_deadline: Option<Instant>,
}

/// The next action of the frame loop.
pub(crate) enum Step {
    /// Draw a frame, and end it with [`Session::end`].
    Frame(Frame),
    /// Call [`Session::step`] again, because no frame is requested yet.
    Wait,
    /// The session has ended.
    Ended,
}

/// A frame in progress.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// The predicted display time.
    pub(crate) display: xr::Time,
    /// Whether the frame will be visible.
    pub(crate) visible: bool,
    /// The predicted display period.
    pub(crate) period: xr::Duration,
}

/// The pose and the field of view of an eye.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) pose: xr::Posef,
    pub(crate) fov: xr::Fovf,
}

impl Session {
    /// Creates a session with the active runtime. `name` is the application's name.
    pub(crate) fn open(name: &str) -> Result<Session, VrError> {
        let entry = load()?;
        let available = entry.enumerate_extensions().map_err(VrError::openxr(
            "list the extensions of the OpenXR runtime (is a runtime active?)",
        ))?;
        if !available.khr_vulkan_enable2 {
            let what = "the OpenXR runtime lacks XR_KHR_vulkan_enable2";
            return Err(VrError(what.into()));
        }
        let mut enabled = xr::ExtensionSet::default();
        enabled.khr_vulkan_enable2 = true;
        enabled.fb_display_refresh_rate = available.fb_display_refresh_rate;
        enabled.khr_convert_timespec_time = available.khr_convert_timespec_time;
        let about = xr::ApplicationInfo {
            application_name: name,
            application_version: 1,
            engine_name: "OpenUVR",
            engine_version: 1,
            api_version: xr::Version::new(1, 0, 0),
        };
        let instance = entry.create_instance(&about, &enabled, &[], &());
        let instance = instance.map_err(VrError::openxr("create an instance"))?;
        let properties = instance.properties();
        let properties =
            properties.map_err(VrError::openxr("read the properties of the runtime"))?;
        let system = instance
            .system(xr::FormFactor::HEAD_MOUNTED_DISPLAY)
            .map_err(VrError::openxr("find a headset"))?;
        let views = instance.enumerate_view_configuration_views(system, VIEWS);
        let views = views.map_err(VrError::openxr("list the views"))?;
        let [left, _] = views[..] else {
            let what = "the OpenXR runtime does not have exactly two views";
            return Err(VrError(what.into()));
        };
        let modes = instance.enumerate_environment_blend_modes(system, VIEWS);
        let modes = modes.map_err(VrError::openxr("list the blend modes"))?;
        let blend = modes.first().copied();
        let NewSession {
            gpu,
            session,
            waiter,
            stream,
        } = Gpu::session(&instance, system)?;
        let space = session
            .create_reference_space(xr::ReferenceSpaceType::LOCAL, xr::Posef::IDENTITY)
            .map_err(VrError::openxr("create a reference space"))?;
        Ok(Session {
            has_refresh_rate: available.fb_display_refresh_rate,
            has_clock: available.khr_convert_timespec_time,
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
            exit_deadline: None,
        })
    }

    /// Processes events, and waits for the next frame if the runtime requests one. `stop` requests the end of the
    /// session. The session ends when the runtime confirms the request, or after [`EXIT_TIMEOUT`]; it ends at once if
    /// it is not running.
    pub(crate) fn step(&mut self, stop: bool) -> Result<Step, VrError> {
        if self.poll_events()? {
            return Ok(Step::Ended);
        }
        if stop && self.exit_deadline.is_none() {
            self.exit_deadline = Some(Instant::now() + EXIT_TIMEOUT);
            if !self.running {
                return Ok(Step::Ended);
            }
            let result = self.handle.request_exit();
            result.map_err(VrError::openxr("end the session"))?;
        }
        if self.exit_deadline.is_some_and(|at| Instant::now() >= at) {
            return Ok(Step::Ended);
        }
        if !self.running {
            std::thread::sleep(POLL_INTERVAL);
            return Ok(Step::Wait);
        }
        let state = self.waiter.wait();
        let state = state.map_err(VrError::openxr("wait for a frame"))?;
        let result = self.stream.begin();
        result.map_err(VrError::openxr("begin a frame"))?;
        Ok(Step::Frame(Frame {
            display: state.predicted_display_time,
            period: state.predicted_display_period,
            visible: state.should_render,
        }))
    }

    /// The display's refresh rate in Hz, if the runtime provides it.
    pub(crate) fn refresh_rate(&self) -> Option<f32> {
        let rate = self
            .has_refresh_rate
            .then(|| self.handle.get_display_refresh_rate());
        rate?.ok().filter(|rate| *rate > 0.0)
    }

    /// The runtime's current time, or the frame's display time if the runtime does not provide its current time.
    pub(crate) fn now(&self, frame: Frame) -> Result<xr::Time, VrError> {
        match self.has_clock {
            true => (self.instance.now()).map_err(VrError::openxr("read the clock of the runtime")),
            false => Ok(frame.display),
        }
    }

    /// The time from `now` to the display of the frame, in nanoseconds; `None` if the runtime does not provide its
    /// current time.
    pub(crate) fn time_to_display(&self, frame: Frame, now: xr::Time) -> Option<i64> {
        let until = frame.display.as_nanos().checked_sub(now.as_nanos())?;
        self.has_clock.then_some(until)
    }

    /// Whether this application has the input focus.
    pub(crate) fn is_focused(&self) -> bool {
        self.focused
    }

    /// Processes events. Returns whether the session has ended.
    fn poll_events(&mut self) -> Result<bool, VrError> {
        let mut storage = xr::EventDataBuffer::new();
        loop {
            let event = self.instance.poll_event(&mut storage);
            let event = event.map_err(VrError::openxr("poll for events"))?;
            let state = match event {
                None => return Ok(false),
                Some(xr::Event::SessionStateChanged(event)) => event.state(),
                Some(xr::Event::InstanceLossPending(_)) => return Ok(true),
                Some(_) => continue,
            };
            self.focused = state == xr::SessionState::FOCUSED;
            match state {
                xr::SessionState::READY => {
                    let result = self.handle.begin(VIEWS);
                    result.map_err(VrError::openxr("begin the session"))?;
                    self.running = true;
                }
                xr::SessionState::STOPPING => {
                    let result = self.handle.end();
                    result.map_err(VrError::openxr("end the session"))?;
                    self.running = false;
                }
                xr::SessionState::EXITING | xr::SessionState::LOSS_PENDING => return Ok(true),
                _ => {}
            }
        }
    }

    /// The poses and fields of view of both eyes at the frame's display time; `None` while the orientation is unknown.
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

    /// Ends a frame with an image for each eye, or with none.
    pub(crate) fn end(
        &mut self,
        frame: Frame,
        views: Option<[(View, xr::SwapchainSubImage<'_, xr::Vulkan>); 2]>,
    ) -> Result<(), VrError> {
        let ended = match views {
            Some(views) => {
                let views = views.map(|(view, picture)| {
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
