//! Input of attackers and broken pages. It gets a clear response or is counted as a drop, and the host keeps working.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openuvr_gateway::{PinEntry, Service};
use openuvr_proto::units::Size;
use serde_json::{Value, json};
use str0m::format::Codec;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::caller::{Caller, next, send_message};
use super::remote::{Arrived, Remote};
use super::support::{Rig, eventually};

const SIZE: Size = Size::new(320, 192);

/// A value of `/metrics`.
pub(super) fn figure(caller: &Caller, name: &str) -> u64 {
    let figures = caller.request("GET /metrics", &[], "").body;
    let name = format!("openuvr_web_{name} ");
    let line = figures.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap().parse().unwrap()
}

/// Checks that frames keep arriving.
fn plays_on(remote: &mut Remote) {
    let mut frames = 0;
    remote.wait("more frames", |arrived| {
        if let Arrived::Packet(packet) = arrived {
            frames += usize::from(packet.header.marker);
        }
        (frames == 30).then_some(())
    });
}

#[test]
fn another_sites_page_gets_nothing() {
    let rig = Rig::new("origin", SIZE);
    let caller = Caller::known(&rig);
    for origin in ["https://evil.example", "null", "http://127.0.0.1"] {
        assert_eq!(caller.websocket("", origin).err(), Some(403), "{origin}");
        let line = format!("origin: {origin}");
        assert_eq!(caller.request("POST /login", &[&line], "{}").status, 403);
    }
    assert_eq!(caller.request("POST /login/challenge", &[], "").status, 403);
    assert_eq!(figure(&caller, "foreign_origins_total"), 7);
}

#[test]
fn sums_do_not_fall_when_a_browser_leaves() {
    let rig = Rig::new("sums", SIZE);
    let caller = Caller::known(&rig);
    let mut remote = Remote::connected(&caller, "");
    plays_on(&mut remote);
    let names = ["sent_datagrams_total", "sent_bytes_total"];
    let before = names.map(|name| figure(&caller, name));
    assert!(before[0] > 30 && before[1] > before[0], "{before:?}");
    drop(remote);
    eventually("the browser has left", || {
        (figure(&caller, "connections") == 0).then_some(())
    });
    let after = names.map(|name| figure(&caller, name));
    assert!(
        after[0] >= before[0] && after[1] >= before[1],
        "{before:?} {after:?}"
    );
    let figures = caller.request("GET /metrics", &[], "").body;
    for name in [
        "unsent_datagrams_total",
        "lost_events_total",
        "sent_bytes_total",
    ] {
        let line = format!("# TYPE openuvr_web_{name} counter");
        assert!(figures.contains(&line), "{figures}");
    }
    // A later browser is included in the sums.
    let mut again = Remote::connected(&caller, "");
    plays_on(&mut again);
    assert!(figure(&caller, names[1]) > after[1]);
}

#[test]
fn garbage_on_every_port_harms_no_connection() {
    let rig = Rig::new("garbage", SIZE);
    let caller = Caller::known(&rig);
    let mut remote = Remote::connected(&caller, "");
    // Over TCP: without TLS, then a truncated handshake, then TLS without HTTP.
    let mut plain = TcpStream::connect(rig.address()).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = plain.read(&mut [0; 64]);
    let mut truncated = TcpStream::connect(rig.address()).unwrap();
    truncated.write_all(&[22, 3, 1]).unwrap();
    truncated.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = truncated.read(&mut [0; 64]);
    let mut secure = caller.secure();
    secure.write_all(&[0x55; 4096]).unwrap();
    let answer = std::thread::spawn(move || {
        let mut answer = Vec::new();
        let _ = secure.read_to_end(&mut answer);
        answer
    });
    // The answer may take the gateway's request timeout of 10 s, during which the browser must send messages.
    while !answer.is_finished() {
        plays_on(&mut remote);
    }
    let answer = answer.join().unwrap();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"));
    let long = format!("x: {}", "y".repeat(32 * 1024));
    assert_eq!(caller.request("GET /", &[&long], "").status, 431);
    assert_eq!(caller.request("DELETE /", &[], "").status, 405);
    assert_eq!(caller.request("GET /../etc/passwd", &[], "").status, 404);
    plays_on(&mut remote);
    // Over UDP: datagrams that begin with the first byte of STUN, DTLS, RTP or RTCP, and others.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sent = 0;
    for first in [0_u8, 1, 20, 22, 23, 63, 64, 128, 129, 191, 200, 255] {
        for length in [1_usize, 4, 12, 20, 28, 100, 1400] {
            let mut datagram = vec![first; length];
            // The STUN magic cookie, so that some datagrams are parsed further.
            if let Some(cookie) = datagram.get_mut(4..8) {
                cookie.copy_from_slice(&[0x21, 0x12, 0xa4, 0x42]);
            }
            stranger.send_to(&datagram, rig.address()).unwrap();
            sent += 1;
        }
    }
    // Garbage in the data channels.
    remote.send_control_bytes(&[]);
    remote.send_control_bytes(&[8, 255, 255, 1, 2]);
    remote.send_control_bytes(&[0xf0; 1000]);
    remote.send_notice(&json!({ "type": "sing" }));
    // The next frames may have been sent before the gateway received any of it.
    eventually("the garbage is counted", || {
        plays_on(&mut remote);
        let (strays, bad) = ("stray_datagrams_total", "bad_input_total");
        (figure(&caller, strays) == sent && figure(&caller, bad) >= 2).then_some(())
    });
    assert!(figure(&caller, "tls_failed_total") >= 1);
}

/// A service whose client waits for a PIN. The client answers when the test triggers it.
struct SlowPairing {
    tried: AtomicUsize,
    answers: Mutex<Receiver<()>>,
}

impl PinEntry for SlowPairing {
    fn service(&self) -> Service {
        Service {
            name: "Moonlight",
            address: None,
            port: 47_989,
        }
    }

    fn waiting(&self) -> Option<String> {
        Some("192.0.2.7".to_owned())
    }

    fn pair(&self, _: &str, _: Option<&str>) -> Result<String, String> {
        self.tried.fetch_add(1, Ordering::Relaxed);
        let _ = self.answers.lock().unwrap().recv();
        Err("another PIN".to_owned())
    }
}

#[test]
fn pins_of_observers_and_floods_of_pins_are_dropped() {
    let (answer, answers) = sync_channel(1);
    let service = Arc::new(SlowPairing {
        tried: AtomicUsize::new(0),
        answers: Mutex::new(answers),
    });
    let rig = Rig::with_pin_entry("pins", SIZE, service.clone());
    let caller = Caller::known(&rig);
    let mut player = Remote::connected(&caller, "");
    let asked = |arrived| match arrived {
        Arrived::Notice(told) if told["type"] == "pairing" => Some(told["client"].clone()),
        _ => None,
    };
    assert_eq!(player.wait("the waiting client", asked), "192.0.2.7");
    let pin = json!({ "type": "pair", "pin": "1234" });
    let mut watcher = Remote::connected(&caller, "role=watch");
    watcher.send_notice(&pin);
    let tried = || service.tried.load(Ordering::Relaxed);
    let dropped = |remote: &mut Remote, count: u64| {
        eventually("dropped PINs", || {
            plays_on(remote);
            (figure(&caller, "bad_input_total") == count).then_some(())
        });
    };
    dropped(&mut watcher, 1);
    assert_eq!(tried(), 0);
    for _ in 0..5 {
        player.send_notice(&pin);
    }
    dropped(&mut player, 5);
    // The service gets the PIN on a separate thread.
    eventually("a try", || (tried() > 0).then_some(()));
    answer.send(()).unwrap();
    let outcome = player.wait("the outcome", |arrived| match arrived {
        Arrived::Notice(told) if told["type"] == "paired" => Some(told),
        _ => None,
    });
    assert_eq!(
        (&outcome["paired"], &outcome["words"]),
        (&json!(false), &json!("another PIN"))
    );
    assert_eq!(tried(), 1);
}

#[test]
fn the_addresses_of_a_browser_are_limited() {
    let rig = Rig::new("addresses", SIZE);
    let mut remote = Remote::connected(&Caller::known(&rig), "");
    // The limit is 4096.
    let replies: Vec<Value> = (0..4).map(|_| remote.offers_addresses(1100)).collect();
    let refused = |reply: &Value| {
        let why = reply["message"].as_str();
        why.is_some_and(|why| why.contains("network addresses"))
    };
    assert!(!replies[..3].iter().any(refused), "{replies:?}");
    assert!(refused(&replies[3]), "{replies:?}");
}

#[test]
fn a_browser_without_h264_is_refused() {
    let rig = Rig::new("no-h264", SIZE);
    let caller = Caller::known(&rig);
    let refused = Remote::offer(&caller, "", &[]).err().unwrap();
    let (answer, mut socket) = *refused;
    assert_eq!(answer["type"], "error");
    let why = answer["message"].as_str().unwrap();
    assert!(why.contains("does not offer to receive H.264"), "{why}");
    // The browser may retry.
    send_message(
        &mut socket,
        &json!({ "type": "connect", "connectionId": "b" }),
    );
    assert_eq!(next(&mut socket).unwrap()["connectionId"], "b");
}

#[test]
#[ignore = "20 s: ./dev test-web runs it"]
fn a_silent_browser_gets_a_reason() {
    let rig = Rig::new("silent", SIZE);
    let caller = Caller::known(&rig);
    let mut player = Remote::connected(&caller, "");
    // The browser ignores the answer, so that ICE finds no path.
    let Ok(mut silent) = Remote::offer(&caller, "role=watch", &[Codec::H264]) else {
        panic!("the offer was refused");
    };
    let told = std::thread::spawn(move || {
        let error = next(&mut silent.socket).unwrap();
        (error, next(&mut silent.socket).unwrap())
    });
    while !told.is_finished() {
        plays_on(&mut player);
    }
    let (error, over) = told.join().unwrap();
    let why = error["message"].as_str().unwrap();
    assert!(why.contains("no network path for media"), "{why}");
    assert_eq!(over["type"], "disconnect");
    plays_on(&mut player);
}

/// Reverse proxies close connections that are idle for a minute, and a playing page sends no signalling.
#[test]
#[ignore = "20 s: ./dev test-web runs it"]
fn a_playing_websocket_is_not_idle() {
    let rig = Rig::new("kept-alive", SIZE);
    let mut player = Remote::connected(&Caller::known(&rig), "");
    player.socket.get_ref().sock.set_nonblocking(true).unwrap();
    let until = Instant::now() + Duration::from_secs(40);
    loop {
        assert!(Instant::now() < until, "no ping");
        plays_on(&mut player);
        match player.socket.read() {
            Ok(Message::Ping(_)) => break,
            Err(Error::Io(e)) if e.kind() == ErrorKind::WouldBlock => {}
            other => panic!("{other:?}"),
        }
    }
    plays_on(&mut player);
}

#[test]
fn invalid_signalling_is_answered() {
    let rig = Rig::new("signalling", SIZE);
    let caller = Caller::known(&rig);
    let mut socket = caller.websocket("", &caller.origin()).unwrap();
    let mut why = |message: &str| {
        socket.send(Message::text(message)).unwrap();
        let answer = next(&mut socket).unwrap();
        assert_eq!(answer["type"], "error", "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    };
    assert!(why("{").contains("not a signalling message"));
    assert!(why(r#"{"type":"offer","from":"a"}"#).contains("data.sdp"));
    let sdp = r#"{"type":"offer","from":"a","data":{"sdp":"v=0\r\nnonsense"}}"#;
    assert!(why(sdp).contains("invalid session description"));
    assert!(why(r#"{"type":"sing","connectionId":"a"}"#).contains("unknown message type"));
    // For an unknown connection, a candidate is ignored, and a disconnect is only confirmed.
    for silent in [
        r#"{"type":"candidate","from":"a","data":{"candidate":"candidate:x"}}"#,
        r#"{"type":"disconnect","connectionId":"z"}"#,
    ] {
        socket.send(Message::text(silent)).unwrap();
    }
    assert_eq!(next(&mut socket).unwrap()["type"], "disconnect");
    assert_eq!(figure(&caller, "bad_messages_total"), 3);
    // An oversized message closes the connection.
    let _ = socket.send(Message::text("x".repeat(100_000)));
    assert_eq!(next(&mut socket), None);
    // A flood of messages also closes it.
    let mut socket = caller.websocket("", &caller.origin()).unwrap();
    for _ in 0..2000 {
        let message = r#"{"type":"connect","connectionId":"a"}"#;
        if socket.send(Message::text(message)).is_err() {
            break;
        }
    }
    let mut answers = 0;
    while next(&mut socket).is_some() {
        answers += 1;
    }
    assert!(answers < 1000, "{answers}");
}

#[test]
fn tabs_of_one_device_share_it_up_to_a_limit() {
    let rig = Rig::new("tabs", SIZE);
    let caller = Caller::known(&rig);
    let mut first = Remote::connected(&caller, "");
    let mut second = Remote::connected(&caller, "role=watch");
    plays_on(&mut first);
    plays_on(&mut second);
    let _more: Vec<_> = (0..2)
        .map(|_| caller.websocket("", &caller.origin()).unwrap())
        .collect();
    assert_eq!(caller.websocket("", &caller.origin()).err(), Some(503));
    drop(second);
    let place = || caller.websocket("", &caller.origin()).ok();
    eventually("a free slot", place);
    plays_on(&mut first);
}

/// Half-open sessions.
const HALF_OPEN: usize = 10_000;

/// Number of sessions that the test holds at a time: a process may have only 1024 descriptors.
const HELD: usize = 500;

#[test]
fn half_open_sessions_affect_no_browser() {
    let rig = Rig::new("half-open", SIZE);
    let caller = Caller::known(&rig);
    let mut remote = Remote::connected(&caller, "");
    // Over TCP: no bytes, or the beginning of a TLS handshake (a handshake record of 512 bytes, RFC 8446 section 5.1).
    let mut held = VecDeque::new();
    for number in 0..HALF_OPEN {
        let Ok(mut half) = TcpStream::connect(rig.address()) else {
            continue;
        };
        if number % 2 == 0 {
            let _ = half.write_all(&[22, 3, 1, 2, 0, 1]);
        }
        held.push_back(half);
        if held.len() > HELD {
            held.pop_front();
        }
        if number % 2500 == 0 {
            plays_on(&mut remote);
        }
    }
    // Over UDP: the same number of binding requests (STUN, RFC 8489), each with its own identifier.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..u32::try_from(HALF_OPEN).unwrap() {
        let mut request = [0; 20];
        request[..8].copy_from_slice(&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]);
        request[16..].copy_from_slice(&number.to_be_bytes());
        stranger.send_to(&request, rig.address()).unwrap();
        if number % 2500 == 0 {
            plays_on(&mut remote);
        }
    }
    plays_on(&mut remote);
    drop(held);
    let crowded_out = eventually("free slots", || {
        let figures = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            figure(&caller, "tcp_crowded_out_total")
        }));
        figures.ok()
    });
    // Some connections ended before the gateway accepted them.
    assert!(crowded_out >= 100, "{crowded_out}");
    plays_on(&mut remote);
}
