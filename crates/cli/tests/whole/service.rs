//! A host as a service: its messages at the socket of a service manager (sd_notify(3)).

use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;

use crate::support::{Folder, Program, TIMEOUT, openuvr};

/// The time limit of the watchdog in microseconds. The host sends four messages in it.
const WATCHDOG_USEC: &str = "400000";

/// A service manager's socket, and the folder that contains it.
struct Manager {
    socket: UnixDatagram,
    folder: Folder,
}

impl Manager {
    fn open() -> Manager {
        let folder = Folder::new();
        let socket = UnixDatagram::bind(folder.join("notify")).expect("a socket");
        let timeout = socket.set_read_timeout(Some(TIMEOUT));
        timeout.expect("a socket has timeouts");
        Manager { socket, folder }
    }

    /// Starts a host at this address as its service.
    fn start(&self, address: &str) -> Program {
        let dir = self.folder.join("host");
        let mut command = openuvr(&[
            "host",
            "--source",
            "pattern",
            "--size",
            "320x200",
            "--fps",
            "15",
            "--realtime",
            "off",
            "--bind",
            address,
            "--config-dir",
            &dir,
        ]);
        command
            .env("NOTIFY_SOCKET", self.folder.join("notify"))
            .env("WATCHDOG_USEC", WATCHDOG_USEC)
            .env_remove("WATCHDOG_PID");
        Program::start("host", command)
    }

    /// The next message of the service.
    fn message(&self) -> String {
        let mut message = [0; 256];
        let length = self.socket.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length]).into_owned()
    }
}

#[test]
fn a_service_manager_is_told_of_start_life_and_end() {
    let manager = Manager::open();
    let mut host = manager.start("127.0.0.1:0");
    assert_eq!(manager.message(), "READY=1\n");
    host.line("openuvr host: streaming");
    for _ in 0..10 {
        assert_eq!(manager.message(), "WATCHDOG=1\n");
    }
    host.signal(Signal::TERM);
    let last = loop {
        match manager.message() {
            alive if alive == "WATCHDOG=1\n" => {}
            other => break other,
        }
    };
    assert_eq!(last, "STOPPING=1\n");
    let (status, text) = host.wait();
    assert!(status.success(), "{status}: {text}");
}

#[test]
fn a_service_manager_that_does_not_read_stops_nothing() {
    let manager = Manager::open();
    let other = UnixDatagram::unbound().expect("a socket");
    other
        .connect(manager.folder.join("notify"))
        .expect("a socket");
    other.set_nonblocking(true).expect("a socket");
    let full = (0..100_000).find(|_| other.send(b"X=1\n").is_err());
    assert!(full.is_some());
    let mut host = manager.start("127.0.0.1:0");
    host.line("openuvr host: streaming");
    host.signal(Signal::TERM);
    let (status, text) = host.wait();
    assert!(status.success(), "{status}: {text}");
}

#[test]
fn a_host_that_cannot_start_does_not_report_a_start() {
    let manager = Manager::open();
    // This address belongs to no machine (RFC 5737).
    let mut host = manager.start("192.0.2.1:0");
    host.fails_in_one_line();
    manager.socket.set_nonblocking(true).expect("a socket");
    let mut message = [0; 256];
    let none = manager.socket.recv(&mut message);
    assert!(none.is_err(), "{}", String::from_utf8_lossy(&message));
}
