//! A swapchain: its images and their acquire/release state.

use std::sync::{Arc, Mutex};

use openxr_sys as xr;

use crate::border::Outcome;
use crate::graphics::Pictures;
use crate::handles::Object;
use crate::logic::images::Images;
use crate::session::Session;

/// State of an `XrSwapchain`.
pub(crate) struct Swapchain {
    pub(crate) session: Arc<Session>,
    pub(crate) images: Mutex<Images>,
    pub(crate) pictures: Pictures,
}

impl Swapchain {
    /// The application is about to acquire an image.
    ///
    /// # Errors
    /// The device is lost.
    pub(crate) fn acquired(&self) -> Outcome<()> {
        match &self.session.graphics {
            Some(graphics) => graphics.acquired(&self.pictures),
            None => Ok(()),
        }
    }
}

impl Object for Swapchain {
    type Handle = xr::Swapchain;
    const KIND: xr::ObjectType = xr::ObjectType::SWAPCHAIN;

    fn destroyed(&self) {
        if let Some(graphics) = &self.session.graphics {
            graphics.forget(&self.pictures);
        }
    }
}
