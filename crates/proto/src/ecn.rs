//! Explicit congestion notification: the ECN field of an IP header, and counts of received fields.
//!
//! A queue that supports L4S (RFC 9330) marks datagrams with CE instead of delaying or dropping them. A sender asks for
//! this service with ECT(1) (RFC 9331). Only transports over IP have the field.

use serde::{Deserialize, Serialize};

/// The ECN field: the lower two bits of the traffic class (RFC 3168, section 5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: the sender does not support ECN.
    #[default]
    NotEct = 0b00,
    /// ECT(1): the sender responds to marks as L4S requires (RFC 9331, section 4).
    Ect1 = 0b01,
    /// ECT(0): the sender responds to marks as it does to losses.
    Ect0 = 0b10,
    /// CE: a queue on the path is congested.
    Ce = 0b11,
}

impl Ecn {
    /// The ECN field in a traffic class (IPv6) or in the former TOS byte (IPv4).
    #[must_use]
    pub fn of_traffic_class(class: u8) -> Ecn {
        match class & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// Numbers of datagrams by their ECN field. Each number saturates at 65,535.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EcnCounts {
    /// Not-ECT.
    pub not_ect: u16,
    /// ECT(1).
    pub ect1: u16,
    /// ECT(0).
    pub ect0: u16,
    /// CE.
    pub ce: u16,
}

impl EcnCounts {
    /// Counts a datagram.
    pub fn note(&mut self, ecn: Ecn) {
        let count = match ecn {
            Ecn::NotEct => &mut self.not_ect,
            Ecn::Ect1 => &mut self.ect1,
            Ecn::Ect0 => &mut self.ect0,
            Ecn::Ce => &mut self.ce,
        };
        *count = count.saturating_add(1);
    }

    /// The number of all datagrams.
    #[must_use]
    pub fn total(&self) -> u32 {
        let all = [self.not_ect, self.ect1, self.ect0, self.ce];
        all.into_iter().map(u32::from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_the_lower_two_bits_of_the_traffic_class() {
        for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            for class in [0, 0xa0, 0xfc] {
                assert_eq!(Ecn::of_traffic_class(class | ecn as u8), ecn);
            }
        }
    }

    #[test]
    fn counts_saturate() {
        let mut counts = EcnCounts {
            ce: u16::MAX,
            ..EcnCounts::default()
        };
        for ecn in [Ecn::Ce, Ecn::Ect1, Ecn::Ect1, Ecn::Ect0, Ecn::NotEct] {
            counts.note(ecn);
        }
        assert_eq!(
            (counts.not_ect, counts.ect1, counts.ect0, counts.ce),
            (1, 2, 1, u16::MAX)
        );
        assert_eq!(counts.total(), u32::from(u16::MAX) + 4);
    }
}
