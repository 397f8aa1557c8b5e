//! `--record`: the recorder and its messages.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use openuvr_gateway::record::{RecordSetup, Recorder, Summary};
use openuvr_runtime::sched::Scheduler;

use super::sound::check_codec;
use crate::config::HostConfig;

/// Creates the file, if configured. `sound` is whether there may be sound; `subcommand` is the prefix of each line.
pub(super) fn open(
    subcommand: &'static str,
    config: &HostConfig,
    scheduler: &Scheduler,
    sound: bool,
) -> Result<Option<Recorder>> {
    let Some(file) = config.record.clone() else {
        return Ok(None);
    };
    check_codec(sound, config.record_sound).map_err(|why| anyhow!("--record-sound: {why}"))?;
    let setup = RecordSetup {
        file,
        overwrite: config.record_overwrite,
        sound: sound.then_some(config.record_sound),
    };
    let print = Arc::new(move |words: &str| eprintln!("openuvr {subcommand}: --record: {words}"));
    let recorder = Recorder::create(setup, scheduler, print);
    recorder.map(Some).map_err(|e| anyhow!("--record: {e}"))
}

/// Ends the recorder and prints a summary.
pub(super) fn finish(subcommand: &str, config: &HostConfig, recorder: Option<Recorder>) {
    let (Some(recorder), Some(file)) = (recorder, &config.record) else {
        return;
    };
    let file = file.display();
    match recorder.finish() {
        None => eprintln!(
            "openuvr {subcommand}: --record: {file} is incomplete: its end was not written in time; use a faster disk"
        ),
        // The failure has already been reported.
        Some(Summary { failed: true, .. }) => {}
        Some(summary) => eprintln!(
            "openuvr {subcommand}: {}",
            summary_text(&file.to_string(), &summary)
        ),
    }
}

fn summary_text(file: &str, summary: &Summary) -> String {
    let Summary {
        written, missed, ..
    } = summary;
    let span = Duration::from_nanos(written.span.unsigned_abs());
    let frames = match written.frames {
        0 => return format!("nothing was recorded in {file}: there was no recordable frame"),
        frames => format!("{frames} frames in {:.1} s", span.as_secs_f64()),
    };
    let sound = match written.packets {
        0 => ", no sound".to_owned(),
        packets => format!(", {packets} packets of sound"),
    };
    let missed = match missed {
        0 => String::new(),
        missed => format!("; {missed} frames are missing"),
    };
    let megabytes = summary.bytes.div_ceil(100_000);
    let (whole, tenth) = (megabytes / 10, megabytes % 10);
    format!("recorded in {file}: {frames}{sound}, {whole}.{tenth} MB{missed}")
}
