//! Transport selection between two machines: the transport that a session gets, the fallback if it is absent
//! or fails, and the messages.

use std::path::PathBuf;
use std::time::Duration;

use crate::support::machines::{HOST, Machines, on};
use crate::support::stalls::measured_without_stalls;
use crate::support::{Folder, Host, PIN, Program, eventually, openuvr, skip};

/// Drops UDP datagrams larger than an Ethernet frame. A veth passes UDP GSO batches on before the kernel segments them,
/// so this filter drops only batches. A network card with faulty segmentation has the same effect.
const DROP_BATCHES: &str = "8,40 0 0 12,21 0 5 2048,48 0 0 23,21 0 3 17,40 0 0 16,37 0 1 1500,\
                            6 0 0 2,6 0 0 4294967295";

/// Drops frames of EtherType 0x88B5.
const DROP_RAW: &str = "4,40 0 0 12,21 0 1 34997,6 0 0 2,6 0 0 4294967295";

/// Prefix of a command line: runs the command without the right to open packet sockets.
const NO_RAW: [&str; 5] = [
    "setpriv",
    "--bounding-set",
    "-net_raw",
    "--inh-caps",
    "-net_raw",
];

/// If the machine stalls for longer than this, a transport may not answer in time, and the test starts again.
const STALLED: Duration = Duration::from_millis(100);

struct Fixture {
    machines: Machines,
    folder: Folder,
}

impl Fixture {
    fn new(machines: Option<Machines>) -> Option<Fixture> {
        let folder = Folder::new();
        Some(Fixture {
            machines: machines?,
            folder,
        })
    }

    fn host(&self, before: &[&str], args: &[&str]) -> Program {
        // Key frames need more than one datagram, so that they are sent in batches.
        let own = ["host", "--source", "pattern", "--size", "640x480"];
        let args = [&own[..], &PIN, &["--realtime", "off"], args].concat();
        let command = on(&self.machines.host, before, &self.home("h"), None, &args);
        let program = Program::start("host", command);
        program.line("streaming a test pattern");
        program
    }

    fn client(&self, before: &[&str], target: &str, args: &[&str]) -> Program {
        let csv = self.folder.join("client.csv");
        let own = ["client", target, "--present", "null", "--csv", &csv];
        let args = [&own[..], &PIN, &["--realtime", "off"], args].concat();
        let command = on(&self.machines.client, before, &self.home("c"), None, &args);
        Program::start("client", command)
    }

    /// Starts a host and a client whose video arrives over `transport`.
    fn stream(
        &self,
        at_host: &[&str],
        target: &str,
        at_client: &[&str],
        transport: &str,
    ) -> (Program, Program) {
        measured_without_stalls(3, STALLED, || {
            let host = self.host(&[], at_host);
            let client = self.client(&[], target, at_client);
            selected(client, transport).map(|client| (host, client))
        })
    }

    fn home(&self, name: &str) -> PathBuf {
        let home = self.folder.path().join(name);
        std::fs::create_dir_all(&home).expect("a directory");
        home
    }

    /// Number of complete frames at the client so far.
    fn complete_frames(&self) -> usize {
        let csv = std::fs::read_to_string(self.folder.join("client.csv")).unwrap_or_default();
        csv.lines()
            .filter(|line| line.contains(",complete,"))
            .count()
    }

    fn more_frames(&self, count: usize) {
        let before = self.complete_frames();
        eventually("frames at the client", || {
            (self.complete_frames() >= before + count).then_some(())
        });
    }
}

/// Waits until a client has selected a transport, or has ended. Returns its output if the transport is another one.
fn selected(mut client: Program, transport: &str) -> Result<Program, String> {
    eventually("a video transport", || {
        let over = client.has_ended() || client.count("video transport: ") > 0;
        over.then_some(())
    });
    match client.count(&format!("video transport: {transport}")) {
        0 => Err(client.text()),
        _ => Ok(client),
    }
}

#[test]
fn raw_ethernet_needs_no_ip_at_all() {
    let Some(fixture) = Fixture::new(Machines::without_ip()) else {
        return;
    };
    let target = format!("cable/{}", fixture.machines.host_mac());
    let (host, mut client) = fixture.stream(&["--table", "on"], &target, &[], "raw");
    host.line("uses transport raw");
    fixture.more_frames(30);
    client.stop();
    host.line("left: it disconnected");
}

#[test]
fn a_session_falls_back_from_a_dead_transport() {
    let Some(fixture) = Fixture::new(Machines::with_ip()) else {
        return;
    };
    let client_side = &fixture.machines.client;
    if fixture
        .machines
        .drop_at(client_side, &[DROP_BATCHES])
        .is_none()
    {
        return;
    }
    let table = ["--table", "on"];
    let (mut host, mut client) = fixture.stream(&table, HOST, &table, "raw");
    host.line("uses transport raw");
    fixture.more_frames(30);

    // Raw Ethernet fails, and the session continues over UDP.
    fixture.machines.drop_at(client_side, &[DROP_RAW]).unwrap();
    client.line("raw Ethernet failed: back on UDP");
    client.line("video transport: udp-gso");
    host.nth_line(2, "uses transport udp-gso");
    fixture.more_frames(30);
    client.assert_running();
    // The live table shows the transport, too.
    host.line("complete frames/s  ");
    let table = host.line("Mb/s  loss");
    assert!(table.contains("raw") || table.contains("udp"), "{table}");
    client.stop();
    let text = host.stop();
    assert_eq!(text.matches("joins as player").count(), 1, "{text}");
    assert_eq!(text.matches(" left: ").count(), 1, "{text}");
}

#[test]
fn without_raw_ethernet_a_session_uses_udp() {
    for (filters, client_may) in [
        (&[DROP_BATCHES, DROP_RAW][..], true),
        (&[DROP_BATCHES], false),
    ] {
        let Some(fixture) = Fixture::new(Machines::with_ip()) else {
            return;
        };
        if fixture
            .machines
            .drop_at(&fixture.machines.client, filters)
            .is_none()
        {
            return;
        }
        let host = fixture.host(&[], &[]);
        let before: &[&str] = if client_may { &[] } else { &NO_RAW };
        let mut client = fixture.client(before, HOST, &[]);
        let why = client.line("staying on UDP");
        let want = if client_may {
            "no answer from the host over raw Ethernet"
        } else {
            "CAP_NET_RAW"
        };
        assert!(why.contains(want), "{why}");
        // Single datagrams pass.
        client.line("video transport: udp");
        host.nth_line(2, "uses transport udp");
        fixture.more_frames(30);
        client.stop();
    }
}

#[test]
fn a_forced_absent_transport_is_an_error() {
    let Some(fixture) = Fixture::new(Machines::with_ip()) else {
        return;
    };
    let no_raw = |text: &str| {
        assert!(
            text.contains("CAP_NET_RAW") && text.contains("setup --only raw-ethernet`"),
            "{text}"
        );
    };
    for link in ["raw", "raw-ring"] {
        let own = ["host", "--source", "pattern", "--link", link];
        let home = fixture.home("h");
        let command = on(&fixture.machines.host, &NO_RAW, &home, None, &own);
        no_raw(&Program::start("host", command).fails_in_one_line());
    }

    // A host without the privilege serves over UDP, and prints a message.
    let mut host = fixture.host(&NO_RAW, &["--link", "udp"]);
    let raw = ["--link", "raw"];
    no_raw(&fixture.client(&NO_RAW, HOST, &raw).fails_in_one_line());
    let (status, text) = fixture.client(&[], HOST, &["--link", "udp-gso"]).wait();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(
        text.contains("link udp-gso is unavailable: the host sends"),
        "{text}"
    );
    let text = fixture.client(&[], "10.77.0.9", &raw).fails_in_one_line();
    assert!(text.contains("Ethernet address of 10.77.0.9"), "{text}");
    let (status, text) = fixture.client(&[], HOST, &raw).wait();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(
        text.contains("link raw is unavailable: no answer"),
        "{text}"
    );
    host.assert_running();
}

#[test]
fn unreachable_and_silent_hosts_differ_in_error() {
    let Some(fixture) = Fixture::new(Machines::without_ip()) else {
        return;
    };
    let (status, text) = fixture.client(&[], HOST, &[]).wait();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("host unreachable"), "{text}");
    assert!(text.contains("Network is unreachable"), "{text}");
    assert!(!text.contains("no answer"), "{text}");
    let target = format!("cable/{}", fixture.machines.host_mac());
    let text = fixture.client(&[], &target, &["--link", "udp"]).wait().1;
    assert!(text.contains("can't be reached over UDP"), "{text}");
}

#[test]
fn a_host_on_raw_ethernet_alone_is_found_by_its_address() {
    let Some(fixture) = Fixture::new(Machines::with_ip()) else {
        return;
    };
    let (host, mut client) = fixture.stream(&["--link", "raw"], HOST, &[], "raw");
    host.line("uses transport raw");
    fixture.more_frames(10);
    client.stop();
}

#[test]
fn mapped_rings_carry_a_session_at_one_end_and_at_both() {
    let Some(fixture) = Fixture::new(Machines::with_ip()) else {
        return;
    };
    for (at_host, at_client) in [("raw", "raw-ring"), ("raw-ring", "raw-ring")] {
        let (mut host, mut client) = fixture.stream(
            &["--link", at_host],
            HOST,
            &["--link", at_client],
            "raw-ring",
        );
        host.line(&format!("uses transport {at_host}"));
        fixture.more_frames(30);
        client.stop();
        host.stop();
    }
}

#[test]
fn af_xdp_carries_a_session_if_compiled_in() {
    let Some(fixture) = Fixture::new(Machines::with_ip()) else {
        return;
    };
    if !cfg!(feature = "xdp") {
        let args = ["host", "--source", "pattern", "--link", "xdp"];
        let command = on(&fixture.machines.host, &[], &fixture.home("h"), None, &args);
        let text = Program::start("host", command).fails_in_one_line();
        assert!(text.contains("--features xdp"), "{text}");
        return;
    }
    // AF_XDP is used first by the host only, then by host and client.
    for link in ["raw", "xdp"] {
        let (mut host, mut client) =
            fixture.stream(&["--link", "xdp"], HOST, &["--link", link], "xdp");
        host.line("uses transport xdp");
        fixture.more_frames(20);
        client.stop();
        host.stop();
    }
}

#[test]
fn raw_ethernet_works_on_one_machine_too() {
    if !rustix::process::geteuid().is_root() {
        skip("packet sockets need CAP_NET_RAW");
        return;
    }
    let mut host = Host::paired_with(&["ann"], &["--source", "pattern", "--size", "640x480"]);
    // A host that listens only at the loopback address offers no raw Ethernet.
    assert_eq!(host.program.count("raw Ethernet"), 0);
    host.program.stop();
    let (dir, bind) = (host.folder.join("host"), format!("0.0.0.0:{}", host.port));
    let args = ["host", "--config-dir", &dir, "--bind", &bind];
    let more = ["--realtime", "off", "--source", "pattern"];
    host.program = Program::start("host", openuvr(&[&args[..], &more].concat()));
    host.program.line("openuvr host: streaming");
    let mut client = measured_without_stalls(3, STALLED, || {
        selected(host.headless_client("ann", &["--link", "raw"]), "raw")
    });
    host.program.line("ann uses transport raw");
    client.stop();
}

#[test]
fn a_host_answers_from_the_address_that_was_dialled() {
    let Some(fixture) = Fixture::new(Machines::with_ip()) else {
        return;
    };
    let second = "10.77.0.3";
    let args = ["-n", &fixture.machines.host, "address", "add"];
    let address = ["10.77.0.3/24", "dev", "cable"];
    let added = std::process::Command::new("ip")
        .args(args)
        .args(address)
        .status();
    assert!(added.expect("ip runs").success());
    let (_host, mut client) = fixture.stream(&[], second, &[], "udp-gso");
    fixture.more_frames(10);
    client.stop();
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    let host = Host::start(&["--source", "pattern", "--pin", PIN[1]]);
    let folder = Folder::new();
    let keys = folder.join("keys");
    // Most systems map `localhost` also to ::1, where no host listens.
    let name = format!("localhost:{}", host.port);
    let own = ["client", &name, "--config-dir", &keys, "--present", "null"];
    let args = [&own[..], &PIN, &["--realtime", "off"]].concat();
    let mut client = Program::start("client", openuvr(&args));
    client.line("paired with the host");
    client.line("video transport: udp");
    client.stop();
}
