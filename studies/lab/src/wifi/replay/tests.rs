//! Tests with captures and tables of known content.
#![allow(clippy::cast_possible_truncation, reason = "packets of a test are few")]

use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, TsResolution};

use super::*;
use crate::wifi::{MICROSECOND, SECOND, words};

fn read(name: &str, content: &[u8]) -> Result<Recording, ReplayError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    Recording::read(&path)
}

const SERVER: [u8; 4] = [10, 0, 0, 1];

/// An Ethernet frame that contains RTP. Its length is `bytes`, including the IP header but not the Ethernet header.
fn frame(from: [u8; 4], to: [u8; 4], timestamp: u32, bytes: usize) -> Vec<u8> {
    let mut rtp = vec![0x80, 96, 0, 1];
    rtp.extend(timestamp.to_be_bytes());
    rtp.extend(7_u32.to_be_bytes());
    rtp.resize(bytes - 28, 0);
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4(from, to, 64)
        .udp(5004, 5004)
        .write(&mut frame, &rtp)
        .unwrap();
    frame
}

/// Six packets: two of one frame and one of the next frame to one station, one to another station, one to the server,
/// and one between other addresses.
fn packets() -> Vec<(Duration, Vec<u8>)> {
    let (one, other) = ([10, 0, 0, 2], [10, 0, 0, 3]);
    let at = |us| Duration::from_secs(1_700_000_000) + Duration::from_micros(us);
    vec![
        (at(0), frame(SERVER, one, 100, 1271)),
        (at(5), frame(SERVER, one, 100, 900)),
        (at(7), frame(SERVER, other, 100, 1271)),
        (at(4160), frame(one, SERVER, 0, 175)),
        (at(16_667), frame(SERVER, one, 1600, 1271)),
        (at(20_000), frame([10, 9, 9, 9], [10, 9, 9, 8], 0, 175)),
    ]
}

fn pcap(resolution: TsResolution) -> Vec<u8> {
    let header = PcapHeader {
        ts_resolution: resolution,
        datalink: DataLink::ETHERNET,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (at, bytes) in packets() {
        let length = u32::try_from(bytes.len()).unwrap();
        let packet = PcapPacket::new(at, length, &bytes);
        writer.write_packet(&packet).unwrap();
    }
    writer.into_writer()
}

fn pcapng(resolution: Option<u8>) -> Vec<u8> {
    let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
    let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 65_535);
    let option = resolution.map(InterfaceDescriptionOption::IfTsResol);
    interface.options.extend(option);
    writer.write_pcapng_block(interface).unwrap();
    for (at, bytes) in packets() {
        let units = match resolution {
            Some(9) => at.as_nanos(),
            _ => at.as_micros(),
        };
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(u64::try_from(units).unwrap()),
            original_len: u32::try_from(bytes.len()).unwrap(),
            data: bytes.into(),
            options: Vec::new(),
        };
        writer.write_pcapng_block(block).unwrap();
    }
    writer.into_inner()
}

fn check(recording: &Recording) {
    let us = MICROSECOND;
    let of = |d: &Departure| {
        let Offer {
            direction,
            station,
            bytes,
            ..
        } = d.offer;
        (
            d.at,
            direction,
            station,
            bytes,
            d.frame.map(|f| (f.number, f.packets)),
        )
    };
    let all: Vec<_> = recording.departures.iter().map(of).collect();
    assert_eq!(
        all,
        [
            (0, Direction::Down, 0, 1271, Some((0, 2))),
            (5 * us, Direction::Down, 0, 900, Some((0, 2))),
            (7 * us, Direction::Down, 1, 1271, Some((0, 1))),
            (4160 * us, Direction::Up, 0, 175, None),
            (16_667 * us, Direction::Down, 0, 1271, Some((1, 1))),
        ]
    );
    assert_eq!((recording.stations, recording.frames), (2, 3));
    assert_eq!((recording.skipped, recording.merged), (1, 0));
    assert_eq!(recording.addresses[0], IpAddr::from(SERVER));
}

#[test]
fn captures_of_every_format_give_the_same_result() {
    check(&read("us.pcap", &pcap(TsResolution::MicroSecond)).unwrap());
    check(&read("ns.pcap", &pcap(TsResolution::NanoSecond)).unwrap());
    check(&read("default.pcapng", &pcapng(None)).unwrap());
    check(&read("ns.pcapng", &pcapng(Some(9))).unwrap());
}

#[test]
fn errors_are_named_with_their_position() {
    let mut cut = pcap(TsResolution::MicroSecond);
    cut.truncate(cut.len() - 20);
    let message = |name: &str, content: &[u8]| read(name, content).unwrap_err().to_string();
    let cut = message("cut.pcap", &cut);
    assert!(cut.contains("after packet 5"), "{cut}");
    let text = message("text", b"not a table\n1\n");
    assert!(text.contains("time_ns and bytes"), "{text}");
    let line = message("line.csv", b"time_ns,bytes\n0,100\n5,many\n");
    assert!(
        line.contains("record 2") && line.contains("line: 3"),
        "{line}"
    );
    let direction = message("way.csv", b"time_ns,bytes,way\n0,100,left\n");
    assert!(direction.contains("record 1: `left`"), "{direction}");
    let empty = message("empty.csv", b"time_ns,bytes\n");
    assert!(empty.contains("no UDP packet"), "{empty}");
    let gone = Recording::read(std::path::Path::new("/nowhere/at/all")).unwrap_err();
    assert!(gone.to_string().contains("/nowhere/at/all"));
}

#[test]
fn merged_packets_are_split_and_counted() {
    let recording = read("merged.csv", b"time_ns,bytes\n0,1500\n").unwrap();
    assert_eq!(recording.departures.len(), 1);
    let mut writer = PcapWriter::with_header(
        Vec::new(),
        PcapHeader {
            datalink: DataLink::ETHERNET,
            ..PcapHeader::default()
        },
    )
    .unwrap();
    let large = frame(SERVER, [10, 0, 0, 2], 1, 4000);
    let packet = PcapPacket::new(Duration::ZERO, 4014, &large);
    writer.write_packet(&packet).unwrap();
    let recording = read("merged.pcap", &writer.into_writer()).unwrap();
    let bytes: Vec<u32> = recording.departures.iter().map(|d| d.offer.bytes).collect();
    assert_eq!((bytes, recording.merged), (vec![1500, 1500, 1000], 1));
}

#[test]
fn a_replay_repeats_the_recorded_fates() {
    let scenario = Scenario {
        lasting: SECOND,
        ..words::parse("profile=he-su stations=2 background=10M bitrate=20M").unwrap()
    };
    let mut table = String::from("time_ns,bytes,way,station,frame\n");
    // The table lacks the background traffic, because the replay generates it again.
    let own = scenario.streams(4).take_while(|d| d.at < scenario.lasting);
    let mut origin = None;
    for departure in own.filter(|d| d.offer.station < 2) {
        let at = departure.at - *origin.get_or_insert(departure.at);
        let direction = match departure.offer.direction {
            Direction::Down => "down",
            Direction::Up => "up",
        };
        let frame = departure
            .frame
            .map_or(String::new(), |f| f.number.to_string());
        let Offer { bytes, station, .. } = departure.offer;
        table += &format!("{at},{bytes},{direction},{station},{frame}\n");
    }
    let recording = read("run.csv", table.as_bytes()).unwrap();
    let (replayed, sent) = recording.send(&scenario, SECOND, 4).unwrap();
    let is_sent = |id: &u64| sent[*id as usize].offer.direction == Direction::Down;
    assert!(replayed.packets.iter().all(is_sent));
    let live = scenario.run(4).unwrap();
    // The recording's times start at its first packet, so the background traffic is shifted relative to it.
    assert_eq!(recording.stations, 2);
    assert_eq!(replayed.broken_frames, 0);
    let down = recording
        .departures
        .iter()
        .filter(|d| d.offer.direction == Direction::Down);
    assert_eq!(replayed.delays.len(), down.count());
    assert!(replayed.frames.len() >= live.frames.len());
    let mean = |run: &Run| run.delays.iter().sum::<Nanos>() / run.delays.len() as u64;
    let apart = mean(&replayed).abs_diff(mean(&live));
    assert!(
        apart < mean(&live) / 20,
        "{} {}",
        mean(&replayed),
        mean(&live)
    );
}
