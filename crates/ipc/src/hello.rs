//! The first frame of each direction of a connection: the version of the sender's build.

use crate::frame::{PREFIX, prefix};

const NAME: &str = "openuvr ";

/// The version of this build. For a packaged build, it is the package's version, because packages of different commits
/// may have the same program version. For any other build, it is the program version.
pub const VERSION: &str = match option_env!("PACKAGE_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Maximum length of a greeting in bytes.
pub const MAX_LEN: usize = PREFIX + 64;

const _: () = assert!(
    PREFIX + NAME.len() + VERSION.len() <= MAX_LEN,
    "PACKAGE_VERSION is too long for a greeting"
);

/// The peer's build has another version.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "openuvr and its library in the application have different versions ({VERSION} in this process, {peer} in the \
         other): install both from one build, then start both again"
)]
pub struct OtherVersion {
    /// The peer's version, printable; `unknown` if it sent something other than a greeting.
    pub peer: String,
}

/// The bytes of the greeting.
#[must_use]
pub fn hello() -> Vec<u8> {
    let mut bytes = prefix(NAME.len() + VERSION.len(), 0).to_vec();
    bytes.extend_from_slice(NAME.as_bytes());
    bytes.extend_from_slice(VERSION.as_bytes());
    bytes
}

/// Checks the first datagram of the peer.
///
/// # Errors
/// [`OtherVersion`] if the datagram is not a greeting of this version.
pub fn check(datagram: &[u8]) -> Result<(), OtherVersion> {
    if datagram == hello() {
        return Ok(());
    }
    let text = datagram.get(PREFIX..).filter(|_| datagram.len() <= MAX_LEN);
    let text = text.and_then(|text| std::str::from_utf8(text).ok());
    let version = text.and_then(|text| text.strip_prefix(NAME));
    let version = version.filter(|version| version.chars().all(|c| c.is_ascii_graphic()));
    Err(OtherVersion {
        peer: version.unwrap_or("unknown").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_version_is_accepted() {
        assert_eq!(check(&hello()), Ok(()));
        let other = [&prefix(14, 0)[..], b"openuvr 0.0.9"].concat();
        let line = check(&other).unwrap_err().to_string();
        assert_eq!(
            line,
            format!(
                "openuvr and its library in the application have different versions ({VERSION} in this process, 0.0.9 \
                 in the other): install both from one build, then start both again"
            )
        );
        for bytes in [
            &b""[..],
            b"streaming\t640\t480",
            b"\x05\0\0\0\0\0\0\0openuvr \x1b[2J",
            &[0xff; 90],
        ] {
            assert_eq!(check(bytes).unwrap_err().peer, "unknown");
        }
    }
}
