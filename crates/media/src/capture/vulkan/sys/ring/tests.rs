//! The ring on a real device: Mesa's lavapipe, which renders on the CPU, or the device whose index is in
//! `OPENUVR_VULKAN_DEVICE`. There is no window and no layer.

use std::time::Duration;

use super::super::copy::CopyRegion;
use super::*;
use crate::capture::submit::{Submitted, channel};
use crate::capture::{Capture as _, CaptureEvent};

const SMALL: Size = Size::new(33, 17);
const LARGE: Size = Size::new(64, 40);

/// Longer than any step takes on a busy machine.
const TEST_TIMEOUT: Option<Duration> = Some(Duration::from_secs(30));

/// A device without a layer, and the application's objects.
struct Gpu {
    instance: ash::Instance,
    device: ash::Device,
    memory: vk::PhysicalDeviceMemoryProperties,
    queue: vk::Queue,
    commands: vk::CommandBuffer,
    pool: vk::CommandPool,
    _library: libloading::Library,
}

/// A picture that was drawn and is ready to be presented.
struct Drawn {
    image: vk::Image,
    image_memory: vk::DeviceMemory,
    buffer: vk::Buffer,
    buffer_memory: vk::DeviceMemory,
    drawn: vk::Semaphore,
    copied: vk::Semaphore,
    size: Size,
    part: CopyRegion,
}

impl Gpu {
    /// `None`, with a message, if lavapipe is not installed.
    fn open() -> Option<Gpu> {
        // SAFETY: the Vulkan loader has no initialisers with preconditions. Each Vulkan function is called as
        // specified, with handles that are not destroyed yet.
        unsafe {
            let gpu = Gpu::try_open();
            if gpu.is_none() {
                crate::skip::skip("lavapipe is not installed: apt-get install mesa-vulkan-drivers");
            }
            gpu
        }
    }

    unsafe fn try_open() -> Option<Gpu> {
        // SAFETY: the Vulkan loader has no initialisers with preconditions. Functions are called as specified, with
        // valid handles.
        unsafe {
            let library = libloading::Library::new("libvulkan.so.1").ok()?;
            let entry = library.get::<vk::PFN_vkGetInstanceProcAddr>(b"vkGetInstanceProcAddr\0");
            let entry = *entry.ok()?;
            let load = |instance, name: &std::ffi::CStr| {
                let raw = entry(instance, name.as_ptr());
                raw.map_or(std::ptr::null(), |f| f as *const std::ffi::c_void)
            };
            let entry = ash::EntryFnV1_0::load(|name| load(vk::Instance::null(), name));
            let surface = [c"VK_KHR_surface".as_ptr()];
            let info = vk::InstanceCreateInfo::default().enabled_extension_names(&surface);
            let mut made = vk::Instance::null();
            let result = (entry.create_instance)(&info, std::ptr::null(), &mut made);
            result.result().ok()?;
            let instance = ash::Instance::load_with(|name| load(made, name), made);
            let all = instance.enumerate_physical_devices().ok()?;
            let software = |physical: &vk::PhysicalDevice| {
                let properties = instance.get_physical_device_properties(*physical);
                properties.device_type == vk::PhysicalDeviceType::CPU
            };
            let chosen = match std::env::var("OPENUVR_VULKAN_DEVICE") {
                Ok(index) => *all.get(index.parse::<usize>().ok()?)?,
                Err(_) => all.into_iter().find(software)?,
            };
            let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
            let swapchain = [c"VK_KHR_swapchain".as_ptr()];
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&swapchain);
            let device = instance.create_device(chosen, &info, None).ok()?;
            let info = vk::CommandPoolCreateInfo::default()
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
            let pool = device.create_command_pool(&info, None).ok()?;
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(pool)
                .command_buffer_count(1);
            Some(Gpu {
                memory: instance.get_physical_device_memory_properties(chosen),
                queue: device.get_device_queue(0, 0),
                commands: device.allocate_command_buffers(&info).ok()?[0],
                pool,
                instance,
                device,
                _library: library,
            })
        }
    }

    fn ring(&self) -> Ring {
        let spawn = |wait: Wait| Ok(std::thread::spawn(wait));
        Ring::new(self.device.clone(), None, self.memory, spawn).expect("a thread")
    }

    /// Draws `bytes` and leaves the image ready to be presented.
    fn draw(&self, size: Size, format: vk::Format, bytes: &[u8]) -> Drawn {
        let device = &self.device;
        let extent = vk::Extent3D {
            width: size.width,
            height: size.height,
            depth: 1,
        };
        let image = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(format)
            .extent(extent)
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .usage(vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST);
        let buffer = vk::BufferCreateInfo::default()
            .size(bytes.len() as u64)
            .usage(vk::BufferUsageFlags::TRANSFER_SRC);
        // SAFETY: functions are called as specified, with valid handles. The mapped memory is host-visible.
        unsafe {
            let memory = |needs: vk::MemoryRequirements, wanted| {
                let kinds = (0..).zip(self.memory.memory_types_as_slice());
                let mut kinds = kinds.filter(|(at, _)| needs.memory_type_bits & (1 << at) != 0);
                let kind = kinds.find(|(_, kind)| kind.property_flags.contains(wanted));
                let info = vk::MemoryAllocateInfo::default()
                    .allocation_size(needs.size)
                    .memory_type_index(kind.unwrap().0);
                device.allocate_memory(&info, None).unwrap()
            };
            let any = vk::MemoryPropertyFlags::empty();
            let mappable =
                vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
            let image = device.create_image(&image, None).unwrap();
            let image_memory = memory(device.get_image_memory_requirements(image), any);
            device.bind_image_memory(image, image_memory, 0).unwrap();
            let buffer = device.create_buffer(&buffer, None).unwrap();
            let buffer_memory = memory(device.get_buffer_memory_requirements(buffer), mappable);
            device.bind_buffer_memory(buffer, buffer_memory, 0).unwrap();
            let flags = vk::MemoryMapFlags::empty();
            let length = bytes.len() as u64;
            let mapped = device.map_memory(buffer_memory, 0, length, flags).unwrap();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapped.cast(), bytes.len());
            device.unmap_memory(buffer_memory);

            let commands = self.commands;
            let begin = vk::CommandBufferBeginInfo::default();
            device.begin_command_buffer(commands, &begin).unwrap();
            let layout = |from, to| {
                let barrier = vk::ImageMemoryBarrier::default()
                    .old_layout(from)
                    .new_layout(to)
                    .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
                    .dst_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                    .image(image)
                    .subresource_range(vk::ImageSubresourceRange {
                        aspect_mask: vk::ImageAspectFlags::COLOR,
                        level_count: 1,
                        layer_count: 1,
                        ..Default::default()
                    });
                let all = vk::PipelineStageFlags::ALL_COMMANDS;
                let none = vk::DependencyFlags::empty();
                device.cmd_pipeline_barrier(commands, all, all, none, &[], &[], &[barrier]);
            };
            let written = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
            layout(vk::ImageLayout::UNDEFINED, written);
            let region = vk::BufferImageCopy {
                image_subresource: vk::ImageSubresourceLayers {
                    aspect_mask: vk::ImageAspectFlags::COLOR,
                    layer_count: 1,
                    ..Default::default()
                },
                image_extent: extent,
                ..Default::default()
            };
            device.cmd_copy_buffer_to_image(commands, buffer, image, written, &[region]);
            layout(written, vk::ImageLayout::PRESENT_SRC_KHR);
            device.end_command_buffer(commands).unwrap();
            let semaphore = || device.create_semaphore(&Default::default(), None).unwrap();
            let (drawn, copied) = (semaphore(), semaphore());
            let (buffers, signals) = ([commands], [drawn]);
            let submit = vk::SubmitInfo::default()
                .command_buffers(&buffers)
                .signal_semaphores(&signals);
            device
                .queue_submit(self.queue, &[submit], vk::Fence::null())
                .unwrap();
            Drawn {
                image,
                image_memory,
                buffer,
                buffer_memory,
                drawn,
                copied,
                size,
                part: CopyRegion::presented(image, size),
            }
        }
    }

    fn copy<'a>(&self, drawn: &'a Drawn, pixels: Pixels, to: &Arc<Submitter>) -> Copy<'a> {
        Copy {
            queue: self.queue,
            family: 0,
            parts: std::slice::from_ref(&drawn.part),
            size: drawn.size,
            pixels,
            after: std::slice::from_ref(&drawn.drawn),
            done: Some(drawn.copied),
            drawn: Default::default(),
            to: to.clone(),
        }
    }

    /// Presents like `vkQueuePresentKHR`. Returns whether the picture was copied.
    fn present(&self, ring: &Ring, drawn: &Drawn, pixels: Pixels, to: &Arc<Submitter>) -> bool {
        // SAFETY: all handles are live, and the wait ends the use of the image.
        let copied = unsafe { ring.copy(&self.copy(drawn, pixels, to)) }.unwrap();
        self.wait_for(if copied { drawn.copied } else { drawn.drawn });
        copied
    }

    /// Makes the queue wait for a semaphore, then waits until the queue is idle.
    fn wait_for(&self, semaphore: vk::Semaphore) {
        let waits = [semaphore];
        let stages = [vk::PipelineStageFlags::ALL_COMMANDS];
        let submit = vk::SubmitInfo::default()
            .wait_semaphores(&waits)
            .wait_dst_stage_mask(&stages);
        let none = vk::Fence::null();
        // SAFETY: the earlier submission signals the semaphore.
        unsafe {
            let submitted = self.device.queue_submit(self.queue, &[submit], none);
            submitted.unwrap();
            self.device.queue_wait_idle(self.queue).unwrap();
        }
    }

    fn forget(&self, gone: &Drawn) {
        // SAFETY: `present` has waited until the objects are no longer used.
        unsafe {
            self.device.destroy_image(gone.image, None);
            self.device.free_memory(gone.image_memory, None);
            self.device.destroy_buffer(gone.buffer, None);
            self.device.free_memory(gone.buffer_memory, None);
            self.device.destroy_semaphore(gone.drawn, None);
            self.device.destroy_semaphore(gone.copied, None);
        }
    }

    /// Closes everything in the same order as an application and its layer.
    fn close(self, ring: &Ring) {
        // SAFETY: `present` has waited for everything; the ring is no longer used.
        unsafe {
            ring.close();
            self.device.destroy_command_pool(self.pool, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// Bytes of a picture in which adjacent pixels differ.
fn pattern(size: Size, seed: u8) -> Vec<u8> {
    let bytes = (0..=250_u8).cycle().take(size.pixels() * 4);
    bytes
        .map(|byte| byte.wrapping_mul(7).wrapping_add(seed))
        .collect()
}

fn shown(host: &Submitted) -> (Size, PixelFormat, Vec<u8>) {
    let picture = host.picture().expect("a picture");
    (
        picture.size,
        picture.format,
        picture.planes[0].data.to_vec(),
    )
}

const BLUE_FIRST: (vk::Format, Pixels) = (vk::Format::B8G8R8A8_SRGB, Pixels::Bgra8);
const RED_FIRST: (vk::Format, Pixels) = (vk::Format::R8G8B8A8_UNORM, Pixels::Rgba8);

#[test]
fn pictures_are_exact_and_may_change_size_and_format() {
    let Some(gpu) = Gpu::open() else { return };
    let ring = gpu.ring();
    let (to, mut host) = channel(SMALL, 60.0).unwrap();
    let to = Arc::new(to);
    let deep = (vk::Format::A2B10G10R10_UNORM_PACK32, Pixels::Bgr10);
    let rounds = [
        (SMALL, BLUE_FIRST),
        (LARGE, BLUE_FIRST),
        (LARGE, RED_FIRST),
        (SMALL, deep),
        (SMALL, BLUE_FIRST),
    ];
    for (seed, (size, (format, pixels))) in (0..).zip(rounds.into_iter().cycle().take(15)) {
        let bytes = pattern(size, seed);
        let drawn = gpu.draw(size, format, &bytes);
        assert!(gpu.present(&ring, &drawn, pixels, &to));
        gpu.forget(&drawn);
        assert_eq!(host.next(TEST_TIMEOUT).unwrap(), CaptureEvent::Frame);
        let mut wanted = vec![0; bytes.len()];
        let format = pixels.copy(&bytes, &mut wanted);
        assert_eq!(shown(&host), (size, format, wanted), "picture {seed}");
    }
    drop(host);
    gpu.close(&ring);
}

#[test]
fn without_a_free_buffer_a_picture_is_skipped() {
    let Some(gpu) = Gpu::open() else { return };
    let ring = gpu.ring();
    let bytes = pattern(SMALL, 0);
    let show = |to: &Arc<Submitter>| {
        let drawn = gpu.draw(SMALL, vk::Format::B8G8R8A8_UNORM, &bytes);
        let copied = gpu.present(&ring, &drawn, Pixels::Bgra8, to);
        gpu.forget(&drawn);
        copied
    };
    // Each of these hosts keeps one picture.
    let mut hosts: Vec<_> = (0..SLOTS)
        .map(|_| channel(SMALL, 60.0).unwrap())
        .map(|(to, host)| (Arc::new(to), host))
        .collect();
    for (to, host) in &mut hosts {
        assert!(ring.idle() && show(to));
        assert_eq!(host.next(TEST_TIMEOUT).unwrap(), CaptureEvent::Frame);
    }
    assert!(!ring.idle() && !show(&hosts[0].0));
    hosts.pop();
    assert!(ring.idle() && show(&hosts[0].0));
    // The newer picture replaces the older picture, whose buffer is returned.
    assert_eq!(hosts[0].1.next(TEST_TIMEOUT).unwrap(), CaptureEvent::Frame);
    assert!(ring.idle());
    drop(hosts);
    gpu.close(&ring);
}

#[test]
fn a_device_may_go_while_its_last_picture_is_in_use() {
    for (format, pixels) in [BLUE_FIRST, RED_FIRST] {
        let Some(gpu) = Gpu::open() else { return };
        let ring = gpu.ring();
        let (to, mut host) = channel(LARGE, 60.0).unwrap();
        let to = Arc::new(to);
        let bytes = pattern(LARGE, 3);
        for seed in 0..=3 {
            let drawn = gpu.draw(LARGE, format, &pattern(LARGE, seed));
            assert!(gpu.present(&ring, &drawn, pixels, &to));
            gpu.forget(&drawn);
        }
        assert_eq!(host.next(TEST_TIMEOUT).unwrap(), CaptureEvent::Frame);
        let watching = std::thread::spawn(move || {
            // The host's thread: it releases a picture by requesting the next picture.
            while host.next(TEST_TIMEOUT).unwrap() == CaptureEvent::Frame {}
            shown(&host)
        });
        gpu.close(&ring);
        drop(to);
        let (size, format, left) = watching.join().unwrap();
        assert_eq!((size, Some(format)), (LARGE, pixels.as_they_are()));
        assert_eq!(left, bytes, "it outlives the device");
    }
}

#[test]
fn a_device_may_go_while_other_windows_cover_its_picture() {
    let Some(gpu) = Gpu::open() else { return };
    let ring = gpu.ring();
    let (to, mut host) = channel(SMALL, 60.0).unwrap();
    let to = Arc::new(to);
    let show = |bytes: &[u8]| {
        let drawn = gpu.draw(SMALL, vk::Format::B8G8R8A8_UNORM, bytes);
        assert!(gpu.present(&ring, &drawn, Pixels::Bgra8, &to));
        gpu.forget(&drawn);
    };
    let bytes = pattern(SMALL, 3);
    show(&bytes);
    assert_eq!(host.next(TEST_TIMEOUT).unwrap(), CaptureEvent::Frame);
    to.overlaid(clock::now(), true);
    // This picture is dropped, so the host keeps the earlier one.
    show(&pattern(SMALL, 4));
    let watching = std::thread::spawn(move || {
        while host.next(TEST_TIMEOUT).unwrap() == CaptureEvent::Frame {}
        shown(&host)
    });
    gpu.close(&ring);
    drop(to);
    let (_, _, left) = watching.join().unwrap();
    assert_eq!(left, bytes);
}

/// Run by hand on a quiet machine: `cargo test --release -p openuvr-media --features vulkan cost_of -- --ignored
/// --nocapture`.
#[test]
#[ignore = "measures times"]
fn cost_of_a_picture() {
    const HD: Size = Size::new(1280, 720);
    const ROUNDS: usize = 300;
    let Some(gpu) = Gpu::open() else { return };
    let ring = gpu.ring();
    let (to, mut host) = channel(HD, 240.0).unwrap();
    let to = Arc::new(to);
    let host = std::thread::spawn(
        move || {
            while host.next(TEST_TIMEOUT).unwrap() == CaptureEvent::Frame {}
        },
    );
    let bytes = pattern(HD, 0);
    let device = &ring.shared.device;
    // SAFETY: as in `present`. Only this thread uses the slot, and it waits for each copy.
    let slot = unsafe { Slot::new(device, 0, gpu.pool, HD.pixels() as u64 * 4).unwrap() };
    let mut times = [const { Vec::new() }; 5];
    for _ in 0..ROUNDS {
        for what in 0..3 {
            let drawn = gpu.draw(HD, vk::Format::B8G8R8A8_UNORM, &bytes);
            // SAFETY: the device is idle.
            unsafe { gpu.device.queue_wait_idle(gpu.queue).unwrap() };
            let begun = std::time::Instant::now();
            match what {
                0 => gpu.wait_for(drawn.drawn),
                1 => {
                    let copy = gpu.copy(&drawn, Pixels::Bgra8, &to);
                    // SAFETY: only this thread uses the queue and the slot, and the picture does not change until it is
                    // copied.
                    unsafe {
                        slot.record(&gpu.device, &[drawn.part], HD).unwrap();
                        slot.submit(&gpu.device, &copy).unwrap();
                    }
                    times[3].push(begun.elapsed());
                    gpu.wait_for(drawn.copied);
                }
                _ => {
                    let copy = gpu.copy(&drawn, Pixels::Bgra8, &to);
                    // SAFETY: only this thread uses the queue and the slot, and the picture does not change until it is
                    // copied.
                    let copied = unsafe { ring.copy(&copy) }.unwrap();
                    times[4].push(begun.elapsed());
                    gpu.wait_for(if copied { drawn.copied } else { drawn.drawn });
                }
            }
            times[what].push(begun.elapsed());
            if what == 1 {
                // SAFETY: the copy was submitted.
                unsafe { slot.wait(&gpu.device, WAIT).unwrap() };
            }
            gpu.forget(&drawn);
        }
    }
    let names = [
        "present without a copy, until done",
        "present with the bare copy, until done",
        "present with the ring's copy, until done",
        "the bare copy's own call",
        "the ring's call",
    ];
    for (name, times) in names.iter().zip(&mut times) {
        times.sort_unstable();
        let ms = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e3;
        println!("  {name:40} p50 {:.3} p99 {:.3} ms", ms(50), ms(99));
    }
    // SAFETY: the device is idle.
    unsafe { slot.destroy(&gpu.device) };
    drop(to);
    gpu.close(&ring);
    host.join().unwrap();
}
