//! Typed identifiers.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A captured frame, numbered by its source from 1. At 60 frames/s, 32 bits last two years. Zero means "no frame yet".
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
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

/// One view of a video stream. A stereo stream, for example, has one view for each eye, as in OpenXR. Each view has its
/// own frames.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct ViewId {
    /// The video stream's number in the session.
    pub stream: u8,
    /// The view of the stream, counted from 0: the left eye comes first.
    pub view: u8,
}

impl ViewId {
    /// The view that each session has.
    pub const FIRST: ViewId = ViewId { stream: 0, view: 0 };
}

/// A payload of a timed stream (audio, haptics, poses), numbered by its sender from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PayloadSeq(pub u64);

/// The number of a configuration of a rendition (size, codec, colour). A resize starts a new epoch, and the first frame
/// of each epoch is a key frame.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct ConfigEpoch(pub u16);

/// A rendition of a host's source: one encoder and its configuration; numbered by the host from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RenditionId(pub u32);

impl std::fmt::Display for RenditionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rendition {}", self.0)
    }
}

/// A session between one host and one client; random, chosen by the host, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct SessionId(pub u32);

/// A subscriber to a host's frames.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum SubscriberId {
    /// An OpenUVR session.
    Session(SessionId),
    /// Another subscriber, numbered from 1.
    Other(u32),
}

impl SubscriberId {
    /// The session, if the subscriber is one.
    #[must_use]
    pub fn session(self) -> Option<SessionId> {
        match self {
            SubscriberId::Session(session) => Some(session),
            SubscriberId::Other(_) => None,
        }
    }
}

impl SubscriberId {
    /// A plain number, for interfaces without a richer type (the C API, the trace). A session's number is 32 random bits, so
    /// it equals that of another subscriber with a probability of 1 in 4 billion.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            SubscriberId::Session(SessionId(number)) | SubscriberId::Other(number) => number,
        }
    }
}

/// The prefix, in files and logs, of a subscriber that is not a session.
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

/// An input event of one session, numbered by the client from 1. Zero means "no input yet".
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct InputSeq(pub u32);

/// A device that a client registered, with the number that its application assigned.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct DeviceId(pub u8);

/// A pose of one session, numbered by the client from 1. Zero means "no pose yet".
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct PoseId(pub u32);

/// The path of a datagram, opaque to the protocol except for [`PathId::network`]. Crate `net` writes a transport address
/// into it (both ends, if the transport has two) and reads it back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PathId(pub [u8; PathId::LEN]);

impl PathId {
    /// Size of a path in bytes: two IPv6 addresses, a port, and a byte for use by crate `net`.
    pub const LEN: usize = 35;

    /// The network of the peer. An attacker with one address of a network can use all of them. For IPv4, the network is
    /// the address; for IPv6, the first 64 bits. All stations of an Ethernet interface are one network, because each of
    /// them can use any Ethernet address.
    ///
    /// The first 16 bytes of a path are the peer's address in the format of crate `net`: an IPv6 address, an IPv4
    /// address mapped into IPv6, or an Ethernet address. With an Ethernet address, the path starts with `ff`; the
    /// address is in bytes 2–7, and the interface follows.
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
