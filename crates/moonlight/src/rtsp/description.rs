//! The host's description of its streams (RFC 8866), with the attributes that clients look for.

use crate::audio::surround_parameters;

use super::announce::{SEALS_CONTROL, SEALS_SOUND, SEALS_VIDEO};

/// Feature of the host: events of touch screens and pens (`LI_FF_PEN_TOUCH_EVENTS` of moonlight-common-c).
const TOUCH: u32 = 1;

/// The description.
///
/// Requests encryption from all clients that support it, including those that do not encrypt by default. The host then
/// never sends unencrypted data to such clients.
#[must_use]
pub(super) fn description() -> String {
    let seals = SEALS_CONTROL | SEALS_VIDEO | SEALS_SOUND;
    let mut lines = vec![
        format!("a=x-ss-general.featureFlags:{TOUCH}"),
        format!("a=x-ss-general.encryptionSupported:{seals}"),
        format!("a=x-ss-general.encryptionRequested:{seals}"),
        // A loss can be repaired by frames other than key frames.
        "a=x-nv-video[0].refPicInvalidation:1".to_owned(),
    ];
    let surround = surround_parameters().into_iter();
    lines.extend(surround.map(|parameters| format!("a=fmtp:97 surround-params={parameters}")));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_to_be_encrypted() {
        let text = description();
        assert!(text.contains("encryptionRequested:7\n"), "{text}");
        // Clients interpret these texts as offers of other codecs.
        assert!(!text.contains("AV1") && !text.contains("AAAAAU"), "{text}");
    }
}
