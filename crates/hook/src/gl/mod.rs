//! Hooks for OpenGL programs: the GLX and EGL functions that present frames, and those that create and
//! destroy contexts, surfaces and displays.

pub(crate) mod egl;
pub(crate) mod glx;
mod handle_map;
mod readers;

use std::ffi::{CStr, c_char, c_void};

use crate::process::guarded;
use crate::real::NextFunction;

/// A hooked function.
pub(crate) struct Hooked {
    name: &'static CStr,
    /// This library's function.
    pub(crate) replacement: *mut c_void,
    /// The next function of this name, which the hook calls.
    pub(crate) real: &'static NextFunction,
}

impl Hooked {
    /// The hook with this name. This function must be fast, because it is called for every symbol lookup of the
    /// program.
    pub(crate) fn find(name: &CStr) -> Option<&'static Hooked> {
        let bytes = name.to_bytes();
        if !matches!(bytes.first(), Some(b'g' | b'e' | b'X')) {
            return None;
        }
        let mut all = glx::HOOKED.iter().chain(&egl::HOOKED);
        all.find(|hooked| hooked.name == name)
    }
}

// SAFETY: the pointers are addresses of functions, which any thread may call.
unsafe impl Sync for Hooked {}

/// The result of `glXGetProcAddress` and `eglGetProcAddress` that replaces `found`.
///
/// # Safety
/// `name` must be null or a zero-terminated string.
pub(crate) unsafe fn replace_address(found: *mut c_void, name: *const c_char) -> *mut c_void {
    if found.is_null() || name.is_null() {
        return found;
    }
    // SAFETY: the caller passes null or a zero-terminated string, and null was excluded above.
    let name = unsafe { CStr::from_ptr(name) };
    let replacement = guarded(|| {
        let hooked = Hooked::find(name)?;
        if found != hooked.replacement {
            hooked.real.learn(found);
        }
        Some(hooked.replacement)
    });
    replacement.flatten().unwrap_or(found)
}

/// Declares hooked functions, each with its name, parameters, result and body. In the body, `real` is the function
/// behind the hook; if there is none, the hook returns `otherwise`.
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
                Err(_) => panic!("a name contains no NUL"),
            },
            replacement: $name as unsafe extern "C" fn($($type),*) -> $result as *mut std::ffi::c_void,
            real: &$constant,
        }),+];

        $(
            static $constant: $crate::real::NextFunction = $crate::real::NextFunction::new(
                match std::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => panic!("a name contains no NUL"),
                },
            );

            $(#[$doc])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($parameter: $type),*) -> $result {
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                // SAFETY: `Function` is the type of the hook, which has the signature of the function behind it.
                let real = unsafe { $constant.function::<Function>() };
                let Some($real) = real else { return $otherwise };
                $does
            }
        )+
    };
}
use hooks;
