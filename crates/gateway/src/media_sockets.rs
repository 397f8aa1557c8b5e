//! The sockets of browsers' media: one for all, and where the page is at a loopback address alone one for each address
//! of this machine, which serves browsers on this machine.
//!
//! Firefox pairs no loopback address with another one (nICEr), and gathers no loopback address itself: a browser that
//! came by https://127.0.0.1 needs another address of this machine.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::own_addresses::own_addresses;

/// Addresses that a browser on this machine is told of: one of each family would do, bridges come on top.
const OWN: usize = 4;

/// See the module.
pub(crate) struct MediaSockets {
    main: UdpSocket,
    /// At addresses of this machine, for browsers that are at the same address.
    beside: Vec<(IpAddr, UdpSocket)>,
    /// Where browsers on this machine reach one of them.
    on_this_machine: Vec<SocketAddr>,
}

impl MediaSockets {
    /// With this one for all.
    pub(crate) fn new(main: UdpSocket) -> io::Result<MediaSockets> {
        let bound = main.local_addr()?;
        let mut beside = Vec::new();
        let mut on_this_machine = Vec::new();
        for address in own_addresses().into_iter().take(OWN) {
            let ip = bound.ip().to_canonical();
            if ip.is_unspecified() {
                on_this_machine.push(SocketAddr::new(address, bound.port()));
            } else if ip.is_loopback()
                // One that can't be had is one way less.
                && let Ok(socket) = UdpSocket::bind((address, 0))
            {
                socket.set_nonblocking(true)?;
                on_this_machine.push(socket.local_addr()?);
                beside.push((address, socket));
            }
        }
        Ok(MediaSockets {
            main,
            beside,
            on_this_machine,
        })
    }

    /// The one for all.
    pub(crate) fn main(&self) -> &UdpSocket {
        &self.main
    }

    /// What is to be read besides, each with the only address that may send there: the kernel lets none of it in from a
    /// network (a packet that comes from there with an own address is dropped).
    pub(crate) fn beside(&self) -> io::Result<Vec<(IpAddr, UdpSocket)>> {
        let pairs = self.beside.iter();
        let copies = pairs.map(|(ip, socket)| Ok((*ip, socket.try_clone()?)));
        copies.collect()
    }

    /// Where browsers on this machine reach the media, besides the loopback address.
    pub(crate) fn on_this_machine(&self) -> &[SocketAddr] {
        &self.on_this_machine
    }

    /// Sends by the socket that the receiver knows.
    pub(crate) fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        let own = self.beside.iter().find(|(ip, _)| *ip == to.ip());
        match own {
            Some((_, socket)) => socket.send_to(datagram, to),
            None => self.main.send_to(datagram, for_socket(&self.main, to)),
        }
    }
}

/// An address as this socket wants it: one of both families takes IPv4 as IPv6.
fn for_socket(socket: &UdpSocket, to: SocketAddr) -> SocketAddr {
    match (socket.local_addr(), to.ip()) {
        (Ok(SocketAddr::V6(_)), IpAddr::V4(v4)) => (v4.to_ipv6_mapped(), to.port()).into(),
        _ => to,
    }
}
