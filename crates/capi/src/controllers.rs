//! Controllers and haptics of the C API.

use std::ffi::c_int;
use std::time::Duration;

use openuvr_proto::controller::{
    Buttons, ControllerState, Controllers, Hand, Haptic, ReceivedControllers,
};
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;
use openuvr_runtime::lock::lock;

use crate::error::{DONE, Failure, Outcome};
use crate::ffi::{Sized32, read, write};
use crate::handle::{Handle, call};
use crate::host::{Host, openuvr_context};
use crate::mud::{Mud, openuvr_mud_context};

/// A hand: its index in `openuvr_controllers`, and its bit in `held`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_HAND {
    /// The left hand: index 0, bit 1.
    OPENUVR_HAND_LEFT = 0,
    /// The right hand: index 1, bit 2.
    OPENUVR_HAND_RIGHT = 1,
}

/// Bits of the pressed and touched buttons of a controller, named as in OpenXR's interaction profile of Touch
/// controllers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_BUTTON {
    /// X of the left hand or A of the right hand is pressed.
    OPENUVR_BUTTON_A_X = 1,
    /// Y of the left hand or B of the right hand is pressed.
    OPENUVR_BUTTON_B_Y = 2,
    /// The menu button of the left hand or the system button of the right hand is pressed.
    OPENUVR_BUTTON_MENU_SYSTEM = 4,
    /// The thumbstick is pressed.
    OPENUVR_BUTTON_THUMBSTICK = 8,
    /// X or A is touched.
    OPENUVR_BUTTON_A_X_TOUCH = 16,
    /// Y or B is touched.
    OPENUVR_BUTTON_B_Y_TOUCH = 32,
    /// The trigger is touched.
    OPENUVR_BUTTON_TRIGGER_TOUCH = 64,
    /// The thumbstick is touched.
    OPENUVR_BUTTON_THUMBSTICK_TOUCH = 128,
    /// The thumb rest is touched.
    OPENUVR_BUTTON_THUMBREST_TOUCH = 256,
}

/// The pose of a part of a controller, in the space of the head's poses (`openuvr_pose`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_placed {
    /// 1: tracked; 0: not tracked, and the other fields are invalid.
    pub tracked: u32,
    /// 1: `linear` is valid.
    pub has_linear: u32,
    /// 1: `angular` is valid.
    pub has_angular: u32,
    /// Position in metres.
    pub position: [f32; 3],
    /// Orientation as a quaternion x, y, z, w of length 1, within 1 %.
    pub orientation: [f32; 4],
    /// Velocity in m/s.
    pub linear: [f32; 3],
    /// Angular velocity in rad/s about each axis.
    pub angular: [f32; 3],
}

/// A controller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_controller {
    /// The pose of the palm, like OpenXR's `grip`.
    pub grip: openuvr_placed,
    /// The pointing pose, along -z, like OpenXR's `aim`.
    pub aim: openuvr_placed,
    /// Bits of `OPENUVR_BUTTON`.
    pub buttons: u32,
    /// The trigger, 0 to 1.
    pub trigger: f32,
    /// The squeeze force, 0 to 1.
    pub squeeze: f32,
    /// The thumbstick's position to the right and upwards, each -1 to 1.
    pub thumbstick: [f32; 2],
}

/// The controllers of both hands. Set `size` to `sizeof(struct openuvr_controllers)` and unused fields to 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_controllers {
    /// Bytes of this structure.
    pub size: u32,
    /// The hands with a controller: 1 left, 2 right, 3 both, 0 none.
    pub held: u32,
    /// At the host: a sequence number for this player's states.
    pub number: u32,
    /// At the host: the session.
    pub session: u32,
    /// Sampling time in nanoseconds of the local CLOCK_MONOTONIC. At the MUD, 0 means now; at the host, -1 means not known
    /// yet.
    pub sampled_ns: i64,
    /// At the host: arrival time.
    pub received_ns: i64,
    /// The left and the right controller.
    pub hands: [openuvr_controller; 2],
}

/// A vibration of a controller. Set `size` to `sizeof(struct openuvr_haptic)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_haptic {
    /// Bytes of this structure.
    pub size: u32,
    /// An `OPENUVR_HAND`.
    pub hand: u32,
    /// Amplitude, 0 (stop) to 1.
    pub amplitude: f32,
    /// Frequency in Hz, up to 65535; 0: the device's default.
    pub frequency: u32,
    /// Duration in nanoseconds, up to 60 seconds; 0 with an amplitude: the shortest that the device supports.
    pub duration_ns: u64,
}

// SAFETY: the type is `repr(C)` and contains only numbers, for which every bit pattern is valid.
unsafe impl Sized32 for openuvr_controllers {}

// SAFETY: the type is `repr(C)` and contains only numbers, for which every bit pattern is valid.
unsafe impl Sized32 for openuvr_haptic {}

const UNTRACKED: openuvr_placed = openuvr_placed {
    tracked: 0,
    has_linear: 0,
    has_angular: 0,
    position: [0.0; 3],
    orientation: [0.0, 0.0, 0.0, 1.0],
    linear: [0.0; 3],
    angular: [0.0; 3],
};

const NEUTRAL: openuvr_controller = openuvr_controller {
    grip: UNTRACKED,
    aim: UNTRACKED,
    buttons: 0,
    trigger: 0.0,
    squeeze: 0.0,
    thumbstick: [0.0; 2],
};

impl Default for openuvr_controllers {
    fn default() -> openuvr_controllers {
        openuvr_controllers {
            size: crate::size_of32::<openuvr_controllers>(),
            held: 0,
            number: 0,
            session: 0,
            sampled_ns: 0,
            received_ns: 0,
            hands: [NEUTRAL; 2],
        }
    }
}

impl Default for openuvr_haptic {
    fn default() -> openuvr_haptic {
        openuvr_haptic {
            size: crate::size_of32::<openuvr_haptic>(),
            hand: 0,
            amplitude: 0.0,
            frequency: 0,
            duration_ns: 0,
        }
    }
}

impl openuvr_placed {
    fn pose(&self) -> Outcome<Option<Pose>> {
        if self.tracked == 0 {
            return Ok(None);
        }
        let optional = |has: u32, vector: [f32; 3]| Some(vector).filter(|_| has != 0);
        let pose = Pose::new(self.position, self.orientation).and_then(|pose| {
            let linear = optional(self.has_linear, self.linear);
            pose.moving(linear, optional(self.has_angular, self.angular))
        });
        pose.map(Some)
            .map_err(|e| Failure::argument(format!("controller: {e}")))
    }

    fn of(pose: Option<&Pose>) -> openuvr_placed {
        pose.map_or(UNTRACKED, |pose| openuvr_placed {
            tracked: 1,
            has_linear: pose.linear_velocity().is_some().into(),
            has_angular: pose.angular_velocity().is_some().into(),
            position: pose.position(),
            orientation: pose.orientation(),
            linear: pose.linear_velocity().unwrap_or_default(),
            angular: pose.angular_velocity().unwrap_or_default(),
        })
    }
}

impl openuvr_controller {
    fn state(&self, hand: Hand) -> Outcome<ControllerState> {
        let numbers = [self.trigger, self.squeeze];
        let stick = self.thumbstick;
        let valid = numbers.iter().all(|v| (0.0..=1.0).contains(v))
            && stick.iter().all(|v| (-1.0..=1.0).contains(v));
        let buttons = u16::try_from(self.buttons).ok();
        let Some(buttons) = buttons.filter(|_| valid) else {
            let why = "invalid controller: trigger and squeeze must be 0 to 1, thumbstick -1 to 1, and buttons a set \
                       of OPENUVR_BUTTON bits";
            return Err(Failure::argument(why));
        };
        Ok(ControllerState {
            hand,
            grip: self.grip.pose()?,
            aim: self.aim.pose()?,
            buttons: Buttons(buttons),
            trigger: ControllerState::pull(self.trigger),
            squeeze: ControllerState::pull(self.squeeze),
            thumbstick: (
                ControllerState::deflection(stick[0]),
                ControllerState::deflection(stick[1]),
            ),
        })
    }

    fn of(state: &ControllerState) -> openuvr_controller {
        let pulled = |v: u16| f32::from(v) / f32::from(u16::MAX);
        let deflected = |v: i16| (f32::from(v) / f32::from(i16::MAX)).max(-1.0);
        openuvr_controller {
            grip: openuvr_placed::of(state.grip.as_ref()),
            aim: openuvr_placed::of(state.aim.as_ref()),
            buttons: state.buttons.0.into(),
            trigger: pulled(state.trigger),
            squeeze: pulled(state.squeeze),
            thumbstick: [deflected(state.thumbstick.0), deflected(state.thumbstick.1)],
        }
    }
}

impl openuvr_controllers {
    /// The controllers and their sampling time.
    fn parse(&self) -> Outcome<(Controllers, Instant)> {
        if self.held > 3 {
            let why = format!(
                "held must be 0 to 3 (one bit for each hand), not {}",
                self.held
            );
            return Err(Failure::argument(why));
        }
        let [left, right] = Hand::ALL.map(|hand| {
            let held = self.held & 1 << hand.index() != 0;
            held.then(|| self.hands[hand.index()].state(hand))
                .transpose()
        });
        let at = match self.sampled_ns {
            0 => openuvr_clock::now(),
            ns => Instant(ns),
        };
        Ok(([left?, right?], at))
    }
}

impl From<ReceivedControllers> for openuvr_controllers {
    fn from(it: ReceivedControllers) -> openuvr_controllers {
        let held = |hand: Hand| u32::from(it.states[hand.index()].is_some()) << hand.index();
        openuvr_controllers {
            held: held(Hand::Left) | held(Hand::Right),
            number: it.number,
            session: it.subscriber.number(),
            sampled_ns: it.sampled_here.map_or(-1, |mapped| mapped.at.0),
            received_ns: it.received.0,
            hands: it
                .states
                .map(|state| state.as_ref().map_or(NEUTRAL, openuvr_controller::of)),
            ..openuvr_controllers::default()
        }
    }
}

/// The longest vibration, as in the wire protocol.
const MAX_DURATION: Duration = Duration::from_secs(60);

impl openuvr_haptic {
    fn parse(&self) -> Outcome<Haptic> {
        let hand = Hand::ALL.into_iter().find(|hand| *hand as u32 == self.hand);
        let frequency = u16::try_from(self.frequency).ok();
        let duration = Duration::from_nanos(self.duration_ns);
        let valid = (0.0..=1.0).contains(&self.amplitude) && duration <= MAX_DURATION;
        match hand.zip(frequency).filter(|_| valid) {
            Some((hand, frequency)) => Ok(Haptic {
                hand,
                amplitude: ControllerState::pull(self.amplitude),
                frequency,
                duration,
            }),
            None => Err(Failure::argument(
                "invalid haptic: hand must be 0 or 1, amplitude 0 to 1, frequency at most 65535 Hz, duration_ns at \
                 most 60 seconds",
            )),
        }
    }
}

impl From<Haptic> for openuvr_haptic {
    fn from(haptic: Haptic) -> openuvr_haptic {
        openuvr_haptic {
            hand: haptic.hand as u32,
            amplitude: f32::from(haptic.amplitude) / f32::from(u16::MAX),
            frequency: haptic.frequency.into(),
            duration_ns: u64::try_from(haptic.duration.as_nanos()).unwrap_or(u64::MAX),
            ..openuvr_haptic::default()
        }
    }
}

/// Retrieves the player's newest controller states into `*controllers` (set its `size` first).
/// Returns 1, or 0 if the current player has sent none. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `controllers` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_last_controllers(
    context: *mut openuvr_context,
    controllers: *mut openuvr_controllers,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            match handle.started()?.guest.controllers() {
                Some(held) => write(controllers, &held.into(), "the controllers").map(|()| 1),
                // An invalid structure is an error even if there are no controller states.
                None => {
                    let none = openuvr_controllers::default();
                    read(controllers, none, "the controllers").map(|_| 0)
                }
            }
        })
    }
}

/// Vibrates a controller of the player; replaces the previous vibration of this controller. The vibration is discarded
/// if there is no player. From any thread, after the threads are started; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `haptic` is NULL or readable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_haptic(
    context: *mut openuvr_context,
    haptic: *const openuvr_haptic,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let haptic = read(haptic, openuvr_haptic::default(), "the haptic")?;
            let haptic = haptic.parse()?;
            handle.started()?.guest.haptic(haptic);
            Ok(DONE)
        })
    }
}

/// Sends the controller states. They are a state, not an event: only the newest one matters. Send them continually,
/// preferably with each pose. At most 2000 per second are sent. Returns the sequence number of these states, or 0 if
/// there is no session. From any thread; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `controllers` is NULL or readable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_controllers(
    context: *mut openuvr_mud_context,
    controllers: *const openuvr_controllers,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let none = openuvr_controllers::default();
            let (states, sampled) = read(controllers, none, "the controllers")?.parse()?;
            let client = handle.started()?.client()?;
            let number = client.push_controllers(sampled, states);
            Ok(number.map_or(0, |number| c_int::try_from(number).unwrap_or(c_int::MAX)))
        })
    }
}

/// Retrieves the oldest pending vibration into `*haptic` (set its `size` first). At most 64 are kept; if there are more, the
/// oldest are dropped. Returns 1 if there was one, 0 if not. From any thread; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `haptic` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_next_haptic(
    context: *mut openuvr_mud_context,
    haptic: *mut openuvr_haptic,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            // Validates the structure before a vibration is removed from the queue.
            read(haptic, openuvr_haptic::default(), "the haptic")?;
            let started = handle.started()?;
            let next = lock(&started.state).haptics.pop_front();
            match next {
                Some(next) => write(haptic, &next.into(), "the haptic").map(|()| 1),
                None => started.end().map_or(Ok(0), Err),
            }
        })
    }
}
