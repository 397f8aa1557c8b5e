//! Compares two hops with one: the cost of a server at a station.

use crate::wifi::bss::{Event, Sent};
use crate::wifi::network::{Offer, Outcome};
use crate::wifi::scenario::Scenario;
use crate::wifi::setup::{Category, Direction};
use crate::wifi::{MILLISECOND, Nanos, SECOND, words};

/// All outcomes of a scenario, until no packet is in transit.
fn outcomes(scenario: &Scenario, seed: u64) -> Vec<Outcome> {
    let mut network = scenario.network(seed).unwrap();
    let departures = scenario.streams(seed);
    let mut outcomes = Vec::new();
    for departure in departures.take_while(|departure| departure.at < scenario.lasting) {
        outcomes.extend(std::iter::from_fn(|| network.poll(departure.at - 1)));
        network.send(departure.at, departure.offer);
    }
    while let Some(next) = network.next_timeout() {
        outcomes.extend(std::iter::from_fn(|| network.poll(next)));
    }
    outcomes
}

fn transmissions(outcomes: &[Outcome]) -> Vec<Sent> {
    let sent = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Air(Event::Sent(sent)) => Some(*sent),
        _ => None,
    });
    sent.collect()
}

fn delivered(outcomes: &[Outcome]) -> usize {
    let is = |outcome: &&Outcome| matches!(outcome, Outcome::Air(Event::Delivered { .. }));
    outcomes.iter().filter(is).count()
}

/// The delivery delays and the transmissions of one packet on an idle channel.
fn single(text: &str, direction: Direction) -> (Vec<Nanos>, Vec<Sent>) {
    let mut network = words::parse(text).unwrap().network(1).unwrap();
    let offer = Offer {
        direction,
        station: 0,
        category: Category::BestEffort,
        id: 7,
        bytes: 1243,
    };
    network.send(MILLISECOND, offer);
    let mut all = Vec::new();
    while let Some(next) = network.next_timeout() {
        all.extend(std::iter::from_fn(|| network.poll(next)));
    }
    let took = all.iter().filter_map(|outcome| match outcome {
        Outcome::Air(Event::Delivered { at, packet }) => {
            assert_eq!(
                (packet.direction, packet.station, packet.id),
                (direction, 0, 7)
            );
            Some(at - MILLISECOND)
        }
        _ => None,
    });
    (took.collect(), transmissions(&all))
}

#[test]
fn a_single_packet_takes_twice_the_airtime() {
    for direction in [Direction::Down, Direction::Up] {
        let (one, sent_once) = single("per=0 wire=none", direction);
        let (two, sent_twice) = single("per=0 hops=2", direction);
        let airtime = |sent: &[Sent]| sent.iter().map(|s| s.aifs + s.lasted).sum::<Nanos>();
        assert_eq!(airtime(&sent_twice), 2 * airtime(&sent_once));
        let directions: Vec<Direction> = sent_twice.iter().map(|s| s.direction).collect();
        assert_eq!(directions, [Direction::Up, Direction::Down]);
        // The channel was idle before the first hop, but not before the second. The second hop therefore takes an AIFS
        // longer.
        assert_eq!(one, [340_000]);
        assert_eq!(two, [340_000 + 374_000]);
    }
}

#[test]
fn each_packet_crosses_the_channel_twice() {
    let base = "profile=vht-su streams=1 per=0 batches=1 bitrate=20M stations=2";
    let all = |hops: &str| {
        let scenario = Scenario {
            lasting: SECOND,
            ..words::parse(&format!("{base} {hops}")).unwrap()
        };
        outcomes(&scenario, 3)
    };
    let (one, two) = (all("wire=none"), all("hops=2"));
    let mpdus = |outcomes: &[Outcome]| -> u32 {
        let sent = transmissions(outcomes);
        assert!(sent.iter().all(|s| s.attempted == s.delivered));
        sent.iter().map(|s| s.delivered).sum()
    };
    assert_eq!(delivered(&two), delivered(&one));
    assert_eq!(mpdus(&one) as usize, delivered(&one));
    assert_eq!(mpdus(&two), 2 * mpdus(&one));
    // Packets of background stations cross the channel only once, to or from the access point.
    let own = mpdus(&two);
    let with_background = all("hops=2 background=5M");
    let background = delivered(&with_background) - delivered(&two);
    assert!(background > 300, "{background}");
    assert_eq!(mpdus(&with_background) as usize, own as usize + background);
}

#[test]
fn a_hop_more_takes_time_and_air() {
    let run = |words: &str| {
        let text = format!("profile=vht-su streams=1 per=1% batches=1 bitrate=20M {words}");
        let scenario = Scenario {
            lasting: 2 * SECOND,
            ..words::parse(&text).unwrap()
        };
        assert_eq!(
            scenario.run(5),
            scenario.run(5),
            "the same seed, the same run"
        );
        scenario.run(5).unwrap()
    };
    let (one, two, fast) = (
        run("wire=none"),
        run("hops=2"),
        run("hops=2 server-streams=2"),
    );
    let median = |delays: &[Nanos]| {
        let mut sorted = delays.to_vec();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    assert_eq!(two.broken_frames + fast.broken_frames, 0);
    assert_eq!(two.frames.len(), one.frames.len());
    assert!(median(&two.frames) > median(&fast.frames));
    assert!(median(&fast.frames) > median(&one.frames));
    assert!(median(&two.uplink) > median(&one.uplink));
    // With two hops, the access point sends video and feedback, and so do the stations.
    assert!(two.down > one.down && two.up > one.down);
    assert!(fast.up < two.up);
}
