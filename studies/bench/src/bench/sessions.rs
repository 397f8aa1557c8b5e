//! `openuvr bench sessions`: the number of portal sessions that a machine can run, and the cost of each.
//!
//! Sessions are started one after the other. Each has its own display, application and host, as under the portal's
//! local launcher, and is played by an OpenUVR client. After each start, all running sessions are measured together.
//! The bench ends when a session falls below the required frame rate. The clients run on the same machine, decode all
//! pictures and display none. Their CPU use is reported separately. If the clients were on other machines, sessions
//! could use these cores.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_clock as clock;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{Holder, SessionUuid, Ticket, TicketSigner, UnixTime};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::client::config::PortalCredentials;
use openuvr_runtime::client::link::{PortalLink, key_of};
use openuvr_terminal::usage::UsageError;
use openuvr_testbed::child::Child;
use openuvr_testbed::journey::{self, Row};
use openuvr_testbed::pair::{TemporaryDir, wait_for};
use openuvr_testbed::programs::{openuvr, program};
use openuvr_testbed::stats::{Range, Summary};
use serde::Serialize;
use serde_json::Value;

use super::heading::write_json;
use super::rig::pass;
use crate::durations;
use crate::machine::{Load, Machine, QUIET, memory_mib};

/// Measure how many portal sessions this machine can run.
///
/// Starts one session after another, as `openuvr portal` does on one machine. Each session is played by a client that
/// decodes pictures without displaying them. After each start, measures all running sessions for some seconds: complete
/// frames per second, latency from capture to decoded picture, and processor and memory use of sessions and clients.
/// Ends when a session falls below --enough, or when --most sessions run. The application is OpenUVR's lightweight 3D
/// scene, unless another application follows `--`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Capture method: screen, or run
    #[arg(long, default_value = "screen", value_parser = ["screen", "run"])]
    capture: String,
    /// Size of each display
    #[arg(long, default_value = "1280x720")]
    size: Size,
    /// Bitrate of each session
    #[arg(long, default_value = "10M")]
    bitrate: String,
    /// Duration of each measurement
    #[arg(long = "duration", value_name = "TIME", default_value = "10s", value_parser = durations::seconds)]
    seconds: f64,
    /// Maximum number of sessions
    #[arg(long, default_value_t = 32)]
    most: usize,
    /// Complete frames per second required of each session
    #[arg(long, default_value_t = 59.0)]
    enough: f64,
    /// Smoke test: measure one session briefly
    #[arg(long, conflicts_with_all = ["most", "seconds"])]
    quick: bool,
    /// Write sessions.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The application of each session, with its arguments [default: the scene, with coarse textures]
    #[arg(last = true, value_name = "APP")]
    application: Vec<String>,
}

/// Validity of a ticket. The client presents its ticket immediately.
const TICKET_LIFE: Duration = Duration::from_secs(30);

/// Warm-up time. Caches and estimates settle meanwhile.
const WARM_UP: Duration = Duration::from_secs(3);

/// Time until the record contains all measured frames. The host writes the record once a second.
const WRITTEN: Duration = Duration::from_millis(1500);

/// Frames of one session during a measurement.
#[derive(Clone, Copy, Debug, Serialize)]
struct SessionFrames {
    complete_fps: f64,
    /// Latency from capture to the decoded picture at the session's client.
    latency_ms: Option<Summary>,
}

/// A measurement with a given number of sessions.
#[derive(Debug, Serialize)]
struct Step {
    sessions: usize,
    /// The frames of each session, in starting order.
    played: Vec<SessionFrames>,
    /// Number of cores that a session used for its display, its application and its host together. The range is over
    /// the sessions.
    cores: Option<Range>,
    /// Number of cores that a client used. The range is over the clients.
    client_cores: Option<Range>,
    /// Resident memory of a session in MiB. Shared pages count in proportion (PSS). The range is over the sessions.
    memory_mib: Option<Range>,
    /// Cores used by other processes.
    other_cores: f64,
}

impl Step {
    fn least_fps(&self) -> f64 {
        let all = self.played.iter().map(|played| played.complete_fps);
        all.fold(f64::INFINITY, f64::min)
    }
}

/// The results, which are printed and written as JSON.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    application: Vec<String>,
    capture: String,
    size: String,
    bitrate: String,
    enough: f64,
    /// Whether this is a smoke test (`--quick`).
    quick: bool,
    /// The largest number of sessions that all reached the required frame rate.
    carried: usize,
    steps: Vec<Step>,
}

/// Measures, prints the results, and writes them to a file if requested.
///
/// # Errors
/// Returns a one-line error if a session or a client cannot be started, or has ended early.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (seconds, most) = match args.quick {
        true => (1.0, 1),
        false => (args.seconds, args.most),
    };
    ensure!(
        (0.5..=3600.0).contains(&seconds),
        UsageError::new("--duration must be 0.5s to 1h")
    );
    ensure!(most > 0, UsageError::new("--most must be at least 1"));
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let dir = TemporaryDir::new()?;
    let application = application(args)?;
    let mut report = Report {
        machine: Machine::this(),
        application: application.clone(),
        capture: args.capture.clone(),
        size: args.size.to_string(),
        bitrate: args.bitrate.clone(),
        enough: args.enough,
        quick: args.quick,
        carried: 0,
        steps: Vec::new(),
    };
    head(&report);
    let mut all = Vec::new();
    while all.len() < most {
        let folder = dir.path().join(all.len().to_string());
        all.push(Session::start(args, &application, &folder)?);
        let step = measure(&mut all, seconds, &stop)?;
        line(&step);
        let enough = step.least_fps() >= args.enough;
        report.carried = if enough { all.len() } else { report.carried };
        report.steps.push(step);
        if !enough {
            break;
        }
    }
    verdict(&report);
    if let Some(folder) = &args.out {
        write_json(folder, "sessions", &report)?;
    }
    Ok(())
}

fn application(args: &Args) -> Result<Vec<String>> {
    if !args.application.is_empty() {
        return Ok(args.application.clone());
    }
    let scene = program()?.display().to_string();
    let size = args.size.to_string();
    let words = [&*scene, "scene", "--size", &size, "--coarse"];
    Ok(words.map(str::to_owned).to_vec())
}

/// A session and its client. The fields are dropped in this order.
struct Session {
    client: Child,
    host: Child,
    record: PathBuf,
}

impl Session {
    /// Starts the session and its client, and waits for the first complete frame.
    fn start(args: &Args, application: &[String], folder: &Path) -> Result<Session> {
        std::fs::create_dir_all(folder)?;
        let signer = TicketSigner::generate().context("no random numbers from the system")?;
        let id = SessionUuid::generate().context("no random numbers from the system")?;
        let record = folder.join("frames.csv");
        let mut command = openuvr("session")?;
        command
            .args([
                format!("--id={id}"),
                format!("--ticket-key={}", signer.public()),
            ])
            .args([
                format!("--capture={}", args.capture),
                format!("--size={}", args.size),
            ])
            .arg(format!("--set=csv={}", record.display()))
            .arg(format!("--set=bitrate={}", args.bitrate))
            .arg("--")
            .args(application);
        let said = folder.join("said");
        let out = std::fs::File::create(&said)?;
        command.stdout(out);
        let mut host = Child::start("session", command, Some(&folder.join("session.log")))?;
        let at = wait_for(&mut host, "report its address", |_| {
            let text = std::fs::read_to_string(&said).unwrap_or_default();
            let first = text.lines().next()?;
            serde_json::from_str::<Value>(first).ok()
        })?;
        if let Some(why) = at["why"].as_str() {
            bail!("the session has ended: {why}");
        }
        let link = link(&at, id, &signer)?;
        let mut client = openuvr("client")?;
        client
            .arg(link)
            .args(["--present", "null", "--table", "off", "--sound", "off"])
            .arg("--config-dir")
            .arg(folder.join("keys"));
        let mut client = Child::start("client", client, Some(&folder.join("client.log")))?;
        let shown = wait_for(&mut client, "show a picture", |_| {
            let text = std::fs::read_to_string(&record).ok()?;
            let rows = journey::parse(&text).ok()?;
            rows.iter().any(Row::is_whole).then_some(())
        });
        // If the session has ended, it is the cause of the failure, regardless of the client's message.
        host.check()?;
        shown?;
        Ok(Session {
            client,
            host,
            record,
        })
    }

    fn check(&mut self) -> Result<()> {
        self.host.check()?;
        self.client.check()
    }

    /// The rate and the latency of the complete frames that were captured between `from` and `to`.
    fn played(&self, from: Instant, to: Instant) -> Result<SessionFrames> {
        let text =
            std::fs::read_to_string(&self.record).context("can't read the session's record")?;
        let rows = journey::parse(&text)?;
        let captured = |row: &&Row| {
            let at = row.at("Captured").unwrap_or(i64::MIN);
            at >= from.0 && at < to.0
        };
        let complete: Vec<&Row> = (rows.iter().filter(captured))
            .filter(|row| row.is_whole())
            .collect();
        let span = |row: &&Row| Some((row.at("Decoded")? - row.at("Captured")?) as f64 / 1e6);
        let spans: Vec<f64> = complete.iter().filter_map(span).collect();
        Ok(SessionFrames {
            complete_fps: complete.len() as f64 / to.since(from).as_secs_f64(),
            latency_ms: Summary::of(&spans),
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.client.stop();
        // On SIGTERM, the session also stops its display and its application.
        self.host.stop_by_itself();
    }
}

/// The portal link for a client, made from the address that the session has reported.
fn link(said: &Value, session: SessionUuid, signer: &TicketSigner) -> Result<String> {
    let text = |name: &str| said[name].as_str().unwrap_or_default();
    let host = key_of(text("key")).context("the session's report has no key")?;
    let target = text("native").parse().ok();
    let target =
        target.with_context(|| format!("the session's report has no valid address: {said}"))?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = UnixTime(since_1970.map_or(0, |span| span.as_secs()));
    let ticket = Ticket {
        session,
        role: Role::Player,
        holder: Holder::FirstUse,
        not_after: now.plus(TICKET_LIFE),
        id: Ticket::new_id().context("no random numbers from the system")?,
    };
    let ticket = ticket.sign(signer);
    let word = PortalCredentials { host, ticket };
    Ok(PortalLink {
        target,
        credentials: word,
    }
    .to_string())
}

/// Measures all sessions together.
///
/// # Errors
/// Returns an error if a session or a client has ended early, or if the user interrupts the bench.
fn measure(all: &mut [Session], seconds: f64, stop: &AtomicBool) -> Result<Step> {
    let mut check = || all.iter_mut().try_for_each(Session::check);
    pass(clock::now() + WARM_UP, stop, &mut check)?;
    let (before, from) = (Load::now(), clock::now());
    let until = from + Duration::from_secs_f64(seconds);
    pass(until, stop, &mut check)?;
    let used = Load::now().since(&before);
    let memory: Vec<f64> = (all.iter().filter_map(|one| memory_mib(one.host.id()))).collect();
    clock::sleep_until(clock::now() + WRITTEN);
    let played = all.iter().map(|one| one.played(from, until));
    let cores = |id: fn(&Session) -> u32| {
        let of_each = all.iter().map(|one| used.of_family(id(one)));
        Range::of(&of_each.collect::<Vec<_>>())
    };
    Ok(Step {
        sessions: all.len(),
        played: played.collect::<Result<_>>()?,
        cores: cores(|one| one.host.id()),
        client_cores: cores(|one| one.client.id()),
        memory_mib: Range::of(&memory),
        other_cores: used.other_cores,
    })
}

fn head(report: &Report) {
    let Report {
        capture,
        size,
        bitrate,
        enough,
        ..
    } = report;
    println!("== sessions: {size} at {bitrate}, capture {capture}, at least {enough} frames/s ==");
    println!("machine      {}", report.machine);
    println!("application  {}", report.application.join(" "));
    println!(
        "\n{:>8} {:>17} {:>20} {:>22} {:>13} {:>12}",
        "sessions",
        "complete frames/s",
        "captured-decoded ms",
        "cores per session",
        "per client",
        "MiB/session"
    );
    println!(
        "{:>8} {:>17} {:>20} {:>22} {:>13} {:>12}",
        "", "minimum", "p50, p99: maximum", "", "", ""
    );
}

fn line(step: &Step) {
    let worst = |of: fn(&Summary) -> f64| {
        let all = step.played.iter().filter_map(|one| one.latency_ms.as_ref());
        // NaN without a value, like other missing figures.
        all.map(of).fold(f64::NAN, f64::max)
    };
    let cores = step.cores.as_ref().map_or(String::new(), |of| {
        format!("{:.2} ({:.2}-{:.2})", of.median, of.min, of.max)
    });
    let median = |of: &Option<Range>, digits: usize| {
        of.as_ref()
            .map_or(String::new(), |of| format!("{:.digits$}", of.median))
    };
    println!(
        "{:>8} {:>17.1} {:>20} {cores:>22} {:>13} {:>12}",
        step.sessions,
        step.least_fps(),
        format!("{:.1}, {:.1}", worst(|of| of.p50), worst(|of| of.p99)),
        median(&step.client_cores, 2),
        median(&step.memory_mib, 0),
    );
    if step.other_cores > QUIET {
        println!(
            "NOT QUIET: other processes used {:.1} cores",
            step.other_cores
        );
    }
}

fn verdict(report: &Report) {
    let carried = report.carried;
    let sessions = if carried == 1 { "session" } else { "sessions" };
    println!("\n{carried} {sessions} reached the required frame rate");
    if report.quick {
        println!("(a quick run: one short measurement)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_measurement_is_no_result() {
        let error = measure(&mut [], 1.0, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
    }
}
