//! Selection of the Vulkan device that an application must use.

use std::ffi::{CStr, c_void};

use ash::vk;
use ash::vk::Handle;
use openxr_sys as xr;
use openxr_sys::platform::{VkGetInstanceProcAddr, VkInstance, VkPhysicalDevice};

use crate::debug::with_message;
use crate::ffi::Outcome;

/// The Vulkan loader, for applications that do not pass their `vkGetInstanceProcAddr`.
const LIBRARY: &str = "libvulkan.so.1";

/// A Vulkan handle of the application, as an opaque value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForeignHandle(pub(crate) *const c_void);

// SAFETY: this code does not follow the pointer, and any thread may use Vulkan handles.
unsafe impl Send for ForeignHandle {}

/// Vulkan state of an OpenXR instance before a session exists.
#[derive(Default)]
pub(crate) struct DeviceSelection {
    /// Whether `xrGetVulkanGraphicsRequirements` has been called.
    pub(crate) requirements_queried: bool,
    /// The application's `vkGetInstanceProcAddr`, if it has passed one.
    pub(crate) get_proc: Option<VkGetInstanceProcAddr>,
    /// The Vulkan instance and the selected device.
    pub(crate) selected: Option<(ForeignHandle, ForeignHandle)>,
}

/// Converts a Vulkan handle to the pointer that OpenXR uses for it.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a dispatchable handle is a pointer"
)]
pub(crate) fn pointer(handle: impl Handle) -> *const c_void {
    handle.as_raw() as usize as *const c_void
}

/// Converts a pointer from OpenXR to a Vulkan handle.
pub(crate) fn handle<H: Handle>(pointer: *const c_void) -> H {
    H::from_raw(pointer.addr() as u64)
}

impl DeviceSelection {
    /// Selects a device of a Vulkan instance: preferably a discrete GPU, otherwise an integrated GPU, otherwise a
    /// virtual GPU, otherwise any device.
    ///
    /// # Safety
    /// `instance` is null or an instance of the application.
    pub(crate) unsafe fn select(&mut self, instance: VkInstance) -> Outcome<VkPhysicalDevice> {
        if instance.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        // SAFETY: the caller guarantees that `instance` is an instance of the application.
        let all = unsafe {
            let functions = self.instance(instance)?;
            let all = functions.enumerate_physical_devices();
            let all = all.map_err(|_| xr::Result::ERROR_RUNTIME_FAILURE)?;
            let kind = |device: &vk::PhysicalDevice| match functions
                .get_physical_device_properties(*device)
                .device_type
            {
                vk::PhysicalDeviceType::DISCRETE_GPU => 0,
                vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
                vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
                _ => 3,
            };
            all.into_iter().min_by_key(kind)
        };
        let device = all.ok_or_else(|| {
            let message = c"no Vulkan device found: is a driver installed?";
            with_message(xr::Result::ERROR_GRAPHICS_DEVICE_INVALID, message)
        })?;
        let device = pointer(device);
        self.selected = Some((ForeignHandle(instance), ForeignHandle(device)));
        Ok(device)
    }

    /// The functions of a Vulkan instance.
    ///
    /// # Safety
    /// `instance` is an instance of the application.
    pub(super) unsafe fn instance(&self, instance: VkInstance) -> Outcome<ash::Instance> {
        let get_proc = match self.get_proc {
            Some(get_proc) => get_proc,
            None => library()?,
        };
        // SAFETY: `get_proc` is a function of the Vulkan loader, and `instance` was created by that loader.
        unsafe {
            let load = |name: &CStr| {
                let found = get_proc(instance, name.as_ptr());
                found.map_or(std::ptr::null(), |f| f as *const c_void)
            };
            Ok(ash::Instance::load_with(load, handle(instance)))
        }
    }
}

/// The Vulkan loader's entry point. The library stays loaded, because the application also uses it.
fn library() -> Outcome<VkGetInstanceProcAddr> {
    // SAFETY: the Vulkan loader has no initialisers with preconditions, and the function has this type.
    unsafe {
        let library = libloading::Library::new(LIBRARY);
        let library = library.map_err(|_| {
            let message = c"cannot load libvulkan.so.1: is Vulkan installed?";
            with_message(xr::Result::ERROR_RUNTIME_FAILURE, message)
        })?;
        let get_proc = library.get::<VkGetInstanceProcAddr>(b"vkGetInstanceProcAddr\0");
        let get_proc = get_proc.map(|get_proc| *get_proc);
        std::mem::forget(library);
        get_proc.map_err(|_| xr::Result::ERROR_RUNTIME_FAILURE)
    }
}
