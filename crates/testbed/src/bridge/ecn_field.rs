//! The ECN field and the flow of an Ethernet frame (RFC 3168; RFC 791 and RFC 8200 for the headers).
//!
//! Frames without an IP header or with a truncated one have no ECN field, and their Ethernet header identifies their
//! flow. Extension headers of IPv6 are not parsed: the flow of such a packet does not depend on its ports.

use openuvr_sim::aqm::{Ecn, Packet};

/// Length of the Ethernet header, and position of the octet with the ECN field, which is the same in IPv4 and IPv6.
const ETHERNET_LEN: usize = 14;
const CLASS: usize = ETHERNET_LEN + 1;
/// Position of the checksum of an IPv4 header.
const CHECKSUM: usize = ETHERNET_LEN + 10;
const TCP: u8 = 6;
const UDP: u8 = 17;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    V4,
    V6,
}

/// The frame as a packet of the link model.
pub(super) fn packet(frame: Vec<u8>) -> Packet<Vec<u8>> {
    let (flow, ecn) = match network(&frame) {
        Some(network) => (ip_flow(&frame, network), field(&frame, network)),
        None => (
            hash(frame.get(..ETHERNET_LEN).unwrap_or(&frame)),
            Ecn::NotEct,
        ),
    };
    Packet {
        flow,
        len: frame.len(),
        ecn,
        content: frame,
    }
}

/// Marks a frame that has an ECN field with Congestion Experienced, and corrects the checksum of its IPv4 header.
pub(super) fn mark(frame: &mut [u8]) {
    match network(frame) {
        Some(Network::V4) => {
            let before = u16::from_be_bytes([frame[ETHERNET_LEN], frame[CLASS]]);
            frame[CLASS] |= Ecn::Ce as u8;
            let after = u16::from_be_bytes([frame[ETHERNET_LEN], frame[CLASS]]);
            let sum = u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]);
            let sum = updated(sum, before, after).to_be_bytes();
            frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum);
        }
        // The traffic class starts in the middle of the first octet. An IPv6 header has no checksum.
        Some(Network::V6) => frame[CLASS] |= (Ecn::Ce as u8) << 4,
        None => {}
    }
}

/// The network layer of a frame that contains the whole fixed IP header; `None` for other frames.
fn network(frame: &[u8]) -> Option<Network> {
    let version = frame.get(ETHERNET_LEN)? >> 4;
    match (frame.get(12..ETHERNET_LEN)?, version) {
        ([0x08, 0x00], 4) if frame.len() >= ETHERNET_LEN + 20 => Some(Network::V4),
        ([0x86, 0xdd], 6) if frame.len() >= ETHERNET_LEN + 40 => Some(Network::V6),
        _ => None,
    }
}

fn field(frame: &[u8], network: Network) -> Ecn {
    match network {
        Network::V4 => Ecn::of_traffic_class(frame[CLASS]),
        Network::V6 => Ecn::of_traffic_class(frame[CLASS] >> 4),
    }
}

/// The hash of protocol, addresses, and ports. A fragment has no ports.
fn ip_flow(frame: &[u8], network: Network) -> u64 {
    let ip = ETHERNET_LEN;
    let (protocol, addresses, transport) = match network {
        Network::V4 => {
            let is_fragment = frame[ip + 6] & 0x3f != 0 || frame[ip + 7] != 0;
            let header = usize::from(frame[ip] & 0x0f) * 4;
            (
                frame[ip + 9],
                &frame[ip + 12..ip + 20],
                (!is_fragment).then_some(ip + header),
            )
        }
        Network::V6 => (frame[ip + 6], &frame[ip + 8..ip + 40], Some(ip + 40)),
    };
    let ports = transport
        .filter(|_| [TCP, UDP].contains(&protocol))
        .and_then(|at| frame.get(at..at + 4))
        .unwrap_or_default();
    hash(&[&[protocol][..], addresses, ports].concat())
}

/// FNV-1a with 64 bits (Fowler, Noll, Vo). FQ-CoDel hashes the result again, with a seed.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The internet checksum after a 16-bit word has changed (RFC 1624, equation 3).
fn updated(sum: u16, before: u16, after: u16) -> u16 {
    let all = u32::from(!sum) + u32::from(!before) + u32::from(after);
    let folded = (all & 0xffff) + (all >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    // At most 16 bits after two folds.
    !u16::try_from(folded).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_frame_keeps_its_length(
            mut frame in prop::collection::vec(any::<u8>(), 0..80),
            kind in prop_oneof![Just([0x08_u8, 0x00]), Just([0x86, 0xdd]), any::<[u8; 2]>()],
            version in any::<u8>(),
        ) {
            if let Some(start) = frame.get_mut(12..15) {
                start.copy_from_slice(&[kind[0], kind[1], version]);
            }
            let packet = packet(frame.clone());
            prop_assert_eq!(&packet.content, &frame);
            mark(&mut frame);
            prop_assert_eq!(frame.len(), packet.len);
            let marked = super::packet(frame);
            prop_assert_eq!(marked.ecn == Ecn::Ce, network(&packet.content).is_some());
            prop_assert_eq!(marked.flow, packet.flow);
        }
    }

    /// A frame with an IPv4 header whose checksum is correct, and the ports of UDP.
    fn v4(class: u8, port: u16) -> Vec<u8> {
        let mut ip = vec![0x45, class, 0, 32, 0, 7, 0, 0, 64, UDP, 0, 0];
        ip.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = !ones_sum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let [high, low] = port.to_be_bytes();
        let udp = [0x12, 0x34, high, low, 0, 12, 0, 0, 1, 2, 3, 4];
        [&[0; 12][..], &[0x08, 0x00], &ip[..], &udp].concat()
    }

    fn v6(class: u8) -> Vec<u8> {
        let mut ip = vec![0x60 | class >> 4, class << 4, 0, 0, 0, 12, UDP, 64];
        ip.extend_from_slice(&[0xfd; 32]);
        [&[0; 12][..], &[0x86, 0xdd], &ip[..], &[7; 12]].concat()
    }

    /// The sum of RFC 1071 before its complement; 0xffff over a header with a correct checksum.
    fn ones_sum(bytes: &[u8]) -> u16 {
        let words = bytes.chunks(2);
        let mut sum: u32 = words
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    #[test]
    fn a_mark_keeps_the_dscp_and_the_checksum_valid() {
        for class in 0..=255_u8 {
            let mut frame = v4(class, 5000);
            assert_eq!(packet(frame.clone()).ecn as u8, class & 3);
            mark(&mut frame);
            assert_eq!(frame[CLASS], class | 3);
            assert_eq!(ones_sum(&frame[14..34]), 0xffff, "class {class}");
            let mut frame = v6(class);
            assert_eq!(packet(frame.clone()).ecn as u8, class & 3);
            mark(&mut frame);
            assert_eq!(frame, v6(class | 3));
        }
    }

    #[test]
    fn flows_differ_by_ports_and_fragments_have_none() {
        let flow = |frame: Vec<u8>| packet(frame).flow;
        assert_eq!(flow(v4(0, 1)), flow(v4(3, 1)));
        assert_ne!(flow(v4(0, 1)), flow(v4(0, 2)));
        let fragment = |port| {
            let mut frame = v4(0, port);
            frame[ETHERNET_LEN + 6] = 0x20;
            flow(frame)
        };
        assert_eq!(fragment(1), fragment(2));
    }

    #[test]
    fn other_and_short_frames_have_no_field() {
        for frame in [
            Vec::new(),
            vec![0; 13],
            [&[0xff; 12][..], &[0x88, 0xb5], &[0xff; 50]].concat(),
            v4(3, 1)[..33].to_vec(),
            v6(3)[..53].to_vec(),
        ] {
            let mut marked = frame.clone();
            mark(&mut marked);
            assert_eq!(marked, frame);
            assert_eq!(packet(frame).ecn, Ecn::NotEct);
        }
    }
}
