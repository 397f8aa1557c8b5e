//! `openuvr bench sound`: how late sound is, and what it costs the picture and the processors.
//!
//! The same scene streamed with and without sound, in turns. The sound is beeps that `pacat` plays into a
//! null sink of a sound server of our own; the client plays into another. How late it is, the client says:
//! from the capture at the host, by the clocks of the session, to when its sound server says that a sample is
//! heard. Both sinks are null sinks of one server: what a sound card adds is not in it.

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use super::case::Stream;
use super::head::{Head, Report, keep};
use super::heard::SoundFigures;
use super::rig::{Rig, Source, Streamed};
use super::stats::{Range, Summary};
use super::turns::{Asked, Turns};
use crate::pair::TemporaryDir;
use crate::sound::{CLIENT_SINK, HOST_SINK, SoundServer, sound_words};

/// Measure how late sound is, and what it costs.
///
/// The figures: captured to heard, the buffer, and what was concealed, as the client reports them; drawn to
/// visible, and cores of host and client together, with and without sound. Medians and ranges over
/// repetitions that take turns. Needs PulseAudio.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("seconds", |arg| arg.default_value("8")))]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// Milliseconds of a packet of sound: 2.5, 5, 10 or 20
    #[arg(long, value_name = "MS", default_value = "5")]
    sound_frame: String,
    /// Write sound.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// One way, over its repetitions.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    /// Drawn to visible.
    p50_ms: Option<Range>,
    p99_ms: Option<Range>,
    /// Of the frames drawn, displayed whole; the least of the repetitions.
    whole: Option<f64>,
    /// Cores of host and client together.
    cores: Option<Range>,
    /// Captured to heard: the medians of each second. `None`: without sound.
    sound_ms: Option<Summary>,
    /// The last delay aimed at of each repetition.
    delay_ms: Option<Range>,
    /// Sample frames that were made up, in all.
    concealed: Option<u64>,
}

/// Measures, prints, writes.
pub(crate) fn run(args: &Args) -> Result<()> {
    let turns = Turns::new(&args.asked, 2.5)?;
    let Turns {
        repetitions,
        seconds,
        ..
    } = turns;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let dir = TemporaryDir::new()?;
    let server = SoundServer::start(dir.path())?;
    // In both ways: only what we do with it is what differs.
    let _player = server.beep()?;
    let mut rig = Rig::start(turns.setup(args.asked.size, args.asked.scene_fps), &stop)?;
    let csv = dir.path().join("frames.csv");
    let mut host_words = sound_words(HOST_SINK).to_vec();
    host_words.extend(["--sound-frame".to_owned(), args.sound_frame.clone()]);
    let client_words = sound_words(CLIENT_SINK);
    let (mut without, mut with, mut figures) = (Vec::new(), Vec::new(), Vec::new());
    for repetition in 1..=repetitions {
        for sounds in [false, true] {
            let name = name(sounds);
            eprintln!("bench sound: {repetition}/{repetitions} {name}");
            let off = ["--sound".to_owned(), "off".to_owned()];
            let (more_host, more_client) = match sounds {
                true => (&host_words[..], &client_words[..]),
                false => (&off[..], &off[..]),
            };
            let stream = rig.stream(&Streamed {
                source: Source::Screen,
                cable: None,
                fps: args.asked.scene_fps.floor().max(1.0),
                bitrate: &args.asked.bitrate,
                seconds,
                presses: 0,
                compare: false,
                dir: dir.path(),
                csv: &csv,
                sound: Some(server.address()),
                more_host,
                more_client,
            })?;
            if sounds {
                figures.extend(SoundFigures::read(&csv)?);
                with.push(stream);
            } else {
                without.push(stream);
            }
        }
    }
    let report = Report {
        head: Head::new(&args.asked, turns, without.iter().chain(&with)),
        ways: vec![row(false, &without, &[]), row(true, &with, &figures)],
    };
    print(&report);
    if let Some(folder) = &args.out {
        keep(folder, "sound.json", &report)?;
    }
    Ok(())
}

fn name(sounds: bool) -> &'static str {
    match sounds {
        true => "with sound",
        false => "without",
    }
}

fn row(sounds: bool, streams: &[Stream], figures: &[SoundFigures]) -> Row {
    let range = |of: &dyn Fn(&Stream) -> Option<f64>| {
        Range::of(&streams.iter().filter_map(of).collect::<Vec<_>>())
    };
    let latencies = figures.iter().flat_map(|figures| &figures.latencies);
    let delays: Vec<f64> = figures.iter().map(|figures| figures.delay).collect();
    let concealed = figures.iter().map(|figures| figures.concealed);
    Row {
        name: name(sounds),
        p50_ms: range(&|s| Some(s.case.latency_ms?.p50)),
        p99_ms: range(&|s| Some(s.case.latency_ms?.p99)),
        whole: (streams.iter())
            .filter_map(Stream::whole_share)
            .reduce(f64::min),
        cores: range(&|s| Some(s.cores())),
        sound_ms: Summary::of(&latencies.copied().collect::<Vec<_>>()),
        delay_ms: Range::of(&delays),
        concealed: (!figures.is_empty()).then(|| concealed.sum()),
    }
}

fn print(report: &Report<Row>) {
    report.head.print("sound", "");
    println!(
        "\n{:<12} {:>20} {:>7} {:>7} {:>19}",
        "", "p50 ms (range)", "p99", "whole", "cores (range)"
    );
    let in_words = |range: Option<Range>| {
        range.map_or("nothing came".to_owned(), |range| {
            format!("{:.2} ({:.2}-{:.2})", range.median, range.min, range.max)
        })
    };
    for row in &report.ways {
        println!(
            "{:<12} {:>20} {:>7.2} {:>5.0} % {:>19}",
            row.name,
            in_words(row.p50_ms),
            row.p99_ms.map_or(f64::NAN, |range| range.median),
            row.whole.unwrap_or(f64::NAN) * 100.0,
            in_words(row.cores)
        );
    }
    println!();
    for row in &report.ways {
        if let (Some(sound), Some(delay)) = (row.sound_ms, row.delay_ms) {
            println!(
                "captured -> heard: p50 {:.1} ms, worst second {:.1} ms, of {} seconds",
                sound.p50, sound.max, sound.count
            );
            println!("buffer:            {:.1} ms", delay.median);
        }
        if let Some(concealed) = row.concealed {
            println!("concealed:         {concealed} sample frames");
        }
    }
}
