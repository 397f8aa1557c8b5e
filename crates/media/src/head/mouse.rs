//! A head pose source without a tracker. The mouse turns the head, and keys move it.
//!
//! While the window's pointer is grabbed, the mouse turns the head. W, A, S and D (or the arrow keys) move it
//! horizontally: forward, left, back and right, relative to its yaw. Page Up and Page Down move it up and down. Q and E
//! tilt it towards a shoulder. Other input goes to the host.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::display::RefreshTiming;
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::pose::Pose;
use openuvr_proto::rotation::Rotation;
use openuvr_proto::time::Instant;

use super::schedule::Schedule;
use super::velocity::{EulerPose, VelocityTracker};
use super::{Backend, HeadPose, HeadPoseError, HeadPoseInput, HeadPoseSource};

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "mouse",
    argument: "",
    open: |_| Ok(open()),
};

/// Interval of poses at rest. It is shorter than 330 ms, the age at which the host and the client consider a pose
/// outdated.
const AT_REST: Duration = Duration::from_millis(100);

/// Degrees per pixel of the mouse: a full turn in 3600 pixels, as usual in games (guess).
const DEGREES: f32 = 0.1;

/// Metres per second: a slow walk.
const SPEED: f32 = 1.0;

/// Radians per second at which the head tilts towards a shoulder.
const LEAN: f32 = 1.0;

/// Maximum pitch and maximum roll in radians, in both directions.
const MAX_PITCH: f32 = 1.5;

/// Maximum duration of one motion step. It limits the motion after the thread was suspended.
const MAX_STEP: Duration = Duration::from_millis(50);

/// Effect of a key: motion to the right, up and back in units of `SPEED`, and a tilt towards the left shoulder in units of
/// `LEAN`.
struct Move {
    keys: &'static [KeyCode],
    by: [f32; 4],
}

/// Key codes of `linux/input-event-codes.h`.
const MOVES: &[Move] = &[
    // KEY_W, KEY_UP
    Move {
        keys: &[KeyCode(17), KeyCode(103)],
        by: [0.0, 0.0, -1.0, 0.0],
    },
    // KEY_S, KEY_DOWN
    Move {
        keys: &[KeyCode(31), KeyCode(108)],
        by: [0.0, 0.0, 1.0, 0.0],
    },
    // KEY_A, KEY_LEFT
    Move {
        keys: &[KeyCode(30), KeyCode(105)],
        by: [-1.0, 0.0, 0.0, 0.0],
    },
    // KEY_D, KEY_RIGHT
    Move {
        keys: &[KeyCode(32), KeyCode(106)],
        by: [1.0, 0.0, 0.0, 0.0],
    },
    // KEY_PAGEUP
    Move {
        keys: &[KeyCode(104)],
        by: [0.0, 1.0, 0.0, 0.0],
    },
    // KEY_PAGEDOWN
    Move {
        keys: &[KeyCode(109)],
        by: [0.0, -1.0, 0.0, 0.0],
    },
    // KEY_Q, KEY_E
    Move {
        keys: &[KeyCode(16)],
        by: [0.0, 0.0, 0.0, 1.0],
    },
    Move {
        keys: &[KeyCode(18)],
        by: [0.0, 0.0, 0.0, -1.0],
    },
];

fn is_move(code: KeyCode) -> bool {
    MOVES.iter().any(|it| it.keys.contains(&code))
}

/// State shared by both threads.
#[derive(Default)]
struct State {
    grabbed: bool,
    held: BTreeSet<KeyCode>,
    place: EulerPose,
}

type Shared = Arc<Mutex<State>>;

fn lock(state: &Shared) -> MutexGuard<'_, State> {
    // A panic of the other thread leaves a consistent state, because each change is complete in
    // itself.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open() -> HeadPose {
    let state = Shared::default();
    let source = Box::new(Mouse {
        state: Arc::clone(&state),
        last: None,
        reported: None,
        moving: VelocityTracker::default(),
        schedule: Schedule::default(),
    });
    HeadPose {
        source,
        input: Some(Box::new(MouseInput(state))),
    }
}

/// The part of the source that runs on the input thread.
struct MouseInput(Shared);

impl HeadPoseInput for MouseInput {
    fn take(&mut self, event: &InputEvent) -> bool {
        let mut state = lock(&self.0);
        match *event {
            // A release is consumed if its press was consumed and the grab has not ended since.
            InputEvent::Key {
                code,
                pressed: false,
                ..
            } => state.held.remove(&code),
            _ if !state.grabbed => false,
            InputEvent::Key { code, .. } if is_move(code) => {
                state.held.insert(code);
                true
            }
            InputEvent::PointerRelative { dx, dy } => {
                let turn = |pixels: i16| f32::from(pixels) * DEGREES.to_radians();
                let place = &mut state.place;
                place.yaw = (place.yaw - turn(dx)) % std::f32::consts::TAU;
                place.pitch = (place.pitch - turn(dy)).clamp(-MAX_PITCH, MAX_PITCH);
                true
            }
            _ => false,
        }
    }

    fn grabbed(&mut self, grabbed: bool) {
        let mut state = lock(&self.0);
        state.grabbed = grabbed;
        if !grabbed {
            state.held.clear();
        }
    }
}

impl State {
    /// Moves the head by the held keys.
    fn go(&mut self, span: Duration) {
        let span = span.min(MAX_STEP).as_secs_f32();
        let mut by = [0.0; 4];
        for it in MOVES {
            if it.keys.iter().any(|key| self.held.contains(key)) {
                by = [0, 1, 2, 3].map(|i| by[i] + it.by[i]);
            }
        }
        let [x, y, z, lean] = by;
        // Forward is the view direction projected onto the floor.
        let around = Rotation::of_head(self.place.yaw, 0.0, 0.0).turn([x, y, z]);
        self.place.at = [0, 1, 2].map(|i| self.place.at[i] + around[i] * SPEED * span);
        let roll = self.place.roll + lean * LEAN * span;
        self.place.roll = roll.clamp(-MAX_PITCH, MAX_PITCH);
    }
}

/// The part of the source that runs on the head thread.
struct Mouse {
    state: Shared,
    last: Option<Instant>,
    reported: Option<(EulerPose, Instant)>,
    moving: VelocityTracker,
    schedule: Schedule,
}

impl Mouse {
    fn sample(&mut self, now: Instant) -> Option<Pose> {
        let span = self
            .last
            .replace(now)
            .map_or(Duration::ZERO, |at| now.since(at));
        let place = {
            let mut state = lock(&self.state);
            state.go(span);
            state.place
        };
        let rests = self
            .reported
            .is_some_and(|(reported, at)| reported == place && now.since(at) < AT_REST);
        if rests {
            return None;
        }
        self.reported = Some((place, now));
        self.moving.pose(place, now)
    }
}

impl HeadPoseSource for Mouse {
    fn next(&mut self, timeout: Duration) -> Result<Option<(Pose, Instant)>, HeadPoseError> {
        let until = clock::now() + timeout;
        loop {
            let now = clock::now();
            let due = self.last.map_or(now, |at| self.schedule.after(at));
            if now >= due
                && let Some(pose) = self.sample(now)
            {
                return Ok(Some((pose, now)));
            }
            if now >= until {
                return Ok(None);
            }
            let wake = self
                .last
                .map_or(until, |at| self.schedule.after(at))
                .min(until);
            std::thread::sleep(wake.since(now));
        }
    }

    fn aim(&mut self, wanted: Option<RefreshTiming<Instant>>) {
        self.schedule.aim(wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: u16, pressed: bool) -> InputEvent {
        InputEvent::Key {
            code: KeyCode(code),
            text: None,
            pressed,
        }
    }

    /// Both parts of a source.
    fn head() -> (MouseInput, Mouse) {
        let state = Shared::default();
        let mouse = Mouse {
            state: Arc::clone(&state),
            last: None,
            reported: None,
            moving: VelocityTracker::default(),
            schedule: Schedule::default(),
        };
        (MouseInput(state), mouse)
    }

    #[test]
    fn only_a_grabbed_pointer_moves_the_head() {
        let (mut input, _) = head();
        let motion = InputEvent::PointerRelative { dx: 10, dy: 0 };
        assert!(!input.take(&motion) && !input.take(&key(17, true)));
        input.grabbed(true);
        assert!(input.take(&motion) && input.take(&key(17, true)));
        assert!(!input.take(&key(57, true)), "the space bar is for the host");
        let click = InputEvent::Button {
            button: openuvr_proto::input::event::Button::LEFT,
            pressed: true,
        };
        assert!(!input.take(&click) && !input.take(&InputEvent::ReleaseAll));
        assert!(input.take(&key(17, false)), "it was pressed here");
        assert!(!input.take(&key(17, false)), "it was not pressed here");
    }

    #[test]
    fn the_mouse_turns_and_keys_walk_where_the_head_looks() {
        let (mut input, mut mouse) = head();
        let at = |ms: i64| Instant(ms * 1_000_000);
        input.grabbed(true);
        // A quarter turn to the left.
        input.take(&InputEvent::PointerRelative { dx: -900, dy: 0 });
        input.take(&key(17, true));
        mouse.sample(at(0));
        let pose = mouse.sample(at(40)).expect("it moves");
        let [x, y, z] = pose.position();
        assert!(
            (x + 0.04).abs() < 1e-4 && y.abs() < 1e-6 && z.abs() < 1e-4,
            "{pose:?}"
        );
        let velocity = pose.linear_velocity().expect("known");
        assert!((velocity[0] + 1.0).abs() < 1e-2, "{velocity:?}");
        input.grabbed(false);
        mouse.sample(at(44));
        assert_eq!(mouse.sample(at(48)), None, "no motion");
        assert!(mouse.sample(at(200)).is_some(), "repeated at rest");
        // The pitch is limited to almost straight up.
        input.grabbed(true);
        for _ in 0..100 {
            input.take(&InputEvent::PointerRelative {
                dx: 0,
                dy: i16::MIN,
            });
        }
        let looks = Rotation::of(&mouse.sample(at(204)).expect("it turned")).turn([0.0, 0.0, -1.0]);
        assert!(
            looks[1] > 0.99 && looks.iter().all(|v| v.is_finite()),
            "{looks:?}"
        );
    }
}
