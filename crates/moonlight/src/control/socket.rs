//! The socket of the control stream. It accepts datagrams only from addresses that have a session, and new connections
//! only with the number of that session. Datagrams of other senders get no answer and never reach the ENet library.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rusty_enet::{MTU_MAX, PacketReceived, Socket, SocketOptions};

use super::wants::Wants;
use crate::session::Sessions;

/// Maximum datagrams of strangers discarded in a row before the thread does its other work.
const MAX_DISCARDED: usize = 64;

/// The filtered socket.
pub(super) struct KnownPeers {
    socket: UdpSocket,
    sessions: Arc<Sessions>,
}

impl KnownPeers {
    pub(super) fn new(socket: UdpSocket, sessions: Arc<Sessions>) -> KnownPeers {
        KnownPeers { socket, sessions }
    }
}

impl KnownPeers {
    /// Whether the ENet library may receive the datagram. A new connection without a session's number is not passed on,
    /// because the library has few slots.
    fn admits(&self, datagram: &[u8], from: SocketAddr) -> bool {
        let address = from.ip().to_canonical();
        match Wants::of(datagram) {
            Wants::Connection(number) => self.sessions.of_connection(number, address).is_some(),
            Wants::Peer => self.sessions.is_known(address),
            Wants::Nothing => false,
        }
    }
}

impl AsFd for KnownPeers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Socket for KnownPeers {
    type Address = SocketAddr;
    type Error = io::Error;

    fn init(&mut self, _: SocketOptions) -> io::Result<()> {
        self.socket.set_nonblocking(true)
    }

    fn send(&mut self, address: SocketAddr, buffer: &[u8]) -> io::Result<usize> {
        match self.socket.send_to(buffer, address) {
            Ok(sent) => Ok(sent),
            // ENet resends reliable messages, and an error would stop the messages of the other peers.
            Err(_) => Ok(0),
        }
    }

    fn receive(
        &mut self,
        buffer: &mut [u8; MTU_MAX],
    ) -> io::Result<Option<(SocketAddr, PacketReceived)>> {
        for _ in 0..MAX_DISCARDED {
            match self.socket.recv_from(buffer) {
                Ok((length, from)) if self.admits(&buffer[..length], from) => {
                    return Ok(Some((from, PacketReceived::Complete(length))));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // The error may belong to an earlier datagram, for example one that a closed port refused.
                Err(_) => {}
            }
        }
        Ok(None)
    }
}
