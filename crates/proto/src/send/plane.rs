//! The sending side of a session's media plane: one key and one packet counter, shared by the senders of all
//! streams.
//!
//! Each sender seals in its own thread without waiting for another, so that bursts of video do not delay audio. The
//! senders share only the packet counter.

use super::packetize::VideoSender;
use super::timed::TimedSender;
use crate::control::handshake::Established;
use crate::wire::header::Plane;
use crate::wire::media::StreamId;
use crate::wire::seal::{Direction, Sealer};

/// Creates the senders of a session's streams.
pub struct MediaSender {
    sealer: Sealer,
}

impl MediaSender {
    /// The senders of a host's streams. Create this value only once per session, because it owns the media key.
    #[must_use]
    pub fn new(established: &Established) -> MediaSender {
        MediaSender::of(established, Direction::HostToClient)
    }

    /// The senders of a client's streams to the host. Create this value only once per session, because it owns the
    /// media key.
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

    /// The sender of a view. Create one per view.
    #[must_use]
    pub fn video(&self) -> VideoSender {
        VideoSender::new(self.sealer.share())
    }

    /// The sender of a timed stream. Create one per stream.
    #[must_use]
    pub fn timed(&self, stream: StreamId) -> TimedSender {
        TimedSender::new(stream, self.sealer.share())
    }
}
