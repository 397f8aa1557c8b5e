//! The transports by name: the rungs of the link ladder ([`ladder`](crate::control::ladder)).

/// A transport. The numbers are those on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rung {
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

impl Rung {
    /// All of them.
    pub const ALL: [Rung; 5] = [Rung::Udp, Rung::UdpGso, Rung::Raw, Rung::Xdp, Rung::Ring];

    /// Its name in options, tables and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Udp => "udp",
            Rung::UdpGso => "udp-gso",
            Rung::Raw => "raw",
            Rung::Xdp => "xdp",
            Rung::Ring => "raw-ring",
        }
    }

    /// Whether its datagrams travel in Ethernet frames without IP. Such rungs are the same on the
    /// wire, and differ only in how one end reaches its card.
    #[must_use]
    pub const fn is_ethernet(self) -> bool {
        matches!(self, Rung::Raw | Rung::Xdp | Rung::Ring)
    }

    /// The one with this number.
    #[must_use]
    pub fn of(number: u8) -> Option<Rung> {
        Rung::ALL.into_iter().find(|rung| *rung as u8 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::Rung;

    #[test]
    fn numbers_and_names_are_those_of_the_table() {
        for rung in Rung::ALL {
            assert_eq!(Rung::of(rung as u8), Some(rung));
        }
        assert_eq!(Rung::of(5), None);
    }
}
