//! Passwords, hashed by Argon2id with the library's default parameters (19 MiB of memory, two passes, one lane).

use std::sync::{Arc, Mutex, PoisonError};

use argon2::password_hash::phc::{Output, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use aws_lc_rs::rand;
use tokio::sync::Semaphore;

use super::Secret;

/// Minimum length in characters (NIST SP 800-63B, section 5.1.1.2: eight).
const MIN_PASSWORD: usize = 8;

/// Maximum length in bytes (a guess).
const MAX_PASSWORD: usize = 1024;

/// Number of concurrent hash computations. Each takes 19 MiB, and a processor core for about twenty milliseconds.
const CONCURRENCY: usize = 2;

/// Length of a salt in bytes (RFC 9106, section 3.1).
const SALT: usize = 16;

/// Why a password cannot be hashed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PasswordError {
    /// The password is too short or too long.
    #[error(
        "a password must have at least {MIN_PASSWORD} characters and at most {MAX_PASSWORD} bytes"
    )]
    Length,
    /// The library or the system failed.
    #[error("cannot hash the password: {0}")]
    Hash(argon2::password_hash::Error),
    /// The portal shuts down.
    #[error("cannot hash the password: the portal is shutting down")]
    Ends,
}

impl From<argon2::password_hash::Error> for PasswordError {
    fn from(why: argon2::password_hash::Error) -> PasswordError {
        PasswordError::Hash(why)
    }
}

pub(crate) fn hash(password: &str) -> Result<String, PasswordError> {
    hash_in(password, &mut Vec::new())
}

fn hash_in(password: &str, memory: &mut Vec<Block>) -> Result<String, PasswordError> {
    if password.chars().count() < MIN_PASSWORD || password.len() > MAX_PASSWORD {
        return Err(PasswordError::Length);
    }
    let mut salt = [0; SALT];
    let random = rand::fill(&mut salt);
    random.map_err(|_| argon2::password_hash::Error::RngFailure)?;
    let (algorithm, version) = (Algorithm::default(), Version::default());
    let params = Params::default();
    let mut output = [0; Params::DEFAULT_OUTPUT_LEN];
    let argon2 = Argon2::new(algorithm, version, params.clone());
    let computed = compute(&argon2, password.as_bytes(), &salt, &mut output, memory);
    computed.map_err(argon2::password_hash::Error::from)?;
    let hash = PasswordHash {
        algorithm: algorithm.ident(),
        version: Some(version.into()),
        params: (&params).try_into()?,
        salt: Some(Salt::new(&salt).map_err(argon2::password_hash::Error::from)?),
        hash: Some(Output::new(&output).map_err(argon2::password_hash::Error::from)?),
    };
    Ok(hash.to_string())
}

/// Whether `password` has this hash, which is in PHC string format; `None` if the hash is invalid.
fn matches(password: &str, hash: &str, memory: &mut Vec<Block>) -> Option<bool> {
    let hash = PasswordHash::new(hash).ok()?;
    let algorithm = Algorithm::try_from(hash.algorithm.as_str()).ok()?;
    let version = Version::try_from(hash.version?).ok()?;
    let argon2 = Argon2::new(algorithm, version, Params::try_from(&hash).ok()?);
    let (salt, expected) = (hash.salt?, hash.hash?);
    let mut output = vec![0; expected.len()];
    compute(&argon2, password.as_bytes(), &salt, &mut output, memory).ok()?;
    // The comparison takes constant time, according to the library.
    Some(Output::new(&output).ok()? == expected)
}

/// Computes a hash and reuses the memory block. Without reuse, the allocator would keep a block of 19 MiB for every
/// thread that has ever computed a hash.
fn compute(
    argon2: &Argon2<'_>,
    password: &[u8],
    salt: &[u8],
    output: &mut [u8],
    memory: &mut Vec<Block>,
) -> argon2::Result<()> {
    let blocks = argon2.params().block_count();
    if memory.len() < blocks {
        memory.resize(blocks, Block::new());
    }
    argon2.hash_password_into_with_memory(password, salt, output, &mut memory[..blocks])
}

/// A random initial password: 80 bits, without letters that look alike.
pub(crate) fn random_password() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let random = Secret::random();
    let letters = random.bytes().iter().take(16);
    letters
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect()
}

/// Hashes passwords with limited concurrency and reused memory.
pub(crate) struct Passwords {
    turns: Arc<Semaphore>,
    /// One block per concurrent computation, allocated on first use.
    memory: Arc<Mutex<Vec<Vec<Block>>>>,
    /// A hash for accounts that do not exist. The comparison with it takes the same time as for an existing account.
    dummy_hash: String,
}

impl Passwords {
    pub(crate) fn new() -> Result<Passwords, PasswordError> {
        Ok(Passwords {
            turns: Arc::new(Semaphore::new(CONCURRENCY)),
            memory: Arc::default(),
            dummy_hash: hash(&random_password())?,
        })
    }

    /// Whether the password matches the hash. Without a hash, the check takes the same time and returns false.
    pub(crate) async fn verify(&self, password: String, hash: Option<String>) -> bool {
        let hash = hash.filter(|hash| !hash.is_empty());
        let known = hash.is_some();
        let hash = hash.unwrap_or_else(|| self.dummy_hash.clone());
        let verified = self.in_turn(move |memory| {
            let fits = password.len() <= MAX_PASSWORD;
            let right = matches(if fits { &password } else { "" }, &hash, memory);
            right.unwrap_or(false) && fits
        });
        verified.await.unwrap_or(false) && known
    }

    /// The hash of a password, as computed by [`hash`].
    pub(crate) async fn hash(&self, password: String) -> Result<String, PasswordError> {
        let hashed = self.in_turn(move |memory| hash_in(&password, memory));
        hashed.await.unwrap_or(Err(PasswordError::Ends))
    }

    /// Runs `compute` on a blocking thread. The computation holds the permit until its end, even if no caller waits for
    /// the result.
    async fn in_turn<T: Send + 'static>(
        &self,
        compute: impl FnOnce(&mut Vec<Block>) -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.memory);
        let computed = tokio::task::spawn_blocking(move || {
            let lock = || all.lock().unwrap_or_else(PoisonError::into_inner);
            let mut memory = lock().pop().unwrap_or_default();
            let computed = compute(&mut memory);
            lock().push(memory);
            drop(turn);
            computed
        });
        computed.await.ok()
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

    #[tokio::test]
    async fn memory_is_taken_twice_and_kept() {
        let passwords = Arc::new(Passwords::new().unwrap());
        let hash = passwords.hash("correct horse".to_owned()).await.unwrap();
        let all: Vec<_> = (0..8)
            .map(|_| {
                let (passwords, hash) = (Arc::clone(&passwords), hash.clone());
                let right = async move {
                    let password_text = "correct horse".to_owned();
                    passwords.verify(password_text, Some(hash)).await
                };
                tokio::spawn(right)
            })
            .collect();
        for right in all {
            assert!(right.await.unwrap());
        }
        let memory = passwords.memory.lock().unwrap();
        assert!(memory.len() <= CONCURRENCY, "{}", memory.len());
        let blocks = Params::default().block_count();
        assert!(memory.iter().all(|of| of.len() == blocks));
    }

    #[test]
    fn hashes_are_those_of_the_library() {
        use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
        let hash = hash("correct horse").unwrap();
        let library = Argon2::default();
        assert!(
            library
                .verify_password(b"correct horse", hash.as_str())
                .is_ok()
        );
        let theirs = library.hash_password(b"correct horse").unwrap().to_string();
        let matched = |password| matches(password, &theirs, &mut Vec::new());
        assert_eq!(matched("correct horse"), Some(true));
        assert_eq!(matched("correct horsf"), Some(false));
        assert_eq!(matches("correct horse", "no hash", &mut Vec::new()), None);
    }

    #[test]
    fn short_and_endless_passwords_are_refused() {
        assert!(matches!(hash("short"), Err(PasswordError::Length)));
        assert!(hash(&"x".repeat(2000)).is_err());
        assert_eq!(random_password().len(), 16);
        assert_ne!(random_password(), random_password());
    }
}
