//! Builds the packets of sound, without I/O: RTP, encryption, and blocks of four data packets and two parity packets.
//!
//! ```text
//! data    RTP (type 97)  · Opus, encrypted if the client requests it
//! parity  RTP (type 127) · header (12) · parity of the four payloads before
//! ```
//! The layout is that of `RtpAudioQueue.c` of moonlight-common-c. A block begins at a sequence number that is a multiple of
//! four, and timestamps count milliseconds.

use super::cipher::SoundCipher;
use super::multistream::Layout;
use crate::video::{SOUND_DATA, sound_parity};

/// RTP payload types of data and of parity.
const DATA: u8 = 97;
const PARITY: u8 = 127;

/// Version 2 (RFC 3550 section 5.1).
const RTP_FIRST_BYTE: u8 = 0x80;

/// Lengths are rounded up to a multiple of this, the block length of the cipher.
const ROUND: usize = 16;

/// Maximum length of a padded Opus packet. A packet of 5 ms at 512 kb/s has 320 bytes.
const LONGEST: usize = 1024;

/// Builds the packets of one session's sound.
pub struct SoundPackets {
    layout: Layout,
    cipher: Option<SoundCipher>,
    millis: u8,
    sequence: u16,
    time: u32,
    /// Length to which packets are padded.
    length: usize,
    /// Length to which the next block's packets are padded.
    next_length: usize,
    /// Payloads of the current block.
    block: Vec<Vec<u8>>,
}

impl SoundPackets {
    /// Creates a builder for Opus packets of `millis` milliseconds.
    #[must_use]
    pub fn new(layout: Layout, millis: u8, cipher: Option<SoundCipher>) -> SoundPackets {
        SoundPackets {
            layout,
            cipher,
            millis,
            sequence: 0,
            time: 0,
            length: 0,
            next_length: 0,
            block: Vec::new(),
        }
    }

    /// Calls `each` with the data packet that contains `opus`, and after every fourth data packet with the block's
    /// parity packets. Returns whether the Opus packet has the expected format.
    pub fn packets(&mut self, opus: &[u8], mut each: impl FnMut(&[u8])) -> bool {
        let begins = self.sequence.is_multiple_of(4);
        if begins {
            self.block.clear();
        }
        // A quarter is added as a reserve for later packets, because lengths vary.
        let least = self.layout.least(opus.len());
        let wanted = (least * 5 / 4).next_multiple_of(ROUND).min(LONGEST);
        self.next_length = self.next_length.max(wanted);
        if begins {
            self.length = self.next_length;
        }
        let packet = self.layout.packet(opus, self.length.max(least));
        let Some(packet) = packet else {
            return false;
        };
        let payload = match &self.cipher {
            Some(cipher) => cipher.seal(self.sequence, &packet).ok(),
            None => Some(packet),
        };
        let Some(payload) = payload else {
            return false;
        };
        let mut datagram = self.rtp(DATA, self.sequence, self.time);
        datagram.extend_from_slice(&payload);
        each(&datagram);
        self.block.push(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.time = self.time.wrapping_add(self.millis.into());
        if self.sequence.is_multiple_of(4) {
            self.send_parity(&mut each);
        }
        true
    }

    fn send_parity(&self, each: &mut impl FnMut(&[u8])) {
        let [one, two, three, four] = self.block.as_slice() else {
            return;
        };
        let data: [&[u8]; SOUND_DATA] = [one, two, three, four];
        // Clients refuse blocks whose packets differ in length.
        let length = one.len();
        if data.iter().any(|payload| payload.len() != length) {
            return;
        }
        let first = self.sequence.wrapping_sub(4);
        let time = self.time.wrapping_sub(4 * u32::from(self.millis));
        for (index, sum) in (0..).zip(sound_parity(&data, length)) {
            let number = self.sequence.wrapping_add(u16::from(index));
            let mut datagram = self.rtp(PARITY, number, 0);
            datagram.extend([index, DATA]);
            datagram.extend(first.to_be_bytes());
            datagram.extend(time.to_be_bytes());
            // The synchronization source.
            datagram.extend([0; 4]);
            datagram.extend(sum);
            each(&datagram);
        }
    }

    fn rtp(&self, kind: u8, sequence: u16, time: u32) -> Vec<u8> {
        let mut packet = vec![RTP_FIRST_BYTE, kind];
        packet.extend(sequence.to_be_bytes());
        packet.extend(time.to_be_bytes());
        packet.extend([0; 4]);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(packets: &mut SoundPackets, opus: &[u8]) -> Vec<Vec<u8>> {
        let mut made = Vec::new();
        assert!(packets.packets(opus, |packet| made.push(packet.to_vec())));
        made
    }

    fn stereo() -> SoundPackets {
        SoundPackets::new(Layout::of(2).unwrap(), 5, None)
    }

    #[test]
    fn parity_follows_each_fourth_packet() {
        let mut packets = stereo();
        for number in 0..12_u8 {
            let made = made(&mut packets, &[0xfc, number, 1, 2]);
            assert_eq!(made[0][..4], [RTP_FIRST_BYTE, DATA, 0, number]);
            assert_eq!(made[0][4..8], [0, 0, 0, 5 * number]);
            if number % 4 != 3 {
                assert_eq!(made.len(), 1);
                continue;
            }
            assert_eq!(made.len(), 3);
            for (index, parity) in (0..2).zip(&made[1..]) {
                assert_eq!(parity[1], PARITY);
                let first = number - 3;
                assert_eq!(parity[12..16], [index, DATA, 0, first]);
                assert_eq!(parity[16..20], [0, 0, 0, 5 * first]);
                assert_eq!(parity.len() - 24, made[0].len() - 12);
            }
        }
    }

    #[test]
    fn lengths_change_only_between_blocks() {
        let mut packets = stereo();
        let lengths: Vec<usize> = (0..40)
            .map(|number| {
                let opus = vec![0xfc; 60 + number % 7];
                made(&mut packets, &opus)[0].len()
            })
            .collect();
        for block in lengths.chunks(4) {
            assert!(
                block.iter().all(|length| *length == block[0]),
                "{lengths:?}"
            );
        }
        // The lengths of all packets are known from the first two blocks.
        assert!(lengths[8..].iter().all(|length| *length == lengths[8]));
    }

    #[test]
    fn other_packets_are_not_sent() {
        assert!(!stereo().packets(&[0xff, 1], |_| panic!("sent")));
        assert!(!stereo().packets(&[], |_| panic!("sent")));
    }
}
