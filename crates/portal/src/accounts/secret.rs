//! A browser's secret, and its hash in the database.

use aws_lc_rs::{digest, rand};

/// 32 random bytes. Their text form has 64 hexadecimal digits.
pub(crate) struct Secret([u8; 32]);

impl Secret {
    /// A new secret.
    ///
    /// # Panics
    /// Panics if the system provides no random numbers.
    pub(crate) fn random() -> Secret {
        let mut bytes = [0; 32];
        #[expect(clippy::expect_used, reason = "without random numbers nothing is safe")]
        rand::fill(&mut bytes).expect("the system provides random numbers");
        Secret(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The text for the browser.
    pub(crate) fn text(&self) -> String {
        hex(&self.0)
    }

    /// The hash of a secret's text. The database stores it instead of the secret, so read access to the database does
    /// not allow a log-in.
    pub(crate) fn kept(text: &str) -> String {
        hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
