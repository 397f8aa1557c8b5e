//! Where a host is: what a person or a program writes, and the way there.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use openuvr_net::address::{path_of, path_of_station};
use openuvr_net::ether::{Mac, Station};
use openuvr_net::ladder::Ladder;
use openuvr_net::neighbour;
use openuvr_proto::control::ladder::Rung;
use openuvr_proto::id::PathId;

use crate::PORT;

/// Where a host is, by name or address: `desk`, `192.168.1.5:4711`, `[fe80::1%eth0]`,
/// `2001:db8::1`, `eth0/52:54:00:12:34:56`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// A name, an IPv4 address, an IPv6 address without brackets, or an interface of this machine,
    /// `/` and an Ethernet address.
    pub host: String,
    /// The port, the same for all transports.
    pub port: u16,
}

/// A link to a host.
pub struct Reached {
    /// The link.
    pub link: Ladder,
    /// The one transport that will do; `None`: the best that works.
    pub only: Option<Rung>,
    /// The host's addresses, best first.
    pub paths: Vec<PathId>,
}

impl Target {
    /// The interface and the address, if it is an Ethernet address.
    #[must_use]
    pub fn ethernet(&self) -> Option<(&str, Mac)> {
        let (interface, mac) = self.host.split_once('/')?;
        Some((interface, mac.parse().ok()?))
    }

    /// Under what a client remembers this host.
    #[must_use]
    pub fn remembered_as(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Opens a link to this host, by one transport or by all that work. Asks the name service: may
    /// block for seconds.
    ///
    /// # Errors
    /// One line: nobody knows the name, or the one transport is not to be had.
    pub fn reach(&self, only: Option<Rung>) -> Result<Reached, String> {
        let failed = |e: &dyn fmt::Display| e.to_string();
        if let Some((interface, mac)) = self.ethernet() {
            let station = Station {
                mac,
                interface: neighbour::interface(interface).map_err(|e| failed(&e))?,
                port: self.port,
            };
            let only = only.or(Some(Rung::Raw));
            let link = Ladder::client(only).map_err(|e| failed(&e))?;
            if only == Some(Rung::Xdp) {
                link.open_xdp(station.interface).map_err(|e| failed(&e))?;
            }
            let paths = vec![path_of_station(station)];
            return Ok(Reached { link, only, paths });
        }
        // The privilege first: it is wanted without a host, too.
        let link = Ladder::client(only).map_err(|e| failed(&e))?;
        let addresses = self.resolve()?;
        let paths = match only {
            Some(rung @ (Rung::Raw | Rung::Xdp)) => stations(&link, rung, addresses)?,
            _ => addresses.into_iter().map(path_of).collect(),
        };
        Ok(Reached { link, only, paths })
    }

    /// All addresses that the name stands for now, in the system's order of preference.
    ///
    /// # Errors
    /// One line, if nobody knows the name.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let host = &self.host;
        let found = (host.as_str(), self.port).to_socket_addrs();
        let found: Vec<_> = found
            .map_err(|e| format!("can't find the host {host:?}: {e}"))?
            .collect();
        match found.is_empty() {
            true => Err(format!("the name {host:?} has no address")),
            false => Ok(found),
        }
    }
}

/// The Ethernet stations behind the addresses; with AF_XDP, it takes the first one's interface.
fn stations(link: &Ladder, rung: Rung, addresses: Vec<SocketAddr>) -> Result<Vec<PathId>, String> {
    let found = addresses.into_iter().map(neighbour::find);
    let (stations, reasons): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
    if let (true, Some(Err(why))) = (stations.is_empty(), reasons.into_iter().next()) {
        return Err(format!("no link {}: {why}", rung.name()));
    }
    let stations: Vec<_> = stations.into_iter().flatten().collect();
    if let (Rung::Xdp, Some(station)) = (rung, stations.first()) {
        let opened = link.open_xdp(station.interface);
        opened.map_err(|e| e.to_string())?;
    }
    Ok(stations.into_iter().map(path_of_station).collect())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') && self.ethernet().is_none() {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What was written is no name or address of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a host is a name or address, with a port if it isn't 4710: desk, 192.168.1.5:4710, \
     [::1]:4710, eth0/52:54:00:12:34:56"
)]
pub struct NoTarget;

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Target, NoTarget> {
        parse(text).ok_or(NoTarget)
    }
}

fn parse(text: &str) -> Option<Target> {
    let is_v6 = |host: &str| {
        let (address, zone) = host.split_once('%').unwrap_or((host, "0"));
        address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty()
    };
    // Digits only: `FromStr` also takes a sign.
    let whole = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse::<u16>().ok().filter(|port| *port != 0),
        false => None,
    };
    let port_behind = |rest: &str| match rest.strip_prefix(':') {
        Some(port) => whole(port),
        None => rest.is_empty().then_some(PORT),
    };
    if let Some((interface, rest)) = text.split_once('/') {
        // Interface names have at most 15 bytes (IFNAMSIZ), Ethernet addresses 17.
        let (mac, rest) = rest.split_at_checked(17)?;
        let mac: Mac = mac.parse().ok()?;
        let named = |c: char| c.is_ascii_graphic() && !"/:".contains(c);
        let sound = (1..=15).contains(&interface.len()) && interface.chars().all(named);
        return sound.then_some(Target {
            host: format!("{interface}/{mac}"),
            port: port_behind(rest)?,
        });
    }
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']')?;
        (is_v6(host).then_some(host)?, port_behind(rest)?)
    } else if is_v6(text) {
        (text, PORT)
    } else {
        let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
        let named = |c: char| c.is_alphanumeric() || "-._".contains(c);
        let sound = !host.is_empty() && !host.starts_with('-') && host.chars().all(named);
        (sound.then_some(host)?, port_behind(rest)?)
    };
    Some(Target {
        host: host.to_owned(),
        port,
    })
}
