//! Programs that draw with OpenGL: the functions with which they show a picture, over GLX or EGL,
//! and those with which they make and end what is used to read it.

pub(crate) mod egl;
pub(crate) mod glx;
mod known;
mod readers;

use std::ffi::{CStr, c_char, c_void};

use crate::process::guarded;
use crate::real::NextFunction;

/// A function of this library that stands in front of another.
pub(crate) struct Hooked {
    name: &'static CStr,
    /// Ours.
    pub(crate) ours: *mut c_void,
    /// The other.
    pub(crate) real: &'static NextFunction,
}

impl Hooked {
    /// The one with this name. It is asked for at each look-up of any program, so that it compares
    /// no more than it must.
    pub(crate) fn named(name: &CStr) -> Option<&'static Hooked> {
        let bytes = name.to_bytes();
        if !matches!(bytes.first(), Some(b'g' | b'e' | b'X')) {
            return None;
        }
        let mut all = glx::HOOKED.iter().chain(&egl::HOOKED);
        all.find(|hooked| hooked.name == name)
    }
}

// SAFETY: addresses of functions, which are the same for all threads.
unsafe impl Sync for Hooked {}

/// What `glXGetProcAddress` and `eglGetProcAddress` are to answer in place of `found`.
///
/// # Safety
/// `name` is null or a string.
pub(crate) unsafe fn in_place_of(found: *mut c_void, name: *const c_char) -> *mut c_void {
    if found.is_null() || name.is_null() {
        return found;
    }
    // SAFETY: not null.
    let name = unsafe { CStr::from_ptr(name) };
    let answer = guarded(|| {
        let hooked = Hooked::named(name)?;
        if found != hooked.ours {
            hooked.real.learn(found);
        }
        Some(hooked.ours)
    });
    answer.flatten().unwrap_or(found)
}

/// Declares the functions that stand in front of others, with the others behind them: for each its
/// name, parameters, result, and what is done. In `does`, `real` is the other function; where there
/// is none, `otherwise` is returned.
macro_rules! hooks {
    ($table:ident [$count:literal]: $(
        $(#[$doc:meta])*
        $constant:ident $name:ident($($parameter:ident: $type:ty),*) -> $result:ty,
            otherwise $otherwise:expr, |$real:ident| $does:expr;
    )+) => {
        pub(crate) static $table: [$crate::gl::Hooked; $count] = [$($crate::gl::Hooked {
            name: match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => panic!("a name has no zero"),
            },
            ours: $name as unsafe extern "C" fn($($type),*) -> $result as *mut std::ffi::c_void,
            real: &$constant,
        }),+];

        $(
            static $constant: $crate::real::NextFunction = $crate::real::NextFunction::new(
                match std::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => panic!("a name has no zero"),
                },
            );

            $(#[$doc])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($parameter: $type),*) -> $result {
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                // SAFETY: that is its type.
                let real = unsafe { $constant.function::<Function>() };
                let Some($real) = real else { return $otherwise };
                $does
            }
        )+
    };
}
use hooks;
