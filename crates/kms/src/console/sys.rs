//! Requests to a virtual terminal (`linux/kd.h`, `linux/vt.h`; ioctl_console(2), ioctl_vt in the kernel's sources).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong};
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd as _};

const KDSETMODE: c_ulong = 0x4b3a;
const KDGETMODE: c_ulong = 0x4b3b;
const KDGKBMODE: c_ulong = 0x4b44;
const KDSKBMODE: c_ulong = 0x4b45;
const VT_OPENQRY: c_ulong = 0x5600;
const VT_GETMODE: c_ulong = 0x5601;
const VT_SETMODE: c_ulong = 0x5602;
const VT_GETSTATE: c_ulong = 0x5603;
const VT_RELDISP: c_ulong = 0x5605;
const VT_ACTIVATE: c_ulong = 0x5606;
const VT_DISALLOCATE: c_ulong = 0x5608;

/// `struct vt_mode`.
#[repr(C)]
#[derive(Default)]
struct VtMode {
    mode: i8,
    waitv: i8,
    relsig: i16,
    acqsig: i16,
    frsig: i16,
}

/// `struct vt_stat`.
#[repr(C)]
#[derive(Default)]
struct VtStat {
    active: u16,
    signal: u16,
    state: u16,
}

fn set(tty: impl AsFd, request: c_ulong, value: c_int) -> Result<()> {
    // SAFETY: all callers pass requests whose argument is a number. The descriptor is borrowed, so it stays open.
    let answer = unsafe {
        libc::ioctl(
            tty.as_fd().as_raw_fd(),
            request,
            c_ulong::try_from(value).unwrap_or(0),
        )
    };
    if answer < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(())
    }
}

fn query<T>(tty: impl AsFd, request: c_ulong, value: &mut T) -> Result<()> {
    // SAFETY: each request that is passed here reads or writes one value of the type that its caller passes, as
    // declared in the kernel's headers; `value` outlives the call.
    let answer =
        unsafe { libc::ioctl(tty.as_fd().as_raw_fd(), request, std::ptr::from_mut(value)) };
    if answer < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(())
    }
}

/// `KD_TEXT` is 0, `KD_GRAPHICS` 1.
pub(super) fn display_mode(tty: impl AsFd) -> Result<i32> {
    let mut mode: c_int = 0;
    query(tty, KDGETMODE, &mut mode)?;
    Ok(mode)
}

pub(super) fn set_display_mode(tty: impl AsFd, mode: i32) -> Result<()> {
    set(tty, KDSETMODE, mode)
}

pub(super) fn keyboard_mode(tty: impl AsFd) -> Result<i32> {
    let mut mode: c_int = 0;
    query(tty, KDGKBMODE, &mut mode)?;
    Ok(mode)
}

pub(super) fn set_keyboard_mode(tty: impl AsFd, mode: i32) -> Result<()> {
    set(tty, KDSKBMODE, mode)
}

/// The number of an unused terminal.
pub(super) fn free_terminal(tty: impl AsFd) -> Result<u32> {
    let mut number: c_int = 0;
    query(tty, VT_OPENQRY, &mut number)?;
    // -1 if all are used.
    u32::try_from(number).map_err(|_| Error::from(std::io::ErrorKind::ResourceBusy))
}

/// The number of the terminal in the foreground.
pub(super) fn active_terminal(tty: impl AsFd) -> Result<u32> {
    let mut state = VtStat::default();
    query(tty, VT_GETSTATE, &mut state)?;
    Ok(state.active.into())
}

/// Brings a terminal to the foreground, without waiting for it.
pub(super) fn activate(tty: impl AsFd, number: u32) -> Result<()> {
    set(tty, VT_ACTIVATE, c_int::try_from(number).unwrap_or(0))
}

/// Frees the memory of a terminal without processes.
pub(super) fn deallocate(tty: impl AsFd, number: u32) -> Result<()> {
    set(tty, VT_DISALLOCATE, c_int::try_from(number).unwrap_or(0))
}

/// Whether switches of the terminal are announced to a process.
pub(super) fn is_announced(tty: impl AsFd) -> Result<bool> {
    let mut mode = VtMode::default();
    query(tty, VT_GETMODE, &mut mode)?;
    Ok(mode.mode != 0)
}

/// Announces switches of the terminal to this process by these signals.
pub(super) fn announce(tty: impl AsFd, release: i32, acquire: i32) -> Result<()> {
    let signal = |number: i32| i16::try_from(number).unwrap_or(0);
    let mut mode = VtMode {
        // VT_PROCESS
        mode: 1,
        relsig: signal(release),
        acqsig: signal(acquire),
        ..VtMode::default()
    };
    query(tty, VT_SETMODE, &mut mode)
}

/// Lets the kernel switch the terminal without an announcement.
pub(super) fn do_not_announce(tty: impl AsFd) -> Result<()> {
    // VT_AUTO is 0.
    query(tty, VT_SETMODE, &mut VtMode::default())
}

/// Permits the announced switch to a different terminal.
pub(super) fn permit_release(tty: impl AsFd) -> Result<()> {
    set(tty, VT_RELDISP, 1)
}

/// Acknowledges the switch to this terminal.
pub(super) fn acknowledge(tty: impl AsFd) -> Result<()> {
    // VT_ACKACQ
    set(tty, VT_RELDISP, 2)
}

/// Makes this process ignore the signals for the end of its session and for an orderly stop, because it must still
/// restore the console.
pub(super) fn ignore_signals() {
    for signal in [
        libc::SIGHUP,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTTOU,
    ] {
        // SAFETY: `SIG_IGN` is a valid disposition for these signals, and runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
