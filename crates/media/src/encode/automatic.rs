//! `--encoder auto`: selects the first hardware encoder that works on this machine, otherwise libx264. Without libx264,
//! it selects another software encoder.
//!
//! `auto` is not the default. A hardware encoder returns whole pictures, so the host sends nothing before a picture is
//! completely encoded. libx264 delivers each slice as soon as it is encoded. No measurement of a hardware encoder with
//! OpenUVR exists yet (`docs/hardware.md`).

use std::sync::OnceLock;

use openuvr_proto::units::Size;

use super::{BACKENDS, Backend, Codec, Probe, probe_at};

/// The value of `--encoder` for the automatic selection.
pub const NAME: &str = "auto";

/// The size of the test pictures. It is the size of an ordinary stream: a test with small pictures would also pass on a
/// device that supports only small pictures.
pub const SIZE: Size = Size::new(1280, 720);

/// The selected encoder.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The encoder.
    pub backend: &'static Backend,
    /// The reason for the selection, in one line.
    pub reason: String,
    /// If another software encoder replaces libx264: the reason, and the package to install, in one line.
    pub warning: Option<String>,
}

/// The result of [`choice`].
static CHOICE: OnceLock<Choice> = OnceLock::new();

/// The preferred software encoder: libx264.
#[must_use]
pub fn software() -> &'static Backend {
    &BACKENDS[0]
}

/// The encoder that replaces a failed hardware encoder of H.264: the first software encoder of H.264 for which `opens`
/// returns true. If there is none, the result is [`software`]; the attempt to open it then returns the error.
#[must_use]
pub fn replacement(mut opens: impl FnMut(&'static Backend) -> bool) -> &'static Backend {
    let mut all = BACKENDS
        .iter()
        .filter(|backend| backend.codec == Codec::H264 && !backend.hardware);
    all.find(|&backend| opens(backend)).unwrap_or(software())
}

/// The automatic selection is the first H.264 encoder that encodes test pictures of [`SIZE`], in this order: hardware
/// encoders, [`software`], other software encoders. Only H.264 is considered, because every client decodes it. If no
/// encoder works, [`software`] is selected, and its error appears when it is opened.
///
/// The first call in a process tries the encoders, and blocks for up to a second per device (guess). Later calls return
/// the same result.
#[must_use]
pub fn choice() -> &'static Choice {
    CHOICE.get_or_init(|| {
        choose(|backend| {
            probe_at(backend, SIZE).map_err(|why| {
                tracing::debug!(encoder = backend.name, %why, "not usable");
                why.to_string()
            })
        })
    })
}

/// The result of [`choice`] if it has been called in this process. Tries no encoder.
#[must_use]
pub fn previous_choice() -> Option<&'static Choice> {
    CHOICE.get()
}

/// The same selection as [`choice`], for a caller that tries the encoders itself. `works` returns the result of
/// [`probe_at`] with [`SIZE`], or the error in one line.
#[must_use]
pub fn choose(works: impl Fn(&Backend) -> Result<Probe, String>) -> Choice {
    let h264 = || {
        BACKENDS
            .iter()
            .filter(|backend| backend.codec == Codec::H264)
    };
    for backend in h264().filter(|backend| backend.hardware) {
        if let Ok(probe) = works(backend) {
            let reason = format!(
                "it encoded a test picture of {SIZE} in {:.1} ms",
                probe.millis
            );
            return Choice {
                backend,
                reason,
                warning: None,
            };
        }
    }
    let usual = software();
    let replacement = works(usual).err().and_then(|why| {
        let mut others = h264().filter(|backend| !backend.hardware && backend.name != usual.name);
        let other = others.find(|backend| works(backend).is_ok())?;
        let warning = format!(
            "{} does not work, so --encoder auto selects {}: {why}",
            usual.name, other.name
        );
        Some((other, warning))
    });
    let (backend, warning) = match replacement {
        Some((other, warning)) => (other, Some(warning)),
        None => (usual, None),
    };
    Choice {
        backend,
        reason: "no hardware encoder of H.264 works on this machine".to_owned(),
        warning,
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
        let missing = || "missing; apt install it".to_owned();
        choose(|backend| works(backend.name).then_some(probe).ok_or_else(missing))
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
        assert_eq!(none.warning, None, "the error of x264 is reported");
    }

    #[test]
    fn a_failed_device_gets_the_first_replacement_that_opens() {
        let of = |missing: &[&str]| replacement(|backend| !missing.contains(&backend.name)).name;
        assert_eq!(of(&[]), "x264");
        assert_eq!(of(&["x264"]), "openh264");
        assert_eq!(replacement(|_| false).name, "x264");
    }

    #[test]
    fn openh264_replaces_x264_with_one_warning() {
        let replaced = chosen(|name| ["openh264", "libx264"].contains(&name));
        assert_eq!(replaced.backend.name, "openh264");
        let warning =
            "x264 does not work, so --encoder auto selects openh264: missing; apt install it";
        assert_eq!(replaced.warning.as_deref(), Some(warning));
        let usual = chosen(|name| ["openh264", "x264"].contains(&name));
        assert_eq!((usual.backend.name, usual.warning), ("x264", None));
        let device = chosen(|name| ["openh264", "h264_vaapi"].contains(&name));
        assert_eq!((device.backend.name, device.warning), ("h264_vaapi", None));
    }
}
