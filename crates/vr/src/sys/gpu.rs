//! The device that the runtime wants drawn with, and the session on it.

use std::sync::Arc;

use ash::vk;
use ash::vk::Handle as _;
use libloading::Library;
use openxr as xr;

use crate::error::VrError;

/// Vulkan's loader, as Linux distributions name it.
const VULKAN: &str = "libvulkan.so.1";

/// What is drawn with, at least: what lavapipe and every headset's runtime have.
const VERSION: (u16, u16) = (1, 1);

/// Opens the loader of OpenXR.
pub(crate) fn load() -> Result<xr::Entry, VrError> {
    // SAFETY: it is the loader of OpenXR, whose initialisation has no requirements.
    unsafe { xr::Entry::load(&()) }.map_err(|why| {
        VrError(format!(
            "there is no loader of OpenXR (the package libopenxr-loader1 brings it): {why}"
        ))
    })
}

/// A device with one queue, used by one thread. It lives until the session and all that was made of it are gone.
pub(crate) struct Gpu {
    pub(super) functions: ash::Device,
    pub(super) queue: vk::Queue,
    pub(super) family: u32,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    instance: ash::Instance,
    name: String,
    /// Last: its code is called until then.
    _library: Library,
}

/// A session with what belongs to it.
pub(crate) struct Made {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) session: xr::Session<xr::Vulkan>,
    pub(crate) waiter: xr::FrameWaiter,
    pub(crate) stream: xr::FrameStream<xr::Vulkan>,
}

impl Gpu {
    /// A device as the runtime wants it, and a session that draws with it.
    pub(crate) fn session(instance: &xr::Instance, system: xr::SystemId) -> Result<Made, VrError> {
        let gpu = Arc::new(Gpu::new(instance, system)?);
        let raw = |handle: u64| handle as *const std::ffi::c_void;
        // SAFETY: the handles are those of a device that was made for this instance, and the guard keeps it
        // until the session is gone. Its queue is used by the thread alone that has the session's frames.
        let made = unsafe {
            instance.create_session_with_guard::<xr::Vulkan>(
                system,
                &xr::vulkan::SessionCreateInfo {
                    instance: raw(gpu.instance.handle().as_raw()),
                    physical_device: raw(gpu.physical(instance, system)?.as_raw()),
                    device: raw(gpu.functions.handle().as_raw()),
                    queue_family_index: gpu.family,
                    queue_index: 0,
                },
                Box::new(Arc::clone(&gpu)),
            )
        };
        let (session, waiter, stream) = made.map_err(VrError::openxr("begin a session"))?;
        Ok(Made {
            gpu,
            session,
            waiter,
            stream,
        })
    }

    /// The device's name, as its driver says it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn new(instance: &xr::Instance, system: xr::SystemId) -> Result<Gpu, VrError> {
        let wanted = instance.graphics_requirements::<xr::Vulkan>(system);
        let wanted = wanted.map_err(VrError::openxr("say which Vulkan it needs"))?;
        let least = wanted.min_api_version_supported;
        let version = (least.major(), least.minor()).max(VERSION);
        let version = vk::make_api_version(0, version.0.into(), version.1.into(), 0);
        // SAFETY: it is the loader of Vulkan, whose initialisation has no requirements.
        let library = unsafe { Library::new(VULKAN) }.map_err(|why| {
            VrError(format!(
                "there is no Vulkan (the packages libvulkan1 and mesa-vulkan-drivers bring it): {why}"
            ))
        })?;
        // SAFETY: the function has this type in every version of Vulkan, and the library outlives its use.
        let get = unsafe {
            library
                .get::<vk::PFN_vkGetInstanceProcAddr>(b"vkGetInstanceProcAddr\0")
                .map(|symbol| *symbol)
        };
        let get = get.map_err(|why| VrError(format!("{VULKAN} is no loader of Vulkan: {why}")))?;
        let entry = ash::StaticFn {
            get_instance_proc_addr: get,
        };
        // SAFETY: both are the loader's `vkGetInstanceProcAddr`; only the types' names differ.
        let get: xr::sys::platform::VkGetInstanceProcAddr = unsafe { std::mem::transmute(get) };
        let application = vk::ApplicationInfo::default()
            .application_name(c"OpenUVR")
            .api_version(version);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structure is a valid one and lives through the call; the instance is destroyed with `Gpu`.
        let made =
            unsafe { instance.create_vulkan_instance(system, get, (&raw const info).cast()) };
        let made = made.map_err(VrError::openxr("open Vulkan"))?;
        let made = made.map_err(|why| VrError::vulkan("begin")(vk::Result::from_raw(why)))?;
        // SAFETY: the handle was just made by this loader.
        let vulkan = unsafe { ash::Instance::load(&entry, vk::Instance::from_raw(made as u64)) };
        let made = Gpu::on(instance, system, get, &vulkan);
        let (functions, physical, family) = made.inspect_err(|_| {
            // SAFETY: nothing was made of it.
            unsafe { vulkan.destroy_instance(None) }
        })?;
        // SAFETY: the device is one of this instance, and has the queue that it was made with.
        let (queue, memory, about) = unsafe {
            (
                functions.get_device_queue(family, 0),
                vulkan.get_physical_device_memory_properties(physical),
                vulkan.get_physical_device_properties(physical),
            )
        };
        let name = about.device_name_as_c_str().unwrap_or_default();
        Ok(Gpu {
            functions,
            queue,
            family,
            memory,
            name: name.to_string_lossy().into_owned(),
            instance: vulkan,
            _library: library,
        })
    }

    /// The device that the runtime names, with one queue that draws.
    fn on(
        instance: &xr::Instance,
        system: xr::SystemId,
        get: xr::sys::platform::VkGetInstanceProcAddr,
        vulkan: &ash::Instance,
    ) -> Result<(ash::Device, vk::PhysicalDevice, u32), VrError> {
        let raw = vulkan.handle().as_raw() as *const std::ffi::c_void;
        // SAFETY: the instance lives, and was made by the runtime.
        let physical = unsafe { instance.vulkan_graphics_device(system, raw) };
        let physical = physical.map_err(VrError::openxr("name a device of Vulkan"))?;
        let physical = vk::PhysicalDevice::from_raw(physical as u64);
        // SAFETY: the device is one of this instance.
        let families = unsafe { vulkan.get_physical_device_queue_family_properties(physical) };
        let draws =
            |of: &vk::QueueFamilyProperties| of.queue_flags.contains(vk::QueueFlags::GRAPHICS);
        let family = (0..).zip(&families).find(|(_, family)| draws(family));
        let (family, _) =
            family.ok_or_else(|| VrError("the device of Vulkan draws nothing".into()))?;
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        let raw = physical.as_raw() as *const std::ffi::c_void;
        // SAFETY: the structure is a valid one and lives through the call; the device is destroyed with `Gpu`.
        let made =
            unsafe { instance.create_vulkan_device(system, get, raw, (&raw const info).cast()) };
        let made = made.map_err(VrError::openxr("open the device of Vulkan"))?;
        let made =
            made.map_err(|why| VrError::vulkan("open the device")(vk::Result::from_raw(why)))?;
        // SAFETY: the handle was just made of this instance.
        let functions =
            unsafe { ash::Device::load(vulkan.fp_v1_0(), vk::Device::from_raw(made as u64)) };
        Ok((functions, physical, family))
    }

    /// The same device again: the specification lets it be asked for at any time.
    fn physical(
        &self,
        instance: &xr::Instance,
        system: xr::SystemId,
    ) -> Result<vk::PhysicalDevice, VrError> {
        let raw = self.instance.handle().as_raw() as *const std::ffi::c_void;
        // SAFETY: the instance lives, and was made by the runtime.
        let physical = unsafe { instance.vulkan_graphics_device(system, raw) };
        let physical = physical.map_err(VrError::openxr("name a device of Vulkan"))?;
        Ok(vk::PhysicalDevice::from_raw(physical as u64))
    }

    /// Waits until the device has done all that it was given.
    pub(super) fn settle(&self) {
        // SAFETY: the device lives, and the queue is this thread's. One that is lost has done with everything.
        let _ = unsafe { self.functions.device_wait_idle() };
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: all that was made of them holds an `Arc` of this, and is gone; so is the session.
        unsafe {
            self.functions.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
