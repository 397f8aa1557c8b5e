//! Draws the eyes' images of a frame.

use std::sync::Arc;

use ash::vk;
use openuvr_proto::units::Size;
use openxr as xr;

use super::buffer::Buffer;
use super::draw_call::{Constants, DrawCall, Vertex};
use super::gpu::Gpu;
use super::pipeline::{Pass, Pipelines, STAGES};
use super::target::{Target, colours};
use crate::error::VrError;

/// Maximum number of frames in flight on the device.
const FRAMES_IN_FLIGHT: usize = 2;

/// The timeout of one wait for the device, in ns; the wait is then repeated.
const WAIT: u64 = 1_000_000_000;

pub(crate) struct EyeFrame<'a> {
    pub(crate) target: &'a mut Target,
    pub(crate) draw_calls: Vec<DrawCall>,
}

/// The renderer. It is used only on the thread that runs the session's frames.
pub(crate) struct Painter {
    gpu: Arc<Gpu>,
    pass: Pass,
    pipelines: Pipelines,
    vertices: Buffer,
    commands: vk::CommandPool,
    slots: Vec<FrameSlot>,
    next: usize,
}

/// The resources of a frame in flight.
struct FrameSlot {
    commands: vk::CommandBuffer,
    done: vk::Fence,
    busy: bool,
}

impl Painter {
    /// A painter with these vertices. It draws in the colour format that the runtime prefers.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        session: &xr::Session<xr::Vulkan>,
        vertices: &[Vertex],
    ) -> Result<Painter, VrError> {
        let pass = Pass::new(gpu, colours(session)?)?;
        let pipelines = Pipelines::new(gpu, &pass)?;
        let bytes: Vec<u8> = (vertices.iter())
            .flat_map(|corner| [corner.position, corner.colour])
            .flatten()
            .flat_map(f32::to_ne_bytes)
            .collect();
        let vertices = Buffer::filled(gpu, vk::BufferUsageFlags::VERTEX_BUFFER, &bytes)?;
        let mut painter = Painter {
            gpu: Arc::clone(gpu),
            pass,
            pipelines,
            vertices,
            commands: vk::CommandPool::null(),
            slots: Vec::new(),
            next: 0,
        };
        let pool = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(gpu.family);
        let device = &gpu.functions;
        // SAFETY: the device exists as long as `gpu`; the created objects are destroyed with the painter.
        unsafe {
            painter.commands = device
                .create_command_pool(&pool, None)
                .map_err(VrError::vulkan("create a command pool"))?;
            for _ in 0..FRAMES_IN_FLIGHT {
                let info = vk::CommandBufferAllocateInfo::default()
                    .command_pool(painter.commands)
                    .command_buffer_count(1);
                let commands = device
                    .allocate_command_buffers(&info)
                    .map_err(VrError::vulkan("allocate command buffers"))?[0];
                let done = device
                    .create_fence(&vk::FenceCreateInfo::default(), None)
                    .map_err(VrError::vulkan("create a fence"))?;
                painter.slots.push(FrameSlot {
                    commands,
                    done,
                    busy: false,
                });
            }
        }
        Ok(painter)
    }

    /// A render target for an eye.
    pub(crate) fn target(
        &self,
        session: &xr::Session<xr::Vulkan>,
        size: Size,
    ) -> Result<Target, VrError> {
        Target::new(&self.gpu, session, &self.pass, size)
    }

    /// Draws all eyes, and releases their images to the runtime.
    pub(crate) fn draw(&mut self, eyes: &mut [EyeFrame<'_>]) -> Result<(), VrError> {
        let at = self.next;
        self.next = (at + 1) % FRAMES_IN_FLIGHT;
        self.wait_idle(at)?;
        let FrameSlot { commands, done, .. } = self.slots[at];
        let device = &self.gpu.functions;
        let failed = VrError::vulkan("submit a frame");
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the device has finished these commands.
        unsafe { device.begin_command_buffer(commands, &begin) }.map_err(&failed)?;
        for eye in eyes.iter_mut() {
            let framebuffer = eye.target.acquire()?;
            // SAFETY: the image was acquired, and is released below.
            unsafe { self.record(commands, framebuffer, eye) }
        }
        let buffers = [commands];
        let submit = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: only this thread uses the queue. OpenXR calls that use the queue are made on this thread, too, and
        // therefore not at this time.
        unsafe {
            device.end_command_buffer(commands).map_err(&failed)?;
            device
                .queue_submit(self.gpu.queue, &[submit], done)
                .map_err(&failed)?;
        }
        self.slots[at].busy = true;
        eyes.iter_mut().try_for_each(|eye| eye.target.release())
    }

    /// # Safety
    /// The command buffer must be recording, and the framebuffer's image must be acquired.
    unsafe fn record(
        &self,
        commands: vk::CommandBuffer,
        into: vk::Framebuffer,
        eye: &EyeFrame<'_>,
    ) {
        let device = &self.gpu.functions;
        let size = eye.target.size();
        let area = vk::Rect2D {
            offset: vk::Offset2D::default(),
            extent: vk::Extent2D {
                width: size.width,
                height: size.height,
            },
        };
        let clear = [
            vk::ClearValue::default(),
            vk::ClearValue {
                depth_stencil: vk::ClearDepthStencilValue {
                    depth: 1.0,
                    stencil: 0,
                },
            },
        ];
        let begin = vk::RenderPassBeginInfo::default()
            .render_pass(self.pass.handle)
            .framebuffer(into)
            .render_area(area)
            .clear_values(&clear);
        let viewport = vk::Viewport {
            x: 0.0,
            y: 0.0,
            width: size.width as f32,
            height: size.height as f32,
            min_depth: 0.0,
            max_depth: 1.0,
        };
        // SAFETY: by the caller's contract. All bound objects exist as long as the painter, which waits for its slots
        // before it is dropped.
        unsafe {
            device.cmd_begin_render_pass(commands, &begin, vk::SubpassContents::INLINE);
            device.cmd_set_viewport(commands, 0, &[viewport]);
            device.cmd_set_scissor(commands, 0, &[area]);
            device.cmd_bind_vertex_buffers(commands, 0, &[self.vertices.buffer], &[0]);
            let mut bound = None;
            for call in &eye.draw_calls {
                if bound != Some(call.kind) {
                    bound = Some(call.kind);
                    let pipeline = self.pipelines.of(call.kind);
                    device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::GRAPHICS, pipeline);
                }
                // The constants are a structure of plain numbers without padding.
                let bytes = std::slice::from_raw_parts(
                    (&raw const call.constants).cast::<u8>(),
                    size_of::<Constants>(),
                );
                device.cmd_push_constants(commands, self.pipelines.layout, STAGES, 0, bytes);
                let count = call.vertices.end.saturating_sub(call.vertices.start);
                device.cmd_draw(commands, count, 1, call.vertices.start, 0);
            }
            device.cmd_end_render_pass(commands);
        }
    }

    /// Waits until the device has finished a slot.
    fn wait_idle(&mut self, at: usize) -> Result<(), VrError> {
        let slot = &mut self.slots[at];
        let device = &self.gpu.functions;
        while slot.busy {
            // SAFETY: the slot was submitted with this fence.
            unsafe {
                match device.wait_for_fences(&[slot.done], true, WAIT) {
                    Err(vk::Result::TIMEOUT) => continue,
                    other => other.map_err(VrError::vulkan("wait for a frame"))?,
                }
                device
                    .reset_fences(&[slot.done])
                    .map_err(VrError::vulkan("reset a fence"))?;
            }
            slot.busy = false;
        }
        Ok(())
    }
}

impl Drop for Painter {
    fn drop(&mut self) {
        self.gpu.wait_idle();
        let device = &self.gpu.functions;
        // SAFETY: the device exists and is idle; null is ignored.
        unsafe {
            for slot in self.slots.drain(..) {
                device.destroy_fence(slot.done, None);
            }
            device.destroy_command_pool(self.commands, None);
        }
    }
}
