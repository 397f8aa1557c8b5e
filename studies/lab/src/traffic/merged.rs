//! Datagrams merged in a capture: by segmentation offload before segmentation (GSO, at the sender),
//! or by receive offload (GRO, at the receiver).
//!
//! A capture does not record the segment size. Each RTP packet and each OpenUVR datagram starts
//! with a header, and the next one's counter is one higher, which reveals the size. If the snapshot
//! length is too small for that, the largest single datagram of the stream is assumed. Other kinds
//! are not split.

use openuvr_proto::wire::MAX_DATAGRAM;

use super::kind::Content;

/// The largest UDP payload in one Ethernet packet: smaller datagrams are never split.
pub const LARGEST: usize = 1500 - 28;

/// The smallest segment size in the search. Offloads merge only datagrams of equal size, and small
/// ones seldom fill a packet.
const SMALLEST: usize = 64;

/// Segmentation of a large datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segmentation {
    /// A single datagram.
    Single,
    /// Segments of this size, confirmed by their headers.
    Every(usize),
    /// Several datagrams without captured headers.
    Unseen,
}

impl Segmentation {
    /// Determines the segmentation of a datagram of `length` bytes, of which `payload` was
    /// captured, with the header `first`.
    #[must_use]
    pub fn of(payload: &[u8], length: usize, first: &Content) -> Segmentation {
        let follows = |at: usize| {
            let rest = payload.get(at..).filter(|rest| !rest.is_empty());
            rest.map(|rest| is_next(first, &Content::of(rest, length - at).0))
        };
        let most = match first {
            _ if length <= LARGEST => return Segmentation::Single,
            Content::Rtp(_) => LARGEST,
            Content::OpenUvr(..) => MAX_DATAGRAM,
            Content::Plain(_) => return Segmentation::Single,
        };
        // From the largest down: a small size could match by chance within a payload.
        let found = (SMALLEST..=most.min(length - 1))
            .rev()
            .find(|size| follows(*size) == Some(true));
        match (found, first) {
            (Some(size), _) => Segmentation::Every(size),
            // An OpenUVR datagram is never longer.
            (None, Content::OpenUvr(..)) => Segmentation::Unseen,
            // RTP may be longer on jumbo links, unless the headers were not captured.
            (None, _) if payload.len() < length.min(LARGEST) => Segmentation::Unseen,
            (None, _) => Segmentation::Single,
        }
    }
}

/// Whether the second header follows the first in a stream.
fn is_next(first: &Content, second: &Content) -> bool {
    match (first, second) {
        (Content::Rtp(a), Content::Rtp(b)) => {
            a.ssrc == b.ssrc
                && a.payload_type == b.payload_type
                && b.sequence == a.sequence.wrapping_add(1)
        }
        (Content::OpenUvr(plane, a), Content::OpenUvr(other, b)) => {
            plane == other && a.session == b.session && b.number == a.number.wrapping_add(1)
        }
        _ => false,
    }
}

/// The content of segment number `index` after `first`, if its own header was not captured.
#[must_use]
pub fn content_behind(first: &Content, index: usize) -> Content {
    let mut content = *first;
    match &mut content {
        Content::Rtp(rtp) => {
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            rtp.sequence = rtp.sequence.wrapping_add(index);
            // The marker is at the end of the frame, which is unknown.
            rtp.marker = false;
        }
        Content::OpenUvr(_, sealed) => sealed.number = sealed.number.wrapping_add(index as u64),
        Content::Plain(_) => {}
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Concatenated RTP packets of these sizes.
    fn joined(sizes: &[usize]) -> Vec<u8> {
        let mut all = Vec::new();
        for (number, size) in (40_u16..).zip(sizes) {
            let begins = all.len();
            all.extend([0x80, 96]);
            all.extend(number.to_be_bytes());
            all.extend([1, 2, 3, 4, 5, 6, 7, 8]);
            all.resize(begins + size, 0);
        }
        all
    }

    fn cut(payload: &[u8], length: usize) -> Segmentation {
        Segmentation::of(payload, length, &Content::of(payload, length).0)
    }

    #[test]
    fn the_next_header_gives_the_segment_size() {
        let all = joined(&[1200, 1200, 1200, 500]);
        assert_eq!(cut(&all, all.len()), Segmentation::Every(1200));
        let large = joined(&[4000]);
        assert_eq!(cut(&large, 4000), Segmentation::Single);
        assert_eq!(cut(&large[..100], 4000), Segmentation::Unseen);
        assert_eq!(cut(&joined(&[700, 700]), 1400), Segmentation::Single);
    }

    #[test]
    fn uncaptured_segments_are_extrapolated() {
        let all = joined(&[1200]);
        let first = Content::of(&all, 1200).0;
        let Content::Rtp(third) = content_behind(&first, 2) else {
            panic!("it was RTP");
        };
        assert_eq!((third.sequence, third.ssrc), (42, 0x0506_0708));
    }
}
