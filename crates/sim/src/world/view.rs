//! A view of the world's host, with its content and subscribers.

use openuvr_proto::ecn::Ecn;
use openuvr_proto::id::{SessionId, ViewId};
use openuvr_proto::pose::Pose;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::send::rate::Difference;
use openuvr_proto::send::rendition::{PolicySettings, Rendition, Settings};
use openuvr_proto::send::session::{Session, Transmit, Transmitted};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::video::{FieldOfView, View as Eye, Views};

use super::source::{Coding, Source};
use crate::random::Random;

/// Settings of a host without rate control.
pub(super) const FREE: Settings = Settings {
    view: ViewId::FIRST,
    policy: PolicySettings {
        fps: 60.0,
        range: Range {
            min: Bitrate::from_mbps(1000),
            start: Bitrate::from_mbps(1000),
            max: Bitrate::from_mbps(1000),
        },
        adaptive: false,
        l4s: L4sMode::Off,
        recovery: Recovery::KeyFrame,
        key_frame_interval: None,
    },
    // No static refinement.
    static_refinement: false,
    constant_rate: false,
    follows_display: true,
    max_fps: None,
};

/// Datagrams from a sender to its link.
#[derive(Default)]
pub(super) struct Outbox(pub(super) Vec<(Ecn, Vec<u8>)>);

impl Transmit for Outbox {
    fn transmit(&mut self, now: Instant, datagrams: &SendBuf) -> Transmitted {
        let ecn = datagrams.ecn();
        let marked = datagrams.iter().map(|datagram| (ecn, datagram.to_vec()));
        self.0.extend(marked);
        let sent = (!datagrams.is_empty()).then_some(now);
        Transmitted {
            first: sent,
            last: sent,
            overflowed: false,
        }
    }
}

/// The size of a flash, relative to a picture without a flash (measured at a key press in the built-in scene).
const FLASH: f64 = 9.0;

/// The content of frames, of which only the sizes are modelled.
pub(super) struct Content {
    /// Bits of a frame at quantiser 0. A key frame takes four times as many.
    complexity: f64,
    noise: Random,
    /// One in this many pictures is a flash; `None` without flashes.
    flash_every: Option<u32>,
    /// Number of pictures so far.
    drawn: u32,
}

impl Content {
    pub(super) fn new(seed: u64, complexity: f64) -> Content {
        Content {
            complexity,
            noise: Random::new(seed, 99),
            flash_every: None,
            drawn: 0,
        }
    }

    /// Makes every `frames`-th picture a flash.
    pub(super) fn flash_every(&mut self, frames: u32) {
        self.flash_every = Some(frames);
    }

    /// Draws the next picture. Returns its difference from the previous one.
    pub(super) fn draw(&mut self) -> Difference {
        self.drawn += 1;
        let mean = if self.flashes() { 60.0 } else { 3.0 };
        Difference { mean, share: 0.9 }
    }

    fn flashes(&self) -> bool {
        self.flash_every
            .is_some_and(|every| self.drawn.is_multiple_of(every))
    }

    /// The size of the picture's coded frame in bytes.
    pub(super) fn bytes(&mut self, qp: u8, key_frame: bool) -> u64 {
        let content = self.complexity * (0.7 + 0.6 * self.noise.unit());
        let factor = match self.flashes() {
            true => FLASH,
            false if key_frame => 4.0,
            false => 1.0,
        };
        let bits = content * factor;
        let bytes = bits * 2_f64.powf(-f64::from(qp) / 6.0) / 8.0;
        #[expect(clippy::cast_possible_truncation, reason = "a frame's bytes")]
        #[expect(clippy::cast_sign_loss, reason = "> 0")]
        let bytes = bytes as u64;
        bytes
    }
}

/// One view, with its content and subscribers.
pub(super) struct View {
    pub(super) id: ViewId,
    pub(super) rendition: Rendition<Session<Outbox>>,
    /// The position and field of view of its picture, for an application that draws with poses.
    pub(super) shows: Option<Views>,
    pub(super) source: Source,
    pub(super) coding: Option<Coding>,
    pub(super) content: Option<Content>,
    /// Whether the newest picture was skipped because of congestion.
    pub(super) held: bool,
}

impl View {
    /// A view without motion so far.
    pub(super) fn new(seed: u64, settings: Settings) -> View {
        let id = settings.view;
        View {
            id,
            rendition: Rendition::new(settings),
            shows: shows(f32::from(id.view)),
            // Views differ in content.
            source: Source::new(seed ^ u64::from(id.view) << 32),
            coding: None,
            content: None,
            held: false,
        }
    }

    /// When a frame is due even without motion. This is the media thread's own deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let idle = self.coding.is_none() && self.source.is_pictured();
        self.rendition.next_deadline().filter(|_| idle)
    }

    /// Time of the next event.
    pub(super) fn next_event(&self) -> Option<Instant> {
        let own = [
            self.source.next.filter(|_| self.coding.is_none()),
            self.deadline(),
            self.coding.as_ref().map(|c| c.next),
        ];
        own.into_iter().flatten().min()
    }

    /// The view's subscribers.
    pub(super) fn sessions(&mut self) -> Vec<SessionId> {
        let ids = self.rendition.subscribers();
        ids.filter_map(|(id, _)| id.session()).collect()
    }
}

/// The view of one eye, shifted by `right`, with a correspondingly wider field of view.
fn shows(right: f32) -> Option<Views> {
    let pose = Pose::new([right, 1.7, 0.0], [0.0, 0.0, 0.0, 1.0]).ok()?;
    let fov = FieldOfView::new(-0.75, 0.5 + right, 0.625, -0.875).ok()?;
    Some(Views::one(Eye { pose, fov }))
}
