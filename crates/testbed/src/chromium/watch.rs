//! Observations of a page, with times on this machine's clock.

use anyhow::{Context as _, Result};
use openuvr_proto::time::Instant;
use serde::Serialize;
use serde_json::Value;

/// The bar code reader, shared with the gateway's tests.
pub(super) const BARCODE: &str = include_str!("../../../gateway/tests/chromium/barcode.js");

/// The script that is injected before the page's own script.
pub(super) const WATCH: &str = include_str!("../../assets/watch.js");

/// A script that returns the picture of the page, as a PNG in base64.
pub(super) const PICTURE: &str = "(() => { \
    const video = document.querySelector('#video'); \
    const canvas = document.createElement('canvas'); \
    [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight]; \
    canvas.getContext('2d').drawImage(video, 0, 0); \
    return canvas.toDataURL('image/png').split(',')[1]; })()";

/// A picture that was handed to the compositor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ComposedPicture {
    /// The frame's number in the bar code.
    pub frame: u32,
    /// When the application drew it, µs of `CLOCK_MONOTONIC`.
    pub drawn_us: u64,
    /// Number of key presses that the application had received.
    pub inputs: u16,
    /// When the picture was handed to the compositor (`presentationTime`).
    pub at: Instant,
    /// Number of pictures that the browser had passed to its compositor by this time (`presentedFrames`), including
    /// pictures that were replaced before they were reported to the page.
    pub presented: u64,
}

/// Frames decoded by the browser, and the time of the count, in milliseconds of an arbitrary clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Decoded {
    /// Number of frames.
    pub frames: f64,
    /// Time of the count, ms.
    pub at_ms: f64,
}

impl Decoded {
    /// Reads the count from the statistics of a video stream; `None` if they do not contain it.
    pub(super) fn of(video: &Value) -> Option<Decoded> {
        Some(Decoded {
            frames: video["framesDecoded"].as_f64()?,
            at_ms: video["timestamp"].as_f64()?,
        })
    }

    /// Frames per second between the counts `before` and `self`; `None` if no time has passed.
    pub fn rate_since(&self, before: &Decoded) -> Option<f64> {
        let seconds = (self.at_ms - before.at_ms) / 1e3;
        (seconds > 0.0).then(|| (self.frames - before.frames) / seconds)
    }
}

/// Observations of a page.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PageObservations {
    /// The time at which the page's clock was 0.
    pub began: Instant,
    /// Each frame once, in the order in which the frames were handed to the compositor.
    pub pictures: Vec<ComposedPicture>,
    /// For each key press: the time of the browser's event, and the time at which the event reached the page.
    pub keys: Vec<[Instant; 2]>,
    /// Number of pictures with an unreadable bar code.
    pub unreadable: u64,
    /// Number of pictures that were replaced before they could be read.
    pub replaced: u64,
    /// The browser's statistics of the page's streams.
    pub statistics: Statistics,
}

/// The browser's statistics of the streams that it receives (W3C, "Identifiers for WebRTC's Statistics API").
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Statistics {
    /// Decoded frames.
    pub decoded: u64,
    /// Dropped frames.
    pub dropped: u64,
    /// Lost RTP packets; negative with duplicates.
    pub packets_lost: i64,
    /// Retransmitted RTP packets.
    pub retransmitted: u64,
    /// NACKs sent.
    pub nacks: u64,
    /// Key frames requested.
    pub key_frames_asked: u64,
    /// The browser's own count of freezes. A freeze is a frame interval of at least three times the mean interval, and
    /// of at least the mean interval plus 150 ms.
    pub freezes: u64,
    /// Total decoding time, ms.
    pub decode_ms: f64,
    /// Mean delay in the jitter buffer, ms.
    pub jitter_buffer_ms: f64,
    /// Concealed audio samples, except those that were concealed by silence.
    pub concealed: u64,
    /// Concealment events.
    pub concealments: u64,
    /// Received audio samples.
    pub samples: u64,
}

/// A time in seconds on the browser's clock. The browser uses this machine's clock (`base::TimeTicks` on Linux is
/// `CLOCK_MONOTONIC`).
pub(super) fn instant(seconds: f64) -> Instant {
    Instant((seconds * 1e9) as i64)
}

/// The time `ms` milliseconds after `began`.
pub(super) fn later(began: Instant, ms: f64) -> Instant {
    Instant(began.0 + (ms * 1e6) as i64)
}

/// Tolerance for a page's clock. Its resolution is 100 µs if the page is not isolated, and NavigationStart is rounded.
const COARSE_NS: i64 = 200_000;

pub(super) fn is_between(at: Instant, before: Instant, after: Instant) -> bool {
    (before.0 - COARSE_NS..=after.0 + COARSE_NS).contains(&at.0)
}

impl PageObservations {
    /// Creates the observations from the data that the page's script has collected (`all`), and from the statistics
    /// `video` and `audio`, which may be null.
    pub(super) fn of(
        began: Instant,
        all: &Value,
        video: &Value,
        audio: &Value,
    ) -> Result<PageObservations> {
        let list = |name: &str| {
            let found = all[name].as_array();
            found.with_context(|| format!("the page has no list of {name}"))
        };
        let pictures = list("pictures")?.iter().filter_map(|picture| {
            Some(ComposedPicture {
                frame: u32::try_from(picture[0].as_u64()?).ok()?,
                drawn_us: picture[1].as_u64()?,
                inputs: u16::try_from(picture[2].as_u64()?).ok()?,
                at: later(began, picture[3].as_f64()?),
                presented: picture[5].as_u64()?,
            })
        });
        let keys = list("keys")?.iter().filter_map(|key| {
            let at = |place: usize| Some(later(began, key[place].as_f64()?));
            Some([at(0)?, at(1)?])
        });
        let mut pictures: Vec<ComposedPicture> = pictures.collect();
        pictures.sort_by_key(|picture| picture.at);
        // A still picture is sent repeatedly, with increasing quality. Only the first hand-over of a frame counts.
        pictures.dedup_by_key(|picture| picture.frame);
        Ok(PageObservations {
            began,
            keys: keys.collect(),
            unreadable: all["unreadable"].as_u64().unwrap_or(0),
            replaced: all["elsewhere"].as_u64().unwrap_or(0),
            statistics: Statistics::of(video, audio),
            pictures,
        })
    }
}

impl Statistics {
    fn of(video: &Value, audio: &Value) -> Statistics {
        let count = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
        let seconds = |name: &str| video[name].as_f64().unwrap_or(0.0);
        let each = |sum: &str, of: &str| 1e3 * seconds(sum) / seconds(of).max(1.0);
        let silent = count(audio, "silentConcealedSamples");
        Statistics {
            decoded: count(video, "framesDecoded"),
            dropped: count(video, "framesDropped"),
            packets_lost: video["packetsLost"].as_i64().unwrap_or(0),
            retransmitted: count(video, "retransmittedPacketsReceived"),
            nacks: count(video, "nackCount"),
            key_frames_asked: count(video, "pliCount") + count(video, "firCount"),
            freezes: count(video, "freezeCount"),
            decode_ms: each("totalDecodeTime", "framesDecoded"),
            jitter_buffer_ms: each("jitterBufferDelay", "jitterBufferEmittedCount"),
            concealed: count(audio, "concealedSamples").saturating_sub(silent),
            concealments: count(audio, "concealmentEvents"),
            samples: count(audio, "totalSamplesReceived"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_pages_data_is_converted_to_our_clock() {
        let began = instant(100.0);
        let all = json!({
            // Picture 8 precedes picture 7, because picture 7 took longer to read.
            "pictures": [[8, 1_016_000, 1, 32.5, null, 2], [7, 1_000_000, 0, 16.25, 15.0, 1],
                [8, 1_016_000, 1, 48.75, null, 3]],
            "keys": [[10.0, 10.5], ["no number", 1]],
            "unreadable": 2, "elsewhere": 3,
        });
        let video = json!({"framesDecoded": 10, "totalDecodeTime": 0.02, "packetsLost": -1,
            "pliCount": 1, "firCount": 1, "jitterBufferDelay": 1.0, "jitterBufferEmittedCount": 100});
        let audio = json!({"concealedSamples": 960, "silentConcealedSamples": 480});
        let watched = PageObservations::of(began, &all, &video, &audio).unwrap();
        let frames: Vec<u32> = watched
            .pictures
            .iter()
            .map(|picture| picture.frame)
            .collect();
        assert_eq!(frames, [7, 8]);
        assert_eq!(watched.pictures[0].at, Instant(100_016_250_000));
        assert_eq!(
            watched.keys,
            [[Instant(100_010_000_000), Instant(100_010_500_000)]]
        );
        assert_eq!((watched.unreadable, watched.replaced), (2, 3));
        let statistics = watched.statistics;
        assert!((statistics.decode_ms - 2.0).abs() < 1e-9);
        assert!((statistics.jitter_buffer_ms - 10.0).abs() < 1e-9);
        assert_eq!(
            (statistics.packets_lost, statistics.key_frames_asked),
            (-1, 2)
        );
        assert_eq!(statistics.concealed, 480);
        let none =
            PageObservations::of(began, &json!({"pictures": []}), &Value::Null, &Value::Null);
        assert!(none.is_err(), "no list of keys");
    }

    #[test]
    fn frames_are_counted_between_two_looks() {
        let at = |frames: u32, ms: f64| json!({"framesDecoded": frames, "timestamp": ms});
        let before = Decoded::of(&at(100, 5000.0)).unwrap();
        let after = Decoded::of(&at(160, 6000.0)).unwrap();
        assert_eq!(after.rate_since(&before), Some(60.0));
        assert_eq!(before.rate_since(&before), None);
        assert_eq!(Decoded::of(&Value::Null), None);
    }

    #[test]
    fn a_clock_that_is_not_ours_is_noticed() {
        let at = |ms: i64| Instant(ms * 1_000_000);
        assert!(is_between(at(5), at(4), at(6)));
        assert!(is_between(Instant(3_900_000), at(4), at(6)));
        assert!(!is_between(at(3), at(4), at(6)));
        assert!(!is_between(at(7), at(4), at(6)));
    }
}
