//! Xlib and Vulkan calls of the application, through the loader as in games.
//!
//! Rendering is minimal: a picture is copied to the swapchain's image, and the program waits until it has been
//! presented.

use std::ffi::CStr;

use ash::khr::{surface, swapchain, xlib_surface};
use ash::vk;
use openuvr_proto::units::Size;
use x11_dl::xlib::{self, Xlib};

use crate::support::Shot;

/// Position of the window.
pub(crate) const PLACE: (i16, i16) = (40, 30);

pub(crate) struct AppWindow {
    xlib: Xlib,
    display: *mut xlib::Display,
    window: xlib::Window,
    pub(crate) size: Size,
}

impl AppWindow {
    /// Opens a window on the display of this name, or on the display of the environment if there is no name.
    pub(crate) fn open(size: Size, on: Option<&CStr>) -> AppWindow {
        let xlib = Xlib::open().expect("libX11, which libvulkan's drivers need too");
        // SAFETY: Xlib's functions are called only with the display and the window that Xlib returned.
        unsafe {
            let display = (xlib.XOpenDisplay)(on.map_or(std::ptr::null(), CStr::as_ptr));
            assert!(!display.is_null(), "the display runs");
            let root = (xlib.XDefaultRootWindow)(display);
            let (x, y) = PLACE;
            let create = xlib.XCreateSimpleWindow;
            let window = create(
                display,
                root,
                x.into(),
                y.into(),
                size.width,
                size.height,
                0,
                0,
                0,
            );
            (xlib.XSelectInput)(display, window, xlib::ButtonPressMask);
            (xlib.XMapWindow)(display, window);
            (xlib.XSync)(display, 0);
            AppWindow {
                xlib,
                display,
                window,
                size,
            }
        }
    }

    pub(crate) fn resize(&mut self, size: Size) {
        // SAFETY: as in `open`. The display and the window exist as long as this process.
        unsafe {
            (self.xlib.XResizeWindow)(self.display, self.window, size.width, size.height);
            (self.xlib.XSync)(self.display, 0);
        }
        self.size = size;
    }

    /// Clicks since the last call, in window coordinates.
    pub(crate) fn clicks(&self) -> Vec<(i32, i32)> {
        let mut clicks = Vec::new();
        // SAFETY: as in `open`. The union is read as a button event only if its type is ButtonPress.
        unsafe {
            while (self.xlib.XPending)(self.display) > 0 {
                let mut event: xlib::XEvent = std::mem::zeroed();
                (self.xlib.XNextEvent)(self.display, &mut event);
                if event.get_type() == xlib::ButtonPress {
                    clicks.push((event.button.x, event.button.y));
                }
            }
        }
        clicks
    }
}

/// Instance and surface, which outlive devices.
#[derive(Clone)]
struct Base {
    entry: ash::Entry,
    instance: ash::Instance,
    surfaces: surface::Instance,
    surface: vk::SurfaceKHR,
}

/// A device that renders to a window.
pub(crate) struct Gpu {
    base: Base,
    device: ash::Device,
    memory: vk::PhysicalDeviceMemoryProperties,
    presents: swapchain::Device,
    queue: vk::Queue,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    /// Semaphores: image acquired, rendering finished.
    semaphores: [vk::Semaphore; 2],
    swapchain: vk::SwapchainKHR,
    images: Vec<vk::Image>,
}

/// The loader's entry point.
fn load_entry() -> ash::Entry {
    // SAFETY: the loader's initialisers have no preconditions. The loader is never closed, so its functions stay valid.
    unsafe {
        let library = libloading::Library::new("libvulkan.so.1").expect("libvulkan1");
        let symbol = library.get::<vk::PFN_vkGetInstanceProcAddr>(b"vkGetInstanceProcAddr\0");
        let get_instance_proc_addr = *symbol.expect("every loader has it");
        std::mem::forget(library);
        ash::Entry::from_static_fn(ash::StaticFn {
            get_instance_proc_addr,
        })
    }
}

fn instance(entry: &ash::Entry) -> ash::Instance {
    let extensions = [c"VK_KHR_surface".as_ptr(), c"VK_KHR_xlib_surface".as_ptr()];
    let info = vk::InstanceCreateInfo::default().enabled_extension_names(&extensions);
    // SAFETY: the names of the extensions are static.
    unsafe { entry.create_instance(&info, None) }.expect("an instance")
}

// In the functions below, every handle was created by this application and is destroyed once, when the device is idle,
// as Vulkan requires.
impl Gpu {
    pub(crate) fn open(screen: &AppWindow) -> Gpu {
        let entry = load_entry();
        let instance = instance(&entry);
        let info = vk::XlibSurfaceCreateInfoKHR::default()
            .dpy(screen.display.cast())
            .window(screen.window);
        let surface = xlib_surface::Instance::new(&entry, &instance);
        // SAFETY: `screen` keeps the display and the window open.
        let surface = unsafe { surface.create_xlib_surface(&info, None) };
        let base = Base {
            surfaces: surface::Instance::new(&entry, &instance),
            surface: surface.expect("a surface"),
            entry,
            instance,
        };
        let mut gpu = Gpu::device(base);
        gpu.recreate_swapchain(screen.size);
        gpu
    }

    /// Creates a device for the same window. The swapchain of an earlier device must have been destroyed.
    fn device(base: Base) -> Gpu {
        let instance = &base.instance;
        // SAFETY: see the comment before `impl Gpu`.
        unsafe {
            let all = instance.enumerate_physical_devices().expect("a driver");
            let is_software = |physical: &vk::PhysicalDevice| {
                let kind = instance
                    .get_physical_device_properties(*physical)
                    .device_type;
                kind == vk::PhysicalDeviceType::CPU
            };
            let physical = all.into_iter().find(is_software).expect("lavapipe");
            let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
            let extensions = [c"VK_KHR_swapchain".as_ptr()];
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&extensions);
            let device = instance
                .create_device(physical, &info, None)
                .expect("a device");
            let info = vk::CommandPoolCreateInfo::default()
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
            let pool = device.create_command_pool(&info, None).expect("a pool");
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(pool)
                .command_buffer_count(1);
            let commands = device.allocate_command_buffers(&info).expect("commands")[0];
            let info = vk::SemaphoreCreateInfo::default();
            let semaphores = [(), ()].map(|()| device.create_semaphore(&info, None));
            Gpu {
                memory: instance.get_physical_device_memory_properties(physical),
                presents: swapchain::Device::new(instance, &device),
                queue: device.get_device_queue(0, 0),
                semaphores: semaphores.map(|made| made.expect("a semaphore")),
                swapchain: vk::SwapchainKHR::null(),
                images: Vec::new(),
                base,
                device,
                pool,
                commands,
            }
        }
    }

    /// Creates or recreates the swapchain.
    pub(crate) fn recreate_swapchain(&mut self, size: Size) {
        let extent = vk::Extent2D {
            width: size.width,
            height: size.height,
        };
        let info = vk::SwapchainCreateInfoKHR::default()
            .surface(self.base.surface)
            .min_image_count(3)
            .image_format(vk::Format::B8G8R8A8_UNORM)
            .image_color_space(vk::ColorSpaceKHR::SRGB_NONLINEAR)
            .image_extent(extent)
            .image_array_layers(1)
            .image_usage(vk::ImageUsageFlags::TRANSFER_DST)
            .pre_transform(vk::SurfaceTransformFlagsKHR::IDENTITY)
            .composite_alpha(vk::CompositeAlphaFlagsKHR::OPAQUE)
            .present_mode(vk::PresentModeKHR::FIFO)
            .clipped(true)
            .old_swapchain(self.swapchain);
        // SAFETY: see the comment before `impl Gpu`.
        unsafe {
            let made = self
                .presents
                .create_swapchain(&info, None)
                .expect("a swapchain");
            self.presents.destroy_swapchain(self.swapchain, None);
            self.swapchain = made;
            self.images = self
                .presents
                .get_swapchain_images(made)
                .expect("its images");
        }
    }

    /// Replaces the device while its last picture is being streamed.
    pub(crate) fn recreate_device(&mut self, size: Size) {
        // SAFETY: see the comment before `impl Gpu`.
        unsafe { self.presents.destroy_swapchain(self.swapchain, None) };
        self.swapchain = vk::SwapchainKHR::null();
        let newer = Gpu::device(self.base.clone());
        std::mem::replace(self, newer).destroy();
        self.recreate_swapchain(size);
    }

    /// Renders a picture and presents it.
    pub(crate) fn show(&self, shot: &Shot) {
        let device = &self.device;
        // SAFETY: see the comment before `impl Gpu`. The buffer is mapped, and has room for the picture.
        unsafe {
            let info = vk::BufferCreateInfo::default()
                .size(shot.pixels.len() as u64)
                .usage(vk::BufferUsageFlags::TRANSFER_SRC);
            let buffer = device.create_buffer(&info, None).expect("a buffer");
            let needs = device.get_buffer_memory_requirements(buffer);
            let visible =
                vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
            let kinds = (0..).zip(self.memory.memory_types_as_slice());
            let kind = kinds
                .filter(|(at, _)| needs.memory_type_bits & (1 << at) != 0)
                .find(|(_, kind)| kind.property_flags.contains(visible));
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(kind.expect("every driver has it").0);
            let memory = device.allocate_memory(&info, None).expect("memory");
            device
                .bind_buffer_memory(buffer, memory, 0)
                .expect("it fits");
            let flags = vk::MemoryMapFlags::empty();
            let mapped = device.map_memory(memory, 0, vk::WHOLE_SIZE, flags);
            let mapped = mapped.expect("visible").cast::<u8>();
            mapped.copy_from_nonoverlapping(shot.pixels.as_ptr(), shot.pixels.len());

            let [ours, drawn] = self.semaphores;
            let none = vk::Fence::null();
            let next = self
                .presents
                .acquire_next_image(self.swapchain, u64::MAX, ours, none);
            let (index, _) = next.expect("an image");
            self.copy(buffer, self.images[index as usize], shot.size);
            let (waits, signals, commands) = ([ours], [drawn], [self.commands]);
            let submit = vk::SubmitInfo::default()
                .wait_semaphores(&waits)
                .wait_dst_stage_mask(&[vk::PipelineStageFlags::TRANSFER])
                .command_buffers(&commands)
                .signal_semaphores(&signals);
            device
                .queue_submit(self.queue, &[submit], none)
                .expect("submitted");
            let (swapchains, indices) = ([self.swapchain], [index]);
            let info = vk::PresentInfoKHR::default()
                .wait_semaphores(&signals)
                .swapchains(&swapchains)
                .image_indices(&indices);
            self.presents
                .queue_present(self.queue, &info)
                .expect("presented");
            device.queue_wait_idle(self.queue).expect("idle");
            device.destroy_buffer(buffer, None);
            device.free_memory(memory, None);
        }
    }

    /// # Safety
    /// The command buffer is not in use, and the buffer has the picture's size.
    unsafe fn copy(&self, from: vk::Buffer, to: vk::Image, size: Size) {
        let (device, commands) = (&self.device, self.commands);
        let written = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
        let colours = vk::ImageAspectFlags::COLOR;
        let barrier = |old, new, before, after| {
            vk::ImageMemoryBarrier::default()
                .old_layout(old)
                .new_layout(new)
                .src_access_mask(before)
                .dst_access_mask(after)
                .image(to)
                .subresource_range(vk::ImageSubresourceRange {
                    aspect_mask: colours,
                    level_count: 1,
                    layer_count: 1,
                    ..Default::default()
                })
        };
        let (nothing, write) = (vk::AccessFlags::empty(), vk::AccessFlags::TRANSFER_WRITE);
        let first = barrier(vk::ImageLayout::UNDEFINED, written, nothing, write);
        let last = barrier(written, vk::ImageLayout::PRESENT_SRC_KHR, write, nothing);
        let region = vk::BufferImageCopy {
            image_subresource: vk::ImageSubresourceLayers {
                aspect_mask: colours,
                layer_count: 1,
                ..Default::default()
            },
            image_extent: vk::Extent3D {
                width: size.width,
                height: size.height,
                depth: 1,
            },
            ..Default::default()
        };
        let (transfer, end) = (
            vk::PipelineStageFlags::TRANSFER,
            vk::PipelineStageFlags::BOTTOM_OF_PIPE,
        );
        let by_region = vk::DependencyFlags::empty();
        // SAFETY: the caller upholds this function's requirements.
        unsafe {
            let begin = vk::CommandBufferBeginInfo::default();
            device
                .begin_command_buffer(commands, &begin)
                .expect("memory");
            let before = |barriers: &[vk::ImageMemoryBarrier<'_>], to| {
                device.cmd_pipeline_barrier(commands, transfer, to, by_region, &[], &[], barriers);
            };
            before(&[first], transfer);
            device.cmd_copy_buffer_to_image(commands, from, to, written, &[region]);
            before(&[last], end);
            device.end_command_buffer(commands).expect("memory");
        }
    }

    /// Destroys the device, not the instance.
    fn destroy(&self) {
        let device = &self.device;
        // SAFETY: see the comment before `impl Gpu`.
        unsafe {
            device.device_wait_idle().expect("it is there");
            self.presents.destroy_swapchain(self.swapchain, None);
            for semaphore in self.semaphores {
                device.destroy_semaphore(semaphore, None);
            }
            device.destroy_command_pool(self.pool, None);
            device.destroy_device(None);
        }
    }

    pub(crate) fn close(self) {
        self.destroy();
        // SAFETY: see the comment before `impl Gpu`.
        unsafe {
            self.base.surfaces.destroy_surface(self.base.surface, None);
            self.base.instance.destroy_instance(None);
        }
    }

    /// Forks a child that uses Vulkan and exits. Returns whether it exited as expected.
    pub(crate) fn fork(&self) -> bool {
        // SAFETY: apart from the loader and the layers, which are under test, the child calls only functions that take
        // no lock that another thread of the parent may hold. It exits without returning.
        unsafe {
            match libc::fork() {
                0 => {
                    let own = instance(&self.base.entry);
                    own.destroy_instance(None);
                    libc::_exit(7);
                }
                child => {
                    let mut status = 0;
                    libc::waitpid(child, &mut status, 0) == child
                        && libc::WIFEXITED(status)
                        && libc::WEXITSTATUS(status) == 7
                }
            }
        }
    }
}
