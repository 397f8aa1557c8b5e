//! A Vulkan layer that reads back the presented images (`VK_LAYER_OPENUVR_capture`).
//!
//! ```text
//! application ─► vkQueuePresentKHR ─► requested, and a free buffer?
//!                                       │ no           │ yes: copy image to buffer, on the same queue
//!                                       ▼              ▼
//!                                     driver ◄──── the presentation waits for the copy
//!                                                      └─► waiter's thread ─► submit ─► host threads
//! ```
//! The loader gets the layer's two entry points from [`vkNegotiateLoaderLayerInterfaceVersion`] and routes the
//! application's calls through them. The copy never blocks the application, except when the application destroys an
//! object that is being read: a swapchain or the device.
//!
//! # Environment set by `openuvr run`
//! The manifest `VkLayer_openuvr_capture.json` in `FOLDER/vulkan/explicit_layer.d/` contains the absolute path of this
//! library. The loader finds it through `XDG_DATA_DIRS=FOLDER:…`. If the user has set `VK_LAYER_PATH`, the layer's
//! folder is added to that variable instead, because it replaces all other search paths. `VK_ADD_LAYER_PATH` is not
//! used, because the loader of Ubuntu 22.04 does not support it. `VK_INSTANCE_LAYERS=VK_LAYER_OPENUVR_capture:…`
//! enables the layer as the first one, nearest to the application: later layers, such as validation, also see this
//! layer's calls. `crates/runtime/src/launch/layer.rs` sets these variables and writes the manifest. Tested with the
//! loaders of Debian 11 (1.2.162), 12 (1.3.239) and 13 (1.4.309), and of Ubuntu 22.04 (1.3.204) and 24.04 (1.3.275).
//!
//! The layer is explicit, so only programs started by `openuvr run` load it.

mod device;
mod entry;
mod instance;
mod loader;
mod present;
mod registry;

use ash::vk;

/// Negotiates the interface version and returns the layer's entry points.
///
/// # Safety
/// Must be called by the Vulkan loader, with its structure.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(
    negotiate: *mut loader::Negotiate,
) -> vk::Result {
    // SAFETY: the loader passes null or a valid structure, which no other code uses during this call.
    let Some(negotiate) = (unsafe { negotiate.as_mut() }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    if negotiate.kind != loader::NEGOTIATE || negotiate.version < loader::INTERFACE {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    }
    entry::set_home_process();
    negotiate.version = loader::INTERFACE;
    negotiate.instance_proc = Some(entry::instance_proc);
    negotiate.device_proc = Some(entry::device_proc);
    negotiate.physical_device_proc = None;
    vk::Result::SUCCESS
}
