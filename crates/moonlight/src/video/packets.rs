//! Builds the video packets of a frame, without I/O: RTP and the protocol's own headers, blocks of data and parity, and
//! encryption.
//!
//! ```text
//! RTP header (12) · extension (4, zero) · video header (16) · payload
//!                                         └─ the parity covers this ─┘
//! ```
//! The payloads of a frame's data packets are its frame header (8 bytes) and its H.264 stream. The layout is that of
//! `Video.h`, `RtpVideoQueue.c` and `VideoDepacketizer.c` of moonlight-common-c, for hosts of version 7.1.431.

use super::cipher::VideoCipher;
use super::parity::{MAX_PACKETS, parity};
use crate::feedback::FrameKind;

/// RTP header with its extension.
const RTP_HEADER: usize = 16;

/// The protocol's video header.
const VIDEO_HEADER: usize = 16;

/// The frame header, in front of the frame's stream.
const FRAME_HEADER: usize = 8;

/// Version 2 with an extension (RFC 3550 section 5.1).
const RTP_FIRST_BYTE: u8 = 0x90;

/// Flags of the video header: the packet carries picture data, ends a block, or begins a block.
const PICTURE_DATA: u8 = 1;
const END: u8 = 2;
const START: u8 = 4;

/// Value of the field that announces several blocks per frame.
const BLOCK_FLAGS: u8 = 0x10;

/// Maximum blocks of a frame, because the header has two bits for their number.
const MAX_BLOCKS: usize = 4;

/// Maximum data packets of a block without parity, because the header has ten bits for their number.
const MAX_UNPROTECTED: usize = 1023;

/// Accepted packet sizes after the RTP header. Clients choose 1024 or 1392 bytes, and less over tunnels. Sizes above
/// Ethernet's maximum are not useful.
const PACKET_SIZES: std::ops::RangeInclusive<usize> = 256..=1472;

/// The properties of a frame that its headers contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameProperties {
    /// How clients treat the frame.
    pub kind: FrameKind,
    /// Time from the frame's capture until it is sent, in 0.1 ms. Moonlight shows this time in its statistics.
    pub processing: u16,
    /// Time of capture in units of 1/90 000 s.
    pub time: u32,
    /// Parity packets in percent of data packets.
    pub redundancy: u8,
}

/// The frame needs more packets than the protocol can number: more than about 5.6 MB at a packet size of 1392 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the frame is too long for the protocol of Moonlight")]
pub struct FrameTooLong;

/// The client's packet size is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("packet size {0} is not within 256 to 1472 bytes")]
pub struct InvalidPacketSize(pub usize);

/// The number of packets of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketCount {
    /// Data and parity packets.
    pub all: u32,
    /// The parity packets among them.
    pub parity: u32,
}

/// Builds the packets of one stream.
pub struct Packetizer {
    /// Bytes after the RTP header.
    size: usize,
    /// Minimum parity packets of each block.
    least_parity: usize,
    cipher: Option<VideoCipher>,
    sequence: u32,
    /// Number of the next frame. Clients expect 1 first.
    frame: u32,
    /// Data packets of a block. They are kept to reuse their memory.
    block: Vec<Vec<u8>>,
    sealed: Vec<u8>,
}

/// A block's position in its frame, and its packets.
#[derive(Clone, Copy)]
struct Block {
    index: usize,
    last: usize,
    data: usize,
    parity: usize,
    percent: usize,
}

impl Packetizer {
    /// Builds packets of `size` bytes after the RTP header. With a cipher, the packets are encrypted.
    ///
    /// # Errors
    /// [`InvalidPacketSize`] if the size is not within the accepted range.
    pub fn new(
        size: usize,
        least_parity: usize,
        cipher: Option<VideoCipher>,
    ) -> Result<Packetizer, InvalidPacketSize> {
        if !PACKET_SIZES.contains(&size) {
            return Err(InvalidPacketSize(size));
        }
        Ok(Packetizer {
            size,
            least_parity,
            cipher,
            sequence: 0,
            frame: 1,
            block: Vec::new(),
            sealed: Vec::new(),
        })
    }

    /// The number that the next frame gets.
    #[must_use]
    pub fn next_frame(&self) -> u32 {
        self.frame
    }

    /// Calls `each` with the packets of the next frame, whose stream is in Annex B form.
    ///
    /// # Errors
    /// [`FrameTooLong`] if the frame is too long. Then `each` was not called, and the next frame gets the same number.
    pub fn packets(
        &mut self,
        stream: &[u8],
        properties: &FrameProperties,
        mut each: impl FnMut(&[u8]),
    ) -> Result<PacketCount, FrameTooLong> {
        let payload = self.size - VIDEO_HEADER;
        let length = FRAME_HEADER + stream.len();
        let count = length.div_ceil(payload);
        let (blocks, percent) = blocks(count, usize::from(properties.redundancy))?;
        let each_block = count.div_ceil(blocks);
        let blocks = count.div_ceil(each_block);
        let header = frame_header(properties, length - (count - 1) * payload);
        let mut done = PacketCount::default();
        let (first, further) = stream.split_at(stream.len().min(payload - FRAME_HEADER));
        let further = further.chunks(payload).map(|part| (&[][..], part));
        let mut payloads = std::iter::once((&header[..], first)).chain(further);
        for index in 0..blocks {
            let data = each_block.min(count - index * each_block);
            let (parity, percent) = redundancy(data, percent, self.least_parity);
            let block = Block {
                index,
                last: blocks - 1,
                data,
                parity,
                percent,
            };
            self.send_block(block, properties.time, &mut payloads, &mut each);
            done.all += u32::try_from(data + parity).unwrap_or(u32::MAX);
            done.parity += u32::try_from(parity).unwrap_or(u32::MAX);
        }
        self.frame = self.frame.wrapping_add(1);
        Ok(done)
    }

    fn send_block<'a>(
        &mut self,
        block: Block,
        time: u32,
        payloads: &mut impl Iterator<Item = (&'a [u8], &'a [u8])>,
        each: &mut impl FnMut(&[u8]),
    ) {
        let mut packets = std::mem::take(&mut self.block);
        packets.resize_with(block.data, Vec::new);
        for (index, packet) in packets.iter_mut().enumerate() {
            packet.clear();
            self.write_rtp(packet, time);
            let start = if index == 0 { START } else { 0 };
            let end = if index + 1 == block.data { END } else { 0 };
            // The packet's number in the stream, shifted by eight bits that clients ignore.
            packet.extend((self.sequence << 8).to_le_bytes());
            packet.extend(self.frame.to_le_bytes());
            packet.extend([PICTURE_DATA | start | end, 0, BLOCK_FLAGS, block.place()]);
            packet.extend(block.correction(index).to_le_bytes());
            if let Some((head, body)) = payloads.next() {
                packet.extend_from_slice(head);
                packet.extend_from_slice(body);
            }
            self.sequence = self.sequence.wrapping_add(1);
            self.seal(packet, each);
        }
        let covered: Vec<&[u8]> = packets.iter().map(|packet| &packet[RTP_HEADER..]).collect();
        for (index, sum) in (block.data..).zip(parity(&covered, block.parity, self.size)) {
            let mut packet = Vec::with_capacity(RTP_HEADER + self.size);
            self.write_rtp(&mut packet, time);
            packet.extend(sum);
            // Clients read these fields from the first packet that arrives, and restore them in recovered packets.
            packet[RTP_HEADER + 4..RTP_HEADER + 8].copy_from_slice(&self.frame.to_le_bytes());
            packet[RTP_HEADER + 11] = block.place();
            let correction = block.correction(index).to_le_bytes();
            packet[RTP_HEADER + 12..RTP_HEADER + 16].copy_from_slice(&correction);
            self.sequence = self.sequence.wrapping_add(1);
            self.seal(&packet, each);
        }
        self.block = packets;
    }

    fn write_rtp(&self, packet: &mut Vec<u8>, time: u32) {
        let [_, _, high, low] = self.sequence.to_be_bytes();
        packet.extend([RTP_FIRST_BYTE, 0, high, low]);
        packet.extend(time.to_be_bytes());
        // Synchronization source, and extension.
        packet.extend([0; 8]);
    }

    fn seal(&mut self, packet: &[u8], each: &mut impl FnMut(&[u8])) {
        match &mut self.cipher {
            // A packet that cannot be encrypted is never sent. For clients, it is lost.
            Some(cipher) => {
                if cipher.seal(self.frame, packet, &mut self.sealed).is_ok() {
                    each(&self.sealed);
                }
            }
            None => each(packet),
        }
    }
}

impl Block {
    /// The field with the number of the block, and the number of the frame's last block.
    fn place(self) -> u8 {
        u8::try_from(self.index << 4 | self.last << 6).unwrap_or(0)
    }

    /// The field with the packet's number in the block, the number of data packets, and the redundancy in percent.
    fn correction(self, index: usize) -> u32 {
        u32::try_from(index << 12 | self.data << 22 | self.percent << 4).unwrap_or(0)
    }
}

/// The frame header. `last` is the number of bytes in its last payload.
fn frame_header(properties: &FrameProperties, last: usize) -> [u8; FRAME_HEADER] {
    let [p, q] = properties.processing.to_le_bytes();
    let [l, m] = u16::try_from(last).unwrap_or(u16::MAX).to_le_bytes();
    // The first byte announces a header of eight bytes.
    [1, p, q, properties.kind.number(), l, m, 0, 0]
}

/// The number of blocks for `count` data packets, and the redundancy in percent.
fn blocks(count: usize, percent: usize) -> Result<(usize, usize), FrameTooLong> {
    let most = MAX_PACKETS * 100 / (100 + percent);
    let protected = count.div_ceil(most.max(1));
    if protected <= MAX_BLOCKS {
        return Ok((protected, percent));
    }
    // Such a frame is a key frame of a very large picture. It is sent without parity rather than not at all.
    let unprotected = count.div_ceil(MAX_UNPROTECTED);
    match unprotected <= MAX_BLOCKS {
        true => Ok((unprotected, 0)),
        false => Err(FrameTooLong),
    }
}

/// The number of parity packets for `data` packets, and the percentage for the header. Clients compute the same number
/// from this percentage, rounded up (`RtpvAddPacket` of moonlight-common-c).
fn redundancy(data: usize, percent: usize, least: usize) -> (usize, usize) {
    if percent == 0 {
        return (0, 0);
    }
    let wanted = percent
        .max((100 * least).div_ceil(data))
        .min(usize::from(u8::MAX));
    let count = |percent: usize| (data * percent).div_ceil(100);
    let percent = (0..=wanted)
        .rev()
        .find(|percent| data + count(*percent) <= MAX_PACKETS)
        .unwrap_or(0);
    (count(percent), percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROPERTIES: FrameProperties = FrameProperties {
        kind: FrameKind::Key,
        processing: 42,
        time: 90_000,
        redundancy: 20,
    };

    fn made(packetizer: &mut Packetizer, stream: &[u8]) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let count = packetizer
            .packets(stream, &PROPERTIES, |packet| packets.push(packet.to_vec()))
            .unwrap();
        assert_eq!(count.all as usize, packets.len());
        packets
    }

    fn packetizer() -> Packetizer {
        Packetizer::new(1024, 2, None).unwrap()
    }

    fn stream(length: usize) -> Vec<u8> {
        (0..length)
            .map(|i| u8::try_from(i % 251).unwrap())
            .collect()
    }

    /// The fields of the correction word: index, data packets, percent.
    fn correction(packet: &[u8]) -> (usize, usize, usize) {
        let word = u32::from_le_bytes(packet[28..32].try_into().unwrap()) as usize;
        (word >> 12 & 0x3ff, word >> 22, word >> 4 & 0xff)
    }

    #[test]
    fn a_frame_is_whole_in_its_data_packets() {
        let mut packetizer = packetizer();
        for length in [1, 1000, 1001, 20_000] {
            let frame = packetizer.next_frame();
            let stream = stream(length);
            let packets = made(&mut packetizer, &stream);
            let data = correction(&packets[0]).1;
            let mut joined = Vec::new();
            for (index, packet) in packets[..data].iter().enumerate() {
                assert_eq!(packet[24] & START != 0, index == 0);
                assert_eq!(packet[24] & END != 0, index + 1 == data);
                assert_eq!(packet[20..24], frame.to_le_bytes());
                joined.extend_from_slice(&packet[32..]);
            }
            let last = packets[data - 1].len() - 32;
            let [l, m] = u16::try_from(last).unwrap().to_le_bytes();
            assert_eq!(joined[..8], [1, 42, 0, 2, l, m, 0, 0]);
            assert_eq!(joined[8..], stream);
        }
    }

    #[test]
    fn clients_compute_the_same_number_of_parity_packets() {
        for data in 1..=MAX_PACKETS {
            for percent in [1, 10, 20, 50, 255] {
                if blocks(data, percent) != Ok((1, percent)) {
                    // A frame of this size has several blocks.
                    continue;
                }
                let (count, told) = redundancy(data, percent, 2);
                assert_eq!((data * told).div_ceil(100), count);
                assert!(data + count <= MAX_PACKETS && told <= 255);
                assert!(count >= 2, "{data} {percent}");
            }
        }
    }

    #[test]
    fn packets_are_numbered_through_blocks_and_frames() {
        let mut packetizer = packetizer();
        let mut all = made(&mut packetizer, &stream(400_000));
        all.extend(made(&mut packetizer, &stream(10)));
        for (number, packet) in all.iter().enumerate() {
            let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
            assert_eq!(packet[..4], [RTP_FIRST_BYTE, 0, high, low]);
        }
        let blocks: Vec<u8> = all.iter().map(|packet| packet[27]).collect();
        // The first frame has two blocks, numbers 0 and 1. The second frame has one block.
        assert_eq!((blocks[0], blocks[300]), (0x40, 0x50));
        assert_eq!(blocks.last(), Some(&0));
        let data: Vec<&Vec<u8>> = all
            .iter()
            .filter(|packet| correction(packet).0 < correction(packet).1)
            .collect();
        for packet in data {
            assert_eq!(packet[16], 0);
            assert_eq!(packet[17..19], [packet[3], packet[2]]);
        }
    }

    #[test]
    fn huge_frames_lose_their_parity_and_then_are_refused() {
        assert_eq!(blocks(212 * 4, 20), Ok((4, 20)));
        assert_eq!(blocks(212 * 4 + 1, 20), Ok((1, 0)));
        assert_eq!(blocks(1023 * 4, 20), Ok((4, 0)));
        assert_eq!(blocks(1023 * 4 + 1, 20), Err(FrameTooLong));
    }

    #[test]
    fn absurd_packet_sizes_are_refused() {
        for size in [0, 16, 255, 1473, usize::MAX] {
            assert!(Packetizer::new(size, 2, None).is_err());
        }
    }
}
