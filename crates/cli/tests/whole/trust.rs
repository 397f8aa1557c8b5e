//! Trust between clients and hosts when an impostor poses as a client or a host.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openuvr_net::address::path_of;
use openuvr_proto::control::handshake::{
    ClientHandshake, DeviceName, DeviceStatus, HandshakeError, HostHandshake, Identity,
    PairingEvent, Pin, Trust,
};
use openuvr_proto::time::Instant as Virtual;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use crate::support::{Folder, Host, PIN, Program, client, eventually, openuvr};

/// A small, slow test pattern.
const PATTERN: [&str; 6] = ["--source", "pattern", "--size", "320x200", "--fps", "10"];

/// The current time for the handshakes in this file.
fn now(since: Instant) -> Virtual {
    Virtual(i64::try_from(since.elapsed().as_nanos()).expect("a short test"))
}

/// An impostor that answers and pairs like a host, but with another key. It collects the data that a client reveals
/// when it pairs.
struct FakeHost {
    /// Number of Hellos; each attempt of the client sends one or more.
    greeted: Arc<AtomicUsize>,
    /// Number of PINs that the impostor had the opportunity to test.
    shown: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeHost {
    fn start(at: &str) -> FakeHost {
        let socket = UdpSocket::bind(at).expect("the port is free");
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("not zero");
        let (greeted, shown) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let stop = Arc::<AtomicBool>::default();
        let ours = (greeted.clone(), shown.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let (greeted, shown, stop) = ours;
            let identity = Identity::generate().expect("randomness");
            let mut host = HostHandshake::new(&identity).expect("randomness");
            let began = Instant::now();
            let mut datagram = [0; 2048];
            while !stop.load(Ordering::Relaxed) {
                let Ok((n, from)) = socket.recv_from(&mut datagram) else {
                    continue;
                };
                let now = now(began);
                // The impostor opens pairing again for each guess.
                let guess = Pin::parse("000000").expect("digits");
                if host.next_timeout().is_none() {
                    host.open_pairing(now, guess, Duration::from_secs(3600));
                }
                let unknown = |_: &_| DeviceStatus::Unknown;
                let reaction = host.handle_datagram(now, path_of(from), &datagram[..n], &unknown);
                // Byte 8 of a handshake datagram is its type; 3 is Hello.
                greeted.fetch_add(usize::from(datagram[8] == 3), Ordering::Relaxed);
                if let Some(reply) = reaction.reply {
                    let _ = socket.send_to(&reply, from);
                }
                while let Some(event) = host.poll_event() {
                    let wrong = matches!(event, PairingEvent::WrongPin { .. });
                    shown.fetch_add(usize::from(wrong), Ordering::Relaxed);
                }
            }
        });
        FakeHost {
            greeted,
            shown,
            stop,
            thread: Some(thread),
        }
    }

    fn stop(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends");
        }
        self.shown.load(Ordering::Relaxed)
    }
}

#[test]
fn a_known_host_is_not_replaced_by_an_impostor() {
    let mut host = Host::paired_with(&["client"], &PATTERN);
    let (address, folder) = (host.address(), &host.folder);
    let known = folder.path().join("client/hosts.toml");
    let before = std::fs::read_to_string(&known).expect("the client's known hosts");
    host.program.stop();
    let fake = FakeHost::start(&address);
    // The PIN is on the client's command line, as in a script. It must never be revealed to a host without the known
    // key.
    for _ in 0..3 {
        let args = [&["--present", "null"][..], &PIN].concat();
        let (status, text) = client(folder, "client", &address, &args).wait();
        assert!(!status.success(), "{text}");
        assert!(
            text.contains("is already paired: --pin is ignored"),
            "{text}"
        );
        assert!(text.contains("does not know this device"), "{text}");
    }
    assert!(fake.greeted.load(Ordering::Relaxed) >= 3);
    assert_eq!(fake.stop(), 0, "a PIN was revealed");
    assert_eq!(
        std::fs::read_to_string(&known).expect("still there"),
        before
    );
}

#[test]
fn after_a_session_no_pin_is_revealed() {
    let mut host = Host::start(&[&PIN[..], &PATTERN].concat());
    let address = host.address();
    let client = host.headless_client("client", &PIN);
    client.line("paired with the host");
    client.line("player at");
    host.program.stop();
    let fake = FakeHost::start(&address);
    eventually("the client looks for its host", || {
        (fake.greeted.load(Ordering::Relaxed) >= 1).then_some(())
    });
    // The client ends, or continues to look for the known key.
    eventually("an answer has been judged", || {
        let again = fake.greeted.load(Ordering::Relaxed) >= 4;
        (again || client.count("does not know this device") > 0).then_some(())
    });
    assert_eq!(fake.stop(), 0, "a PIN was revealed");
    assert_eq!(client.count("paired"), 1, "{}", client.text());
}

#[test]
fn pairing_again_is_explicit_and_shows_both_keys() {
    let mut old = Host::paired_with(&["client"], &PATTERN);
    let address = old.address();
    let first = old
        .headless_client("client", &[])
        .line("connected to the host");
    let before = first.rsplit(' ').next().expect("a fingerprint").to_owned();
    old.program.stop();
    // A reinstalled host has another key and no paired devices.
    std::fs::remove_dir_all(old.folder.path().join("host")).expect("its keys");
    let reinstalled = Host::start_at(old.port, &[&PATTERN[..], &PIN].concat());
    let present = ["--present", "null"];
    let without = [&present[..], &PIN].concat();
    let text = client(&old.folder, "client", &address, &without).wait().1;
    assert!(text.contains("--pair-again"), "{text}");
    let again = [&present[..], &PIN, &["--pair-again"]].concat();
    let paired = client(&old.folder, "client", &address, &again);
    let line = paired.line("paired again with the host");
    assert!(
        line.ends_with(&format!("the previous key was {before}")),
        "{line}"
    );
    paired.line("player at");
    drop(paired);
    // From now on, the client knows the host by its new key.
    let known = client(&old.folder, "client", &address, &present);
    let line = known.line("connected to the host");
    assert!(!line.contains(&before), "{line}");
    assert_eq!(reinstalled.program.count("wrong PIN"), 0);
}

/// Guesses PINs at `host` from the address `from` at the maximum rate, until `stop` is set.
fn guess_pins(from: &str, host: SocketAddr, stop: &AtomicBool) {
    let socket = UdpSocket::bind(from).expect("loopback has many addresses");
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .expect("not zero");
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let identity = Identity::generate().expect("randomness");
        let trust = Trust::Pin(Pin::parse("000000").expect("digits"));
        let name = DeviceName::default();
        let mut client =
            ClientHandshake::new(now(began), &identity, name, trust).expect("randomness");
        let mut over = false;
        while !over && !stop.load(Ordering::Relaxed) {
            while let Some(datagram) = client.poll_transmit(now(began)) {
                let _ = socket.send_to(&datagram, host);
            }
            let mut datagram = [0; 2048];
            if let Ok(n) = socket.recv(&mut datagram) {
                let result = client.handle_datagram(now(began), &datagram[..n]);
                over = matches!(result, Err(e) if e != HandshakeError::Crypto);
            }
            over |= client.handle_timeout(now(began)).is_err();
        }
    }
}

#[test]
fn an_honest_client_pairs_while_others_guess() {
    let mut host = Host::start(&[&PIN[..], &PATTERN].concat());
    let at: SocketAddr = host.address().parse().expect("an address");
    let stop = Arc::<AtomicBool>::default();
    let attackers: Vec<_> = (2..6)
        .map(|n| {
            let stop = stop.clone();
            std::thread::spawn(move || guess_pins(&format!("127.0.0.{n}:0"), at, &stop))
        })
        .collect();
    // All attackers have used their tries, and the host continues.
    host.program
        .nth_line(4 * 3, "a wrong PIN came from 127.0.0.");
    let honest = host.headless_client("honest", &PIN);
    honest.line("paired with the host");
    honest.line("player at");
    stop.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.join().expect("it ends");
    }
    host.program.line("paired with honest");
    assert_eq!(
        host.program.count("a wrong PIN"),
        4 * 3,
        "{}",
        host.program.text()
    );
    for n in 2..6 {
        let from = format!("from 127.0.0.{n}:");
        assert_eq!(host.program.count(&from), 3);
    }
    host.program.assert_running();
}

#[test]
fn the_end_of_a_pairing_window_is_a_line() {
    let args = [&PATTERN[..], &PIN, &["--pairing-timeout", "1s"]].concat();
    let host = Host::start(&args);
    host.program
        .line("pairing is closed: no device paired in time");
    let text = host.headless_client("late", &PIN).fails_in_one_line();
    assert!(text.contains("the host is not pairing now"), "{text}");
}

/// The PIN in a line.
fn pin_of(text: &str) -> String {
    let (_, pin) = text.split_once("with the PIN  ").expect("a PIN");
    let digits = pin.chars().take_while(char::is_ascii_digit);
    digits.collect()
}

#[test]
fn devices_pair_opens_a_window_at_a_running_host() {
    let args = [&PATTERN[..], &PIN, &["--pairing-timeout", "1s"]].concat();
    let host = Host::start(&args);
    host.program
        .line("pairing is closed: no device paired in time");
    let pin = pin_of(&host.devices(&["pair"]));
    host.program.line("pairing is open for 120 s");
    // The PIN has blanks, as if it were pasted.
    let blanks = format!(" {} {}\u{a0}", &pin[..3], &pin[3..]);
    let client = host.headless_client("second", &["--pin", &blanks]);
    client.line("paired with the host");
    host.program.line("paired with second");
    // The pairing was open for one device.
    let text = host
        .headless_client("third", &["--pin", &pin])
        .fails_in_one_line();
    assert!(text.contains("the host is not pairing now"), "{text}");
    assert!(text.contains("openuvr devices pair"), "{text}");
}

#[test]
fn devices_pair_needs_a_running_host() {
    let folder = Folder::new();
    let dir = folder.join("host");
    let command = openuvr(&["devices", "pair", "--config-dir", &dir]);
    let (status, text) = Program::start("pair", command).wait();
    let [waiting, failed] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(waiting.contains("waiting up to 10 s"), "{text}");
    assert!(
        failed.contains("no running host uses the folder") && failed.contains(&dir),
        "{text}"
    );
    let command = openuvr(&["devices", "pair", "--duration", "2h"]);
    let (status, text) = Program::start("pair", command).wait();
    assert_eq!(status.code(), Some(2), "{text}");
}

#[test]
fn the_printed_authority_signed_the_page() {
    let host = Host::start(&[&PATTERN[..], &["--web", "127.0.0.1:0"]].concat());
    let page = host.folder.path().join("host/web.pem");
    let page = eventually("the page's certificate", || {
        std::fs::read_to_string(&page).ok()
    });
    let page = CertificateDer::from_pem_slice(page.as_bytes()).expect("a certificate");
    let dir = host.folder.join("host");
    let print = || {
        let command = &mut openuvr(&["web-certificate", "--config-dir", &dir]);
        let out = command.output().expect("the program runs");
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).expect("PEM is text")
    };
    let printed = print();
    // The output is the certificate for browsers, without the signing key.
    assert!(
        printed.starts_with("-----BEGIN CERTIFICATE-----\n")
            && printed.ends_with("-----END CERTIFICATE-----\n"),
        "{printed}"
    );
    assert_eq!(printed.matches("-----BEGIN").count(), 1, "{printed}");
    let authority = CertificateDer::from_pem_slice(printed.as_bytes()).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(authority).expect("an authority");
    let provider = Arc::new(default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.build().expect("one root");
    for name in ["localhost", "127.0.0.1"] {
        let name = ServerName::try_from(name).expect("a name");
        let taken = verifier.verify_server_cert(&page, &[], &name, &[], UnixTime::now());
        taken.unwrap_or_else(|e| panic!("{name:?} is not trusted: {e}"));
    }
    assert_eq!(print(), printed, "another time, another authority");
}

#[test]
fn an_authority_is_printed_before_the_first_host() {
    let folder = Folder::new();
    let dir = folder.join("new");
    let command = &mut openuvr(&["web-certificate", "--config-dir", &dir]);
    let out = command.output().expect("the program runs");
    assert!(out.status.success(), "{out:?}");
    let kept = std::fs::read(folder.path().join("new/web-authority.pem")).expect("it is kept");
    assert!(!out.stdout.is_empty() && kept.starts_with(&out.stdout));
}
