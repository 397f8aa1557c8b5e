//! Seals: AES-128-GCM per datagram, one key per direction and plane, key rotation, replay protection.
//!
//! Each key has exactly one packet counter, which all [`Sealer`]s of the key share ([`Sealer::share`]), so a nonce
//! cannot repeat. Session keys are derived from the handshake's fresh secret with HKDF-SHA256 (RFC 5869). The key of
//! each phase is derived from that of the previous phase, so an old key cannot be computed from a newer one. Sealing
//! costs about 5 µs for a 42 kB frame (measured, `docs/adr/0002-wire-format.md`), so it is always on.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use zeroize::Zeroize;

use super::header::{HEADER, Header, Plane, TAG};
use crate::bytes::Reject;
use crate::id::SessionId;
use crate::time::Instant;

/// Maximum number of packets under one key: half of the 2^23 full-size packets to which RFC 9001, section
/// 6.6, limits AES-GCM.
pub const PACKETS_PER_KEY: u64 = 1 << 22;

/// Maximum distance of a reordered packet behind the newest packet, in packets: the datagrams of ten key frames of 140
/// kB.
const REPLAY_WINDOW: u64 = 1024;

/// The shared secret of a handshake. Media and control keys are derived from it; the secret itself never seals
/// anything. It is overwritten when dropped, and `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret(pub [u8; 32]);

impl Drop for SessionSecret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(..)")
    }
}

/// The direction of the datagrams that a key seals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the host, such as media and acknowledgements.
    HostToClient,
    /// From the client, such as input and feedback.
    ClientToHost,
}

/// One generation of a key, and the secret from which the next generation is derived.
struct Generation {
    key: LessSafeKey,
    secret: [u8; 32],
}

struct Bytes(usize);

impl hkdf::KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(secret: &[u8; 32], label: &str, out: &mut [u8]) {
    // The input is already a uniformly random secret, so the extract step of RFC 5869 only adds domain separation
    // through the salt.
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"openuvr 1").extract(secret);
    let info = [label.as_bytes()];
    prk.expand(&info, Bytes(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("at most 32 bytes are requested, HKDF-SHA256 provides 8160");
}

impl Generation {
    fn first(secret: &SessionSecret, direction: Direction, plane: Plane) -> Generation {
        let mut chain = [0; 32];
        expand(&secret.0, &format!("{direction:?} {plane:?}"), &mut chain);
        Generation::from_chain(chain)
    }

    fn from_chain(secret: [u8; 32]) -> Generation {
        let mut key = [0; 16];
        expand(&secret, "key", &mut key);
        let key = UnboundKey::new(&AES_128_GCM, &key).expect("an AES-128 key has 16 bytes");
        Generation {
            key: LessSafeKey::new(key),
            secret,
        }
    }

    fn next(&self) -> Generation {
        let mut chain = [0; 32];
        expand(&self.secret, "next phase", &mut chain);
        Generation::from_chain(chain)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Seals datagrams of one direction and plane. Several sealers, one per stream, can share the key without blocking each
/// other.
pub struct Sealer {
    generation: Generation,
    /// Number of previous keys.
    rotations: u64,
    plane: Plane,
    session: SessionId,
    next_number: Arc<AtomicU64>,
    packets_per_key: u64,
}

impl Sealer {
    /// The first sealer of a session's `direction` and `plane`. Create it only once, and all other sealers with
    /// [`Sealer::share`].
    #[must_use]
    pub fn new(
        secret: &SessionSecret,
        session: SessionId,
        direction: Direction,
        plane: Plane,
    ) -> Sealer {
        Sealer {
            generation: Generation::first(secret, direction, plane),
            rotations: 0,
            plane,
            session,
            next_number: Arc::default(),
            packets_per_key: PACKETS_PER_KEY,
        }
    }

    /// Another sealer with the same key and the same counter, for use in another thread.
    #[must_use]
    pub fn share(&self) -> Sealer {
        Sealer {
            generation: Generation::from_chain(self.generation.secret),
            rotations: self.rotations,
            plane: self.plane,
            session: self.session,
            next_number: self.next_number.clone(),
            packets_per_key: self.packets_per_key,
        }
    }

    /// Seals a datagram in place. `datagram` consists of [`HEADER`] bytes of space, the body, and [`TAG`] bytes of
    /// space.
    pub fn seal(&mut self, now: Instant, datagram: &mut [u8]) {
        // Relaxed ordering is sufficient, because only the uniqueness of the numbers matters and the counter protects
        // no other data.
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        // Other sealers may have used up whole keys in the meantime.
        while self.rotations < number / self.packets_per_key {
            self.generation = self.generation.next();
            self.rotations += 1;
        }
        let phase = self.rotations % 2 == 1;
        let header = Header::new(self.plane, phase, self.session, number, now.0);
        let (head, rest) = datagram.split_at_mut(HEADER);
        let body_len = rest.len() - TAG;
        let (body, tag) = rest.split_at_mut(body_len);
        head.copy_from_slice(zerocopy::IntoBytes::as_bytes(&header));
        let sealed = self
            .generation
            .key
            .seal_in_place_separate_tag(nonce(number), Aad::from(&*head), body)
            .expect("a datagram is far shorter than AES-GCM's limit");
        tag.copy_from_slice(sealed.as_ref());
    }

    #[cfg(test)]
    fn rotate_every(&mut self, packets: u64) {
        self.packets_per_key = packets;
    }
}

/// Fields from the clear header of an opened datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The packet number of the datagram.
    pub number: u64,
    /// Whether this packet has the highest number opened so far.
    pub newest: bool,
}

/// Opens the datagrams of one direction and plane. Refuses forged and repeated datagrams.
pub struct Opener {
    previous: Option<Generation>,
    current: Generation,
    next: Generation,
    phase: bool,
    plane: Plane,
    session: SessionId,
    replay: ReplayWindow,
}

impl Opener {
    /// The opener of a session's `direction` and `plane`.
    #[must_use]
    pub fn new(
        secret: &SessionSecret,
        session: SessionId,
        direction: Direction,
        plane: Plane,
    ) -> Opener {
        let current = Generation::first(secret, direction, plane);
        let next = current.next();
        Opener {
            previous: None,
            current,
            next,
            phase: false,
            plane,
            session,
            replay: ReplayWindow::default(),
        }
    }

    /// Opens `datagram` and replaces the contents of `body` with the decrypted body.
    ///
    /// # Errors
    /// [`Reject`] if `datagram` belongs to another session or plane, is forged, or is repeated. A refused datagram does
    /// not change any state.
    pub fn open(&mut self, datagram: &[u8], body: &mut Vec<u8>) -> Result<Opened, Reject> {
        let (header, plane) = Header::parse(datagram)?;
        if header.session() != self.session {
            return Err(Reject::Session);
        }
        if plane != self.plane {
            return Err(Reject::Kind(plane as u8));
        }
        let number = header.number();
        if !self.replay.is_new(number) {
            return Err(Reject::Replayed);
        }
        let same_phase = header.phase() == self.phase;
        // A packet of the other phase is sealed with the previous key if it is older than the newest packet, and with
        // the next key if it is newer.
        let generation = if same_phase {
            &self.current
        } else if self.replay.newest().is_some_and(|newest| number < newest) {
            self.previous.as_ref().ok_or(Reject::Forged)?
        } else {
            &self.next
        };
        let (aad, rest) = datagram.split_at(HEADER);
        let (sealed, tag) = rest.split_at(rest.len() - TAG);
        body.resize(sealed.len(), 0);
        generation
            .key
            .open_separate_gather(nonce(number), Aad::from(aad), sealed, tag, body)
            .map_err(|_| Reject::Forged)?;
        let newest = self.replay.newest().is_none_or(|newest| number > newest);
        if !same_phase && newest {
            let after = self.next.next();
            let current = std::mem::replace(&mut self.next, after);
            self.previous = Some(std::mem::replace(&mut self.current, current));
            self.phase = !self.phase;
        }
        self.replay.note(number);
        Ok(Opened { number, newest })
    }
}

/// Records which of the last [`REPLAY_WINDOW`] packet numbers have been received (RFC 4303, section 3.4.3).
#[derive(Default)]
struct ReplayWindow {
    /// The newest number plus one; zero before the first packet.
    end: u64,
    seen: [u64; (REPLAY_WINDOW / 64) as usize],
}

impl ReplayWindow {
    fn newest(&self) -> Option<u64> {
        self.end.checked_sub(1)
    }

    fn bit(number: u64) -> (usize, u64) {
        let place = number % REPLAY_WINDOW;
        (usize::try_from(place / 64).unwrap_or(0), 1 << (place % 64))
    }

    fn is_new(&self, number: u64) -> bool {
        if number >= self.end {
            return number != u64::MAX;
        }
        let (word, bit) = Self::bit(number);
        self.end - number <= REPLAY_WINDOW && self.seen[word] & bit == 0
    }

    fn note(&mut self, number: u64) {
        if number >= self.end {
            // The skipped numbers reuse the slots of old numbers, so these slots are cleared.
            let fresh = (number + 1 - self.end).min(REPLAY_WINDOW);
            for skipped in number + 1 - fresh..=number {
                let (word, bit) = Self::bit(skipped);
                self.seen[word] &= !bit;
            }
            self.end = number + 1;
        }
        let (word, bit) = Self::bit(number);
        self.seen[word] |= bit;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair() -> (Sealer, Opener) {
        let secret = SessionSecret([7; 32]);
        let id = SessionId(9);
        (
            Sealer::new(&secret, id, Direction::HostToClient, Plane::Media),
            Opener::new(&secret, id, Direction::HostToClient, Plane::Media),
        )
    }

    fn sealed(sealer: &mut Sealer, body: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; HEADER];
        datagram.extend_from_slice(body);
        datagram.extend_from_slice(&[0; TAG]);
        sealer.seal(Instant(5), &mut datagram);
        datagram
    }

    #[test]
    fn every_changed_bit_is_refused() {
        let (mut sealer, mut opener) = pair();
        let datagram = sealed(&mut sealer, b"a slice");
        let mut body = Vec::new();
        for bit in 0..datagram.len() * 8 {
            let mut damaged = datagram.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(opener.open(&damaged, &mut body).is_err(), "bit {bit}");
        }
        assert_eq!(opener.open(&datagram, &mut body).unwrap().number, 0);
        assert_eq!(body, b"a slice");
    }

    #[test]
    fn keys_of_directions_planes_and_sessions_differ() {
        let (mut sealer, _) = pair();
        let datagram = sealed(&mut sealer, b"x");
        let mut body = Vec::new();
        let id = SessionId(9);
        let mut other = Opener::new(
            &SessionSecret([7; 32]),
            id,
            Direction::ClientToHost,
            Plane::Media,
        );
        assert_eq!(other.open(&datagram, &mut body), Err(Reject::Forged));
        let mut other = Opener::new(
            &SessionSecret([8; 32]),
            id,
            Direction::HostToClient,
            Plane::Media,
        );
        assert_eq!(other.open(&datagram, &mut body), Err(Reject::Forged));
    }

    #[test]
    fn keys_rotate_and_late_packets_of_the_old_key_still_open() {
        let (mut sealer, mut opener) = pair();
        let mut body = Vec::new();
        sealer.rotate_every(3);
        let early: Vec<_> = (0..3).map(|_| sealed(&mut sealer, b"old")).collect();
        let late = sealed(&mut sealer, b"new");
        let _ = sealed(&mut sealer, b"new");
        let third = [sealed(&mut sealer, b"new"), sealed(&mut sealer, b"newer")];
        opener.open(&early[0], &mut body).unwrap();
        opener.open(&late, &mut body).unwrap();
        opener.open(&early[2], &mut body).unwrap();
        assert_eq!(body, b"old");
        opener.open(&third[0], &mut body).unwrap();
        opener.open(&third[1], &mut body).unwrap();
        assert_eq!(body, b"newer");
    }

    #[test]
    fn shared_sealers_count_together_and_rotate_together() {
        let (mut first, mut opener) = pair();
        first.rotate_every(10);
        let mut second = first.share();
        let mut body = Vec::new();
        let mut numbers = Vec::new();
        let mut open = |datagram: &[u8]| {
            let opened = opener.open(datagram, &mut body).unwrap();
            numbers.push(opened.number);
        };
        // The second sealer is idle while the first sealer uses up its key.
        (0..9).for_each(|_| open(&sealed(&mut first, b"video")));
        open(&sealed(&mut second, b"audio"));
        open(&sealed(&mut second, b"audio"));
        (0..19).for_each(|_| open(&sealed(&mut first, b"video")));
        open(&sealed(&mut second, b"audio"));
        open(&sealed(&mut first.share(), b"haptics"));
        assert_eq!(numbers, (0..32).collect::<Vec<_>>());
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "each sender of a session seals in its own thread"
    )]
    fn sealers_in_threads_never_take_a_number_twice() {
        let (first, mut opener) = pair();
        let each = 300;
        let seal = |mut sealer: Sealer| {
            move || -> Vec<_> { (0..each).map(|_| sealed(&mut sealer, b"x")).collect() }
        };
        let threads: Vec<_> = (0..3)
            .map(|_| std::thread::spawn(seal(first.share())))
            .collect();
        let sealed = threads.into_iter().flat_map(|t| t.join().unwrap());
        let mut body = Vec::new();
        let mut numbers: Vec<u64> = sealed
            .map(|datagram| opener.open(&datagram, &mut body).unwrap().number)
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..3 * each).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn each_number_opens_once_whatever_the_order(
            order in prop::collection::vec(0_u64..600, 1..400)
        ) {
            let mut window = ReplayWindow::default();
            let mut seen = std::collections::HashSet::new();
            for number in order {
                // Within the window, "new" means exactly "not received before".
                prop_assert_eq!(window.is_new(number), seen.insert(number));
                window.note(number);
            }
        }

        #[test]
        fn large_jumps_never_accept_an_old_number(
            numbers in prop::collection::vec(0_u64..10_000, 1..300)
        ) {
            let mut window = ReplayWindow::default();
            let mut seen = std::collections::HashSet::new();
            for number in numbers {
                if window.is_new(number) {
                    prop_assert!(seen.insert(number));
                    window.note(number);
                }
            }
        }
    }
}
