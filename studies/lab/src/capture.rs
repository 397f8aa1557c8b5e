//! Reads captures of network traffic (pcap and pcapng files), packet by packet. Timestamps are converted to
//! nanoseconds.
//!
//! [`datagram`] finds the datagram in a packet, and [`mod@write`] writes such files. The crate `pcap-file` parses the
//! formats. The callback borrows each packet, and no packet is stored.

pub mod datagram;
pub mod relayed;
pub mod write;

use std::io::{Cursor, Read};
use std::ops::ControlFlow;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};

/// A captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Capture time, in nanoseconds since 1970 on the capturing machine's clock.
    pub at: u64,
    /// The type of the packet's first header.
    pub link: DataLink,
    /// The captured bytes of the packet.
    pub data: &'a [u8],
    /// The packet's original length in bytes.
    pub length: u32,
}

/// Metadata of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureInfo {
    /// Number of packets read.
    pub packets: u64,
    /// The program that wrote the capture, if it is recorded.
    pub application: Option<String>,
}

/// The reason why a capture could not be read completely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// Not a capture.
    #[error("the file is neither pcap nor pcapng")]
    Foreign,
    /// A compressed file.
    #[error("the file is compressed: decompress it first ({0})")]
    Compressed(&'static str),
    /// The file is unreadable or invalid from some packet on.
    #[error("the capture is unreadable after packet {packets}: {why}")]
    Broken {
        /// Number of packets before the error.
        packets: u64,
        /// The reason.
        why: String,
    },
}

/// The first bytes of a pcapng file.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The first bytes of a pcap file, in both byte orders, with timestamps in micro- and nanoseconds.
const PCAP: [[u8; 4]; 4] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
];

/// The first bytes of compressed files, and the program that decompresses each.
const COMPRESSED: [(&[u8], &str); 3] = [
    (&[0x1f, 0x8b], "gunzip"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "unzstd"),
    (&[0xfd, b'7', b'z', b'X'], "unxz"),
];

/// Whether a file that begins with these bytes is a capture.
#[must_use]
pub fn is_capture(begins: &[u8]) -> bool {
    begins
        .first_chunk::<4>()
        .is_some_and(|magic| *magic == PCAPNG || PCAP.contains(magic))
}

/// Reads a capture and passes each packet to `each`, until `each` returns `Break`. Uses at most 8 MB of memory.
///
/// # Errors
/// Returns an error if the file is not a capture or is corrupt. The packets before the error have been passed to
/// `each`.
pub fn read(
    mut file: impl Read,
    each: &mut dyn FnMut(Packet<'_>) -> ControlFlow<()>,
) -> Result<CaptureInfo, CaptureError> {
    let mut begins = Vec::new();
    let first = file.by_ref().take(4).read_to_end(&mut begins);
    first.map_err(|error| CaptureError::Broken {
        packets: 0,
        why: error.to_string(),
    })?;
    if let Some((_, tool)) = COMPRESSED
        .iter()
        .find(|(magic, _)| begins.starts_with(magic))
    {
        return Err(CaptureError::Compressed(tool));
    }
    if !is_capture(&begins) {
        return Err(CaptureError::Foreign);
    }
    let is_pcapng = begins == PCAPNG;
    let whole = Cursor::new(begins).chain(file);
    match is_pcapng {
        true => read_pcapng(whole, each),
        false => read_pcap(whole, each),
    }
}

fn broken(packets: u64, error: &PcapError) -> CaptureError {
    let why = match error {
        PcapError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the file ends in the middle of a packet, or a packet has an implausible length"
                .to_owned()
        }
        PcapError::IoError(error) => error.to_string(),
        other => other.to_string(),
    };
    CaptureError::Broken { packets, why }
}

fn read_pcap(
    file: impl Read,
    each: &mut dyn FnMut(Packet<'_>) -> ControlFlow<()>,
) -> Result<CaptureInfo, CaptureError> {
    let mut reader = PcapReader::new(file).map_err(|error| broken(0, &error))?;
    let header = reader.header();
    let unit = match header.ts_resolution {
        TsResolution::MicroSecond => 1000,
        TsResolution::NanoSecond => 1,
    };
    let mut facts = CaptureInfo::default();
    // Read raw packets, because the library otherwise rejects packets longer than the snapshot length.
    while let Some(packet) = reader.next_raw_packet() {
        let packet = packet.map_err(|error| broken(facts.packets, &error))?;
        let at = u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_frac) * unit;
        let packet = Packet {
            at,
            link: header.datalink,
            data: &packet.data,
            length: packet.orig_len.max(packet.incl_len),
        };
        facts.packets += 1;
        if each(packet).is_break() {
            break;
        }
    }
    Ok(facts)
}

fn read_pcapng(
    file: impl Read,
    each: &mut dyn FnMut(Packet<'_>) -> ControlFlow<()>,
) -> Result<CaptureInfo, CaptureError> {
    let mut reader = PcapNgReader::new(file).map_err(|error| broken(0, &error))?;
    let application = |option: &SectionHeaderOption<'_>| match option {
        SectionHeaderOption::UserApplication(name) => Some(name.clone().into_owned()),
        _ => None,
    };
    let mut facts = CaptureInfo {
        packets: 0,
        application: reader.section().options.iter().find_map(application),
    };
    while let Some(block) = reader.next_block() {
        let block = block.map_err(|error| broken(facts.packets, &error))?;
        // The library interprets all timestamps as nanoseconds, but the interface defines their unit.
        let (raw, interface, data, length) = match block {
            Block::EnhancedPacket(packet) => {
                let raw = packet.timestamp.as_nanos();
                let data = packet.data.into_owned();
                (raw, packet.interface_id, data, packet.original_len)
            }
            Block::SimplePacket(_) => {
                let why = "its packets have no timestamps (simple packet blocks)".to_owned();
                let packets = facts.packets;
                return Err(CaptureError::Broken { packets, why });
            }
            _ => continue,
        };
        let interface = reader.interfaces().get(interface as usize);
        let Some(interface) = interface else {
            let why = "a packet names an undeclared interface".to_owned();
            let packets = facts.packets;
            return Err(CaptureError::Broken { packets, why });
        };
        let packet = Packet {
            at: timestamp(raw, interface),
            link: interface.linktype,
            data: &data,
            length: length.max(u32::try_from(data.len()).unwrap_or(u32::MAX)),
        };
        facts.packets += 1;
        if each(packet).is_break() {
            break;
        }
    }
    Ok(facts)
}

/// Converts a timestamp from the units of its interface to nanoseconds. The option `if_tsresol` defines the unit: with
/// n in its lower seven bits, the unit is 10^-n seconds, or 2^-n seconds if its highest bit is set. Without the option,
/// the unit is a microsecond. Adds the interface's offset, if it has one.
fn timestamp(raw: u128, interface: &InterfaceDescriptionBlock<'_>) -> u64 {
    let mut resolution = 6;
    let mut offset = 0;
    for option in &interface.options {
        match option {
            InterfaceDescriptionOption::IfTsResol(value) => resolution = *value,
            InterfaceDescriptionOption::IfTsOffset(seconds) => offset = *seconds,
            _ => {}
        }
    }
    let power = u32::from(resolution & 0x7f).min(63);
    let units = if resolution & 0x80 == 0 {
        10_u128.saturating_pow(power.min(30))
    } else {
        1 << power
    };
    let nanos = raw.saturating_mul(1_000_000_000) / units;
    let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
    nanos.saturating_add(offset.saturating_mul(1_000_000_000))
}

#[cfg(test)]
mod tests;
