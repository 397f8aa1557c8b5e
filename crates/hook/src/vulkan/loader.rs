//! What the Vulkan loader and a layer say to each other, as the loader's header `vk_layer.h`
//! lays it out (layer interface version 2, of 2017; every loader since has it). `ash` knows the
//! Vulkan that applications see, and not this. Not what is intercepted: [`super::entry`].

use std::ffi::{c_char, c_void};

use ash::vk;
use openuvr_media::capture::vulkan::InitCommands;

/// The interface that this layer speaks.
pub(super) const INTERFACE: u32 = 2;

/// `LAYER_NEGOTIATE_INTERFACE_STRUCT`.
pub(super) const NEGOTIATE: i32 = 1;

const LINK_INFO: i32 = 0;
const DATA_CALLBACK: i32 = 1;

/// What an old loader leaves to the layer: the command buffer gets the device's dispatch table, as
/// `vkSetDeviceLoaderData` does it.
unsafe extern "system" fn copy_dispatch(
    device: vk::Device,
    commands: vk::CommandBuffer,
) -> vk::Result {
    // SAFETY: both are live dispatchable handles, whose first word is the loader's.
    unsafe { *object(commands) = key(device) };
    vk::Result::SUCCESS
}

/// `PFN_GetPhysicalDeviceProcAddr`, which this layer does not need.
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

/// The front of `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`.
#[repr(C)]
struct CreateInfo {
    kind: vk::StructureType,
    next: *const c_void,
    function: i32,
    /// A union: a link or a function, as `function` says.
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

/// Where the next layer's functions come from; what is left in the chain is for the next layer.
///
/// # Safety
/// `info` is what the loader gave to `vkCreateInstance`.
pub(super) unsafe fn next_of_instance(
    info: *const vk::InstanceCreateInfo<'_>,
) -> Option<vk::PFN_vkGetInstanceProcAddr> {
    // SAFETY: the caller's `info`, a chain that the loader built for us to change.
    unsafe {
        let kind = vk::StructureType::LOADER_INSTANCE_CREATE_INFO;
        let entry = find((*info).p_next, kind, LINK_INFO)?;
        let link = (*entry).value.cast::<InstanceLink>();
        (*entry).value = (*link).next.cast();
        (*link).instance_proc
    }
}

/// What `vkCreateDevice` needs of the layers below.
pub(super) struct NextOfDevice {
    pub(super) device_proc: vk::PFN_vkGetDeviceProcAddr,
    /// `PFN_vkSetDeviceLoaderData`, which takes any dispatchable handle.
    pub(super) init_commands: InitCommands,
}

/// As [`next_of_instance`], for a device.
///
/// # Safety
/// `info` is what the loader gave to `vkCreateDevice`.
pub(super) unsafe fn next_of_device(info: *const vk::DeviceCreateInfo<'_>) -> Option<NextOfDevice> {
    // SAFETY: the caller's `info`, a chain that the loader built for us to change; the value of
    // a data callback is that function or null, which `Option` of a function has room for.
    unsafe {
        let kind = vk::StructureType::LOADER_DEVICE_CREATE_INFO;
        let entry = find((*info).p_next, kind, LINK_INFO)?;
        let link = (*entry).value.cast::<DeviceLink>();
        (*entry).value = (*link).next.cast();
        let callback = find((*info).p_next, kind, DATA_CALLBACK);
        Some(NextOfDevice {
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
/// `chain` is a chain of Vulkan structures.
unsafe fn find(
    mut chain: *const c_void,
    kind: vk::StructureType,
    function: i32,
) -> Option<*mut CreateInfo> {
    while !chain.is_null() {
        let entry = chain.cast::<CreateInfo>().cast_mut();
        // SAFETY: every structure of a chain begins with its kind and the next one, and only the
        // loader's own go on with a function.
        unsafe {
            if (*entry).kind == kind && (*entry).function == function {
                return Some(entry);
            }
            chain = (*entry).next;
        }
    }
    None
}

/// What tells the loader, and us, which instance or device a handle belongs to: the first word of
/// what it points to.
///
/// # Safety
/// `handle` is a live dispatchable handle.
pub(super) unsafe fn key(handle: impl vk::Handle) -> usize {
    // SAFETY: the loader puts its dispatch table there for each dispatchable object.
    unsafe { *object(handle) }
}

/// What a dispatchable handle points to.
pub(super) fn object(handle: impl vk::Handle) -> *mut usize {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a pointer, which ash widens"
    )]
    let address = handle.as_raw() as usize;
    address as *mut usize
}
