//! Clicks and flashes that the scene makes together: when each was heard at either end, and how late sound is
//! against the picture.
//!
//! Both sinks are recorded by this process, as a host records: the time of a click is that of its first loud
//! sample. The picture's times are those of the bar code in which the flash is counted.

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

use super::reader::Sighting;
use super::stats::Summary;
use crate::background::Background;

/// A click begins where a sample is as loud as this, a fifth of what the scene plays: what a codec spreads in
/// front of it is quieter.
const LOUD: f32 = 0.1;

/// … behind so much silence: half of what lies between two clicks.
const QUIET: usize = RATE as usize / 7;

/// Later than this a click is another one.
const LATEST: Duration = Duration::from_millis(200);

/// A flash and a click that are so far apart were not made together: a frame, and what a sound server keeps.
const TOGETHER: Duration = Duration::from_millis(100);

/// Finds where clicks begin.
#[derive(Debug, Default)]
struct Onsets {
    quiet: usize,
}

impl Onsets {
    /// The sample frames of `block` at which a click begins.
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

/// How many clicks are in these samples.
pub(crate) fn count(samples: &[f32]) -> usize {
    Onsets::default().look(samples).len()
}

/// Listens to a sink, until it is dropped.
#[derive(Debug)]
pub(crate) struct Ear {
    heard: Arc<Mutex<Vec<Instant>>>,
    _thread: Background,
}

impl Ear {
    /// Listens to the sink of this name at the sound server `server`.
    pub(crate) fn start(server: &str, sink: &str) -> Result<Ear> {
        let settings = Settings {
            device: Some(sink.to_owned()),
            ..Settings::default()
        };
        let mut capture = Capture::open(Some(server), &settings)?;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let there = Arc::clone(&heard);
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
                    // What is missing then is told: clicks that were not heard.
                    Err(_) => return,
                }
            }
        })?;
        Ok(Ear {
            heard,
            _thread: thread,
        })
    }

    /// When clicks were heard so far.
    pub(crate) fn heard(&self) -> Vec<Instant> {
        let heard = self.heard.lock();
        heard.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How late the clicks and flashes of a stream were.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Lateness {
    /// From the host's sink to the client's, ms.
    pub(crate) sound_ms: Vec<f64>,
    /// The same less what the flash took from its drawing to the client's window: above 0 sound is the later.
    pub(crate) offset_ms: Vec<f64>,
    /// From a flash's drawing to its click at the host's sink: how well they are made together.
    pub(crate) made_ms: Vec<f64>,
    /// Clicks of the host's sink that were not heard at the client's.
    pub(crate) unheard: usize,
}

impl Lateness {
    /// Of clicks at both sinks within `window`, and what was seen meanwhile.
    pub(crate) fn of(
        host: &[Instant],
        client: &[Instant],
        seen: &[Sighting],
        window: [Instant; 2],
    ) -> Lateness {
        let mut lateness = Lateness::default();
        let flashes = flashes(seen);
        let [from, to] = window;
        // The last one is to have the time to be heard.
        let measured = |at: &&Instant| (from..to).contains(*at) && to.since(**at) >= LATEST;
        for made in host.iter().filter(measured) {
            let heard = client.iter().find(|heard| **heard > *made);
            let late = heard.map(|heard| heard.since(*made));
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

    /// Puts those of another stream behind these.
    pub(crate) fn extend(&mut self, other: &Lateness) {
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
                "; against the picture {p50:+.1} ms ({min:+.1} to {max:+.1})"
            )?;
        }
        match self.unheard {
            0 => Ok(()),
            n => write!(f, "; {n} not heard"),
        }
    }
}

/// The first sighting of each flash, where the frame before it was seen, too: then it is the frame that was
/// drawn with it.
fn flashes(seen: &[Sighting]) -> Vec<Sighting> {
    let pairs = seen.windows(2);
    let flashed = pairs.filter(|pair| pair[0].inputs != pair[1].inputs);
    let next = flashed.filter(|pair| pair[0].frame.wrapping_add(1) == pair[1].frame);
    next.map(|pair| pair[1]).collect()
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// From a time in microseconds to another, ms; below 0 where that is earlier.
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
    fn a_click_begins_behind_silence_and_once() {
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
            // Frame 4 was not seen: of this flash it is not known when it was drawn.
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
