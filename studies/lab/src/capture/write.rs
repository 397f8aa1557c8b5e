//! Writes captures as pcapng with raw IP packets and timestamps in nanoseconds.

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use etherparse::PacketBuilder;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, PcapError};

/// A capture file that is written datagram by datagram.
pub struct CaptureWriter<W: Write> {
    writer: PcapNgWriter<W>,
    packet: Vec<u8>,
}

impl<W: Write> std::fmt::Debug for CaptureWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureWriter").finish_non_exhaustive()
    }
}

/// Hop limit of the IP packets (arbitrary).
const HOPS: u8 = 64;

impl<W: Write> CaptureWriter<W> {
    /// Starts a capture, and records `application` as the program that wrote it.
    ///
    /// # Errors
    /// Returns the writer's error.
    pub fn new(file: W, application: &str) -> io::Result<CaptureWriter<W>> {
        let name = SectionHeaderOption::UserApplication(Cow::Owned(application.to_owned()));
        let section = SectionHeaderBlock {
            options: vec![name],
            ..SectionHeaderBlock::default()
        };
        let mut writer = PcapNgWriter::with_section_header(file, section).map_err(failed)?;
        // No snapshot length.
        let mut interface = InterfaceDescriptionBlock::new(DataLink::RAW, 0);
        let nanoseconds = InterfaceDescriptionOption::IfTsResol(9);
        interface.options.push(nanoseconds);
        writer.write_pcapng_block(interface).map_err(failed)?;
        let packet = Vec::new();
        Ok(CaptureWriter { writer, packet })
    }

    /// Adds a UDP datagram with timestamp `at` (nanoseconds since 1970). `ends` are its sender and its receiver.
    ///
    /// # Errors
    /// Returns the writer's error. Also returns an error if the datagram is too long, or if sender and receiver have
    /// different IP versions.
    pub fn udp(
        &mut self,
        at: u64,
        ends: (SocketAddr, SocketAddr),
        payload: &[u8],
    ) -> io::Result<()> {
        self.packet.clear();
        let builder = match ends {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                PacketBuilder::ipv4(from.ip().octets(), to.ip().octets(), HOPS)
            }
            (SocketAddr::V6(from), SocketAddr::V6(to)) => {
                PacketBuilder::ipv6(from.ip().octets(), to.ip().octets(), HOPS)
            }
            _ => return Err(io::Error::other("a datagram from IPv4 to IPv6")),
        };
        let builder = builder.udp(ends.0.port(), ends.1.port());
        let written = builder.write(&mut self.packet, payload);
        written.map_err(|error| io::Error::other(error.to_string()))?;
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(at),
            original_len: u32::try_from(self.packet.len()).unwrap_or(u32::MAX),
            data: Cow::Borrowed(&self.packet),
            options: Vec::new(),
        };
        self.writer.write_pcapng_block(block).map_err(failed)?;
        Ok(())
    }

    /// Finishes the capture.
    ///
    /// # Errors
    /// Returns the writer's error.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.get_mut().flush()?;
        Ok(self.writer.into_inner())
    }
}

fn failed(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
