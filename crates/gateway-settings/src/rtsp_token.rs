//! The secret part of the URL for video players.

/// Minimum length of a token (guess).
const MIN_LENGTH: usize = 8;
/// Maximum length of a token.
const MAX_LENGTH: usize = 64;

/// Whether the text can be the secret part of the URL for video players: 8 to 64 letters, digits, `-` and `_`.
#[must_use]
pub fn is_rtsp_token(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (MIN_LENGTH..=MAX_LENGTH).contains(&text.len()) && text.chars().all(fits)
}
