//! The render pass, and a pipeline for each kind of draw call.

use std::sync::Arc;

use ash::vk;

use super::draw_call::{Constants, Kind, Vertex};
use super::gpu::Gpu;
use crate::error::VrError;

/// Both shader stages, from `room.wgsl`.
const SHADERS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/room.spv"));

/// The depth format. Vulkan requires each device to support this format or `X8_D24_UNORM_PACK32`. Desktop GPUs and
/// lavapipe support this one.
pub(super) const DEPTH: vk::Format = vk::Format::D32_SFLOAT;

/// The shader stages that receive the push constants.
pub(super) const STAGES: vk::ShaderStageFlags = vk::ShaderStageFlags::VERTEX;

/// A render pass with one colour image, which is cleared, and a transient depth image.
pub(super) struct Pass {
    pub(super) handle: vk::RenderPass,
    pub(super) colours: vk::Format,
    gpu: Arc<Gpu>,
}

impl Pass {
    pub(super) fn new(gpu: &Arc<Gpu>, colours: vk::Format) -> Result<Pass, VrError> {
        let attachment = |format, store, layout| {
            vk::AttachmentDescription::default()
                .format(format)
                .samples(vk::SampleCountFlags::TYPE_1)
                .load_op(vk::AttachmentLoadOp::CLEAR)
                .store_op(store)
                .stencil_load_op(vk::AttachmentLoadOp::DONT_CARE)
                .stencil_store_op(vk::AttachmentStoreOp::DONT_CARE)
                .initial_layout(vk::ImageLayout::UNDEFINED)
                .final_layout(layout)
        };
        let seen = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
        let deep = vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL;
        let attachments = [
            attachment(colours, vk::AttachmentStoreOp::STORE, seen),
            attachment(DEPTH, vk::AttachmentStoreOp::DONT_CARE, deep),
        ];
        let colour = [vk::AttachmentReference::default()
            .attachment(0)
            .layout(seen)];
        let depth = vk::AttachmentReference::default()
            .attachment(1)
            .layout(deep);
        let subpasses = [vk::SubpassDescription::default()
            .pipeline_bind_point(vk::PipelineBindPoint::GRAPHICS)
            .color_attachments(&colour)
            .depth_stencil_attachment(&depth)];
        // The pass must wait for two earlier uses: the previous frame uses the same depth image, and the runtime may
        // have written the colour image.
        let stages = vk::PipelineStageFlags::COLOR_ATTACHMENT_OUTPUT
            | vk::PipelineStageFlags::EARLY_FRAGMENT_TESTS
            | vk::PipelineStageFlags::LATE_FRAGMENT_TESTS;
        let writes = vk::AccessFlags::COLOR_ATTACHMENT_WRITE
            | vk::AccessFlags::DEPTH_STENCIL_ATTACHMENT_WRITE;
        let dependencies = [vk::SubpassDependency::default()
            .src_subpass(vk::SUBPASS_EXTERNAL)
            .dst_subpass(0)
            .src_stage_mask(stages)
            .src_access_mask(writes)
            .dst_stage_mask(stages)
            .dst_access_mask(writes | vk::AccessFlags::DEPTH_STENCIL_ATTACHMENT_READ)];
        let info = vk::RenderPassCreateInfo::default()
            .attachments(&attachments)
            .subpasses(&subpasses)
            .dependencies(&dependencies);
        // SAFETY: the device exists as long as `gpu`.
        let handle = unsafe { gpu.functions.create_render_pass(&info, None) };
        Ok(Pass {
            handle: handle.map_err(VrError::vulkan("create a render pass"))?,
            colours,
            gpu: Arc::clone(gpu),
        })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // SAFETY: the device exists, and no longer uses the render pass.
        unsafe { self.gpu.functions.destroy_render_pass(self.handle, None) }
    }
}

/// The pipelines of all kinds.
pub(super) struct Pipelines {
    pub(super) layout: vk::PipelineLayout,
    of: Vec<(Kind, vk::Pipeline)>,
    gpu: Arc<Gpu>,
}

impl Pipelines {
    pub(super) fn new(gpu: &Arc<Gpu>, pass: &Pass) -> Result<Pipelines, VrError> {
        let constants = [vk::PushConstantRange::default()
            .stage_flags(STAGES)
            .size(Constants::BYTES)];
        let layout = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&constants);
        let words = SHADERS.chunks_exact(4);
        let words = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let words: Vec<u32> = words.collect();
        let module = vk::ShaderModuleCreateInfo::default().code(&words);
        let device = &gpu.functions;
        // SAFETY: the device exists as long as `gpu`, and the module was validated at build time.
        unsafe {
            let layout = device
                .create_pipeline_layout(&layout, None)
                .map_err(VrError::vulkan("create a pipeline layout"))?;
            let mut made = Pipelines {
                layout,
                of: Vec::new(),
                gpu: Arc::clone(gpu),
            };
            let module = device
                .create_shader_module(&module, None)
                .map_err(VrError::vulkan("create a shader module"))?;
            let all =
                Kind::ALL.map(|kind| Ok((kind, pipeline(device, module, layout, pass, kind)?)));
            device.destroy_shader_module(module, None);
            let failed = all.into_iter().find_map(|one| match one {
                Ok(one) => {
                    made.of.push(one);
                    None
                }
                Err(why) => Some(why),
            });
            match failed {
                None => Ok(made),
                Some(why) => Err(VrError::vulkan("create a pipeline")(why)),
            }
        }
    }

    pub(super) fn of(&self, kind: Kind) -> vk::Pipeline {
        let mut all = self.of.iter();
        let found = all.find(|(of, _)| *of == kind);
        found.map_or(vk::Pipeline::null(), |(_, pipeline)| *pipeline)
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        // SAFETY: the device exists, and no longer uses the pipelines.
        unsafe {
            for (_, pipeline) in self.of.drain(..) {
                self.gpu.functions.destroy_pipeline(pipeline, None);
            }
            self.gpu
                .functions
                .destroy_pipeline_layout(self.layout, None);
        }
    }
}

/// # Safety
/// The device must be valid, and these objects must be valid and belong to it.
unsafe fn pipeline(
    device: &ash::Device,
    module: vk::ShaderModule,
    layout: vk::PipelineLayout,
    pass: &Pass,
    kind: Kind,
) -> Result<vk::Pipeline, vk::Result> {
    let (vertex, topology) = match kind {
        Kind::Faces => (c"mesh", vk::PrimitiveTopology::TRIANGLE_LIST),
        Kind::Lines => (c"mesh", vk::PrimitiveTopology::LINE_LIST),
        Kind::Code => (c"cell", vk::PrimitiveTopology::TRIANGLE_LIST),
    };
    let stage = |stage, name| {
        vk::PipelineShaderStageCreateInfo::default()
            .stage(stage)
            .module(module)
            .name(name)
    };
    let stages = [
        stage(vk::ShaderStageFlags::VERTEX, vertex),
        stage(vk::ShaderStageFlags::FRAGMENT, c"pixel"),
    ];
    let bindings = [vk::VertexInputBindingDescription::default()
        .binding(0)
        .stride(Vertex::BYTES)
        .input_rate(vk::VertexInputRate::VERTEX)];
    let attribute = |location, offset| {
        vk::VertexInputAttributeDescription::default()
            .location(location)
            .binding(0)
            .format(vk::Format::R32G32B32_SFLOAT)
            .offset(offset)
    };
    let attributes = [attribute(0, 0), attribute(1, 12)];
    let mut input = vk::PipelineVertexInputStateCreateInfo::default();
    if kind != Kind::Code {
        input = input
            .vertex_binding_descriptions(&bindings)
            .vertex_attribute_descriptions(&attributes);
    }
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default().topology(topology);
    let viewports = vk::PipelineViewportStateCreateInfo::default()
        .viewport_count(1)
        .scissor_count(1);
    let raster = vk::PipelineRasterizationStateCreateInfo::default()
        .polygon_mode(vk::PolygonMode::FILL)
        .cull_mode(vk::CullModeFlags::NONE)
        .line_width(1.0);
    let samples = vk::PipelineMultisampleStateCreateInfo::default()
        .rasterization_samples(vk::SampleCountFlags::TYPE_1);
    let depth = vk::PipelineDepthStencilStateCreateInfo::default()
        .depth_test_enable(true)
        .depth_write_enable(true)
        .depth_compare_op(vk::CompareOp::LESS_OR_EQUAL);
    let opaque = [vk::PipelineColorBlendAttachmentState::default()
        .color_write_mask(vk::ColorComponentFlags::RGBA)];
    let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&opaque);
    let later = [vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR];
    let later = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&later);
    let info = [vk::GraphicsPipelineCreateInfo::default()
        .stages(&stages)
        .vertex_input_state(&input)
        .input_assembly_state(&assembly)
        .viewport_state(&viewports)
        .rasterization_state(&raster)
        .multisample_state(&samples)
        .depth_stencil_state(&depth)
        .color_blend_state(&blend)
        .dynamic_state(&later)
        .layout(layout)
        .render_pass(pass.handle)];
    // SAFETY: by the caller's contract.
    let made = unsafe { device.create_graphics_pipelines(vk::PipelineCache::null(), &info, None) };
    match made {
        Ok(pipelines) => Ok(pipelines[0]),
        Err((_, error)) => Err(error),
    }
}
