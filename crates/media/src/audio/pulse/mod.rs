//! Records from sinks and sources, plays to sinks, and creates null sinks and virtual microphones. The server is
//! PulseAudio or PipeWire (`pipewire-pulse`). libpulse is loaded at run time.
//!
//! Each capture and each playback has its own connection and main loop. The main loop runs only while the owner calls a
//! method, so samples are not passed between threads.

mod capture;
mod null_sink;
mod playback;
mod rhythm;
mod sys;
mod virtual_microphone;

pub use capture::{CAPTURE, Capture};
pub use null_sink::NullSink;
pub use playback::{PLAYBACK, Playback};
pub use virtual_microphone::VirtualMicrophone;

/// Our name in the server's list of clients.
const NAME: &str = "OpenUVR";

/// The size of sample frames in bytes.
fn bytes(frames: usize) -> u32 {
    u32::try_from(frames * sys::FRAME).unwrap_or(u32::MAX)
}
