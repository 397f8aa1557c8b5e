//! Stateless cookies. With a cookie, a client proves that it receives datagrams at its address, before the host does
//! work for it.
//!
//! A cookie proves only the return path, and neither identity nor freshness. The host stores no state for it (compare
//! RFC 9147, section 5.1).
//!
//! ```text
//!  0        4                   20
//!  | bucket | tag                |    tag = first 16 bytes of
//!  | u32 LE | 16 bytes           |    HMAC-SHA256(key, "openuvr cookie" path nonce bucket)
//! ```

use std::time::Duration;

use aws_lc_rs::{constant_time, hmac};
use zeroize::Zeroizing;

use super::identity::{NoRandomness, random};
use crate::id::PathId;
use crate::time::Instant;

/// A cookie's length in bytes.
pub const COOKIE: usize = 20;

/// Length of a time bucket. A cookie is valid in its bucket and in the next one, that is, for 8 to 16 s. If the cookie
/// expires during a client's attempt ([`super::handshake::HANDSHAKE_TIMEOUT`]), the client restarts with a new cookie.
const BUCKET: Duration = Duration::from_secs(8);

/// Number of buckets for which a key creates cookies: about a minute.
const BUCKETS_PER_KEY: u32 = 8;

/// Creates and verifies cookies. Holds at most two keys.
pub struct CookieJar {
    current: Key,
    previous: Option<Key>,
}

struct Key {
    generation: u32,
    bytes: Zeroizing<[u8; 32]>,
}

impl CookieJar {
    /// Creates a jar with a fresh key.
    ///
    /// # Errors
    /// [`NoRandomness`] if the operating system provides no random bytes.
    pub fn new() -> Result<CookieJar, NoRandomness> {
        Ok(CookieJar::with_key(random()?, 0))
    }

    fn with_key(key: [u8; 32], generation: u32) -> CookieJar {
        CookieJar {
            current: Key {
                generation,
                bytes: Zeroizing::new(key),
            },
            previous: None,
        }
    }

    /// Creates a cookie for the client at `from` that sent `nonce`.
    ///
    /// # Errors
    /// [`NoRandomness`] if a new key is due, and the system provides no random bytes.
    pub fn create(
        &mut self,
        now: Instant,
        from: PathId,
        nonce: &[u8; 16],
    ) -> Result<[u8; COOKIE], NoRandomness> {
        let bucket = bucket(now);
        self.rotate(bucket / BUCKETS_PER_KEY)?;
        let mut cookie = [0; COOKIE];
        cookie[..4].copy_from_slice(&bucket.to_le_bytes());
        cookie[4..].copy_from_slice(&tag(&self.current.bytes, from, nonce, bucket));
        Ok(cookie)
    }

    /// Whether this jar created `cookie` for `from` and `nonce`, and the cookie has not expired. Costs at most one
    /// HMAC.
    #[must_use]
    pub fn is_valid(
        &self,
        now: Instant,
        from: PathId,
        nonce: &[u8; 16],
        cookie: &[u8; COOKIE],
    ) -> bool {
        let baked = u32::from_le_bytes([cookie[0], cookie[1], cookie[2], cookie[3]]);
        if bucket(now).wrapping_sub(baked) > 1 {
            return false;
        }
        let generation = baked / BUCKETS_PER_KEY;
        let key = [Some(&self.current), self.previous.as_ref()]
            .into_iter()
            .flatten()
            .find(|key| key.generation == generation);
        key.is_some_and(|key| {
            let tag = tag(&key.bytes, from, nonce, baked);
            constant_time::verify_slices_are_equal(&tag, &cookie[4..]).is_ok()
        })
    }

    fn rotate(&mut self, generation: u32) -> Result<(), NoRandomness> {
        if self.current.generation != generation {
            let fresh = CookieJar::with_key(random()?, generation).current;
            self.previous = Some(std::mem::replace(&mut self.current, fresh));
        }
        Ok(())
    }
}

fn bucket(now: Instant) -> u32 {
    let nanos = i64::try_from(BUCKET.as_nanos()).unwrap_or(i64::MAX);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "buckets are compared modulo 2^32"
    )]
    #[expect(clippy::cast_sign_loss, reason = "buckets are compared modulo 2^32")]
    let bucket = now.0.div_euclid(nanos) as u32;
    bucket
}

fn tag(key: &[u8; 32], from: PathId, nonce: &[u8; 16], bucket: u32) -> [u8; 16] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    context.update(b"openuvr cookie");
    context.update(&from.0);
    context.update(nonce);
    context.update(&bucket.to_le_bytes());
    let mut tag = [0; 16];
    tag.copy_from_slice(&context.sign().as_ref()[..16]);
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(5_000_000_000);
    const FROM: PathId = PathId([3; PathId::LEN]);
    const NONCE: [u8; 16] = [9; 16];

    #[test]
    fn a_cookie_is_valid_for_its_path_nonce_and_time() {
        let mut jar = CookieJar::new().unwrap();
        let cookie = jar.create(NOW, FROM, &NONCE).unwrap();
        assert!(jar.is_valid(NOW, FROM, &NONCE, &cookie));
        assert!(jar.is_valid(NOW + BUCKET, FROM, &NONCE, &cookie));
        assert!(!jar.is_valid(NOW + BUCKET * 2, FROM, &NONCE, &cookie));
        assert!(!jar.is_valid(NOW, PathId([4; PathId::LEN]), &NONCE, &cookie));
        assert!(!jar.is_valid(NOW, FROM, &[8; 16], &cookie));
        for bit in 0..COOKIE * 8 {
            let mut flipped = cookie;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!jar.is_valid(NOW, FROM, &NONCE, &flipped), "bit {bit}");
        }
        let other = CookieJar::new().unwrap();
        assert!(!other.is_valid(NOW, FROM, &NONCE, &cookie));
    }

    #[test]
    fn keys_rotate_and_the_last_cookie_of_a_key_stays_good() {
        let mut jar = CookieJar::new().unwrap();
        let end_of_key = Instant(0) + BUCKET * (BUCKETS_PER_KEY - 1);
        let cookie = jar.create(end_of_key, FROM, &NONCE).unwrap();
        let old = jar.current.bytes.clone();
        let next = jar.create(end_of_key + BUCKET, FROM, &NONCE).unwrap();
        assert_ne!(*old, *jar.current.bytes);
        assert!(jar.is_valid(end_of_key + BUCKET, FROM, &NONCE, &cookie));
        assert!(jar.is_valid(end_of_key + BUCKET, FROM, &NONCE, &next));
    }

    #[test]
    fn the_layout_is_golden() {
        let mut jar = CookieJar::with_key([0x0b; 32], 0);
        let cookie = jar.create(Instant(17_000_000_000), FROM, &NONCE).unwrap();
        // The expected tag was computed with Python's hmac module: HMAC-SHA256 over the same bytes.
        assert_eq!(cookie[..4], [2, 0, 0, 0]);
        assert_eq!(cookie[4..], GOLDEN);
    }

    const GOLDEN: [u8; 16] = [
        102, 247, 55, 199, 55, 9, 175, 163, 253, 214, 73, 4, 103, 47, 38, 40,
    ];
}
