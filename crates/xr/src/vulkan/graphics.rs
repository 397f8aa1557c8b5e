//! The application's device, as a session draws on it: images for swapchains, and the picture of a frame, copied
//! where that is enough, and composed where it is not.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;
use openuvr_media::capture::Drawn;
use openuvr_media::capture::vulkan::{Copy, Part, Pixels, Ring, Wait};
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use openxr_sys as xr;

use super::choice::{Choice, Foreign, handle};
use super::compose::Composer;
use super::device::Device;
use super::images::{COLOURS, DEPTHS, Pictures, Wish};
use super::memory::Owned;
use super::scene::Image;
use crate::border::Outcome;
use crate::logic::scene::Scene;
use crate::stream::Wanted;

/// Swapchains of one session at once (guess: engines have some dozens).
const MOST_SWAPCHAINS: u32 = 1024;

/// The device that a session draws with.
pub(crate) struct Graphics {
    pub(super) device: Device,
    swapchains: AtomicU32,
    ring: Ring,
    composer: Mutex<Option<Composer>>,
    /// The device is used no more.
    closed: Mutex<bool>,
}

impl Graphics {
    /// Takes up the application's device.
    ///
    /// # Errors
    /// `XR_ERROR_GRAPHICS_DEVICE_INVALID`, if it is not the one that it was to be.
    ///
    /// # Safety
    /// The binding's handles live until [`Graphics::close`].
    pub(crate) unsafe fn new(
        binding: &xr::GraphicsBindingVulkanKHR,
        choice: &Choice,
    ) -> Outcome<Graphics> {
        let wrong = xr::Result::ERROR_GRAPHICS_DEVICE_INVALID;
        let said = (Foreign(binding.instance), Foreign(binding.physical_device));
        if binding.instance.is_null() || binding.device.is_null() || choice.chosen != Some(said) {
            return Err(wrong);
        }
        // SAFETY: the caller's duty; the physical device is the one that we have named.
        unsafe {
            let instance = choice.instance(binding.instance)?;
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
                // All its signals are the application's, and a panic of ours is not its end.
                Scheduler::ordinary().spawn(ThreadRole::HandOff, "openuvr-xr-copy", || {
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

    /// The formats that can be drawn in on this device, the best first.
    pub(crate) fn formats(&self) -> Vec<i64> {
        let feature = |format: &vk::Format, wanted: vk::FormatFeatureFlags| {
            // SAFETY: the instance lives as long as the session.
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

    /// The images of a swapchain. The queue is the application's meanwhile: they are laid out by
    /// [`Graphics::acquired`].
    ///
    /// # Errors
    /// What the specification has for what can't be had.
    pub(crate) fn make(&self, wish: &Wish) -> Outcome<Pictures> {
        let info = wish.info();
        if !self.formats().contains(&info.format.as_raw().into()) {
            return Err(xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED);
        }
        // SAFETY: the instance lives as long as the session.
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
        if self.swapchains.fetch_add(1, Ordering::Relaxed) >= MOST_SWAPCHAINS {
            self.swapchains.fetch_sub(1, Ordering::Relaxed);
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        let mut pictures = Pictures::new(*wish, Vec::new());
        // SAFETY: the device lives as long as the session, and takes such images.
        let made = unsafe {
            (0..wish.all.count()).try_for_each(|_| {
                let image = Owned::new(&self.device.functions, &self.device.memory, &info)?;
                pictures.images.push(image);
                Ok(())
            })
        };
        if let Err(why) = made {
            self.forget(&pictures);
            return Err(match why {
                vk::Result::ERROR_DEVICE_LOST => xr::Result::ERROR_RUNTIME_FAILURE,
                _ => xr::Result::ERROR_OUT_OF_MEMORY,
            });
        }
        Ok(pictures)
    }

    /// An image of these was acquired: all are laid out as the application expects them, the first time.
    ///
    /// # Errors
    /// The device is lost, or has no memory for a command.
    pub(crate) fn acquired(&self, pictures: &Pictures) -> Outcome<()> {
        let closed = self.open();
        if *closed || pictures.was_laid_out() {
            return Ok(());
        }
        // SAFETY: they are new, and `xrAcquireSwapchainImage` may use the queue.
        let done = unsafe { self.lay_out(pictures) };
        done.map_err(|_| xr::Result::ERROR_RUNTIME_FAILURE)
    }

    /// Brings new images into the layout that an application finds them in, and waits for that.
    ///
    /// # Safety
    /// They are new, and this thread may use the queue.
    unsafe fn lay_out(&self, pictures: &Pictures) -> Result<(), vk::Result> {
        let device = &self.device;
        let functions = &device.functions;
        let barriers: Vec<_> = (pictures.images.iter())
            .map(|own| {
                vk::ImageMemoryBarrier::default()
                    .new_layout(pictures.layout())
                    .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)
                    .image(own.image)
                    .subresource_range(pictures.range())
            })
            .collect();
        let pool = vk::CommandPoolCreateInfo::default().queue_family_index(device.family);
        let (all, none) = (
            vk::PipelineStageFlags::ALL_COMMANDS,
            vk::DependencyFlags::empty(),
        );
        // SAFETY: the caller's duty; what is made here is at rest when it goes.
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

    /// Whether the device may still be used; the lock keeps it so.
    fn open(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The images of a swapchain are used no more.
    pub(crate) fn forget(&self, pictures: &Pictures) {
        let closed = self.open();
        pictures.goes();
        if *closed {
            return;
        }
        self.ring.settle();
        let mut composer = self.composer();
        // SAFETY: the copies were waited for, and so is what was composed; the application has done with
        // them, as it says by destroying them.
        unsafe {
            if let Some(composer) = &mut *composer {
                composer.settle(&self.device.functions);
            }
            for (_, readable) in pictures
                .seen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .drain(..)
            {
                readable.destroy(&self.device.functions);
            }
            for image in &pictures.images {
                image.destroy(&self.device.functions);
            }
        }
        self.swapchains.fetch_sub(1, Ordering::Relaxed);
    }

    /// Hands over the picture of a frame. With no buffer free it is left out.
    ///
    /// # Errors
    /// One line: why there is none.
    pub(crate) fn show(
        &self,
        scene: &Scene<Image>,
        to: Wanted,
        drawn: Drawn,
    ) -> Result<(), String> {
        let closed = self.open();
        if *closed || !scene.is_there() || !self.ring.idle() {
            return Ok(());
        }
        let failed = |e: vk::Result| format!("the picture can't be read back: {e}");
        let (pixels, parts) = match scene.parts() {
            Some(copied) => copied,
            // SAFETY: `xrEndFrame` may use the queue, and the images are those of released ones.
            None => unsafe { self.compose(scene).map_err(failed)? },
        };
        let copy = Copy {
            queue: self.device.queue,
            family: self.device.family,
            parts: &parts,
            size: scene.whole(),
            pixels,
            after: &[],
            done: None,
            drawn,
            to,
        };
        // SAFETY: as above; the parts lie in their images, as was checked when they were handed over.
        unsafe { self.ring.copy(&copy) }.map_err(failed)?;
        Ok(())
    }

    /// Composes a picture; its one part.
    ///
    /// # Safety
    /// This thread may use the queue, and the images are those of released ones.
    unsafe fn compose(&self, scene: &Scene<Image>) -> Result<(Pixels, Vec<Part>), vk::Result> {
        let mut composer = self.composer();
        // SAFETY: the caller's duty; one of another size is at rest when it goes.
        unsafe {
            if let Some(mut old) = composer.take_if(|c| c.size != scene.whole()) {
                self.ring.settle();
                old.settle(&self.device.functions);
                old.destroy(&self.device.functions);
            }
            let composer = match &mut *composer {
                Some(composer) => composer,
                none => none.insert(Composer::new(&self.device, scene.whole())?),
            };
            composer.compose(&self.device, scene)
        }
    }

    /// Frees what is ours on the device, but for images of swapchains; it is used no more.
    pub(crate) fn close(&self) {
        let mut closed = self.open();
        if std::mem::replace(&mut *closed, true) {
            return;
        }
        // SAFETY: the device lives: a session has to be destroyed before it.
        unsafe {
            if let Some(mut composer) = self.composer().take() {
                composer.settle(&self.device.functions);
                composer.destroy(&self.device.functions);
            }
            self.ring.close();
        }
    }
}
