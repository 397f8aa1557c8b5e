//! Media for a browser: complete frames in packets, and a key frame on request.

use std::net::{Ipv6Addr, UdpSocket};
use std::time::Duration;

use openuvr_proto::units::Size;
use openuvr_runtime::host::Notice;
use str0m::media::{KeyframeRequestKind, MediaTime};
use str0m::rtp::RtpPacket;

use super::caller::Caller;
use super::remote::{Arrived, Remote};
use super::support::skip::skip;
use super::support::stalls::measured_without_stalls;
use super::support::{Rig, STALLED};

const SIZE: Size = Size::new(640, 384);

/// NAL unit types of ITU-T H.264 table 7-1, and the type of a fragment (RFC 6184).
const SLICE: u8 = 1;
const IDR: u8 = 5;
const SPS: u8 = 7;
const FU_A: u8 = 28;

/// A frame assembled from packets.
#[derive(Debug)]
struct AccessUnit {
    time: u32,
    /// Types of its NAL units.
    units: Vec<u8>,
    packets: usize,
}

/// Assembles frames from packets in order.
#[derive(Default)]
struct Depacketiser {
    open: Option<AccessUnit>,
    /// Number of packets whose sequence number did not follow the previous one.
    gaps: usize,
    newest: Option<u64>,
}

impl Depacketiser {
    fn take(&mut self, packet: &RtpPacket) -> Option<AccessUnit> {
        let seq = *packet.seq_no;
        let follows = self.newest.is_none_or(|newest| seq == newest + 1);
        self.gaps += usize::from(!follows);
        self.newest = Some(seq);
        let time = packet.header.timestamp;
        let open = self.open.get_or_insert(AccessUnit {
            time,
            units: Vec::new(),
            packets: 0,
        });
        let complete = self.gaps == 0;
        assert!(
            !complete || open.time == time,
            "a frame ends with its marker"
        );
        open.packets += 1;
        let kind = packet.payload[0] & 0x1f;
        if kind != FU_A {
            open.units.push(kind);
        } else if packet.payload[1] & 0x80 != 0 {
            open.units.push(packet.payload[1] & 0x1f);
        }
        packet.header.marker.then(|| self.open.take().unwrap())
    }
}

/// The next `count` frames. The error reports lost packets, such as packets that arrived while the test was starved.
fn frames(remote: &mut Remote, count: usize) -> Result<Vec<AccessUnit>, String> {
    let mut depacketiser = Depacketiser::default();
    let mut frames = Vec::new();
    remote.wait("frames", |arrived| {
        if let Arrived::Packet(packet) = arrived {
            assert!(packet.payload.len() <= openuvr_gateway::packetise::MAX_PAYLOAD);
            let shown_at_once = Some(MediaTime::ZERO);
            let delays = packet.header.ext_vals.clone();
            assert_eq!(delays.play_delay_min, shown_at_once);
            assert_eq!(delays.play_delay_max, shown_at_once);
            frames.extend(depacketiser.take(&packet));
        }
        (frames.len() == count).then_some(())
    });
    match depacketiser.gaps {
        0 => Ok(frames),
        gaps => Err(format!("{gaps} gaps between the packets")),
    }
}

#[test]
fn frames_are_complete_and_start_with_a_key_frame() {
    let rig = Rig::new("frames", SIZE);
    let caller = Caller::known(&rig);
    measured_without_stalls(5, STALLED, || {
        let mut remote = Remote::connected(&caller, "");
        let frames = frames(&mut remote, 60)?;
        let first = &frames[0];
        if first.units.first() != Some(&SPS) || !first.units.contains(&IDR) {
            return Err(format!("the first frame is no key frame: {first:?}"));
        }
        for pair in frames.windows(2) {
            let ticks = pair[1].time.wrapping_sub(pair[0].time);
            assert!((1..90_000 * 60).contains(&ticks), "{ticks}");
        }
        let keys = frames.iter().filter(|frame| frame.units.contains(&IDR));
        let keys = keys.count();
        let mut others = frames.iter().filter(|frame| !frame.units.contains(&IDR));
        assert!(others.all(|frame| frame.units == [SLICE; 8]), "{frames:?}");
        // A subscriber whose thread is starved misses frames and gets another key frame.
        let missed = rig.missed_frames();
        match (1..=1 + missed).contains(&keys) {
            true => Ok(()),
            false => Err(format!("{keys} key frames for {missed} missed frames")),
        }
    });
}

#[test]
fn page_and_media_come_by_ipv6_alone() {
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return skip("this machine has no IPv6");
    }
    let web = Ipv6Addr::LOCALHOST.into();
    let rig = Rig::at(web, "ipv6", SIZE, Vec::new(), |_| ());
    let caller = Caller::known(&rig);
    let frames = measured_without_stalls(5, STALLED, || {
        let mut remote = Remote::connected(&caller, "");
        frames(&mut remote, 30)
    });
    assert!(frames[0].units.contains(&IDR), "{:?}", frames[0]);
}

#[test]
fn pli_and_fir_bring_a_key_frame() {
    let rig = Rig::new("pli", SIZE);
    let mut remote = Remote::connected(&Caller::known(&rig), "");
    frames(&mut remote, 3).unwrap();
    for kind in [KeyframeRequestKind::Pli, KeyframeRequestKind::Fir] {
        remote.wants_key_frame(kind);
        let key = |frame: &AccessUnit| frame.units.contains(&IDR);
        let mut depacketiser = Depacketiser::default();
        remote.wait("a key frame", |arrived| match arrived {
            Arrived::Packet(packet) => depacketiser.take(&packet).filter(key).map(drop),
            _ => None,
        });
    }
}

#[test]
fn lost_packets_are_retransmitted() {
    let rig = Rig::new("again", SIZE);
    let mut remote = Remote::connected(&Caller::known(&rig), "");
    remote.loses_each = 20;
    // str0m requests only packets among the newest hundred. After a stall, it can no longer request some lost packets.
    measured_without_stalls(5, STALLED, || {
        let mut seen = std::collections::BTreeSet::new();
        let mut late = 0;
        remote.wait("retransmitted packets", |arrived| {
            if let Arrived::Packet(packet) = arrived {
                let seq = *packet.seq_no;
                late += usize::from(seen.last().is_some_and(|newest| seq < *newest));
                seen.insert(seq);
            }
            (late >= 20 && seen.len() > 300).then_some(())
        });
        // At least 99 % of the packets before the newest hundred have arrived.
        let (first, last) = (*seen.first().unwrap(), *seen.last().unwrap() - 100);
        let there = seen.range(first..last).count() as u64;
        match there * 100 >= (last - first) * 99 {
            true => Ok(()),
            false => Err(format!("{there} of {} packets arrived", last - first)),
        }
    });
}

#[test]
fn an_ice_restart_keeps_the_session() {
    let rig = Rig::new("restart", SIZE);
    let mut remote = Remote::connected(&Caller::known(&rig), "");
    let before = frames(&mut remote, 10).unwrap();
    remote.restart();
    let last = before.last().unwrap().time;
    // Packets on the old path are lost. They are retransmitted among new packets, in any order, or a key frame follows.
    let mut after = std::collections::BTreeSet::new();
    remote.wait("frames on the other path", |arrived| {
        if let Arrived::Packet(packet) = arrived
            && packet.header.marker
        {
            after.insert(packet.header.timestamp.wrapping_sub(last));
        }
        (after.len() == 30).then_some(())
    });
    // The stream is the same, so its clock continues. It has advanced by less than the minute that this test may take.
    let ticks = *after.last().unwrap();
    assert!((1..90_000 * 60).contains(&ticks), "{ticks}");
    let told = std::iter::from_fn(|| rig.notices.next(Duration::ZERO));
    let joined = told.filter(|notice| matches!(notice, Notice::Subscribed { .. }));
    assert_eq!(joined.count(), 1);
}

#[test]
fn messages_map_frames_to_timestamps() {
    let rig = Rig::new("told", SIZE);
    let mut remote = Remote::connected(&Caller::known(&rig), "");
    let mut times = std::collections::BTreeSet::new();
    let mut named = std::collections::BTreeMap::new();
    remote.wait("frames and their messages", |arrived| {
        match arrived {
            Arrived::Packet(packet) => {
                times.insert(packet.header.timestamp);
            }
            Arrived::Control(message) if message[0] == 0xf0 => {
                for row in message[1..].chunks(40) {
                    let number =
                        |at: usize| u32::from_le_bytes(row[at..at + 4].try_into().unwrap());
                    named.insert(number(4), number(0));
                }
            }
            _ => {}
        }
        // The message about a frame may precede its packets.
        let known = named.keys().filter(|time| times.contains(time)).count();
        (named.len() >= 30 && known + 2 >= named.len()).then_some(())
    });
    let numbers: Vec<u32> = named.values().copied().collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
}

#[test]
fn sound_arrives_payload_by_payload() {
    let rig = Rig::with("sound", SIZE, |config| {
        config.sound = openuvr_runtime::sound_choice::SoundChoice::parse("tone:440")
    });
    let mut remote = Remote::connected(&Caller::known(&rig), "");
    // A starved test loses packets.
    measured_without_stalls(5, STALLED, || {
        let mut times = Vec::new();
        remote.wait("sound", |arrived| {
            if let Arrived::Sound(time, length) = arrived {
                assert!(length > 2, "a tone, not silence: {length}");
                times.push(time);
            }
            (times.len() == 60).then_some(())
        });
        // 5 ms of 48 000 samples a second.
        match times.windows(2).all(|pair| pair[1] == pair[0] + 240) {
            true => Ok(()),
            false => Err(format!("the times of the sound: {times:?}")),
        }
    });
}
