//! The offload work of a network card: checksums and segmentation.
//!
//! A virtual interface delivers frames as the sending machine created them: with unfinished checksums, and with up to
//! 64 KiB of UDP or TCP data in one frame (segmentation offload). OpenUVR's host sends such frames, too. If the link
//! model dropped such a frame as a whole, the pattern of losses would differ from the configured one. A header before
//! each frame describes the remaining work (`PACKET_VNET_HDR`, packet(7)).
//!
//! It is not an IP stack: it parses only what these two jobs require.

/// The length of the header before each frame, `struct virtio_net_hdr` of <linux/virtio_net.h>.
pub(super) const HEADER_LEN: usize = 10;

/// The header of a finished frame.
pub(super) const NOTHING_TO_DO: [u8; HEADER_LEN] = [0; HEADER_LEN];

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// A flag bit in the field of the kind: TCP's flag CWR is set. Only the first segment keeps that flag (see
/// [`Segment::tcp`]).
const GSO_ECN: u8 = 0x80;

const ETHERNET_LEN: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Takes a header and a frame in `received`, splits the frame into the frames that a cable would carry, and passes each
/// one to `each`. Returns `None`, without any output, if the header is invalid for this frame.
pub(super) fn finish(received: &[u8], mut each: impl FnMut(Vec<u8>)) -> Option<()> {
    let (header, frame) = received.split_at_checked(HEADER_LEN)?;
    let half = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    let (flags, kind) = (header[0], header[1] & !GSO_ECN);
    let (size, begin, field) = (half(4), half(6), half(6) + half(8));
    if kind != 0 {
        for frame in cut(frame, kind, size, begin)? {
            each(frame);
        }
        return Some(());
    }
    let mut frame = frame.to_vec();
    if flags & NEEDS_CHECKSUM != 0 {
        // The field holds the sum of the pseudo header already.
        let sum = checksum(0, frame.get(begin..)?);
        let is_udp = half(8) == UDP_CHECKSUM;
        let sum = if is_udp { never_zero(sum) } else { sum };
        frame
            .get_mut(field..field + 2)?
            .copy_from_slice(&sum.to_be_bytes());
    }
    each(frame);
    Some(())
}

const UDP_CHECKSUM: usize = 6;
const TCP_CHECKSUM: usize = 16;

/// Segments one large frame as a card would.
fn cut(frame: &[u8], kind: u8, size: usize, transport: usize) -> Option<Vec<Vec<u8>>> {
    let (protocol, own) = match kind {
        GSO_UDP => (UDP, 8),
        GSO_TCP4 | GSO_TCP6 => (TCP, usize::from(frame.get(transport + 12)? >> 4) * 4),
        _ => return None,
    };
    let (head, payload) = frame.split_at_checked(transport + own)?;
    let is_v4 = frame.get(12..ETHERNET_LEN)? == [0x08, 0x00];
    let shortest = ETHERNET_LEN + if is_v4 { 20 } else { 40 };
    let least = if protocol == UDP { 8 } else { 20 };
    if size == 0 || transport < shortest || own < least {
        return None;
    }
    let count = payload.len().div_ceil(size);
    let frames = payload.chunks(size).enumerate().map(|(index, chunk)| {
        let mut cut = Segment {
            bytes: [head, chunk].concat(),
            transport,
            index,
        };
        cut.network(is_v4)?;
        if protocol == UDP {
            cut.put(transport + 4, u16::try_from(own + chunk.len()).ok()?);
        } else {
            cut.tcp(size, index + 1 == count);
        }
        cut.checksum(protocol, is_v4);
        Some(cut.bytes)
    });
    frames.collect()
}

/// One of the frames into which a large frame is split. Initially, it has the headers of the large frame. All fields
/// are within the headers ([`cut`] has checked their length).
struct Segment {
    bytes: Vec<u8>,
    transport: usize,
    index: usize,
}

impl Segment {
    fn half(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn put(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Sets the length. For IPv4, also increments the identification (RFC 791) and sets the header checksum.
    fn network(&mut self, is_v4: bool) -> Option<()> {
        let ip = ETHERNET_LEN;
        if !is_v4 {
            let len = u16::try_from(self.bytes.len() - ip - 40).ok()?;
            self.put(ip + 4, len);
            return Some(());
        }
        let len = u16::try_from(self.bytes.len() - ip).ok()?;
        self.put(ip + 2, len);
        let [.., low, lower] = self.index.to_be_bytes();
        let number = self
            .half(ip + 4)
            .wrapping_add(u16::from_be_bytes([low, lower]));
        self.put(ip + 4, number);
        self.put(ip + 10, 0);
        let sum = checksum(0, &self.bytes[ip..self.transport]);
        self.put(ip + 10, sum);
        Some(())
    }

    /// Sets the sequence number, and clears the flags that belong only to the first segment (CWR, RFC 3168) or to the
    /// last segment (FIN, PSH).
    fn tcp(&mut self, size: usize, is_last: bool) {
        let at = self.transport + 4;
        let field = [0, 1, 2, 3].map(|i| self.bytes[at + i]);
        let [.., a, b, c, d] = (self.index * size).to_be_bytes();
        let number = u32::from_be_bytes(field).wrapping_add(u32::from_be_bytes([a, b, c, d]));
        self.bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        let flags = &mut self.bytes[self.transport + 13];
        if !is_last {
            *flags &= !0x09;
        }
        if self.index > 0 {
            *flags &= !0x80;
        }
    }

    /// Sets the checksum of UDP or TCP, which covers the pseudo header (RFC 768, RFC 9293, RFC 8200 section 8.1).
    fn checksum(&mut self, protocol: u8, is_v4: bool) {
        let addresses = ETHERNET_LEN + if is_v4 { 12 } else { 8 };
        let both = if is_v4 { 8 } else { 32 };
        let len = self.bytes.len() - self.transport;
        let field = self.transport
            + if protocol == UDP {
                UDP_CHECKSUM
            } else {
                TCP_CHECKSUM
            };
        self.put(field, 0);
        let pseudo = add(
            u64::from(protocol) + len as u64,
            &self.bytes[addresses..addresses + both],
        );
        let sum = checksum(pseudo, &self.bytes[self.transport..]);
        self.put(
            field,
            if protocol == UDP {
                never_zero(sum)
            } else {
                sum
            },
        );
    }
}

/// Replaces a checksum of zero: in UDP, zero means that there is no checksum (RFC 768).
fn never_zero(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

/// The internet checksum (RFC 1071) of `bytes`, with `begin` as the initial sum.
fn checksum(begin: u64, bytes: &[u8]) -> u16 {
    let mut sum = add(begin, bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

fn add(begin: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(2).fold(begin, |sum, pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        sum + u64::from(u16::from_be_bytes([pair[0], low]))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An Ethernet frame that carries UDP over IPv4 or IPv6, without UDP's checksum.
    fn udp(is_v4: bool, payload: &[u8]) -> (Vec<u8>, usize) {
        let mut frame = vec![2; 12];
        let len = u16::try_from(payload.len() + 8).unwrap();
        if is_v4 {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((len + 20).to_be_bytes());
            frame.extend([0, 7, 0, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            let sum = checksum(0, &frame[14..]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(len.to_be_bytes());
            frame.extend([UDP, 64]);
            frame.extend([0xfd; 32]);
        }
        let transport = frame.len();
        frame.extend([0x12, 0x34, 0x56, 0x78]);
        frame.extend(len.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        (frame, transport)
    }

    fn header(flags: u8, kind: u8, size: u16, begin: usize, field: u16) -> Vec<u8> {
        let begin = u16::try_from(begin).unwrap();
        let mut header = vec![flags, kind, 0, 0];
        for half in [size, begin, field] {
            header.extend(half.to_ne_bytes());
        }
        header
    }

    fn finished(header: &[u8], frame: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        finish(&[header, frame].concat(), |frame| all.push(frame))?;
        Some(all)
    }

    /// Whether IPv4's and UDP's checksums are correct: the sum over the covered bytes is all ones.
    fn is_right(frame: &[u8], is_v4: bool, transport: usize) -> bool {
        let (from, to) = if is_v4 { (26, 34) } else { (22, 54) };
        let len = frame.len() - transport;
        let pseudo = add(u64::from(UDP) + len as u64, &frame[from..to]);
        let ip = !is_v4 || checksum(0, &frame[14..34]) == 0;
        ip && checksum(pseudo, &frame[transport..]) == 0
    }

    #[test]
    fn the_checksum_is_the_published_one() {
        // RFC 1071, section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(0, &bytes), !0xddf2);
    }

    #[test]
    fn a_finished_frame_passes_unchanged() {
        let frame = [[0xff; 12].as_slice(), &[0x88, 0xb5], b"any"].concat();
        assert_eq!(finished(&NOTHING_TO_DO, &frame), Some(vec![frame.clone()]));
    }

    #[test]
    fn large_udp_is_segmented_with_correct_headers() {
        for is_v4 in [true, false] {
            let payload: Vec<u8> = (0..=255).cycle().take(3100).collect();
            let (frame, transport) = udp(is_v4, &payload);
            let header = header(NEEDS_CHECKSUM, GSO_UDP, 1400, transport, 6);
            let frames = finished(&header, &frame).unwrap();
            let lens: Vec<usize> = frames.iter().map(|f| f.len() - transport - 8).collect();
            assert_eq!(lens, [1400, 1400, 300]);
            for (frame, part) in frames.iter().zip(payload.chunks(1400)) {
                assert_eq!(&frame[transport + 8..], part);
                assert!(is_right(frame, is_v4, transport));
                let len = u16::from_be_bytes([frame[transport + 4], frame[transport + 5]]);
                assert_eq!(usize::from(len), part.len() + 8);
            }
            if is_v4 {
                let numbers: Vec<u8> = frames.iter().map(|f| f[19]).collect();
                assert_eq!(numbers, [7, 8, 9]);
            }
        }
    }

    #[test]
    fn large_tcp_is_segmented_with_correct_flags() {
        let (mut frame, transport) = udp(true, &[]);
        frame.truncate(transport);
        let mut tcp = vec![0; 20];
        tcp[7] = 0xff;
        (tcp[12], tcp[13]) = (0x50, 0x99); // CWR, ACK, PSH, FIN
        frame.extend(tcp);
        frame.extend([9; 250]);
        let header = header(NEEDS_CHECKSUM, GSO_TCP4 | GSO_ECN, 100, transport, 16);
        let frames = finished(&header, &frame).unwrap();
        let seen: Vec<(u8, u8, usize)> = frames
            .iter()
            .map(|f| (f[transport + 6], f[transport + 7], f.len() - transport - 20))
            .collect();
        assert_eq!(seen, [(0, 0xff, 100), (1, 0x63, 100), (1, 0xc7, 50)]);
        let flags: Vec<u8> = frames.iter().map(|f| f[transport + 13]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19]);
    }

    proptest! {
        #[test]
        fn an_unfinished_checksum_is_finished(payload: Vec<u8>, is_v4: bool) {
            let (mut frame, transport) = udp(is_v4, &payload);
            let (from, to) = if is_v4 { (26, 34) } else { (22, 54) };
            let len = frame.len() - transport;
            let pseudo = !checksum(add(u64::from(UDP) + len as u64, &frame[from..to]), &[]);
            frame[transport + 6..transport + 8].copy_from_slice(&pseudo.to_be_bytes());
            let frames = finished(&header(1, 0, 0, transport, 6), &frame).unwrap();
            prop_assert!(is_right(&frames[0], is_v4, transport));
        }

        #[test]
        fn no_header_makes_it_panic(header: [u8; 10], frame: Vec<u8>, kind in 0..6_u8) {
            let _ = finished(&header, &frame);
            let mut likely = header;
            likely[1] = kind;
            likely[7] = 0;
            let (udp, _) = udp(kind % 2 == 0, &frame);
            let _ = finished(&likely, &udp);
        }
    }
}
