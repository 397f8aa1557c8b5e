//! Vulkan, as the application has it: its device, images for its swapchains, and the picture of a frame.

pub(crate) mod choice;
mod compose;
mod device;
pub(crate) mod graphics;
pub(crate) mod images;
mod memory;
mod pipeline;
mod readable;
pub(crate) mod scene;
#[cfg(test)]
mod tests;
