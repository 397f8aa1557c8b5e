//! Audio through a real sound server: recordings equal the playback sample by sample, with silence
//! in between.
#![cfg(all(feature = "host", feature = "client"))]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test may panic.

mod pulse_server;
mod stalls;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openuvr_media::audio::goertzel::amplitude;
use openuvr_media::audio::pulse::{Capture, NullSink, Playback};
use openuvr_media::audio::tone::Sine;
use openuvr_media::audio::{
    AudioCapture, AudioError, AudioEvent, AudioPlayback, CHANNELS, Settings, duration_of,
};
use openuvr_proto::time::Instant;
use pulse_server::PulseServer;
use stalls::measured_without_stalls;

const FRAME: usize = 240;
const PITCH: f64 = 1000.0;

/// A block arrives every 5 ms, or later on a busy machine.
const SOON: Option<Duration> = Some(Duration::from_secs(20));

/// Starts a sound server. The guard lets only one test run at a time, because audio is time-critical.
fn alone() -> Option<(PulseServer, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Some((PulseServer::start()?, turn))
}

/// After a stall of this length, a server with blocks of about 20 ms may miss a block.
const STALLED: Duration = Duration::from_millis(10);

fn of(device: &str) -> Settings {
    Settings {
        device: Some(device.to_owned()),
        ..Settings::default()
    }
}

fn record(server: &PulseServer, device: &str) -> Capture {
    Capture::open(Some(&server.address), &of(device)).unwrap()
}

fn play(server: &PulseServer, device: &str) -> Playback {
    Playback::open(Some(&server.address), &of(device)).unwrap()
}

/// Writes samples, even more than the socket accepts at once. Each query of the level then sends some of the remaining
/// samples.
fn write(playback: &mut Playback, samples: &[f32]) {
    playback.write(samples).unwrap();
    for _ in 0..50 {
        playback.wait(Some(Duration::from_millis(2))).unwrap();
        playback.level().unwrap();
    }
}

/// The next `count` blocks, and their capture times.
fn blocks(capture: &mut Capture, count: usize) -> (Vec<f32>, Vec<Instant>) {
    let (mut all, mut times) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut block = [9.0; FRAME * CHANNELS];
        match capture.read(&mut block, SOON).unwrap() {
            AudioEvent::Captured(at) => times.push(at),
            other => panic!("{other:?}, not a block"),
        }
        all.extend_from_slice(&block);
    }
    (all, times)
}

fn loud(samples: &[f32]) -> bool {
    samples.iter().any(|sample| sample.abs() > 1e-3)
}

/// Reads until a block contains sound, then reads `count` more blocks. Returns the samples without the leading silence.
fn after_silence(capture: &mut Capture, count: usize) -> Vec<f32> {
    for _ in 0..4000 {
        let (mut block, _) = blocks(capture, 1);
        if loud(&block) {
            let first = block.chunks(CHANNELS).position(loud).unwrap();
            block.drain(..first * CHANNELS);
            block.extend(blocks(capture, count).0);
            return block;
        }
    }
    panic!("no sound within 20 s");
}

/// Skips late samples, before the next measurement begins.
fn until_silence(capture: &mut Capture) {
    while loud(&blocks(capture, 20).0) {}
}

/// The number of positions at which the tone is discontinuous. A continuous sine satisfies x(n+1) = 2 cos(w) x(n) −
/// x(n−1).
fn jumps(samples: &[f32]) -> usize {
    let factor = 2.0 * (std::f64::consts::TAU * PITCH / 48_000.0).cos();
    let left: Vec<f64> = samples
        .chunks(CHANNELS)
        .map(|frame| frame[0].into())
        .collect();
    let far = |x: &&[f64]| (factor * x[1] - x[0] - x[2]).abs() > 1e-4;
    left.windows(3).filter(far).count()
}

fn tone(frames: usize) -> Vec<f32> {
    let mut samples = vec![0.0; frames * CHANNELS];
    Sine::new(PITCH, 0.25).fill(&mut samples);
    samples
}

#[test]
fn a_tone_is_recorded_as_it_was_played() {
    let Some((server, _turn)) = alone() else {
        return;
    };
    let sink = NullSink::create(Some(&server.address)).unwrap();
    let mut capture = record(&server, sink.name());
    assert!(
        capture.device().contains(sink.name()),
        "{}",
        capture.device()
    );
    blocks(&mut capture, 2);
    // If the server gets no CPU time for long, its recording has gaps.
    let samples = measured_without_stalls(5, STALLED, || {
        let mut playback = play(&server, sink.name());
        write(&mut playback, &tone(43_200));
        let mut samples = after_silence(&mut capture, 200);
        let end = samples.chunks(CHANNELS).rposition(loud).unwrap() + 1;
        samples.truncate(end * CHANNELS);
        let jumps = jumps(&samples);
        // The first sample of a sine is zero, so it counts as silence.
        if jumps == 0 && (43_198..=43_199).contains(&end) {
            return Ok(samples);
        }
        drop(playback);
        until_silence(&mut capture);
        let counters = capture.counters();
        Err(format!(
            "{jumps} jumps, {end} of 43 200 samples recorded: {counters:?}"
        ))
    });
    let level = amplitude(&samples, PITCH);
    assert!((level - 0.25).abs() < 0.001, "{level}");
    assert!(amplitude(&samples, 1100.0) < 0.001);
}

#[test]
fn silence_is_recorded_where_nothing_plays() {
    let Some((server, _turn)) = alone() else {
        return;
    };
    // The default sink.
    let mut capture = Capture::open(Some(&server.address), &Settings::default()).unwrap();
    assert_eq!(capture.device(), "usual.monitor");
    let (samples, times) = blocks(&mut capture, 40);
    assert!(samples.iter().all(|sample| *sample == 0.0));
    assert!(times.is_sorted());
    // A suspended sink delivers no samples. The capture continues with silence.
    server.pactl(&["suspend-sink", "usual", "1"]);
    let enough = capture.counters().silence + 40 * FRAME as u64;
    let (mut samples, mut times) = (Vec::new(), Vec::new());
    // The samples that were recorded before the sink was suspended come first.
    let filled = (0..4000).any(|_| {
        let (block, time) = blocks(&mut capture, 1);
        samples.extend(block);
        times.extend(time);
        capture.counters().silence > enough
    });
    assert!(filled, "{:?}", capture.counters());
    assert!(samples.iter().all(|sample| *sample == 0.0));
    assert!(times.is_sorted());
    server.pactl(&["suspend-sink", "usual", "0"]);
    measured_without_stalls(5, STALLED, || {
        let mut playback = play(&server, "usual");
        write(&mut playback, &tone(24_000));
        let samples = after_silence(&mut capture, 50);
        let level = amplitude(&samples[..19_200], PITCH);
        if (level - 0.25).abs() < 0.01 {
            return Ok(());
        }
        drop(playback);
        until_silence(&mut capture);
        Err(format!("{level}: {:?}", capture.counters()))
    });
}

#[test]
fn an_application_plays_to_our_sink_and_is_recorded() {
    let Some((server, _turn)) = alone() else {
        return;
    };
    let sink = NullSink::create(Some(&server.address)).unwrap();
    let mut usual = record(&server, "usual");
    let mut capture = record(&server, sink.name());
    let bytes: Vec<u8> = tone(96_000).iter().flat_map(|s| s.to_le_bytes()).collect();
    let samples = measured_without_stalls(5, STALLED, || {
        let mut application = Command::new("pacat")
            .args([
                "--raw",
                "--format=float32le",
                "--rate=48000",
                "--channels=2",
            ])
            .env("PULSE_SERVER", &server.address)
            .env("PULSE_SINK", sink.name())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("pacat, of the package pulseaudio-utils");
        let mut stdin = application.stdin.take().unwrap();
        let bytes = bytes.clone();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
        let samples = after_silence(&mut capture, 100);
        let _ = application.kill();
        let _ = application.wait();
        let _ = writer.join();
        if jumps(&samples) == 0 {
            return Ok(samples);
        }
        until_silence(&mut capture);
        Err(format!("the tone has jumps: {:?}", capture.counters()))
    });
    assert!((amplitude(&samples, PITCH) - 0.25).abs() < 0.001);
    assert!(!loud(&blocks(&mut usual, 100).0), "other sinks are silent");
}

#[test]
fn sinks_end_with_the_process_and_leftovers_are_removed() {
    let Some((server, _turn)) = alone() else {
        return;
    };
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let namespace = namespace
        .to_string_lossy()
        .replace(|c: char| !c.is_ascii_digit(), "");
    // No process has the PID 4194305, so this sink is a leftover. The processes of the other PID namespace are unknown,
    // so the sink of that namespace must stay.
    let left = format!("openuvr_{namespace}_4194305_0");
    for name in [&left, "openuvr_1_4194305_0", "game"] {
        let argument = format!("sink_name={name}");
        server.pactl(&["load-module", "module-null-sink", &argument]);
    }
    let one = NullSink::create(Some(&server.address)).unwrap();
    let two = NullSink::create(Some(&server.address)).unwrap();
    let all = [
        "usual",
        "openuvr_1_4194305_0",
        "game",
        one.name(),
        two.name(),
    ];
    assert_eq!(server.sinks(), all);
    let name = one.name().to_owned();
    drop(one);
    assert!(!server.sinks().contains(&name));
    drop(two);
    assert_eq!(server.sinks(), ["usual", "openuvr_1_4194305_0", "game"]);
}

#[test]
fn a_dead_server_is_an_error_not_a_hang() {
    let Some(mut server) = PulseServer::start() else {
        return;
    };
    let sink = NullSink::create(Some(&server.address)).unwrap();
    let mut capture = record(&server, sink.name());
    let mut playback = play(&server, sink.name());
    blocks(&mut capture, 2);
    server.kill();
    let one_line = |error: AudioError| {
        let error = error.to_string();
        assert!(
            !error.contains('\n')
                && (error.contains("lost the connection")
                    || error.contains("the sound device is gone")),
            "{error}"
        );
    };
    let mut block = [0.0; FRAME * CHANNELS];
    let error = (0..1000).find_map(|_| capture.read(&mut block, SOON).err());
    one_line(error.expect("a lost connection"));
    // `wait` reports no error; the next query of the level does.
    let waited = playback.wait(Some(Duration::from_millis(50)));
    assert!(!waited.unwrap());
    one_line(playback.level().unwrap_err());
    one_line(playback.write(&block).unwrap_err());
    drop(sink);
    let error = Capture::open(Some(&server.address), &Settings::default());
    let error = error.err().expect("no server").to_string();
    assert!(error.contains("can't reach a sound server"), "{error}");
    assert!(error.contains("PULSE_SERVER"), "{error}");
}

#[test]
fn a_device_that_is_removed_or_unknown_is_an_error() {
    let Some((server, _turn)) = alone() else {
        return;
    };
    let sink = NullSink::create(Some(&server.address)).unwrap();
    let mut capture = record(&server, sink.name());
    let unknown = Capture::open(Some(&server.address), &of("gramophone"));
    let unknown = unknown.err().expect("no such device").to_string();
    assert!(unknown.contains("gramophone"), "{unknown}");
    let unknown = Playback::open(Some(&server.address), &of("gramophone"));
    assert!(unknown.err().unwrap().to_string().contains("gramophone"));
    drop(sink);
    let mut block = [0.0; FRAME * CHANNELS];
    let error = (0..1000).find_map(|_| capture.read(&mut block, SOON).err());
    let error = error.expect("a device that is gone").to_string();
    assert!(error.contains("choose another device"), "{error}");
}

#[test]
fn a_playback_reports_its_fill_level() {
    let Some((server, _turn)) = alone() else {
        return;
    };
    let mut playback = play(&server, "usual");
    let level = playback.level().unwrap();
    assert_eq!(level.dry_in, Duration::ZERO);
    assert!(
        level.block > Duration::ZERO && level.block <= Duration::from_millis(5),
        "{level:?}"
    );
    // The block lasts for 5 ms.
    let full = measured_without_stalls(5, Duration::from_millis(1), || {
        playback.write(&[0.0; FRAME * CHANNELS]).unwrap();
        let full = playback.level().unwrap().dry_in;
        match full.is_zero() {
            false => Ok(full),
            true => Err("nothing is left of the block".to_owned()),
        }
    });
    assert!(full <= duration_of(FRAME), "{full:?}");
    let played = (0..2000).any(|_| {
        playback.wait(Some(Duration::from_millis(10))).unwrap();
        playback.level().unwrap().dry_in.is_zero()
    });
    assert!(played, "it plays to the end");
    // Playback continues after an underrun.
    let mut capture = record(&server, "usual");
    measured_without_stalls(5, STALLED, || {
        write(&mut playback, &tone(4800));
        let samples = after_silence(&mut capture, 10);
        if jumps(&samples) == 0 {
            return Ok(());
        }
        until_silence(&mut capture);
        Err(format!("the tone has jumps: {:?}", capture.counters()))
    });
    playback.write(&tone(960)).unwrap();
    let dry = (0..2000).any(|_| {
        playback.wait(Some(Duration::from_millis(10))).unwrap();
        playback.level().unwrap().dry_in.is_zero()
    });
    assert!(dry, "{:?}", playback.level());
    let silent = (0..2000).any(|_| !loud(&blocks(&mut capture, 1).0));
    assert!(silent);
}

#[test]
fn a_waker_ends_a_playbacks_wait() {
    let Some((server, _turn)) = alone() else {
        return;
    };
    let mut capture = record(&server, "usual");
    let mut playback = play(&server, "usual");
    let mut second = vec![0.0; 48_000 * CHANNELS];
    let now = Some(Duration::ZERO);
    assert_eq!(
        capture.read(&mut second, now).unwrap(),
        AudioEvent::TimedOut
    );
    playback.waker().wake();
    assert!(playback.wait(None).unwrap());
    assert!(!playback.wait(now).unwrap());
    let waker = playback.waker();
    let other = std::thread::spawn(move || waker.wake());
    assert!(playback.wait(None).unwrap());
    other.join().unwrap();
}

#[test]
fn a_capture_of_the_default_sink_follows_it() {
    let Some((server, _turn)) = alone() else {
        return;
    };
    let headphones = "module-null-sink sink_name=headphones rate=48000 norewinds=1";
    let module = |server: &PulseServer| {
        let words = ["load-module"].into_iter().chain(headphones.split(' '));
        let number = server.pactl(&words.collect::<Vec<_>>());
        number.trim().to_owned()
    };
    let loaded = module(&server);
    let mut capture = Capture::open(Some(&server.address), &Settings::default()).unwrap();
    let mut named = record(&server, "usual");
    assert_eq!(capture.device(), "usual.monitor");
    let moves = |capture: &mut Capture| {
        let moved = (0..4000).find_map(|_| {
            blocks(capture, 1);
            capture.poll_device()
        });
        moved.expect("it follows in 20 s")
    };
    let hears = |capture: &mut Capture, sink: &str| {
        measured_without_stalls(5, STALLED, || {
            let mut playback = play(&server, sink);
            write(&mut playback, &tone(24_000));
            let samples = after_silence(capture, 20);
            drop(playback);
            until_silence(capture);
            let level = amplitude(&samples, PITCH);
            match level > 0.2 {
                true => Ok(()),
                false => Err(format!("{sink}: {level}")),
            }
        });
    };
    server.pactl(&["set-default-sink", "headphones"]);
    assert_eq!(moves(&mut capture), "headphones");
    assert_eq!(capture.device(), "headphones.monitor");
    hears(&mut capture, "headphones");
    // After `headphones` is removed, `usual` is the default sink again.
    server.pactl(&["unload-module", &loaded]);
    assert_eq!(moves(&mut capture), "usual");
    hears(&mut capture, "usual");
    // A capture of a named device does not move.
    module(&server);
    server.pactl(&["set-default-sink", "headphones"]);
    assert_eq!(moves(&mut capture), "headphones");
    blocks(&mut named, 20);
    assert_eq!(
        (named.device(), named.poll_device()),
        ("usual.monitor".to_owned(), None)
    );
    assert_eq!(capture.poll_device(), None, "reported once");
    drop(server);
    let mut block = [0.0; FRAME * CHANNELS];
    let error = (0..1000).find_map(|_| capture.read(&mut block, SOON).err());
    assert!(error.is_some(), "a server that is gone is an error");
}
