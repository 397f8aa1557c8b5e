//! The choice of a sound backend, as parsed from a command line or a configuration file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A choice of a sound backend.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum SoundChoice {
    /// The sound server; no sound if there is no server.
    Auto,
    /// No sound.
    Off,
    /// This backend, which must work.
    Backend {
        /// Its name in the table of crate `media`.
        name: String,
        /// Its device; `None` selects the default device.
        device: Option<String>,
    },
}

impl From<String> for SoundChoice {
    fn from(words: String) -> SoundChoice {
        SoundChoice::parse(&words)
    }
}

impl From<SoundChoice> for String {
    fn from(choice: SoundChoice) -> String {
        choice.to_string()
    }
}

impl fmt::Display for SoundChoice {
    /// Formats the choice in the form that [`SoundChoice::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SoundChoice::Auto => f.write_str("auto"),
            SoundChoice::Off => f.write_str("off"),
            SoundChoice::Backend { name, device: None } => f.write_str(name),
            SoundChoice::Backend {
                name,
                device: Some(device),
            } => write!(f, "{name}:{device}"),
        }
    }
}

impl SoundChoice {
    /// Parses `auto`, `off`, or a backend's name, optionally followed by a colon and a device.
    #[must_use]
    pub fn parse(words: &str) -> SoundChoice {
        match words {
            "auto" => SoundChoice::Auto,
            "off" => SoundChoice::Off,
            words => {
                let (name, device) = words.split_once(':').unwrap_or((words, ""));
                SoundChoice::Backend {
                    name: name.to_owned(),
                    device: Some(device.to_owned()).filter(|device| !device.is_empty()),
                }
            }
        }
    }

    /// The backend and its device; `None` for no sound.
    #[must_use]
    pub fn backend(&self) -> Option<(&str, Option<&str>)> {
        match self {
            SoundChoice::Auto => Some(("pulse", None)),
            SoundChoice::Off => None,
            SoundChoice::Backend { name, device } => Some((name, device.as_deref())),
        }
    }

    /// Checks that the backend is in `names` or `own`. `own` lists the other valid words of the option.
    ///
    /// # Errors
    /// Returns one line that lists all valid words.
    pub fn check<'a>(
        &self,
        own: &[&'a str],
        names: impl Iterator<Item = &'a str>,
    ) -> Result<(), String> {
        let SoundChoice::Backend { name, .. } = self else {
            return Ok(());
        };
        let names: Vec<&str> = own.iter().copied().chain(names).collect();
        match names.contains(&name.as_str()) {
            true => Ok(()),
            false => {
                let names = names.join(", ");
                Err(format!(
                    "unknown sound backend \"{name}\": choose one of {names}"
                ))
            }
        }
    }

    /// The result if the backend cannot be opened for the reason `why`. If the choice was automatic, it is `Ok` with
    /// the message that there is no sound. Otherwise, it is an error.
    ///
    /// # Errors
    /// Returns one line if the choice was not automatic.
    pub fn fallback(&self, why: &str) -> Result<String, String> {
        match self {
            SoundChoice::Auto => Ok(format!("no sound: {why}")),
            _ => Err(why.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_and_its_device_are_parsed() {
        let parsed = |words| SoundChoice::parse(words);
        assert_eq!(parsed("auto").backend(), Some(("pulse", None)));
        assert_eq!(parsed("off").backend(), None);
        assert_eq!(parsed("null").backend(), Some(("null", None)));
        assert_eq!(parsed("tone:").backend(), Some(("tone", None)));
        let wav = parsed("wav:/tmp/a:b.wav");
        assert_eq!(wav.backend(), Some(("wav", Some("/tmp/a:b.wav"))));
        for words in ["auto", "off", "null", "wav:/tmp/a:b.wav"] {
            assert_eq!(parsed(words).to_string(), words);
        }
    }

    #[test]
    fn an_unknown_backend_lists_all_choices() {
        let check =
            |words| SoundChoice::parse(words).check(&["auto", "off"], ["pulse"].into_iter());
        assert_eq!(check("auto"), Ok(()));
        assert_eq!(check("pulse:usual"), Ok(()));
        let line = check("nonsense").expect_err("an error");
        assert!(line.contains("\"nonsense\": choose one of auto, off, pulse"));
    }

    #[test]
    fn an_explicit_backend_that_fails_is_an_error() {
        assert!(SoundChoice::Auto.fallback("no server").is_ok());
        assert!(SoundChoice::parse("pulse").fallback("no server").is_err());
    }
}
