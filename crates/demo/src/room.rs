//! `openuvr room`: a virtual room, an OpenXR application for demonstrations and measurements.

use std::process::ExitCode;

use anyhow::Result;
use openuvr_proto::units::Size;
use openuvr_vr::room::{self, RoomEvent};

use openuvr_testbed::stats::Summary;

/// Show a virtual room, as an OpenXR application for any runtime.
///
/// It draws with Vulkan and needs no display server. At the top left of each eye's picture, a bar code encodes the
/// frame number, the predicted display time, and the viewing direction for which the picture was drawn. Ends on Ctrl-C,
/// or when the runtime ends the session.
///
/// To use OpenUVR's own runtime: openuvr xr -- openuvr room
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Size of each eye's picture [default: the runtime's recommendation]
    #[arg(long, value_name = "SIZE")]
    eye: Option<Size>,
}

/// Shows the room until a signal arrives or the runtime ends the session.
///
/// # Errors
/// Returns an error if there is no OpenXR runtime or no Vulkan device.
pub fn run(args: &Args) -> Result<ExitCode> {
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let shown = room::run(args.eye, &stop, &mut |event| match event {
        RoomEvent::Started {
            runtime,
            device,
            eye,
        } => eprintln!(
            "room: drawing 2 pictures of {eye} per frame on {device} for the runtime {runtime}"
        ),
        RoomEvent::VisibilityChanged(true) => eprintln!("room: visible"),
        RoomEvent::VisibilityChanged(false) => eprintln!("room: no longer visible"),
    })?;
    eprintln!("room: {} frames were drawn", shown.frames);
    let ending = shown
        .end_frame_times
        .iter()
        .map(|took| 1e3 * took.as_secs_f64());
    if let Some(took) = Summary::of(&ending.collect::<Vec<_>>()) {
        let Summary { p50, p99, .. } = took;
        eprintln!("room: in xrEndFrame p50 {p50:.2} ms, p99 {p99:.2} ms");
    }
    Ok(ExitCode::SUCCESS)
}
