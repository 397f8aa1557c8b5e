//! Tests of pictures on a Vulkan device. They compare the pixels that the host receives. The device is lavapipe, or the
//! first device if `OPENUVR_VULKAN_DEVICE` is `0`.

use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ash::vk;
use openuvr_media::capture::submit::{Submitted, Submitter, channel};
use openuvr_media::capture::{Capture as _, CaptureEvent, RenderInfo};
use openuvr_media::picture::PixelFormat;
use openuvr_proto::units::Size;
use openxr_sys as xr;

use super::device::Device;
use super::device_selection::{DeviceSelection, pointer};
use super::graphics::Graphics;
use super::images::{ImageInfo, SwapchainImages};
use super::scene::Image;
use crate::extensions::Enabled;
use crate::graphics::Graphics as Drawing;
use crate::handles::Object as _;
use crate::instance::Instance;
use crate::logic::composition::{Blend, Eye, ImageRect, Shape, Surface};
use crate::logic::pose::Pose;
use crate::logic::scene::{EyeScene, Scene};
use crate::logic::views::{Headset, default_fov};
use crate::session::Session;

const EYE: Size = Size::new(40, 24);

/// Longer than any step takes on a busy machine.
const TEST_TIMEOUT: Option<Duration> = Some(Duration::from_secs(30));

/// Devices of lavapipe share rendering resources, so only one test at a time uses a device.
static DEVICE_LOCK: Mutex<()> = Mutex::new(());

/// A device with a session, and the host that receives its pictures.
struct Fixture {
    session: Arc<Session>,
    to: Arc<Submitter>,
    host: Submitted,
    instance: ash::Instance,
    _library: libloading::Library,
}

impl Fixture {
    /// Prints a message and returns `None` if lavapipe is not available.
    fn open() -> Option<Fixture> {
        // SAFETY: the Vulkan loader has no initialisers with preconditions; functions are called as
        // specified, with valid handles.
        let fixture = unsafe { Fixture::try_open() };
        if fixture.is_none() {
            eprintln!("SKIPPED: there is no lavapipe (mesa-vulkan-drivers)");
            assert!(std::env::var("CI").as_deref() != Ok("true"), "no lavapipe");
        }
        fixture
    }

    unsafe fn try_open() -> Option<Fixture> {
        // SAFETY: the Vulkan loader has no initialisers with preconditions. Functions are called as specified, with
        // valid handles.
        unsafe {
            let library = libloading::Library::new("libvulkan.so.1").ok()?;
            let get_proc = library.get::<vk::PFN_vkGetInstanceProcAddr>(b"vkGetInstanceProcAddr\0");
            let get_proc = *get_proc.ok()?;
            let load = |name: &CStr| {
                let found = get_proc(vk::Instance::null(), name.as_ptr());
                found.map_or(std::ptr::null(), |f| f as *const c_void)
            };
            let entry = ash::EntryFnV1_0::load(load);
            let mut made = vk::Instance::null();
            let info = vk::InstanceCreateInfo::default();
            let result = (entry.create_instance)(&info, std::ptr::null(), &mut made);
            result.result().ok()?;
            let mut selection = DeviceSelection::default();
            let instance = selection.instance(pointer(made)).ok()?;
            let all = instance.enumerate_physical_devices().ok()?;
            let software = |physical: &vk::PhysicalDevice| {
                let properties = instance.get_physical_device_properties(*physical);
                properties.device_type == vk::PhysicalDeviceType::CPU
            };
            let physical = match std::env::var("OPENUVR_VULKAN_DEVICE") {
                Ok(index) => *all.get(index.parse::<usize>().ok()?)?,
                Err(_) => all.into_iter().find(software)?,
            };
            selection.select(pointer(made)).ok()?;
            let selected = selection.selected.as_mut()?;
            selected.1.0 = pointer(physical);
            let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
            let device = instance.create_device(physical, &info, None).ok()?;
            let binding = xr::GraphicsBindingVulkanKHR {
                ty: xr::GraphicsBindingVulkanKHR::TYPE,
                next: std::ptr::null(),
                instance: pointer(made),
                physical_device: pointer(physical),
                device: pointer(device.handle()),
                queue_family_index: 0,
                queue_index: 0,
            };
            let graphics = Graphics::new(&binding, &selection).ok()?;
            let instance_object = Arc::new(Instance::new(Enabled::default()));
            let (to, host) = channel(EYE, 240.0).ok()?;
            Some(Fixture {
                session: Arc::new(Session::new(
                    instance_object,
                    Some(Drawing::Vulkan(Box::new(graphics))),
                    None,
                )),
                to: Arc::new(to),
                host,
                instance,
                _library: library,
            })
        }
    }

    fn graphics(&self) -> &Graphics {
        match &self.session.graphics {
            Some(Drawing::Vulkan(vulkan)) => vulkan,
            _ => panic!("the session uses Vulkan"),
        }
    }

    /// Creates a swapchain, and fills each array layer of its first image with one colour (0 to 1).
    fn rendered(
        &self,
        format: vk::Format,
        samples: u32,
        layers: &[[f32; 4]],
    ) -> Arc<SwapchainImages> {
        let info = ImageInfo::read(&xr::SwapchainCreateInfo {
            ty: xr::SwapchainCreateInfo::TYPE,
            next: std::ptr::null(),
            create_flags: xr::SwapchainCreateFlags::EMPTY,
            usage_flags: xr::SwapchainUsageFlags::COLOR_ATTACHMENT
                | xr::SwapchainUsageFlags::TRANSFER_DST,
            format: format.as_raw().into(),
            sample_count: samples,
            width: EYE.width,
            height: EYE.height,
            face_count: 1,
            array_size: u32::try_from(layers.len()).unwrap(),
            mip_count: 1,
        });
        let info = info.unwrap();
        let swapchain_images = self.graphics().make(&info).unwrap();
        self.graphics().acquired(&swapchain_images).unwrap();
        for (layer, colour) in (0..).zip(layers) {
            self.clear(swapchain_images.images[0].image, layer, *colour);
        }
        Arc::new(swapchain_images)
    }

    /// Fills an array layer with one colour, as an application would.
    fn clear(&self, image: vk::Image, layer: u32, colour: [f32; 4]) {
        let Device {
            functions: device,
            queue,
            ..
        } = &self.graphics().device;
        let range = vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            level_count: 1,
            base_array_layer: layer,
            layer_count: 1,
            ..Default::default()
        };
        let (all, none) = (
            vk::PipelineStageFlags::ALL_COMMANDS,
            vk::DependencyFlags::empty(),
        );
        let attachment = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
        let written = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
        let any = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let barrier = |from, to| {
            vk::ImageMemoryBarrier::default()
                .src_access_mask(any)
                .dst_access_mask(any)
                .old_layout(from)
                .new_layout(to)
                .image(image)
                .subresource_range(range)
        };
        let pool = vk::CommandPoolCreateInfo::default();
        let value = vk::ClearColorValue { float32: colour };
        // SAFETY: functions are called as specified, with valid handles. The queue is idle at the end.
        unsafe {
            let pool = device.create_command_pool(&pool, None).unwrap();
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(pool)
                .command_buffer_count(1);
            let commands = device.allocate_command_buffers(&info).unwrap();
            let begin = vk::CommandBufferBeginInfo::default();
            device.begin_command_buffer(commands[0], &begin).unwrap();
            let forth = [barrier(attachment, written)];
            device.cmd_pipeline_barrier(commands[0], all, all, none, &[], &[], &forth);
            device.cmd_clear_color_image(commands[0], image, written, &value, &[range]);
            let back = [barrier(written, attachment)];
            device.cmd_pipeline_barrier(commands[0], all, all, none, &[], &[], &back);
            device.end_command_buffer(commands[0]).unwrap();
            let submit = vk::SubmitInfo::default().command_buffers(&commands);
            let fence = vk::Fence::null();
            device.queue_submit(*queue, &[submit], fence).unwrap();
            device.queue_wait_idle(*queue).unwrap();
            device.destroy_command_pool(pool, None);
        }
    }

    /// Submits a frame and returns the RGB values at these coordinates.
    fn read_frame<const N: usize>(
        &mut self,
        scene: &Scene<Image>,
        at: [[u32; 2]; N],
    ) -> [[u8; 3]; N] {
        let graphics = self.graphics();
        let shown = graphics.show(scene, self.to.clone(), RenderInfo::default());
        shown.unwrap();
        assert_eq!(self.host.next(TEST_TIMEOUT).unwrap(), CaptureEvent::Frame);
        let picture = self.host.picture().unwrap();
        assert_eq!(picture.size, Size::new(EYE.width * 2, EYE.height));
        at.map(|[x, y]| {
            let offset = (y * picture.size.width + x) as usize * 4;
            let [a, b, c] = [0, 1, 2].map(|part| picture.planes[0].data[offset + part]);
            match picture.format {
                PixelFormat::Rgbx => [a, b, c],
                _ => [c, b, a],
            }
        })
    }

    fn close(self) {
        // Release all pictures before their buffers are freed.
        let Fixture {
            session,
            to,
            host,
            instance,
            _library: library,
        } = self;
        drop((to, host));
        session.destroyed();
        let Some(Drawing::Vulkan(graphics)) = &session.graphics else {
            panic!("the session uses Vulkan");
        };
        // SAFETY: the session does not use the device any more.
        unsafe {
            graphics
                .device
                .functions
                .queue_wait_idle(graphics.device.queue)
                .unwrap();
            graphics.device.functions.destroy_device(None);
            instance.destroy_instance(None);
        }
        drop(library);
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

fn default_eyes() -> [Eye; 2] {
    let all = Headset::of(None).eyes(Pose::IDENTITY, 2);
    [all[0], all[1]]
}

/// A frame that shows array layer 0 of `of` in the left eye and array layer `right` in the right eye, with the surfaces
/// `front` in front.
fn scene(of: &Arc<SwapchainImages>, right: u32, front: &[Surface<Image>]) -> Scene<Image> {
    let [a, b] = default_eyes();
    let eye = |eye: Eye, layer| EyeScene {
        eye,
        surfaces: std::iter::once(surface(of, layer, Shape::View(eye)))
            .chain(front.iter().cloned())
            .collect(),
    };
    Scene {
        size: EYE,
        eyes: vec![eye(a, 0), eye(b, right)],
    }
}

fn exclusive() -> std::sync::MutexGuard<'static, ()> {
    DEVICE_LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

const RED: [f32; 4] = [1.0, 0.0, 0.0, 1.0];
const BLUE: [f32; 4] = [0.0, 0.0, 1.0, 1.0];

/// Points in the picture: centre and corner of the left eye, then centre and corner of the right eye.
const POINTS: [[u32; 2]; 4] = [[20, 12], [0, 0], [60, 12], [79, 23]];

/// The sRGB value of half the light intensity.
const HALF: u8 = 188;

fn near(pixels: &[[u8; 3]], expected: &[[u8; 3]]) -> bool {
    let close = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= 1;
    (pixels.iter().flatten().zip(expected.iter().flatten())).all(close)
}

#[test]
fn layers_of_an_array_are_copied_side_by_side() {
    let _exclusive = exclusive();
    for format in [vk::Format::R8G8B8A8_SRGB, vk::Format::B8G8R8A8_SRGB] {
        let Some(mut fixture) = Fixture::open() else {
            return;
        };
        let both = fixture.rendered(format, 1, &[RED, BLUE]);
        for _ in 0..9 {
            let pixels = fixture.read_frame(&scene(&both, 1, &[]), POINTS);
            assert_eq!(pixels, [[255, 0, 0], [255, 0, 0], [0, 0, 255], [0, 0, 255]]);
        }
        fixture.graphics().destroy_images(&both);
        drop(both);
        fixture.close();
    }
}

#[test]
fn samples_are_resolved_and_linear_colours_converted() {
    let _exclusive = exclusive();
    let grey = [0.5, 0.5, 0.0, 1.0];
    let formats = [
        (vk::Format::R8G8B8A8_SRGB, 4),
        (vk::Format::R8G8B8A8_UNORM, 1),
        (vk::Format::R16G16B16A16_SFLOAT, 1),
        (vk::Format::B8G8R8A8_UNORM, 4),
    ];
    for (format, samples) in formats {
        let Some(mut fixture) = Fixture::open() else {
            return;
        };
        let one = fixture.rendered(format, samples, &[grey]);
        for _ in 0..4 {
            let pixels = fixture.read_frame(&scene(&one, 0, &[]), POINTS);
            let expected = [[HALF, HALF, 0]; 4];
            assert!(near(&pixels, &expected), "{} {pixels:?}", format.as_raw());
        }
        fixture.graphics().destroy_images(&one);
        drop(one);
        fixture.close();
    }
}

#[test]
fn a_quad_is_blended_in_front() {
    let _exclusive = exclusive();
    let Some(mut fixture) = Fixture::open() else {
        return;
    };
    let format = vk::Format::R8G8B8A8_SRGB;
    let behind = fixture.rendered(format, 1, &[RED, RED]);
    let unpremultiplied = fixture.rendered(format, 1, &[[0.0, 0.0, 1.0, 0.5]]);
    let multiplied = fixture.rendered(format, 1, &[[0.0, 0.0, 0.5, 0.5]]);
    // A quad two metres ahead, half as wide and half as high as the picture.
    let shape = Shape::Quad(Pose::translation([0.0, 0.0, -2.0]), [2.0, 2.0]);
    let blend = |alpha, unpremultiplied| Blend {
        alpha,
        unpremultiplied,
    };
    let red = [255, 0, 0];
    let mixed = [HALF, 0, HALF];
    let cases = [
        (&unpremultiplied, blend(false, false), [0, 0, 255]),
        (&unpremultiplied, blend(true, true), mixed),
        (&multiplied, blend(true, false), mixed),
    ];
    for (of, blend, expected) in cases {
        let quad = Surface {
            blend,
            ..surface(of, 0, shape)
        };
        let pixels = fixture.read_frame(&scene(&behind, 1, &[quad]), POINTS);
        assert!(near(&pixels, &[expected, red, expected, red]), "{pixels:?}");
    }
    for images in [behind, unpremultiplied, multiplied] {
        fixture.graphics().destroy_images(&images);
    }
    fixture.close();
}

#[test]
fn a_second_rotated_view_is_reprojected() {
    let _exclusive = exclusive();
    let Some(mut fixture) = Fixture::open() else {
        return;
    };
    let format = vk::Format::R8G8B8A8_SRGB;
    let behind = fixture.rendered(format, 1, &[RED, RED]);
    let front = fixture.rendered(format, 1, &[BLUE]);
    // The view is rotated to the left by half of the field of view, so it covers the left half.
    let orientation = crate::logic::pose::Rotation::around([0.0, std::f32::consts::FRAC_PI_4, 0.0]);
    let eye = Eye {
        pose: Pose {
            orientation,
            at: [0.0; 3],
        },
        fov: default_fov(),
    };
    let view = surface(&front, 0, Shape::View(eye));
    let points = [[10, 12], [30, 12], [50, 12], [70, 12]];
    let pixels = fixture.read_frame(&scene(&behind, 1, &[view]), points);
    let (red, blue) = ([255, 0, 0], [0, 0, 255]);
    assert_eq!(pixels, [blue, red, blue, red]);
    for images in [behind, front] {
        fixture.graphics().destroy_images(&images);
    }
    fixture.close();
}
