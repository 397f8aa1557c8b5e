//! `openuvr lab`: the studies, from the command line.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};
use openuvr_lab::hop::{Config, Hop};
use openuvr_lab::link::{BurstLoss, Impairment};
use openuvr_proto::units::Bitrate;
use openuvr_runtime::sched::{Role, Scheduler};

/// How often it is looked whether a signal came.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The studies: what a link does to a stream.
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand, Debug)]
enum Study {
    /// Relay datagrams over a link of chosen quality.
    ///
    /// Clients connect to the address given with --listen as if it were the host. Each client has
    /// a link of its own. The relay reports how late it was itself: a run on a machine too busy
    /// to keep the times (see --punctual) ends with an error, so that nobody trusts its figures.
    #[command(
        after_help = "Example: a bad Wi-Fi link to a host on this machine:\n  \
        openuvr lab hop --listen 127.0.0.1:47001 --to 127.0.0.1:47000 --delay 2ms --jitter 3ms \
        --loss 0.5% --burst-loss 0.1%,20% --rate 50M"
    )]
    Hop(HopArgs),
}

#[derive(Args, Debug)]
struct HopArgs {
    /// Where clients connect to (port 0: the system chooses)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:47001")]
    listen: SocketAddr,
    /// The host
    #[arg(long, value_name = "ADDRESS")]
    to: SocketAddr,
    /// How long every datagram takes: 5ms, 200us, 1s
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = parse_time)]
    delay: Duration,
    /// Up to this much longer, at random; the order is kept
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = parse_time)]
    jitter: Duration,
    /// Datagrams lost, each on its own: 1% or 0.01
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    loss: f64,
    /// Losses that come together: the probability that a burst begins, that it ends, and of loss
    /// in it (100% if left out), for each datagram. 1%,25% gives bursts of 4 in the mean
    #[arg(long, value_name = "BEGIN,END[,LOSS]", value_parser = parse_burst)]
    burst_loss: Option<BurstLoss>,
    /// Datagrams held back so that later ones overtake them
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    reorder: f64,
    /// How long those are held back
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = parse_time)]
    reorder_by: Duration,
    /// Datagrams that arrive twice
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    duplicate: f64,
    /// Bits per second of the bottleneck: 50M, 800k; without it, there is none
    #[arg(long, value_name = "BITS", value_parser = parse_rate)]
    rate: Option<Bitrate>,
    /// Bytes that wait before the bottleneck at most (k: 1024); more are lost
    #[arg(long, value_name = "BYTES", default_value = "64k", value_parser = parse_bytes)]
    queue: usize,
    /// Only from the host to clients; without --down and --up, both ways
    #[arg(long, conflicts_with = "up")]
    down: bool,
    /// Only from clients to the host
    #[arg(long)]
    up: bool,
    /// Decides what happens to which datagram
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How late 99 % of the datagrams may be released at most, or the run is invalid
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse_time)]
    punctual: Duration,
    /// End after this time; without it, on Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    lasting: Option<Duration>,
}

/// Runs a study until it is over or a signal ends it.
///
/// # Errors
/// What went wrong, in one line; also if the relay was too late to be trusted.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<()> {
    match &args.study {
        Study::Hop(hop) => run_hop(hop),
    }
}

fn run_hop(args: &HopArgs) -> anyhow::Result<()> {
    let (up, down) = args.directions();
    let hop = Hop::open(Config {
        listen: args.listen,
        to: args.to,
        up,
        down,
        seed: args.seed,
    })?;
    println!("relaying from {} to {}", hop.local_addr()?, args.to);

    let stopper = hop.stopper();
    let (ended, end) = std::sync::mpsc::sync_channel(1);
    let on_signal = stopper.clone();
    let signalled = crate::stop_on_signals()?;
    std::thread::spawn(move || {
        while !signalled.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
        }
        on_signal.stop();
    });
    let scheduler = Scheduler::new();
    let relay = scheduler.spawn(Role::HandOff, "hop", move || {
        let result = hop.run();
        // Fails only if nobody waits any more.
        let _ = ended.send(());
        result
    })?;
    if let Some(warning) = scheduler.report().warning() {
        eprintln!("warning: {warning}");
    }
    match args.lasting {
        // Over or ended before: both stop it.
        Some(lasting) => drop(end.recv_timeout(lasting)),
        None => drop(end.recv()),
    }
    stopper.stop();
    let Ok(result) = relay.join() else {
        bail!("the relay panicked");
    };
    let report = result?;
    println!("{report}");
    ensure!(
        report.is_punctual(args.punctual),
        "this run is invalid: the relay was late itself ({}), more than {:?} in 99 % of cases; use \
         an idle machine or allow real-time scheduling",
        report.lateness,
        args.punctual
    );
    Ok(())
}

impl HopArgs {
    /// Up and down.
    fn directions(&self) -> (Impairment, Impairment) {
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
        match (self.up, self.down) {
            (true, _) => (chosen, Impairment::default()),
            (_, true) => (Impairment::default(), chosen),
            _ => (chosen.clone(), chosen),
        }
    }
}

/// Splits `12.5ms` into the number and its unit.
fn split(text: &str) -> anyhow::Result<(f64, &str)> {
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number = number
        .parse()
        .with_context(|| format!("`{text}` does not begin with a number"))?;
    Ok((number, unit))
}

fn parse_time(text: &str) -> anyhow::Result<Duration> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "s" => number,
        "ms" => number / 1e3,
        "us" | "µs" => number / 1e6,
        _ => bail!("a time has a unit: 5ms, 200us, 1.5s"),
    };
    ensure!(seconds <= 86_400.0, "at most a day");
    Ok(Duration::from_secs_f64(seconds))
}

fn parse_share(text: &str) -> anyhow::Result<f64> {
    let share = match split(text)? {
        (number, "%") => number / 100.0,
        (number, "") => number,
        _ => bail!("a share is 1% or 0.01"),
    };
    ensure!(share <= 1.0, "a share is at most 100%");
    Ok(share)
}

fn parse_burst(text: &str) -> anyhow::Result<BurstLoss> {
    let shares: Vec<f64> = text.split(',').map(parse_share).collect::<Result<_, _>>()?;
    let (enter, leave, loss) = match shares[..] {
        [enter, leave] => (enter, leave, 1.0),
        [enter, leave, loss] => (enter, leave, loss),
        _ => bail!("two or three shares: 1%,25% or 1%,25%,80%"),
    };
    ensure!(leave > 0.0, "a burst that never ends is a dead link");
    Ok(BurstLoss { enter, leave, loss })
}

fn parse_rate(text: &str) -> anyhow::Result<Bitrate> {
    let bits = match split(text)? {
        (number, "") => number,
        (number, "k") => number * 1e3,
        (number, "M") => number * 1e6,
        (number, "G") => number * 1e9,
        _ => bail!("a rate is in bits per second: 50M, 800k, 1G"),
    };
    ensure!((1.0..=1e12).contains(&bits), "between 1 and 1000G");
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Checked above.
    Ok(Bitrate(bits as u64))
}

fn parse_bytes(text: &str) -> anyhow::Result<usize> {
    let bytes = match split(text)? {
        (number, "") => number,
        (number, "k") => number * 1024.0,
        (number, "M") => number * 1024.0 * 1024.0,
        _ => bail!("a size is in bytes: 64k, 1M"),
    };
    ensure!(bytes <= 1e9, "at most 1000000000");
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Checked above.
    Ok(bytes as usize)
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
        let Study::Hop(args) = Program::try_parse_from(line.split_whitespace())?.lab.study;
        Ok(args)
    }

    #[test]
    fn without_options_the_link_is_perfect() {
        let (up, down) = parse("").unwrap().directions();
        assert_eq!((&up, &down), (&Impairment::default(), &up));
    }

    #[test]
    fn options_become_impairments_of_the_chosen_direction() {
        let all = "--delay 5ms --jitter 1.5ms --loss 1% --burst-loss 0.5%,25% --reorder 0.02 \
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
            queue: 128 << 10,
        };
        let perfect = Impairment::default;
        let of = |more: &str| parse(&format!("{all} {more}")).unwrap().directions();
        assert_eq!(of(""), (want.clone(), want.clone()));
        assert_eq!(of("--up"), (want.clone(), perfect()));
        assert_eq!(of("--down"), (perfect(), want));
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
            "--up --down",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
