//! The secret part of a URL that grants access to the stream.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use aws_lc_rs::{constant_time, rand};
use openuvr_gateway_settings::is_rtsp_token;
use openuvr_runtime::store::{StoreError, read_text, write_whole};

/// The file in the host's folder.
const FILE: &str = "rtsp-token";

/// Length of a generated token: 120 bits.
const GENERATED_LENGTH: usize = 24;

/// Alphabet of a generated token; 32 characters, so that each carries five bits.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The secret part of a URL: 8 to 64 letters, digits, `-` and `_`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The token would be insecure, or not valid in a URL.
    #[error("expected a token of 8 to 64 letters, digits, - and _")]
    Form,
    /// The file cannot be read or written.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The file contains no token.
    #[error(
        "{0}: not a token (8 to 64 letters, digits, - and _); remove the file to get a new token"
    )]
    Content(String),
    /// The system provides no random numbers.
    #[error("the system provides no random numbers")]
    NoRandomness,
}

impl Token {
    /// The token stored in `folder`. It is created if there is none.
    ///
    /// # Errors
    /// [`TokenError`] if the file cannot be read or written or contains no token, or the system provides no random numbers.
    pub fn kept_in(folder: &Path) -> Result<Token, TokenError> {
        let path = folder.join(FILE);
        if let Some(text) = read_text(&path)? {
            return (text.trim().parse())
                .map_err(|_| TokenError::Content(path.display().to_string()));
        }
        let token = Token::random()?;
        write_whole(&path, format!("{}\n", token.0).as_bytes())?;
        Ok(token)
    }

    /// A new token.
    ///
    /// # Errors
    /// [`TokenError::NoRandomness`] if the system provides no random numbers.
    pub fn random() -> Result<Token, TokenError> {
        let mut bytes = [0; GENERATED_LENGTH];
        rand::fill(&mut bytes).map_err(|_| TokenError::NoRandomness)?;
        let letters = bytes.map(|byte| ALPHABET[usize::from(byte % 32)]);
        Ok(Token(
            letters.iter().map(|letter| char::from(*letter)).collect(),
        ))
    }

    /// Whether the text is the token. The comparison takes the same time for all texts of the token's length.
    #[must_use]
    pub fn is(&self, given: &str) -> bool {
        constant_time::verify_slices_are_equal(self.0.as_bytes(), given.as_bytes()).is_ok()
    }

    /// The token's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Token, TokenError> {
        match is_rtsp_token(text) {
            true => Ok(Token(text.to_owned())),
            false => Err(TokenError::Form),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_token_is_stored() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let made = Token::kept_in(folder).unwrap();
        assert_eq!(Token::kept_in(folder).unwrap(), made);
        assert!(made.is(made.as_str()) && made.as_str().len() == GENERATED_LENGTH);
        assert!(!made.is("") && !made.is(&made.as_str()[1..]));
        assert_ne!(Token::random().unwrap(), made);
        std::fs::write(folder.join(FILE), "no token\n").unwrap();
        let error = Token::kept_in(folder).unwrap_err().to_string();
        assert!(error.contains(FILE), "{error}");
    }

    #[test]
    fn characters_invalid_in_urls_are_rejected() {
        for text in [
            "short",
            "with space",
            "slash/slash",
            "ümlaut-ümlaut",
            &"x".repeat(65),
        ] {
            assert!(Token::from_str(text).is_err(), "{text}");
        }
        assert!(Token::from_str("my-Token_1").is_ok());
    }
}
