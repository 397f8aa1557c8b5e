//! A swapchain of the application's: its images and whose turn it is.

use std::sync::{Arc, Mutex};

use openxr_sys as xr;

use crate::handles::Object;
use crate::logic::images::Images;
use crate::session::Session;
use crate::vulkan::images::Pictures;

/// What an `XrSwapchain` stands for.
pub(crate) struct Swapchain {
    pub(crate) session: Arc<Session>,
    pub(crate) images: Mutex<Images>,
    pub(crate) pictures: Arc<Pictures>,
}

impl Object for Swapchain {
    type Handle = xr::Swapchain;

    fn destroyed(&self) {
        if let Some(graphics) = &self.session.graphics {
            graphics.forget(&self.pictures);
        }
    }
}
