//! Sessions of a host and its clients in the deterministic world: roles, ends of sessions, and
//! delivery despite losses.
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

use std::time::Duration;

use openuvr_proto::client::ClientEvent;
use openuvr_proto::control::negotiate::{ObserverReason, Refusal, Role};
use openuvr_proto::host::{Ending, SecondPlayer};
use openuvr_proto::id::{DeviceId, InputSeq, PoseId};
use openuvr_proto::input::event::{EV_KEY, EV_REL, EV_SYN, InputEvent, KeyCode};
use openuvr_proto::pose::Pose;
use openuvr_proto::send::update::CursorShape;
use openuvr_proto::trace::{DropCause, Fidelity, Outcome};
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_sim::link::Impairment;
use openuvr_sim::schedule::ImpairmentSchedule;
use openuvr_sim::world::{Device, Machine, World};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn key(code: u16, pressed: bool) -> InputEvent {
    InputEvent::Key {
        code: KeyCode(code),
        text: None,
        pressed,
    }
}

fn loss(loss: f64) -> Impairment {
    Impairment {
        loss,
        delay: ms(3),
        ..Impairment::default()
    }
}

fn all_whole(machine: &Machine) -> bool {
    machine.lost.is_empty()
        && machine
            .shown
            .iter()
            .all(|s| s.fidelity == Fidelity::Complete)
}

/// The roles granted to a client, in order.
fn roles(world: &World, client: usize) -> Vec<Role> {
    let granted = |event: &ClientEvent| match event {
        ClientEvent::Granted { role, host, .. } => {
            assert_eq!(host, "world");
            Some(*role)
        }
        _ => None,
    };
    world.events_of(client).iter().filter_map(granted).collect()
}

#[test]
fn a_perfect_link_needs_one_key_frame() {
    let mut world = World::new(1, SecondPlayer::Refuse);
    let player = world.connect(&Device::new(1, Role::Player));
    world.step("motion for two seconds");
    world.frames(120);
    world.rest(ms(500));
    let machine = world.machine(player);
    assert!(all_whole(machine));
    assert_eq!(machine.shown.len(), 120);
    assert_eq!(world.key_frames_sent.len(), 1);
    world.check_conservation(player);
    let whole = |r: &openuvr_proto::trace::FrameRecord| r.outcome.is_complete();
    assert!(world.records_of(player).iter().all(whole));
}

#[test]
fn an_outage_of_half_a_second_is_repaired() {
    let mut world = World::new(3, SecondPlayer::Refuse);
    let schedule = ImpairmentSchedule::from(loss(0.0))
        .then(ms(1000), loss(1.0))
        .then(ms(1500), loss(0.0));
    // Retransmission is off. Otherwise, the last lost datagrams would be requested when the link is restored.
    world.resend = false;
    let player = world.connect(&Device::new(1, Role::Player).over(schedule));
    let begin = world.now();
    world.play(ms(3000));
    world.rest(ms(500));
    let shown = &world.machine(player).shown;
    let between = |from, to| {
        let captured = begin + ms(from)..begin + ms(to);
        shown.iter().filter(move |s| captured.contains(&s.captured))
    };
    assert_eq!(
        between(1020, 1480).count(),
        0,
        "nothing crosses a dead link"
    );
    let whole = |s: &&openuvr_sim::world::DisplayedFrame| s.fidelity == Fidelity::Complete;
    // The frame rate is 60 per second. The picture is complete again within 200 ms of the outage's end.
    assert!(between(0, 980).filter(whole).count() >= 55);
    let after: Vec<_> = between(1700, 3000).collect();
    assert!(
        after.len() >= 75 && after.iter().all(whole),
        "{}",
        after.len()
    );
    world.check_conservation(player);
}

#[test]
fn a_lost_last_frame_is_repaired_although_nothing_moves() {
    for frames_lost in 1..4 {
        let mut world = World::new(2, SecondPlayer::Refuse);
        world.resend = false;
        let player = world.connect(&Device::new(1, Role::Player).behind(&loss(0.0)));
        world.frames(10);
        world.step("the last frames vanish, and then nothing moves");
        world.set_downstream_lost(player, true);
        world.frames(frames_lost);
        world.set_downstream_lost(player, false);
        assert!(
            !world.machine(player).is_broken(),
            "they are not announced yet"
        );
        world.step("a beacon announces them, and the still picture is retransmitted");
        world.rest(ms(300));
        assert!(!world.machine(player).is_broken());
        assert_eq!(world.key_frames_sent.len(), 2);
        world.check_conservation(player);
        let lost = world.records_of(player).iter().filter(|r| {
            let lost = matches!(
                r.outcome,
                Outcome::Dropped {
                    why: DropCause::Lost,
                    ..
                }
            );
            lost
        });
        assert_eq!(lost.count(), frames_lost as usize);
    }
}

#[test]
fn observers_cost_one_key_frame_in_two_seconds() {
    let mut world = World::new(3, SecondPlayer::Refuse);
    (world.parity, world.resend) = (false, false);
    let player = world.connect(&Device::new(1, Role::Player));
    world.frames(60);
    world.step("two observers join, on links that lose a fifth");
    let first = world.connect(&Device::new(2, Role::Observer).behind(&loss(0.2)));
    let second = world.connect(&Device::new(3, Role::Observer).behind(&loss(0.2)));
    world.frames(600);
    world.step("one of them dies");
    world.set_link_down(first, true);
    world.frames(600);
    world.rest(Duration::from_secs(3));

    let key_frames = &world.key_frames_sent;
    assert!(
        key_frames.len() > 5,
        "the observers did request them: {key_frames:?}"
    );
    for pair in key_frames[1..].windows(2) {
        assert!(
            pair[1].1.since(pair[0].1) >= Duration::from_secs(2),
            "{pair:?}"
        );
    }
    assert!(all_whole(world.machine(player)));
    // Each key frame for an observer adds at most one captured frame, between two regular ones.
    let captured = world.captured_for(player).len();
    assert_eq!(world.machine(player).shown.len(), captured);
    assert!(
        (1260..=1260 + key_frames.len()).contains(&captured),
        "{captured}"
    );
    let late = |s: &&openuvr_sim::world::DisplayedFrame| s.at.since(s.captured) > ms(3);
    assert_eq!(world.machine(player).shown.iter().filter(late).count(), 0);
    assert_eq!(world.ended.len(), 1);
    assert_eq!(world.ended[0].0, world.session(first));
    assert_eq!(world.ended[0].1, Ending::Silent);
    for client in [player, first, second] {
        world.check_conservation(client);
    }
    let unreported = |client: usize| {
        let ends = world.records_of(client).iter();
        let cause = DropCause::Unreported;
        ends.filter(|r| matches!(r.outcome, Outcome::Dropped { why, .. } if why == cause))
            .count()
    };
    assert_eq!(unreported(player), 0);
    assert_eq!(unreported(second), 0);
    assert!(
        unreported(first) > 0,
        "until the host detected that it is dead"
    );
}

#[test]
fn a_second_player_is_refused_even_over_a_bad_link() {
    for seed in 0..20 {
        let mut world = World::new(seed, SecondPlayer::Refuse);
        let first = world.connect(&Device::new(1, Role::Player));
        world.rest(ms(100));
        let second = world.connect(&Device::new(2, Role::Player).behind(&loss(0.4)));
        world.rest(Duration::from_secs(6));
        let refused = ClientEvent::Refused(Refusal::PlayerPresent);
        assert_eq!(world.events_of(second), [refused], "seed {seed}");
        assert_eq!(roles(&world, first), [Role::Player]);
        assert_eq!(world.ended.len(), 1);
        assert_eq!(world.ended[0].1, Ending::Refused(Refusal::PlayerPresent));
    }
}

#[test]
fn a_second_player_may_watch() {
    let mut world = World::new(4, SecondPlayer::Observe);
    let first = world.connect(&Device::new(1, Role::Player));
    let second = world.connect(&Device::new(2, Role::Player));
    world.frames(30);
    world.step("only the player's input counts");
    world.input(second, key(30, true));
    world.input(first, key(31, true));
    world.rest(ms(100));
    assert_eq!(roles(&world, first), [Role::Player]);
    assert_eq!(roles(&world, second), [Role::Observer]);
    assert_eq!(world.injected, [(InputSeq(1), key(31, true))]);
    assert!(all_whole(world.machine(second)));
}

#[test]
fn a_second_player_may_take_over() {
    let mut world = World::new(5, SecondPlayer::TakeOver);
    let first = world.connect(&Device::new(1, Role::Player));
    world.input(first, key(30, true));
    world.rest(ms(100));
    world.step("the second requests the role");
    let mut device = Device::new(2, Role::Player);
    device.take_over = true;
    let second = world.connect(&device);
    world.rest(ms(100));
    assert_eq!(roles(&world, first), [Role::Player, Role::Observer]);
    assert_eq!(roles(&world, second), [Role::Player]);
    assert_eq!(world.role_changes, [(world.session(first), Role::Observer)]);
    assert_eq!(world.released.len(), 1, "the first one's keys are released");
    world.step("a third watches; a fourth takes over, and the second can't even watch");
    let third = world.connect(&Device::new(3, Role::Observer));
    device.number = 4;
    let fourth = world.connect(&device);
    world.rest(ms(100));
    assert_eq!(roles(&world, third), [Role::Observer]);
    assert_eq!(roles(&world, fourth), [Role::Player]);
    let ended = ClientEvent::Ended(Some(GoodbyeReason::TakenOver));
    assert_eq!(world.events_of(second).last(), Some(&ended));
}

/// For each role granted to a client: the reason why the client is an observer, if it is one.
fn watching(world: &World, client: usize) -> Vec<Option<ObserverReason>> {
    let granted = |event: &ClientEvent| match event {
        ClientEvent::Granted {
            observer_reason, ..
        } => Some(*observer_reason),
        _ => None,
    };
    world.events_of(client).iter().filter_map(granted).collect()
}

#[test]
fn a_displaced_player_gets_the_role_back() {
    let mut world = World::with_observers(21, SecondPlayer::TakeOver, 8);
    let first = world.connect(&Device::new(1, Role::Player));
    let patient = world.connect(&Device::new(2, Role::Player));
    let viewer = world.connect(&Device::new(3, Role::Observer));
    world.rest(ms(100));
    let mut device = Device::new(4, Role::Player);
    device.take_over = true;
    let second = world.connect(&device);
    world.rest(ms(100));
    device.number = 5;
    let third = world.connect(&device);
    world.rest(ms(100));
    use ObserverReason::{PlayerPresent, Requested, TakenOver};
    assert_eq!(watching(&world, first), [None, Some(TakenOver)]);
    assert_eq!(watching(&world, patient), [Some(PlayerPresent)]);
    assert_eq!(watching(&world, viewer), [Some(Requested)]);
    world.step("an observer's input is discarded, also once it plays again");
    world.input(second, key(30, true));
    world.input(second, key(30, false));
    world.rest(ms(100));
    assert_eq!(world.injected.len(), 0);
    world.step("the last to lose the role is the first to get it back");
    world.goodbye(third);
    world.rest(ms(100));
    assert_eq!(
        roles(&world, second),
        [Role::Player, Role::Observer, Role::Player]
    );
    assert_eq!(roles(&world, first), [Role::Player, Role::Observer]);
    world.input(second, key(31, true));
    world.input(second, key(31, false));
    world.rest(ms(100));
    let typed: Vec<_> = world.injected.iter().map(|(_, event)| *event).collect();
    assert_eq!(typed, [key(31, true), key(31, false)]);
    world.step("then the previous one, and then the waiting client; a client that asked to observe stays observer");
    world.goodbye(second);
    world.rest(ms(100));
    assert_eq!(
        roles(&world, first),
        [Role::Player, Role::Observer, Role::Player]
    );
    world.goodbye(first);
    world.rest(ms(100));
    assert_eq!(roles(&world, patient), [Role::Observer, Role::Player]);
    world.goodbye(patient);
    world.rest(ms(100));
    assert_eq!(roles(&world, viewer), [Role::Observer]);
}

#[test]
fn a_reconnecting_player_keeps_its_role() {
    let mut world = World::new(22, SecondPlayer::Observe);
    let first = world.connect(&Device::new(1, Role::Player));
    let waits = world.connect(&Device::new(2, Role::Player));
    world.frames(10);
    world.step("its program was restarted without ending the session");
    world.set_link_down(first, true);
    let again = world.connect(&Device::new(1, Role::Player));
    world.rest(ms(100));
    assert_eq!(roles(&world, again), [Role::Player]);
    assert_eq!(
        watching(&world, waits),
        [Some(ObserverReason::TakeOverRefused)]
    );
    world.step("its link is cut permanently");
    world.set_link_down(again, true);
    world.rest(ms(20_000));
    assert_eq!(roles(&world, waits), [Role::Observer, Role::Player]);
}

#[test]
fn a_reconnecting_device_replaces_its_session() {
    let mut world = World::new(6, SecondPlayer::Refuse);
    let first = world.connect(&Device::new(1, Role::Player));
    world.frames(10);
    world.step("the client was restarted without ending its old session");
    world.set_link_down(first, true);
    world.frames(10);
    let again = world.connect(&Device::new(1, Role::Player));
    world.frames(60);
    world.rest(ms(500));
    assert_eq!(roles(&world, again), [Role::Player]);
    assert_eq!(world.ended[0].0, world.session(first));
    assert_eq!(world.ended[0].1, Ending::Replaced);
    let machine = world.machine(again);
    assert!(machine.shown[0].key_frame && all_whole(machine));
    world.check_conservation(first);
    world.check_conservation(again);
    let ended = |r: &&openuvr_proto::trace::FrameRecord| {
        let cause = DropCause::SessionEnded;
        matches!(r.outcome, Outcome::Dropped { why, .. } if why == cause)
    };
    assert_eq!(world.records_of(first).iter().filter(ended).count(), 10);
}

#[test]
fn a_silent_player_holds_no_key() {
    let mut world = World::new(7, SecondPlayer::Refuse);
    let player = world.connect(&Device::new(1, Role::Player));
    world.input(player, key(30, true));
    world.rest(ms(700));
    let silent_since = world.now();
    world.step("the cable is pulled while a key is down");
    world.set_link_down(player, true);
    world.rest(Duration::from_secs(7));
    let released = world.released[0].since(silent_since);
    assert!(released <= ms(1500), "{released:?}");
    let (session, ending, at) = world.ended[0];
    assert_eq!((session, ending), (world.session(player), Ending::Silent));
    assert!(at.since(silent_since) <= ms(5000));
    let over = ClientEvent::Ended(None);
    assert_eq!(world.events_of(player).last(), Some(&over));
}

#[test]
fn goodbyes_end_sessions_at_once() {
    let mut world = World::new(8, SecondPlayer::Refuse);
    let quits = world.connect(&Device::new(1, Role::Player));
    world.input(quits, key(30, true));
    world.goodbye(quits);
    world.rest(ms(1));
    let quit = Ending::Goodbye(GoodbyeReason::Quit);
    assert_eq!(world.ended[0].1, quit);
    assert_eq!(world.released.len(), 1);
    world.step("a client that leaves before the answer");
    let hasty = world.connect(&Device::new(2, Role::Player).behind(&loss(0.0)));
    world.goodbye(hasty);
    world.rest(ms(10));
    assert_eq!(world.ended[1].1, quit);
    world.step("the host leaves");
    let stays = world.connect(&Device::new(3, Role::Player));
    world.end(GoodbyeReason::SourceEnded);
    world.rest(ms(1));
    let ended = ClientEvent::Ended(Some(GoodbyeReason::SourceEnded));
    assert_eq!(world.events_of(stays).last(), Some(&ended));
}

#[test]
fn input_arrives_once_and_in_order_despite_losses() {
    for (seed, lost) in [(9, 0.05), (10, 0.2), (11, 0.4)] {
        let mut world = World::new(seed, SecondPlayer::Refuse);
        let link = Impairment {
            jitter: ms(4),
            reorder: 0.1,
            duplicate: 0.1,
            ..loss(lost)
        };
        let player = world.connect(&Device::new(1, Role::Player).behind(&link));
        world.rest(ms(500));
        let mut sent = Vec::new();
        for i in 0..400_i16 {
            let event = match i % 4 {
                0 => key(30 + i as u16 % 7, true),
                2 => key(30 + (i - 2) as u16 % 7, false),
                _ => InputEvent::PointerRelative { dx: i, dy: -i },
            };
            sent.push((world.input(player, event), event));
            world.rest(ms(4));
        }
        world.rest(Duration::from_secs(1));
        assert_eq!(world.injected, sent, "{lost}");
    }
}

#[test]
fn device_events_arrive_in_order_and_pressed_keys_are_released() {
    let mut world = World::new(14, SecondPlayer::Refuse);
    let link = Impairment {
        jitter: ms(4),
        reorder: 0.1,
        ..loss(0.3)
    };
    let player = world.connect(&Device::new(1, Role::Player).behind(&link));
    world.rest(ms(500));
    let device = |id, kind, code, value| InputEvent::Device {
        device: DeviceId(id),
        kind,
        code,
        value,
    };
    let mut sent = Vec::new();
    for i in 0..300_i32 {
        let id = (i % 2) as u8;
        let event = match i % 6 {
            0 | 1 => device(id, EV_REL, 0, i),
            2 | 3 => device(id, EV_KEY, 30 + i as u16 % 9, i / 12 % 2),
            _ => device(id, EV_SYN, 0, 0),
        };
        sent.push((world.input(player, event), event));
        world.rest(ms(4));
    }
    world.rest(Duration::from_secs(1));
    assert_eq!(world.injected, sent);
    world.step("the window loses the focus, and all keys of all devices are released");
    world.input(player, device(0, EV_KEY, 99, 1));
    let (newest, all) = (world.input(player, InputEvent::ReleaseAll), sent.len());
    world.rest(Duration::from_secs(1));
    assert_eq!(world.injected[all + 1], (newest, InputEvent::ReleaseAll));
    assert_eq!(world.injected.len(), all + 2);
}

fn head(x: f32) -> Pose {
    Pose::new([x, 1.75, 0.0], [0.0, 0.0, 0.0, 1.0]).expect("a pose")
}

#[test]
fn the_newest_pose_wins_despite_loss_and_reordering() {
    for (seed, lost) in [(15, 0.0), (16, 0.2), (17, 0.5)] {
        let mut world = World::new(seed, SecondPlayer::Refuse);
        let link = Impairment {
            jitter: ms(5),
            reorder: 0.2,
            duplicate: 0.1,
            ..loss(lost)
        };
        let player = world.connect(&Device::new(1, Role::Player).behind(&link));
        world.rest(ms(500));
        let (mut seen, mut last) = (Vec::new(), None);
        for i in 0..1000_u16 {
            last = Some(world.pose(player, head(i.into())));
            let sampled = world.now();
            world.rest(ms(1));
            if let Some(posed) = world.posed() {
                assert_eq!(posed.subscriber, world.session(player).into());
                let here = posed.sampled_here.expect("the clocks are synchronised");
                assert!(here.at - here.bound <= sampled, "not from the future");
                assert!(here.at - here.bound <= posed.received);
                seen.push((posed.id, posed.pose.position()[0]));
            }
        }
        assert!(seen.is_sorted_by_key(|(id, _)| id.0), "never an older one");
        // The x position of each pose is its number minus 1.
        assert!(
            seen.iter()
                .all(|(id, x)| f64::from(*x) + 1.0 == f64::from(id.0))
        );
        seen.dedup();
        let arrived = seen.len() as f64 / 1000.0;
        assert!(arrived > (1.0 - lost) * 0.4, "{arrived} of {lost}");
        world.step("the link is idle: only the last can still be in flight");
        world.rest(ms(50));
        let newest = world.posed().map(|posed| posed.id);
        assert!(
            newest <= last && (lost > 0.0 || newest == last),
            "{newest:?}"
        );
    }
}

#[test]
fn poses_are_bounded_and_only_the_players() {
    let mut world = World::new(18, SecondPlayer::TakeOver);
    let first = world.connect(&Device::new(1, Role::Player));
    world.rest(ms(100));
    assert_eq!(world.posed(), None);
    world.step("many poses at once: the newest arrives half a millisecond later");
    for i in 0..100_u16 {
        world.pose(first, head(i.into()));
    }
    assert_eq!(world.posed().map(|p| p.pose), Some(head(0.0)));
    world.rest(ms(1));
    let (pose, id) = world.posed().map(|p| (p.pose, p.id)).expect("there is one");
    assert_eq!((pose, id), (head(99.0), PoseId(2)), "and no other did");
    let observer = world.connect(&Device::new(2, Role::Observer));
    world.pose(observer, head(7.0));
    world.rest(ms(10));
    assert_eq!(world.posed().map(|p| p.pose), Some(head(99.0)));
    world.step("another player");
    let mut device = Device::new(3, Role::Player);
    device.take_over = true;
    let second = world.connect(&device);
    world.rest(ms(100));
    assert_eq!(world.posed(), None, "it has sent no pose yet");
    world.pose(first, head(1.0));
    world.pose(second, head(2.0));
    world.rest(ms(10));
    assert_eq!(world.posed().map(|p| p.pose), Some(head(2.0)));
    world.goodbye(second);
    world.rest(ms(1));
    assert_eq!(world.posed(), None);
}

#[test]
fn pointer_shape_and_position_arrive_despite_losses() {
    let mut world = World::new(12, SecondPlayer::Refuse);
    let player = world.connect(&Device::new(1, Role::Player).behind(&loss(0.2)));
    world.frames(30);
    world.step("an animated pointer: more shapes than the link carries");
    let shape = |n: u32| (0..64 * 64).map(|i| i * n).collect::<Vec<u32>>();
    for n in 1..=50 {
        world.cursor_shape(CursorShape {
            size: Size::new(64, 64),
            hot: (1, 2),
            argb: shape(n),
        });
        world.cursor_moved((n as u16, 7));
        world.rest(ms(20));
    }
    world.rest(Duration::from_secs(3));
    let shapes = world
        .events_of(player)
        .iter()
        .filter_map(|event| match event {
            ClientEvent::CursorShape { argb, .. } => Some(argb),
            _ => None,
        });
    let shapes: Vec<_> = shapes.collect();
    assert_eq!(shapes.last(), Some(&&shape(50)), "the latest arrived");
    assert!(shapes.len() > 5, "{}", shapes.len());
    let place = |event: &&ClientEvent| matches!(event, ClientEvent::CursorMoved(_));
    let last = world.events_of(player).iter().rfind(place);
    assert_eq!(last, Some(&ClientEvent::CursorMoved(Some((50, 7)))));
}

#[test]
fn a_hidden_source_and_its_return_are_announced() {
    let mut world = World::new(14, SecondPlayer::Observe);
    let player = world.connect(&Device::new(1, Role::Player).behind(&loss(0.2)));
    world.frames(5);
    world.source_shown(false);
    world.rest(Duration::from_secs(2));
    let late = world.connect(&Device::new(2, Role::Observer).behind(&loss(0.2)));
    world.rest(Duration::from_secs(2));
    world.source_shown(true);
    world.source_shown(true);
    world.rest(Duration::from_secs(2));
    for client in [player, late] {
        let reported = world
            .events_of(client)
            .iter()
            .filter_map(|event| match event {
                ClientEvent::SourceShown(shown) => Some(*shown),
                _ => None,
            });
        assert_eq!(reported.collect::<Vec<_>>(), [false, true]);
    }
}

#[test]
fn motion_to_photon_is_correct_despite_clock_drift() {
    for ppm in [-50, 0, 50] {
        let mut world = World::new(13, SecondPlayer::Refuse);
        let mut device = Device::new(1, Role::Player).behind(&loss(0.01));
        device.clock.ppm = ppm;
        let player = world.connect(&device);
        world.frames(5);
        for i in 0..100 {
            world.input(player, InputEvent::PointerRelative { dx: i, dy: 0 });
            world.frames(2);
        }
        let motion = world.machine(player).shown.iter().filter_map(|s| s.motion);
        let motion: Vec<_> = motion.collect();
        assert!(motion.len() > 80, "{}", motion.len());
        for (computed, truth) in motion {
            // A clock that runs fast measures too long a time. This error cannot be corrected.
            let drift = truth * 50 / 1_000_000;
            assert!(computed.abs_diff(truth) <= Duration::from_micros(1) + drift);
            assert!(truth >= ms(3), "a link of 3 ms each way was between");
        }
    }
}

/// Reports use little of the link's capacity, regardless of the number in flight, and no report is lost permanently.
#[test]
fn reports_take_little_at_any_distance() {
    for (delay, lost, most) in [
        (1, 0.0, 60),
        (300, 0.0, 120),
        (300, 0.05, 120),
        (300, 0.3, 180),
    ] {
        let mut world = World::new(8, SecondPlayer::Refuse);
        let link = |loss| Impairment {
            delay: ms(delay),
            loss,
            ..Impairment::default()
        };
        let device = Device {
            up: link(lost).into(),
            ..Device::new(1, Role::Player).behind(&link(0.0))
        };
        let player = world.connect(&device);
        world.rest(Duration::from_secs(3));
        let before = world.upstream(player).sent_bytes;
        world.frames(600);
        let bytes = world.upstream(player).sent_bytes - before;
        world.rest(Duration::from_secs(4));
        world.check_conservation(player);
        let kbps = bytes * 8 / 10_000;
        world.step(&format!("{delay} ms, {lost} lost: {kbps} kb/s"));
        assert!(kbps <= most, "{delay} ms, {lost} lost: {kbps} kb/s");
        let mut known: Vec<_> = world.records_of(player).to_vec();
        known.retain(|r| r.outcome == Outcome::Displayed(Fidelity::Complete));
        assert!(known.len() >= 590, "{} of 600 are known", known.len());
    }
}

#[test]
fn a_tap_with_a_late_release_does_not_repeat() {
    let mut world = World::new(17, SecondPlayer::Refuse);
    let player = world.connect(&Device::new(1, Role::Player));
    world.rest(ms(500));
    world.step("a tap with a release delayed by the link");
    world.input(player, key(14, true));
    world.rest(ms(10));
    world.set_link_down(player, true);
    let stopped_at = world.now();
    world.input(player, key(14, false));
    world.rest(ms(350));
    let [(false, at)] = world.repeats[..] else {
        panic!("{:?}", world.repeats);
    };
    assert!(
        at.since(stopped_at) <= ms(100),
        "{at:?}, dead since {stopped_at:?}"
    );
    world.set_link_down(player, false);
    world.rest(ms(500));
    let injected: Vec<_> = world.injected.iter().map(|(_, event)| *event).collect();
    assert_eq!(injected, [key(14, true), key(14, false)]);
    assert_eq!(world.repeats.len(), 2, "and again: {:?}", world.repeats);
    assert_eq!(world.released, []);
}

#[test]
fn a_held_key_repeats_over_a_still_picture_and_a_bad_link() {
    for (seed, link) in [(18, loss(0.0)), (19, loss(0.1))] {
        let mut world = World::new(seed, SecondPlayer::Refuse);
        let player = world.connect(&Device {
            up: ImpairmentSchedule::from(link.clone()),
            down: ImpairmentSchedule::from(link),
            ..Device::new(1, Role::Player)
        });
        world.rest(ms(500));
        world.input(player, key(108, true));
        let before = world.upstream(player);
        world.rest(ms(3000));
        assert_eq!(world.repeats, [], "nothing is drawn, and the key repeats");
        world.input(player, key(108, false));
        world.rest(ms(500));
        // When no key is pressed any more, the client sends few datagrams again.
        let holding = world.upstream(player);
        world.rest(ms(3000));
        let idle = world.upstream(player);
        let (held, rest) = (holding.sent - before.sent, idle.sent - holding.sent);
        assert!(held >= 100 && rest <= 20, "{held} and {rest}");
    }
}
