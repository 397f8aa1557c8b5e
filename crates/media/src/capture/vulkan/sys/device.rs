//! The application's device.

use ash::vk;

/// Registers a command buffer with lower layers: a layer has to call this for each one that it
/// allocates below the loader (`PFN_vkSetDeviceLoaderData`).
pub type InitCommands = unsafe extern "system" fn(vk::Device, vk::CommandBuffer) -> vk::Result;

/// A device with the handles to create buffers and commands.
pub(super) struct Device {
    pub(super) functions: ash::Device,
    pub(super) init_commands: Option<InitCommands>,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
}
