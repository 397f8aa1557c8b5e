//! Options of libavcodec that a configuration must not set, because the stream depends on them.

use super::super::options::refused;
use super::super::{EncodeError, EncoderOptions};

/// Options that delay pictures, each with the values that do not.
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

/// Options that the host sets itself, each with the alternative.
const OWNED: &[(&str, &str)] = &[
    ("b", "use --bitrate"),
    ("maxrate", "use --bitrate"),
    ("minrate", "use --bitrate"),
    ("bufsize", "use --bitrate"),
    ("g", "use --key-frame-interval"),
    ("keyint_min", "use --key-frame-interval"),
    ("threads", "use --encoder-threads"),
    ("time_base", "use --fps"),
    ("video_size", "the source determines it; remove it"),
    ("pixel_format", "the host determines it; remove it"),
    ("flags", "the protocol determines them; remove it"),
    ("flags2", "the protocol determines them; remove it"),
];

/// The harmless values of an option that can delay pictures; `None` for other options.
pub(super) fn delaying(name: &str) -> Option<&'static [&'static str]> {
    let rule = DELAYING.iter().find(|(other, _)| *other == name);
    rule.map(|(_, harmless)| *harmless)
}

/// Refuses options that the stream does not permit.
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
