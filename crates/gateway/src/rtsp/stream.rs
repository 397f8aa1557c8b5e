//! The packets of one track: RTP (RFC 3550 section 5.1) and sender reports (section 6.4.1).

use openuvr_proto::time::Instant;
use rtcp_types::{
    Compound, RtcpPacketWriter, RtcpPacketWriterExt as _, Sdes, SdesChunk, SdesItem, SenderReport,
};
use rtp_types::RtpPacketBuilder;

/// Builds a track's packets in order.
#[derive(Debug)]
pub(super) struct RtpStream {
    payload_type: u8,
    /// RTP clock rate in Hz.
    rate: u32,
    ssrc: u32,
    sequence: u16,
    /// Random RTP timestamp at time zero of the host's clock (section 5.1).
    offset: u32,
    packets: u32,
    octets: u32,
}

/// Random start values of a track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) ssrc: u32,
    pub(super) sequence: u16,
    pub(super) offset: u32,
}

impl RtpStream {
    pub(super) fn new(payload_type: u8, rate: u32, from: Origin) -> RtpStream {
        RtpStream {
            payload_type,
            rate,
            ssrc: from.ssrc,
            sequence: from.sequence,
            offset: from.offset,
            packets: 0,
            octets: 0,
        }
    }

    pub(super) fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// The next packet. `marker` is set for the last packet of a picture (RFC 6184 section 5.1).
    pub(super) fn packet(&mut self, captured: Instant, marker: bool, payload: &[u8]) -> Vec<u8> {
        let packet = RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(self.payload_type)
            .sequence_number(self.sequence)
            .timestamp(self.stamp(captured))
            .ssrc(self.ssrc)
            .marker_bit(marker)
            .payload(payload);
        // Only wrong constants could make this fail.
        let bytes = packet.write_vec().unwrap_or_default();
        self.sequence = self.sequence.wrapping_add(1);
        self.packets = self.packets.wrapping_add(1);
        let octets = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.octets = self.octets.wrapping_add(octets);
        bytes
    }

    /// Sequence number of the next packet.
    pub(super) fn sequence(&self) -> u16 {
        self.sequence
    }

    /// RTP timestamp of a time on the host's clock.
    pub(super) fn stamp(&self, at: Instant) -> u32 {
        let ticks = i128::from(at.0) * i128::from(self.rate) / 1_000_000_000;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it wraps"
        )]
        let ticks = ticks as u32;
        self.offset.wrapping_add(ticks)
    }

    /// A sender report with the CNAME that joins a session's tracks. `ntp` is the wall clock at `now`. A report is also
    /// sent before the first packet, so that a player synchronizes both tracks from the start.
    pub(super) fn report(&self, now: Instant, ntp: u64, name: &str) -> Option<Vec<u8>> {
        let report = SenderReport::builder(self.ssrc)
            .ntp_timestamp(ntp)
            .rtp_timestamp(self.stamp(now))
            .packet_count(self.packets)
            .octet_count(self.octets);
        let name = SdesItem::builder(SdesItem::CNAME, name);
        let description = Sdes::builder().add_chunk(SdesChunk::builder(self.ssrc).add_item(name));
        let compound = Compound::builder()
            .add_packet(report)
            .add_packet(description);
        bytes_of(&compound)
    }
}

/// An encoded RTCP packet; `None` if a field is too long.
pub(super) fn bytes_of(packet: &impl RtcpPacketWriter) -> Option<Vec<u8>> {
    let mut bytes = vec![0; packet.calculate_size().ok()?];
    packet.write_into(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use rtcp_types::{Packet, RtcpPacketParser as _};
    use rtp_types::RtpPacket;

    use super::*;

    const FROM: Origin = Origin {
        ssrc: 7,
        sequence: 65_535,
        offset: u32::MAX - 44_999,
    };

    #[test]
    fn numbers_wrap_and_stamps_follow_capture() {
        let mut stream = RtpStream::new(96, 90_000, FROM);
        let second = Instant(1_000_000_000);
        let packets = [
            stream.packet(Instant(0), false, b"a"),
            stream.packet(second, true, b"bc"),
        ];
        let read: Vec<_> = packets
            .iter()
            .map(|p| RtpPacket::parse(p).unwrap())
            .collect();
        let numbers: Vec<u16> = read.iter().map(RtpPacket::sequence_number).collect();
        assert_eq!(numbers, [65_535, 0]);
        assert_eq!(read[1].timestamp(), 45_000, "90 000 later, past the end");
        assert!(read[1].marker_bit() && !read[0].marker_bit());
        assert_eq!((read[1].ssrc(), read[1].payload()), (7, &b"bc"[..]));
    }

    #[test]
    fn a_report_joins_both_clocks() {
        let mut stream = RtpStream::new(96, 90_000, FROM);
        let nothing = stream.report(Instant(0), 3, "host").unwrap();
        assert_eq!(
            SenderReport::parse(&nothing[..28]).unwrap().packet_count(),
            0
        );
        stream.packet(Instant(0), true, b"four");
        let bytes = stream
            .report(Instant(500_000_000), 7 << 32 | 1 << 31, "host")
            .unwrap();
        let mut packets = Compound::parse(&bytes).unwrap();
        let Some(Ok(Packet::Sr(report))) = packets.next() else {
            panic!("no sender report");
        };
        assert_eq!(report.ntp_timestamp(), 7 << 32 | 1 << 31);
        assert_eq!(report.rtp_timestamp(), 0);
        assert_eq!((report.packet_count(), report.octet_count()), (1, 4));
        let Some(Ok(Packet::Sdes(names))) = packets.next() else {
            panic!("no name");
        };
        assert_eq!(names.chunks().count(), 1);
        assert!(SenderReport::parse(&bytes[..28]).is_ok());
    }
}
