//! Packets as programs send them: video that is sent in batches, controllers, and other people's
//! traffic.

use std::collections::VecDeque;

use super::network::Offer;
use super::setup::{Category, Way};
use super::{Impossible, MICROSECOND, MILLISECOND, Nanos, SECOND, nanos};
use crate::random::Random;

/// A video stream, as the study of Unity Render Streaming describes it (section 8.2).
#[derive(Debug, Clone, PartialEq)]
pub struct Video {
    /// Frames a second.
    pub fps: f64,
    /// Bits a second; frames are all of one size.
    pub bitrate: u64,
    /// Bytes of a packet.
    pub packet: u32,
    /// From the beginning of a batch to that of the next.
    pub interval: Nanos,
    /// Between two packets of a batch, at the server.
    pub gap: Nanos,
    /// In how many batches a frame is sent.
    pub batches: Batches,
    /// How urgent it is.
    pub category: Category,
}

/// In how many batches a frame is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batches {
    /// From 1 to this, uniformly; 0: to as many as fit between two frames.
    UpTo(u32),
    /// Always so many.
    Exactly(u32),
}

impl Default for Video {
    /// 60 frames a second at 50 Mb/s, in up to three batches 5.56 ms apart.
    fn default() -> Video {
        Video {
            fps: 60.0,
            bitrate: 50_000_000,
            packet: 1243,
            interval: 5_560 * MICROSECOND,
            gap: 5 * MICROSECOND,
            batches: Batches::UpTo(0),
            category: Category::BestEffort,
        }
    }
}

/// Packets of one size in equal distances: a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periodic {
    /// From one to the next.
    pub period: Nanos,
    /// Bytes of a packet.
    pub bytes: u32,
    /// How urgent they are.
    pub category: Category,
}

impl Default for Periodic {
    fn default() -> Periodic {
        Periodic {
            period: 4_160 * MICROSECOND,
            bytes: 175,
            category: Category::BestEffort,
        }
    }
}

/// Packets at random times (a Poisson process): other people's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Other {
    /// Bits a second.
    pub bitrate: u64,
    /// Bytes of a packet.
    pub bytes: u32,
    /// Which way.
    pub way: Way,
    /// How urgent it is.
    pub category: Category,
}

/// A packet that leaves its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// When.
    pub at: Nanos,
    /// What; its number counts all packets of the streams.
    pub offer: Offer,
    /// Of which video frame.
    pub frame: Option<Frame>,
}

/// A packet's place in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Frames of a station count from 0.
    pub number: u32,
    /// Packets of that frame.
    pub packets: u32,
}

/// Packets of several senders in the order of time, without end.
#[derive(Debug, Clone, Default)]
pub struct Streams {
    sources: Vec<(Source, Departure)>,
    next_id: u64,
}

#[derive(Debug, Clone)]
struct Source {
    kind: Kind,
    station: usize,
    random: Random,
}

#[derive(Debug, Clone)]
enum Kind {
    Video {
        video: Video,
        /// Where in time frames begin, and how far it is from one to the next; not rounded, so that
        /// 60 a second stay 60.
        origin: f64,
        next_frame: u32,
        /// Nothing is sent before this.
        free: Nanos,
        /// What is left of a frame.
        packets: VecDeque<(Nanos, Frame)>,
    },
    Periodic {
        periodic: Periodic,
        next: Nanos,
    },
    Other {
        other: Other,
        last: Nanos,
    },
}

impl Video {
    /// Whether there can be such a stream.
    ///
    /// # Errors
    /// Says what cannot be.
    pub fn check(&self) -> Result<(), Impossible> {
        let impossible = |what: String| Err(Impossible(what));
        if !(self.fps > 0.0 && self.fps <= 10_000.0) {
            return impossible(format!("fps={}: more than 0, at most 10000", self.fps));
        }
        if self.packet == 0 {
            return impossible("packet=0: a packet has at least 1 byte".into());
        }
        if self.interval == 0 {
            return impossible("tau=0: batches are apart; 1us is nearly nothing".into());
        }
        if self.batches == Batches::Exactly(0) {
            return impossible("batches=0: a frame is sent in at least 1".into());
        }
        let packets = self.packets();
        if packets > MOST_PACKETS {
            return impossible(format!(
                "a frame of {packets} packets: at most {MOST_PACKETS}; lower the bitrate, or make \
                 packets larger"
            ));
        }
        Ok(())
    }

    /// Packets of a frame.
    #[must_use]
    pub fn packets(&self) -> u64 {
        nanos((self.frame_bytes() / f64::from(self.packet)).ceil()).max(1)
    }

    fn frame_bytes(&self) -> f64 {
        self.bitrate as f64 / 8.0 / self.fps
    }
}

/// Packets of a frame at most: about 1 GB.
const MOST_PACKETS: u64 = 1 << 20;

impl Other {
    /// Whether there can be such traffic.
    ///
    /// # Errors
    /// Says what cannot be.
    pub fn check(&self) -> Result<(), Impossible> {
        if self.bitrate == 0 || self.bytes == 0 {
            let what = "other traffic has at least 1 bit/s, its packets 1 byte";
            return Err(Impossible(what.into()));
        }
        Ok(())
    }
}

impl Streams {
    /// Adds a video stream to a station; its first frame comes within a frame's time.
    pub fn video(&mut self, video: Video, station: usize, seed: u64) {
        let mut random = Random::new(seed, 6 << 32 | station as u64);
        let origin = random.unit() * SECOND as f64 / video.fps;
        let kind = Kind::Video {
            video,
            origin,
            next_frame: 0,
            free: 0,
            packets: VecDeque::new(),
        };
        self.add(kind, station, random);
    }

    /// Adds a station's controller; its first packet comes within a period.
    pub fn periodic(&mut self, periodic: Periodic, station: usize, seed: u64) {
        let mut random = Random::new(seed, 7 << 32 | station as u64);
        let next = nanos(random.unit() * periodic.period as f64);
        self.add(Kind::Periodic { periodic, next }, station, random);
    }

    /// Adds traffic of others, from or to a station.
    pub fn other(&mut self, other: Other, station: usize, seed: u64) {
        let way = u64::from(other.way == Way::Up);
        let random = Random::new(seed, (8 + way) << 32 | station as u64);
        self.add(Kind::Other { other, last: 0 }, station, random);
    }

    /// When the next packet comes.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        self.sources.iter().map(|(_, next)| next.at).min()
    }

    fn add(&mut self, kind: Kind, station: usize, random: Random) {
        let mut source = Source {
            kind,
            station,
            random,
        };
        let first = source.next();
        self.sources.push((source, first));
    }
}

impl Iterator for Streams {
    type Item = Departure;

    /// The next packet; `None` if nobody sends.
    fn next(&mut self) -> Option<Departure> {
        // Of several at one time, that of the first.
        let (source, next) = self.sources.iter_mut().min_by_key(|(_, next)| next.at)?;
        let mut departure = *next;
        *next = source.next();
        departure.offer.id = self.next_id;
        self.next_id += 1;
        Some(departure)
    }
}

impl Source {
    fn next(&mut self) -> Departure {
        let station = self.station;
        let offer = |way, category, bytes| Offer {
            way,
            station,
            category,
            id: 0,
            bytes,
        };
        match &mut self.kind {
            Kind::Video {
                video,
                origin,
                next_frame,
                free,
                packets,
            } => loop {
                if let Some((at, frame)) = packets.pop_front() {
                    let offer = offer(Way::Down, video.category, video.packet);
                    break Departure {
                        at,
                        offer,
                        frame: Some(frame),
                    };
                }
                let begins = *origin + f64::from(*next_frame) * SECOND as f64 / video.fps;
                *free = video.batch(begins, *next_frame, *free, &mut self.random, packets);
                *next_frame += 1;
            },
            Kind::Periodic { periodic, next } => {
                let at = *next;
                *next += periodic.period.max(1);
                Departure {
                    at,
                    offer: offer(Way::Up, periodic.category, periodic.bytes),
                    frame: None,
                }
            }
            Kind::Other { other, last } => {
                let bits = u64::from(other.bytes) * 8 * SECOND;
                *last += self.random.exponential(bits / other.bitrate.max(1));
                Departure {
                    at: *last,
                    offer: offer(other.way, other.category, other.bytes),
                    frame: None,
                }
            }
        }
    }
}

impl Video {
    /// The packets of a frame with their times; until when they take the sender.
    fn batch(
        &self,
        begins: f64,
        number: u32,
        mut free: Nanos,
        random: &mut Random,
        into: &mut VecDeque<(Nanos, Frame)>,
    ) -> Nanos {
        let packets = self.packets();
        let batches = match self.batches {
            Batches::Exactly(count) => u64::from(count),
            Batches::UpTo(most) => {
                let fit = nanos((SECOND as f64 / self.fps / self.interval as f64).ceil());
                let most = if most == 0 { fit } else { u64::from(most) };
                let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
                1 + random.below(most) as u64
            }
        };
        let in_batch = (self.frame_bytes() / batches as f64 / f64::from(self.packet)).ceil();
        let in_batch = nanos(in_batch).max(1);
        let frame = Frame {
            number,
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
        };
        let begins = nanos(begins);
        for packet in 0..packets {
            let (batch, place) = (packet / in_batch, packet % in_batch);
            // A batch waits for the end of the one before it.
            let due = begins + batch * self.interval + place * self.gap;
            let at = due.max(free);
            free = at + self.gap;
            into.push_back((at, frame));
        }
        free
    }
}

/// Milliseconds, as people write them in the study.
#[must_use]
pub fn interval(milliseconds: f64) -> Nanos {
    nanos(milliseconds * MILLISECOND as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departures(video: Video, seconds: u64) -> Vec<Departure> {
        let mut streams = Streams::default();
        streams.video(video, 0, 7);
        streams
            .take_while(|departure| departure.at < seconds * SECOND)
            .collect()
    }

    #[test]
    fn video_has_its_frame_rate_its_bitrate_and_its_batches() {
        let all = departures(Video::default(), 20);
        let frames = all.last().unwrap().frame.unwrap().number + 1;
        assert!((1199..=1201).contains(&frames), "{frames}");
        // 84 packets of 1243 bytes: 104 167 bytes and a bit.
        let first = &all[..84];
        assert!(first.iter().all(|d| d.frame == first[0].frame));
        assert_eq!(first[0].frame.unwrap().packets, 84);
        assert_eq!(all[84].frame.unwrap().number, 1);
        let mut batches = [0; 4];
        for frame in all.chunk_by(|a, b| a.frame == b.frame) {
            let gaps = frame.windows(2).map(|w| w[1].at - w[0].at);
            let count = 1 + gaps.clone().filter(|gap| *gap > MILLISECOND).count();
            batches[count] += 1;
            assert!(gaps.clone().all(|gap| gap >= 5 * MICROSECOND));
        }
        let [none, one, two, three] = batches;
        assert_eq!(none, 0);
        for share in [one, two, three] {
            assert!((340..460).contains(&share), "{batches:?}");
        }
    }

    #[test]
    fn batches_that_come_close_wait_for_each_other() {
        let close = Video {
            interval: 10 * MICROSECOND,
            batches: Batches::Exactly(3),
            ..Video::default()
        };
        let all = departures(close, 1);
        let first: Vec<Nanos> = all[..84].iter().map(|d| d.at - all[0].at).collect();
        let want: Vec<Nanos> = (0..84).map(|n| n * 5 * MICROSECOND).collect();
        assert_eq!(first, want);
    }

    #[test]
    fn streams_are_merged_in_the_order_of_time_and_numbered() {
        let mut streams = Streams::default();
        let other = Other {
            bitrate: 20_000_000,
            bytes: 1500,
            way: Way::Up,
            category: Category::BestEffort,
        };
        streams.video(Video::default(), 0, 1);
        streams.periodic(Periodic::default(), 0, 1);
        streams.other(other, 1, 1);
        let all: Vec<Departure> = streams.take_while(|d| d.at < 5 * SECOND).collect();
        assert!(all.is_sorted_by_key(|d| d.at));
        assert!((0..).zip(&all).all(|(n, d)| d.offer.id == n));
        let count = |station, bytes| {
            let of = |d: &&Departure| d.offer.station == station && d.offer.bytes == bytes;
            all.iter().filter(of).count()
        };
        assert_eq!(count(0, 175), 1202);
        let other = count(1, 1500) as f64 * 1500.0 * 8.0 / 5.0;
        assert!((19e6..21e6).contains(&other), "{other}");
    }

    #[test]
    fn what_cannot_be_is_named() {
        let refused = |change: &dyn Fn(&mut Video)| {
            let mut video = Video::default();
            change(&mut video);
            video.check().unwrap_err().to_string()
        };
        assert!(refused(&|v| v.fps = 0.0).contains("fps=0"));
        assert!(refused(&|v| v.packet = 0).contains("packet=0"));
        assert!(refused(&|v| v.batches = Batches::Exactly(0)).contains("batches=0"));
        assert!(refused(&|v| v.fps = 0.000_01).contains("packets"));
    }
}
