//! Applications that render with Vulkan on lavapipe, with the validation layer if it is installed.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use ash::vk;
use ash::vk::Handle as _;
use openxr_sys as xr;
use openxr_sys::platform::VkGetInstanceProcAddr;

use crate::rig::{Application, alone, skip};

const EXTENSIONS: &[&[u8]] = &[xr::KHR_VULKAN_ENABLE2_EXTENSION_NAME];

/// Number of messages of the validation layer.
static VALIDATION_MESSAGES: AtomicU32 = AtomicU32::new(0);

unsafe extern "system" fn on_validation_message(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    kinds: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    if kinds.contains(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION) {
        // SAFETY: the layer passes a valid string.
        let text = unsafe { CStr::from_ptr((*data).p_message) };
        eprintln!("{}", text.to_string_lossy());
        VALIDATION_MESSAGES.fetch_add(1, Ordering::Relaxed);
    }
    vk::FALSE
}

/// An application, and a Vulkan device that the runtime may use.
pub(crate) struct Drawing {
    pub(crate) app: Application,
    binding: xr::GraphicsBindingVulkanKHR,
    device: ash::Device,
    queue: vk::Queue,
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a dispatchable handle is a pointer"
)]
fn raw<H: vk::Handle>(handle: H) -> *const c_void {
    handle.as_raw() as usize as *const c_void
}

impl Drawing {
    /// Creates the application and its device. Prints a message and returns `None` if a dependency is missing.
    pub(crate) fn open() -> Option<Drawing> {
        let app = Application::open(EXTENSIONS)?;
        // SAFETY: the Vulkan loader has no initialisers with preconditions; functions are called as
        // specified, with valid handles.
        unsafe {
            let Ok(library) = libloading::Library::new("libvulkan.so.1") else {
                skip("the Vulkan loader is not installed: apt-get install libvulkan1");
                return None;
            };
            let get_proc: VkGetInstanceProcAddr = *library.get(b"vkGetInstanceProcAddr\0").unwrap();
            std::mem::forget(library);
            app.drawing(get_proc)
        }
    }

    /// Creates a session with the graphics binding. Call [`Application::query_requirements`] before.
    pub(crate) fn session(&self) -> Result<xr::Session, xr::Result> {
        self.app.session((&raw const self.binding).cast())
    }

    pub(crate) fn swapchain(
        &self,
        session: xr::Session,
        change: impl FnOnce(&mut xr::SwapchainCreateInfo),
    ) -> Result<xr::Swapchain, xr::Result> {
        let mut info = xr::SwapchainCreateInfo {
            ty: xr::SwapchainCreateInfo::TYPE,
            next: null(),
            create_flags: xr::SwapchainCreateFlags::EMPTY,
            usage_flags: xr::SwapchainUsageFlags::COLOR_ATTACHMENT,
            format: vk::Format::R8G8B8A8_SRGB.as_raw().into(),
            sample_count: 1,
            width: 64,
            height: 32,
            face_count: 1,
            array_size: 1,
            mip_count: 1,
        };
        change(&mut info);
        let mut swapchain = xr::Swapchain::default();
        match call!(self.app, CreateSwapchain(session, &info, &mut swapchain)) {
            xr::Result::SUCCESS => Ok(swapchain),
            error => Err(error),
        }
    }

    fn acquire(&self, swapchain: xr::Swapchain) -> xr::Result {
        let mut index = 0;
        call!(
            self.app,
            AcquireSwapchainImage(swapchain, null(), &mut index)
        )
    }

    fn wait(&self, swapchain: xr::Swapchain) -> xr::Result {
        let info = xr::SwapchainImageWaitInfo {
            ty: xr::SwapchainImageWaitInfo::TYPE,
            next: null(),
            timeout: xr::Duration::INFINITE,
        };
        call!(self.app, WaitSwapchainImage(swapchain, &info))
    }

    fn release(&self, swapchain: xr::Swapchain) -> xr::Result {
        call!(self.app, ReleaseSwapchainImage(swapchain, null()))
    }

    pub(crate) fn cycle_image(&self, swapchain: xr::Swapchain) {
        for step in [Drawing::acquire, Drawing::wait, Drawing::release] {
            assert_eq!(step(self, swapchain), xr::Result::SUCCESS);
        }
    }

    /// Destroys the device and checks for validation messages.
    pub(crate) fn close(self) {
        // SAFETY: nothing uses the device any more.
        unsafe {
            self.device.queue_wait_idle(self.queue).unwrap();
            self.device.destroy_device(None);
        }
        assert_eq!(VALIDATION_MESSAGES.load(Ordering::Relaxed), 0, "see above");
    }
}

impl Application {
    /// # Safety
    /// `get_proc` is the `vkGetInstanceProcAddr` of the Vulkan loader.
    unsafe fn drawing(self, get_proc: VkGetInstanceProcAddr) -> Option<Drawing> {
        let system = self.system();
        // SAFETY: functions are called as specified, with valid handles.
        unsafe {
            let load = |instance: *const c_void, name: &CStr| {
                let found = get_proc(instance, name.as_ptr());
                found.map_or(null(), |f| f as *const c_void)
            };
            let entry = ash::EntryFnV1_0::load(|name| load(null(), name));
            let mut count = 0;
            let _ = (entry.enumerate_instance_layer_properties)(&mut count, null_mut());
            let mut layers = vec![vk::LayerProperties::default(); count as usize];
            let out = layers.as_mut_ptr();
            let _ = (entry.enumerate_instance_layer_properties)(&mut count, out);
            let wanted = c"VK_LAYER_KHRONOS_validation";
            let checked = layers.iter().any(|l| l.layer_name_as_c_str() == Ok(wanted));
            let names: Vec<*const c_char> =
                checked.then_some(wanted.as_ptr()).into_iter().collect();
            let debug = [c"VK_EXT_debug_utils".as_ptr()];
            let mut messenger = vk::DebugUtilsMessengerCreateInfoEXT::default()
                .message_severity(
                    vk::DebugUtilsMessageSeverityFlagsEXT::ERROR
                        | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING,
                )
                .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
                .pfn_user_callback(Some(on_validation_message));
            let mut info = vk::InstanceCreateInfo::default().enabled_layer_names(&names);
            if checked {
                info = info.enabled_extension_names(&debug);
                info = info.push_next(&mut messenger);
            } else {
                skip(
                    "Vulkan's validation layer is not installed: apt-get install vulkan-validationlayers",
                );
            }
            let create = xr::VulkanInstanceCreateInfoKHR {
                ty: xr::VulkanInstanceCreateInfoKHR::TYPE,
                next: null(),
                system_id: system,
                create_flags: xr::VulkanInstanceCreateFlagsKHR::EMPTY,
                pfn_get_instance_proc_addr: Some(get_proc),
                vulkan_create_info: (&raw const info).cast(),
                vulkan_allocator: null(),
            };
            let (mut instance, mut result) = (null(), 0);
            done!(
                self,
                CreateVulkanInstanceKHR(self.instance, &create, &mut instance, &mut result)
            );
            assert_eq!(vk::Result::from_raw(result), vk::Result::SUCCESS);
            let functions = ash::Instance::load_with(
                |name| load(instance, name),
                vk::Instance::from_raw(instance.addr() as u64),
            );
            if checked {
                let made = ash::ext::debug_utils::InstanceFn::load(|name| load(instance, name));
                let mut handle = vk::DebugUtilsMessengerEXT::null();
                let make = made.create_debug_utils_messenger_ext;
                let done = make(functions.handle(), &messenger, null(), &mut handle);
                assert_eq!(done, vk::Result::SUCCESS);
            }
            let get = xr::VulkanGraphicsDeviceGetInfoKHR {
                ty: xr::VulkanGraphicsDeviceGetInfoKHR::TYPE,
                next: null(),
                system_id: system,
                vulkan_instance: instance,
            };
            let mut physical = null();
            if call!(
                self,
                GetVulkanGraphicsDevice2KHR(self.instance, &get, &mut physical)
            ) != xr::Result::SUCCESS
            {
                skip("lavapipe is not installed: apt-get install mesa-vulkan-drivers");
                return None;
            }
            let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
            let create = xr::VulkanDeviceCreateInfoKHR {
                ty: xr::VulkanDeviceCreateInfoKHR::TYPE,
                next: null(),
                system_id: system,
                create_flags: xr::VulkanDeviceCreateFlagsKHR::EMPTY,
                pfn_get_instance_proc_addr: Some(get_proc),
                vulkan_physical_device: physical,
                vulkan_create_info: (&raw const info).cast(),
                vulkan_allocator: null(),
            };
            let mut made = null();
            done!(
                self,
                CreateVulkanDeviceKHR(self.instance, &create, &mut made, &mut result)
            );
            assert_eq!(vk::Result::from_raw(result), vk::Result::SUCCESS);
            let handle = vk::Device::from_raw(made.addr() as u64);
            let device = ash::Device::load(functions.fp_v1_0(), handle);
            Some(Drawing {
                binding: xr::GraphicsBindingVulkanKHR {
                    ty: xr::GraphicsBindingVulkanKHR::TYPE,
                    next: null(),
                    instance,
                    physical_device: physical,
                    device: raw(device.handle()),
                    queue_family_index: 0,
                    queue_index: 0,
                },
                queue: device.get_device_queue(0, 0),
                device,
                app: self,
            })
        }
    }

    /// `xrGetVulkanGraphicsRequirements2KHR`. An application must call it before it creates a session.
    pub(crate) fn query_requirements(&self) {
        // SAFETY: zero is valid for all fields.
        let mut requirements: xr::GraphicsRequirementsVulkanKHR = unsafe { std::mem::zeroed() };
        requirements.ty = xr::GraphicsRequirementsVulkanKHR::TYPE;
        let system = self.system();
        done!(
            self,
            GetVulkanGraphicsRequirements2KHR(self.instance, system, &mut requirements)
        );
        assert_eq!(
            requirements.min_api_version_supported,
            xr::Version::new(1, 0, 0)
        );
    }
}

/// A view that covers a whole swapchain image.
pub(crate) fn view(swapchain: xr::Swapchain, width: i32) -> xr::CompositionLayerProjectionView {
    xr::CompositionLayerProjectionView {
        ty: xr::CompositionLayerProjectionView::TYPE,
        next: null(),
        pose: xr::Posef::IDENTITY,
        fov: xr::Fovf {
            angle_left: -0.7,
            angle_right: 0.7,
            angle_up: 0.7,
            angle_down: -0.7,
        },
        sub_image: xr::SwapchainSubImage {
            swapchain,
            image_rect: xr::Rect2Di {
                offset: xr::Offset2Di { x: 0, y: 0 },
                extent: xr::Extent2Di { width, height: 32 },
            },
            image_array_index: 0,
        },
    }
}

pub(crate) fn projection(
    space: xr::Space,
    views: &[xr::CompositionLayerProjectionView],
) -> xr::CompositionLayerProjection {
    xr::CompositionLayerProjection {
        ty: xr::CompositionLayerProjection::TYPE,
        next: null(),
        layer_flags: xr::CompositionLayerFlags::EMPTY,
        space,
        view_count: u32::try_from(views.len()).unwrap(),
        views: views.as_ptr(),
    }
}

#[test]
fn the_device_must_be_the_selected_one() {
    alone("vulkan::the_device_must_be_the_selected_one", || {
        let Some(mut drawing) = Drawing::open() else {
            return;
        };
        let missing = xr::Result::ERROR_GRAPHICS_REQUIREMENTS_CALL_MISSING;
        assert_eq!(drawing.session(), Err(missing));
        drawing.app.query_requirements();
        let right = drawing.binding;
        let invalid = Err(xr::Result::ERROR_GRAPHICS_DEVICE_INVALID);
        drawing.binding.physical_device = right.device;
        assert_eq!(drawing.session(), invalid);
        drawing.binding = right;
        drawing.binding.queue_family_index = 77;
        assert_eq!(drawing.session(), invalid);
        drawing.binding = right;
        let session = drawing.session().unwrap();
        done!(drawing.app, DestroySession(session));
        drawing.close();
    });
}

#[test]
fn a_missing_driver_is_reported_by_vulkan() {
    alone("vulkan::a_missing_driver_is_reported_by_vulkan", || {
        // SAFETY: no other thread of this process reads the environment now.
        unsafe { std::env::set_var("VK_ICD_FILENAMES", "/nowhere.json") };
        let Some(app) = Application::open(EXTENSIONS) else {
            return;
        };
        // SAFETY: the Vulkan loader has no initialisers with preconditions, and exports a function of this type.
        let get_proc: VkGetInstanceProcAddr = unsafe {
            let Ok(library) = libloading::Library::new("libvulkan.so.1") else {
                return skip("the Vulkan loader is not installed: apt-get install libvulkan1");
            };
            let found = *library.get(b"vkGetInstanceProcAddr\0").unwrap();
            std::mem::forget(library);
            found
        };
        let info = vk::InstanceCreateInfo::default();
        let create = xr::VulkanInstanceCreateInfoKHR {
            ty: xr::VulkanInstanceCreateInfoKHR::TYPE,
            next: null(),
            system_id: app.system(),
            create_flags: xr::VulkanInstanceCreateFlagsKHR::EMPTY,
            pfn_get_instance_proc_addr: Some(get_proc),
            vulkan_create_info: (&raw const info).cast(),
            vulkan_allocator: null(),
        };
        let (mut instance, mut result) = (null(), 0);
        done!(
            app,
            CreateVulkanInstanceKHR(app.instance, &create, &mut instance, &mut result)
        );
        let wanted = vk::Result::ERROR_INCOMPATIBLE_DRIVER;
        assert_eq!(vk::Result::from_raw(result), wanted);
        // If the application ignores the failure, creating a session returns an error.
        app.query_requirements();
        // SAFETY: all fields are numbers or pointers, for which zero is valid.
        let mut binding: xr::GraphicsBindingVulkanKHR = unsafe { std::mem::zeroed() };
        binding.ty = xr::GraphicsBindingVulkanKHR::TYPE;
        let invalid = Err(xr::Result::ERROR_GRAPHICS_DEVICE_INVALID);
        assert_eq!(app.session((&raw const binding).cast()), invalid);
    });
}

#[test]
fn swapchains_are_created_or_rejected() {
    let name = "vulkan::swapchains_are_created_or_rejected";
    alone(name, || {
        let Some(drawing) = Drawing::open() else {
            return;
        };
        drawing.app.query_requirements();
        let session = drawing.session().unwrap();
        let mut formats = [0; 32];
        let mut count = 0;
        let out = formats.as_mut_ptr();
        done!(
            drawing.app,
            EnumerateSwapchainFormats(session, 32, &mut count, out)
        );
        assert_eq!(formats[0], i64::from(vk::Format::R8G8B8A8_SRGB.as_raw()));
        for format in &formats[..count as usize] {
            let made = drawing.swapchain(session, |info| {
                info.format = *format;
                info.usage_flags = xr::SwapchainUsageFlags::SAMPLED;
                (info.array_size, info.mip_count) = (2, 3);
            });
            assert!(made.is_ok(), "format {format}");
        }
        let four = drawing.swapchain(session, |info| info.sample_count = 4);
        assert!(four.is_ok());
        let made = |change: fn(&mut xr::SwapchainCreateInfo)| drawing.swapchain(session, change);
        let unsupported = Err(xr::Result::ERROR_FEATURE_UNSUPPORTED);
        assert_eq!(made(|info| info.face_count = 6), unsupported, "a cube map");
        let wrong = Err(xr::Result::ERROR_VALIDATION_FAILURE);
        assert_eq!(made(|info| info.width = 16_384), wrong);
        let format = Err(xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED);
        assert_eq!(made(|info| info.format = 1), format);
        // If an application never destroys its swapchains, a limit stops it before memory runs out.
        let mut made = 0;
        let stopped = loop {
            match drawing.swapchain(session, |info| (info.width, info.height) = (1, 1)) {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
            assert!(made < 16_384, "there is a limit");
        };
        assert_eq!(stopped, xr::Result::ERROR_LIMIT_REACHED);
        done!(drawing.app, DestroySession(session));
        drawing.close();
    });
}

#[test]
fn images_are_acquired_in_order() {
    alone("vulkan::images_are_acquired_in_order", || {
        let Some(drawing) = Drawing::open() else {
            return;
        };
        drawing.app.query_requirements();
        let session = drawing.session().unwrap();
        let swapchain = drawing.swapchain(session, |_| {}).unwrap();
        let order = xr::Result::ERROR_CALL_ORDER_INVALID;
        assert_eq!(drawing.wait(swapchain), order);
        assert_eq!(drawing.release(swapchain), order);
        for _ in 0..7 {
            drawing.cycle_image(swapchain);
        }
        for _ in 0..3 {
            assert_eq!(drawing.acquire(swapchain), xr::Result::SUCCESS);
        }
        assert_eq!(drawing.acquire(swapchain), order, "all three are acquired");
        let is_static = |info: &mut xr::SwapchainCreateInfo| {
            info.create_flags = xr::SwapchainCreateFlags::STATIC_IMAGE;
        };
        let once = drawing.swapchain(session, is_static).unwrap();
        drawing.cycle_image(once);
        assert_eq!(drawing.acquire(once), order);
        done!(drawing.app, DestroySwapchain(once));
        assert_eq!(drawing.acquire(once), xr::Result::ERROR_HANDLE_INVALID);
        // The instance can be destroyed while its objects are in use.
        done!(drawing.app, DestroyInstance(drawing.app.instance));
        drawing.close();
    });
}

#[test]
fn layers_are_accepted_or_rejected() {
    let name = "vulkan::layers_are_accepted_or_rejected";
    alone(name, || {
        let Some(drawing) = Drawing::open() else {
            return;
        };
        let app = &drawing.app;
        app.query_requirements();
        let session = drawing.session().unwrap();
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        // Without a host, the session does not wait for a client. It becomes visible when its first frame ends.
        assert!(!app.frame(session).1);
        let (display, drawn) = app.wait_frame(session).unwrap();
        assert!(drawn);
        assert_eq!(app.begin_frame(session), xr::Result::SUCCESS);
        let space = app.space(session, xr::ReferenceSpaceType::LOCAL);
        let swapchain = drawing.swapchain(session, |_| {}).unwrap();
        let end = |layers: &[*const xr::CompositionLayerBaseHeader]| {
            app.end_frame(session, display, layers)
        };
        let shown = |views: &[xr::CompositionLayerProjectionView]| {
            let layer = projection(space, views);
            end(&[(&raw const layer).cast()])
        };
        let (right, wide) = (view(swapchain, 64), view(swapchain, 65));
        let invalid = xr::Result::ERROR_LAYER_INVALID;
        assert_eq!(end(&[null()]), invalid);
        assert_eq!(shown(&[right, right]), invalid, "no image was released");
        drawing.cycle_image(swapchain);
        let rect = xr::Result::ERROR_SWAPCHAIN_RECT_INVALID;
        assert_eq!(shown(&[right, wide]), rect);
        let wrong = xr::Result::ERROR_VALIDATION_FAILURE;
        assert_eq!(shown(&[right]), wrong, "one view is missing");
        let mut turned = right;
        turned.pose.orientation.w = 3.0;
        assert_eq!(shown(&[turned, right]), xr::Result::ERROR_POSE_INVALID);
        let mut beyond = right;
        beyond.sub_image.image_array_index = 1;
        assert_eq!(shown(&[beyond, right]), wrong);
        let layer = projection(space, &[]);
        let hundred = [(&raw const layer).cast(); 100];
        assert_eq!(end(&hundred), xr::Result::ERROR_LAYER_LIMIT_EXCEEDED);
        let gone = drawing.swapchain(session, |_| {}).unwrap();
        drawing.cycle_image(gone);
        done!(app, DestroySwapchain(gone));
        let gone = shown(&[view(gone, 64), right]);
        assert_eq!(gone, xr::Result::ERROR_HANDLE_INVALID);
        let other = app.space(session, xr::ReferenceSpaceType::LOCAL);
        done!(app, DestroySpace(other));
        let layer = projection(other, &[right, right]);
        let nowhere = end(&[(&raw const layer).cast()]);
        assert_eq!(nowhere, xr::Result::ERROR_HANDLE_INVALID);
        // None of the failed calls has ended the frame.
        assert_eq!(shown(&[right, right]), xr::Result::SUCCESS);
        assert_eq!(shown(&[right, right]), xr::Result::ERROR_CALL_ORDER_INVALID);
        done!(app, DestroySession(session));
        drawing.close();
    });
}
