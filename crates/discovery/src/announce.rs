//! The announcement of a host: its name, port, key fingerprint and pairing state.
//!
//! A thread of the mDNS library answers queries. A failure here never ends the host: without a network, clients merely
//! do not discover it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mdns_sd::{DaemonEvent, IfKind, Receiver, ServiceDaemon, ServiceInfo};
use openuvr_proto::control::handshake::PROTOCOL_VERSION;
use openuvr_proto::printable::printable;
use openuvr_proto::time::Instant;
use openuvr_runtime::host::Notice;
use openuvr_runtime::launch_protocol::LaunchReport;

use super::{SERVICE, txt};

/// The maximum length of an instance name in bytes, because the name is one label of a domain name (RFC 6763, section
/// 4.1.1).
const LONGEST: usize = 63;

/// When a host ends, it waits at most this long for its goodbye messages to be sent (guess). If a goodbye is lost, the
/// records expire.
const GOODBYE: Duration = Duration::from_millis(500);

/// The description of a host.
#[derive(Clone, Debug)]
pub struct HostInfo {
    /// The host's name.
    pub name: String,
    /// The streamed application, if there is one.
    pub shows: Option<String>,
}

impl HostInfo {
    /// The instance name: host and application, truncated if too long.
    fn instance(&self) -> String {
        let name = match &self.shows {
            Some(shows) => format!("{}: {shows}", self.name),
            None => self.name.clone(),
        };
        let name = printable(&name);
        let end = name.floor_char_boundary(LONGEST);
        name.get(..end).unwrap_or_default().trim().to_owned()
    }
}

/// Announces a host to clients on the network. Dropping this value withdraws the announcement.
pub struct Announcer {
    about: HostInfo,
    subcommand: &'static str,
    /// The time until which pairing is open.
    pairing_until: Option<Instant>,
    announced: Option<Announced>,
}

struct Announced {
    daemon: ServiceDaemon,
    events: Receiver<DaemonEvent>,
    address: SocketAddr,
    fingerprint: String,
    pairing: bool,
    reported: bool,
}

impl Announcer {
    /// Creates an announcer that has not announced anything yet. `subcommand` is the prefix of error lines, such as `host`.
    pub fn new(subcommand: &'static str, about: HostInfo) -> Announcer {
        Announcer {
            about,
            subcommand,
            pairing_until: None,
            announced: None,
        }
    }

    /// Announces the host at this address, with this fingerprint of its identity key. A host that is reachable only from
    /// this machine is not announced.
    pub fn announce_at(&mut self, address: SocketAddr, fingerprint: String, now: Instant) {
        self.ended();
        if address.ip().to_canonical().is_loopback() {
            return;
        }
        match self.announce(address, fingerprint, now) {
            Ok(announced) => self.announced = Some(announced),
            Err(why) => self.trouble(&why),
        }
    }

    /// Sets the time until which pairing is open.
    pub fn set_pairing_until(&mut self, until: Instant) {
        self.pairing_until = Some(until);
    }

    /// Updates the pairing state from a report of the host.
    pub fn on_report(&mut self, report: &LaunchReport, now: Instant) {
        match report {
            LaunchReport::Invitation { seconds, .. } => {
                self.set_pairing_until(now + Duration::from_secs((*seconds).into()));
            }
            // A PIN is valid for one device, so pairing is now closed.
            LaunchReport::Notice(Notice::Paired { .. }) => self.pairing_until = None,
            LaunchReport::Notice(Notice::Pairing(words))
                if words.starts_with("pairing is closed") =>
            {
                self.pairing_until = None;
            }
            LaunchReport::Notice(Notice::Pairing(words)) => {
                let open = words.strip_prefix("pairing is open for ");
                let seconds = open.and_then(|rest| rest.split(' ').next()?.parse().ok());
                if let Some(seconds) = seconds {
                    self.set_pairing_until(now + Duration::from_secs(seconds));
                }
            }
            _ => {}
        }
    }

    /// Announces changes of the pairing state. Call it a few times per second.
    pub fn tick(&mut self, now: Instant) {
        let pairing = self.is_pairing(now);
        let Some(announced) = &mut self.announced else {
            return;
        };
        let mut trouble = None;
        for event in announced.events.try_iter() {
            match event {
                DaemonEvent::Error(why) => trouble = Some(why.to_string()),
                event => tracing::debug!("mDNS: {event:?}"),
            }
        }
        if announced.pairing != pairing {
            announced.pairing = pairing;
            let service = service(
                &self.about,
                announced.address,
                &announced.fingerprint,
                pairing,
            );
            let value = service.and_then(|service| announced.daemon.register(service));
            trouble = value.err().map(|why| why.to_string()).or(trouble);
        }
        if let Some(why) = trouble
            && !std::mem::replace(&mut announced.reported, true)
        {
            self.trouble(&why);
        }
    }

    /// Withdraws the announcement. Call this when the host has ended.
    pub fn ended(&mut self) {
        if let Some(announced) = self.announced.take()
            && let Ok(over) = announced.daemon.shutdown()
        {
            let _ = over.recv_timeout(GOODBYE);
        }
    }

    fn is_pairing(&self, now: Instant) -> bool {
        self.pairing_until.is_some_and(|until| now < until)
    }

    fn announce(
        &self,
        address: SocketAddr,
        fingerprint: String,
        now: Instant,
    ) -> Result<Announced, String> {
        let pairing = self.is_pairing(now);
        let start = || {
            let service = service(&self.about, address, &fingerprint, pairing)?;
            let daemon = ServiceDaemon::new()?;
            daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
            let events = daemon.monitor()?;
            daemon.register(service)?;
            Ok((daemon, events))
        };
        let (daemon, events) = start().map_err(|why: mdns_sd::Error| why.to_string())?;
        Ok(Announced {
            daemon,
            events,
            address,
            fingerprint,
            pairing,
            reported: false,
        })
    }

    fn trouble(&self, why: &str) {
        let (subcommand, why) = (self.subcommand, printable(why));
        eprintln!(
            "openuvr {subcommand}: can't announce this host through mDNS: {why}; clients may need its address"
        );
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.ended();
    }
}

/// The records of a host at `address`.
fn service(
    about: &HostInfo,
    address: SocketAddr,
    fingerprint: &str,
    pairing: bool,
) -> mdns_sd::Result<ServiceInfo> {
    let protocol = PROTOCOL_VERSION.to_string();
    let properties = [
        (txt::VERSION, "1"),
        (txt::PROTOCOL, &protocol),
        (txt::KEY, fingerprint),
        (txt::PAIRING, if pairing { txt::OPEN } else { txt::CLOSED }),
    ];
    let ip = address.ip().to_canonical();
    let own: &[IpAddr] = if ip.is_unspecified() { &[] } else { &[ip] };
    let (instance, port) = (about.instance(), address.port());
    // Each host on the machine has its own host name, so that the end of one host does not withdraw an address of another
    // host or of another responder on this machine.
    let machine = format!("openuvr-{fingerprint}-{port}.local.");
    let service = ServiceInfo::new(SERVICE, &instance, &machine, own, port, &properties[..])?;
    Ok(on_interfaces_of(service, ip))
}

/// Restricts `service` to the interfaces through which the bound address `ip` is reached. If `ip` is unspecified, the
/// service gets the addresses of the interfaces on which it is announced.
pub(crate) fn on_interfaces_of(mut service: ServiceInfo, ip: IpAddr) -> ServiceInfo {
    if !ip.is_unspecified() {
        service.set_interfaces(vec![IfKind::Addr(ip)]);
        return service;
    }
    if ip.is_ipv4() {
        service.set_interfaces(vec![IfKind::IPv4]);
    }
    service.enable_addr_auto()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123-4567-89ab-cdef";

    fn about(name: &str, shows: Option<&str>) -> HostInfo {
        HostInfo {
            name: name.to_owned(),
            shows: shows.map(str::to_owned),
        }
    }

    #[test]
    fn an_instance_is_named_within_a_label() {
        assert_eq!(about("desk", None).instance(), "desk");
        assert_eq!(about("desk", Some("blender")).instance(), "desk: blender");
        let evil = about("desk\u{1b}[2J", Some("a\nb\u{202e}"));
        assert_eq!(evil.instance(), "desk[2J: ab");
        let long = about("desk", Some(&"日".repeat(40))).instance();
        assert!(long.len() <= LONGEST && long.ends_with('日'), "{long}");
    }

    #[test]
    fn records_contain_port_key_and_pairing() {
        let about = about("desk", None);
        let all = service(&about, "[::]:4711".parse().unwrap(), KEY, true).unwrap();
        assert_eq!(all.get_port(), 4711);
        assert_eq!(all.get_property_val_str(txt::PAIRING), Some("open"));
        assert_eq!(all.get_property_val_str(txt::KEY), Some(KEY));
        assert!(all.is_addr_auto());
        let one = service(&about, "192.0.2.7:4710".parse().unwrap(), KEY, false).unwrap();
        assert_eq!(one.get_property_val_str(txt::PAIRING), Some("closed"));
        assert!(!one.is_addr_auto() && one.get_addresses_v4().len() == 1);
        // Two hosts on this machine have different host names.
        assert_ne!(all.get_hostname(), one.get_hostname());
    }

    #[test]
    fn pairing_ends_in_time_or_with_a_device() {
        let mut announcer = Announcer::new("host", about("desk", None));
        let at = |seconds| Instant(0) + Duration::from_secs(seconds);
        let invitation = LaunchReport::Invitation {
            pin: "135790".to_owned(),
            seconds: 10,
        };
        announcer.on_report(&invitation, at(0));
        assert!(announcer.is_pairing(at(9)) && !announcer.is_pairing(at(10)));
        let paired = Notice::Paired {
            name: "attic".to_owned(),
            fingerprint: String::new(),
        };
        announcer.on_report(&paired.into(), at(1));
        assert!(!announcer.is_pairing(at(2)));
        announcer.on_report(&invitation, at(3));
        let wrong = Notice::Pairing("a wrong PIN came from 192.0.2.1:5".to_owned());
        announcer.on_report(&wrong.into(), at(4));
        assert!(announcer.is_pairing(at(4)));
        let over = Notice::Pairing("pairing is closed: too many wrong PINs".to_owned());
        announcer.on_report(&over.into(), at(4));
        assert!(!announcer.is_pairing(at(4)));
    }
}
