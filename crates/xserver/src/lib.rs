//! X servers without a screen (Xvfb), for sessions, benches and tests.
//! The feature `fixture` adds Wayland compositors for tests.
//!
//! [`Xvfb::start`] is the only function that starts a server. Each server takes a free display number and ends with its
//! [`Xvfb`].
#![forbid(unsafe_code)]

mod authority;
mod error;
#[cfg(feature = "fixture")]
pub mod fixture;
mod server;
#[cfg(feature = "fixture")]
pub mod sway;

pub use authority::Authority;
pub use error::StartError;
pub use server::Xvfb;
