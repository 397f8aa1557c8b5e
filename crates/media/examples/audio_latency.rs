//! Prints the audio latency from capture to playout without a network link, and the CPU usage of the host's and the
//! client's thread: `audio_latency [frame in µs] [seconds]` (defaults: 5000 30).
//!
//! A private PulseAudio server has two null sinks. Bursts of a tone are played to the first sink. As in a host and a
//! client, that sink's monitor is recorded, encoded, buffered, decoded, resampled and played to the second sink. The
//! monitor of the second sink is also recorded. The latency is the difference between the capture times of a burst's
//! first sample in the two recordings.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

#[path = "../tests/pulse_server/mod.rs"]
mod pulse_server;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::spawn;
use std::time::Duration;

use openuvr_clock::now;
use openuvr_media::audio::opus::{BITRATE, Encoder};
use openuvr_media::audio::pulse::{Capture, Playback};
use openuvr_media::audio::render::Renderer;
use openuvr_media::audio::tone::Sine;
use openuvr_media::audio::{
    AudioCapture, AudioError, AudioEvent, AudioPlayback, CHANNELS, Settings, Waker, duration_of,
    frames_in,
};
use openuvr_proto::id::PayloadSeq;
use openuvr_proto::recv::jitter_buffer::{Device, JitterBuffer, JitterStatus, PlayoutAction};
use openuvr_proto::recv::timed::TimedOutput;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::wire::timed::Payload;
use pulse_server::PulseServer;

/// Length and period of the bursts in sample frames. The period is longer than the latency.
const BURST: usize = 960;
const PERIOD: usize = 7200;

type Failure = Box<dyn Error + Send + Sync>;

/// A packet on its way from the host's thread to the client's thread.
struct Sent {
    seq: u64,
    captured: Instant,
    bytes: Vec<u8>,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let frame = Duration::from_micros(number(5000)?);
    let seconds = number(30)?;
    let server = PulseServer::start().ok_or("PulseAudio is needed: apt install pulseaudio")?;
    for sink in ["first", "second"] {
        let name = format!("sink_name={sink}");
        server.pactl(&[
            "load-module",
            "module-null-sink",
            &name,
            "rate=48000",
            "norewinds=1",
        ]);
    }
    let of = |device: &str| Settings {
        device: Some(device.to_owned()),
        frame,
        ..Settings::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let address = Some(server.address.as_str());
    let host = Capture::open(address, &of("first"))?;
    let client = Playback::open(address, &of("second"))?;
    let listener = Capture::open(address, &of("second"))?;
    let application = Playback::open(address, &of("first"))?;
    let (sender, receiver) = sync_channel(64);
    let (waker, ended) = (client.waker(), [(); 4].map(|()| stop.clone()));
    let [first, second, third, fourth] = ended;
    let host = spawn(move || send(host, frame, &sender, &waker, &first));
    let client = spawn(move || play(client, &receiver, &second));
    let listener = spawn(move || listen(listener, frame, &third));
    let application = spawn(move || burst(application, &fourth));
    std::thread::sleep(Duration::from_secs(seconds));
    stop.store(true, Ordering::Relaxed);
    let (captured, host_share) = joined(host)?;
    let (buffer, client_share) = joined(client)?;
    let played = joined(listener)?;
    joined(application)?;
    report(&captured, &played);
    let status: JitterStatus = buffer.status();
    println!("{status:?}");
    println!("{:?}", buffer.counters());
    println!("CPU usage: host {host_share:.2} %, client {client_share:.2} %");
    Ok(())
}

fn joined<T>(thread: std::thread::JoinHandle<Result<T, Failure>>) -> Result<T, Failure> {
    thread.join().map_err(|_| "a thread panicked")?
}

fn report(captured: &[Instant], played: &[Instant]) {
    let mut delays: Vec<f64> = Vec::new();
    for burst in captured.iter().skip(5) {
        let heard = played.iter().find(|played| **played > *burst);
        let delay = heard.map(|heard| heard.since(*burst));
        delays.extend(
            delay
                .filter(|d| *d < duration_of(PERIOD))
                .map(|d| d.as_secs_f64() * 1e3),
        );
    }
    delays.sort_by(f64::total_cmp);
    let at = |part: usize| delays.get((delays.len().max(1) - 1) * part / 100).copied();
    let [Some(least), Some(p50), Some(p99), Some(most)] = [at(0), at(50), at(99), at(100)] else {
        println!("no burst was recorded");
        return;
    };
    let bursts = delays.len();
    println!(
        "{bursts} of {} bursts: p50 {p50:.1} ms, p99 {p99:.1} ms, {least:.1} to {most:.1} ms",
        captured.len().saturating_sub(5)
    );
}

/// The CPU usage of this thread since `since`, in percent.
fn share(since: Instant) -> f64 {
    let used = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let used = used
        .split_whitespace()
        .next()
        .and_then(|n| n.parse::<u64>().ok());
    let passed = now().since(since);
    100.0 * Duration::from_nanos(used.unwrap_or(0)).as_secs_f64() / passed.as_secs_f64()
}

/// Finds the first sample of each burst.
#[derive(Default)]
struct Onsets {
    quiet: usize,
    found: Vec<Instant>,
}

impl Onsets {
    fn look(&mut self, block: &[f32], captured: Instant) {
        for (n, frame) in block.chunks(CHANNELS).enumerate() {
            if frame[0].abs() < 0.1 {
                self.quiet += 1;
                continue;
            }
            if self.quiet > PERIOD / 2 {
                self.found.push(captured + duration_of(n));
            }
            self.quiet = 0;
        }
    }
}

/// Acts as the application: writes bursts to the sink, about 10 ms before the device plays them.
fn burst(mut playback: Playback, stop: &AtomicBool) -> Result<(), Failure> {
    let mut sine = Sine::new(1000.0, 0.5);
    let mut place = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut block = [0.0; 120 * CHANNELS];
        sine.fill(&mut block);
        if place % PERIOD >= BURST {
            block.fill(0.0);
        }
        place += 120;
        playback.write(&block)?;
        loop {
            let ahead = playback
                .level()?
                .dry_in
                .saturating_sub(Duration::from_millis(10));
            if ahead.is_zero() {
                break;
            }
            playback.wait(Some(ahead))?;
        }
    }
    Ok(())
}

fn send(
    mut capture: Capture,
    frame: Duration,
    link: &SyncSender<Sent>,
    waker: &Waker,
    stop: &AtomicBool,
) -> Result<(Vec<Instant>, f64), Failure> {
    let mut encoder = Encoder::open(BITRATE, false)?;
    let mut block = vec![0.0; frames_in(frame) * CHANNELS];
    let mut onsets = Onsets::default();
    let (begun, mut seq) = (now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let AudioEvent::Captured(captured) = capture.read(&mut block, None)? else {
            continue;
        };
        onsets.look(&block, captured);
        let bytes = encoder.encode(&block)?.to_vec();
        link.send(Sent {
            seq,
            captured,
            bytes,
        })?;
        waker.wake();
        seq += 1;
    }
    Ok((onsets.found, share(begun)))
}

fn play(
    mut playback: Playback,
    link: &Receiver<Sent>,
    stop: &AtomicBool,
) -> Result<(JitterBuffer, f64), Failure> {
    let (mut buffer, mut renderer) = (JitterBuffer::new(), Renderer::open()?);
    let begun = now();
    while !stop.load(Ordering::Relaxed) {
        loop {
            match link.try_recv() {
                Ok(sent) => push(&mut buffer, &sent),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok((buffer, share(begun))),
            }
        }
        let until = feed(&mut buffer, &mut playback, &mut renderer)?;
        // Nothing wakes this thread at the end, so the wait has a limit.
        let longest = Duration::from_millis(100);
        let wait = until.map_or(longest, |until| until.since(now()).min(longest));
        playback.wait(Some(wait))?;
    }
    Ok((buffer, share(begun)))
}

fn push(buffer: &mut JitterBuffer, sent: &Sent) {
    let bytes = sent.bytes.as_slice();
    let samples = samples_of(bytes);
    let payload = Payload {
        seq: PayloadSeq(sent.seq),
        captured: PeerInstant(sent.captured.0),
        samples,
        bytes,
    };
    buffer.push(&TimedOutput::Payload(payload, now()));
}

/// Number of samples in a packet with one frame, from the low bits of the packet's configuration (RFC 6716, table 2,
/// CELT only).
fn samples_of(packet: &[u8]) -> u16 {
    let configuration = packet.first().map_or(0, |first| first >> 3);
    120 << (configuration & 3)
}

/// Writes all samples that the buffer has ready for the device. Returns the time at which to call this function again.
fn feed(
    buffer: &mut JitterBuffer,
    playback: &mut Playback,
    renderer: &mut Renderer,
) -> Result<Option<Instant>, AudioError> {
    loop {
        let level = playback.level()?;
        let device = Device {
            dry_in: level.dry_in,
            block: level.block,
        };
        let ratio = buffer.ratio();
        match buffer.next(now(), device) {
            PlayoutAction::Wait(until) => return Ok(until),
            next => {
                playback.write(renderer.render(&next, ratio)?)?;
            }
        }
    }
}

fn listen(
    mut capture: Capture,
    frame: Duration,
    stop: &AtomicBool,
) -> Result<Vec<Instant>, Failure> {
    let mut block = vec![0.0; frames_in(frame) * CHANNELS];
    let mut onsets = Onsets::default();
    while !stop.load(Ordering::Relaxed) {
        if let AudioEvent::Captured(captured) = capture.read(&mut block, None)? {
            onsets.look(&block, captured);
        }
    }
    Ok(onsets.found)
}
