//! Statistics of a guest's stream.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::id::{RenditionId, SubscriberId};
use openuvr_proto::quantile::nearest_rank;
use openuvr_proto::trace::{Fidelity, FrameRecord, Outcome};

use crate::host::Notice;

/// Number of frames whose latencies are kept: two seconds at 60 frames/s.
const MAX_SAMPLES: usize = 120;

/// Counts since the start. Only the player's frames count.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The current clients, including the player.
    pub clients: Vec<(SubscriberId, Role)>,
    /// The transport of the client whose video transport was selected or changed last.
    pub link: Option<TransportKind>,
    /// Frames captured while there was a player.
    pub captured: u64,
    /// Frames that were displayed completely.
    pub complete: u64,
    /// Frames that were displayed with concealed errors, or that reference a frame with such errors.
    pub damaged: u64,
    /// Frames not displayed.
    pub dropped: u64,
    /// Bytes on the wire for these frames, without transport headers.
    pub bytes: u64,
    /// Each client's rendition.
    renditions: Vec<(SubscriberId, RenditionId)>,
    /// The latencies of the newest [`MAX_SAMPLES`] complete frames.
    captured_to_last: VecDeque<Duration>,
    motion_to_photon: VecDeque<Duration>,
}

impl Statistics {
    pub(super) fn note(&mut self, notice: &Notice) {
        match notice {
            Notice::Subscribed {
                subscriber,
                role,
                rendition,
                ..
            } => {
                self.clients.push((*subscriber, *role));
                self.renditions.push((*subscriber, *rendition));
            }
            Notice::RoleChanged(subscriber, role) => {
                let client = self.clients.iter_mut().find(|(id, _)| id == subscriber);
                if let Some((_, now)) = client {
                    *now = *role;
                }
            }
            Notice::Ended(subscriber, _) => {
                self.clients.retain(|(id, _)| id != subscriber);
                self.renditions.retain(|(id, _)| id != subscriber);
            }
            Notice::Link(_, transport) => self.link = Some(*transport),
            Notice::Record(record) => self.frame(record),
            _ => {}
        }
    }

    /// The rendition that this client receives; `None` if the client is not connected.
    #[must_use]
    pub fn rendition(&self, subscriber: SubscriberId) -> Option<RenditionId> {
        let known = self.renditions.iter().find(|(id, _)| *id == subscriber);
        known.map(|(_, rendition)| *rendition)
    }

    fn frame(&mut self, record: &FrameRecord) {
        if !self.clients.contains(&(record.subscriber, Role::Player)) {
            return;
        }
        self.captured += 1;
        self.bytes += u64::from(record.cost.bytes);
        match record.outcome {
            Outcome::Displayed(Fidelity::Complete) => self.complete += 1,
            Outcome::Displayed(_) => self.damaged += 1,
            // Whether the frame was displayed is unknown.
            Outcome::SentUnacknowledged => {}
            Outcome::Dropped { .. } => self.dropped += 1,
        }
        if !record.outcome.is_complete() {
            return;
        }
        if let Some(span) = record.captured_to_last() {
            keep(&mut self.captured_to_last, span.at);
        }
        if let Some(span) = record.motion_to_photon {
            keep(&mut self.motion_to_photon, span);
        }
    }

    /// The median and the 99th percentile of the time from [`Stage::Captured`](openuvr_proto::trace::Stage::Captured)
    /// to the last stage at the client, over the newest complete frames. The times use the estimated clock offset.
    /// `None` before the first complete frame.
    #[must_use]
    pub fn captured_to_last(&self) -> Option<(Duration, Duration)> {
        percentiles(&self.captured_to_last)
    }

    /// The same percentiles for the time from [`Stage::InputSampled`](openuvr_proto::trace::Stage::InputSampled) to the
    /// last stage. This time is measured only on the client's clock.
    #[must_use]
    pub fn motion_to_photon(&self) -> Option<(Duration, Duration)> {
        percentiles(&self.motion_to_photon)
    }
}

fn keep(spans: &mut VecDeque<Duration>, span: Duration) {
    if spans.len() == MAX_SAMPLES {
        spans.pop_front();
    }
    spans.push_back(span);
}

fn percentiles(spans: &VecDeque<Duration>) -> Option<(Duration, Duration)> {
    let mut sorted: Vec<Duration> = spans.iter().copied().collect();
    sorted.sort_unstable();
    Some((nearest_rank(&sorted, 50)?, nearest_rank(&sorted, 99)?))
}
