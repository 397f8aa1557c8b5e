//! Requests to an event device (`linux/input.h`).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong};
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd as _;

const READ: c_ulong = 2;
const WRITE: c_ulong = 1;

/// The number of a request, by `_IOC` of `asm-generic/ioctl.h`.
const fn request(direction: c_ulong, number: c_ulong, bytes: usize) -> c_ulong {
    direction << 30 | (bytes as c_ulong) << 16 | (b'E' as c_ulong) << 8 | number
}

/// Makes an event device fill `bytes`.
fn query(file: &File, number: c_ulong, bytes: &mut [u8]) -> Result<()> {
    let request = request(READ, number, bytes.len());
    // SAFETY: the request's number encodes the maximum number of bytes written, which is the length of the slice.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), request, bytes.as_mut_ptr()) };
    if answer < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The codes of this kind (`EV_KEY`, …) that the device can send. `BYTES` provides a bit for each.
pub(super) fn codes<const BYTES: usize>(file: &File, kind: u16) -> Vec<u16> {
    let mut bits = [0; BYTES];
    // EVIOCGBIT. A device without this kind has no bits.
    let _ = query(file, 0x20 + c_ulong::from(kind), &mut bits);
    numbers(&bits)
}

/// Whether `file` is an event device.
pub(super) fn is_event_device(file: &File) -> bool {
    // EVIOCGVERSION
    query(file, 0x01, &mut [0; 4]).is_ok()
}

/// The properties (`INPUT_PROP_*`).
pub(super) fn properties(file: &File) -> Vec<u16> {
    let mut bits = [0; 4];
    // EVIOCGPROP
    let _ = query(file, 0x09, &mut bits);
    numbers(&bits)
}

/// The keys and buttons that are down.
pub(super) fn keys_down(file: &File) -> Vec<u16> {
    let mut bits = [0; 0x300 / 8];
    // EVIOCGKEY
    let _ = query(file, 0x18, &mut bits);
    numbers(&bits)
}

/// The minimum and the maximum value of an axis.
pub(super) fn range(file: &File, axis: u16) -> Option<(i32, i32)> {
    let mut info = [0; 24];
    // EVIOCGABS: `struct input_absinfo`, with the value first.
    query(file, 0x40 + c_ulong::from(axis), &mut info).ok()?;
    let word = |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    Some((word(4), word(8)))
}

/// Selects `CLOCK_MONOTONIC` for event timestamps. Returns whether that succeeded.
pub(super) fn stamp_by_monotonic_clock(file: &File) -> bool {
    let clock: c_int = libc::CLOCK_MONOTONIC;
    // EVIOCSCLOCKID
    let request = request(WRITE, 0xa0, size_of::<c_int>());
    // SAFETY: the request reads an int, and `clock` is an int that outlives the call.
    unsafe { libc::ioctl(file.as_raw_fd(), request, &raw const clock) == 0 }
}

fn numbers(bits: &[u8]) -> Vec<u16> {
    let all = (0..).take(bits.len() * 8);
    all.filter(|n: &u16| bits[usize::from(n / 8)] >> (n % 8) & 1 == 1)
        .collect()
}
