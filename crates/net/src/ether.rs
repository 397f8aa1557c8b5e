//! Stations of an Ethernet segment, and the frames that carry datagrams between them.
//!
//! A frame of EtherType [`ETHER_TYPE`] carries an eight-byte prefix and one datagram:
//!
//! | at | type | field |
//! |---|---|---|
//! | 0 | u16 | 0x564F: a magic number, because the EtherType is shared by all experiments |
//! | 2 | u16 | length of the datagram in bytes, 1–1400: Ethernet pads short frames |
//! | 4 | u16 | port of the receiver: one machine may run several programs |
//! | 6 | u16 | port of the sender |
//!
//! Fields are little-endian, as everywhere in the protocol. The longest frame has 1408 bytes of payload, and every Ethernet
//! carries 1500.
//!
//! The frame has no integrity check, because the sealed datagram is authenticated.

use std::fmt;
use std::str::FromStr;

use crate::MAX_DATAGRAM;

/// The first of the two EtherTypes for local experiments (IEEE 802, section 9.2.4).
pub const ETHER_TYPE: u16 = 0x88b5;

/// Bytes before the datagram.
pub const PREFIX: usize = 8;

/// The magic number at the start of the payload: `OV`.
pub(crate) const MAGIC: [u8; 2] = *b"OV";

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text is not an Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an Ethernet address has six pairs of hexadecimal digits, such as 52:54:00:12:34:56")]
pub struct InvalidMac;

impl FromStr for Mac {
    type Err = InvalidMac;

    fn from_str(text: &str) -> Result<Mac, InvalidMac> {
        let mut mac = [0; 6];
        let mut pairs = text.split(':');
        for byte in &mut mac {
            let pair = pairs.next().filter(|pair| {
                pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit())
            });
            *byte = u8::from_str_radix(pair.ok_or(InvalidMac)?, 16).map_err(|_| InvalidMac)?;
        }
        match pairs.next() {
            None => Ok(Mac(mac)),
            Some(_) => Err(InvalidMac),
        }
    }
}

/// A program on a machine of the segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Station {
    /// The machine's Ethernet address.
    pub mac: Mac,
    /// The index of the local interface on that segment.
    pub interface: u32,
    /// The program's port.
    pub port: u16,
}

/// The prefix of a datagram of `len` bytes.
#[must_use]
pub fn prefix(to: u16, from: u16, len: usize) -> [u8; PREFIX] {
    let len = u16::try_from(len).unwrap_or(0);
    let mut prefix = [0; PREFIX];
    prefix[..2].copy_from_slice(&MAGIC);
    prefix[2..4].copy_from_slice(&len.to_le_bytes());
    prefix[4..6].copy_from_slice(&to.to_le_bytes());
    prefix[6..].copy_from_slice(&from.to_le_bytes());
    prefix
}

/// The parsed payload of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParsedFrame<'a> {
    /// The receiver's port.
    pub to: u16,
    /// The sender's port.
    pub from: u16,
    /// The datagram, without padding.
    pub datagram: &'a [u8],
}

/// Parses the payload of a frame; `None` if it is not an OpenUVR frame.
#[must_use]
pub fn parse(payload: &[u8]) -> Option<ParsedFrame<'_>> {
    let (prefix, rest) = payload.split_first_chunk::<PREFIX>()?;
    let field = |at: usize| u16::from_le_bytes([prefix[at], prefix[at + 1]]);
    let len = usize::from(field(2));
    if prefix[..2] != MAGIC || !(1..=MAX_DATAGRAM).contains(&len) {
        return None;
    }
    Some(ParsedFrame {
        to: field(4),
        from: field(6),
        datagram: rest.get(..len)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{InvalidMac, MAX_DATAGRAM, Mac, ParsedFrame, parse, prefix};

    #[test]
    fn a_datagram_round_trips_through_a_padded_frame() {
        for len in [1, 37, MAX_DATAGRAM] {
            let datagram: Vec<u8> = (0..=255).cycle().take(len).collect();
            for padding in [0, 1, 46] {
                let mut payload = prefix(4710, 513, len).to_vec();
                payload.extend_from_slice(&datagram);
                payload.resize(payload.len() + padding, 0xaa);
                let framed = ParsedFrame {
                    to: 4710,
                    from: 513,
                    datagram: &datagram,
                };
                assert_eq!(parse(&payload), Some(framed));
            }
        }
    }

    #[test]
    fn foreign_and_malformed_frames_are_rejected() {
        let mut good = prefix(1, 2, 4).to_vec();
        good.extend_from_slice(b"data");
        assert!(parse(&good).is_some());
        for cut in 0..good.len() {
            assert_eq!(parse(&good[..cut]), None, "{cut}");
        }
        for (at, byte) in [(0, 0), (1, 0), (2, 0), (2, 5), (3, 0xff)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(parse(&bad), None, "{at}");
        }
        let long = [&prefix(1, 2, MAX_DATAGRAM + 1)[..], &[0; 1500]].concat();
        assert_eq!(parse(&long), None);
    }

    #[test]
    fn the_bytes_are_the_published_ones() {
        // Read at run time, since the published crate does not contain the file.
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../vectors/ether_frame/padded"
        );
        let published = std::fs::read(file).unwrap();
        let framed = ParsedFrame {
            to: 4710,
            from: 513,
            datagram: b"hello",
        };
        assert_eq!(parse(&published), Some(framed));
        assert!(published.starts_with(&prefix(4710, 513, 5)));
    }

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let mac: Mac = "52:54:00:Fe:dc:01".parse().unwrap();
        assert_eq!(mac, Mac([0x52, 0x54, 0, 0xfe, 0xdc, 1]));
        assert_eq!(mac.to_string(), "52:54:00:fe:dc:01");
        for text in [
            "",
            "52:54:00:fe:dc",
            "52:54:00:fe:dc:01:02",
            "52:54:0:fe:dc:01",
            "+1:54:00:fe:dc:01",
        ] {
            assert_eq!(text.parse::<Mac>(), Err(InvalidMac), "{text}");
        }
    }
}
