//! Timing: when the next picture is drawn, and when applications are notified to draw their next frame.
//!
//! A picture is drawn as soon as a surface has changed, unless pictures come faster than the frame rate of the stream.
//! In that case, the newest picture is drawn when it is due ([`Pace`]). Frame callbacks follow the commit at once, at
//! most one per refresh. An application that was idle therefore does not wait for the next tick of an invisible
//! refresh, and a still picture causes no wake-up.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::pace::Pace;
use openuvr_proto::time::Instant;
use smithay::reexports::wayland_protocols::wp::presentation_time::server::wp_presentation_feedback::Kind;
use smithay::reexports::wayland_server::Resource as _;
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::wayland::compositor::{SurfaceAttributes, with_states};
use smithay::wayland::fifo::FifoBarrierCachedState;
use smithay::wayland::presentation::{PresentationFeedbackCachedState, Refresh};

use crate::state::{ClientState, State};

/// The frame rate while there are no viewers. At this rate, pictures are still drawn, so that the first viewer sees a
/// recent picture at once.
const UNWATCHED: f64 = 1.0;

/// The delay before the next attempt to draw if no picture buffer was free. The media thread exchanges its buffer
/// within microseconds.
const RETRY: Duration = Duration::from_millis(1);

/// The frame rate if none is set. It is the refresh rate of most displays.
const USUAL: f64 = 60.0;

/// The timing of pictures and frame callbacks.
pub(crate) struct Frames {
    pace: Pace,
    retry_at: Option<Instant>,
    fps: f64,
    watched: bool,
    ticked: Instant,
    /// Surfaces that wait for a frame callback, a barrier or, without viewers, presentation feedback.
    waiting: Vec<WlSurface>,
    sequence: u64,
}

impl Frames {
    pub(crate) fn new(fps: f64) -> Frames {
        Frames {
            pace: Pace::new(UNWATCHED),
            retry_at: None,
            fps: usable(fps),
            watched: false,
            ticked: Instant(0),
            waiting: Vec::new(),
            sequence: 0,
        }
    }

    /// The time between two refreshes.
    fn period(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.fps)
    }

    /// The refresh rate in thousandths of a hertz.
    pub(crate) fn millihertz(&self) -> i32 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "`usable` limits the rate to a thousand hertz"
        )]
        let rate = (self.fps * 1000.0).round() as i32;
        rate
    }

    /// The time of the next callback or picture.
    pub(crate) fn due(&self) -> Option<Instant> {
        let tick = (!self.waiting.is_empty()).then(|| self.ticked + self.period());
        [tick, self.pace.due(), self.retry_at]
            .into_iter()
            .flatten()
            .min()
    }

    fn set_rate(&mut self) {
        let rate = if self.watched { self.fps } else { UNWATCHED };
        self.pace.limit(rate);
    }
}

fn usable(fps: f64) -> f64 {
    if fps.is_finite() && fps > 0.0 {
        fps.clamp(1.0, 1000.0)
    } else {
        USUAL
    }
}

impl State {
    /// Changes the frame rate.
    pub(crate) fn set_fps(&mut self, fps: f64) {
        let fps = usable(fps);
        if std::mem::replace(&mut self.frames.fps, fps) != fps {
            self.frames.set_rate();
            self.set_mode();
        }
    }

    /// Sets whether there are viewers. If a changed picture is waiting when the first viewer joins, it is drawn at
    /// once.
    pub(crate) fn set_watched(&mut self, watched: bool) {
        let comes = watched && !self.frames.watched;
        self.frames.watched = watched;
        self.frames.set_rate();
        if comes {
            // The first viewer does not wait for the end of the long interval that applies without viewers.
            let waits = self.frames.pace.due().is_some();
            self.frames.pace = Pace::new(self.frames.fps);
            if waits {
                self.frames.pace.offer(clock::now());
            }
        }
    }

    /// Handles a committed surface. It may wait for a frame callback, a barrier or presentation feedback.
    pub(crate) fn wait(&mut self, surface: &WlSurface) {
        let watched = self.frames.watched;
        let waits = with_states(surface, |states| {
            let cached = &states.cached_state;
            !cached
                .get::<SurfaceAttributes>()
                .current()
                .frame_callbacks
                .is_empty()
                || cached
                    .get::<FifoBarrierCachedState>()
                    .current()
                    .barrier
                    .is_some()
                || (!watched && has_feedback(states))
        });
        if waits && !self.frames.waiting.contains(surface) {
            self.frames.waiting.push(surface.clone());
        }
    }

    /// Draws the picture if it is due, and sends the callbacks that are due.
    pub(crate) fn settle(&mut self) {
        let now = clock::now();
        self.pair_surfaces();
        self.request_copied();
        self.send_cursor();
        self.update_scene();
        self.follow_scene();
        if std::mem::take(&mut self.changed) {
            self.frames.pace.offer(now);
        }
        let retry = self.frames.retry_at.is_some_and(|at| at <= now);
        if self.frames.pace.due().is_some_and(|due| due <= now) || retry {
            self.frames.pace.take(now);
            self.frames.retry_at = None;
            if self.draw() {
                self.presented(now);
            } else {
                self.frames.retry_at = Some(now + RETRY);
            }
        }
        self.tick(now);
    }

    fn tick(&mut self, now: Instant) {
        let due = self.frames.ticked + self.frames.period();
        if self.frames.waiting.is_empty() || now < due {
            return;
        }
        // The ticks do not drift while an application draws continuously.
        let late = now.since(due) >= self.frames.period();
        self.frames.ticked = if late { now } else { due };
        let time = milliseconds(now);
        for surface in std::mem::take(&mut self.frames.waiting) {
            if !surface.is_alive() {
                continue;
            }
            let barrier = with_states(&surface, |states| {
                let mut attributes = states.cached_state.get::<SurfaceAttributes>();
                for callback in attributes.current().frame_callbacks.drain(..) {
                    callback.done(time);
                }
                let mut barrier = states.cached_state.get::<FifoBarrierCachedState>();
                barrier.current().barrier.take()
            });
            if !self.frames.watched {
                self.present(&surface, now);
            }
            if let (Some(barrier), Some(client)) = (barrier, surface.client()) {
                barrier.signal();
                let handle = self.handle.clone();
                if let Some(data) = client.get_data::<ClientState>() {
                    data.compositor.blocker_cleared(self, &handle);
                }
            }
        }
    }

    /// Reports to all shown surfaces that they have been included in a picture.
    fn presented(&mut self, now: Instant) {
        self.frames.sequence += 1;
        for element in &self.scene {
            self.present(&element.surface.surface, now);
        }
    }

    fn present(&self, surface: &WlSurface, now: Instant) {
        let callbacks = with_states(surface, |states| {
            let mut feedback = states.cached_state.get::<PresentationFeedbackCachedState>();
            std::mem::take(&mut feedback.current().callbacks)
        });
        let time = Duration::from_nanos(u64::try_from(now.0).unwrap_or(0));
        for callback in callbacks {
            callback.presented(
                &self.output,
                time,
                Refresh::fixed(self.frames.period()),
                self.frames.sequence,
                Kind::empty(),
            );
        }
    }
}

fn has_feedback(states: &smithay::wayland::compositor::SurfaceData) -> bool {
    let mut feedback = states.cached_state.get::<PresentationFeedbackCachedState>();
    !feedback.current().callbacks.is_empty()
}

/// A time in milliseconds, as in Wayland's events.
pub(crate) fn milliseconds(now: Instant) -> u32 {
    // The milliseconds wrap around.
    u32::try_from((now.0 / 1_000_000) & i64::from(u32::MAX)).unwrap_or(0)
}
