use openuvr_testbed::stats::Summary;

use super::configuration::{FACTORS, configurations, cumulative_step, without_factor};
use super::rows::{Measured, Run};
use super::*;
use crate::baseline::OPTION;

fn run(configuration: &str, repetition: u32, p50: f64) -> Run {
    Run {
        configuration: configuration.to_owned(),
        repetition,
        link: Some("udp-gso".into()),
        latency_ms: Summary::of(&[p50]).unwrap(),
        drawn: 10,
        complete: 9,
        wire_mbps: None,
        cores: 0.3,
        other_cores: 0.0,
        steps: Vec::new(),
    }
}

#[test]
fn each_configuration_has_a_name_and_adds_one_factor() {
    let all = configurations();
    let names: std::collections::BTreeSet<_> = all.iter().map(|c| &c.name).collect();
    assert_eq!(names.len(), all.len());
    for (with, step) in all.iter().take(FACTORS.len() + 1).enumerate() {
        assert_eq!(step.without.len(), FACTORS.len() - with);
    }
    let conventional = all[0].host_words();
    let times = |word: &str| conventional.iter().filter(|w| *w == word).count();
    for factor in &FACTORS {
        for option in factor.without.iter().step_by(2) {
            assert_eq!(times(option), 1, "{option} once, or the host refuses it");
        }
    }
    let baselines = FACTORS.iter().filter_map(|factor| factor.baseline);
    assert!(baselines.clone().count() == 3 && times(OPTION) == 3);
    for baseline in baselines {
        assert_eq!(times(baseline.word()), 1);
    }
    assert!(
        all[FACTORS.len()].host_words() == ["--rate", "constant"],
        "ours is the default"
    );
    assert_eq!(all[0].client_words(), ["--realtime", "off"]);
    let waiting = all
        .iter()
        .filter(|one| one.host_words().contains(&"pacing=unity".to_owned()));
    let names = Vec::from_iter(waiting.map(|one| one.name.as_str()));
    assert_eq!(
        names,
        ["Unity's pacer"],
        "only this alternative has the pacer"
    );
}

#[test]
fn worth_is_clear_if_the_ranges_are_apart() {
    let ours = cumulative_step(FACTORS.len());
    let mut measured = Measured::default();
    for (repetition, (own, without)) in [(5.0, 9.0), (6.0, 7.0), (5.5, 8.0)].iter().enumerate() {
        let repetition = u32::try_from(repetition).unwrap();
        measured.runs.push(run(&ours, repetition, *own));
        measured
            .runs
            .push(run(&without_factor(0), repetition, *without));
        measured
            .runs
            .push(run(&without_factor(1), repetition, *own + 0.2));
    }
    measured
        .failed
        .insert("AF_XDP".into(), "no such device".into());
    // This configuration failed once and succeeded later.
    measured.failed.insert(ours.clone(), "a mishap".into());
    let rows = measured.leave_one_out();
    assert_eq!((rows[0].worth_ms, rows[0].clear), (Some(2.5), Some(true)));
    assert!((rows[1].worth_ms.unwrap() - 0.2).abs() < 1e-9);
    assert_eq!(rows[1].clear, Some(false));
    assert_eq!(rows[2].worth_ms, None, "not measured is not zero");
    assert_eq!(rows[0].complete, Some(0.9));
    let last = measured.cumulative().pop().unwrap();
    assert_eq!((last.runs, last.unavailable), (3, None));
    assert_eq!(last.link.as_deref(), Some("udp-gso"));
    let xdp = &measured.over_links()[4];
    assert_eq!(xdp.unavailable.as_deref(), Some("no such device"));
}

#[test]
fn the_reason_is_the_programs_own_line() {
    let text = "the host ended: exit status: 2\nerror: invalid value 'raw'\n\nTry --help";
    assert_eq!(reason(text), "invalid value 'raw'");
    assert_eq!(reason("openuvr: can't bind"), "can't bind");
    assert_eq!(reason("one\ntwo"), "two");
}
