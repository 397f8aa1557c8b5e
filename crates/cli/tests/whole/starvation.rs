//! A client that reconnects to its host during a flood of handshake requests.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use openuvr_lab::attack;
use openuvr_lab::attack::handshakes::{Claim, HandshakeFlood};
use openuvr_proto::control::identity::ClientId;
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};

use crate::support::{Host, PIN, eventually};

/// Of all attackers together.
const A_SECOND: u32 = 3000;

#[test]
fn a_client_reconnects_beside_3000_begins_a_second() {
    let args = [
        "--source", "pattern", "--size", "320x200", "--fps", "15", PIN[0], PIN[1],
    ];
    let mut host = Host::paired_with(&["client"], &args);
    let mut client = host.headless_client("client", &[]);
    client.line("showing");
    let keys = load_or_create(&host.folder.path().join("client"), KeyOwner::Client).unwrap();
    let claims = [
        Claim::Pairing,
        Claim::Device(ClientId::of(&keys.public())),
        Claim::Stranger,
    ];
    let victim = host.address().parse().unwrap();
    let (stop, struck) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let attackers = claims.map(|claim| {
        let (stop, struck) = (stop.clone(), struck.clone());
        let from = (11..19).map(|n| IpAddr::from(Ipv4Addr::new(127, 0, 0, n)));
        let mut begins = HandshakeFlood::open(victim, from, claim).unwrap();
        std::thread::spawn(move || attack::run(&mut begins, A_SECOND / 3, &stop, &struck))
    });
    let more = |than: u64| {
        eventually("an attack", || {
            (struck.load(Ordering::Relaxed) > than).then_some(())
        });
    };
    more(1000);
    host.program.kill();
    let host = host.restart();
    // The new host uses other cookies.
    let before = struck.load(Ordering::Relaxed);
    client.nth_line(2, "connected to the host");
    host.program.line("client joins as player");
    more(before + 1000);
    client.assert_running();
    stop.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.join().unwrap();
    }
}
