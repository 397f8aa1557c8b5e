//! The application's Vulkan device.

use ash::vk;

pub(super) struct Device {
    pub(super) functions: ash::Device,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    /// The queue that the application passed for the session.
    pub(super) queue: vk::Queue,
    /// Queue family index.
    pub(super) family: u32,
    pub(super) instance: ash::Instance,
    pub(super) physical: vk::PhysicalDevice,
}
