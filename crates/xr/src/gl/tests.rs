//! Tests of pictures composed with OpenGL, in a windowless context of Mesa's software renderer. They compare the pixels
//! that the host receives.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

use glow::HasContext as _;
use libloading::os::unix::Library;
use openuvr_media::capture::submit::{Submitted, Submitter, channel};
use openuvr_media::capture::{Capture as _, CaptureEvent, RenderInfo};
use openuvr_media::picture::{PixelFormat, RowOrder};
use openuvr_proto::units::Size;
use openxr_sys as xr;
use openxr_sys::platform::EglGetProcAddressMNDX;

use super::binding::Binding;
use super::graphics::Graphics;
use super::images::{Image, ImageInfo, SwapchainImages};
use crate::logic::composition::{Blend, ImageRect, Shape, Surface};
use crate::logic::pose::Pose;
use crate::logic::scene::{EyeScene, Scene};
use crate::logic::views::Headset;

const EYE: Size = Size::new(40, 24);

/// No step takes this long, even on a busy machine.
const TEST_TIMEOUT: Option<Duration> = Some(Duration::from_secs(30));

type Ptr = *mut c_void;

/// An application with an OpenGL context, and the host that receives its pictures.
struct Fixture {
    graphics: Graphics,
    gl: glow::Context,
    to: Arc<Submitter>,
    host: Submitted,
    make_current: unsafe extern "C" fn(Ptr, Ptr, Ptr, Ptr) -> c_uint,
    display: Ptr,
    context: Ptr,
}

impl Fixture {
    /// Prints a message and returns `None` if Mesa is not available.
    fn open() -> Option<Fixture> {
        // SAFETY: EGL's functions are called as specified, and the library stays loaded.
        let fixture = unsafe { Fixture::try_open() };
        if fixture.is_none() {
            eprintln!("SKIPPED: there is no EGL without a window (libegl1, libgl1-mesa-dri)");
            assert!(std::env::var("CI").as_deref() != Ok("true"), "no EGL");
        }
        fixture
    }

    unsafe fn try_open() -> Option<Fixture> {
        // Values from the registries of EGL 1.5 and EGL_MESA_platform_surfaceless.
        const SURFACELESS: c_uint = 0x31DD;
        const OPENGL_API: c_uint = 0x30A2;
        const OPENGL_BIT: c_int = 0x0008;
        const RENDERABLE_TYPE: c_int = 0x3040;
        const SURFACE_TYPE: c_int = 0x3033;
        const MAJOR: c_int = 0x3098;
        const MINOR: c_int = 0x30FB;
        const NONE: c_int = 0x3038;
        // SAFETY: EGL's functions are called as specified, and the library stays loaded.
        unsafe {
            let library = Library::new("libEGL.so.1").ok()?;
            let find: EglGetProcAddressMNDX = *library.get(b"eglGetProcAddress\0").ok()?;
            let open: unsafe extern "C" fn(c_uint, Ptr, *const isize) -> Ptr =
                *library.get(b"eglGetPlatformDisplay\0").ok()?;
            let initialize: unsafe extern "C" fn(Ptr, *mut c_int, *mut c_int) -> c_uint =
                *library.get(b"eglInitialize\0").ok()?;
            let bind: unsafe extern "C" fn(c_uint) -> c_uint =
                *library.get(b"eglBindAPI\0").ok()?;
            let choose: unsafe extern "C" fn(
                Ptr,
                *const c_int,
                *mut Ptr,
                c_int,
                *mut c_int,
            ) -> c_uint = *library.get(b"eglChooseConfig\0").ok()?;
            let create: unsafe extern "C" fn(Ptr, Ptr, Ptr, *const c_int) -> Ptr =
                *library.get(b"eglCreateContext\0").ok()?;
            let make_current: unsafe extern "C" fn(Ptr, Ptr, Ptr, Ptr) -> c_uint =
                *library.get(b"eglMakeCurrent\0").ok()?;
            // The library stays loaded, because threads call it while they end.
            std::mem::forget(library);
            let display = open(SURFACELESS, null_mut(), null());
            if display.is_null() || initialize(display, null_mut(), null_mut()) == 0 {
                return None;
            }
            bind(OPENGL_API);
            let attributes = [RENDERABLE_TYPE, OPENGL_BIT, SURFACE_TYPE, 0, NONE];
            let (mut config, mut count) = (null_mut(), 0);
            choose(display, attributes.as_ptr(), &mut config, 1, &mut count);
            let version = [MAJOR, 4, MINOR, 3, NONE];
            let context = create(display, config, null_mut(), version.as_ptr());
            if context.is_null() || make_current(display, null_mut(), null_mut(), context) == 0 {
                return None;
            }
            let binding = xr::GraphicsBindingEGLMNDX {
                ty: xr::GraphicsBindingEGLMNDX::TYPE,
                next: null(),
                get_proc_address: Some(find),
                display,
                config,
                context,
            };
            let gl = glow::Context::from_loader_function_cstr(|name| {
                find(name.as_ptr()).map_or(null(), |found| found as *const c_void)
            });
            let graphics = Graphics::new(Binding::egl(&binding).ok()?).ok()?;
            let (to, host) = channel(EYE, 240.0).ok()?;
            Some(Fixture {
                graphics,
                gl,
                to: Arc::new(to),
                host,
                make_current,
                display,
                context,
            })
        }
    }

    /// Creates images and renders to the first one. Each layer gets one colour (components from 0 to 1), but the upper
    /// half of the first layer gets the colour `above`.
    fn rendered(
        &self,
        format: u32,
        samples: u32,
        layers: &[[f32; 4]],
        above: [f32; 4],
    ) -> Arc<SwapchainImages> {
        let info = ImageInfo::read(&xr::SwapchainCreateInfo {
            ty: xr::SwapchainCreateInfo::TYPE,
            next: null(),
            create_flags: xr::SwapchainCreateFlags::EMPTY,
            usage_flags: xr::SwapchainUsageFlags::COLOR_ATTACHMENT,
            format: format.into(),
            sample_count: samples,
            width: EYE.width,
            height: EYE.height,
            face_count: 1,
            array_size: u32::try_from(layers.len()).unwrap(),
            mip_count: 1,
        });
        let swapchain_images = self.graphics.make(&info.unwrap()).unwrap();
        let gl = &self.gl;
        let (target, texture) = (swapchain_images.info.target(), swapchain_images.textures[0]);
        // SAFETY: the application's context is current, as it was when the session was created.
        unsafe {
            let framebuffer = gl.create_framebuffer().unwrap();
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(framebuffer));
            // Colours are linear, as in the composition.
            gl.enable(glow::FRAMEBUFFER_SRGB);
            for (layer, colour) in (0..).zip(layers) {
                let at = (glow::FRAMEBUFFER, glow::COLOR_ATTACHMENT0);
                match layers.len() {
                    1 => gl.framebuffer_texture_2d(at.0, at.1, target, Some(texture), 0),
                    _ => gl.framebuffer_texture_layer(at.0, at.1, Some(texture), 0, layer),
                }
                let status = gl.check_framebuffer_status(glow::FRAMEBUFFER);
                assert_eq!(status, glow::FRAMEBUFFER_COMPLETE);
                let [r, g, b, a] = *colour;
                gl.clear_color(r, g, b, a);
                gl.clear(glow::COLOR_BUFFER_BIT);
                if layer == 0 {
                    let (width, height) = (EYE.width.cast_signed(), EYE.height.cast_signed());
                    let [r, g, b, a] = above;
                    gl.enable(glow::SCISSOR_TEST);
                    gl.scissor(0, height / 2, width, height / 2);
                    gl.clear_color(r, g, b, a);
                    gl.clear(glow::COLOR_BUFFER_BIT);
                    gl.disable(glow::SCISSOR_TEST);
                }
            }
            gl.delete_framebuffer(framebuffer);
            assert_eq!(gl.get_error(), glow::NO_ERROR);
        }
        Arc::new(swapchain_images)
    }

    /// Submits a frame and returns the RGB values at these coordinates, from the top left corner.
    fn read_frame<const N: usize>(
        &mut self,
        scene: &Scene<Image>,
        at: [[u32; 2]; N],
    ) -> [[u8; 3]; N] {
        let shown = self
            .graphics
            .show(scene, self.to.clone(), RenderInfo::default());
        shown.unwrap();
        assert_eq!(self.host.next(TEST_TIMEOUT).unwrap(), CaptureEvent::Frame);
        let picture = self.host.picture().unwrap();
        assert_eq!(picture.size, Size::new(EYE.width * 2, EYE.height));
        at.map(|[x, y]| {
            let row = match picture.rows {
                RowOrder::TopDown => y,
                RowOrder::BottomUp => picture.size.height - 1 - y,
            };
            let offset = (row * picture.size.width + x) as usize * 4;
            let [a, b, c] = [0, 1, 2].map(|part| picture.planes[0].data[offset + part]);
            match picture.format {
                PixelFormat::Rgbx => [a, b, c],
                _ => [c, b, a],
            }
        })
    }

    /// Checks that the application's own context is current again, and that the runtime caused no error in
    /// it.
    fn close(self, all: &[Arc<SwapchainImages>]) {
        for swapchain_images in all {
            self.graphics.destroy_images(swapchain_images);
        }
        let Fixture {
            graphics, to, host, ..
        } = self;
        drop((to, host));
        graphics.close();
        // SAFETY: the context is current on this thread.
        unsafe {
            assert_eq!(self.gl.get_error(), glow::NO_ERROR);
            assert!(
                self.gl.is_enabled(glow::FRAMEBUFFER_SRGB),
                "the application's state is unchanged"
            );
            assert!(!self.context.is_null());
            (self.make_current)(self.display, null_mut(), null_mut(), null_mut());
        }
    }
}

fn surface(of: &Arc<SwapchainImages>, layer: u32, shape: Shape) -> Surface<Image> {
    Surface {
        image: Image {
            swapchain_images: of.clone(),
            index: 0,
            layer,
        },
        rect: ImageRect {
            x: 0,
            y: 0,
            size: EYE,
        },
        blend: Blend::default(),
        shape,
    }
}

/// A frame that shows layer 0 of `of` to the left eye and layer `right` to the right eye, with the surfaces `front` in
/// front of them.
fn scene(of: &Arc<SwapchainImages>, right: u32, front: &[Surface<Image>]) -> Scene<Image> {
    let all = Headset::of(None).eyes(Pose::IDENTITY, 2);
    let eye = |at: usize, layer| {
        let eye = all[at];
        let view = surface(of, layer, Shape::View(eye));
        EyeScene {
            eye,
            surfaces: std::iter::once(view).chain(front.iter().cloned()).collect(),
        }
    };
    Scene {
        size: EYE,
        eyes: vec![eye(0, 0), eye(1, right)],
    }
}

fn near(pixels: &[[u8; 3]], expected: &[[u8; 3]]) -> bool {
    let close = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= 2;
    pixels
        .as_flattened()
        .iter()
        .zip(expected.as_flattened())
        .all(close)
}

const RED: [f32; 4] = [1.0, 0.0, 0.0, 1.0];
const GREEN: [f32; 4] = [0.0, 1.0, 0.0, 1.0];
const BLUE: [f32; 4] = [0.0, 0.0, 1.0, 1.0];

/// A point in the upper and one in the lower half of the left eye's picture, and the same for the right eye's picture.
const POINTS: [[u32; 2]; 4] = [[20, 3], [20, 20], [60, 3], [60, 20]];

/// Half of the light intensity, in sRGB.
const HALF: u8 = 188;

#[test]
fn both_eyes_are_copied_side_by_side_and_upright() {
    let Some(mut fixture) = Fixture::open() else {
        return;
    };
    let both = fixture.rendered(glow::SRGB8_ALPHA8, 1, &[RED, BLUE], GREEN);
    for _ in 0..9 {
        let pixels = fixture.read_frame(&scene(&both, 1, &[]), POINTS);
        let (red, green, blue) = ([255, 0, 0], [0, 255, 0], [0, 0, 255]);
        assert_eq!(pixels, [green, red, blue, blue]);
    }
    fixture.close(&[both]);
}

#[test]
fn samples_are_resolved_and_linear_colours_converted() {
    let grey = [0.5, 0.5, 0.0, 1.0];
    for (format, samples, layers) in [
        (glow::SRGB8_ALPHA8, 4, 1),
        (glow::SRGB8_ALPHA8, 4, 2),
        (glow::RGBA16F, 1, 1),
        (glow::RGBA8, 1, 2),
        (glow::SRGB8, 1, 1),
        (glow::RGB10_A2, 4, 1),
    ] {
        let Some(mut fixture) = Fixture::open() else {
            return;
        };
        let one = fixture.rendered(format, samples, &vec![grey; layers], GREEN);
        let pixels = fixture.read_frame(&scene(&one, 0, &[]), POINTS);
        let (grey, green) = ([HALF, HALF, 0], [0, 255, 0]);
        let expected = [green, grey, green, grey];
        assert!(
            near(&pixels, &expected),
            "{format:x} {samples} {layers} {pixels:?}"
        );
        fixture.close(&[one]);
    }
}

#[test]
fn a_quad_is_blended_in_front() {
    let Some(mut fixture) = Fixture::open() else {
        return;
    };
    let format = glow::SRGB8_ALPHA8;
    let behind = fixture.rendered(format, 1, &[RED], RED);
    let half = [0.0, 0.0, 1.0, 0.5];
    let unpremultiplied = fixture.rendered(format, 1, &[half], half);
    // Two metres ahead, half as wide and high as the picture.
    let shape = Shape::Quad(Pose::translation([0.0, 0.0, -2.0]), [2.0, 2.0]);
    let (red, blue) = ([255, 0, 0], [0, 0, 255]);
    for (alpha, expected) in [(false, blue), (true, [HALF, 0, HALF])] {
        let quad = Surface {
            blend: Blend {
                alpha,
                unpremultiplied: alpha,
            },
            ..surface(&unpremultiplied, 0, shape)
        };
        let points = [[20, 12], [0, 0], [60, 12], [79, 23]];
        let pixels = fixture.read_frame(&scene(&behind, 0, &[quad]), points);
        assert!(near(&pixels, &[expected, red, expected, red]), "{pixels:?}");
    }
    fixture.close(&[behind, unpremultiplied]);
}

#[test]
fn an_upside_down_view_is_flipped() {
    let Some(mut fixture) = Fixture::open() else {
        return;
    };
    let one = fixture.rendered(glow::SRGB8_ALPHA8, 1, &[RED], GREEN);
    let mut scene = scene(&one, 0, &[]);
    for eye_scene in &mut scene.eyes {
        if let Shape::View(view) = &mut eye_scene.surfaces[0].shape {
            let fov = &mut view.fov;
            (fov.angle_up, fov.angle_down) = (fov.angle_down, fov.angle_up);
        }
    }
    let pixels = fixture.read_frame(&scene, POINTS);
    let (red, green) = ([255, 0, 0], [0, 255, 0]);
    assert_eq!(pixels, [red, green, red, green]);
    fixture.close(&[one]);
}
