//! What a person holds in each hand, and what the hand is to feel, for programs in C.

use std::ffi::c_int;
use std::time::Duration;

use openuvr_proto::controller::{Buttons, Controlled, ControllerState, Controllers, Hand, Haptic};
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;
use openuvr_runtime::lock::lock;

use crate::error::{DONE, Failure, Outcome};
use crate::ffi::{Sized32, read, write};
use crate::handle::{Handle, call};
use crate::host::{Host, openuvr_context};
use crate::mud::{Mud, openuvr_mud_context};

/// A person's hands: their places in `openuvr_controllers`, and bits of its `held`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_HAND {
    /// The left one: place 0, bit 1.
    OPENUVR_HAND_LEFT = 0,
    /// The right one: place 1, bit 2.
    OPENUVR_HAND_RIGHT = 1,
}

/// Bits of what is pressed and touched of a controller. The names are those of OpenXR's Touch controllers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_BUTTON {
    /// X of the left hand, A of the right one, is pressed.
    OPENUVR_BUTTON_A_X = 1,
    /// Y of the left hand, B of the right one, is pressed.
    OPENUVR_BUTTON_B_Y = 2,
    /// The menu button of the left hand, the system button of the right one, is pressed.
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

/// Where a part of a controller is, in the space of the head's poses (`openuvr_pose`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_placed {
    /// 1: it is tracked; 0: it is not, and the rest does not count.
    pub tracked: u32,
    /// 1: `linear` is known.
    pub has_linear: u32,
    /// 1: `angular` is known.
    pub has_angular: u32,
    /// In metres.
    pub position: [f32; 3],
    /// A rotation as a quaternion x, y, z, w of length 1, within 1 %.
    pub orientation: [f32; 4],
    /// Velocity in metres a second.
    pub linear: [f32; 3],
    /// In radians a second around each axis.
    pub angular: [f32; 3],
}

/// One controller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_controller {
    /// The middle of the palm, as OpenXR's `grip`.
    pub grip: openuvr_placed,
    /// What it points with, along -z, as OpenXR's `aim`.
    pub aim: openuvr_placed,
    /// Bits of `OPENUVR_BUTTON`.
    pub buttons: u32,
    /// How far the trigger is pulled: 0 to 1.
    pub trigger: f32,
    /// How hard it is squeezed: 0 to 1.
    pub squeeze: f32,
    /// The thumbstick, to the right and up: -1 to 1.
    pub thumbstick: [f32; 2],
}

/// What a person holds. Set `size` to `sizeof(struct openuvr_controllers)` and what is not named to 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_controllers {
    /// Bytes of this structure.
    pub size: u32,
    /// Which hands hold one: 1 the left one, 2 the right one, 3 both, 0 none.
    pub held: u32,
    /// At the host: counts up with each of this player's states.
    pub number: u32,
    /// At the host: whose they are.
    pub session: u32,
    /// When they were sampled, in nanoseconds of CLOCK_MONOTONIC here; at the MUD 0: now; at the host -1:
    /// not known yet.
    pub sampled_ns: i64,
    /// At the host: when they arrived.
    pub received_ns: i64,
    /// The left hand's and the right hand's.
    pub hands: [openuvr_controller; 2],
}

/// What a hand is to feel. Set `size` to `sizeof(struct openuvr_haptic)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_haptic {
    /// Bytes of this structure.
    pub size: u32,
    /// An `OPENUVR_HAND`.
    pub hand: u32,
    /// How hard: 0 (it stops) to 1.
    pub amplitude: f32,
    /// In Hz, up to 65535; 0: whatever suits the device.
    pub frequency: u32,
    /// How long, in nanoseconds, up to 60 seconds; 0 with an amplitude: as short as the device can.
    pub duration_ns: u64,
}

// SAFETY: `repr(C)`; numbers.
unsafe impl Sized32 for openuvr_controllers {}

// SAFETY: `repr(C)`; numbers.
unsafe impl Sized32 for openuvr_haptic {}

/// Not tracked.
const NOWHERE: openuvr_placed = openuvr_placed {
    tracked: 0,
    has_linear: 0,
    has_angular: 0,
    position: [0.0; 3],
    orientation: [0.0, 0.0, 0.0, 1.0],
    linear: [0.0; 3],
    angular: [0.0; 3],
};

/// At rest.
const RESTS: openuvr_controller = openuvr_controller {
    grip: NOWHERE,
    aim: NOWHERE,
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
            hands: [RESTS; 2],
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
        let given = |has: u32, vector: [f32; 3]| Some(vector).filter(|_| has != 0);
        let pose = Pose::new(self.position, self.orientation).and_then(|pose| {
            let linear = given(self.has_linear, self.linear);
            pose.moving(linear, given(self.has_angular, self.angular))
        });
        pose.map(Some)
            .map_err(|e| Failure::argument(format!("a controller: {e}")))
    }

    fn of(pose: Option<&Pose>) -> openuvr_placed {
        pose.map_or(NOWHERE, |pose| openuvr_placed {
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
        let fine = numbers.iter().all(|v| (0.0..=1.0).contains(v))
            && stick.iter().all(|v| (-1.0..=1.0).contains(v));
        let buttons = u16::try_from(self.buttons).ok();
        let Some(buttons) = buttons.filter(|_| fine) else {
            let why = "a controller's trigger and squeeze are 0 to 1, its thumbstick -1 to 1, its buttons bits of \
                       OPENUVR_BUTTON";
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
    /// The controllers, and when they were sampled.
    fn told(&self) -> Outcome<(Controllers, Instant)> {
        if self.held > 3 {
            let why = format!("held is {}: it is 0 to 3, a bit for each hand", self.held);
            return Err(Failure::argument(why));
        }
        let [left, right] = Hand::ALL.map(|hand| {
            let held = self.held & 1 << hand.index() != 0;
            held.then(|| self.hands[hand.index()].state(hand))
                .transpose()
        });
        let at = match self.sampled_ns {
            0 => openuvr_runtime::clock::now(),
            ns => Instant(ns),
        };
        Ok(([left?, right?], at))
    }
}

impl From<Controlled> for openuvr_controllers {
    fn from(it: Controlled) -> openuvr_controllers {
        let held = |hand: Hand| u32::from(it.states[hand.index()].is_some()) << hand.index();
        openuvr_controllers {
            held: held(Hand::Left) | held(Hand::Right),
            number: it.number,
            session: it.subscriber.number(),
            sampled_ns: it.sampled_here.map_or(-1, |mapped| mapped.at.0),
            received_ns: it.received.0,
            hands: it
                .states
                .map(|state| state.as_ref().map_or(RESTS, openuvr_controller::of)),
            ..openuvr_controllers::default()
        }
    }
}

/// Longer ones are refused, as the wire has it.
const LONGEST: Duration = Duration::from_secs(60);

impl openuvr_haptic {
    fn told(&self) -> Outcome<Haptic> {
        let hand = Hand::ALL.into_iter().find(|hand| *hand as u32 == self.hand);
        let frequency = u16::try_from(self.frequency).ok();
        let duration = Duration::from_nanos(self.duration_ns);
        let fine = (0.0..=1.0).contains(&self.amplitude) && duration <= LONGEST;
        match hand.zip(frequency).filter(|_| fine) {
            Some((hand, frequency)) => Ok(Haptic {
                hand,
                amplitude: ControllerState::pull(self.amplitude),
                frequency,
                duration,
            }),
            None => Err(Failure::argument(
                "what a hand feels: hand is 0 or 1, amplitude 0 to 1, frequency up to 65535 Hz, duration_ns up to \
                 60 seconds",
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

/// Writes what the player holds, as it was heard last, into `*controllers`, whose `size` the caller has set.
/// Returns 1, or 0 if nobody has told since the current player came. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `controllers` is NULL or writable for as many bytes
/// as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_last_controllers(
    context: *mut openuvr_context,
    controllers: *mut openuvr_controllers,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            match handle.started()?.guest.controllers() {
                Some(held) => write(controllers, &held.into(), "the controllers").map(|()| 1),
                // What is wrong with it is told all the same.
                None => {
                    let none = openuvr_controllers::default();
                    read(controllers, none, "the controllers").map(|_| 0)
                }
            }
        })
    }
}

/// Lets a hand of the player's feel this, in place of what it felt. Nobody feels it while nobody plays. From
/// any thread, once the thread is started; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `haptic` is NULL or readable for as many bytes as its
/// size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_haptic(
    context: *mut openuvr_context,
    haptic: *const openuvr_haptic,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let haptic = read(haptic, openuvr_haptic::default(), "what a hand feels")?;
            let haptic = haptic.told()?;
            handle.started()?.guest.haptic(haptic);
            Ok(DONE)
        })
    }
}

/// Sends what the person holds. It is no event: only the newest counts, so say it again and again, at best
/// with each pose. More than 2000 a second are not sent. Returns its number, or 0 while there is no session.
/// From any thread; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `controllers` is NULL or readable for as many bytes
/// as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_controllers(
    context: *mut openuvr_mud_context,
    controllers: *const openuvr_controllers,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let none = openuvr_controllers::default();
            let (states, sampled) = read(controllers, none, "the controllers")?.told()?;
            let client = handle.started()?.client()?;
            let number = client.push_controllers(sampled, states);
            Ok(number.map_or(0, |number| c_int::try_from(number).unwrap_or(c_int::MAX)))
        })
    }
}

/// Writes what a hand is to feel into `*haptic`, whose `size` the caller has set: the oldest that was not
/// taken yet, of the newest 64. Returns 1 if there was one, 0 if not. From any thread; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `haptic` is NULL or writable for as many bytes as its
/// size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_next_haptic(
    context: *mut openuvr_mud_context,
    haptic: *mut openuvr_haptic,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            // Before one is taken that could not be written.
            read(haptic, openuvr_haptic::default(), "what a hand feels")?;
            let started = handle.started()?;
            let next = lock(&started.state).haptics.pop_front();
            match next {
                Some(next) => write(haptic, &next.into(), "what a hand feels").map(|()| 1),
                None => started.end().map_or(Ok(0), Err),
            }
        })
    }
}
