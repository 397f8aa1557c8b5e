//! A secret that a browser is given, and what is kept of it.

use aws_lc_rs::{digest, rand};

/// 32 random bytes; as text, 64 hexadecimal digits.
pub(crate) struct Secret([u8; 32]);

impl Secret {
    /// A new one.
    ///
    /// # Panics
    /// The system gives no random numbers.
    pub(crate) fn random() -> Secret {
        let mut bytes = [0; 32];
        #[expect(clippy::expect_used, reason = "without random numbers nothing is safe")]
        rand::fill(&mut bytes).expect("the system gives random numbers");
        Secret(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// As the browser has it.
    pub(crate) fn text(&self) -> String {
        hex(&self.0)
    }

    /// What is kept of a text that may be one: who reads the database can't log in with it.
    pub(crate) fn kept(text: &str) -> String {
        hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
