//! Compares the real-time model with the model that knows all packets in advance.

use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_sim::medium::{Arrival, Medium as _};

use crate::wifi::bss::Event;
use crate::wifi::live::Live;
use crate::wifi::network::Outcome;
use crate::wifi::scenario::Scenario;
use crate::wifi::setup::Direction;
use crate::wifi::traffic::Departure;
use crate::wifi::{Nanos, SECOND, words};

/// Deliveries in order, each with direction, station, packet number and time.
type Deliveries = Vec<(Direction, usize, u64, Nanos)>;

/// The deliveries if all packets are known in advance.
fn foretold(scenario: &Scenario, own: &[Departure], seed: u64) -> Deliveries {
    let mut network = scenario.network(seed).unwrap();
    let mut deliveries = Vec::new();
    let mut note = |outcome| {
        if let Outcome::Air(Event::Delivered { at, packet }) = outcome
            && packet.station < scenario.viewers()
        {
            deliveries.push((packet.direction, packet.station, packet.id, at));
        }
    };
    for departure in own {
        while let Some(outcome) = network.poll(departure.at - 1) {
            note(outcome);
        }
        network.send(departure.at, departure.offer);
    }
    while let Some(next) = network.next_timeout() {
        while let Some(outcome) = network.poll(next) {
            note(outcome);
        }
    }
    deliveries
}

/// The deliveries if a clock advances from one timeout to the next, and datagrams arrive meanwhile.
fn driven(scenario: &Scenario, own: &[Departure], seed: u64, begin: Instant) -> Deliveries {
    let mut live = Live::new(scenario, begin, seed).unwrap();
    let mut deliveries = Vec::new();
    let mut note = |arrival: Arrival| {
        let number = u64::from_le_bytes(arrival.bytes[..8].try_into().unwrap());
        let at = arrival.due.since(begin).as_nanos() as u64;
        deliveries.push((arrival.direction, arrival.station, number, at));
    };
    let mut waiting = own.iter().peekable();
    loop {
        let next = live.next_timeout();
        let due = waiting.peek().map(|departure| at(begin, departure.at));
        match (next, due) {
            (None, None) => break,
            (Some(next), due) if due.is_none_or(|due| next < due) => {
                while let Some(arrival) = live.poll(next) {
                    assert!(arrival.due <= next, "no early delivery");
                    note(arrival);
                }
            }
            (_, _) => {
                let Departure {
                    at: time, offer, ..
                } = waiting.next().unwrap();
                let bytes = offer.id.to_le_bytes().to_vec();
                let now = at(begin, *time);
                live.send(
                    now,
                    (offer.direction, offer.station),
                    bytes,
                    offer.bytes as usize,
                );
            }
        }
    }
    let (up, down) = live.counters();
    for count in [up, down] {
        assert_eq!(count.sent, count.delivered + count.lost + count.overflowed);
    }
    assert_eq!(up.delivered + down.delivered, deliveries.len() as u64);
    deliveries
}

fn at(begin: Instant, time: Nanos) -> Instant {
    begin + Duration::from_nanos(time)
}

fn departures(scenario: &Scenario, seed: u64) -> Vec<Departure> {
    (scenario.streams(seed))
        .take_while(|departure| departure.at < scenario.lasting)
        .collect()
}

#[test]
fn a_clock_changes_nothing() {
    for text in [
        "",
        "profile=he-su per=10%",
        "profile=he-su stations=4 per=1% signal=28,4 rate=learned ofdma=on bitrate=20M",
        "stations=3 bitrate=60M ap-buffer=100 bursts=20ms,5ms",
        "profile=vht-su stations=2 per=10% bitrate=20M hops=2 server-streams=1",
    ] {
        let scenario = Scenario {
            lasting: SECOND,
            ..words::parse(text).unwrap()
        };
        let own = departures(&scenario, 3);
        let foretold = foretold(&scenario, &own, 3);
        assert!(foretold.len() > 4_000, "{text}: {}", foretold.len());
        let driven = driven(&scenario, &own, 3, Instant(1_700_000_000_123_456_789));
        assert!(driven == foretold, "{text}");
    }
}

#[test]
fn background_traffic_is_independent_of_the_clock() {
    let text = "profile=he-su stations=2 background=40M,up background=10M,down bitrate=20M";
    let scenario = Scenario {
        lasting: SECOND,
        ..words::parse(text).unwrap()
    };
    let all = departures(&scenario, 9);
    let mut foretold = foretold(&scenario, &all, 9);
    // In real time, only the viewers' datagrams are sent by the test. The numbers of background packets don't matter.
    let is_own = |departure: &&Departure| departure.offer.station < scenario.viewers();
    let own: Vec<Departure> = all.iter().filter(is_own).copied().collect();
    let begin = Instant(5);
    let mut live = Live::new(&scenario, begin, 9).unwrap();
    let mut driven = Deliveries::new();
    for departure in &own {
        let now = at(begin, departure.at);
        while let Some(next) = live.next_timeout().filter(|next| *next < now) {
            while let Some(arrival) = live.poll(next) {
                let number = u64::from_le_bytes(arrival.bytes[..8].try_into().unwrap());
                let time = arrival.due.since(begin).as_nanos() as u64;
                driven.push((arrival.direction, arrival.station, number, time));
            }
        }
        let offer = departure.offer;
        let bytes = offer.id.to_le_bytes().to_vec();
        live.send(
            now,
            (offer.direction, offer.station),
            bytes,
            offer.bytes as usize,
        );
    }
    // The test does not poll packets that are still in transit when it sends the last datagram.
    foretold.truncate(driven.len());
    assert!(driven.len() > 4_000, "{}", driven.len());
    assert!(driven == foretold);
}

#[test]
fn datagrams_that_do_not_fit_are_counted() {
    let scenario = words::parse("ap-buffer=10 per=0 wire=none").unwrap();
    let mut live = Live::new(&scenario, Instant(0), 1).unwrap();
    for n in 0..100_u8 {
        live.send(Instant(0), (Direction::Down, 0), vec![n; 10], 1000);
    }
    let arrived: Vec<u8> =
        std::iter::from_fn(|| live.poll(Instant(1_000_000_000)).map(|a| a.bytes[0])).collect();
    assert_eq!(arrived, (0..10).collect::<Vec<u8>>());
    let (_, down) = live.counters();
    assert_eq!((down.sent, down.delivered, down.overflowed), (100, 10, 90));
    assert_eq!(live.next_timeout(), None);
}
