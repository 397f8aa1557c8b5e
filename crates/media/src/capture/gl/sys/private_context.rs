//! A context of ours that shares the application's textures and buffers: whoever draws with them there leaves the
//! application's state alone.

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
const FOR_EVER: u64 = u64::MAX;
/// How long one look at what the application has drawn lasts, in ns …
const LOOK: u64 = 1_000_000_000;
/// … and how many of them there are, before the picture is drawn from what is there (guess: a device that needs
/// longer is lost).
const LOOKS: u32 = 5;

/// Our context.
pub struct PrivateContext {
    gl: Arc<Gl>,
    shared: Option<Shared>,
    native: Native,
    /// Waits on the device; `None` with a software renderer, which waits nowhere but here.
    wait: Option<WaitSync>,
}

// SAFETY: a context may be used from any thread that has it, which is one at a time: `enter` borrows mutably, and
// the application's is only looked at on the thread where it is current.
unsafe impl Send for PrivateContext {}

/// Our context is current as long as this lives; then what was before.
pub struct ContextGuard<'a> {
    of: &'a mut PrivateContext,
    before: Current,
}

impl PrivateContext {
    /// A context that shares with `native`, which may be current on this thread or on none.
    ///
    /// # Errors
    /// [`CaptureError`]: there can be none.
    ///
    /// # Safety
    /// `loader` finds the driver's functions, and `native` lives. Before that is destroyed, or its display closed,
    /// this is dropped.
    pub unsafe fn new(
        loader: Loader<'_>,
        sharing: Sharing,
        native: Native,
    ) -> Result<PrivateContext, CaptureError> {
        let none = |why: &str| CaptureError(format!("no context can share with this one: {why}"));
        // SAFETY: by the caller's word.
        unsafe {
            let maker = Maker::new(loader, sharing);
            let maker = maker.ok_or_else(|| none("a display that only one thread may use"))?;
            let before = maker.current();
            let theirs = before.context == native.context;
            if !theirs && !maker.make_current(&Current::of(native)) {
                return Err(none("it can't be made current"));
            }
            let made = Gl::load(loader).and_then(|gl| {
                let software = is_software(&gl);
                let wait = (!software).then(|| WaitSync::load(loader)).flatten();
                let shared = maker.clone().share(&gl);
                let shared = shared.ok_or_else(|| none("its driver makes none"))?;
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

    /// Makes it current on this thread, where all is visible that the application has drawn before. `None` if that
    /// can't be done.
    pub fn enter(&mut self) -> Option<ContextGuard<'_>> {
        let shared = self.shared.as_ref()?;
        let before = shared.current();
        // Of a context that is current nowhere everything was handed to the device when it was let go of.
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

    /// What the application's context, which is current, was told so far.
    fn fence(&self) -> Option<Fence> {
        let buffers = self.gl.buffers.as_ref()?;
        // SAFETY: the context is current and has fences.
        let fence = unsafe {
            let fence = (buffers.fence)(SYNC_GPU_COMMANDS_COMPLETE, 0);
            (self.gl.base.flush)();
            fence
        };
        (!fence.is_null()).then_some(fence)
    }

    fn wait_for(&self, fence: Fence) {
        let Some(buffers) = &self.gl.buffers else {
            return;
        };
        // SAFETY: our context is current, and the fence is of its share group.
        unsafe {
            match &self.wait {
                Some(wait) => (wait.wait)(fence, 0, FOR_EVER),
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
        if let Some(shared) = &self.of.shared {
            // SAFETY: our context is current; what it was told is the device's before another is.
            unsafe { (self.of.gl.base.flush)() };
            shared.restore(&self.before);
        }
    }
}

/// Whether the context draws with the processor: Mesa's renderers say so.
fn is_software(gl: &Gl) -> bool {
    const RENDERER: c_uint = 0x1F01;
    // SAFETY: the context is current and knows this name.
    let renderer = unsafe { super::capabilities::text((gl.base.string)(RENDERER)) };
    let known = ["llvmpipe", "softpipe", "swrast", "SWR"];
    renderer.is_some_and(|renderer| known.iter().any(|name| renderer.contains(name)))
}
