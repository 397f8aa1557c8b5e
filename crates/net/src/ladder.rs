//! The transports of one program behind one link: the path of a datagram says which of them it
//! takes, and what arrives on any of them arrives here.
//!
//! A session begins on one of them and may go over to another, by a change of its path alone. Raw
//! Ethernet speaks the number of the UDP port, so that a peer that knows one knows both, and no two
//! programs of a machine get each other's frames.
//!
//! What it is not: it does not decide who goes where (`Rung`s are tried by crate `runtime`).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use openuvr_proto::control::ladder::Rung;
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

/// A program's transports. One thread should receive, any number may send.
pub struct Ladder {
    /// There in any case: it owns the port.
    udp: Udp,
    /// Whether datagrams come and go over it.
    open: bool,
    ethernet: OnceLock<Box<dyn Transport>>,
    /// The interface that it listens on; 0: all.
    ethernet_on: OnceLock<u32>,
    /// Whether that is to be through mapped rings.
    rings: bool,
    #[cfg(feature = "xdp")]
    xdp: OnceLock<Xdp>,
    woken: Event,
    /// Whose datagrams are taken first next time, so that a flood on one is not the other's end.
    ethernet_first: AtomicBool,
}

impl Ladder {
    /// The link of a host: everything that this machine can do, or one transport alone. Raw
    /// Ethernet listens on the interface that has the address, on all if it is unspecified, and on none
    /// if it is the loopback's or nobody's.
    ///
    /// # Errors
    /// [`LinkError`] if the port is taken, the address foreign, or the one transport is not to be
    /// had.
    pub fn host(bind: SocketAddr, only: Option<Rung>) -> Result<Ladder, LinkError> {
        let ladder = Ladder::new(bind, only, true)?;
        if only.is_none_or(Rung::is_ethernet) {
            match ladder.open_ethernet() {
                Err(why) if only.is_none() => tracing::debug!("{why}; UDP will do"),
                outcome => outcome?,
            }
        }
        if only == Some(Rung::Xdp) {
            ladder.open_xdp(ladder.one_interface()?)?;
        }
        Ok(ladder)
    }

    /// The link of a client, at a port that the system chooses: UDP, or raw Ethernet alone.
    ///
    /// # Errors
    /// [`LinkError`] if the one transport is unavailable.
    pub fn client(only: Option<Rung>) -> Result<Ladder, LinkError> {
        // Where there is no IPv6, the other family has to do.
        let dual = (Ipv6Addr::UNSPECIFIED, 0).into();
        let ladder = Ladder::new(dual, only, false)
            .or_else(|_| Ladder::new((Ipv4Addr::UNSPECIFIED, 0).into(), only, false))?;
        if only.is_some_and(Rung::is_ethernet) {
            ladder.open_ethernet()?;
        }
        Ok(ladder)
    }

    fn new(bind: SocketAddr, only: Option<Rung>, dialled: bool) -> Result<Ladder, LinkError> {
        let options = match only {
            None | Some(Rung::UdpGso) => Options::default(),
            Some(_) => Options::PLAIN,
        };
        Ladder::of(Udp::bind(bind, &Options { dialled, ..options })?, only)
    }

    pub(crate) fn of(udp: Udp, only: Option<Rung>) -> Result<Ladder, LinkError> {
        let woken = Event::new().map_err(|error| LinkError::Io {
            what: "cannot create an eventfd".to_owned(),
            error,
        })?;
        Ok(Ladder {
            udp,
            open: !only.is_some_and(Rung::is_ethernet),
            ethernet: OnceLock::new(),
            ethernet_on: OnceLock::new(),
            rings: only == Some(Rung::Ring),
            #[cfg(feature = "xdp")]
            xdp: OnceLock::new(),
            woken,
            ethernet_first: AtomicBool::new(false),
        })
    }

    /// Adds raw Ethernet, if it is not there yet. [`Link::recv`] of the same thread listens to it
    /// from then on.
    ///
    /// # Errors
    /// [`LinkError::Io`] if it is unavailable, with what to do.
    pub fn open_ethernet(&self) -> Result<(), LinkError> {
        if self.ethernet.get().is_none() {
            let interface = self.interface()?;
            let local = self.udp.local_addr();
            let ethernet: Box<dyn Transport> = if self.rings {
                Box::new(Ring::open(interface, local.port())?)
            } else {
                Box::new(Raw::open(interface, local.port())?)
            };
            // Somebody else was faster only if two threads climb at a time; one socket is as good.
            let _ = self.ethernet.set(ethernet);
            let _ = self.ethernet_on.set(interface);
        }
        Ok(())
    }

    /// The interface of the address that is bound; 0, which stands for all, if it is unspecified.
    fn interface(&self) -> Result<u32, LinkError> {
        let ip = self.udp.local_addr().ip();
        let holding = interfaces::holding(self.udp.local_addr());
        match holding.map_err(|error| LinkError::Io {
            what: format!("cannot find the interface of {ip}"),
            error,
        })? {
            InterfaceMatch::All => Ok(0),
            InterfaceMatch::One(interface) => Ok(interface),
            InterfaceMatch::Loopback => Err(LinkError::NotAllowed(format!(
                "no raw Ethernet beside {ip}: the loopback device has no neighbours; bind an address \
                 of an Ethernet interface, or none"
            ))),
            InterfaceMatch::Nobody => Err(LinkError::NotAllowed(format!(
                "no raw Ethernet beside {ip}: no interface of this machine has that address; `ip \
                 address` lists those that have one"
            ))),
        }
    }

    /// Has frames of one interface go through `AF_XDP`.
    ///
    /// # Errors
    /// [`LinkError`] if this program was built without it, or it is unavailable, with what to do.
    #[cfg(feature = "xdp")]
    pub fn open_xdp(&self, interface: u32) -> Result<(), LinkError> {
        let own = interfaces::mac_of(interface).map_err(|error| LinkError::Io {
            what: "cannot read the addresses of the interfaces".to_owned(),
            error,
        })?;
        let xdp = Xdp::open(interface, own, self.port())?;
        // Whoever was first has the interface; this one is closed again.
        let _ = self.xdp.set(xdp);
        Ok(())
    }

    /// Has frames of one interface go through `AF_XDP`.
    ///
    /// # Errors
    /// [`LinkError`]: this program was built without it.
    #[cfg(not(feature = "xdp"))]
    pub fn open_xdp(&self, _: u32) -> Result<(), LinkError> {
        Err(LinkError::NotAllowed(
            "this program was built without AF_XDP: build it with `cargo build --release \
             --features xdp`, or use the link raw"
                .to_owned(),
        ))
    }

    /// The interface of the address that is bound, or the only one that there is.
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
            [(name, _)] => crate::neighbour::interface(name).map_err(|_| LinkError::NoWay),
            _ => Err(LinkError::NotAllowed(format!(
                "AF_XDP takes one interface, and this machine has {}: bind an address of the one \
                 that is meant",
                all.len()
            ))),
        }
    }

    /// The Ethernet interfaces at which neighbours reach this link: name and address.
    ///
    /// # Errors
    /// The system's.
    pub fn stations(&self) -> std::io::Result<Vec<(String, Mac)>> {
        let Some(on) = self.ethernet_on.get() else {
            return Ok(Vec::new());
        };
        let is_ours = |name: &str| {
            let index = crate::neighbour::interface(name).unwrap_or_default();
            *on == 0 || *on == index
        };
        let mut all = interfaces::stations()?;
        all.retain(|(name, _)| is_ours(name));
        Ok(all)
    }

    /// The port of this program, the same on all transports.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.udp.local_addr().port()
    }

    fn transport(&self, path: PathId) -> Option<&dyn Transport> {
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

    /// Those that receive, in the order in which they are looked at this time.
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

impl Link for Ladder {
    fn rung(&self, path: PathId) -> Rung {
        self.transport(path).map_or(Rung::Udp, |t| t.rung(path))
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError> {
        if batch.is_empty() {
            return Ok(());
        }
        let transport = self.transport(to).ok_or(LinkError::NoWay)?;
        let segment = segment.min(batch.len());
        if segment == 0 || segment > MAX_DATAGRAM {
            return Err(LinkError::Io {
                what: format!("no datagram has {segment} bytes"),
                error: std::io::ErrorKind::InvalidInput.into(),
            });
        }
        transport.send(to, batch, segment)
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
