//! Pads Opus packets to a chosen length with the format's own padding (RFC 6716 section 3.2.5).
//!
//! The protocol's parity requires packets of the same length. A client that receives a packet of another length stops
//! using parity for the whole session (`RtpAudioQueue.c` of moonlight-common-c).

/// The frame count code for any number of frames. Such packets have a frame count byte.
const ANY_COUNT: u8 = 3;

/// Padding flag in the frame count byte.
const PADDED: u8 = 0x40;

/// Number of padding bytes that one length byte of 255 represents.
const PER_LENGTH_BYTE: usize = 254;

/// Pads `packet`, which has one frame, to `length` bytes, without changing its sound. `None` if the packet is too long
/// or has several frames.
#[must_use]
pub fn padded(packet: &[u8], length: usize) -> Option<Vec<u8>> {
    let (contents, frame) = packet.split_first()?;
    if packet.len() == length {
        return Some(packet.to_vec());
    }
    // Code 0 means one frame, which takes the rest of the packet.
    let room = length.checked_sub(packet.len())?;
    if contents & 3 != 0 {
        return None;
    }
    let mut padded = Vec::with_capacity(length);
    padded.push(contents | ANY_COUNT);
    // The frame count byte costs one byte.
    let after_count = room - 1;
    if after_count == 0 {
        padded.push(1);
        padded.extend_from_slice(frame);
        return Some(padded);
    }
    padded.push(PADDED | 1);
    // `after_count` includes the length bytes. A length byte of 255 represents 254 padding bytes and is followed by
    // another length byte.
    let mut rest = after_count - 1;
    while rest > PER_LENGTH_BYTE {
        padded.push(u8::MAX);
        rest -= PER_LENGTH_BYTE + 1;
    }
    padded.push(u8::try_from(rest).unwrap_or(0));
    padded.extend_from_slice(frame);
    padded.resize(length, 0);
    Some(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frame of a packet with one frame, by the rules of RFC 6716 section 3.2.
    fn frame(packet: &[u8]) -> &[u8] {
        match packet[0] & 3 {
            0 => &packet[1..],
            3 if packet[1] == 1 => &packet[2..],
            3 => {
                assert_eq!(packet[1], PADDED | 1);
                let (mut at, mut padding) = (2, 0);
                loop {
                    let byte = packet[at];
                    at += 1;
                    if byte < 255 {
                        padding += usize::from(byte);
                        break;
                    }
                    padding += PER_LENGTH_BYTE;
                }
                &packet[at..packet.len() - padding]
            }
            _ => panic!("several frames"),
        }
    }

    #[test]
    fn the_sound_stays_the_same_at_any_length() {
        let packet = [0xfc, 1, 2, 3, 4];
        for length in 5..1200 {
            let padded = padded(&packet, length).unwrap();
            assert_eq!(padded.len(), length);
            assert_eq!(frame(&padded), [1, 2, 3, 4], "{length}");
            assert_eq!(padded[0] & !3, 0xfc);
        }
    }

    #[test]
    fn other_packets_are_not_changed() {
        assert_eq!(padded(&[], 10), None);
        assert_eq!(padded(&[0xfc, 1, 2], 2), None);
        assert_eq!(padded(&[0xfd, 1, 2], 10), None);
    }
}
