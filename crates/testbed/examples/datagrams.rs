//! Sends numbered datagrams over a link to a program that returns them, and prints those that return. The program
//! measures an emulated link and other links in the same way (`./dev test-vm links`).
//!
//! - `datagrams echo ADDRESS` returns each datagram to its sender.
//! - `datagrams send ADDRESS COUNT INTERVAL [SCRIPT]` sends COUNT datagrams, one per INTERVAL, such as `10ms`. With
//!   SCRIPT, such as `delay=5ms loss=1%`, an emulated link with these impairments carries them to ADDRESS; the way back
//!   is perfect. The program prints a line for each returned datagram: its number, and the times at which it was sent
//!   and returned, in microseconds. At the end, the program prints the counters of the emulated link.

#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, bail};
use openuvr_sim::impairment::Impairment;
use openuvr_sim::schedule::ImpairmentSchedule;
use openuvr_sim::script;
use openuvr_testbed::emulated::Emulated;

/// The length of a datagram. With the headers of UDP, IPv4 and Ethernet (8, 20 and 14 bytes), a frame has 1250 bytes.
const BYTES: usize = 1208;

/// After the last datagram was sent, the program ends if no datagram returns for this time.
const SILENCE: Duration = Duration::from_secs(3);

/// Seed of the emulated link (arbitrary).
const SEED: u64 = 42;

struct Returned {
    number: u32,
    /// Microseconds from the start.
    sent: u64,
    /// Microseconds from the start.
    returned: u64,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["echo", address] => echo(address.parse()?),
        ["send", address, count, interval] => send(address.parse()?, count, interval),
        ["send", address, count, interval, text] => {
            let directions = [
                script::parse(&Impairment::default(), text)?,
                ImpairmentSchedule::default(),
            ];
            let link = Emulated::start(directions, None, address.parse()?, SEED, false)?;
            send(link.listens, count, interval)?;
            println!("link: {}", link.end()?.up);
            Ok(())
        }
        _ => bail!("usage: datagrams echo ADDRESS | send ADDRESS COUNT INTERVAL [SCRIPT]"),
    }
}

/// Returns datagrams until the process is killed.
fn echo(address: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(address).with_context(|| format!("can't listen on {address}"))?;
    let mut bytes = [0_u8; BYTES];
    loop {
        let (len, from) = socket.recv_from(&mut bytes)?;
        socket.send_to(&bytes[..len], from)?;
    }
}

/// Sends datagrams, and prints those that have returned.
fn send(to: SocketAddr, count: &str, interval: &str) -> Result<()> {
    let count: u32 = count.parse()?;
    let interval = script::time(interval).map_err(Error::msg)?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(SILENCE))?;
    let start = Instant::now();
    let returned = std::thread::scope(|scope| -> Result<Vec<Returned>> {
        let sender = scope.spawn(|| send_all(&socket, start, count, interval));
        let returned = receive(&socket, start, || sender.is_finished())?;
        match sender.join() {
            Ok(sent) => sent?,
            Err(_) => bail!("the sending thread panicked"),
        }
        Ok(returned)
    })?;
    for Returned {
        number,
        sent,
        returned,
    } in returned
    {
        println!("{number} {sent} {returned}");
    }
    Ok(())
}

fn send_all(socket: &UdpSocket, start: Instant, count: u32, interval: Duration) -> Result<()> {
    for number in 0..count {
        let due = start + interval * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut bytes = [0_u8; BYTES];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        bytes[4..12].copy_from_slice(&since(start).to_le_bytes());
        socket.send(&bytes).context("can't send")?;
    }
    Ok(())
}

/// Receives datagrams until the sender has finished and none has arrived for `SILENCE`.
fn receive(
    socket: &UdpSocket,
    start: Instant,
    has_finished: impl Fn() -> bool,
) -> Result<Vec<Returned>> {
    let mut returned = Vec::new();
    loop {
        let mut bytes = [0_u8; BYTES];
        match socket.recv(&mut bytes) {
            Ok(BYTES) => returned.push(Returned {
                number: u32::from_le_bytes(bytes[..4].try_into()?),
                sent: u64::from_le_bytes(bytes[4..12].try_into()?),
                returned: since(start),
            }),
            Ok(len) => bail!("a datagram of {len} bytes has returned"),
            Err(error) if !is_timeout(&error) => return Err(error).context("can't receive"),
            Err(_) if has_finished() => return Ok(returned),
            Err(_) => {}
        }
    }
}

/// Microseconds since the start.
fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
