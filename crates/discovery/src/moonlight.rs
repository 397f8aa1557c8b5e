//! The announcement of a host for Moonlight clients: `_nvstream._tcp`, the service type that they search for
//! (`computermanager.cpp` of moonlight-qt).
//!
//! The records have no properties, because clients query the host itself. A failed announcement does not end the host,
//! because users can enter its address in their clients.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mdns_sd::{IfKind, ServiceDaemon, ServiceInfo};
use openuvr_proto::printable::printable;

use crate::announce::on_interfaces_of;

/// The service type.
const SERVICE: &str = "_nvstream._tcp.local.";

/// The maximum length of an instance name in bytes, because the name is one label of a domain name (RFC 6763, section
/// 4.1.1).
const LONGEST: usize = 63;

/// When a host ends, it waits at most this long for its goodbye messages to be sent (guess). If a goodbye is lost, the
/// records expire.
const GOODBYE: Duration = Duration::from_millis(500);

/// Announces the host until it is dropped.
pub struct MoonlightAnnouncement {
    daemon: ServiceDaemon,
}

impl MoonlightAnnouncement {
    /// Announces the host `name` with the identity `number` at `address`, its HTTP address. Returns `None` if the host
    /// is reachable only from this machine, or if it cannot be announced. If the announcement fails, prints the reason
    /// in a line with the prefix `subcommand`.
    #[must_use]
    pub fn start(
        subcommand: &str,
        name: &str,
        number: &str,
        address: SocketAddr,
    ) -> Option<MoonlightAnnouncement> {
        let ip = address.ip().to_canonical();
        if ip.is_loopback() {
            return None;
        }
        let announced = service(name, number, ip, address.port()).and_then(|service| {
            let daemon = ServiceDaemon::new()?;
            daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
            daemon.register(service)?;
            Ok(MoonlightAnnouncement { daemon })
        });
        match announced {
            Ok(announced) => Some(announced),
            Err(why) => {
                let why = printable(&why.to_string());
                eprintln!(
                    "openuvr {subcommand}: can't announce this host to Moonlight through mDNS: {why}; add its address in \
                     Moonlight"
                );
                None
            }
        }
    }
}

impl Drop for MoonlightAnnouncement {
    fn drop(&mut self) {
        if let Ok(over) = self.daemon.shutdown() {
            let _ = over.recv_timeout(GOODBYE);
        }
    }
}

fn service(name: &str, number: &str, ip: IpAddr, port: u16) -> mdns_sd::Result<ServiceInfo> {
    let name = printable(name);
    let end = name.floor_char_boundary(LONGEST);
    let instance = name.get(..end).unwrap_or_default().trim();
    // As in the announcement for native clients, each host has its own host name.
    let machine = format!("openuvr-moonlight-{number}-{port}.local.");
    let own: &[IpAddr] = if ip.is_unspecified() { &[] } else { &[ip] };
    let nothing: &[(&str, &str)] = &[];
    let service = ServiceInfo::new(SERVICE, instance, &machine, own, port, nothing)?;
    Ok(on_interfaces_of(service, ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_has_the_name_and_the_port() {
        let of = |ip: &str| service("desk", "0123", ip.parse().unwrap(), 47_989).unwrap();
        let everywhere = of("::");
        assert_eq!(everywhere.get_port(), 47_989);
        assert!(everywhere.get_fullname().starts_with("desk._nvstream._tcp"));
        assert!(everywhere.is_addr_auto() && !of("192.0.2.7").is_addr_auto());
        let long = service(&"\u{65e5}".repeat(40), "0", "::".parse().unwrap(), 1).unwrap();
        assert!(long.get_fullname().len() < 128, "{}", long.get_fullname());
    }
}
