//! A buffer that is filled once, where both processor and device see it.

use std::sync::Arc;

use ash::vk;

use super::gpu::Gpu;
use super::image::allocate;
use crate::error::VrError;

/// A buffer with memory of its own. Whoever drops it has let the device settle.
pub(super) struct Buffer {
    pub(super) buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    gpu: Arc<Gpu>,
}

impl Buffer {
    /// One that holds these bytes, which are not none.
    pub(super) fn filled(
        gpu: &Arc<Gpu>,
        usage: vk::BufferUsageFlags,
        bytes: &[u8],
    ) -> Result<Buffer, VrError> {
        let size = bytes.len() as vk::DeviceSize;
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        let mut made = Buffer {
            buffer: vk::Buffer::null(),
            memory: vk::DeviceMemory::null(),
            gpu: Arc::clone(gpu),
        };
        let device = &gpu.functions;
        let (visible, coherent) = (
            vk::MemoryPropertyFlags::HOST_VISIBLE,
            vk::MemoryPropertyFlags::HOST_COHERENT,
        );
        // SAFETY: the device lives as long as `gpu`; the memory is as large as the buffer needs, which is at
        // least the bytes, and nobody else has mapped it. What was not made is null, which dropping passes over.
        unsafe {
            made.buffer = device
                .create_buffer(&info, None)
                .map_err(VrError::vulkan("make a buffer"))?;
            let needs = device.get_buffer_memory_requirements(made.buffer);
            made.memory = allocate(gpu, needs, visible | coherent)?;
            device
                .bind_buffer_memory(made.buffer, made.memory, 0)
                .map_err(VrError::vulkan("give a buffer its memory"))?;
            let mapped = device
                .map_memory(made.memory, 0, size, vk::MemoryMapFlags::empty())
                .map_err(VrError::vulkan("map memory"))?;
            mapped
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            device.unmap_memory(made.memory);
        }
        Ok(made)
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
