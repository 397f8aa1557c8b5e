//! `openuvr hosts`, and which host `openuvr client` takes when none is named.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use openuvr_net::address::path_of;
use openuvr_proto::id::PathId;
use openuvr_runtime::client::Target;
use openuvr_runtime::store::config_dir;
use openuvr_runtime::trust_store::HostStore;

use super::search::{Nearby, search};
use openuvr_terminal::out;

/// What there is to do where nobody answers.
const NOBODY: &str = "no host answers on this network: start one with `openuvr host`, or name one that is \
    elsewhere or not discoverable, as in openuvr client 192.168.1.5";

/// List the hosts on this network
///
/// They are asked by multicast DNS, which reaches no further than this network. Whoever answers may say what
/// it likes: a name and a fingerprint prove nothing before a client connects.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder of keys and known hosts [default: $XDG_CONFIG_HOME/openuvr or ~/.config/openuvr]
    #[arg(long, value_name = "FOLDER")]
    config_dir: Option<PathBuf>,
}

/// Lists the hosts nearby.
///
/// # Errors
/// One line: no network, nobody answers, or a file that can't be read.
pub(crate) fn run(args: Args) -> Result<()> {
    let dir = args.config_dir.map_or_else(config_dir, Ok)?;
    let found = search(&HostStore::open(&dir)?).map_err(|why| anyhow!(why))?;
    if found.is_empty() {
        bail!(NOBODY);
    }
    print!("{}", table(&found));
    Ok(())
}

/// A host that a client is to connect to.
pub(crate) struct Chosen {
    /// Where it is, as one would write it.
    pub(crate) target: Target,
    /// All of its addresses.
    pub(crate) paths: Vec<PathId>,
    /// Under which address its key is known. The key decides whether it is the host, wherever it is now.
    pub(crate) known_as: Option<String>,
}

/// Looks for hosts and takes the one that is known; of others the one whose number the person types.
///
/// # Errors
/// One line: no network, nobody answers, there is nobody to ask, or a number that is none.
pub(crate) fn choose(config_dir: &Path) -> Result<Chosen> {
    let known = HostStore::open(config_dir)?;
    let found = search(&known).map_err(|why| anyhow!(why))?;
    if found.is_empty() {
        bail!(NOBODY);
    }
    if let Some(only) = the_known_one(&found) {
        let at = only.addresses.first().map(ToString::to_string);
        let (name, at) = (&only.name, at.unwrap_or_default());
        eprintln!("openuvr client: {name:?} is paired and answers at {at}");
        return chosen(only);
    }
    out::answer(format_args!("{}", table(&found).trim_end()));
    if !std::io::stdin().is_terminal() {
        bail!("which of these hosts is meant? Give its address, as in openuvr client 192.168.1.5");
    }
    out::ask(format_args!("The number of the host to connect to: "));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let number = line.trim().parse::<usize>().ok();
    let host = number.and_then(|n| found.get(n.checked_sub(1)?));
    chosen(host.ok_or_else(|| {
        anyhow!(
            "{:?} is no number of a host: type one from 1 to {}, or give an address",
            line.trim(),
            found.len()
        )
    })?)
}

/// The host that is known, if exactly one of them is.
fn the_known_one(found: &[Nearby]) -> Option<&Nearby> {
    let mut known = found.iter().filter(|host| host.known_as.is_some());
    known.next().filter(|_| known.next().is_none())
}

fn chosen(host: &Nearby) -> Result<Chosen> {
    let first = host.addresses.first();
    let first = first.ok_or_else(|| anyhow!("{:?} has no address", host.name))?;
    Ok(Chosen {
        target: first.to_string().parse()?,
        paths: host.addresses.iter().map(|a| path_of(a.address)).collect(),
        known_as: host.known_as.clone(),
    })
}

fn table(found: &[Nearby]) -> String {
    let address = |host: &Nearby| {
        let more = host.addresses.len().saturating_sub(1);
        let first = host.addresses.first().map(ToString::to_string);
        let first = first.unwrap_or_default();
        match more {
            0 => first,
            more => format!("{first} (+{more})"),
        }
    };
    let width = |of: &dyn Fn(&Nearby) -> usize| found.iter().map(of).max().unwrap_or(0);
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
    fn one_known_host_is_taken_of_several_none() {
        let (desk, stranger) = (host("desk", DESK, Some("d")), host("desk", "", None));
        assert_eq!(
            the_known_one(&[stranger.clone(), desk.clone()]),
            Some(&desk)
        );
        assert_eq!(the_known_one(&[stranger]), None);
        let attic = host("attic", "ffff-4567-89ab-cdef", Some("a"));
        assert_eq!(the_known_one(&[desk, attic]), None);
    }

    #[test]
    fn what_is_chosen_is_known_by_the_key_of_its_first_meeting() {
        let chosen = chosen(&host("desk", DESK, Some("desk:4710"))).unwrap();
        assert_eq!(chosen.target.to_string(), "192.0.2.7:4710");
        assert_eq!(chosen.known_as.as_deref(), Some("desk:4710"));
        assert_eq!(chosen.paths.len(), 1);
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
