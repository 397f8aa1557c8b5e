//! Names for things that travel: integers never travel naked.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A captured frame, counted by its source from 1; 32 bits last two years at 60 frames/s.
/// Zero means "no frame yet".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FrameId(pub u32);

impl FrameId {
    /// "No frame yet".
    pub const NONE: FrameId = FrameId(0);

    /// The next frame of the same source.
    #[must_use]
    pub fn next(self) -> FrameId {
        FrameId(self.0.wrapping_add(1).max(1))
    }
}

/// One view of a video stream, as OpenXR has two for two eyes; each has frames of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ViewId {
    /// The video stream's number in the session.
    pub stream: u8,
    /// The view of that stream, counted from 0: the left eye comes first.
    pub view: u8,
}

impl ViewId {
    /// The one that each session has.
    pub const FIRST: ViewId = ViewId { stream: 0, view: 0 };
}

/// A payload of a timed stream (audio, haptics, poses), counted by its sender from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PayloadSeq(pub u64);

/// A configuration of a rendition (size, codec, colour). A resize is a new epoch, and each epoch
/// starts with a key frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ConfigEpoch(pub u16);

/// A rendition of a host's source: one encoder and its configuration; counted by the host from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RenditionId(pub u32);

impl std::fmt::Display for RenditionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rendition {}", self.0)
    }
}

/// A session between one host and one client; chosen at random by the host, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SessionId(pub u32);

/// Somebody who takes a host's frames.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SubscriberId {
    /// An OpenUVR session.
    Session(SessionId),
    /// Anybody else, counted from 1.
    Other(u32),
}

impl SubscriberId {
    /// The session, if it is one.
    #[must_use]
    pub fn session(self) -> Option<SessionId> {
        match self {
            SubscriberId::Session(session) => Some(session),
            SubscriberId::Other(_) => None,
        }
    }
}

impl SubscriberId {
    /// A plain number, for interfaces that know no other (the C API, the trace). A session's is drawn
    /// at random from 32 bits, so that it is that of another subscriber once in 4 billion.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            SubscriberId::Session(SessionId(number)) | SubscriberId::Other(number) => number,
        }
    }
}

/// What others than sessions begin with in files and logs.
const OTHER: &str = "other-";

impl fmt::Display for SubscriberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubscriberId::Session(session) => write!(f, "{}", session.0),
            SubscriberId::Other(number) => write!(f, "{OTHER}{number}"),
        }
    }
}

impl FromStr for SubscriberId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<SubscriberId, ParseIntError> {
        match text.strip_prefix(OTHER) {
            Some(number) => number.parse().map(SubscriberId::Other),
            None => text
                .parse()
                .map(|number| SubscriberId::Session(SessionId(number))),
        }
    }
}

impl From<SessionId> for SubscriberId {
    fn from(session: SessionId) -> SubscriberId {
        SubscriberId::Session(session)
    }
}

/// An input event of one session, counted by the client from 1. Zero means "no input yet".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct InputSeq(pub u32);

/// A device that a client registered, under the number that its application gave it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DeviceId(pub u8);

/// A pose of one session, counted by the client from 1. Zero means "no pose yet".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PoseId(pub u32);

/// Where a datagram came from or goes to, opaque to the protocol but for [`PathId::network`]: crate `net`
/// writes a transport address into it (both ends of it, where the transport has two) and reads it back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PathId(pub [u8; PathId::LEN]);

impl PathId {
    /// Bytes of a path: two IPv6 addresses, a port, and a byte of crate `net`'s own.
    pub const LEN: usize = 35;

    /// The network of the peer: all addresses of it are as easy to have as one of them. Of IPv4 it is
    /// the address, of IPv6 the first 64 bits, and all stations of an Ethernet interface are one, since
    /// anybody there may take any Ethernet address.
    ///
    /// The first 16 bytes of a path are the peer's address, of which crate `net` says how it lies
    /// there: IPv4 mapped into IPv6; `ff`, an Ethernet address in bytes 2–7 and the interface behind it.
    #[must_use]
    pub fn network(&self) -> [u8; 16] {
        const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        let mut network = [0; 16];
        network.copy_from_slice(&self.0[..16]);
        if network[0] == 0xff {
            network[2..8].fill(0);
        } else if network[..12] != MAPPED {
            network[8..].fill(0);
        }
        network
    }
}

impl Default for PathId {
    fn default() -> PathId {
        PathId([0; PathId::LEN])
    }
}
