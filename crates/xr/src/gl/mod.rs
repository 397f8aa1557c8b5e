//! OpenGL: swapchain textures, and submission of pictures. Composition uses a private context that shares the
//! application's textures. Read-back uses the same ring of buffers as for a hooked game.

pub(crate) mod binding;
mod compose;
pub(crate) mod graphics;
pub(crate) mod images;
mod program;
#[cfg(test)]
mod tests;
