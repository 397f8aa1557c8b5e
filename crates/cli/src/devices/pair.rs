//! `openuvr devices pair`: opens pairing at running hosts.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use openuvr_clock as clock;
use openuvr_proto::control::pairing::Pin;
use openuvr_runtime::trust_store::{MAX_WINDOW, PairingRequest};

use crate::config::parse_time;

/// The time limit for the first host to open pairing. Each host checks for requests four times per second, and the
/// machine may be busy.
const FIRST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for further hosts, after the first host has opened pairing.
const FURTHER_TIMEOUT: Duration = Duration::from_secs(1);

/// The time after which a message explains the wait. On an idle machine, a host has answered by then.
const EXPLAIN_AFTER: Duration = Duration::from_secs(1);

/// The interval of checks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// PIN [default: six random digits]
    #[arg(long, value_name = "DIGITS")]
    pin: Option<Pin>,
    /// Time for which pairing stays open, at most one hour
    #[arg(long = "duration", value_name = "TIME", value_parser = window, default_value = "2m")]
    lasting: Duration,
    /// Pair the Moonlight client that shows this PIN
    #[arg(long, value_name = "PIN", conflicts_with_all = ["pin", "lasting"])]
    moonlight: Option<String>,
    /// Name for the Moonlight client [default: "Moonlight at ADDRESS"]
    #[arg(long, value_name = "NAME", requires = "moonlight")]
    name: Option<String>,
}

fn window(text: &str) -> Result<Duration, String> {
    let lasting = parse_time(text)?;
    match (Duration::from_secs(1)..=MAX_WINDOW).contains(&lasting) {
        true => Ok(lasting),
        false => Err("expected a time from 1s to 1h, such as 2m".to_owned()),
    }
}

/// Requests the running hosts to open pairing, waits until hosts have opened it, and returns the text to print. Waits
/// up to [`FIRST_TIMEOUT`] for the first host, then [`FURTHER_TIMEOUT`] for others.
pub(super) fn open(dir: &Path, args: &Args, now: u64) -> Result<String> {
    if let Some(pin) = &args.moonlight {
        return moonlight(dir, pin, args.name.as_deref(), now);
    }
    let lasting = args.lasting;
    let pin = match &args.pin {
        Some(pin) => pin.clone(),
        None => Pin::generate()?,
    };
    let request = PairingRequest::submit(dir, &pin, lasting, now)?;
    let requested_at = clock::now();
    let mut first = None;
    let mut is_explained = false;
    let opened = loop {
        let opened = request.opened()?;
        let now = clock::now();
        if !opened.is_empty() {
            first.get_or_insert(now);
        }
        let over = match first {
            Some(first) => now.since(first) >= FURTHER_TIMEOUT,
            None => now.since(requested_at) >= FIRST_TIMEOUT,
        };
        if over {
            break opened;
        }
        if first.is_none() && !is_explained && now.since(requested_at) >= EXPLAIN_AFTER {
            is_explained = true;
            eprintln!(
                "openuvr devices: waiting up to {} s for a host that uses the folder {}",
                FIRST_TIMEOUT.as_secs(),
                dir.display()
            );
        }
        clock::sleep_until(now + POLL_INTERVAL);
    };
    request.withdraw()?;
    let seconds = lasting.as_secs();
    match opened.len() {
        0 => bail!(
            "no running host uses the folder {}: start a host (openuvr host), or specify the configuration folder of a \
             running host (--config-dir FOLDER)",
            dir.display()
        ),
        1 => Ok(format!(
            "a new device may pair within {seconds} s with the PIN  {pin}\n"
        )),
        hosts => Ok(format!(
            "a new device may pair within {seconds} s with the PIN  {pin}, at each of {hosts} hosts\n"
        )),
    }
}

/// Pairs the Moonlight client that shows this PIN; returns the text to print.
#[cfg(feature = "moonlight")]
fn moonlight(dir: &Path, pin: &str, name: Option<&str>, now: u64) -> Result<String> {
    let outcome = openuvr_moonlight::pairing::offer(dir, pin, name, now)?;
    Ok(format!("{outcome}\n"))
}

#[cfg(not(feature = "moonlight"))]
fn moonlight(_: &Path, _: &str, _: Option<&str>, _: u64) -> Result<String> {
    bail!(
        "--moonlight: this program was built without support for Moonlight; build it with ./dev build"
    )
}
