//! The systems of the render world. They read the finished picture back, and submit it with the description of the
//! input and the head pose that it shows.

use std::sync::mpsc::sync_channel;

use bevy::prelude::*;
use bevy::render::render_asset::RenderAssets;
use bevy::render::render_resource::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoderDescriptor, MapMode, PollType,
    TexelCopyBufferInfo, TexelCopyBufferLayout,
};
use bevy::render::renderer::{RenderDevice, RenderQueue};
use bevy::render::texture::GpuImage;
use bevy::render::{Extract, ExtractSchedule, GpuResourceAppExt, Render, RenderApp, RenderSystems};
use openuvr_media::capture::pool::{Pool, PooledPicture};
use openuvr_proto::units::Size;

use crate::{CurrentFrame, Stream};

/// Bytes per pixel.
const PIXEL: usize = 4;

/// Whether the application has a render world.
pub(crate) fn is_possible(app: &App) -> bool {
    app.get_sub_app(RenderApp).is_some()
}

/// Adds the systems to the render world.
pub(crate) fn build(app: &mut App, stream: &Stream) {
    app.sub_app_mut(RenderApp)
        .insert_resource(stream.clone())
        .init_resource::<CurrentFrame>()
        // If the GPU is lost, its buffers are lost, too. Bevy then initialises this resource again.
        .init_gpu_resource::<ReadBack>()
        .add_systems(ExtractSchedule, extract)
        .add_systems(Render, capture.in_set(RenderSystems::Cleanup));
}

/// Copies the description of the current frame from the main world. Bevy copies the scene in the same schedule.
fn extract(main: Extract<Res<CurrentFrame>>, mut frame: ResMut<CurrentFrame>) {
    *frame = **main;
}

/// Reads the picture back and submits it, if the host needs a frame.
fn capture(
    stream: Res<Stream>,
    frame: Res<CurrentFrame>,
    images: Res<RenderAssets<GpuImage>>,
    device: Res<RenderDevice>,
    queue: Res<RenderQueue>,
    mut read_back: ResMut<ReadBack>,
) {
    // Until Bevy has created the image on the GPU, there is nothing to read.
    let Some(image) = images.get(&stream.image) else {
        return;
    };
    // This check is here and not in the main world, because with pipelined rendering, the main world is a frame ahead.
    if !stream.guest.wants() {
        return;
    }
    if let Some(picture) = read_back.read(image, &device, &queue) {
        // If the result is `None`, the host has ended. Its last notice reports this.
        let _ = stream.guest.frames().submit(Box::new(picture), frame.0);
    }
}

/// The memory for a picture: a GPU buffer that the processor can map, and the copies that the host gets.
#[derive(Resource, Default)]
struct ReadBack {
    buffer: Option<Buffer>,
    pool: Pool,
}

impl ReadBack {
    /// Copies the picture when the GPU has drawn it, and waits for the copy. `None` if the GPU was lost.
    fn read(
        &mut self,
        image: &GpuImage,
        device: &RenderDevice,
        queue: &RenderQueue,
    ) -> Option<PooledPicture> {
        let extent = image.texture_descriptor.size;
        let (width, height) = (extent.width as usize, extent.height as usize);
        // Copies to a buffer require aligned rows.
        let row = RenderDevice::align_copy_bytes_per_row(width * PIXEL);
        let bytes = (row * height) as u64;
        let kept = self.buffer.take().filter(|buffer| buffer.size() == bytes);
        let buffer = kept.unwrap_or_else(|| {
            device.create_buffer(&BufferDescriptor {
                label: Some("openuvr"),
                size: bytes,
                usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        });
        let mut encoder = device.create_command_encoder(&CommandEncoderDescriptor::default());
        encoder.copy_texture_to_buffer(
            image.texture.as_image_copy(),
            TexelCopyBufferInfo {
                buffer: &buffer,
                layout: TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: u32::try_from(row).ok(),
                    rows_per_image: None,
                },
            },
            extent,
        );
        queue.submit([encoder.finish()]);
        let slice = buffer.slice(..);
        let (sender, mapped) = sync_channel(1);
        slice.map_async(MapMode::Read, move |result| {
            // The receiver no longer exists if the wait below has failed.
            let _ = sender.try_send(result.is_ok());
        });
        device.poll(PollType::wait_indefinitely()).ok()?;
        if mapped.try_recv() != Ok(true) {
            return None;
        }
        let mut picture = self.pool.take(Size::new(extent.width, extent.height));
        let rows = slice.get_mapped_range();
        let pairs = picture.bytes().chunks_exact_mut(width * PIXEL);
        for (to, from) in pairs.zip(rows.chunks_exact(row)) {
            to.copy_from_slice(&from[..width * PIXEL]);
        }
        drop(rows);
        buffer.unmap();
        self.buffer = Some(buffer);
        Some(picture)
    }
}
