//! PulseAudio, or PipeWire in its place (`pipewire-pulse`), through libpulse, which is opened at run time:
//! records what a sink plays, plays, and makes sinks of our own that are heard nowhere.
//!
//! Each capture and each playback has a connection and a main loop of its own, which turns in the calls of the
//! thread that owns it: what arrives is not handed from one thread to another.

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

/// Under which name the server lists us.
const NAME: &str = "OpenUVR";

/// Bytes of so many sample frames.
fn bytes(frames: usize) -> u32 {
    u32::try_from(frames * sys::FRAME).unwrap_or(u32::MAX)
}
