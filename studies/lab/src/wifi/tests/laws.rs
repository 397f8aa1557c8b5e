//! Invariants of all scenarios: packets are conserved, no packet is early or duplicated, the promised order is kept,
//! and transmissions don't overlap.

use std::collections::HashMap;

use proptest::prelude::*;

use crate::wifi::air::Air;
use crate::wifi::bss::{Bss, Event, Sent};
use crate::wifi::network::{Network, Outcome, Server};
use crate::wifi::scenario::Scenario;
use crate::wifi::setup::{Category, Delivery, Direction, Edca, Setup, Station};
use crate::wifi::traffic::Departure;
use crate::wifi::{MILLISECOND, Nanos, SECOND, words};

/// All packets and all outcomes of a scenario, until no packet is in transit.
fn outcomes(scenario: &Scenario, seed: u64) -> (Vec<Departure>, Vec<Outcome>, Network) {
    let mut network = scenario.network(seed).unwrap();
    let departures: Vec<Departure> = (scenario.streams(seed))
        .take_while(|departure| departure.at < scenario.lasting)
        .collect();
    let mut outcomes = Vec::new();
    for departure in &departures {
        outcomes.extend(std::iter::from_fn(|| network.poll(departure.at - 1)));
        network.send(departure.at, departure.offer);
    }
    while let Some(next) = network.next_timeout() {
        outcomes.extend(std::iter::from_fn(|| network.poll(next)));
    }
    (departures, outcomes, network)
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let radio = (
        prop_oneof!["paper", "he-su", "eht-su"],
        0_u8..12,
        prop_oneof!["20", "40", "80", "160"],
        1_u8..5,
    );
    let air = (
        0.0..1.0_f64,
        prop_oneof!["none", "20ms,3ms", "5ms,5ms,50%"],
        prop_oneof!["none", "25,5,10ms", "40"],
        prop_oneof!["fixed", "ideal", "learned"],
    );
    let rules = (
        prop_oneof!["on", "off", "1000"],
        1_u32..80,
        0_u8..4,
        prop_oneof!["on", "off"],
        prop_oneof!["mpdu", "in-order"],
        prop_oneof!["acknowledged", "own-end"],
        prop_oneof!["uniform", "standard"],
    );
    let traffic = (
        1_usize..5,
        prop_oneof!["none", "5M,up", "30M,down", "80M,up,300"],
        prop_oneof!["voice", "video", "best-effort", "background"],
        1_u32..80,
        1_usize..200,
        prop_oneof!["1", "fit", "up-to-9"],
        prop_oneof!["1", "2"],
    );
    (radio, air, rules, traffic).prop_map(|(radio, air, rules, traffic)| {
        let text = format!(
            "profile={} mcs={} width={} streams={} per={} bursts={} signal={} rate={} rts={} \
             max-ampdu={} retries={} ofdma={} delivery={} moment={} edca={} stations={} \
             background={} category={} bitrate={}M ap-buffer={} batches={} hops={}",
            radio.0,
            radio.1,
            radio.2,
            radio.3,
            air.0,
            air.1,
            air.2,
            air.3,
            rules.0,
            rules.1,
            rules.2,
            rules.3,
            rules.4,
            rules.5,
            rules.6,
            traffic.0,
            traffic.1,
            traffic.2,
            traffic.3,
            traffic.4,
            traffic.5,
            traffic.6,
        );
        Scenario {
            lasting: 60 * MILLISECOND,
            ..words::parse(&text).unwrap()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_packet_has_one_outcome_and_none_is_early(scenario in scenario(), seed: u64) {
        let (departures, outcomes, network) = outcomes(&scenario, seed);
        let mut ends = vec![0_u32; departures.len()];
        let shortest = network_shortest(&scenario);
        for outcome in &outcomes {
            match outcome {
                Outcome::Refused { id, .. } => ends[*id as usize] += 1,
                Outcome::Air(Event::GivenUp { packet, .. }) => ends[packet.id as usize] += 1,
                Outcome::Air(Event::Delivered { at, packet }) => {
                    let id = packet.id as usize;
                    ends[id] += 1;
                    let sent = departures[id];
                    prop_assert!(packet.queued >= sent.at);
                    prop_assert!(*at >= packet.queued + shortest, "{at} {packet:?}");
                    prop_assert_eq!(packet.direction, sent.offer.direction);
                    prop_assert_eq!(packet.station, sent.offer.station);
                }
                Outcome::Air(_) => {}
            }
        }
        prop_assert!(ends.iter().all(|count| *count == 1), "{ends:?}");
        let account = network.account();
        prop_assert_eq!(account.offered, departures.len() as u64);
        prop_assert_eq!(
            account.offered,
            account.delivered + account.given_up + account.refused
        );
    }

    #[test]
    fn transmissions_do_not_overlap(scenario in scenario(), seed: u64) {
        let (_, outcomes, _) = outcomes(&scenario, seed);
        let (mut free, mut last) = (0, 0);
        for outcome in outcomes {
            let Outcome::Air(event) = outcome else { continue };
            prop_assert!(event.at() >= last, "events come in the order of time");
            last = event.at();
            let (at, lasted) = match event {
                Event::Sent(Sent { at, lasted, attempted, delivered, .. }) => {
                    prop_assert!(attempted >= delivered && attempted > 0);
                    prop_assert!(attempted <= 80 * 8, "within the limit: {attempted}");
                    (at, lasted)
                }
                Event::Collided { at, lasted } => (at, lasted),
                Event::Delivered { .. } | Event::GivenUp { .. } => continue,
            };
            prop_assert!(lasted > 0 && at - lasted >= free, "{at} {lasted} {free}");
            free = at;
        }
    }

    #[test]
    fn in_order_delivery_is_in_order(scenario in scenario(), seed: u64) {
        let scenario = Scenario {
            setup: crate::wifi::Setup { delivery: Delivery::InOrder, ..scenario.setup.clone() },
            ..scenario
        };
        let (departures, outcomes, _) = outcomes(&scenario, seed);
        let mut last: HashMap<(Direction, usize, Category), u64> = HashMap::new();
        for outcome in outcomes {
            if let Outcome::Air(Event::Delivered { packet, .. }) = outcome {
                let offer = departures[packet.id as usize].offer;
                let before = last.insert((offer.direction, offer.station, offer.category), offer.id);
                prop_assert!(before.is_none_or(|before| before < offer.id));
            }
        }
    }
}

/// No packet is faster than a preamble.
fn network_shortest(scenario: &Scenario) -> Nanos {
    let timing = scenario.setup.timing().unwrap();
    timing.preamble
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    let scenario = Scenario {
        lasting: SECOND,
        ..words::parse("profile=he-su stations=3 background=20M signal=30,4 rate=learned").unwrap()
    };
    let run = |seed| scenario.run(seed).unwrap();
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).delays, run(6).delays);
}

/// Fixes the first figures of a run, so that a change of the model is noticed. Results of studies are compared over
/// years.
#[test]
fn a_run_is_reproducible_across_versions() {
    let run = Scenario {
        lasting: SECOND / 4,
        ..Scenario::paper()
    }
    .run(1)
    .unwrap();
    let first: Vec<Nanos> = run.frames.iter().copied().take(3).collect();
    let counts = (run.delays.len(), run.attempted.len(), run.collisions);
    assert_eq!(
        (counts, first),
        ((1177, 77, 1), vec![3_162_944, 7_329_488, 3_254_944])
    );
}

#[test]
fn a_single_packet_matches_the_benchmark() {
    let lossless = words::parse("per=0").unwrap();
    let mut network = Network::new(lossless.setup, Server::AccessPoint, 1, 1).unwrap();
    let mut streams = Scenario::paper().streams(1);
    let mut first = streams.next().unwrap();
    while first.offer.direction == Direction::Up {
        first = streams.next().unwrap();
    }
    let mut took = Vec::new();
    // The packet is sent twice: at the moment at which the channel becomes idle, and when the channel has been idle for
    // a long time, so that no AIFS is needed.
    for at in [0, 5 * MILLISECOND] {
        network.send(at, first.offer);
        while let Some(next) = network.next_timeout() {
            while let Some(outcome) = network.poll(next) {
                if let Outcome::Air(Event::Delivered { at: there, .. }) = outcome {
                    took.push(there - at);
                }
            }
        }
    }
    assert_eq!(took, [374_000, 340_000]);
}

#[test]
fn urgent_categories_are_faster_with_edca() {
    let delay = |category: &str| {
        let text =
            format!("profile=he-su per=0 background=90M,up background=90M,up category={category}");
        let scenario = Scenario {
            lasting: 2 * SECOND,
            ..words::parse(&text).unwrap()
        };
        let run = scenario.run(1).unwrap();
        run.delays.iter().sum::<Nanos>() / run.delays.len() as u64
    };
    let [voice, video, rest] = ["voice", "video", "best-effort"].map(delay);
    assert!(voice < video && video < rest, "{voice} {video} {rest}");
}

#[test]
fn a_shared_ppdu_reaches_several_stations() {
    let run = |ofdma: &str| {
        let text = format!("profile=he-su stations=6 per=1% ofdma={ofdma}");
        let scenario = Scenario {
            lasting: 2 * SECOND,
            ..words::parse(&text).unwrap()
        };
        scenario.run(1).unwrap()
    };
    let (alone, shared) = (run("off"), run("on"));
    assert_eq!(alone.shared, 0);
    assert!(shared.shared > 100, "{}", shared.shared);
    assert!(shared.attempted.len() < alone.attempted.len());
    assert_eq!(shared.account.refused + alone.account.refused, 0);
}

#[test]
fn queue_management_keeps_the_access_point_short() {
    let found = |aqm: &str| {
        let text = format!(
            "profile=he-su mcs=0 width=20 streams=1 per=0 bitrate=2M background=20M,down ap-aqm={aqm}"
        );
        let scenario = Scenario {
            lasting: 4 * SECOND,
            ..words::parse(&text).unwrap()
        };
        let account = scenario.run(1).unwrap().account;
        assert!(account.refused > 0, "{aqm}: {account:?}");
        account.found / account.came
    };
    let (without, with) = (found("none"), found("pie"));
    assert!(with * 2 < without, "{with} instead of {without} packets");
}

#[test]
fn without_rts_a_packet_is_dropped_only_after_its_own_tries() {
    let station = Station {
        air: Air::losing(0.0),
        ..Setup::paper().stations[0].clone()
    };
    // Without a contention window, both stations always send at the same time.
    let setup = Setup {
        stations: vec![station; 2],
        edca: Edca::uniform(0, 0),
        rts_above: None,
        max_ampdu: 1,
        retry_limit: 1,
        ..Setup::paper()
    };
    let mut bss = Bss::new(setup, 1).unwrap();
    for id in 0..8 {
        let flow = (Direction::Up, id as usize % 2);
        assert!(bss.offer(0, flow, Category::Video, id, 1000));
    }
    let (mut collisions, mut given_up) = (0, 0);
    while let Some(next) = bss.next_timeout() {
        bss.advance(next);
        while let Some(event) = bss.poll(next) {
            match event {
                Event::Collided { .. } => collisions += 1,
                Event::GivenUp { .. } => given_up += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    // Each of the four pairs of packets is sent twice.
    assert_eq!((collisions, given_up), (8, 8));
}
