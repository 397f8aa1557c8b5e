//! Draws the layers of a frame over each other into one picture: what can't be copied as it is.
//!
//! One picture is enough: what reads it is on the same queue, before what draws it anew. Commands and
//! descriptors are used in turns, each again when the device has done with it.

use std::sync::PoisonError;

use ash::vk;
use openuvr_media::capture::vulkan::{Part, Pixels};
use openuvr_proto::units::Size;

use super::graphics::{Graphics, Image, Scene};
use super::memory::Owned;
use crate::logic::composition::{Eye, Surface};
use crate::logic::views::MOST_LAYERS;

/// Both stages, from `layers.wgsl`.
const SHADERS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/layers.spv"));

/// Frames that the device may be busy with at once.
const TURNS: usize = 3;

/// The picture is in sRGB, and what is drawn into it is linear: the device converts.
const FORMAT: vk::Format = vk::Format::R8G8B8A8_SRGB;

/// Surfaces of both eyes.
const SURFACES: u32 = MOST_LAYERS * 2;

/// How long one wait for the device lasts before it is begun anew, in ns.
const WAIT: u64 = 1_000_000_000;

/// What the shader gets for each surface: see `Layer` in `layers.wgsl`.
#[repr(C)]
struct Constants {
    corners: [[f32; 4]; 4],
    part: [f32; 4],
    flags: u32,
    /// The structure's size is a multiple of its largest part's.
    _rest: [u32; 3],
}

/// Bytes of them; every device has room for 128.
const CONSTANTS: u32 = 96;
const _: () = assert!(size_of::<Constants>() == CONSTANTS as usize);

/// An image as the shader reads it: itself, or what its samples were joined into.
#[derive(Clone, Copy)]
pub(super) struct Readable {
    view: vk::ImageView,
    resolved: Option<Owned>,
}

impl Readable {
    /// # Safety
    /// The device lives and does nothing with it any more.
    pub(super) unsafe fn destroy(&self, device: &ash::Device) {
        // SAFETY: the caller's duty.
        unsafe {
            device.destroy_image_view(self.view, None);
            if let Some(resolved) = &self.resolved {
                resolved.destroy(device);
            }
        }
    }
}

/// What draws pictures of one size.
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
    turns: Vec<Turn>,
    next: usize,
}

/// What one frame is drawn with.
struct Turn {
    commands: vk::CommandBuffer,
    sets: vk::DescriptorPool,
    done: vk::Fence,
    busy: bool,
}

impl Composer {
    /// # Errors
    /// What the device says; then nothing is left over.
    ///
    /// # Safety
    /// The device lives.
    pub(super) unsafe fn new(of: &Graphics, size: Size) -> Result<Composer, vk::Result> {
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
            turns: Vec::new(),
            next: 0,
        };
        // SAFETY: the caller's duty; what was not made is null, which destroying passes over.
        unsafe {
            let made = composer.make(of);
            made.inspect_err(|_| composer.destroy(&of.device))?;
        }
        Ok(composer)
    }

    /// # Safety
    /// As [`Composer::new`].
    unsafe fn make(&mut self, of: &Graphics) -> Result<(), vk::Result> {
        let device = &of.device;
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
        // SAFETY: the caller's duty; each object is made with what was made before it.
        unsafe {
            let picture = *self
                .picture
                .insert(Owned::new(device, &of.memory, &picture)?);
            self.view = device.create_image_view(&seen(picture.image, FORMAT, 0), None)?;
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
            for _ in 0..TURNS {
                let turn = self.turn(device)?;
                self.turns.push(turn);
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`Composer::new`].
    unsafe fn turn(&self, device: &ash::Device) -> Result<Turn, vk::Result> {
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
        // SAFETY: the caller's duty.
        unsafe {
            let commands = device.allocate_command_buffers(&info)?[0];
            let sets = device.create_descriptor_pool(&pool, None)?;
            let done = device.create_fence(&vk::FenceCreateInfo::default(), None);
            let done = done.inspect_err(|_| device.destroy_descriptor_pool(sets, None))?;
            Ok(Turn {
                commands,
                sets,
                done,
                busy: false,
            })
        }
    }

    /// # Safety
    /// As [`Composer::new`].
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
        // SAFETY: the caller's duty.
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

    /// Draws a frame; the picture's one part.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Safety
    /// This thread may use the queue, and the images are those of released ones.
    pub(super) unsafe fn compose(
        &mut self,
        of: &Graphics,
        scene: &Scene,
    ) -> Result<(Pixels, Vec<Part>), vk::Result> {
        let device = &of.device;
        let turn = self.next;
        self.next = (turn + 1) % TURNS;
        // SAFETY: the caller's duty; a turn is begun when the device has done with it.
        unsafe {
            self.turns[turn].settle(device)?;
            let Turn {
                commands,
                sets,
                done,
                ..
            } = self.turns[turn];
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
        self.turns[turn].busy = true;
        let part = Part {
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
    /// As [`Composer::compose`]; `commands` and `sets` are those of a turn that has begun.
    unsafe fn draw(
        &self,
        of: &Graphics,
        scene: &Scene,
        commands: vk::CommandBuffer,
        sets: vk::DescriptorPool,
    ) -> Result<(), vk::Result> {
        let device = &of.device;
        let shown: Vec<(usize, &Eye, &Surface<Image>)> = (scene.eyes.iter().enumerate())
            .flat_map(|(at, seen)| seen.surfaces.iter().map(move |s| (at, &seen.eye, s)))
            .collect();
        // SAFETY: the caller's duty; all that is bound lives as long as the turn.
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
                // A structure of plain numbers without gaps.
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
    /// As [`Composer::draw`].
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
        // SAFETY: the caller's duty.
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

    /// Waits until the device has done with all that was drawn.
    ///
    /// # Safety
    /// The device lives.
    pub(super) unsafe fn settle(&mut self, device: &ash::Device) {
        for turn in &mut self.turns {
            // SAFETY: the caller's duty. One that is lost has done with everything.
            let _ = unsafe { turn.settle(device) };
        }
    }

    /// # Safety
    /// The device lives and does nothing with it any more.
    pub(super) unsafe fn destroy(&mut self, device: &ash::Device) {
        // SAFETY: the caller's duty; null is passed over.
        unsafe {
            for turn in self.turns.drain(..) {
                device.destroy_descriptor_pool(turn.sets, None);
                device.destroy_fence(turn.done, None);
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

impl Turn {
    /// # Safety
    /// The device lives.
    unsafe fn settle(&mut self, device: &ash::Device) -> Result<(), vk::Result> {
        while self.busy {
            // SAFETY: the caller's duty; it was submitted with this fence.
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

const STAGES: vk::ShaderStageFlags = vk::ShaderStageFlags::from_raw(
    vk::ShaderStageFlags::VERTEX.as_raw() | vk::ShaderStageFlags::FRAGMENT.as_raw(),
);

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
    let part = surface.part;
    let whole = surface.image.swapchain.pictures.size();
    let across = |x: u32| x as f32 / whole.width as f32;
    let down = |y: u32| y as f32 / whole.height as f32;
    let (right, below) = (part.x + part.size.width, part.y + part.size.height);
    Constants {
        corners: surface.shape.corners(eye),
        part: [across(part.x), down(part.y), across(right), down(below)],
        flags: u32::from(surface.blend.alpha) | u32::from(surface.blend.straight) << 1,
        _rest: [0; 3],
    }
}

fn seen(image: vk::Image, format: vk::Format, layer: u32) -> vk::ImageViewCreateInfo<'static> {
    vk::ImageViewCreateInfo::default()
        .image(image)
        .view_type(vk::ImageViewType::TYPE_2D)
        .format(format)
        .subresource_range(first_mip(layer))
}

fn first_mip(layer: u32) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        base_mip_level: 0,
        level_count: 1,
        base_array_layer: layer,
        layer_count: 1,
    }
}

/// What the shader reads an image through, made at its first use.
///
/// # Safety
/// The device lives.
unsafe fn readable(of: &Graphics, image: &Image) -> Result<Readable, vk::Result> {
    let pictures = &image.swapchain.pictures;
    let key = (image.index, image.layer);
    let mut known = pictures.seen.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, readable)) = known.iter().find(|(of, _)| *of == key) {
        return Ok(*readable);
    }
    let (format, size) = (pictures.format(), pictures.size());
    // SAFETY: the caller's duty.
    let made = unsafe {
        if pictures.samples() == vk::SampleCountFlags::TYPE_1 {
            let view = seen(image.image(), format, image.layer);
            Readable {
                view: of.device.create_image_view(&view, None)?,
                resolved: None,
            }
        } else {
            let info = vk::ImageCreateInfo::default()
                .image_type(vk::ImageType::TYPE_2D)
                .format(format)
                .extent(vk::Extent3D {
                    width: size.width,
                    height: size.height,
                    depth: 1,
                })
                .mip_levels(1)
                .array_layers(1)
                .samples(vk::SampleCountFlags::TYPE_1)
                .usage(vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::SAMPLED);
            let own = Owned::new(&of.device, &of.memory, &info)?;
            let view = of
                .device
                .create_image_view(&seen(own.image, format, 0), None);
            Readable {
                view: view.inspect_err(|_| own.destroy(&of.device))?,
                resolved: Some(own),
            }
        }
    };
    known.push((key, made));
    Ok(made)
}

/// Orders an image to be read by the shader, or to be the application's again.
///
/// # Safety
/// The device lives, and the commands are being recorded.
unsafe fn make_readable(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    image: &Image,
    readable: &Readable,
    forth: bool,
) {
    let drawn = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
    let read = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;
    let (from, to) = (
        vk::ImageLayout::TRANSFER_SRC_OPTIMAL,
        vk::ImageLayout::TRANSFER_DST_OPTIMAL,
    );
    let all = vk::PipelineStageFlags::ALL_COMMANDS;
    let none = vk::DependencyFlags::empty();
    let barrier = |which, layer, from, to| {
        // Frames are few: each of these orders everything.
        let any = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let barrier = vk::ImageMemoryBarrier::default()
            .src_access_mask(any)
            .dst_access_mask(any)
            .old_layout(from)
            .new_layout(to)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .image(which)
            .subresource_range(first_mip(layer));
        // SAFETY: the caller's duty.
        unsafe { device.cmd_pipeline_barrier(commands, all, all, none, &[], &[], &[barrier]) };
    };
    let (theirs, layer) = (image.image(), image.layer);
    match (&readable.resolved, forth) {
        (None, true) => barrier(theirs, layer, drawn, read),
        (None, false) => barrier(theirs, layer, read, drawn),
        (Some(_), false) => {}
        (Some(own), true) => {
            barrier(theirs, layer, drawn, from);
            barrier(own.image, 0, vk::ImageLayout::UNDEFINED, to);
            let size = image.swapchain.pictures.size();
            let place = |layer| vk::ImageSubresourceLayers {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                mip_level: 0,
                base_array_layer: layer,
                layer_count: 1,
            };
            let region = vk::ImageResolve {
                src_subresource: place(layer),
                dst_subresource: place(0),
                extent: vk::Extent3D {
                    width: size.width,
                    height: size.height,
                    depth: 1,
                },
                ..vk::ImageResolve::default()
            };
            // SAFETY: the caller's duty.
            unsafe { device.cmd_resolve_image(commands, theirs, from, own.image, to, &[region]) };
            barrier(theirs, layer, from, drawn);
            barrier(own.image, 0, to, read);
        }
    }
}

/// Black at first, to be copied from at the end.
///
/// # Safety
/// The device lives.
unsafe fn render_pass(device: &ash::Device) -> Result<vk::RenderPass, vk::Result> {
    let attachments = [vk::AttachmentDescription::default()
        .format(FORMAT)
        .samples(vk::SampleCountFlags::TYPE_1)
        .load_op(vk::AttachmentLoadOp::CLEAR)
        .store_op(vk::AttachmentStoreOp::STORE)
        .stencil_load_op(vk::AttachmentLoadOp::DONT_CARE)
        .stencil_store_op(vk::AttachmentStoreOp::DONT_CARE)
        .initial_layout(vk::ImageLayout::UNDEFINED)
        .final_layout(vk::ImageLayout::TRANSFER_SRC_OPTIMAL)];
    let colours = [vk::AttachmentReference::default()
        .attachment(0)
        .layout(vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL)];
    let subpasses = [vk::SubpassDescription::default()
        .pipeline_bind_point(vk::PipelineBindPoint::GRAPHICS)
        .color_attachments(&colours)];
    let output = vk::PipelineStageFlags::COLOR_ATTACHMENT_OUTPUT;
    let copy = vk::PipelineStageFlags::TRANSFER;
    let (written, read) = (
        vk::AccessFlags::COLOR_ATTACHMENT_WRITE,
        vk::AccessFlags::TRANSFER_READ,
    );
    let dependency = |before: (u32, _, _), after: (u32, _, _)| {
        vk::SubpassDependency::default()
            .src_subpass(before.0)
            .src_stage_mask(before.1)
            .src_access_mask(before.2)
            .dst_subpass(after.0)
            .dst_stage_mask(after.1)
            .dst_access_mask(after.2)
    };
    // The picture before was copied, and this one is to be.
    let outside = (vk::SUBPASS_EXTERNAL, copy, read);
    let inside = (0, output, written);
    let dependencies = [dependency(outside, inside), dependency(inside, outside)];
    let info = vk::RenderPassCreateInfo::default()
        .attachments(&attachments)
        .subpasses(&subpasses)
        .dependencies(&dependencies);
    // SAFETY: the caller's duty.
    unsafe { device.create_render_pass(&info, None) }
}

/// Two triangles over what is there, joined by premultiplied alpha.
///
/// # Safety
/// The device lives, and so do these objects of it.
unsafe fn pipeline(
    device: &ash::Device,
    module: vk::ShaderModule,
    layout: vk::PipelineLayout,
    pass: vk::RenderPass,
) -> Result<vk::Pipeline, vk::Result> {
    let stage = |stage, name| {
        vk::PipelineShaderStageCreateInfo::default()
            .stage(stage)
            .module(module)
            .name(name)
    };
    let stages = [
        stage(vk::ShaderStageFlags::VERTEX, c"corner"),
        stage(vk::ShaderStageFlags::FRAGMENT, c"pixel"),
    ];
    let input = vk::PipelineVertexInputStateCreateInfo::default();
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default()
        .topology(vk::PrimitiveTopology::TRIANGLE_STRIP);
    let viewports = vk::PipelineViewportStateCreateInfo::default()
        .viewport_count(1)
        .scissor_count(1);
    let raster = vk::PipelineRasterizationStateCreateInfo::default()
        .polygon_mode(vk::PolygonMode::FILL)
        .cull_mode(vk::CullModeFlags::NONE)
        .line_width(1.0);
    let samples = vk::PipelineMultisampleStateCreateInfo::default()
        .rasterization_samples(vk::SampleCountFlags::TYPE_1);
    let over = [vk::PipelineColorBlendAttachmentState::default()
        .blend_enable(true)
        .src_color_blend_factor(vk::BlendFactor::ONE)
        .dst_color_blend_factor(vk::BlendFactor::ONE_MINUS_SRC_ALPHA)
        .color_blend_op(vk::BlendOp::ADD)
        .src_alpha_blend_factor(vk::BlendFactor::ONE)
        .dst_alpha_blend_factor(vk::BlendFactor::ONE_MINUS_SRC_ALPHA)
        .alpha_blend_op(vk::BlendOp::ADD)
        .color_write_mask(vk::ColorComponentFlags::RGBA)];
    let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&over);
    let later = [vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR];
    let later = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&later);
    let info = [vk::GraphicsPipelineCreateInfo::default()
        .stages(&stages)
        .vertex_input_state(&input)
        .input_assembly_state(&assembly)
        .viewport_state(&viewports)
        .rasterization_state(&raster)
        .multisample_state(&samples)
        .color_blend_state(&blend)
        .dynamic_state(&later)
        .layout(layout)
        .render_pass(pass)];
    // SAFETY: the caller's duty.
    let made = unsafe { device.create_graphics_pipelines(vk::PipelineCache::null(), &info, None) };
    match made {
        Ok(pipelines) => Ok(pipelines[0]),
        Err((_, error)) => Err(error),
    }
}
