//! Options of libavcodec that a configuration must not set, because they would delay pictures or belong to the host.

use super::super::options::refused;
use super::super::{EncodeError, EncoderOptions};

/// Options that can delay pictures, each with the values that do not delay pictures.
const DELAYING: &[(&str, &[&str])] = &[
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

/// Options that the host sets itself, each with the remedy for the error message.
const OWNED: &[(&str, &str)] = &[
    ("b", "use --bitrate"),
    ("maxrate", "use --bitrate"),
    ("minrate", "use --bitrate"),
    ("bufsize", "use --bitrate"),
    ("g", "use --key-frame-interval"),
    ("keyint_min", "use --key-frame-interval"),
    ("threads", "use --encoder-threads"),
    ("time_base", "use --fps"),
    ("video_size", "remove it"),
    ("pixel_format", "remove it"),
    ("flags", "remove it"),
    ("flags2", "remove it"),
];

/// The values of an option in [`DELAYING`] that do not delay pictures; `None` for other options.
pub(super) fn delaying(name: &str) -> Option<&'static [&'static str]> {
    let rule = DELAYING.iter().find(|(other, _)| *other == name);
    rule.map(|(_, harmless)| *harmless)
}

/// Refuses options that delay pictures or that the host sets itself.
///
/// # Errors
/// [`EncodeError`] with the name of the first refused option.
pub(super) fn check(options: &EncoderOptions) -> Result<(), EncodeError> {
    for (name, value) in options.iter() {
        if let Some((_, instead)) = OWNED.iter().find(|(other, _)| *other == name) {
            return Err(refused(name, &format!("the host sets it; {instead}")));
        }
        let harmful = delaying(name).filter(|harmless| !harmless.contains(&value));
        if let Some(harmless) = harmful {
            let why = format!(
                "the value {value:?} delays pictures; remove it, or use {}",
                harmless.join(" or ")
            );
            return Err(refused(name, &why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_delay_or_belong_to_the_host_are_refused() {
        let checked = |text: &str| check(&text.parse().unwrap());
        for text in ["bf=0", "delay=0", "preset=p4", "b_ref_mode=disabled"] {
            assert!(checked(text).is_ok(), "{text}");
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
        ] {
            let error = checked(text).expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
