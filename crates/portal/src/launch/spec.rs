//! The specification of a launch.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use aws_lc_rs::rand;
use serde::{Deserialize, Serialize};

/// Identifies one run of an application for a user. The identifier is random and exists before an engine is contacted,
/// so that a repeated request can be distinguished from a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; 16]);

/// The text is not a session identifier. A session identifier is a lower-case UUID with four hyphens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a session UUID, such as 6f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f5a6b")]
pub struct SessionIdError;

/// Positions of the hyphens (RFC 9562, section 4).
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl SessionId {
    /// Generates an identifier with 122 random bits (RFC 9562, section 5.4).
    ///
    /// # Panics
    /// Panics if the system provides no random numbers.
    #[must_use]
    pub fn random() -> SessionId {
        let mut bytes = [0; 16];
        #[expect(clippy::expect_used, reason = "without random numbers nothing is safe")]
        rand::fill(&mut bytes).expect("the system provides random numbers");
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        SessionId(bytes)
    }

    /// The 16 bytes of the identifier.
    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SessionId {
    type Err = SessionIdError;

    fn from_str(text: &str) -> Result<SessionId, SessionIdError> {
        let characters = text.as_bytes();
        if characters.len() != 36 || HYPHENS.iter().any(|at| characters[*at] != b'-') {
            return Err(SessionIdError);
        }
        let mut digits = Vec::with_capacity(32);
        for (at, character) in characters.iter().enumerate() {
            match character {
                b'0'..=b'9' => digits.push(character - b'0'),
                b'a'..=b'f' => digits.push(character - b'a' + 10),
                b'-' if HYPHENS.contains(&at) => {}
                _ => return Err(SessionIdError),
            }
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(SessionId(bytes))
    }
}

impl Serialize for SessionId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<SessionId, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A launch request to an engine. The local launcher ignores `millicores`, `memory` and `zone`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// The session's identifier.
    pub session: SessionId,
    /// The owner's account name.
    pub user: String,
    /// The application's name in the catalogue.
    pub application: String,
    /// Arguments of the session program, without its name.
    pub words: Vec<String>,
    /// Environment variables in addition to those that the engine sets.
    pub environment: BTreeMap<String, String>,
    /// Number of GPUs, or of GPU shares if the engine's unit is a share.
    pub gpus: u32,
    /// Guaranteed processor time in thousandths of a processor; 0 means the engine's default.
    pub millicores: u32,
    /// Memory limit in bytes; 0 means the engine's default.
    pub memory: u64,
    /// Where the engine places the session, in the engine's terms (a node label, a partition).
    pub zone: Option<String>,
    /// Time limit of the session. The engine enforces it.
    pub max_duration: Option<Duration>,
    /// Whether the application may write to all files of its image that its account may change. Engines without images
    /// ignore this.
    #[serde(default)]
    pub writable_root: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_read_as_it_was_written() {
        let id = SessionId::random();
        assert_eq!(id.to_string().parse(), Ok(id));
        let text = id.to_string();
        let wrong = [
            "",
            "12",
            "../../../../../../../../../../../etc",
            &text.replace('-', ""),
            &text.to_uppercase(),
            &text.replace('-', "a"),
        ];
        for wrong in wrong.into_iter().filter(|of| **of != *text) {
            assert_eq!(wrong.parse::<SessionId>(), Err(SessionIdError), "{wrong}");
        }
    }
}
