//! Render pass and pipeline of [`super::compose`].

use ash::vk;

/// The picture is sRGB; the device converts linear colours on write.
pub(super) const FORMAT: vk::Format = vk::Format::R8G8B8A8_SRGB;

/// Shader stages that read the push constants.
pub(super) const STAGES: vk::ShaderStageFlags = vk::ShaderStageFlags::from_raw(
    vk::ShaderStageFlags::VERTEX.as_raw() | vk::ShaderStageFlags::FRAGMENT.as_raw(),
);

/// A render pass that clears the picture to black and leaves it in the layout for copying.
///
/// # Safety
/// The device is alive.
pub(super) unsafe fn render_pass(device: &ash::Device) -> Result<vk::RenderPass, vk::Result> {
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
    // The render pass executes after the copy of the previous picture, and before the copy of its own picture.
    let outside = (vk::SUBPASS_EXTERNAL, copy, read);
    let inside = (0, output, written);
    let dependencies = [dependency(outside, inside), dependency(inside, outside)];
    let info = vk::RenderPassCreateInfo::default()
        .attachments(&attachments)
        .subpasses(&subpasses)
        .dependencies(&dependencies);
    // SAFETY: the caller guarantees that the device is alive.
    unsafe { device.create_render_pass(&info, None) }
}

/// A pipeline that draws two triangles with premultiplied alpha blending.
///
/// # Safety
/// The device and the other objects are alive.
pub(super) unsafe fn pipeline(
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
    // SAFETY: the caller guarantees that the device and the other objects are alive.
    let made = unsafe { device.create_graphics_pipelines(vk::PipelineCache::null(), &info, None) };
    match made {
        Ok(pipelines) => Ok(pipelines[0]),
        Err((_, error)) => Err(error),
    }
}
