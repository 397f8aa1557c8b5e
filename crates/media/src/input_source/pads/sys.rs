//! Requests to a pad's event device (`linux/input.h`) through the C library. The preloaded library
//! `libopenuvr_pads.so` may intercept these calls to present devices.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_ulong};
use std::fs::File;
use std::io::{self, Error};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::pad::codes::{ABS_CNT, FF_CNT, KEY_CNT};
use crate::pad::description::Axis;

/// `struct ff_effect` of a rumble: 48 bytes with 64-bit pointers.
#[repr(C)]
struct FfEffect {
    kind: u16,
    id: i16,
    direction: u16,
    trigger: [u16; 2],
    replay: [u16; 2],
    /// The union of effect data has the alignment of a pointer.
    pad: u16,
    strong: u16,
    weak: u16,
    rest: [u64; 3],
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<FfEffect>() == 48);

/// The number of a request, by `_IOC` of `asm-generic/ioctl.h`.
const fn request(direction: c_ulong, number: c_ulong, bytes: usize) -> c_ulong {
    direction << 30 | (bytes as c_ulong) << 16 | (b'E' as c_ulong) << 8 | number
}

const READ: c_ulong = 2;
const WRITE: c_ulong = 1;

/// Makes an event device fill `bytes`. Returns the request's result, usually the number of bytes filled.
fn query(file: &File, number: c_ulong, bytes: &mut [u8]) -> io::Result<usize> {
    let request = request(READ, number, bytes.len());
    // SAFETY: the request's number encodes the maximum number of bytes written, which is the length of the slice.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), request, bytes.as_mut_ptr()) };
    usize::try_from(answer).map_err(|_| Error::last_os_error())
}

/// Opens an event device for reading, and for writing if permitted. The second value states whether it is writable.
pub(super) fn open(path: &Path) -> io::Result<(File, bool)> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let open = |mode| {
        let flags = mode | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: the argument is a string that outlives the call.
        let fd = unsafe { libc::open(path.as_ptr(), flags) };
        // SAFETY: the descriptor was opened just now and has no other owner.
        (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
    };
    if let Some(file) = open(libc::O_RDWR) {
        return Ok((file, true));
    }
    let file = open(libc::O_RDONLY).ok_or_else(Error::last_os_error)?;
    Ok((file, false))
}

/// The name; empty if there is none.
pub(super) fn name(file: &File) -> String {
    // EVIOCGNAME
    text(file, 0x06)
}

/// The physical location as named by the driver.
pub(super) fn location(file: &File) -> String {
    // EVIOCGPHYS
    text(file, 0x07)
}

fn text(file: &File, number: c_ulong) -> String {
    let mut text = [0; 256];
    let length = query(file, number, &mut text).unwrap_or(0).min(text.len());
    let text = CStr::from_bytes_until_nul(&text[..length]);
    text.map_or_else(
        |_| String::new(),
        |text| text.to_string_lossy().into_owned(),
    )
}

/// Bus, vendor, product and version.
pub(super) fn id(file: &File) -> io::Result<[u16; 4]> {
    let mut id = [0; 8];
    // EVIOCGID
    query(file, 0x02, &mut id)?;
    let [a, b, c, d, e, f, g, h] = id;
    Ok([[a, b], [c, d], [e, f], [g, h]].map(u16::from_ne_bytes))
}

/// The supported keys and buttons.
pub(super) fn keys(file: &File) -> io::Result<Vec<u16>> {
    let mut bits = [0; KEY_CNT / 8];
    // EVIOCGBIT
    query(file, 0x20 + 0x01, &mut bits)?;
    Ok(numbers(&bits))
}

/// The keys and buttons that are down.
pub(super) fn keys_down(file: &File) -> io::Result<Vec<u16>> {
    let mut bits = [0; KEY_CNT / 8];
    // EVIOCGKEY
    query(file, 0x18, &mut bits)?;
    Ok(numbers(&bits))
}

/// The axes with their current values.
pub(super) fn axes(file: &File) -> io::Result<Vec<(u16, Axis)>> {
    let mut bits = [0; ABS_CNT / 8];
    // A device without axes lacks these bits.
    let _ = query(file, 0x20 + 0x03, &mut bits);
    let axis = |code: u16| {
        let mut info = [0; 24];
        // EVIOCGABS
        query(file, 0x40 + c_ulong::from(code), &mut info)?;
        let [value, minimum, maximum, fuzz, flat] = [0, 4, 8, 12, 16]
            .map(|at| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]));
        let axis = Axis {
            value,
            minimum,
            maximum,
            fuzz,
            flat,
        };
        Ok((code, axis))
    };
    numbers(&bits).into_iter().map(axis).collect()
}

/// The supported effect types.
pub(super) fn forces(file: &File) -> Vec<u16> {
    let mut bits = [0; FF_CNT / 8];
    // A device without effects lacks these bits.
    let _ = query(file, 0x20 + 0x15, &mut bits);
    numbers(&bits)
}

/// Selects `CLOCK_MONOTONIC` for event timestamps. Returns whether that succeeded.
pub(super) fn stamp_by_monotonic_clock(file: &File) -> bool {
    let clock: c_int = libc::CLOCK_MONOTONIC;
    // EVIOCSCLOCKID
    let request = request(WRITE, 0xa0, size_of::<c_int>());
    // SAFETY: the request reads an int, which outlives the call.
    unsafe { libc::ioctl(file.as_raw_fd(), request, &raw const clock) == 0 }
}

/// Uploads a rumble without a time limit. If `id` is given, the rumble replaces that effect. Returns the effect's
/// number.
pub(super) fn upload(file: &File, id: Option<i16>, strong: u16, weak: u16) -> io::Result<i16> {
    let mut effect = FfEffect {
        kind: crate::pad::codes::FF_RUMBLE,
        id: id.unwrap_or(-1),
        direction: 0,
        trigger: [0; 2],
        replay: [0; 2],
        pad: 0,
        strong,
        weak,
        rest: [0; 3],
    };
    // EVIOCSFF
    let request = request(WRITE, 0x80, size_of::<FfEffect>());
    // SAFETY: the request reads an effect of this length and writes its number; the effect outlives the call.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut effect) };
    match answer {
        0.. => Ok(effect.id),
        _ => Err(Error::last_os_error()),
    }
}

/// Watches a folder for added and removed files; `None` if the kernel does not support it.
pub(super) fn watch(folder: &Path) -> Option<OwnedFd> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: the only argument is a set of flags.
    let fd = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the descriptor was opened just now and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Attribute changes are watched because a device exists before its permissions are set.
    let what = libc::IN_CREATE | libc::IN_ATTRIB | libc::IN_DELETE | libc::IN_MOVED_TO;
    // SAFETY: the argument is a string that outlives the call.
    let watch = unsafe { libc::inotify_add_watch(fd.as_raw_fd(), path.as_ptr(), what) };
    (watch >= 0).then_some(fd)
}

fn numbers(bits: &[u8]) -> Vec<u16> {
    let all = (0..).take(bits.len() * 8);
    all.filter(|n: &u16| bits[usize::from(n / 8)] >> (n % 8) & 1 == 1)
        .collect()
}
