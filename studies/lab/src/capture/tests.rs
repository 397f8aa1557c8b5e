//! Tests with captures of known content.

use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;

use super::datagram::{Datagram, Endpoint, Machine, NoDatagram, OPENUVR_ETHER_TYPE};
use super::write::CaptureWriter;
use super::*;

type Times = Vec<(u64, u32, usize)>;

fn all(file: &[u8]) -> (Times, Result<CaptureInfo, CaptureError>) {
    let mut times = Vec::new();
    let read = read(file, &mut |packet| {
        times.push((packet.at, packet.length, packet.data.len()));
        ControlFlow::Continue(())
    });
    (times, read)
}

/// A pcap file with a snapshot length of 60 bytes.
fn cut_to_60() -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend(60_u32.to_le_bytes());
    file.extend(101_u32.to_le_bytes());
    for second in [7_u32, 8] {
        for word in [second, 250, 60, 1242] {
            file.extend(word.to_le_bytes());
        }
        file.extend([0x45; 60]);
    }
    file
}

#[test]
fn truncated_packets_keep_their_lengths() {
    let (times, read) = all(&cut_to_60());
    assert_eq!(
        times,
        [(7_000_250_000, 1242, 60), (8_000_250_000, 1242, 60)]
    );
    assert_eq!(read.unwrap().packets, 2);
}

#[test]
fn invalid_and_corrupt_captures_are_named() {
    let message = |file: &[u8]| all(file).1.unwrap_err().to_string();
    assert!(message(b"").contains("neither"), "{}", message(b""));
    assert!(message(b"GIF89a, and so on").contains("neither"));
    assert!(message(&[0x1f, 0x8b, 8, 0, 0]).contains("gunzip"));
    let mut file = cut_to_60();
    file.truncate(file.len() - 7);
    assert!(
        message(&file).contains("after packet 1"),
        "{}",
        message(&file)
    );
    // The length field announces a packet of four billion bytes.
    let mut absurd = cut_to_60();
    absurd[24 + 8..24 + 12].copy_from_slice(&[0xff; 4]);
    assert!(
        message(&absurd).contains("after packet 0"),
        "{}",
        message(&absurd)
    );
    assert!(message(&PCAPNG).contains("unreadable after packet 0"));
}

#[test]
fn times_have_the_unit_of_their_interface() {
    let of = |resolution: Option<u8>, offset: Option<u64>, raw: u64| {
        let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
        let mut interface = InterfaceDescriptionBlock::new(DataLink::RAW, 65_535);
        let resolution = resolution.map(InterfaceDescriptionOption::IfTsResol);
        let offset = offset.map(InterfaceDescriptionOption::IfTsOffset);
        interface
            .options
            .extend(resolution.into_iter().chain(offset));
        writer.write_pcapng_block(interface).unwrap();
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(raw),
            original_len: 1,
            data: vec![0].into(),
            options: Vec::new(),
        };
        writer.write_pcapng_block(block).unwrap();
        all(&writer.into_inner()).0[0].0
    };
    assert_eq!(of(None, None, 5), 5000);
    assert_eq!(of(Some(9), None, 5), 5);
    assert_eq!(of(Some(3), Some(2), 5), 2_005_000_000);
    assert_eq!(of(Some(0x80 | 10), None, 1024), 1_000_000_000);
}

#[test]
fn written_files_are_read() {
    let (a, b) = ("10.0.0.1:1000", "10.0.0.2:2000");
    let (six, seven) = ("[fd00::6]:6000", "[fd00::7]:7000");
    let mut writer = CaptureWriter::new(Vec::new(), "a test").unwrap();
    let at = |text: &str| text.parse().unwrap();
    writer.udp(5, (at(a), at(b)), b"hello").unwrap();
    writer.udp(9, (at(six), at(seven)), &[3; 70]).unwrap();
    assert!(writer.udp(9, (at(a), at(six)), b"no").is_err());
    let mut found = Vec::new();
    let file = writer.finish().unwrap();
    let facts = read(&*file, &mut |packet| {
        let datagram = Datagram::of(&packet).unwrap();
        let ends = format!("{} {}", datagram.from, datagram.to);
        let payload = datagram.payload.to_vec();
        found.push((datagram.at, ends, payload, datagram.headers));
        ControlFlow::Continue(())
    });
    assert_eq!(facts.unwrap().application.as_deref(), Some("a test"));
    assert_eq!(found[0], (5, format!("{a} {b}"), b"hello".to_vec(), 42));
    assert_eq!(found[1], (9, format!("{six} {seven}"), vec![3; 70], 62));
}

fn of(link: DataLink, data: &[u8]) -> Result<Datagram<'_>, NoDatagram> {
    let length = u32::try_from(data.len()).unwrap();
    let packet = Packet {
        at: 0,
        link,
        data,
        length,
    };
    Datagram::of(&packet)
}

fn ethernet(tags: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]);
    match tags {
        false => {
            let builder = builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(1, 2);
            builder.write(&mut frame, payload).unwrap();
        }
        true => {
            let builder = builder.single_vlan(5.try_into().unwrap());
            let builder = builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(1, 2);
            builder.write(&mut frame, payload).unwrap();
        }
    }
    frame
}

#[test]
fn datagrams_are_found_on_every_link() {
    let plain = ethernet(false, b"hello");
    let tagged = ethernet(true, b"hello");
    let mut cooked = vec![0; 14];
    cooked.extend([8, 0]);
    cooked.extend(&plain[14..]);
    let mut cooked_2 = vec![8, 0];
    cooked_2.extend([0; 18]);
    cooked_2.extend(&plain[14..]);
    let mut null = vec![2, 0, 0, 0];
    null.extend(&plain[14..]);
    let found = of(DataLink::ETHERNET, &plain).unwrap();
    assert_eq!((found.payload, found.length), (&b"hello"[..], 5));
    for (link, data) in [
        (DataLink::ETHERNET, &tagged),
        (DataLink::LINUX_SLL, &cooked),
        (DataLink::LINUX_SLL2, &cooked_2),
        (DataLink::NULL, &null),
        (DataLink::RAW, &plain[14..].to_vec()),
    ] {
        assert_eq!(of(link, data), Ok(found), "{link:?}");
    }
    assert_eq!(of(DataLink::IEEE802_11, &plain), Err(NoDatagram::Link));
}

#[test]
fn other_packets_are_counted_by_kind() {
    let plain = ethernet(false, &[9; 600]);
    let cut = of(DataLink::ETHERNET, &plain[..60]).unwrap();
    assert_eq!((cut.payload.len(), cut.length), (18, 600));
    assert_eq!(
        of(DataLink::ETHERNET, &plain[..20]),
        Err(NoDatagram::Truncated)
    );
    let mut fragment = plain.clone();
    // More fragments follow.
    fragment[20] = 0x20;
    assert_eq!(of(DataLink::ETHERNET, &fragment), Err(NoDatagram::Fragment));
    let mut tcp = Vec::new();
    etherparse::PacketBuilder::ipv4([1; 4], [2; 4], 64)
        .tcp(1, 2, 3, 4)
        .write(&mut tcp, b"x")
        .unwrap();
    assert_eq!(of(DataLink::RAW, &tcp), Err(NoDatagram::Tcp));
    assert_eq!(of(DataLink::ETHERNET, &[7; 64]), Err(NoDatagram::Other));
}

#[test]
fn our_frames_are_found_without_ip() {
    let mut frame = vec![2; 6];
    frame.extend([4; 6]);
    frame.extend(OPENUVR_ETHER_TYPE.to_be_bytes());
    frame.extend([b'O', b'V', 3, 0, 0x10, 0, 0x20, 0, 7, 8, 9]);
    frame.resize(60, 0);
    let found = of(DataLink::ETHERNET, &frame).unwrap();
    assert_eq!((found.payload, found.length), (&[7, 8, 9][..], 3));
    let from = Endpoint::Ethernet {
        mac: [4; 6],
        port: 0x20,
    };
    assert_eq!((found.from, found.headers), (from, 22));
    assert_eq!(found.to.machine(), Machine::Ethernet([2; 6]));
}
