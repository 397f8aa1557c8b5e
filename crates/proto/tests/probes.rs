//! Probes between a client and a host. A probe does not migrate the session; the first other datagram on the new path
//! does.
#![allow(
    clippy::unwrap_used,
    reason = "test values are known to fit, and a test may panic"
)]

mod support;

use openuvr_proto::client::{ClientEvent, ClientSession};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::transport_probe::{BURST, ProbeTarget, TransportKind};
use openuvr_proto::host::{Host, HostEvent, ProbeRequest};
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::MAX_DATAGRAM;
use support::{established, host, offer};

const OLD: PathId = PathId([1; PathId::LEN]);
const NEW: PathId = PathId([2; PathId::LEN]);
const MS: i64 = 1_000_000;

struct Pair {
    now: Instant,
    host: Host,
    client: ClientSession,
    /// The path on which the client sends all datagrams except probes.
    path: PathId,
    out: Vec<u8>,
}

impl Pair {
    fn new() -> Pair {
        let (now, out) = (Instant(0), Vec::new());
        let mut host = host(0);
        host.established(now, OLD, &established());
        let offer = offer(Role::Player, 1 << 1);
        let client = ClientSession::new(now, &established(), offer);
        let path = OLD;
        Pair {
            now,
            host,
            client,
            path,
            out,
        }
    }

    /// Exchanges all datagrams except the client's probes. Returns the host's events.
    fn talk(&mut self) -> Vec<HostEvent> {
        while self.client.poll_transmit(self.now, &mut self.out) {
            let _ = self.host.handle_datagram(self.now, self.path, &self.out);
        }
        while let Some(to) = self.host.poll_transmit(self.now, &mut self.out) {
            assert_eq!(to, self.path, "sent to the client's path");
            let _ = self.client.handle_datagram(self.now, to, &self.out);
        }
        std::iter::from_fn(|| self.host.poll_event()).collect()
    }

    /// Sends the client's probes, and its responses to path challenges, on their paths. Returns the host's probe
    /// requests.
    fn probe_requests(&mut self) -> Vec<ProbeRequest> {
        let mut asked = Vec::new();
        while let Some(to) = self.client.poll_on_path(self.now, &mut self.out) {
            self.host.handle_datagram(self.now, to, &self.out).unwrap();
            while let Some(to) = self.host.poll_transmit(self.now, &mut self.out) {
                let _ = self.client.handle_datagram(self.now, to, &self.out);
            }
            asked.extend(std::iter::from_fn(|| self.host.poll_probe()));
        }
        asked
    }

    /// Sends the host's answer. Only the first `arrive` datagrams of the answer are delivered.
    fn answer(&mut self, asked: &ProbeRequest, transport: TransportKind, arrive: usize) {
        let length = self
            .host
            .answer_probe(self.now, asked, transport, &mut self.out);
        assert_eq!(length, MAX_DATAGRAM);
        assert_eq!(self.out.len(), length * usize::from(BURST));
        for datagram in self.out.chunks(length).take(arrive) {
            (self.client)
                .handle_datagram(self.now, asked.path, datagram)
                .unwrap();
        }
    }

    fn result(&mut self) -> Option<Option<Option<TransportKind>>> {
        std::iter::from_fn(|| self.client.poll_event()).find_map(|event| match event {
            ClientEvent::Probed(result) => Some(result.answer),
            _ => None,
        })
    }
}

fn moves(events: &[HostEvent]) -> Vec<(PathId, bool)> {
    let moved = |event: &HostEvent| match event {
        HostEvent::PathChanged {
            path, segmented, ..
        } => Some((*path, *segmented)),
        _ => None,
    };
    events.iter().filter_map(moved).collect()
}

#[test]
fn a_probe_is_answered_on_its_path_without_migration() {
    let mut pair = Pair::new();
    pair.talk();
    pair.client.probe(
        pair.now,
        ProbeTarget {
            path: NEW,
            segmented: true,
        },
    );
    let asked = pair.probe_requests();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].path, asked[0].segmented), (NEW, true));
    pair.answer(&asked[0], TransportKind::Raw, 8);
    assert_eq!(pair.result(), Some(Some(Some(TransportKind::Raw))));
    assert_eq!(moves(&pair.talk()), [], "the session doesn't migrate");

    pair.path = NEW;
    pair.client.moved(pair.now);
    assert_eq!(
        moves(&pair.talk()),
        [(NEW, true)],
        "the host migrates at once"
    );
    assert_eq!(pair.probe_requests(), [], "one request is sufficient");
}

#[test]
fn half_a_response_suffices_and_less_is_requested_again() {
    for (arrive, want) in [(4, Some(Some(Some(TransportKind::UdpGso)))), (3, None)] {
        let mut pair = Pair::new();
        pair.talk();
        pair.client.probe(
            pair.now,
            ProbeTarget {
                path: OLD,
                segmented: true,
            },
        );
        let asked = pair.probe_requests();
        pair.answer(&asked[0], TransportKind::UdpGso, arrive);
        assert_eq!(pair.result(), want, "{arrive} of 8");
        // An unsuccessful probe sends four requests and ends within a second.
        let mut questions = 1;
        for _ in 0..20 {
            pair.now.0 += 50 * MS;
            questions += pair.probe_requests().len();
        }
        let (more, verdict) = if want.is_some() {
            (1, None)
        } else {
            (4, Some(None))
        };
        assert_eq!((questions, pair.result()), (more, verdict));
    }
}

#[test]
fn a_client_that_gets_no_segments_is_sent_datagrams() {
    let mut pair = Pair::new();
    pair.talk();
    for segmented in [true, false, false, true] {
        let target = ProbeTarget {
            path: OLD,
            segmented,
        };
        pair.client.probe(pair.now, target);
        let asked = pair.probe_requests();
        assert_eq!(asked[0].segmented, segmented);
        pair.now.0 += MS;
    }
    assert_eq!(moves(&pair.talk()), [(OLD, false), (OLD, true)]);
}

#[test]
fn a_dead_path_is_detected_by_unanswered_pings() {
    let mut pair = Pair::new();
    pair.talk();
    pair.now.0 += 300 * MS;
    pair.talk();
    let before = pair.client.unanswered(pair.now);
    assert!(before.as_millis() < 50, "{before:?}");
    // The host's pings still reach the client, because only the direction to the host is down.
    for _ in 0..20 {
        pair.now.0 += 100 * MS;
        while pair.client.poll_transmit(pair.now, &mut pair.out) {}
        while pair.host.poll_transmit(pair.now, &mut pair.out).is_some() {
            let taken = pair.client.handle_datagram(pair.now, OLD, &pair.out);
            taken.unwrap();
        }
    }
    assert!(pair.client.silence(pair.now).as_millis() < 600);
    assert_eq!(pair.client.unanswered(pair.now).as_millis(), 2000);
    pair.client.moved(pair.now);
    assert_eq!(pair.client.unanswered(pair.now).as_millis(), 0);
}

/// A client that probes without limit receives only a few responses, because each response is a burst of full
/// datagrams.
#[test]
fn unlimited_probes_are_answered_a_few_times_a_second() {
    let mut pair = Pair::new();
    pair.talk();
    let mut answered = 0;
    for n in 0..10_000 {
        pair.now.0 += MS;
        let segmented = n % 2 == 0;
        let path = if n % 3 == 0 { NEW } else { OLD };
        pair.client.probe(pair.now, ProbeTarget { path, segmented });
        answered += pair.probe_requests().len();
    }
    assert!((5..=72).contains(&answered), "{answered} in ten seconds");
    let changes = moves(&pair.talk()).len();
    assert!(
        changes <= answered,
        "{changes} changes of the client's state"
    );
}

#[test]
fn a_complete_transport_search_is_answered_without_delay() {
    let mut pair = Pair::new();
    pair.talk();
    let mut asked = 0;
    // The client probes three times, with four unanswered requests each.
    for path in [OLD, NEW, OLD] {
        let segmented = true;
        pair.client.probe(pair.now, ProbeTarget { path, segmented });
        for _ in 0..4 {
            asked += pair.probe_requests().len();
            pair.now.0 += 150 * MS;
        }
    }
    assert_eq!(asked, 12);
}
