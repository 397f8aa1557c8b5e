//! The only exported symbol. Through it, the OpenXR loader gets `xrGetInstanceProcAddr`, and through that all other
//! functions.

use openxr_sys as xr;

use crate::dispatch;
use crate::extensions::API;
use crate::ffi::{DONE, call};

/// Version of the interface between loader and runtime (`openxr_loader_negotiation.h`).
const INTERFACE: u32 = 1;

/// `xrNegotiateLoaderRuntimeInterface`.
///
/// # Safety
/// Each pointer is null or points to a structure of the loader.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn xrNegotiateLoaderRuntimeInterface(
    loader: *const xr::NegotiateLoaderInfo,
    request: *mut xr::NegotiateRuntimeRequest,
) -> xr::Result {
    // The console belongs to the application, so a panic prints nothing and is reported by its result code. The hook is
    // set in the copy of the standard library that is linked into this library. A Rust application has its own copy.
    #[cfg(not(test))]
    std::panic::set_hook(Box::new(|_| {}));
    call(c"xrNegotiateLoaderRuntimeInterface", || {
        let failed = xr::Result::ERROR_INITIALIZATION_FAILED;
        if loader.is_null() || request.is_null() {
            return Err(failed);
        }
        // SAFETY: the pointers are not null, and the loader's structures start with their type and size.
        let (loader, request) = unsafe { (&*loader, &mut *request) };
        let known = loader.struct_type == xr::NegotiateLoaderInfo::TYPE
            && loader.struct_version == xr::NegotiateLoaderInfo::VERSION
            && loader.struct_size == size_of::<xr::NegotiateLoaderInfo>()
            && request.struct_type == xr::NegotiateRuntimeRequest::TYPE
            && request.struct_version == xr::NegotiateRuntimeRequest::VERSION
            && request.struct_size == size_of::<xr::NegotiateRuntimeRequest>();
        let is_compatible = (loader.min_interface_version..=loader.max_interface_version)
            .contains(&INTERFACE)
            && (loader.min_api_version..=loader.max_api_version).contains(&API);
        if !known || !is_compatible {
            return Err(failed);
        }
        request.runtime_interface_version = INTERFACE;
        request.runtime_api_version = API;
        request.get_instance_proc_addr = Some(dispatch::get_instance_proc_addr);
        DONE
    })
}
