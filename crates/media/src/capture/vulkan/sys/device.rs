//! The application's device.

use ash::vk;

/// Registers a command buffer with lower layers. A layer must call this for each command buffer
/// that it allocates below the loader (`PFN_vkSetDeviceLoaderData`).
pub type InitCommands = unsafe extern "system" fn(vk::Device, vk::CommandBuffer) -> vk::Result;

/// A device with the handles to create buffers and commands.
pub(super) struct Device {
    pub(super) functions: ash::Device,
    pub(super) init_commands: Option<InitCommands>,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
}
