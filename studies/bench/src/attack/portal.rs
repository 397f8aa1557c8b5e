//! Attacks on a portal, while a logged-in user requests the list of sessions repeatedly.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use openuvr_clock as clock;
use openuvr_lab::attack::portal::{Guessing, SlowBodies, log_in, request};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Attackers;
use super::table::{Figures, Judged, Row, use_of};
use super::victim::{NAME, PASSWORD, Victim};

/// Maximum number of connections that [`PortalAttack::SlowBodies`] holds. `OPENED` is the number of connections that it
/// opens per second.
const CONNECTIONS: usize = 10_000;
const OPENED: u32 = 20_000;

/// Password guesses per second. The first half of the guesses comes from one network, the second half from `NETWORKS`
/// networks. These are enough networks to exhaust an account's quota for unknown browsers.
const GUESSES: u32 = 100;
const NETWORKS: u16 = 20;

/// The permitted growth of a portal's memory, in bytes, while each of the four networks holds its share of 512
/// connections. hyper's buffers have at least 8 KiB, and a waiting request takes about the same. 32 KiB for each
/// connection (a guess) are 67 MB in total.
const HELD: f64 = (4 * 512 * 32 * 1024) as f64;

/// Maximum response time for the list of sessions.
const LIST: Duration = Duration::from_millis(200);

/// Interval between two requests of the list.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An address other than the user's own (RFC 5737).
const AWAY: (&str, &str) = ("x-forwarded-for", "198.51.100.7");

/// The kind of attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PortalAttack {
    /// Log-ins without a body, from four networks.
    SlowBodies,
    /// Password guesses for an account from one /64, then from many.
    Guesses,
}

/// Starts a portal, attacks it, and measures the remaining service.
///
/// # Errors
/// Returns an error if the portal cannot be started, or has ended.
pub(super) fn attack(
    name: String,
    against: PortalAttack,
    lasting: Duration,
    stop: &AtomicBool,
) -> Result<Row> {
    let mut victim = Victim::start(match against {
        PortalAttack::SlowBodies => "",
        // The source address of each guess is in the header of a reverse proxy.
        PortalAttack::Guesses => "behind_proxy = true\n",
    })?;
    let figures = Figures::start(Some(use_of(victim.portal.id())?));
    let (struck, judged) = match against {
        PortalAttack::SlowBodies => slow_bodies(&victim, lasting, stop)?,
        PortalAttack::Guesses => guesses(&victim, lasting, stop)?,
    };
    victim.portal.check()?;
    let row = figures.end(name, struck, Some(use_of(victim.portal.id())?), judged);
    Ok(match against {
        PortalAttack::SlowBodies => row.with_growth(HELD),
        PortalAttack::Guesses => row,
    })
}

fn slow_bodies(victim: &Victim, lasting: Duration, stop: &AtomicBool) -> Result<(u64, Judged)> {
    let from = (11..15).map(|n| IpAddr::from(Ipv4Addr::new(127, 0, 0, n)));
    let slow = SlowBodies::new(victim.at, from.collect(), connections());
    let poller = ListPoller::start(victim);
    let attackers = Attackers::start(vec![(slow, OPENED)]);
    wait(lasting, stop);
    let (struck, mut done) = attackers.stop();
    let held = done.pop().map_or(0, |slow| slow.held());
    let (lists, slowest) = poller.end();
    let milliseconds = slowest.map_or_else(|| "–".to_owned(), |of| of.as_millis().to_string());
    let judged = Judged {
        words: format!(
            "{lists} session lists received, the slowest after {milliseconds} ms; {held} connections held open"
        ),
        held: lists > 0 && slowest.is_some_and(|slowest| slowest <= LIST),
    };
    Ok((struck, judged))
}

/// The number of connections to open: [`CONNECTIONS`], or fewer if this process may not open that many.
fn connections() -> usize {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    // If the limit can't be raised, it stays as it is.
    let _ = setrlimit(Resource::Nofile, raised);
    let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    CONNECTIONS.min(
        usize::try_from(now)
            .unwrap_or(usize::MAX)
            .saturating_sub(200),
    )
}

fn guesses(victim: &Victim, lasting: Duration, stop: &AtomicBool) -> Result<(u64, Judged)> {
    let (mut struck, mut compared) = (0, 0);
    let mut missing = Vec::new();
    for (networks, whence) in [(1, "strangers"), (NETWORKS, "known browsers")] {
        let attackers = Attackers::start(vec![(Guessing::new(victim.at, NAME, networks), GUESSES)]);
        wait(lasting / 2, stop);
        let (more, mut done) = attackers.stop();
        struck += more;
        compared += done.pop().map_or(0, |guessing| guessing.compared());
        let headers = match networks {
            // Log in from an unknown address, with an unknown browser.
            1 => vec![AWAY],
            _ => vec![AWAY, ("cookie", victim.device.as_str())],
        };
        let answer = request(
            victim.at,
            "POST",
            "/api/login",
            &headers,
            &log_in(NAME, PASSWORD),
        );
        if !answer.is_ok_and(|answer| answer.status == 200) {
            missing.push(whence);
        }
    }
    let judged = Judged {
        words: match missing.is_empty() {
            true => format!(
                "{compared} guessed passwords compared; the account's owner can still log in"
            ),
            false => format!(
                "{compared} guessed passwords compared; locked out: {}",
                missing.join(", ")
            ),
        },
        held: missing.is_empty(),
    };
    Ok((struck, judged))
}

/// Waits for this time, or until a signal interrupts the program.
fn wait(span: Duration, stop: &AtomicBool) {
    let until = clock::now() + span;
    while clock::now() < until && !stop.load(Ordering::Relaxed) {
        clock::sleep_until(until.min(clock::now() + POLL_INTERVAL));
    }
}

/// A thread that requests the list of sessions until it is stopped.
struct ListPoller {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Option<Duration>)>,
}

impl ListPoller {
    fn start(victim: &Victim) -> ListPoller {
        let stop = Arc::new(AtomicBool::new(false));
        let (at, cookie, ends) = (victim.at, victim.cookie.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let (mut lists, mut slowest) = (0, Some(Duration::ZERO));
            while !ends.load(Ordering::Relaxed) {
                let begun = clock::now();
                let answer = request(
                    at,
                    "GET",
                    "/api/sessions",
                    &[("cookie", cookie.as_str())],
                    "",
                );
                let took = clock::now().since(begun);
                match answer {
                    Ok(answer) if answer.status == 200 => lists += 1,
                    _ => slowest = None,
                }
                slowest = slowest.map(|slowest| slowest.max(took));
                clock::sleep_until(begun + POLL_INTERVAL);
            }
            (lists, slowest)
        });
        ListPoller { stop, thread }
    }

    /// Stops the thread. Returns the number of lists received, and the longest response time; `None` if a request
    /// failed.
    fn end(self) -> (u32, Option<Duration>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or((0, None))
    }
}
