//! Stations of an Ethernet segment, and the frames that carry our datagrams between them.
//!
//! A frame of EtherType [`ETHER_TYPE`] carries one datagram behind eight bytes:
//!
//! | at | type | field |
//! |---|---|---|
//! | 0 | u16 | 0x564F: the EtherType is everybody's who experiments |
//! | 2 | u16 | bytes of the datagram, 1–1400: Ethernet fills short frames up |
//! | 4 | u16 | port of the receiver: one machine may run several programs |
//! | 6 | u16 | port of the sender |
//!
//! in little-endian, as everywhere in the protocol. With it the longest frame has 1408 bytes of
//! payload, of the 1500 that every Ethernet carries.
//!
//! What it is not: it checks nothing. Who sent a frame, and that it is whole, is what the sealing of
//! the datagram shows.

use std::fmt;
use std::str::FromStr;

use crate::MAX_DATAGRAM;

/// The first of the two EtherTypes for local experiments (IEEE 802, section 9.2.4).
pub const ETHER_TYPE: u16 = 0x88b5;

/// Bytes in front of the datagram.
pub const PREFIX: usize = 8;

/// What a frame of ours begins with: `OV`.
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

/// Six pairs of hexadecimal digits, with colons between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an Ethernet address has six pairs of digits, such as 52:54:00:12:34:56")]
pub struct NoMac;

impl FromStr for Mac {
    type Err = NoMac;

    fn from_str(text: &str) -> Result<Mac, NoMac> {
        let mut mac = [0; 6];
        let mut pairs = text.split(':');
        for byte in &mut mac {
            let pair = pairs.next().filter(|pair| {
                pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit())
            });
            *byte = u8::from_str_radix(pair.ok_or(NoMac)?, 16).map_err(|_| NoMac)?;
        }
        match pairs.next() {
            None => Ok(Mac(mac)),
            Some(_) => Err(NoMac),
        }
    }
}

/// A program on a machine of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Station {
    /// Its machine's address.
    pub mac: Mac,
    /// The index of our interface on that segment.
    pub interface: u32,
    /// Its port.
    pub port: u16,
}

/// What stands in front of a datagram of `len` bytes.
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

/// What a frame's payload says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framed<'a> {
    /// The receiver's port.
    pub to: u16,
    /// The sender's port.
    pub from: u16,
    /// The datagram, without what filled the frame up.
    pub datagram: &'a [u8],
}

/// Reads the payload of a frame; `None` if it is not ours.
#[must_use]
pub fn parse(payload: &[u8]) -> Option<Framed<'_>> {
    let (prefix, rest) = payload.split_first_chunk::<PREFIX>()?;
    let field = |at: usize| u16::from_le_bytes([prefix[at], prefix[at + 1]]);
    let len = usize::from(field(2));
    if prefix[..2] != MAGIC || !(1..=MAX_DATAGRAM).contains(&len) {
        return None;
    }
    Some(Framed {
        to: field(4),
        from: field(6),
        datagram: rest.get(..len)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Framed, MAX_DATAGRAM, Mac, NoMac, parse, prefix};

    #[test]
    fn a_datagram_survives_its_frame_and_what_fills_it_up() {
        for len in [1, 37, MAX_DATAGRAM] {
            let datagram: Vec<u8> = (0..=255).cycle().take(len).collect();
            for filling in [0, 1, 46] {
                let mut payload = prefix(4710, 513, len).to_vec();
                payload.extend_from_slice(&datagram);
                payload.resize(payload.len() + filling, 0xaa);
                let framed = Framed {
                    to: 4710,
                    from: 513,
                    datagram: &datagram,
                };
                assert_eq!(parse(&payload), Some(framed));
            }
        }
    }

    #[test]
    fn frames_of_others_and_broken_ones_are_refused() {
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
        let published = include_bytes!("../../../vectors/ether_frame/padded");
        let framed = Framed {
            to: 4710,
            from: 513,
            datagram: b"hello",
        };
        assert_eq!(parse(published), Some(framed));
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
            assert_eq!(text.parse::<Mac>(), Err(NoMac), "{text}");
        }
    }
}
