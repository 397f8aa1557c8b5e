//! AAC in addition to Opus, for listeners that request AAC. The stream collects captured samples until they fill an
//! access unit.

use openuvr_media::audio::aac::{Encoder, FRAME};
use openuvr_media::audio::{AudioError, CHANNELS, RATE};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;

use super::Payload;

/// Number of samples of an encoder block, all channels together.
const BLOCK: usize = FRAME as usize * CHANNELS;

/// The encoder, and the samples for its next block.
pub(super) struct AacStream {
    encoder: Encoder,
    pending: Vec<f32>,
}

impl AacStream {
    /// # Errors
    /// [`AudioError`] if the encoder cannot be opened.
    pub(super) fn open(bitrate: Bitrate) -> Result<AacStream, AudioError> {
        Ok(AacStream {
            encoder: Encoder::open(bitrate)?,
            pending: Vec::with_capacity(2 * BLOCK),
        })
    }

    /// Adds samples, the first of which was captured at `captured`. Passes each complete access unit to `each`.
    ///
    /// # Errors
    /// [`AudioError`] if the encoder fails.
    pub(super) fn add(
        &mut self,
        captured: Instant,
        samples: &[f32],
        mut each: impl FnMut(&Payload<'_>),
    ) -> Result<(), AudioError> {
        let waiting = (self.pending.len() / CHANNELS) as i64;
        // Capture time of the first pending sample.
        let mut begins = after(captured, -waiting);
        self.pending.extend_from_slice(samples);
        let mut taken = 0;
        while let Some(block) = self.pending.get(taken..taken + BLOCK) {
            let first = self.encoder.next();
            if let Some(unit) = self.encoder.encode(block)? {
                each(&Payload {
                    captured: after(begins, unit.first - first),
                    samples: FRAME,
                    bytes: unit.bytes,
                });
            }
            begins = after(begins, FRAME.into());
            taken += BLOCK;
        }
        self.pending.drain(..taken);
        Ok(())
    }
}

/// The time `frames` sample frames after `at`, or before it if `frames` is negative.
fn after(at: Instant, frames: i64) -> Instant {
    Instant(at.0 + frames * 1_000_000_000 / i64::from(RATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_units_follow_the_capture_of_their_samples() {
        // Blocks of 5 ms, the default. The length of an access unit, 1024, is not a multiple of 240.
        let (block, began) = (vec![0.25; 240 * CHANNELS], Instant(7_000_000_000));
        let mut stream = AacStream::open(openuvr_media::audio::opus::BITRATE).expect("an encoder");
        let mut units = Vec::new();
        for number in 0..200 {
            let captured = after(began, number * 240);
            let added = stream.add(captured, &block, |payload| {
                assert_eq!(payload.samples, FRAME);
                assert!(!payload.bytes.is_empty());
                units.push(payload.captured);
            });
            added.expect("encoded");
        }
        // One second has 46 whole blocks. The first one yields no access unit.
        assert_eq!(units.len(), 45);
        for (number, captured) in (-1..).zip(units) {
            let expected = after(began, number * i64::from(FRAME));
            let error = (captured.0 - expected.0).abs();
            assert!(error < 10, "{number}: {error} ns");
        }
    }
}
