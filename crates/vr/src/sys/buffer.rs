//! A Vulkan buffer in host-visible memory.

use std::sync::Arc;

use ash::vk;

use super::gpu::Gpu;
use super::image::allocate;
use crate::error::VrError;

/// A buffer with its memory. The device must be idle when the buffer is dropped.
pub(super) struct Buffer {
    pub(super) buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    capacity: usize,
    gpu: Arc<Gpu>,
}

impl Buffer {
    /// A buffer with these bytes; `bytes` must not be empty.
    pub(super) fn filled(
        gpu: &Arc<Gpu>,
        usage: vk::BufferUsageFlags,
        bytes: &[u8],
    ) -> Result<Buffer, VrError> {
        let mut made = Buffer::new(gpu, usage, bytes.len())?;
        made.fill(bytes)?;
        Ok(made)
    }

    /// A buffer of `capacity` bytes, at least one.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        usage: vk::BufferUsageFlags,
        capacity: usize,
    ) -> Result<Buffer, VrError> {
        let size = capacity as vk::DeviceSize;
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        let mut made = Buffer {
            buffer: vk::Buffer::null(),
            memory: vk::DeviceMemory::null(),
            capacity,
            gpu: Arc::clone(gpu),
        };
        let device = &gpu.functions;
        let (visible, coherent) = (
            vk::MemoryPropertyFlags::HOST_VISIBLE,
            vk::MemoryPropertyFlags::HOST_COHERENT,
        );
        // SAFETY: the device exists as long as `gpu`. After an error, the remaining handles are null, which `drop`
        // ignores.
        unsafe {
            made.buffer = device
                .create_buffer(&info, None)
                .map_err(VrError::vulkan("create a buffer"))?;
            let needs = device.get_buffer_memory_requirements(made.buffer);
            made.memory = allocate(gpu, needs, visible | coherent)?;
            device
                .bind_buffer_memory(made.buffer, made.memory, 0)
                .map_err(VrError::vulkan("bind buffer memory"))?;
        }
        Ok(made)
    }

    /// Copies these bytes to the start of the buffer, up to its capacity. The device must not use the buffer during the
    /// copy.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> Result<(), VrError> {
        let count = bytes.len().min(self.capacity);
        let device = &self.gpu.functions;
        // SAFETY: the memory has at least `capacity` bytes, and is not mapped.
        unsafe {
            let size = self.capacity as vk::DeviceSize;
            let mapped = device
                .map_memory(self.memory, 0, size, vk::MemoryMapFlags::empty())
                .map_err(VrError::vulkan("map memory"))?;
            mapped
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), count);
            device.unmap_memory(self.memory);
        }
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let device = &self.gpu.functions;
        // SAFETY: the device exists and no longer uses these objects; null is ignored.
        unsafe {
            device.destroy_buffer(self.buffer, None);
            device.free_memory(self.memory, None);
        }
    }
}
