//! Losses that the host answers with intra refreshes. Exactly the frames from a recovery point to the next loss count
//! as complete. FEC and retransmission are disabled, so that losses occur.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the harness keeps it"
)]
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::trace::Fidelity;
use openuvr_sim::link::Impairment;
use openuvr_sim::world::{Device, World};

/// Number of frames that a refresh needs to cross the picture, not counting its first frame.
const CLEAN_AFTER: u16 = 29;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn world(seed: u64) -> World {
    let mut world = World::new(seed, SecondPlayer::Observe);
    world.use_intra_refreshes(CLEAN_AFTER);
    world.parity = false;
    world.resend = false;
    world
}

/// Complete frames at a client, in order.
fn whole(world: &World, client: usize) -> Vec<u32> {
    let shown = world.machine(client).shown.iter();
    let whole = shown.filter(|s| s.fidelity == Fidelity::Complete);
    whole.map(|s| s.frame.0).collect()
}

/// The frames that must be complete, computed from the losses and the starts of the refreshes.
fn expected(world: &World, client: usize) -> Vec<u32> {
    let machine = world.machine(client);
    let captured = world.captured_for(client).iter();
    let frames = captured.map(|frame| frame.0).max().unwrap_or(0);
    let mut clean_from = None;
    let mut expected = Vec::new();
    for frame in 1..=frames {
        let shown = machine.shown.iter().find(|s| s.frame.0 == frame);
        let refresh = world
            .refreshes_sent
            .iter()
            .find(|(begin, _)| begin.0 == frame);
        if shown.is_none_or(|s| s.fidelity == Fidelity::Concealed) {
            clean_from = None;
        } else if shown.is_some_and(|s| s.key_frame) {
            clean_from = Some(frame);
        } else if let Some((begin, after)) = refresh {
            let clean = begin.0 + u32::from(*after);
            clean_from = clean_from.map_or(Some(clean), |before: u32| Some(before.min(clean)));
        }
        if clean_from.is_some_and(|clean| frame >= clean) {
            expected.push(frame);
        }
    }
    expected
}

#[test]
fn frames_after_a_recovery_point_are_complete() {
    let mut world = world(5);
    let player = world.connect(&Device::new(1, Role::Player).behind(&Impairment {
        delay: ms(20),
        ..Impairment::default()
    }));
    world.rest(ms(300));
    world.frames(30);
    world.set_downstream_lost(player, true);
    world.frames(2);
    world.set_downstream_lost(player, false);
    world.frames(90);
    world.rest(ms(500));
    world.check_conservation(player);
    let [(begin, after)] = world.refreshes_sent[..] else {
        panic!("one loss, one refresh: {:?}", world.refreshes_sent);
    };
    // The client detects the loss when it receives the next frame, which refers to a lost frame. The host learns of it
    // half a round trip later.
    assert!((33..=37).contains(&begin.0), "{begin:?}");
    let clean = begin.0 + u32::from(after);
    let lost = whole(&world, player)
        .windows(2)
        .find(|w| w[1] != w[0] + 1)
        .map(<[u32]>::to_vec);
    assert_eq!(lost.map(|gap| gap[1]), Some(clean));
    assert_eq!(whole(&world, player), expected(&world, player));
    assert_eq!(world.key_frames_sent.len(), 1);
    assert!(!world.machine(player).is_broken());
}

/// Streams for half a minute over a link with this loss.
fn half_a_minute(mut world: World, loss: f64) -> (World, usize) {
    world.parity = false;
    world.resend = false;
    let link = Impairment {
        loss,
        delay: ms(5),
        ..Impairment::default()
    };
    let player = world.connect(&Device::new(1, Role::Player).behind(&link));
    world.rest(ms(300));
    world.frames(1800);
    world.rest(Duration::from_secs(2));
    world.check_conservation(player);
    (world, player)
}

#[test]
fn frames_are_complete_exactly_after_recovery_points() {
    for (seed, loss) in [(1, 0.0002), (2, 0.001), (3, 0.003), (4, 0.02)] {
        let (world, player) = half_a_minute(world(seed), loss);
        let whole = whole(&world, player);
        assert_eq!(whole, expected(&world, player), "loss {loss}");
        let (refreshes, keys) = (world.refreshes_sent.len(), world.key_frames_sent.len());
        let (other, client) = half_a_minute(World::new(seed, SecondPlayer::Observe), loss);
        let by_keys = self::whole(&other, client).len();
        eprintln!(
            "loss {loss}: {} whole, {refreshes} refreshes, {keys} key frames; {by_keys} whole with {} key \
             frames alone",
            whole.len(),
            other.key_frames_sent.len()
        );
        assert!(refreshes > 0);
        // If losses are rare, each refresh completes before the next loss. Otherwise, key frames are sent.
        assert_eq!(keys == 1, loss < 0.0005, "loss {loss}");
        assert!(
            by_keys > whole.len(),
            "a key frame completes in one frame, a refresh in {CLEAN_AFTER}"
        );
    }
}

#[test]
fn a_late_client_gets_a_key_frame_instead_of_a_refresh() {
    let mut world = world(9);
    let player = world.connect(&Device::new(1, Role::Player));
    world.rest(ms(300));
    world.frames(20);
    world.set_downstream_lost(player, true);
    world.frames(1);
    world.set_downstream_lost(player, false);
    world.frames(10);
    let observer = world.connect(&Device::new(2, Role::Observer));
    world.frames(60);
    world.rest(ms(500));
    let [_, (key, _)] = world.key_frames_sent[..] else {
        panic!("{:?}", world.key_frames_sent);
    };
    assert_eq!(world.refreshes_sent.len(), 1);
    for client in [player, observer] {
        let first = whole(&world, client).into_iter().find(|frame| *frame > 21);
        assert_eq!(first, Some(key.0), "client {client}");
        let from_there = whole(&world, client)
            .into_iter()
            .filter(|frame| *frame >= key.0);
        assert!(from_there.eq(key.0..=91), "client {client}");
    }
}
