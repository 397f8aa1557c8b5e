//! The functions that this library stands in front of, as the process would find them without it.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function that is looked up when it is first called.
pub(crate) struct RealFunction {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl RealFunction {
    pub(crate) const fn new(name: &'static CStr) -> RealFunction {
        RealFunction {
            name,
            at: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The function, as one of type `F`; `None` if there is none.
    ///
    /// # Safety
    /// `F` is a function pointer of the type that it has.
    pub(crate) unsafe fn get<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut at = self.at.load(Ordering::Relaxed);
        if at.is_null() {
            // SAFETY: a name; behind this library there is what it stands in front of.
            at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.at.store(at, Ordering::Relaxed);
        }
        // SAFETY: it is not null, and of this type, as the caller says.
        (!at.is_null()).then(|| unsafe { transmute_copy(&at) })
    }
}

/// The error of the last call.
pub(crate) fn errno() -> c_int {
    // SAFETY: each thread has one, for as long as it lives.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}

/// Fails with this error.
pub(crate) fn fail(error: c_int) -> c_int {
    set_errno(error);
    -1
}
