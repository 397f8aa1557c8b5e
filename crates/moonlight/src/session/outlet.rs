//! The destination of a session's packets: a socket, and the address from which the client's pings came.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

use openuvr_runtime::lock::lock;

/// Result of sending a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOutcome {
    /// It was sent. A packet that the network refuses counts as sent, too.
    Sent,
    /// The socket has no room.
    Full,
    /// The client's address is not known yet.
    Nowhere,
}

/// The outlet of one stream to its client.
#[derive(Debug)]
pub struct Outlet {
    socket: Arc<UdpSocket>,
    to: Mutex<Option<SocketAddr>>,
}

impl Outlet {
    /// Creates an outlet that has no address yet. It sends through this non-blocking socket.
    #[must_use]
    pub fn new(socket: Arc<UdpSocket>) -> Outlet {
        Outlet {
            socket,
            to: Mutex::new(None),
        }
    }

    /// Sets the address of the client. Returns whether no address was known before.
    pub fn found(&self, address: SocketAddr) -> bool {
        lock(&self.to).replace(address).is_none()
    }

    /// Whether the address is known.
    #[must_use]
    pub fn is_found(&self) -> bool {
        lock(&self.to).is_some()
    }

    /// Sends nothing more until the client pings again.
    pub fn forget(&self) {
        *lock(&self.to) = None;
    }

    /// Sends a packet.
    #[must_use]
    pub fn send(&self, packet: &[u8]) -> SendOutcome {
        let Some(to) = *lock(&self.to) else {
            return SendOutcome::Nowhere;
        };
        match self.socket.send_to(packet, to) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => SendOutcome::Full,
            // Other errors need no handling: if the network is down temporarily, packets are lost, and a client that is
            // gone stops pinging.
            _ => SendOutcome::Sent,
        }
    }
}
