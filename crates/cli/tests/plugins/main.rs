//! Engines that stream with their plug-in: a real client plays each of them. The engines of `./dev test-plugins` come from
//! package registries; SDL is a package of the distribution, so `./dev test` plays it, too.

#[path = "../capi/build.rs"]
mod build;
#[path = "../support/mod.rs"]
mod support;

mod bevy;
mod panda3d;
mod play;
mod sdl;
