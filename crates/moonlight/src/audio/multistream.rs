//! The sound's channels as requested by clients: stereo, 5.1 or 7.1.
//!
//! The host captures two channels. A client with more speakers gets these two channels as the front pair of a
//! multistream packet (RFC 7845 section 5.1.1 and appendix B of RFC 6716). The other streams are empty frames, which
//! decoders treat as silence.

use super::padding::padded;

/// The streams that carry a number of channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    channels: u8,
    streams: u8,
    /// Number of coupled streams, which have two channels each. The other streams have one channel.
    coupled: u8,
}

/// Stereo. In all layouts, decoders output the channels in this order: front left and right, centre, low frequencies,
/// then the rear pairs.
const STEREO: Layout = Layout {
    channels: 2,
    streams: 1,
    coupled: 1,
};

/// 5.1 and 7.1. Each left and right pair has a coupled stream. Centre and low frequencies follow with one stream each.
const SURROUND: [Layout; 2] = [
    Layout {
        channels: 6,
        streams: 4,
        coupled: 2,
    },
    Layout {
        channels: 8,
        streams: 5,
        coupled: 3,
    },
];

/// Lengths below this take one byte in self-delimiting packets.
const SHORT: usize = 252;

impl Layout {
    /// The layout for this number of channels; `None` unless it is 2, 6 or 8.
    #[must_use]
    pub fn of(channels: u8) -> Option<Layout> {
        let all = [STEREO].into_iter().chain(SURROUND);
        all.into_iter().find(|layout| layout.channels == channels)
    }

    /// The minimum length of [`Layout::packet`] for a front packet of this length.
    #[must_use]
    pub fn least(self, front: usize) -> usize {
        let beside = usize::from(self.streams - 1);
        // Each stream but the last states the length of its frame: up to two bytes for the front, and one byte for an
        // empty frame.
        front + 3 * beside.min(1) + 2 * beside.saturating_sub(1)
    }

    /// Builds a packet of all streams with `length` bytes. `front`, a packet of one frame, becomes the first stream.
    /// `None` if `front` does not fit or has several frames.
    #[must_use]
    pub fn packet(self, front: &[u8], length: usize) -> Option<Vec<u8>> {
        if self.streams == 1 {
            return padded(front, length);
        }
        let (contents, frame) = front.split_first()?;
        if contents & 3 != 0 {
            return None;
        }
        let mut packet = vec![*contents];
        push_length(&mut packet, frame.len());
        packet.extend_from_slice(frame);
        for stream in 1..self.streams {
            // The stereo flag of the TOC byte is set for a coupled stream (RFC 6716 section 3.1).
            let pair = if stream < self.coupled { 4 } else { 0 };
            let contents = contents & !4 | pair;
            match stream + 1 < self.streams {
                // Each stream except the last one states the length of its frame. The frames are empty here, so the
                // length is 0.
                true => packet.extend([contents, 0]),
                false => packet.extend(padded(&[contents], length.checked_sub(packet.len())?)?),
            }
        }
        Some(packet)
    }

    /// For each output channel, the number of the decoded channel. Decoders number the channels of the pairs first.
    fn mapping(self) -> Vec<u8> {
        let pairs = 2 * self.coupled;
        let front = [0, 1];
        let middle = pairs..self.channels;
        let behind = 2..pairs;
        front.into_iter().chain(middle).chain(behind).collect()
    }
}

/// A frame's length in one or two bytes (RFC 6716 section 3.2.1).
fn push_length(packet: &mut Vec<u8>, length: usize) {
    if length < SHORT {
        packet.push(u8::try_from(length).unwrap_or(0));
        return;
    }
    let low = SHORT + (length & 3);
    packet.push(u8::try_from(low).unwrap_or(u8::MAX));
    packet.push(u8::try_from((length - low) / 4).unwrap_or(u8::MAX));
}

/// The layouts for the description, in the form that clients parse: number of channels, of streams and of coupled
/// streams, and the mapping of the channels.
///
/// Clients move the mapping's last entry to the fourth position (`parseOpusConfigurations` of moonlight-common-c
/// compensates for an old host). The fourth entry is therefore written at the end here.
#[must_use]
pub fn surround_parameters() -> Vec<String> {
    SURROUND
        .into_iter()
        .map(|layout| {
            let mut mapping = layout.mapping();
            mapping[3..].rotate_left(1);
            let digits: String = mapping.iter().map(u8::to_string).collect();
            let Layout {
                channels,
                streams,
                coupled,
            } = layout;
            format!("{channels}{streams}{coupled}{digits}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_those_that_clients_parse() {
        // Before the rotation, the mappings are 0 1 4 5 2 3 and 0 1 6 7 2 3 4 5. The rotation moves the low frequencies
        // to the end.
        assert_eq!(surround_parameters(), ["642014235", "85301623457"]);
        assert_eq!(Layout::of(3), None);
    }

    #[test]
    fn stereo_is_the_packet_itself_and_surround_contains_it() {
        let front = [0xfc, 7, 8, 9];
        assert_eq!(STEREO.packet(&front, 4).unwrap(), front);
        let packet = SURROUND[0].packet(&front, 10).unwrap();
        assert_eq!(packet, [0xfc, 3, 7, 8, 9, 0xfc, 0, 0xf8, 0, 0xf8]);
        for layout in SURROUND {
            for length in layout.least(4)..600 {
                assert_eq!(layout.packet(&front, length).unwrap().len(), length);
            }
            assert_eq!(layout.packet(&front, 8), None);
            assert_eq!(layout.packet(&[0xfd, 1, 2], 64), None);
            assert_eq!(layout.packet(&[], 64), None);
        }
    }

    #[test]
    fn long_frames_have_two_length_bytes() {
        let decoded = |bytes: &[u8]| match bytes {
            [short] => usize::from(*short),
            [low, high] => usize::from(*low) + 4 * usize::from(*high),
            _ => panic!("{bytes:?}"),
        };
        for length in 0..1275 {
            let mut bytes = Vec::new();
            push_length(&mut bytes, length);
            assert_eq!(decoded(&bytes), length);
        }
    }
}
