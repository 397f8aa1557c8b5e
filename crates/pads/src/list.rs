//! Lists and watches `/dev/input`, and checks access to its devices.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use crate::folder::{InputPath, Name, classify, classify_at};
use crate::real::{RealFunction, fail};

/// Calls `real` with the path, or with its real location if this library serves the path.
///
/// # Safety
/// The path must be null or a string.
unsafe fn redirected<T>(path: *const c_char, real: impl FnOnce(*const c_char) -> T) -> T {
    // SAFETY: by the caller's contract.
    match unsafe { classify(path) } {
        None => real(path),
        Some(place) => real(Name::of(place).as_ptr()),
    }
}

/// See opendir(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn opendir(path: *const c_char) -> *mut c_void {
    static REAL: RealFunction = RealFunction::new(c"opendir");
    type Call = unsafe extern "C" fn(*const c_char) -> *mut c_void;
    // SAFETY: `Call` is the type of the function; the caller passes a string, and this code passes a string on.
    unsafe {
        let Some(real) = REAL.get::<Call>() else {
            return ptr::null_mut();
        };
        redirected(path, |path| real(path))
    }
}

macro_rules! scandir {
    ($($name:ident $symbol:literal),*) => { $(
        /// See scandir(3).
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            path: *const c_char,
            names: *mut c_void,
            filter: *mut c_void,
            order: *mut c_void,
        ) -> c_int {
            static REAL: RealFunction = RealFunction::new($symbol);
            type Call =
                unsafe extern "C" fn(*const c_char, *mut c_void, *mut c_void, *mut c_void) -> c_int;
            // SAFETY: `Call` is the type of the function, except for arguments that are passed on unchanged; the caller
            // passes a string, and this code passes a string on.
            unsafe {
                let Some(real) = REAL.get::<Call>() else {
                    return fail(libc::ENOSYS);
                };
                redirected(path, |path| real(path, names, filter, order))
            }
        }
    )* };
}

scandir!(scandir c"scandir", scandir64 c"scandir64");

/// See inotify_add_watch(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn inotify_add_watch(fd: c_int, path: *const c_char, mask: c_uint) -> c_int {
    static REAL: RealFunction = RealFunction::new(c"inotify_add_watch");
    type Call = unsafe extern "C" fn(c_int, *const c_char, c_uint) -> c_int;
    // SAFETY: `Call` is the type of the function; the caller passes a string, and this code passes a string on.
    unsafe {
        let Some(real) = REAL.get::<Call>() else {
            return fail(libc::ENOSYS);
        };
        redirected(path, |path| real(fd, path, mask))
    }
}

macro_rules! access {
    ($($name:ident $symbol:literal),*) => { $(
        /// See access(2).
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, mode: c_int) -> c_int {
            static REAL: RealFunction = RealFunction::new($symbol);
            type Call = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
            // SAFETY: `Call` is the type of the function; the caller passes a string, and this code passes a string on.
            unsafe {
                let Some(real) = REAL.get::<Call>() else {
                    return fail(libc::ENOSYS);
                };
                redirected(path, |path| real(path, mode))
            }
        }
    )* };
}

access!(access c"access", eaccess c"eaccess", euidaccess c"euidaccess");

/// See faccessat(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn faccessat(
    dir: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    static REAL: RealFunction = RealFunction::new(c"faccessat");
    type Call = unsafe extern "C" fn(c_int, *const c_char, c_int, c_int) -> c_int;
    // SAFETY: `Call` is the type of the function; the caller passes a string, and this code passes a string on.
    unsafe {
        let Some(real) = REAL.get::<Call>() else {
            return fail(libc::ENOSYS);
        };
        match classify_at(dir, path) {
            None => real(dir, path, mode, flags),
            Some(place @ (InputPath::Listing | InputPath::Device(_))) => {
                real(dir, Name::of(place).as_ptr(), mode, flags)
            }
        }
    }
}
