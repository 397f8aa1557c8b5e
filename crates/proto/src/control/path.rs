//! The paths of one session as the host sees them: which it uses, and which its client has shown that
//! it receives at.
//!
//! An authentic datagram shows who made it, not where it was sent from: somebody on the way can have
//! it arrive from any address. So a path is asked with a challenge that has to come back the same way
//! (the idea of RFC 9000, section 8.2) before the session goes there, and until then at most
//! [`AMPLIFICATION`] times the bytes that came from there go there (section 8.1).
//!
//! What it is not: it does not know what travels, nor where a path leads.

use std::collections::VecDeque;
use std::time::Duration;

use super::identity::random;
use crate::id::PathId;
use crate::time::Instant;
use crate::wire::header::{HEADER, TAG};

/// Times the bytes from an address that may go there before it has answered.
const AMPLIFICATION: usize = 3;

/// A challenge that gets no answer is sent again after this time, and so often for each datagram that
/// comes from there (guess): three lost in a row are rare.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// See [`AGAIN`].
const MAX_TRIES: u8 = 3;

/// Paths that are kept as shown: those of the ladder, and of a machine that changes between two
/// networks.
const MAX_VALIDATED: usize = 4;

/// Paths that are asked at a time; one more takes the place of the one that was silent longest.
const MAX_PENDING: usize = 2;

/// Bytes of a datagram with a challenge: kind, length and eight bytes, sealed.
pub(crate) const CHALLENGE: usize = HEADER + 3 + 8 + TAG;

pub(crate) struct Paths {
    /// The newest last; [`Paths::now`] is one of them.
    validated: VecDeque<PathId>,
    now: PathId,
    /// Where the newest datagram that moves a session came from.
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
    /// The handshake has shown the first one.
    pub(crate) fn new(path: PathId) -> Paths {
        Paths {
            validated: VecDeque::from([path]),
            now: path,
            target: path,
            pending: VecDeque::new(),
        }
    }

    /// Where the session is.
    pub(crate) fn now(&self) -> PathId {
        self.now
    }

    pub(crate) fn is_validated(&self, path: PathId) -> bool {
        self.validated.contains(&path)
    }

    /// An authentic datagram of so many bytes came from `path`; `moves` if the session is to follow
    /// it. Whether the session is elsewhere now.
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
                // Without randomness the client could answer unseen: the path stays unshown.
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

    /// An answer came from `path`. Whether the session is elsewhere now.
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

    /// Goes where it is wanted, if that is shown.
    fn settle(&mut self) -> bool {
        let elsewhere = self.target != self.now && self.is_validated(self.target);
        if elsewhere {
            self.now = self.target;
        }
        elsewhere
    }

    /// The challenge that is due, and where to. It counts as sent.
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
    /// When the next challenge may go there, if one may.
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
    fn a_session_goes_where_the_challenge_came_back_from() {
        let mut paths = Paths::new(path(1));
        assert!(!paths.on_datagram(Instant(0), path(2), 100, true));
        assert_eq!(paths.now(), path(1));
        let (to, token) = paths.poll(Instant(0)).unwrap();
        assert_eq!(to, path(2));
        assert!(!paths.answered(path(3), token), "from elsewhere");
        assert!(!paths.answered(path(2), token ^ 1), "another one");
        assert!(paths.answered(path(2), token));
        assert_eq!(paths.now(), path(2));
        // The one before is shown, too: no challenge, no wait.
        assert!(paths.on_datagram(Instant(1), path(1), 100, true));
        assert_eq!((paths.now(), paths.next_timeout()), (path(1), None));
    }

    #[test]
    fn a_path_that_was_only_tried_moves_nobody() {
        let mut paths = Paths::new(path(1));
        assert!(!paths.on_datagram(Instant(0), path(2), 100, false));
        let (_, token) = paths.poll(Instant(0)).unwrap();
        assert!(!paths.answered(path(2), token));
        assert!(paths.is_validated(path(2)) && paths.now() == path(1));
        assert!(paths.on_datagram(Instant(0), path(2), 51, true), "at once");
    }

    #[test]
    fn at_most_three_times_what_came_goes_to_who_never_answered() {
        for bytes in [1, 16, 17, 18, 34, 51, 1400] {
            let mut paths = Paths::new(path(1));
            for n in 0..50 {
                paths.on_datagram(Instant(n), path(2), bytes, true);
            }
            let sent = challenges(&mut paths).len() * CHALLENGE;
            assert!(sent <= 3 * 50 * bytes, "{sent} for 50 times {bytes}");
            assert!(sent <= 3 * CHALLENGE, "only so often for one datagram");
            assert_eq!(paths.now(), path(1));
        }
    }

    #[test]
    fn a_lost_challenge_is_said_again() {
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
