//! Captures of network traffic: pcap and pcapng files, packet by packet, with the times as nanoseconds
//! of one unit whatever the file has.
//!
//! [`datagram`] finds the datagram in a packet, [`mod@write`] makes such files. The formats themselves are
//! the work of the crate `pcap-file`; a packet is lent to the caller, and nothing is kept.

pub mod datagram;
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

/// A packet as it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When, in nanoseconds since 1970 on the clock of the machine that captured.
    pub at: u64,
    /// What its first header is.
    pub link: DataLink,
    /// Its bytes, as far as they were captured.
    pub data: &'a [u8],
    /// How many bytes it had.
    pub length: u32,
}

/// What is known of a capture besides its packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Packets that were read.
    pub packets: u64,
    /// The program that wrote it, if it says so.
    pub application: Option<String>,
}

/// Why a capture was not read to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// It is no capture.
    #[error("it is neither a pcap nor a pcapng file")]
    Foreign,
    /// It is a capture inside of something else.
    #[error("it is compressed: decompress it first ({0})")]
    Compressed(&'static str),
    /// It can't be read, or makes no sense, at some place.
    #[error("it is broken behind packet {packets}: {why}")]
    Broken {
        /// Packets before that.
        packets: u64,
        /// What is wrong.
        why: String,
    },
}

/// The first bytes of a pcapng file.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Those of pcap files, in both orders of bytes, with micro- and nanoseconds.
const PCAP: [[u8; 4]; 4] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
];

/// Those of files that hold another, and what unpacks them.
const COMPRESSED: [(&[u8], &str); 3] = [
    (&[0x1f, 0x8b], "gunzip"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "unzstd"),
    (&[0xfd, b'7', b'z', b'X'], "unxz"),
];

/// Whether a file that begins so is a capture.
#[must_use]
pub fn is_capture(begins: &[u8]) -> bool {
    begins
        .first_chunk::<4>()
        .is_some_and(|magic| *magic == PCAPNG || PCAP.contains(magic))
}

/// Reads a capture, and gives each packet to `each` until that breaks off. At most 8 MB of it are in
/// memory.
///
/// # Errors
/// If it is none, or is broken somewhere; what came before has been given to `each`.
pub fn read(
    mut file: impl Read,
    each: &mut dyn FnMut(Packet<'_>) -> ControlFlow<()>,
) -> Result<Facts, CaptureError> {
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
            "it ends in the middle of a packet, or says that one has megabytes".to_owned()
        }
        PcapError::IoError(error) => error.to_string(),
        other => other.to_string(),
    };
    CaptureError::Broken { packets, why }
}

fn read_pcap(
    file: impl Read,
    each: &mut dyn FnMut(Packet<'_>) -> ControlFlow<()>,
) -> Result<Facts, CaptureError> {
    let mut reader = PcapReader::new(file).map_err(|error| broken(0, &error))?;
    let header = reader.header();
    let unit = match header.ts_resolution {
        TsResolution::MicroSecond => 1000,
        TsResolution::NanoSecond => 1,
    };
    let mut facts = Facts::default();
    // Raw: the library refuses packets that were longer than what was captured of each.
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
) -> Result<Facts, CaptureError> {
    let mut reader = PcapNgReader::new(file).map_err(|error| broken(0, &error))?;
    let application = |option: &SectionHeaderOption<'_>| match option {
        SectionHeaderOption::UserApplication(name) => Some(name.clone().into_owned()),
        _ => None,
    };
    let mut facts = Facts {
        packets: 0,
        application: reader.section().options.iter().find_map(application),
    };
    while let Some(block) = reader.next_block() {
        let block = block.map_err(|error| broken(facts.packets, &error))?;
        // The library takes every timestamp for nanoseconds; its unit is the interface's.
        let (raw, interface, data, length) = match block {
            Block::EnhancedPacket(packet) => {
                let raw = packet.timestamp.as_nanos();
                let data = packet.data.into_owned();
                (raw, packet.interface_id, data, packet.original_len)
            }
            Block::SimplePacket(_) => {
                let why = "its packets have no times (simple packet blocks)".to_owned();
                let packets = facts.packets;
                return Err(CaptureError::Broken { packets, why });
            }
            _ => continue,
        };
        let interface = reader.interfaces().get(interface as usize);
        let Some(interface) = interface else {
            let why = "a packet of an interface that is not named".to_owned();
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

/// A timestamp in the units of its interface: 10 to the minus n seconds, or 2 to it if the highest bit
/// of n is set; without that microseconds. From an offset on, if it has one.
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
