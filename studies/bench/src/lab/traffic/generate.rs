//! Generates captures with known content.

use std::fs::File;
use std::io::BufWriter;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_lab::traffic::generate::Plan;

use super::{TrafficArgs, nanos};

/// The duration of the study's captures.
const LASTING: Duration = Duration::from_secs(30);

pub(super) fn run(args: &TrafficArgs) -> Result<ExitCode> {
    let plan = Plan {
        fps: args.fps,
        bitrate: args.bitrate.0,
        lasting: nanos(args.lasting.unwrap_or(LASTING))?,
        loss: args.loss,
        offset: i64::try_from(args.offset.as_nanos())?,
        drift_ppm: args.drift,
        seed: args.seed,
        ..Plan::default()
    };
    let generated = plan.generate()?;
    let folder = &args.out;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("can't make the folder {}", folder.display()))?;
    for (name, captured) in [
        ("server.pcapng", &generated.server),
        ("client.pcapng", &generated.client),
    ] {
        let path = folder.join(name);
        let cannot = || format!("can't write {}", path.display());
        let file = File::create(&path).with_context(cannot)?;
        let file = BufWriter::new(file);
        generated.write(captured, file).with_context(cannot)?;
    }
    let truth = serde_json::to_string_pretty(&generated.truth)?;
    let path = folder.join("truth.json");
    std::fs::write(&path, &truth).with_context(|| format!("can't write {}", path.display()))?;
    println!(
        "{} packets at the server, {} at the client, in {}; ground truth:\n{truth}",
        generated.server.len(),
        generated.client.len(),
        folder.display()
    );
    Ok(ExitCode::SUCCESS)
}
