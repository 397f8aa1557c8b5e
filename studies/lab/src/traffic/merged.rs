//! Splits datagrams that are merged in a capture. The sender merges them by segmentation offload (GSO), which segments
//! only after the capture point. The receiver merges them by receive offload (GRO).
//!
//! A capture does not record the segment size. Each RTP packet and each OpenUVR datagram starts with a header. The next
//! header's counter is higher by one, so its position reveals the size. If the snapshot length is too small for that,
//! the size of the stream's largest single datagram is assumed. Other kinds of datagrams are not split.

use openuvr_proto::wire::MAX_DATAGRAM;

use super::kind::Content;

/// The largest UDP payload in one Ethernet packet. Smaller datagrams are never split.
pub const LARGEST: usize = 1500 - 28;

/// The smallest segment size in the search. Offloads merge only datagrams of equal size (the last one may be shorter),
/// and small datagrams seldom fill a packet.
const SMALLEST: usize = 64;

/// Segmentation of a large datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segmentation {
    /// A single datagram.
    Single,
    /// Segments of this size, confirmed by their headers.
    Every(usize),
    /// Several datagrams whose headers were not captured.
    Unseen,
}

impl Segmentation {
    /// Determines the segmentation of a datagram that has `length` bytes and begins with the header `first`. `payload`
    /// is its captured part.
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
        // Search from the largest size down, because a small size could match by chance within a payload.
        let found = (SMALLEST..=most.min(length - 1))
            .rev()
            .find(|size| follows(*size) == Some(true));
        match (found, first) {
            (Some(size), _) => Segmentation::Every(size),
            // A single OpenUVR datagram is never this long.
            (None, Content::OpenUvr(..)) => Segmentation::Unseen,
            // If the headers were not captured, assume several RTP packets. Otherwise it is a single long RTP packet,
            // as on jumbo links.
            (None, _) if payload.len() < length.min(LARGEST) => Segmentation::Unseen,
            (None, _) => Segmentation::Single,
        }
    }
}

/// Whether the second header belongs to the datagram after the first in the same stream.
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

/// The content of the segment that is `index` places after the segment `first`, if its own header was not captured.
#[must_use]
pub fn content_behind(first: &Content, index: usize) -> Content {
    let mut content = *first;
    match &mut content {
        Content::Rtp(rtp) => {
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            rtp.sequence = rtp.sequence.wrapping_add(index);
            // Only the last packet of a frame has the marker, and the end of the frame is unknown.
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
