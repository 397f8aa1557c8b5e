//! The intercepted calls of the application.
//!
//! Each call is forwarded exactly once, and the application gets its result. The layer's own work runs in [`guarded`],
//! so that the call is still forwarded if this work fails. In a forked child, calls are only forwarded.

use std::ffi::{CStr, c_char};
use std::sync::{Arc, OnceLock};

use ash::vk;

use super::device::{DEVICES, Device};
use super::instance::{INSTANCES, Instance, Window, typed};
use super::loader::{self, key};
use super::present;
use crate::stream::{guarded, stream};
use crate::windows::XWindow;
use crate::x_display;

type Result = vk::Result;
type Allocator<'a> = *const vk::AllocationCallbacks<'a>;

/// The result of a call that can't be forwarded. Loaders make no such call.
const LOST: Result = Result::ERROR_INITIALIZATION_FAILED;

/// The process that loaded the layer.
static HOME: OnceLock<u32> = OnceLock::new();

/// Records the process that loads the layer.
pub(super) fn set_home_process() {
    HOME.get_or_init(std::process::id);
}

/// Whether this process is a forked child of the process that loaded the layer.
fn forked() -> bool {
    HOME.get().is_none_or(|home| *home != std::process::id())
}

/// `vkGetInstanceProcAddr`.
pub(super) unsafe extern "system" fn instance_proc(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a zero-terminated string, as Vulkan requires.
    let name = unsafe { CStr::from_ptr(name) };
    let global = [c"vkCreateInstance", c"vkGetInstanceProcAddr"].contains(&name);
    if global {
        return intercepted(name);
    }
    if instance == vk::Instance::null() {
        return None;
    }
    // SAFETY: the application passes a valid handle.
    let known = INSTANCES.find(unsafe { key(instance) })?;
    let below = known.raw(name)?;
    intercepted(name).or(Some(below))
}

/// `vkGetDeviceProcAddr`.
pub(super) unsafe extern "system" fn device_proc(
    device: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a zero-terminated string and a valid handle, as Vulkan requires.
    let (name, known) = unsafe { (CStr::from_ptr(name), DEVICES.find(key(device))?) };
    let below = known.raw(name)?;
    intercepted_by_device(name).or(Some(below))
}

/// A function pointer without its type, for the tables below.
macro_rules! function {
    ($function:ident as $kind:ident) => {{
        let typed: vk::$kind = $function;
        // SAFETY: all function pointers have the same size. The application casts the pointer back to the type that
        // belongs to the name, before it calls the function.
        Some(unsafe { std::mem::transmute::<vk::$kind, unsafe extern "system" fn()>(typed) })
    }};
}

/// The intercepted functions of instances and devices.
fn intercepted(name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkGetInstanceProcAddr" => function!(instance_proc as PFN_vkGetInstanceProcAddr),
        b"vkCreateInstance" => function!(create_instance as PFN_vkCreateInstance),
        b"vkDestroyInstance" => function!(destroy_instance as PFN_vkDestroyInstance),
        b"vkCreateDevice" => function!(create_device as PFN_vkCreateDevice),
        b"vkCreateXcbSurfaceKHR" => function!(create_xcb_surface as PFN_vkCreateXcbSurfaceKHR),
        b"vkCreateXlibSurfaceKHR" => function!(create_xlib_surface as PFN_vkCreateXlibSurfaceKHR),
        b"vkCreateWaylandSurfaceKHR" => {
            function!(create_wayland_surface as PFN_vkCreateWaylandSurfaceKHR)
        }
        b"vkDestroySurfaceKHR" => function!(destroy_surface as PFN_vkDestroySurfaceKHR),
        _ => intercepted_by_device(name),
    }
}

fn intercepted_by_device(name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkGetDeviceProcAddr" => function!(device_proc as PFN_vkGetDeviceProcAddr),
        b"vkDestroyDevice" => function!(destroy_device as PFN_vkDestroyDevice),
        b"vkGetDeviceQueue" => function!(device_queue as PFN_vkGetDeviceQueue),
        b"vkGetDeviceQueue2" => function!(device_queue_2 as PFN_vkGetDeviceQueue2),
        b"vkCreateSwapchainKHR" => function!(create_swapchain as PFN_vkCreateSwapchainKHR),
        b"vkDestroySwapchainKHR" => function!(destroy_swapchain as PFN_vkDestroySwapchainKHR),
        b"vkQueuePresentKHR" => function!(queue_present as PFN_vkQueuePresentKHR),
        _ => None,
    }
}

unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: Allocator<'_>,
    instance: *mut vk::Instance,
) -> Result {
    // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged to the next layer. The
    // loader adds the structures in the chain of `info` for this layer, which may modify them.
    unsafe {
        let Some(next) = loader::next_instance(info) else {
            return LOST;
        };
        let create = next(vk::Instance::null(), c"vkCreateInstance".as_ptr());
        let Some(create) = typed::<vk::PFN_vkCreateInstance>(create) else {
            return LOST;
        };
        let result = create(info, allocator, instance);
        if result == Result::SUCCESS {
            guarded(|| {
                let made = Instance::new(*instance, next);
                INSTANCES.add(key(*instance), Arc::new(made));
            });
        }
        result
    }
}

unsafe extern "system" fn destroy_instance(instance: vk::Instance, allocator: Allocator<'_>) {
    if instance == vk::Instance::null() {
        return;
    }
    // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged to the next layer.
    unsafe {
        let Some(known) = INSTANCES.remove(key(instance)) else {
            return;
        };
        (known.functions.fp_v1_0().destroy_instance)(instance, allocator);
    }
}

unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: Allocator<'_>,
    device: *mut vk::Device,
) -> Result {
    // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged to the next layer. The
    // loader adds the structures in the chain of `info` for this layer, which may modify them.
    unsafe {
        let Some(instance) = INSTANCES.find(key(physical)) else {
            return LOST;
        };
        let Some(next) = loader::next_device(info) else {
            return LOST;
        };
        let create = instance.functions.fp_v1_0().create_device;
        let result = create(physical, info, allocator, device);
        if result == Result::SUCCESS {
            guarded(|| {
                let made = Device::new(*device, physical, instance, &next, &*info);
                DEVICES.add(key(*device), Arc::new(made));
            });
        }
        result
    }
}

unsafe extern "system" fn destroy_device(device: vk::Device, allocator: Allocator<'_>) {
    if device == vk::Device::null() {
        return;
    }
    // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged to the next layer.
    unsafe {
        let Some(known) = DEVICES.remove(key(device)) else {
            return;
        };
        if !forked() {
            guarded(|| known.close());
        }
        (known.functions.fp_v1_0().destroy_device)(device, allocator);
    }
}

unsafe extern "system" fn device_queue(
    device: vk::Device,
    family: u32,
    index: u32,
    queue: *mut vk::Queue,
) {
    // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged to the next layer.
    unsafe {
        if let Some(known) = DEVICES.find(key(device)) {
            (known.functions.fp_v1_0().get_device_queue)(device, family, index, queue);
            guarded(|| known.register_queue(*queue, family));
        }
    }
}

unsafe extern "system" fn device_queue_2(
    device: vk::Device,
    info: *const vk::DeviceQueueInfo2<'_>,
    queue: *mut vk::Queue,
) {
    // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged to the next layer.
    unsafe {
        if let Some(known) = DEVICES.find(key(device)) {
            (known.functions.fp_v1_1().get_device_queue2)(device, info, queue);
            guarded(|| known.register_queue(*queue, (*info).queue_family_index));
        }
    }
}

/// Intercepts a function that creates a surface, and records its window.
macro_rules! surface {
    ($name:ident, $next:ident, $info:ident, $window:expr) => {
        unsafe extern "system" fn $name(
            instance: vk::Instance,
            info: *const vk::$info<'_>,
            allocator: Allocator<'_>,
            surface: *mut vk::SurfaceKHR,
        ) -> Result {
            // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged to the next layer.
            unsafe {
                let Some(known) = INSTANCES.find(key(instance)) else {
                    return LOST;
                };
                let Some(create) = known.surfaces.$next else {
                    return LOST;
                };
                let result = create(instance, info, allocator, surface);
                if result == Result::SUCCESS {
                    let window: fn(&vk::$info<'_>) -> Window = $window;
                    guarded(|| known.register_surface(*surface, window(&*info)));
                }
                result
            }
        }
    };
}

surface!(create_xcb_surface, xcb, XcbSurfaceCreateInfoKHR, |info| {
    // The real function has created a surface on this connection, so the connection is valid.
    on_display(x_display::of_xcb(info.connection.cast()), info.window)
});
surface!(
    create_xlib_surface,
    xlib,
    XlibSurfaceCreateInfoKHR,
    |info| {
        // The real function has created a surface on this display, so the display is valid.
        let display = x_display::of_xlib(info.dpy.cast());
        u32::try_from(info.window).map_or(Window::Other, |window| on_display(display, window))
    }
);
surface!(
    create_wayland_surface,
    wayland,
    WaylandSurfaceCreateInfoKHR,
    |_| Window::Wayland
);

/// A window of the X display of this name. Without a name, the environment's display is used.
fn on_display(name: Option<String>, window: u32) -> Window {
    let display = name.or_else(|| std::env::var("DISPLAY").ok());
    display.map_or(Window::Other, |display| {
        Window::X11(XWindow {
            display,
            id: window,
        })
    })
}

unsafe extern "system" fn destroy_surface(
    instance: vk::Instance,
    surface: vk::SurfaceKHR,
    allocator: Allocator<'_>,
) {
    // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged to the next layer.
    unsafe {
        let Some(known) = INSTANCES.find(key(instance)) else {
            return;
        };
        if !forked() {
            guarded(|| {
                known.remove_surface(surface);
                present::forget_surface(&known, surface);
            });
        }
        if let Some(destroy) = known.surfaces.destroy {
            destroy(instance, surface, allocator);
        }
    }
}

unsafe extern "system" fn create_swapchain(
    device: vk::Device,
    info: *const vk::SwapchainCreateInfoKHR<'_>,
    allocator: Allocator<'_>,
    swapchain: *mut vk::SwapchainKHR,
) -> Result {
    // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged, except that the next layer
    // gets a copy of `info`. The copy only adds an image usage that the surface supports.
    unsafe {
        let Some(known) = DEVICES.find(key(device)) else {
            return LOST;
        };
        let Some(next) = &known.swapchain else {
            return LOST;
        };
        let mut info = *info;
        let hooked = !forked() && stream().is_some();
        if hooked && let Some(usage) = guarded(|| known.usage(&info)) {
            info.image_usage = usage;
        }
        let result = (next.create_swapchain_khr)(device, &info, allocator, swapchain);
        if hooked && result == Result::SUCCESS {
            guarded(|| known.register_swapchain(*swapchain, &info));
        }
        result
    }
}

unsafe extern "system" fn destroy_swapchain(
    device: vk::Device,
    swapchain: vk::SwapchainKHR,
    allocator: Allocator<'_>,
) {
    // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged to the next layer.
    unsafe {
        let Some(known) = DEVICES.find(key(device)) else {
            return;
        };
        let released = if forked() {
            None
        } else {
            guarded(|| known.release_swapchain(swapchain)).flatten()
        };
        if let Some(next) = &known.swapchain {
            (next.destroy_swapchain_khr)(device, swapchain, allocator);
        }
        if let Some(released) = released {
            guarded(|| known.recycle_semaphores(&released));
        }
    }
}

unsafe extern "system" fn queue_present(
    queue: vk::Queue,
    info: *const vk::PresentInfoKHR<'_>,
) -> Result {
    // SAFETY: the application's handles and pointers are valid, and are forwarded unchanged, except that the next layer
    // may get a copy of `info`. In the copy, the semaphore that `read_back` returned replaces the wait semaphores.
    unsafe {
        let Some(known) = DEVICES.find(key(queue)) else {
            return LOST;
        };
        let Some(next) = &known.swapchain else {
            return LOST;
        };
        let mut info = *info;
        let copied = guarded(|| present::read_back(&known, queue, &info)).flatten();
        if let Some(copied) = &copied {
            info.wait_semaphore_count = 1;
            info.p_wait_semaphores = copied;
        }
        (next.queue_present_khr)(queue, &info)
    }
}
