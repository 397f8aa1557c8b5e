//! The addresses of the real functions behind the hooks.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::libc_symbols;

/// The system's GL and X11 libraries, by their sonames. A function with a hooked name in another library (such as a
/// browser's own EGL) is not hooked, because that library calls a library of this list in turn.
const LIBRARIES: [&CStr; 8] = [
    c"libGL.so.1",
    c"libGLX.so.0",
    c"libEGL.so.1",
    c"libX11.so.6",
    c"libxcb.so.1",
    c"libOpenGL.so.0",
    c"libGLESv2.so.2",
    c"libGLESv1_CM.so.1",
];

thread_local! {
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// While this value exists, this thread runs a hooked function.
pub(crate) struct HookScope(());

impl HookScope {
    /// `None` if the thread is already running a hooked function.
    pub(crate) fn enter() -> Option<HookScope> {
        (!IN_HOOK.replace(true)).then_some(HookScope(()))
    }
}

impl Drop for HookScope {
    fn drop(&mut self) {
        IN_HOOK.set(false);
    }
}

/// A function that is resolved on first use.
pub(crate) struct NextFunction {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
    direct: AtomicPtr<c_void>,
}

impl NextFunction {
    pub(crate) const fn new(name: &'static CStr) -> NextFunction {
        NextFunction {
            name,
            at: AtomicPtr::new(ptr::null_mut()),
            direct: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The function's address, or null if this process has none. It may be the address in another interposing library.
    /// If that library has resolved the function through the hook, calls would recurse. Within a hooked call, the
    /// result is therefore the address in the system's library.
    pub(crate) fn address(&self) -> *mut c_void {
        if IN_HOOK.get() {
            return cached(&self.direct, || find_in_libraries(self.name));
        }
        cached(&self.at, || find(self.name))
    }

    /// The address as a function of type `F`.
    ///
    /// # Safety
    /// `F` must be the function pointer type of the function.
    pub(crate) unsafe fn function<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.address();
        // SAFETY: the address is not null, and the caller guarantees that its function has type `F`.
        (!address.is_null()).then(|| unsafe { transmute_copy(&address) })
    }

    /// Stores the address at which the game found the function. This serves extension functions, which the linker does
    /// not always find.
    pub(crate) fn learn(&self, address: *mut c_void) {
        if self.address().is_null() {
            self.at.store(address, Ordering::Release);
            self.direct.store(address, Ordering::Release);
        }
    }
}

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The C library's `dlsym`.
pub(crate) static DLSYM: CLibrary = CLibrary::new(c"dlsym");
/// The C library's `dlvsym`.
pub(crate) static DLVSYM: CLibrary = CLibrary::new(c"dlvsym");

/// A function of the C library that this library also exports.
pub(crate) struct CLibrary {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl CLibrary {
    const fn new(name: &'static CStr) -> CLibrary {
        CLibrary {
            name,
            at: AtomicPtr::new(ptr::null_mut()),
        }
    }

    pub(crate) fn address(&self) -> *mut c_void {
        cached(&self.at, || libc_symbols::find(self.name))
    }
}

fn cached(at: &AtomicPtr<c_void>, find: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let known = at.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let found = find();
    at.store(found, Ordering::Release);
    found
}

/// The address that the game would get without this library, or null.
pub(crate) fn find(name: &CStr) -> *mut c_void {
    let next = look_up(libc::RTLD_NEXT, name);
    if next.is_null() {
        find_in_libraries(name)
    } else {
        next
    }
}

/// The result of the C library's `dlsym`. With `RTLD_NEXT`, the search starts after this library.
pub(crate) fn look_up(handle: *mut c_void, name: &CStr) -> *mut c_void {
    let address = DLSYM.address();
    if address.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: `address` is the C library's `dlsym`, whose type is `Dlsym`.
    let dlsym: Dlsym = unsafe { transmute_copy(&address) };
    // SAFETY: `name` is a zero-terminated string, and the handle comes from this library or from the caller.
    unsafe { dlsym(handle, name.as_ptr()) }
}

/// Searches the system's libraries that are loaded, including those loaded with `RTLD_LOCAL`. A library with a match
/// stays loaded, so that the address stays valid.
fn find_in_libraries(name: &CStr) -> *mut c_void {
    for library in LIBRARIES {
        let flags = libc::RTLD_LAZY | libc::RTLD_LOCAL | libc::RTLD_NOLOAD;
        // SAFETY: the name is a zero-terminated string. With `RTLD_NOLOAD`, no library is loaded, so no constructor
        // runs.
        let handle = unsafe { libc::dlopen(library.as_ptr(), flags) };
        if handle.is_null() {
            continue;
        }
        let found = look_up(handle, name);
        if !found.is_null() {
            return found;
        }
        // SAFETY: `dlopen` returned the handle above, and the handle is not used afterwards.
        unsafe { libc::dlclose(handle) };
    }
    ptr::null_mut()
}

/// Whether `address` is in one of the system's libraries.
pub(crate) fn is_system_address(address: *mut c_void) -> bool {
    // SAFETY: zero is valid for all fields.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `dladdr` accepts any address, and writes only to `info`.
    let known = unsafe { libc::dladdr(address, &raw mut info) } != 0;
    if !known || info.dli_fname.is_null() {
        return false;
    }
    // SAFETY: null was excluded above, and the loader's names are zero-terminated strings.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes();
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    LIBRARIES
        .iter()
        .any(|known| file.starts_with(known.to_bytes()))
}
