//! The interposed functions, as the process would find them without this library.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function that is looked up at its first call.
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

    /// The function with the type `F`; `None` if the process has no such function.
    ///
    /// # Safety
    /// `F` must be a function pointer of the function's type.
    pub(crate) unsafe fn get<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut at = self.at.load(Ordering::Relaxed);
        if at.is_null() {
            // SAFETY: `name` is a string. The next library in search order has the interposed function.
            at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.at.store(at, Ordering::Relaxed);
        }
        // SAFETY: `at` is not null, and is a function of this type by the caller's contract.
        (!at.is_null()).then(|| unsafe { transmute_copy(&at) })
    }
}

/// The errno of this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: each thread has an errno during its lifetime.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}

pub(crate) fn fail(error: c_int) -> c_int {
    set_errno(error);
    -1
}
