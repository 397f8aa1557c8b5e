//! The endpoint of a session. The session's program prints it as one line of JSON.

use std::net::SocketAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Maximum length of the line in bytes; a guess, three times the usual length.
pub const MAX_LINE: usize = 4096;

/// Maximum length of a key's text in bytes: twice the length of 32 bytes in hexadecimal.
const MAX_KEY: usize = 128;

/// Maximum length of a socket path in bytes (unix(7)).
const MAX_PATH: usize = 107;

/// The endpoint of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// The gateway's address for the portal: `https://ADDRESS:PORT`, or `unix:PATH` for a gateway on the portal's
    /// machine.
    pub web: String,
    /// SHA-256 of the gateway's certificate, as pairs of hexadecimal digits separated by colons; empty if there is no
    /// certificate.
    pub fingerprint: String,
    /// UDP address for native clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<SocketAddr>,
    /// Text of the host's identity key. Native clients authenticate the host with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The line that the session program prints when it ends.
#[derive(Deserialize)]
struct EndNotice {
    why: String,
}

/// Transport to a session's gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndpointKind<'a> {
    /// HTTPS, at this host and port.
    Https(&'a str),
    /// Through a Unix socket.
    Socket(&'a Path),
}

/// Why the line is invalid.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The line is longer than [`MAX_LINE`].
    #[error("the session program printed more than {MAX_LINE} bytes without a line break")]
    Long,
    /// The program printed this many bytes, but no endpoint line.
    #[error("the session program printed {0} bytes, but no endpoint")]
    Late(usize),
    /// The session has ended; the line states the reason.
    #[error("the session ended during startup: {0}")]
    Ended(String),
    /// The line is not JSON, or lacks a member.
    #[error("the session program printed no endpoint: {0}")]
    Json(#[from] serde_json::Error),
    /// The gateway's address is neither an HTTPS address nor the path of a socket.
    #[error("the session program printed neither an HTTPS address nor a socket: {0:?}")]
    Address(String),
    /// The key is malformed.
    #[error("the session program printed an invalid key")]
    Key,
}

impl Endpoint {
    /// Parses the output of a session's program so far; `None` if the first line is incomplete.
    ///
    /// # Errors
    /// Returns an error if the line is invalid.
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

    /// The transport to the gateway; `None` if the address is invalid.
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
    fn only_a_complete_line_with_an_address_counts() {
        let line =
            br#"{"web":"https://10.0.0.7:9443","fingerprint":"AB:CD","native":"10.0.0.7:9000"}"#;
        assert_eq!(
            Endpoint::read(line).unwrap(),
            None,
            "the line is incomplete"
        );
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
        assert_eq!(why, "the session ended during startup: no display");
    }
}
