//! Vulkan, as the application has it: its device, images for its swapchains, and the picture of a frame.

pub(crate) mod choice;
mod compose;
pub(crate) mod graphics;
pub(crate) mod images;
mod memory;
#[cfg(test)]
mod tests;
