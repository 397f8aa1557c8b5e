//! Images that the runtime creates on the application's device, each with its own memory.

use ash::vk;

/// An image and its memory. The owner frees it with [`Owned::destroy`].
#[derive(Clone, Copy)]
pub(super) struct Owned {
    pub(super) image: vk::Image,
    memory: vk::DeviceMemory,
}

impl Owned {
    /// # Errors
    /// Returns the device's error. In this case, all resources have been freed.
    ///
    /// # Safety
    /// The device is alive, and supports images with these parameters.
    pub(super) unsafe fn new(
        device: &ash::Device,
        memory: &vk::PhysicalDeviceMemoryProperties,
        info: &vk::ImageCreateInfo<'_>,
    ) -> Result<Owned, vk::Result> {
        // SAFETY: the caller guarantees that the device is alive and supports images with these parameters. A handle
        // that was not created is null, and destroying a null handle has no effect.
        unsafe {
            let mut owned = Owned {
                image: device.create_image(info, None)?,
                memory: vk::DeviceMemory::null(),
            };
            let bound = owned.bind(device, memory);
            bound.inspect_err(|_| owned.destroy(device))?;
            Ok(owned)
        }
    }

    /// # Safety
    /// The same as for [`Owned::new`].
    unsafe fn bind(
        &mut self,
        device: &ash::Device,
        memory: &vk::PhysicalDeviceMemoryProperties,
    ) -> Result<(), vk::Result> {
        // SAFETY: the caller guarantees that the device is alive and supports images with these parameters.
        unsafe {
            let needs = device.get_image_memory_requirements(self.image);
            let kinds = (0..).zip(memory.memory_types_as_slice());
            let allowed = kinds.filter(|(at, _)| needs.memory_type_bits & (1_u32 << at) != 0);
            let local = vk::MemoryPropertyFlags::DEVICE_LOCAL;
            let kind = allowed.max_by_key(|(_, kind)| kind.property_flags.contains(local));
            let (kind, _) = kind.ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(kind);
            self.memory = device.allocate_memory(&info, None)?;
            device.bind_image_memory(self.image, self.memory, 0)
        }
    }

    /// # Safety
    /// The device is alive and does not use the image any more.
    pub(super) unsafe fn destroy(&self, device: &ash::Device) {
        // SAFETY: the caller guarantees that the device is alive and does not use the image any more. Null handles are
        // ignored.
        unsafe {
            device.destroy_image(self.image, None);
            device.free_memory(self.memory, None);
        }
    }
}

/// The shader's view of an image: of the image itself, or of a resolved copy if the image is multisampled.
#[derive(Clone, Copy)]
pub(super) struct Readable {
    pub(super) view: vk::ImageView,
    pub(super) resolved: Option<Owned>,
}

impl Readable {
    /// # Safety
    /// The device is alive and does not use the view any more.
    pub(super) unsafe fn destroy(&self, device: &ash::Device) {
        // SAFETY: the caller guarantees that the device is alive and does not use the view any more.
        unsafe {
            device.destroy_image_view(self.view, None);
            if let Some(resolved) = &self.resolved {
                resolved.destroy(device);
            }
        }
    }
}
