//! Composes the layers of a frame into one picture with both eyes side by side. Layers that fill an eye exactly are
//! copied; the shader program draws all others. No state is restored, because the context is private.

use std::sync::PoisonError;

use glow::HasContext as _;
use openuvr_proto::units::Size;

use super::images::Image;
use super::program::{Program, SINGLE, STACK};
use crate::logic::composition::{Eye, ImageRect, Surface, is_exact};
use crate::logic::scene::Scene;

/// Composes pictures of one size.
pub(super) struct Composer {
    pub(super) size: Size,
    picture: glow::Texture,
    /// Target of drawing.
    pub(super) framebuffer: glow::Framebuffer,
    /// The source and the target framebuffer of copies.
    from: glow::Framebuffer,
    to: glow::Framebuffer,
    array: glow::VertexArray,
    sampler: glow::Sampler,
    program: Program,
}

#[allow(clippy::cast_possible_wrap, reason = "sides have 14 bits")]
fn number(side: u32) -> i32 {
    side as i32
}

#[allow(clippy::cast_precision_loss, reason = "sides have 14 bits")]
fn fraction(position: u32, size: u32) -> f32 {
    position as f32 / size as f32
}

impl Composer {
    /// # Errors
    /// Returns the driver's reason, as one line of text.
    ///
    /// # Safety
    /// The private context must be current.
    pub(super) unsafe fn new(gl: &glow::Context, size: Size) -> Result<Composer, String> {
        // SAFETY: the caller guarantees that the private context is current. After an error, the objects created so far
        // are destroyed with the context.
        unsafe {
            let picture = gl.create_texture()?;
            storage(gl, picture, size);
            let framebuffer = gl.create_framebuffer()?;
            attach(
                gl,
                glow::FRAMEBUFFER,
                framebuffer,
                picture,
                glow::TEXTURE_2D,
            );
            if gl.check_framebuffer_status(glow::FRAMEBUFFER) != glow::FRAMEBUFFER_COMPLETE {
                return Err(format!("framebuffer of {size} is incomplete"));
            }
            let sampler = gl.create_sampler()?;
            let parameters = [
                (glow::TEXTURE_MIN_FILTER, glow::LINEAR),
                (glow::TEXTURE_MAG_FILTER, glow::LINEAR),
                (glow::TEXTURE_WRAP_S, glow::CLAMP_TO_EDGE),
                (glow::TEXTURE_WRAP_T, glow::CLAMP_TO_EDGE),
            ];
            for (name, value) in parameters {
                gl.sampler_parameter_i32(sampler, name, value.cast_signed());
            }
            let array = gl.create_vertex_array()?;
            Ok(Composer {
                size,
                picture,
                framebuffer,
                from: gl.create_framebuffer()?,
                to: gl.create_framebuffer()?,
                array,
                sampler,
                program: Program::new(gl)?,
            })
        }
    }

    /// Composes a frame into [`Composer::framebuffer`].
    ///
    /// # Safety
    /// The private context is current, and the images are alive.
    pub(super) unsafe fn compose(&self, gl: &glow::Context, scene: &Scene<Image>) {
        // SAFETY: the caller guarantees that the private context is current and that the images are alive.
        unsafe {
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(self.framebuffer));
            gl.enable(glow::FRAMEBUFFER_SRGB);
            gl.disable(glow::SCISSOR_TEST);
            gl.clear_color(0.0, 0.0, 0.0, 0.0);
            gl.clear(glow::COLOR_BUFFER_BIT);
            gl.enable(glow::SCISSOR_TEST);
            gl.enable(glow::BLEND);
            gl.blend_func(glow::ONE, glow::ONE_MINUS_SRC_ALPHA);
            gl.bind_vertex_array(Some(self.array));
            gl.use_program(Some(self.program.program));
            for unit in [SINGLE, STACK] {
                gl.bind_sampler(unit, Some(self.sampler));
            }
            let (width, height) = (number(scene.size.width), number(scene.size.height));
            for (index, eye_scene) in scene.eyes.iter().enumerate() {
                let left = number(scene.left_of(index));
                gl.viewport(left, 0, width, height);
                gl.scissor(left, 0, width, height);
                for surface in &eye_scene.surfaces {
                    let plain = surface.image.is_plain() && !surface.image.is_multisampled();
                    match plain && is_exact(surface, &eye_scene.eye, scene.size) {
                        true => self.copy(gl, surface, left),
                        false => self.draw(gl, surface, &eye_scene.eye),
                    }
                }
            }
        }
    }

    /// # Safety
    /// The same as for [`Composer::compose`].
    unsafe fn copy(&self, gl: &glow::Context, surface: &Surface<Image>, left: i32) {
        let ImageRect { x, y, size } = surface.rect;
        let (x, y) = (number(x), number(y));
        let (width, height) = (number(size.width), number(size.height));
        // SAFETY: the caller guarantees that the private context is current and that the images are alive. The
        // rectangle is inside its image.
        unsafe {
            attach_layer(gl, self.from, &surface.image);
            gl.blit_framebuffer(
                x,
                y,
                x + width,
                y + height,
                left,
                0,
                left + width,
                height,
                glow::COLOR_BUFFER_BIT,
                glow::NEAREST,
            );
        }
    }

    /// # Safety
    /// The same as for [`Composer::compose`].
    unsafe fn draw(&self, gl: &glow::Context, surface: &Surface<Image>, eye: &Eye) {
        let image = &surface.image;
        let ImageRect { x, y, size } = surface.rect;
        let whole = image.swapchain_images.size();
        let rect = [
            fraction(x, whole.width),
            fraction(y, whole.height),
            fraction(x + size.width, whole.width),
            fraction(y + size.height, whole.height),
        ];
        let half_pixel = [
            fraction(1, whole.width) / 2.0,
            fraction(1, whole.height) / 2.0,
        ];
        let flags = i32::from(surface.blend.alpha) | i32::from(surface.blend.unpremultiplied) << 1;
        let corners = surface.shape.corners(eye);
        // SAFETY: the caller guarantees that the private context is current and that the images are alive.
        unsafe {
            let (unit, target, texture, layer) =
                match (image.is_multisampled(), image.swapchain_images.layers()) {
                    (true, _) => {
                        let Some(resolved) = self.resolve(gl, image) else {
                            return;
                        };
                        (SINGLE, glow::TEXTURE_2D, resolved, -1)
                    }
                    (false, 1) => (SINGLE, glow::TEXTURE_2D, image.texture(), -1),
                    _ => (
                        STACK,
                        glow::TEXTURE_2D_ARRAY,
                        image.texture(),
                        number(image.layer),
                    ),
                };
            gl.active_texture(glow::TEXTURE0 + unit);
            gl.bind_texture(target, Some(texture));
            let of = &self.program;
            gl.uniform_4_f32_slice(of.corners.as_ref(), corners.as_flattened());
            gl.uniform_4_f32_slice(of.rect.as_ref(), &rect);
            gl.uniform_2_f32_slice(of.half_pixel.as_ref(), &half_pixel);
            gl.uniform_1_i32(of.layer.as_ref(), layer);
            gl.uniform_1_i32(of.flags.as_ref(), flags);
            gl.draw_arrays(glow::TRIANGLE_STRIP, 0, 4);
        }
    }

    /// Resolves the samples of one layer of an image into a texture. The first call creates this texture.
    ///
    /// # Safety
    /// The same as for [`Composer::compose`].
    unsafe fn resolve(&self, gl: &glow::Context, image: &Image) -> Option<glow::Texture> {
        let swapchain_images = &image.swapchain_images;
        let size = swapchain_images.size();
        let key = (image.index, image.layer);
        let mut resolved =
            (swapchain_images.resolved.lock()).unwrap_or_else(PoisonError::into_inner);
        let known = resolved.iter().find(|(of, _)| *of == key);
        // SAFETY: the caller guarantees that the private context is current and that the images are alive.
        unsafe {
            let texture = match known {
                Some((_, texture)) => *texture,
                None => {
                    let texture = gl.create_texture().ok()?;
                    gl.bind_texture(glow::TEXTURE_2D, Some(texture));
                    let (width, height) = (number(size.width), number(size.height));
                    gl.tex_storage_2d(
                        glow::TEXTURE_2D,
                        1,
                        swapchain_images.info.format,
                        width,
                        height,
                    );
                    resolved.push((key, texture));
                    texture
                }
            };
            attach_layer(gl, self.from, image);
            attach(
                gl,
                glow::DRAW_FRAMEBUFFER,
                self.to,
                texture,
                glow::TEXTURE_2D,
            );
            let (width, height) = (number(size.width), number(size.height));
            gl.disable(glow::SCISSOR_TEST);
            gl.blit_framebuffer(
                0,
                0,
                width,
                height,
                0,
                0,
                width,
                height,
                glow::COLOR_BUFFER_BIT,
                glow::NEAREST,
            );
            gl.enable(glow::SCISSOR_TEST);
            gl.bind_framebuffer(glow::DRAW_FRAMEBUFFER, Some(self.framebuffer));
            Some(texture)
        }
    }

    /// # Safety
    /// The private context is current.
    pub(super) unsafe fn destroy(self, gl: &glow::Context) {
        // SAFETY: the caller guarantees that the private context is current.
        unsafe {
            for framebuffer in [self.framebuffer, self.from, self.to] {
                gl.delete_framebuffer(framebuffer);
            }
            gl.delete_texture(self.picture);
            gl.delete_sampler(self.sampler);
            gl.delete_vertex_array(self.array);
            gl.delete_program(self.program.program);
        }
    }
}

/// Allocates the picture's storage, in the streamed format.
///
/// # Safety
/// The private context is current.
unsafe fn storage(gl: &glow::Context, texture: glow::Texture, size: Size) {
    let (width, height) = (number(size.width), number(size.height));
    // SAFETY: the caller guarantees that the private context is current.
    unsafe {
        gl.bind_texture(glow::TEXTURE_2D, Some(texture));
        gl.tex_storage_2d(glow::TEXTURE_2D, 1, glow::SRGB8_ALPHA8, width, height);
    }
}

/// # Safety
/// The private context is current.
unsafe fn attach(
    gl: &glow::Context,
    target_kind: u32,
    framebuffer: glow::Framebuffer,
    texture: glow::Texture,
    target: u32,
) {
    // SAFETY: the caller guarantees that the private context is current.
    unsafe {
        gl.bind_framebuffer(target_kind, Some(framebuffer));
        let first = glow::COLOR_ATTACHMENT0;
        gl.framebuffer_texture_2d(target_kind, first, target, Some(texture), 0);
    }
}

/// Attaches an image's layer to `framebuffer` for reading.
///
/// # Safety
/// The private context is current.
unsafe fn attach_layer(gl: &glow::Context, framebuffer: glow::Framebuffer, image: &Image) {
    let read = glow::READ_FRAMEBUFFER;
    let target = image.swapchain_images.info.target();
    // SAFETY: the caller guarantees that the private context is current. The texture has this layer.
    unsafe {
        if image.swapchain_images.layers() == 1 {
            attach(gl, read, framebuffer, image.texture(), target);
        } else {
            gl.bind_framebuffer(read, Some(framebuffer));
            let (first, texture) = (glow::COLOR_ATTACHMENT0, Some(image.texture()));
            gl.framebuffer_texture_layer(read, first, texture, 0, number(image.layer));
        }
    }
}
