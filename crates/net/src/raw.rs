//! OpenUVRDPP on raw Ethernet: sealed datagrams in frames with their own EtherType, without IP
//! (OpenUVR paper, section IV-B2). Both ends must be on one segment and permitted to open packet sockets.
//!
//! A batch is sent and received with one system call (`sendmmsg`, `recvmmsg` on packet(7)), and the kernel copies each
//! datagram once on each side. The transfer of a 140 kB video frame over a veth pair takes 0.18 ms (measured). It takes
//! 0.35 ms over UDP without GSO, 0.17 ms over UDP with GSO, and 0.22 ms through memory-mapped rings (`ring`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::ecn::Ecn;
use openuvr_proto::id::PathId;
use openuvr_proto::shell;

use crate::address::{path_of_station, station_of};
use crate::arrival::{Arrival, Clocks};
use crate::ether::{PREFIX, Station, parse, prefix};
use crate::sys::packet::{self, Frame};
use crate::sys::socket::{self, MAX_BATCH};
use crate::{LinkError, MAX_DATAGRAM, Received, RecvBatch, Transport};

/// A packet socket for frames to one port. Any number of threads may send, but only one should receive.
#[derive(Debug)]
pub struct Raw {
    socket: OwnedFd,
    port: u16,
}

/// The `SO_PRIORITY` that Linux's Wi-Fi code maps to user priority 5, video (256 + 0–7, see
/// `cfg80211_classify8021d`).
const WIFI_VIDEO: i32 = 256 + 5;

/// The unprivileged fallback: `TC_PRIO_INTERACTIVE`, as for UDP.
const INTERACTIVE: i32 = 6;

/// Maximum payload of one frame in bytes. Longer frames are not OpenUVR frames.
const SLOT: usize = PREFIX + MAX_DATAGRAM;

impl Raw {
    /// Listens for frames to `port` on one interface, or on all (index 0). The program that has bound
    /// the UDP port of the same number owns the port.
    ///
    /// # Errors
    /// [`LinkError`] if the socket cannot be opened, with a remedy if the privilege is missing.
    pub fn open(interface: u32, port: u16) -> Result<Raw, LinkError> {
        let socket = open(interface, port)?;
        socket::enlarge_receive_buffer(&socket, "raw Ethernet", socket::RECEIVE_BUFFER);
        socket::stamp_arrivals(&socket, "raw Ethernet");
        Ok(Raw { socket, port })
    }

    fn transmit(&self, to: Station, batch: &[u8], segment: usize) -> io::Result<()> {
        let prefix = |len| prefix(to.port, self.port, len);
        let mut rest = batch;
        while !rest.is_empty() {
            let sent = packet::send_many(self.socket.as_fd(), to, prefix, rest, segment)?;
            rest = rest.get(sent * segment..).unwrap_or_default();
        }
        Ok(())
    }

    fn fill(&self, batch: &mut RecvBatch) -> io::Result<()> {
        batch.clear(SLOT * MAX_BATCH, MAX_BATCH);
        let mut frames = [Frame::default(); MAX_BATCH];
        let room = &mut batch.bytes[..SLOT * MAX_BATCH];
        let count = match packet::receive_many(self.socket.as_fd(), room, SLOT, &mut frames) {
            // The interface went down, but may come up again.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENETDOWN)) => 0,
            other => other?,
        };
        let clocks = Clocks::read();
        let bytes = &batch.bytes;
        let datagrams = frames
            .iter()
            .take(count)
            .enumerate()
            .filter_map(|(i, frame)| {
                let payload = &bytes[i * SLOT..][..frame.len];
                let framed = parse(payload)?;
                let station = Station {
                    mac: frame.mac,
                    interface: frame.interface,
                    port: framed.from,
                };
                let start = i * SLOT + PREFIX;
                Some(Received {
                    arrival: Arrival {
                        from: path_of_station(station),
                        at: frame.stamp.and_then(|stamp| clocks.arrived(stamp)),
                        ecn: None,
                    },
                    range: start..start + framed.datagram.len(),
                })
            });
        batch.datagrams.extend(datagrams);
        Ok(())
    }
}

impl Transport for Raw {
    fn kind(&self, _: PathId) -> TransportKind {
        TransportKind::Raw
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize, _: Ecn) -> Result<(), LinkError> {
        let station = station_of(to).ok_or(LinkError::Unreachable)?;
        self.transmit(station, batch, segment)
            .map_err(|error| send_error(error, station, batch.len()))
    }

    fn take(&self, batch: &mut RecvBatch) -> Result<(), LinkError> {
        self.fill(batch).map_err(|error| LinkError::Io {
            what: "cannot receive over raw Ethernet".to_owned(),
            error,
        })
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Opens a packet socket for frames to `port`, with a priority and a send buffer for video.
pub(crate) fn open(interface: u32, port: u16) -> Result<OwnedFd, LinkError> {
    let socket = packet::open(interface, port).map_err(open_error)?;
    socket::enlarge_send_buffer(&socket, socket::SEND_BUFFER);
    if socket::set(&socket, libc::SOL_SOCKET, libc::SO_PRIORITY, WIFI_VIDEO).is_err() {
        let _ = socket::set(&socket, libc::SOL_SOCKET, libc::SO_PRIORITY, INTERACTIVE);
    }
    Ok(socket)
}

/// The error of a failed send of `bytes` bytes.
pub(crate) fn send_error(error: io::Error, to: Station, bytes: usize) -> LinkError {
    LinkError::of(error, || {
        format!("cannot send {bytes} bytes to {} over raw Ethernet", to.mac)
    })
}

/// The command that grants the capability to `program`, or to `openuvr` if the program is unknown. `openuvr setup`
/// grants it only to the program `openuvr`.
fn grant(program: Option<&Path>) -> String {
    let own = program
        .and_then(Path::file_name)
        .is_none_or(|name| name == "openuvr");
    let path = shell::word(program.unwrap_or(Path::new("openuvr")));
    match own {
        true => format!("sudo {path} setup --only raw-ethernet"),
        false => format!("sudo setcap cap_net_raw+ep {path}"),
    }
}

fn open_error(error: io::Error) -> LinkError {
    let what = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            return LinkError::Unavailable(format!(
                "raw Ethernet needs the capability CAP_NET_RAW; grant it with `{}`, or use sudo",
                grant(std::env::current_exe().ok().as_deref())
            ));
        }
        Some(libc::EAFNOSUPPORT) => "this kernel lacks packet sockets for raw Ethernet",
        _ => "cannot open a packet socket for raw Ethernet",
    };
    LinkError::Io {
        what: what.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_up_serves_its_own_program_alone() {
        let of = |path: &str| grant(Some(Path::new(path)));
        assert_eq!(
            of("/usr/bin/openuvr"),
            "sudo /usr/bin/openuvr setup --only raw-ethernet"
        );
        assert_eq!(of("/opt/game"), "sudo setcap cap_net_raw+ep /opt/game");
        assert_eq!(grant(None), "sudo openuvr setup --only raw-ethernet");
    }

    #[test]
    fn a_program_path_with_spaces_is_one_word_of_the_command() {
        assert_eq!(
            grant(Some(Path::new("/opt/my games/openuvr"))),
            "sudo '/opt/my games/openuvr' setup --only raw-ethernet"
        );
        assert_eq!(
            grant(Some(Path::new("/opt/my games/game"))),
            "sudo setcap cap_net_raw+ep '/opt/my games/game'"
        );
    }
}
