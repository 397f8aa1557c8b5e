//! A swapchain: its images and their acquire/release state.

use std::sync::{Arc, Mutex};

use openxr_sys as xr;

use crate::ffi::Outcome;
use crate::graphics::SwapchainImages;
use crate::handles::Object;
use crate::logic::images::ImageQueue;
use crate::session::Session;

/// State of an `XrSwapchain`.
pub(crate) struct Swapchain {
    pub(crate) session: Arc<Session>,
    pub(crate) queue: Mutex<ImageQueue>,
    pub(crate) images: SwapchainImages,
}

impl Swapchain {
    /// Prepares the swapchain's images before the application acquires one.
    ///
    /// # Errors
    /// Returns an error if the device is lost, or has no memory for a command.
    pub(crate) fn acquired(&self) -> Outcome<()> {
        match &self.session.graphics {
            Some(graphics) => graphics.acquired(&self.images),
            None => Ok(()),
        }
    }
}

impl Object for Swapchain {
    type Handle = xr::Swapchain;
    const KIND: xr::ObjectType = xr::ObjectType::SWAPCHAIN;

    fn destroyed(&self) {
        if let Some(graphics) = &self.session.graphics {
            graphics.destroy_images(&self.images);
        }
    }
}
