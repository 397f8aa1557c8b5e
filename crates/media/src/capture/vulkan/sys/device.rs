//! The application's device.

use ash::vk;

/// Sets the loader's dispatch pointer in a command buffer (`PFN_vkSetDeviceLoaderData`). A layer must call this for
/// each command buffer that it allocates itself, because such an allocation does not pass through the loader.
pub type InitCommands = unsafe extern "system" fn(vk::Device, vk::CommandBuffer) -> vk::Result;

/// A device with the handles to create buffers and commands.
pub(super) struct Device {
    pub(super) functions: ash::Device,
    pub(super) init_commands: Option<InitCommands>,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
}
