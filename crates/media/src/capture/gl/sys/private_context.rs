//! A private context that shares the application's textures and buffers. Drawing in it does not
//! change the application's state.

use std::ffi::c_uint;
use std::sync::Arc;

use super::super::{Loader, Sharing};
use super::capabilities::Gl;
use super::current::{Current, Native};
use super::functions::{Sync as Fence, WaitSync};
use super::sharing::{Maker, Shared};
use super::{
    ALREADY_SIGNALED, CONDITION_SATISFIED, SYNC_FLUSH_COMMANDS, SYNC_GPU_COMMANDS_COMPLETE,
    delete_fence,
};
use crate::capture::CaptureError;

/// `GL_TIMEOUT_IGNORED`.
const NO_TIMEOUT: u64 = u64::MAX;
/// Timeout of one wait for the application's drawing, in ns.
const LOOK: u64 = 1_000_000_000;
/// Maximum number of waits of `LOOK`. After them, drawing in the private context continues even if the application's
/// drawing is not finished (guess: a device that needs longer is lost).
const LOOKS: u32 = 5;

/// The private context.
pub struct PrivateContext {
    gl: Arc<Gl>,
    shared: Option<Shared>,
    native: Native,
    /// GPU-side waits. `None` if the renderer is a software renderer or has no such waits; the CPU then waits instead.
    wait: Option<WaitSync>,
}

// SAFETY: any thread may make a context current and use it, but only one thread at a time. `enter` borrows `self`
// mutably, so only one thread holds the private context. The application's context is used only on a thread where it is
// current.
unsafe impl Send for PrivateContext {}

/// Keeps the private context current. When dropped, makes the previous context current again. On a GPU, the
/// application's later drawing is executed after the drawing in the private context.
pub struct ContextGuard<'a> {
    of: &'a mut PrivateContext,
    before: Current,
}

impl PrivateContext {
    /// Creates a context that shares the objects of `native`. `native` may be current on this thread or on none.
    ///
    /// # Errors
    /// [`CaptureError`] if no such context can be created.
    ///
    /// # Safety
    /// `loader` must find the driver's functions, and `native` must be valid. This value must be
    /// dropped before `native` is destroyed or its display closed.
    pub unsafe fn new(
        loader: Loader<'_>,
        sharing: Sharing,
        native: Native,
    ) -> Result<PrivateContext, CaptureError> {
        let none = |why: &str| {
            CaptureError(format!(
                "can't create a context that shares objects with the application's context: {why}"
            ))
        };
        // SAFETY: the caller upholds this function's contract.
        unsafe {
            let maker = Maker::new(loader, sharing);
            let maker = maker.ok_or_else(|| {
                none("another thread can't use the application's display connection")
            })?;
            let before = maker.current();
            let theirs = before.context == native.context;
            if !theirs && !maker.make_current(&Current::of(native)) {
                return Err(none("the application's context can't be made current"));
            }
            let made = Gl::load(loader).and_then(|gl| {
                let software = is_software(&gl);
                let wait = (!software).then(|| WaitSync::load(loader)).flatten();
                let shared = maker.clone().share(&gl);
                let shared = shared.ok_or_else(|| none("the driver refused"))?;
                Ok(PrivateContext {
                    gl: Arc::new(gl),
                    shared: Some(shared),
                    native,
                    wait,
                })
            });
            if !theirs {
                maker.make_current(&before.or_none(native));
            }
            made
        }
    }

    /// Makes the private context current on this thread. All earlier drawing of the application is visible in it.
    /// Without GPU-side waits, for example with a software renderer, the call waits for that drawing, at most 5 s.
    /// `None` on failure.
    pub fn enter(&mut self) -> Option<ContextGuard<'_>> {
        let shared = self.shared.as_ref()?;
        let before = shared.current();
        // The commands of a context that is not current on any thread were flushed when it was
        // released.
        let drawn = (before.context == self.native.context)
            .then(|| self.fence())
            .flatten();
        if !shared.make_current(true) {
            shared.restore(&before);
            return None;
        }
        if let Some(fence) = drawn {
            self.wait_for(fence);
        }
        Some(ContextGuard { of: self, before })
    }

    /// Creates a fence after the commands issued so far in the current context, and flushes them.
    fn fence(&self) -> Option<Fence> {
        let buffers = self.gl.buffers.as_ref()?;
        // SAFETY: a context of the share group is current and has fences.
        let fence = unsafe {
            let fence = (buffers.fence)(SYNC_GPU_COMMANDS_COMPLETE, 0);
            (self.gl.base.flush)();
            fence
        };
        (!fence.is_null()).then_some(fence)
    }

    /// Makes later commands of the current context wait for a fence, and deletes the fence. With a software renderer, the
    /// CPU waits.
    fn wait_for(&self, fence: Fence) {
        let Some(buffers) = &self.gl.buffers else {
            return;
        };
        // SAFETY: a context of the fence's share group is current: the private one or the application's.
        unsafe {
            match &self.wait {
                Some(wait) => (wait.wait)(fence, 0, NO_TIMEOUT),
                None => {
                    for _ in 0..LOOKS {
                        let status = (buffers.wait)(fence, SYNC_FLUSH_COMMANDS, LOOK);
                        if matches!(status, ALREADY_SIGNALED | CONDITION_SATISFIED) {
                            break;
                        }
                    }
                }
            }
            delete_fence(&self.gl, fence);
        }
    }
}

impl Drop for PrivateContext {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.destroy();
        }
    }
}

impl Drop for ContextGuard<'_> {
    fn drop(&mut self) {
        let PrivateContext {
            gl,
            shared: Some(shared),
            native,
            wait,
        } = &*self.of
        else {
            return;
        };
        // Commands of two contexts have no order without a fence (OpenGL 4.6, section 5.3). With a software renderer,
        // the CPU would wait and delay the application, so the flush must suffice.
        let ordered = wait.is_some() && self.before.context == native.context;
        let read = ordered.then(|| self.of.fence()).flatten();
        // SAFETY: the private context is current. Its commands are flushed before another context is made current.
        unsafe { (gl.base.flush)() };
        shared.restore(&self.before);
        if let Some(fence) = read {
            self.of.wait_for(fence);
        }
    }
}

/// Whether the context renders on the CPU, determined by the names of Mesa's software renderers.
fn is_software(gl: &Gl) -> bool {
    const RENDERER: c_uint = 0x1F01;
    // SAFETY: the context is current, and every context supports a query of this string.
    let renderer = unsafe { super::capabilities::text((gl.base.string)(RENDERER)) };
    let known = ["llvmpipe", "softpipe", "swrast", "SWR"];
    renderer.is_some_and(|renderer| known.iter().any(|name| renderer.contains(name)))
}
