//! `openuvr lab attack`: attacks one's own host while an honest client streams, and one's own portal and sessions.
//!
//! Crate `lab` implements the attacks over the network. This module implements the attacks by local programs, starts
//! and measures the attacked programs, and judges the results.

mod browsers;
mod core_use;
mod displays;
mod environment;
mod files;
mod honest;
pub(crate) mod intruder;
mod portal;
mod servers;
mod table;
mod victim;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;
use openuvr_lab::attack::device::{Guessing, Probing};
use openuvr_lab::attack::floods::{Garbage, Replayed};
use openuvr_lab::attack::handshakes::{Claim, HandshakeFlood};
use openuvr_lab::attack::tap::{Towards, silent_sockets};
use openuvr_lab::attack::{Attack, handshakes, own, run};
use openuvr_net::address::parse_address;
use openuvr_sim::script;

use self::honest::Honest;
use self::portal::PortalAttack;
use self::table::{Figures, Judged, Row};
use openuvr_clock as clock;

/// Attack your own host and portal, and report which attacks they withstood.
///
/// Starts a host and an honest client on the loopback interface of this machine, with an on-path attacker between them
/// that sees and replays datagrams. Then tries one attack after another. For each attack, it prints the complete frames
/// per second that the client still received, the host's CPU and memory use, and the figure of the attack's own
/// criterion, such as bytes sent to an address that never answered, accepted PINs, or the time until a client
/// reconnected. With --host, it attacks a running host without an honest client, and judges only the host's answers.
/// The address must belong to this machine (to the network namespace of this process); any other address is refused. No
/// attack needs a key, except probes, which only an admitted observer can send.
///
/// The attacks on a portal start a portal. During portal-bodies, a logged-in user requests the list of sessions 20
/// times a second. The attack on displays starts sessions, which need Xvfb; without Xvfb, it is skipped.
///
/// An attack is inconclusive if it could neither send a datagram nor open a connection. An attack is withstood if
/// memory grew by less than 20 MB, the attack's own criterion is met, and the client, if there is one, received at
/// least 95 % of the complete frames of the run without attack. In `begins`, frames do not count: the client only has
/// to reconnect. In portal-bodies, each list must also have arrived within 200 ms, and memory may grow by 67 MB: 32 KiB
/// for each of 2,048 connections. In portal-guesses, the account's owner must have been able to log in. Some attacks
/// try to reach something that must be unreachable: none of these attempts may succeed, and a control attempt, at
/// something reachable, must succeed. Exit status: 0 if all attacks were withstood; 1 if not, or if the run was
/// interrupted.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Attack this running host on this machine, instead of starting a host
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    host: Option<SocketAddr>,
    /// Only these attacks, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ATTACKS")]
    only: Vec<Kind>,
    /// Smoke test with --duration 1s; too short for figures
    #[arg(long)]
    quick: bool,
    /// Duration of each attack without a fixed number of steps [default: 5s]
    #[arg(long = "duration", value_name = "TIME", value_parser = script::time, conflicts_with = "quick")]
    lasting: Option<Duration>,
    /// Datagrams per second of a flood
    #[arg(long, value_name = "NUMBER", default_value_t = 50_000)]
    rate: u32,
}

const HELP: &str = "\
Examples: all attacks, for the table of docs/security.md:
  openuvr lab attack
Attacks that try to make a host send data to an address that requested none:
  openuvr lab attack --only paths,probes
A host in its own network namespace, attacked from inside the namespace:
  ip netns exec box openuvr lab attack --host 10.9.0.1:4710 --only garbage,pins";

/// The attacks, in the order in which they are tried.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Random bytes from eight unknown addresses
    Garbage,
    /// Altered copies of the client's datagrams, sent from the client's address
    Forged,
    /// Replayed copies of the client's datagrams, sent from the client's address
    Replay,
    /// Altered copies of the host's datagrams to the client, sent from the host's address
    Client,
    /// Every second datagram of the client gets a source address that never answers
    Paths,
    /// An observer requests bursts of full-size datagrams 1000 times a second
    Probes,
    /// Random PINs, one after the other
    Pins,
    /// 3000 unfinished handshakes a second, while the client has to reconnect
    Begins,
    /// Browser log-ins with wrong signatures from four networks, while a known browser has to log in
    Logins,
    /// Idle connections from four networks to the web and RTSP servers
    Places,
    /// Idle connections to the web and RTSP servers of a host without free file descriptors
    Descriptors,
    /// A portal: 10,000 log-ins without a body, from four networks
    PortalBodies,
    /// A portal: wrong passwords for one account from one IPv6 /64, then from twenty
    PortalGuesses,
    /// A portal: another account opens the portal's database files, which were world-readable before the portal started
    PortalFiles,
    /// A portal: secrets in command lines, and in the environments of a session and its application
    PortalEnvironment,
    /// A session's application captures the display of another session of the same account, and types there
    Displays,
}

impl Kind {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether the attack needs an honest client.
    fn needs_client(self) -> bool {
        let without = matches!(self, Kind::Garbage | Kind::Pins | Kind::Begins);
        !without && self.own_target().is_none()
    }

    /// The target that the attack starts itself; `None` if it attacks a host.
    fn own_target(self) -> Option<OwnTarget> {
        match self {
            Kind::PortalBodies => Some(OwnTarget::Portal(PortalAttack::SlowBodies)),
            Kind::PortalGuesses => Some(OwnTarget::Portal(PortalAttack::Guesses)),
            Kind::PortalFiles => Some(OwnTarget::Files),
            Kind::PortalEnvironment => Some(OwnTarget::Environment),
            Kind::Displays => Some(OwnTarget::Displays),
            _ => None,
        }
    }
}

/// An attack that starts its own target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OwnTarget {
    Portal(PortalAttack),
    Files,
    Environment,
    Displays,
}

impl OwnTarget {
    fn attack(self, name: String, lasting: Duration, stop: &AtomicBool) -> Result<Row> {
        match self {
            OwnTarget::Portal(against) => portal::attack(name, against, lasting, stop),
            OwnTarget::Files => files::attack(name),
            OwnTarget::Environment => environment::attack(name, lasting, stop),
            OwnTarget::Displays => displays::attack(name, stop),
        }
    }
}

/// Handshakes per second of [`Kind::Begins`], over all kinds of claims together.
const BEGINS: u32 = 3000;

/// Probes per second of [`Kind::Probes`].
const PROBES: u32 = 1000;

/// How long the client's link is interrupted, so that the client has to reconnect. The client detects the interruption
/// after 2 s.
const CUT: Duration = Duration::from_millis(2500);

/// Interval at which the datagrams that have arrived at the address that never answers are counted.
const READ_INTERVAL: Duration = Duration::from_millis(10);

/// Time within which the client must reconnect after its link has returned.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the attacks and prints the verdicts.
///
/// # Errors
/// Returns an error if the host is not on this machine, or if the host or the client cannot be started.
pub(crate) fn attack(args: &Args) -> Result<ExitCode> {
    let kinds = chosen(args)?;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let lasting = match (args.lasting, args.quick) {
        (Some(lasting), _) => lasting,
        (None, true) => Duration::from_secs(1),
        (None, false) => Duration::from_secs(5),
    };
    let (own_target, on_host): (Vec<Kind>, Vec<Kind>) =
        (kinds.into_iter()).partition(|kind| kind.own_target().is_some());
    let mut rows = match on_host.is_empty() {
        true => Vec::new(),
        false => attack_host(args, &on_host, lasting, &stop)?,
    };
    for kind in own_target {
        if let (Some(own_target), false) = (kind.own_target(), stop.load(Ordering::Relaxed)) {
            eprintln!("attack: {}", kind.name());
            rows.push(own_target.attack(kind.name(), lasting, &stop)?);
        }
    }
    let cut_short = stop.load(Ordering::Relaxed);
    let held = table::print(&rows);
    if cut_short {
        println!("interrupted: the remaining attacks were not tried");
    }
    Ok(match held && !cut_short {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Runs the attacks on a host. Without `--host`, a run without attack precedes them.
fn attack_host(
    args: &Args,
    kinds: &[Kind],
    lasting: Duration,
    stop: &AtomicBool,
) -> Result<Vec<Row>> {
    let (mut honest, host) = match args.host {
        Some(host) => (None, host),
        None => {
            let honest = Honest::start(stop)?;
            let host = honest.host;
            (Some(honest), host)
        }
    };
    let target = Target {
        host,
        lasting,
        rate: args.rate,
        stop,
    };
    let mut rows = Vec::new();
    if let Some(honest) = &mut honest {
        eprintln!("attack: streaming without an attack for {lasting:?}");
        rows.push(target.undisturbed(honest)?);
    }
    for kind in kinds {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        eprintln!("attack: {}", kind.name());
        rows.push(target.attack(*kind, honest.as_mut())?);
    }
    if let Some(honest) = honest {
        let whole = honest.whole_frames()?;
        rows.iter_mut().for_each(|row| row.count(&whole));
    }
    Ok(rows)
}

/// The selected attacks. Returns an error if the target is not on this machine.
fn chosen(args: &Args) -> Result<Vec<Kind>> {
    let kinds: Vec<Kind> = Kind::value_variants()
        .iter()
        .copied()
        .filter(|kind| args.only.is_empty() || args.only.contains(kind))
        .filter(|kind| {
            let without_host = kind.needs_client() || kind.own_target().is_some();
            !(args.host.is_some() && args.only.is_empty() && without_host)
        })
        .collect();
    if let Some(host) = args.host {
        if !own(host.ip()) {
            bail!(
                "{host} is not on this machine: `openuvr lab attack` attacks only hosts on this machine; run it there, or \
                 in its network namespace"
            );
        }
        if let Some(kind) = kinds.iter().find(|kind| kind.own_target().is_some()) {
            bail!(
                "the attack {} starts its own target: omit --host",
                kind.name()
            );
        }
        if let Some(kind) = kinds.iter().find(|kind| kind.needs_client()) {
            bail!(
                "the attack {} needs an honest client: omit --host to start a host and a client",
                kind.name()
            );
        }
    }
    Ok(kinds)
}

/// Target and duration of the attacks.
struct Target<'a> {
    host: SocketAddr,
    lasting: Duration,
    rate: u32,
    stop: &'a AtomicBool,
}

impl Target<'_> {
    fn undisturbed(&self, honest: &mut Honest) -> Result<Row> {
        let figures = Figures::start(Some(honest.host_use()?));
        self.wait(self.lasting, honest)?;
        let judged = Judged {
            words: "no attack".to_owned(),
            held: true,
        };
        Ok(figures.end("(none)".to_owned(), 0, Some(honest.host_use()?), judged))
    }

    /// Waits for this time, or until a signal interrupts the program.
    fn wait(&self, span: Duration, honest: &mut Honest) -> Result<()> {
        let until = clock::now() + span;
        while clock::now() < until && !self.stop.load(Ordering::Relaxed) {
            honest.check()?;
            clock::sleep_until(until.min(clock::now() + Duration::from_millis(50)));
        }
        Ok(())
    }

    /// Source addresses on this machine for senders that the host does not know.
    fn strangers(&self) -> Vec<IpAddr> {
        match self.host.ip() {
            IpAddr::V4(v4) if v4.is_loopback() => (11..19)
                .map(|n| Ipv4Addr::new(127, 0, 0, n).into())
                .collect(),
            other => vec![other],
        }
    }

    fn attack(&self, kind: Kind, mut honest: Option<&mut Honest>) -> Result<Row> {
        let host_use = |honest: Option<&Honest>| honest.map(Honest::host_use).transpose();
        let figures = Figures::start(host_use(honest.as_deref())?);
        let (struck, judged) = self.strike(kind, honest.as_deref_mut())?;
        let judged = judged.unwrap_or_else(|| Judged {
            words: "the stream continued".to_owned(),
            held: true,
        });
        let row = figures.end(kind.name(), struck, host_use(honest.as_deref())?, judged);
        if honest.is_none() && !handshakes::answers(self.host)? {
            return Ok(row.failed("the host no longer answers"));
        }
        // `paths` counts bytes instead of strikes.
        if struck == 0 && kind != Kind::Paths {
            return Ok(row.failed("inconclusive: no strike succeeded"));
        }
        Ok(row)
    }

    /// Performs an attack. Returns the number of strikes (datagrams, log-ins or connections, depending on the attack),
    /// and the result of the attack's own criterion; `None` if the attack has none.
    fn strike(&self, kind: Kind, honest: Option<&mut Honest>) -> Result<(u64, Option<Judged>)> {
        match kind {
            Kind::Garbage => {
                let garbage = Garbage::open(self.host, self.strangers(), 1)?;
                let (struck, _) = self.run(vec![(garbage, self.rate)], honest)?;
                Ok((struck, None))
            }
            Kind::Forged => self.repeat(Towards::Host, true, honest.context("no client")?),
            Kind::Replay => self.repeat(Towards::Host, false, honest.context("no client")?),
            Kind::Client => self.repeat(Towards::Client, true, honest.context("no client")?),
            Kind::Paths => self.paths(honest.context("no client")?),
            Kind::Probes => self.probes(honest.context("no client")?),
            Kind::Pins => self.pins(honest),
            Kind::Begins => self.begins(honest),
            Kind::Logins => browsers::logins(self, honest.context("no client")?),
            Kind::Places => browsers::places(self, honest.context("no client")?),
            Kind::Descriptors => browsers::descriptors(self, honest.context("no client")?),
            Kind::PortalBodies
            | Kind::PortalGuesses
            | Kind::PortalFiles
            | Kind::PortalEnvironment
            | Kind::Displays => bail!("this attack does not target a host"),
        }
    }

    /// Replays a stream's datagrams, altered or not.
    fn repeat(
        &self,
        towards: Towards,
        altered: bool,
        honest: &mut Honest,
    ) -> Result<(u64, Option<Judged>)> {
        let flood = Replayed::new(honest.tap.forger(towards), altered, 2);
        let (struck, _) = self.run(vec![(flood, self.rate)], Some(honest))?;
        Ok((struck, None))
    }

    /// Gives every other datagram of the client a source address that never answers.
    fn paths(&self, honest: &mut Honest) -> Result<(u64, Option<Judged>)> {
        let (sends, receives) = silent_sockets(self.strangers()[0])?;
        let (mut drawn, mut datagram) = (0, [0; 2048]);
        let mut count = || {
            while let Ok(length) = receives.recv(&mut datagram) {
                drawn += length as u64;
            }
        };
        honest.tap.divert(Some(sends));
        let until = clock::now() + self.lasting;
        while clock::now() < until && !self.stop.load(Ordering::Relaxed) {
            self.wait(READ_INTERVAL, honest)?;
            // The socket's buffer holds only about a hundred datagrams, and a full buffer drops datagrams, which would
            // not be counted.
            count();
        }
        honest.tap.divert(None);
        count();
        let requested = honest.tap.diverted();
        let judged = Judged {
            words: format!(
                "{requested} bytes made the host send {drawn} bytes to an address that never answered"
            ),
            held: requested > 0 && drawn <= 3 * requested,
        };
        Ok((0, Some(judged)))
    }

    /// An observer requests bursts of datagrams.
    fn probes(&self, honest: &mut Honest) -> Result<(u64, Option<Judged>)> {
        let (identity, trust) = honest.observer();
        let probing = Probing::join(self.host, identity, trust)
            .context("the host does not admit the observer")?;
        let (requested, mut done) = self.run(vec![(probing, PROBES)], Some(honest))?;
        let bursts = done.pop().map_or(0, |probing| probing.bursts());
        // The host permits 12 bursts in each window of 2 s. The attack may overlap two further windows in part.
        let may = 12 * (self.lasting.as_secs() / 2 + 2);
        let judged = Judged {
            words: format!("{requested} probes made the host send {bursts} bursts"),
            held: bursts <= may,
        };
        Ok((requested, Some(judged)))
    }

    /// Tries one PIN after the other.
    fn pins(&self, honest: Option<&mut Honest>) -> Result<(u64, Option<Judged>)> {
        let (tried, mut done) = self.run(vec![(Guessing::new(self.host), 50)], honest)?;
        let (paired, refused) = done.pop().map_or((0, 0), |guessing| guessing.outcome());
        let judged = Judged {
            words: format!("{paired} of {} PINs were accepted", paired + refused),
            held: paired == 0,
        };
        Ok((tried, Some(judged)))
    }

    /// Starts handshakes without finishing them, while a client has to reconnect.
    fn begins(&self, honest: Option<&mut Honest>) -> Result<(u64, Option<Judged>)> {
        let mut claims = vec![Claim::Pairing, Claim::Stranger];
        claims.extend(
            honest
                .as_ref()
                .map(|honest| Claim::Device(honest.client_id())),
        );
        let rate = BEGINS / u32::try_from(claims.len()).unwrap_or(1);
        let floods = claims
            .into_iter()
            .map(|claim| {
                Ok((
                    HandshakeFlood::open(self.host, self.strangers(), claim)?,
                    rate,
                ))
            })
            .collect::<Result<Vec<_>>>()?;
        let Some(honest) = honest else {
            let (struck, _) = self.run(floods, None)?;
            return Ok((struck, None));
        };
        let attackers = Attackers::start(floods);
        let before = honest.sessions();
        honest.tap.cut(true);
        self.wait(CUT, honest)?;
        honest.tap.cut(false);
        let begun = clock::now();
        while honest.sessions() == before && clock::now().since(begun) < RECONNECT_TIMEOUT * 2 {
            self.wait(Duration::from_millis(10), honest)?;
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        let took = clock::now().since(begun);
        let (struck, _) = attackers.stop();
        Ok((
            struck,
            Some(Judged {
                words: format!(
                    "the client reconnected {:.1} s after its link returned",
                    took.as_secs_f64()
                ),
                held: took < RECONNECT_TIMEOUT && honest.sessions() > before,
            }),
        ))
    }

    /// Runs attacks concurrently for the configured time. Returns the number of strikes and the attacks.
    fn run<A: Attack + 'static>(
        &self,
        attacks: Vec<(A, u32)>,
        honest: Option<&mut Honest>,
    ) -> Result<(u64, Vec<A>)> {
        let attackers = Attackers::start(attacks);
        match honest {
            Some(honest) => self.wait(self.lasting, honest)?,
            None => clock::sleep_until(clock::now() + self.lasting),
        }
        Ok(attackers.stop())
    }
}

/// Running attacks, each in its own thread.
struct Attackers<A> {
    stop: Arc<AtomicBool>,
    struck: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<A>>,
}

impl<A: Attack + 'static> Attackers<A> {
    fn start(attacks: Vec<(A, u32)>) -> Attackers<A> {
        let (stop, struck) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let start = |(mut attack, per_second): (A, u32)| {
            let (stop, struck) = (stop.clone(), struck.clone());
            std::thread::spawn(move || {
                run(&mut attack, per_second, &stop, &struck);
                attack
            })
        };
        let threads = attacks.into_iter().map(start).collect();
        Attackers {
            stop,
            struck,
            threads,
        }
    }

    fn stop(mut self) -> (u64, Vec<A>) {
        self.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        // A panic is ignored here, because the thread has already reported it.
        let done = threads.into_iter().filter_map(|t| t.join().ok()).collect();
        (self.struck.load(Ordering::Relaxed), done)
    }
}

impl<A> Drop for Attackers<A> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
