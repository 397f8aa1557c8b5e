//! Composes the layers of a frame into one picture, for frames whose layers cannot be copied.
//!
//! One picture is sufficient for all frames: the commands that read it precede the next composition on the same queue.
//! Each frame in flight has its own command buffer and descriptor pool.

use ash::vk;
use openuvr_media::capture::vulkan::{CopyRegion, Pixels};
use openuvr_proto::units::Size;

use super::device::Device;
use super::memory::Owned;
use super::pipeline::{FORMAT, STAGES, pipeline, render_pass};
use super::readable::{make_readable, readable, view_info};
use super::scene::Image;
use crate::logic::composition::{Eye, Surface};
use crate::logic::scene::Scene;
use crate::logic::views::MAX_LAYERS;

/// Vertex and fragment shader, from `layers.wgsl`.
const SHADERS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/layers.spv"));

/// Number of frames in flight.
const FRAMES_IN_FLIGHT: usize = 3;

/// Maximum number of surfaces, for both eyes together.
const SURFACES: u32 = MAX_LAYERS * 2;

/// Timeout of one wait for a fence, in ns; the wait is then repeated.
const WAIT: u64 = 1_000_000_000;

/// Push constants of a surface: `Layer` in `layers.wgsl`.
#[repr(C)]
struct Constants {
    corners: [[f32; 4]; 4],
    rect: [f32; 4],
    flags: u32,
    /// Padding to a multiple of the alignment.
    _rest: [u32; 3],
}

/// Size of the push constants. Every device supports 128 bytes.
const CONSTANTS: u32 = 96;
const _: () = assert!(size_of::<Constants>() == CONSTANTS as usize);

/// Composes pictures of one size.
pub(super) struct Composer {
    pub(super) size: Size,
    picture: Option<Owned>,
    view: vk::ImageView,
    pass: vk::RenderPass,
    framebuffer: vk::Framebuffer,
    sampler: vk::Sampler,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    commands: vk::CommandPool,
    in_flight: Vec<FrameResources>,
    next: usize,
}

/// Resources of a frame in flight.
struct FrameResources {
    commands: vk::CommandBuffer,
    sets: vk::DescriptorPool,
    done: vk::Fence,
    busy: bool,
}

impl Composer {
    /// # Errors
    /// Returns the device's error. In this case, all resources have been freed.
    ///
    /// # Safety
    /// The device is alive.
    pub(super) unsafe fn new(of: &Device, size: Size) -> Result<Composer, vk::Result> {
        let mut composer = Composer {
            size,
            picture: None,
            view: vk::ImageView::null(),
            pass: vk::RenderPass::null(),
            framebuffer: vk::Framebuffer::null(),
            sampler: vk::Sampler::null(),
            set_layout: vk::DescriptorSetLayout::null(),
            layout: vk::PipelineLayout::null(),
            pipeline: vk::Pipeline::null(),
            commands: vk::CommandPool::null(),
            in_flight: Vec::new(),
            next: 0,
        };
        // SAFETY: the caller guarantees that the device is alive. A handle that was not created is null, and destroying
        // a null handle has no effect.
        unsafe {
            let made = composer.make(of);
            made.inspect_err(|_| composer.destroy(&of.functions))?;
        }
        Ok(composer)
    }

    /// # Safety
    /// The same as for [`Composer::new`].
    unsafe fn make(&mut self, of: &Device) -> Result<(), vk::Result> {
        let device = &of.functions;
        let picture = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(FORMAT)
            .extent(vk::Extent3D {
                width: self.size.width,
                height: self.size.height,
                depth: 1,
            })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .usage(vk::ImageUsageFlags::COLOR_ATTACHMENT | vk::ImageUsageFlags::TRANSFER_SRC);
        let sampler = vk::SamplerCreateInfo::default()
            .mag_filter(vk::Filter::LINEAR)
            .min_filter(vk::Filter::LINEAR)
            .address_mode_u(vk::SamplerAddressMode::CLAMP_TO_EDGE)
            .address_mode_v(vk::SamplerAddressMode::CLAMP_TO_EDGE);
        let pool = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(of.family);
        // SAFETY: the caller guarantees that the device is alive. Each object uses only objects created before it.
        unsafe {
            let picture = *self
                .picture
                .insert(Owned::new(device, &of.memory, &picture)?);
            self.view = device.create_image_view(&view_info(picture.image, FORMAT, 0), None)?;
            self.pass = render_pass(device)?;
            let views = [self.view];
            let framebuffer = vk::FramebufferCreateInfo::default()
                .render_pass(self.pass)
                .attachments(&views)
                .width(self.size.width)
                .height(self.size.height)
                .layers(1);
            self.framebuffer = device.create_framebuffer(&framebuffer, None)?;
            self.sampler = device.create_sampler(&sampler, None)?;
            self.make_pipeline(device)?;
            self.commands = device.create_command_pool(&pool, None)?;
            for _ in 0..FRAMES_IN_FLIGHT {
                let frame = self.new_frame(device)?;
                self.in_flight.push(frame);
            }
        }
        Ok(())
    }

    /// # Safety
    /// The same as for [`Composer::new`].
    unsafe fn new_frame(&self, device: &ash::Device) -> Result<FrameResources, vk::Result> {
        let sizes = [
            vk::DescriptorType::SAMPLED_IMAGE,
            vk::DescriptorType::SAMPLER,
        ]
        .map(|kind| {
            vk::DescriptorPoolSize::default()
                .ty(kind)
                .descriptor_count(SURFACES)
        });
        let pool = vk::DescriptorPoolCreateInfo::default()
            .max_sets(SURFACES)
            .pool_sizes(&sizes);
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.commands)
            .command_buffer_count(1);
        // SAFETY: the caller guarantees that the device is alive.
        unsafe {
            let commands = device.allocate_command_buffers(&info)?[0];
            let sets = device.create_descriptor_pool(&pool, None)?;
            let done = device.create_fence(&vk::FenceCreateInfo::default(), None);
            let done = done.inspect_err(|_| device.destroy_descriptor_pool(sets, None))?;
            Ok(FrameResources {
                commands,
                sets,
                done,
                busy: false,
            })
        }
    }

    /// # Safety
    /// The same as for [`Composer::new`].
    unsafe fn make_pipeline(&mut self, device: &ash::Device) -> Result<(), vk::Result> {
        let bindings = [
            (0, vk::DescriptorType::SAMPLED_IMAGE),
            (1, vk::DescriptorType::SAMPLER),
        ]
        .map(|(binding, kind)| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(kind)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::FRAGMENT)
        });
        let set = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let constants = [vk::PushConstantRange::default()
            .stage_flags(STAGES)
            .size(CONSTANTS)];
        // SAFETY: the caller guarantees that the device is alive.
        unsafe {
            self.set_layout = device.create_descriptor_set_layout(&set, None)?;
            let sets = [self.set_layout];
            let layout = vk::PipelineLayoutCreateInfo::default()
                .set_layouts(&sets)
                .push_constant_ranges(&constants);
            self.layout = device.create_pipeline_layout(&layout, None)?;
            let words = SHADERS.chunks_exact(4);
            let words = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            let words: Vec<u32> = words.collect();
            let module = vk::ShaderModuleCreateInfo::default().code(&words);
            let module = device.create_shader_module(&module, None)?;
            let made = pipeline(device, module, self.layout, self.pass);
            device.destroy_shader_module(module, None);
            self.pipeline = made?;
        }
        Ok(())
    }

    /// Composes a frame and returns the picture.
    ///
    /// # Errors
    /// Returns the device's error.
    ///
    /// # Safety
    /// This thread may use the queue, and the images are released.
    pub(super) unsafe fn compose(
        &mut self,
        of: &Device,
        scene: &Scene<Image>,
    ) -> Result<(Pixels, Vec<CopyRegion>), vk::Result> {
        let device = &of.functions;
        let index = self.next;
        self.next = (index + 1) % FRAMES_IN_FLIGHT;
        // SAFETY: the caller guarantees that this thread may use the queue and that the images are released. The
        // resources are reused only after the device has finished with them.
        unsafe {
            self.in_flight[index].wait_idle(device)?;
            let FrameResources {
                commands,
                sets,
                done,
                ..
            } = self.in_flight[index];
            device.reset_descriptor_pool(sets, vk::DescriptorPoolResetFlags::empty())?;
            let begin = vk::CommandBufferBeginInfo::default()
                .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            device.begin_command_buffer(commands, &begin)?;
            self.draw(of, scene, commands, sets)?;
            device.end_command_buffer(commands)?;
            let buffers = [commands];
            let submit = vk::SubmitInfo::default().command_buffers(&buffers);
            device.queue_submit(of.queue, &[submit], done)?;
        }
        self.in_flight[index].busy = true;
        let part = CopyRegion {
            image: self.picture.map_or(vk::Image::null(), |own| own.image),
            layer: 0,
            layout: vk::ImageLayout::TRANSFER_SRC_OPTIMAL,
            from: [0, 0],
            size: self.size,
            at: [0, 0],
        };
        Ok((Pixels::Rgba8, vec![part]))
    }

    /// # Safety
    /// The same as for [`Composer::compose`]; `commands` is in the recording state.
    unsafe fn draw(
        &self,
        of: &Device,
        scene: &Scene<Image>,
        commands: vk::CommandBuffer,
        sets: vk::DescriptorPool,
    ) -> Result<(), vk::Result> {
        let device = &of.functions;
        let shown: Vec<(usize, &Eye, &Surface<Image>)> = (scene.eyes.iter().enumerate())
            .flat_map(|(at, eye)| eye.surfaces.iter().map(move |s| (at, &eye.eye, s)))
            .collect();
        // SAFETY: the caller guarantees that this thread may use the queue, that the images are released, and that
        // `commands` is in the recording state. All bound resources live until the device has finished the frame.
        unsafe {
            let mut ready: Vec<(vk::Image, u32)> = Vec::new();
            let mut views = Vec::new();
            for (.., surface) in &shown {
                let image = &surface.image;
                let readable = readable(of, image)?;
                let key = (image.image(), image.layer);
                if !ready.contains(&key) {
                    ready.push(key);
                    make_readable(device, commands, image, &readable, true);
                }
                views.push(self.bind(device, sets, readable.view)?);
            }
            let black = [vk::ClearValue::default()];
            let area = rect([0, 0], self.size);
            let begin = vk::RenderPassBeginInfo::default()
                .render_pass(self.pass)
                .framebuffer(self.framebuffer)
                .render_area(area)
                .clear_values(&black);
            device.cmd_begin_render_pass(commands, &begin, vk::SubpassContents::INLINE);
            device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::GRAPHICS, self.pipeline);
            for ((at, eye, surface), set) in shown.iter().zip(views) {
                let left = scene.left_of(*at);
                device.cmd_set_viewport(commands, 0, &[viewport(left, scene.size)]);
                device.cmd_set_scissor(commands, 0, &[rect([left, 0], scene.size)]);
                let graphics = vk::PipelineBindPoint::GRAPHICS;
                device.cmd_bind_descriptor_sets(commands, graphics, self.layout, 0, &[set], &[]);
                let constants = constants(surface, eye);
                // `Constants` contains only numbers, without uninitialised padding.
                let bytes = std::slice::from_raw_parts(
                    (&raw const constants).cast::<u8>(),
                    size_of::<Constants>(),
                );
                device.cmd_push_constants(commands, self.layout, STAGES, 0, bytes);
                device.cmd_draw(commands, 4, 1, 0, 0);
            }
            device.cmd_end_render_pass(commands);
            let mut back: Vec<(vk::Image, u32)> = Vec::new();
            for (.., surface) in &shown {
                let image = &surface.image;
                let key = (image.image(), image.layer);
                if !back.contains(&key) {
                    back.push(key);
                    let readable = readable(of, image)?;
                    make_readable(device, commands, image, &readable, false);
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// The same as for [`Composer::draw`].
    unsafe fn bind(
        &self,
        device: &ash::Device,
        sets: vk::DescriptorPool,
        view: vk::ImageView,
    ) -> Result<vk::DescriptorSet, vk::Result> {
        let layouts = [self.set_layout];
        let info = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(sets)
            .set_layouts(&layouts);
        // SAFETY: the caller upholds the contract of `draw`.
        unsafe {
            let set = device.allocate_descriptor_sets(&info)?[0];
            let image = [vk::DescriptorImageInfo::default()
                .image_view(view)
                .image_layout(vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL)];
            let sampler = [vk::DescriptorImageInfo::default().sampler(self.sampler)];
            let write = |binding, kind| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(binding)
                    .descriptor_type(kind)
            };
            let writes = [
                write(0, vk::DescriptorType::SAMPLED_IMAGE).image_info(&image),
                write(1, vk::DescriptorType::SAMPLER).image_info(&sampler),
            ];
            device.update_descriptor_sets(&writes, &[]);
            Ok(set)
        }
    }

    /// Waits until the device has finished all frames in flight.
    ///
    /// # Safety
    /// The device is alive.
    pub(super) unsafe fn wait_idle(&mut self, device: &ash::Device) {
        for frame in &mut self.in_flight {
            // SAFETY: the caller guarantees that the device is alive. An error means that the device is lost and
            // executes nothing any more.
            let _ = unsafe { frame.wait_idle(device) };
        }
    }

    /// # Safety
    /// The device is alive and does not use the composer any more.
    pub(super) unsafe fn destroy(&mut self, device: &ash::Device) {
        // SAFETY: the caller guarantees that the device is alive and does not use the composer any more. Null handles
        // are ignored.
        unsafe {
            for frame in self.in_flight.drain(..) {
                device.destroy_descriptor_pool(frame.sets, None);
                device.destroy_fence(frame.done, None);
            }
            device.destroy_command_pool(self.commands, None);
            device.destroy_pipeline(self.pipeline, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.set_layout, None);
            device.destroy_sampler(self.sampler, None);
            device.destroy_framebuffer(self.framebuffer, None);
            device.destroy_render_pass(self.pass, None);
            device.destroy_image_view(self.view, None);
            if let Some(picture) = self.picture.take() {
                picture.destroy(device);
            }
        }
    }
}

impl FrameResources {
    /// # Safety
    /// The device is alive.
    unsafe fn wait_idle(&mut self, device: &ash::Device) -> Result<(), vk::Result> {
        while self.busy {
            // SAFETY: the caller guarantees that the device is alive. The commands were submitted with this fence.
            unsafe {
                match device.wait_for_fences(&[self.done], true, WAIT) {
                    Err(vk::Result::TIMEOUT) => continue,
                    other => other?,
                }
                device.reset_fences(&[self.done])?;
            }
            self.busy = false;
        }
        Ok(())
    }
}

fn rect([x, y]: [u32; 2], size: Size) -> vk::Rect2D {
    vk::Rect2D {
        offset: vk::Offset2D {
            x: x.cast_signed(),
            y: y.cast_signed(),
        },
        extent: vk::Extent2D {
            width: size.width,
            height: size.height,
        },
    }
}

#[allow(clippy::cast_precision_loss, reason = "sides have 14 bits")]
fn viewport(left: u32, size: Size) -> vk::Viewport {
    vk::Viewport {
        x: left as f32,
        y: 0.0,
        width: size.width as f32,
        height: size.height as f32,
        min_depth: 0.0,
        max_depth: 1.0,
    }
}

#[allow(clippy::cast_precision_loss, reason = "sides have 14 bits")]
fn constants(surface: &Surface<Image>, eye: &Eye) -> Constants {
    let rect = surface.rect;
    let whole = surface.image.swapchain_images.size();
    let across = |x: u32| x as f32 / whole.width as f32;
    let down = |y: u32| y as f32 / whole.height as f32;
    let (right, below) = (rect.x + rect.size.width, rect.y + rect.size.height);
    Constants {
        corners: surface.shape.corners(eye),
        rect: [across(rect.x), down(rect.y), across(right), down(below)],
        flags: u32::from(surface.blend.alpha) | u32::from(surface.blend.unpremultiplied) << 1,
        _rest: [0; 3],
    }
}
