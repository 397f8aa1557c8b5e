//! A stream to a native client: each frame has an outcome, and the load does not reduce quality.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;

use crate::load::Load;
use crate::real_time_loops::Pattern;
use crate::record::{Row, assert_accounted, rows};
use crate::serialise;
use crate::support::stalls::measured_without_stalls;
use crate::support::{Display, Folder, Host, PIN, ScreenCapture, scene};

const SIZE: &str = "640x360";

/// The duration of the measurement before the load, and of the measurement that starts [`BACK`] after the end of the
/// load. Between these two, the stream is measured under load for [`BUSY`].
const QUIET: Duration = Duration::from_secs(4);
const BUSY: Duration = Duration::from_secs(8);
const BACK: Duration = Duration::from_secs(1);

/// The real-time loops block a core for at most 100 ms. If the machine stalls for longer than `STALLED`, the test
/// measures again.
const STALLED: Duration = Duration::from_millis(250);

/// One quantiser step is about 1 dB (ITU-T H.264, section 8.5: six steps double the step size).
const DECIBEL: f64 = 1.0;

/// Mean quantiser of the frames captured in an interval, except key frames.
fn quantiser(rows: &[Row], from: Instant, until: Instant) -> Result<f64, String> {
    let within = |row: &&Row| {
        row.captured
            .is_some_and(|at| (from.0..until.0).contains(&at))
    };
    let coded = rows.iter().filter(within).filter(|row| !row.key_frame);
    let all: Vec<f64> = coded.filter_map(|row| row.qp).collect();
    match all.len() {
        few @ ..10 => Err(format!("only {few} frames were encoded")),
        count => Ok(all.iter().sum::<f64>() / count as f64),
    }
}

fn streams_beside(load: Load) {
    let _alone = serialise();
    measured_without_stalls(3, STALLED, || stream(load));
}

/// Streams the scene before, during and after a load. Returns an error if the load reduces the quality.
fn stream(load: Load) -> Result<(), String> {
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return Ok(());
    };
    let _scene = scene(&here, SIZE, "30");
    ScreenCapture::open(&here).more_frames(1);
    let folder = Folder::new();
    let csv = folder.join("host.csv");
    // 8 Mbit/s is twice the rate that the scene needs at the best quantiser. If the host halved the rate twice, the
    // quantiser would rise.
    let rate = ["--fps", "30", "--bitrate", "8M"];
    let own = ["--display", &here.name, "--csv", &csv];
    let mut host = Host::start(&[&PIN[..], &own, &rate].concat());
    let mut client = host.client("client", &there, &PIN);
    client.line(&format!("showing {SIZE}"));
    ScreenCapture::open(&there).more_frames(10);
    let began = clock::now();
    std::thread::sleep(QUIET);
    let loaded = clock::now();
    let Some(running) = load.start() else {
        return Ok(());
    };
    std::thread::sleep(BUSY);
    drop(running);
    let ended = clock::now();
    std::thread::sleep(BACK + QUIET);
    let last = clock::now();
    host.program.assert_running();
    client.stop();
    host.program.line("left: it disconnected");
    host.program.stop();
    let rows = rows(&folder.path().join("host.csv"));
    assert_accounted(&rows);
    let quiet = quantiser(&rows, began, loaded)?;
    let busy = quantiser(&rows, loaded, ended)?;
    let back = quantiser(&rows, ended + BACK, last)?;
    println!("{load:?}: quantiser {quiet:.2}, beside the load {busy:.2}, behind it {back:.2}");
    if busy > quiet + DECIBEL {
        return Err(format!("{load:?}: {quiet:.2} became {busy:.2}"));
    }
    if back > quiet + DECIBEL / 2.0 {
        return Err(format!("{load:?}: {quiet:.2} stays {back:.2}"));
    }
    Ok(())
}

#[test]
fn pictures_stay_as_good_beside_busy_loops() {
    streams_beside(Load::Loops);
}

#[test]
fn pictures_stay_as_good_beside_stops_of_40_ms() {
    streams_beside(Load::RealTime(Pattern::OFTEN));
}

#[test]
#[ignore = "./dev test-busy: a quarter of a minute each"]
fn pictures_stay_as_good_beside_stops_of_100_ms() {
    streams_beside(Load::RealTime(Pattern::LONG));
}

#[test]
#[ignore = "./dev test-busy"]
fn pictures_stay_as_good_beside_a_build() {
    streams_beside(Load::Build);
}
