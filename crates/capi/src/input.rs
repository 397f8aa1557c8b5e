//! Input events and poses of the C API.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use openuvr_proto::id::DeviceId;
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::pose::{Pose, ReceivedPose};
use openuvr_proto::time::Instant;
use openuvr_runtime::guest::ApplicationInput;

use crate::callback_scope::CallbackScope;
use crate::error::{Failure, Outcome};
use crate::ffi::Sized32;

/// The kind of an `openuvr_input`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_INPUT_KIND {
    /// A key was pressed (`value` 1) or released (0): `code` is its number in linux/input-event-codes.h (`KEY_A` …),
    /// independent of the keyboard layout; `text` is the character typed at the MUD, or 0. Repeats are not sent.
    OPENUVR_INPUT_KEY = 1,
    /// A mouse button was pressed (`value` 1) or released (0): `code` is `BTN_LEFT` …
    OPENUVR_INPUT_BUTTON = 2,
    /// The pointer is at `x` and `y` of the picture: 0 is the left or upper edge, 65535 the right or lower edge.
    OPENUVR_INPUT_POINTER = 3,
    /// The pointer moved by `x` to the right and `y` downwards, in pixels of the picture.
    OPENUVR_INPUT_MOTION = 4,
    /// The wheel turned by `x` to the right and `y` upwards, in 1/120 of a notch.
    OPENUVR_INPUT_WHEEL = 5,
    /// All keys and buttons are released, for example because the MUD has lost the focus or the player has left.
    OPENUVR_INPUT_RELEASE_ALL = 6,
    /// An event of a registered device: `code` and `value` are those of its `struct input_event`, and `x` is its type.
    /// At the host, such events come only from devices that are not mapped to a descriptor.
    OPENUVR_INPUT_DEVICE = 7,
}

use OPENUVR_INPUT_KIND::*;

/// An input event. Set `size` to `sizeof(struct openuvr_input)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_input {
    /// Bytes of this structure.
    pub size: u32,
    /// An `OPENUVR_INPUT_KIND`: determines which fields are valid.
    pub kind: u32,
    /// The key or button.
    pub code: u32,
    /// 1: pressed; 0: released.
    pub value: i32,
    /// Horizontal, to the right.
    pub x: i32,
    /// Vertical, downwards; upwards for the wheel.
    pub y: i32,
    /// A Unicode scalar value, or 0.
    pub text: u32,
    /// The device number, for `OPENUVR_INPUT_DEVICE`.
    pub device: u32,
    /// Unused.
    pub unused: u32,
    /// At the host: the session, for applications that distinguish players.
    pub session: u32,
    /// At the host: arrival time in nanoseconds of CLOCK_MONOTONIC.
    pub received_ns: i64,
}

// SAFETY: the type is `repr(C)` and contains only numbers, for which every bit pattern is valid.
unsafe impl Sized32 for openuvr_input {}

impl Default for openuvr_input {
    fn default() -> openuvr_input {
        openuvr_input {
            size: crate::size_of32::<openuvr_input>(),
            kind: 0,
            code: 0,
            value: 0,
            x: 0,
            y: 0,
            text: 0,
            device: 0,
            unused: 0,
            session: 0,
            received_ns: 0,
        }
    }
}

impl From<ApplicationInput> for openuvr_input {
    fn from(input: ApplicationInput) -> openuvr_input {
        openuvr_input {
            session: input.taken.from.number(),
            received_ns: input.taken.received.0,
            ..of_event(input.event)
        }
    }
}

fn of_event(event: InputEvent) -> openuvr_input {
    let kind = |kind: OPENUVR_INPUT_KIND| openuvr_input {
        kind: kind as u32,
        ..openuvr_input::default()
    };
    let (x, y, motion) = match event {
        InputEvent::Key {
            code,
            text,
            pressed,
        } => {
            return openuvr_input {
                code: code.0.into(),
                value: pressed.into(),
                text: text.map_or(0, u32::from),
                ..kind(OPENUVR_INPUT_KEY)
            };
        }
        InputEvent::Button { button, pressed } => {
            return openuvr_input {
                code: button.0.into(),
                value: pressed.into(),
                ..kind(OPENUVR_INPUT_BUTTON)
            };
        }
        InputEvent::PointerAbsolute { x, y } => (x.into(), y.into(), OPENUVR_INPUT_POINTER),
        InputEvent::PointerRelative { dx, dy } => (dx.into(), dy.into(), OPENUVR_INPUT_MOTION),
        InputEvent::Wheel { dx, dy } => (dx.into(), dy.into(), OPENUVR_INPUT_WHEEL),
        InputEvent::ReleaseAll => (0, 0, OPENUVR_INPUT_RELEASE_ALL),
        InputEvent::Device {
            device,
            kind: evdev,
            code,
            value,
        } => {
            return openuvr_input {
                code: code.into(),
                value,
                x: evdev.into(),
                device: device.0.into(),
                ..kind(OPENUVR_INPUT_DEVICE)
            };
        }
        // A host of this library does not offer gamepads.
        InputEvent::PadConnected { .. }
        | InputEvent::PadDisconnected { .. }
        | InputEvent::Pad { .. } => return openuvr_input::default(),
    };
    openuvr_input {
        x,
        y,
        ..kind(motion)
    }
}

/// Parses an input event of the application.
pub(crate) fn event_of(input: &openuvr_input) -> Outcome<InputEvent> {
    let is = |kind: OPENUVR_INPUT_KIND| input.kind == kind as u32;
    Ok(if is(OPENUVR_INPUT_KEY) {
        let pressed = pressed(input)?;
        InputEvent::Key {
            code: KeyCode(code(input)?),
            text: character(input)?.filter(|_| pressed),
            pressed,
        }
    } else if is(OPENUVR_INPUT_BUTTON) {
        InputEvent::Button {
            button: Button(code(input)?),
            pressed: pressed(input)?,
        }
    } else if is(OPENUVR_INPUT_POINTER) {
        InputEvent::PointerAbsolute {
            x: within(input.x, "a position must be 0 to 65535, not")?,
            y: within(input.y, "a position must be 0 to 65535, not")?,
        }
    } else if is(OPENUVR_INPUT_MOTION) {
        InputEvent::PointerRelative {
            dx: within(input.x, "a motion must be -32768 to 32767, not")?,
            dy: within(input.y, "a motion must be -32768 to 32767, not")?,
        }
    } else if is(OPENUVR_INPUT_WHEEL) {
        InputEvent::Wheel {
            dx: within(input.x, "a motion must be -32768 to 32767, not")?,
            dy: within(input.y, "a motion must be -32768 to 32767, not")?,
        }
    } else if is(OPENUVR_INPUT_RELEASE_ALL) {
        InputEvent::ReleaseAll
    } else if is(OPENUVR_INPUT_DEVICE) {
        InputEvent::Device {
            device: DeviceId(within(input.device, "a device must be 0 to 255, not")?),
            kind: within(input.x, "invalid event type")?,
            code: within(input.code, "invalid event code")?,
            value: input.value,
        }
    } else {
        return Err(invalid("unknown OPENUVR_INPUT_KIND", input.kind));
    })
}

/// The number of a key or a button.
fn code(input: &openuvr_input) -> Outcome<u16> {
    let none = || invalid("unknown key or button", input.code);
    let code = u16::try_from(input.code).ok();
    code.filter(|code| (1..=MAX_KEY).contains(code))
        .ok_or_else(none)
}

fn pressed(input: &openuvr_input) -> Outcome<bool> {
    match input.value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(invalid("value must be 0 or 1, not", other)),
    }
}

/// The typed character.
fn character(input: &openuvr_input) -> Outcome<Option<char>> {
    match (input.text, char::from_u32(input.text)) {
        (0, _) => Ok(None),
        (_, Some(character)) => Ok(Some(character)),
        (text, None) => Err(invalid("not a Unicode scalar value:", text)),
    }
}

/// Converts a number of the caller to its type in the wire protocol.
fn within<T: Into<i64> + Copy, R: TryFrom<T>>(value: T, what: &str) -> Outcome<R> {
    R::try_from(value).map_err(|_| invalid(what, value))
}

fn invalid(what: &str, value: impl Into<i64>) -> Failure {
    Failure::argument(format!("input: {what} {}", value.into()))
}

/// The application's callback for input.
#[derive(Clone, Copy)]
pub(crate) struct OnInput {
    pub(crate) call: unsafe extern "C" fn(*mut c_void, *const openuvr_input),
    pub(crate) user: *mut c_void,
}

// SAFETY: the header documents that a thread of the library calls the callback, so the application expects calls on
// other threads.
unsafe impl Send for OnInput {}

impl OnInput {
    pub(crate) fn notify(&self, input: &openuvr_input) {
        let _inside = CallbackScope::enter();
        // SAFETY: the header documents this call, and `input` stays valid until it returns.
        unsafe { (self.call)(self.user, input) }
    }
}

/// `KEY_MAX` of linux/input-event-codes.h.
const MAX_KEY: u16 = 0x2ff;

/// Parses a device number.
pub(crate) fn device_id(id: c_int) -> Outcome<DeviceId> {
    let id = u8::try_from(id);
    id.map(DeviceId)
        .map_err(|_| Failure::argument("a device number must be 0 to 255"))
}

/// A duplicate of the caller's descriptor.
pub(crate) fn duplicated(fd: c_int) -> Outcome<OwnedFd> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::argument(format!("{fd} is not an open descriptor: {why}"))
    };
    if fd < 0 {
        return Err(wrong(&"did open() fail?"));
    }
    // SAFETY: the descriptor is not negative, and is not used after this call. If it is not open, the system call
    // fails.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_dupfd_cloexec(borrowed, 0).map_err(|e| wrong(&e))
}

/// Devices set before the start, each with a duplicated descriptor.
#[derive(Default)]
pub(crate) struct Devices(Vec<(DeviceId, OwnedFd)>);

impl Devices {
    /// Replaces the descriptor of a device; `None` removes it.
    pub(crate) fn set(&mut self, id: DeviceId, fd: Option<OwnedFd>) {
        self.0.retain(|(known, _)| *known != id);
        self.0.extend(fd.map(|fd| (id, fd)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns additional duplicates, so that a later failure does not lose the devices.
    pub(crate) fn copies(&self) -> Outcome<Vec<(DeviceId, OwnedFd)>> {
        let copy = |(id, fd): &(DeviceId, OwnedFd)| Ok((*id, duplicated(fd.as_raw_fd())?));
        self.0.iter().map(copy).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A head pose: right-handed, y up, -z forward, in the MUD's space, as in OpenXR. Set `size` to
/// `sizeof(struct openuvr_pose)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_pose {
    /// Bytes of this structure.
    pub size: u32,
    /// 1: `linear` is valid.
    pub has_linear: u32,
    /// 1: `angular` is valid.
    pub has_angular: u32,
    /// At the host: a sequence number, from 1 in each session.
    pub id: u32,
    /// Position in metres.
    pub position: [f32; 3],
    /// Orientation as a quaternion x, y, z, w of length 1, within 1 %.
    pub orientation: [f32; 4],
    /// Velocity in m/s.
    pub linear: [f32; 3],
    /// Angular velocity in rad/s about each axis.
    pub angular: [f32; 3],
    /// At the host: the session.
    pub session: u32,
    /// The time at which the pose was sampled, or for which it was predicted, in nanoseconds of the local CLOCK_MONOTONIC.
    /// At the MUD, 0 means now; at the host, -1 means not known yet.
    pub sampled_ns: i64,
    /// At the host: arrival time.
    pub received_ns: i64,
}

// SAFETY: the type is `repr(C)` and contains only numbers, for which every bit pattern is valid.
unsafe impl Sized32 for openuvr_pose {}

impl Default for openuvr_pose {
    fn default() -> openuvr_pose {
        openuvr_pose {
            size: crate::size_of32::<openuvr_pose>(),
            has_linear: 0,
            has_angular: 0,
            id: 0,
            position: [0.0; 3],
            orientation: [0.0, 0.0, 0.0, 1.0],
            linear: [0.0; 3],
            angular: [0.0; 3],
            session: 0,
            sampled_ns: 0,
            received_ns: 0,
        }
    }
}

impl openuvr_pose {
    /// The pose and its sampling time.
    pub(crate) fn parse(&self) -> Outcome<(Pose, Instant)> {
        let optional = |has: u32, vector: [f32; 3]| Some(vector).filter(|_| has != 0);
        let pose = Pose::new(self.position, self.orientation).and_then(|pose| {
            let linear = optional(self.has_linear, self.linear);
            pose.moving(linear, optional(self.has_angular, self.angular))
        });
        let at = match self.sampled_ns {
            0 => openuvr_clock::now(),
            ns => Instant(ns),
        };
        let pose = pose.map_err(|e| Failure::argument(e.to_string()))?;
        Ok((pose, at))
    }
}

impl From<ReceivedPose> for openuvr_pose {
    fn from(posed: ReceivedPose) -> openuvr_pose {
        let pose = posed.pose;
        openuvr_pose {
            has_linear: pose.linear_velocity().is_some().into(),
            has_angular: pose.angular_velocity().is_some().into(),
            id: posed.id.0,
            position: pose.position(),
            orientation: pose.orientation(),
            linear: pose.linear_velocity().unwrap_or_default(),
            angular: pose.angular_velocity().unwrap_or_default(),
            session: posed.subscriber.number(),
            sampled_ns: posed.sampled_here.map_or(-1, |mapped| mapped.at.0),
            received_ns: posed.received.0,
            ..openuvr_pose::default()
        }
    }
}
