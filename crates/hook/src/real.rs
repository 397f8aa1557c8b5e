//! The functions that the hook stands in front of, where they really are.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::libc_symbols;

/// The libraries that a system's GL consists of, and X11's, by the names that programs are linked with. What
/// other libraries export under the same names (a browser's own EGL) is left alone: it calls these in
/// the end.
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
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, this thread is in a function that the game has called.
pub(crate) struct HookScope(());

impl HookScope {
    /// `None` if it is already.
    pub(crate) fn enter() -> Option<HookScope> {
        (!INSIDE.replace(true)).then_some(HookScope(()))
    }
}

impl Drop for HookScope {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// A function that is found when it is first needed.
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

    /// Its address, or null if this process has none. Others may stand in front of it as we do, and
    /// have their turn; but who of these finds it through us in turn, goes round and round: within a
    /// call it is the library's own.
    pub(crate) fn address(&self) -> *mut c_void {
        if INSIDE.get() {
            return remember(&self.direct, || in_libraries(self.name));
        }
        remember(&self.at, || find(self.name))
    }

    /// The same as a function of type `F`.
    ///
    /// # Safety
    /// `F` is a function pointer of the type that it has.
    pub(crate) unsafe fn function<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.address();
        // SAFETY: it is not null, and of this type, as the caller says.
        (!address.is_null()).then(|| unsafe { transmute_copy(&address) })
    }

    /// It was found by the game at `address`, where the linker may not find it: an extension.
    pub(crate) fn learn(&self, address: *mut c_void) {
        if self.address().is_null() {
            self.at.store(address, Ordering::Release);
            self.direct.store(address, Ordering::Release);
        }
    }
}

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The C library's.
pub(crate) static DLSYM: CLibrary = CLibrary::new(c"dlsym");
/// The C library's.
pub(crate) static DLVSYM: CLibrary = CLibrary::new(c"dlvsym");

/// A function of the C library that this library exports as well.
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
        remember(&self.at, || libc_symbols::find(self.name))
    }
}

fn remember(at: &AtomicPtr<c_void>, find: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let known = at.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let found = find();
    at.store(found, Ordering::Release);
    found
}

/// A function as the game would find it if this library were not there, or null.
pub(crate) fn find(name: &CStr) -> *mut c_void {
    let next = look_up(libc::RTLD_NEXT, name);
    if next.is_null() {
        in_libraries(name)
    } else {
        next
    }
}

/// What the C library's `dlsym` says. With `RTLD_NEXT`: behind this library.
pub(crate) fn look_up(handle: *mut c_void, name: &CStr) -> *mut c_void {
    let address = DLSYM.address();
    if address.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: it is the C library's `dlsym`.
    let dlsym: Dlsym = unsafe { transmute_copy(&address) };
    // SAFETY: a name, and a handle that is ours or was given to the caller.
    unsafe { dlsym(handle, name.as_ptr()) }
}

/// Looks into the system's libraries, if they are loaded, also where only a plug-in sees them. They
/// stay loaded from then on: what was found in them stays valid.
fn in_libraries(name: &CStr) -> *mut c_void {
    for library in LIBRARIES {
        let flags = libc::RTLD_LAZY | libc::RTLD_LOCAL | libc::RTLD_NOLOAD;
        // SAFETY: a name; nothing is loaded, so that no code of others runs.
        let handle = unsafe { libc::dlopen(library.as_ptr(), flags) };
        if handle.is_null() {
            continue;
        }
        let found = look_up(handle, name);
        if !found.is_null() {
            return found;
        }
        // SAFETY: opened above.
        unsafe { libc::dlclose(handle) };
    }
    ptr::null_mut()
}

/// Whether `address` lies in one of the system's libraries.
pub(crate) fn is_systems(address: *mut c_void) -> bool {
    // SAFETY: plain data.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for.
    let known = unsafe { libc::dladdr(address, &raw mut info) } != 0;
    if !known || info.dli_fname.is_null() {
        return false;
    }
    // SAFETY: not null, and a string of the loader's.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes();
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    LIBRARIES
        .iter()
        .any(|known| file.starts_with(known.to_bytes()))
}
