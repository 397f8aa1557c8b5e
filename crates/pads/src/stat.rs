//! `stat` and its variants: a device looks like one of the kernel's.

use std::ffi::{c_char, c_int, c_uint};

use openuvr_media::pad::FIRST_EVENT;

use crate::device;
use crate::folder::{InputPath, Name, classify, classify_at};
use crate::real::{RealFunction, fail};

/// `INPUT_MAJOR` of `linux/major.h`.
const MAJOR: c_uint = 13;

/// First minor number of the kernel's event devices.
const FIRST_MINOR: c_uint = 64;

fn minor(device: u32) -> c_uint {
    FIRST_MINOR + FIRST_EVENT + device
}

/// A character device, readable and writable for its user and its group.
const MODE: libc::mode_t = libc::S_IFCHR | 0o660;

// With 64-bit addresses, `struct stat64` has the same layout.
type Stat = libc::stat;

/// Changes the result so that it describes a device.
///
/// # Safety
/// `found` must be null or filled.
unsafe fn disguise(found: *mut Stat, device: u32) {
    // SAFETY: by the caller's contract.
    if let Some(found) = unsafe { found.as_mut() } {
        found.st_mode = MODE;
        found.st_rdev = libc::makedev(MAJOR, minor(device));
        found.st_size = 0;
    }
}

/// fstatat(2) as a raw system call, bypassing interposed libraries.
///
/// # Safety
/// `path` must be a string, and `found` must have space for the result.
unsafe fn system(dir: c_int, path: *const c_char, found: *mut Stat, flags: c_int) -> c_int {
    // SAFETY: by the caller's contract; on the supported machines, `Stat` has the layout that the kernel uses.
    let answer = unsafe { libc::syscall(libc::SYS_newfstatat, dir, path, found, flags) };
    c_int::try_from(answer).unwrap_or(-1)
}

/// Queries a path: directly if this library serves it, otherwise with `real`.
///
/// # Safety
/// `found` must have space for the result.
unsafe fn query(place: Option<InputPath>, found: *mut Stat, real: impl FnOnce() -> c_int) -> c_int {
    let Some(place) = place else {
        return real();
    };
    // SAFETY: the path is a string, and `found` has space by the caller's contract.
    let answer = unsafe { system(libc::AT_FDCWD, Name::of(place).as_ptr(), found, 0) };
    if let (0, InputPath::Device(device)) = (answer, place) {
        // SAFETY: filled just now.
        unsafe { disguise(found, device) };
    }
    answer
}

macro_rules! stat {
    ($($name:ident $symbol:literal $flags:expr),*) => { $(
        /// See stat(2).
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, found: *mut Stat) -> c_int {
            static REAL: RealFunction = RealFunction::new($symbol);
            type Call = unsafe extern "C" fn(*const c_char, *mut Stat) -> c_int;
            // SAFETY: `Call` is the type of the function; the caller's arguments are passed on. Before glibc 2.33 there
            // is no function of this name, and the system call is used.
            unsafe {
                query(classify(path), found, || match REAL.get::<Call>() {
                    Some(real) => real(path, found),
                    None => system(libc::AT_FDCWD, path, found, $flags),
                })
            }
        }
    )* };
}

stat!(
    stat c"stat" 0,
    stat64 c"stat64" 0,
    lstat c"lstat" libc::AT_SYMLINK_NOFOLLOW,
    lstat64 c"lstat64" libc::AT_SYMLINK_NOFOLLOW
);

macro_rules! xstat {
    ($($name:ident $symbol:literal $flags:expr),*) => { $(
        /// `stat` for programs linked with glibc up to 2.32.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(version: c_int, path: *const c_char, found: *mut Stat) -> c_int {
            static REAL: RealFunction = RealFunction::new($symbol);
            type Call = unsafe extern "C" fn(c_int, *const c_char, *mut Stat) -> c_int;
            // SAFETY: as above.
            unsafe {
                query(classify(path), found, || match REAL.get::<Call>() {
                    Some(real) => real(version, path, found),
                    None => system(libc::AT_FDCWD, path, found, $flags),
                })
            }
        }
    )* };
}

xstat!(
    __xstat c"__xstat" 0,
    __xstat64 c"__xstat64" 0,
    __lxstat c"__lxstat" libc::AT_SYMLINK_NOFOLLOW,
    __lxstat64 c"__lxstat64" libc::AT_SYMLINK_NOFOLLOW
);

/// If the descriptor is a socket of this library, changes the result so that it describes a device.
///
/// # Safety
/// `found` must be filled if `answer` is 0.
unsafe fn disguise_socket(answer: c_int, fd: c_int, found: *mut Stat) -> c_int {
    // SAFETY: by the caller's contract.
    let is_socket = answer == 0
        && unsafe { found.as_ref() }.is_some_and(|f| f.st_mode & libc::S_IFMT == libc::S_IFSOCK);
    if is_socket
        && crate::folder::is_on()
        && let Some(device) = device::of(fd)
    {
        // SAFETY: by the caller's contract.
        unsafe { disguise(found, device) };
    }
    answer
}

macro_rules! fstat {
    ($($name:ident $symbol:literal),*) => { $(
        /// See fstat(2).
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, found: *mut Stat) -> c_int {
            static REAL: RealFunction = RealFunction::new($symbol);
            type Call = unsafe extern "C" fn(c_int, *mut Stat) -> c_int;
            // SAFETY: `Call` is the type of the function; the caller's arguments are passed on.
            unsafe {
                let answer = match REAL.get::<Call>() {
                    Some(real) => real(fd, found),
                    None => system(fd, c"".as_ptr(), found, libc::AT_EMPTY_PATH),
                };
                disguise_socket(answer, fd, found)
            }
        }
    )* };
}

fstat!(fstat c"fstat", fstat64 c"fstat64");

macro_rules! fxstat {
    ($($name:ident $symbol:literal),*) => { $(
        /// `fstat` for programs linked with glibc up to 2.32.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(version: c_int, fd: c_int, found: *mut Stat) -> c_int {
            static REAL: RealFunction = RealFunction::new($symbol);
            type Call = unsafe extern "C" fn(c_int, c_int, *mut Stat) -> c_int;
            // SAFETY: `Call` is the type of the function; the caller's arguments are passed on.
            unsafe {
                let answer = match REAL.get::<Call>() {
                    Some(real) => real(version, fd, found),
                    None => system(fd, c"".as_ptr(), found, libc::AT_EMPTY_PATH),
                };
                disguise_socket(answer, fd, found)
            }
        }
    )* };
}

fxstat!(__fxstat c"__fxstat", __fxstat64 c"__fxstat64");

macro_rules! fstatat {
    ($($name:ident $symbol:literal),*) => { $(
        /// See fstatat(2).
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            dir: c_int,
            path: *const c_char,
            found: *mut Stat,
            flags: c_int,
        ) -> c_int {
            static REAL: RealFunction = RealFunction::new($symbol);
            type Call = unsafe extern "C" fn(c_int, *const c_char, *mut Stat, c_int) -> c_int;
            // SAFETY: `Call` is the type of the function; the caller's arguments are passed on.
            unsafe {
                query(classify_at(dir, path), found, || match REAL.get::<Call>() {
                    Some(real) => real(dir, path, found, flags),
                    None => system(dir, path, found, flags),
                })
            }
        }
    )* };
}

fstatat!(fstatat c"fstatat", fstatat64 c"fstatat64");

/// See statx(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    found: *mut libc::statx,
) -> c_int {
    static REAL: RealFunction = RealFunction::new(c"statx");
    type Call =
        unsafe extern "C" fn(c_int, *const c_char, c_int, c_uint, *mut libc::statx) -> c_int;
    // SAFETY: `Call` is the type of the function; the caller's arguments are passed on with another path.
    unsafe {
        let Some(real) = REAL.get::<Call>() else {
            return fail(libc::ENOSYS);
        };
        let Some(place) = classify_at(dir, path) else {
            return real(dir, path, flags, mask, found);
        };
        let answer = real(dir, Name::of(place).as_ptr(), flags, mask, found);
        if let (0, InputPath::Device(device), Some(found)) = (answer, place, found.as_mut()) {
            found.stx_mode = u16::try_from(MODE).unwrap_or(0);
            (found.stx_rdev_major, found.stx_rdev_minor) = (MAJOR, minor(device));
            found.stx_size = 0;
        }
        answer
    }
}
