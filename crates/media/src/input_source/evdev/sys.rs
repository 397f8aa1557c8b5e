//! Requests to an event device (`linux/input.h`).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use openuvr_proto::input::event::EV_ABS;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Setter, ioctl, opcode};

use super::EV_SW;

/// Size of a bit set of keys: `KEY_CNT` is 0x300.
const KEYS: usize = 0x300 / 8;

/// Size of a bit set of axes or switches: `ABS_CNT` is 0x40, and `SW_CNT` is smaller.
const AXES: usize = 0x40 / 8;

/// `ABS_MT_SLOT`: this axis and the axes with higher codes belong to one of several fingers.
const ABS_MT_SLOT: u16 = 0x2f;

/// `_IOC_READ` of `asm-generic/ioctl.h`.
const READ: c_ulong = 2;

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

/// The values of the axes and switches, each with its kind and code. The axes of single fingers are left out, because
/// the kernel states them only for one finger.
pub(super) fn values(fd: BorrowedFd<'_>) -> Vec<(u16, u16, i32)> {
    let bits = |number| {
        let mut bits = [0; AXES];
        // If the request fails, the device has no axes or switches to query.
        query(fd, number, &mut bits).then_some(bits)
    };
    let is_set = |bits: &[u8; AXES], code: u16| bits[usize::from(code / 8)] >> (code % 8) & 1 == 1;
    let mut values = Vec::new();
    // EVIOCGBIT
    let axes = bits(0x20 + c_ulong::from(EV_ABS)).unwrap_or_default();
    for axis in (0..ABS_MT_SLOT).filter(|axis| is_set(&axes, *axis)) {
        // EVIOCGABS: `struct input_absinfo`, with the value first.
        let mut info = [0; 24];
        if query(fd, 0x40 + c_ulong::from(axis), &mut info) {
            let value = i32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
            values.push((EV_ABS, axis, value));
        }
    }
    // EVIOCGBIT, and EVIOCGSW for the switches that are on.
    if let (Some(switches), Some(on)) = (bits(0x20 + c_ulong::from(EV_SW)), bits(0x1b)) {
        for switch in (0..0x40).filter(|switch| is_set(&switches, *switch)) {
            values.push((EV_SW, switch, i32::from(is_set(&on, switch))));
        }
    }
    values
}

/// Makes an event device fill `bytes`. Returns whether it has answered.
fn query(fd: BorrowedFd<'_>, number: c_ulong, bytes: &mut [u8]) -> bool {
    // `_IOR` of `asm-generic/ioctl.h`
    let request = READ << 30 | (bytes.len() as c_ulong) << 16 | (b'E' as c_ulong) << 8 | number;
    // SAFETY: the request's number encodes the maximum number of bytes written, which is the length of the slice.
    unsafe { libc::ioctl(fd.as_raw_fd(), request, bytes.as_mut_ptr()) >= 0 }
}
