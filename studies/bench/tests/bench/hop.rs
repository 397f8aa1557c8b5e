//! `openuvr lab hop`: tests its verdict on its own lateness.

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::openuvr_bench;

#[test]
fn a_late_hop_rejects_its_run() {
    let target = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let wait = Some(Duration::from_secs(60));
    target.set_read_timeout(wait).expect("a time");
    let to = target.local_addr().expect("an address").to_string();
    // No packet leaves within a nanosecond of its scheduled time.
    for (limit, code) in [("1ns", 3), ("1000s", 0)] {
        let args = ["lab", "hop", "--listen", "127.0.0.1:0", "--to", &to];
        let limits = ["--punctual", "1000s", "--max-late", limit];
        let mut command = openuvr_bench();
        command.args(args).args(limits).stdout(Stdio::piped());
        let mut hop = command.spawn().expect("it starts");
        let mut lines = BufReader::new(hop.stdout.take().expect("its output")).lines();
        let relaying = lines.by_ref().map(|line| line.expect("text"));
        let relaying = relaying
            .into_iter()
            .find(|line| line.starts_with("relaying from"));
        let relaying = relaying.expect("its address");
        let address = relaying.split(' ').nth(2).expect("its address");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
        client.send_to(b"word", address).expect("sent");
        let mut word = [0; 8];
        assert_eq!(target.recv(&mut word).expect("a relayed datagram"), 4);
        let id = i32::try_from(hop.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("an id"), Signal::INT).expect("it runs");
        let text: Vec<String> = lines.map(|line| line.expect("text")).collect();
        let text = text.join("\n");
        let status = hop.wait().expect("it ends");
        assert_eq!(status.code(), Some(code), "{text}");
        let verdict = if code == 0 { "is valid" } else { "is INVALID" };
        assert!(text.contains(&format!("this run {verdict}")), "{text}");
    }
}
