//! A network attacker sends many datagrams to host and client: garbage, and malformed, truncated, altered and replayed
//! datagrams. In the meantime, an honest stream runs; some of its datagrams are duplicated and reordered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::stalls::measured_without_stalls;
use crate::support::{Display, Folder, Host, ScreenCapture, client, eventually};

/// The attack sends this number of datagrams to the host, and as many to the client, at this rate per second to each.
/// The attack takes twelve seconds. At this rate, the smallest usual socket buffer (208 KiB) holds the datagrams of 20
/// ms, so that a slow machine loses few of the honest datagrams.
const THROWN: u64 = 60_000;
const A_SECOND: u32 = 5_000;
/// If the machine stalls for longer than this, the attack fills the sockets, the stream loses datagrams, and the test
/// starts again.
const STALLED: Duration = Duration::from_millis(50);
/// Maximum growth of the memory of host or client, in kB.
const GROWTH_KB: u64 = 20_000;

/// A relay between client and host that stores passing datagrams: the first ones, which belong to the handshake, and
/// the newest ones.
struct Relay {
    /// The address that the client connects to.
    front: UdpSocket,
    /// The address that the host sees.
    back: UdpSocket,
    client: Mutex<Option<SocketAddr>>,
    up: Mutex<CapturedDatagrams>,
    down: Mutex<CapturedDatagrams>,
    /// Whether the relay duplicates and reorders datagrams.
    disorderly: AtomicBool,
    stop: AtomicBool,
}

#[derive(Default)]
struct CapturedDatagrams {
    first: Vec<Vec<u8>>,
    newest: VecDeque<Vec<u8>>,
}

impl CapturedDatagrams {
    fn push(&mut self, datagram: &[u8]) {
        if self.first.len() < 16 {
            self.first.push(datagram.to_vec());
            return;
        }
        if self.newest.len() == 256 {
            self.newest.pop_front();
        }
        self.newest.push_back(datagram.to_vec());
    }

    fn pick(&self, n: usize) -> Option<Vec<u8>> {
        let all = self.first.len() + self.newest.len();
        let n = n.checked_rem(all)?;
        let kept = self
            .first
            .get(n)
            .or_else(|| self.newest.get(n - self.first.len()));
        kept.cloned()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    // The relays check at this interval whether to stop.
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .expect("not zero");
    socket
}

impl Relay {
    fn start(host: &Host) -> (Arc<Relay>, [JoinHandle<()>; 2]) {
        let back = socket();
        back.connect(host.address()).expect("an address");
        let wire = Arc::new(Relay {
            front: socket(),
            back,
            client: Mutex::default(),
            up: Mutex::default(),
            down: Mutex::default(),
            disorderly: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let (up, down) = (wire.clone(), wire.clone());
        let threads = [
            std::thread::spawn(move || up.relay_up()),
            std::thread::spawn(move || down.relay_down()),
        ];
        (wire, threads)
    }

    fn address(&self) -> String {
        self.front.local_addr().expect("bound").to_string()
    }

    fn relay_up(&self) {
        let mut datagram = [0; 2048];
        let mut count = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let Ok((n, from)) = self.front.recv_from(&mut datagram) else {
                continue;
            };
            *locked(&self.client) = Some(from);
            locked(&self.up).push(&datagram[..n]);
            self.pass(&mut count, &self.front, &datagram[..n], |bytes| {
                let _ = self.back.send(bytes);
            });
        }
    }

    fn relay_down(&self) {
        let mut datagram = [0; 2048];
        let mut count = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let Ok(n) = self.back.recv(&mut datagram) else {
                continue;
            };
            locked(&self.down).push(&datagram[..n]);
            if let Some(client) = *locked(&self.client) {
                self.pass(&mut count, &self.back, &datagram[..n], |bytes| {
                    let _ = self.front.send_to(bytes, client);
                });
            }
        }
    }

    /// Forwards a datagram. A disorderly relay sends every third datagram twice, and swaps every fifth datagram with
    /// the next one if the next one has already arrived.
    fn pass(&self, count: &mut u32, from: &UdpSocket, datagram: &[u8], send: impl Fn(&[u8])) {
        *count += 1;
        let disorderly = self.disorderly.load(Ordering::Relaxed);
        if disorderly && count.is_multiple_of(5) {
            let mut next = [0; 2048];
            let at_once = rustix::net::RecvFlags::DONTWAIT;
            if let Ok((n, _)) = rustix::net::recv(from, &mut next[..], at_once) {
                send(&next[..n]);
            }
        }
        send(datagram);
        if disorderly && count.is_multiple_of(3) {
            send(datagram);
        }
    }
}

/// Xorshift (Marsaglia 2003): the same attack in each run.
struct Random(u64);

impl Random {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }

    fn byte(&mut self, sides: usize) -> u8 {
        u8::try_from(self.roll(sides)).expect("at most 256 sides")
    }
}

/// One malicious datagram, derived from stored ones.
fn malicious(random: &mut Random, kept: &Mutex<CapturedDatagrams>) -> Vec<u8> {
    let real = locked(kept).pick(random.roll(1 << 20));
    match (random.roll(7), real) {
        // Unchanged: a replay.
        (0, Some(real)) => real,
        // One bit flipped, in the header more often than by chance.
        (1, Some(mut real)) if !real.is_empty() => {
            let among = if random.roll(2) == 0 {
                real.len().min(24)
            } else {
                real.len()
            };
            real[random.roll(among)] ^= 1 << random.roll(8);
            real
        }
        // Truncated.
        (2, Some(mut real)) => {
            real.truncate(random.roll(real.len() + 1));
            real
        }
        // A valid header with garbage.
        (3, Some(mut real)) => {
            let from = real.len().min(24);
            real[from..]
                .iter_mut()
                .for_each(|byte| *byte = random.byte(256));
            real
        }
        // Oversized, and empty.
        (4, Some(mut real)) => {
            real.resize(1401 + random.roll(8000), random.byte(256));
            real
        }
        (5, Some(_)) => Vec::new(),
        // Garbage, in some cases with the start of a valid datagram.
        _ => {
            let mut bytes: Vec<u8> = (0..random.roll(1400)).map(|_| random.byte(256)).collect();
            if let [version, plane, ..] = bytes.as_mut_slice() {
                (*version, *plane) = (1, random.byte(4));
            }
            bytes
        }
    }
}

/// Sends [`THROWN`] datagrams with `throw`.
fn attack(seed: u64, thrown: &AtomicU64, mut throw: impl FnMut(&mut Random, u64)) {
    let (mut random, started) = (Random(seed), Instant::now());
    for n in 0..THROWN {
        throw(&mut random, n);
        thrown.store(n + 1, Ordering::Relaxed);
        if n % 100 == 0 {
            let due = Duration::from_secs(n) / A_SECOND;
            std::thread::sleep(due.saturating_sub(started.elapsed()));
        }
    }
}

#[test]
fn a_stream_continues_during_an_attack() {
    measured_without_stalls(3, STALLED, stream_during_an_attack);
}

/// Attacks a stream. Returns an error if the attack ends the session, or damages half of the frames.
fn stream_during_an_attack() -> Result<(), String> {
    let Some(there) = Display::start("320x200") else {
        return Ok(());
    };
    let folder = Folder::new();
    let csv = folder.join("frames.csv");
    let args = [
        "--source", "pattern", "--size", "320x200", "--fps", "15", "--csv", &csv,
    ];
    let mut host = Host::paired_with(&["client", "honest"], &args);
    let (wire, relays) = Relay::start(&host);
    host.add_address("client", &wire.address());
    let display = ["--display", there.name.as_str()];
    let mut client = client(&host.folder, "client", &wire.address(), &display);
    client.line("showing");
    let capture = ScreenCapture::open(&there);
    let before = capture.more_frames(20);
    let memory = [host.program.memory_kb(), client.memory_kb()];

    wire.disorderly.store(true, Ordering::Relaxed);
    let counts = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let victim: SocketAddr = host.address().parse().expect("an address");
    let attackers = [
        std::thread::spawn({
            let (wire, count) = (wire.clone(), counts[0].clone());
            move || {
                // Datagrams come from the honest client's address, and from unknown addresses.
                let strangers: Vec<UdpSocket> = (0..8).map(|_| socket()).collect();
                attack(0x5eed, &count, |random, n| {
                    let bytes = malicious(random, &wire.up);
                    let _ = match strangers.get(random.roll(16)) {
                        Some(stranger) if n % 2 == 0 => stranger.send_to(&bytes, victim),
                        _ => wire.back.send(&bytes),
                    };
                });
            }
        }),
        std::thread::spawn({
            let (wire, count) = (wire.clone(), counts[1].clone());
            let victim = locked(&wire.client).expect("the client's address");
            move || {
                let stranger = socket();
                attack(0xbad, &count, |random, n| {
                    let bytes = malicious(random, &wire.down);
                    let from = if n % 4 == 0 { &stranger } else { &wire.front };
                    let _ = from.send_to(&bytes, victim);
                });
            }
        }),
    ];
    eventually("the attack", || {
        counts
            .iter()
            .all(|c| c.load(Ordering::Relaxed) > THROWN / 10)
            .then_some(())
    });
    // An honest client joins during the attack.
    let mut honest = host.headless_client("honest", &[]);
    honest.line("observer at");
    honest.line("showing");
    let during = capture.more_frames(10);
    assert!(during.frame > before.frame);
    for attacker in attackers {
        attacker.join().expect("an attacker");
    }
    let after = capture.more_frames(10);
    assert!(after.frame > during.frame);

    for program in [&mut host.program, &mut client, &mut honest] {
        program.assert_running();
    }
    let now = [host.program.memory_kb(), client.memory_kb()];
    for (name, before, now) in [("host", memory[0], now[0]), ("client", memory[1], now[1])] {
        assert!(
            now < before + GROWTH_KB,
            "the {name} grew from {before} to {now} kB"
        );
    }
    // The session is still the same.
    let sessions = client.count("connected to");
    let left = host.program.count(" left: ");
    honest.stop();
    client.stop();
    host.program.stop();
    wire.stop.store(true, Ordering::Relaxed);
    for relay in relays {
        relay.join().expect("the relay");
    }
    if (sessions, left) != (1, 0) {
        return Err(format!("{}\n{}", client.text(), host.program.text()));
    }
    check_frames(&std::fs::read_to_string(&csv).expect("the CSV file"))
}

/// Checks that each captured frame of both sessions has exactly one outcome, and that no forged data reached a decoder.
/// Returns an error if at most half of the frames are complete.
fn check_frames(csv: &str) -> Result<(), String> {
    let mut sessions: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    let (mut rows, mut complete) = (0, 0);
    for row in csv.lines().skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        let frame = fields[1].parse().expect("a frame's number");
        let news = sessions.entry(fields[0]).or_default().insert(frame);
        assert!(news, "two outcomes: {row}");
        assert_ne!(fields[4], "DecodeFailed", "{row}");
        rows += 1;
        complete += u32::from(fields[2] == "complete");
    }
    assert_eq!(sessions.len(), 2, "one session each");
    for (session, frames) in &sessions {
        let (first, last) = (
            frames.first().expect("frames"),
            frames.last().expect("frames"),
        );
        let captured = (last - first) as usize + 1;
        assert_eq!(frames.len(), captured, "gaps in session {session}");
    }
    // On an idle machine, nearly all frames are complete. A busy one needs tolerance.
    match complete * 2 > rows {
        true => Ok(()),
        false => Err(format!("{complete} of {rows} complete")),
    }
}
