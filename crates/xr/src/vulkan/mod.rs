//! Vulkan: the application's device, swapchain images and submission of pictures.

mod compose;
mod device;
pub(crate) mod device_selection;
pub(crate) mod graphics;
pub(crate) mod images;
mod memory;
mod pipeline;
mod readable;
pub(crate) mod scene;
#[cfg(test)]
mod tests;
