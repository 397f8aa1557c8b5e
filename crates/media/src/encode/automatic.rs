//! `--encoder auto`: selects the first hardware encoder that works on this machine, otherwise libx264.
//!
//! `auto` is not the default. A hardware encoder returns whole pictures, so the host sends nothing before a picture is
//! completely encoded, while libx264 delivers each slice as soon as it is encoded. No measurement of a hardware encoder
//! with OpenUVR exists yet (`docs/hardware.md`).

use std::sync::OnceLock;

use openuvr_proto::units::Size;

use super::{BACKENDS, Backend, Codec, EncodeError, Probe, probe_at};

/// The value of `--encoder` for the automatic selection.
pub const NAME: &str = "auto";

/// The size of the test pictures. It is the size of an ordinary stream, because a device may support only small
/// pictures.
pub const SIZE: Size = Size::new(1280, 720);

/// The selected encoder.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The encoder.
    pub backend: &'static Backend,
    /// The reason for the selection, in one line.
    pub reason: String,
}

/// The encoder that needs no device: libx264.
#[must_use]
pub fn software() -> &'static Backend {
    &BACKENDS[0]
}

/// The automatic selection: the first hardware encoder of H.264 that encodes test pictures of [`SIZE`], otherwise
/// [`software`]. Only H.264 is considered, because every client decodes it.
///
/// The first call in a process tries the encoders, and blocks for up to a second per device (guess). Later calls return
/// the same result.
#[must_use]
pub fn choice() -> &'static Choice {
    static CHOICE: OnceLock<Choice> = OnceLock::new();
    CHOICE.get_or_init(|| {
        choose(|backend| {
            let probe = probe_at(backend, SIZE);
            let report =
                |why: &EncodeError| tracing::debug!(encoder = backend.name, %why, "not usable");
            probe.inspect_err(report).ok()
        })
    })
}

/// The same selection as [`choice`], for a caller that tries the encoders itself. `works` returns the result of
/// [`probe_at`] with [`SIZE`], or `None` if the encoder failed.
#[must_use]
pub fn choose(works: impl Fn(&Backend) -> Option<Probe>) -> Choice {
    let hardware = |backend: &&Backend| backend.hardware && backend.codec == Codec::H264;
    for backend in BACKENDS.iter().filter(hardware) {
        if let Some(probe) = works(backend) {
            let reason = format!(
                "it encoded a test picture of {SIZE} in {:.1} ms",
                probe.millis
            );
            return Choice { backend, reason };
        }
    }
    Choice {
        backend: software(),
        reason: "no hardware encoder of H.264 works on this machine".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(works: impl Fn(&str) -> bool) -> Choice {
        let probe = Probe {
            millis: 3.2,
            bytes: 1000,
        };
        choose(|backend| works(backend.name).then_some(probe))
    }

    #[test]
    fn the_first_working_device_is_chosen_else_x264() {
        let first = chosen(|_| true);
        assert_eq!(first.backend.name, "h264_nvenc");
        assert!(first.reason.contains("3.2 ms"), "{}", first.reason);
        assert_eq!(
            chosen(|name| name.ends_with("vaapi")).backend.name,
            "h264_vaapi"
        );
        // HEVC encoders are not considered, because not every client decodes HEVC.
        assert_eq!(chosen(|name| name.starts_with("hevc")).backend.name, "x264");
        let none = chosen(|_| false);
        assert_eq!(none.backend.name, "x264");
        assert!(
            none.reason.contains("no hardware encoder"),
            "{}",
            none.reason
        );
    }
}
