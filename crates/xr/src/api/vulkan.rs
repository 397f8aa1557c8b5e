//! `XR_KHR_vulkan_enable` and `XR_KHR_vulkan_enable2`: selects the Vulkan device that the application must
//! use.

use std::ffi::{CStr, c_char};

use ash::vk;
use openuvr_runtime::lock::lock;
use openxr_sys as xr;
use openxr_sys::platform::{VkDevice, VkInstance, VkPhysicalDevice, VkResult};

use super::system;
use crate::ffi::{self, DONE, call, input, output, write_output};
use crate::vulkan::device_selection;

/// The minimum version has all the features that are used. Versions newer than the maximum are untested.
const VERSIONS: [xr::Version; 2] = [xr::Version::new(1, 0, 0), xr::Version::new(1, 4, 0)];

pub(crate) unsafe extern "system" fn requirements(
    instance: xr::Instance,
    system: xr::SystemId,
    requirements: *mut xr::GraphicsRequirementsVulkanKHR,
) -> xr::Result {
    call(c"xrGetVulkanGraphicsRequirementsKHR", || {
        let instance = system::of(instance, system)?;
        // SAFETY: the application passes valid pointers.
        let to = unsafe { output(requirements)? };
        [to.min_api_version_supported, to.max_api_version_supported] = VERSIONS;
        lock(&instance.vulkan).requirements_queried = true;
        DONE
    })
}

/// The Vulkan extensions that the application must enable. There are none.
///
/// # Safety
/// All pointers must come from the application.
unsafe fn extensions(
    function: &'static CStr,
    instance: xr::Instance,
    system: xr::SystemId,
    capacity: u32,
    count: *mut u32,
    buffer: *mut c_char,
) -> xr::Result {
    call(function, || {
        system::of(instance, system)?;
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::text("", capacity, count, buffer) }
    })
}

pub(crate) unsafe extern "system" fn instance_extensions(
    instance: xr::Instance,
    system: xr::SystemId,
    capacity: u32,
    count: *mut u32,
    buffer: *mut c_char,
) -> xr::Result {
    // SAFETY: the application passes valid pointers.
    unsafe {
        extensions(
            c"xrGetVulkanInstanceExtensionsKHR",
            instance,
            system,
            capacity,
            count,
            buffer,
        )
    }
}

pub(crate) unsafe extern "system" fn device_extensions(
    instance: xr::Instance,
    system: xr::SystemId,
    capacity: u32,
    count: *mut u32,
    buffer: *mut c_char,
) -> xr::Result {
    // SAFETY: the application passes valid pointers.
    unsafe {
        extensions(
            c"xrGetVulkanDeviceExtensionsKHR",
            instance,
            system,
            capacity,
            count,
            buffer,
        )
    }
}

pub(crate) unsafe extern "system" fn graphics_device(
    instance: xr::Instance,
    system: xr::SystemId,
    vk_instance: VkInstance,
    device: *mut VkPhysicalDevice,
) -> xr::Result {
    call(c"xrGetVulkanGraphicsDeviceKHR", || {
        let instance = system::of(instance, system)?;
        let mut known = lock(&instance.vulkan);
        // SAFETY: the application passes valid pointers.
        unsafe {
            let selected = known.select(vk_instance)?;
            write_output(device, selected)?;
        }
        DONE
    })
}

pub(crate) unsafe extern "system" fn graphics_device_2(
    instance: xr::Instance,
    info: *const xr::VulkanGraphicsDeviceGetInfoKHR,
    device: *mut VkPhysicalDevice,
) -> xr::Result {
    // SAFETY: the application passes valid pointers.
    match unsafe { input(info) } {
        Ok(info) => {
            let (system, vk_instance) = (info.system_id, info.vulkan_instance);
            // SAFETY: the application passes valid pointers.
            unsafe { graphics_device(instance, system, vk_instance, device) }
        }
        Err(error) => error,
    }
}

pub(crate) unsafe extern "system" fn create_instance(
    instance: xr::Instance,
    info: *const xr::VulkanInstanceCreateInfoKHR,
    made: *mut VkInstance,
    result: *mut VkResult,
) -> xr::Result {
    call(c"xrCreateVulkanInstanceKHR", || {
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        let instance = system::of(instance, info.system_id)?;
        let get_proc = info.pfn_get_instance_proc_addr;
        let get_proc = get_proc.ok_or(xr::Result::ERROR_VALIDATION_FAILURE)?;
        if info.vulkan_create_info.is_null() || made.is_null() || result.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        lock(&instance.vulkan).get_proc = Some(get_proc);
        // SAFETY: the application passes valid pointers. They are passed unchanged to the Vulkan function of the same
        // name.
        unsafe {
            let create = get_proc(std::ptr::null(), c"vkCreateInstance".as_ptr());
            let create = create.ok_or(xr::Result::ERROR_RUNTIME_FAILURE)?;
            let create = std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkCreateInstance>(
                create,
            );
            let mut handle = vk::Instance::null();
            let done = create(
                info.vulkan_create_info.cast(),
                info.vulkan_allocator.cast(),
                &mut handle,
            );
            write_output(result, done.as_raw())?;
            write_output(made, device_selection::pointer(handle))?;
        }
        DONE
    })
}

pub(crate) unsafe extern "system" fn create_device(
    instance: xr::Instance,
    info: *const xr::VulkanDeviceCreateInfoKHR,
    made: *mut VkDevice,
    result: *mut VkResult,
) -> xr::Result {
    call(c"xrCreateVulkanDeviceKHR", || {
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        let instance = system::of(instance, info.system_id)?;
        let get_proc = info.pfn_get_instance_proc_addr;
        let get_proc = get_proc.ok_or(xr::Result::ERROR_VALIDATION_FAILURE)?;
        if info.vulkan_create_info.is_null() || made.is_null() || result.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let (vk_instance, selected) = {
            let mut known = lock(&instance.vulkan);
            known.get_proc = Some(get_proc);
            known.selected.ok_or(xr::Result::ERROR_HANDLE_INVALID)?
        };
        if info.vulkan_physical_device != selected.0 {
            return Err(xr::Result::ERROR_HANDLE_INVALID);
        }
        // SAFETY: the application passes valid pointers. They are passed unchanged to the Vulkan function of the same
        // name.
        unsafe {
            let create = get_proc(vk_instance.0, c"vkCreateDevice".as_ptr());
            let create = create.ok_or(xr::Result::ERROR_RUNTIME_FAILURE)?;
            let create =
                std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkCreateDevice>(create);
            let mut handle = vk::Device::null();
            let done = create(
                device_selection::handle(info.vulkan_physical_device),
                info.vulkan_create_info.cast(),
                info.vulkan_allocator.cast(),
                &mut handle,
            );
            write_output(result, done.as_raw())?;
            write_output(made, device_selection::pointer(handle))?;
        }
        DONE
    })
}
