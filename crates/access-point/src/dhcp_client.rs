//! An IPv4 address from the access point, through a DHCP client of the distribution.
//!
//! The DHCP client's own script sets the address. It changes nothing else, because the access point offers neither a
//! router nor a name server.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::journal::Journal;
use crate::programs::{Daemon, Program};

/// The maximum wait for an address (guess): the time for four requests of a DHCP client on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum duration of a query.
const ANSWER: Duration = Duration::from_secs(10);

/// The interval of queries.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The DHCP clients, in order of preference.
const CLIENTS: [&str; 3] = ["dhclient", "dhcpcd", "udhcpc"];

/// Starts a client and waits for an address. Returns `None` if no client is installed, or if `stop` is set meanwhile.
///
/// # Errors
/// Returns an error if there is no address in time, or if the client ends.
pub(crate) fn start(
    ip: &Program,
    journal: &mut Journal,
    stop: &AtomicBool,
) -> Result<Option<Daemon>> {
    let Some(client) = CLIENTS.into_iter().find_map(Program::find) else {
        return Ok(None);
    };
    let interface = journal.interface().to_owned();
    let before = addresses(ip, &interface)?;
    let (arguments, files) = arguments(client.name(), &interface);
    journal.record(|changes| changes.files.extend(files))?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut daemon = client.start(&arguments)?;
    let id = daemon.id();
    journal.record(|changes| changes.processes.push(id))?;
    let end = Instant::now() + TIMEOUT;
    loop {
        let now = addresses(ip, &interface)?;
        let new: Vec<String> = now.difference(&before).cloned().collect();
        if !new.is_empty() {
            journal.record(|changes| changes.addresses.extend(new))?;
            return Ok(Some(daemon));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if Instant::now() >= end {
            bail!(
                "{} got no address within {} s",
                client.name(),
                TIMEOUT.as_secs()
            );
        }
        while daemon.line(Duration::ZERO, |_| false)?.is_some() {}
        thread::sleep(POLL_INTERVAL);
    }
}

/// The arguments that run a client in the foreground and for IPv4 only, and the files that the client writes.
fn arguments(client: &str, interface: &str) -> (Vec<String>, Vec<PathBuf>) {
    match client {
        "dhclient" => {
            // Debian's AppArmor profile permits these paths.
            let pid = format!("/run/dhclient-openuvr-{interface}.pid");
            let leases = format!("/var/lib/dhcp/dhclient-openuvr-{interface}.leases");
            let words = ["-4", "-d", "-pf", &pid, "-lf", &leases, interface];
            let words = words.map(str::to_owned).to_vec();
            (words, vec![pid.into(), leases.into()])
        }
        "dhcpcd" => (
            ["-4", "-B", "-d", "-G", interface]
                .map(str::to_owned)
                .to_vec(),
            Vec::new(),
        ),
        _ => (
            ["-f", "-i", interface].map(str::to_owned).to_vec(),
            Vec::new(),
        ),
    }
}

/// The IPv4 addresses of an interface, with their prefix lengths.
fn addresses(ip: &Program, interface: &str) -> Result<BTreeSet<String>> {
    let words = ["-4", "-o", "address", "show", "dev", interface];
    let text = ip.run(&words, ANSWER).context("can't list addresses")?;
    Ok(parse(&text))
}

/// The addresses of lines such as `3: wlan0    inet 192.168.71.57/24 brd 192.168.71.255 scope global wlan0`.
fn parse(text: &str) -> BTreeSet<String> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        words.find(|word| *word == "inet")?;
        words.next().map(str::to_owned)
    };
    text.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_their_masks() {
        let text = "3: wlan0    inet 192.168.71.57/24 brd 192.168.71.255 scope global dynamic wlan0\\       valid_lft\n\
                    3: wlan0    inet 10.0.0.2/8 scope global wlan0\n";
        let all: Vec<String> = parse(text).into_iter().collect();
        assert_eq!(all, ["10.0.0.2/8", "192.168.71.57/24"]);
        assert!(parse("").is_empty());
    }

    #[test]
    fn each_client_stays_in_the_foreground() {
        for client in CLIENTS {
            let (words, files) = arguments(client, "wlan0");
            assert_eq!(words.last().map(String::as_str), Some("wlan0"));
            assert_eq!(files.is_empty(), client != "dhclient");
        }
    }
}
