//! Intra refreshes, from the policy that requests them to the receiver. The receiver reports the picture as complete
//! again after the refresh, and not a frame too early.
#![allow(
    clippy::cast_possible_truncation,
    reason = "test values are known to fit"
)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_proto::id::{ConfigEpoch, FrameId};
use openuvr_proto::recv::plane::MediaReceiver;
use openuvr_proto::recv::reassemble::VideoOutput;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::key_frame::KeyFrameRequester;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::send::packetize::{SendBuf, VideoSender};
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::send::policy::{
    ControlEvent, KeyFrameReason, NextFrame, Policy, Recovery, Settings,
};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Fidelity, Outcome, Stage};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::Report;
use openuvr_proto::wire::video::{Configuration, Extensions, FrameHeader, InputEcho, SlicePlace};
use proptest::prelude::*;
use support::established;

const INTERVAL: Duration = Duration::from_micros(16_667);

/// Columns of the picture. Each frame of a refresh codes one column without reference.
const COLUMNS: usize = 5;

/// The coding of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coded {
    Key,
    /// A frame of a refresh, which codes this column without reference. Column 0 starts the refresh.
    Refresh(usize),
    Plain,
}

/// The state of a decoder's picture: which columns are correct.
///
/// During a refresh, refreshed columns reference only refreshed columns (ITU-T H.264 does not require this of an
/// encoder, but libx264 works in this way). All other columns may reference any part of the previous picture.
#[derive(Clone, Copy, Debug)]
struct Picture {
    clean: [bool; COLUMNS],
}

impl Picture {
    fn is_clean(&self) -> bool {
        self.clean == [true; COLUMNS]
    }

    /// Decodes a frame. With `holes`, parts of the frame are missing.
    fn decode(&mut self, coded: Coded, holes: bool) {
        let before = *self;
        self.clean = match coded {
            _ if holes => [false; COLUMNS],
            Coded::Key => [true; COLUMNS],
            Coded::Refresh(at) => std::array::from_fn(|i| match i.cmp(&at) {
                std::cmp::Ordering::Less => before.clean[..at].iter().all(|clean| *clean),
                std::cmp::Ordering::Equal => true,
                std::cmp::Ordering::Greater => before.is_clean(),
            }),
            Coded::Plain => [before.is_clean(); COLUMNS],
        };
    }
}

/// The datagrams of a frame with two slices of two fragments each.
fn datagrams(media: &mut VideoSender, header: &FrameHeader, coded: Coded) -> Vec<Vec<u8>> {
    let extensions = Extensions {
        configuration: (coded == Coded::Key).then_some(Configuration {
            size: Size::new(16 * COLUMNS as u32, 32),
            codec: 1,
            colour: 1,
            fps: 60,
        }),
        clean_after: (coded == Coded::Refresh(0)).then_some(COLUMNS as u16 - 1),
        ..Extensions::default()
    };
    let mut out = SendBuf::default();
    let mut datagrams = Vec::new();
    for index in 0..2 {
        let place = SlicePlace {
            index,
            count: 2,
            first_mb: u16::from(index) * COLUMNS as u16,
            mbs: COLUMNS as u16,
        };
        let bytes = [index; 2000];
        media.slice(Instant(0), header, extensions, place, &bytes, &mut out);
        datagrams.extend(out.iter().map(<[u8]>::to_vec));
    }
    datagrams
}

/// Frames: whether each is a key frame, whether it starts a refresh, its lost datagrams (bit n: datagram n), and how
/// many frame numbers are skipped before it.
fn frames() -> impl Strategy<Value = Vec<(bool, bool, u8, u32)>> {
    let lost = prop_oneof![12 => Just(0_u8), 1 => 1_u8..16, 1 => Just(15_u8)];
    let skipped = prop_oneof![6 => Just(0_u32), 1 => 1_u32..4];
    let one = (
        prop::bool::weighted(0.03),
        prop::bool::weighted(0.2),
        lost,
        skipped,
    );
    prop::collection::vec(one, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// With any loss, a frame is reported as complete exactly if all columns of the decoder's picture are clean.
    #[test]
    fn a_frame_is_complete_exactly_if_the_picture_is_clean(frames in frames()) {
        let mut media = MediaSender::new(&established()).video();
        let mut receiver = MediaReceiver::new(&established());
        let mut picture = Picture { clean: [false; COLUMNS] };
        let (mut now, mut frame) = (Instant(0), 0);
        let mut refresh = None;
        let mut known = false;
        for (i, (key, begins, lost, skipped)) in frames.into_iter().enumerate() {
            let reference = frame;
            frame += 1 + skipped;
            let coded = match refresh {
                _ if key || i == 0 => Coded::Key,
                Some(at) => Coded::Refresh(at),
                None if begins => Coded::Refresh(0),
                None => Coded::Plain,
            };
            refresh = match coded {
                Coded::Refresh(at) if at + 1 < COLUMNS => Some(at + 1),
                _ => None,
            };
            let header = FrameHeader {
                frame: FrameId(frame),
                reference: if coded == Coded::Key { FrameId::NONE } else { FrameId(reference) },
                epoch: ConfigEpoch(1),
                stream: 0,
                view: 0,
                captured: 0,
                clock_epoch: 0,
                echo: InputEcho::default(),
            };
            let sent = datagrams(&mut media, &header, coded);
            for (n, datagram) in sent.iter().enumerate() {
                if lost >> n & 1 == 0 {
                    prop_assert_eq!(receiver.handle_datagram(now, datagram), Ok(()));
                }
            }
            receiver.first().announce(now, FrameId(frame));
            now = now + INTERVAL;
            // The decoder starts with the first configuration, which is in datagram 0 of a key frame.
            known |= coded == Coded::Key && lost & 1 == 0;
            picture.decode(coded, lost != 0 || !known);
            let mut ended = None;
            while let Some(step) = receiver.first().poll(now) {
                match step {
                    VideoOutput::End(end) => ended = Some(end.fidelity),
                    VideoOutput::Dropped { .. } => ended = None,
                    _ => {}
                }
            }
            let whole = ended == Some(Fidelity::Complete);
            prop_assert_eq!(whole, picture.is_clean(), "frame {}: {:?}", frame, coded);
            prop_assert_eq!(receiver.first().picture().broken, !whole);
            prop_assert_eq!(ended == Some(Fidelity::Concealed), known && (1..15).contains(&lost));
        }
    }
}

/// A policy and an encoder whose refreshes take [`COLUMNS`] frames, with the coding of each frame.
struct Host {
    policy: Policy,
    /// Number of completed columns of the current refresh.
    at: Option<usize>,
    /// Whether another refresh was requested.
    asked: bool,
    newest: u32,
    coded: BTreeMap<u32, Coded>,
}

const WHOLE: Outcome = Outcome::Displayed(Fidelity::Complete);
const TAINTED: Outcome = Outcome::Displayed(Fidelity::Tainted);
const CONCEALED: Outcome = Outcome::Displayed(Fidelity::Concealed);

fn dropped(stage: Stage, why: DropCause) -> Outcome {
    Outcome::Dropped { stage, why }
}

impl Host {
    fn new() -> Host {
        let rate = Bitrate::from_mbps(10);
        let mut policy = Policy::new(Settings {
            fps: 60.0,
            range: Range {
                min: rate,
                start: rate,
                max: rate,
            },
            adaptive: true,
            l4s: L4sMode::Off,
            recovery: Recovery::Refresh,
            key_frame_interval: None,
        });
        policy.encoder_opened(1);
        policy.join(KeyFrameRequester::Player);
        let mut host = Host {
            policy,
            at: None,
            asked: false,
            newest: 0,
            coded: BTreeMap::new(),
        };
        assert_eq!(host.code(), Coded::Key);
        host.report(1, WHOLE);
        host
    }

    fn now(&self) -> Instant {
        Instant(0) + INTERVAL * self.newest
    }

    fn code(&mut self) -> Coded {
        self.newest += 1;
        let (now, frame) = (self.now(), FrameId(self.newest));
        let next = self.policy.next(now, frame);
        self.asked |= matches!(next, NextFrame::IntraRefresh(_));
        let coded = match (next, self.at) {
            (NextFrame::Key, _) => {
                self.asked = false;
                Coded::Key
            }
            (NextFrame::Predicted(to) | NextFrame::IntraRefresh(to), at) => {
                assert_eq!(to.0 + 1, self.newest, "always the newest");
                match at {
                    Some(at) => Coded::Refresh(at),
                    None if std::mem::take(&mut self.asked) => Coded::Refresh(0),
                    None => Coded::Plain,
                }
            }
        };
        self.at = match coded {
            Coded::Refresh(at) if at + 1 < COLUMNS => Some(at + 1),
            _ => None,
        };
        if coded == Coded::Refresh(0) {
            self.policy.refresh_began(frame, COLUMNS as u16 - 1);
        }
        self.policy.sent(now, frame, Some(20_000));
        self.coded.insert(self.newest, coded);
        coded
    }

    fn code_all(&mut self, frames: u32) {
        for _ in 0..frames {
            self.code();
        }
    }

    fn report(&mut self, frame: u32, outcome: Outcome) {
        let report = Report::new(FrameId(frame), outcome);
        self.policy.on_report(self.now(), &report, None);
    }

    fn events(&mut self) -> Vec<ControlEvent> {
        std::iter::from_fn(|| self.policy.poll_control_event()).collect()
    }
}

const LOST: Outcome = Outcome::Dropped {
    stage: Stage::FirstReceived,
    why: DropCause::Lost,
};

#[test]
fn a_loss_costs_a_refresh_and_no_key_frame() {
    let mut host = Host::new();
    for frame in 2..=5 {
        assert_eq!(host.code(), Coded::Plain);
        host.report(frame, if frame == 4 { LOST } else { WHOLE });
        if frame == 4 {
            break;
        }
    }
    assert!(host.policy.due().is_some(), "a timer is required");
    for (at, frame) in (5..).enumerate().take(COLUMNS) {
        assert_eq!(host.code(), Coded::Refresh(at));
        // The client reports frames in flight as tainted, and requests a key frame.
        host.report(frame, TAINTED);
        host.policy
            .request_key_frame(KeyFrameRequester::Player, FrameId(3), FrameId(frame));
        assert_eq!(host.policy.due().is_some(), at + 1 < COLUMNS, "{at}");
    }
    assert_eq!(host.code(), Coded::Plain);
    host.report(9, WHOLE);
    assert_eq!(host.code(), Coded::Plain);
    let (frame, lost) = (FrameId(5), FrameId(4));
    let events = host.events();
    assert_eq!(events[1..], [ControlEvent::IntraRefresh { frame, lost }]);
    assert!(
        events[1]
            .to_string()
            .contains("frame 4 did not arrive complete")
    );
}

#[test]
fn two_refreshes_hit_in_a_row_are_followed_by_a_key_frame() {
    let mut host = Host::new();
    host.code();
    host.report(2, CONCEALED);
    let keys = |host: &mut Host| {
        let all = host.events().into_iter();
        let why = all.filter_map(|event| match event {
            ControlEvent::KeyFrame { why, .. } => Some(why),
            _ => None,
        });
        why.collect::<Vec<_>>()
    };
    assert_eq!(keys(&mut host), [KeyFrameReason::First]);
    // The second frame of each refresh is lost. Another refresh starts when the damaged one ends.
    for refresh in 0..2 {
        assert_eq!(host.code(), Coded::Refresh(0), "refresh {refresh}");
        assert_eq!(host.code(), Coded::Refresh(1));
        host.report(host.newest, LOST);
        if refresh == 0 {
            for at in 2..COLUMNS {
                assert_eq!(host.code(), Coded::Refresh(at));
            }
        }
    }
    assert_eq!(host.code(), Coded::Key);
    assert_eq!(keys(&mut host), [KeyFrameReason::RefreshFailed]);
}

#[test]
fn frames_not_displayed_or_not_coded_are_no_loss() {
    let mut host = Host::new();
    for (frame, stage, why) in [
        (2, Stage::Submitted, DropCause::Superseded),
        (3, Stage::Converted, DropCause::CongestionSkipped),
    ] {
        assert_eq!(host.code(), Coded::Plain);
        host.report(frame, dropped(stage, why));
    }
    assert_eq!(host.code(), Coded::Plain);
    assert_eq!(host.events().len(), 1, "the first key frame");
}

#[test]
fn a_client_that_cannot_decode_gets_a_key_frame() {
    for why in [DropCause::AwaitingKeyFrame, DropCause::DecodeFailed] {
        let mut host = Host::new();
        host.code_all(9);
        host.report(9, dropped(Stage::Decoded, why));
        assert_eq!(host.code(), Coded::Key, "{why:?}");
    }
    let mut host = Host::new();
    host.code_all(9);
    host.policy
        .request_key_frame(KeyFrameRequester::Player, FrameId(3), FrameId(9));
    assert_eq!(
        host.code(),
        Coded::Plain,
        "it has a picture, and its reports contain the losses"
    );
    host.policy
        .request_key_frame(KeyFrameRequester::Player, FrameId::NONE, FrameId(10));
    assert_eq!(host.code(), Coded::Key);
    host.policy.join(KeyFrameRequester::Observer);
    host.code_all(130);
    let keys = host.coded.values().filter(|coded| **coded == Coded::Key);
    assert_eq!(keys.count(), 3);
}
