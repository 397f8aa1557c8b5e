//! The sending side of a session's media plane: one key and one counter of packets, which the senders
//! of all its streams share.
//!
//! Each sender seals by itself, in whatever thread it lives: none waits for another, so that a burst of
//! pictures delays no sound and sound no picture. They have the packet counter in common, nothing else.

use super::packetize::VideoSender;
use super::timed::TimedSender;
use crate::control::handshake::Established;
use crate::wire::header::Plane;
use crate::wire::media::StreamId;
use crate::wire::seal::{Direction, Sealer};

/// Makes the senders of a session's streams.
pub struct MediaSender {
    sealer: Sealer,
}

impl MediaSender {
    /// The host's owner of a session's media key. There must be only one.
    #[must_use]
    pub fn new(established: &Established) -> MediaSender {
        MediaSender::of(established, Direction::HostToClient)
    }

    /// The client's: what it streams to its host has a key of its own. There must be only one.
    #[must_use]
    pub fn of_client(established: &Established) -> MediaSender {
        MediaSender::of(established, Direction::ClientToHost)
    }

    fn of(established: &Established, direction: Direction) -> MediaSender {
        let (secret, session) = (&established.secret, established.session);
        MediaSender {
            sealer: Sealer::new(secret, session, direction, Plane::Media),
        }
    }

    /// The sender of a view: one for each.
    #[must_use]
    pub fn video(&self) -> VideoSender {
        VideoSender::new(self.sealer.share())
    }

    /// The sender of a timed stream: one for each.
    #[must_use]
    pub fn timed(&self, stream: StreamId) -> TimedSender {
        TimedSender::new(stream, self.sealer.share())
    }
}
