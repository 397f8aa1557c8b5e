//! H.264 parameter sets for the description of a stream (`sprop-parameter-sets`, RFC 6184 section 8.1). Players need
//! them before the first frame.
//!
//! The sets may change with the picture size, so they are known only while a player is subscribed. Otherwise, a
//! temporary subscription fetches them, and ends with its first key frame.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::{SubscribeRequest, SubscriberKind};
use openuvr_proto::id::FrameId;
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_runtime::host::GatewayHost;

use crate::packetise::nal_units;

/// How long a description waits for a key frame. The timeout covers the rate limit of recorders' key frames and the
/// time to open an encoder. If no key frame arrives, the description omits the parameter sets.
const KEY_FRAME_TIMEOUT: Duration = Duration::from_secs(3);

/// Types of NAL units (ITU-T H.264 table 7-1).
const SEQUENCE_SET: u8 = 7;
const PICTURE_SET: u8 = 8;

/// The parameter sets of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterSets {
    sequence: Vec<u8>,
    picture: Vec<u8>,
}

impl ParameterSets {
    /// The parameter sets of a key frame in Annex B form.
    #[must_use]
    pub fn of(key_frame: &[u8]) -> Option<ParameterSets> {
        let first = |kind: u8| {
            let mut units = nal_units(key_frame);
            units.find(|unit| unit.first().is_some_and(|first| first & 0x1f == kind))
        };
        let sequence = first(SEQUENCE_SET)?;
        // The three bytes after the NAL header are the profile and the level.
        (sequence.len() >= 4).then_some(())?;
        Some(ParameterSets {
            sequence: sequence.to_vec(),
            picture: first(PICTURE_SET)?.to_vec(),
        })
    }

    /// Profile, constraints and level, as `profile-level-id`.
    pub(super) fn profile_level_id(&self) -> String {
        let of = self.sequence.iter().skip(1).take(3);
        of.map(|byte| format!("{byte:02X}")).collect()
    }

    /// The sets as `sprop-parameter-sets`.
    pub(super) fn in_words(&self) -> String {
        let sets = [&self.sequence, &self.picture].map(|set| STANDARD.encode(set));
        sets.join(",")
    }
}

/// Cache of the stream's parameter sets.
#[derive(Debug, Default)]
pub(super) struct ParameterCache {
    now: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    sets: Option<ParameterSets>,
    watching: usize,
}

/// A subscribed player, which updates the cache.
#[derive(Debug)]
pub(super) struct ParameterObserver(Arc<ParameterCache>);

impl ParameterObserver {
    pub(super) fn new(known: Arc<ParameterCache>) -> ParameterObserver {
        known.lock().watching += 1;
        ParameterObserver(known)
    }

    /// Reads the parameter sets of a key frame.
    pub(super) fn note(&self, key_frame: &[u8]) {
        if let Some(sets) = ParameterSets::of(key_frame) {
            self.0.lock().sets = Some(sets);
        }
    }
}

impl Drop for ParameterObserver {
    fn drop(&mut self) {
        let mut now = self.0.lock();
        now.watching -= 1;
        if now.watching == 0 {
            now.sets = None;
        }
    }
}

impl ParameterCache {
    /// The parameter sets of the stream. May wait for a key frame of `host`. Concurrent requests share the key frame.
    pub(super) fn sets(&self, host: &dyn GatewayHost, codec: u8) -> Option<ParameterSets> {
        let known = self.lock().sets.clone();
        known.or_else(|| probe(host, codec))
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn probe(host: &dyn GatewayHost, codec: u8) -> Option<ParameterSets> {
    let (found, finds) = sync_channel(1);
    let request = SubscribeRequest {
        kind: SubscriberKind::VideoPlayer,
        codecs: 1 << codec,
        software: "the description of the stream".to_owned(),
        // With another intake, the key frame of this probe would count against the observers' rate limit and delay the
        // player's own key frame.
        intake: Intake::Complete,
        ..SubscribeRequest::new(Role::Observer, "description for a video player")
    };
    let (id, _) = host
        .subscribe(request, Box::new(ParameterProbe(found)))
        .ok()?;
    let sets = finds.recv_timeout(KEY_FRAME_TIMEOUT).ok();
    host.unsubscribe(id);
    sets
}

/// Takes the parameter sets of the first frame, which is a key frame.
struct ParameterProbe(SyncSender<ParameterSets>);

impl Subscriber for ParameterProbe {
    fn start_frame(&mut self, _: Instant, _: &Frame) {}

    fn slice(&mut self, _: Instant, slice: &Slice<'_>) {
        if let Some(sets) = ParameterSets::of(slice.bytes) {
            let _ = self.0.try_send(sets);
        }
    }

    fn end(&mut self, _: Instant) -> Progress {
        Progress::Sent(Departure::default())
    }

    fn dropped(&mut self, _: Instant, _: FrameId, _: Stage, _: DropCause) {}
}
