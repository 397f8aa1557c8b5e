//! The application's device of Vulkan, as far as we use it.

use ash::vk;

/// A device, its queue, and what there is to know of both.
pub(super) struct Device {
    pub(super) functions: ash::Device,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    /// The queue that the application gave the session.
    pub(super) queue: vk::Queue,
    /// Its family.
    pub(super) family: u32,
    pub(super) instance: ash::Instance,
    pub(super) physical: vk::PhysicalDevice,
}
