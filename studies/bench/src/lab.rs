//! `openuvr lab`: the studies, from the command line.

mod folder;
mod jitter;
mod traffic;
mod wifi;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use openuvr_lab::capture::relayed::LinkCaptures;
use openuvr_lab::wifi::scenario::Scenario;
use openuvr_lab::wifi::{live, words};
use openuvr_net::address::parse_address;
use openuvr_proto::units::Bitrate;
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use openuvr_sim::aqm::Discipline;
use openuvr_sim::lateness::Lateness;
use openuvr_sim::link::{BurstLoss, Impairment, Queue};
use openuvr_sim::schedule::ImpairmentSchedule;
use openuvr_sim::script;
use openuvr_testbed::bridge::{self, Bridge};
use openuvr_testbed::hop::{self, Hop, HopError, Stopper};

/// Interval at which the program checks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Studies: links, Wi-Fi, latency jitter, captured traffic, attacks, and soak tests.
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand, Debug)]
enum Study {
    /// Emulate a link, as a UDP relay or as an Ethernet bridge.
    ///
    /// With --to, the link is a relay: clients connect to the --listen address as if it were the host, and each client
    /// has its own link. With --bridge, the program forwards every Ethernet frame between two network interfaces. Run
    /// it as root in a network namespace that has one end of each of two veth pairs. Give these ends no addresses.
    ///
    /// The program reports how late it releases datagrams. If the machine is too busy to keep the schedule (see
    /// --punctual and --max-late), or if there is no traffic, the run is invalid: the program reports this and exits
    /// with code 3, so that the figures are not used. The link's thread runs as SCHED_FIFO 60 where permitted.
    #[command(after_help = HOP_HELP)]
    Hop(Box<HopArgs>),
    Wifi(wifi::WifiArgs),
    Jitter(jitter::JitterArgs),
    Traffic(traffic::TrafficArgs),
    Attack(crate::attack::Args),
    Soak(crate::soak::Args),
}

/// Exit code of a run that must be discarded.
const INVALID: u8 = 3;

const HOP_HELP: &str = "\
Scripts: a script changes the options' values during the run. Its steps are separated by semicolons
or new lines. Each step starts with its time (optional for the first step) and keeps the values
that it does not set. burst-loss and rate may be none. # starts a comment. @FILE reads a file.
  --down 'rate=50M queue=20ms; 10s rate=8M; 20s rate=50M'
  --down 'burst-loss=1%,25%' --up 'delay=5ms'

Examples: a bad Wi-Fi link to a host on this machine:
  openuvr lab hop --listen 127.0.0.1:47001 --to 127.0.0.1:47000 --delay 2ms --jitter 3ms \
    --loss 0.5% --burst-loss 0.1%,20% --rate 50M
Between two namespaces, client and host, for any Ethernet traffic:
  ip netns add client; ip netns add host; ip netns add hop
  ip -n hop link add to-client type veth peer name eth0 netns client
  ip -n hop link add to-host type veth peer name eth0 netns host
  for n in 'client eth0' 'hop to-client' 'hop to-host' 'host eth0'; do
    set -- $n; ip -n $1 link set dev $2 up; done
  ip netns exec hop openuvr lab hop --bridge to-client,to-host --delay 5ms --loss 1%
A bottleneck with an L4S queue, which marks the host's ECT(1) datagrams:
  openuvr lab hop --to 127.0.0.1:47000 --delay 5ms --rate 20M --queue 250ms --aqm dualpi2
Four viewers on one Wi-Fi channel with a competing upload:
  openuvr lab hop --to 127.0.0.1:47000 --wifi 'profile=he-su stations=4 per=1% background=20M'";

#[derive(Args, Debug)]
struct HopArgs {
    /// Address to which clients connect; if the port is 0, the system chooses one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:47001", value_parser = parse_address)]
    listen: SocketAddr,
    /// Address of the host
    #[arg(long, value_name = "ADDRESS", required_unless_present = "bridge", value_parser = parse_address)]
    to: Option<SocketAddr>,
    /// Bridge two interfaces instead of relaying: first the client's side, then the host's side
    #[arg(long, value_name = "CLIENT-SIDE,HOST-SIDE", value_parser = parse_sides,
        conflicts_with_all = ["to", "listen"])]
    bridge: Option<(String, String)>,
    /// One-way delay of every datagram, such as 5ms, 200us or 1s
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = script::time)]
    delay: Duration,
    /// Maximum additional random delay; datagrams stay in order
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = script::time)]
    jitter: Duration,
    /// Share of datagrams lost independently of each other, such as 1% or 0.01
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = script::share)]
    loss: f64,
    /// Burst loss (Gilbert-Elliott): for each datagram, the probability that a burst begins, the probability that a
    /// burst ends, and the loss within a burst (default 100%). 1%,25% gives bursts of 4 datagrams on average
    #[arg(long, value_name = "BEGIN,END[,LOSS]", value_parser = script::burst)]
    burst_loss: Option<BurstLoss>,
    /// Share of datagrams delayed so that later ones overtake them
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = script::share)]
    reorder: f64,
    /// Additional delay of reordered datagrams
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = script::time)]
    reorder_by: Duration,
    /// Share of duplicated datagrams
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = script::share)]
    duplicate: f64,
    /// Bottleneck rate in bits per second, such as 50M or 800k (default: unlimited)
    #[arg(long, value_name = "BITS", value_parser = script::rate)]
    rate: Option<Bitrate>,
    /// Limit of the bottleneck's queue, in bytes (k: 1024) or as a time (50ms). Datagrams beyond it are dropped
    #[arg(long, value_name = "SIZE", default_value = "64k", value_parser = script::queue)]
    queue: Queue,
    /// Discipline of the bottleneck's queue: droptail, pie, fq_codel or dualpi2. Before the queue reaches --queue, all
    /// except droptail mark ECN-capable packets with CE, and drop other packets; under high load, pie and dualpi2 drop
    /// ECN-capable packets, too. Without --rate, no queue forms. A relay has one flow per client, and a bridge one flow
    /// per protocol, addresses and ports (5-tuple)
    #[arg(long, value_name = "NAME", default_value_t)]
    aqm: Discipline,
    /// A script for the direction from the host; it starts with the values of the options above. With --down alone,
    /// without a script, the options above apply only to this direction
    #[arg(long, value_name = "SCRIPT", num_args = 0..=1, default_missing_value = "")]
    down: Option<String>,
    /// A script for the direction to the host; it starts with the values of the options above. With --up alone, without
    /// a script, the options above apply only to this direction
    #[arg(long, value_name = "SCRIPT", num_args = 0..=1, default_missing_value = "")]
    up: Option<String>,
    /// Instead of a link with the options above, emulate a Wi-Fi network with these NAME=VALUE pairs; see `openuvr lab
    /// wifi --help`. Clients are stations of the network and share its channel. The network generates background
    /// traffic only; words that describe video, such as fps, have no effect
    #[arg(long, value_name = "WORDS", value_parser = words::parse, num_args = 0..=1,
        default_missing_value = "", conflicts_with_all = [
            "delay", "jitter", "loss", "burst_loss", "reorder", "reorder_by", "duplicate", "rate",
            "queue", "aqm", "down", "up",
        ])]
    wifi: Option<Scenario>,
    /// Capture the relayed traffic at both ends of the link for `openuvr lab traffic`. The files host.pcapng and
    /// client.pcapng are written to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "bridge")]
    capture: Option<std::path::PathBuf>,
    /// Seed of all random decisions
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// If the p99 of the release lateness is above this limit, the run is invalid
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = script::time)]
    punctual: Duration,
    /// If the maximum release lateness is above this limit, the run is invalid (default: no limit)
    #[arg(long, value_name = "TIME", value_parser = script::time)]
    max_late: Option<Duration>,
    /// End after this time (default: on Ctrl-C)
    #[arg(long = "duration", value_name = "TIME", value_parser = script::time)]
    lasting: Option<Duration>,
}

/// Runs a study until its end or a signal. The exit code of `lab hop` is 3 if its figures are invalid.
///
/// # Errors
/// Returns a one-line error if the study fails.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<ExitCode> {
    match &args.study {
        Study::Hop(hop) => run_hop(hop),
        Study::Wifi(wifi) => wifi::run(wifi),
        Study::Jitter(jitter) => jitter::run(jitter),
        Study::Traffic(traffic) => traffic::run(traffic),
        Study::Attack(attack) => crate::attack::attack(attack),
        Study::Soak(soak) => crate::soak::run(soak),
    }
}

fn run_hop(args: &HopArgs) -> anyhow::Result<ExitCode> {
    let (up, down) = args.directions()?;
    match &args.wifi {
        None => println!("up:   {up}\ndown: {down}\nqueue discipline: {}", args.aqm),
        Some(wifi) => println!("{}", described(wifi)),
    }
    let seed = args.seed;
    let wifi = args.wifi.as_ref();
    let medium = wifi
        .map(|scenario| live::medium(scenario, seed))
        .transpose()?;
    let (report, came, lateness) = if let Some((client_side, host_side)) = args.bridge.clone() {
        let names = format!("bridging {client_side} and {host_side}");
        let mut bridge = Bridge::open(bridge::Config {
            client_side,
            host_side,
            up,
            down,
            seed,
        })?;
        bridge.set_discipline(args.aqm);
        if let Some(medium) = medium {
            bridge.share(medium);
        }
        println!("{names}");
        let report = args.carry(bridge.stopper(), move || bridge.run())?;
        let came = report.up.sent + report.down.sent;
        (report.to_string(), came, report.lateness)
    } else {
        let to = args.to.context("neither --to nor --bridge is set")?;
        let mut hop = Hop::open(hop::Config {
            listen: args.listen,
            to,
            up,
            down,
            seed,
        })?;
        hop.set_discipline(args.aqm);
        if let Some(medium) = medium {
            hop.share(medium);
        }
        if let Some(folder) = &args.capture {
            let files = ["host.pcapng", "client.pcapng"];
            let captures = LinkCaptures::create(folder, files, to, "openuvr lab hop --capture")
                .with_context(|| format!("cannot capture into the folder {}", folder.display()))?;
            hop.observe(Box::new(captures));
        }
        println!("relaying from {} to {to}", hop.local_addr()?);
        let report = args.carry(hop.stopper(), move || hop.run())?;
        let came = report.up.sent + report.down.sent;
        (report.to_string(), came, report.lateness)
    };
    println!("{report}");
    Ok(match args.invalid_reason(came, &lateness) {
        None => {
            println!("this run is valid: the link kept its schedule");
            ExitCode::SUCCESS
        }
        Some(invalid_reason) => {
            println!("this run is INVALID: {invalid_reason}");
            ExitCode::from(INVALID)
        }
    })
}

/// Describes a Wi-Fi network in one line.
fn described(wifi: &Scenario) -> String {
    let radio = wifi.setup.radio;
    format!(
        "Wi-Fi: {}, MCS {}, {} streams, {} MHz; stations for {} clients, {} other stations",
        radio.profile.name(),
        radio.mcs,
        radio.streams,
        radio.width,
        wifi.viewers(),
        wifi.background.len()
    )
}

impl HopArgs {
    /// Runs the link in its own thread until the timeout, a signal, or a failure.
    fn carry<R: Send + 'static>(
        &self,
        stopper: Stopper,
        run: impl FnOnce() -> Result<R, HopError> + Send + 'static,
    ) -> anyhow::Result<R> {
        let (ended, end) = std::sync::mpsc::sync_channel(1);
        let on_signal = stopper.clone();
        let signalled = openuvr_terminal::signals::stop_on_signals()?;
        std::thread::spawn(move || {
            while !signalled.load(Ordering::Relaxed) {
                std::thread::sleep(POLL_INTERVAL);
            }
            on_signal.stop();
        });
        let scheduler = Scheduler::new();
        let link = scheduler.spawn(ThreadRole::EmulatedLink, "hop", move || {
            let result = run();
            // An error is ignored: sending fails only if the receiver no longer exists.
            let _ = ended.send(());
            result
        })?;
        if let Some(warning) = scheduler.report().warning() {
            eprintln!("warning: {warning}");
        }
        match self.lasting {
            // A timeout and an early end both lead to the code below, which stops the link.
            Some(lasting) => drop(end.recv_timeout(lasting)),
            None => drop(end.recv()),
        }
        stopper.stop();
        let Ok(result) = link.join() else {
            bail!("the link's thread panicked");
        };
        Ok(result?)
    }

    /// The reason why the figures of this run are invalid, or `None` if they are valid. `came` is the number of
    /// datagrams or frames that the link has received.
    fn invalid_reason(&self, came: u64, lateness: &Lateness) -> Option<String> {
        if came == 0 {
            return Some(match &self.bridge {
                None => "no traffic: clients must connect to the --listen address".to_owned(),
                Some((one, other)) => format!("no traffic from {one} or {other}"),
            });
        }
        let late = |late: Option<Duration>, limit: Option<Duration>, which: &str| {
            let (late, limit) = (late?, limit?);
            (late > limit).then(|| {
                format!(
                    "{which} release lateness is {late:.1?}, more than {limit:?}; use an idle machine or allow \
                     real-time scheduling"
                )
            })
        };
        late(
            lateness.quantile(990),
            Some(self.punctual),
            "the p99 of the",
        )
        .or_else(|| late(lateness.max(), self.max_late, "the maximum"))
    }

    /// The schedules of the directions to the host (up) and from the host (down).
    fn directions(&self) -> anyhow::Result<(ImpairmentSchedule, ImpairmentSchedule)> {
        let chosen = Impairment {
            delay: self.delay,
            jitter: self.jitter,
            loss: self.loss,
            burst: self.burst_loss,
            reorder: self.reorder,
            reorder_by: self.reorder_by,
            duplicate: self.duplicate,
            rate: self.rate,
            queue: self.queue,
        };
        let is_bare = |script: &Option<String>| script.as_deref() == Some("");
        let schedule = |option: &str, script: &Option<String>, other: &Option<String>| {
            // The option of the other direction is present without a script, so the impairment options apply only to
            // that direction.
            if script.is_none() && is_bare(other) {
                return Ok(ImpairmentSchedule::default());
            }
            let script = script.as_deref().unwrap_or_default();
            let text = match script.strip_prefix('@') {
                None => script.to_owned(),
                Some(path) => std::fs::read_to_string(path)
                    .with_context(|| format!("can't read the script {path}"))?,
            };
            script::parse(&chosen, &text).with_context(|| option.to_owned())
        };
        Ok((
            schedule("--up", &self.up, &self.down)?,
            schedule("--down", &self.down, &self.up)?,
        ))
    }
}

fn parse_sides(text: &str) -> Result<(String, String), String> {
    match text.split_once(',') {
        Some((one, other)) if !one.is_empty() && !other.is_empty() && one != other => {
            Ok((one.to_owned(), other.to_owned()))
        }
        _ => Err("expected two interfaces, such as veth-a,veth-b".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        lab: LabArgs,
    }

    fn parse(options: &str) -> Result<HopArgs, clap::Error> {
        let line = format!("lab hop --to 127.0.0.1:1 {options}");
        Ok(hop(Program::try_parse_from(line.split_whitespace())?))
    }

    fn hop(program: Program) -> HopArgs {
        match program.lab.study {
            Study::Hop(args) => *args,
            Study::Wifi(args) => panic!("{args:?}"),
            Study::Jitter(args) => panic!("{args:?}"),
            Study::Traffic(args) => panic!("{args:?}"),
            Study::Attack(args) => panic!("{args:?}"),
            Study::Soak(args) => panic!("{args:?}"),
        }
    }

    #[test]
    fn the_discipline_is_tail_drop_unless_it_is_chosen() {
        let aqm = |options: &str| parse(options).unwrap().aqm;
        assert_eq!(aqm(""), Discipline::TailDrop);
        for (name, discipline) in Discipline::ALL {
            assert_eq!(aqm(&format!("--rate 20M --aqm {name}")), discipline);
        }
    }

    #[test]
    fn without_options_the_link_is_perfect() {
        let (up, down) = parse("").unwrap().directions().unwrap();
        assert_eq!((&up, &down), (&ImpairmentSchedule::default(), &up));
    }

    fn all() -> (&'static str, Impairment) {
        let words = "--delay 5ms --jitter 1.5ms --loss 1% --burst-loss 0.5%,25% --reorder 0.02 \
                     --reorder-by 300us --duplicate 3% --rate 50M --queue 128k";
        let want = Impairment {
            delay: Duration::from_millis(5),
            jitter: Duration::from_micros(1500),
            loss: 0.01,
            burst: Some(BurstLoss {
                enter: 0.005,
                leave: 0.25,
                loss: 1.0,
            }),
            reorder: 0.02,
            reorder_by: Duration::from_micros(300),
            duplicate: 0.03,
            rate: Some(Bitrate::from_mbps(50)),
            queue: Queue::Bytes(128 << 10),
        };
        (words, want)
    }

    #[test]
    fn options_become_impairments_of_the_chosen_direction() {
        let (words, want) = all();
        let (want, perfect) = (ImpairmentSchedule::from(want), ImpairmentSchedule::default);
        let of = |more: &str| {
            let args = parse(&format!("{words} {more}")).unwrap();
            args.directions().unwrap()
        };
        assert_eq!(of(""), (want.clone(), want.clone()));
        assert_eq!(of("--up"), (want.clone(), perfect()));
        assert_eq!(of("--down"), (perfect(), want.clone()));
        assert_eq!(of("--up --down"), (want.clone(), want));
    }

    #[test]
    fn a_script_builds_on_the_options_and_may_come_from_a_file() {
        let (words, all) = all();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        std::fs::write(&path, "loss=3% # all the time\n2s loss=0\n").unwrap();
        let line = format!("{words} --down @{}", path.display());
        let (up, down) = parse(&line).unwrap().directions().unwrap();
        let losing = |loss| Impairment {
            loss,
            ..all.clone()
        };
        assert_eq!(up, ImpairmentSchedule::from(&all));
        let want = ImpairmentSchedule::from(losing(0.03)).then(Duration::from_secs(2), losing(0.0));
        assert_eq!(down, want);
        let gone = parse("--up @/nowhere/at/all").unwrap().directions();
        assert!(format!("{:#}", gone.unwrap_err()).contains("/nowhere/at/all"));
        let wrong = parse("--up rate=fast").unwrap().directions();
        assert!(format!("{:#}", wrong.unwrap_err()).contains("rate=fast"));
    }

    #[test]
    fn a_run_that_was_late_is_rejected() {
        let mut lateness = Lateness::default();
        for _ in 0..999 {
            lateness.record(Duration::from_micros(20));
        }
        lateness.record(Duration::from_millis(30));
        let invalid_reason =
            |options: &str| parse(options).unwrap().invalid_reason(1000, &lateness);
        assert_eq!(invalid_reason(""), None);
        assert_eq!(invalid_reason("--max-late 31ms"), None);
        assert!(
            invalid_reason("--max-late 2ms")
                .unwrap()
                .contains("is 30.0ms")
        );
        assert!(
            invalid_reason("--punctual 10us")
                .unwrap()
                .contains("the p99")
        );
        // A link that loses everything still has traffic.
        let none = Lateness::default();
        assert_eq!(parse("--loss 100%").unwrap().invalid_reason(5, &none), None);
        let idle = parse("").unwrap().invalid_reason(0, &none).unwrap();
        assert!(idle.contains("no traffic"), "{idle}");
    }

    #[test]
    fn wifi_takes_the_place_of_a_link_and_is_described_in_words() {
        assert_eq!(parse("").unwrap().wifi, None);
        let program = |words: &str| {
            let line = ["lab", "hop", "--to", "127.0.0.1:1", "--wifi", words];
            Program::try_parse_from(line).map(hop)
        };
        let args = program("profile=he-su stations=4 background=20M").unwrap();
        assert_eq!(
            described(&args.wifi.unwrap()),
            "Wi-Fi: he-su, MCS 11, 2 streams, 80 MHz; stations for 4 clients, 1 other stations"
        );
        let error = program("profile=he-su mcs=12").unwrap_err().to_string();
        assert!(error.contains("no MCS 12 in 802.11ax"), "{error}");
        assert!(parse("--wifi --loss 1%").is_err());
        assert_eq!(parse("--wifi").unwrap().wifi, Some(Scenario::paper()));
    }

    #[test]
    fn a_bridge_takes_the_place_of_a_relay() {
        let args = |line: &str| Program::try_parse_from(line.split_whitespace());
        let hop = hop(args("lab hop --bridge a,b --loss 1%").unwrap());
        assert_eq!(hop.bridge, Some(("a".into(), "b".into())));
        for wrong in [
            "",
            "--bridge a",
            "--bridge a,a",
            "--bridge a,b --to 127.0.0.1:1",
        ] {
            assert!(args(&format!("lab hop {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            "--delay 5",
            "--delay -1ms",
            "--delay 1e9s",
            "--loss 101%",
            "--loss much",
            "--burst-loss 1%",
            "--burst-loss 1%,0%",
            "--rate 0",
            "--rate 5Q",
            "--queue 1.2.3k",
            "--aqm red",
            "--wifi --aqm pie",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
