//! OpenGL drawing and read-back.

use anyhow::{Result, bail};
use glow::HasContext as _;
use openuvr_media::barcode;
use openuvr_proto::units::Size;

use super::super::room::{Frame, Mesh};
use super::super::texture::{self, Texture};
use super::window::Window;

/// An OpenGL buffer for read-back. It lives as long as the window.
pub(crate) struct PixelBuffer {
    buffer: glow::Buffer,
    size: Size,
}

impl PixelBuffer {
    /// The buffer's OpenGL name.
    pub(crate) fn name(&self) -> u32 {
        self.buffer.0.get()
    }

    /// The size of its pictures.
    pub(crate) fn size(&self) -> Size {
        self.size
    }
}

/// The edge of the picture at which a bar code is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CodePlace {
    /// The first rows.
    Top,
    /// The last rows. The code is not mirrored: its own first row is on top.
    Bottom,
}

/// Textures, meshes and programs in OpenGL.
pub(crate) struct Renderer {
    gl: glow::Context,
    room: glow::Program,
    code: glow::Program,
    code_texture: glow::Texture,
    code_vertices: (glow::VertexArray, glow::Buffer),
    textures: Vec<glow::Texture>,
    meshes: Vec<(glow::VertexArray, i32, usize)>,
    /// Whether read-back can return the top row first.
    inverts: bool,
}

impl Renderer {
    /// Uploads all resources. With `smooth`, textures are filtered, which takes about a fifth of a software renderer's
    /// drawing time.
    pub(crate) fn new(
        window: &Window,
        textures: &[Texture],
        meshes: &[Mesh],
        smooth: bool,
    ) -> Result<Renderer> {
        // SAFETY: the window's context is current on this thread for as long as the renderer is
        // used (the loop that owns both never leaves it); buffers are sized by the slices given.
        unsafe {
            let gl = glow::Context::from_loader_function_cstr(|name| window.gl_function(name));
            let room = program(&gl, ROOM_VERTEX, ROOM_FRAGMENT)?;
            let code = program(&gl, CODE_VERTEX, CODE_FRAGMENT)?;
            let textures = textures
                .iter()
                .map(|pixels| upload(&gl, pixels, smooth))
                .collect::<Result<_>>()?;
            let meshes = meshes
                .iter()
                .map(|mesh| {
                    let (array, _) = vertices(&gl, &mesh.vertices, &[3, 3, 2])?;
                    indices(&gl, &mesh.indices)?;
                    let count = i32::try_from(mesh.indices.len())?;
                    Ok((array, count, mesh.texture))
                })
                .collect::<Result<_>>()?;
            let code_texture = gl.create_texture().map_err(anyhow::Error::msg)?;
            gl.bind_texture(glow::TEXTURE_2D, Some(code_texture));
            filter(&gl, glow::NEAREST, glow::NEAREST);
            let code_vertices = vertices(&gl, &[0.0; 6 * 4], &[2, 2])?;
            gl.enable(glow::CULL_FACE);
            Ok(Renderer {
                inverts: gl.supported_extensions().contains("GL_MESA_pack_invert"),
                gl,
                room,
                code,
                code_texture,
                code_vertices,
                textures,
                meshes,
            })
        }
    }

    /// Draws the room, and waits until OpenGL has drawn it.
    pub(crate) fn draw(&self, size: Size, frame: &Frame) {
        let gl = &self.gl;
        // SAFETY: see `new`; all names were made by this context.
        unsafe {
            gl.viewport(0, 0, pixels(size.width), pixels(size.height));
            // The room is closed and convex, so its shell covers each pixel exactly once, behind everything else, and
            // only the objects in it need depth testing.
            gl.clear(glow::DEPTH_BUFFER_BIT);
            gl.disable(glow::DEPTH_TEST);
            gl.use_program(Some(self.room));
            let place = |name: &str| gl.get_uniform_location(self.room, name);
            gl.uniform_matrix_4_f32_slice(place("camera").as_ref(), false, &frame.camera.0);
            let [r, g, b] = frame.ambient;
            gl.uniform_3_f32(place("ambient").as_ref(), r, g, b);
            let flat: Vec<f32> = frame.lights.iter().flat_map(|l| l.place).collect();
            gl.uniform_3_f32_slice(place("light_place").as_ref(), &flat);
            let flat: Vec<f32> = frame.lights.iter().flat_map(|l| l.colour).collect();
            gl.uniform_3_f32_slice(place("light_colour").as_ref(), &flat);
            let (model, glow_at) = (place("model"), place("glow"));
            for (index, object) in frame.shell.iter().chain(&frame.objects).enumerate() {
                if index == frame.shell.len() {
                    gl.enable(glow::DEPTH_TEST);
                }
                let (array, count, texture) = self.meshes[object.mesh];
                gl.uniform_matrix_4_f32_slice(model.as_ref(), false, &object.model.0);
                let [r, g, b] = object.glow;
                gl.uniform_3_f32(glow_at.as_ref(), r, g, b);
                gl.bind_texture(glow::TEXTURE_2D, Some(self.textures[texture]));
                gl.bind_vertex_array(Some(array));
                gl.draw_elements(glow::TRIANGLES, count, glow::UNSIGNED_SHORT, 0);
            }
            gl.finish();
        }
    }

    /// Draws the bar code over the picture.
    pub(crate) fn draw_code(&self, size: Size, cells: &[bool; barcode::CELLS], place: CodePlace) {
        let texels: Vec<u8> = cells
            .iter()
            .flat_map(|&white| [if white { 255 } else { 0 }; 3])
            .collect();
        let (width, height) = (size.width.max(1) as f32, size.height.max(1) as f32);
        let cell = width / barcode::CELLS_ACROSS as f32;
        let right = -1.0 + 2.0 * cell * barcode::COLUMNS as f32 / width;
        let code_height = 2.0 * cell * barcode::ROWS as f32 / height;
        let top = match place {
            CodePlace::Top => 1.0,
            CodePlace::Bottom => code_height - 1.0,
        };
        let bottom = top - code_height;
        // Position, then texture coordinates; the texture's first row is the top one.
        let corner = |x: bool, y: bool| {
            [
                if x { right } else { -1.0 },
                if y { bottom } else { top },
                if x { 1.0 } else { 0.0 },
                if y { 1.0 } else { 0.0 },
            ]
        };
        let (a, b) = (corner(false, false), corner(false, true));
        let (c, d) = (corner(true, true), corner(true, false));
        let quad = [a, b, c, a, c, d].concat();
        let gl = &self.gl;
        // SAFETY: see `new`; the texture upload reads exactly CELLS × 3 bytes, rows of 192 bytes
        // (a multiple of the default alignment of 4).
        unsafe {
            gl.disable(glow::DEPTH_TEST);
            gl.use_program(Some(self.code));
            gl.bind_texture(glow::TEXTURE_2D, Some(self.code_texture));
            gl.tex_image_2d(
                glow::TEXTURE_2D,
                0,
                glow::RGB8 as i32,
                barcode::COLUMNS as i32,
                barcode::ROWS as i32,
                0,
                glow::RGB,
                glow::UNSIGNED_BYTE,
                glow::PixelUnpackData::Slice(Some(&texels)),
            );
            gl.bind_vertex_array(Some(self.code_vertices.0));
            gl.bind_buffer(glow::ARRAY_BUFFER, Some(self.code_vertices.1));
            gl.buffer_data_u8_slice(glow::ARRAY_BUFFER, &bytes(&quad), glow::STREAM_DRAW);
            gl.draw_arrays(glow::TRIANGLES, 0, 6);
        }
    }

    /// Reads the drawn picture as BGRX with the top row first. Call this before `Window::swap`. `into` must have the
    /// length of a picture of `size`.
    pub(crate) fn read(&self, size: Size, into: &mut [u8]) {
        const PACK_INVERT_MESA: u32 = 0x8758; // GL_MESA_pack_invert
        let row = size.width as usize * 4;
        assert_eq!(into.len(), size.pixels() * 4, "the length of one picture");
        let gl = &self.gl;
        // SAFETY: see `new`; the length was checked, and rows of 4-byte pixels have no padding.
        unsafe {
            if self.inverts {
                gl.pixel_store_i32(PACK_INVERT_MESA, 1);
            }
            gl.read_pixels(
                0,
                0,
                pixels(size.width),
                pixels(size.height),
                glow::BGRA,
                glow::UNSIGNED_BYTE,
                glow::PixelPackData::Slice(Some(&mut *into)),
            );
        }
        if !self.inverts {
            // OpenGL's first row is the bottom one.
            let (upper, lower) = into.split_at_mut(row * (size.height as usize / 2));
            let middle = (size.height as usize % 2) * row;
            let pairs = upper
                .chunks_exact_mut(row)
                .zip(lower[middle..].chunks_exact_mut(row).rev());
            for (above, below) in pairs {
                above.swap_with_slice(below);
            }
        }
    }

    /// A buffer for pictures of `size`, BGRA without padding, bottom row first.
    pub(crate) fn pixel_buffer(&self, size: Size) -> Result<PixelBuffer> {
        let gl = &self.gl;
        // SAFETY: see `new`.
        unsafe {
            let buffer = gl.create_buffer().map_err(anyhow::Error::msg)?;
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(buffer));
            let bytes = i32::try_from(size.pixels() * 4)?;
            gl.buffer_data_size(glow::PIXEL_PACK_BUFFER, bytes, glow::DYNAMIC_COPY);
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, None);
            Ok(PixelBuffer { buffer, size })
        }
    }

    /// Reads the drawn picture into a buffer. Call this before `Window::swap`.
    pub(crate) fn read_into(&self, into: &PixelBuffer) {
        let gl = &self.gl;
        // SAFETY: see `new`; the buffer was allocated for a picture of its `size`.
        unsafe {
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(into.buffer));
            gl.read_pixels(
                0,
                0,
                pixels(into.size.width),
                pixels(into.size.height),
                glow::BGRA,
                glow::UNSIGNED_BYTE,
                glow::PixelPackData::BufferOffset(0),
            );
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, None);
        }
    }

    /// The name of the OpenGL renderer.
    pub(crate) fn name(&self) -> String {
        // SAFETY: the context is current; see `new`.
        unsafe { self.gl.get_parameter_string(glow::RENDERER) }
    }
}

fn pixels(side: u32) -> i32 {
    i32::try_from(side).unwrap_or(i32::MAX)
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

/// # Safety
/// The context of `gl` must be current.
unsafe fn program(gl: &glow::Context, vertex: &str, fragment: &str) -> Result<glow::Program> {
    // SAFETY: by this function's contract.
    unsafe {
        let program = gl.create_program().map_err(anyhow::Error::msg)?;
        for (kind, source) in [
            (glow::VERTEX_SHADER, vertex),
            (glow::FRAGMENT_SHADER, fragment),
        ] {
            let shader = gl.create_shader(kind).map_err(anyhow::Error::msg)?;
            gl.shader_source(shader, source);
            gl.compile_shader(shader);
            if !gl.get_shader_compile_status(shader) {
                bail!(
                    "OpenGL failed to compile a shader: {}",
                    gl.get_shader_info_log(shader)
                );
            }
            gl.attach_shader(program, shader);
            gl.delete_shader(shader);
        }
        for (index, name) in ["place", "normal", "at"].iter().enumerate() {
            // Vertices with two attributes have no normal, so `at` takes the index of the normal.
            let index = if vertex == CODE_VERTEX && *name == "at" {
                1
            } else {
                index as u32
            };
            gl.bind_attrib_location(program, index, name);
        }
        gl.link_program(program);
        if !gl.get_program_link_status(program) {
            bail!(
                "OpenGL failed to link a program: {}",
                gl.get_program_info_log(program)
            );
        }
        Ok(program)
    }
}

/// # Safety
/// The context of `gl` must be current.
unsafe fn vertices(
    gl: &glow::Context,
    data: &[f32],
    parts: &[i32],
) -> Result<(glow::VertexArray, glow::Buffer)> {
    // SAFETY: by this function's contract; offsets stay within the stride.
    unsafe {
        let array = gl.create_vertex_array().map_err(anyhow::Error::msg)?;
        gl.bind_vertex_array(Some(array));
        let buffer = gl.create_buffer().map_err(anyhow::Error::msg)?;
        gl.bind_buffer(glow::ARRAY_BUFFER, Some(buffer));
        gl.buffer_data_u8_slice(glow::ARRAY_BUFFER, &bytes(data), glow::STATIC_DRAW);
        let stride = parts.iter().sum::<i32>() * 4;
        let mut offset = 0;
        for (index, &part) in parts.iter().enumerate() {
            let index = index as u32;
            gl.enable_vertex_attrib_array(index);
            gl.vertex_attrib_pointer_f32(index, part, glow::FLOAT, false, stride, offset);
            offset += part * 4;
        }
        Ok((array, buffer))
    }
}

/// Uploads `data` as the indices of the bound vertex array.
///
/// # Safety
/// The context of `gl` must be current.
unsafe fn indices(gl: &glow::Context, data: &[u16]) -> Result<()> {
    let bytes: Vec<u8> = data.iter().flat_map(|index| index.to_ne_bytes()).collect();
    // SAFETY: by this function's contract.
    unsafe {
        let buffer = gl.create_buffer().map_err(anyhow::Error::msg)?;
        gl.bind_buffer(glow::ELEMENT_ARRAY_BUFFER, Some(buffer));
        gl.buffer_data_u8_slice(glow::ELEMENT_ARRAY_BUFFER, &bytes, glow::STATIC_DRAW);
    }
    Ok(())
}

/// # Safety
/// The context of `gl` must be current.
unsafe fn upload(gl: &glow::Context, pixels: &Texture, smooth: bool) -> Result<glow::Texture> {
    // SAFETY: by this function's contract; a `Texture` always holds SIDE × SIDE × 3 bytes.
    unsafe {
        let texture = gl.create_texture().map_err(anyhow::Error::msg)?;
        gl.bind_texture(glow::TEXTURE_2D, Some(texture));
        let side = texture::SIDE as i32;
        gl.tex_image_2d(
            glow::TEXTURE_2D,
            0,
            glow::RGB8 as i32,
            side,
            side,
            0,
            glow::RGB,
            glow::UNSIGNED_BYTE,
            glow::PixelUnpackData::Slice(Some(&pixels.0)),
        );
        if smooth {
            filter(gl, glow::LINEAR, glow::LINEAR);
        } else {
            filter(gl, glow::NEAREST, glow::NEAREST);
        }
        Ok(texture)
    }
}

/// # Safety
/// The context of `gl` must be current.
unsafe fn filter(gl: &glow::Context, shrink: u32, grow: u32) {
    // SAFETY: by this function's contract.
    unsafe {
        gl.tex_parameter_i32(glow::TEXTURE_2D, glow::TEXTURE_MIN_FILTER, shrink as i32);
        gl.tex_parameter_i32(glow::TEXTURE_2D, glow::TEXTURE_MAG_FILTER, grow as i32);
    }
}

/// Lighting is computed per vertex, which makes the room cheap without a GPU.
const ROOM_VERTEX: &str = "#version 130
in vec3 place; in vec3 normal; in vec2 at;
uniform mat4 camera, model; uniform vec3 ambient, glow;
uniform vec3 light_place[3]; uniform vec3 light_colour[3];
out vec2 uv; out vec3 light;
void main() {
    vec4 world = model * vec4(place, 1.0);
    vec3 facing = normalize(mat3(model) * normal);
    vec3 sum = ambient;
    for (int i = 0; i < 3; i++) {
        vec3 way = light_place[i] - world.xyz;
        float far = dot(way, way);
        sum += light_colour[i] * max(0.0, dot(facing, way) * inversesqrt(far)) / (1.0 + 0.16 * far);
    }
    light = sum + glow; uv = at; gl_Position = camera * world;
}";
const ROOM_FRAGMENT: &str = "#version 130
in vec2 uv; in vec3 light; uniform sampler2D picture; out vec4 colour;
void main() { colour = vec4(texture(picture, uv).rgb * light, 1.0); }";
const CODE_VERTEX: &str = "#version 130
in vec2 place; in vec2 at; out vec2 uv;
void main() { uv = at; gl_Position = vec4(place, 0.0, 1.0); }";
const CODE_FRAGMENT: &str = "#version 130
in vec2 uv; uniform sampler2D picture; out vec4 colour;
void main() { colour = texture(picture, uv); }";
