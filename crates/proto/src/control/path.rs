//! Path validation of one session at the host: the current path and the validated paths.
//!
//! An authentic datagram proves its author, not its source, because an on-path attacker can forward it from any
//! address. The host therefore sends a challenge over a new path, and moves the session there only after the response
//! (compare RFC 9000, section 8.2). Until then, the host sends over that path at most [`AMPLIFICATION`] times the bytes
//! received from it (section 8.1).
//!
//! The module does not read the payload, and treats a path as an opaque id.

use std::collections::VecDeque;
use std::time::Duration;

use super::identity::random;
use crate::id::PathId;
use crate::time::Instant;
use crate::wire::header::{HEADER, TAG};

/// Anti-amplification limit before validation: bytes sent per byte received.
const AMPLIFICATION: usize = 3;

/// Retransmission interval of an unanswered challenge. A challenge is sent at most [`MAX_TRIES`] times (guess: three
/// losses in a row are rare). Each datagram from the path restarts the count.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// See [`RETRY_AFTER`].
const MAX_TRIES: u8 = 3;

/// Maximum number of validated paths that are kept: enough for all transports, and for a machine that alternates
/// between two networks.
const MAX_VALIDATED: usize = 4;

/// Maximum number of concurrent challenges. A further challenge replaces the challenge of the path that has been silent
/// longest.
const MAX_PENDING: usize = 2;

/// Bytes of a datagram with a challenge: header, kind and length, a token of eight bytes, and tag.
pub(crate) const CHALLENGE: usize = HEADER + 3 + 8 + TAG;

pub(crate) struct Paths {
    /// The validated paths, newest last; contains [`Paths::now`].
    validated: VecDeque<PathId>,
    now: PathId,
    /// The source of the newest datagram that moves the session.
    target: PathId,
    pending: VecDeque<PendingChallenge>,
}

struct PendingChallenge {
    path: PathId,
    token: u64,
    received: usize,
    sent: usize,
    tries: u8,
    next: Instant,
}

impl Paths {
    /// Starts with the path that the handshake has validated.
    pub(crate) fn new(path: PathId) -> Paths {
        Paths {
            validated: VecDeque::from([path]),
            now: path,
            target: path,
            pending: VecDeque::new(),
        }
    }

    /// The current path.
    pub(crate) fn now(&self) -> PathId {
        self.now
    }

    pub(crate) fn is_validated(&self, path: PathId) -> bool {
        self.validated.contains(&path)
    }

    /// Handles an authentic datagram of `bytes` bytes from `path`. If `moves` is set, the datagram moves the session to
    /// its path as soon as that path is validated. Returns whether the current path changed.
    pub(crate) fn on_datagram(
        &mut self,
        now: Instant,
        path: PathId,
        bytes: usize,
        moves: bool,
    ) -> bool {
        if moves {
            self.target = path;
        }
        if self.is_validated(path) {
            return self.settle();
        }
        self.challenge(now, path, bytes);
        false
    }

    fn challenge(&mut self, now: Instant, path: PathId, bytes: usize) {
        let known = self.pending.iter().position(|a| a.path == path);
        let challenge = match known.and_then(|index| self.pending.remove(index)) {
            Some(mut challenge) => {
                challenge.received += bytes;
                challenge.tries = 0;
                challenge
            }
            None => {
                // Without randomness, a client could predict the token, so the path stays unvalidated.
                let Ok(token) = random() else { return };
                PendingChallenge {
                    path,
                    token: u64::from_le_bytes(token),
                    received: bytes,
                    sent: 0,
                    tries: 0,
                    next: now,
                }
            }
        };
        if self.pending.len() == MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(challenge);
    }

    /// Handles the response to a challenge, received from `path`. Returns whether the current path changed.
    pub(crate) fn answered(&mut self, path: PathId, token: u64) -> bool {
        let fits = |a: &PendingChallenge| a.path == path && a.token == token;
        let Some(index) = self.pending.iter().position(fits) else {
            return false;
        };
        self.pending.remove(index);
        if self.validated.len() == MAX_VALIDATED {
            let oldest = self.validated.iter().position(|path| *path != self.now);
            self.validated.remove(oldest.unwrap_or(0));
        }
        self.validated.push_back(path);
        self.settle()
    }

    /// Moves to the target path if it is validated.
    fn settle(&mut self) -> bool {
        let elsewhere = self.target != self.now && self.is_validated(self.target);
        if elsewhere {
            self.now = self.target;
        }
        elsewhere
    }

    /// The next challenge and its path. The challenge counts as sent.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<(PathId, u64)> {
        let challenge = self
            .pending
            .iter_mut()
            .find(|a| a.due().is_some_and(|at| at <= now))?;
        challenge.tries += 1;
        challenge.sent += CHALLENGE;
        challenge.next = now + RETRY_AFTER;
        Some((challenge.path, challenge.token))
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.pending.iter().filter_map(PendingChallenge::due).min()
    }

    pub(crate) fn check_invariants(&self) {
        assert!(self.is_validated(self.now));
        assert!(self.validated.len() <= MAX_VALIDATED && self.pending.len() <= MAX_PENDING);
        for challenge in &self.pending {
            assert!(!self.is_validated(challenge.path));
            assert!(challenge.sent <= AMPLIFICATION * challenge.received);
        }
    }
}

impl PendingChallenge {
    /// When the next challenge may be sent, if the limits allow one.
    fn due(&self) -> Option<Instant> {
        let may = self.tries < MAX_TRIES && self.sent + CHALLENGE <= AMPLIFICATION * self.received;
        may.then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHALLENGE, MAX_PENDING, MAX_VALIDATED, Paths, RETRY_AFTER};
    use crate::id::PathId;
    use crate::time::Instant;

    fn path(n: u8) -> PathId {
        PathId([n; PathId::LEN])
    }

    fn challenges(paths: &mut Paths) -> Vec<(PathId, u64)> {
        let mut all = Vec::new();
        while let Some(at) = paths.next_timeout() {
            all.extend(paths.poll(at));
            paths.check_invariants();
        }
        all
    }

    #[test]
    fn a_session_migrates_to_the_path_of_the_response() {
        let mut paths = Paths::new(path(1));
        assert!(!paths.on_datagram(Instant(0), path(2), 100, true));
        assert_eq!(paths.now(), path(1));
        let (to, token) = paths.poll(Instant(0)).unwrap();
        assert_eq!(to, path(2));
        assert!(!paths.answered(path(3), token), "from elsewhere");
        assert!(!paths.answered(path(2), token ^ 1), "another one");
        assert!(paths.answered(path(2), token));
        assert_eq!(paths.now(), path(2));
        // The earlier path is still validated, so there is no challenge and no wait.
        assert!(paths.on_datagram(Instant(1), path(1), 100, true));
        assert_eq!((paths.now(), paths.next_timeout()), (path(1), None));
    }

    #[test]
    fn a_probed_path_does_not_move_the_session() {
        let mut paths = Paths::new(path(1));
        assert!(!paths.on_datagram(Instant(0), path(2), 100, false));
        let (_, token) = paths.poll(Instant(0)).unwrap();
        assert!(!paths.answered(path(2), token));
        assert!(paths.is_validated(path(2)) && paths.now() == path(1));
        assert!(paths.on_datagram(Instant(0), path(2), 51, true), "at once");
    }

    #[test]
    fn an_unvalidated_path_gets_at_most_three_times_its_bytes() {
        for bytes in [1, 16, 17, 18, 34, 51, 1400] {
            let mut paths = Paths::new(path(1));
            for n in 0..50 {
                paths.on_datagram(Instant(n), path(2), bytes, true);
            }
            let sent = challenges(&mut paths).len() * CHALLENGE;
            assert!(sent <= 3 * 50 * bytes, "{sent} for 50 times {bytes}");
            assert!(
                sent <= 3 * CHALLENGE,
                "at most three challenges for one datagram"
            );
            assert_eq!(paths.now(), path(1));
        }
    }

    #[test]
    fn a_lost_challenge_is_retransmitted() {
        let mut paths = Paths::new(path(1));
        paths.on_datagram(Instant(0), path(2), 100, true);
        let (_, token) = paths.poll(Instant(0)).unwrap();
        assert_eq!(paths.poll(Instant(0)), None);
        assert_eq!(paths.next_timeout(), Some(Instant(0) + RETRY_AFTER));
        assert_eq!(paths.poll(Instant(0) + RETRY_AFTER), Some((path(2), token)));
    }

    #[test]
    fn memory_is_bounded_and_the_present_path_stays() {
        let mut paths = Paths::new(path(0));
        for n in 1..=255 {
            paths.on_datagram(Instant(0), path(n), 1400, n % 3 == 0);
            if n % 2 == 0 {
                for (to, token) in challenges(&mut paths) {
                    paths.answered(to, token);
                }
            }
            paths.check_invariants();
        }
        assert_eq!(paths.validated.len(), MAX_VALIDATED);
        assert!(paths.pending.len() <= MAX_PENDING);
    }
}
