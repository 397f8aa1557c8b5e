//! The samples of a track: times and bytes.

/// Time scale of video in Hz, which is its RTP clock rate.
pub(super) const VIDEO_RATE: u32 = 90_000;

/// Time scale of sound in Hz: the sampling rate. Opus always counts samples at 48 kHz.
pub(super) const SOUND_RATE: u32 = 48_000;

/// The tracks, by their numbers in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Track {
    Video = 1,
    Sound = 2,
}

/// One sample of a track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    /// Ticks since the start of the recording.
    pub(super) at: u64,
    /// Ticks.
    pub(super) duration: u32,
    pub(super) bytes: u32,
    pub(super) key: bool,
}

/// A track's part of a fragment.
#[derive(Debug, Default)]
pub(super) struct TrackFragment {
    pub(super) samples: Vec<Sample>,
    pub(super) data: Vec<u8>,
}

impl TrackFragment {
    pub(super) fn push(&mut self, at: u64, duration: u64, key: bool, bytes: &[u8]) {
        let cut = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        self.samples.push(Sample {
            at,
            duration: u32::try_from(duration).unwrap_or(u32::MAX),
            bytes: cut(bytes.len()),
            key,
        });
        self.data.extend_from_slice(bytes);
    }

    /// Duration in ticks.
    pub(super) fn span(&self) -> u64 {
        match (self.samples.first(), self.samples.last()) {
            (Some(first), Some(last)) => last.at + u64::from(last.duration) - first.at,
            _ => 0,
        }
    }
}
