//! OpenGL, as the application has it: textures for its swapchains, and the picture of a frame. What is drawn is drawn
//! in a context of ours that shares its textures, and is read back by the same ring as a hooked game's.

pub(crate) mod binding;
mod compose;
pub(crate) mod graphics;
pub(crate) mod images;
mod program;
#[cfg(test)]
mod tests;
