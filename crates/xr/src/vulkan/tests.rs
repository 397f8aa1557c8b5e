//! Tests of pictures on a Vulkan device (lavapipe, or with `OPENUVR_VULKAN_DEVICE=0` the first device):
//! compares the pixels that the host receives.

use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ash::vk;
use openuvr_media::capture::submit::{Submitted, Submitter, channel};
use openuvr_media::capture::{Capture as _, CaptureEvent, Drawn};
use openuvr_media::picture::PixelFormat;
use openuvr_proto::units::Size;
use openxr_sys as xr;

use super::choice::{Choice, pointer};
use super::device::Device;
use super::graphics::Graphics;
use super::images::{Pictures, Wish};
use super::scene::Image;
use crate::extensions::Enabled;
use crate::graphics::Graphics as Drawing;
use crate::handles::Object as _;
use crate::instance::Instance;
use crate::logic::composition::{Blend, Eye, Part, Shape, Surface};
use crate::logic::pose::Pose;
use crate::logic::scene::{Scene, Seen};
use crate::logic::views::{Headset, fov};
use crate::session::Session;

const EYE: Size = Size::new(40, 24);

/// Longer than any step takes on a busy machine.
const TEST_TIMEOUT: Option<Duration> = Some(Duration::from_secs(30));

/// Devices of lavapipe share rendering resources: one test at a time uses a device.
static ONE: Mutex<()> = Mutex::new(());

/// A device with a session, and the host that receives its pictures.
struct Stage {
    session: Arc<Session>,
    to: Arc<Submitter>,
    host: Submitted,
    instance: ash::Instance,
    _library: libloading::Library,
}

impl Stage {
    /// `None`, with a message, without lavapipe.
    fn open() -> Option<Stage> {
        // SAFETY: the Vulkan loader has no initialisers with preconditions; functions are called as
        // specified, with valid handles.
        let stage = unsafe { Stage::try_open() };
        if stage.is_none() {
            eprintln!("SKIPPED: there is no lavapipe (mesa-vulkan-drivers)");
            assert!(std::env::var("CI").as_deref() != Ok("true"), "no lavapipe");
        }
        stage
    }

    unsafe fn try_open() -> Option<Stage> {
        // SAFETY: as in `open`.
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
            let mut choice = Choice::default();
            let instance = choice.instance(pointer(made)).ok()?;
            let all = instance.enumerate_physical_devices().ok()?;
            let software = |physical: &vk::PhysicalDevice| {
                let properties = instance.get_physical_device_properties(*physical);
                properties.device_type == vk::PhysicalDeviceType::CPU
            };
            let physical = match std::env::var("OPENUVR_VULKAN_DEVICE") {
                Ok(index) => *all.get(index.parse::<usize>().ok()?)?,
                Err(_) => all.into_iter().find(software)?,
            };
            choice.choose(pointer(made)).ok()?;
            let chosen = choice.chosen.as_mut()?;
            chosen.1.0 = pointer(physical);
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
            let graphics = Graphics::new(&binding, &choice).ok()?;
            let ours = Arc::new(Instance::new(Enabled::default()));
            let (to, host) = channel(EYE, 240.0).ok()?;
            Some(Stage {
                session: Arc::new(Session::new(
                    ours,
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

    /// Creates a swapchain and renders its first image, each layer in one colour (0 to 1).
    fn drawn(&self, format: vk::Format, samples: u32, layers: &[[f32; 4]]) -> Arc<Pictures> {
        let wish = Wish::read(&xr::SwapchainCreateInfo {
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
        let wish = wish.unwrap();
        let pictures = self.graphics().make(&wish).unwrap();
        self.graphics().acquired(&pictures).unwrap();
        for (layer, colour) in (0..).zip(layers) {
            self.clear(pictures.images[0].image, layer, *colour);
        }
        Arc::new(pictures)
    }

    /// Fills a layer with one colour, as an application would.
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
        let ours = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
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
        // SAFETY: as in `open`; the queue is idle at the end.
        unsafe {
            let pool = device.create_command_pool(&pool, None).unwrap();
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(pool)
                .command_buffer_count(1);
            let commands = device.allocate_command_buffers(&info).unwrap();
            let begin = vk::CommandBufferBeginInfo::default();
            device.begin_command_buffer(commands[0], &begin).unwrap();
            let forth = [barrier(ours, written)];
            device.cmd_pipeline_barrier(commands[0], all, all, none, &[], &[], &forth);
            device.cmd_clear_color_image(commands[0], image, written, &value, &[range]);
            let back = [barrier(written, ours)];
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
    fn shows<const N: usize>(&mut self, scene: &Scene<Image>, at: [[u32; 2]; N]) -> [[u8; 3]; N] {
        let graphics = self.graphics();
        let shown = graphics.show(scene, self.to.clone(), Drawn::default());
        shown.unwrap();
        assert_eq!(self.host.next(TEST_TIMEOUT).unwrap(), CaptureEvent::Frame);
        let picture = self.host.picture().unwrap();
        assert_eq!(picture.size, Size::new(EYE.width * 2, EYE.height));
        at.map(|[x, y]| {
            let place = (y * picture.size.width + x) as usize * 4;
            let [a, b, c] = [0, 1, 2].map(|part| picture.planes[0].data[place + part]);
            match picture.format {
                PixelFormat::Rgbx => [a, b, c],
                _ => [c, b, a],
            }
        })
    }

    fn close(self) {
        // Release all pictures before their buffers are freed.
        let Stage {
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

fn surface(of: &Arc<Pictures>, layer: u32, shape: Shape) -> Surface<Image> {
    Surface {
        image: Image {
            pictures: of.clone(),
            index: 0,
            layer,
        },
        part: Part {
            x: 0,
            y: 0,
            size: EYE,
        },
        blend: Blend::default(),
        shape,
    }
}

/// The default eyes.
fn seen() -> [Eye; 2] {
    let all = Headset::of(None).eyes(Pose::SAME, 2);
    [all[0], all[1]]
}

/// A frame with a view of each layer of `of`, and with surfaces in front.
fn scene(of: &Arc<Pictures>, right: u32, front: &[Surface<Image>]) -> Scene<Image> {
    let [a, b] = seen();
    let eye = |eye: Eye, layer| Seen {
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

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const RED: [f32; 4] = [1.0, 0.0, 0.0, 1.0];
const BLUE: [f32; 4] = [0.0, 0.0, 1.0, 1.0];

/// Centre and corner of the left eye's picture, and of the right eye's.
const PLACES: [[u32; 2]; 4] = [[20, 12], [0, 0], [60, 12], [79, 23]];

/// Half of the light intensity, in sRGB.
const HALF: u8 = 188;

fn near(seen: &[[u8; 3]], wanted: &[[u8; 3]]) -> bool {
    let close = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= 1;
    (seen.iter().flatten().zip(wanted.iter().flatten())).all(close)
}

#[test]
fn layers_of_an_array_are_copied_side_by_side() {
    let _alone = alone();
    for format in [vk::Format::R8G8B8A8_SRGB, vk::Format::B8G8R8A8_SRGB] {
        let Some(mut stage) = Stage::open() else {
            return;
        };
        let both = stage.drawn(format, 1, &[RED, BLUE]);
        for _ in 0..9 {
            let seen = stage.shows(&scene(&both, 1, &[]), PLACES);
            assert_eq!(seen, [[255, 0, 0], [255, 0, 0], [0, 0, 255], [0, 0, 255]]);
        }
        stage.graphics().forget(&both);
        drop(both);
        stage.close();
    }
}

#[test]
fn samples_are_resolved_and_linear_colours_converted() {
    let _alone = alone();
    let grey = [0.5, 0.5, 0.0, 1.0];
    let formats = [
        (vk::Format::R8G8B8A8_SRGB, 4),
        (vk::Format::R8G8B8A8_UNORM, 1),
        (vk::Format::R16G16B16A16_SFLOAT, 1),
        (vk::Format::B8G8R8A8_UNORM, 4),
    ];
    for (format, samples) in formats {
        let Some(mut stage) = Stage::open() else {
            return;
        };
        let one = stage.drawn(format, samples, &[grey]);
        for _ in 0..4 {
            let seen = stage.shows(&scene(&one, 0, &[]), PLACES);
            let wanted = [[HALF, HALF, 0]; 4];
            assert!(near(&seen, &wanted), "{} {seen:?}", format.as_raw());
        }
        stage.graphics().forget(&one);
        drop(one);
        stage.close();
    }
}

#[test]
fn a_quad_is_blended_in_front() {
    let _alone = alone();
    let Some(mut stage) = Stage::open() else {
        return;
    };
    let format = vk::Format::R8G8B8A8_SRGB;
    let behind = stage.drawn(format, 1, &[RED, RED]);
    let straight = stage.drawn(format, 1, &[[0.0, 0.0, 1.0, 0.5]]);
    let multiplied = stage.drawn(format, 1, &[[0.0, 0.0, 0.5, 0.5]]);
    // Two metres ahead, half as wide and high as the picture.
    let place = Shape::Quad(Pose::moved([0.0, 0.0, -2.0]), [2.0, 2.0]);
    let blend = |alpha, straight| Blend { alpha, straight };
    let red = [255, 0, 0];
    let mixed = [HALF, 0, HALF];
    let cases = [
        (&straight, blend(false, false), [0, 0, 255]),
        (&straight, blend(true, true), mixed),
        (&multiplied, blend(true, false), mixed),
    ];
    for (of, blend, wanted) in cases {
        let quad = Surface {
            blend,
            ..surface(of, 0, place)
        };
        let seen = stage.shows(&scene(&behind, 1, &[quad]), PLACES);
        assert!(near(&seen, &[wanted, red, wanted, red]), "{seen:?}");
    }
    for gone in [behind, straight, multiplied] {
        stage.graphics().forget(&gone);
    }
    stage.close();
}

#[test]
fn a_second_rotated_view_is_reprojected() {
    let _alone = alone();
    let Some(mut stage) = Stage::open() else {
        return;
    };
    let format = vk::Format::R8G8B8A8_SRGB;
    let behind = stage.drawn(format, 1, &[RED, RED]);
    let front = stage.drawn(format, 1, &[BLUE]);
    // Rotated to the left by half of the field of view: it covers the left half.
    let turned = crate::logic::pose::Rotation::around([0.0, std::f32::consts::FRAC_PI_4, 0.0]);
    let eye = Eye {
        pose: Pose {
            turned,
            at: [0.0; 3],
        },
        fov: fov(),
    };
    let view = surface(&front, 0, Shape::View(eye));
    let places = [[10, 12], [30, 12], [50, 12], [70, 12]];
    let seen = stage.shows(&scene(&behind, 1, &[view]), places);
    let (red, blue) = ([255, 0, 0], [0, 0, 255]);
    assert_eq!(seen, [blue, red, blue, red]);
    for gone in [behind, front] {
        stage.graphics().forget(&gone);
    }
    stage.close();
}
