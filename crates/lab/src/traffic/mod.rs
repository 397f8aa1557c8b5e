//! What is in a capture of a stream: sections 5 to 7 of the Unity Render Streaming study (Casasnovas et
//! al.), for RTP, WebRTC and OpenUVR. No keys are needed.
//!
//! What can be known without them: of RTP and SRTP the whole header, and so frames, losses, jitter and
//! what was sent again; of DTLS, STUN and RTCP when and how much; of OpenUVR the session, the plane, each
//! datagram's number and when it left. What can't: what SRTCP reports (round trips, what was lost at the
//! receiver), which frame an OpenUVR datagram is of, which of them is parity, and what is sent again (it
//! has a number of its own).
//!
//! [`reader`] walks through a capture, whose datagrams [`kind`] names and [`merged`] cuts apart.
//! [`survey`] is the first walk, [`video`] the second; [`analyse`] makes both. [`join`] compares the
//! captures of both ends, [`generate`] makes captures of known content, [`paper`] has the study's own
//! figures. Memory does not grow with a capture.

pub mod distribution;
pub mod generate;
pub mod join;
pub mod kind;
pub mod merged;
pub mod paper;
pub mod reader;
pub mod sequence;
pub mod survey;
pub mod video;

use std::collections::HashMap;

use self::kind::Kind;
pub use self::reader::Window;
use self::reader::{Account, Open, StreamKey, walk};
use self::survey::{Direction, Role, Stream, Survey};
use self::video::Video;
use crate::capture::CaptureError;
use crate::capture::datagram::Endpoint;
use crate::wifi::Way;

/// What a capture holds.
#[derive(Debug)]
pub struct Analysis {
    /// What was read.
    pub account: Account,
    /// Who sent most: streams from there go down, those to there up.
    pub server: Endpoint,
    /// The streams: those down before those up, and in the order of tables.
    pub streams: Vec<StreamFound>,
    /// Datagrams of streams beyond [`survey::MOST_STREAMS`].
    pub beyond: u64,
    /// From server to clients and back, the busiest pair of machines of each.
    pub directions: [Option<Direction>; 2],
    /// Why it ends before the capture does, if so.
    pub ended: Option<CaptureError>,
}

/// A stream of a capture.
#[derive(Debug)]
pub struct StreamFound {
    /// Which.
    pub key: StreamKey,
    /// From the server or to it; `None`: neither.
    pub way: Option<Way>,
    /// What RTP holds, and its clock's ticks a second.
    pub role: Option<(Role, Option<u32>)>,
    /// What all streams have.
    pub stream: Stream,
    /// What video has.
    pub video: Option<Video>,
}

/// Why there is no analysis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NothingFound {
    /// Nothing could be read.
    #[error(transparent)]
    Unreadable(#[from] CaptureError),
    /// There is no datagram.
    #[error(
        "it holds no datagram in {packets} packets ({tcp} of TCP, {fragments} fragments, {others} others)"
    )]
    Empty {
        /// Packets.
        packets: u64,
        /// Of TCP.
        tcp: u64,
        /// Of IP.
        fragments: u64,
        /// And what else.
        others: u64,
    },
}

/// Walks twice through a capture. What is broken in its middle ends it there, and is named in what is
/// found.
///
/// # Errors
/// If nothing is found.
pub fn analyse(open: &mut Open<'_>, window: Window) -> Result<Analysis, NothingFound> {
    let mut survey = Survey::default();
    let (account, read) = walk(open, window, &mut |seen| survey.see(seen));
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
    // It ends where the first one did.
    let _ = walk(open, window, &mut |seen| {
        if let Some(video) = videos.get_mut(&seen.key) {
            video.see(seen);
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
            way: key.way(server),
            role: stream.role(),
            stream,
            video,
        });
    }
    let place = |found: &StreamFound| {
        (
            found.way.is_none(),
            found.way == Some(Way::Up),
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
        let busiest: &mut Option<Direction> = &mut directions[place];
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
    /// How long the captured traffic lasted, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.account.lasted_ns as f64 / 1e9
    }

    /// The video stream with most bytes, from the server.
    #[must_use]
    pub fn main_video(&self) -> Option<(&StreamFound, &Video)> {
        let videos = self
            .streams
            .iter()
            .filter(|found| found.way == Some(Way::Down));
        let videos = videos.filter_map(|found| Some((found, found.video.as_ref()?)));
        videos.max_by(|(a, _), (b, _)| a.bytes().total_cmp(&b.bytes()))
    }

    /// Whether this program made the capture: then it shows that the analysis is right, and nothing of
    /// any network.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        self.account.application.as_deref() == Some(generate::APPLICATION)
    }
}

impl StreamFound {
    /// What it is, for tables.
    #[must_use]
    pub fn name(&self) -> String {
        let relayed = if self.key.relayed { ", by TURN" } else { "" };
        let what = match (self.key.kind, self.role) {
            (Kind::Rtp, Some((Role::Video, _))) => "RTP video",
            (Kind::Rtp, Some((Role::Audio, _))) => "RTP audio",
            (Kind::Rtp, Some((Role::Repair, _))) => "RTP repair",
            (kind, _) => kind.name(),
        };
        format!("{what}{relayed}")
    }

    /// All its bytes on Ethernet.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        let sizes = &self.stream.sizes;
        sizes.mean().unwrap_or(0.0) * sizes.count() as f64
    }
}

#[cfg(test)]
mod tests;
