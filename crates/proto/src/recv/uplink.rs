//! The host's receiving side of a session's media plane: a client's streams, such as its microphone.
//!
//! There is no video in this direction. Datagrams of ungranted streams are counted and skipped, as in
//! [`MediaReceiver`](super::plane::MediaReceiver) at the client.

use super::plane::MAX_TIMED;
use super::timed::TimedReceiver;
use crate::bytes::Reject;
use crate::control::handshake::Established;
use crate::control::streams::Grant;
use crate::time::Instant;
use crate::wire::header::Plane;
use crate::wire::media::{Owner, StreamId, StreamKind};
use crate::wire::seal::{Direction, Opener};

/// Decrypts the datagrams of a client's streams, and passes them to the receivers of these streams. Owned by the
/// receiving thread.
pub struct UplinkReceiver {
    opener: Opener,
    body: Vec<u8>,
    timed: Vec<TimedReceiver>,
    received: u64,
    skipped: u64,
}

impl UplinkReceiver {
    /// A receiver without granted streams.
    #[must_use]
    pub fn new(established: &Established) -> UplinkReceiver {
        UplinkReceiver {
            opener: Opener::new(
                &established.secret,
                established.session,
                Direction::ClientToHost,
                Plane::Media,
            ),
            body: Vec::new(),
            timed: Vec::new(),
            received: 0,
            skipped: 0,
        }
    }

    /// Adds receivers for the granted timed streams of the client.
    pub fn granted(&mut self, grants: &[Grant]) {
        let up = |grant: &&Grant| grant.to_host && grant.stream.kind != StreamKind::Video;
        for grant in grants.iter().filter(up) {
            if self.timed.len() < MAX_TIMED && self.timed(grant.stream).is_none() {
                self.timed.push(TimedReceiver::new(grant.stream));
            }
        }
    }

    /// Whether any stream was granted. If none was, datagrams need not be decrypted.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.timed.is_empty()
    }

    /// Handles a datagram of the media plane. Poll the receivers afterwards.
    ///
    /// # Errors
    /// [`Reject`] if it is not authentic, is a duplicate, or is invalid. An authentic datagram with an invalid body is
    /// counted as received. After any other error, nothing has changed.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) -> Result<(), Reject> {
        self.opener.open(datagram, &mut self.body)?;
        self.received += 1;
        let owner = match Owner::of(&self.body)? {
            Some(Owner::Timed(stream)) => self.timed.iter_mut().find(|t| t.stream() == stream),
            _ => None,
        };
        match owner {
            Some(owner) => owner.handle_body(now, &self.body),
            None => {
                self.skipped += 1;
                Ok(())
            }
        }
    }

    /// A timed stream's receiver; `None` if it was not granted.
    pub fn timed(&mut self, stream: StreamId) -> Option<&mut TimedReceiver> {
        self.timed.iter_mut().find(|t| t.stream() == stream)
    }

    /// The number of authentic datagrams, and how many of them belong to no granted stream.
    #[must_use]
    pub fn counters(&self) -> (u64, u64) {
        (self.received, self.skipped)
    }

    /// Panics if an invariant does not hold: for tests and fuzzing.
    pub fn check_invariants(&self) {
        assert!(self.timed.len() <= MAX_TIMED && self.skipped <= self.received);
        self.timed.iter().for_each(TimedReceiver::check_invariants);
    }
}
