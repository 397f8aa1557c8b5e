//! Analyses a stream's capture as in sections 5 to 7 of the Unity Render Streaming study (Casasnovas et al.), for RTP,
//! WebRTC and OpenUVR. No keys are needed.
//!
//! Without keys, the following is available. For RTP and SRTP: the whole header, and hence frames, losses, jitter and
//! retransmissions. For DTLS, STUN and RTCP: timing and volume. For OpenUVR: the session, the plane, and each
//! datagram's number and send timestamp. The following is not available: the contents of SRTCP (round trips, and
//! losses at the receiver), the frame of an OpenUVR datagram, and whether such a datagram is FEC or a retransmission
//! (retransmissions have new numbers).
//!
//! [`reader`] iterates over a capture. [`kind`] classifies its datagrams, and [`merged`] splits merged ones. [`survey`]
//! is the first pass, and [`video`] is the second; [`analyse`] runs both. [`join`] compares the captures of both ends,
//! and [`generate`] generates captures with known content. Memory use is independent of the capture's size. The
//! reporter (`studies/report`) has the study's figures.

pub mod distribution;
pub mod generate;
pub mod join;
pub mod kind;
pub mod merged;
pub mod reader;
pub mod sequence;
pub mod survey;
pub mod video;

use std::collections::HashMap;

use self::kind::Kind;
pub use self::reader::Window;
use self::reader::{Account, Open, StreamKey, walk};
use self::survey::{ArrivalPattern, Role, Stream, Survey};
use self::video::Video;
use crate::capture::CaptureError;
use crate::capture::datagram::Endpoint;
use crate::wifi::Direction;

/// Analysis of a capture.
#[derive(Debug)]
pub struct Analysis {
    /// Statistics on the reading of the capture.
    pub account: Account,
    /// The endpoint that sent the most bytes. Streams from it are down, and streams to it are up.
    pub server: Endpoint,
    /// The streams in the order of the tables, those down before those up.
    pub streams: Vec<StreamFound>,
    /// Number of datagrams in streams beyond [`survey::MOST_STREAMS`].
    pub beyond: u64,
    /// Arrival patterns from the server to the clients and back, each for the busiest pair of machines.
    pub directions: [Option<ArrivalPattern>; 2],
    /// The reason why the analysis ends before the capture does, or `None` if it is complete.
    pub ended: Option<CaptureError>,
}

/// A stream of a capture.
#[derive(Debug)]
pub struct StreamFound {
    /// The stream's key.
    pub key: StreamKey,
    /// Down if the stream comes from the server, and up if it goes to the server. `None` if neither is true.
    pub direction: Option<Direction>,
    /// Content and clock rate of an RTP stream.
    pub role: Option<(Role, Option<u32>)>,
    /// Properties of all streams.
    pub stream: Stream,
    /// Properties of video.
    pub video: Option<Video>,
}

/// The reason why there is no analysis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NothingFound {
    /// The capture is unreadable.
    #[error(transparent)]
    Unreadable(#[from] CaptureError),
    /// There is no datagram.
    #[error(
        "none of the {packets} packets is a UDP datagram ({tcp} TCP, {fragments} IP fragments, {others} others)"
    )]
    Empty {
        /// Number of packets.
        packets: u64,
        /// TCP packets.
        tcp: u64,
        /// IP fragments.
        fragments: u64,
        /// Other packets.
        others: u64,
    },
}

/// Analyses a capture in two passes. If a capture is corrupt in the middle, only the packets before the fault are
/// analysed, and the result contains the error.
///
/// # Errors
/// Returns an error if there is no datagram, or if the capture is unreadable.
pub fn analyse(open: &mut Open<'_>, window: Window) -> Result<Analysis, NothingFound> {
    let mut survey = Survey::default();
    let (account, read) = walk(open, window, &mut |seen| survey.record(seen));
    let Some(server) = survey.server() else {
        read?;
        return Err(NothingFound::Empty {
            packets: account.packets,
            tcp: account.tcp,
            fragments: account.fragments,
            others: account.others + account.cut,
        });
    };
    survey.finish();
    let mut videos: HashMap<StreamKey, Video> = HashMap::new();
    for (key, stream) in &survey.streams {
        let rate = match (key.kind, stream.role()) {
            (Kind::OpenUvrMedia, _) => None,
            (Kind::Rtp, Some((Role::Video, rate))) => rate,
            _ => continue,
        };
        let median = stream.gaps.quantile(0.5).unwrap_or(0);
        videos.insert(*key, Video::new(median, rate));
    }
    // The second pass ends where the first pass did, so its error is ignored.
    let _ = walk(open, window, &mut |seen| {
        if let Some(video) = videos.get_mut(&seen.key) {
            video.record(seen);
        }
    });
    let mut streams: Vec<StreamFound> = Vec::new();
    for (key, stream) in survey.streams {
        let mut video = videos.remove(&key);
        if let Some(video) = &mut video {
            video.finish();
        }
        streams.push(StreamFound {
            key,
            direction: key.direction(server),
            role: stream.role(),
            stream,
            video,
        });
    }
    let place = |found: &StreamFound| {
        (
            found.direction.is_none(),
            found.direction == Some(Direction::Up),
            found.key.kind,
        )
    };
    streams.sort_by_key(|found| (place(found), std::cmp::Reverse(found.stream.sizes.count())));
    let mut directions = [None, None];
    for ((from, to), direction) in survey.directions {
        let place = match () {
            () if from == server => 0,
            () if to == server => 1,
            () => continue,
        };
        let busiest: &mut Option<ArrivalPattern> = &mut directions[place];
        if busiest
            .as_ref()
            .is_none_or(|most| most.bytes < direction.bytes)
        {
            *busiest = Some(direction);
        }
    }
    Ok(Analysis {
        account,
        server,
        streams,
        beyond: survey.beyond,
        directions,
        ended: read.err(),
    })
}

impl Analysis {
    /// Duration of the captured traffic, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.account.lasted_ns as f64 / 1e9
    }

    /// The largest video stream from the server.
    #[must_use]
    pub fn main_video(&self) -> Option<(&StreamFound, &Video)> {
        let videos = self
            .streams
            .iter()
            .filter(|found| found.direction == Some(Direction::Down));
        let videos = videos.filter_map(|found| Some((found, found.video.as_ref()?)));
        videos.max_by(|(a, _), (b, _)| a.bytes().total_cmp(&b.bytes()))
    }

    /// Whether this program generated the capture. Such a capture serves to validate the analysis, and describes no
    /// real network.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        self.account.application.as_deref() == Some(generate::APPLICATION)
    }
}

impl StreamFound {
    /// The stream's name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let relayed = if self.key.relayed { ", over TURN" } else { "" };
        let what = match (self.key.kind, self.role) {
            (Kind::Rtp, Some((Role::Video, _))) => "RTP video",
            (Kind::Rtp, Some((Role::Audio, _))) => "RTP audio",
            (Kind::Rtp, Some((Role::Repair, _))) => "RTP repair",
            (kind, _) => kind.name(),
        };
        format!("{what}{relayed}")
    }

    /// The stream's total bytes on Ethernet.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        let sizes = &self.stream.sizes;
        sizes.mean().unwrap_or(0.0) * sizes.count() as f64
    }
}

#[cfg(test)]
mod tests;
