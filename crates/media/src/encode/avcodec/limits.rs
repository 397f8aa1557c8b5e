//! Options of libavcodec that a configuration must not set, because they would delay pictures or belong to the host.

use super::super::options::{refused, x264_name};
use super::super::{EncodeError, EncoderOptions};

/// Names of options, each with its accepted values.
type Accepted = &'static [(&'static str, &'static [&'static str])];

/// Names of options, each with the reason why it is refused, and with the remedy.
type Refused = &'static [(&'static str, &'static str)];

/// Options that can delay pictures, each with the values that do not delay pictures.
pub(super) const DELAYING: Accepted = &[
    ("bf", &["0"]),
    ("max_b_frames", &["0"]),
    ("b_adapt", &["0"]),
    ("b_strategy", &["0"]),
    ("b_depth", &["1"]),
    ("b_ref_mode", &["0", "disabled"]),
    ("rc-lookahead", &["0"]),
    ("rc_lookahead", &["0"]),
    ("look_ahead", &["0"]),
    ("look_ahead_depth", &["0"]),
    ("async_depth", &["1"]),
    ("delay", &["0"]),
    ("zerolatency", &["1"]),
    ("preanalysis", &["0"]),
    ("thread_type", &["slice"]),
];

/// Like [`DELAYING`], for the options of libx264 and libx265 in [`LISTS`].
const DELAYING_IN_LISTS: Accepted = &[
    ("bframes", &["0"]),
    ("rc-lookahead", &["0"]),
    ("sync-lookahead", &["0"]),
    ("sliced-threads", &["1"]),
    ("frame-threads", &["1"]),
    // Without this option, libx264 waits for the time of the next picture.
    ("force-cfr", &["1"]),
    ("frame-dup", &["0"]),
];

/// The options that select the rate control.
const RATE_CONTROLS: [&str; 2] = ["rc", "rc_mode"];

/// The accepted rate controls, in lower case. `bitrate` is the name in the encoder `libopenh264` of libavcodec.
const CONSTANT_BITRATE: [&str; 2] = ["cbr", "bitrate"];

const BITRATE: &str = "the host sets the bitrate; use --bitrate";
const QUALITY: &str = "a fixed or limited quality makes the bitrate ineffective; use --bitrate";
const KEY_FRAMES: &str = "the host requests key frames; use --key-frame-interval";
const THREADS: &str = "the host sets it; use --encoder-threads";
const FPS: &str = "the host sets it; use --fps";
const HOST: &str = "the host sets it; remove it";
const FILES: &str = "it is for encoding files; remove it";

/// Options that the host sets itself, options that fix or limit the quality, and options that name a file.
const OWNED: Refused = &[
    ("b", BITRATE),
    ("maxrate", BITRATE),
    ("minrate", BITRATE),
    ("bufsize", BITRATE),
    ("crf", QUALITY),
    ("crf_max", QUALITY),
    ("qp", QUALITY),
    ("qp_i", QUALITY),
    ("qp_p", QUALITY),
    ("cq", QUALITY),
    ("qmin", QUALITY),
    ("qmax", QUALITY),
    ("min_qp_i", QUALITY),
    ("min_qp_p", QUALITY),
    ("max_qp_i", QUALITY),
    ("max_qp_p", QUALITY),
    ("global_quality", QUALITY),
    ("g", KEY_FRAMES),
    ("keyint_min", KEY_FRAMES),
    ("threads", THREADS),
    ("time_base", FPS),
    ("video_size", HOST),
    ("pixel_format", HOST),
    ("flags", HOST),
    ("flags2", HOST),
    ("stats", FILES),
    ("passlogfile", FILES),
];

/// Like [`OWNED`], for the options of libx264 and libx265 in [`LISTS`].
const OWNED_IN_LISTS: Refused = &[
    ("bitrate", BITRATE),
    ("vbv-maxrate", BITRATE),
    ("vbv-bufsize", BITRATE),
    ("crf", QUALITY),
    ("crf-max", QUALITY),
    ("crf-min", QUALITY),
    ("qp", QUALITY),
    ("qpmin", QUALITY),
    ("qp-min", QUALITY),
    ("qpmax", QUALITY),
    ("qp-max", QUALITY),
    ("lossless", QUALITY),
    ("keyint", KEY_FRAMES),
    ("keyint-max", KEY_FRAMES),
    ("min-keyint", KEY_FRAMES),
    ("keyint-min", KEY_FRAMES),
    ("open-gop", KEY_FRAMES),
    ("threads", THREADS),
    ("lookahead-threads", THREADS),
    ("pools", THREADS),
    ("numa-pools", THREADS),
    ("fps", FPS),
    ("input-res", HOST),
    ("input-csp", HOST),
    ("crop-rect", HOST),
    ("annexb", HOST),
    ("repeat-headers", HOST),
    ("global-header", HOST),
    ("log", HOST),
    ("log-level", HOST),
    ("pass", FILES),
    ("stats", FILES),
    ("zones", FILES),
    ("zonefile", FILES),
    ("qpfile", FILES),
    ("dump-yuv", FILES),
    ("recon", FILES),
    ("csv", FILES),
    ("opencl-clbin", FILES),
    ("cqm", FILES),
    ("cqmfile", FILES),
    ("scaling-list", FILES),
    ("lambda-file", FILES),
    ("nalu-file", FILES),
    ("dhdr10-info", FILES),
    ("dolby-vision-rpu", FILES),
    ("analysis-save", FILES),
    ("analysis-load", FILES),
    ("analysis-reuse-file", FILES),
];

/// Options whose value is a list `NAME=VALUE:NAME=VALUE` of options of libx264 or libx265.
pub(super) const LISTS: [&str; 3] = ["x264-params", "x264opts", "x265-params"];

/// The option that selects a tuning.
const TUNE: &str = "tune";

/// The tuning of libx264 and libx265 without look-ahead and B-frames.
const LOW_DELAY: &str = "zerolatency";

/// The characters between tunings that libx264 combines (`x264_param_default_preset`).
const BETWEEN_TUNINGS: [char; 5] = [',', '.', '/', '-', '+'];

/// Refuses options of the encoder `encoder` that delay pictures, make the bitrate ineffective, or belong to the host.
///
/// # Errors
/// [`EncodeError`] with the name of the first refused option.
pub(super) fn check(encoder: &str, options: &EncoderOptions) -> Result<(), EncodeError> {
    for (name, value) in options.iter() {
        let why = match name {
            TUNE => tuning(encoder, value),
            list if LISTS.contains(&list) => listed(value),
            rate if RATE_CONTROLS.contains(&rate) => rate_control(value),
            _ => owned(OWNED, name).or_else(|| delay(DELAYING, name, value)),
        };
        if let Some(why) = why {
            return Err(refused(name, &why));
        }
    }
    Ok(())
}

/// Why an option of `all` is refused with any value.
fn owned(all: Refused, name: &str) -> Option<String> {
    let found = all.iter().find(|(other, _)| *other == name);
    found.map(|(_, why)| (*why).to_owned())
}

/// Why an option of `all` is refused with this value.
pub(super) fn delay(all: Accepted, name: &str, value: &str) -> Option<String> {
    let (_, harmless) = all.iter().find(|(other, _)| *other == name)?;
    (!harmless.contains(&value)).then(|| {
        format!(
            "the value {value:?} delays pictures; remove it, or use {}",
            harmless.join(" or ")
        )
    })
}

/// Why a rate control is refused.
fn rate_control(value: &str) -> Option<String> {
    let constant = CONSTANT_BITRATE.contains(&value.to_ascii_lowercase().as_str());
    (!constant).then(|| {
        format!("the value {value:?} does not keep the bitrate constant; remove it, or use cbr")
    })
}

/// Why a tuning is refused. A tuning of libx264 or libx265 replaces the host's tuning. libx264 combines tunings, and
/// libx265 takes only one. The tunings of other encoders do not delay pictures.
fn tuning(encoder: &str, value: &str) -> Option<String> {
    let low_delay = value.split(BETWEEN_TUNINGS).any(|one| one == LOW_DELAY);
    let instead = match encoder {
        "libx264" | "libx264rgb" if !low_delay => format!("{value},{LOW_DELAY}"),
        "libx265" if value != LOW_DELAY => LOW_DELAY.to_owned(),
        _ => return None,
    };
    Some(format!(
        "the value {value:?} delays pictures; remove it, or use {instead}"
    ))
}

/// Why a list of options is refused.
fn listed(list: &str) -> Option<String> {
    // libavcodec would read a separator between quotes as a part of a value.
    if list.contains(['\\', '\'']) {
        return Some("the host does not read quotes and backslashes; remove them".to_owned());
    }
    list.split(':').find_map(|entry| {
        let (name, value) = entry.split_once('=').unwrap_or((entry, "1"));
        let (name, value) = (name.trim(), value.trim());
        let parameter = x264_name(name);
        let value = match parameter == name.replace('_', "-") {
            true => value,
            false => "no",
        };
        let why = owned(OWNED_IN_LISTS, &parameter)
            .or_else(|| delay(DELAYING_IN_LISTS, &parameter, value))?;
        Some(format!("it contains {name}: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(encoder: &str, text: &str) -> Result<(), String> {
        let options: EncoderOptions = text.parse().expect("well-formed");
        check(encoder, &options).map_err(|why| why.to_string())
    }

    #[test]
    fn options_that_delay_or_belong_to_the_host_are_refused() {
        for text in [
            "bf=0",
            "delay=0",
            "preset=p4",
            "b_ref_mode=disabled",
            "rc=cbr",
            "rc_mode=CBR",
            "rc_mode=bitrate",
            "tune=hq",
        ] {
            assert_eq!(checked("h264_nvenc", text), Ok(()), "{text}");
        }
        for (text, why) in [
            (
                "bf=2",
                "option bf is refused: the value \"2\" delays pictures",
            ),
            ("rc-lookahead=8", "delays pictures"),
            ("thread_type=frame", "use slice"),
            ("b=3000000", "use --bitrate"),
            ("g=30", "use --key-frame-interval"),
            ("crf=20", "makes the bitrate ineffective"),
            ("qmin=30", "makes the bitrate ineffective"),
            ("global_quality=20", "makes the bitrate ineffective"),
            ("rc=constqp", "use cbr"),
        ] {
            let error = checked("h264_nvenc", text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn the_encoder_of_gaminganywhere_is_accepted() {
        // GamingAnywhere's settings for libx264 (MMSys 2013, section 6.1), by libavcodec's names.
        let text = "preset=faster\ntune=zerolatency\nrefs=1\nme_method=dia\nme_range=16";
        assert_eq!(checked("libx264", text), Ok(()));
        let text = "x264-params=ref=1:me=dia:merange=16:deblock=1,1:bframes=0";
        assert_eq!(checked("libx264", text), Ok(()));
    }

    #[test]
    fn a_tuning_with_a_delay_is_refused() {
        for text in ["tune=zerolatency", "tune=film,zerolatency"] {
            assert_eq!(checked("libx264", text), Ok(()), "{text}");
        }
        for (encoder, text, remedy) in [
            ("libx264", "tune=film", "use film,zerolatency"),
            ("libx264rgb", "preset=veryfast\ntune=psnr", "zerolatency"),
            ("libx265", "tune=grain", "or use zerolatency"),
            ("libx265", "tune=grain,zerolatency", "or use zerolatency"),
        ] {
            let error = checked(encoder, text).expect_err(text);
            assert!(error.contains("option tune is refused"), "{text}: {error}");
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn options_in_lists_are_checked() {
        for (text, why) in [
            ("x264-params=ref=2:bframes=3", "contains bframes: the value"),
            ("x264opts=rc_lookahead=9", "contains rc_lookahead"),
            ("x264opts=no-sliced-threads", "delays pictures"),
            ("x264opts=noforce-cfr=1", "delays pictures"),
            ("x265-params= bframes =3", "contains bframes"),
            ("x265-params=frame-threads=2", "delays pictures"),
            ("x265-params=crf=20", "makes the bitrate ineffective"),
            ("x265-params=log-level=info", "the host sets it"),
            ("x265-params=no-open-gop=0", "requests key frames"),
            ("x264-params=nodump-yuv=0", "for encoding files"),
            ("x264-params=psy-rd='1:bframes=3'", "quotes"),
        ] {
            let error = checked("libx264", text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        for text in ["x264-params=", "x265-params=aq-mode=1:ref=2"] {
            assert_eq!(checked("libx265", text), Ok(()), "{text}");
        }
    }
}
