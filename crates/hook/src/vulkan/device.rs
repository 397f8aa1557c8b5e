//! Devices: the functions below this layer, the queues, and the swapchains that pictures are
//! taken from. Not how they are taken: [`super::present`].

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ash::khr::swapchain::DeviceFn as SwapchainFn;
use ash::vk;
use openuvr_media::capture::vulkan::{InitCommands, Pixels, Ring, Wait};
use openuvr_proto::units::Size;
use openuvr_runtime::sched::{Scheduler, ThreadRole};

use super::instance::{Instance, Window};
use super::loader::NextOfDevice;
use super::registry::Registry;

pub(super) static DEVICES: Registry<Device> = Registry::new();

/// One `VkDevice` of the application.
pub(super) struct Device {
    pub(super) handle: vk::Device,
    pub(super) instance: Arc<Instance>,
    physical: vk::PhysicalDevice,
    device_proc: vk::PFN_vkGetDeviceProcAddr,
    pub(super) functions: ash::Device,
    /// Where the application uses `VK_KHR_swapchain`.
    pub(super) swapchain: Option<SwapchainFn>,
    families: Vec<vk::QueueFlags>,
    queues: Mutex<HashMap<vk::Queue, u32>>,
    swapchains: Mutex<HashMap<vk::SwapchainKHR, Arc<Swapchain>>>,
    /// Semaphores that no swapchain uses now.
    semaphores: Mutex<Vec<vk::Semaphore>>,
    /// Where pictures are read back to, from the first one on; `None` if that can't be had.
    ring: OnceLock<Option<Ring>>,
    memory: vk::PhysicalDeviceMemoryProperties,
    init_commands: InitCommands,
    /// Several physical devices in one: each has a part of the picture.
    pub(super) group: bool,
}

/// One swapchain of the application, with what is needed to read its images.
pub(super) struct Swapchain {
    images: Vec<vk::Image>,
    /// One for each image: what the copy signals and the presentation waits for. It is free again
    /// when the application has got the image back.
    copied: Vec<vk::Semaphore>,
    pub(super) size: Size,
    pub(super) surface: vk::SurfaceKHR,
    pub(super) window: Window,
    /// How to read it, or why it is left alone.
    pub(super) pixels: Result<Pixels, String>,
    /// Whether that was said.
    pub(super) said: AtomicBool,
}

impl Device {
    /// `handle` was made on `physical` by what is below.
    ///
    /// # Safety
    /// All are live, and `next` comes from the creation of `handle` with `info`.
    pub(super) unsafe fn new(
        handle: vk::Device,
        physical: vk::PhysicalDevice,
        instance: Arc<Instance>,
        next: &NextOfDevice,
        info: &vk::DeviceCreateInfo<'_>,
    ) -> Device {
        let below = &instance.functions;
        let device_proc = next.device_proc;
        let load = |name: &std::ffi::CStr| {
            // SAFETY: the device is live and the function is that of the layer below.
            let raw = unsafe { device_proc(handle, name.as_ptr()) };
            raw.map_or(std::ptr::null(), |f| f as *const std::ffi::c_void)
        };
        let presents = !load(c"vkQueuePresentKHR").is_null();
        // SAFETY: `load` gives each name's function or null, and ash puts its own in place of
        // null; the queries are on the live physical device.
        let (functions, families, memory) = unsafe {
            (
                ash::Device::load_with(load, handle),
                below.get_physical_device_queue_family_properties(physical),
                below.get_physical_device_memory_properties(physical),
            )
        };
        // SAFETY: the application's chain.
        let group = unsafe {
            chained(
                info.p_next,
                vk::StructureType::DEVICE_GROUP_DEVICE_CREATE_INFO,
            )
        };
        Device {
            handle,
            instance,
            physical,
            device_proc,
            functions,
            swapchain: presents.then(|| SwapchainFn::load(load)),
            families: families.iter().map(|family| family.queue_flags).collect(),
            queues: Mutex::default(),
            swapchains: Mutex::default(),
            semaphores: Mutex::default(),
            ring: OnceLock::new(),
            memory,
            init_commands: next.init_commands,
            // SAFETY: of this kind, so of this type.
            group: group.is_some_and(|group| unsafe {
                (*group.cast::<vk::DeviceGroupDeviceCreateInfo<'_>>()).physical_device_count > 1
            }),
        }
    }

    /// A function of the layers below.
    pub(super) fn raw(&self, name: &std::ffi::CStr) -> vk::PFN_vkVoidFunction {
        // SAFETY: the device lives while it is in the registry.
        unsafe { (self.device_proc)(self.handle, name.as_ptr()) }
    }

    pub(super) fn queue_seen(&self, queue: vk::Queue, family: u32) {
        lock(&self.queues).insert(queue, family);
    }

    /// A queue's family, if its queues can copy.
    pub(super) fn copying_family(&self, queue: vk::Queue) -> Option<u32> {
        let family = *lock(&self.queues).get(&queue)?;
        let flags = *self.families.get(family as usize)?;
        let copies = vk::QueueFlags::TRANSFER | vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
        flags.intersects(copies).then_some(family)
    }

    /// What the application asks for, and leave to copy from its images where the surface allows
    /// it and their pixels can be used.
    ///
    /// # Safety
    /// `info` is what the application gave to `vkCreateSwapchainKHR`.
    pub(super) unsafe fn usage(
        &self,
        info: &vk::SwapchainCreateInfoKHR<'_>,
    ) -> vk::ImageUsageFlags {
        if readable(info).is_err() {
            return info.image_usage;
        }
        let mut can = vk::SurfaceCapabilitiesKHR::default();
        let ask = self.instance.surfaces.capabilities;
        // SAFETY: a live physical device and the application's surface.
        let asked = ask.map(|ask| unsafe { ask(self.physical, info.surface, &mut can) });
        let extra = vk::ImageUsageFlags::TRANSFER_SRC;
        if asked == Some(vk::Result::SUCCESS) && can.supported_usage_flags.contains(extra) {
            info.image_usage | extra
        } else {
            info.image_usage
        }
    }

    /// A swapchain was made as `info` says.
    ///
    /// # Safety
    /// It was, on this device.
    pub(super) unsafe fn swapchain_made(
        &self,
        swapchain: vk::SwapchainKHR,
        info: &vk::SwapchainCreateInfoKHR<'_>,
    ) {
        let mut pixels = readable(info);
        if !info.image_usage.contains(vk::ImageUsageFlags::TRANSFER_SRC) {
            pixels = pixels.and(Err("this surface's pictures can't be read back".to_owned()));
        }
        // SAFETY: the swapchain is live.
        let images = unsafe { self.images(swapchain) }.unwrap_or_default();
        let copied = pixels.as_ref().map(|_| self.semaphores(images.len()));
        let made = Swapchain {
            copied: copied.unwrap_or_default(),
            images,
            size: Size::new(info.image_extent.width, info.image_extent.height),
            surface: info.surface,
            window: self.instance.window(info.surface),
            pixels,
            said: AtomicBool::new(false),
        };
        lock(&self.swapchains).insert(swapchain, Arc::new(made));
    }

    /// # Safety
    /// The swapchain is live.
    unsafe fn images(&self, swapchain: vk::SwapchainKHR) -> Option<Vec<vk::Image>> {
        let ask = self.swapchain.as_ref()?.get_swapchain_images_khr;
        let mut count = 0;
        // SAFETY: as Vulkan wants it: first the count, then as many.
        unsafe {
            let result = ask(self.handle, swapchain, &mut count, std::ptr::null_mut());
            (result == vk::Result::SUCCESS).then_some(())?;
            let mut images = vec![vk::Image::null(); count as usize];
            let result = ask(self.handle, swapchain, &mut count, images.as_mut_ptr());
            (result == vk::Result::SUCCESS).then_some(images)
        }
    }

    /// Fewer than `count` if the device has no more.
    fn semaphores(&self, count: usize) -> Vec<vk::Semaphore> {
        let mut free = lock(&self.semaphores);
        let kept = free.len().saturating_sub(count);
        let mut taken = free.split_off(kept);
        while taken.len() < count {
            let info = vk::SemaphoreCreateInfo::default();
            // SAFETY: a live device.
            match unsafe { self.functions.create_semaphore(&info, None) } {
                Ok(semaphore) => taken.push(semaphore),
                Err(_) => break,
            }
        }
        taken
    }

    pub(super) fn swapchain(&self, handle: vk::SwapchainKHR) -> Option<Arc<Swapchain>> {
        lock(&self.swapchains).get(&handle).cloned()
    }

    /// Lets go of a swapchain that is about to be destroyed; returns when nothing reads its images
    /// any more. What comes back goes to [`Device::swapchain_gone`].
    pub(super) fn swapchain_going(&self, handle: vk::SwapchainKHR) -> Option<Arc<Swapchain>> {
        let going = lock(&self.swapchains).remove(&handle)?;
        if let Some(Some(ring)) = self.ring.get() {
            ring.settle();
        }
        Some(going)
    }

    /// It is destroyed, so nothing waits for its semaphores any more.
    pub(super) fn swapchain_gone(&self, gone: &Swapchain) {
        lock(&self.semaphores).extend(&gone.copied);
    }

    /// Where pictures are read back to.
    pub(super) fn ring(&self) -> Option<&Ring> {
        let spawn = |wait: Wait| {
            Scheduler::ordinary().spawn(ThreadRole::HandOff, "openuvr-vulkan", || {
                crate::stream::guarded(wait);
            })
        };
        let make = || {
            let functions = self.functions.clone();
            Ring::new(functions, Some(self.init_commands), self.memory, spawn).ok()
        };
        self.ring.get_or_init(make).as_ref()
    }

    /// Whether no picture can be read back now.
    pub(super) fn is_busy(&self) -> bool {
        let ring = self.ring.get();
        ring.is_some_and(|ring| !ring.as_ref().is_some_and(Ring::idle))
    }

    /// Frees what is ours; returns when the stream has let go of this device's memory.
    ///
    /// # Safety
    /// The application destroys the device now: nothing of it runs or is used any more.
    pub(super) unsafe fn close(&self) {
        if let Some(Some(ring)) = self.ring.get() {
            // SAFETY: the caller's duty.
            unsafe { ring.close() };
        }
        let swapchains = std::mem::take(&mut *lock(&self.swapchains));
        let used = swapchains.values().flat_map(|left| left.copied.iter());
        let free = std::mem::take(&mut *lock(&self.semaphores));
        for semaphore in used.chain(&free) {
            // SAFETY: ours, made on this device, which has come to rest.
            unsafe { self.functions.destroy_semaphore(*semaphore, None) };
        }
    }
}

impl Swapchain {
    /// An image, and the semaphore for its copy.
    pub(super) fn image(&self, index: u32) -> Option<(vk::Image, vk::Semaphore)> {
        let index = index as usize;
        Some((*self.images.get(index)?, *self.copied.get(index)?))
    }
}

/// How pictures of such a swapchain are read, or why not.
fn readable(info: &vk::SwapchainCreateInfoKHR<'_>) -> Result<Pixels, String> {
    if info.flags.contains(vk::SwapchainCreateFlagsKHR::PROTECTED) {
        return Err("protected pictures are left alone".to_owned());
    }
    let shared = [
        vk::PresentModeKHR::SHARED_DEMAND_REFRESH,
        vk::PresentModeKHR::SHARED_CONTINUOUS_REFRESH,
    ];
    if shared.contains(&info.present_mode) {
        return Err("pictures that are drawn while they are shown are not streamed".to_owned());
    }
    let size = Size::new(info.image_extent.width, info.image_extent.height);
    if !size.is_valid() {
        return Err(format!("pictures of {size} are not streamed: too large"));
    }
    Pixels::of(info.image_format, info.image_color_space)
}

/// The structure of a kind in a chain of Vulkan structures.
///
/// # Safety
/// `chain` is one.
pub(super) unsafe fn chained(
    mut chain: *const std::ffi::c_void,
    kind: vk::StructureType,
) -> Option<*const std::ffi::c_void> {
    while !chain.is_null() {
        let entry = chain.cast::<vk::BaseInStructure<'_>>();
        // SAFETY: every structure of a chain begins with its kind and the next one.
        unsafe {
            if (*entry).s_type == kind {
                return Some(chain);
            }
            chain = (*entry).p_next.cast();
        }
    }
    None
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
