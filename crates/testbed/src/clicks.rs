//! Clicks and flashes that the scene emits together: the times at which each click was played at the host and at the
//! client, and the delay of sound relative to the picture (A/V offset).
//!
//! The recorder captures the sinks of host and client with the same code with which a host captures sound. The time of
//! a click is the time of its first loud sample. The times of a flash come from the bar code, which counts the flashes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use openuvr_media::audio::pulse::Capture;
use openuvr_media::audio::{
    AudioCapture as _, AudioEvent, CHANNELS, RATE, Settings, duration_of, frames_in,
};
use openuvr_proto::time::Instant;
use serde::Serialize;

use crate::background::Background;
use crate::reader::Sighting;
use crate::stats::Summary;

/// Threshold of a click's onset, a fifth of the scene's amplitude. A codec's pre-echo is quieter.
const LOUD: f32 = 0.1;

/// Minimum silence before an onset, in sample frames: just under half of the interval between two clicks.
const QUIET: usize = RATE as usize / 7;

/// Maximum time from a click at the host's sink to the same click at the client's sink. A later click at the client's
/// sink belongs to another click at the host's sink.
const LATEST: Duration = Duration::from_millis(200);

/// Maximum time between a flash and its click: a frame interval plus the sound server's buffer.
const TOGETHER: Duration = Duration::from_millis(100);

/// Detects onsets of clicks.
#[derive(Debug, Default)]
struct Onsets {
    quiet: usize,
}

impl Onsets {
    /// The indexes of the sample frames in `block` at which a click starts.
    fn look(&mut self, block: &[f32]) -> Vec<usize> {
        let mut found = Vec::new();
        for (n, frame) in block.chunks_exact(CHANNELS).enumerate() {
            if frame[0].abs() < LOUD {
                self.quiet += 1;
                continue;
            }
            if self.quiet > QUIET {
                found.push(n);
            }
            self.quiet = 0;
        }
        found
    }
}

/// The number of clicks in these samples.
pub fn count(samples: &[f32]) -> usize {
    Onsets::default().look(samples).len()
}

/// Records the times of the clicks in a sink, until it is dropped.
#[derive(Debug)]
pub struct ClickRecorder {
    times: Arc<Mutex<Vec<Instant>>>,
    _thread: Background,
}

impl ClickRecorder {
    /// Records the sink with this name at the sound server `server`.
    pub fn start(server: &str, sink: &str) -> Result<ClickRecorder> {
        let settings = Settings {
            device: Some(sink.to_owned()),
            ..Settings::default()
        };
        let mut capture = Capture::open(Some(server), &settings)?;
        let times = Arc::new(Mutex::new(Vec::new()));
        let there = Arc::clone(&times);
        let thread = Background::start("ear", move |stop| {
            let mut block = vec![0.0; frames_in(settings.frame) * CHANNELS];
            let mut onsets = Onsets::default();
            while !stop.load(Ordering::Relaxed) {
                match capture.read(&mut block, Some(Duration::from_millis(50))) {
                    Ok(AudioEvent::Captured(at)) => {
                        let found = onsets.look(&block).into_iter();
                        let found = found.map(|n| at + duration_of(n));
                        let mut there = there.lock().unwrap_or_else(PoisonError::into_inner);
                        there.extend(found);
                    }
                    Ok(AudioEvent::TimedOut) => {}
                    // The recorder ends without a message, because the report counts the missing clicks.
                    Err(_) => return,
                }
            }
        })?;
        Ok(ClickRecorder {
            times,
            _thread: thread,
        })
    }

    /// Times of the clicks so far.
    pub fn clicks(&self) -> Vec<Instant> {
        let times = self.times.lock();
        times.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Delays of a stream's clicks and flashes.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Lateness {
    /// The delay of each click from the host's sink to the client's sink, ms.
    pub sound_ms: Vec<f64>,
    /// The same delay minus the latency of the flash from drawing to the client's window, ms. If it is positive, the
    /// sound is later than the picture.
    pub offset_ms: Vec<f64>,
    /// The delay from the drawing of a flash to its click at the host's sink, ms. This is the scene's own offset.
    pub made_ms: Vec<f64>,
    /// Number of clicks at the host's sink without a counterpart at the client's sink.
    pub unheard: usize,
}

impl Lateness {
    /// Computes the delays from the clicks at both sinks and the sightings. Clicks at the host's sink count only within
    /// `window`, without its last 200 ms.
    pub fn of(
        host: &[Instant],
        client: &[Instant],
        seen: &[Sighting],
        window: [Instant; 2],
    ) -> Lateness {
        let mut lateness = Lateness::default();
        let flashes = flashes(seen);
        let [from, to] = window;
        // The last click must have enough time to arrive.
        let measured = |at: &&Instant| (from..to).contains(*at) && to.since(**at) >= LATEST;
        for made in host.iter().filter(measured) {
            let click = client.iter().find(|click| **click > *made);
            let late = click.map(|click| click.since(*made));
            let Some(late) = late.filter(|late| *late < LATEST).map(ms) else {
                lateness.unheard += 1;
                continue;
            };
            lateness.sound_ms.push(late);
            let apart = |flash: &&Sighting| between(flash.drawn_us, *made).abs();
            let nearest = flashes
                .iter()
                .min_by(|a, b| apart(a).total_cmp(&apart(b)))
                .filter(|flash| apart(flash) < ms(TOGETHER));
            if let Some(flash) = nearest {
                lateness.offset_ms.push(late - flash.latency_ms());
                lateness.made_ms.push(between(flash.drawn_us, *made));
            }
        }
        lateness
    }

    /// Appends the results of another stream.
    pub fn extend(&mut self, other: &Lateness) {
        self.sound_ms.extend(&other.sound_ms);
        self.offset_ms.extend(&other.offset_ms);
        self.made_ms.extend(&other.made_ms);
        self.unheard += other.unheard;
    }
}

impl std::fmt::Display for Lateness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Summary::of(&self.sound_ms) {
            Some(s) => write!(
                f,
                "sound, sink to sink: p50 {:.1} ms, p99 {:.1} ms, of {} clicks",
                s.p50, s.p99, s.count
            )?,
            None => write!(f, "sound, sink to sink: no click was heard")?,
        }
        if let Some(s) = Summary::of(&self.offset_ms) {
            let (p50, min, max) = (s.p50, s.min, s.max);
            write!(
                f,
                "; sound minus picture: p50 {p50:+.1} ms ({min:+.1} to {max:+.1})"
            )?;
        }
        match self.unheard {
            0 => Ok(()),
            n => write!(f, "; {n} not heard"),
        }
    }
}

/// The first sighting of each flash, if the preceding frame was seen, too. This ensures that the sighted frame is the
/// first frame with this flash.
fn flashes(seen: &[Sighting]) -> Vec<Sighting> {
    let pairs = seen.windows(2);
    let flashed = pairs.filter(|pair| pair[0].inputs != pair[1].inputs);
    let next = flashed.filter(|pair| pair[0].frame.wrapping_add(1) == pair[1].frame);
    next.map(|pair| pair[1]).collect()
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// The time from `us` (in microseconds) to `to`, in ms; negative if `to` is earlier.
fn between(us: u64, to: Instant) -> f64 {
    (to.0 as f64 / 1e3 - us as f64) / 1e3
}

#[cfg(test)]
mod tests {
    use openuvr_media::audio::tone::Sine;

    use super::*;

    const MS: i64 = 1_000_000;

    fn sighting(frame: u32, drawn: u64, seen: u64, inputs: u16) -> Sighting {
        Sighting {
            frame,
            drawn_us: drawn * 1000,
            seen_us: seen * 1000,
            inputs,
        }
    }

    #[test]
    fn a_click_starts_once_after_silence() {
        let mut samples = vec![0.0; 3 * 14_700 * CHANNELS];
        for click in samples.chunks_exact_mut(14_700 * CHANNELS) {
            Sine::new(1000.0, 0.5).fill(&mut click[9000 * CHANNELS..9480 * CHANNELS]);
        }
        assert_eq!(count(&samples), 3);
        let mut onsets = Onsets::default();
        let blocks = samples.chunks(240 * CHANNELS).enumerate();
        let found = blocks.flat_map(|(n, block)| {
            let found = onsets.look(block);
            found.into_iter().map(move |at| n * 240 + at)
        });
        let places: Vec<usize> = found.map(|at| at % 14_700 - 9000).collect();
        assert_eq!(places.len(), 3);
        assert!(places.iter().all(|place| *place < 4), "{places:?}");
    }

    #[test]
    fn sound_is_compared_with_the_flash_that_was_made_with_it() {
        let at = |ms: i64| Instant(ms * MS);
        let seen = [
            sighting(1, 984, 990, 0),
            sighting(2, 1000, 1008, 1),
            sighting(3, 1017, 1025, 1),
            // Frame 4 was not seen, so the drawing time of this flash is unknown.
            sighting(5, 1320, 1330, 2),
        ];
        let host = [at(1010), at(1316), at(1622), at(1928)];
        let client = [at(1032), at(1340)];
        let window = [at(900), at(1900)];
        let lateness = Lateness::of(&host, &client, &seen, window);
        assert_eq!(lateness.sound_ms, [22.0, 24.0]);
        assert_eq!(lateness.offset_ms, [14.0]);
        assert_eq!(lateness.made_ms, [10.0]);
        assert_eq!(lateness.unheard, 1, "the last is not of the window");
        let words = lateness.to_string();
        assert!(words.contains("p50 22.0 ms") && words.contains("+14.0 ms"));
        assert!(words.ends_with("1 not heard"), "{words}");
    }
}
