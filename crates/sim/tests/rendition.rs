//! The rendition on the virtual clock, with sessions and links. Each test checks a behaviour that the host's media
//! thread and this world must have in common.
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::id::FrameId;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::trace::{DropCause, Outcome, Stage};
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_sim::link::{Impairment, Queue};
use openuvr_sim::schedule::ImpairmentSchedule;
use openuvr_sim::world::{Device, FRAME_INTERVAL, World};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A link with this rate and this queue.
fn narrow(mbps: u64, bytes: u64) -> Impairment {
    Impairment {
        delay: ms(2),
        rate: Some(Bitrate::from_mbps(mbps)),
        queue: Queue::Bytes(bytes as usize),
        ..Impairment::default()
    }
}

/// A world with an adaptive bitrate of up to 20 Mb/s.
fn adaptive(seed: u64, second: SecondPlayer) -> World {
    let mut world = World::new(seed, second);
    let max = Bitrate::from_mbps(20);
    world.adapt(
        Range {
            min: Bitrate(500_000),
            start: max,
            max,
        },
        1e7,
    );
    world
}

/// Frames dropped at the host for this reason, in order.
fn dropped(world: &World, client: usize, cause: DropCause) -> Vec<FrameId> {
    let records = world.records_of(client).iter();
    let by = |o: Outcome| matches!(o, Outcome::Dropped { why, .. } if why == cause);
    records.filter(|r| by(r.outcome)).map(|r| r.frame).collect()
}

/// A picture skipped because of congestion is sent later, even without motion. Otherwise, a client would keep an older
/// picture.
#[test]
fn the_last_skipped_picture_arrives() {
    let mut held_back_last = 0;
    for frames in 20..60 {
        let mut world = adaptive(1, SecondPlayer::Refuse);
        let schedule =
            ImpairmentSchedule::from(narrow(100, 1 << 20)).then(ms(300), narrow(4, 1 << 20));
        let player = world.connect(&Device::new(1, Role::Player).over(schedule));
        world.frames(frames);
        let held = |world: &World| {
            dropped(world, player, DropCause::CongestionSkipped)
                .last()
                .copied()
        };
        let newest = world.captured_for(player).last().copied();
        held_back_last += u32::from(newest.is_some() && held(&world) == newest);
        world.step("nothing moves");
        world.rest(Duration::from_secs(3));
        let newest = world.captured_for(player).last().copied();
        let shown = world.machine(player).shown.last().map(|shown| shown.frame);
        assert_eq!(shown, newest, "after {frames} frames");
        assert_ne!(held(&world), newest);
        world.check_conservation(player);
    }
    assert!(
        held_back_last > 5,
        "the last picture was skipped {held_back_last} times"
    );
}

/// A frame counts only once against the rate, regardless of the number of subscribers.
#[test]
fn observers_cost_the_player_no_quality() {
    let coded = |observers: u8| {
        let mut world = adaptive(2, SecondPlayer::Refuse);
        let player = world.connect(&Device::new(1, Role::Player).behind(&narrow(100, 1 << 20)));
        for number in 0..observers {
            world.connect(&Device::new(2 + number, Role::Observer));
        }
        world.rest(ms(100));
        world.play(Duration::from_secs(5));
        let records = world.records_of(player).iter();
        let coded = records.map(|r| (r.frame, r.cost.key_frame, r.cost.qp));
        coded.collect::<Vec<_>>()
    };
    let alone = coded(0);
    assert!(alone.len() > 290, "{}", alone.len());
    assert_eq!(coded(2), alone);
}

/// A frame that an observer cannot use yet also has an outcome for this observer.
#[test]
fn frames_before_an_observers_key_frame_are_dropped() {
    let mut world = World::new(3, SecondPlayer::Refuse);
    let player = world.connect(&Device::new(1, Role::Player));
    world.frames(60);
    let first = world.connect(&Device::new(2, Role::Observer));
    world.frames(30);
    world.step("the budget for observers is spent");
    let second = world.connect(&Device::new(3, Role::Observer));
    world.frames(150);
    world.rest(ms(500));
    for client in [player, first, second] {
        world.check_conservation(client);
    }
    let awaited = |client| dropped(&world, client, DropCause::AwaitingKeyFrame);
    assert_eq!(awaited(player), []);
    assert_eq!(awaited(first), []);
    let awaited = awaited(second);
    // The observer waits for a second and a half, which is 90 frames at 60 frames/s.
    assert_eq!(awaited.first(), Some(&FrameId(91)));
    assert!((85..=95).contains(&awaited.len()), "{}", awaited.len());
    let began = world.machine(second).shown[0];
    assert!(began.key_frame);
    assert_eq!(awaited.last().map(|last| last.next()), Some(began.frame));
}

/// A picture does not echo input injected after its capture.
#[test]
fn a_frame_echoes_input_injected_before_its_capture() {
    let mut world = World::new(4, SecondPlayer::Refuse);
    let player = world.connect(&Device::new(1, Role::Player));
    for i in 0..20_u64 {
        world.frames(1);
        world.step("between the capture and the first slice, and after it");
        let captured = world.now() + FRAME_INTERVAL / 2;
        world.rest(FRAME_INTERVAL / 2);
        assert_eq!(world.now(), captured);
        world.play(Duration::from_micros(100 * i));
        world.input(player, InputEvent::PointerRelative { dx: 1, dy: 0 });
        world.rest(FRAME_INTERVAL * 2);
    }
    world.frames(1);
    world.rest(ms(100));
    let records = world.records_of(player);
    let echoes = records.iter().filter(|r| r.motion_to_photon.is_some());
    let echoes: Vec<_> = echoes.collect();
    assert_eq!(echoes.len(), 20);
    for record in echoes {
        let injected = record.host.at(Stage::InputInjected);
        assert!(injected <= record.host.at(Stage::Captured), "{record:?}");
        assert!(injected.is_some());
    }
}

/// Estimates of one player's link do not apply to the next player.
#[test]
fn the_next_players_rate_is_reset() {
    let mut world = adaptive(5, SecondPlayer::Refuse);
    let first = world.connect(&Device::new(1, Role::Player).behind(&narrow(3, 64 << 10)));
    world.play(Duration::from_secs(5));
    let sent = |world: &World, client| world.downstream(client).sent_bytes * 8 / 1000;
    assert!(sent(&world, first) < 5 * 5000, "it was followed down");
    world.goodbye(first);
    world.rest(ms(10));
    let second = world.connect(&Device::new(2, Role::Player).behind(&narrow(100, 1 << 20)));
    world.play(Duration::from_secs(1));
    let sent = sent(&world, second);
    assert!(sent > 15_000, "{sent} kb in the first second");
}

/// Datagrams are paced for the link of the player. The datagrams of an observer are not paced.
#[test]
fn an_observers_slices_do_not_wait_for_the_players_link() {
    let mut world = adaptive(6, SecondPlayer::Refuse);
    let schedule =
        ImpairmentSchedule::from(narrow(100, 1 << 20)).then(ms(500), narrow(3, 48 << 10));
    let player = world.connect(&Device::new(1, Role::Player).over(schedule));
    let observer = world.connect(&Device::new(2, Role::Observer));
    world.play(Duration::from_secs(3));
    world.step("key frames for new subscribers: more than the link takes at once");
    for _ in 0..4 {
        let comes = world.connect(&Device::new(3, Role::Observer));
        world.play(Duration::from_millis(2500));
        world.goodbye(comes);
    }
    world.rest(Duration::from_secs(1));
    let took = |client| {
        let records = world.records_of(client).iter();
        let last = |r: &openuvr_proto::trace::FrameRecord| {
            let (from, to) = (r.host.at(Stage::Captured)?, r.host.at(Stage::LastSent)?);
            Some(to.since(from))
        };
        records.filter_map(last).collect::<Vec<_>>()
    };
    // A frame is coded in 2.75 ms.
    let coded = Duration::from_micros(2750);
    assert!(took(observer).iter().all(|span| *span == coded));
    let paced = took(player).iter().filter(|span| **span > coded).count();
    assert!(paced > 1, "the player's were paced: {paced}");
    world.check_conservation(player);
    world.check_conservation(observer);
}

/// While something moves, the requested key frame is the next captured frame. An additional frame for each request
/// would fill even a link of twice the stream's rate with key frames.
#[test]
fn a_key_frame_replaces_a_moving_frame() {
    let mut world = World::new(7, SecondPlayer::Refuse);
    (world.parity, world.resend) = (false, false);
    let link = Impairment {
        loss: 0.01,
        ..narrow(20, 1 << 20)
    };
    let player = world.connect(&Device::new(1, Role::Player).behind(&link));
    world.rest(ms(100));
    world.frames(600);
    let keys = world.key_frames_sent.len();
    assert!(keys > 20, "{keys}");
    assert_eq!(world.captured_for(player).len(), 600);
    world.step("nothing moves: now it is sent only for the request");
    world.set_downstream_lost(player, true);
    world.frames(1);
    world.set_downstream_lost(player, false);
    let before = world.repeated.len();
    world.rest(ms(500));
    assert!(world.repeated.len() > before);
    world.check_conservation(player);
}

/// With a constant frame rate, the client gets as many frames of a still picture as of a moving one. A repetition shows
/// no input that was injected after its picture.
#[test]
fn a_constant_frame_rate_repeats_the_picture() {
    let mut world = World::new(8, SecondPlayer::Refuse);
    world.keep_frame_rate();
    let player = world.connect(&Device::new(1, Role::Player));
    world.rest(Duration::from_secs(1));
    assert_eq!(world.captured_for(player), [], "there is no picture yet");
    world.frames(60);
    assert_eq!(world.captured_for(player).len(), 60);
    assert!(world.repeated.is_empty(), "{:?}", world.repeated);
    world.step("nothing moves");
    world.input(player, InputEvent::PointerRelative { dx: 1, dy: 0 });
    world.rest(Duration::from_secs(2));
    let repeated = world.repeated.len();
    assert!((118..=121).contains(&repeated), "{repeated}");
    let marked = |world: &World| -> usize {
        let records = world.records_of(player).iter();
        records.filter(|record| record.cost.repeats).count()
    };
    let echoes = |world: &World| -> usize {
        let records = world.records_of(player).iter();
        records.filter(|r| r.motion_to_photon.is_some()).count()
    };
    world.step("a repetition shows no new input, the next picture does");
    assert_eq!(echoes(&world), 0);
    world.frames(1);
    world.rest(ms(100));
    assert_eq!(echoes(&world), 1);
    let shown = world.machine(player).shown.len();
    assert_eq!(shown, world.captured_for(player).len());
    assert_eq!(marked(&world), world.repeated.len());
    world.end(GoodbyeReason::SourceEnded);
    world.rest(ms(10));
    world.check_conservation(player);
}

/// A lost repetition is repaired like any other frame, and the stream keeps its rate.
#[test]
fn a_constant_frame_rate_survives_losses() {
    let mut world = World::new(9, SecondPlayer::Refuse);
    world.keep_frame_rate();
    let lossy = Impairment {
        delay: ms(2),
        loss: 0.05,
        ..Impairment::default()
    };
    let player = world.connect(&Device::new(1, Role::Player).behind(&lossy));
    world.rest(ms(500));
    world.frames(10);
    world.rest(Duration::from_secs(10));
    let captured = world.captured_for(player).len();
    assert!((605..=615).contains(&captured), "{captured}");
    let shown = world.machine(player).shown.len();
    assert!(shown >= 500, "{shown} of {captured}");
    world.end(GoodbyeReason::SourceEnded);
    world.rest(ms(10));
    world.check_conservation(player);
}
