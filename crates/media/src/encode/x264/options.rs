//! libx264's options by name: `preset`, `tune`, and all parameters of `x264_param_parse`.
//!
//! The host sets some parameters itself. An option is refused if it changes one of the [`OWNED`] values. The check
//! compares these values instead of the options' names, because several names can set the same parameter.

use super::super::options::{c_text, refused, x264_name};
use super::sys::{self, ParameterError};
use super::{EncodeError, EncoderOptions};

/// The reason why scaling matrices are refused.
const MATRICES: &str =
    "clients can't conceal lost slices of streams that use scaling matrices; remove it";

/// The option that selects libx264's preset.
pub(super) const PRESET: &str = "preset";
const TUNE: &str = "tune";

/// The tuning without look-ahead and B-frames. A requested tuning is combined with this tuning.
const LOW_DELAY: &str = "zerolatency";

/// `x264_preset_names` of x264.h.
const PRESETS: [&str; 10] = [
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
    "placebo",
];
/// `x264_tune_names` of x264.h.
const TUNINGS: [&str; 8] = [
    "film",
    "animation",
    "grain",
    "stillimage",
    "psnr",
    "ssim",
    "fastdecode",
    LOW_DELAY,
];

/// Options for the encoding of files. Some name a file that libx264 would write or read, `zones` names frames of a
/// file, and `pass` would make libx264 write or read `x264_2pass.log` in the working folder.
const FILES: [&str; 6] = [
    "stats",
    "pass",
    "dump-yuv",
    "opencl-clbin",
    "cqmfile",
    "zones",
];

/// A value that an option must not change, with the reason and the remedy.
struct Owned {
    value: fn(&sys::x264_param_t) -> i64,
    why: &'static str,
}

const fn owned(value: fn(&sys::x264_param_t) -> i64, why: &'static str) -> Owned {
    Owned { value, why }
}

const OWNED: &[Owned] = &[
    owned(
        |p| p.i_bframe.into(),
        "B-frames delay each picture by at least one frame; remove it",
    ),
    owned(
        |p| i64::from(p.rc.i_lookahead) + i64::from(p.i_sync_lookahead),
        "look-ahead delays each picture; remove it",
    ),
    owned(
        |p| p.rc.b_mb_tree.into(),
        "it needs look-ahead, which delays each picture; remove it",
    ),
    owned(
        |p| p.b_cabac.into(),
        "clients can conceal lost slices only in CAVLC streams; remove it",
    ),
    owned(
        |p| p.analyse.i_weighted_pred.into(),
        "clients can't conceal lost slices of streams that use weighted prediction; remove it",
    ),
    owned(|p| p.i_cqm_preset.into(), MATRICES),
    owned(
        |p| i64::from(p.b_interlaced) + i64::from(p.b_fake_interlaced),
        "the pictures are not interlaced; remove it",
    ),
    owned(
        |p| i64::from(p.i_keyint_max) ^ i64::from(p.i_scenecut_threshold),
        "the host requests key frames; use --key-frame-interval",
    ),
    owned(
        |p| p.b_intra_refresh.into(),
        "use --recovery intra-refresh and --refresh-interval",
    ),
    owned(
        |p| i64::from(p.i_threads) ^ i64::from(p.b_sliced_threads) << 16,
        "use --encoder-threads",
    ),
    owned(
        |p| {
            let slices = i64::from(p.i_slice_count) << 20;
            slices ^ i64::from(p.i_slice_max_mbs) ^ i64::from(p.i_slice_max_size) << 40
        },
        "use --slices",
    ),
    owned(
        |p| {
            let buffer = i64::from(p.rc.i_vbv_max_bitrate) ^ i64::from(p.rc.i_vbv_buffer_size);
            i64::from(p.rc.i_rc_method) << 32 ^ i64::from(p.rc.i_bitrate) ^ buffer << 8
        },
        "use --bitrate and --rate-control",
    ),
    owned(
        |p| p.rc.i_qp_constant.into(),
        "the host chooses the quantiser of each frame; use --bitrate",
    ),
    owned(
        |p| i64::from(p.i_fps_num) ^ i64::from(p.i_fps_den) << 32,
        "use --fps",
    ),
    owned(
        |p| p.b_vfr_input.into(),
        "a variable frame rate delays each picture by one frame; remove it",
    ),
    owned(|p| p.i_csp.into(), "use --chroma"),
    owned(
        |p| {
            let crop = &p.crop_rect;
            i64::from(crop.i_left | crop.i_top | crop.i_right | crop.i_bottom)
        },
        "the host sets the size of the picture; remove it",
    ),
    owned(
        |p| p.i_dpb_size.into(),
        "the host sets it for loss recovery; remove it",
    ),
    owned(
        |p| i64::from(p.b_annexb) ^ i64::from(p.b_repeat_headers) << 1 ^ i64::from(p.b_aud) << 2,
        "the protocol determines the format of the stream; remove it",
    ),
    owned(
        |p| i64::from(p.vui.b_fullrange) ^ i64::from(p.vui.i_colmatrix) << 8,
        "the host converts to BT.709 with limited range; remove it",
    ),
    owned(
        |p| p.i_log_level.into(),
        "the host reports errors itself; use --log",
    ),
    owned(
        |p| p.b_opencl.into(),
        "it is for look-ahead, which delays each picture; remove it",
    ),
];

/// The library's parameters for the requested preset and tuning. The default preset is the fastest preset.
pub(super) fn preset(
    library: &sys::Library,
    options: &EncoderOptions,
) -> Result<sys::x264_param_t, EncodeError> {
    let preset = one_of(
        PRESET,
        options.value(PRESET).unwrap_or("ultrafast"),
        &PRESETS,
    )?;
    let tune = one_of(TUNE, options.value(TUNE).unwrap_or(LOW_DELAY), &TUNINGS)?;
    let tune = match tune {
        LOW_DELAY => LOW_DELAY.to_owned(),
        other => format!("{other},{LOW_DELAY}"),
    };
    let parameters = library.preset(&c_text(PRESET, preset)?, &c_text(TUNE, &tune)?);
    parameters.ok_or_else(|| {
        EncodeError(format!(
            "libx264 has no preset {preset:?} with tune {tune:?}: install Debian's or Ubuntu's libx264-{}",
            sys::X264_BUILD
        ))
    })
}

/// Returns `value` if it is one of `names`. The library gets only known names, because it would report an unknown name
/// on the process's standard error.
fn one_of<'a>(option: &str, value: &'a str, names: &[&str]) -> Result<&'a str, EncodeError> {
    if names.contains(&value) {
        return Ok(value);
    }
    let why = format!("{value:?} is not one of {}", names.join(", "));
    Err(refused(option, &why))
}

/// Sets all options except `preset` and `tune`, which [`preset`] applies.
pub(super) fn apply(
    library: &sys::Library,
    options: &EncoderOptions,
    parameters: &mut sys::x264_param_t,
) -> Result<(), EncodeError> {
    let others = |(name, _): &(&str, &str)| ![PRESET, TUNE].contains(name);
    for (name, value) in options.iter().filter(others) {
        let parameter = x264_name(name);
        if FILES.contains(&parameter.as_str()) {
            let why = "it is for encoding files; remove it";
            return Err(refused(name, why));
        }
        // libx264 takes an unknown value as the name of a file with matrices, and reads this file later.
        if parameter == "cqm" {
            return Err(refused(name, MATRICES));
        }
        let before: Vec<i64> = OWNED
            .iter()
            .map(|owned| (owned.value)(parameters))
            .collect();
        library
            .set(parameters, &c_text(name, name)?, &c_text(name, value)?)
            .map_err(|error| {
                let why = match error {
                    ParameterError::Name => "libx264 has no such option".to_owned(),
                    ParameterError::Value => format!("libx264 does not accept the value {value:?}"),
                };
                refused(name, &format!("{why}; see x264 --fullhelp"))
            })?;
        let changed = OWNED
            .iter()
            .zip(before)
            .find(|(owned, before)| (owned.value)(parameters) != *before);
        if let Some((owned, _)) = changed {
            return Err(refused(name, owned.why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use openuvr_proto::units::Size;

    use super::super::{Settings, SliceLayout, parameters};
    use super::*;

    fn parsed(text: &str) -> Result<sys::x264_param_t, EncodeError> {
        let library = sys::Library::open(std::env::var_os("OPENUVR_X264")).expect("libx264");
        let settings = Settings::of(Size::new(1280, 720));
        let layout = SliceLayout::new(80, 45, 1, 1);
        parameters(&library, &settings, &layout, &text.parse()?)
    }

    #[test]
    fn options_of_the_papers_are_set() {
        // GamingAnywhere's encoder: its preset, motion search and references (MMSys 2013, section 6.1).
        let text = "preset=faster\ntune=zerolatency\nref=1\nme=dia\nmerange=16";
        let paper = parsed(text).expect("accepted");
        assert_eq!((paper.i_frame_reference, paper.analyse.i_me_range), (1, 16));
        assert_eq!(paper.analyse.i_me_method, 0, "dia");
        assert_eq!(paper.analyse.i_subpel_refine, 4, "of the preset faster");
        assert_eq!((paper.i_bframe, paper.b_cabac), (0, 0));
        let usual = parsed("").expect("no options");
        assert_eq!(usual.i_frame_reference, 1);
        assert_eq!(usual.analyse.i_subpel_refine, 0, "as in the settings");
        let deblocked = parsed("deblock=1,1").expect("accepted");
        assert_eq!(deblocked.i_deblocking_filter_alphac0, 1);
    }

    #[test]
    fn unchanged_values_of_the_host_are_accepted() {
        for text in [
            "bframes=0",
            "rc-lookahead=0",
            "cabac=0",
            "scenecut=0",
            "weightp=0",
        ] {
            assert!(parsed(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn refused_options_are_named_with_the_reason() {
        for (text, name, why) in [
            ("bframes=2", "bframes", "delay"),
            ("rc-lookahead=10", "rc-lookahead", "look-ahead"),
            ("sync-lookahead=3", "sync-lookahead", "look-ahead"),
            ("cabac=1", "cabac", "CAVLC"),
            ("weightp=2", "weightp", "weighted"),
            ("cqm=jvt", "cqm", "matrices"),
            ("cqm=/tmp/a", "cqm", "matrices"),
            ("keyint=30", "keyint", "--key-frame-interval"),
            ("intra-refresh=1", "intra-refresh", "--recovery"),
            ("threads=4", "threads", "--encoder-threads"),
            ("slices=4", "slices", "--slices"),
            ("bitrate=3000", "bitrate", "--bitrate"),
            ("crf=20", "crf", "--bitrate"),
            ("qp=20", "qp", "--bitrate"),
            ("fps=30", "fps", "--fps"),
            ("force-cfr=0", "force-cfr", "one frame"),
            ("crop-rect=0,0,8,8", "crop-rect", "size"),
            ("dump_yuv=/tmp/a", "dump_yuv", "files"),
            ("nodump-yuv=0", "nodump-yuv", "files"),
            ("no-stats=1", "no-stats", "files"),
            ("pass=1", "pass", "files"),
            ("refs2=1", "refs2", "no such option"),
            ("me=fast", "me", "\"fast\""),
            ("merange=far", "merange", "\"far\""),
            ("preset=warp", "preset", "\"warp\""),
            ("tune=game", "tune", "\"game\""),
        ] {
            let error = parsed(text).map(|_| ()).expect_err(text).to_string();
            let named = error.contains(&format!("option {name} is refused"));
            assert!(named && error.contains(why), "{text}: {error}");
        }
    }
}
