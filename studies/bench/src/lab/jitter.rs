//! `openuvr lab jitter`: latency of a message from one thread or actor to another, and the causes of its outliers.
//!
//! The probes are programs of `studies/probes/`; crate `lab` analyses their samples.

mod analyse;
mod cells;
mod conditions;
mod probe;
mod store;
mod study;
mod sys;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_clock as clock;
use openuvr_sim::script;
use openuvr_terminal::usage::UsageError;

use self::cells::Cell;
use self::conditions::Conditions;
use self::probe::{Outcome, Probes, Size};
use self::store::Store;

/// Exit code if the study or an analysed sample file is incomplete.
const INCOMPLETE: u8 = 1;

/// Measure message latency between threads or actors: the SEARIS study of latency jitter.
///
/// Measures six runtimes, each with a small program (a probe) that ./dev lab builds: C++ threads, C++ actors (CAF),
/// Rust threads, Rust tasks (tokio), Java threads, and Pekko actors. There are three message patterns: ping-pong (one
/// message in flight per pair), flood (the sender never waits), and paced (the sender sends at fixed times). One of
/// four scheduling policies applies to every thread of the probe: OTHER, FIFO, RR, or DEADLINE. The pauses of six
/// garbage collectors are matched to the samples.
///
/// Without options, measures all 85 cells, such as pthread/ping-pong/other or pekko/flood/rr/cms, in about 40 minutes.
/// Each cell is stored when it ends. A later run with --only repeats some cells and keeps the others. A run with
/// --continue measures the missing cells, so that a study can be split into several runs (--duration). Cells with
/// real-time policies monopolise the machine while they run.
///
/// --quick measures about half of the cells, with 16 000 messages instead of 10 million. These are all cells that the
/// study's slides show, and enough further cells to measure each runtime with each pattern, Pekko with each collector,
/// and C++ threads under each policy. The run takes less than a minute, and tests that everything works. Its figures do
/// not count for verdicts.
///
/// Writes a folder with tables and distributions (CSV), and with the results, machine and command (jitter.json).
/// `openuvr bench report --from FOLDER` draws the results next to the slides' figures.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER, args_conflicts_with_subcommands = true)]
pub(crate) struct JitterArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Measure only cells whose names contain one of these words, such as pthread,caf or ping-pong/other
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    only: Vec<String>,
    /// Smoke test in less than a minute: measure about half of the cells, or those of --only, with few messages
    #[arg(long)]
    quick: bool,
    /// Skip cells that the folder already contains, if they are complete and were measured
    /// with the same number of messages, pairs and rate
    #[arg(long = "continue")]
    keep_going: bool,
    /// Start no cell after this time. A later run with --continue measures the remaining cells
    #[arg(long = "duration", value_name = "TIME", value_parser = script::time)]
    lasting: Option<Duration>,
    /// Number of messages of a ping-pong cell, over all pairs. A flood has a tenth of this number
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000_000,
        conflicts_with = "quick"
    )]
    samples: u64,
    /// Number of pairs of threads or actors
    #[arg(long, value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(1..=496))]
    pairs: u32,
    /// Messages per second of each paced pair
    #[arg(long, value_name = "HZ", default_value_t = 240.0)]
    rate: f64,
    /// Duration of a paced cell
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = script::time,
        conflicts_with = "quick")]
    paced_for: Duration,
    /// Timeout of a cell. Samples taken before the timeout are kept
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = script::time)]
    limit: Duration,
    /// Folder of the probes (default: the folder "probes" next to this program)
    #[arg(long, value_name = "FOLDER")]
    probes: Option<PathBuf>,
    /// Output folder; created if it does not exist
    #[arg(long, value_name = "FOLDER", default_value = "jitter-study")]
    out: PathBuf,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Analyse(analyse::AnalyseArgs),
}

const AFTER: &str = "\
Examples:
  ./dev lab jitter --quick            builds the probes and smoke-tests the cells
  openuvr lab jitter --out study      all cells as in the slides: 16 pairs, 10 million samples
  openuvr lab jitter --continue --duration 2m --out study      the missing cells, for two minutes
  openuvr lab jitter --only pekko/ping-pong --out study
  openuvr lab jitter --only paced --rate 60 --paced-for 60s
  openuvr lab jitter analyse samples.jitter --log gc.log";

/// Runs the study.
///
/// # Errors
/// Returns a one-line error if the study fails.
pub(super) fn run(args: &JitterArgs) -> Result<ExitCode> {
    if let Some(Action::Analyse(args)) = &args.action {
        return analyse::run(args);
    }
    ensure!(
        args.samples >= u64::from(args.pairs),
        UsageError::new(format!(
            "--samples {} is too small: each of the {} pairs needs at least one sample",
            args.samples, args.pairs
        ))
    );
    ensure!(
        args.rate.is_finite() && args.rate > 0.0 && args.rate <= 100_000.0,
        UsageError::new("--rate must be above 0 and at most 100000")
    );
    let mut cells = cells::all();
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|w| name.contains(w));
    // Explicitly named cells are measured even with --quick.
    let has = |cell: &Cell| !args.quick || !args.only.is_empty() || cell.is_in_quick();
    cells.retain(|cell| wanted(&cell.to_string()) && has(cell));
    ensure!(
        !cells.is_empty(),
        "--only {}: no cell has such a name; an example is pthread/ping-pong/other",
        args.only.join(",")
    );
    let folder = match &args.probes {
        Some(folder) => folder.clone(),
        None => beside_this_program()?,
    };
    let mut probes = Probes::find(&folder)?;
    let store = Store::open(&args.out)?;
    let size = size(args);
    if args.keep_going {
        let count = cells.len();
        cells.retain(|cell| !store.has(*cell, probes.line(*cell, &size).as_deref()));
        eprintln!(
            "{} of {count} cells are already measured",
            count - cells.len()
        );
    }
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let lasting = match args.quick {
        true => Duration::from_millis(500),
        false => Duration::from_secs(5),
    };
    let begun = clock::now();
    let conditions = Conditions::measure(lasting, probes.scratch())?;
    eprintln!("{}", conditions.words());
    let mut incomplete = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let passed = clock::now().since(begun);
        if args.lasting.is_some_and(|lasting| passed >= lasting) {
            let left = cells.len() - number;
            incomplete.push(format!(
                "{left} cells are not measured yet: --continue measures them"
            ));
            break;
        }
        let passed = passed.as_secs();
        eprintln!("{} of {}, {passed} s: {cell}", number + 1, cells.len());
        let problem = match probes.run(*cell, &size, &conditions, &stop) {
            Ok(Outcome::Measured(mut measured)) => {
                measured.quick = args.quick;
                store.save(&measured)?;
                measured.error
            }
            Ok(Outcome::Skipped(why)) => Some(format!("skipped: {why}")),
            Err(error) => Some(format!("{error:#}")),
        };
        if stop.load(Ordering::Relaxed) {
            let left = cells.len() - number;
            incomplete.push(format!(
                "interrupted; {left} cells are not measured yet: --continue measures them"
            ));
            break;
        }
        if let Some(problem) = problem {
            eprintln!("{cell}: {problem}");
            incomplete.push(format!("{cell}: {problem}"));
        }
    }
    let all = store.read()?;
    if all.is_empty() {
        bail!("nothing was measured; {}", incomplete.join("; "));
    }
    study::write(&args.out, &all, &conditions, &incomplete)?;
    if incomplete.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("the study is incomplete:");
    for problem in &incomplete {
        eprintln!("  {problem}");
    }
    Ok(ExitCode::from(INCOMPLETE))
}

fn size(args: &JitterArgs) -> Size {
    let (samples, paced_for) = match args.quick {
        true => (
            16_000.max(u64::from(args.pairs)),
            Duration::from_millis(250),
        ),
        false => (args.samples, args.paced_for),
    };
    Size {
        pairs: args.pairs,
        samples,
        rate: args.rate,
        paced_for,
        limit: args.limit,
    }
}

fn beside_this_program() -> Result<PathBuf> {
    let program = std::env::current_exe().context("can't find the path of this executable")?;
    Ok(program.with_file_name("probes"))
}

#[cfg(test)]
mod tests;
