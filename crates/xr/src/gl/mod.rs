//! OpenGL: swapchain textures and submission of pictures. Composition uses a private context that shares the application's
//! textures; read-back uses the same ring as for a hooked game.

pub(crate) mod binding;
mod compose;
pub(crate) mod graphics;
pub(crate) mod images;
mod program;
#[cfg(test)]
mod tests;
