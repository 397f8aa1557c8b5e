//! A buffer to which a picture is copied, with the commands for the copy.
//!
//! [`super::ring`] tracks whether a buffer is free.

use ash::vk;
use openuvr_proto::units::Size;

use super::copy::{Copy, CopyRegion};
use super::device::Device;

/// Handles that are created and destroyed together.
pub(super) struct Slot {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *const u8,
    /// Size of the buffer in bytes.
    capacity: u64,
    /// Whether device writes are visible without an invalidation call.
    coherent: bool,
    fence: vk::Fence,
    family: u32,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
}

// SAFETY: Vulkan handles are not bound to a thread, and all threads of the process may access the mapped memory.
unsafe impl Send for Slot {}
// SAFETY: through a shared reference, safe code only reads the mapped memory. The unsafe methods require that the slot
// has no other user.
unsafe impl Sync for Slot {}

/// Memory types for CPU reads, best first. Cached memory is read about ten times as fast as uncached memory.
const KINDS: [vk::MemoryPropertyFlags; 3] = {
    type Flags = vk::MemoryPropertyFlags;
    let visible = Flags::HOST_VISIBLE.as_raw();
    let cached = visible | Flags::HOST_CACHED.as_raw();
    let coherent = Flags::HOST_COHERENT.as_raw();
    [
        Flags::from_raw(cached | coherent),
        Flags::from_raw(cached),
        Flags::from_raw(visible | coherent),
    ]
};

impl Slot {
    /// A slot with `bytes` of space, for queues of `family`.
    ///
    /// # Errors
    /// Returns the device's error; nothing is leaked in that case.
    ///
    /// # Safety
    /// The device must be live. `pool` must be of `family` and have no other user during the call.
    pub(super) unsafe fn new(
        device: &Device,
        family: u32,
        pool: vk::CommandPool,
        bytes: u64,
    ) -> Result<Slot, vk::Result> {
        let mut slot = Slot {
            buffer: vk::Buffer::null(),
            memory: vk::DeviceMemory::null(),
            mapped: std::ptr::null(),
            capacity: bytes,
            coherent: false,
            fence: vk::Fence::null(),
            family,
            pool,
            commands: vk::CommandBuffer::null(),
        };
        // SAFETY: the caller upholds this function's contract; handles that were not created are null, and destroying
        // null has no effect.
        unsafe {
            match slot.make(device) {
                Ok(()) => Ok(slot),
                Err(error) => {
                    slot.destroy(&device.functions);
                    Err(error)
                }
            }
        }
    }

    /// # Safety
    /// As [`Slot::new`].
    unsafe fn make(&mut self, of: &Device) -> Result<(), vk::Result> {
        let device = &of.functions;
        let buffer = vk::BufferCreateInfo::default()
            .size(self.capacity)
            .usage(vk::BufferUsageFlags::TRANSFER_DST);
        let commands = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .command_buffer_count(1);
        // SAFETY: the caller upholds this function's contract; each object is created only from objects that already
        // exist.
        unsafe {
            self.buffer = device.create_buffer(&buffer, None)?;
            let needs = device.get_buffer_memory_requirements(self.buffer);
            let (kind, coherent) = memory_kind(&of.memory, needs.memory_type_bits)
                .ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
            self.coherent = coherent;
            let memory = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(kind);
            self.memory = device.allocate_memory(&memory, None)?;
            device.bind_buffer_memory(self.buffer, self.memory, 0)?;
            let flags = vk::MemoryMapFlags::empty();
            self.mapped = device
                .map_memory(self.memory, 0, vk::WHOLE_SIZE, flags)?
                .cast();
            self.fence = device.create_fence(&vk::FenceCreateInfo::default(), None)?;
            let made = device.allocate_command_buffers(&commands)?;
            self.commands = made[0];
            if let Some(init) = of.init_commands {
                init(device.handle(), self.commands).result()?;
            }
        }
        Ok(())
    }

    /// Whether a queue of `family` can copy a picture of this many bytes to this slot.
    pub(super) fn fits(&self, family: u32, bytes: u64) -> bool {
        self.family == family && self.capacity >= bytes
    }

    /// Records the commands: each image becomes readable, its region is copied, and its layout is
    /// restored.
    ///
    /// # Errors
    /// Returns the device's error.
    ///
    /// # Safety
    /// The slot must be idle, and its pool must have no other user. The picture must fit in the slot. The images must
    /// contain the regions and have the layouts given in `parts`.
    pub(super) unsafe fn record(
        &self,
        device: &ash::Device,
        parts: &[CopyRegion],
        picture: Size,
    ) -> Result<(), vk::Result> {
        let commands = self.commands;
        let to_host = vk::BufferMemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .buffer(self.buffer)
            .size(vk::WHOLE_SIZE);
        let once = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        let copy = vk::PipelineStageFlags::TRANSFER;
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let none = vk::DependencyFlags::empty();
        // The application may order its drawing by submitting it to one queue, without semaphores. Therefore, the
        // barriers wait for all earlier commands, and all later commands wait for the copy.
        let written = (
            vk::AccessFlags::MEMORY_WRITE,
            vk::AccessFlags::TRANSFER_READ,
        );
        let after = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let read = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
        let distinct: Vec<&CopyRegion> = parts
            .iter()
            .enumerate()
            .filter(|(index, part)| {
                !parts[..*index]
                    .iter()
                    .any(|before| (before.image, before.layer) == (part.image, part.layer))
            })
            .map(|(_, part)| part)
            .collect();
        let to_read: Vec<_> = (distinct.iter())
            .map(|part| barrier(part, part.layout, read).src_access_mask(written.0))
            .map(|barrier| barrier.dst_access_mask(written.1))
            .collect();
        let back: Vec<_> = (distinct.iter())
            .map(|part| barrier(part, read, part.layout).dst_access_mask(after))
            .collect();
        // SAFETY: the caller upholds this function's contract; the buffer holds the picture (`fits`), each region lies
        // in the picture, and the handles live in `self`.
        unsafe {
            device.begin_command_buffer(commands, &once)?;
            device.cmd_pipeline_barrier(commands, all, copy, none, &[], &[], &to_read);
            for part in parts {
                assert!(part.is_inside(picture), "each region is inside its picture");
                let region = region(part, picture);
                device.cmd_copy_image_to_buffer(commands, part.image, read, self.buffer, &[region]);
            }
            let host = vk::PipelineStageFlags::HOST;
            device.cmd_pipeline_barrier(commands, copy, host, none, &[], &[to_host], &[]);
            device.cmd_pipeline_barrier(commands, copy, all, none, &[], &[], &back);
            device.end_command_buffer(commands)
        }
    }

    /// Submits the recorded commands.
    ///
    /// # Errors
    /// Returns the device's error; nothing was submitted in that case.
    ///
    /// # Safety
    /// As [`super::ring::Ring::copy`]; the commands must have been recorded for that copy.
    pub(super) unsafe fn submit(
        &self,
        device: &ash::Device,
        copy: &Copy<'_>,
    ) -> Result<(), vk::Result> {
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; copy.after.len()];
        let commands = [self.commands];
        let done: Vec<vk::Semaphore> = copy.done.into_iter().collect();
        let submit = vk::SubmitInfo::default()
            .wait_semaphores(copy.after)
            .wait_dst_stage_mask(&stages)
            .command_buffers(&commands)
            .signal_semaphores(&done);
        // SAFETY: the caller upholds this function's contract; `wait` leaves the fence unsignalled.
        unsafe { device.queue_submit(copy.queue, &[submit], self.fence) }
    }

    /// Waits until the picture is copied and readable. `turn` is the timeout of one wait in ns, after which the wait is
    /// repeated.
    ///
    /// # Errors
    /// Returns the device's error, for example if the device is lost.
    ///
    /// # Safety
    /// The commands must have been submitted on this device, which must be live.
    pub(super) unsafe fn wait(&self, device: &ash::Device, turn: u64) -> Result<(), vk::Result> {
        // SAFETY: the caller upholds this function's contract; the fence has no other user.
        unsafe {
            loop {
                match device.wait_for_fences(&[self.fence], true, turn) {
                    Err(vk::Result::TIMEOUT) => {}
                    other => break other?,
                }
            }
            device.reset_fences(&[self.fence])?;
            if !self.coherent {
                let all = vk::MappedMemoryRange::default()
                    .memory(self.memory)
                    .size(vk::WHOLE_SIZE);
                device.invalidate_mapped_memory_ranges(&[all])?;
            }
        }
        Ok(())
    }

    /// The bytes of a picture of `size`, which must fit in the slot.
    pub(super) fn bytes(&self, size: Size) -> &[u8] {
        let bytes = size.pixels() * 4;
        assert!(
            bytes as u64 <= self.capacity,
            "the picture fits in the slot"
        );
        // SAFETY: the memory is mapped for the slot's lifetime, has at least `capacity` bytes, and
        // is written only by copies that start when the slot is not borrowed.
        unsafe { std::slice::from_raw_parts(self.mapped, bytes) }
    }

    /// # Safety
    /// The device must be live, the slot idle, and its pool must have no other user during the
    /// call.
    pub(super) unsafe fn destroy(&self, device: &ash::Device) {
        // SAFETY: the caller upholds this function's contract; destroying null has no effect, and freeing the memory
        // also unmaps it.
        unsafe {
            if self.commands != vk::CommandBuffer::null() {
                device.free_command_buffers(self.pool, &[self.commands]);
            }
            device.destroy_fence(self.fence, None);
            device.destroy_buffer(self.buffer, None);
            device.free_memory(self.memory, None);
        }
    }
}

/// A transition of a region's image between two layouts.
fn barrier(
    part: &CopyRegion,
    from: vk::ImageLayout,
    to: vk::ImageLayout,
) -> vk::ImageMemoryBarrier<'static> {
    vk::ImageMemoryBarrier::default()
        .old_layout(from)
        .new_layout(to)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .image(part.image)
        .subresource_range(vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            base_mip_level: 0,
            level_count: 1,
            base_array_layer: part.layer,
            layer_count: 1,
        })
}

/// The copy command for a region of a picture of this size.
fn region(part: &CopyRegion, picture: Size) -> vk::BufferImageCopy {
    let [left, above] = part.at.map(u64::from);
    let [x, y] = part.from.map(u32::cast_signed);
    vk::BufferImageCopy {
        buffer_offset: (above * u64::from(picture.width) + left) * 4,
        buffer_row_length: picture.width,
        buffer_image_height: 0,
        image_subresource: vk::ImageSubresourceLayers {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            mip_level: 0,
            base_array_layer: part.layer,
            layer_count: 1,
        },
        image_offset: vk::Offset3D { x, y, z: 0 },
        image_extent: vk::Extent3D {
            width: part.size.width,
            height: part.size.height,
            depth: 1,
        },
    }
}

/// The best of the `allowed` memory types, and whether it is coherent.
fn memory_kind(memory: &vk::PhysicalDeviceMemoryProperties, allowed: u32) -> Option<(u32, bool)> {
    let kinds = (0..).zip(memory.memory_types_as_slice());
    let kinds = kinds.filter(|(index, _)| allowed & (1 << index) != 0);
    let best = KINDS.iter().find_map(|wanted| {
        kinds
            .clone()
            .find(|(_, kind)| kind.property_flags.contains(*wanted))
    })?;
    let coherent = vk::MemoryPropertyFlags::HOST_COHERENT;
    Some((best.0, best.1.property_flags.contains(coherent)))
}
