//! ffmpeg as a player without stream probing, as in `docs/clients.md`.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use openuvr_media::audio::goertzel::amplitude;
use openuvr_media::audio::tone::AMPLITUDE;
use openuvr_media::capture::pattern::Pattern;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SubscribeRequest;
use openuvr_proto::id::FrameId;
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use openuvr_proto::time;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_runtime::host::SoundCodec;

use crate::beside::nal_units;
use crate::support::STALLED;
use crate::support::skip::has_program;
use crate::support::stalls::measured_without_stalls;
use crate::{Players, SIZE};

/// Probes only one packet, which must be a complete picture.
const AT_ONCE: [&str; 6] = [
    "-probesize",
    "32",
    "-analyzeduration",
    "0",
    "-allowed_media_types",
    "video",
];

/// Minimum number of packets whose capture times are known, for the medians of both halves. A host that encodes only 15
/// frames per second sends 60 pictures during a copy of four seconds.
const MIN_KNOWN: usize = 20;

/// Whether ffmpeg and ffprobe are installed.
pub(crate) fn is_there() -> bool {
    (["ffmpeg", "ffprobe"].iter()).all(|program| has_program(program, "ffmpeg"))
}

/// Number of video frames in a file.
pub(crate) fn frames(file: &std::path::Path) -> usize {
    let out = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-select_streams",
            "v",
            "-show_entries",
            "packet=size",
            "-of",
            "csv=p=0",
        ])
        .arg(file)
        .output()
        .unwrap();
    String::from_utf8_lossy(&out.stdout).lines().count()
}

/// A recording with sound and picture on another machine, as in `docs/clients.md`. ffmpeg prints no warnings.
#[test]
fn ffmpeg_copies_both_tracks_without_a_warning() {
    if !is_there() {
        return;
    }
    for transport in ["tcp", "udp"] {
        // A starved reader's socket loses datagrams.
        measured_without_stalls(3, STALLED, || {
            let players = Players::new(&format!("copy-{transport}"));
            let file = players.rig.folder.path().join("recording.mkv");
            let out = Command::new("ffmpeg")
                .args([
                    "-loglevel",
                    "warning",
                    "-nostdin",
                    "-rtsp_transport",
                    transport,
                ])
                .args(["-i", &players.url(), "-t", "4", "-c", "copy"])
                // ffmpeg's parser loses the time of the first packet of each RTSP stream. This filter sets it.
                .args(["-bsf:v", "setts=pts=DTS"])
                .arg(&file)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            match out.status.success() && said.is_empty() {
                true => Ok(()),
                false => Err(format!("{transport}: {said}")),
            }
        });
    }
}

/// Capture times in seconds, by the hash of the content. `None` if the same content was captured several times.
#[derive(Default)]
struct Captured(HashMap<String, Option<f64>>);

impl Captured {
    fn note(&mut self, captured: time::Instant, bytes: &[u8]) {
        let hash = digest(&SHA256, bytes);
        let hash = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
        let entry = self.0.entry(hash.collect());
        let twice = entry.and_modify(|at| *at = None);
        twice.or_insert(Some(captured.0 as f64 / 1e9));
    }

    /// The delays of copied packets relative to their capture. The capture times of most packets must be known.
    fn offsets(&self, copied: &[(f64, String)]) -> Result<Vec<f64>, String> {
        let known = |(at, hash): &(f64, String)| Some(at - self.0.get(hash).copied()??);
        let offsets: Vec<f64> = copied.iter().filter_map(known).collect();
        let counts = (offsets.len(), copied.len());
        match counts.0 >= MIN_KNOWN && counts.0 * 2 > counts.1 {
            true => Ok(offsets),
            false => Err(format!("known and total packets: {counts:?}")),
        }
    }
}

/// Records frames as players get them, with each NAL unit after a start code of four bytes.
struct Frames {
    captured: Arc<Mutex<Captured>>,
    at: time::Instant,
    bytes: Vec<u8>,
}

impl Subscriber for Frames {
    fn start_frame(&mut self, _: time::Instant, frame: &Frame) {
        self.at = time::Instant(frame.header.captured);
        self.bytes.clear();
    }

    fn slice(&mut self, _: time::Instant, slice: &Slice<'_>) {
        for unit in nal_units(slice.bytes) {
            self.bytes.extend([0, 0, 0, 1]);
            self.bytes.extend(unit);
        }
    }

    fn end(&mut self, _: time::Instant) -> Progress {
        self.captured.lock().unwrap().note(self.at, &self.bytes);
        Progress::Sent(Departure::default())
    }

    fn dropped(&mut self, _: time::Instant, _: FrameId, _: Stage, _: DropCause) {}
}

/// The packets of a track in ffmpeg's `framehash` output: time in seconds, and hash.
fn copied(text: &str, media: &str) -> Vec<(f64, String)> {
    let of = |what: &str, stream: usize| {
        let name = format!("#{what} {stream}: ");
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name.as_str()).map(str::trim))
    };
    let mut streams = 0..2_usize;
    let stream = streams.find(|stream| of("media_type", *stream) == Some(media));
    let stream = stream.unwrap_or_else(|| panic!("no {media} in {text}"));
    let (ticks, of_seconds) = of("tb", stream).unwrap().split_once('/').unwrap();
    let tick = ticks.parse::<f64>().unwrap() / of_seconds.parse::<f64>().unwrap();
    let packets = text.lines().filter(|line| !line.starts_with('#'));
    let packets = packets.filter_map(|line| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [number, time, _, _, _, hash, ..] = fields[..] else {
            return None;
        };
        let at = time.parse::<f64>().unwrap() * tick;
        (number.parse() == Ok(stream)).then(|| (at, hash.to_owned()))
    });
    packets.collect()
}

fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Regression test: sound was 24 to 29 ms late, and jumped with the first report.
#[test]
fn sound_and_picture_are_synchronous_in_a_copy() {
    if !is_there() {
        return;
    }
    for transport in ["tcp", "udp"] {
        // A starved host streams fewer pictures, and a starved reader's socket loses datagrams.
        measured_without_stalls(3, STALLED, || {
            let pattern = Box::new(Pattern::open(SIZE, 60.0).unwrap());
            // At this pitch, no two payloads are equal for several seconds.
            let players = Players::sounding(&format!("sync-{transport}"), pattern, "tone:441.7");
            let pictures = Arc::<Mutex<Captured>>::default();
            let frames = Frames {
                captured: pictures.clone(),
                at: time::Instant(0),
                bytes: Vec::new(),
            };
            let request = SubscribeRequest {
                intake: Intake::Complete,
                ..SubscribeRequest::new(Role::Observer, "a writer")
            };
            let host = &players.rig.host;
            host.subscribe(request, Box::new(frames)).unwrap();
            let sound = Arc::<Mutex<Captured>>::default();
            let payloads = sound.clone();
            let heard = host.listen(SoundCodec::Opus, move |payload| {
                let mut payloads = payloads.lock().unwrap();
                payloads.note(payload.captured, payload.bytes);
                true
            });
            assert!(heard, "sound");
            let out = Command::new("ffmpeg")
                .args(["-loglevel", "error", "-nostdin"])
                .args(["-rtsp_transport", transport, "-i", &players.url()])
                .args(["-t", "4", "-c", "copy", "-bsf:v", "setts=pts=DTS"])
                .args(["-f", "framehash", "-hash", "sha256", "-"])
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&out.stdout);
            assert!(out.status.success(), "{out:?}");
            let pictures = pictures.lock().unwrap();
            let pictures = pictures.offsets(&copied(&text, "video"))?;
            let sound = sound.lock().unwrap();
            let sound = sound.offsets(&copied(&text, "audio"))?;
            // The medians of the first and the second half, because a sender report between them may shift a track.
            let halves = |all: &[f64]| {
                let (first, second) = all.split_at(all.len() / 2);
                [median(first), median(second)]
            };
            for (sound, picture) in halves(&sound).into_iter().zip(halves(&pictures)) {
                let apart = (sound - picture) * 1e3;
                if apart.abs() > 10.0 {
                    return Err(format!("{transport}: {apart:.1} ms apart"));
                }
            }
            Ok(())
        });
    }
}

#[test]
fn ffmpeg_begins_without_a_look_at_the_stream() {
    if !is_there() {
        return;
    }
    let players = Players::new("ffmpeg");
    let url = players.url();
    for _ in 0..5 {
        let out = Command::new("ffmpeg")
            .args(["-loglevel", "error", "-nostdin"])
            .args(AT_ONCE)
            .args(["-rtsp_transport", "tcp", "-i", &url, "-map", "0:v"])
            .args(["-c", "copy", "-frames:v", "20", "-f", "null", "-"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.is_empty(), "{said}");
    }
}

/// ffmpeg decodes the sound with its own implementation of RFC 3640.
#[test]
fn ffmpeg_decodes_aac_with_the_right_pitch() {
    if !is_there() {
        return;
    }
    for transport in ["tcp", "udp"] {
        // A stall leaves a gap in the tone, and a starved reader's socket loses datagrams.
        measured_without_stalls(3, STALLED, || {
            let pattern = Box::new(Pattern::open(SIZE, 60.0).unwrap());
            let name = format!("aac-{transport}");
            let players = Players::hearing(&name, pattern, "tone:1000", SoundCodec::Aac);
            let file = players.rig.folder.path().join("recording.mkv");
            let out = Command::new("ffmpeg")
                .args(["-loglevel", "error", "-nostdin"])
                .args(["-rtsp_transport", transport, "-i", &players.url()])
                .args(["-t", "3", "-map", "0:a", "-c", "copy"])
                .arg(&file)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            if !out.status.success() || !said.is_empty() {
                return Err(format!("{transport}: {said}"));
            }
            let what = "stream=codec_name,profile,sample_rate,channels";
            let probed = Command::new("ffprobe")
                .args(["-v", "error", "-show_entries", what, "-of", "csv=p=0"])
                .arg(&file)
                .output()
                .unwrap();
            let probed = String::from_utf8_lossy(&probed.stdout);
            assert_eq!(probed.trim(), "aac,LC,48000,2", "{transport}");
            let decoded = Command::new("ffmpeg")
                .args(["-v", "error", "-nostdin", "-i"])
                .arg(&file)
                .args(["-f", "f32le", "-"])
                .output()
                .unwrap();
            let samples: Vec<f32> = (decoded.stdout.chunks_exact(4))
                .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
                .collect();
            // Only the start of the sound depends on the time at which the player begins, so the last second is
            // complete.
            let second = 2 * 48_000;
            if samples.len() <= 2 * second {
                return Err(format!("{transport}: {} samples", samples.len()));
            }
            let last = &samples[samples.len() - second..];
            let [tone, other] = [1000.0, 1300.0].map(|pitch| amplitude(last, pitch));
            match (tone - AMPLITUDE).abs() < 0.03 && other < 0.01 {
                true => Ok(()),
                false => Err(format!(
                    "{transport}: {tone} of the tone, {other} of another"
                )),
            }
        });
    }
}
