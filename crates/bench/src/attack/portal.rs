//! Attacks on a portal, beside which a person asks for the list of sessions again and again.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use openuvr_lab::attack::portal::{Guessing, SlowBodies, ask, log_in};
use openuvr_runtime::clock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Attackers;
use super::table::{Figures, Judged, Row, use_of};
use super::victim::{NAME, PASSWORD, Victim};

/// Connections of [`Against::SlowBodies`], and how many it opens a second.
const CONNECTIONS: usize = 10_000;
const OPENED: u32 = 20_000;

/// Guesses a second, and the networks that they come from: one, and as many as use up what an account leaves to
/// strangers.
const GUESSES: u32 = 100;
const NETWORKS: u16 = 20;

/// By how many bytes a portal may grow while each of the four networks holds its share, 512 connections: hyper's buffers have
/// 8 KiB at least, and a request that waits takes about as much. 32 KiB each (a guess) is 67 MB.
const HELD: f64 = (4 * 512 * 32 * 1024) as f64;

/// How long the list may take.
const LIST: Duration = Duration::from_millis(200);

/// How often it is asked for.
const OFTEN: Duration = Duration::from_millis(50);

/// An address that is not the one of the person at home (RFC 5737).
const AWAY: (&str, &str) = ("x-forwarded-for", "198.51.100.7");

/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Against {
    /// Log-ins whose body does not come, from four networks.
    SlowBodies,
    /// Guesses at an account from one /64, then from many.
    Guesses,
}

/// Starts a portal, attacks it, and says what was left for others.
///
/// # Errors
/// The portal can't be started, or ended.
pub(super) fn attack(
    name: String,
    against: Against,
    lasting: Duration,
    stop: &AtomicBool,
) -> Result<Row> {
    let mut victim = Victim::start(match against {
        Against::SlowBodies => "",
        // Which says where guesses come from.
        Against::Guesses => "behind_proxy = true\n",
    })?;
    let figures = Figures::begin(Some(use_of(victim.portal.id())?));
    let (struck, judged) = match against {
        Against::SlowBodies => slow_bodies(&victim, lasting, stop)?,
        Against::Guesses => guesses(&victim, lasting, stop)?,
    };
    victim.portal.check()?;
    let row = figures.end(name, struck, Some(use_of(victim.portal.id())?), judged);
    Ok(match against {
        Against::SlowBodies => row.with_growth(HELD),
        Against::Guesses => row,
    })
}

fn slow_bodies(victim: &Victim, lasting: Duration, stop: &AtomicBool) -> Result<(u64, Judged)> {
    let from = (11..15).map(|n| IpAddr::from(Ipv4Addr::new(127, 0, 0, n)));
    let slow = SlowBodies::new(victim.at, from.collect(), connections());
    let person = Person::begin(victim);
    let attackers = Attackers::start(vec![(slow, OPENED)]);
    wait(lasting, stop);
    let (struck, mut done) = attackers.stop();
    let held = done.pop().map_or(0, |slow| slow.held());
    let (lists, slowest) = person.end();
    let milliseconds = slowest.map_or_else(|| "–".to_owned(), |of| of.as_millis().to_string());
    let judged = Judged {
        words: format!("{lists} lists, the slowest in {milliseconds} ms; {held} connections held"),
        held: lists > 0 && slowest.is_some_and(|slowest| slowest <= LIST),
    };
    Ok((struck, judged))
}

/// As many as this process may have beside what it has already.
fn connections() -> usize {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    // What can't be raised is what there is.
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
            // From elsewhere, by a browser that was never there.
            1 => vec![AWAY],
            _ => vec![AWAY, ("cookie", victim.device.as_str())],
        };
        let answer = ask(
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
            true => format!("{compared} guesses compared, and the account's person gets in"),
            false => format!(
                "{compared} guesses compared; locked out: {}",
                missing.join(", ")
            ),
        },
        held: missing.is_empty(),
    };
    Ok((struck, judged))
}

/// Waits, unless a signal comes.
fn wait(span: Duration, stop: &AtomicBool) {
    let until = clock::now() + span;
    while clock::now() < until && !stop.load(Ordering::Relaxed) {
        clock::sleep_until(until.min(clock::now() + OFTEN));
    }
}

/// Who asks for the list, until it is enough.
struct Person {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Option<Duration>)>,
}

impl Person {
    fn begin(victim: &Victim) -> Person {
        let stop = Arc::new(AtomicBool::new(false));
        let (at, cookie, ends) = (victim.at, victim.cookie.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let (mut lists, mut slowest) = (0, Some(Duration::ZERO));
            while !ends.load(Ordering::Relaxed) {
                let begun = clock::now();
                let answer = ask(
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
                clock::sleep_until(begun + OFTEN);
            }
            (lists, slowest)
        });
        Person { stop, thread }
    }

    /// How often the list came, and the longest that it took; none: once it did not.
    fn end(self) -> (u32, Option<Duration>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or((0, None))
    }
}
