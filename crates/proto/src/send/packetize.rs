//! Slices become sealed datagrams, the moment each slice is there.

use crate::control::handshake::Established;
use crate::time::Instant;
use crate::wire::MAX_DATAGRAM;
use crate::wire::header::{HEADER, Plane, TAG};
use crate::wire::seal::{Direction, Sealer};
use crate::wire::video::{
    CONFIGURATION_BYTES, Configuration, FULL_PAYLOAD, FecPlace, Fragment, FragmentPlace,
    FrameHeader, MAX_FRAGMENTS, SlicePlace,
};

/// Datagrams that lie one behind the other, ready for one call of a link: each [`MAX_DATAGRAM`]
/// bytes but the last. The storage is reused.
#[derive(Debug, Default)]
pub struct SendBuf {
    bytes: Vec<u8>,
    datagrams: usize,
}

impl SendBuf {
    /// The datagrams.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many there are.
    #[must_use]
    pub fn datagrams(&self) -> usize {
        self.datagrams
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams = 0;
    }
}

/// Fragments and seals one subscriber's video; the owner of its media key's counter.
pub struct MediaSender {
    sealer: Sealer,
}

impl MediaSender {
    /// The sender of a session. There must be only one.
    #[must_use]
    pub fn new(established: &Established) -> MediaSender {
        let sealer = Sealer::new(
            &established.secret,
            established.session,
            Direction::HostToClient,
            Plane::Media,
        );
        MediaSender { sealer }
    }

    /// Replaces what is in `out` by the datagrams of one slice. A slice of more than
    /// [`MAX_FRAGMENTS`] fragments is not sent at all: the receiver patches it.
    pub fn slice(
        &mut self,
        now: Instant,
        header: &FrameHeader,
        configuration: Option<Configuration>,
        slice: SlicePlace,
        bytes: &[u8],
        out: &mut SendBuf,
    ) {
        out.clear();
        let configuration = configuration.filter(|_| slice.index == 0);
        let first = FULL_PAYLOAD - configuration.map_or(0, |_| CONFIGURATION_BYTES);
        let count = 1 + bytes.len().saturating_sub(first).div_ceil(FULL_PAYLOAD);
        let Some(count) = u16::try_from(count).ok().filter(|c| *c <= MAX_FRAGMENTS) else {
            return;
        };
        let mut offset = 0;
        for index in 0..count {
            let room = if index == 0 { first } else { FULL_PAYLOAD };
            let payload = &bytes[offset..bytes.len().min(offset + room)];
            let fragment = Fragment {
                header: *header,
                slice,
                place: FragmentPlace {
                    index,
                    count,
                    offset: u32::try_from(offset).unwrap_or(u32::MAX),
                },
                fec: FecPlace::default(),
                configuration: configuration.filter(|_| index == 0),
                payload,
            };
            let start = out.bytes.len();
            out.bytes.resize(start + HEADER, 0);
            fragment.write(&mut out.bytes);
            out.bytes.resize(out.bytes.len() + TAG, 0);
            debug_assert!(out.bytes.len() - start <= MAX_DATAGRAM);
            self.sealer.seal(now, &mut out.bytes[start..]);
            offset += payload.len();
            out.datagrams += 1;
        }
    }
}
