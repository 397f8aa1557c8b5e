//! A UDP socket that receives and sends the ECN field of each datagram (RFC 3168).

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use openuvr_sim::aqm::Ecn;
use rustix::net::sockopt;

use super::sys;

/// The socket. It never blocks.
#[derive(Debug)]
pub(super) struct EcnSocket {
    socket: UdpSocket,
    is_v4: bool,
    /// The ECN field that the socket sends now.
    sends: Cell<Ecn>,
}

impl EcnSocket {
    /// Opens a socket with a receive buffer of this size.
    ///
    /// # Errors
    /// Returns the system's error.
    pub(super) fn open(address: SocketAddr, receive_buffer: usize) -> io::Result<EcnSocket> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        if sockopt::set_socket_recv_buffer_size_force(&socket, receive_buffer).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, receive_buffer)?;
        }
        let is_v4 = address.is_ipv4();
        // A dual-stack socket needs both options.
        sockopt::set_ip_recvtos(&socket, true)?;
        if !is_v4 {
            sockopt::set_ipv6_recvtclass(&socket, true)?;
        }
        Ok(EcnSocket {
            socket,
            is_v4,
            sends: Cell::new(Ecn::NotEct),
        })
    }

    pub(super) fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.connect(to)
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Receives a datagram. Returns its length, its sender, and its ECN field.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, Ecn)> {
        let received = sys::receive(&self.socket, buffer)?;
        let ecn = received.class.map_or(Ecn::NotEct, Ecn::of_traffic_class);
        Ok((received.len, received.from, ecn))
    }

    /// Sends a datagram with this ECN field to `to`; `None` means the connected address.
    pub(super) fn send(&self, bytes: &[u8], to: Option<SocketAddr>, ecn: Ecn) -> io::Result<usize> {
        if self.sends.get() != ecn {
            sockopt::set_ip_tos(&self.socket, ecn as u8)?;
            if !self.is_v4 {
                sockopt::set_ipv6_tclass(&self.socket, u32::from(ecn as u8))?;
            }
            self.sends.set(ecn);
        }
        match to {
            Some(to) => self.socket.send_to(bytes, to),
            None => self.socket.send(bytes),
        }
    }
}

impl AsFd for EcnSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
