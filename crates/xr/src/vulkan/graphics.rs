//! A session's use of the application's Vulkan device: creates swapchain images, and submits pictures, which are copied
//! where possible and otherwise composed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;
use openuvr_media::capture::RenderInfo;
use openuvr_media::capture::vulkan::{Copy, CopyRegion, Pixels, Ring, Wait};
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use openxr_sys as xr;

use super::compose::Composer;
use super::device::Device;
use super::device_selection::{DeviceSelection, ForeignHandle, handle};
use super::images::{COLOURS, DEPTHS, ImageInfo, SwapchainImages};
use super::memory::Owned;
use super::scene::Image;
use crate::ffi::Outcome;
use crate::logic::scene::Scene;
use crate::stream::FrameSink;

/// Maximum number of swapchains of a session (guess: engines have some dozens).
const MAX_SWAPCHAINS: u32 = 1024;

/// The Vulkan device of a session, and the resources that the runtime has on it.
pub(crate) struct Graphics {
    pub(super) device: Device,
    swapchains: AtomicU32,
    ring: Ring,
    composer: Mutex<Option<Composer>>,
    /// Whether the session has ended. After that, the device must not be used.
    closed: Mutex<bool>,
}

impl Graphics {
    /// Uses the application's device.
    ///
    /// # Errors
    /// `XR_ERROR_GRAPHICS_DEVICE_INVALID` if a handle is null, if the device is not the selected device, or if the
    /// binding's queue does not exist or has no graphics commands. `XR_ERROR_OUT_OF_MEMORY` if the read-back cannot be
    /// set up.
    ///
    /// # Safety
    /// The binding's handles are valid until [`Graphics::close`].
    pub(crate) unsafe fn new(
        binding: &xr::GraphicsBindingVulkanKHR,
        selection: &DeviceSelection,
    ) -> Outcome<Graphics> {
        let wrong = xr::Result::ERROR_GRAPHICS_DEVICE_INVALID;
        let passed = (
            ForeignHandle(binding.instance),
            ForeignHandle(binding.physical_device),
        );
        if binding.instance.is_null()
            || binding.device.is_null()
            || selection.selected != Some(passed)
        {
            return Err(wrong);
        }
        // SAFETY: the caller guarantees that the binding's handles are valid. The physical device is the selected
        // device.
        unsafe {
            let instance = selection.instance(binding.instance)?;
            let physical: vk::PhysicalDevice = handle(binding.physical_device);
            let families = instance.get_physical_device_queue_family_properties(physical);
            let family = families.get(binding.queue_family_index as usize);
            let draws = family.is_some_and(|family| {
                family.queue_flags.contains(vk::QueueFlags::GRAPHICS)
                    && binding.queue_index < family.queue_count
            });
            if !draws {
                return Err(wrong);
            }
            let device = ash::Device::load(instance.fp_v1_0(), handle(binding.device));
            let queue = device.get_device_queue(binding.queue_family_index, binding.queue_index);
            if queue == vk::Queue::null() {
                return Err(wrong);
            }
            let memory = instance.get_physical_device_memory_properties(physical);
            let spawn = |wait: Wait| {
                // The application handles signals, so this thread blocks them. A panic must not end the application.
                Scheduler::ordinary().spawn(ThreadRole::Dispatch, "openuvr-xr-copy", || {
                    let wait = std::panic::AssertUnwindSafe(wait);
                    let _ = std::panic::catch_unwind(|| { wait }.0());
                })
            };
            let ring = Ring::new(device.clone(), None, memory, spawn);
            let device = Device {
                functions: device,
                memory,
                queue,
                family: binding.queue_family_index,
                instance,
                physical,
            };
            Ok(Graphics {
                ring: ring.map_err(|_| xr::Result::ERROR_OUT_OF_MEMORY)?,
                device,
                swapchains: AtomicU32::new(0),
                composer: Mutex::new(None),
                closed: Mutex::new(false),
            })
        }
    }

    /// The supported swapchain formats of this device, in order of preference.
    pub(crate) fn formats(&self) -> Vec<i64> {
        let feature = |format: &vk::Format, wanted: vk::FormatFeatureFlags| {
            // SAFETY: the application must keep the instance until it has destroyed the session.
            let has = unsafe {
                (self.device.instance)
                    .get_physical_device_format_properties(self.device.physical, *format)
            };
            has.optimal_tiling_features.contains(wanted)
        };
        let colour = vk::FormatFeatureFlags::COLOR_ATTACHMENT
            | vk::FormatFeatureFlags::SAMPLED_IMAGE_FILTER_LINEAR;
        let depth = vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT;
        let colours = COLOURS.iter().filter(|format| feature(format, colour));
        let depths = DEPTHS.iter().filter(|format| feature(format, depth));
        colours
            .chain(depths)
            .map(|format| format.as_raw().into())
            .collect()
    }

    /// Creates the images of a swapchain. During this call, only the application may use the queue, so
    /// [`Graphics::acquired`] later initialises the layout of the images.
    ///
    /// # Errors
    /// Returns the error code that the specification defines.
    pub(crate) fn make(&self, parameters: &ImageInfo) -> Outcome<SwapchainImages> {
        let info = parameters.create_info();
        if !self.formats().contains(&info.format.as_raw().into()) {
            return Err(xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED);
        }
        // SAFETY: the application must keep the instance until it has destroyed the session.
        let limits = unsafe {
            self.device
                .instance
                .get_physical_device_image_format_properties(
                    self.device.physical,
                    info.format,
                    info.image_type,
                    info.tiling,
                    info.usage,
                    info.flags,
                )
        };
        let limits = limits.map_err(|_| xr::Result::ERROR_FEATURE_UNSUPPORTED)?;
        let fits = limits.max_extent.width >= info.extent.width
            && limits.max_extent.height >= info.extent.height
            && limits.max_mip_levels >= info.mip_levels
            && limits.max_array_layers >= info.array_layers;
        if !fits {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        if !limits.sample_counts.contains(info.samples) {
            return Err(xr::Result::ERROR_FEATURE_UNSUPPORTED);
        }
        if self.swapchains.fetch_add(1, Ordering::Relaxed) >= MAX_SWAPCHAINS {
            self.swapchains.fetch_sub(1, Ordering::Relaxed);
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        let mut swapchain_images = SwapchainImages::new(*parameters, Vec::new());
        // SAFETY: the device outlives the session, and supports images with these parameters.
        let made = unsafe {
            (0..parameters.common.count()).try_for_each(|_| {
                let image = Owned::new(&self.device.functions, &self.device.memory, &info)?;
                swapchain_images.images.push(image);
                Ok(())
            })
        };
        if let Err(why) = made {
            self.destroy_images(&swapchain_images);
            return Err(match why {
                vk::Result::ERROR_DEVICE_LOST => xr::Result::ERROR_RUNTIME_FAILURE,
                _ => xr::Result::ERROR_OUT_OF_MEMORY,
            });
        }
        Ok(swapchain_images)
    }

    /// Called before an image is acquired: the first call initialises the layout of all images.
    ///
    /// # Errors
    /// Returns an error if the device is lost, or has no memory for a command.
    pub(crate) fn acquired(&self, swapchain_images: &SwapchainImages) -> Outcome<()> {
        let closed = self.lock_closed();
        if *closed || swapchain_images.was_initialised() {
            return Ok(());
        }
        // SAFETY: the images are new, and OpenXR allows xrAcquireSwapchainImage to use the queue.
        let done = unsafe { self.initialise_layout(swapchain_images) };
        done.map_err(|_| xr::Result::ERROR_RUNTIME_FAILURE)
    }

    /// Transitions new images to the layout that the application expects, and waits for the transition.
    ///
    /// # Safety
    /// The images are new, and this thread may use the queue.
    unsafe fn initialise_layout(
        &self,
        swapchain_images: &SwapchainImages,
    ) -> Result<(), vk::Result> {
        let device = &self.device;
        let functions = &device.functions;
        let barriers: Vec<_> = (swapchain_images.images.iter())
            .map(|own| {
                vk::ImageMemoryBarrier::default()
                    .new_layout(swapchain_images.layout())
                    .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)
                    .image(own.image)
                    .subresource_range(swapchain_images.range())
            })
            .collect();
        let pool = vk::CommandPoolCreateInfo::default().queue_family_index(device.family);
        let (all, none) = (
            vk::PipelineStageFlags::ALL_COMMANDS,
            vk::DependencyFlags::empty(),
        );
        // SAFETY: the caller guarantees that the images are new and that this thread may use the queue. The queue is
        // idle before the pool is destroyed.
        unsafe {
            let pool = functions.create_command_pool(&pool, None)?;
            let done = || {
                let info = vk::CommandBufferAllocateInfo::default()
                    .command_pool(pool)
                    .command_buffer_count(1);
                let commands = functions.allocate_command_buffers(&info)?;
                let begin = vk::CommandBufferBeginInfo::default()
                    .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
                functions.begin_command_buffer(commands[0], &begin)?;
                functions.cmd_pipeline_barrier(commands[0], all, all, none, &[], &[], &barriers);
                functions.end_command_buffer(commands[0])?;
                let submit = vk::SubmitInfo::default().command_buffers(&commands);
                let fence = vk::Fence::null();
                functions.queue_submit(device.queue, &[submit], fence)?;
                functions.queue_wait_idle(device.queue)
            };
            let done = done();
            functions.destroy_command_pool(pool, None);
            done
        }
    }

    fn composer(&self) -> MutexGuard<'_, Option<Composer>> {
        self.composer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks `closed`. The session cannot end while the lock is held, so the device stays usable.
    fn lock_closed(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn destroy_images(&self, swapchain_images: &SwapchainImages) {
        let closed = self.lock_closed();
        swapchain_images.mark_destroyed();
        if *closed {
            return;
        }
        self.ring.settle();
        let mut composer = self.composer();
        // SAFETY: copies and compositions have finished; the application has destroyed the swapchain and does
        // not use the images any more.
        unsafe {
            if let Some(composer) = &mut *composer {
                composer.wait_idle(&self.device.functions);
            }
            for (_, readable) in swapchain_images
                .views
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .drain(..)
            {
                readable.destroy(&self.device.functions);
            }
            for image in &swapchain_images.images {
                image.destroy(&self.device.functions);
            }
        }
        self.swapchains.fetch_sub(1, Ordering::Relaxed);
    }

    /// Submits the picture of a frame. Drops the picture if no buffer is free.
    ///
    /// # Errors
    /// Returns the reason, as one line of text.
    pub(crate) fn show(
        &self,
        scene: &Scene<Image>,
        to: FrameSink,
        drawn: RenderInfo,
    ) -> Result<(), String> {
        let closed = self.lock_closed();
        if *closed || !scene.is_complete() || !self.ring.idle() {
            return Ok(());
        }
        let failed = |e: vk::Result| format!("cannot read the picture back: {e}");
        let (pixels, parts) = match scene.copies() {
            Some(copied) => copied,
            // SAFETY: OpenXR allows xrEndFrame to use the queue, and the application has released the images.
            None => unsafe { self.compose(scene).map_err(failed)? },
        };
        let copy = Copy {
            queue: self.device.queue,
            family: self.device.family,
            parts: &parts,
            size: scene.total_size(),
            pixels,
            after: &[],
            done: None,
            drawn,
            to,
        };
        // SAFETY: OpenXR allows xrEndFrame to use the queue, and the application has released the images. The
        // rectangles were checked to be inside their images.
        unsafe { self.ring.copy(&copy) }.map_err(failed)?;
        Ok(())
    }

    /// Composes a picture.
    ///
    /// # Safety
    /// This thread may use the queue, and the images are released.
    unsafe fn compose(
        &self,
        scene: &Scene<Image>,
    ) -> Result<(Pixels, Vec<CopyRegion>), vk::Result> {
        let mut composer = self.composer();
        // SAFETY: the caller guarantees that this thread may use the queue and that the images are released. A composer
        // for a different size is idle before it is destroyed.
        unsafe {
            if let Some(mut old) = composer.take_if(|c| c.size != scene.total_size()) {
                self.ring.settle();
                old.wait_idle(&self.device.functions);
                old.destroy(&self.device.functions);
            }
            let composer = match &mut *composer {
                Some(composer) => composer,
                none => none.insert(Composer::new(&self.device, scene.total_size())?),
            };
            composer.compose(&self.device, scene)
        }
    }

    /// Frees all resources of the session except the swapchain images. The device is not used afterwards.
    pub(crate) fn close(&self) {
        let mut closed = self.lock_closed();
        if std::mem::replace(&mut *closed, true) {
            return;
        }
        // SAFETY: the application must destroy the session before the device, so the device still exists.
        unsafe {
            if let Some(mut composer) = self.composer().take() {
                composer.wait_idle(&self.device.functions);
                composer.destroy(&self.device.functions);
            }
            self.ring.close();
        }
    }
}
