//! Generates captures with known content: the study's traffic, as its server and its client would have captured it.
//!
//! The streams are those of table 3. Video frames vary in size. A pacer sends queued packets in batches every 5.56 ms,
//! at up to 1.54 times the bitrate. Two models of the pacer were fitted, and only this one reproduces the study's
//! batches, idle times and assembly delays (`docs/studies/traffic.md`). The path to the client is the Wi-Fi model
//! ([`crate::wifi`]). The client's clock has an offset and drift. Lost packets are retransmitted after a delay, with a
//! separate SSRC (RFC 4588).

use std::io::{self, Write};
use std::net::SocketAddr;

use openuvr_sim::random::Random;
use serde::Serialize;

use crate::capture::write::CaptureWriter;
use crate::wifi::network::{Offer, Outcome};
use crate::wifi::scenario::Scenario;
use crate::wifi::{Direction, Event, Impossible, MICROSECOND, MILLISECOND, Nanos, SECOND, nanos};

/// The program named in the captures' headers.
pub const APPLICATION: &str = "openuvr lab traffic --generate";

/// Parameters of the generated captures.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Frames per second.
    pub fps: f64,
    /// Video bitrate in bits per second.
    pub bitrate: u64,
    /// Duration.
    pub lasting: Nanos,
    /// Share of the video packets that are lost after they have left the server, and retransmitted.
    pub loss: f64,
    /// Offset of the client's clock from the server's, ns.
    pub offset: i64,
    /// Drift of the client's clock, ppm.
    pub drift_ppm: f64,
    /// The network.
    pub wifi: Scenario,
    /// Seed of sizes, losses and the channel.
    pub seed: u64,
}

impl Default for Plan {
    /// The plan of the study: 90 frames per second at 50 Mb/s for 30 s, without loss.
    fn default() -> Plan {
        Plan {
            fps: 90.0,
            bitrate: 50_000_000,
            lasting: 30 * SECOND,
            loss: 0.0,
            offset: 0,
            drift_ppm: 0.0,
            wifi: Scenario::paper(),
            seed: 1,
        }
    }
}

/// The ground truth of generated captures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Truth {
    /// Video packets from the server, without retransmissions.
    pub video_packets: u64,
    /// Packets lost after they have left the server.
    pub lost: u64,
    /// Retransmitted packets.
    pub repeated: u64,
    /// Completely sent frames.
    pub frames: u64,
    /// Mean number of batches per frame.
    pub batches: f64,
    /// Share of the pacer's slots, from its first batch to its last, in which the queue was empty.
    pub idle: f64,
    /// Mean number of delivered packets in each A-MPDU to the client. All kinds of packets count.
    pub aggregate: f64,
    /// Mean delay of packets to the client, ns.
    pub delay_ns: f64,
    /// The client's clock minus the server's when the capture starts, ns.
    pub offset_ns: i64,
    /// Drift of the client's clock, ppm.
    pub drift_ppm: f64,
}

/// A packet of a generated capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured {
    /// Capture time, ns since 1970 on the capturing machine's clock.
    pub at: u64,
    packet: usize,
}

/// Both captures.
#[derive(Debug)]
pub struct Generated {
    packets: Vec<Packet>,
    /// At the server.
    pub server: Vec<Captured>,
    /// At the client.
    pub client: Vec<Captured>,
    /// The ground truth of both captures.
    pub truth: Truth,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    at: Nanos,
    direction: Direction,
    what: PacketContent,
    /// Length of the UDP payload.
    length: usize,
    is_lost: bool,
}

#[derive(Debug, Clone, Copy)]
enum PacketContent {
    Rtp {
        ssrc: u32,
        payload_type: u8,
        marker: bool,
        sequence: u16,
        timestamp: u32,
    },
    Dtls(u64),
    Stun,
    Rtcp,
    Other,
}

/// Start of the generated traffic, ns since 1970 (in 2023).
const BEGINS: u64 = 1_700_000_000 * SECOND;

/// Interval of the batches, their maximum rate relative to the bitrate, and the variation of frame sizes. The interval
/// is the study's; the other two figures are fitted to the study's batches and idle times.
const INTERVAL: Nanos = 5_560 * MICROSECOND;
const BUDGET: f64 = 1.54;
const SIZE_VARIATION: f64 = 0.4;

/// Gap between packets of a batch (section 8.2 of the study).
const GAP: Nanos = 5 * MICROSECOND;

/// Length of the Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;

/// Payload of a video packet in bytes. With headers, the packet has 1242 bytes, as in table 3.
const VIDEO_PACKET: usize = 1200;

/// Delay of a retransmission: a round trip, and the wait for a report.
const REPAIR: Nanos = 8 * MILLISECOND;

const VIDEO: u32 = 0x5649_4445;
const REPAIRS: u32 = 0x5254_5854;
const AUDIO: u32 = 0x4155_4449;

/// The periodic streams of table 3: direction, bytes on Ethernet, period, and the content of the packet with a given
/// number.
type Periodic = (Direction, usize, Nanos, fn(u64) -> PacketContent);
const PERIODIC: [Periodic; 7] = [
    (Direction::Down, 83, 20 * MILLISECOND, audio),
    (
        Direction::Down,
        107,
        8_940 * MICROSECOND,
        PacketContent::Dtls,
    ),
    (Direction::Down, 112, 8_260 * MICROSECOND, |_| {
        PacketContent::Other
    }),
    (Direction::Down, 122, 1_287_420 * MICROSECOND, |_| {
        PacketContent::Stun
    }),
    (Direction::Up, 175, 4_900 * MICROSECOND, PacketContent::Dtls),
    (Direction::Up, 434, 67_270 * MICROSECOND, |_| {
        PacketContent::Rtcp
    }),
    (Direction::Up, 124, 1_287_480 * MICROSECOND, |_| {
        PacketContent::Stun
    }),
];

#[allow(clippy::cast_possible_truncation)] // Sequence numbers and timestamps wrap around.
fn audio(number: u64) -> PacketContent {
    PacketContent::Rtp {
        ssrc: AUDIO,
        payload_type: 111,
        marker: false,
        sequence: number as u16,
        // A packet has 20 ms at 48 kHz.
        timestamp: (number as u32).wrapping_mul(960),
    }
}

/// Bytes of a STUN response on Ethernet (section 5.3 of the study). Requests and responses alternate; the size of the
/// requests follows from the mean.
const STUN_ANSWER: usize = 106;

/// Length of a packet on Ethernet, in bytes. `bytes` is the mean of the stream.
fn length(what: PacketContent, number: u64, bytes: usize) -> usize {
    match what {
        PacketContent::Stun if number % 2 == 1 => STUN_ANSWER,
        PacketContent::Stun => 2 * bytes - STUN_ANSWER,
        _ => bytes,
    }
}

impl Plan {
    /// Generates both captures.
    ///
    /// # Errors
    /// Returns an error if the parameters of the network or of the video are impossible.
    pub fn generate(&self) -> Result<Generated, Impossible> {
        let is_possible = self.fps >= 1.0 && self.fps <= 1000.0 && self.bitrate >= 10_000;
        if !is_possible || self.lasting == 0 || self.bitrate > 10_000_000_000 {
            let what = "the generator supports 1 to 1000 frames/s, 10 kb/s to 10 Gb/s, and durations above 0 s";
            return Err(Impossible(what.into()));
        }
        self.wifi.check()?;
        let mut truth = Truth {
            offset_ns: self.offset,
            drift_ppm: self.drift_ppm,
            ..Truth::default()
        };
        let mut packets = self.video(&mut truth);
        self.periodic(&mut packets);
        packets.sort_by_key(|packet| packet.at);
        let seen = |(packet, sent): (usize, &Packet)| Captured {
            at: BEGINS + sent.at,
            packet,
        };
        let mut server: Vec<Captured> = Vec::new();
        let down = packets
            .iter()
            .enumerate()
            .filter(|(_, p)| p.direction == Direction::Down);
        server.extend(down.map(seen));
        let mut client: Vec<Captured> = Vec::new();
        for (packet, arrived) in self.cross(&packets, &mut truth)? {
            match packets[packet].direction {
                Direction::Down => client.push(Captured {
                    at: self.client_clock(arrived),
                    packet,
                }),
                Direction::Up => server.push(Captured {
                    at: BEGINS + arrived,
                    packet,
                }),
            }
        }
        let up = packets
            .iter()
            .enumerate()
            .filter(|(_, p)| p.direction == Direction::Up);
        client.extend(up.map(|(packet, sent)| Captured {
            at: self.client_clock(sent.at),
            packet,
        }));
        server.sort_by_key(|seen| seen.at);
        client.sort_by_key(|seen| seen.at);
        Ok(Generated {
            packets,
            server,
            client,
            truth,
        })
    }

    fn client_clock(&self, at: Nanos) -> u64 {
        let drifted = nanos(at as f64 * (1.0 + self.drift_ppm / 1e6));
        (BEGINS + drifted).saturating_add_signed(self.offset)
    }

    /// The packets that the pacer sends: frames and retransmissions.
    fn video(&self, truth: &mut Truth) -> Vec<Packet> {
        let mut random = Random::new(self.seed, 21);
        let budget = self.bitrate as f64 / 8.0 * BUDGET * INTERVAL as f64 / SECOND as f64;
        let mut packets = Vec::new();
        let mut waiting: std::collections::VecDeque<(u32, bool, usize)> = Default::default();
        let (mut frame, mut sequence, mut again) = (0_u32, 0_u16, 0_u16);
        let (mut batches, mut slots, mut busy) = (0_u64, 0_u64, 0_u64);
        let mut in_batch = None;
        let mut empty = 0;
        for tick in 0..self.lasting / INTERVAL {
            let now = tick * INTERVAL;
            while f64::from(frame) * SECOND as f64 / self.fps <= now as f64 {
                waiting.extend(self.frame(frame, &mut random));
                frame += 1;
            }
            let (mut spent, mut place) = (0.0, 0);
            while spent < budget
                && let Some((of, marker, length)) = waiting.pop_front()
            {
                let at = now + place * GAP;
                let timestamp = nanos(f64::from(of) * 90_000.0 / self.fps);
                #[allow(clippy::cast_possible_truncation)] // It wraps around.
                let timestamp = timestamp as u32;
                let is_lost = random.chance(self.loss);
                packets.push(video(
                    at,
                    (VIDEO, 102, sequence),
                    marker,
                    timestamp,
                    length,
                    is_lost,
                ));
                truth.video_packets += 1;
                truth.frames += u64::from(marker);
                if is_lost {
                    truth.lost += 1;
                    truth.repeated += 1;
                    // The payload begins with the original sequence number of 2 bytes (RFC 4588).
                    let what = (REPAIRS, 103, again);
                    packets.push(video(
                        at + REPAIR,
                        what,
                        marker,
                        timestamp,
                        length + 2,
                        false,
                    ));
                    again = again.wrapping_add(1);
                }
                sequence = sequence.wrapping_add(1);
                spent += (length + HEADERS) as f64;
                place += 1;
                batches += u64::from(in_batch != Some((of, tick)));
                in_batch = Some((of, tick));
            }
            match place {
                0 => empty += 1,
                _ if slots == 0 => (slots, busy, empty) = (1, 1, 0),
                _ => {
                    slots += empty + 1;
                    busy += 1;
                    empty = 0;
                }
            }
        }
        truth.batches = batches as f64 / truth.frames.max(1) as f64;
        truth.idle = 1.0 - busy as f64 / slots.max(1) as f64;
        packets
    }

    /// The packets of a frame. For each packet: the frame's number, whether the packet is the frame's last, and the
    /// packet's length.
    fn frame(&self, frame: u32, random: &mut Random) -> Vec<(u32, bool, usize)> {
        // The sum of twelve uniform random numbers is nearly normally distributed.
        let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let size = self.bitrate as f64 / 8.0 / self.fps * (1.0 + SIZE_VARIATION * normal).max(0.1);
        let count = usize::try_from(nanos((size / VIDEO_PACKET as f64).ceil()))
            .unwrap_or(1)
            .max(1);
        let whole = usize::try_from(nanos(size)).unwrap_or(usize::MAX);
        let last = whole.saturating_sub((count - 1) * VIDEO_PACKET);
        (0..count)
            .map(|place| match place + 1 == count {
                false => (frame, false, VIDEO_PACKET),
                true => (frame, true, last.clamp(20, VIDEO_PACKET)),
            })
            .collect()
    }

    fn periodic(&self, packets: &mut Vec<Packet>) {
        let mut random = Random::new(self.seed, 22);
        for (direction, bytes, period, what) in PERIODIC {
            let mut at = nanos(random.unit() * period as f64);
            for number in 0.. {
                if at >= self.lasting {
                    break;
                }
                packets.push(Packet {
                    at,
                    direction,
                    what: what(number),
                    length: length(what(number), number, bytes) - HEADERS,
                    is_lost: false,
                });
                at += period;
            }
        }
    }

    /// Sends the packets through the network. Returns the packets that arrive, with their arrival times.
    fn cross(
        &self,
        packets: &[Packet],
        truth: &mut Truth,
    ) -> Result<Vec<(usize, Nanos)>, Impossible> {
        let mut network = self.wifi.network(self.seed)?;
        let mut arrived = Vec::new();
        let (mut delays, mut down) = (0.0, 0_u64);
        let (mut aggregates, mut through) = (0_u64, 0_u64);
        let mut note = |outcome| match outcome {
            Outcome::Air(Event::Delivered { at, packet }) => {
                let Ok(number) = usize::try_from(packet.id) else {
                    return;
                };
                arrived.push((number, at));
                if packet.direction == Direction::Down {
                    delays += (at - packets[number].at) as f64;
                    down += 1;
                }
            }
            Outcome::Air(Event::Sent(sent))
                if sent.direction == Direction::Down && sent.delivered > 0 =>
            {
                aggregates += 1;
                through += u64::from(sent.delivered);
            }
            _ => {}
        };
        for (id, packet) in (0..).zip(packets) {
            while let Some(outcome) = network.poll(packet.at.saturating_sub(1)) {
                note(outcome);
            }
            let offer = Offer {
                direction: packet.direction,
                station: 0,
                category: self.wifi.video.category,
                id,
                bytes: u32::try_from(packet.length + HEADERS - 14).unwrap_or(1500),
            };
            if !packet.is_lost {
                network.send(packet.at, offer);
            }
        }
        while let Some(outcome) = network.poll(self.lasting + SECOND) {
            note(outcome);
        }
        truth.delay_ns = delays / down.max(1) as f64;
        truth.aggregate = through as f64 / aggregates.max(1) as f64;
        Ok(arrived)
    }
}

fn video(
    at: Nanos,
    (ssrc, payload_type, sequence): (u32, u8, u16),
    marker: bool,
    timestamp: u32,
    length: usize,
    is_lost: bool,
) -> Packet {
    Packet {
        at,
        direction: Direction::Down,
        what: PacketContent::Rtp {
            ssrc,
            payload_type,
            marker,
            sequence,
            timestamp,
        },
        length,
        is_lost,
    }
}

impl Generated {
    /// Writes one of the two captures as a pcapng file.
    ///
    /// # Errors
    /// Returns the writer's error.
    pub fn write(&self, captured: &[Captured], file: impl Write) -> io::Result<()> {
        let server = SocketAddr::from(([192, 168, 50, 2], 50_000));
        let client = SocketAddr::from(([192, 168, 50, 3], 60_000));
        let mut writer = CaptureWriter::new(file, APPLICATION)?;
        for seen in captured {
            let packet = &self.packets[seen.packet];
            let ends = match packet.direction {
                Direction::Down => (server, client),
                Direction::Up => (client, server),
            };
            writer.udp(seen.at, ends, &packet.payload(seen.packet))?;
        }
        writer.finish().map(drop)
    }
}

impl Packet {
    /// The bytes of the packet. `number` seeds the encrypted part.
    fn payload(&self, number: usize) -> Vec<u8> {
        let mut bytes = match self.what {
            PacketContent::Rtp {
                ssrc,
                payload_type,
                marker,
                sequence,
                timestamp,
            } => {
                let mut bytes = vec![0x80, payload_type | u8::from(marker) << 7];
                bytes.extend(sequence.to_be_bytes());
                bytes.extend(timestamp.to_be_bytes());
                bytes.extend(ssrc.to_be_bytes());
                bytes
            }
            PacketContent::Dtls(record) => {
                // A DTLS 1.2 record of application data in epoch 1.
                let mut bytes = vec![23, 0xfe, 0xfd, 0, 1];
                bytes.extend(&record.to_be_bytes()[2..]);
                bytes
            }
            PacketContent::Stun => {
                let body = u16::try_from(self.length - 20).unwrap_or(0);
                let mut bytes = vec![0, 1];
                bytes.extend(body.to_be_bytes());
                bytes.extend([0x21, 0x12, 0xa4, 0x42]);
                bytes
            }
            PacketContent::Rtcp => vec![0x80, 201, 0, 7],
            PacketContent::Other => vec![0xf0],
        };
        let mut filler = Random::new(number as u64, 23);
        let room = self.length.saturating_sub(bytes.len());
        // 32 random bytes suffice to distinguish packets.
        bytes.extend((0..room.min(32)).map(|_| filler.byte()));
        bytes.resize(self.length, 0);
        bytes
    }
}
