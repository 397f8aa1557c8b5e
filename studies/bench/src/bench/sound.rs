//! `openuvr bench sound`: the latency of audio, its offset from the video, and its cost in video latency and processor
//! use.
//!
//! The scene clicks and flashes at the same moment. The click goes to a null sink of a private sound server. The host
//! captures this sink, and the client plays into another sink. The bench records both sinks, and reads the flash from
//! the client's window, so the measured latency and offset do not depend on reports of host and client. Streams with
//! and without sound alternate. Streams over lossy links follow. The latency of a sound card is not included.

mod rows;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use openuvr_sim::link::{BurstLoss, Impairment};
use openuvr_testbed::audio_reports::SoundFigures;
use openuvr_testbed::clicks::{ClickRecorder, Lateness};
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::sound::{CLIENT_SINK, HOST_SINK, SoundServer, sound_words};

use super::case::Stream;
use super::heading::{Heading, write_json};
use super::rig::{Rig, Source, StreamSetup};
use super::turns::{ComparisonOptions, Turns};
use rows::{LinkRow, Report, Row, Targets};

/// Measure the latency of audio, its offset from the video, and its cost.
///
/// The figures are: the time of a click from the host's sink to the client's sink, and this time minus the latency of
/// the simultaneous flash; buffer and concealment, as the client reports them; and, with and without sound, the latency
/// from drawn to visible, and the cores that host and client use. The latency from drawn to visible and the cores are
/// medians and ranges over interleaved repetitions. Then the audio is measured again over two links: one loses 1 % of
/// the datagrams, and the other loses 2 % in bursts of 4. Needs PulseAudio.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("seconds", |arg| arg.default_value("8s")))]
pub(crate) struct Args {
    #[command(flatten)]
    options: ComparisonOptions,
    /// Milliseconds per audio packet: 2.5, 5, 10 or 20
    #[arg(long, value_name = "MS", default_value = "5")]
    sound_frame: String,
    /// Don't measure lossy links
    #[arg(long)]
    no_loss: bool,
    /// Write sound.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// A case's name and its link's impairment.
type LossCase = (&'static str, fn() -> Impairment);

/// The lossy links.
const LINKS: [LossCase; 2] = [("1 % lost", single), ("2 % lost in bursts", bursts)];

/// One-way delay, typical of a local wireless network.
const DELAY: Duration = Duration::from_millis(2);

fn single() -> Impairment {
    Impairment {
        delay: DELAY,
        loss: 0.01,
        ..Impairment::default()
    }
}

/// Loses bursts of four consecutive datagrams on average, regardless of the stream to which they belong.
fn bursts() -> Impairment {
    Impairment {
        delay: DELAY,
        burst: Some(BurstLoss {
            enter: 0.25 * 0.02 / 0.98,
            leave: 0.25,
            loss: 1.0,
        }),
        ..Impairment::default()
    }
}

/// Measurements of a stream.
struct Measured {
    stream: Stream,
    /// The audio's figures, measured from the clicks (`lateness`) and reported by the client (`figures`). `None`
    /// without sound.
    lateness: Option<Lateness>,
    figures: Option<SoundFigures>,
}

/// Measures, prints the results, and writes them to a file if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    let turns = Turns::new(&args.options, 2.5)?;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let dir = TemporaryDir::new()?;
    let server = SoundServer::start(dir.path())?;
    let mut bench = Bench::start(args, turns, &dir, &server, &stop)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let repetitions = turns.repetitions;
    for repetition in 1..=repetitions {
        for (sounds, measured) in [(false, &mut without), (true, &mut with)] {
            let name = name(sounds);
            eprintln!("bench sound: {repetition}/{repetitions} {name}");
            measured.push(bench.stream(sounds, turns.seconds, None)?);
        }
    }
    let mut links = Vec::new();
    for (name, impairment) in LINKS.iter().filter(|_| !args.no_loss) {
        eprintln!("bench sound: {name}");
        // This measurement lasts as long as all repetitions together, because losses are rare.
        let seconds = turns.seconds * f64::from(repetitions);
        let measured = bench.stream(true, seconds, Some(&impairment()))?;
        links.push(LinkRow::of(name, &measured));
    }
    let streams = without.iter().chain(&with).map(|measured| &measured.stream);
    let report = Report {
        head: Heading::new(&args.options, turns, streams),
        targets: Targets::default(),
        ways: vec![Row::of(name(false), &without), Row::of(name(true), &with)],
        cost: rows::Cost::of(&without, &with),
        links,
    };
    report.print();
    if let Some(folder) = &args.out {
        write_json(folder, "sound", &report)?;
    }
    Ok(())
}

fn name(sounds: bool) -> &'static str {
    match sounds {
        true => "with sound",
        false => "without",
    }
}

/// Shared state of all streams.
struct Bench<'a> {
    args: &'a Args,
    rig: Rig<'a>,
    server: &'a SoundServer,
    dir: &'a TemporaryDir,
}

impl<'a> Bench<'a> {
    fn start(
        args: &'a Args,
        turns: Turns,
        dir: &'a TemporaryDir,
        server: &'a SoundServer,
        stop: &'a AtomicBool,
    ) -> Result<Bench<'a>> {
        let mut rig = Rig::start(turns.setup(args.options.size, args.options.scene_fps), stop)?;
        // The scene clicks with and without audio streaming, so that only the streaming differs.
        rig.click(server.address(), HOST_SINK);
        Ok(Bench {
            args,
            rig,
            server,
            dir,
        })
    }

    fn stream(
        &mut self,
        sounds: bool,
        seconds: f64,
        impaired: Option<&Impairment>,
    ) -> Result<Measured> {
        let off = ["--sound".to_owned(), "off".to_owned()].to_vec();
        let (more_host, more_client) = match sounds {
            true => {
                let mut host = sound_words(HOST_SINK).to_vec();
                host.extend(["--sound-frame".to_owned(), self.args.sound_frame.clone()]);
                (host, sound_words(CLIENT_SINK).to_vec())
            }
            false => (off.clone(), off),
        };
        let csv = self.dir.path().join("frames.csv");
        // The sinks are recorded with and without audio streaming, because recording makes a sink work in smaller
        // fragments.
        let ears = [
            ClickRecorder::start(self.server.address(), HOST_SINK)?,
            ClickRecorder::start(self.server.address(), CLIENT_SINK)?,
        ];
        let options = &self.args.options;
        let stream = self.rig.stream(&StreamSetup {
            source: Source::Screen,
            cable: None,
            impaired,
            fps: options.scene_fps.floor().max(1.0),
            bitrate: &options.bitrate,
            seconds,
            presses: 0,
            compare: false,
            dir: self.dir.path(),
            csv: &csv,
            sound: Some(self.server.address()),
            pads: None,
            more_host: &more_host,
            more_client: &more_client,
        })?;
        let lateness = sounds.then(|| {
            let seen: Vec<_> = (stream.case.samples.iter())
                .map(|sample| sample.sighting)
                .collect();
            let [host, client] = ears.each_ref().map(ClickRecorder::clicks);
            Lateness::of(&host, &client, &seen, stream.case.window)
        });
        let figures = match sounds {
            true => SoundFigures::read(&csv)?,
            false => None,
        };
        Ok(Measured {
            stream,
            lateness,
            figures,
        })
    }
}
