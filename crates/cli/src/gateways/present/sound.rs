//! The codec of the sound for video players and recordings.

use openuvr_media::audio::{AudioError, aac, opus};
use openuvr_runtime::host::SoundCodec;

/// Checks that this machine can encode the codec, if there is sound.
///
/// # Errors
/// Returns a one-line error if the codec's library is missing.
pub(super) fn check_codec(sound: bool, codec: SoundCodec) -> Result<(), AudioError> {
    match codec {
        SoundCodec::Aac if sound => aac::Encoder::open(opus::BITRATE).map(drop),
        // Without sound, no encoder is needed. The Opus encoder is opened by the host itself, also for its native
        // clients.
        SoundCodec::Aac | SoundCodec::Opus => Ok(()),
    }
}
