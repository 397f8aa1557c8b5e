//! Table of the API functions by name, with the condition under which each is available.

use std::ffi::{CStr, c_char};

use openxr_sys::{self as xr, Handle as _, pfn};

use crate::api::{
    action, automation, debug, event, frame, gl, instance, mask, path, refresh, session, source,
    space, swapchain, system, time, vulkan,
};
use crate::extensions::{Enabled, Extension};
use crate::ffi::{Outcome, call};
use crate::handles;
use crate::instance::Instance;

/// Condition under which a function is available.
#[derive(Clone, Copy)]
enum Availability {
    /// Available without an instance.
    Always,
    /// Requires an instance.
    Instance,
    /// Requires an instance with at least one of these extensions enabled.
    AnyOf(&'static [Extension]),
    /// Requires an instance of OpenXR 1.1.
    OpenXr11,
}

macro_rules! table {
    ($($name:literal $availability:path => $function:path as $kind:ident;)*) => {
        /// Finds the function with this name and erases its type.
        fn find(name: &CStr) -> Option<(Availability, pfn::VoidFunction)> {
            match name.to_bytes() {
                $($name => {
                    let typed: pfn::$kind = $function;
                    // SAFETY: all function pointers have the same size. The caller casts the pointer back to the type
                    // that belongs to the name.
                    let plain = unsafe { std::mem::transmute::<pfn::$kind, pfn::VoidFunction>(typed) };
                    Some(($availability, plain))
                })*
                _ => None,
            }
        }
    };
}

const ALWAYS: Availability = Availability::Always;
const INSTANCE: Availability = Availability::Instance;
const TIMESPEC: Availability = Availability::AnyOf(&[Extension::ConvertTimespecTime]);
const AUTOMATION: Availability = Availability::AnyOf(&[Extension::ConformanceAutomation]);
const DEBUG: Availability = Availability::AnyOf(&[Extension::DebugUtils]);
const MASK: Availability = Availability::AnyOf(&[Extension::VisibilityMask]);
const REFRESH: Availability = Availability::AnyOf(&[Extension::DisplayRefreshRate]);
const SPACES: Availability = Availability::AnyOf(&[Extension::LocateSpaces]);
const OPENGL: Availability = Availability::AnyOf(&[Extension::OpenGlEnable]);
const VULKAN: Availability = Availability::AnyOf(&[Extension::VulkanEnable]);
const VULKAN2: Availability = Availability::AnyOf(&[Extension::VulkanEnable2]);

table! {
    b"xrGetInstanceProcAddr" ALWAYS => get_instance_proc_addr as GetInstanceProcAddr;
    b"xrEnumerateInstanceExtensionProperties" ALWAYS => instance::enumerate_extensions as EnumerateInstanceExtensionProperties;
    b"xrCreateInstance" ALWAYS => instance::create as CreateInstance;
    b"xrDestroyInstance" INSTANCE => instance::destroy as DestroyInstance;
    b"xrGetInstanceProperties" INSTANCE => instance::properties as GetInstanceProperties;
    b"xrResultToString" INSTANCE => instance::result_to_string as ResultToString;
    b"xrStructureTypeToString" INSTANCE => instance::structure_type_to_string as StructureTypeToString;
    b"xrPollEvent" INSTANCE => event::poll as PollEvent;
    b"xrStringToPath" INSTANCE => path::from_string as StringToPath;
    b"xrPathToString" INSTANCE => path::to_string as PathToString;
    b"xrGetSystem" INSTANCE => system::get as GetSystem;
    b"xrGetSystemProperties" INSTANCE => system::properties as GetSystemProperties;
    b"xrEnumerateEnvironmentBlendModes" INSTANCE => system::blend_modes as EnumerateEnvironmentBlendModes;
    b"xrEnumerateViewConfigurations" INSTANCE => system::view_configurations as EnumerateViewConfigurations;
    b"xrGetViewConfigurationProperties" INSTANCE => system::view_configuration as GetViewConfigurationProperties;
    b"xrEnumerateViewConfigurationViews" INSTANCE => system::views as EnumerateViewConfigurationViews;
    b"xrCreateSession" INSTANCE => session::create as CreateSession;
    b"xrDestroySession" INSTANCE => session::destroy as DestroySession;
    b"xrBeginSession" INSTANCE => session::begin as BeginSession;
    b"xrEndSession" INSTANCE => session::end as EndSession;
    b"xrRequestExitSession" INSTANCE => session::request_exit as RequestExitSession;
    b"xrEnumerateReferenceSpaces" INSTANCE => space::enumerate as EnumerateReferenceSpaces;
    b"xrCreateReferenceSpace" INSTANCE => space::create as CreateReferenceSpace;
    b"xrGetReferenceSpaceBoundsRect" INSTANCE => space::bounds as GetReferenceSpaceBoundsRect;
    b"xrCreateActionSpace" INSTANCE => space::create_of_action as CreateActionSpace;
    b"xrLocateSpace" INSTANCE => space::locate as LocateSpace;
    b"xrDestroySpace" INSTANCE => space::destroy as DestroySpace;
    b"xrEnumerateSwapchainFormats" INSTANCE => swapchain::formats as EnumerateSwapchainFormats;
    b"xrCreateSwapchain" INSTANCE => swapchain::create as CreateSwapchain;
    b"xrDestroySwapchain" INSTANCE => swapchain::destroy as DestroySwapchain;
    b"xrEnumerateSwapchainImages" INSTANCE => swapchain::images as EnumerateSwapchainImages;
    b"xrAcquireSwapchainImage" INSTANCE => swapchain::acquire as AcquireSwapchainImage;
    b"xrWaitSwapchainImage" INSTANCE => swapchain::wait as WaitSwapchainImage;
    b"xrReleaseSwapchainImage" INSTANCE => swapchain::release as ReleaseSwapchainImage;
    b"xrWaitFrame" INSTANCE => frame::wait as WaitFrame;
    b"xrBeginFrame" INSTANCE => frame::begin as BeginFrame;
    b"xrEndFrame" INSTANCE => frame::end as EndFrame;
    b"xrLocateViews" INSTANCE => frame::locate_views as LocateViews;
    b"xrCreateActionSet" INSTANCE => action::create_set as CreateActionSet;
    b"xrDestroyActionSet" INSTANCE => action::destroy_set as DestroyActionSet;
    b"xrCreateAction" INSTANCE => action::create as CreateAction;
    b"xrDestroyAction" INSTANCE => action::destroy as DestroyAction;
    b"xrSuggestInteractionProfileBindings" INSTANCE => action::suggest as SuggestInteractionProfileBindings;
    b"xrAttachSessionActionSets" INSTANCE => action::attach as AttachSessionActionSets;
    b"xrGetCurrentInteractionProfile" INSTANCE => action::current_profile as GetCurrentInteractionProfile;
    b"xrSyncActions" INSTANCE => action::sync as SyncActions;
    b"xrGetActionStateBoolean" INSTANCE => action::boolean as GetActionStateBoolean;
    b"xrGetActionStateFloat" INSTANCE => action::float as GetActionStateFloat;
    b"xrGetActionStateVector2f" INSTANCE => action::vector as GetActionStateVector2f;
    b"xrGetActionStatePose" INSTANCE => action::pose as GetActionStatePose;
    b"xrEnumerateBoundSourcesForAction" INSTANCE => source::bound as EnumerateBoundSourcesForAction;
    b"xrGetInputSourceLocalizedName" INSTANCE => source::name as GetInputSourceLocalizedName;
    b"xrApplyHapticFeedback" INSTANCE => action::apply_haptic as ApplyHapticFeedback;
    b"xrStopHapticFeedback" INSTANCE => action::stop_haptic as StopHapticFeedback;
    b"xrConvertTimespecTimeToTimeKHR" TIMESPEC => time::from_timespec as ConvertTimespecTimeToTimeKHR;
    b"xrConvertTimeToTimespecTimeKHR" TIMESPEC => time::to_timespec as ConvertTimeToTimespecTimeKHR;
    b"xrSetInputDeviceActiveEXT" AUTOMATION => automation::set_active as SetInputDeviceActiveEXT;
    b"xrSetInputDeviceStateBoolEXT" AUTOMATION => automation::set_bool as SetInputDeviceStateBoolEXT;
    b"xrSetInputDeviceStateFloatEXT" AUTOMATION => automation::set_float as SetInputDeviceStateFloatEXT;
    b"xrSetInputDeviceStateVector2fEXT" AUTOMATION => automation::set_vector as SetInputDeviceStateVector2fEXT;
    b"xrSetInputDeviceLocationEXT" AUTOMATION => automation::set_location as SetInputDeviceLocationEXT;
    b"xrCreateDebugUtilsMessengerEXT" DEBUG => debug::create_messenger as CreateDebugUtilsMessengerEXT;
    b"xrDestroyDebugUtilsMessengerEXT" DEBUG => debug::destroy_messenger as DestroyDebugUtilsMessengerEXT;
    b"xrSetDebugUtilsObjectNameEXT" DEBUG => debug::set_name as SetDebugUtilsObjectNameEXT;
    b"xrSubmitDebugUtilsMessageEXT" DEBUG => debug::submit as SubmitDebugUtilsMessageEXT;
    b"xrSessionBeginDebugUtilsLabelRegionEXT" DEBUG => debug::begin_region as SessionBeginDebugUtilsLabelRegionEXT;
    b"xrSessionEndDebugUtilsLabelRegionEXT" DEBUG => debug::end_region as SessionEndDebugUtilsLabelRegionEXT;
    b"xrSessionInsertDebugUtilsLabelEXT" DEBUG => debug::insert_label as SessionInsertDebugUtilsLabelEXT;
    b"xrGetVisibilityMaskKHR" MASK => mask::get as GetVisibilityMaskKHR;
    b"xrEnumerateDisplayRefreshRatesFB" REFRESH => refresh::enumerate as EnumerateDisplayRefreshRatesFB;
    b"xrGetDisplayRefreshRateFB" REFRESH => refresh::get as GetDisplayRefreshRateFB;
    b"xrRequestDisplayRefreshRateFB" REFRESH => refresh::request as RequestDisplayRefreshRateFB;
    b"xrLocateSpaces" Availability::OpenXr11 => space::locate_all as LocateSpaces;
    b"xrLocateSpacesKHR" SPACES => space::locate_all as LocateSpacesKHR;
    b"xrGetOpenGLGraphicsRequirementsKHR" OPENGL => gl::requirements as GetOpenGLGraphicsRequirementsKHR;
    b"xrGetVulkanInstanceExtensionsKHR" VULKAN => vulkan::instance_extensions as GetVulkanInstanceExtensionsKHR;
    b"xrGetVulkanDeviceExtensionsKHR" VULKAN => vulkan::device_extensions as GetVulkanDeviceExtensionsKHR;
    b"xrGetVulkanGraphicsDeviceKHR" VULKAN => vulkan::graphics_device as GetVulkanGraphicsDeviceKHR;
    b"xrGetVulkanGraphicsRequirementsKHR" VULKAN => vulkan::requirements as GetVulkanGraphicsRequirementsKHR;
    b"xrCreateVulkanInstanceKHR" VULKAN2 => vulkan::create_instance as CreateVulkanInstanceKHR;
    b"xrCreateVulkanDeviceKHR" VULKAN2 => vulkan::create_device as CreateVulkanDeviceKHR;
    b"xrGetVulkanGraphicsDevice2KHR" VULKAN2 => vulkan::graphics_device_2 as GetVulkanGraphicsDevice2KHR;
    b"xrGetVulkanGraphicsRequirements2KHR" VULKAN2 => vulkan::requirements as GetVulkanGraphicsRequirements2KHR;
}

/// `xrGetInstanceProcAddr`.
pub(crate) unsafe extern "system" fn get_instance_proc_addr(
    instance: xr::Instance,
    name: *const c_char,
    function: *mut Option<pfn::VoidFunction>,
) -> xr::Result {
    call(c"xrGetInstanceProcAddr", || {
        if name.is_null() || function.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        // SAFETY: neither pointer is null, and the application passes valid ones.
        let name = unsafe {
            function.write(None);
            CStr::from_ptr(name)
        };
        let found = look_up(instance, name)?;
        // SAFETY: `function` is not null, and the application passes a valid pointer.
        unsafe { function.write(Some(found)) };
        Ok(xr::Result::SUCCESS)
    })
}

fn look_up(instance: xr::Instance, name: &CStr) -> Outcome<pfn::VoidFunction> {
    let found = find(name);
    if instance == xr::Instance::NULL {
        return match found {
            Some((Availability::Always, function)) => Ok(function),
            _ => Err(xr::Result::ERROR_HANDLE_INVALID),
        };
    }
    let enabled = handles::get::<Instance>(instance)?.extensions;
    let (availability, function) = found.ok_or(xr::Result::ERROR_FUNCTION_UNSUPPORTED)?;
    match availability.is_met(enabled) {
        true => Ok(function),
        false => Err(xr::Result::ERROR_FUNCTION_UNSUPPORTED),
    }
}

impl Availability {
    fn is_met(self, enabled: Enabled) -> bool {
        match self {
            Availability::Always | Availability::Instance => true,
            Availability::OpenXr11 => enabled.is_1_1(),
            Availability::AnyOf(extensions) => extensions.iter().any(|e| enabled.has(*e)),
        }
    }
}
