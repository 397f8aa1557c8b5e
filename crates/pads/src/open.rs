//! `open` and its variants.
//!
//! The last argument of these functions, the new file's mode, is present only when a file is created. On the supported
//! machines, it is passed in a register, which can be read even if the caller did not set it, so this library always
//! passes it on.

use std::ffi::{c_char, c_int, c_uint};

use crate::device;
use crate::folder::{InputPath, Name, classify, classify_at};
use crate::real::{RealFunction, fail};

type Open = unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int;
type OpenAt = unsafe extern "C" fn(c_int, *const c_char, c_int, ...) -> c_int;

/// Opens a path: directly if this library serves it, otherwise with `real`.
fn opened(
    place: Option<InputPath>,
    path: *const c_char,
    flags: c_int,
    real: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    match place {
        None => real(path),
        Some(InputPath::Device(number)) if flags & libc::O_PATH == 0 => {
            device::connect(number, flags)
        }
        Some(place) => real(Name::of(place).as_ptr()),
    }
}

macro_rules! open {
    ($($name:ident $symbol:literal),*) => { $(
        /// See open(2).
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            static REAL: RealFunction = RealFunction::new($symbol);
            // SAFETY: `REAL` is the function of this name, whose type this is.
            let Some(real) = (unsafe { REAL.get::<Open>() }) else {
                return fail(libc::ENOSYS);
            };
            // SAFETY: the caller passes a string, and this code passes a string on.
            opened(unsafe { classify(path) }, path, flags, |path| unsafe { real(path, flags, mode) })
        }
    )* };
}

open!(open c"open", open64 c"open64", __open_2 c"__open_2", __open64_2 c"__open64_2");

macro_rules! openat {
    ($($name:ident $symbol:literal),*) => { $(
        /// See openat(2).
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            dir: c_int,
            path: *const c_char,
            flags: c_int,
            mode: c_uint,
        ) -> c_int {
            static REAL: RealFunction = RealFunction::new($symbol);
            // SAFETY: `REAL` is the function of this name, whose type this is.
            let Some(real) = (unsafe { REAL.get::<OpenAt>() }) else {
                return fail(libc::ENOSYS);
            };
            // SAFETY: the caller passes a string, and this code passes a string on.
            opened(unsafe { classify_at(dir, path) }, path, flags, |path| unsafe {
                real(dir, path, flags, mode)
            })
        }
    )* };
}

openat!(openat c"openat", openat64 c"openat64", __openat_2 c"__openat_2", __openat64_2 c"__openat64_2");
