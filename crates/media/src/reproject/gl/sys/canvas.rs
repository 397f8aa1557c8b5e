//! Draws in a window: parts of the picture, and overlays.

use glow::HasContext as _;
use glow::{PixelUnpackData, Texture};
use openuvr_proto::units::Size;

use super::program::Program;
use super::window::Window;
use crate::window::placement::Rect;

/// A texture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Layer {
    /// The picture, BGRX.
    Picture,
    /// Text over the picture, premultiplied BGRA.
    Text,
    /// The host's pointer, premultiplied BGRA.
    Pointer,
}

const LAYERS: usize = 3;

/// A part of the picture in the window. Positions are in pixels, from the upper left.
#[derive(Clone, Debug)]
pub(in super::super) struct Patch {
    /// The window's pixels that the patch covers.
    pub(in super::super) area: Rect,
    /// The area's exact origin.
    pub(in super::super) corner: [f32; 2],
    /// Picture pixels per window pixel.
    pub(in super::super) per_pixel: [f32; 2],
    /// The mapping from pixels of the displayed picture, relative to `corner`, to the eye's pixels, as the rows of a
    /// matrix.
    pub(in super::super) how: Vec<f32>,
    /// The eye's area in the picture: left, top, width, height.
    pub(in super::super) eye: [f32; 4],
    /// Whether the patch writes red, green, blue, alpha.
    pub(in super::super) channels: [bool; 4],
}

/// A window drawn by OpenGL.
pub(in super::super) struct Canvas {
    window: Window,
    gl: glow::Context,
    program: Program,
    textures: [(Texture, Option<Size>); LAYERS],
    renderer: String,
    largest: u32,
    /// The window's height, needed because OpenGL counts rows from the bottom.
    height: i32,
}

impl Canvas {
    /// Opens a context for a window of the display, with this visual.
    ///
    /// # Errors
    /// Returns the missing requirement, in one line.
    pub(in super::super) fn open(
        display: &str,
        window: u32,
        visual: u32,
    ) -> Result<Canvas, String> {
        let window = Window::open(display, window, visual)?;
        // SAFETY: `Window::open` made its context current on this thread, and `Window::function` finds the functions of
        // that context. The context has OpenGL 3.3's core profile, which includes all functions that are called here.
        unsafe {
            let gl = glow::Context::from_loader_function_cstr(|name| window.function(name));
            let renderer = gl.get_parameter_string(glow::RENDERER);
            let program = Program::new(&gl);
            let program =
                program.map_err(|why| format!("{renderer} rejected a shader: {}", line(&why)))?;
            // A core profile needs a vertex array to draw; this one has no attributes.
            let vertices = gl.create_vertex_array()?;
            gl.bind_vertex_array(Some(vertices));
            gl.disable(glow::DITHER);
            gl.active_texture(glow::TEXTURE0);
            let texture = || {
                let texture = gl.create_texture()?;
                gl.bind_texture(glow::TEXTURE_2D, Some(texture));
                for (what, how) in [
                    (glow::TEXTURE_MIN_FILTER, glow::NEAREST),
                    (glow::TEXTURE_MAG_FILTER, glow::NEAREST),
                    (glow::TEXTURE_WRAP_S, glow::CLAMP_TO_EDGE),
                    (glow::TEXTURE_WRAP_T, glow::CLAMP_TO_EDGE),
                    (glow::TEXTURE_MAX_LEVEL, 0),
                ] {
                    gl.tex_parameter_i32(glow::TEXTURE_2D, what, how.cast_signed());
                }
                Ok::<_, String>((texture, None))
            };
            let textures = [texture()?, texture()?, texture()?];
            let largest = gl.get_parameter_i32(glow::MAX_TEXTURE_SIZE);
            Ok(Canvas {
                program,
                textures,
                renderer,
                largest: u32::try_from(largest).unwrap_or(0),
                height: 0,
                window,
                gl,
            })
        }
    }

    /// The driver's name of the renderer.
    pub(in super::super) fn renderer(&self) -> &str {
        &self.renderer
    }

    /// Requests a different size of the window.
    pub(in super::super) fn resize(&self, size: Size) {
        self.window.resize(size);
    }

    /// Loads a layer's pixels, 4 bytes each, without row padding.
    ///
    /// # Errors
    /// Returns the problem, in one line.
    pub(in super::super) fn load(
        &mut self,
        layer: Layer,
        size: Size,
        bytes: &[u8],
    ) -> Result<(), String> {
        if size.width.max(size.height) > self.largest {
            let largest = self.largest;
            return Err(format!(
                "{} supports at most {largest} pixels a side, and the picture is {size}",
                self.renderer
            ));
        }
        let bytes = bytes
            .get(..size.pixels() * 4)
            .filter(|bytes| !bytes.is_empty());
        let bytes =
            bytes.ok_or_else(|| format!("the data is too short for a picture of {size}"))?;
        let (texture, known) = &mut self.textures[layer as usize];
        let same = known.replace(size) == Some(size);
        let [width, height] = [size.width, size.height].map(u32::cast_signed);
        let pixels = PixelUnpackData::Slice(Some(bytes));
        let (format, kind) = (glow::BGRA, glow::UNSIGNED_INT_8_8_8_8_REV);
        self.window.make_current()?;
        // SAFETY: the context is current. `bytes` has four bytes for each pixel, so its rows meet OpenGL's default
        // alignment of 4.
        unsafe {
            self.gl.bind_texture(glow::TEXTURE_2D, Some(*texture));
            match same {
                true => (self.gl).tex_sub_image_2d(
                    glow::TEXTURE_2D,
                    0,
                    0,
                    0,
                    width,
                    height,
                    format,
                    kind,
                    pixels,
                ),
                false => {
                    let stored = glow::RGBA8.cast_signed();
                    (self.gl).tex_image_2d(
                        glow::TEXTURE_2D,
                        0,
                        stored,
                        width,
                        height,
                        0,
                        format,
                        kind,
                        pixels,
                    );
                }
            }
        }
        self.complaint()
    }

    /// Starts a picture in a window of this size, and makes the window black.
    pub(in super::super) fn start(&mut self, size: Size, nearest: bool) {
        let [width, height] = [size.width, size.height].map(u32::cast_signed);
        self.height = height;
        if self.window.make_current().is_err() {
            // `end` reports this error.
            return;
        }
        let filter = if nearest { glow::NEAREST } else { glow::LINEAR };
        let (texture, _) = self.textures[Layer::Picture as usize];
        // SAFETY: the context is current.
        unsafe {
            self.gl.viewport(0, 0, width, height);
            self.gl.disable(glow::SCISSOR_TEST);
            self.gl.disable(glow::BLEND);
            self.gl.color_mask(true, true, true, true);
            self.gl.clear_color(0.0, 0.0, 0.0, 1.0);
            self.gl.clear(glow::COLOR_BUFFER_BIT);
            self.gl.enable(glow::SCISSOR_TEST);
            self.gl
                .uniform_1_f32(self.program.height.as_ref(), height as f32);
            self.gl.bind_texture(glow::TEXTURE_2D, Some(texture));
            for what in [glow::TEXTURE_MIN_FILTER, glow::TEXTURE_MAG_FILTER] {
                self.gl
                    .tex_parameter_i32(glow::TEXTURE_2D, what, filter.cast_signed());
            }
        }
    }

    /// Draws a part of the picture.
    pub(in super::super) fn patch(&self, patch: &Patch) {
        if patch.how.len() != 9 || self.window.make_current().is_err() {
            return;
        }
        let (gl, program) = (&self.gl, &self.program);
        let [x, y] = patch.corner;
        let [across, down] = patch.per_pixel;
        let [left, top, width, height] = patch.eye;
        let [red, green, blue, alpha] = patch.channels;
        let (texture, _) = self.textures[Layer::Picture as usize];
        // SAFETY: the context is current; a matrix has nine numbers.
        unsafe {
            gl.uniform_1_i32(program.overlay.as_ref(), 0);
            gl.uniform_2_f32(program.corner.as_ref(), x, y);
            gl.uniform_2_f32(program.per_pixel.as_ref(), across, down);
            gl.uniform_4_f32(program.eye.as_ref(), left, top, width, height);
            gl.uniform_matrix_3_f32_slice(program.how.as_ref(), true, &patch.how);
            gl.color_mask(red, green, blue, alpha);
            self.area(texture, patch.area);
        }
    }

    /// Draws the part of a layer in this area, with the layer's upper left corner at the given
    /// position.
    pub(in super::super) fn over(&self, layer: Layer, area: Rect, (x, y): (i32, i32)) {
        if self.window.make_current().is_err() {
            return;
        }
        let (gl, program) = (&self.gl, &self.program);
        let (texture, _) = self.textures[layer as usize];
        // SAFETY: the context is current.
        unsafe {
            gl.uniform_1_i32(program.overlay.as_ref(), 1);
            gl.uniform_2_f32(program.corner.as_ref(), x as f32, y as f32);
            gl.color_mask(true, true, true, true);
            gl.enable(glow::BLEND);
            gl.blend_func(glow::ONE, glow::ONE_MINUS_SRC_ALPHA);
            self.area(texture, area);
            gl.disable(glow::BLEND);
        }
    }

    /// Runs the program for the pixels of an area.
    ///
    /// # Safety
    /// The context must be current.
    unsafe fn area(&self, texture: Texture, area: Rect) {
        let below = self.height - area.y - area.height;
        // SAFETY: the caller upholds this function's contract. Three vertices without attributes read no memory.
        unsafe {
            self.gl.bind_texture(glow::TEXTURE_2D, Some(texture));
            (self.gl).scissor(area.x, below, area.width.max(0), area.height.max(0));
            self.gl.draw_arrays(glow::TRIANGLES, 0, 3);
        }
    }

    /// Waits until drawing is finished.
    ///
    /// # Errors
    /// Returns the driver's error, in one line.
    pub(in super::super) fn end(&self) -> Result<(), String> {
        self.window.make_current()?;
        // SAFETY: the context is current.
        unsafe { self.gl.finish() };
        self.complaint()
    }

    /// Displays the drawing, at the display's next refresh if the driver can wait for it.
    ///
    /// # Errors
    /// Returns an error if the X server is gone.
    pub(in super::super) fn swap(&self) -> Result<(), String> {
        self.window.swap()
    }

    fn complaint(&self) -> Result<(), String> {
        // SAFETY: all callers have made the context current.
        match unsafe { self.gl.get_error() } {
            glow::NO_ERROR => Ok(()),
            error => Err(format!(
                "{} failed with OpenGL error {error:#x}",
                self.renderer
            )),
        }
    }
}

/// The first line of a driver's message.
fn line(words: &str) -> &str {
    words.lines().next().unwrap_or_default()
}
