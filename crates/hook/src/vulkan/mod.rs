//! A layer of Vulkan that reads back what an application presents (`VK_LAYER_OPENUVR_capture`).
//!
//! ```text
//! application ─► vkQueuePresentKHR ─► wanted, and a buffer free?
//!                                       │ no           │ yes: copy image to buffer, on the same queue
//!                                       ▼              ▼
//!                                     driver ◄──── the presentation waits for the copy
//!                                                      └─► waiter's thread ─► submit ─► host threads
//! ```
//! The loader asks [`vkNegotiateLoaderLayerInterfaceVersion`] for the layer's two doors, and from
//! then on passes the application's calls through them. Nothing of the copy makes the application
//! wait, except where it takes away what is being read: a swapchain or the device.
//!
//! # What `openuvr run` has to set
//! The manifest `VkLayer_openuvr_capture.json` lies in `FOLDER/vulkan/explicit_layer.d/` and names
//! this library by its absolute path. The loader finds it through `XDG_DATA_DIRS=FOLDER:…`, or
//! through `VK_LAYER_PATH` if the person has set that, because it then replaces all other folders.
//! `VK_ADD_LAYER_PATH` would do for newer loaders only: Ubuntu 22.04's does not know it.
//! `VK_INSTANCE_LAYERS=VK_LAYER_OPENUVR_capture:…` switches the layer on, as the first, nearest to
//! the application: layers behind it, validation for example, see our own calls too.
//! `crates/runtime/src/launch/layer.rs` does all this. Tried with the loaders of Debian 11 (1.2.162), 12
//! (1.3.239) and 13 (1.4.309), and of Ubuntu 22.04 (1.3.204) and 24.04 (1.3.275).
//!
//! What it is not: no implicit layer. A program that was not started by `openuvr run` never sees it.

mod device;
mod entry;
mod instance;
mod loader;
mod present;
mod registry;

use ash::vk;

/// The loader and this layer agree on how to speak, and the layer says where its doors are.
///
/// # Safety
/// Called by the loader of Vulkan, with its structure.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(
    negotiate: *mut loader::Negotiate,
) -> vk::Result {
    // SAFETY: the loader's structure, which it wants filled in.
    let Some(negotiate) = (unsafe { negotiate.as_mut() }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    if negotiate.kind != loader::NEGOTIATE || negotiate.version < loader::INTERFACE {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    }
    entry::begin();
    negotiate.version = loader::INTERFACE;
    negotiate.instance_proc = Some(entry::instance_proc);
    negotiate.device_proc = Some(entry::device_proc);
    negotiate.physical_device_proc = None;
    vk::Result::SUCCESS
}
