//! Datagrams that a capture shows as one: those of a segmentation offload that has not cut them yet
//! (GSO, at the sender) or of a receive offload that has joined them (GRO, at the receiver).
//!
//! A capture does not say where they are to be cut. Each RTP packet and each datagram of OpenUVR begins
//! with a header, and the next one's counter is one higher: that finds the size. Where a capture has too
//! little of each packet for that, the largest single datagram of the stream stands in. Others stay as
//! they are.

use openuvr_proto::wire::MAX_DATAGRAM;

use super::kind::Content;

/// The largest payload of UDP in one packet of Ethernet: less is never looked at for more than one.
pub const LARGEST: usize = 1500 - 28;

/// The smallest segment that is looked for. Offloads join only datagrams of one size, and small ones are
/// seldom many enough to fill a packet.
const SMALLEST: usize = 64;

/// How a large datagram is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It is one datagram.
    Single,
    /// Every so many bytes a new one begins, as their headers show.
    Every(usize),
    /// It is more than one, and their headers were not captured.
    Unseen,
}

impl Cut {
    /// How to take a datagram of `length` bytes, of which `payload` was captured, and which begins as
    /// `first` says.
    #[must_use]
    pub fn of(payload: &[u8], length: usize, first: &Content) -> Cut {
        let follows = |at: usize| {
            let rest = payload.get(at..).filter(|rest| !rest.is_empty());
            rest.map(|rest| is_next(first, &Content::of(rest, length - at).0))
        };
        let most = match first {
            _ if length <= LARGEST => return Cut::Single,
            Content::Rtp(_) => LARGEST,
            Content::OpenUvr(..) => MAX_DATAGRAM,
            Content::Plain(_) => return Cut::Single,
        };
        // From the largest on: a small size could fit by chance within another's payload.
        let found = (SMALLEST..=most.min(length - 1))
            .rev()
            .find(|size| follows(*size) == Some(true));
        match (found, first) {
            (Some(size), _) => Cut::Every(size),
            // One of ours is never longer.
            (None, Content::OpenUvr(..)) => Cut::Unseen,
            // RTP may be, where all links carry large packets; unless it can't be seen.
            (None, _) if payload.len() < length.min(LARGEST) => Cut::Unseen,
            (None, _) => Cut::Single,
        }
    }
}

/// Whether one header follows the other within a stream.
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

/// The content of the segment number `index` behind `first`, where its own header is not to be seen.
#[must_use]
pub fn content_behind(first: &Content, index: usize) -> Content {
    let mut content = *first;
    match &mut content {
        Content::Rtp(rtp) => {
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            rtp.sequence = rtp.sequence.wrapping_add(index);
            // It is at the end of the frame, which is not known.
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

    /// RTP packets of these sizes behind each other.
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

    fn cut(payload: &[u8], length: usize) -> Cut {
        Cut::of(payload, length, &Content::of(payload, length).0)
    }

    #[test]
    fn the_next_header_says_where_to_cut() {
        let all = joined(&[1200, 1200, 1200, 500]);
        assert_eq!(cut(&all, all.len()), Cut::Every(1200));
        let large = joined(&[4000]);
        assert_eq!(cut(&large, 4000), Cut::Single);
        assert_eq!(cut(&large[..100], 4000), Cut::Unseen);
        assert_eq!(cut(&joined(&[700, 700]), 1400), Cut::Single);
    }

    #[test]
    fn what_is_not_seen_is_counted_on() {
        let all = joined(&[1200]);
        let first = Content::of(&all, 1200).0;
        let Content::Rtp(third) = content_behind(&first, 2) else {
            panic!("it was RTP");
        };
        assert_eq!((third.sequence, third.ssrc), (42, 0x0506_0708));
    }
}
