//! Sessions with several streams and views in the deterministic world: audio next to video, two
//! views, poses echoed in frames.
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

use std::time::Duration;

use openuvr_proto::client::ClientEvent;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::streams::AudioFormat;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::id::{FrameId, PoseId, ViewId};
use openuvr_proto::pose::Pose;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::Fidelity;
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::media::StreamKind;
use openuvr_proto::wire::video::{FieldOfView, View, Views};
use openuvr_sim::link::{Impairment, Queue};
use openuvr_sim::world::{Device, DisplayedFrame, Machine, World};

const RIGHT: ViewId = ViewId { stream: 0, view: 1 };
const SAMPLES: u64 = 120;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn link(delay: u64) -> Impairment {
    Impairment {
        delay: ms(delay),
        ..Impairment::default()
    }
}

/// Runs a player with audio behind `link` in both directions for ten seconds.
fn tone_over(seed: u64, link: &Impairment) -> (World, usize) {
    let mut world = World::new(seed, SecondPlayer::Refuse);
    let mut device = Device::new(1, Role::Player).behind(link);
    device.with_audio = true;
    let player = world.connect(&device);
    world.frames(600);
    (world, player)
}

/// Number of payloads that were sent after the client learned of the stream, but are neither played nor reported as
/// missing.
fn payloads_in_flight(world: &World, client: usize) -> u64 {
    let tone = &world.machine(client).received_tone;
    let known = tone.first.expect("a received sample") + tone.samples + tone.missing;
    world.played_to(client) - known / SAMPLES
}

#[test]
fn a_tone_arrives_sample_by_sample_on_a_good_link() {
    let (world, player) = tone_over(1, &link(3));
    let tone = &world.machine(player).received_tone;
    assert_eq!(tone.missing, 0);
    assert!(tone.samples > 9 * 48_000, "{}", tone.samples);
    assert!(payloads_in_flight(&world, player) <= 3);
    // A payload contains 2.5 ms of audio and is then in flight for 3 ms. The first payloads wait for the grant.
    assert!(
        tone.delays[10..]
            .iter()
            .all(|d| *d == Duration::from_micros(5500))
    );
    let granted = |event: &ClientEvent| match event {
        ClientEvent::Streams(grants) => Some(grants.clone()),
        _ => None,
    };
    let grants = world.events_of(player).iter().find_map(granted).unwrap();
    assert_eq!(grants.len(), 1);
    assert_eq!(grants[0].stream.kind, StreamKind::Audio);
    assert_eq!(grants[0].format, AudioFormat::Pcm as u8);
}

#[test]
fn a_tone_survives_loss_jitter_and_reordering() {
    for seed in 0..4 {
        let bad = Impairment {
            loss: 0.05,
            reorder: 0.02,
            reorder_by: ms(3),
            jitter: ms(4),
            ..link(5)
        };
        let (mut world, player) = tone_over(seed, &bad);
        let tone = &world.machine(player).received_tone;
        // Each payload is repeated until its residual loss is below 1 in 10 000. Initially, the loss rate of the link
        // is unknown.
        let gaps = tone.missing / SAMPLES;
        assert!(gaps <= 8, "seed {seed}: {gaps} payloads are missing");
        assert!(tone.samples > 9 * 48_000, "{}", tone.samples);
        assert!(payloads_in_flight(&world, player) <= 16);
        assert!(tone.longest_gap <= 2, "{}", tone.longest_gap);
        let repaired = tone.samples + tone.missing;
        assert_eq!(repaired % SAMPLES, 0);
        world.rest(ms(500));
        world.check_conservation(player);
    }
}

#[test]
fn audio_and_second_views_are_sent_only_on_request() {
    let mut world = World::new(1, SecondPlayer::Observe);
    world.show_two_views();
    let plain = world.connect(&Device::new(1, Role::Player).behind(&link(3)));
    let mut with_audio = Device::new(2, Role::Observer).behind(&link(3));
    with_audio.with_audio = true;
    let with_audio = world.connect(&with_audio);
    world.frames(60);
    world.rest(ms(300));
    assert_eq!(world.machine(plain).received_tone.samples, 0);
    assert_eq!(world.played_to(plain), 0);
    assert!(world.machine(with_audio).received_tone.samples > 40_000);
    for client in [plain, with_audio] {
        let shown = &world.machine(client).shown;
        assert!(shown.iter().all(|shown| shown.view == ViewId::FIRST));
        assert_eq!(world.captured_of(client, RIGHT), []);
        world.check_conservation(client);
    }
    let streams = |event: &ClientEvent| matches!(event, ClientEvent::Streams(_));
    assert!(!world.events_of(plain).iter().any(streams));
}

/// Display time of each frame.
fn times(machine: &Machine) -> Vec<(FrameId, Instant)> {
    machine.shown.iter().map(|s| (s.frame, s.at)).collect()
}

#[test]
fn sound_delays_no_frame() {
    let shown = |link: &Impairment, with_audio: bool| {
        let mut world = World::new(3, SecondPlayer::Refuse);
        let mut device = Device::new(1, Role::Player).behind(link);
        device.with_audio = with_audio;
        let player = world.connect(&device);
        world.frames(300);
        world.rest(ms(300));
        let tone = world.machine(player).received_tone.samples;
        assert_eq!(tone > 0, with_audio);
        assert_eq!(world.machine(player).received_tone.missing, 0);
        times(world.machine(player))
    };
    // On a link with capacity for both audio and video, audio delays no frame.
    let roomy = link(3);
    assert_eq!(shown(&roomy, true), shown(&roomy, false));
    // On a link of 30 Mb/s, audio and video datagrams share the queue. A frame of 20 kB waits for the three audio
    // datagrams that are interleaved with it (560 bytes each, 0.15 ms). A frame next to a key frame waits longer.
    let narrow = Impairment {
        rate: Some(Bitrate::from_mbps(30)),
        queue: Queue::Bytes(1 << 20),
        ..link(3)
    };
    let (with, without) = (shown(&narrow, true), shown(&narrow, false));
    assert_eq!(with.len(), without.len());
    for (n, ((frame, with), (same, without))) in with.into_iter().zip(without).enumerate() {
        assert_eq!(frame, same);
        let later = with.0 - without.0;
        let bound = if n < 4 { 2_500_000 } else { 750_000 };
        assert!((0..=bound).contains(&later), "{frame:?}: {later} ns");
    }
}

/// Connects a player with two views behind `link`, and draws `frames` frames of each view.
fn two_eyes(seed: u64, link: &Impairment, frames: u32) -> (World, usize) {
    let mut world = World::new(seed, SecondPlayer::Refuse);
    world.show_two_views();
    let mut device = Device::new(1, Role::Player).behind(link);
    device.two_views = true;
    let player = world.connect(&device);
    // The second view starts once it is granted.
    world.rest(ms(100));
    world.frames(frames);
    world.rest(ms(500));
    (world, player)
}

fn of(machine: &Machine, view: ViewId) -> impl Iterator<Item = &DisplayedFrame> {
    machine.shown.iter().filter(move |shown| shown.view == view)
}

#[test]
fn two_views_of_a_stream_are_shown_side_by_side() {
    let (world, player) = two_eyes(1, &link(3), 120);
    let machine = world.machine(player);
    assert_eq!(machine.lost, []);
    for view in [ViewId::FIRST, RIGHT] {
        let whole = of(machine, view).filter(|s| s.fidelity == Fidelity::Complete);
        assert_eq!(whole.count(), 120, "{view:?}");
        let records = world.records_of(player).iter();
        let reported = records.filter(|r| r.view == view && r.outcome.is_complete());
        assert_eq!(reported.count(), 120, "{view:?}");
        assert_eq!(world.captured_of(player, view).len(), 120);
    }
    assert_eq!(world.key_frames_sent.len(), 2);
    world.check_conservation(player);
}

#[test]
fn each_view_is_repaired_and_reported_separately() {
    for seed in 0..4 {
        let lossy = Impairment {
            loss: 0.03,
            reorder: 0.01,
            reorder_by: ms(1),
            ..link(3)
        };
        let (world, player) = two_eyes(seed, &lossy, 300);
        let machine = world.machine(player);
        assert!(!machine.is_broken(), "seed {seed}: both views heal");
        for view in [ViewId::FIRST, RIGHT] {
            let whole = of(machine, view).filter(|s| s.fidelity == Fidelity::Complete);
            let whole = whole.count();
            assert!(whole > 285, "seed {seed}, {view:?}: {whole} of 300");
        }
        world.check_conservation(player);
    }
}

#[test]
fn frames_name_the_pose_they_were_drawn_with() {
    let mut world = World::new(1, SecondPlayer::Observe);
    world.draws_poses = true;
    let player = world.connect(&Device::new(1, Role::Player).behind(&link(3)));
    let observer = world.connect(&Device::new(2, Role::Observer).behind(&link(3)));
    world.frames(5);
    let poses: Vec<Pose> = (0..20_u8)
        .map(|n| Pose::new([f32::from(n), 1.7, 0.0], [0.0, 0.0, 0.0, 1.0]).unwrap())
        .collect();
    let mut ids = Vec::new();
    for pose in &poses {
        ids.push(world.pose(player, *pose));
        world.frames(2);
    }
    world.rest(ms(300));
    let shown = &world.machine(player).shown;
    assert!(
        shown[..5].iter().all(|s| s.pose.is_none()),
        "before the first"
    );
    let drawn: Vec<_> = shown.iter().filter_map(|s| Some((s, s.pose?))).collect();
    assert!(drawn.len() >= 38, "{}", drawn.len());
    for (shown, echo) in drawn {
        let place = ids.iter().position(|id| *id == echo.pose).unwrap();
        assert_eq!(echo.at, poses[place]);
        assert_eq!(echo.display, Some(PeerInstant(shown.captured.0)));
        // The client's report of the frame reached the host's records.
        let records = world.records_of(player).iter();
        let record = records.rev().find(|r| r.frame == shown.frame).unwrap();
        assert_eq!(record.pose, Some(echo.pose));
    }
    assert_eq!(
        shown.last().unwrap().pose.map(|p| p.pose),
        ids.last().copied()
    );
    assert_ne!(ids[0], PoseId::default());
    let eye = View {
        pose: Pose::new([0.0, 1.7, 0.0], [0.0, 0.0, 0.0, 1.0]).unwrap(),
        fov: FieldOfView::new(-0.75, 0.5, 0.625, -0.875).unwrap(),
    };
    let views = Some(Views::one(eye));
    assert!(shown.iter().all(|s| s.views == views));
    let watched = &world.machine(observer).shown;
    assert!(
        watched.iter().all(|s| s.pose.is_none()),
        "numbers of another"
    );
    assert!(
        watched.iter().all(|s| s.views == views),
        "observers see from the same pose"
    );
}
