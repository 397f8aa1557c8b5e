//! `openuvr lab traffic` on the traffic of real programs: an OpenUVR stream, and an RTP stream.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde_json::Value;
use tempfile::TempDir;

use super::{openuvr_bench, own_address, read_json};

/// A process that is killed on drop.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        let command = command.stderr(Stdio::null());
        Running(command.spawn().expect("it starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a relay that captures into a folder. Returns the relay with its address.
fn relay(
    to: SocketAddr,
    words: &[&str],
    folder: &Path,
) -> (Running, SocketAddr, BufReader<ChildStdout>) {
    let mut hop = openuvr_bench();
    hop.args([
        "lab",
        "hop",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &to.to_string(),
    ])
    .args(words)
    .arg("--capture")
    .arg(folder)
    .stdout(Stdio::piped());
    let mut hop = Running::start(&mut hop);
    let mut said = BufReader::new(hop.0.stdout.take().expect("piped"));
    let mut line = String::new();
    let listens = loop {
        line.clear();
        assert!(
            said.read_line(&mut line).expect("text") > 0,
            "it prints its address"
        );
        if let Some(rest) = line.strip_prefix("relaying from ") {
            break rest
                .split(' ')
                .next()
                .expect("an address")
                .parse()
                .expect("an address");
        }
    };
    (hop, listens, said)
}

/// Ends the relay, and waits until it has completed its captures.
fn end(mut hop: (Running, SocketAddr, BufReader<ChildStdout>)) {
    let id = hop.0.0.id().to_string();
    Command::new("kill")
        .args(["-TERM", &id])
        .status()
        .expect("kill is there");
    let mut rest = String::new();
    while hop.2.read_line(&mut rest).expect("text") > 0 {}
    hop.0.0.wait().expect("it ended");
}

pub(super) fn traffic(folder: &TempDir, files: [&str; 2]) -> Value {
    let out = folder.path().join("analysis");
    let done = openuvr_bench()
        .args(["lab", "traffic", "--out"])
        .arg(&out)
        .args(files.map(|file| folder.path().join(file)))
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    read_json(folder, "analysis/traffic.json")
}

pub(super) fn stream<'a>(data: &'a Value, capture: usize, name: &str) -> &'a Value {
    let all = data["captures"][capture]["streams"]
        .as_array()
        .expect("a list");
    let found = all.iter().find(|stream| stream["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {all:?}"))
}

#[test]
fn our_stream_is_analysed_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let port = own_address(4722);
    let csv = folder.path().join("frames.csv");
    let openuvr = || {
        let bench = openuvr_bench();
        let beside = Path::new(bench.get_program()).with_file_name("openuvr");
        Command::new(beside)
    };
    let mut host = openuvr();
    host.args([
        "host", "--source", "pattern", "--size", "640x360", "--fps", "60",
    ])
    .args([
        "--bind",
        &port.to_string(),
        "--pin",
        "73915",
        "--table",
        "off",
        "--config-dir",
    ])
    .arg(folder.path().join("host"))
    .arg("--csv")
    .arg(&csv)
    .stdout(Stdio::null());
    let host = Running::start(&mut host);
    let words = ["--delay", "3ms", "--loss", "1%"];
    let hop = relay(port, &words, &folder.path().join("ends"));
    let mut client = openuvr();
    client
        .args([
            "client",
            &hop.1.to_string(),
            "--present",
            "null",
            "--pin",
            "73915",
        ])
        .args(["--table", "off", "--config-dir"])
        .arg(folder.path().join("client"))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let client = Running::start(&mut client);
    // Count only complete frames: a slow host encodes only some of the captured frames, and frames that are not sent
    // cannot be lost.
    let complete = || {
        let text = std::fs::read_to_string(&csv).unwrap_or_default();
        let rows = text.lines().filter(|row| row.contains(",complete,"));
        rows.count()
    };
    let until = Instant::now() + Duration::from_secs(120);
    while complete() < 300 {
        assert!(Instant::now() < until, "too few frames");
        std::thread::sleep(Duration::from_millis(100));
    }
    end(hop);
    drop((client, host));

    let data = traffic(&folder, ["ends/host.pcapng", "ends/client.pcapng"]);
    let media = stream(&data, 0, "OpenUVR media");
    assert_eq!(media["way"], "down");
    assert_eq!(
        media["sequence"]["lost"], 0,
        "nothing is lost before the link: {media}"
    );
    assert!(
        media["video"]["batch_packets"]["count"].as_u64() > Some(60),
        "{media}"
    );
    assert!(media["video"]["frames"].is_null(), "frames are sealed");
    let behind = stream(&data, 1, "OpenUVR media");
    assert!(behind["sequence"]["lost"].as_u64() > Some(0), "{behind}");
    stream(&data, 0, "OpenUVR handshake");
    assert_eq!(stream(&data, 0, "OpenUVR control")["way"], "down");
    let joined = &data["joined"];
    assert!(
        joined["down"]["arrived"].as_u64() < joined["down"]["sent"].as_u64(),
        "{joined}"
    );
    // Both captures come from the same machine, so there is no drift and no offset, and no delay is below that of the
    // link. The relay may send each datagram late.
    let delay = joined["down"]["delay_ns"]["min"].as_f64().expect("a delay");
    assert!((2.9e6..100e6).contains(&delay), "{joined}");
}

#[test]
fn rtp_of_gstreamer_has_its_frames_and_clock() {
    const SENDER: &str = "gst-launch-1.0";
    let there = Command::new(SENDER)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if there.is_err() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "{SENDER} is missing: apt install gstreamer1.0-tools"
        );
        eprintln!("skipped: {SENDER} is missing (apt install gstreamer1.0-tools)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sink = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = sink.local_addr().expect("bound");
    let long = Some(Duration::from_secs(60));
    sink.set_read_timeout(long).expect("a time that can be");
    // The receive buffer is large, because the test does not read all the time.
    let _ = set_socket_recv_buffer_size_force(&sink, 4 << 20);
    let hop = relay(to, &["--delay", "1ms"], &folder.path().join("ends"));
    let mut sender = Command::new(SENDER);
    let port = format!("port={}", hop.1.port());
    sender
        .args([
            "-q",
            "videotestsrc",
            "num-buffers=91",
            "pattern=snow",
            "is-live=true",
            "!",
        ])
        .args([
            "video/x-raw,format=I420,width=160,height=120,framerate=30/1",
            "!",
            "jpegenc",
            "!",
        ])
        .args([
            "rtpjpegpay",
            "mtu=1200",
            "ssrc=77",
            "!",
            "udpsink",
            "host=127.0.0.1",
            &port,
        ])
        .stdout(Stdio::null());
    let sender = Running::start(&mut sender);
    // Count the frames. The last packet of each frame has the marker bit.
    let mut packet = [0; 2048];
    let mut frames = 0;
    while frames < 91 {
        sink.recv(&mut packet).expect("a packet");
        frames += u32::from(packet[1] & 0x80 != 0);
    }
    end(hop);
    drop(sender);

    // The server sends to the relay's listen address, so client.pcapng is the server's capture here.
    let data = traffic(&folder, ["ends/client.pcapng", "ends/host.pcapng"]);
    for capture in 0..2 {
        let video = stream(&data, capture, "RTP video");
        assert_eq!(
            (&video["id"], &video["clock_hz"]),
            (&77.into(), &90_000.into())
        );
        assert_eq!(video["payload_type"], 26, "JPEG (RFC 3551)");
        assert_eq!(video["sequence"]["lost"], 0);
        let frames = &video["video"]["frames"];
        assert_eq!(
            (&frames["complete"], &frames["broken"]),
            (&89.into(), &0.into())
        );
        assert!(frames["packets"]["min"].as_u64() > Some(3), "{frames}");
    }
    let joined = &data["joined"];
    assert!(joined["offset_ns"].is_null(), "nothing came back");
    assert_eq!(joined["down"]["sent"], joined["down"]["arrived"]);
}
