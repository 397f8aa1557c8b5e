//! Instances: where the functions below this layer are, and which window a surface belongs to.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::{Mutex, PoisonError};

use ash::vk;

use super::registry::Registry;
use crate::windows::Place;

pub(super) static INSTANCES: Registry<Instance> = Registry::new();

/// One `VkInstance` of the application.
pub(super) struct Instance {
    next: vk::PFN_vkGetInstanceProcAddr,
    pub(super) functions: ash::Instance,
    pub(super) surfaces: Surfaces,
    windows: Mutex<HashMap<vk::SurfaceKHR, Window>>,
}

/// The functions for surfaces below this layer, as far as the application uses them.
pub(super) struct Surfaces {
    pub(super) xcb: Option<vk::PFN_vkCreateXcbSurfaceKHR>,
    pub(super) xlib: Option<vk::PFN_vkCreateXlibSurfaceKHR>,
    pub(super) wayland: Option<vk::PFN_vkCreateWaylandSurfaceKHR>,
    pub(super) destroy: Option<vk::PFN_vkDestroySurfaceKHR>,
    pub(super) capabilities: Option<vk::PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR>,
}

/// Where a surface is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Window {
    /// A window of an X server.
    X11(Place),
    /// A window of a Wayland compositor, which tells nobody where it lies.
    Wayland,
    /// A display without windows, or a kind of surface that this layer does not know.
    Other,
}

impl Instance {
    /// All functions are asked for here: at the end of the chain the loader answers with what is
    /// below only while the instance is being made, and later with the function that the
    /// application itself calls.
    ///
    /// # Safety
    /// `handle` is being made by what is below, whose function `next` is.
    pub(super) unsafe fn new(
        handle: vk::Instance,
        next: vk::PFN_vkGetInstanceProcAddr,
    ) -> Instance {
        // SAFETY: the caller's duty.
        let raw = |name: &CStr| unsafe { next(handle, name.as_ptr()) };
        let load = |name: &CStr| raw(name).map_or(std::ptr::null(), |f| f as *const c_void);
        // SAFETY: each name with its own type.
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

    /// What is below answers for a name.
    pub(super) fn raw(&self, name: &CStr) -> vk::PFN_vkVoidFunction {
        // SAFETY: the instance lives while it is in the registry, and the function is the loader's.
        unsafe { (self.next)(self.functions.handle(), name.as_ptr()) }
    }

    pub(super) fn surface_made(&self, surface: vk::SurfaceKHR, window: Window) {
        self.windows().insert(surface, window);
    }

    pub(super) fn surface_gone(&self, surface: vk::SurfaceKHR) {
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
/// `F` is the type of the function that `raw` really is.
pub(super) unsafe fn typed<F: Copy>(raw: vk::PFN_vkVoidFunction) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<unsafe extern "system" fn()>()) };
    // SAFETY: the caller's duty; both are function pointers of one size.
    raw.map(|raw| unsafe { std::mem::transmute_copy(&raw) })
}
