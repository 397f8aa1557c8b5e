//! Devices: the next layer's functions, queues, and captured swapchains. Capture itself is in
//! [`super::present`].

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ash::khr::swapchain::DeviceFn as SwapchainFn;
use ash::vk;
use openuvr_media::capture::vulkan::{InitCommands, Pixels, Ring, Wait};
use openuvr_proto::units::Size;
use openuvr_runtime::sched::{Scheduler, ThreadRole};

use super::instance::{Instance, Window};
use super::loader::NextDevice;
use super::registry::Registry;

pub(super) static DEVICES: Registry<Device> = Registry::new();

/// One `VkDevice` of the application.
pub(super) struct Device {
    pub(super) handle: vk::Device,
    pub(super) instance: Arc<Instance>,
    physical: vk::PhysicalDevice,
    device_proc: vk::PFN_vkGetDeviceProcAddr,
    pub(super) functions: ash::Device,
    /// Set if the application uses `VK_KHR_swapchain`.
    pub(super) swapchain: Option<SwapchainFn>,
    families: Vec<vk::QueueFlags>,
    queues: Mutex<HashMap<vk::Queue, u32>>,
    swapchains: Mutex<HashMap<vk::SwapchainKHR, Arc<Swapchain>>>,
    /// Unused semaphores.
    semaphores: Mutex<Vec<vk::Semaphore>>,
    /// The read-back buffers, which are created with the first frame. `None` if that failed.
    ring: OnceLock<Option<Ring>>,
    memory: vk::PhysicalDeviceMemoryProperties,
    init_commands: InitCommands,
    /// Whether this is a device group, in which each physical device has a part of the image.
    pub(super) group: bool,
}

/// One swapchain of the application, with the state for reading its images.
pub(super) struct Swapchain {
    images: Vec<vk::Image>,
    /// One semaphore for each image. The copy signals it, and the presentation waits for it. A semaphore can be used
    /// again when the application has acquired the semaphore's image again.
    copied: Vec<vk::Semaphore>,
    pub(super) size: Size,
    pub(super) surface: vk::SurfaceKHR,
    pub(super) window: Window,
    /// The pixel format, or why the swapchain is not captured.
    pub(super) pixels: Result<Pixels, String>,
    /// Whether the reason in `pixels` has been reported.
    pub(super) reported: AtomicBool,
}

impl Device {
    /// The state of the device `handle`, which the next layer has created on `physical` with `info`.
    ///
    /// # Safety
    /// All handles must be valid, and `next` must come from the creation of `handle` with `info`.
    pub(super) unsafe fn new(
        handle: vk::Device,
        physical: vk::PhysicalDevice,
        instance: Arc<Instance>,
        next: &NextDevice,
        info: &vk::DeviceCreateInfo<'_>,
    ) -> Device {
        let below = &instance.functions;
        let device_proc = next.device_proc;
        let load = |name: &std::ffi::CStr| {
            // SAFETY: the caller guarantees that the device is valid, and that `next` contains the next layer's
            // functions.
            let raw = unsafe { device_proc(handle, name.as_ptr()) };
            raw.map_or(std::ptr::null(), |f| f as *const std::ffi::c_void)
        };
        let presents = !load(c"vkQueuePresentKHR").is_null();
        // SAFETY: for each name, `load` returns the function or null, and ash replaces null by a stub. The caller
        // guarantees that the physical device is valid.
        let (functions, families, memory) = unsafe {
            (
                ash::Device::load_with(load, handle),
                below.get_physical_device_queue_family_properties(physical),
                below.get_physical_device_memory_properties(physical),
            )
        };
        // SAFETY: the application passes a valid chain of structures.
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
            // SAFETY: `chained` found the structure by its type field.
            group: group.is_some_and(|group| unsafe {
                (*group.cast::<vk::DeviceGroupDeviceCreateInfo<'_>>()).physical_device_count > 1
            }),
        }
    }

    /// A function of the next layer.
    pub(super) fn raw(&self, name: &std::ffi::CStr) -> vk::PFN_vkVoidFunction {
        // SAFETY: the device is removed from the registry before it is destroyed, so it still exists.
        unsafe { (self.device_proc)(self.handle, name.as_ptr()) }
    }

    pub(super) fn register_queue(&self, queue: vk::Queue, family: u32) {
        lock(&self.queues).insert(queue, family);
    }

    /// A queue's family, if the queue supports copies.
    pub(super) fn copying_family(&self, queue: vk::Queue) -> Option<u32> {
        let family = *lock(&self.queues).get(&queue)?;
        let flags = *self.families.get(family as usize)?;
        let copies = vk::QueueFlags::TRANSFER | vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
        flags.intersects(copies).then_some(family)
    }

    /// The image usage that the application requests, plus `TRANSFER_SRC` if the surface supports it and
    /// the pixel format can be captured.
    ///
    /// # Safety
    /// `info` must be the application's argument of `vkCreateSwapchainKHR`.
    pub(super) unsafe fn usage(
        &self,
        info: &vk::SwapchainCreateInfoKHR<'_>,
    ) -> vk::ImageUsageFlags {
        if readable(info).is_err() {
            return info.image_usage;
        }
        let mut can = vk::SurfaceCapabilitiesKHR::default();
        let query = self.instance.surfaces.capabilities;
        // SAFETY: the application created the device from this physical device, and passes a valid surface in `info`.
        let result = query.map(|query| unsafe { query(self.physical, info.surface, &mut can) });
        let extra = vk::ImageUsageFlags::TRANSFER_SRC;
        if result == Some(vk::Result::SUCCESS) && can.supported_usage_flags.contains(extra) {
            info.image_usage | extra
        } else {
            info.image_usage
        }
    }

    /// Records a swapchain that was created with `info`.
    ///
    /// # Safety
    /// The swapchain must have been created on this device.
    pub(super) unsafe fn register_swapchain(
        &self,
        swapchain: vk::SwapchainKHR,
        info: &vk::SwapchainCreateInfoKHR<'_>,
    ) {
        let mut pixels = readable(info);
        if !info.image_usage.contains(vk::ImageUsageFlags::TRANSFER_SRC) {
            pixels = pixels.and(Err(
                "the surface does not support copies of its images".to_owned()
            ));
        }
        // SAFETY: the caller guarantees that the swapchain was created on this device.
        let images = unsafe { self.images(swapchain) }.unwrap_or_default();
        let copied = pixels.as_ref().map(|_| self.semaphores(images.len()));
        let made = Swapchain {
            copied: copied.unwrap_or_default(),
            images,
            size: Size::new(info.image_extent.width, info.image_extent.height),
            surface: info.surface,
            window: self.instance.window(info.surface),
            pixels,
            reported: AtomicBool::new(false),
        };
        lock(&self.swapchains).insert(swapchain, Arc::new(made));
    }

    /// # Safety
    /// The swapchain must be valid.
    unsafe fn images(&self, swapchain: vk::SwapchainKHR) -> Option<Vec<vk::Image>> {
        let query = self.swapchain.as_ref()?.get_swapchain_images_khr;
        let mut count = 0;
        // SAFETY: the caller guarantees that the swapchain is valid. The first call returns the number of images, and
        // the second call writes at most that number into `images`.
        unsafe {
            let result = query(self.handle, swapchain, &mut count, std::ptr::null_mut());
            (result == vk::Result::SUCCESS).then_some(())?;
            let mut images = vec![vk::Image::null(); count as usize];
            let result = query(self.handle, swapchain, &mut count, images.as_mut_ptr());
            (result == vk::Result::SUCCESS).then_some(images)
        }
    }

    /// `count` semaphores, fewer if their creation fails.
    fn semaphores(&self, count: usize) -> Vec<vk::Semaphore> {
        let mut free = lock(&self.semaphores);
        let kept = free.len().saturating_sub(count);
        let mut taken = free.split_off(kept);
        while taken.len() < count {
            let info = vk::SemaphoreCreateInfo::default();
            // SAFETY: the device is removed from the registry before it is destroyed, so it still exists.
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

    /// Releases a swapchain that is about to be destroyed. Blocks until its images are no longer read. Pass the result
    /// to [`Device::recycle_semaphores`].
    pub(super) fn release_swapchain(&self, handle: vk::SwapchainKHR) -> Option<Arc<Swapchain>> {
        let released = lock(&self.swapchains).remove(&handle)?;
        if let Some(Some(ring)) = self.ring.get() {
            ring.settle();
        }
        Some(released)
    }

    /// Makes the semaphores of a destroyed swapchain available for another one. No operation waits for them anymore.
    pub(super) fn recycle_semaphores(&self, destroyed: &Swapchain) {
        lock(&self.semaphores).extend(&destroyed.copied);
    }

    /// The read-back buffers.
    pub(super) fn ring(&self) -> Option<&Ring> {
        let spawn = |wait: Wait| {
            Scheduler::ordinary().spawn(ThreadRole::Dispatch, "openuvr-vulkan", || {
                crate::stream::guarded(wait);
            })
        };
        let make = || {
            let functions = self.functions.clone();
            Ring::new(functions, Some(self.init_commands), self.memory, spawn).ok()
        };
        self.ring.get_or_init(make).as_ref()
    }

    /// Whether no frame can be read back now.
    pub(super) fn is_busy(&self) -> bool {
        let ring = self.ring.get();
        ring.is_some_and(|ring| !ring.as_ref().is_some_and(Ring::idle))
    }

    /// Frees the layer's objects. Blocks until the stream has released this device's memory.
    ///
    /// # Safety
    /// The application must be about to destroy the device, which must be idle and no longer used.
    pub(super) unsafe fn close(&self) {
        if let Some(Some(ring)) = self.ring.get() {
            // SAFETY: the caller guarantees that the device is idle and no longer used.
            unsafe { ring.close() };
        }
        let swapchains = std::mem::take(&mut *lock(&self.swapchains));
        let used = swapchains.values().flat_map(|left| left.copied.iter());
        let free = std::mem::take(&mut *lock(&self.semaphores));
        for semaphore in used.chain(&free) {
            // SAFETY: this layer created the semaphore on this device, and the caller guarantees that the device is
            // idle.
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

/// The pixel format of a swapchain created with `info`, or why it can't be captured.
fn readable(info: &vk::SwapchainCreateInfoKHR<'_>) -> Result<Pixels, String> {
    if info.flags.contains(vk::SwapchainCreateFlagsKHR::PROTECTED) {
        return Err("protected swapchains are not streamed".to_owned());
    }
    let shared = [
        vk::PresentModeKHR::SHARED_DEMAND_REFRESH,
        vk::PresentModeKHR::SHARED_CONTINUOUS_REFRESH,
    ];
    if shared.contains(&info.present_mode) {
        return Err("shared presentable images are not streamed".to_owned());
    }
    let size = Size::new(info.image_extent.width, info.image_extent.height);
    if !size.is_valid() {
        return Err(format!("frames of {size} are not streamed: too large"));
    }
    Pixels::of(info.image_format, info.image_color_space)
}

/// The structure of type `kind` in a chain of Vulkan structures.
///
/// # Safety
/// `chain` must be a valid chain.
pub(super) unsafe fn chained(
    mut chain: *const std::ffi::c_void,
    kind: vk::StructureType,
) -> Option<*const std::ffi::c_void> {
    while !chain.is_null() {
        let entry = chain.cast::<vk::BaseInStructure<'_>>();
        // SAFETY: every structure of a Vulkan chain starts with its type and a pointer to the next structure.
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
