//! Picture and sound interleaved in one TCP connection: all packets, in order, with correct clocks.

use rtcp_types::{
    Compound, Packet, PayloadFeedback, Pli, RtcpPacketWriter as _, RtcpPacketWriterExt as _,
};
use rtp_types::RtpPacket;

use crate::Players;
use crate::beside::{assert_is_part_of, write_down};
use crate::player::{AUDIO, Player, VIDEO, VIDEO_RTCP};
use crate::support::STALLED;
use crate::support::stalls::measured_without_stalls;

/// NAL unit types of ITU-T H.264 table 7-1, and a fragment (RFC 6184).
const IDR: u8 = 5;
const SPS: u8 = 7;
const FU_A: u8 = 28;

/// Assembles NAL units.
#[derive(Default)]
struct Units {
    whole: Vec<Vec<u8>>,
    part: Vec<u8>,
    newest: Option<u16>,
    frames: usize,
}

impl Units {
    fn take(&mut self, packet: &RtpPacket<'_>) {
        let number = packet.sequence_number();
        let follows = self
            .newest
            .is_none_or(|newest| number == newest.wrapping_add(1));
        assert!(follows, "{number} behind {:?}", self.newest);
        self.newest = Some(number);
        self.frames += usize::from(packet.marker_bit());
        let payload = packet.payload();
        if payload[0] & 0x1f != FU_A {
            self.whole.push(payload.to_vec());
            return;
        }
        if payload[1] & 0x80 != 0 {
            self.part = vec![payload[0] & 0xe0 | payload[1] & 0x1f];
        }
        self.part.extend_from_slice(&payload[2..]);
        if payload[1] & 0x40 != 0 {
            self.whole.push(std::mem::take(&mut self.part));
        }
    }

    /// The next `frames` frames of `player`.
    fn of(player: &mut Player, frames: usize) -> Units {
        let mut units = Units::default();
        while units.frames < frames {
            let (channel, bytes) = player.packet();
            if channel == VIDEO {
                units.take(&RtpPacket::parse(&bytes).unwrap());
            }
        }
        units
    }
}

#[test]
fn a_player_gets_the_encoders_output_from_a_key_frame_on() {
    let players = Players::new("rtsp-whole");
    let made = write_down(&players.rig.host);
    let mut player = Player::that_plays(players.server.address(), &players.url());
    let units = Units::of(&mut player, 60);
    assert_eq!(units.whole[0][0] & 0x1f, SPS);
    assert_is_part_of(&units.whole, &made);
    let (status, _) = player.request("TEARDOWN", "/", "");
    assert_eq!(status, 200);
    assert!(
        player.rest().iter().all(|byte| *byte != b'$'),
        "nothing follows the response"
    );
}

/// A sender report: its channel, and its times on the wall clock and the RTP clock.
type SenderReport = (u8, u64, u32);

/// At least two sender reports of each track, and the sequence numbers and timestamps of at least 100 payloads of
/// sound.
fn reports_and_sound(players: &Players) -> (Vec<SenderReport>, Vec<(u16, u32)>) {
    let mut player = Player::that_plays(players.server.address(), &players.url());
    let (mut reports, mut sound) = (Vec::new(), Vec::new());
    let both = |reports: &[SenderReport]| {
        [VIDEO_RTCP, AUDIO + 1].map(|channel| reports.iter().filter(|r| r.0 == channel).count())
    };
    while both(&reports).iter().any(|count| *count < 2) || sound.len() < 100 {
        let (channel, bytes) = player.packet();
        match channel {
            AUDIO => {
                let packet = RtpPacket::parse(&bytes).unwrap();
                sound.push((packet.sequence_number(), packet.timestamp()));
            }
            VIDEO => {}
            _ => {
                let mut compound = Compound::parse(&bytes).unwrap();
                let Some(Ok(Packet::Sr(report))) = compound.next() else {
                    panic!("a sender report comes first");
                };
                reports.push((channel, report.ntp_timestamp(), report.rtp_timestamp()));
            }
        }
    }
    (reports, sound)
}

#[test]
fn sound_and_picture_are_on_one_clock() {
    let players = Players::new("rtsp-clock");
    let reports = measured_without_stalls(5, STALLED, || {
        let (reports, sound) = reports_and_sound(&players);
        // Consecutive payloads are 5 ms apart. After a long stall of this machine, the tone continues later.
        for pair in sound.windows(2) {
            let payloads = pair[1].0.wrapping_sub(pair[0].0);
            let samples = pair[1].1.wrapping_sub(pair[0].1);
            assert!(
                samples >= 240 * u32::from(payloads),
                "{payloads}: {samples}"
            );
            if (payloads, samples) != (1, 240) {
                return Err(format!("{payloads} payloads for {samples} samples"));
            }
        }
        Ok(reports)
    });
    // Both tracks have reports, and each track's clock matches the wall clock.
    for (channel, rate) in [(VIDEO_RTCP, 90_000.0), (AUDIO + 1, 48_000.0)] {
        let mine: Vec<_> = reports
            .iter()
            .filter(|report| report.0 == channel)
            .collect();
        let [(_, ntp, rtp), .., (_, ntp_later, rtp_later)] = mine[..] else {
            panic!("{} reports of channel {channel}", mine.len());
        };
        let seconds = ntp_later.wrapping_sub(*ntp) as f64 / 2f64.powi(32);
        let ticks = f64::from(rtp_later.wrapping_sub(*rtp));
        assert!(
            (ticks / seconds / rate - 1.0).abs() < 0.01,
            "{ticks} ticks in {seconds} s"
        );
    }
}

/// Without reports, a player aligns the first packets of both tracks, although their times differ. In ffmpeg, the sound
/// was then 24 to 29 ms late, and jumped with the first report.
#[test]
fn sender_reports_precede_the_first_packets() {
    let players = Players::new("rtsp-start");
    let mut player = Player::that_plays(players.server.address(), &players.url());
    let answer = player.answer_to_play().to_owned();
    assert!(answer.contains("\r\nRange: npt=now-\r\n"), "{answer}");
    let info = answer.lines().find(|line| line.starts_with("RTP-Info: "));
    let begins = |track: &str| {
        let of = info
            .unwrap()
            .split(',')
            .find(|part| part.contains(track))
            .unwrap();
        let number = |name: &str| -> u32 {
            let found = of.split(';').find_map(|word| word.strip_prefix(name));
            found.unwrap().parse().unwrap()
        };
        (number("seq="), number("rtptime="))
    };
    let mut reports = Vec::new();
    let mut firsts = [None, None];
    while firsts.iter().any(Option::is_none) {
        let (channel, bytes) = player.packet();
        match channel {
            VIDEO | AUDIO => {
                // If one track starts late, more than two reports precede its first packet.
                assert!(reports.len() >= 2, "reports come first");
                let packet = RtpPacket::parse(&bytes).unwrap();
                let first = &mut firsts[usize::from(channel == AUDIO)];
                first.get_or_insert((u32::from(packet.sequence_number()), packet.timestamp()));
            }
            _ => {
                let mut compound = Compound::parse(&bytes).unwrap();
                let Some(Ok(Packet::Sr(report))) = compound.next() else {
                    panic!("a sender report comes first");
                };
                reports.push((channel, report.ntp_timestamp(), report.rtp_timestamp()));
            }
        }
    }
    assert_eq!(reports[0].1, reports[1].1, "the same time for both");
    for (track, channel, first) in [("/video", VIDEO, firsts[0]), ("/audio", AUDIO, firsts[1])] {
        let (sequence, time) = begins(track);
        let (number, stamp) = first.unwrap();
        assert_eq!(number, sequence, "{track}");
        let report = reports
            .iter()
            .find(|report| report.0 == channel + 1)
            .unwrap();
        assert_eq!(report.2, time, "{track}");
        assert!(
            stamp.wrapping_sub(time) < 1 << 31,
            "{track} starts before PLAY"
        );
    }
}

#[test]
fn a_player_that_lost_its_picture_gets_a_key_frame() {
    let players = Players::new("rtsp-pli");
    let key_frames = |units: &Units| {
        let keys = units.whole.iter().filter(|unit| unit[0] & 0x1f == SPS);
        keys.count()
    };
    // A stalled subscriber misses frames and gets another key frame.
    let (mut player, units) = measured_without_stalls(5, STALLED, || {
        let mut player = Player::that_plays(players.server.address(), &players.url());
        let units = Units::of(&mut player, 90);
        match key_frames(&units) {
            1 => Ok((player, units)),
            count => Err(format!("{count} key frames, and none was requested")),
        }
    });
    assert!(units.whole.iter().any(|unit| unit[0] & 0x1f == IDR));
    let pli = Pli::builder();
    let lost = PayloadFeedback::builder(&pli).sender_ssrc(1).media_ssrc(2);
    let mut bytes = vec![0; lost.calculate_size().unwrap()];
    lost.write_into(&mut bytes).unwrap();
    player.send(VIDEO_RTCP, &bytes);
    // Observers share a key-frame limit, so a key frame arrives soon but not at once.
    let mut found = 0;
    for _ in 0..20 {
        found += key_frames(&Units::of(&mut player, 30));
        if found > 0 {
            return;
        }
    }
    panic!("no key frame in 600 frames");
}

#[test]
fn a_player_continues_with_a_key_frame_after_a_pause() {
    let players = Players::new("rtsp-pause");
    let mut player = Player::that_plays(players.server.address(), &players.url());
    Units::of(&mut player, 10);
    assert_eq!(player.request("PAUSE", "/", "").0, 200);
    assert_eq!(player.request("GET_PARAMETER", "/", "").0, 200);
    assert_eq!(player.request("PLAY", "/", "").0, 200);
    let units = Units::of(&mut player, 10);
    assert!(units.whole.iter().any(|unit| unit[0] & 0x1f == SPS));
}
