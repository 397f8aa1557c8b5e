//! Tests that the cases are those of the paper, and that peers save a hop.

use super::*;
use crate::wifi::network::Server;
use crate::wifi::{MILLISECOND, SECOND};

fn table(more: &str) -> Table {
    let repetition = Repetition { runs: 3, seed: 1 };
    run(&repetition, SECOND, more, &mut |_| true).unwrap()
}

#[test]
fn the_parameters_are_the_papers() {
    let scenario = scenario(Topology::Router, Format::Yuv, "").unwrap();
    assert_eq!(scenario.server, Server::Station);
    assert_eq!((scenario.viewers(), scenario.setup.stations.len()), (1, 2));
    let rates = scenario.setup.stations.iter().map(|station| {
        let timing = scenario.setup.timing_with(station).unwrap();
        timing.bits_per_symbol[9] as f64 * 1e3 / timing.symbol as f64
    });
    let rates: Vec<f64> = rates.map(f64::round).collect();
    assert_eq!(rates, [433.0, 867.0], "the device's, and the host's");
    // A frame has 30 packets at 20 Mb/s and 60 frames/s.
    assert_eq!(scenario.video.packets(), 30);
    let reports = scenario.uplink.unwrap();
    assert!(reports.period.abs_diff(SECOND / 60) < MILLISECOND / 100);
}

#[test]
fn a_packet_is_a_full_datagram_and_a_report_is_openuvrs() {
    use openuvr_proto::id::FrameId;
    use openuvr_proto::trace::{Fidelity, Outcome};
    use openuvr_proto::wire::MAX_DATAGRAM;
    use openuvr_proto::wire::control::{Message, Report};
    use openuvr_proto::wire::header::{HEADER, TAG};

    // Length of the IPv4 and UDP headers (RFC 791, RFC 768).
    const IP_AND_UDP: usize = 20 + 8;
    let scenario = scenario(Topology::Peers, Format::Yuv, "").unwrap();
    assert_eq!(scenario.video.packet as usize, IP_AND_UDP + MAX_DATAGRAM);
    let report = Report::new(FrameId(1), Outcome::Displayed(Fidelity::Complete));
    let mut body = Vec::new();
    Message::Report(report).write(&mut body);
    let datagram = HEADER + body.len() + TAG;
    assert_eq!(
        scenario.uplink.unwrap().bytes as usize,
        IP_AND_UDP + datagram
    );
}

#[test]
fn each_topology_runs_with_each_format() {
    let mut names = Vec::new();
    let mut keep_going = |name: &str| {
        names.push(name.to_owned());
        true
    };
    let repetition = Repetition { runs: 2, seed: 1 };
    let table = run(&repetition, SECOND / 2, "", &mut keep_going).unwrap();
    assert_eq!(names.len(), 2 * CASES);
    names.dedup();
    assert_eq!(names.len(), CASES, "case names are unique: {names:?}");
    assert_eq!(table.cases.len(), CASES);
    let names: Vec<&str> = table.rows.iter().map(|row| row.name).collect();
    assert_eq!(
        names,
        [
            "router_yuv_ms",
            "saved_yuv_ms",
            "saved_rgb_ms",
            "peers_yuv_ms",
            "peers_rgb_ms",
            "airtime_times"
        ]
    );
}

#[test]
fn peers_save_a_hop_in_each_run() {
    let table = table("");
    let of = |topology, format| {
        let is = |case: &&Case| case.topology == topology && case.format == format;
        table.cases.iter().find(is).unwrap()
    };
    for format in Format::ALL {
        let (peers, router) = (of(Topology::Peers, format), of(Topology::Router, format));
        for (peers, router) in peers.frame_ms.iter().zip(&router.frame_ms) {
            assert!(router.unwrap() > peers.unwrap(), "{router:?} {peers:?}");
        }
        for (peers, router) in peers.airtime.iter().zip(&router.airtime) {
            assert!(router > peers, "{router} {peers}");
        }
    }
}

#[test]
fn further_words_take_precedence_over_all_but_topologies() {
    let slower = scenario(Topology::Router, Format::Rgb, "mcs=4 background=5M").unwrap();
    assert_eq!((slower.setup.radio.mcs, slower.others()), (4, 2));
    for word in ["wire=1G", "hops=1", "bitrate=1M"] {
        let error = scenario(Topology::Peers, Format::Yuv, word).unwrap_err();
        assert!(error.to_string().contains("set"), "{error}");
    }
}
