//! Table of the API functions by name, with the condition under which each is available.

use std::ffi::{CStr, c_char};

use openxr_sys::{self as xr, Handle as _, pfn};

use crate::api::{
    action, automation, debug, event, frame, gl, instance, mask, path, refresh, session, source,
    space, swapchain, system, time, vulkan,
};
use crate::border::{Outcome, call};
use crate::extensions::{Enabled, Extension};
use crate::handles;
use crate::instance::Instance;

/// Condition under which a function is available.
#[derive(Clone, Copy)]
enum Needs {
    /// Available without an instance.
    Nothing,
    /// Requires an instance.
    Instance,
    /// Requires an instance with one of these extensions enabled.
    Any(&'static [Extension]),
    /// Requires an instance of OpenXR 1.1.
    Newer,
}

macro_rules! table {
    ($($name:literal $needs:path => $function:path as $kind:ident;)*) => {
        /// Finds the function with this name and erases its type.
        fn find(name: &CStr) -> Option<(Needs, pfn::VoidFunction)> {
            match name.to_bytes() {
                $($name => {
                    let typed: pfn::$kind = $function;
                    // SAFETY: all function pointers have the same size. The caller casts it back to the type
                    // that belongs to the name.
                    let plain = unsafe { std::mem::transmute::<pfn::$kind, pfn::VoidFunction>(typed) };
                    Some(($needs, plain))
                })*
                _ => None,
            }
        }
    };
}

const NOTHING: Needs = Needs::Nothing;
const USUAL: Needs = Needs::Instance;
const TIMESPEC: Needs = Needs::Any(&[Extension::ConvertTimespecTime]);
const AUTOMATION: Needs = Needs::Any(&[Extension::ConformanceAutomation]);
const DEBUG: Needs = Needs::Any(&[Extension::DebugUtils]);
const MASK: Needs = Needs::Any(&[Extension::VisibilityMask]);
const REFRESH: Needs = Needs::Any(&[Extension::DisplayRefreshRate]);
const SPACES: Needs = Needs::Any(&[Extension::LocateSpaces]);
const OPENGL: Needs = Needs::Any(&[Extension::OpenGlEnable]);
const VULKAN: Needs = Needs::Any(&[Extension::VulkanEnable]);
const VULKAN2: Needs = Needs::Any(&[Extension::VulkanEnable2]);

table! {
    b"xrGetInstanceProcAddr" NOTHING => get_instance_proc_addr as GetInstanceProcAddr;
    b"xrEnumerateInstanceExtensionProperties" NOTHING => instance::enumerate_extensions as EnumerateInstanceExtensionProperties;
    b"xrCreateInstance" NOTHING => instance::create as CreateInstance;
    b"xrDestroyInstance" USUAL => instance::destroy as DestroyInstance;
    b"xrGetInstanceProperties" USUAL => instance::properties as GetInstanceProperties;
    b"xrResultToString" USUAL => instance::result_to_string as ResultToString;
    b"xrStructureTypeToString" USUAL => instance::structure_type_to_string as StructureTypeToString;
    b"xrPollEvent" USUAL => event::poll as PollEvent;
    b"xrStringToPath" USUAL => path::from_string as StringToPath;
    b"xrPathToString" USUAL => path::to_string as PathToString;
    b"xrGetSystem" USUAL => system::get as GetSystem;
    b"xrGetSystemProperties" USUAL => system::properties as GetSystemProperties;
    b"xrEnumerateEnvironmentBlendModes" USUAL => system::blend_modes as EnumerateEnvironmentBlendModes;
    b"xrEnumerateViewConfigurations" USUAL => system::view_configurations as EnumerateViewConfigurations;
    b"xrGetViewConfigurationProperties" USUAL => system::view_configuration as GetViewConfigurationProperties;
    b"xrEnumerateViewConfigurationViews" USUAL => system::views as EnumerateViewConfigurationViews;
    b"xrCreateSession" USUAL => session::create as CreateSession;
    b"xrDestroySession" USUAL => session::destroy as DestroySession;
    b"xrBeginSession" USUAL => session::begin as BeginSession;
    b"xrEndSession" USUAL => session::end as EndSession;
    b"xrRequestExitSession" USUAL => session::request_exit as RequestExitSession;
    b"xrEnumerateReferenceSpaces" USUAL => space::enumerate as EnumerateReferenceSpaces;
    b"xrCreateReferenceSpace" USUAL => space::create as CreateReferenceSpace;
    b"xrGetReferenceSpaceBoundsRect" USUAL => space::bounds as GetReferenceSpaceBoundsRect;
    b"xrCreateActionSpace" USUAL => space::create_of_action as CreateActionSpace;
    b"xrLocateSpace" USUAL => space::locate as LocateSpace;
    b"xrDestroySpace" USUAL => space::destroy as DestroySpace;
    b"xrEnumerateSwapchainFormats" USUAL => swapchain::formats as EnumerateSwapchainFormats;
    b"xrCreateSwapchain" USUAL => swapchain::create as CreateSwapchain;
    b"xrDestroySwapchain" USUAL => swapchain::destroy as DestroySwapchain;
    b"xrEnumerateSwapchainImages" USUAL => swapchain::images as EnumerateSwapchainImages;
    b"xrAcquireSwapchainImage" USUAL => swapchain::acquire as AcquireSwapchainImage;
    b"xrWaitSwapchainImage" USUAL => swapchain::wait as WaitSwapchainImage;
    b"xrReleaseSwapchainImage" USUAL => swapchain::release as ReleaseSwapchainImage;
    b"xrWaitFrame" USUAL => frame::wait as WaitFrame;
    b"xrBeginFrame" USUAL => frame::begin as BeginFrame;
    b"xrEndFrame" USUAL => frame::end as EndFrame;
    b"xrLocateViews" USUAL => frame::locate_views as LocateViews;
    b"xrCreateActionSet" USUAL => action::create_set as CreateActionSet;
    b"xrDestroyActionSet" USUAL => action::destroy_set as DestroyActionSet;
    b"xrCreateAction" USUAL => action::create as CreateAction;
    b"xrDestroyAction" USUAL => action::destroy as DestroyAction;
    b"xrSuggestInteractionProfileBindings" USUAL => action::suggest as SuggestInteractionProfileBindings;
    b"xrAttachSessionActionSets" USUAL => action::attach as AttachSessionActionSets;
    b"xrGetCurrentInteractionProfile" USUAL => action::current_profile as GetCurrentInteractionProfile;
    b"xrSyncActions" USUAL => action::sync as SyncActions;
    b"xrGetActionStateBoolean" USUAL => action::boolean as GetActionStateBoolean;
    b"xrGetActionStateFloat" USUAL => action::float as GetActionStateFloat;
    b"xrGetActionStateVector2f" USUAL => action::vector as GetActionStateVector2f;
    b"xrGetActionStatePose" USUAL => action::pose as GetActionStatePose;
    b"xrEnumerateBoundSourcesForAction" USUAL => source::bound as EnumerateBoundSourcesForAction;
    b"xrGetInputSourceLocalizedName" USUAL => source::name as GetInputSourceLocalizedName;
    b"xrApplyHapticFeedback" USUAL => action::apply_haptic as ApplyHapticFeedback;
    b"xrStopHapticFeedback" USUAL => action::stop_haptic as StopHapticFeedback;
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
    b"xrLocateSpaces" Needs::Newer => space::locate_all as LocateSpaces;
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
        // SAFETY: neither pointer is null; both are the application's.
        let name = unsafe {
            function.write(None);
            CStr::from_ptr(name)
        };
        let found = look_up(instance, name)?;
        // SAFETY: as above.
        unsafe { function.write(Some(found)) };
        Ok(xr::Result::SUCCESS)
    })
}

fn look_up(instance: xr::Instance, name: &CStr) -> Outcome<pfn::VoidFunction> {
    let found = find(name);
    if instance == xr::Instance::NULL {
        return match found {
            Some((Needs::Nothing, function)) => Ok(function),
            _ => Err(xr::Result::ERROR_HANDLE_INVALID),
        };
    }
    let enabled = handles::get::<Instance>(instance)?.extensions;
    let (needs, function) = found.ok_or(xr::Result::ERROR_FUNCTION_UNSUPPORTED)?;
    match needs.met_by(enabled) {
        true => Ok(function),
        false => Err(xr::Result::ERROR_FUNCTION_UNSUPPORTED),
    }
}

impl Needs {
    fn met_by(self, enabled: Enabled) -> bool {
        match self {
            Needs::Nothing | Needs::Instance => true,
            Needs::Newer => enabled.is_1_1(),
            Needs::Any(extensions) => extensions.iter().any(|e| enabled.has(*e)),
        }
    }
}
