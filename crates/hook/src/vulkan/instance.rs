//! Instances: the next layer's functions, and the windows of surfaces.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::{Mutex, PoisonError};

use ash::vk;

use super::registry::Registry;
use crate::windows::XWindow;

pub(super) static INSTANCES: Registry<Instance> = Registry::new();

/// One `VkInstance` of the application.
pub(super) struct Instance {
    next: vk::PFN_vkGetInstanceProcAddr,
    pub(super) functions: ash::Instance,
    pub(super) surfaces: Surfaces,
    windows: Mutex<HashMap<vk::SurfaceKHR, Window>>,
}

/// The next layer's surface functions; `None` for a function that does not exist.
pub(super) struct Surfaces {
    pub(super) xcb: Option<vk::PFN_vkCreateXcbSurfaceKHR>,
    pub(super) xlib: Option<vk::PFN_vkCreateXlibSurfaceKHR>,
    pub(super) wayland: Option<vk::PFN_vkCreateWaylandSurfaceKHR>,
    pub(super) destroy: Option<vk::PFN_vkDestroySurfaceKHR>,
    pub(super) capabilities: Option<vk::PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR>,
}

/// The window of a surface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Window {
    /// A window of an X server.
    X11(XWindow),
    /// A window of a Wayland compositor, which does not disclose its position.
    Wayland,
    /// A display without windows, or an unknown kind of surface.
    Other,
}

impl Instance {
    /// Resolves all functions now, while the instance is being created. In the last layer, `next` is a function of the
    /// loader. During the creation, it returns the functions below this layer. Later, it returns the loader's functions
    /// for applications.
    ///
    /// # Safety
    /// The next layer must be creating `handle`, and `next` must be that layer's function.
    pub(super) unsafe fn new(
        handle: vk::Instance,
        next: vk::PFN_vkGetInstanceProcAddr,
    ) -> Instance {
        // SAFETY: the caller guarantees that `next` is the function of the layer that creates `handle`.
        let raw = |name: &CStr| unsafe { next(handle, name.as_ptr()) };
        let load = |name: &CStr| raw(name).map_or(std::ptr::null(), |f| f as *const c_void);
        // SAFETY: the type of each field is the type of the function that is loaded for it.
        unsafe {
            Instance {
                next,
                functions: ash::Instance::load_with(load, handle),
                surfaces: Surfaces {
                    xcb: typed(raw(c"vkCreateXcbSurfaceKHR")),
                    xlib: typed(raw(c"vkCreateXlibSurfaceKHR")),
                    wayland: typed(raw(c"vkCreateWaylandSurfaceKHR")),
                    destroy: typed(raw(c"vkDestroySurfaceKHR")),
                    capabilities: typed(raw(c"vkGetPhysicalDeviceSurfaceCapabilitiesKHR")),
                },
                windows: Mutex::default(),
            }
        }
    }

    /// A function of the next layer.
    pub(super) fn raw(&self, name: &CStr) -> vk::PFN_vkVoidFunction {
        // SAFETY: the instance is removed from the registry before it is destroyed, so it still exists. `next` belongs
        // to the layer below or to the loader, and accepts this instance.
        unsafe { (self.next)(self.functions.handle(), name.as_ptr()) }
    }

    pub(super) fn register_surface(&self, surface: vk::SurfaceKHR, window: Window) {
        self.windows().insert(surface, window);
    }

    pub(super) fn remove_surface(&self, surface: vk::SurfaceKHR) {
        self.windows().remove(&surface);
    }

    pub(super) fn window(&self, surface: vk::SurfaceKHR) -> Window {
        self.windows()
            .get(&surface)
            .cloned()
            .unwrap_or(Window::Other)
    }

    fn windows(&self) -> std::sync::MutexGuard<'_, HashMap<vk::SurfaceKHR, Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// # Safety
/// `F` must be the actual type of `raw`.
pub(super) unsafe fn typed<F: Copy>(raw: vk::PFN_vkVoidFunction) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<unsafe extern "system" fn()>()) };
    // SAFETY: the caller guarantees that `F` is the function's type. All function pointers have the same size.
    raw.map(|raw| unsafe { std::mem::transmute_copy(&raw) })
}
