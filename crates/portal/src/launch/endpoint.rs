//! Where a session can be played, as its program says in one line of JSON.

use std::net::SocketAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The longest line that a session's program may say, in bytes; a guess, three times what is said.
pub const MAX_LINE: usize = 4096;

/// The longest text of a key, in bytes: twice what one of 32 bytes has in hexadecimal digits.
const MAX_KEY: usize = 128;

/// The longest path of a socket, in bytes (unix(7)).
const MAX_PATH: usize = 107;

/// Where a session can be played.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// Where its gateway answers the portal: `https://ADDRESS:PORT`, or `unix:PATH` on the portal's own machine.
    pub web: String,
    /// SHA-256 of the gateway's certificate, pairs of hexadecimal digits with colons between; empty where there is none.
    pub fingerprint: String,
    /// Where native clients are answered, by UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<SocketAddr>,
    /// The host's identity key as text, by which native clients know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What the program says at its end instead.
#[derive(Deserialize)]
struct EndNotice {
    why: String,
}

/// How the portal reaches a session's gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndpointKind<'a> {
    /// By HTTPS, at this host and port.
    Https(&'a str),
    /// Through a Unix socket.
    Socket(&'a Path),
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
    /// It is the line of a session that has ended.
    #[error("the session ended before it could be played: {0}")]
    Ended(String),
    /// It is no JSON, or lacks something.
    #[error("the session's program did not say where it can be played: {0}")]
    Json(#[from] serde_json::Error),
    /// It is neither an address nor a socket.
    #[error("the session's program is at no address of HTTPS, nor at a socket: {0:?}")]
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
        let line = &said[..end];
        let endpoint: Endpoint = serde_json::from_slice(line).map_err(|why| {
            match serde_json::from_slice::<EndNotice>(line) {
                Ok(end) => LineError::Ended(end.why),
                Err(_) => LineError::Json(why),
            }
        })?;
        if endpoint.kind().is_none() {
            return Err(LineError::Address(endpoint.web));
        }
        let word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let key = endpoint.key.as_deref().unwrap_or_default();
        if key.len() > MAX_KEY || !key.chars().all(word) {
            return Err(LineError::Key);
        }
        Ok(Some(endpoint))
    }

    /// How the portal reaches it; none: it has said something else.
    pub(crate) fn kind(&self) -> Option<EndpointKind<'_>> {
        let plain = |text: &str, more: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
            !text.is_empty() && text.chars().all(known)
        };
        if let Some(path) = self.web.strip_prefix("unix:") {
            let path = Some(path).filter(|of| of.len() <= MAX_PATH && plain(of, "/._-"))?;
            return Path::new(path)
                .is_absolute()
                .then(|| EndpointKind::Socket(Path::new(path)));
        }
        let authority = self.web.strip_prefix("https://")?;
        plain(authority, "[]:.-").then_some(EndpointKind::Https(authority))
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
        let local = b"{\"web\":\"unix:/tmp/ouvr-7/portal\",\"fingerprint\":\"\"}\n";
        let local = Endpoint::read(local).unwrap().unwrap();
        let socket = Path::new("/tmp/ouvr-7/portal");
        assert_eq!(local.kind(), Some(EndpointKind::Socket(socket)));
        for wrong in [
            "{\"web\":\"unix:portal\",\"fingerprint\":\"\"}\n",
            "{\"web\":\"unix:\",\"fingerprint\":\"\"}\n",
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
        let ended = b"{\"code\":1,\"session\":\"a\",\"why\":\"no display\"}\n";
        let why = Endpoint::read(ended).unwrap_err().to_string();
        assert_eq!(
            why,
            "the session ended before it could be played: no display"
        );
    }
}
