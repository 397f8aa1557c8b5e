//! Requests to and from uinput (`linux/uinput.h`).
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_ulong};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use openuvr_proto::input::pad::{PadId, PadIdentity};

use crate::pad::codes::{EV_ABS, EV_FF, EV_KEY, FF_GAIN, FF_RUMBLE};
use crate::pad::requests::{Effect, Request};
use crate::pad::xbox::{self, EFFECTS, ID};

/// The event type of the kernel's requests, and their codes.
pub(super) const EV_UINPUT: u16 = 0x0101;
const UI_FF_UPLOAD: u16 = 1;
const UI_FF_ERASE: u16 = 2;

/// `struct uinput_setup`.
#[repr(C)]
struct Setup {
    id: [u16; 4],
    name: [u8; 80],
    effects: u32,
}

/// `struct uinput_abs_setup`.
#[repr(C)]
struct AxisSetup {
    code: u16,
    value: i32,
    minimum: i32,
    maximum: i32,
    fuzz: i32,
    flat: i32,
    resolution: i32,
}

/// `struct ff_effect` of a rumble, with 64-bit pointers.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
struct FfEffect {
    kind: u16,
    id: i16,
    direction: u16,
    trigger: [u16; 2],
    length: u16,
    delay: u16,
    before_union: u16,
    strong: u16,
    weak: u16,
    rest: [u16; 14],
}

/// `struct uinput_ff_upload`.
#[repr(C)]
#[derive(Default)]
struct Upload {
    request: u32,
    answer: i32,
    effect: FfEffect,
    before: FfEffect,
}

/// `struct uinput_ff_erase`.
#[repr(C)]
#[derive(Default)]
struct Erase {
    request: u32,
    answer: i32,
    effect: u32,
}

const _: () = assert!(
    size_of::<Setup>() == 92
        && size_of::<AxisSetup>() == 28
        && size_of::<FfEffect>() == 48
        && size_of::<Upload>() == 104
        && size_of::<Erase>() == 12
);

/// The number of a request, by `_IOC` of `asm-generic/ioctl.h`.
const fn request(direction: c_ulong, number: c_ulong, bytes: usize) -> c_ulong {
    direction << 30 | (bytes as c_ulong) << 16 | (b'U' as c_ulong) << 8 | number
}

const WRITE: c_ulong = 1;
const BOTH: c_ulong = 3;

fn checked(answer: c_int) -> io::Result<()> {
    match answer {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A request with a numeric argument.
fn set(file: &File, number: c_ulong, value: u16) -> io::Result<()> {
    let request = request(WRITE, number, size_of::<c_int>());
    // SAFETY: the callers pass requests whose argument is a number.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), request, c_int::from(value)) })
}

/// A request of the given direction and number, with a structure as argument.
fn ioctl_struct<T>(
    file: &File,
    direction: c_ulong,
    number: c_ulong,
    value: &mut T,
) -> io::Result<()> {
    let request = request(direction, number, size_of::<T>());
    // SAFETY: the request reads, and with direction `BOTH` also writes, a structure of this length. The structure
    // outlives the call, and all bit patterns are valid for it.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), request, std::ptr::from_mut(value)) })
}

/// Creates a device on an open `/dev/uinput`.
pub(super) fn create(file: &File, pad: PadId, identity: &PadIdentity) -> io::Result<()> {
    for kind in [EV_KEY, EV_ABS, EV_FF] {
        // UI_SET_EVBIT
        set(file, 100, kind)?;
    }
    for key in xbox::keys() {
        // UI_SET_KEYBIT
        set(file, 101, key)?;
    }
    for force in [FF_RUMBLE, FF_GAIN] {
        // UI_SET_FFBIT
        set(file, 107, force)?;
    }
    for (code, axis) in xbox::axes() {
        // UI_SET_ABSBIT
        set(file, 103, code)?;
        let mut setup = AxisSetup {
            code,
            value: axis.value,
            minimum: axis.minimum,
            maximum: axis.maximum,
            fuzz: axis.fuzz,
            flat: axis.flat,
            resolution: 0,
        };
        // UI_ABS_SETUP
        ioctl_struct(file, WRITE, 4, &mut setup)?;
    }
    let place = CString::new(xbox::location(pad))?;
    // UI_SET_PHYS
    let named = request(WRITE, 108, size_of::<*const c_char>());
    // SAFETY: the request reads a string, which outlives the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), named, place.as_ptr()) })?;
    let mut setup = Setup {
        id: ID,
        name: [0; 80],
        effects: EFFECTS.into(),
    };
    let name = match identity.name.as_str() {
        "" => "OpenUVR pad",
        name => name,
    };
    for (to, byte) in setup.name.iter_mut().take(79).zip(name.bytes()) {
        *to = byte;
    }
    // UI_DEV_SETUP
    ioctl_struct(file, WRITE, 3, &mut setup)?;
    // SAFETY: UI_DEV_CREATE has no argument.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), request(0, 1, 0)) })
}

/// Removes the device, even if another thread still has the file open.
pub(super) fn destroy(file: &File) {
    // SAFETY: UI_DEV_DESTROY has no argument. It fails only without a device.
    let _ = unsafe { libc::ioctl(file.as_raw_fd(), request(0, 2, 0)) };
}

/// Answers a request of the kernel on behalf of a waiting program. Returns the request's meaning.
pub(super) fn answer(file: &File, code: u16, number: i32) -> Option<Request> {
    let number = number.cast_unsigned();
    match code {
        UI_FF_UPLOAD => {
            let mut upload = Upload {
                request: number,
                ..Upload::default()
            };
            // UI_BEGIN_FF_UPLOAD and UI_END_FF_UPLOAD
            ioctl_struct(file, BOTH, 200, &mut upload).ok()?;
            let rumbles = upload.effect.kind == FF_RUMBLE;
            upload.answer = if rumbles { 0 } else { -libc::EINVAL };
            ioctl_struct(file, WRITE, 201, &mut upload).ok()?;
            let FfEffect {
                id,
                length,
                delay,
                strong,
                weak,
                ..
            } = upload.effect;
            let effect = Effect {
                strong,
                weak,
                length,
                delay,
            };
            let id = u16::try_from(id).ok().filter(|_| rumbles)?;
            Some(Request::Upload(id, effect))
        }
        UI_FF_ERASE => {
            let mut erase = Erase {
                request: number,
                ..Erase::default()
            };
            // UI_BEGIN_FF_ERASE and UI_END_FF_ERASE
            ioctl_struct(file, BOTH, 202, &mut erase).ok()?;
            let id = u16::try_from(erase.effect).ok();
            ioctl_struct(file, WRITE, 203, &mut erase).ok()?;
            Some(Request::Erase(id?))
        }
        _ => None,
    }
}
