//! Options of an encoder's library, by the library's own names, such as `preset`, `me` or `refs`.
//!
//! Only the library knows its options, so an option is checked when it is applied. [`check_options`] opens the encoder
//! once at the start of a host, so a wrong option causes an error at the start, not when the first client connects.
//!
//! [`check_options`]: super::check_options

use std::ffi::CString;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::EncodeError;

/// Maximum number of options (guess).
const MAX_OPTIONS: usize = 64;
/// Maximum length of a name in bytes (guess).
const MAX_NAME: usize = 64;
/// Maximum length of a value in bytes (guess).
const MAX_VALUE: usize = 1024;

/// Names and values of options, in the order in which they are applied. Each name occurs at most once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<(String, String)>", into = "Vec<(String, String)>")]
pub struct EncoderOptions(Vec<(String, String)>);

impl EncoderOptions {
    /// No options.
    pub const NONE: EncoderOptions = EncoderOptions(Vec::new());

    /// Whether there are no options.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the option `name`; `None` if the option is not set.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut all = self.iter();
        all.find(|(other, _)| *other == name)
            .map(|(_, value)| value)
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn first(&self, count: usize) -> EncoderOptions {
        EncoderOptions(self.0.iter().take(count).cloned().collect())
    }

    /// Adds an option. Replaces an earlier option of the same name.
    fn add(&mut self, name: &str, value: &str) -> Result<(), EncodeError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let named = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(plain);
        if !named || value.len() > MAX_VALUE || value.chars().any(char::is_control) {
            return Err(EncodeError(format!(
                "invalid encoder option {name:?} with the value {value:?}: write NAME=VALUE; a name has 1 to \
                 {MAX_NAME} letters, digits, - and _, and a value has up to {MAX_VALUE} bytes and no control characters"
            )));
        }
        self.0.retain(|(other, _)| other != name);
        if self.0.len() == MAX_OPTIONS {
            return Err(EncodeError(format!(
                "there are more than {MAX_OPTIONS} encoder options: remove some of them"
            )));
        }
        self.0.push((name.to_owned(), value.to_owned()));
        Ok(())
    }
}

/// Parses one `NAME=VALUE` per line. A later value of a name replaces an earlier value of the same name.
impl FromStr for EncoderOptions {
    type Err = EncodeError;

    fn from_str(text: &str) -> Result<EncoderOptions, EncodeError> {
        let mut options = EncoderOptions::NONE;
        for line in text.lines() {
            let Some((name, value)) = line.split_once('=') else {
                return Err(EncodeError(format!(
                    "the encoder option {line:?} has no value: write NAME=VALUE, such as preset=faster"
                )));
            };
            options.add(name, value)?;
        }
        Ok(options)
    }
}

impl TryFrom<Vec<(String, String)>> for EncoderOptions {
    type Error = EncodeError;

    fn try_from(all: Vec<(String, String)>) -> Result<EncoderOptions, EncodeError> {
        let mut options = EncoderOptions::NONE;
        for (name, value) in &all {
            options.add(name, value)?;
        }
        Ok(options)
    }
}

impl From<EncoderOptions> for Vec<(String, String)> {
    fn from(options: EncoderOptions) -> Vec<(String, String)> {
        options.0
    }
}

/// The error for the refused option `name`. `why` contains the reason and the remedy.
pub(super) fn refused(name: &str, why: &str) -> EncodeError {
    EncodeError(format!("the encoder option {name} is refused: {why}"))
}

/// The parameter that libx264 sets for the option `name`. libx264 replaces underscores with hyphens, and `no` or `no-`
/// before a name negates the value (`x264_param_parse`).
pub(super) fn x264_name(name: &str) -> String {
    let name = name.replace('_', "-");
    match name.strip_prefix("no") {
        Some(rest) => rest.strip_prefix('-').unwrap_or(rest).to_owned(),
        None => name,
    }
}

/// Converts a name or value of the option `name` for a C library.
pub(super) fn c_text(name: &str, text: &str) -> Result<CString, EncodeError> {
    // Such an error is not expected, because `EncoderOptions` refuses control characters.
    CString::new(text).map_err(|_| refused(name, "it contains a NUL character; remove it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_keep_their_order_and_the_last_value() {
        let options: EncoderOptions = "preset=faster\nme=dia\npreset=fast".parse().unwrap();
        let all: Vec<_> = options.iter().collect();
        assert_eq!(all, [("me", "dia"), ("preset", "fast")]);
        assert_eq!(options.value("me"), Some("dia"));
        assert_eq!(options.value("ref"), None);
        assert_eq!(options.first(1).iter().count(), 1);
        let value: EncoderOptions = "x264-params=a=1:b=2".parse().unwrap();
        assert_eq!(value.value("x264-params"), Some("a=1:b=2"));
        assert!("".parse::<EncoderOptions>().unwrap().is_empty());
    }

    #[test]
    fn names_of_x264_have_no_underscores_and_no_negation() {
        for name in ["dump-yuv", "dump_yuv", "no-dump-yuv", "nodump_yuv"] {
            assert_eq!(x264_name(name), "dump-yuv", "{name}");
        }
        assert_eq!(x264_name("crop-rect"), "crop-rect");
    }

    #[test]
    fn malformed_options_are_refused_with_their_text() {
        for text in ["preset", "=fast", "pre set=fast", "a=\u{7}", "ä=1"] {
            let why = text.parse::<EncoderOptions>().expect_err(text).to_string();
            assert!(why.contains("encoder option"), "{text}: {why}");
        }
        let many: Vec<_> = (0..=MAX_OPTIONS).map(|n| format!("o{n}=1")).collect();
        assert!(many.join("\n").parse::<EncoderOptions>().is_err());
        assert!(many[1..].join("\n").parse::<EncoderOptions>().is_ok());
    }
}
