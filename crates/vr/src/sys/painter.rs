//! Draws things into the eyes' pictures, a frame at a time.

use std::sync::Arc;

use ash::vk;
use openuvr_proto::units::Size;
use openxr as xr;

use super::buffer::Buffer;
use super::gpu::Gpu;
use super::pipeline::{Pass, Pipelines, STAGES};
use super::target::{Target, colours};
use super::thing::{Constants, Thing, Vertex};
use crate::error::VrError;

/// Frames that the device may be busy with at once.
const TURNS: usize = 2;

/// How long one wait for the device lasts before it is begun anew, in ns.
const WAIT: u64 = 1_000_000_000;

/// What one eye sees.
pub(crate) struct Eye<'a> {
    pub(crate) target: &'a mut Target,
    pub(crate) things: Vec<Thing>,
}

/// Draws. It belongs to the thread of the session's frames.
pub(crate) struct Painter {
    gpu: Arc<Gpu>,
    pass: Pass,
    pipelines: Pipelines,
    corners: Buffer,
    commands: vk::CommandPool,
    turns: Vec<Turn>,
    next: usize,
}

/// What is used again when the device has done with it.
struct Turn {
    commands: vk::CommandBuffer,
    done: vk::Fence,
    busy: bool,
}

impl Painter {
    /// One that knows these corners, in the format that the session likes best.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        session: &xr::Session<xr::Vulkan>,
        corners: &[Vertex],
    ) -> Result<Painter, VrError> {
        let pass = Pass::new(gpu, colours(session)?)?;
        let pipelines = Pipelines::new(gpu, &pass)?;
        let bytes: Vec<u8> = (corners.iter())
            .flat_map(|corner| [corner.place, corner.colour])
            .flatten()
            .flat_map(f32::to_ne_bytes)
            .collect();
        let corners = Buffer::filled(gpu, vk::BufferUsageFlags::VERTEX_BUFFER, &bytes)?;
        let mut painter = Painter {
            gpu: Arc::clone(gpu),
            pass,
            pipelines,
            corners,
            commands: vk::CommandPool::null(),
            turns: Vec::new(),
            next: 0,
        };
        let pool = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(gpu.family);
        let device = &gpu.functions;
        // SAFETY: the device lives as long as `gpu`; what was made is destroyed with the painter.
        unsafe {
            painter.commands = device
                .create_command_pool(&pool, None)
                .map_err(VrError::vulkan("make a pool of commands"))?;
            for _ in 0..TURNS {
                let info = vk::CommandBufferAllocateInfo::default()
                    .command_pool(painter.commands)
                    .command_buffer_count(1);
                let commands = device
                    .allocate_command_buffers(&info)
                    .map_err(VrError::vulkan("make commands"))?[0];
                let done = device
                    .create_fence(&vk::FenceCreateInfo::default(), None)
                    .map_err(VrError::vulkan("make a fence"))?;
                painter.turns.push(Turn {
                    commands,
                    done,
                    busy: false,
                });
            }
        }
        Ok(painter)
    }

    /// What an eye is drawn into.
    pub(crate) fn target(
        &self,
        session: &xr::Session<xr::Vulkan>,
        size: Size,
    ) -> Result<Target, VrError> {
        Target::new(&self.gpu, session, &self.pass, size)
    }

    /// Draws all eyes, and gives their images back to the runtime.
    pub(crate) fn draw(&mut self, eyes: &mut [Eye<'_>]) -> Result<(), VrError> {
        let at = self.next;
        self.next = (at + 1) % TURNS;
        self.settle(at)?;
        let Turn { commands, done, .. } = self.turns[at];
        let device = &self.gpu.functions;
        let failed = VrError::vulkan("draw");
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the device has done with these commands.
        unsafe { device.begin_command_buffer(commands, &begin) }.map_err(&failed)?;
        for eye in eyes.iter_mut() {
            let framebuffer = eye.target.acquire()?;
            // SAFETY: the image was acquired, and is given back below.
            unsafe { self.record(commands, framebuffer, eye) }
        }
        let buffers = [commands];
        let submit = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: the queue is this thread's, outside of the session's own calls.
        unsafe {
            device.end_command_buffer(commands).map_err(&failed)?;
            device
                .queue_submit(self.gpu.queue, &[submit], done)
                .map_err(&failed)?;
        }
        self.turns[at].busy = true;
        eyes.iter_mut().try_for_each(|eye| eye.target.release())
    }

    /// # Safety
    /// The commands have begun, and the framebuffer is that of an image that was acquired.
    unsafe fn record(&self, commands: vk::CommandBuffer, into: vk::Framebuffer, eye: &Eye<'_>) {
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
        // SAFETY: the caller's duty; all that is bound lives as long as the painter, which waits for its turns.
        unsafe {
            device.cmd_begin_render_pass(commands, &begin, vk::SubpassContents::INLINE);
            device.cmd_set_viewport(commands, 0, &[viewport]);
            device.cmd_set_scissor(commands, 0, &[area]);
            device.cmd_bind_vertex_buffers(commands, 0, &[self.corners.buffer], &[0]);
            let mut bound = None;
            for thing in &eye.things {
                if bound != Some(thing.kind) {
                    bound = Some(thing.kind);
                    let pipeline = self.pipelines.of(thing.kind);
                    device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::GRAPHICS, pipeline);
                }
                // A structure of plain numbers without gaps.
                let bytes = std::slice::from_raw_parts(
                    (&raw const thing.constants).cast::<u8>(),
                    size_of::<Constants>(),
                );
                device.cmd_push_constants(commands, self.pipelines.layout, STAGES, 0, bytes);
                let count = thing.corners.end.saturating_sub(thing.corners.start);
                device.cmd_draw(commands, count, 1, thing.corners.start, 0);
            }
            device.cmd_end_render_pass(commands);
        }
    }

    /// Waits until the device has done with a turn.
    fn settle(&mut self, at: usize) -> Result<(), VrError> {
        let turn = &mut self.turns[at];
        let device = &self.gpu.functions;
        while turn.busy {
            // SAFETY: it was submitted with this fence.
            unsafe {
                match device.wait_for_fences(&[turn.done], true, WAIT) {
                    Err(vk::Result::TIMEOUT) => continue,
                    other => other.map_err(VrError::vulkan("end a frame"))?,
                }
                device
                    .reset_fences(&[turn.done])
                    .map_err(VrError::vulkan("reset a fence"))?;
            }
            turn.busy = false;
        }
        Ok(())
    }
}

impl Drop for Painter {
    fn drop(&mut self) {
        self.gpu.settle();
        let device = &self.gpu.functions;
        // SAFETY: the device lives and does nothing any more; null is passed over.
        unsafe {
            for turn in self.turns.drain(..) {
                device.destroy_fence(turn.done, None);
            }
            device.destroy_command_pool(self.commands, None);
        }
    }
}
