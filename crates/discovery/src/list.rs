//! `openuvr hosts`, and the selection of a host for `openuvr client` without an address.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use openuvr_net::address::path_of;
use openuvr_proto::id::PathId;
use openuvr_runtime::client::Target;
use openuvr_runtime::store::config_dir;
use openuvr_runtime::trust_store::HostStore;

use super::search::{DiscoveredHost, search};
use openuvr_terminal::out;

/// The message if there is no host at an access point.
const NO_HOST_THERE: &str = "no host found at the access point: start one with `openuvr host` on the machine that \
                             runs `openuvr ap`; a firewall \
    there must pass UDP ports 67 (DHCP), 5353 (mDNS) and 4710";

/// The maximum number of searches for a host at an access point. Together, they last longer than the time until IPv6
/// addresses are usable (a second or two: RFC 4862, section 5.4) and until a host notices a new interface (5 s).
const TRIES: u32 = 5;

/// The message if there is no host.
const NO_HOST: &str = "no host found on this network: start one with `openuvr host`, or specify the address of a host \
                       that is elsewhere or not announced, as in openuvr client 192.168.1.5";

/// List the hosts on this network
///
/// Hosts are discovered through multicast DNS, which reaches only the local network. Names and fingerprints in the list are
/// not authenticated before a client connects.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folder for keys and known hosts [default: $XDG_CONFIG_HOME/openuvr or ~/.config/openuvr]
    #[arg(long, value_name = "FOLDER")]
    config_dir: Option<PathBuf>,
}

/// Lists the discovered hosts.
///
/// # Errors
/// Returns one line if there is no network or no host, or a file cannot be read.
pub fn run(args: Args) -> Result<()> {
    let dir = args.config_dir.map_or_else(config_dir, Ok)?;
    let found = search(&HostStore::open(&dir)?, None).map_err(|why| anyhow!(why))?;
    if found.is_empty() {
        bail!(NO_HOST);
    }
    print!("{}", table(&found));
    Ok(())
}

/// A host to connect to.
pub struct SelectedHost {
    /// Its best address, in command-line syntax.
    pub target: Target,
    /// All of its addresses.
    pub paths: Vec<PathId>,
    /// The address under which its key is stored. The key authenticates the host at any address.
    pub known_as: Option<String>,
    /// The fingerprint that it announces, for [`search_again`].
    pub fingerprint: String,
}

/// Discovers hosts at the access point that the interface `joined` has just joined, or on all interfaces if `joined` is
/// `None`. Selects the only host found at an access point, or the only paired host among those found. Otherwise,
/// prompts for the number of a host.
///
/// # Errors
/// Returns one line if there is no network or no host, if a number is required but there is no terminal, or if the
/// number is invalid.
pub fn select(config_dir: &Path, joined: Option<&str>) -> Result<SelectedHost> {
    let known = HostStore::open(config_dir)?;
    let (tries, no_host) = match joined {
        Some(_) => (TRIES, NO_HOST_THERE),
        None => (1, NO_HOST),
    };
    let mut found = Vec::new();
    for _ in 0..tries {
        found = search(&known, joined).map_err(|why| anyhow!(why))?;
        if !found.is_empty() {
            break;
        }
    }
    if found.is_empty() {
        bail!(no_host);
    }
    if let (Some(_), [only]) = (joined, found.as_slice()) {
        // The host itself operates the access point, so the only host found there needs no confirmation.
        let (name, at) = (&only.name, only.addresses.first().map(ToString::to_string));
        eprintln!(
            "openuvr client: found the host {name:?} at {}",
            at.unwrap_or_default()
        );
        return selected(only);
    }
    if let Some(only) = single_known(&found) {
        let at = only.addresses.first().map(ToString::to_string);
        let (name, at) = (&only.name, at.unwrap_or_default());
        eprintln!("openuvr client: found the paired host {name:?} at {at}");
        return selected(only);
    }
    out::unlimited_message(format_args!("{}", table(&found).trim_end()));
    if !std::io::stdin().is_terminal() {
        bail!("no terminal to choose a host: specify an address, as in openuvr client 192.168.1.5");
    }
    out::prompt(format_args!("Number of the host: "));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let number = line.trim().parse::<usize>().ok();
    let host = number.and_then(|n| found.get(n.checked_sub(1)?));
    selected(host.ok_or_else(|| {
        anyhow!(
            "invalid host number {:?}: type 1 to {}, or specify an address",
            line.trim(),
            found.len()
        )
    })?)
}

/// Searches again for a selected host, on the same interfaces, and returns its present addresses. Blocks for seconds.
///
/// # Errors
/// Returns one line if there is no network or the host is not found.
pub fn search_again(
    config_dir: &Path,
    joined: Option<&str>,
    fingerprint: &str,
) -> Result<Vec<PathId>, String> {
    let known = HostStore::open(config_dir).map_err(|e| e.to_string())?;
    let paths = paths_of(&search(&known, joined)?, fingerprint);
    match paths.is_empty() {
        true => Err(format!("the host {fingerprint} is not announced here")),
        false => Ok(paths),
    }
}

/// The addresses of the host with this fingerprint.
fn paths_of(found: &[DiscoveredHost], fingerprint: &str) -> Vec<PathId> {
    let same = found.iter().filter(|host| host.fingerprint == fingerprint);
    let addresses = same.flat_map(|host| &host.addresses);
    addresses.map(|a| path_of(a.address)).collect()
}

/// The known host, if there is exactly one.
fn single_known(found: &[DiscoveredHost]) -> Option<&DiscoveredHost> {
    let mut known = found.iter().filter(|host| host.known_as.is_some());
    known.next().filter(|_| known.next().is_none())
}

fn selected(host: &DiscoveredHost) -> Result<SelectedHost> {
    let first = host.addresses.first();
    let first = first.ok_or_else(|| anyhow!("{:?} has no address", host.name))?;
    Ok(SelectedHost {
        target: first.to_string().parse()?,
        paths: host.addresses.iter().map(|a| path_of(a.address)).collect(),
        known_as: host.known_as.clone(),
        fingerprint: host.fingerprint.clone(),
    })
}

fn table(found: &[DiscoveredHost]) -> String {
    let address = |host: &DiscoveredHost| {
        let more = host.addresses.len().saturating_sub(1);
        let first = host.addresses.first().map(ToString::to_string);
        let first = first.unwrap_or_default();
        match more {
            0 => first,
            more => format!("{first} (+{more})"),
        }
    };
    let width = |of: &dyn Fn(&DiscoveredHost) -> usize| found.iter().map(of).max().unwrap_or(0);
    let name = width(&|host| host.name.chars().count()).max(4);
    let place = width(&|host| address(host).chars().count()).max(7);
    let mut text = String::new();
    let mut row = |cells: [&str; 5]| {
        let [number, called, at, key, state] = cells;
        let _ = writeln!(
            text,
            "{number:>3}  {called:name$}  {at:place$}  {key:19}  {state}"
        );
    };
    row(["", "NAME", "ADDRESS", "FINGERPRINT", "STATE"]);
    for (n, host) in found.iter().enumerate() {
        let state = match (&host.known_as, host.pairs) {
            (Some(_), _) => "paired",
            (None, true) => "new; pairing is open",
            (None, false) => "new; pairing is closed",
        };
        let number = (n + 1).to_string();
        row([
            &number,
            &host.name,
            &address(host),
            &host.fingerprint,
            state,
        ]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::search::tests::host;
    use super::*;

    const DESK: &str = "0123-4567-89ab-cdef";

    #[test]
    fn only_a_single_known_host_is_selected() {
        let (desk, stranger) = (host("desk", DESK, Some("d")), host("desk", "", None));
        assert_eq!(single_known(&[stranger.clone(), desk.clone()]), Some(&desk));
        assert_eq!(single_known(&[stranger]), None);
        let attic = host("attic", "ffff-4567-89ab-cdef", Some("a"));
        assert_eq!(single_known(&[desk, attic]), None);
    }

    #[test]
    fn a_chosen_host_keeps_its_stored_address() {
        let chosen = selected(&host("desk", DESK, Some("desk:4710"))).unwrap();
        assert_eq!(chosen.target.to_string(), "192.0.2.7:4710");
        assert_eq!(chosen.known_as.as_deref(), Some("desk:4710"));
        assert_eq!(chosen.paths.len(), 1);
    }

    #[test]
    fn a_host_is_found_again_by_its_fingerprint() {
        let chosen = selected(&host("desk", DESK, None)).unwrap();
        let stranger = host("desk", "ffff-4567-89ab-cdef", None);
        let again = [stranger.clone(), host("renamed", DESK, None)];
        assert_eq!(paths_of(&again, &chosen.fingerprint), chosen.paths);
        assert!(paths_of(&[stranger], &chosen.fingerprint).is_empty());
    }

    #[test]
    fn the_table_has_a_number_for_each() {
        let stranger = "ffff-4567-89ab-cdef";
        let text = table(&[host("desk", DESK, Some("d")), host("attic", stranger, None)]);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 3);
        assert!(rows[1].starts_with("  1  desk ") && rows[1].ends_with("paired"));
        assert!(rows[2].contains(stranger) && rows[2].ends_with("closed"));
    }
}
