//! Host and browser behind address translators (NAT). Media requires an address that the host discovers or is configured
//! with.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};

use openuvr_gateway_settings::{IceServer, PublicAddress};
use str0m::format::Codec;

use super::caller::Caller;
use super::remote::{Arrived, Remote};
use super::support::skip::skip;
use super::support::{PIN, Rig, eventually};
use super::translator::{BROWSER, HOST, Inward, Network, PUBLIC, SERVER, ip};

/// A host in this network, with its STUN servers and configured addresses.
fn host(network: &Network, name: &str, ice: &[&str], addresses: &[&str]) -> Rig {
    let servers = ice
        .iter()
        .map(|server| server.parse::<IceServer>().unwrap());
    let addresses = addresses
        .iter()
        .map(|one| one.parse::<PublicAddress>().unwrap());
    let (servers, addresses): (Vec<_>, Vec<_>) = (servers.collect(), addresses.collect());
    network.on("host", || {
        Rig::known_at(ip(HOST), name, servers, &addresses)
    })
}

/// A browser in another network, logged in at the host's public address with this port.
fn browser(rig: &Rig, port: u16) -> Caller {
    let mut caller = Caller::elsewhere(rig, SocketAddr::new(ip(PUBLIC), port), ip(BROWSER));
    let answer = caller.log_in(PIN);
    assert_eq!(answer.status, 200, "{answer:?}");
    caller
}

fn offered(caller: &Caller) -> Remote {
    Remote::offer(caller, "", &[Codec::H264]).unwrap_or_else(|refused| panic!("{}", refused.0))
}

fn packets_come(remote: &mut Remote) {
    let mut packets = 0;
    remote.wait("packets", |arrived| {
        packets += usize::from(matches!(arrived, Arrived::Packet(_)));
        (packets == 100).then_some(())
    });
}

/// The candidates of an answer: address, port, kind.
fn candidates(remote: &Remote) -> Vec<String> {
    let lines = remote.answer.lines();
    let lines = lines.filter_map(|line| line.strip_prefix("a=candidate:"));
    let mut all: Vec<_> = lines
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            [words[4], words[5], words[7]].join(" ")
        })
        .collect();
    all.sort();
    // Each media section repeats the candidates.
    all.dedup();
    all
}

fn figure(caller: &Caller, name: &str) -> u64 {
    let cookie = format!("cookie: {}", caller.cookie);
    let body = caller.request("GET /metrics", &[&cookie], "").body;
    let line = format!("openuvr_web_{name} ");
    let mut lines = body.lines();
    let value = lines.find_map(|text| text.strip_prefix(&line)?.parse().ok());
    value.unwrap_or_else(|| panic!("{name}: {body}"))
}

#[test]
fn without_its_public_address_no_media_flow() {
    let Some(network) = Network::new() else {
        return;
    };
    let rig = host(&network, "untold", &[], &[]);
    let port = rig.address().port();
    network.let_in(&Inward::All);
    network.on("browser", || {
        let caller = browser(&rig, port);
        let mut remote = offered(&caller);
        assert_eq!(candidates(&remote), [format!("{HOST} {port} host")]);
        let told = remote.message_before_media();
        assert_eq!(told["type"], "error");
        let why = told["message"].as_str().unwrap();
        assert!(why.contains("no network path for media"), "{why}");
        assert_eq!(figure(&caller, "stun_questions_total"), 0);
    });
}

#[test]
fn media_flow_by_a_configured_address() {
    let Some(network) = Network::new() else {
        return;
    };
    let rig = host(&network, "cloud", &[], &[PUBLIC]);
    let port = rig.address().port();
    network.let_in(&Inward::All);
    network.on("browser", || {
        let mut remote = offered(&browser(&rig, port));
        let own = format!("{HOST} {port} host");
        let told = format!("{PUBLIC} {port} srflx");
        assert_eq!(candidates(&remote), [own, told]);
        packets_come(&mut remote);
    });
}

#[test]
fn media_flow_by_a_forwarded_port() {
    let Some(network) = Network::new() else {
        return;
    };
    let rig = host(&network, "home", &[], &["203.0.113.7:5000"]);
    let inside = rig.address().port();
    network.let_in(&Inward::Port {
        outside: 5000,
        inside,
    });
    network.on("browser", || {
        let mut remote = offered(&browser(&rig, 5000));
        let told = format!("{PUBLIC} 5000 srflx");
        assert!(candidates(&remote).contains(&told), "{}", remote.answer);
        packets_come(&mut remote);
    });
}

#[test]
fn media_flow_by_a_reflexive_address() {
    let Some(network) = Network::new() else {
        return;
    };
    let Some(_server) = network.stun_server() else {
        return;
    };
    let rig = host(&network, "stun", &[&format!("stun:{SERVER}")], &[]);
    let port = rig.address().port();
    network.let_in(&Inward::All);
    network.on("browser", || {
        let caller = browser(&rig, port);
        eventually("a response of the STUN server", || {
            (figure(&caller, "stun_answers_total") > 0).then_some(())
        });
        let mut remote = offered(&caller);
        let seen = format!("{PUBLIC} {port} srflx");
        assert!(candidates(&remote).contains(&seen), "{}", remote.answer);
        packets_come(&mut remote);
        assert_eq!(figure(&caller, "stun_refused_total"), 0);
    });
}

#[test]
fn a_late_reflexive_address_is_announced() {
    let Some(network) = Network::new() else {
        return;
    };
    let rig = host(&network, "late", &[&format!("stun:{SERVER}")], &[]);
    let port = rig.address().port();
    network.let_in(&Inward::All);
    let mut remote = network.on("browser", || offered(&browser(&rig, port)));
    assert_eq!(candidates(&remote), [format!("{HOST} {port} host")]);
    let Some(_server) = network.stun_server() else {
        return;
    };
    let told = remote.message_before_media();
    assert_eq!(told["type"], "candidate", "{told}");
    let words = told["data"]["candidate"].as_str().unwrap();
    assert!(
        words.contains(&format!("{PUBLIC} {port} typ srflx")),
        "{words}"
    );
    remote.candidate(words);
    packets_come(&mut remote);
}

#[test]
fn media_may_use_the_other_address_family() {
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return skip("this machine has no IPv6");
    }
    let addresses = ["::1".parse::<PublicAddress>().unwrap()];
    let rig = Rig::known_at(
        Ipv6Addr::UNSPECIFIED.into(),
        "families",
        Vec::new(),
        &addresses,
    );
    let port = rig.address().port();
    let page = SocketAddr::from(([127, 0, 0, 1], port));
    let mut caller = Caller::elsewhere(&rig, page, Ipv6Addr::LOCALHOST.into());
    assert_eq!(caller.log_in(PIN).status, 200);
    let mut remote = offered(&caller);
    let (v4, v6) = (format!("127.0.0.1 {port} host"), format!("::1 {port} host"));
    // A browser that connected to a loopback address also gets this machine's other addresses, if there are any.
    let mut told = candidates(&remote);
    told.retain(|candidate| candidate.ends_with(" host"));
    assert_eq!(told, [v4, v6]);
    packets_come(&mut remote);
}
