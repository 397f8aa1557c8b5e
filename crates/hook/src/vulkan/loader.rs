//! The interface between the Vulkan loader and a layer, as in the loader's header `vk_layer.h` (layer interface version
//! 2 of 2017, which every later loader supports). `ash` covers only the application's interface. The intercepted
//! functions are in [`super::entry`].

use std::ffi::{c_char, c_void};

use ash::vk;
use openuvr_media::capture::vulkan::InitCommands;

/// The interface version of this layer.
pub(super) const INTERFACE: u32 = 2;

/// `LAYER_NEGOTIATE_INTERFACE_STRUCT`.
pub(super) const NEGOTIATE: i32 = 1;

const LINK_INFO: i32 = 0;
const DATA_CALLBACK: i32 = 1;

/// Used with old loaders. Sets the command buffer's dispatch table to the device's, like `vkSetDeviceLoaderData`.
unsafe extern "system" fn copy_dispatch(
    device: vk::Device,
    commands: vk::CommandBuffer,
) -> vk::Result {
    // SAFETY: `init_commands` is called with a valid device and command buffer. Both are dispatchable, so their first
    // words point to dispatch tables.
    unsafe { *object(commands) = key(device) };
    vk::Result::SUCCESS
}

/// `PFN_GetPhysicalDeviceProcAddr`; unused by this layer.
pub(super) type PhysicalDeviceProc =
    unsafe extern "system" fn(vk::Instance, *const c_char) -> vk::PFN_vkVoidFunction;

/// `VkNegotiateLayerInterface`.
#[repr(C)]
pub(crate) struct Negotiate {
    pub(super) kind: i32,
    pub(super) next: *mut c_void,
    pub(super) version: u32,
    pub(super) instance_proc: Option<vk::PFN_vkGetInstanceProcAddr>,
    pub(super) device_proc: Option<vk::PFN_vkGetDeviceProcAddr>,
    pub(super) physical_device_proc: Option<PhysicalDeviceProc>,
}

/// The common fields of `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`.
#[repr(C)]
struct CreateInfo {
    kind: vk::StructureType,
    next: *const c_void,
    function: i32,
    /// A union: the field `function` tells whether it is a link or a callback.
    value: *mut c_void,
}

/// `VkLayerInstanceLink`.
#[repr(C)]
struct InstanceLink {
    next: *mut InstanceLink,
    instance_proc: Option<vk::PFN_vkGetInstanceProcAddr>,
    _physical_device_proc: Option<PhysicalDeviceProc>,
}

/// `VkLayerDeviceLink`.
#[repr(C)]
struct DeviceLink {
    next: *mut DeviceLink,
    _instance_proc: Option<vk::PFN_vkGetInstanceProcAddr>,
    device_proc: Option<vk::PFN_vkGetDeviceProcAddr>,
}

/// The next layer's `vkGetInstanceProcAddr`. Advances the chain for the next layer.
///
/// # Safety
/// `info` must be the loader's argument of `vkCreateInstance`.
pub(super) unsafe fn next_instance(
    info: *const vk::InstanceCreateInfo<'_>,
) -> Option<vk::PFN_vkGetInstanceProcAddr> {
    // SAFETY: the caller passes the loader's `info`, whose chain each layer must advance.
    unsafe {
        let kind = vk::StructureType::LOADER_INSTANCE_CREATE_INFO;
        let entry = find((*info).p_next, kind, LINK_INFO)?;
        let link = (*entry).value.cast::<InstanceLink>();
        (*entry).value = (*link).next.cast();
        (*link).instance_proc
    }
}

/// The functions that the loader passes to `vkCreateDevice`.
pub(super) struct NextDevice {
    pub(super) device_proc: vk::PFN_vkGetDeviceProcAddr,
    /// `PFN_vkSetDeviceLoaderData`, which takes any dispatchable handle.
    pub(super) init_commands: InitCommands,
}

/// Like [`next_instance`], for a device.
///
/// # Safety
/// `info` must be the loader's argument of `vkCreateDevice`.
pub(super) unsafe fn next_device(info: *const vk::DeviceCreateInfo<'_>) -> Option<NextDevice> {
    // SAFETY: the caller passes the loader's `info`, whose chain each layer must advance. The value of a data callback
    // is a function or null, and both are valid for an `Option` of a function.
    unsafe {
        let kind = vk::StructureType::LOADER_DEVICE_CREATE_INFO;
        let entry = find((*info).p_next, kind, LINK_INFO)?;
        let link = (*entry).value.cast::<DeviceLink>();
        (*entry).value = (*link).next.cast();
        let callback = find((*info).p_next, kind, DATA_CALLBACK);
        Some(NextDevice {
            device_proc: (*link).device_proc?,
            init_commands: callback
                .and_then(|callback| {
                    std::mem::transmute::<*mut c_void, Option<InitCommands>>((*callback).value)
                })
                .unwrap_or(copy_dispatch),
        })
    }
}

/// # Safety
/// `chain` must be a chain of Vulkan structures.
unsafe fn find(
    mut chain: *const c_void,
    kind: vk::StructureType,
    function: i32,
) -> Option<*mut CreateInfo> {
    while !chain.is_null() {
        let entry = chain.cast::<CreateInfo>().cast_mut();
        // SAFETY: every structure of a Vulkan chain starts with its type and a pointer to the next structure. In the
        // loader's structures, the field `function` follows; it is read only if the type matches.
        unsafe {
            if (*entry).kind == kind && (*entry).function == function {
                return Some(entry);
            }
            chain = (*entry).next;
        }
    }
    None
}

/// Identifies the instance or device of a handle, as the loader does: the first word of the object.
///
/// # Safety
/// `handle` must be a valid dispatchable handle.
pub(super) unsafe fn key(handle: impl vk::Handle) -> usize {
    // SAFETY: the caller passes a valid dispatchable handle, so its object starts with a pointer to the loader's
    // dispatch table.
    unsafe { *object(handle) }
}

/// The object of a dispatchable handle.
pub(super) fn object(handle: impl vk::Handle) -> *mut usize {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a pointer, which ash widens"
    )]
    let address = handle.as_raw() as usize;
    address as *mut usize
}
