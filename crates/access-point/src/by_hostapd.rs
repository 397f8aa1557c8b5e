//! An access point with hostapd and dnsmasq, on a card that NetworkManager does not manage.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::card::Card;
use crate::choice::Candidate;
use crate::dnsmasq;
use crate::hostapd::{self, AccessPoint, Event};
use crate::journal::Journal;
use crate::programs::{Daemon, Program};
use crate::subnet::Subnet;

/// Time limit for the start of hostapd (without its radar checks) and for the start of dnsmasq (guess, with a margin
/// for busy machines).
const START: Duration = Duration::from_secs(60);

/// The maximum duration of a change of an interface.
const STEP: Duration = Duration::from_secs(10);

/// The interval at which `stop` is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(crate) struct Programs {
    hostapd: Program,
    dnsmasq: Program,
    ip: Program,
}

impl Programs {
    /// Finds the programs.
    ///
    /// # Errors
    /// Returns an error if one is missing.
    pub(crate) fn find() -> Result<Programs> {
        Ok(Programs {
            hostapd: Program::require("hostapd", "hostapd")?,
            dnsmasq: Program::require("dnsmasq", "dnsmasq-base")?,
            ip: Program::require("ip", "iproute2")?,
        })
    }

    /// Brings the interface up, for a scan.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses.
    pub(crate) fn bring_up(&self, card: &Card, journal: &mut Journal) -> Result<()> {
        let up = card.is_up();
        journal.record(|changes| changes.up = Some(up))?;
        if !up {
            self.ip.run(&["link", "set", &card.interface, "up"], STEP)?;
        }
        Ok(())
    }
}

/// A running access point.
#[derive(Debug)]
pub(crate) struct Running {
    hostapd: Daemon,
    dnsmasq: Daemon,
    interface: String,
}

/// Starts the access point. Returns `None` if `stop` is set meanwhile.
///
/// # Errors
/// Returns a one-line error if hostapd or dnsmasq does not start, or if no subnet is free.
pub(crate) fn start(
    programs: &Programs,
    access_point: &AccessPoint<'_>,
    chosen: &Candidate,
    mode: &str,
    journal: &mut Journal,
    stop: &AtomicBool,
) -> Result<Option<Running>> {
    let interface = access_point.interface;
    journal.record(|changes| changes.mode = Some(mode.to_owned()))?;
    let file = journal.write("hostapd", &access_point.configuration())?;
    let mut hostapd = programs.hostapd.start(&[&file.to_string_lossy()])?;
    let id = hostapd.id();
    journal.record(|changes| changes.processes.push(id))?;
    let check = chosen.radar_check.unwrap_or_default();
    let end = Instant::now() + START + 2 * check;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let line = hostapd.line(POLL_INTERVAL, hostapd::is_cause);
        let line = line.with_context(|| refused(interface))?;
        match line.and_then(|line| hostapd::event(interface, &line)) {
            Some(Event::Enabled) => break,
            Some(Event::RadarCheck) => eprintln!(
                "openuvr ap: listening for radar before the first transmission, for {} s",
                check.as_secs()
            ),
            _ => {}
        }
        if Instant::now() >= end {
            let waited = (START + 2 * check).as_secs();
            return Err(anyhow!(
                "hostapd did not start the access point within {waited} s"
            ))
            .with_context(|| refused(interface));
        }
    }
    let dnsmasq = serve_addresses(programs, interface, journal, stop)?;
    Ok(dnsmasq.map(|dnsmasq| Running {
        hostapd,
        dnsmasq,
        interface: interface.to_owned(),
    }))
}

fn refused(interface: &str) -> String {
    format!("can't make {interface} an access point")
}

/// Assigns an address to the interface, and starts serving addresses to its clients. Returns `None` if `stop` is set
/// meanwhile.
fn serve_addresses(
    programs: &Programs,
    interface: &str,
    journal: &mut Journal,
    stop: &AtomicBool,
) -> Result<Option<Daemon>> {
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let subnet = Subnet::choose(&routes).ok_or_else(|| {
        anyhow!("no free subnet for the clients: this machine's routes cover all of 192.168.0.0/16; remove a route \
                 (`ip route`)")
    })?;
    let address = subnet.to_string();
    journal.record(|changes| changes.addresses.push(address.clone()))?;
    let words = ["address", "add", &address, "dev", interface];
    programs.ip.run(&words, STEP)?;
    let leases = journal.write("leases", "")?;
    let text = dnsmasq::configuration(interface, subnet, &leases);
    let file = journal.write("dnsmasq", &text)?;
    let file = format!("--conf-file={}", file.display());
    let mut dnsmasq = programs
        .dnsmasq
        .start_behind_shell(&["--keep-in-foreground", &file])?;
    let id = dnsmasq.id();
    journal.record(|changes| changes.processes.push(id))?;
    let end = Instant::now() + START;
    while !stop.load(Ordering::Relaxed) {
        let line = dnsmasq.line(POLL_INTERVAL, |_| false);
        let line =
            line.with_context(|| format!("can't serve addresses to the clients of {interface}"))?;
        if line.is_some_and(|line| dnsmasq::is_started(&line)) {
            return Ok(Some(dnsmasq));
        }
        if Instant::now() >= end {
            bail!("can't serve addresses to the clients of {interface}: dnsmasq does not start");
        }
    }
    Ok(None)
}

impl Running {
    /// Prints the clients that join and leave, until `stop` is set.
    ///
    /// # Errors
    /// Returns an error if hostapd or dnsmasq ends, or if hostapd reports that the access point is disabled.
    pub(crate) fn follow(&mut self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let line = self.hostapd.line(POLL_INTERVAL, hostapd::is_cause);
            let line = line.context("the access point has ended")?;
            match line.and_then(|line| hostapd::event(&self.interface, &line)) {
                Some(Event::Joined(address)) => {
                    eprintln!("openuvr ap: client {address} has joined");
                }
                Some(Event::Left(address)) => eprintln!("openuvr ap: client {address} has left"),
                Some(Event::WrongKey(address)) => {
                    eprintln!("openuvr ap: client {address} can't join: its key is probably wrong");
                }
                Some(Event::Disabled) => bail!(
                    "the access point has ended: another program has changed {}, or its transmitter was switched off",
                    self.interface
                ),
                Some(Event::Enabled | Event::RadarCheck) | None => {}
            }
            // Reading the log of dnsmasq detects that dnsmasq has ended.
            let line = self.dnsmasq.line(Duration::ZERO, |_| false);
            line.context("the access point's clients no longer get addresses")?;
        }
        Ok(())
    }
}
