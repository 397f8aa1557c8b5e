//! Strangers, and clients that violate the protocol. They get an answer of the protocol or none, and the host continues.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod control;
mod fairness;
mod peer;
#[path = "../support/mod.rs"]
mod support;

use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use self::peer::{Peer, element, exchange, get, opened, protected, sealed};
use self::support::{Rig, TIMEOUT, enter};

/// Everything that a paired client may request.
const PROTECTED: [&str; 8] = [
    "serverinfo",
    "applist",
    "appasset?appid=1",
    "launch?appid=1",
    "resume",
    "cancel",
    "unpair",
    "pair?phrase=pairchallenge",
];

/// A paired client.
fn paired(rig: &Rig) -> Peer {
    let peer = Peer::new();
    let (http, folder) = (rig.door.addresses().http, rig.trust_folder());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| get(http, &peer.first_step()));
        let entered = scope.spawn(|| enter(&folder, "1234", "a test"));
        assert_eq!(element(&first.join().unwrap(), "paired"), "1");
        let last = peer.further_steps(http, "1234");
        assert_eq!(element(&last, "paired"), "1", "{last}");
        assert!(entered.join().unwrap().unwrap().starts_with("paired with"));
    });
    peer
}

/// The number of the host's application.
fn application(rig: &Rig, peer: &Peer) -> String {
    let list = peer.get_protected(rig.door.addresses().https, "applist");
    element(&list, "ID")
}

/// Launches the application. Returns the answer.
fn launch(rig: &Rig, peer: &Peer, more: &str) -> String {
    let target = Peer::launch(&application(rig, peer), more);
    peer.get_protected(rig.door.addresses().https, &target)
}

#[test]
fn strangers_reach_the_description_and_pairing_only() {
    let rig = Rig::new("moonlight-strangers");
    let addresses = *rig.door.addresses();
    let description = get(addresses.http, "serverinfo");
    assert_eq!(element(&description, "hostname"), "the &lt;test&gt;");
    assert_eq!(element(&description, "PairStatus"), "0");
    for target in PROTECTED {
        let name = target.split('?').next().unwrap();
        if !["serverinfo", "pair", "unpair"].contains(&name) {
            let answer = get(addresses.http, target);
            assert!(answer.contains("status_code=\"404\""), "{target}: {answer}");
        }
        // One request has no certificate, the other has the certificate of a client that has not paired.
        for answer in [
            protected(addresses.https, target, None),
            Peer::new().get_protected(addresses.https, target),
        ] {
            assert!(answer.contains("status_code=\"401\""), "{target}: {answer}");
        }
    }
    // Without a session, RTSP does not answer.
    let options = b"OPTIONS x RTSP/1.0\r\nCSeq: 1\r\n\r\n";
    assert_eq!(exchange(addresses.rtsp, options), b"");
}

#[test]
fn a_paired_client_lists_launches_and_quits() {
    let rig = Rig::new("moonlight-paired");
    let peer = paired(&rig);
    let https = rig.door.addresses().https;
    let description = peer.get_protected(https, "serverinfo");
    assert_eq!(element(&description, "PairStatus"), "1");
    assert_eq!(element(&description, "currentgame"), "0");
    let number = application(&rig, &peer);
    let art = peer.get_protected(https, &format!("appasset?appid={number}"));
    assert!(art.contains("image/png"), "{art}");
    let launched = launch(&rig, &peer, "");
    assert!(element(&launched, "sessionUrl0").starts_with("rtspenc://127.0.0.1:"));
    let description = peer.get_protected(https, "serverinfo");
    assert_eq!(element(&description, "currentgame"), number);
    assert_eq!(element(&peer.get_protected(https, "cancel"), "cancel"), "1");
    let description = peer.get_protected(https, "serverinfo");
    assert_eq!(element(&description, "currentgame"), "0");
    // A client that unpairs becomes a stranger again.
    peer.get_protected(https, "unpair");
    let answer = peer.get_protected(https, "applist");
    assert!(answer.contains("status_code=\"401\""), "{answer}");
}

#[test]
fn pairing_steps_are_taken_once_and_in_order() {
    let rig = Rig::new("moonlight-steps");
    let (http, folder) = (rig.door.addresses().http, rig.trust_folder());
    let peer = Peer::new();
    // No pairing has begun.
    for step in [
        "clientchallenge",
        "serverchallengeresp",
        "clientpairingsecret",
    ] {
        let answer = get(http, &format!("pair?{step}={}", "00".repeat(32)));
        assert_eq!(element(&answer, "paired"), "0", "{answer}");
    }
    // The user at the host sees no message, because nothing has failed.
    assert_eq!(rig.lines.try_iter().next(), None);
    for malformed in [
        "pair",
        "pair?phrase=getservercert",
        "pair?clientchallenge=xyz",
    ] {
        let answer = get(http, malformed);
        assert!(answer.contains("status_code=\"400\""), "{answer}");
    }
    std::thread::scope(|scope| {
        let first = scope.spawn(|| get(http, &peer.first_step()));
        let entered = scope.spawn(|| enter(&folder, "1234", "a test"));
        assert_eq!(element(&first.join().unwrap(), "paired"), "1");
        get(http, &format!("pair?clientchallenge={}", "00".repeat(16)));
        let commitment = format!("pair?serverchallengeresp={}", "00".repeat(32));
        // The host reveals its secret once. An attacker that finds the PIN with this secret cannot commit again.
        assert!(get(http, &commitment).contains("pairingsecret"));
        let again = get(http, &commitment);
        assert_eq!(element(&again, "paired"), "0", "{again}");
        assert!(!again.contains("pairingsecret"), "{again}");
        let target = format!("pair?clientpairingsecret={}", peer.signed(&[7; 16]));
        assert_eq!(element(&get(http, &target), "paired"), "0");
        assert!(entered.join().unwrap().is_err());
    });
    let answer = peer.get_protected(rig.door.addresses().https, "applist");
    assert!(answer.contains("status_code=\"401\""), "{answer}");
}

#[test]
fn an_unreadable_pin_file_is_not_a_missing_pin() {
    let rig = Rig::new("moonlight-pin");
    let file = rig.trust_folder().join("moonlight-pin.toml");
    std::fs::create_dir(&file).unwrap();
    let http = rig.door.addresses().http;
    let answer = get(http, &Peer::new().first_step());
    assert!(answer.contains("status_code=\"500\""), "{answer}");
    assert!(answer.contains("cannot read the PIN"), "{answer}");
    // The pairing has ended, so a client at another address does not have to wait.
    assert!(rig.door.pin_desk().waiting().is_none());
}

#[test]
fn absurd_launches_get_an_answer() {
    let rig = Rig::new("moonlight-launch");
    let peer = paired(&rig);
    for absurd in [
        "mode=0x0x60",
        "mode=16384x16384x60",
        "mode=640x384x1000",
        "rikey=00",
        "rikeyid=abc",
        "appid=1",
    ] {
        let answer = launch(&rig, &peer, absurd);
        assert!(
            !answer.contains("status_code=\"200\""),
            "{absurd}: {answer}"
        );
        assert_eq!(element(&answer, "gamesession"), "0", "{absurd}");
    }
    let resume = peer.get_protected(rig.door.addresses().https, "resume?rikey=00");
    assert!(!resume.contains("status_code=\"200\""), "{resume}");
    assert_eq!(element(&launch(&rig, &peer, ""), "gamesession"), "1");
}

#[test]
fn rtsp_is_answered_sealed_and_once() {
    let rig = Rig::new("moonlight-rtsp");
    let peer = paired(&rig);
    launch(&rig, &peer, "");
    let rtsp = rig.door.addresses().rtsp;
    let options = "OPTIONS x RTSP/1.0\r\nCSeq: 1\r\n\r\n";
    let request = sealed(1, options);
    let answer = opened(&exchange(rtsp, &request));
    assert!(
        answer.starts_with("RTSP/1.0 200 OK\r\nCSeq: 1\r\n"),
        "{answer}"
    );
    // Replayed and forged requests and garbage get no answer.
    assert_eq!(exchange(rtsp, &request), b"");
    let mut forged = sealed(2, options);
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(exchange(rtsp, &forged), b"");
    for garbage in [&[0xff; 64][..], &[0; 64], b"GET / HTTP/1.1\r\n\r\n"] {
        assert_eq!(exchange(rtsp, garbage), b"");
    }
    // A client that supports sealing gets no unsealed answer about its session.
    let plain = String::from_utf8(exchange(rtsp, options.as_bytes())).unwrap();
    assert!(plain.starts_with("RTSP/1.0 454"), "{plain}");
    // PLAY without ANNOUNCE is refused, and so is the ANNOUNCE of an old client.
    let play = opened(&exchange(
        rtsp,
        &sealed(3, "PLAY / RTSP/1.0\r\nCSeq: 3\r\n\r\n"),
    ));
    assert!(play.starts_with("RTSP/1.0 455"), "{play}");
    let announce = "ANNOUNCE x RTSP/1.0\r\nCSeq: 4\r\nContent-length: 3\r\n\r\na=b";
    let announce = opened(&exchange(rtsp, &sealed(4, announce)));
    assert!(announce.starts_with("RTSP/1.0 400"), "{announce}");
    let setup = "SETUP streamid=video/0/0 RTSP/1.0\r\nCSeq: 5\r\n\r\n";
    let setup = opened(&exchange(rtsp, &sealed(5, setup)));
    let port = format!("server_port={}\r\n", rig.door.addresses().video.port());
    assert!(
        setup.contains(&port) && setup.contains("X-SS-Ping-Payload"),
        "{setup}"
    );
}

#[test]
fn floods_leave_room_for_others() {
    let rig = Rig::new("moonlight-flood");
    let addresses = *rig.door.addresses();
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    for address in [addresses.video, addresses.control, addresses.sound] {
        for length in [0, 1, 16, 20, 1400] {
            for _ in 0..200 {
                // Sending fails if the buffer is full. The flood continues without that datagram.
                let _ = noise.send_to(&vec![0xa5; length], address);
            }
        }
    }
    // These connections send nothing. The host closes each after a while, or at once if the address is at its limit.
    let idle: Vec<TcpStream> = (0..64)
        .filter_map(|_| TcpStream::connect(addresses.http).ok())
        .collect();
    drop(idle);
    let until = Instant::now() + TIMEOUT;
    let answered = loop {
        let answer = get(addresses.http, "serverinfo");
        if answer.contains("hostname") || Instant::now() > until {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(answered.contains("hostname"), "{answered}");
    // A header without an end.
    let endless = exchange(addresses.http, &[b'a'; 64 * 1024]);
    assert_eq!(endless, b"");
    let peer = paired(&rig);
    assert_eq!(element(&launch(&rig, &peer, ""), "gamesession"), "1");
}
