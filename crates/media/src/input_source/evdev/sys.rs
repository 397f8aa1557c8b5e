//! Requests to an event device (`linux/input.h`).
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Setter, ioctl, opcode};

/// Size of a bit set of keys: `KEY_CNT` is 0x300.
const KEYS: usize = 0x300 / 8;

const EVIOCGVERSION: u32 = opcode::read::<c_int>(b'E', 0x01);
const EVIOCGKEY: u32 = opcode::read::<[u8; KEYS]>(b'E', 0x18);
const EVIOCSCLOCKID: u32 = opcode::write::<c_int>(b'E', 0xa0);

pub(super) fn is_event_device(fd: impl AsFd) -> bool {
    // SAFETY: EVIOCGVERSION writes an int; other files refuse it.
    unsafe { ioctl(fd, Getter::<EVIOCGVERSION, c_int>::new()) }.is_ok()
}

/// Makes the kernel use `CLOCK_MONOTONIC` for the timestamps of this reader's events.
pub(super) fn stamp_by_monotonic_clock(fd: impl AsFd) -> Result<(), Errno> {
    // SAFETY: EVIOCSCLOCKID reads an int.
    unsafe {
        ioctl(
            fd,
            Setter::<EVIOCSCLOCKID, c_int>::new(libc::CLOCK_MONOTONIC),
        )
    }
}

/// The keys and buttons that are down.
pub(super) fn pressed(fd: impl AsFd) -> Result<Vec<u16>, Errno> {
    // SAFETY: EVIOCGKEY writes as many bytes as its request number encodes, which is the length of the array.
    let bits = unsafe { ioctl(fd, Getter::<EVIOCGKEY, [u8; KEYS]>::new()) }?;
    let is_down = |code: &u16| bits[usize::from(code / 8)] >> (code % 8) & 1 == 1;
    Ok((0..0x300).filter(is_down).collect())
}
