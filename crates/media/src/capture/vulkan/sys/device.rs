//! The application's device, as far as buffers need it.

use ash::vk;

/// Makes a command buffer known to the layers below: what a layer has to call for each that it allocates
/// beneath the loader (`PFN_vkSetDeviceLoaderData`).
pub type InitCommands = unsafe extern "system" fn(vk::Device, vk::CommandBuffer) -> vk::Result;

/// A device, and what else buffers and commands of it are made with.
pub(super) struct Device {
    pub(super) functions: ash::Device,
    pub(super) init_commands: Option<InitCommands>,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
}
