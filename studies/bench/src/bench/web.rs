//! `openuvr bench web`: measures a browser and video players that receive OpenUVR's stream, and the overhead that
//! observers cause for OpenUVR's own client, which has the player role.
//!
//! A real, headless Chromium plays the scene. The bench observes its page from outside the page's script: the bar code
//! in a picture's pixels identifies the picture handed to the compositor, and the browser's clock, which is this
//! machine's clock, gives the time. The bench makes key presses in the browser, and an X client on the host's display
//! receives them. Then OpenUVR's own client is measured, first alone and then with observers, from the pixels of its
//! window, as in the other benches. All programs share the processors of one machine, so a browser takes CPU time from
//! the host. It would not do so on another machine.

mod figures;
mod goals;
mod observers;
mod players;
mod print;
mod variant;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::builder::ArgPredicate;
use openuvr_lab::wifi::scenario::Scenario;
use openuvr_lab::wifi::{Impossible, words};
use openuvr_proto::units::Bitrate;
use openuvr_sim::link::Impairment;
use openuvr_terminal::usage::UsageError;
use openuvr_testbed::chromium;
use openuvr_testbed::clicks::{ClickRecorder, Lateness};
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::reader::Sighting;
use openuvr_testbed::sound::{CLIENT_SINK, HOST_SINK, SoundServer};
use serde::Serialize;

use self::figures::{Browser, Run};
use self::goals::Goals;
use self::observers::Beside;
use self::players::Player;
use self::variant::{BitrateMode, Codec, RateControl, Variant};
use super::heading::{Heading, write_json};
use super::rig::{BrowserSetup, MediaLink, Rig, Setup};
use super::turns::{ComparisonOptions, Turns};
use super::verdict::Verdict;

/// Measure a browser and video players that show OpenUVR's stream, and the overhead that observers cause for the
/// player.
///
/// For a browser that plays, measures the time from drawing to the hand-over to the compositor, in total and by stage;
/// frames per second decoded and handed over, and the longest freeze; the time from a key press in the page until the
/// application receives it; and the offset of sound from the picture (with PulseAudio). The link is direct, or emulated
/// with a delay of 2 ms each way and a loss of 1 % or 5 % in each direction. With several codecs, bitrate modes or
/// congestion controls, the browser is measured with each combination over each link. For OpenUVR's own client,
/// measures the latency from drawn to visible in five cases: without observers; with a browser and a video player; with
/// a browser and four video players; with a browser, a video player and a Moonlight client; and with a video player
/// that has stopped reading. Also measures the host's cost per observer. For ffplay and GStreamer, measures the latency
/// from drawn to visible. Needs Chromium and ffmpeg. If one of them is missing, the bench prints a message and measures
/// nothing.
///
/// With --capture, measures only one run of a browser, and captures its packets for `openuvr lab traffic`. With --wifi,
/// the link of this run is a model of a Wi-Fi network.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("scene_fps", |arg| arg.default_value("60.25")))]
#[command(mut_arg("repetitions", |arg| arg.default_value("3")
    .default_value_if("capture", ArgPredicate::IsPresent, "1")))]
#[command(mut_arg("seconds", |arg| arg.default_value("8s")))]
pub(crate) struct Args {
    #[command(flatten)]
    options: ComparisonOptions,
    /// Parts to measure
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "browser,beside,players",
        default_value_if("capture", ArgPredicate::IsPresent, "browser")
    )]
    parts: Vec<Section>,
    /// Codecs of the browser's stream
    #[arg(long, value_enum, value_delimiter = ',', default_value = "h264")]
    codec: Vec<Codec>,
    /// Bitrate modes of the browser's stream
    #[arg(long, value_enum, value_delimiter = ',', default_value = "dynamic")]
    bitrate_mode: Vec<BitrateMode>,
    /// Congestion controls of the browser's stream with a dynamic bitrate
    #[arg(long, value_enum, value_delimiter = ',', default_value = "reports")]
    rate_control: Vec<RateControl>,
    /// Key presses in each run of the browser
    #[arg(long, default_value_t = 60)]
    presses: u32,
    /// Capture the browser's packets at both ends of an emulated link, for `openuvr lab traffic`. The files
    /// server.pcapng and client.pcapng are written to this folder. Without --wifi, the link delays packets by 2 ms each
    /// way and loses none. Only one run of the browser is measured
    #[arg(long, value_name = "FOLDER")]
    capture: Option<PathBuf>,
    /// With --capture: emulate a Wi-Fi network with the browser as a station; NAME=VALUE pairs describe the network,
    /// see `openuvr lab wifi --help`
    #[arg(long, value_name = "WORDS", value_parser = wifi, num_args = 0..=1, default_missing_value = "",
        requires = "capture")]
    wifi: Option<Box<Scenario>>,
    /// Write web.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Section {
    /// A browser as the player
    Browser,
    /// OpenUVR's client as the player, without and with observers
    Beside,
    /// The video players ffplay and GStreamer
    Players,
}

fn wifi(text: &str) -> Result<Box<Scenario>, Impossible> {
    words::parse(text).map(Box::new)
}

/// The measured links between host and browser, with their names.
fn links(args: &Args) -> Vec<(&'static str, MediaLink)> {
    match (&args.capture, &args.wifi) {
        (Some(_), Some(scenario)) => vec![("captured", MediaLink::Wifi(scenario.clone()))],
        (Some(_), None) => vec![("captured", losing(0.0))],
        (None, _) => vec![
            ("direct", MediaLink::Direct),
            ("1 % lost", losing(0.01)),
            ("5 % lost", losing(0.05)),
        ],
    }
}

/// A link with this loss. Its delay is that of the case `loss` in `bench peers` and `bench link`; the loss of that case
/// is 1 %.
fn losing(loss: f64) -> MediaLink {
    MediaLink::Impaired(Impairment {
        delay: Duration::from_millis(2),
        loss,
        ..Impairment::default()
    })
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Output {
    #[serde(flatten)]
    head: Heading,
    /// The browser's version.
    version: String,
    goals: Goals,
    /// The browser's figures for each variant over each link.
    browsers: Vec<Browser>,
    /// The figures of our own client for each set of observers.
    beside: Vec<Beside>,
    players: Vec<Player>,
    verdicts: Vec<Verdict>,
}

/// The JSON output of a skipped run.
#[derive(Debug, Serialize)]
struct SkippedOutput {
    skipped: String,
    quick: bool,
}

/// Measures, prints the results, and writes them to a file if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    let turns = Turns::new(&args.options, 2.5)?;
    let bitrate: Bitrate = args.options.bitrate.parse()?;
    ensure!(
        bitrate.0 >= 100_000,
        UsageError::new("--bitrate must be at least 100K")
    );
    let variants = Variant::all(&args.codec, &args.bitrate_mode, &args.rate_control);
    check_capture(args, &variants, turns.repetitions)?;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let missing = players::missing();
    let program = match chromium::program() {
        Some(program) if missing.is_empty() => program,
        found => {
            let chromium = found.is_none().then_some(chromium::PACKAGE);
            let skipped = format!(
                "install {}",
                Vec::from_iter(chromium.into_iter().chain(missing)).join(" ")
            );
            eprintln!("bench web: skipped: {skipped}");
            let quick = turns.quick;
            let left = args
                .out
                .as_ref()
                .map(|out| write_json(out, "web", &SkippedOutput { skipped, quick }));
            return left.unwrap_or(Ok(()));
        }
    };
    let bench = Bench {
        args,
        program,
        setup: turns.setup(args.options.size, args.options.scene_fps),
        turns,
        stop: &stop,
    };
    let is_selected = |part| args.parts.contains(&part);
    let links = links(args);
    let cases = variants.iter().flat_map(|variant| {
        links
            .iter()
            .map(move |(name, link)| (*variant, *name, link))
    });
    let mut cases: Vec<_> = cases.map(|case| (case, Vec::<Run>::new())).collect();
    let mut beside = observers::ways();
    for repetition in 1..=turns.repetitions {
        for ((variant, name, link), runs) in &mut cases {
            if is_selected(Section::Browser) {
                let case = variant.case(name);
                bench.log_progress(repetition, &format!("a browser plays, {case}"));
                runs.push(bench.browse(*variant, link)?);
            }
        }
        for way in &mut beside {
            if is_selected(Section::Beside) {
                bench.log_progress(repetition, &format!("our client, {}", way.name()));
                way.measure(&bench)?;
            }
        }
    }
    let mut players = Vec::new();
    if is_selected(Section::Players) {
        players = players::measure(&bench)?;
    }
    let streams = beside.iter().flat_map(|way| way.streams());
    let mut head = Heading::new(
        &args.options,
        turns,
        streams.chain(players.iter().map(Player::stream)),
    );
    let runs = cases.iter().flat_map(|(_, runs)| runs);
    let loudest = runs.map(|run| run.browsing.other_cores);
    head.other_cores = loudest.fold(head.other_cores, f64::max);
    let browsers = cases
        .iter()
        .filter_map(|((variant, name, _), runs)| Browser::of(name, *variant, runs));
    let mut found = Output {
        head,
        version: chromium::version(program).unwrap_or_default(),
        goals: Goals::default(),
        browsers: browsers.collect(),
        beside: beside
            .iter()
            .filter_map(observers::ObserverCase::figures)
            .collect(),
        players,
        verdicts: Vec::new(),
    };
    found.verdicts = goals::verdicts(&found);
    print::print(&found);
    if let Some(folder) = &args.out {
        write_json(folder, "web", &found)?;
    }
    Ok(())
}

/// Refuses options with which `--capture` would have to write more than one pair of files.
fn check_capture(args: &Args, variants: &[Variant], repetitions: u32) -> Result<()> {
    let is_one_run = args.parts == [Section::Browser] && variants.len() == 1 && repetitions == 1;
    ensure!(
        args.capture.is_none() || is_one_run,
        UsageError::new(
            "--capture records one run of a browser: use only --parts browser, --repetitions 1, and one value each of \
             --codec, --bitrate-mode and --rate-control"
        )
    );
    Ok(())
}

/// Shared state of all measurements.
struct Bench<'a> {
    args: &'a Args,
    program: &'static str,
    setup: Setup,
    turns: Turns,
    stop: &'a AtomicBool,
}

impl Bench<'_> {
    fn log_progress(&self, repetition: u32, what: &str) {
        let all = self.turns.repetitions;
        eprintln!("bench web: {repetition}/{all} {what}");
    }

    /// Frames per second of the host.
    fn fps(&self) -> f64 {
        self.args.options.scene_fps.floor().max(1.0)
    }

    /// Measures a browser once.
    fn browse(&self, variant: Variant, link: &MediaLink) -> Result<Run> {
        let dir = TemporaryDir::new()?;
        // Without a sound server, everything except the sound is measured.
        let server = SoundServer::start(dir.path()).inspect_err(|why| {
            eprintln!("bench web: without sound: {why:#}");
        });
        let server = server.ok();
        let sound = server.as_ref().map(SoundServer::address);
        let ears = sound
            .map(|server| [HOST_SINK, CLIENT_SINK].map(|sink| ClickRecorder::start(server, sink)));
        let mut rig = Rig::start(self.setup, self.stop)?;
        if let Some(server) = sound {
            rig.click(server, HOST_SINK);
        }
        let browsing = rig.browse(&BrowserSetup {
            browser: self.program,
            link,
            capture: self.args.capture.as_deref(),
            fps: self.fps(),
            bitrate: &self.args.options.bitrate,
            options: &variant.options(),
            seconds: self.turns.seconds,
            presses: if self.turns.quick {
                5
            } else {
                self.args.presses
            },
            dir: dir.path(),
            sound,
        })?;
        let seen: &[Sighting] = &browsing.sightings;
        let lateness = ears.map(|ears| -> Result<Lateness> {
            let [host, client] = ears;
            let (host, client) = (host?.clicks(), client?.clicks());
            Ok(Lateness::of(&host, &client, seen, browsing.window))
        });
        let lateness = lateness.transpose()?;
        Ok(Run { browsing, lateness })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        web: Args,
    }

    /// Parses the options, and checks those that `--capture` restricts.
    fn checked(line: &str) -> Result<Args> {
        let words = format!("web {line}");
        let args = Program::try_parse_from(words.split_whitespace())?.web;
        let variants = Variant::all(&args.codec, &args.bitrate_mode, &args.rate_control);
        let turns = Turns::new(&args.options, 2.5)?;
        check_capture(&args, &variants, turns.repetitions)?;
        Ok(args)
    }

    #[test]
    fn a_capture_is_of_one_run_of_a_browser() {
        let usual = checked("").unwrap();
        assert_eq!((usual.parts.len(), usual.capture), (3, None));
        for line in [
            "",
            "--quick",
            "--parts browser --codec vp9",
            "--repetitions 1",
        ] {
            let args = checked(&format!("--capture ends {line}")).unwrap();
            assert_eq!(args.parts, [Section::Browser], "{line}");
        }
        for line in [
            "--parts players",
            "--parts browser,beside",
            "--repetitions 3",
            "--codec h264,vp9",
            "--rate-control reports,gcc",
        ] {
            let error = checked(&format!("--capture ends {line}")).unwrap_err();
            assert!(error.to_string().contains("one run"), "{line}: {error}");
        }
    }

    #[test]
    fn a_capture_may_be_over_a_wifi_model() {
        let args = checked("--capture ends --wifi profile=he-su").unwrap();
        assert!(matches!(links(&args)[..], [(_, MediaLink::Wifi(_))]));
        let args = checked("--capture ends").unwrap();
        assert!(matches!(links(&args)[..], [(_, MediaLink::Impaired(_))]));
        assert!(checked("--wifi").is_err(), "no capture");
    }
}
