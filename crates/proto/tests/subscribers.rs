//! Subscribers of a host that are not sessions: their input, their silence, and the outcome of each frame.
#![allow(
    clippy::cast_possible_truncation,
    reason = "test values are known to fit"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_proto::control::clipboard::{ClipboardDirections, ClipboardPiece, ClipboardText};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::controller::{ControllerState, Hand, Haptic};
use openuvr_proto::host::{
    Ending, Host, HostEvent, HostPolicy, InputRefused, SecondPlayer, SubscribeRequest, Wakeup,
};
use openuvr_proto::id::{FrameId, InputSeq, PoseId, SubscriberId, ViewId};
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::input::keys::Keys;
use openuvr_proto::input::pad::{PadId, Rumble};
use openuvr_proto::pose::Pose;
use openuvr_proto::send::rendition::FrameOutcome;
use openuvr_proto::send::subscriber::{Departure, Feedback};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{DropCause, Fidelity, FrameCost, Outcome, Stage, Stamps};
use openuvr_proto::wire::control::{GoodbyeReason, Report};
use proptest::prelude::*;

const START: Instant = Instant(1_000_000_000);
const PLAYER: SubscriberId = SubscriberId::Other(1);
const OTHER: SubscriberId = SubscriberId::Other(2);
const SECOND_ID: SubscriberId = SubscriberId::Other(3);

fn host() -> Host {
    Host::new(HostPolicy {
        name: "host".into(),
        codecs: 1 << 1,
        second_player: SecondPlayer::TakeOver,
        max_observers: 4,
        keys: Keys::default(),
        streams: Vec::new(),
    })
}

fn at(ms: u64) -> Instant {
    START + Duration::from_millis(ms)
}

/// The subscriber joins as player and takes over the role.
fn join(host: &mut Host, id: SubscriberId) {
    let request = SubscribeRequest {
        take_over: true,
        ..SubscribeRequest::new(Role::Player, "player")
    };
    let granted = host.subscribe(START, id, request);
    assert_eq!(granted.map(|grant| grant.role), Ok(Role::Player));
}

fn press(host: &mut Host, now: Instant, id: SubscriberId) -> Result<InputSeq, InputRefused> {
    let event = InputEvent::Key {
        code: KeyCode(30),
        text: None,
        pressed: true,
    };
    host.input(now, id, event, PeerInstant(0))
}

fn events(host: &mut Host) -> Vec<HostEvent> {
    std::iter::from_fn(|| host.poll_event()).collect()
}

fn releases(host: &mut Host) -> usize {
    let releases = |event: &&HostEvent| matches!(event, HostEvent::ReleaseInput);
    events(host).iter().filter(releases).count()
}

/// A recorder's thread may lag further behind the host, in frames and in time, than a client's reports.
#[test]
fn a_frame_in_hand_ends_when_it_is_passed_on() {
    let mut host = host();
    let request = SubscribeRequest::new(Role::Observer, "recorder");
    host.subscribe(START, PLAYER, request)
        .expect("there is room");
    let outcomes = |host: &mut Host| -> Vec<(u32, Outcome)> {
        let records = events(host).into_iter().filter_map(|event| match event {
            HostEvent::Record(record) => Some((record.frame.0, record.outcome)),
            _ => None,
        });
        records.collect()
    };
    for frame in 1..=900 {
        let end = FrameOutcome {
            subscriber: PLAYER,
            view: ViewId::FIRST,
            frame: FrameId(frame),
            stamps: Stamps::default(),
            end: Ok(FrameCost::default()),
        };
        host.record(at(u64::from(frame) * 16), &end);
        host.check_invariants();
    }
    host.handle_timeout(at(60_000));
    assert_eq!(outcomes(&mut host), [], "they are in hand");
    // The recorder takes the frames in order, but its update about one frame is lost.
    for frame in (1..=900).filter(|frame| *frame != 500) {
        let left = Ok(Departure::default());
        host.departed(at(60_000), PLAYER, FrameId(frame), left);
    }
    let all = outcomes(&mut host);
    let frames: Vec<u32> = all.iter().map(|(frame, _)| *frame).collect();
    assert_eq!(frames, (1..=900).collect::<Vec<_>>());
    let lost: Vec<u32> = (all
        .iter()
        .filter(|(_, outcome)| *outcome != Outcome::SentUnacknowledged))
    .map(|(frame, _)| *frame)
    .collect();
    assert_eq!(lost, [500]);
}

#[test]
fn keys_of_a_silent_player_are_released() {
    let mut host = host();
    join(&mut host, PLAYER);
    assert_eq!(host.next_timeout(), None, "no timers");
    assert_eq!(press(&mut host, at(0), PLAYER), Ok(InputSeq(1)));
    host.on_activity(at(700), PLAYER);
    host.handle_timeout(at(800));
    assert_eq!(host.next_timeout(), Some((at(2200), Wakeup::ReleaseInput)));
    // The gateway repeats an estimate even if its client is silent.
    let estimate = openuvr_proto::units::Bitrate::from_mbps(5);
    host.feedback(at(2100), PLAYER, &Feedback::Estimate(estimate));
    host.handle_timeout(at(2199));
    assert_eq!(releases(&mut host), 0);
    host.handle_timeout(at(2200));
    assert_eq!(releases(&mut host), 1);
    host.handle_timeout(at(9000));
    assert_eq!((releases(&mut host), host.next_timeout()), (0, None));
    // The input numbers continue after the release.
    assert_eq!(press(&mut host, at(9000), PLAYER), Ok(InputSeq(2)));
}

fn repeats(host: &mut Host) -> Vec<bool> {
    let repeats = |event| match event {
        HostEvent::KeyRepeat(may) => Some(may),
        _ => None,
    };
    events(host).into_iter().filter_map(repeats).collect()
}

#[test]
fn no_key_repeats_of_a_player_that_is_silent() {
    let mut host = host();
    join(&mut host, PLAYER);
    let _ = press(&mut host, at(0), PLAYER);
    assert_eq!(host.next_timeout(), Some((at(100), Wakeup::StopRepeat)));
    assert!(!host.on_activity(at(90), PLAYER), "no news");
    host.handle_timeout(at(189));
    assert_eq!(repeats(&mut host), []);
    host.handle_timeout(at(190));
    host.handle_timeout(at(500));
    assert_eq!(repeats(&mut host), [false]);
    // The next timeout releases the player's keys.
    assert_eq!(host.next_timeout(), Some((at(1590), Wakeup::ReleaseInput)));
    assert!(host.on_activity(at(600), PLAYER));
    assert_eq!(repeats(&mut host), [true]);
    // The host applies the release of a key before it enables key repeat again.
    host.handle_timeout(at(700));
    assert_eq!(repeats(&mut host), [false]);
    let release = InputEvent::Key {
        code: KeyCode(30),
        text: None,
        pressed: false,
    };
    let _ = host.input(at(800), PLAYER, release, PeerInstant(0));
    let after = events(&mut host);
    let in_order = matches!(
        after[..],
        [HostEvent::Input { .. }, HostEvent::KeyRepeat(true)]
    );
    assert!(in_order);
    // A subscriber without pressed keys may be silent.
    host.handle_timeout(at(1200));
    assert_eq!(repeats(&mut host), []);
}

/// If key repeat stayed disabled, no key of the next player would repeat.
#[test]
fn keys_repeat_again_when_a_silent_player_leaves() {
    for taken_over in [false, true] {
        let mut host = host();
        join(&mut host, PLAYER);
        let _ = press(&mut host, at(0), PLAYER);
        host.handle_timeout(at(150));
        assert_eq!(repeats(&mut host), [false]);
        match taken_over {
            true => join(&mut host, OTHER),
            false => host.unsubscribe(PLAYER, Ending::Goodbye(GoodbyeReason::Quit)),
        }
        let mut after = events(&mut host)
            .into_iter()
            .skip_while(|event| !matches!(event, HostEvent::ReleaseInput));
        let next = after.nth(1);
        assert!(matches!(next, Some(HostEvent::KeyRepeat(true))));
        host.handle_timeout(at(200));
        assert_eq!(repeats(&mut host), []);
    }
}

#[test]
fn a_displaced_player_is_released_and_its_pose_forgotten() {
    let mut host = host();
    join(&mut host, PLAYER);
    let pose = Pose::new([0.0; 3], [0.0, 0.0, 0.0, 1.0]).expect("a pose");
    host.posed(at(1), PLAYER, (PoseId(7), pose), PeerInstant(5));
    let posed = host.pose().map(|posed| (posed.subscriber, posed.id));
    assert_eq!(posed, Some((PLAYER, PoseId(7))));
    let _ = press(&mut host, at(2), PLAYER);
    join(&mut host, OTHER);
    // The expected order is: the typed keys, their release, the next player.
    let kinds: Vec<&str> = events(&mut host)
        .iter()
        .map(|event| match event {
            HostEvent::OtherSubscribed { .. } => "subscribed",
            HostEvent::Input { .. } => "input",
            HostEvent::RoleChanged(PLAYER, Role::Observer) => "observes",
            HostEvent::ReleaseInput => "release",
            _ => "?",
        })
        .collect();
    let expected = ["subscribed", "input", "observes", "release", "subscribed"];
    assert_eq!(kinds, expected);
    assert_eq!(host.pose(), None);
    assert_eq!(
        press(&mut host, at(3), PLAYER),
        Err(InputRefused::NotPlayer)
    );
    host.posed(at(3), PLAYER, (PoseId(8), pose), PeerInstant(6));
    assert_eq!(host.pose(), None);
}

#[test]
fn input_that_the_host_does_not_apply_is_bounded() {
    let mut host = host();
    join(&mut host, PLAYER);
    for n in 1..=1024 {
        assert_eq!(press(&mut host, START, PLAYER), Ok(InputSeq(n)));
    }
    assert_eq!(press(&mut host, START, PLAYER), Err(InputRefused::Busy));
    host.check_invariants();
    let inputs = events(&mut host);
    let seqs = inputs.iter().filter_map(|event| match event {
        HostEvent::Input { from, arrived, .. } => (*from == PLAYER).then_some(arrived.seq.0),
        _ => None,
    });
    assert_eq!(seqs.collect::<Vec<_>>(), (1..=1024).collect::<Vec<_>>());
    assert_eq!(press(&mut host, START, PLAYER), Ok(InputSeq(1025)));
}

fn updates(host: &mut Host, id: SubscriberId) -> Vec<Update> {
    std::iter::from_fn(|| host.poll_update(id)).collect()
}

/// `text` in two messages.
fn pieces(text: &str) -> [ClipboardPiece; 2] {
    let (total, (one, other)) = (text.len() as u32, text.as_bytes().split_at(1));
    [(0, one), (1, other)].map(|(offset, bytes)| ClipboardPiece {
        total,
        offset,
        bytes: bytes.to_vec(),
    })
}

fn says(host: &mut Host, id: SubscriberId, text: &str) {
    for piece in pieces(text) {
        host.clipboard_piece_from(id, &piece);
    }
}

fn copied(host: &mut Host) -> Vec<(SubscriberId, ClipboardText)> {
    let copied = |event| match event {
        HostEvent::Clipboard(from, text) => Some((from, text)),
        _ => None,
    };
    events(host).into_iter().filter_map(copied).collect()
}

#[test]
fn only_the_player_uses_the_clipboard() {
    let mut host = host();
    let ways = ClipboardDirections {
        to_host: true,
        to_client: true,
    };
    host.clipboard_directions(ways);
    join(&mut host, PLAYER);
    join(&mut host, OTHER);
    // Observers also get the directions, because an observer may become the player later.
    for id in [PLAYER, OTHER] {
        assert!(updates(&mut host, id).contains(&Update::ClipboardDirections(ways)));
    }
    assert!(host.clipboard("one".into()) && host.clipboard("two".into()));
    assert_eq!(updates(&mut host, PLAYER), []);
    // The host keeps only the newest text.
    assert_eq!(updates(&mut host, OTHER), [Update::Clipboard("two".into())]);
    for id in [PLAYER, OTHER] {
        says(&mut host, id, "here");
    }
    assert_eq!(copied(&mut host), [(OTHER, "here".into())]);
    // When a subscriber loses the player role, its pending clipboard texts are discarded.
    assert!(host.clipboard("secret".into()));
    let [first, last] = pieces("half");
    host.clipboard_piece_from(OTHER, &first);
    let taken = host.request_role(PLAYER, Role::Player, true);
    assert_eq!(taken.map(|grant| grant.role), Ok(Role::Player));
    for (id, plays) in [(OTHER, Role::Observer), (PLAYER, Role::Player)] {
        let received = updates(&mut host, id);
        assert!(
            matches!(received[..], [Update::Role { role, .. }] if role == plays),
            "{received:?}"
        );
    }
    let _ = host.request_role(OTHER, Role::Player, true);
    host.clipboard_piece_from(OTHER, &last);
    assert_eq!(copied(&mut host), []);
}

#[test]
fn a_removed_player_receives_no_more_player_data() {
    let mut host = host();
    host.clipboard_directions(ClipboardDirections {
        to_host: true,
        to_client: true,
    });
    join(&mut host, PLAYER);
    let _ = updates(&mut host, PLAYER);
    assert!(host.clipboard("secret".into()));
    let ends = GoodbyeReason::Forbidden;
    host.close(ends);
    assert_eq!(updates(&mut host, PLAYER), [Update::Ended(ends)]);
}

#[test]
fn only_the_player_has_controllers_and_haptics() {
    let mut host = host();
    join(&mut host, PLAYER);
    let _ = updates(&mut host, PLAYER);
    let trigger = |trigger| {
        let state = ControllerState::new(Hand::Left);
        // The left hand's state is at the index of the right hand, so the host assigns it to the right hand.
        [None, Some(ControllerState { trigger, ..state })]
    };
    let held = |host: &Host| {
        let controlled = host.controllers()?;
        let [left, right] = controlled.states;
        assert_eq!((left, right?.hand), (None, Hand::Right));
        Some((controlled.number, right?.trigger))
    };
    assert_eq!(held(&host), None);
    host.controlled(at(1), PLAYER, trigger(7), PeerInstant(5));
    host.controlled(at(2), PLAYER, trigger(8), PeerInstant(6));
    assert_eq!(held(&host), Some((2, 8)));
    let mut out = Vec::new();
    let buzz = Haptic {
        hand: Hand::Right,
        amplitude: 9,
        frequency: 0,
        duration: Duration::from_millis(3),
    };
    host.haptic(at(3), buzz);
    assert!(host.poll_transmit(at(3), &mut out).is_none());
    assert_eq!(updates(&mut host, PLAYER), [Update::Haptic(buzz)]);
    assert!(host.poll_transmit(at(500), &mut out).is_none());
    assert_eq!(
        updates(&mut host, PLAYER),
        [],
        "once: there is no loss here"
    );
    host.haptic(at(600), buzz);
    join(&mut host, OTHER);
    assert!(host.poll_transmit(at(600), &mut out).is_none());
    let felt = |update: &Update| matches!(update, Update::Haptic(_));
    assert!(!updates(&mut host, PLAYER).iter().any(felt));
    assert!(!updates(&mut host, OTHER).iter().any(felt));
    host.controlled(at(700), PLAYER, trigger(9), PeerInstant(7));
    assert_eq!(held(&host), None, "it is no longer the player");
    // The observer that is promoted does not receive the haptic feedback of a player that has left, either.
    host.haptic(at(800), buzz);
    host.unsubscribe(OTHER, Ending::Silent);
    assert!(host.poll_transmit(at(900), &mut out).is_none());
    let promoted = updates(&mut host, PLAYER);
    let plays =
        |update: &Update| matches!(update, Update::Role { role, .. } if *role == Role::Player);
    assert!(promoted.iter().any(plays), "{promoted:?}");
    assert!(!promoted.iter().any(felt));
}

#[test]
fn a_players_pads_rumble_until_it_leaves_or_another_plays() {
    let mut host = host();
    join(&mut host, PLAYER);
    let _ = updates(&mut host, PLAYER);
    let (pad, hard) = (
        PadId::new(1).expect("a pad"),
        Rumble {
            strong: 9,
            weak: 65_535,
        },
    );
    let mut out = Vec::new();
    host.rumble(at(0), pad, hard);
    assert!(host.poll_transmit(at(0), &mut out).is_none());
    assert_eq!(host.poll_updated(), Some(PLAYER));
    let runs = |rumble, millis| Update::Rumble {
        pad,
        rumble,
        millis,
    };
    assert_eq!(updates(&mut host, PLAYER), [runs(hard, 350)]);
    // The host repeats the update while the rumble lasts, and sends another when it ends.
    assert!(host.poll_transmit(at(100), &mut out).is_none());
    assert_eq!(updates(&mut host, PLAYER), [runs(hard, 350)]);
    host.rumble(at(150), pad, Rumble::OFF);
    assert!(host.poll_transmit(at(150), &mut out).is_none());
    assert_eq!(updates(&mut host, PLAYER), [runs(Rumble::OFF, 0)]);
    // A rumble update is due, but the player has changed, so no subscriber receives it.
    host.rumble(at(300), pad, hard);
    assert!(host.poll_transmit(at(300), &mut out).is_none());
    join(&mut host, OTHER);
    let felt = |update: &Update| matches!(update, Update::Rumble { .. });
    assert!(!updates(&mut host, PLAYER).iter().any(felt));
    assert!(host.poll_transmit(at(900), &mut out).is_none());
    assert!(!updates(&mut host, OTHER).iter().any(felt));
    // A new player does not receive the rumble of a player that has left, either.
    host.rumble(at(1000), pad, hard);
    host.unsubscribe(OTHER, Ending::Silent);
    join(&mut host, SECOND_ID);
    assert!(host.poll_transmit(at(1100), &mut out).is_none());
    assert!(!updates(&mut host, SECOND_ID).iter().any(felt));
}

#[test]
fn clipboard_text_is_limited_to_the_allowed_directions() {
    let mut host = host();
    join(&mut host, PLAYER);
    assert!(!host.clipboard("closed".into()));
    host.clipboard_directions(ClipboardDirections {
        to_host: false,
        to_client: true,
    });
    assert!(!host.clipboard("".into()));
    assert!(host.clipboard("open".into()));
    says(&mut host, PLAYER, "here");
    assert_eq!(copied(&mut host), []);
    assert_eq!(
        updates(&mut host, PLAYER),
        [Update::Clipboard("open".into())]
    );
}

#[test]
fn a_removed_subscriber_receives_only_the_reason() {
    let mut host = host();
    join(&mut host, PLAYER);
    host.close(GoodbyeReason::SourceEnded);
    assert_eq!(host.poll_updated(), Some(PLAYER));
    let ended = Update::Ended(GoodbyeReason::SourceEnded);
    assert_eq!(host.poll_update(PLAYER), Some(ended));
    assert_eq!(host.poll_update(PLAYER), None);
    let ended = |event: &HostEvent| matches!(event, HostEvent::Ended(PLAYER, Ending::Closed));
    assert!(events(&mut host).iter().any(ended));
    host.unsubscribe(PLAYER, Ending::Silent);
    assert!(events(&mut host).is_empty(), "it has left");
}

/// The steps of a frame.
#[derive(Clone, Copy, Debug)]
enum FrameStep {
    DroppedHere,
    Departed,
    Missed,
    Reported(bool),
}

fn steps() -> impl Strategy<Value = Vec<FrameStep>> {
    let one = prop_oneof![
        Just(FrameStep::DroppedHere),
        Just(FrameStep::Departed),
        Just(FrameStep::Missed),
        any::<bool>().prop_map(FrameStep::Reported),
    ];
    prop::collection::vec(one, 0..4)
}

proptest! {
    /// Any number of updates about a frame arrive, before or after the frame was sent, from subscribers with and
    /// without reports. The frame ends exactly once.
    #[test]
    fn each_frame_of_each_subscriber_ends_once(
        reports in any::<bool>(),
        frame_steps in prop::collection::vec((steps(), any::<bool>()), 1..40),
        goes_at in 0_usize..50,
        gap in 0_u64..300,
    ) {
        let mut host = host();
        let request = SubscribeRequest {
            reports,
            ..SubscribeRequest::new(Role::Observer, "recorder")
        };
        host.subscribe(START, PLAYER, request).expect("there is room");
        let mut captured = 0;
        let mut now = START;
        for (n, (frame_steps, early)) in (1_u32..).zip(&frame_steps) {
            now = now + Duration::from_millis(gap);
            let frame = FrameId(n);
            if n as usize == goes_at {
                host.unsubscribe(PLAYER, Ending::Silent);
            }
            if (n as usize) < goes_at || goes_at == 0 {
                captured += 1;
            }
            let here = frame_steps.iter().any(|step| matches!(step, FrameStep::DroppedHere));
            let end = FrameOutcome {
                subscriber: PLAYER,
                view: ViewId::FIRST,
                frame,
                stamps: Stamps::default(),
                end: match here {
                    true => Err((Stage::Encoded, DropCause::EncodeFailed)),
                    false => Ok(FrameCost::default()),
                },
            };
            if !early {
                host.record(now, &end);
            }
            for step in frame_steps {
                match *step {
                    FrameStep::DroppedHere => {}
                    FrameStep::Departed => host.departed(now, PLAYER, frame, Ok(Departure::default())),
                    FrameStep::Missed => {
                        let why = (Stage::FirstSent, DropCause::SendBufferFull);
                        host.departed(now, PLAYER, frame, Err(why));
                    }
                    FrameStep::Reported(whole) => {
                        let how = if whole { Fidelity::Complete } else { Fidelity::Concealed };
                        let report = Report::new(frame, Outcome::Displayed(how));
                        host.feedback(now, PLAYER, &Feedback::Frame(report));
                    }
                }
            }
            if *early {
                host.record(now, &end);
            }
            host.handle_timeout(now);
            host.check_invariants();
        }
        host.unsubscribe(PLAYER, Ending::Silent);
        let mut ends: BTreeMap<FrameId, u32> = BTreeMap::new();
        for event in events(&mut host) {
            if let HostEvent::Record(record) = event {
                prop_assert_eq!(record.subscriber, PLAYER);
                *ends.entry(record.frame).or_default() += 1;
            }
        }
        prop_assert_eq!(ends.len(), captured);
        prop_assert!(ends.values().all(|ends| *ends == 1), "{:?}", ends);
    }
}
