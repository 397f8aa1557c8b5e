//! The devices of the media path. Most stages have a folder with one trait, one table of backends, and one file per
//! backend. Most tables end with a backend that needs no device.
#![deny(unsafe_code)]

#[cfg(feature = "host")]
pub mod application;
#[cfg(any(feature = "host", feature = "client"))]
pub mod audio;
#[cfg(any(feature = "host", feature = "client"))]
mod band;
pub mod barcode;
#[cfg(any(feature = "host", feature = "client"))]
pub mod clipboard;
#[cfg(any(feature = "host", feature = "client"))]
pub mod codec;
pub mod cursor;
#[cfg(any(feature = "host", feature = "client"))]
pub mod display;
#[cfg(any(feature = "host", feature = "client"))]
mod halves;
#[cfg(any(feature = "host", feature = "client"))]
pub mod input_event;
#[cfg(any(feature = "host", feature = "client"))]
pub mod keyboard;
pub mod pad;
pub mod picture;
#[cfg(test)]
#[path = "../tests/skip/mod.rs"]
mod skip;
#[cfg(any(feature = "host", feature = "client"))]
pub mod sys;
#[cfg(any(feature = "host", feature = "client"))]
pub mod waker;

#[cfg(feature = "host")]
pub mod capture;
#[cfg(feature = "host")]
pub mod convert;
#[cfg(feature = "host")]
pub mod damage;
#[cfg(feature = "host")]
pub mod difference;
#[cfg(feature = "host")]
pub mod display_size;
#[cfg(feature = "host")]
pub mod encode;
#[cfg(feature = "host")]
pub mod input_sink;
#[cfg(feature = "host")]
pub mod pixel_layout;
#[cfg(feature = "host")]
pub mod temporary_folder;

#[cfg(feature = "client")]
pub mod decode;
#[cfg(feature = "client")]
pub mod display_phase;
#[cfg(feature = "client")]
pub mod dma_buf;
#[cfg(feature = "client")]
pub mod head;
#[cfg(feature = "client")]
pub mod input_source;
#[cfg(feature = "client")]
pub mod motion;
#[cfg(feature = "client")]
pub mod present;
#[cfg(feature = "client")]
pub mod reproject;
#[cfg(feature = "client")]
pub mod window;
