//! `openuvr-bench room`: a room in virtual reality, an OpenXR application to look at and to measure with.

use std::process::ExitCode;

use anyhow::Result;
use openuvr_proto::units::Size;
use openuvr_vr::room::{self, Told};

use crate::bench::stats::Summary;

/// Show a room in virtual reality, as an OpenXR application of any runtime.
///
/// It draws with Vulkan and needs no display server. In each eye's picture, at the top left, a bar code says
/// which frame this is, when it was meant to be seen, and where the eye looked that it was drawn for. Ends with
/// Ctrl-C, or when the runtime ends the session.
///
/// On the runtime of this project: openuvr xr -- openuvr-bench room
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Size of each eye's picture [default: what the runtime recommends]
    #[arg(long, value_name = "SIZE")]
    eye: Option<Size>,
}

/// Shows it until a signal comes or the runtime ends the session.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let shown = room::run(args.eye, &stop, &mut |told| match told {
        Told::Begun {
            runtime,
            device,
            eye,
        } => eprintln!("room: 2 pictures of {eye} on the runtime {runtime}, drawn by {device}"),
        Told::Seen(true) => eprintln!("room: somebody looks"),
        Told::Seen(false) => eprintln!("room: nobody looks any more"),
    })?;
    eprintln!("room: {} frames were drawn", shown.frames);
    let ending = shown.ending.iter().map(|took| 1e3 * took.as_secs_f64());
    if let Some(took) = Summary::of(&ending.collect::<Vec<_>>()) {
        let Summary { p50, p99, .. } = took;
        eprintln!("room: in xrEndFrame p50 {p50:.2} ms, p99 {p99:.2} ms");
    }
    Ok(ExitCode::SUCCESS)
}
