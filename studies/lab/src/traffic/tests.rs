//! Tests with captures whose ground truth is known.
#![allow(
    clippy::cast_possible_truncation,
    reason = "captures of a test are short"
)]

use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::Arc;

use super::generate::{Captured, Generated, Plan};
use super::join::{JoinedCaptures, Unrelated, join};
use super::*;
use crate::capture::write::CaptureWriter;
use crate::wifi::{MICROSECOND, MILLISECOND, SECOND};

type File = Arc<[u8]>;

fn open(file: &File) -> impl FnMut() -> std::io::Result<Box<dyn std::io::Read>> + use<> {
    let file = Arc::clone(file);
    move || Ok(Box::new(Cursor::new(Arc::clone(&file))))
}

fn analysed(file: &File) -> Result<Analysis, NothingFound> {
    analyse(&mut open(file), Window::default())
}

fn written(generated: &Generated, captured: &[Captured]) -> File {
    let mut file = Vec::new();
    generated.write(captured, &mut file).unwrap();
    file.into()
}

fn plan(fps: f64) -> Plan {
    Plan {
        fps,
        lasting: 6 * SECOND,
        ..Plan::default()
    }
}

fn stream<'a>(analysis: &'a Analysis, direction: Direction, name: &str) -> &'a StreamFound {
    let mut all = analysis.streams.iter();
    let found = all.find(|found| found.direction == Some(direction) && found.name() == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", analysis.streams))
}

/// Asserts a relative error of at most `share`.
fn assert_near(value: Option<f64>, want: f64, share: f64) {
    let value = value.expect("a value");
    assert!((value / want - 1.0).abs() <= share, "{value}, not {want}");
}

#[test]
fn the_servers_capture_matches_the_truth() {
    for (fps, batches, idle) in [(90.0, 2.1, 0.15), (60.0, 2.54, 0.20), (30.0, 4.56, 0.25)] {
        let generated = plan(fps).generate().unwrap();
        let truth = generated.truth.clone();
        let analysis = analysed(&written(&generated, &generated.server)).unwrap();
        let video = stream(&analysis, Direction::Down, "RTP video");
        assert_eq!(video.stream.sizes.count(), truth.video_packets);
        assert_eq!(video.stream.account(Kind::Rtp).unwrap().lost, 0);
        let sent = video.video.as_ref().unwrap();
        let frames = sent.frames.as_ref().unwrap();
        // The first and the last frame may be incomplete, so they are excluded.
        assert_eq!(frames.broken, 0);
        assert!((1..=2).contains(&(truth.frames - frames.complete)));
        assert_near(frames.interval_ns.mean(), 1e9 / fps, 0.01);
        assert_near(frames.batches.mean(), truth.batches, 0.02);
        assert_near(sent.usual_interval(), 5.56e6, 0.001);
        let found = sent.idle().unwrap().1;
        assert!((found - truth.idle).abs() < 0.005, "{found} {}", truth.idle);
        // The figures are like those of the study's captures.
        assert_near(Some(truth.batches), batches, 0.15);
        assert!((truth.idle - idle).abs() < 0.08, "{} at {fps}", truth.idle);
    }
}

/// A row of the study's table 3, for Alteration Hunting at 90 frames per second.
struct Row {
    /// Whether it is a downlink stream.
    down: bool,
    /// The stream.
    name: &'static str,
    /// Mean bytes of a packet, with the Ethernet header. For example, a STUN response of 64 bytes counts as 106 bytes.
    bytes: f64,
    /// Mean interval, ms.
    ms: f64,
}

const TABLE_3: [Row; 9] = [
    row(true, "STUN", 122.0, 1287.42),
    row(true, "RTP audio", 83.0, 20.0),
    row(true, "RTP video", 1242.16, 0.19),
    row(true, "DTLS", 107.01, 8.94),
    row(true, "other UDP", 112.0, 8.26),
    row(false, "STUN", 124.0, 1287.48),
    row(false, "RTCP", 434.62, 67.27),
    row(false, "DTLS", 174.97, 4.90),
    row(false, "other UDP", 147.64, 443.75),
];

const fn row(down: bool, name: &'static str, bytes: f64, ms: f64) -> Row {
    Row {
        down,
        name,
        bytes,
        ms,
    }
}

#[test]
fn table_3_is_that_of_the_study() {
    let generated = plan(90.0).generate().unwrap();
    let server = analysed(&written(&generated, &generated.server)).unwrap();
    let client = analysed(&written(&generated, &generated.client)).unwrap();
    for row in &TABLE_3 {
        let (analysis, direction) = match row.down {
            true => (&server, Direction::Down),
            false => (&client, Direction::Up),
        };
        if (row.name, row.down) == ("other UDP", false) {
            continue;
        }
        let found = stream(analysis, direction, row.name);
        assert_near(found.stream.sizes.mean(), row.bytes, 0.03);
        // The study's video has 53.45 Mb/s, not the nominal 50.
        let share = if row.name == "RTP video" { 0.12 } else { 0.01 };
        assert_near(found.stream.gaps.mean().map(|gap| gap / 1e6), row.ms, share);
    }
    let audio = stream(&server, Direction::Down, "RTP audio");
    assert_eq!(audio.role, Some((Role::Audio, Some(48_000))));
    let last = server.streams.last().unwrap();
    assert_eq!(last.direction, Some(Direction::Up));
}

#[test]
fn simultaneous_arrivals_match_ampdus() {
    let generated = plan(60.0).generate().unwrap();
    let client = analysed(&written(&generated, &generated.client)).unwrap();
    let down = client.directions[0].as_ref().unwrap();
    assert!(down.at_once_percent().unwrap() > 80.0);
    assert_near(down.aggregates.mean(), generated.truth.aggregate, 0.05);
    let (found, video) = client.main_video().unwrap();
    // Each video packet is in one group, and packets of other streams are in none.
    let groups = &video.arrivals.aggregates;
    let packets = groups.mean().unwrap() * groups.count() as f64;
    assert!((packets - found.stream.sizes.count() as f64).abs() < 0.5);
    let assembly = video.frames.as_ref().unwrap().assembly_ns.mean();
    assert!(assembly > Some(5e6), "{assembly:?}");
    // The two kinds of jitter differ: the jitter after each packet decays within a batch, and the jitter once per frame
    // reflects the assembly.
    let each = video.jitter_ns.mean().unwrap();
    assert!(video.frame_jitter_ns.mean().unwrap() > 3.0 * each);
}

#[test]
fn losses_are_counted_and_repairs_recognised() {
    let mut plan = plan(60.0);
    plan.loss = 0.01;
    let generated = plan.generate().unwrap();
    let truth = generated.truth.clone();
    assert!(truth.lost > 100);
    let client = analysed(&written(&generated, &generated.client)).unwrap();
    let video = stream(&client, Direction::Down, "RTP video");
    let account = video.stream.account(Kind::Rtp).unwrap();
    assert_eq!((account.lost, account.restarts), (truth.lost, 0));
    let frames = video.video.as_ref().unwrap().frames.as_ref().unwrap();
    assert!(frames.broken > 50 && frames.complete > 50);
    let repair = stream(&client, Direction::Down, "RTP repair");
    assert_eq!(repair.stream.sizes.count(), truth.repeated);
    // The server's capture has no losses yet.
    let server = analysed(&written(&generated, &generated.server)).unwrap();
    let video = stream(&server, Direction::Down, "RTP video");
    assert_eq!(video.stream.account(Kind::Rtp).unwrap().lost, 0);
}

fn join_files(server: &File, client: &File) -> Result<JoinedCaptures, Unrelated> {
    let (one, other) = (analysed(server).unwrap(), analysed(client).unwrap());
    join(
        (&mut open(server), &one),
        (&mut open(client), &other),
        Window::default(),
    )
}

#[test]
fn joined_captures_give_delays_losses_and_clocks() {
    let plan = Plan {
        loss: 0.005,
        offset: 1_700_000_000,
        drift_ppm: 20.0,
        lasting: 10 * SECOND,
        ..plan(60.0)
    };
    let generated = plan.generate().unwrap();
    let server = written(&generated, &generated.server);
    let client = written(&generated, &generated.client);
    let truth = generated.truth.clone();
    let found = join_files(&server, &client).unwrap();
    assert!(!found.swapped);
    assert!((found.drift_ppm - 20.0).abs() < 2.0, "{}", found.drift_ppm);
    // In the middle of the capture, the clock has drifted by 20 ppm of 5 s. The offset has an error, because the delays
    // of uplink and downlink differ.
    let offset = found.offset_ns.unwrap() - 1.7e9 - 100e3;
    assert!(offset.abs() < 150e3, "{offset}");
    assert_near(found.down.delay_ns.mean(), truth.delay_ns, 0.1);
    let lost = found.down.sent - found.down.arrived;
    assert!(lost.abs_diff(truth.lost) <= 12, "{lost} {}", truth.lost);
    // RTP audio and repairs are not video.
    let (video, arrived) = (
        found.down.video_delay_ns.count(),
        truth.video_packets - truth.lost,
    );
    assert!(video.abs_diff(arrived) <= 12, "{video} {arrived}");
    assert_eq!(found.up.sent, found.up.arrived);
    assert!(found.frame_ns.mean().unwrap() > 5e6);
    let swapped = join_files(&client, &server).unwrap();
    assert!(swapped.swapped);
    assert_near(swapped.down.delay_ns.mean(), truth.delay_ns, 0.1);
}

#[test]
fn captures_of_different_things_are_not_joined() {
    let one = plan(60.0).generate().unwrap();
    let other = capture(&rtp_burst(20, 1200));
    let error = join_files(&written(&one, &one.server), &other).unwrap_err();
    assert!(error.to_string().contains("no packet in common"), "{error}");
}

/// A capture of datagrams from 10.0.0.1 to 10.0.0.2 at these times.
fn capture(datagrams: &[(u64, Vec<u8>)]) -> File {
    let ends: (SocketAddr, SocketAddr) = (
        "10.0.0.1:5004".parse().unwrap(),
        "10.0.0.2:5004".parse().unwrap(),
    );
    let mut writer = CaptureWriter::new(Vec::new(), "a test").unwrap();
    for (at, bytes) in datagrams {
        writer.udp(SECOND + at, ends, bytes).unwrap();
    }
    writer.finish().unwrap().into()
}

fn rtp(sequence: u16, timestamp: u32, marker: bool, length: usize) -> Vec<u8> {
    let mut bytes = vec![0x80, 96 | u8::from(marker) << 7];
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(timestamp.to_be_bytes());
    bytes.extend(7_u32.to_be_bytes());
    bytes.resize(length, 0);
    bytes
}

/// 60 frames per second, each of four packets that are captured separately.
fn rtp_burst(frames: u16, length: usize) -> Vec<(u64, Vec<u8>)> {
    (0..frames * 4)
        .map(|packet| {
            let (frame, place) = (packet / 4, packet % 4);
            let at = u64::from(frame) * 16_666_667 + u64::from(place) * 20 * MICROSECOND;
            (at, rtp(packet, u32::from(frame) * 1500, place == 3, length))
        })
        .collect()
}

#[test]
fn joined_packets_are_the_same_as_single_ones() {
    let single = rtp_burst(100, 1200);
    let joined: Vec<(u64, Vec<u8>)> = single
        .chunks(4)
        .map(|frame| (frame[0].0, frame.iter().flat_map(|f| f.1.clone()).collect()))
        .collect();
    let (single, joined) = (capture(&single), capture(&joined));
    let (one, other) = (analysed(&single).unwrap(), analysed(&joined).unwrap());
    assert_eq!((one.account.joined, other.account.joined), (0, 100));
    assert_eq!(other.account.joined_datagrams, 400);
    for analysis in [&one, &other] {
        let video = stream(analysis, Direction::Down, "RTP video");
        assert_eq!(video.stream.sizes.count(), 400);
        assert_eq!(video.stream.sizes.mean(), Some(1242.0));
        let frames = video.video.as_ref().unwrap().frames.as_ref().unwrap();
        assert_eq!((frames.complete, frames.broken), (98, 0));
        assert_eq!(frames.batches.mean(), Some(1.0));
    }
}

/// Truncates each packet of a capture to `most` bytes.
fn cut(file: &File, most: usize) -> File {
    let mut short: Vec<u8> = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0];
    short.extend([0; 8]);
    for word in [most, 101] {
        short.extend((word as u32).to_le_bytes());
    }
    let read = crate::capture::read(&**file, &mut |packet| {
        let data = &packet.data[..packet.data.len().min(most)];
        let (seconds, rest) = (packet.at / SECOND, packet.at % SECOND);
        for word in [seconds, rest, data.len() as u64, packet.length.into()] {
            short.extend((word as u32).to_le_bytes());
        }
        short.extend(data);
        std::ops::ControlFlow::Continue(())
    });
    read.unwrap();
    short.into()
}

#[test]
fn truncated_captures_give_the_same_result() {
    let generated = plan(60.0).generate().unwrap();
    let long = written(&generated, &generated.server);
    let (long, short) = (analysed(&long).unwrap(), analysed(&cut(&long, 52)).unwrap());
    let message = |analysis: &Analysis| {
        let all = analysis.streams.iter();
        all.map(|f| (f.name(), f.stream.sizes.count(), f.stream.sizes.mean()))
            .collect::<Vec<_>>()
    };
    assert_eq!(message(&long), message(&short));
    // If headers were not captured, the stream's usual size is assumed.
    let mut all = rtp_burst(10, 1200);
    let large: Vec<u8> = (40..44)
        .flat_map(|n| rtp(n, 15_000, n == 43, 1200))
        .collect();
    all.push((166_666_670, large));
    let short = analysed(&cut(&capture(&all), 60)).unwrap();
    assert_eq!(short.account.joined_unseen, 4);
    let video = stream(&short, Direction::Down, "RTP video");
    assert_eq!(video.stream.sizes.count(), 44);
    assert_eq!(video.stream.account(Kind::Rtp).unwrap().lost, 0);
}

/// A media datagram of OpenUVR with this number and send timestamp.
fn openuvr(number: u64, sent: u64) -> Vec<u8> {
    let mut bytes = vec![1, 2, 0, 0, 9, 0, 0, 0];
    bytes.extend(number.to_le_bytes());
    bytes.extend(sent.to_le_bytes());
    bytes.resize(1400, 0xaa);
    bytes
}

#[test]
fn our_header_gives_losses_and_jitter() {
    let mut all = Vec::new();
    for number in 0..2000_u64 {
        let sent = number / 20 * 16_666_667 + number % 20 * 10 * MICROSECOND;
        // Every second frame arrives 2 ms later.
        let late = number / 20 % 2 * 2 * MILLISECOND;
        if number % 500 != 250 {
            all.push((sent + late, openuvr(number, sent)));
        }
    }
    all.swap(100, 101);
    let analysis = analysed(&capture(&all)).unwrap();
    let media = stream(&analysis, Direction::Down, "OpenUVR media");
    let account = media.stream.account(Kind::OpenUvrMedia).unwrap();
    assert_eq!((account.lost, account.reordered), (4, 1));
    let video = media.video.as_ref().unwrap();
    assert!(video.frames.is_none());
    assert_eq!(video.batch_packets.count(), 100);
    let highest = video.jitter_ns.quantile(1.0).unwrap();
    assert!((100_000..400_000).contains(&highest), "{highest}");
}

#[test]
fn a_corrupt_capture_is_analysed_up_to_there() {
    let whole = capture(&rtp_burst(100, 1200));
    let cut: File = whole[..whole.len() / 2].into();
    let analysis = analysed(&cut).unwrap();
    let ended = analysis.ended.unwrap().to_string();
    assert!(ended.contains("unreadable after packet 199"), "{ended}");
    assert_eq!(analysis.account.datagrams, 199);
    let mut back = rtp_burst(100, 1200);
    back[300].0 = 0;
    let mut jumps = back.clone();
    jumps[50].0 += 90_000 * SECOND;
    for (all, says, count) in [
        (back, "clock steps back by 1.2 s", 300),
        (jumps, "clock steps forward by 90000.0 s", 50),
    ] {
        let analysis = analysed(&capture(&all)).unwrap();
        let ended = analysis.ended.unwrap().to_string();
        assert!(ended.contains(says), "{ended}");
        assert_eq!(analysis.account.datagrams, count);
    }
}

#[test]
fn captures_without_datagrams_are_named() {
    let message = |file: &[u8]| analysed(&file.into()).unwrap_err().to_string();
    assert!(message(b"hello, this is text").contains("neither pcap"));
    assert!(message(&capture(&[])).contains("none of the 0 packets"));
    let whole = capture(&rtp_burst(3, 1200));
    // Link type 127 is a radio capture in monitor mode.
    let mut radio = cut(&whole, 60).to_vec();
    radio[20] = 127;
    assert!(message(&radio).contains("link type"), "{}", message(&radio));
}

#[test]
fn only_the_window_is_analysed() {
    let file = capture(&rtp_burst(100, 1200));
    let window = Window {
        from: 500 * MILLISECOND,
        lasting: Some(500 * MILLISECOND),
    };
    let analysis = analyse(&mut open(&file), window).unwrap();
    assert_eq!(analysis.account.datagrams, 30 * 4);
}

#[test]
fn streams_without_end_take_no_memory() {
    let all: Vec<(u64, Vec<u8>)> = (0..3000_u32)
        .map(|number| {
            let mut bytes = rtp(0, 0, false, 100);
            bytes[8..12].copy_from_slice(&number.to_be_bytes());
            (u64::from(number) * MICROSECOND, bytes)
        })
        .collect();
    let analysis = analysed(&capture(&all)).unwrap();
    assert_eq!(analysis.streams.len(), survey::MOST_STREAMS);
    assert_eq!(analysis.beyond, 3000 - survey::MOST_STREAMS as u64);
}

#[test]
fn a_late_sender_still_sends_video() {
    // The timestamps have 60 frames per second, but only 38 frames per second arrive.
    let mut late = rtp_burst(100, 1200);
    for (at, _) in &mut late {
        *at = *at / 38 * 60;
    }
    let analysis = analysed(&capture(&late)).unwrap();
    stream(&analysis, Direction::Down, "RTP video");
}
