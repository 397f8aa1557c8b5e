mod constant_rate;

use std::num::NonZeroU16;

use super::*;
use crate::control_event::{L4sChange, RateChange};
use crate::ecn::{Ecn, EcnCounts};
use crate::id::ViewId;
use crate::send::intake::Intake;
use crate::send::key_frame::OBSERVER_BUDGET;
use crate::send::l4s::L4sMode;
use crate::send::loss::Loss;
use crate::send::pace::Pacing;
use crate::send::subscriber::{Progress, Slice};
use crate::time::PeerInstant;
use crate::trace::{Fidelity, Outcome};
use crate::wire::control::Report;
use crate::wire::video::SlicePlace;

const MS: Duration = Duration::from_millis(1);
const SIZE: Size = Size::new(320, 180);
const PLAYER: SubscriberId = SubscriberId::Other(1);
const OBSERVER: SubscriberId = SubscriberId::Other(2);
const THIRD: SubscriberId = SubscriberId::Other(3);

/// A call of the subscriber trait.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Call {
    Begin(FrameId, InputEcho),
    Slice(u8),
    End,
    Dropped(FrameId, Stage, DropCause),
}

/// Records its calls. At the end of a frame, it returns the next of `answers`. If there is none, it returns
/// `Progress::Sent`.
#[derive(Default)]
struct Recorder {
    calls: Vec<Call>,
    answers: VecDeque<Progress>,
    pacing: Option<Pacing>,
    ecn: Ecn,
    intake: Option<Intake>,
}

impl Subscriber for Recorder {
    fn intake(&self) -> Intake {
        self.intake.unwrap_or(Intake::Newest)
    }

    fn start_frame(&mut self, _: Instant, frame: &Frame) {
        (self.pacing, self.ecn) = (frame.pacing, frame.ecn);
        self.calls
            .push(Call::Begin(frame.header.frame, frame.header.echo));
    }

    fn slice(&mut self, _: Instant, slice: &Slice<'_>) {
        self.calls.push(Call::Slice(slice.place.index));
    }

    fn end(&mut self, now: Instant) -> Progress {
        self.calls.push(Call::End);
        self.answers
            .pop_front()
            .unwrap_or(Progress::Sent(Departure {
                first: Some(now),
                last: Some(now),
                datagrams: 20,
                bytes: 20_000,
                ..Departure::default()
            }))
    }

    fn dropped(&mut self, _: Instant, frame: FrameId, stage: Stage, why: DropCause) {
        self.calls.push(Call::Dropped(frame, stage, why));
    }
}

fn rendition() -> Rendition<Recorder> {
    let rate = Bitrate::from_mbps(10);
    Rendition::new(Settings {
        view: ViewId::FIRST,
        policy: PolicySettings {
            fps: 60.0,
            range: Range {
                min: rate,
                start: rate,
                max: rate,
            },
            adaptive: false,
            l4s: L4sMode::Off,
            recovery: Recovery::ReferenceInvalidation,
            key_frame_interval: None,
        },
        static_refinement: false,
        constant_rate: false,
        follows_display: false,
        max_fps: None,
    })
}

fn join(rendition: &mut Rendition<Recorder>, id: SubscriberId, role: Role) {
    rendition.subscribe(id, role, ClientConstraints::default(), Recorder::default());
    rendition.check_invariants();
}

fn at(frame: u32) -> Instant {
    Instant(i64::from(frame) * 16_666_667)
}

/// Starts coding a captured frame. Returns whether it is a key frame.
fn start_frame(rendition: &mut Rendition<Recorder>, now: Instant) -> bool {
    if rendition.needs_encoder(SIZE) {
        rendition.encoder_opened(OpenedEncoder {
            size: SIZE,
            codec: 1,
            colour: 1,
            slices: 2,
            depth: 8,
            codes_parts: false,
            macroblocks: 0,
        });
    }
    let (plan, mut fan_out) = rendition.start_frame(now, None, None).expect("an encoder");
    let key = plan.is_key();
    for index in 0..2 {
        fan_out.slice(
            now,
            &Slice {
                place: SlicePlace {
                    index,
                    count: 2,
                    first_mb: 0,
                    mbs: 0,
                },
                clean_after: None,
                bytes: &[index; 100],
            },
        );
    }
    key
}

/// Captures and codes a frame without waiting. Returns whether it is a key frame.
fn code(rendition: &mut Rendition<Recorder>, now: Instant) -> bool {
    assert!(rendition.captured(now, true));
    let key = start_frame(rendition, now);
    assert_eq!(rendition.end(now), None);
    rendition.check_invariants();
    key
}

fn ends(rendition: &mut Rendition<Recorder>) -> Vec<FrameOutcome> {
    std::iter::from_fn(|| rendition.poll_end()).collect()
}

/// Codes a still picture whenever a frame is due, until `until`. Returns the times.
fn stands_still(rendition: &mut Rendition<Recorder>, until: Instant) -> Vec<Instant> {
    let mut coded = Vec::new();
    while let Some(due) = rendition.next_deadline().filter(|due| *due < until) {
        assert!(coded.len() < 1000, "due again at once: {due:?}");
        if rendition.captured(due, false) {
            start_frame(rendition, due);
            assert_eq!(rendition.end(due), None);
            coded.push(due);
        }
        rendition.check_invariants();
    }
    coded
}

/// Subscriber, frame, and the cause if it was not sent.
fn words(ends: &[FrameOutcome]) -> Vec<(SubscriberId, u32, Option<DropCause>)> {
    let why = |end: &FrameOutcome| end.end.err().map(|(_, why)| why);
    ends.iter()
        .map(|e| (e.subscriber, e.frame.0, why(e)))
        .collect()
}

fn calls(rendition: &mut Rendition<Recorder>, id: SubscriberId) -> Vec<Call> {
    let recorder = rendition.subscriber(id).expect("it subscribes");
    std::mem::take(&mut recorder.calls)
}

#[test]
fn each_frame_ends_once_for_all_present_subscribers() {
    let mut rendition = rendition();
    assert!(!rendition.captured(at(1), true), "no subscriber");
    join(&mut rendition, PLAYER, Role::Player);
    assert!(code(&mut rendition, at(2)));
    join(&mut rendition, OBSERVER, Role::Observer);
    // Within the hold-off there is no key frame.
    assert!(!code(&mut rendition, at(3)));
    assert!(rendition.captured(at(60), true));
    assert!(start_frame(&mut rendition, at(60)), "the budget has room");
    join(&mut rendition, THIRD, Role::Observer);
    assert_eq!(rendition.end(at(60)), None);
    assert!(!code(&mut rendition, at(61)));
    rendition.unsubscribe(OBSERVER);
    assert!(!code(&mut rendition, at(62)));
    let awaiting = Some(DropCause::AwaitingKeyFrame);
    assert_eq!(
        words(&ends(&mut rendition)),
        [
            (PLAYER, 1, None),
            (PLAYER, 2, None),
            (OBSERVER, 2, awaiting),
            (PLAYER, 3, None),
            (OBSERVER, 3, None),
            (PLAYER, 4, None),
            (OBSERVER, 4, None),
            (THIRD, 4, awaiting),
            (PLAYER, 5, None),
            (THIRD, 5, awaiting),
        ]
    );
    let waiting = |frame| {
        let (stage, why) = (Stage::FirstSent, DropCause::AwaitingKeyFrame);
        Call::Dropped(FrameId(frame), stage, why)
    };
    assert_eq!(calls(&mut rendition, THIRD), [waiting(4), waiting(5)]);
}

#[test]
fn a_rendition_changes_its_group_of_pictures() {
    let mut rendition = rendition();
    join(&mut rendition, PLAYER, Role::Player);
    let mut keys = Vec::new();
    for frame in 1..=30 {
        match frame {
            6 => rendition.set_key_frame_interval(Some(10)),
            25 => rendition.set_key_frame_interval(None),
            _ => {}
        }
        if code(&mut rendition, at(frame)) {
            keys.push(frame);
        }
    }
    assert_eq!(keys, [1, 11, 21]);
}

#[test]
fn a_failed_frame_ends_for_all_and_a_key_frame_follows() {
    let mut rendition = rendition();
    join(&mut rendition, PLAYER, Role::Player);
    join(&mut rendition, OBSERVER, Role::Observer);
    code(&mut rendition, at(1));
    assert!(rendition.captured(at(2), true));
    start_frame(&mut rendition, at(2));
    rendition.failed(at(2), Stage::Encoded);
    let failed = Some(DropCause::EncodeFailed);
    assert_eq!(
        words(&ends(&mut rendition))[2..],
        [(PLAYER, 2, failed), (OBSERVER, 2, failed)]
    );
    // A still picture is retried, but not at once.
    assert_eq!(rendition.next_deadline(), Some(at(2) + RETRY_DELAY));
    assert!(rendition.needs_encoder(SIZE));
    assert!(code(&mut rendition, at(3)));
    assert_eq!(rendition.next_deadline(), None);
}

#[test]
fn a_superseded_picture_is_a_frame_that_ends_for_everybody() {
    let mut rendition = rendition();
    rendition.superseded(at(0));
    assert_eq!(ends(&mut rendition), [], "no subscriber was present");
    join(&mut rendition, PLAYER, Role::Player);
    join(&mut rendition, OBSERVER, Role::Observer);
    assert!(code(&mut rendition, at(1)), "a key frame");
    rendition.superseded(at(2));
    rendition.superseded(at(2));
    assert!(
        !code(&mut rendition, at(3)),
        "it refers to the coded frame and needs no key frame"
    );
    let superseded = Some(DropCause::Superseded);
    let all = [(1, None), (2, superseded), (3, superseded), (4, None)];
    let expected = all.map(|(frame, why)| [(PLAYER, frame, why), (OBSERVER, frame, why)]);
    assert_eq!(words(&ends(&mut rendition)), expected.concat());
    rendition.check_invariants();
}

#[test]
fn the_player_is_waited_for_until_its_deadline() {
    let mut rendition = rendition();
    join(&mut rendition, OBSERVER, Role::Observer);
    join(&mut rendition, PLAYER, Role::Player);
    assert!(rendition.captured(at(1), true));
    let waits = [
        Progress::Deferred(at(1) + MS * 3),
        Progress::Deferred(at(1) + MS * 5),
    ];
    let player = rendition.subscriber(PLAYER).expect("it plays");
    player.answers.extend(waits);
    start_frame(&mut rendition, at(1));
    assert_eq!(rendition.end(at(1)), Some(at(1) + MS * 3));
    assert_eq!(rendition.end(at(1) + MS * 3), Some(at(1) + MS * 5));
    assert_eq!(ends(&mut rendition), [], "it is being encoded");
    assert_eq!(rendition.end(at(1) + MS * 5), None);
    let ends = ends(&mut rendition);
    assert_eq!(words(&ends), [(PLAYER, 1, None), (OBSERVER, 1, None)]);
    let left = |end: &FrameOutcome| end.stamps.at(Stage::LastSent);
    assert_eq!(left(&ends[0]), Some(at(1) + MS * 5));
    assert_eq!(
        left(&ends[1]),
        Some(at(1)),
        "it did not wait for the player"
    );
    let all = [Call::Slice(0), Call::Slice(1), Call::End];
    assert_eq!(calls(&mut rendition, OBSERVER)[1..], all);
}

#[test]
fn an_observer_that_waits_or_misses_delays_no_other() {
    for answer in [Progress::Deferred(at(1000)), Progress::Missed] {
        let mut rendition = rendition();
        join(&mut rendition, PLAYER, Role::Player);
        join(&mut rendition, OBSERVER, Role::Observer);
        code(&mut rendition, at(1));
        rendition.subscriber(OBSERVER).expect("it observes").answers = [answer].into();
        // The player's frame ends at once.
        code(&mut rendition, at(2));
        code(&mut rendition, at(3));
        let missed = (
            Some(DropCause::SendBufferFull),
            Some(DropCause::AwaitingKeyFrame),
        );
        assert_eq!(
            words(&ends(&mut rendition))[2..],
            [
                (PLAYER, 2, None),
                (OBSERVER, 2, missed.0),
                (PLAYER, 3, None),
                (OBSERVER, 3, missed.1),
            ]
        );
        // The observer gets a key frame only on request, and within the budget.
        assert_eq!(rendition.next_deadline(), None);
        let wish = Feedback::KeyFrame {
            last_good: FrameId(1),
            newest: FrameId(2),
        };
        rendition.feedback(at(4), OBSERVER, wish);
        let due = rendition.next_deadline().expect("it was requested");
        assert!(due <= at(1) + OBSERVER_BUDGET, "{due:?}");
        calls(&mut rendition, OBSERVER);
        assert!(code(&mut rendition, due));
        let begun = &calls(&mut rendition, OBSERVER)[0];
        assert_eq!(*begun, Call::Begin(FrameId(4), InputEcho::default()));
    }
}

#[test]
fn input_is_echoed_to_its_player_and_stamped_once() {
    let mut rendition = rendition();
    join(&mut rendition, PLAYER, Role::Player);
    join(&mut rendition, OBSERVER, Role::Observer);
    let input = |from| AppliedInput {
        from,
        seq: InputSeq(7),
        kind: EchoKind::Injected,
        received: Instant(5),
        applied: Instant(6),
    };
    let echo = InputEcho {
        seq: InputSeq(7),
        kind: EchoKind::Injected,
    };
    for (now, from) in [(1, PLAYER), (2, PLAYER), (3, THIRD)] {
        assert!(rendition.captured(at(now), true));
        rendition.applied(&input(from));
        start_frame(&mut rendition, at(now));
        assert_eq!(rendition.end(at(now)), None);
    }
    let echoes = |calls: Vec<Call>| -> Vec<InputEcho> {
        let echo = |call: &Call| match call {
            Call::Begin(_, echo) => Some(*echo),
            _ => None,
        };
        calls.iter().filter_map(echo).collect()
    };
    let none = InputEcho::default();
    assert_eq!(echoes(calls(&mut rendition, PLAYER)), [echo, echo, none]);
    assert_eq!(echoes(calls(&mut rendition, OBSERVER)), [none; 3]);
    let ends = ends(&mut rendition);
    let stamped = ends.iter().map(|e| e.stamps.at(Stage::InputInjected));
    let stamped: Vec<_> = stamped.step_by(2).collect();
    assert_eq!(stamped, [Some(Instant(6)), None, None]);
}

#[test]
fn there_is_one_player_and_its_link_alone_counts() {
    let mut rendition = rendition();
    let link = |ms| {
        Feedback::Link(LinkState {
            round_trip: MS * ms,
            loss: Loss::NONE,
        })
    };
    join(&mut rendition, OBSERVER, Role::Observer);
    rendition.feedback(at(0), OBSERVER, link(90));
    assert_eq!(rendition.subscribers.round_trip(), MS * 90);
    join(&mut rendition, PLAYER, Role::Player);
    rendition.feedback(at(0), PLAYER, link(10));
    assert_eq!(rendition.player(), Some(PLAYER));
    assert_eq!(rendition.subscribers.round_trip(), MS * 10);
    join(&mut rendition, THIRD, Role::Player);
    assert_eq!(
        rendition.player(),
        Some(THIRD),
        "the newest one is the player"
    );
    rendition.set_role(THIRD, Role::Observer);
    assert_eq!(rendition.player(), None);
    rendition.set_role(OBSERVER, Role::Player);
    assert_eq!(rendition.subscribers.round_trip(), MS * 90);
    rendition.unsubscribe(OBSERVER);
    assert_eq!(rendition.player(), None);
    rendition.check_invariants();
}

#[test]
fn a_loss_counts_if_the_frame_was_meant_for_the_player() {
    let lost = |frame| {
        let (stage, why) = (Stage::FirstReceived, DropCause::Lost);
        let outcome = Outcome::Dropped { stage, why };
        Feedback::Frame(Report::new(FrameId(frame), outcome))
    };
    let reference = |rendition: &mut Rendition<Recorder>, now| {
        assert!(rendition.captured(at(now), true));
        let (plan, _) = rendition
            .start_frame(at(now), None, None)
            .expect("an encoder");
        let reference = plan.reference;
        assert_eq!(rendition.end(at(now)), None);
        reference
    };
    let mut rendition = rendition();
    join(&mut rendition, OBSERVER, Role::Observer);
    code(&mut rendition, at(1));
    join(&mut rendition, PLAYER, Role::Player);
    code(&mut rendition, at(2));
    // The player starts with a key frame, the third frame, and never had earlier frames.
    assert!(code(&mut rendition, at(10)));
    rendition.feedback(at(10), PLAYER, lost(2));
    assert_eq!(reference(&mut rendition, 11), FrameId(3));
    rendition.feedback(at(11), OBSERVER, lost(4));
    assert_eq!(reference(&mut rendition, 12), FrameId(4));
    let whole = Report::new(FrameId(3), Outcome::Displayed(Fidelity::Complete));
    rendition.feedback(at(12), PLAYER, Feedback::Frame(whole));
    rendition.feedback(at(12), PLAYER, lost(4));
    assert_eq!(
        reference(&mut rendition, 13),
        FrameId(3),
        "past the lost frames"
    );
}

#[test]
fn the_rate_counts_a_frame_once_however_many_take_it() {
    let qps = |observers: u32| -> Vec<u8> {
        let mut rendition = rendition();
        join(&mut rendition, PLAYER, Role::Player);
        for id in 0..observers {
            join(&mut rendition, SubscriberId::Other(10 + id), Role::Observer);
        }
        let mut qps = Vec::new();
        for frame in 1..=150 {
            code(&mut rendition, at(frame));
            qps.push(rendition.current.qp);
        }
        qps
    };
    assert_eq!(qps(0), qps(3));
    let falls = qps(0);
    assert!(falls[149] < falls[1], "it does follow: {falls:?}");
}

/// The frame rate is limited to the refresh rate of the player's display.
#[test]
fn frames_a_second_follow_the_players_display() {
    let mut settings = rendition().settings;
    for (follows, wished, expected) in [
        (true, 144, 60.0),
        (true, 30, 30.0),
        (true, 0, 60.0),
        (true, 50, 50.0),
        (false, 144, 60.0),
    ] {
        settings.follows_display = follows;
        let mut rendition = Rendition::new(settings);
        let constraints = ClientConstraints {
            fps: NonZeroU16::new(wished),
            ..ClientConstraints::default()
        };
        rendition.subscribe(OBSERVER, Role::Observer, constraints, Recorder::default());
        assert_eq!(rendition.fps(), 60.0, "an observer's are ignored");
        rendition.subscribe(PLAYER, Role::Player, constraints, Recorder::default());
        assert_eq!(rendition.fps(), expected);
        drop(rendition.unsubscribe(PLAYER));
        assert_eq!(rendition.fps(), 60.0);
    }
}

/// A rate that the player's user chose applies up to the host's limit, regardless of the usual rate.
#[test]
fn frames_a_second_follow_the_players_choice() {
    let mut settings = rendition().settings;
    for (limit, chosen, expected) in [
        (Some(240.0), 144, 144.0),
        (Some(240.0), 30, 30.0),
        (Some(100.0), 120, 100.0),
        (Some(30.0), 120, 30.0),
        (Some(240.0), 0, 60.0),
        (None, 120, 60.0),
    ] {
        settings.max_fps = limit;
        let mut rendition = Rendition::new(settings);
        let constraints = ClientConstraints {
            chosen_fps: NonZeroU16::new(chosen),
            ..ClientConstraints::default()
        };
        rendition.subscribe(OBSERVER, Role::Observer, constraints, Recorder::default());
        assert_eq!(rendition.fps(), 60.0, "an observer's has no effect");
        rendition.subscribe(PLAYER, Role::Player, constraints, Recorder::default());
        assert_eq!(rendition.fps(), expected, "{chosen} up to {limit:?}");
        drop(rendition.unsubscribe(PLAYER));
        assert_eq!(rendition.fps(), 60.0);
    }
}

#[test]
fn a_still_picture_is_repeated_for_those_that_need_it() {
    let start = at(0);
    let second = MS * 1000;
    let mut rendition = rendition();
    join(&mut rendition, PLAYER, Role::Player);
    assert!(code(&mut rendition, start));
    assert_eq!(
        rendition.next_deadline(),
        None,
        "nothing is due for an OpenUVR client"
    );
    // For a recorder, the picture is repeated twice a second, from its key frame on.
    let recorder = Recorder {
        intake: Some(Intake::Complete),
        ..Recorder::default()
    };
    rendition.subscribe(
        OBSERVER,
        Role::Observer,
        ClientConstraints::default(),
        recorder,
    );
    let coded = stands_still(&mut rendition, start + second * 9);
    assert!((17..=18).contains(&coded.len()), "{}", coded.len());
    let gap = |pair: &[Instant]| pair[1].since(pair[0]);
    assert!(
        coded.windows(2).map(gap).all(|gap| gap == MS * 500),
        "{coded:?}"
    );
    // A video player probes about twenty frames before it displays one.
    let player = Recorder {
        intake: Some(Intake::Steady),
        ..Recorder::default()
    };
    rendition.subscribe(THIRD, Role::Observer, ClientConstraints::default(), player);
    let coded = stands_still(&mut rendition, start + second * 15);
    let first = coded.iter().filter(|at| at.since(start) < second * 11);
    assert!(first.count() > 20, "{coded:?}");
    assert!(
        coded.windows(2).map(gap).all(|gap| gap <= MS * 500),
        "{coded:?}"
    );
    assert!(coded.len() < 50, "then it is seldom: {}", coded.len());
    // The repetitions end when their subscribers leave.
    rendition.unsubscribe(OBSERVER);
    rendition.unsubscribe(THIRD);
    assert_eq!(rendition.next_deadline(), None);
}

#[test]
fn a_lost_last_frame_is_followed_by_another() {
    let mut rendition = rendition();
    // A client that does not acknowledge frames, even as the player, notices a loss when the next frame arrives.
    let client = Recorder {
        intake: Some(Intake::Unacknowledged),
        ..Recorder::default()
    };
    rendition.subscribe(PLAYER, Role::Player, ClientConstraints::default(), client);
    assert!(code(&mut rendition, at(0)));
    let coded = stands_still(&mut rendition, at(0) + MS * 1100);
    let expected: Vec<Instant> = (1..=5).map(|n| at(0) + MS * 200 * n).collect();
    assert_eq!(coded, expected);
}

/// ECT(1) and pacing apply only to the player's link.
#[test]
fn only_the_players_datagrams_carry_ect1() {
    let rate = Bitrate::from_mbps;
    let settings = rendition().settings;
    let mut rendition: Rendition<Recorder> = Rendition::new(Settings {
        policy: PolicySettings {
            range: Range {
                min: rate(1),
                start: rate(10),
                max: rate(10),
            },
            adaptive: true,
            l4s: L4sMode::Auto,
            ..settings.policy
        },
        ..settings
    });
    join(&mut rendition, PLAYER, Role::Player);
    join(&mut rendition, OBSERVER, Role::Observer);
    let arrived = |frame, ce| {
        Feedback::Frame(Report {
            first_received: Some(PeerInstant(at(frame).0)),
            recoverable: Some(MS),
            ecn: Some(EcnCounts {
                ect1: 20 - ce,
                ce,
                ..EcnCounts::default()
            }),
            ..Report::new(FrameId(frame), Outcome::Displayed(Fidelity::Complete))
        })
    };
    let link = |rendition: &mut Rendition<Recorder>, id| {
        let recorder = rendition.subscriber(id).expect("a subscriber");
        (recorder.ecn, recorder.pacing.is_some())
    };
    // The first frame is paced because the link is unknown. After the client's first counts, datagrams carry ECT(1), and
    // the first CE starts the pacing. Frame 2 is the first with ECT(1).
    for (frame, ce, ecn, paced) in [
        (1, 0, Ecn::NotEct, true),
        (2, 0, Ecn::Ect1, false),
        (3, 10, Ecn::Ect1, false),
        (4, 0, Ecn::Ect1, true),
    ] {
        code(&mut rendition, at(frame));
        assert_eq!(link(&mut rendition, PLAYER), (ecn, paced), "{frame}");
        assert_eq!(link(&mut rendition, OBSERVER), (Ecn::NotEct, false));
        rendition.feedback(at(frame), PLAYER, arrived(frame, ce));
        // An observer's counts are ignored.
        rendition.feedback(at(frame), OBSERVER, arrived(frame, 20));
    }
    // Half of the datagrams of one frame were marked, so the rate decreased by a quarter, and rises again.
    assert!((rate(7)..rate(8)).contains(&rendition.policy.target()));
    let events: Vec<_> = std::iter::from_fn(|| rendition.poll_control_event())
        .filter(|event| !matches!(event, ControlEvent::KeyFrame { .. }))
        .collect();
    let marked = RateChange::Marked {
        to: Bitrate(7_500_000),
        share: 0.5,
    };
    let started = ControlEvent::L4s(L4sChange::Started);
    assert_eq!(events, [started, ControlEvent::Rate(marked)]);
}
