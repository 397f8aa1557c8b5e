//! Ten seconds of video over each kind of link. The table is compared with `snapshots/latency_table.txt`, so that a
//! change of behaviour appears as a readable difference. Rewrite the file with `UPDATE_SNAPSHOTS=1 cargo test -p
//! openuvr-sim --test latency_table`.
//!
//! Latency is from capture to display of complete frames, on the world's clock.

use std::fmt::Write as _;
use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::id::FrameId;
use openuvr_proto::send::key_frame::hold_off;
use openuvr_proto::trace::{DropCause, Fidelity, FrameRecord, Outcome};
use openuvr_proto::units::Bitrate;
use openuvr_sim::link::{BurstLoss, Impairment};
use openuvr_sim::world::{Device, FRAME_INTERVAL, World};

const FRAMES: u32 = 600;
const SNAPSHOT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/snapshots/latency_table.txt"
);

/// The links, with their names in the table. All but the first have a delay of 1 ms each way, unless the name states
/// another delay.
fn links() -> Vec<(&'static str, Impairment)> {
    let near = Impairment {
        delay: ms(1),
        ..Impairment::default()
    };
    let lossy = |loss| Impairment {
        loss,
        ..near.clone()
    };
    vec![
        ("perfect", Impairment::default()),
        ("1 ms", near.clone()),
        ("loss 1 %", lossy(0.01)),
        ("loss 5 %", lossy(0.05)),
        ("loss 20 %", lossy(0.2)),
        (
            "bursts of 10",
            Impairment {
                burst: Some(BurstLoss {
                    enter: 0.001,
                    leave: 0.1,
                    loss: 1.0,
                }),
                ..near.clone()
            },
        ),
        (
            "outages of 100",
            Impairment {
                burst: Some(BurstLoss {
                    enter: 0.0005,
                    leave: 0.01,
                    loss: 1.0,
                }),
                ..near.clone()
            },
        ),
        (
            "reordering 2 ms",
            Impairment {
                reorder: 0.1,
                reorder_by: ms(2),
                ..near.clone()
            },
        ),
        (
            "duplication 10 %",
            Impairment {
                duplicate: 0.1,
                ..near.clone()
            },
        ),
        (
            "50 ms, jitter 10 ms",
            Impairment {
                delay: ms(50),
                jitter: ms(10),
                ..near.clone()
            },
        ),
        (
            "50 ms, loss 1 %",
            Impairment {
                delay: ms(50),
                ..lossy(0.01)
            },
        ),
        (
            "20 Mb/s",
            Impairment {
                rate: Some(Bitrate::from_mbps(20)),
                ..near
            },
        ),
    ]
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Runs ten seconds over one link. Returns a row of the table.
fn row(name: &str, link: &Impairment) -> String {
    let mut world = World::new(42, SecondPlayer::Refuse);
    let player = world.connect(&Device::new(1, Role::Player).behind(link));
    world.step(name);
    world.rest(ms(300));
    world.frames(FRAMES);
    world.step("nothing moves");
    world.rest(Duration::from_secs(3));
    world.check_conservation(player);

    let once = |frame: &FrameId| !world.repeated.contains(frame);
    let records = world.records_of(player).iter();
    let records: Vec<_> = records.filter(|r| once(&r.frame)).collect();
    assert_eq!(records.len(), FRAMES as usize);
    let count = |wanted: &dyn Fn(Outcome) -> bool| -> usize {
        records.iter().filter(|r| wanted(r.outcome)).count()
    };
    let dropped = |cause| move |o| matches!(o, Outcome::Dropped { why, .. } if why == cause);
    assert_eq!(count(&dropped(DropCause::Unreported)), 0, "{name}");
    let [whole, concealed, tainted] = [Fidelity::Complete, Fidelity::Concealed, Fidelity::Tainted]
        .map(|fidelity| count(&|o| o == Outcome::Displayed(fidelity)));
    let lost = FRAMES as usize - whole - concealed - tainted;

    // The host's records agree with the client's.
    let shown = &world.machine(player).shown;
    let new = shown.iter().filter(|s| once(&s.frame));
    assert_eq!(new.clone().count(), whole + concealed + tainted, "{name}");
    // Two key frames are never closer than the hold-off for the shortest round trip.
    let floor = hold_off(link.delay * 2, FRAME_INTERVAL);
    for pair in world.key_frames_sent.windows(2) {
        assert!(pair[1].1.since(pair[0].1) >= floor, "{name}: {pair:?}");
    }
    // Each loss is repaired, so a complete key frame ends each run of incomplete frames.
    let mut broken = false;
    for frame in shown {
        let whole = frame.fidelity == Fidelity::Complete;
        assert!(!broken || !whole || frame.key_frame, "{name}: {frame:?}");
        broken = !whole;
    }

    let delay = |s: &openuvr_sim::world::DisplayedFrame| s.at.since(s.captured);
    let whole_shown = new.filter(|s| s.fidelity == Fidelity::Complete);
    let mut delays: Vec<_> = whole_shown.map(delay).collect();
    delays.sort();
    let at = |percent: usize| match delays.len() {
        0 => "-".to_owned(),
        n => format!("{:.2}", delays[(n - 1) * percent / 100].as_secs_f64() * 1e3),
    };
    let sum = |count: &dyn Fn(&FrameRecord) -> u32| -> u32 {
        world.records_of(player).iter().map(count).sum()
    };
    let repair = format!(
        "{:>8} {:>9} {:>6}",
        sum(&|r| r.cost.parity),
        sum(&|r| r.repaired.into()),
        sum(&|r| r.resent.into()),
    );
    format!(
        "{name:<20} {whole:>5} {concealed:>9} {tainted:>7} {lost:>4} {:>10} {:>7} {:>7} {:>7} {repair}\n",
        world.key_frames_sent.len(),
        at(50),
        at(99),
        at(100),
    )
}

#[test]
fn the_table_is_as_it_was() {
    let mut table = String::from(
        "600 frames              frames that were shown       key    capture to display, ms         \
         datagrams\n\
         link                 whole concealed tainted lost     frames     p50     p99     max      \
         FEC recovered   retx\n",
    );
    for (name, link) in links() {
        let _ = write!(table, "{}", row(name, &link));
    }
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|v| v == "1") {
        std::fs::write(SNAPSHOT, &table).unwrap();
    }
    let known = std::fs::read_to_string(SNAPSHOT).unwrap_or_default();
    assert!(
        table == known,
        "the table changed; if that is intended, rewrite it with UPDATE_SNAPSHOTS=1. Now:\n{table}\nbefore:\n{known}"
    );
}
