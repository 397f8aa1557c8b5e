//! Where a session can be played, as its program says in one line of JSON.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The longest line that a session's program may say, in bytes; a guess, three times what is said.
pub const MAX_LINE: usize = 4096;

/// The longest text of a key, in bytes: twice what one of 32 bytes has in hexadecimal digits.
const MAX_KEY: usize = 128;

/// Where a session can be played.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// The address of its gateway's page, `https://ADDRESS:PORT`: the page, and the control of the session.
    pub web: String,
    /// SHA-256 of the gateway's certificate, pairs of hexadecimal digits with colons between.
    pub fingerprint: String,
    /// Where native clients are answered, by UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<SocketAddr>,
    /// The host's identity key as text, by which native clients know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What is wrong with the line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is longer than [`MAX_LINE`].
    #[error("the session's program said more than {MAX_LINE} bytes without an end of the line")]
    Long,
    /// It did not come in time.
    #[error("the session's program said {0} bytes of other things before where it can be played")]
    Late(usize),
    /// It is no JSON, or lacks something.
    #[error("the session's program did not say where it can be played: {0}")]
    Json(#[from] serde_json::Error),
    /// It can't be the address of a page.
    #[error("the session's program is at no address of HTTPS: {0:?}")]
    Address(String),
    /// It can't be a key.
    #[error("the session's program said a key that is none")]
    Key,
}

impl Endpoint {
    /// Reads what a session's program has said so far; nothing if its line has no end yet.
    ///
    /// # Errors
    /// It is no such line.
    pub fn read(said: &[u8]) -> Result<Option<Endpoint>, LineError> {
        let Some(end) = said.iter().position(|byte| *byte == b'\n') else {
            return match said.len() > MAX_LINE {
                true => Err(LineError::Long),
                false => Ok(None),
            };
        };
        if end > MAX_LINE {
            return Err(LineError::Long);
        }
        let endpoint: Endpoint = serde_json::from_slice(&said[..end])?;
        let authority = endpoint.web.strip_prefix("https://");
        let plain = |c: char| c.is_ascii_alphanumeric() || "[]:.-".contains(c);
        if authority.is_none_or(|of| of.is_empty() || !of.chars().all(plain)) {
            return Err(LineError::Address(endpoint.web));
        }
        let word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let key = endpoint.key.as_deref().unwrap_or_default();
        if key.len() > MAX_KEY || !key.chars().all(word) {
            return Err(LineError::Key);
        }
        Ok(Some(endpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_line_with_an_address_counts() {
        let line =
            br#"{"web":"https://10.0.0.7:9443","fingerprint":"AB:CD","native":"10.0.0.7:9000"}"#;
        assert_eq!(Endpoint::read(line).unwrap(), None, "the line has no end");
        let whole = [line.as_slice(), b"\nmore"].concat();
        let read = Endpoint::read(&whole).unwrap().unwrap();
        assert_eq!(read.web, "https://10.0.0.7:9443");
        assert_eq!(read.native, Some("10.0.0.7:9000".parse().unwrap()));
        for wrong in [
            "{}\n",
            "{\"web\":\"http://a:1\",\"fingerprint\":\"\"}\n",
            "{\"web\":\"https://a/<script>\",\"fingerprint\":\"\"}\n",
            "running\n",
        ] {
            assert!(Endpoint::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(matches!(
            Endpoint::read(&vec![b'x'; MAX_LINE + 1]),
            Err(LineError::Long)
        ));
    }
}
