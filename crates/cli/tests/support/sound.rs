//! Generating and analysing sound: a player for the sound server, and a client's recording.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use openuvr_media::audio::CHANNELS;
use openuvr_media::audio::goertzel::amplitude;
use openuvr_media::audio::tone::Sine;

/// Level of the players: 12 dB below full scale.
pub(crate) const LEVEL: f64 = 0.25;

/// Analysis window of 0.1 s, a whole number of periods of all test tones.
const WINDOW: usize = 4800;

/// One decibel as an amplitude ratio.
const DECIBEL: f64 = 1.122;

/// Plays a tone into a sink with `pacat` until it is dropped.
pub(crate) struct Player(Child);

impl Player {
    /// Plays a tone of `pitch` Hz into `sink` of the server at `address`.
    pub(crate) fn start(address: &str, sink: &str, pitch: f64) -> Player {
        let device = format!("--device={sink}");
        let mut child = Command::new("pacat")
            .args(["--raw", "--format=float32le", "--rate=48000"])
            .args(["--channels=2", "--latency-msec=200", &device])
            .env("PULSE_SERVER", address)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("pacat, of the package pulseaudio-utils");
        let mut input = child.stdin.take().expect("piped");
        let mut tone = Sine::new(pitch, LEVEL);
        // The thread ends with the player.
        std::thread::spawn(move || while input.write_all(&bytes(&mut tone)).is_ok() {});
        Player(child)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Records a sink with `parec` until it is dropped. A host's capture of the sink cannot be better than this recording.
pub(crate) struct Recorder(Child);

impl Recorder {
    /// Records `sink` of the server at `address` into `file`. [`samples`] can read this file, but skips its first
    /// eleven sample frames, as long as a WAV header.
    pub(crate) fn start(address: &str, sink: &str, file: &Path) -> Recorder {
        let device = format!("--device={sink}.monitor");
        let file = std::fs::File::create(file).expect("a file");
        let child = Command::new("parec")
            .args(["--format=s16le", "--rate=48000", "--channels=2"])
            .args(["--raw", "--latency-msec=20", &device])
            .env("PULSE_SERVER", address)
            .stdout(file)
            .stderr(Stdio::null())
            .spawn()
            .expect("parec, of the package pulseaudio-utils");
        Recorder(child)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The next second of a tone, for `pacat --raw --format=float32le`.
pub(crate) fn bytes(tone: &mut Sine) -> Vec<u8> {
    let mut samples = vec![0.0; 48_000 * CHANNELS];
    tone.fill(&mut samples);
    samples.iter().flat_map(|s| s.to_le_bytes()).collect()
}

/// The samples of a file of `--sound wav:FILE`, even if the file is unfinished; empty if there is no file.
pub(crate) fn samples(file: &Path) -> Vec<f32> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let samples = bytes.get(44..).unwrap_or_default();
    let whole = samples
        .chunks_exact(4)
        .flat_map(|frame| frame.chunks_exact(2));
    whole
        .map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / f32::from(i16::MAX))
        .collect()
}

/// Level of `pitch` in each 0.1 s window.
pub(crate) fn levels(samples: &[f32], pitch: f64) -> Vec<f64> {
    let windows = samples.chunks_exact(WINDOW * CHANNELS);
    windows.map(|window| amplitude(window, pitch)).collect()
}

/// Number of 0.1 s windows in which `pitch` has `level`, within a decibel.
pub(crate) fn tenths_at(samples: &[f32], pitch: f64, level: f64) -> usize {
    let right = |found: &&f64| (level / DECIBEL..level * DECIBEL).contains(*found);
    levels(samples, pitch).iter().filter(right).count()
}

/// The samples from the first to the last non-silent sample frame.
pub(crate) fn from_first_to_last(samples: &[f32]) -> &[f32] {
    let mut frames = samples.chunks_exact(CHANNELS);
    let loud = |frame: &[f32]| frame[0].abs() > 1e-3;
    let Some(first) = frames.position(loud) else {
        return &[];
    };
    let frames = samples.chunks_exact(CHANNELS);
    let last = frames.clone().rposition(loud).unwrap_or(first);
    &samples[first * CHANNELS..=last * CHANNELS + 1]
}

/// Number of sample frames in silences of at least a millisecond. Shorter zeros are part of a tone.
pub(crate) fn silent_frames(samples: &[f32]) -> usize {
    let frames = samples.chunks_exact(CHANNELS);
    let quiet: Vec<bool> = frames.map(|frame| frame[0].abs() <= 1e-3).collect();
    let runs = quiet.chunk_by(|a, b| a == b).filter(|run| run[0]);
    runs.map(<[bool]>::len).filter(|len| *len >= 48).sum()
}
