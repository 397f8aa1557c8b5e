//! All transports of one program behind one link. A datagram's path selects the transport for sending. This link
//! receives the datagrams of all transports.
//!
//! A session changes its transport by changing its path. Raw Ethernet uses the same port number as UDP. Therefore, a
//! peer that knows one port knows both, and programs on one machine do not receive each other's frames.
//!
//! The crate `runtime` probes transports and chooses the path of a session.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::ecn::Ecn;
use openuvr_proto::id::PathId;

use crate::address::station_of;
use crate::ether::Mac;
use crate::raw::Raw;
use crate::ring::Ring;
use crate::sys::event::{self, Event};
use crate::sys::interfaces::{self, InterfaceMatch};
use crate::udp::{Options, Udp};
#[cfg(feature = "xdp")]
use crate::xdp::Xdp;
use crate::{Link, LinkError, MAX_DATAGRAM, RecvBatch, Transport};

/// The transports of a program. One thread should receive, and any number may send.
pub struct TransportSelector {
    /// Always present, because it reserves the port.
    udp: Udp,
    /// Whether UDP carries datagrams.
    open: bool,
    ethernet: OnceLock<Box<dyn Transport>>,
    /// The interface on which raw Ethernet listens; 0 means all interfaces.
    ethernet_on: OnceLock<u32>,
    /// Whether raw Ethernet uses mapped rings.
    rings: bool,
    #[cfg(feature = "xdp")]
    xdp: OnceLock<Xdp>,
    woken: Event,
    /// Whether to read Ethernet first next time. This alternates, so that a flood on one transport cannot starve another.
    ethernet_first: AtomicBool,
}

impl TransportSelector {
    /// The link of a host: UDP and, if available, raw Ethernet through packet sockets; or only the transport `only`.
    /// Raw Ethernet listens on the interface of the bound address. It listens on all interfaces if the address is
    /// unspecified. It listens on none if the address is a loopback address or belongs to no interface.
    ///
    /// # Errors
    /// [`LinkError`] if the port is in use, the address is not local, or the transport `only` is unavailable.
    pub fn host(
        bind: SocketAddr,
        only: Option<TransportKind>,
    ) -> Result<TransportSelector, LinkError> {
        let selector = TransportSelector::new(bind, only, true)?;
        if only.is_none_or(TransportKind::is_ethernet) {
            match selector.open_ethernet() {
                Err(why) if only.is_none() => tracing::debug!("{why}; using UDP"),
                outcome => outcome?,
            }
        }
        if only == Some(TransportKind::Xdp) {
            selector.open_xdp(selector.one_interface()?)?;
        }
        Ok(selector)
    }

    /// The link of a client, on an ephemeral port: UDP, or only raw Ethernet.
    ///
    /// # Errors
    /// [`LinkError`] if no port can be bound, or the transport `only` is unavailable.
    pub fn client(only: Option<TransportKind>) -> Result<TransportSelector, LinkError> {
        // Falls back to IPv4 where IPv6 is disabled.
        let dual = (Ipv6Addr::UNSPECIFIED, 0).into();
        let selector = TransportSelector::new(dual, only, false)
            .or_else(|_| TransportSelector::new((Ipv4Addr::UNSPECIFIED, 0).into(), only, false))?;
        if only.is_some_and(TransportKind::is_ethernet) {
            selector.open_ethernet()?;
        }
        Ok(selector)
    }

    fn new(
        bind: SocketAddr,
        only: Option<TransportKind>,
        reply_from_destination: bool,
    ) -> Result<TransportSelector, LinkError> {
        let options = match only {
            None | Some(TransportKind::UdpGso) => Options::default(),
            Some(_) => Options::PLAIN,
        };
        TransportSelector::of(
            Udp::bind(
                bind,
                &Options {
                    reply_from_destination,
                    ..options
                },
            )?,
            only,
        )
    }

    pub(crate) fn of(
        udp: Udp,
        only: Option<TransportKind>,
    ) -> Result<TransportSelector, LinkError> {
        let woken = Event::new().map_err(|error| LinkError::Io {
            what: "cannot create an eventfd".to_owned(),
            error,
        })?;
        Ok(TransportSelector {
            udp,
            open: !only.is_some_and(TransportKind::is_ethernet),
            ethernet: OnceLock::new(),
            ethernet_on: OnceLock::new(),
            rings: only == Some(TransportKind::Ring),
            #[cfg(feature = "xdp")]
            xdp: OnceLock::new(),
            woken,
            ethernet_first: AtomicBool::new(false),
        })
    }

    /// Adds raw Ethernet. Idempotent. Calls of [`Link::recv`] that start later also receive from it.
    ///
    /// # Errors
    /// [`LinkError`] with a remedy if raw Ethernet is unavailable.
    pub fn open_ethernet(&self) -> Result<(), LinkError> {
        if self.ethernet.get().is_none() {
            let interface = self.interface()?;
            let local = self.udp.local_addr();
            let ethernet: Box<dyn Transport> = if self.rings {
                Box::new(Ring::open(interface, local.port())?)
            } else {
                Box::new(Raw::open(interface, local.port())?)
            };
            // This fails only if a concurrent call has already stored an equivalent socket.
            let _ = self.ethernet.set(ethernet);
            let _ = self.ethernet_on.set(interface);
        }
        Ok(())
    }

    /// The interface of the bound address; 0 (all interfaces) if the address is unspecified.
    fn interface(&self) -> Result<u32, LinkError> {
        let ip = self.udp.local_addr().ip();
        let found = interfaces::interface_of(self.udp.local_addr());
        match found.map_err(|error| LinkError::Io {
            what: format!("cannot find the interface of {ip}"),
            error,
        })? {
            InterfaceMatch::All => Ok(0),
            InterfaceMatch::One(interface) => Ok(interface),
            InterfaceMatch::Loopback => Err(LinkError::Unavailable(format!(
                "raw Ethernet is unavailable on {ip}: a loopback address has no Ethernet segment; bind to the address \
                 of an Ethernet interface, or to all addresses"
            ))),
            InterfaceMatch::NotFound => Err(LinkError::Unavailable(format!(
                "raw Ethernet is unavailable on {ip}: no interface of this machine has that address; \
                 `ip address` lists the interfaces"
            ))),
        }
    }

    /// Uses `AF_XDP` for the frames of one interface.
    ///
    /// # Errors
    /// [`LinkError`] with a remedy if `AF_XDP` is unavailable.
    #[cfg(feature = "xdp")]
    pub fn open_xdp(&self, interface: u32) -> Result<(), LinkError> {
        let own = interfaces::mac_of(interface).map_err(|error| LinkError::Io {
            what: "cannot read the addresses of the interfaces".to_owned(),
            error,
        })?;
        let xdp = Xdp::open(interface, own, self.port())?;
        // If there is already a socket, the new socket is closed again.
        let _ = self.xdp.set(xdp);
        Ok(())
    }

    /// Uses `AF_XDP` for the frames of one interface.
    ///
    /// # Errors
    /// Always [`LinkError::Unavailable`]: this program was built without `AF_XDP`.
    #[cfg(not(feature = "xdp"))]
    pub fn open_xdp(&self, _: u32) -> Result<(), LinkError> {
        Err(LinkError::Unavailable(
            "this program was built without AF_XDP: build it with `cargo build --release \
             --features xdp`, or use --link raw"
                .to_owned(),
        ))
    }

    /// The interface of the bound address, or the only interface.
    fn one_interface(&self) -> Result<u32, LinkError> {
        let failed = |error| LinkError::Io {
            what: "cannot list the interfaces".to_owned(),
            error,
        };
        let bound = self.interface()?;
        if bound != 0 {
            return Ok(bound);
        }
        let all = interfaces::stations().map_err(failed)?;
        match &all[..] {
            [(name, _)] => crate::neighbour::interface(name).map_err(|_| LinkError::Unreachable),
            _ => Err(LinkError::Unavailable(format!(
                "AF_XDP uses one interface, and this machine has {}; bind to an address of the interface to use",
                all.len()
            ))),
        }
    }

    /// The Ethernet interfaces on which this link listens: name and address.
    ///
    /// # Errors
    /// Returns the errors of getifaddrs(3).
    pub fn stations(&self) -> std::io::Result<Vec<(String, Mac)>> {
        let Some(on) = self.ethernet_on.get() else {
            return Ok(Vec::new());
        };
        let listens_on = |name: &str| {
            let index = crate::neighbour::interface(name).unwrap_or_default();
            *on == 0 || *on == index
        };
        let mut all = interfaces::stations()?;
        all.retain(|(name, _)| listens_on(name));
        Ok(all)
    }

    /// The port of this program, the same on all transports.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.udp.local_addr().port()
    }

    fn route(&self, path: PathId) -> Option<&dyn Transport> {
        if let Some(_station) = station_of(path) {
            #[cfg(feature = "xdp")]
            if let Some(xdp) = self.xdp.get().filter(|xdp| xdp.reaches(_station)) {
                return Some(xdp);
            }
            self.ethernet.get().map(Box::as_ref)
        } else {
            self.open.then_some(&self.udp as &dyn Transport)
        }
    }

    /// The receiving transports, in the order in which this call reads them.
    fn open(&self) -> [Option<&dyn Transport>; 3] {
        let udp = self.open.then_some(&self.udp as &dyn Transport);
        let ethernet = self.ethernet.get().map(Box::as_ref);
        #[cfg(feature = "xdp")]
        let xdp = self.xdp.get().map(|xdp| xdp as &dyn Transport);
        #[cfg(not(feature = "xdp"))]
        let xdp = None;
        if self.ethernet_first.load(Ordering::Relaxed) {
            [xdp, ethernet, udp]
        } else {
            [udp, ethernet, xdp]
        }
    }
}

impl Link for TransportSelector {
    fn transport(&self, path: PathId) -> TransportKind {
        self.route(path)
            .map_or(TransportKind::Udp, |t| t.kind(path))
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError> {
        self.send_marked(to, batch, segment, Ecn::NotEct)
    }

    fn send_marked(
        &self,
        to: PathId,
        batch: &[u8],
        segment: usize,
        ecn: Ecn,
    ) -> Result<(), LinkError> {
        if batch.is_empty() {
            return Ok(());
        }
        let transport = self.route(to).ok_or(LinkError::Unreachable)?;
        let segment = segment.min(batch.len());
        if segment == 0 || segment > MAX_DATAGRAM {
            return Err(LinkError::Io {
                what: format!("invalid datagram size {segment}"),
                error: std::io::ErrorKind::InvalidInput.into(),
            });
        }
        transport.send(to, batch, segment, ecn)
    }

    fn read_ecn(&self) -> bool {
        self.open && self.udp.read_ecn()
    }

    fn recv(&self, batch: &mut RecvBatch, timeout: Option<Duration>) -> Result<(), LinkError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let open = self.open();
            for transport in open.iter().flatten() {
                transport.take(batch)?;
                if !batch.is_empty() {
                    self.ethernet_first.fetch_xor(true, Ordering::Relaxed);
                    return Ok(());
                }
            }
            let mut sockets = [self.udp.readable(); 3];
            let mut count = 0;
            for transport in open.iter().flatten() {
                sockets[count] = transport.readable();
                count += 1;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let woken = |sockets: &[BorrowedFd<'_>]| {
                event::wait(sockets, &self.woken, left).map_err(|error| LinkError::Io {
                    what: "cannot wait for datagrams".to_owned(),
                    error,
                })
            };
            if left == Some(Duration::ZERO) || woken(&sockets[..count])? {
                return Ok(());
            }
        }
    }

    fn wake(&self) {
        self.woken.raise();
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.open.then(|| self.udp.local_addr())
    }
}

#[cfg(test)]
mod tests;
