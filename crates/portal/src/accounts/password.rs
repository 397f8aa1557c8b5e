//! Passwords: Argon2id with the parameters of RFC 9106's second choice, as the library has them.

use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use tokio::sync::Semaphore;

use super::Secret;

/// The shortest password, in characters (NIST SP 800-63B, section 5.1.1.2: eight).
const MIN_PASSWORD: usize = 8;

/// The longest that is looked at, in bytes; a guess.
const MAX_PASSWORD: usize = 1024;

/// Hashes that are computed at a time: each takes 19 MiB, and a processor for some ten milliseconds.
const AT_A_TIME: usize = 2;

/// Why there is no hash.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PasswordError {
    /// It is too short or too long.
    #[error("a password has at least {MIN_PASSWORD} characters, and at most {MAX_PASSWORD} bytes")]
    Length,
    /// The library or the system failed.
    #[error("the password can't be hashed: {0}")]
    Hash(argon2::password_hash::Error),
}

/// What is kept of a password.
pub(crate) fn hash(password: &str) -> Result<String, PasswordError> {
    if password.chars().count() < MIN_PASSWORD || password.len() > MAX_PASSWORD {
        return Err(PasswordError::Length);
    }
    let hash = Argon2::default().hash_password(password.as_bytes());
    Ok(hash.map_err(PasswordError::Hash)?.to_string())
}

/// One that nobody guesses, for people who get their first one: 80 bits, without letters that look alike.
pub(crate) fn random_password() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let random = Secret::random();
    let letters = random.bytes().iter().take(16);
    letters
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect()
}

/// Compares passwords, a few at a time.
pub(crate) struct Passwords {
    turns: Arc<Semaphore>,
    /// What is compared with where there is no such account, so that it takes as long.
    nobody: String,
}

impl Passwords {
    pub(crate) fn new() -> Result<Passwords, PasswordError> {
        Ok(Passwords {
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
            nobody: hash(&random_password())?,
        })
    }

    /// Whether the password is that of this hash. Without a hash it takes as long, and is wrong.
    pub(crate) async fn verify(&self, password: String, hash: Option<String>) -> bool {
        let Ok(_turn) = Arc::clone(&self.turns).acquire_owned().await else {
            return false;
        };
        let known = hash.as_ref().is_some_and(|hash| !hash.is_empty());
        let hash = hash.filter(|hash| !hash.is_empty());
        let hash = hash.unwrap_or_else(|| self.nobody.clone());
        let verified = tokio::task::spawn_blocking(move || {
            let short = &password.as_bytes()[..password.len().min(MAX_PASSWORD)];
            let parsed = PasswordHash::new(&hash);
            parsed.is_ok_and(|hash| Argon2::default().verify_password(short, &hash).is_ok())
                && password.len() <= MAX_PASSWORD
        });
        verified.await.unwrap_or(false) && known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_password_of_an_account_is_right() {
        let passwords = Passwords::new().unwrap();
        let hash = hash("correct horse").unwrap();
        assert!(hash.starts_with("$argon2id$"));
        let verify = |password: &str, hash: Option<&str>| {
            passwords.verify(password.to_owned(), hash.map(str::to_owned))
        };
        assert!(verify("correct horse", Some(&hash)).await);
        assert!(!verify("correct horsf", Some(&hash)).await);
        assert!(!verify("correct horse", None).await);
        assert!(!verify("", Some("")).await);
        assert!(!verify(&"x".repeat(5000), Some(&hash)).await);
    }

    #[test]
    fn short_and_endless_passwords_are_refused() {
        assert!(matches!(hash("short"), Err(PasswordError::Length)));
        assert!(hash(&"x".repeat(2000)).is_err());
        assert_eq!(random_password().len(), 16);
        assert_ne!(random_password(), random_password());
    }
}
