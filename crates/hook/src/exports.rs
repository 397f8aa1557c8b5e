//! `dlsym` and `dlvsym` of this library: they give away its own functions where somebody asks for
//! one of the few that it stands in front of; everything else is the C library's business.
//!
//! Both are a few instructions in front of a jump: the C library sees the same stack and the same
//! caller as if nobody stood between, since what it finds with `RTLD_NEXT` depends on who asks. Such a
//! look-up is always passed on: the linker knows this library, and its place among others of its kind.

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use crate::gl::Hooked;
use crate::process::guarded;
use crate::real;

/// In two registers: what to return, or where to go on with the arguments as they were.
#[repr(C)]
struct Decision {
    answer: *mut c_void,
    go_on: *mut c_void,
}

impl Decision {
    fn new(answer: Option<*mut c_void>, real: &real::CLibrary) -> Decision {
        Decision {
            answer: answer.unwrap_or(ptr::null_mut()),
            go_on: match answer {
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

unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char) -> Decision {
    // SAFETY: the caller of dlsym gives a name.
    Decision::new(unsafe { ours(handle, name) }, &real::DLSYM)
}

unsafe extern "C" fn decide_versioned(
    handle: *mut c_void,
    name: *const c_char,
    _version: *const c_char,
) -> Decision {
    // SAFETY: the caller of dlvsym gives a name. The libraries of GL have no versions.
    Decision::new(unsafe { ours(handle, name) }, &real::DLVSYM)
}

/// What the caller is to get from this library; `None` if that is the C library's business.
///
/// # Safety
/// `name` is null or a string.
unsafe fn ours(handle: *mut c_void, name: *const c_char) -> Option<*mut c_void> {
    if handle == libc::RTLD_NEXT || name.is_null() {
        return None;
    }
    // SAFETY: not null.
    let name = unsafe { CStr::from_ptr(name) };
    let answer = guarded(|| {
        let hooked = Hooked::named(name)?;
        if handle == libc::RTLD_DEFAULT {
            // The linker finds ours, also where a program asks whether it has such a function.
            if !hooked.real.address().is_null() {
                return None;
            }
            // Behind this library there is none, which the C library also says for `dlerror`.
            return Some(real::look_up(libc::RTLD_NEXT, name));
        }
        let found = real::look_up(handle, name);
        // What is not there is said by the C library, with its error message.
        (found != hooked.ours && real::is_systems(found)).then_some(hooked.ours)
    });
    answer.flatten()
}
