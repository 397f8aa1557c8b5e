//! Engines that stream through their plug-ins: a real client plays a scene of each engine. `./dev test-plugins` gets
//! Panda3D and Bevy from package registries. SDL is a package of the distribution, so `./dev test` also runs its tests.

#[path = "../capi/build.rs"]
mod build;
#[path = "../support/mod.rs"]
mod support;

mod bevy;
mod panda3d;
mod play;
mod sdl;
