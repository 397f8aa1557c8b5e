//! Runs a probe: starts it, schedules its threads, releases it, and reads its samples.

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string, remove_file};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use openuvr_clock as clock;
use openuvr_lab::jitter::analysis::{Analysis, analyse};
use openuvr_lab::jitter::pauses;
use openuvr_lab::jitter::samples::{Pattern, Samples};
use openuvr_testbed::child::Child;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::cells::{Cell, Collector, Policy, Runtime};
use super::conditions::Conditions;
use super::sys::{self, Scheduling};
use crate::machine::{Load, policies};

/// The priority for FIFO and RR. It is in the middle of the range, so that other threads can have a higher or a lower
/// priority (sched(7)).
const PRIORITY: u32 = 50;
/// The period of SCHED_DEADLINE, and the maximum budget of each thread in a period.
const PERIOD: Duration = Duration::from_millis(1);
const MOST_OF_PERIOD: Duration = Duration::from_micros(300);
/// The total utilisation of threads under SCHED_DEADLINE, as a share of all cores. The kernel refuses more than
/// 0.95 (`sched_rt_runtime_us` of `sched_rt_period_us`).
const OF_ALL_CORES: f64 = 0.8;
/// Timeout of a probe's start. On a busy machine, a JVM takes a long time to start.
const READY: Duration = Duration::from_secs(30);
/// Interval at which a running probe is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Sizes of the cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) pairs: u32,
    /// Number of samples over all pairs. A flood has a tenth of this number, because all messages of a flood may be
    /// queued at once.
    pub(super) samples: u64,
    /// Messages per second of a paced pair.
    pub(super) rate: f64,
    /// Duration of a paced cell.
    pub(super) paced_for: Duration,
    /// Timeout of a cell.
    pub(super) limit: Duration,
}

impl Size {
    fn samples_of(&self, pattern: Pattern) -> u64 {
        let least = u64::from(self.pairs);
        match pattern {
            Pattern::PingPong => self.samples,
            Pattern::Flood => self.samples / 10,
            Pattern::Paced => {
                (f64::from(self.pairs) * self.rate * self.paced_for.as_secs_f64()) as u64
            }
        }
        .max(least)
    }
}

/// A cell's measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) cell: String,
    /// The command line: the probe with its options, and the JVM.
    pub(super) command: String,
    pub(super) jvm: Option<String>,
    /// The scheduling policies of the probe's threads, and the number of threads with each policy.
    pub(super) policies: BTreeMap<String, usize>,
    /// Timer slack of the probe's first thread in ns, or `None` if it could not be read.
    pub(super) timer_slack_ns: Option<u64>,
    /// Cores used by other processes during the measurement.
    pub(super) other_cores: f64,
    /// Cores that the hypervisor gave to other guests during the measurement.
    pub(super) stolen_cores: f64,
    pub(super) conditions: Conditions,
    pub(super) quick: bool,
    pub(super) analysis: Analysis,
    /// The reason why the measurement is incomplete, or `None` if it is complete.
    pub(super) error: Option<String>,
}

/// The result of a cell.
pub(super) enum Outcome {
    Measured(Box<Measured>),
    /// A prerequisite is missing; the text contains a remedy.
    Skipped(String),
}

/// The probes' folder, and the JVMs found.
pub(super) struct Probes {
    folder: PathBuf,
    /// Folder for samples that have not been read yet. It is in memory if /dev/shm exists.
    scratch: TempDir,
    jvms: BTreeMap<Collector, Result<(PathBuf, String), String>>,
}

impl Probes {
    pub(super) fn find(folder: &Path) -> Result<Probes> {
        ensure!(
            folder.is_dir(),
            "there are no probes in {}: ./dev lab builds them (--probes sets another folder)",
            folder.display()
        );
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let scratch = tempfile::tempdir_in(&parent)
            .with_context(|| format!("can't make a folder in {}", parent.display()))?;
        Ok(Probes {
            folder: folder.to_owned(),
            scratch,
            jvms: BTreeMap::new(),
        })
    }

    /// Folder for samples that have not been read yet.
    pub(super) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Runs one cell.
    ///
    /// # Errors
    /// Returns the reason if the cell has no measurement at all.
    pub(super) fn run(
        &mut self,
        cell: Cell,
        size: &Size,
        conditions: &Conditions,
        stop: &AtomicBool,
    ) -> Result<Outcome> {
        let [file, log, words] = [".jitter", ".gc", ".log"].map(|end| self.place(cell, end));
        let (command, jvm) = match self.whole_command(cell, size) {
            Ok(found) => found,
            Err(missing) => return Ok(Outcome::Skipped(missing)),
        };
        let shown = self.shown(&command);
        let before = Load::now();
        let mut child = Child::start_piped("probe", command, &words)?;
        let lines = lines(&mut child)?;
        let ran = self.go(&mut child, &lines, cell.policy, size.limit, stop);
        let used = Load::now().since(&before);
        child.stop();
        let ran = match ran {
            Ok(ProbeRun::Refused(why)) => return Ok(Outcome::Skipped(why)),
            Ok(ProbeRun::Ended(running)) => (running, None),
            Ok(ProbeRun::Died(running, why)) => {
                (running, Some(format!("{why}{}", child.last_words())))
            }
            Err(error) => bail!("{error:#}{}", child.last_words()),
        };
        let (running, error) = ran;
        let pauses = match cell.collector {
            Some(_) => Some(pauses::read(&log).context("can't read the collector's log")?),
            None => None,
        };
        let analysis = analyse(&mut Samples::open(&file)?, pauses.as_deref())?;
        for path in [file, log, words] {
            let _ = remove_file(path);
        }
        let error = error.or_else(|| fault(&analysis));
        Ok(Outcome::Measured(Box::new(Measured {
            cell: cell.to_string(),
            command: shown,
            jvm,
            policies: running.policies,
            timer_slack_ns: running.timer_slack_ns,
            other_cores: used.other_cores,
            stolen_cores: used.stolen_cores,
            conditions: conditions.clone(),
            quick: false,
            analysis,
            error,
        })))
    }

    /// The command line of a cell in the form that [`Measured`] stores. `None` if a prerequisite is missing.
    pub(super) fn line(&mut self, cell: Cell, size: &Size) -> Option<String> {
        let (command, _) = self.whole_command(cell, size).ok()?;
        Some(self.shown(&command))
    }

    /// The path of a cell's temporary file.
    fn place(&self, cell: Cell, end: &str) -> PathBuf {
        self.scratch
            .path()
            .join(cell.to_string().replace('/', "-") + end)
    }

    /// The complete command of a cell, and its JVM. The error states the missing prerequisite.
    fn whole_command(
        &mut self,
        cell: Cell,
        size: &Size,
    ) -> Result<(Command, Option<String>), String> {
        let (file, log) = (self.place(cell, ".jitter"), self.place(cell, ".gc"));
        let samples = size.samples_of(cell.pattern);
        let (mut command, jvm) = self.command(cell, samples, &log)?;
        command.arg("--out").arg(&file);
        command.args(["--pattern", cell.pattern.name()]);
        command.args(["--pairs", &size.pairs.to_string()]);
        command.args(["--samples", &samples.to_string()]);
        command.args(["--rate", &size.rate.to_string()]);
        Ok((command, jvm))
    }

    /// Waits until a probe is ready, and runs it to its end.
    fn go(
        &self,
        child: &mut Child,
        lines: &Receiver<String>,
        policy: Policy,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<ProbeRun> {
        match lines.recv_timeout(READY) {
            Ok(line) if line == "ready" => {}
            Ok(line) => bail!("unexpected line from the probe: '{line}', expected 'ready'"),
            Err(RecvTimeoutError::Timeout) => bail!("the probe was not ready within {READY:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the probe ended before it was ready"),
        }
        if let Err(error) = schedule(child.id(), policy) {
            return Ok(ProbeRun::Refused(format!(
                "the system refused the scheduling policy {} ({error}): run as root, or allow CAP_SYS_NICE",
                policy.name().to_uppercase()
            )));
        }
        let slack = read_to_string(format!("/proc/{}/timerslack_ns", child.id())).ok();
        let mut running = Running {
            policies: policies(child.id()),
            timer_slack_ns: slack.and_then(|text| text.trim().parse().ok()),
        };
        let mut stdin = child
            .stdin()
            .ok_or_else(|| anyhow!("the probe's standard input is not a pipe"))?;
        // An error is ignored: if the probe has died, the code below detects it.
        let _ = stdin.write_all(b"go\n");
        let until = clock::now() + limit;
        let why = loop {
            match lines.recv_timeout(POLL_INTERVAL) {
                Err(RecvTimeoutError::Disconnected) => break None,
                _ if stop.load(Ordering::Relaxed) => break Some("interrupted".to_owned()),
                _ if clock::now() >= until => {
                    break Some(format!("the probe was stopped after {limit:?} (--limit)"));
                }
                _ => {}
            }
            let now = policies(child.id());
            // Some threads start only now, and at the end all threads exit. Keep the policies from the time with the
            // most threads.
            if now.values().sum::<usize>() >= running.policies.values().sum() {
                running.policies = now;
            }
        };
        if let Some(why) = why {
            child.stop();
            return Ok(ProbeRun::Died(running, why));
        }
        let until = clock::now() + READY;
        let status = loop {
            match child.ended() {
                Some(status) => break status,
                None if clock::now() >= until => {
                    bail!("the probe closed its output but did not exit")
                }
                None => clock::sleep_until(clock::now() + Duration::from_millis(1)),
            }
        };
        Ok(match status.success() {
            true => ProbeRun::Ended(running),
            false => ProbeRun::Died(running, format!("the probe died ({status})")),
        })
    }

    /// The command of a cell without the common options. The error states the missing prerequisite.
    fn command(
        &mut self,
        cell: Cell,
        samples: u64,
        log: &Path,
    ) -> Result<(Command, Option<String>), String> {
        let native = |name: &str, package: &str| {
            let program = self.folder.join(name);
            match program.is_file() {
                true => Ok((Command::new(program), None)),
                false => Err(format!(
                    "{name} is not built: install {package}, then run ./dev lab"
                )),
            }
        };
        let class = match cell.runtime {
            Runtime::Pthread => return native("cpp-pthread", "g++"),
            Runtime::Caf => return native("cpp-caf", "g++ and libcaf-dev"),
            Runtime::Std => return native("rust-std", "Rust"),
            Runtime::Tokio => return native("rust-tokio", "Rust"),
            Runtime::Java => "Threads",
            Runtime::Pekko => "Pekko",
        };
        let classes = self.folder.join("java");
        if !classes.join(format!("{class}.class")).is_file() {
            return Err(format!(
                "{class} is not built: install default-jdk-headless and maven, then run ./dev lab"
            ));
        }
        let collector = cell.collector.unwrap_or(Collector::G1);
        let (java, version) = self.jvm(collector)?;
        let mut command = Command::new(java);
        // All messages of a flood may be queued on the heap. Each takes about 160 bytes; the heap has 1000 bytes for
        // each.
        let heap = match cell.pattern {
            Pattern::Flood => 256 + samples * 1000 / 1_000_000,
            Pattern::PingPong | Pattern::Paced => 256,
        };
        command.args([format!("-Xms{heap}m"), format!("-Xmx{heap}m")]);
        // ZGC and Shenandoah were still experimental in the last JVM versions that had CMS.
        command.args(["-XX:+UnlockExperimentalVMOptions", collector.option()]);
        command.arg(format!("-Xlog:gc*,safepoint:file={}:tn", log.display()));
        let path = format!("{0}:{0}/lib/*", classes.display());
        command.args(["-cp", &path, class]);
        Ok((command, Some(version)))
    }

    /// The first JVM that supports the collector. JVMs in the probes' folder come first: the JVM there has all
    /// collectors of the slides, so all cells that compare collectors run on the same JVM.
    fn jvm(&mut self, collector: Collector) -> Result<(PathBuf, String), String> {
        if let Some(known) = self.jvms.get(&collector) {
            return known.clone();
        }
        let entries = read_dir(&self.folder).into_iter().flatten().flatten();
        let mut own: Vec<PathBuf> = entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("jvm-"))
            .map(|entry| entry.path().join("bin/java"))
            .collect();
        own.sort();
        own.push("java".into());
        let found = own.into_iter().find_map(|java| {
            let options = [
                "-XX:+UnlockExperimentalVMOptions",
                collector.option(),
                "-version",
            ];
            let output = Command::new(&java)
                .args(options)
                .stdin(Stdio::null())
                .output()
                .ok()
                .filter(|output| output.status.success())?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let version = said.lines().find(|line| line.contains("version \""));
            Some((java, version.unwrap_or_default().trim().to_owned()))
        });
        let found = found.ok_or_else(|| {
            let name = collector.name();
            format!(
                "no installed JVM has the collector {name}: run ./dev lab, which fetches one, or install a JDK that \
                 has {name}"
            )
        });
        self.jvms.insert(collector, found.clone());
        found
    }

    /// The command without the paths of this machine.
    fn shown(&self, command: &Command) -> String {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<String> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let folder = format!("{}/", self.folder.display());
        let scratch = format!("{}/", self.scratch.path().display());
        words.join(" ").replace(&folder, "").replace(&scratch, "")
    }
}

/// Observations of a running probe.
struct Running {
    policies: BTreeMap<String, usize>,
    timer_slack_ns: Option<u64>,
}

enum ProbeRun {
    Ended(Running),
    Died(Running, String),
    /// The scheduling policy was refused.
    Refused(String),
}

/// The reason why a measurement is incomplete, or `None` if it is complete.
fn fault(analysis: &Analysis) -> Option<String> {
    match analysis {
        Analysis { missing: 1.., .. } => Some(format!("{} samples are missing", analysis.missing)),
        Analysis { backwards: 1.., .. } => Some(format!(
            "the clock ran backwards in {} samples",
            analysis.backwards
        )),
        _ => None,
    }
}

/// The lines of a probe's output. A probe writes one line, `ready`. The channel closes when the output closes.
fn lines(child: &mut Child) -> Result<Receiver<String>> {
    let output = child
        .stdout()
        .ok_or_else(|| anyhow!("the probe's standard output is not a pipe"))?;
    let (sender, lines) = sync_channel(16);
    std::thread::Builder::new()
        .name("probe-lines".into())
        .spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for line in lines {
                // An error is ignored: sending fails only if the receiver no longer exists.
                let _ = sender.send(line);
            }
        })?;
    Ok(lines)
}

/// Schedules all threads of a process.
fn schedule(process: u32, policy: Policy) -> std::io::Result<()> {
    let tasks = read_dir(format!("/proc/{process}/task"))?;
    let ids = tasks.flatten().map(|task| task.file_name());
    let ids: Vec<i32> = ids.filter_map(|id| id.to_str()?.parse().ok()).collect();
    let scheduling = match policy {
        Policy::Other => return Ok(()),
        Policy::Fifo => Scheduling::Fifo(PRIORITY),
        Policy::Rr => Scheduling::Rr(PRIORITY),
        Policy::Deadline => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let share = OF_ALL_CORES * cores as f64 / ids.len().max(1) as f64;
            Scheduling::Deadline(PERIOD.mul_f64(share).min(MOST_OF_PERIOD), PERIOD)
        }
    };
    for id in ids {
        match sys::schedule(id, scheduling) {
            // The thread has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            other => other?,
        }
    }
    Ok(())
}
