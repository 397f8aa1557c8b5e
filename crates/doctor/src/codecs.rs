//! Tests encoders, decoders and graphics devices. Each backend encodes or decodes a test picture. The default device of
//! each type is opened.

use openuvr_media::codec::Codec;
use openuvr_media::encode::{automatic, avcodec};
use openuvr_media::{decode, encode};

use super::finding::Finding;

/// The default encoder of `openuvr host`.
const USUAL: &str = "x264";

/// Opens the default device of each type that hardware encoders and decoders use.
pub(super) fn devices() -> Vec<Finding> {
    let finding = |kind: &str| match avcodec::try_device(kind) {
        Ok(()) => Finding::ok(kind, "libavutil can open a device of this type"),
        Err(why) => Finding::absent(
            kind,
            why.to_string(),
            driver(kind).unwrap_or("install the device's driver"),
        ),
    };
    avcodec::DEVICES.into_iter().map(finding).collect()
}

/// An encoder, and the result of its test pictures.
type Tried = (&'static encode::Backend, Result<encode::Probe, String>);

/// The encoder that `--encoder auto` selects. The selection uses the results in `tried`, because a second test of a
/// device would take as long as the first test.
fn selected(tried: &[Tried]) -> Finding {
    let probe = |backend: &encode::Backend| {
        let found = (tried.iter()).find(|(other, _)| other.name == backend.name);
        found.map_or_else(
            || Err(format!("{} was not tried", backend.name)),
            |(_, coded)| coded.clone(),
        )
    };
    let automatic::Choice {
        backend,
        reason,
        warning,
    } = automatic::choose(probe);
    // If there is no warning and the selected encoder does not work, no H.264 encoder works.
    if let Some(why) = warning.or_else(|| probe(backend).err()) {
        let (why, remedy) = split(&why);
        return Finding::better(automatic::NAME, why, remedy);
    }
    let name = backend.name;
    let why = match name == USUAL {
        true => reason,
        false => format!(
            "{reason}; the default of openuvr host remains {USUAL}, which delivers a picture slice by slice: compare \
             {name} and {USUAL} with openuvr bench encoder NAME"
        ),
    };
    Finding::ok(
        automatic::NAME,
        format!("--encoder auto selects {name}: {why}"),
    )
}

pub(super) fn encoders() -> Vec<Finding> {
    // A device may support only small or only large pictures, so it is tested with the size of an ordinary stream.
    let coded = |b: &encode::Backend| {
        let size = match b.hardware {
            true => automatic::SIZE,
            false => encode::PROBE_SIZE,
        };
        encode::probe_at(b, size).map_err(|why| why.to_string())
    };
    let tried: Vec<Tried> = encode::BACKENDS.iter().map(|b| (b, coded(b))).collect();
    let instead = tried
        .iter()
        .find(|(backend, coded)| compresses(backend.codec) && coded.is_ok())
        .map(|(backend, _)| backend.name);
    let finding = |(backend, coded): &Tried| match coded {
        Ok(coded) => Finding::ok(
            backend.name,
            format!(
                "{}; encoded a test picture into {} bytes in {:.1} ms",
                backend.about, coded.bytes, coded.millis
            ),
        ),
        Err(why) => {
            let (why, remedy) = split(why);
            if let Some(driver) = driver(backend.name) {
                return Finding::absent(backend.name, why, driver);
            }
            match (backend.name == USUAL, instead) {
                (true, None) => Finding::missing(backend.name, why, remedy),
                // The remedy may already end with this encoder.
                (true, Some(other)) if remedy.ends_with(other) => {
                    Finding::better(backend.name, why, remedy)
                }
                (true, Some(other)) => Finding::better(
                    backend.name,
                    why,
                    format!("{remedy}; or use openuvr host --encoder {other}"),
                ),
                (false, _) => Finding::better(backend.name, why, remedy),
            }
        }
    };
    let findings = tried.iter().map(finding);
    findings.chain([selected(&tried)]).collect()
}

pub(super) fn decoders() -> Vec<Finding> {
    let decoded = |b| decode::probe(b).map_err(|why| why.to_string());
    let tried: Vec<_> = decode::BACKENDS.iter().map(|b| (b, decoded(b))).collect();
    let usable = |codec: Codec| tried.iter().any(|(b, d)| b.codec == codec && d.is_ok());
    let finding =
        |(backend, decoded): &(&decode::Backend, Result<decode::Probe, String>)| match decoded {
            Ok(probe) => Finding::ok(
                backend.name,
                format!(
                    "{}; decoded a picture of {} bytes in {:.1} ms",
                    backend.about, probe.bytes, probe.millis
                ),
            ),
            Err(why) => {
                let (why, remedy) = split(why);
                if let Some(driver) = driver(backend.name) {
                    return Finding::absent(backend.name, why, driver);
                }
                // H.264 is the default codec of hosts.
                match backend.codec == Codec::H264 && !usable(Codec::H264) {
                    true => Finding::missing(backend.name, why, remedy),
                    false => Finding::better(backend.name, why, remedy),
                }
            }
        };
    tried.iter().map(finding).collect()
}

fn compresses(codec: Codec) -> bool {
    !matches!(codec, Codec::Null | Codec::Raw)
}

/// The requirements of a device, by its type or by the name of a backend that uses it, with Debian packages (main and
/// non-free). `None` for a backend without a device.
fn driver(name: &str) -> Option<&'static str> {
    // The last part of a backend's name is the type of its device, as in hevc_vaapi.
    Some(match name.rsplit('_').next().unwrap_or(name) {
        "nvenc" => "with an NVIDIA GPU: sudo apt install libnvidia-encode1",
        "cuvid" | "nvdec" | "cuda" => "with an NVIDIA GPU: sudo apt install libnvcuvid1",
        "qsv" => "with an Intel GPU: sudo apt install libmfx-gen1.2 intel-media-va-driver",
        "vaapi" => {
            "with an Intel or AMD GPU: sudo apt install va-driver-all; sudo usermod -aG render $USER"
        }
        "amf" => {
            "with an AMD GPU: install AMD's driver amf-amdgpu-pro, and a libavcodec built with AMF"
        }
        "vulkan" => {
            "with a GPU that supports Vulkan Video: use FFmpeg 7.1 or newer, and the newest driver"
        }
        "v4l2m2m" => {
            "on a board with a V4L2 codec: check that /dev/video* exists; sudo usermod -aG video $USER"
        }
        _ => return None,
    })
}

/// Splits a message of a backend into the problem and the remedy, which are separated by a colon or semicolon in one line.
fn split(why: &str) -> (String, String) {
    let parts = [why.rsplit_once(": "), why.rsplit_once("; ")];
    // The message is split at the last separator of either kind.
    match parts
        .into_iter()
        .flatten()
        .max_by_key(|(summary, _)| summary.len())
    {
        Some((summary, remedy)) => (summary.to_owned(), remedy.to_owned()),
        None => (why.to_owned(), "use another backend".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn the_backends_without_devices_code_and_decode() {
        for name in ["raw", "null"] {
            let all = [encoders(), decoders()].concat();
            let both: Vec<_> = all.iter().filter(|f| f.name == name).collect();
            assert_eq!(both.len(), 2, "{all:?}");
            assert!(both.iter().all(|f| f.level == Level::Ok), "{both:?}");
        }
    }

    #[test]
    fn the_selected_encoder_is_one_that_was_tried_and_works() {
        let tried = |working: &str| -> Vec<Tried> {
            let probe = encode::Probe {
                millis: 4.5,
                bytes: 900,
            };
            let coded = |b: &encode::Backend| match b.name == working {
                true => Ok(probe),
                false => Err("no device; install it".to_owned()),
            };
            encode::BACKENDS.iter().map(|b| (b, coded(b))).collect()
        };
        let device = selected(&tried("h264_vaapi"));
        let parts = ["selects h264_vaapi", "in 4.5 ms", "remains x264"];
        assert!(
            parts.iter().all(|part| device.summary.contains(part)),
            "{device:?}"
        );
        let none = selected(&tried("x264"));
        assert!(
            none.summary.contains("selects x264: no hardware"),
            "{none:?}"
        );
        assert_eq!(none.level, Level::Ok);
        let replaced = selected(&tried("openh264"));
        assert_eq!(replaced.level, Level::Better);
        let parts = ["x264 does not work", "selects openh264: no device"];
        assert!(
            parts.iter().all(|part| replaced.summary.contains(part)),
            "{replaced:?}"
        );
        assert_eq!(replaced.remedy.as_deref(), Some("install it"));
        // No encoder of H.264 works.
        let broken = selected(&tried("jpeg"));
        assert_eq!(broken.level, Level::Better, "{broken:?}");
    }

    #[test]
    fn a_message_is_split_into_problem_and_remedy() {
        let (summary, remedy) = split("no libx264 (found none): apt install libx264-164");
        assert_eq!(summary, "no libx264 (found none)");
        assert_eq!(remedy, "apt install libx264-164");
        let (summary, remedy) = split("can't: its device is missing; choose another");
        assert_eq!(summary, "can't: its device is missing");
        assert_eq!(remedy, "choose another");
    }
}
