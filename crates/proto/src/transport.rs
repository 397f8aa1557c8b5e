//! The names of the transports (selected in [`transport_probe`](crate::control::transport_probe)).

use serde::{Deserialize, Serialize};

/// A transport. The wire format uses these numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// UDP without segmentation offload.
    Udp = 0,
    /// UDP with segmentation offload (GSO).
    UdpGso = 1,
    /// Raw Ethernet through packet sockets.
    Raw = 2,
    /// Raw Ethernet through `AF_XDP`.
    Xdp = 3,
    /// Raw Ethernet through packet sockets with mapped rings.
    #[serde(rename = "raw-ring")]
    Ring = 4,
}

impl TransportKind {
    /// All transports.
    pub const ALL: [TransportKind; 5] = [
        TransportKind::Udp,
        TransportKind::UdpGso,
        TransportKind::Raw,
        TransportKind::Xdp,
        TransportKind::Ring,
    ];

    /// The transport's name in options, tables and logs.
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

    /// Whether the transport sends datagrams in Ethernet frames without IP. These transports are identical on the wire.
    /// They differ only in the local interface to the network card.
    #[must_use]
    pub const fn is_ethernet(self) -> bool {
        matches!(
            self,
            TransportKind::Raw | TransportKind::Xdp | TransportKind::Ring
        )
    }

    /// The transport with this number.
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
