//! Encoders and decoders: each backend codes a test picture.

use openuvr_media::codec::Codec;
use openuvr_media::{decode, encode};

use super::finding::Finding;

/// The default encoder of `openuvr host`.
const USUAL: &str = "x264";

pub(super) fn encoders() -> Vec<Finding> {
    let coded = |b| encode::probe(b).map_err(|why| why.to_string());
    let tried: Vec<_> = encode::BACKENDS.iter().map(|b| (b, coded(b))).collect();
    let instead = tried
        .iter()
        .find(|(backend, coded)| compresses(backend.codec) && coded.is_ok())
        .map(|(backend, _)| backend.name);
    let finding = |(backend, coded): &(&encode::Backend, Result<encode::Probe, String>)| match coded
    {
        Ok(coded) => Finding::ok(
            backend.name,
            format!(
                "{}; encoded a picture of {} into {} bytes in {:.1} ms",
                backend.about,
                encode::PROBE_SIZE,
                coded.bytes,
                coded.millis
            ),
        ),
        Err(why) => {
            let (why, remedy) = split(why);
            if let Some(driver) = driver(backend.name) {
                return Finding::absent(backend.name, why, driver);
            }
            match (backend.name == USUAL, instead) {
                (true, None) => Finding::missing(backend.name, why, remedy),
                (true, Some(other)) => Finding::better(
                    backend.name,
                    why,
                    format!("{remedy}; or use openuvr host --encoder {other}"),
                ),
                (false, _) => Finding::better(backend.name, why, remedy),
            }
        }
    };
    tried.iter().map(finding).collect()
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

/// The requirements of a backend that uses a device, as Debian packages (main and non-free); `None` for a backend
/// without a device.
fn driver(name: &str) -> Option<&'static str> {
    Some(match name {
        "h264_nvenc" => "with an NVIDIA GPU: sudo apt install libnvidia-encode1",
        "h264_cuvid" => "with an NVIDIA GPU: sudo apt install libnvcuvid1",
        "h264_qsv" => "with an Intel GPU: sudo apt install libmfx-gen1.2 intel-media-va-driver",
        "h264_v4l2m2m" => {
            "on a board with a V4L2 codec: check that /dev/video* exists; sudo usermod -aG video $USER"
        }
        "h264_vaapi" => "not supported yet",
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
    fn a_message_is_split_into_problem_and_remedy() {
        let (summary, remedy) = split("no libx264 (found none): apt install libx264-164");
        assert_eq!(summary, "no libx264 (found none)");
        assert_eq!(remedy, "apt install libx264-164");
        let (summary, remedy) = split("can't: its device is missing; choose another");
        assert_eq!(summary, "can't: its device is missing");
        assert_eq!(remedy, "choose another");
    }
}
