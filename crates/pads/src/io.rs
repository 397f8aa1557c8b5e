//! `read` and `write`. They handle only the differences between a socket and a device.
//!
//! A successful read costs one more comparison than without this library.

use std::ffi::{c_int, c_void};

use openuvr_media::pad::codes::EV_FF;
use openuvr_media::pad::requests::LENGTH;

use crate::device;
use crate::folder::is_on;
use crate::real::{RealFunction, errno, fail, set_errno};

/// Converts the result of a read. A removed device must return an error, but a closed socket returns an end of file.
fn ended(fd: c_int, wanted: usize, got: isize) -> isize {
    let may_be = match got {
        0 => wanted > 0,
        -1 => errno() == libc::ECONNRESET,
        _ => false,
    };
    if may_be && is_on() && device::of(fd).is_some() {
        set_errno(libc::ENODEV);
        return -1;
    }
    got
}

/// See read(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, to: *mut c_void, count: usize) -> isize {
    static REAL: RealFunction = RealFunction::new(c"read");
    type Call = unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize;
    // SAFETY: `Call` is the type of the function; the caller's arguments are passed on.
    match unsafe { REAL.get::<Call>() } {
        // SAFETY: by the caller's contract.
        Some(real) => ended(fd, count, unsafe { real(fd, to, count) }),
        None => fail(libc::ENOSYS) as isize,
    }
}

/// `read` for programs with checked buffers (`_FORTIFY_SOURCE`).
#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(fd: c_int, to: *mut c_void, count: usize, room: usize) -> isize {
    static REAL: RealFunction = RealFunction::new(c"__read_chk");
    type Call = unsafe extern "C" fn(c_int, *mut c_void, usize, usize) -> isize;
    // SAFETY: `Call` is the type of the function; the caller's arguments are passed on.
    match unsafe { REAL.get::<Call>() } {
        // SAFETY: by the caller's contract.
        Some(real) => ended(fd, count, unsafe { real(fd, to, count, room) }),
        None => fail(libc::ENOSYS) as isize,
    }
}

/// See write(2). A game starts and stops effects by writing events. For a removed device, the call returns an error and
/// raises no signal.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, from: *const c_void, count: usize) -> isize {
    static REAL: RealFunction = RealFunction::new(c"write");
    type Call = unsafe extern "C" fn(c_int, *const c_void, usize) -> isize;
    // SAFETY: the caller passes this many bytes.
    if is_on() && unsafe { is_force(from, count) } && device::of(fd).is_some() {
        return device::send(fd, from, count);
    }
    // SAFETY: `Call` is the type of the function; the caller's arguments are passed on.
    match unsafe { REAL.get::<Call>() } {
        // SAFETY: by the caller's contract.
        Some(real) => unsafe { real(fd, from, count) },
        None => fail(libc::ENOSYS) as isize,
    }
}

/// Whether the data starts with an event that starts or stops an effect.
///
/// # Safety
/// `from` must have this many bytes.
unsafe fn is_force(from: *const c_void, count: usize) -> bool {
    if from.is_null() || count == 0 || !count.is_multiple_of(LENGTH) {
        return false;
    }
    // SAFETY: the type is at offset 16 of at least 24 bytes.
    unsafe { from.cast::<u8>().add(16).cast::<u16>().read_unaligned() == EV_FF }
}
