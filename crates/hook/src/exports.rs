//! `dlsym` and `dlvsym` of this library. For hooked names, they return this library's functions. All other lookups are
//! forwarded to the C library.
//!
//! `dlsym` and `dlvsym` forward a lookup with a tail jump, so that the C library sees the original stack and caller:
//! the result for `RTLD_NEXT` depends on the caller. Lookups with `RTLD_NEXT` are always forwarded, because only the
//! linker knows this library's position among other interposing libraries.

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use crate::gl::Hooked;
use crate::process::guarded;
use crate::real;

/// Returned in two registers: the result, or the function to jump to with unchanged arguments.
#[repr(C)]
struct Lookup {
    result: *mut c_void,
    forward: *mut c_void,
}

impl Lookup {
    fn new(result: Option<*mut c_void>, real: &real::CLibrary) -> Lookup {
        Lookup {
            result: result.unwrap_or(ptr::null_mut()),
            forward: match result {
                Some(_) => ptr::null_mut(),
                None => real.address(),
            },
        }
    }
}

/// See dlsym(3).
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {decide}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rdx, rdx",
        "jz 2f",
        "jmp rdx",
        "2: ret",
        decide = sym decide,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "bl {decide}",
        "mov x16, x1",
        "mov x17, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "cbz x16, 2f",
        "br x16",
        "2: mov x0, x17",
        "ret",
        decide = sym decide,
    );
}

/// See dlvsym(3).
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "call {decide}",
        "mov r11, rdx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test r11, r11",
        "jz 2f",
        "jmp r11",
        "2: ret",
        decide = sym decide_versioned,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "stp x29, x30, [sp, #-48]!",
        "stp x0, x1, [sp, #16]",
        "str x2, [sp, #32]",
        "bl {decide}",
        "mov x16, x1",
        "mov x17, x0",
        "ldp x0, x1, [sp, #16]",
        "ldr x2, [sp, #32]",
        "ldp x29, x30, [sp], #48",
        "cbz x16, 2f",
        "br x16",
        "2: mov x0, x17",
        "ret",
        decide = sym decide_versioned,
    );
}

unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char) -> Lookup {
    // SAFETY: the caller of dlsym passes a zero-terminated string.
    Lookup::new(unsafe { hooked_symbol(handle, name) }, &real::DLSYM)
}

unsafe extern "C" fn decide_versioned(
    handle: *mut c_void,
    name: *const c_char,
    _version: *const c_char,
) -> Lookup {
    // SAFETY: the caller of dlvsym passes a zero-terminated string. Symbols of GL libraries have no versions.
    Lookup::new(unsafe { hooked_symbol(handle, name) }, &real::DLVSYM)
}

/// The result for a hooked name; `None` to forward to the C library.
///
/// # Safety
/// `name` must be null or a zero-terminated string.
unsafe fn hooked_symbol(handle: *mut c_void, name: *const c_char) -> Option<*mut c_void> {
    if handle == libc::RTLD_NEXT || name.is_null() {
        return None;
    }
    // SAFETY: the caller passes null or a zero-terminated string, and null was excluded above.
    let name = unsafe { CStr::from_ptr(name) };
    let result = guarded(|| {
        let hooked = Hooked::find(name)?;
        if handle == libc::RTLD_DEFAULT {
            // The linker would find the hook even if the real function does not exist. The program may be testing
            // whether the function exists.
            if !hooked.real.address().is_null() {
                return None;
            }
            // The real function does not exist. This lookup fails, and the C library sets `dlerror`.
            return Some(real::look_up(libc::RTLD_NEXT, name));
        }
        let found = real::look_up(handle, name);
        // Lookups of missing symbols are left to the C library, which sets the error message.
        (found != hooked.replacement && real::is_system_address(found))
            .then_some(hooked.replacement)
    });
    result.flatten()
}
