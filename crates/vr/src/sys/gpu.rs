//! The Vulkan device that the runtime requires, and the session on it.

use std::sync::Arc;

use ash::vk;
use ash::vk::Handle as _;
use libloading::Library;
use openxr as xr;

use crate::error::VrError;

/// The Vulkan loader's soname on Linux.
const VULKAN: &str = "libvulkan.so.1";

/// The minimum Vulkan version. lavapipe and the drivers of VR systems support it.
const VERSION: (u16, u16) = (1, 1);

/// Opens the OpenXR loader.
pub(crate) fn load() -> Result<xr::Entry, VrError> {
    // SAFETY: the OpenXR loader has no initialisation requirements.
    unsafe { xr::Entry::load(&()) }.map_err(|why| {
        VrError(format!(
            "cannot open the OpenXR loader: {why}; install libopenxr-loader1"
        ))
    })
}

/// A device with one queue, which is used by one thread. The device outlives the session and all objects created from
/// it.
pub(crate) struct Gpu {
    pub(super) functions: ash::Device,
    pub(super) queue: vk::Queue,
    pub(super) family: u32,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    instance: ash::Instance,
    name: String,
    /// The library is dropped last, because the other fields call its code.
    _library: Library,
}

/// A new session and its objects.
pub(crate) struct NewSession {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) session: xr::Session<xr::Vulkan>,
    pub(crate) waiter: xr::FrameWaiter,
    pub(crate) stream: xr::FrameStream<xr::Vulkan>,
}

impl Gpu {
    /// Creates a device that meets the runtime's requirements, and a session on it.
    pub(crate) fn session(
        instance: &xr::Instance,
        system: xr::SystemId,
    ) -> Result<NewSession, VrError> {
        let gpu = Arc::new(Gpu::new(instance, system)?);
        let raw = |handle: u64| handle as *const std::ffi::c_void;
        // SAFETY: the handles belong to a device that was created for this instance, and the guard keeps this device
        // until the session is destroyed. Only the thread that runs the session's frames uses the device's queue.
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
        let (session, waiter, stream) = made.map_err(VrError::openxr("create a session"))?;
        Ok(NewSession {
            gpu,
            session,
            waiter,
            stream,
        })
    }

    /// The device's name, from its driver.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn new(instance: &xr::Instance, system: xr::SystemId) -> Result<Gpu, VrError> {
        let required = instance.graphics_requirements::<xr::Vulkan>(system);
        let required = required.map_err(VrError::openxr("query the graphics requirements"))?;
        let least = required.min_api_version_supported;
        let version = (least.major(), least.minor()).max(VERSION);
        let version = vk::make_api_version(0, version.0.into(), version.1.into(), 0);
        // SAFETY: the Vulkan loader has no initialisation requirements.
        let library = unsafe { Library::new(VULKAN) }.map_err(|why| {
            VrError(format!(
                "cannot open the Vulkan loader: {why}; install libvulkan1 and mesa-vulkan-drivers"
            ))
        })?;
        // SAFETY: the function has this type in every version of Vulkan, and the library outlives its use.
        let get = unsafe {
            library
                .get::<vk::PFN_vkGetInstanceProcAddr>(b"vkGetInstanceProcAddr\0")
                .map(|symbol| *symbol)
        };
        let get = get.map_err(|why| VrError(format!("{VULKAN} is not a Vulkan loader: {why}")))?;
        let entry = ash::StaticFn {
            get_instance_proc_addr: get,
        };
        // SAFETY: both are types of the loader's `vkGetInstanceProcAddr`; only their names differ.
        let get: xr::sys::platform::VkGetInstanceProcAddr = unsafe { std::mem::transmute(get) };
        let application = vk::ApplicationInfo::default()
            .application_name(c"OpenUVR")
            .api_version(version);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structure is valid during the call. `Gpu` destroys the instance on drop.
        let made =
            unsafe { instance.create_vulkan_instance(system, get, (&raw const info).cast()) };
        let made = made.map_err(VrError::openxr("create a Vulkan instance"))?;
        let made =
            made.map_err(|why| VrError::vulkan("create an instance")(vk::Result::from_raw(why)))?;
        // SAFETY: the handle was just created by this loader.
        let vulkan = unsafe { ash::Instance::load(&entry, vk::Instance::from_raw(made as u64)) };
        let made = Gpu::on(instance, system, get, &vulkan);
        let (functions, physical, family) = made.inspect_err(|_| {
            // SAFETY: no object was created from this instance.
            unsafe { vulkan.destroy_instance(None) }
        })?;
        // SAFETY: the device belongs to this instance, and was created with this queue.
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

    /// Creates the device that the runtime requires, with one graphics queue.
    fn on(
        instance: &xr::Instance,
        system: xr::SystemId,
        get: xr::sys::platform::VkGetInstanceProcAddr,
        vulkan: &ash::Instance,
    ) -> Result<(ash::Device, vk::PhysicalDevice, u32), VrError> {
        let raw = vulkan.handle().as_raw() as *const std::ffi::c_void;
        // SAFETY: the instance is valid, and was created by the runtime.
        let physical = unsafe { instance.vulkan_graphics_device(system, raw) };
        let physical = physical.map_err(VrError::openxr("find the graphics device"))?;
        let physical = vk::PhysicalDevice::from_raw(physical as u64);
        // SAFETY: the device belongs to this instance.
        let families = unsafe { vulkan.get_physical_device_queue_family_properties(physical) };
        let draws =
            |of: &vk::QueueFamilyProperties| of.queue_flags.contains(vk::QueueFlags::GRAPHICS);
        let family = (0..).zip(&families).find(|(_, family)| draws(family));
        let (family, _) =
            family.ok_or_else(|| VrError("the Vulkan device has no graphics queue".into()))?;
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        let raw = physical.as_raw() as *const std::ffi::c_void;
        // SAFETY: the structure is valid during the call. `Gpu` destroys the device on drop.
        let made =
            unsafe { instance.create_vulkan_device(system, get, raw, (&raw const info).cast()) };
        let made = made.map_err(VrError::openxr("create a Vulkan device"))?;
        let made =
            made.map_err(|why| VrError::vulkan("create a device")(vk::Result::from_raw(why)))?;
        // SAFETY: the handle was just created from this instance.
        let functions =
            unsafe { ash::Device::load(vulkan.fp_v1_0(), vk::Device::from_raw(made as u64)) };
        Ok((functions, physical, family))
    }

    /// Queries the same physical device again. The specification allows this query at any time.
    fn physical(
        &self,
        instance: &xr::Instance,
        system: xr::SystemId,
    ) -> Result<vk::PhysicalDevice, VrError> {
        let raw = self.instance.handle().as_raw() as *const std::ffi::c_void;
        // SAFETY: the instance is valid, and was created by the runtime.
        let physical = unsafe { instance.vulkan_graphics_device(system, raw) };
        let physical = physical.map_err(VrError::openxr("find the graphics device"))?;
        Ok(vk::PhysicalDevice::from_raw(physical as u64))
    }

    /// Waits until the device is idle.
    pub(super) fn wait_idle(&self) {
        // SAFETY: the device exists, and only this thread uses the queue. A lost device is idle.
        let _ = unsafe { self.functions.device_wait_idle() };
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: the session and all objects created from the device and the instance hold an `Arc` of this `Gpu`, so
        // none of them is left.
        unsafe {
            self.functions.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
