//! A session: its state, its frames, and the player's head pose.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::RenderInfo;
use openuvr_proto::controller::Haptic;
use openuvr_proto::pose::ReceivedPose;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::Views;
use openuvr_runtime::lock::lock;
use openxr_sys as xr;

use crate::debug;
use crate::extensions::Extension;
use crate::ffi::Outcome;
use crate::graphics::Graphics;
use crate::handles::Object;
use crate::instance::{Instance, InstanceSession};
use crate::logic::actions::{ActionId, SetId};
use crate::logic::composition::Eye;
use crate::logic::controllers::Controllers;
use crate::logic::delay::Delay;
use crate::logic::events::Event;
use crate::logic::frame_loop::{Frame, FrameLoop, FrameTiming, Wait};
use crate::logic::head::{HeadState, HeadTracker};
use crate::logic::input::{ActiveSet, Input};
use crate::logic::lifecycle::{Audience, Lifecycle};
use crate::logic::pose::Pose;
use crate::logic::pose_timing::PoseTiming;
use crate::logic::spaces::{self, PoseProvider};
use crate::logic::views::Headset;
use crate::settings::{self, DEFAULT_FPS};
use crate::stream::{FrameSink, Stream};

/// Interval at which a thread that waits in `xrWaitFrame` checks whether its session still exists (guess).
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Default latency from the start of a frame's slot to the display of its picture, in periods. It applies until the
/// latency has been measured. One period is for rendering, one for encoding and sending, one for the display (guess).
const DEFAULT_DELAY_PERIODS: u32 = 3;

/// Number of frames for which the located views are stored.
const MAX_LOCATED: usize = 8;

/// State of an `XrSession`.
pub(crate) struct Session {
    pub(crate) instance: Arc<Instance>,
    /// The session's own handle. Empty until the handle has been created.
    handle: OnceLock<xr::Session>,
    /// The graphics device; `None` for a headless session.
    pub(crate) graphics: Option<Graphics>,
    stream: Option<Stream>,
    pub(crate) input: Mutex<Input>,
    controllers: Mutex<Controllers>,
    state: Mutex<State>,
    /// Signalled when a frame has been begun, and when the session has ended or has been destroyed.
    changed: Condvar,
}

struct State {
    lifecycle: Lifecycle,
    frames: FrameLoop,
    views: xr::ViewConfigurationType,
    attached: Option<Vec<SetId>>,
    head: HeadTracker,
    newest_pose: Option<ReceivedPose>,
    pose_timing: PoseTiming,
    /// Head poses of located views, one for each display time.
    located: VecDeque<LocatedViews>,
    begun: Option<Instant>,
    /// The refresh rate that was last reported to the application.
    refresh: f32,
    /// `shouldRender` of the newest frame.
    should_render: bool,
    /// Picture size of one eye, in the newest frame that had a picture.
    eye_size: Size,
    destroyed: bool,
}

/// The head pose from which the views of a frame were computed.
#[derive(Clone, Copy)]
struct LocatedViews {
    /// The frame's predicted display time.
    display: Instant,
    head: HeadState,
    /// The client's pose on which the prediction is based.
    posed: Option<ReceivedPose>,
    /// The time at which the prediction was made.
    predicted: Instant,
}

impl Session {
    pub(crate) fn new(
        instance: Arc<Instance>,
        graphics: Option<Graphics>,
        stream: Option<Stream>,
    ) -> Session {
        let session = Session {
            instance,
            handle: OnceLock::new(),
            graphics,
            stream,
            input: Mutex::default(),
            controllers: Mutex::default(),
            state: Mutex::new(State {
                lifecycle: Lifecycle::new(),
                frames: FrameLoop::default(),
                views: xr::ViewConfigurationType::PRIMARY_STEREO,
                attached: None,
                head: HeadTracker::default(),
                newest_pose: None,
                pose_timing: PoseTiming::default(),
                located: VecDeque::new(),
                begun: None,
                refresh: 0.0,
                should_render: false,
                eye_size: settings::eye_size(),
                destroyed: false,
            }),
            changed: Condvar::new(),
        };
        session.state().refresh = session.refresh();
        session
    }

    /// Sets the session's handle, and queues the state changes so far.
    pub(crate) fn set_handle(&self, handle: xr::Session) {
        let _ = self.handle.set(handle);
        self.push_events(&mut self.state());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues events for the state changes.
    fn push_events(&self, state: &mut State) {
        let Some(handle) = self.handle.get() else {
            return;
        };
        let now = clock::now();
        let mut events = lock(&self.instance.events);
        for change in state.lifecycle.take_changes() {
            events.push(Event::State(*handle, change, now));
        }
    }

    /// Whether the session has no graphics.
    pub(crate) fn is_headless(&self) -> bool {
        self.graphics.is_none()
    }

    fn audience(&self) -> Audience {
        // A session without a stream never gets a client. It counts as a session with a player, so that the application
        // does not wait for a client.
        self.stream
            .as_ref()
            .map_or(Audience::Player, Stream::audience)
    }

    /// `xrBeginSession`.
    pub(crate) fn begin(&self, views: xr::ViewConfigurationType) -> Outcome<()> {
        let audience = self.audience();
        let mut state = self.state();
        state.lifecycle.begin()?;
        state.views = views;
        state.frames = FrameLoop::default();
        state.lifecycle.set_audience(audience);
        if self.is_headless() {
            state.lifecycle.synchronize();
        }
        self.push_events(&mut state);
        Ok(())
    }

    /// `xrRequestExitSession`.
    pub(crate) fn request_exit(&self) -> Outcome<()> {
        let mut state = self.state();
        state.lifecycle.request_exit()?;
        self.push_events(&mut state);
        Ok(())
    }

    /// `xrEndSession`.
    pub(crate) fn end(&self) -> Outcome<()> {
        let mut state = self.state();
        state.lifecycle.end()?;
        self.changed.notify_all();
        self.push_events(&mut state);
        Ok(())
    }

    /// `xrWaitFrame`: sleeps until the next slot. Also returns `shouldRender`.
    pub(crate) fn wait_frame(&self) -> Outcome<(Frame, bool)> {
        self.update();
        let period = self.period();
        let delay = self.delay(period);
        let timing = FrameTiming {
            period,
            phase: self.phase(period),
            delay,
        };
        let mut state = self.running()?;
        let slot = loop {
            match state.frames.wait(clock::now(), timing) {
                Wait::Until(slot) => break slot,
                Wait::ForBegin => {
                    let waited = self.changed.wait_timeout(state, POLL_INTERVAL);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                    state = self.running()?;
                }
            }
        };
        drop(state);
        while clock::now() < slot {
            clock::sleep_until(slot);
        }
        let mut state = self.state();
        if state.destroyed || !state.lifecycle.is_running() {
            state.frames.cancel_wait();
            return Err(xr::Result::ERROR_SESSION_NOT_RUNNING);
        }
        let frame = state.frames.take(clock::now(), timing);
        state.should_render = state.lifecycle.is_visible();
        let should_render = state.should_render;
        state.pose_timing.on_slot(slot);
        let schedule = state.pose_timing.schedule(period);
        drop(state);
        if let (Some(stream), Some(schedule)) = (&self.stream, schedule) {
            stream.set_pose_schedule(schedule);
        }
        Ok((frame, should_render))
    }

    fn running(&self) -> Outcome<MutexGuard<'_, State>> {
        let state = self.state();
        match () {
            () if state.destroyed => Err(xr::Result::ERROR_HANDLE_INVALID),
            () if !state.lifecycle.is_running() => Err(xr::Result::ERROR_SESSION_NOT_RUNNING),
            () => Ok(state),
        }
    }

    fn fps(&self) -> f64 {
        let fps = self.stream.as_ref().and_then(Stream::fps);
        fps.filter(|fps| *fps > 0.0).unwrap_or(DEFAULT_FPS)
    }

    fn period(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.fps())
    }

    /// Refresh rate of the player's display, in Hz.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the seven digits of an f32 are enough"
    )]
    pub(crate) fn refresh(&self) -> f32 {
        self.fps() as f32
    }

    fn delay(&self, period: Duration) -> Delay {
        let measured = self.stream.as_ref().and_then(Stream::delay);
        measured.unwrap_or(Delay::uniform(period * DEFAULT_DELAY_PERIODS))
    }

    /// A refresh time of the player's display; `None` if it is not known precisely enough for synchronisation.
    fn phase(&self, period: Duration) -> Option<Instant> {
        let refresh = self.stream.as_ref()?.display()?.refresh?;
        // An error bound above a quarter of the period makes the phase meaningless.
        let known = refresh.phase.bound <= period / 4;
        // If the display's period differs, frames and refreshes do not match one to one.
        let apart = refresh.period.abs_diff(period);
        (known && apart < period / 50).then(|| {
            // The caller extrapolates from this refresh with `period`. A small difference of the periods would
            // accumulate over many refreshes, so the result is the first refresh after now.
            let display_period = refresh.period.as_nanos().try_into().unwrap_or(i64::MAX);
            let (at, now) = (refresh.phase.at.0, clock::now().0);
            Instant(now.saturating_add(at.saturating_sub(now).rem_euclid(display_period)))
        })
    }

    /// Field of view and IPD of the player's display.
    pub(crate) fn headset(&self) -> Headset {
        let display = self.stream.as_ref().and_then(Stream::display);
        Headset::of(display.and_then(|display| display.eyes))
    }

    /// `xrBeginFrame`.
    pub(crate) fn begin_frame(&self) -> Outcome {
        let mut state = self.running()?;
        let result = state.frames.begin()?;
        state.begun = Some(clock::now());
        self.changed.notify_all();
        Ok(result)
    }

    /// Whether `xrEndFrame` may be called.
    pub(crate) fn may_end_frame(&self) -> Outcome<()> {
        self.running()?.frames.may_end()
    }

    /// `xrEndFrame`, after the layers of the frame have been validated.
    pub(crate) fn end_frame(&self) {
        let audience = self.audience();
        let mut state = self.state();
        state.frames.end();
        state.lifecycle.synchronize();
        state.lifecycle.set_audience(audience);
        self.push_events(&mut state);
    }

    /// The per-eye resolution of the previous picture, for a frame that does not define its own resolution. `None` if
    /// the frame is empty because `shouldRender` was false.
    pub(crate) fn eye_size(&self, empty: bool) -> Option<Size> {
        let state = self.state();
        (state.should_render || !empty).then_some(state.eye_size)
    }

    pub(crate) fn set_eye_size(&self, eye: Size) {
        self.state().eye_size = eye;
    }

    /// The sink for a picture, and the picture's metadata. The picture was rendered for the display time `display` with
    /// these eyes. `None` if no picture is needed.
    pub(crate) fn sink(&self, display: Instant, eyes: &[Eye]) -> Option<(FrameSink, RenderInfo)> {
        let sink = self.stream.as_ref()?.sink()?;
        let mut state = self.state();
        let begun = state.begun.take();
        let found = state.located.iter().find(|at| at.display == display);
        let drawn = RenderInfo {
            input: None,
            pose: found.and_then(|found| found.posed),
            begun,
            head: found.and_then(|found| found.head.pose.to_wire()),
            predicted: found.map(|found| found.predicted),
            display: Some(display),
            views: Views::from_views(eyes.iter().map_while(|eye| eye.to_wire()))
                .filter(|views| views.count() == eyes.len()),
        };
        Some((sink, drawn))
    }

    /// The view configuration with which the session was begun.
    pub(crate) fn views(&self) -> xr::ViewConfigurationType {
        self.state().views
    }

    /// The head's predicted state at `at`.
    pub(crate) fn head(&self, at: Instant) -> HeadState {
        let posed = self.stream.as_ref().and_then(Stream::pose);
        let mut state = self.state();
        if let Some(posed) = posed {
            state.newest_pose = Some(posed);
            state.head.update(posed);
            state.pose_timing.on_pose(&posed);
        }
        state.head.predict(clock::now(), at)
    }

    /// Like [`Session::head`], for the views of the frame that will be displayed at `at`. Stores the head state for
    /// [`Session::rendered_head`].
    pub(crate) fn head_for_frame(&self, at: Instant) -> HeadState {
        let head = self.head(at);
        let mut state = self.state();
        state.pose_timing.on_located(clock::now());
        let newest = state.newest_pose;
        state.located.retain(|located| located.display != at);
        state.located.push_back(LocatedViews {
            display: at,
            head,
            posed: newest,
            predicted: clock::now(),
        });
        if state.located.len() > MAX_LOCATED {
            state.located.pop_front();
        }
        head
    }

    /// The head state from which the views of the frame with the display time `at` were computed. If these views were
    /// not located, the head state that is predicted now.
    pub(crate) fn rendered_head(&self, at: Instant) -> HeadState {
        let located = self
            .state()
            .located
            .iter()
            .find(|located| located.display == at)
            .copied();
        located.map_or_else(|| self.head(at), |located| located.head)
    }

    /// `xrAttachSessionActionSets`. A second call is an error.
    pub(crate) fn attach(&self, sets: Vec<SetId>) -> Outcome<()> {
        let mut state = self.state();
        match state.attached {
            Some(_) => Err(xr::Result::ERROR_ACTIONSETS_ALREADY_ATTACHED),
            None => {
                state.attached = Some(sets);
                Ok(())
            }
        }
    }

    /// Checks that this action set is attached.
    pub(crate) fn check_attached(&self, set: SetId) -> Outcome<()> {
        match &self.state().attached {
            Some(sets) if sets.contains(&set) => Ok(()),
            _ => Err(xr::Result::ERROR_ACTIONSET_NOT_ATTACHED),
        }
    }

    /// `xrSyncActions`. The caller has checked that the action sets are attached. Without focus, `active` is empty.
    pub(crate) fn sync(&self, active: &[ActiveSet]) {
        let attached = self.state().attached.clone().unwrap_or_default();
        let now = clock::now();
        let actions = lock(&self.instance.actions);
        let mut paths = lock(&self.instance.paths);
        let mut input = lock(&self.input);
        let has_bindings = |profile: &str| !actions.suggested(profile, &paths).is_empty();
        self.controllers().apply(&mut input, now, has_bindings);
        let of = (&*actions, &mut *paths);
        let changed = input.sync(active, &attached, of, now);
        drop((actions, paths, input));
        if let Some(handle) = self.handle.get()
            && changed
        {
            lock(&self.instance.events).push(Event::Profile(*handle));
        }
    }

    /// The controllers, updated with the player's newest state.
    fn controllers(&self) -> MutexGuard<'_, Controllers> {
        let newest = self.stream.as_ref().and_then(Stream::controllers);
        let mut controllers = lock(&self.controllers);
        controllers.update(newest);
        controllers
    }

    /// Sends haptic feedback to a controller of the player.
    pub(crate) fn haptic(&self, haptic: Haptic) {
        if let Some(stream) = &self.stream {
            stream.haptic(haptic);
        }
    }

    /// Checks that action sets are attached.
    pub(crate) fn check_any_attached(&self) -> Outcome<()> {
        match self.state().attached {
            Some(_) => Ok(()),
            None => Err(xr::Result::ERROR_ACTIONSET_NOT_ATTACHED),
        }
    }

    /// Whether the session has input focus.
    pub(crate) fn is_focused(&self) -> bool {
        self.update();
        self.state().lifecycle.is_focused()
    }

    /// Reports a problem to the debug messengers and to the launcher.
    pub(crate) fn report(&self, why: &str) {
        debug::warn(why);
        if let Some(stream) = &self.stream {
            stream.report(why);
        }
    }
}

impl InstanceSession for Session {
    fn update(&self) {
        let (audience, refresh) = (self.audience(), self.refresh());
        let mut state = self.state();
        state.lifecycle.set_audience(audience);
        self.push_events(&mut state);
        let before = std::mem::replace(&mut state.refresh, refresh);
        let reports_rate = self.instance.extensions.has(Extension::DisplayRefreshRate);
        if let Some(handle) = self.handle.get()
            && reports_rate
            && before != refresh
        {
            lock(&self.instance.events).push(Event::Refresh(*handle, before, refresh));
        }
    }

    fn is_destroyed(&self) -> bool {
        self.state().destroyed
    }
}

impl Object for Session {
    type Handle = xr::Session;
    const KIND: xr::ObjectType = xr::ObjectType::SESSION;

    fn destroyed(&self) {
        self.state().destroyed = true;
        self.changed.notify_all();
        if let Some(graphics) = &self.graphics {
            graphics.close();
        }
        if let Some(stream) = &self.stream {
            stream.end();
        }
        if let Some(handle) = self.handle.get() {
            lock(&self.instance.events).remove_session(*handle);
        }
    }
}

/// The player's poses at a given time.
pub(crate) struct Player<'a> {
    pub(crate) session: &'a Session,
    pub(crate) head: HeadState,
    pub(crate) at: Instant,
}

impl PoseProvider for Player<'_> {
    fn head(&self) -> &HeadState {
        &self.head
    }

    fn action_pose(&self, action: ActionId, user: xr::Path) -> Option<Pose> {
        let input = lock(&self.session.input);
        let (of, component) = input.pose_source(action, user)?;
        let controllers = self.session.controllers();
        (controllers.predict(of, component, self.at)).or_else(|| input.pose(action, user))
    }
}

/// State of an `XrSpace`.
pub(crate) struct Space {
    pub(crate) session: Arc<Session>,
    pub(crate) space: spaces::Space,
}

impl Object for Space {
    type Handle = xr::Space;
    const KIND: xr::ObjectType = xr::ObjectType::SPACE;
}
