//! `openuvr lab jitter analyse`: analysis of sample files.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use openuvr_lab::jitter::analysis::analyse;
use openuvr_lab::jitter::pauses;
use openuvr_lab::jitter::samples::Samples;

use super::INCOMPLETE;
use super::study;

/// Analyse sample files: percentiles of the latency from the actual and from the intended send time, and outliers.
///
/// Probes write sample files; studies/probes/README.md describes the format. A truncated file is read up to its end,
/// and the exit code reports the truncation.
#[derive(clap::Args, Debug)]
pub(super) struct AnalyseArgs {
    /// The samples
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The log of the JVM, written with -Xlog:gc*,safepoint:file=FILE:tn. The pauses in the log are matched with the
    /// samples
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write the results into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &AnalyseArgs) -> Result<ExitCode> {
    let pauses = match &args.log {
        Some(log) => {
            let pauses = pauses::read(log);
            Some(pauses.with_context(|| format!("can't read the log {}", log.display()))?)
        }
        None => None,
    };
    let mut found = Vec::new();
    for file in &args.files {
        let analysis = analyse(&mut Samples::open(file)?, pauses.as_deref())?;
        found.push((file.display().to_string(), analysis));
    }
    study::print_files(&found);
    if let Some(out) = &args.out {
        study::write_files(out, &found)?;
    }
    let mut whole = true;
    for (file, analysis) in &found {
        if analysis.missing + analysis.backwards > 0 {
            whole = false;
            eprintln!(
                "{file} is incomplete: {} missing samples, {} samples with decreasing times",
                analysis.missing, analysis.backwards
            );
        }
    }
    Ok(if whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(INCOMPLETE)
    })
}
