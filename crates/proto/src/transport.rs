//! The transports by name: the rungs of the link ladder ([`ladder`](crate::control::transport_probe)).

/// A transport. The numbers are those on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TransportKind {
    /// UDP, a datagram at a time.
    Udp = 0,
    /// UDP, batches cut by the kernel.
    UdpGso = 1,
    /// Raw Ethernet through packet sockets.
    Raw = 2,
    /// Raw Ethernet through `AF_XDP`.
    Xdp = 3,
    /// Raw Ethernet through packet sockets with mapped rings.
    Ring = 4,
}

impl TransportKind {
    /// All of them.
    pub const ALL: [TransportKind; 5] = [
        TransportKind::Udp,
        TransportKind::UdpGso,
        TransportKind::Raw,
        TransportKind::Xdp,
        TransportKind::Ring,
    ];

    /// Its name in options, tables and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TransportKind::Udp => "udp",
            TransportKind::UdpGso => "udp-gso",
            TransportKind::Raw => "raw",
            TransportKind::Xdp => "xdp",
            TransportKind::Ring => "raw-ring",
        }
    }

    /// Whether its datagrams travel in Ethernet frames without IP. Such rungs are the same on the
    /// wire, and differ only in how one end reaches its card.
    #[must_use]
    pub const fn is_ethernet(self) -> bool {
        matches!(
            self,
            TransportKind::Raw | TransportKind::Xdp | TransportKind::Ring
        )
    }

    /// The one with this number.
    #[must_use]
    pub fn of(number: u8) -> Option<TransportKind> {
        TransportKind::ALL
            .into_iter()
            .find(|transport| *transport as u8 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::TransportKind;

    #[test]
    fn numbers_and_names_are_those_of_the_table() {
        for transport in TransportKind::ALL {
            assert_eq!(TransportKind::of(transport as u8), Some(transport));
        }
        assert_eq!(TransportKind::of(5), None);
    }
}
