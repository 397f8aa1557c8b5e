//! Runs over 20 Mb/s with 10 ms in each direction.

use std::time::Duration;

use openuvr_proto::send::congestion::Range;
use openuvr_proto::units::Bitrate;
use openuvr_sim::aqm::Discipline;
use openuvr_sim::flows;

use super::controller::Kind;
use super::figures::{Figures, Verdict, fair_rate, jain, verdicts};
use super::run::{Setting, run};

fn setting(controller: Kind, discipline: Discipline, competitors: &[flows::Kind]) -> Setting {
    Setting {
        controller,
        discipline,
        rate: Bitrate::from_mbps(20),
        one_way: Duration::from_millis(10),
        queue: Duration::from_millis(100),
        competitors: competitors.to_vec(),
        range: Range {
            min: Bitrate(500_000),
            start: Bitrate::from_mbps(4),
            max: Bitrate::from_mbps(20),
        },
        fps: 60.0,
        settling: Duration::from_secs(5),
        lasting: Duration::from_secs(10),
        seed: 1,
    }
}

fn figures(setting: &Setting) -> Figures {
    let observed = run(setting);
    Figures::of(setting, &observed, &observed)
}

/// At 4 Mb/s, a frame has 8 slices of 1042 bytes, and the last slice is sent 2.75 ms after the capture.
#[test]
fn a_slow_stream_alone_takes_the_time_of_the_path() {
    for (name, discipline) in Discipline::ALL {
        let figures = figures(&setting(Kind::Fixed, discipline, &[]));
        let p50 = figures.p50_ms.unwrap();
        assert!((12.75..16.0).contains(&p50), "{name}: {p50} ms");
        assert!(
            (59.7..60.1).contains(&figures.complete_per_second),
            "{figures:?}"
        );
        assert_eq!((figures.marked, figures.dropped), (0, 0), "{name}");
        assert!((3.9..4.1).contains(&figures.mbps), "{figures:?}");
    }
}

#[test]
fn every_controller_uses_an_empty_link_and_keeps_its_frames() {
    for (name, kind) in Kind::ALL {
        if kind == Kind::Fixed {
            continue;
        }
        let figures = figures(&setting(kind, Discipline::DualPi2, &[]));
        assert!(figures.mbps > 2.0, "{name}: {figures:?}");
        assert!(figures.complete_per_second > 30.0, "{name}: {figures:?}");
    }
}

#[test]
fn every_controller_survives_every_queue_beside_others() {
    let competitors = [flows::Kind::Cubic, flows::Kind::Prague];
    for (name, kind) in Kind::ALL {
        for (aqm, discipline) in Discipline::ALL {
            let setting = setting(kind, discipline, &competitors);
            let observed = run(&setting);
            let figures = Figures::of(&setting, &observed, &observed);
            assert!(
                figures.complete_per_second > 5.0,
                "{name} {aqm}: {figures:?}"
            );
            assert!(figures.used <= 1.02, "{name} {aqm}: {figures:?}");
            assert!(figures.jain <= 1.0 + 1e-9, "{name} {aqm}: {figures:?}");
            // A run lasts 15 s and has ten points per second.
            assert!(observed.series.len() >= 149, "{}", observed.series.len());
            let due = observed.totals.due;
            assert!((599..=601).contains(&due), "{due}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let setting = setting(Kind::Own, Discipline::Pie, &[flows::Kind::Bbr]);
    let (one, two) = (run(&setting), run(&setting));
    assert_eq!(one.complete, two.complete);
    assert_eq!(one.series, two.series);
    let other = run(&Setting { seed: 2, ..setting });
    assert_ne!(one.complete, other.complete);
}

#[test]
fn the_fair_rate_is_an_equal_part_or_the_maximum() {
    let mut setting = setting(Kind::Own, Discipline::Pie, &[flows::Kind::Bbr; 3]);
    assert_eq!(fair_rate(&setting), 5e6);
    setting.range.max = Bitrate::from_mbps(2);
    assert_eq!(fair_rate(&setting), 2e6);
    assert_eq!(jain(&[1.0, 1.0]), 1.0);
    assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-9);
}

/// Figures of a case, without a run.
fn case(controller: &str, aqm: &str, competitors: &[&str]) -> Figures {
    Figures {
        controller: controller.to_owned(),
        own: controller.starts_with("own"),
        l4s: controller.ends_with("l4s"),
        aqm: aqm.to_owned(),
        competitors: competitors.iter().map(|one| (*one).to_owned()).collect(),
        p50_ms: Some(15.0),
        p99_ms: Some(20.0),
        path_p99_ms: Some(18.0),
        complete_per_second: 60.0,
        skipped: 0.0,
        lost_per_second: 0.0,
        mbps: 6.0,
        fair_share: 0.9,
        competitors_mbps: vec![7.0; competitors.len()],
        jain: 1.0,
        used: 1.0,
        marked: 0,
        dropped: 0,
        series: None,
    }
}

fn met(figures: &[Figures]) -> Vec<Option<bool>> {
    verdicts(figures).iter().map(Verdict::is_met).collect()
}

#[test]
fn the_goals_of_l4s_can_fail() {
    let own = case("own-l4s", "dualpi2", &["cubic", "cubic"]);
    assert_eq!(met(std::slice::from_ref(&own)), [Some(true); 2]);
    let late = Figures {
        p99_ms: Some(23.1),
        ..own.clone()
    };
    assert_eq!(met(&[late]), [Some(false), Some(true)]);
    let none = Figures {
        p99_ms: None,
        ..own.clone()
    };
    assert_eq!(met(&[none]), [Some(false), Some(true)]);
    let slow = Figures {
        fair_share: 0.79,
        ..own
    };
    assert_eq!(met(&[slow]), [Some(true), Some(false)]);
    // The goal is that of OpenUVR's controller only.
    let other = case("scream-l4s", "dualpi2", &["cubic", "cubic"]);
    assert_eq!(met(&[other]), [None; 2]);
    assert!(met(&[case("own-l4s", "pie", &["cubic", "cubic"])]).is_empty());
}

#[test]
fn the_comparison_with_gcc_can_fail() {
    let gcc = case("gcc", "pie", &["cubic"]);
    let own = case("own", "pie", &["cubic"]);
    assert_eq!(met(&[own.clone(), gcc.clone()]), [Some(true); 3]);
    // Only the same case is compared.
    assert!(met(&[own.clone(), case("gcc", "pie", &[])]).is_empty());
    let late = Figures {
        p99_ms: Some(21.1),
        ..own.clone()
    };
    assert_eq!(
        met(&[late, gcc.clone()]),
        [Some(false), Some(true), Some(true)]
    );
    let incomplete = Figures {
        complete_per_second: 56.9,
        ..own.clone()
    };
    let want = [Some(true), Some(false), Some(true)];
    assert_eq!(met(&[incomplete, gcc.clone()]), want);
    let slow = Figures {
        fair_share: 0.85,
        ..own
    };
    assert_eq!(met(&[slow, gcc]), [Some(true), Some(true), Some(false)]);
}
