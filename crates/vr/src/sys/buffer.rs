//! A buffer where both processor and device see it.

use std::sync::Arc;

use ash::vk;

use super::gpu::Gpu;
use super::image::allocate;
use crate::error::VrError;

/// A buffer with memory of its own. Whoever drops it has let the device settle.
pub(super) struct Buffer {
    pub(super) buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    room: usize,
    gpu: Arc<Gpu>,
}

impl Buffer {
    /// One that holds these bytes, which are not none.
    pub(super) fn filled(
        gpu: &Arc<Gpu>,
        usage: vk::BufferUsageFlags,
        bytes: &[u8],
    ) -> Result<Buffer, VrError> {
        let mut made = Buffer::new(gpu, usage, bytes.len())?;
        made.fill(bytes)?;
        Ok(made)
    }

    /// One with room for so many bytes, which are not none.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        usage: vk::BufferUsageFlags,
        room: usize,
    ) -> Result<Buffer, VrError> {
        let size = room as vk::DeviceSize;
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        let mut made = Buffer {
            buffer: vk::Buffer::null(),
            memory: vk::DeviceMemory::null(),
            room,
            gpu: Arc::clone(gpu),
        };
        let device = &gpu.functions;
        let (visible, coherent) = (
            vk::MemoryPropertyFlags::HOST_VISIBLE,
            vk::MemoryPropertyFlags::HOST_COHERENT,
        );
        // SAFETY: the device lives as long as `gpu`; what was not made is null, which dropping passes over.
        unsafe {
            made.buffer = device
                .create_buffer(&info, None)
                .map_err(VrError::vulkan("make a buffer"))?;
            let needs = device.get_buffer_memory_requirements(made.buffer);
            made.memory = allocate(gpu, needs, visible | coherent)?;
            device
                .bind_buffer_memory(made.buffer, made.memory, 0)
                .map_err(VrError::vulkan("give a buffer its memory"))?;
        }
        Ok(made)
    }

    /// Puts these bytes at its beginning, as many as there is room for. The device does nothing with it meanwhile.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> Result<(), VrError> {
        let count = bytes.len().min(self.room);
        let device = &self.gpu.functions;
        // SAFETY: the memory is as large as the buffer needs, which is at least `room`, and nobody else has
        // mapped it.
        unsafe {
            let size = self.room as vk::DeviceSize;
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
        // SAFETY: the device lives and does nothing with them any more; null is passed over.
        unsafe {
            device.destroy_buffer(self.buffer, None);
            device.free_memory(self.memory, None);
        }
    }
}
