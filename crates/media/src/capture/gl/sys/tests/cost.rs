//! The cost of a picture. Run by hand on a quiet machine with `cargo test --release -p
//! openuvr-media cost_of -- --ignored --nocapture`; on a GPU without a display add
//! `OPENUVR_EGL_DEVICE=0`.

use std::time::{Duration, Instant};

use glow::HasContext as _;
use openuvr_proto::units::Size;
use openuvr_xserver::fixture;

use super::context::{Context, ContextConfig, Egl, Glx, Profile, functions};
use super::{Shelf, WAYS, read_back, read_back_without};
use crate::capture::RenderInfo;
use crate::capture::gl::{ReadSource, Sharing};
use crate::convert::Converter;
use crate::picture::PixelFormat;

const SIZE: Size = Size::new(1280, 720);
const ROUNDS: u32 = 300;

#[test]
#[ignore = "measures times"]
fn cost_of_a_picture() {
    let server = std::env::var("OPENUVR_EGL_DEVICE")
        .is_err()
        .then(|| fixture::xvfb("1280x720", &[]));
    if let Some(server) = server.flatten() {
        let glx = Glx::open(&server.display, SIZE, ContextConfig::DEFAULT, None).expect("GLX");
        cost("GLX", &glx);
        glx.make_current(false);
        let egl = Egl::open(
            Some(&server.display),
            SIZE,
            ContextConfig::of(Profile::Embedded, 3, 0),
        );
        cost("EGL in a window, ES 3.0", &egl.expect("EGL"));
    }
    let egl = Egl::open(None, SIZE, ContextConfig::of(Profile::Core, 4, 5)).expect("EGL");
    cost("EGL without a window", &egl);
}

/// Durations by operation.
#[derive(Default)]
struct Times(Vec<(&'static str, Vec<Duration>)>);

impl Times {
    fn take<R>(&mut self, what: &'static str, f: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = f();
        let time = start.elapsed();
        match self.0.iter_mut().find(|(name, _)| *name == what) {
            Some((_, times)) => times.push(time),
            None => self.0.push((what, vec![time])),
        }
        result
    }

    fn print(mut self) {
        for (what, times) in &mut self.0 {
            times.sort_unstable();
            let ms = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e3;
            println!("  {what:52} p50 {:.3} p99 {:.3} ms", ms(50), ms(99));
        }
    }
}

fn cost(name: &str, context: &dyn Context) {
    let gl = functions(context);
    // SAFETY: the context is current.
    println!("{name}: {}", unsafe {
        gl.get_parameter_string(glow::RENDERER)
    });
    let (bgra, format) = if gl.version().is_embedded {
        (glow::RGBA, PixelFormat::Rgbx)
    } else {
        (glow::BGRA, PixelFormat::Bgrx)
    };
    let mut memory = vec![0; SIZE.pixels() * 4];
    let buffer = pack_buffer(&gl, SIZE.pixels() * 4);
    let pixels = |into: glow::PixelPackData<'_>| {
        // SAFETY: the context is current, and the destination has space for the picture.
        unsafe { gl.read_pixels(0, 0, 1280, 720, bgra, glow::UNSIGNED_BYTE, into) };
    };
    let shelf = Shelf::default();
    let mut ways = WAYS.map(|lacks| read_back_without(context, Sharing::None, &shelf, lacks));
    let theirs = ReadSource::Buffer {
        name: buffer.0.get(),
        offset: 0,
        format,
        stride: SIZE.width as usize * 4,
    };
    let mut shader = (!gl.version().is_embedded).then(|| Shader::new(&gl));
    let mut converter = Converter::new();
    let mut times = Times::default();
    for round in 0..ROUNDS {
        // Drawing is finished before each read, so that only the read is timed.
        let fresh = || paint(&gl, round);
        fresh();
        times.take("glReadPixels into memory", || {
            pixels(glow::PixelPackData::Slice(Some(&mut memory)));
        });
        fresh();
        // SAFETY: the context is current.
        unsafe { gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(buffer)) };
        times.take("glReadPixels into a buffer", || {
            pixels(glow::PixelPackData::BufferOffset(0));
        });
        // SAFETY: the context is current.
        unsafe { gl.bind_buffer(glow::PIXEL_PACK_BUFFER, None) };
        let names = [
            "read: persistently mapped buffers",
            "read: buffers mapped when finished",
            "read: no buffers",
        ];
        for (name, back) in names.into_iter().zip(&mut ways) {
            fresh();
            times.take(name, || {
                back.read(SIZE, ReadSource::Window, RenderInfo::default())
            });
            back.finish(Duration::from_secs(1));
            shelf.take();
        }
        fresh();
        times.take("read: the application's buffer", || {
            ways[0].read(SIZE, theirs, RenderInfo::default());
        });
        ways[0].finish(Duration::from_secs(1));
        shelf.take();
        fresh();
        let frame = times.take("to NV12: read, then convert on the CPU", || {
            ways[0].read(SIZE, ReadSource::Window, RenderInfo::default());
            ways[0].finish(Duration::from_secs(1));
            let frame = shelf.one();
            converter
                .convert(&frame.picture(), PixelFormat::Nv12)
                .expect("converted");
            frame
        });
        if let Some(shader) = &mut shader {
            paint(&gl, round);
            times.take("to NV12: shader, then read", || shader.convert(&gl));
            if round < 3 {
                let want = (converter.convert(&frame.picture(), PixelFormat::Nv12)).expect("again");
                shader.compare(&gl, want.planes[0].data, want.planes[1].data);
            }
        }
        drop(frame);
        times.take("its conversion with rows reversed", || {
            converter
                .convert(
                    &crate::picture::Picture {
                        rows: crate::picture::RowOrder::BottomUp,
                        ..crate::picture::Picture::bgrx(SIZE, &memory, SIZE.width as usize * 4)
                    },
                    PixelFormat::I420,
                )
                .map(|_| ())
                .expect("converted");
        });
        context.swap();
    }
    times.print();
    waiting(context, &gl);
}

/// Counts the pictures that the GPU has not finished when they are read, and measures the cost of the waiting thread.
fn waiting(context: &dyn Context, gl: &glow::Context) {
    let shelf = Shelf::default();
    let mut back = read_back(context, Sharing::Egl, &shelf);
    let (mut times, mut under_way) = (Times::default(), 0);
    for round in 0..ROUNDS {
        paint(gl, round);
        let reading = times.take("read, with a waiting thread", || {
            back.read(SIZE, ReadSource::Window, RenderInfo::default())
        });
        under_way += u32::from(reading == super::ReadStatus::Pending);
        back.finish(Duration::from_secs(1));
        assert_eq!(shelf.take().len(), 1);
    }
    println!("  of {ROUNDS} pictures, {under_way} were not finished at once");
    times.print();
    back.retire(true);
}

fn pack_buffer(gl: &glow::Context, bytes: usize) -> glow::Buffer {
    // SAFETY: the context is current.
    unsafe {
        let buffer = gl.create_buffer().expect("a buffer");
        gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(buffer));
        let bytes = i32::try_from(bytes).expect("small");
        gl.buffer_data_size(glow::PIXEL_PACK_BUFFER, bytes, glow::STREAM_READ);
        gl.bind_buffer(glow::PIXEL_PACK_BUFFER, None);
        buffer
    }
}

/// Draws a few coloured areas and waits until they are drawn.
fn paint(gl: &glow::Context, round: u32) {
    // SAFETY: the context is current.
    unsafe {
        gl.enable(glow::SCISSOR_TEST);
        for (at, left) in (0..1280).step_by(160).enumerate() {
            let level = |n: usize| f32::from(u8::try_from((n * 29) % 256).expect("small")) / 255.0;
            gl.scissor(left, 0, 160, 720);
            gl.clear_color(level(at), level(at + round as usize), level(at * 5), 1.0);
            gl.clear(glow::COLOR_BUFFER_BIT);
        }
        gl.disable(glow::SCISSOR_TEST);
        gl.finish();
    }
}

/// NV12 conversion on the GPU: reduces the bytes to read to three eighths, but needs an additional
/// copy and pass.
struct Shader {
    program: glow::Program,
    array: glow::VertexArray,
    picture: glow::Texture,
    target: glow::Framebuffer,
    buffer: glow::Buffer,
}

const VERTEX: &str = "#version 330
void main() {
    vec2 corner = vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0);
    gl_Position = vec4(corner, 0.0, 1.0);
}";
/// Four bytes per fragment: luma of four pixels, or two pairs of Cb and Cr.
const FRAGMENT: &str = "#version 330
uniform sampler2D picture;
out vec4 four;
vec3 texel(int x, int y) { return texelFetch(picture, ivec2(x, y), 0).rgb; }
float luma(vec3 c) { return dot(c, vec3(0.2126, 0.7152, 0.0722)); }
vec2 chroma(int x, int y) {
    vec3 mean = (texel(x, y) + texel(x + 1, y) + texel(x, y + 1) + texel(x + 1, y + 1)) / 4.0;
    float l = luma(mean);
    return (128.0 + 224.0 * vec2((mean.b - l) / 1.8556, (mean.r - l) / 1.5748)) / 255.0;
}
void main() {
    ivec2 at = ivec2(gl_FragCoord.xy);
    int x = at.x * 4;
    if (at.y < 720) {
        four = (16.0 + 219.0 * vec4(luma(texel(x, at.y)), luma(texel(x + 1, at.y)),
            luma(texel(x + 2, at.y)), luma(texel(x + 3, at.y)))) / 255.0;
    } else {
        int y = (at.y - 720) * 2;
        four = vec4(chroma(x, y), chroma(x + 2, y));
    }
}";

impl Shader {
    fn new(gl: &glow::Context) -> Shader {
        // SAFETY: the context is current.
        unsafe {
            let program = gl.create_program().expect("a program");
            for (kind, source) in [
                (glow::VERTEX_SHADER, VERTEX),
                (glow::FRAGMENT_SHADER, FRAGMENT),
            ] {
                let shader = gl.create_shader(kind).expect("a shader");
                gl.shader_source(shader, source);
                gl.compile_shader(shader);
                let log = gl.get_shader_info_log(shader);
                assert!(gl.get_shader_compile_status(shader), "{log}");
                gl.attach_shader(program, shader);
            }
            gl.link_program(program);
            assert!(gl.get_program_link_status(program));
            let texture = |width, height| {
                let texture = gl.create_texture().expect("a texture");
                gl.bind_texture(glow::TEXTURE_2D, Some(texture));
                gl.tex_storage_2d(glow::TEXTURE_2D, 1, glow::RGBA8, width, height);
                texture
            };
            let written = texture(1280 / 4, 720 * 3 / 2);
            let picture = texture(1280, 720);
            let target = gl.create_framebuffer().expect("a framebuffer");
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(target));
            gl.framebuffer_texture_2d(
                glow::FRAMEBUFFER,
                glow::COLOR_ATTACHMENT0,
                glow::TEXTURE_2D,
                Some(written),
                0,
            );
            gl.bind_framebuffer(glow::FRAMEBUFFER, None);
            Shader {
                program,
                array: gl.create_vertex_array().expect("an array"),
                picture,
                target,
                buffer: pack_buffer(gl, SIZE.pixels() * 3 / 2),
            }
        }
    }

    /// Converts the window and reads the result into the pixel buffer.
    fn convert(&mut self, gl: &glow::Context) {
        // SAFETY: the context is current, and the buffer has room.
        unsafe {
            gl.bind_texture(glow::TEXTURE_2D, Some(self.picture));
            gl.copy_tex_sub_image_2d(glow::TEXTURE_2D, 0, 0, 0, 0, 0, 1280, 720);
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(self.target));
            gl.viewport(0, 0, 320, 1080);
            gl.use_program(Some(self.program));
            gl.bind_vertex_array(Some(self.array));
            gl.draw_arrays(glow::TRIANGLES, 0, 3);
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(self.buffer));
            let into = glow::PixelPackData::BufferOffset(0);
            gl.read_pixels(0, 0, 320, 1080, glow::RGBA, glow::UNSIGNED_BYTE, into);
            let fence = gl
                .fence_sync(glow::SYNC_GPU_COMMANDS_COMPLETE, 0)
                .expect("a fence");
            gl.client_wait_sync(fence, glow::SYNC_FLUSH_COMMANDS_BIT, 1_000_000_000);
            gl.delete_sync(fence);
            gl.bind_framebuffer(glow::FRAMEBUFFER, None);
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, None);
        }
    }

    /// Checks that the shader's bytes differ from the bytes of the CPU conversion by at most 2.
    fn compare(&self, gl: &glow::Context, luma: &[u8], chroma: &[u8]) {
        let mut have = vec![0; SIZE.pixels() * 3 / 2];
        // SAFETY: the context is current, and the buffer has these bytes.
        unsafe {
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(self.buffer));
            gl.get_buffer_sub_data(glow::PIXEL_PACK_BUFFER, 0, &mut have);
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, None);
        }
        let want = luma.iter().chain(chroma);
        let apart = have.iter().zip(want).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(apart <= Some(2), "{apart:?}");
    }
}
