//! Splits a VP9 frame into RTP payloads (RFC 9628): one spatial and one temporal layer, in non-flexible mode. Browsers
//! find the references of a frame by its picture ID and `TL0PICIDX`, and hold a frame back until its predecessor has
//! arrived. Flexible mode is not an option, because Safari drops frames in this mode. In non-flexible mode, libwebrtc
//! drops frames without `TL0PICIDX`, so each payload contains it.

use super::MAX_PAYLOAD;

/// Flag in the first byte of the payload descriptor (section 4.2): a picture ID is present.
const PICTURE_ID: u8 = 0x80;
/// Flag: the frame refers to another frame.
const PREDICTED: u8 = 0x40;
/// Flag: layer indices are present.
const LAYERS: u8 = 0x20;
/// Flag: this is the first payload of the frame.
const BEGINS: u8 = 0x08;
/// Flag: this is the last payload of the frame.
const ENDS: u8 = 0x04;
/// Flag: a scalability structure is present.
const STRUCTURE: u8 = 0x02;

/// This bit marks a picture ID of 15 bits.
const LONG_ID: u16 = 0x8000;

/// Layer indices: temporal layer 0, spatial layer 0. The set bit (U) permits a switch to a higher temporal layer.
const ONLY_LAYER: u8 = 0x10;

/// A scalability structure (section 4.2.1) of one layer without resolutions and without a group of pictures. A key
/// frame needs a structure, because libwebrtc ignores key frames without one.
const ONE_LAYER: u8 = 0;

/// Length of the longest payload descriptor in bytes.
const DESCRIPTOR: usize = 6;

/// The packetiser of a stream, which numbers the frames.
#[derive(Clone, Debug, Default)]
pub struct Packetiser {
    picture: u16,
    base_layer: u8,
    packet: Vec<u8>,
}

impl Packetiser {
    /// Calls `each` with each payload of `frame`, a complete coded frame. The second argument states whether the
    /// payload is the last of the frame. An empty frame has no payloads.
    pub fn payloads(&mut self, frame: &[u8], mut each: impl FnMut(&[u8], bool)) {
        let Some(first) = frame.first() else { return };
        let is_key = is_key_frame(*first);
        let parts = frame.len().div_ceil(MAX_PAYLOAD - DESCRIPTOR);
        // Equal lengths avoid a final packet of a few bytes.
        let size = frame.len().div_ceil(parts);
        for (index, part) in frame.chunks(size).enumerate() {
            let (begins, ends) = (index == 0, (index + 1) * size >= frame.len());
            let flag = |set: bool, flag: u8| if set { flag } else { 0 };
            self.packet.clear();
            self.packet.push(
                PICTURE_ID
                    | LAYERS
                    | flag(!is_key, PREDICTED)
                    | flag(begins, BEGINS)
                    | flag(ends, ENDS)
                    | flag(is_key && begins, STRUCTURE),
            );
            self.packet.extend((self.picture | LONG_ID).to_be_bytes());
            self.packet.extend([ONLY_LAYER, self.base_layer]);
            if is_key && begins {
                self.packet.push(ONE_LAYER);
            }
            self.packet.extend_from_slice(part);
            each(&self.packet, ends);
        }
        self.picture = (self.picture + 1) & !LONG_ID;
        self.base_layer = self.base_layer.wrapping_add(1);
    }
}

/// Whether a frame of profile 0 that starts with this byte is a key frame. The byte holds the frame marker (two bits
/// with the value 2), two bits of the profile, `show_existing_frame`, and `frame_type` (VP9 bitstream specification
/// 6.2).
fn is_key_frame(first: u8) -> bool {
    first & 0b1111_1100 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u8 = 0x82;
    const OTHER: u8 = 0x86;

    fn all(packetiser: &mut Packetiser, frame: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let mut all = Vec::new();
        packetiser.payloads(frame, |payload, last| all.push((payload.to_vec(), last)));
        all
    }

    fn frame(first: u8, length: u32) -> Vec<u8> {
        let rest = (1..length).map(|n| u8::try_from(n % 251).unwrap());
        std::iter::once(first).chain(rest).collect()
    }

    #[test]
    fn a_key_frame_carries_the_structure_once() {
        let mut packetiser = Packetiser::default();
        let key = frame(KEY, 3000);
        let payloads = all(&mut packetiser, &key);
        let flags: Vec<u8> = payloads.iter().map(|(payload, _)| payload[0]).collect();
        assert_eq!(flags, [0xaa, 0xa0, 0xa4]);
        assert_eq!(payloads[0].0[1..6], [0x80, 0, 0x10, 0, 0]);
        assert_eq!(payloads[1].0[1..5], [0x80, 0, 0x10, 0]);
        let lasts: Vec<bool> = payloads.iter().map(|(_, last)| *last).collect();
        assert_eq!(lasts, [false, false, true]);
        let mut joined = payloads[0].0[6..].to_vec();
        payloads[1..]
            .iter()
            .for_each(|(payload, _)| joined.extend(&payload[5..]));
        assert_eq!(joined, key);
    }

    #[test]
    fn frames_are_numbered_without_gaps() {
        let mut packetiser = Packetiser {
            picture: 0x7ffe,
            base_layer: 254,
            ..Packetiser::default()
        };
        let numbers: Vec<Vec<u8>> = (0..4)
            .map(|_| all(&mut packetiser, &frame(OTHER, 20))[0].0[..5].to_vec())
            .collect();
        assert_eq!(
            numbers,
            [
                [0xec, 0xff, 0xfe, 0x10, 254],
                [0xec, 0xff, 0xff, 0x10, 255],
                [0xec, 0x80, 0, 0x10, 0],
                [0xec, 0x80, 1, 0x10, 1],
            ]
        );
    }

    #[test]
    fn payloads_never_exceed_the_limit() {
        let mut packetiser = Packetiser::default();
        assert_eq!(all(&mut packetiser, &[]), []);
        for first in [KEY, OTHER] {
            for length in [1, 1143, 1144, 1145, 2288, 2289, 50_000] {
                let payloads = all(&mut packetiser, &frame(first, length));
                assert!(payloads.iter().all(|(p, _)| p.len() <= MAX_PAYLOAD));
                assert_eq!(payloads.iter().filter(|(_, last)| *last).count(), 1);
                assert!(payloads.last().unwrap().1, "{length}");
            }
        }
    }
}
