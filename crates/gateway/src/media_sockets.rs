//! Sockets for browsers' media. One socket serves all browsers. If the page is at a loopback address, there are
//! additional sockets for browsers on this machine: one for each of up to four other addresses of this machine.
//!
//! Firefox (nICEr) does not pair a loopback address with another address, and does not gather a loopback candidate itself. A
//! browser that loaded the page from https://127.0.0.1 therefore needs another address of this machine.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use crate::own_addresses::own_addresses;

/// Maximum number of local addresses offered to a browser on this machine. One per family suffices; bridges add more.
const MAX_LOCAL_ADDRESSES: usize = 4;

/// Attempts to find a port that is free for both TCP and UDP (guess: most ports are free).
const PORT_ATTEMPTS: u32 = 16;

/// Binds a TCP listener and the UDP socket for media to the same port. For port 0, the system chooses a port that is free for
/// TCP, although another program may use it for UDP. In that case, another port is tried.
pub(crate) fn bind_both(bind: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut attempts = if bind.port() == 0 { PORT_ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        let listener = TcpListener::bind(bind)?;
        match UdpSocket::bind(listener.local_addr()?) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts > 0 => {}
            media => return Ok((listener, media?)),
        }
    }
}

/// The sockets for browsers' media; see the module's documentation.
pub(crate) struct MediaSockets {
    main: UdpSocket,
    /// The additional sockets, each bound to an address of this machine, for browsers at the same address.
    beside: Vec<(IpAddr, UdpSocket)>,
    /// The addresses at which browsers on this machine reach the media.
    on_this_machine: Vec<SocketAddr>,
}

impl MediaSockets {
    /// Creates the sockets, with `main` as the socket for all browsers.
    pub(crate) fn new(main: UdpSocket) -> io::Result<MediaSockets> {
        let bound = main.local_addr()?;
        let mut beside = Vec::new();
        let mut on_this_machine = Vec::new();
        for address in own_addresses().into_iter().take(MAX_LOCAL_ADDRESSES) {
            let ip = bound.ip().to_canonical();
            if ip.is_unspecified() {
                on_this_machine.push(SocketAddr::new(address, bound.port()));
            } else if ip.is_loopback()
                // An address that cannot be bound is omitted.
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

    /// The socket for all browsers.
    pub(crate) fn main(&self) -> &UdpSocket {
        &self.main
    }

    /// The additional sockets, each with its address. Browsers on this machine send to such a socket from the socket's
    /// own address, so the gateway accepts only datagrams from this address. Other machines cannot forge the address,
    /// because the kernel drops packets from a network that have a local source address.
    pub(crate) fn beside(&self) -> io::Result<Vec<(IpAddr, UdpSocket)>> {
        let pairs = self.beside.iter();
        let copies = pairs.map(|(ip, socket)| Ok((*ip, socket.try_clone()?)));
        copies.collect()
    }

    /// Addresses other than loopback at which browsers on this machine reach the media.
    pub(crate) fn on_this_machine(&self) -> &[SocketAddr] {
        &self.on_this_machine
    }

    /// Sends a datagram from the socket at which the gateway receives the datagrams of the address `to`.
    pub(crate) fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        let own = self.beside.iter().find(|(ip, _)| *ip == to.ip());
        match own {
            Some((_, socket)) => socket.send_to(datagram, to),
            None => self.main.send_to(datagram, for_socket(&self.main, to)),
        }
    }
}

/// The address in the form that the socket needs. A dual-stack socket takes an IPv4 address as a mapped IPv6 address.
fn for_socket(socket: &UdpSocket, to: SocketAddr) -> SocketAddr {
    match (socket.local_addr(), to.ip()) {
        (Ok(SocketAddr::V6(_)), IpAddr::V4(v4)) => (v4.to_ipv6_mapped(), to.port()).into(),
        _ => to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_another_program_uses_for_udp_is_not_chosen() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        // Linux chooses from 28,232 ports. With 500 of them in use, it sometimes chooses one that is in use for UDP.
        let used: Vec<_> = (0..500).map(|_| UdpSocket::bind(any).unwrap()).collect();
        for _ in 0..300 {
            let (listener, media) = bind_both(any).unwrap();
            assert_eq!(listener.local_addr().unwrap(), media.local_addr().unwrap());
        }
        let taken = used[0].local_addr().unwrap();
        let refused = bind_both(taken).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
    }
}
