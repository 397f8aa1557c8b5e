//! Generates traffic: video in batches, controllers, and background traffic.

use std::collections::VecDeque;

use openuvr_sim::random::Random;

use super::network::Offer;
use super::setup::{Category, Direction};
use super::{Impossible, MICROSECOND, MILLISECOND, Nanos, SECOND, nanos};

/// A video stream, as the study of Unity Render Streaming describes it (section 8.2).
#[derive(Debug, Clone, PartialEq)]
pub struct Video {
    /// Frames per second.
    pub fps: f64,
    /// Bits per second. All frames have the same size.
    pub bitrate: u64,
    /// Bytes of a packet.
    pub packet: u32,
    /// Interval from the start of a batch to the start of the next batch.
    pub interval: Nanos,
    /// Gap between two packets of a batch at the server.
    pub gap: Nanos,
    /// Number of batches per frame.
    pub batches: Batches,
    /// Access category.
    pub category: Category,
}

/// Number of batches per frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batches {
    /// Uniformly distributed from 1 to this number. 0 stands for the frame period divided by the interval of batches,
    /// rounded up.
    UpTo(u32),
    /// Constant.
    Exactly(u32),
}

impl Default for Video {
    /// The study's stream: 60 frames per second at 50 Mb/s, in up to three batches at intervals of 5.56 ms.
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

/// A controller: it sends packets of one size periodically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periodic {
    /// Period.
    pub period: Nanos,
    /// Bytes of a packet.
    pub bytes: u32,
    /// Access category.
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

/// Background traffic: packets as a Poisson process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Background {
    /// Bits per second.
    pub bitrate: u64,
    /// Bytes of a packet.
    pub bytes: u32,
    /// Direction.
    pub direction: Direction,
    /// Access category.
    pub category: Category,
}

/// A packet with its send time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Send time.
    pub at: Nanos,
    /// The packet. The `id` numbers the packets of all streams together.
    pub offer: Offer,
    /// The video frame that the packet belongs to, if any.
    pub frame: Option<Frame>,
}

/// The video frame of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Number of the frame, counted from 0 for each station.
    pub number: u32,
    /// Number of packets in the frame.
    pub packets: u32,
}

/// An endless sequence of the packets of several senders, in the order of their times.
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
        /// Start of the first frame. It is not rounded, so that 60 frames per second are exact.
        origin: f64,
        next_frame: u32,
        /// Earliest time at which the sender can send the next packet.
        free: Nanos,
        /// Remaining packets of the current frame.
        packets: VecDeque<(Nanos, Frame)>,
    },
    Periodic {
        periodic: Periodic,
        next: Nanos,
    },
    Background {
        background: Background,
        last: Nanos,
    },
}

impl Video {
    /// Checks whether such a stream is possible.
    ///
    /// # Errors
    /// Returns the impossible parameters.
    pub fn check(&self) -> Result<(), Impossible> {
        let impossible = |what: String| Err(Impossible(what));
        if !(self.fps > 0.0 && self.fps <= 10_000.0) {
            return impossible(format!(
                "fps={}: must be more than 0 and at most 10000",
                self.fps
            ));
        }
        if self.packet == 0 {
            return impossible("packet=0: must be at least 1 byte".into());
        }
        if self.interval == 0 {
            return impossible("tau=0: must be more than 0, such as 1us".into());
        }
        if self.batches == Batches::Exactly(0) {
            return impossible("batches=0: must be at least 1".into());
        }
        let packets = self.packets();
        if packets > MOST_PACKETS {
            return impossible(format!(
                "a frame has {packets} packets, more than {MOST_PACKETS}: lower the bitrate, or make the \
                 packets larger"
            ));
        }
        Ok(())
    }

    /// Number of packets in a frame.
    #[must_use]
    pub fn packets(&self) -> u64 {
        nanos((self.frame_bytes() / f64::from(self.packet)).ceil()).max(1)
    }

    fn frame_bytes(&self) -> f64 {
        self.bitrate as f64 / 8.0 / self.fps
    }
}

/// Maximum number of packets per frame. With packets of the study's size, such a frame has 1.3 GB.
const MOST_PACKETS: u64 = 1 << 20;

impl Background {
    /// Checks whether such traffic is possible.
    ///
    /// # Errors
    /// Returns the impossible parameters.
    pub fn check(&self) -> Result<(), Impossible> {
        if self.bitrate == 0 || self.bytes == 0 {
            let what =
                "background traffic must have at least 1 bit/s, and packets of at least 1 byte";
            return Err(Impossible(what.into()));
        }
        Ok(())
    }
}

impl Streams {
    /// Adds a video stream to a station. Its first frame starts within the first frame period.
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

    /// Adds a station's controller. It sends its first packet within the first period.
    pub fn periodic(&mut self, periodic: Periodic, station: usize, seed: u64) {
        let mut random = Random::new(seed, 7 << 32 | station as u64);
        let next = nanos(random.unit() * periodic.period as f64);
        self.add(Kind::Periodic { periodic, next }, station, random);
    }

    /// Adds background traffic from or to a station.
    pub fn background(&mut self, background: Background, station: usize, seed: u64) {
        let direction = u64::from(background.direction == Direction::Up);
        let random = Random::new(seed, (8 + direction) << 32 | station as u64);
        self.add(
            Kind::Background {
                background,
                last: 0,
            },
            station,
            random,
        );
    }

    /// Time of the next packet.
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

    /// The next packet, or `None` if there are no senders.
    fn next(&mut self) -> Option<Departure> {
        // If several packets have the same time, the packet of the sender that was added first comes first.
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
        let offer = |direction, category, bytes| Offer {
            direction,
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
                    let offer = offer(Direction::Down, video.category, video.packet);
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
                    offer: offer(Direction::Up, periodic.category, periodic.bytes),
                    frame: None,
                }
            }
            Kind::Background { background, last } => {
                let bits = u64::from(background.bytes) * 8 * SECOND;
                *last += self.random.exponential(bits / background.bitrate.max(1));
                Departure {
                    at: *last,
                    offer: offer(background.direction, background.category, background.bytes),
                    frame: None,
                }
            }
        }
    }
}

impl Video {
    /// Appends the packets of a frame with their times. Returns the time at which the sender is free again.
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
            // A batch waits until the previous batch has ended.
            let due = begins + batch * self.interval + place * self.gap;
            let at = due.max(free);
            free = at + self.gap;
            into.push_back((at, frame));
        }
        free
    }
}

/// Converts the study's milliseconds to nanoseconds.
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
        // The frame has 84 packets of 1243 bytes, which is slightly more than 104 167 bytes.
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
    fn close_batches_wait_for_each_other() {
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
        let background = Background {
            bitrate: 20_000_000,
            bytes: 1500,
            direction: Direction::Up,
            category: Category::BestEffort,
        };
        streams.video(Video::default(), 0, 1);
        streams.periodic(Periodic::default(), 0, 1);
        streams.background(background, 1, 1);
        let all: Vec<Departure> = streams.take_while(|d| d.at < 5 * SECOND).collect();
        assert!(all.is_sorted_by_key(|d| d.at));
        assert!((0..).zip(&all).all(|(n, d)| d.offer.id == n));
        let count = |station, bytes| {
            let of = |d: &&Departure| d.offer.station == station && d.offer.bytes == bytes;
            all.iter().filter(of).count()
        };
        assert_eq!(count(0, 175), 1202);
        let rate = count(1, 1500) as f64 * 1500.0 * 8.0 / 5.0;
        assert!((19e6..21e6).contains(&rate), "{rate}");
    }

    #[test]
    fn impossible_traffic_is_named() {
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
