//! Raw Ethernet through `AF_XDP`: the same frames as [`crate::raw`], bypassing most of the kernel's
//! network stack. Built with the feature `xdp`.
//!
//! The socket is bound in copy mode with the generic hook, which works with every driver. An eBPF program redirects
//! OpenUVR frames and passes all others. Measured on a veth pair, `AF_XDP` gained 0 to 7 % over packet sockets. Frames
//! of receive queues other than the first arrive through the packet socket, which stays open.
//!
//! Zero-copy mode is not implemented, because no driver that supports it was available for tests.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::ecn::Ecn;
use openuvr_proto::id::PathId;

use crate::address::{path_of_station, station_of};
use crate::arrival::Arrival;
use crate::ether::{ETHER_TYPE, Mac, PREFIX, Station, parse, prefix};
use crate::sys::xsk::Xsk;
use crate::{LinkError, MAX_DATAGRAM, Received, RecvBatch, Transport};

/// An `AF_XDP` socket on one interface. Any number of threads may send, but only one should receive.
pub(crate) struct Xdp {
    socket: Xsk,
    interface: u32,
    own: Mac,
    port: u16,
}

/// Bytes before the payload: two addresses and the EtherType.
const ETHERNET: usize = 14;

/// Maximum frames received in one call.
const MAX_TAKEN: usize = 64;

/// Delays between attempts, in ms. A closed socket releases its queue only after up to 0.6 s (measured on veth).
const BUSY: [u64; 6] = [20, 40, 80, 160, 320, 640];

impl Xdp {
    /// Receives frames to `port` on an interface with the address `own`. Blocks for up to 1.3 s if another socket on
    /// this interface has just been closed.
    ///
    /// # Errors
    /// [`LinkError`] if the socket cannot be opened, with a remedy if privileges are missing.
    pub(crate) fn open(interface: u32, own: Mac, port: u16) -> Result<Xdp, LinkError> {
        let mut waits = BUSY.into_iter();
        let socket = loop {
            match Xsk::open(interface, port) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => match waits.next() {
                    Some(wait) => std::thread::sleep(Duration::from_millis(wait)),
                    None => return Err(open_error(error)),
                },
                other => break other.map_err(open_error)?,
            }
        };
        Ok(Xdp {
            socket,
            interface,
            own,
            port,
        })
    }

    /// Whether this socket reaches the station.
    pub(crate) fn reaches(&self, station: Station) -> bool {
        station.interface == self.interface
    }

    fn transmit(&self, to: Station, batch: &[u8], segment: usize) -> io::Result<()> {
        let mut header = [0; ETHERNET];
        header[..6].copy_from_slice(&to.mac.0);
        header[6..12].copy_from_slice(&self.own.0);
        header[12..].copy_from_slice(&ETHER_TYPE.to_be_bytes());
        let datagrams = batch.chunks(segment);
        let count = datagrams.len();
        let frame = |datagram: &'_ [u8]| prefix(to.port, self.port, datagram.len());
        let frames = datagrams.map(|datagram| (header, frame(datagram), datagram));
        if self.socket.send(frames)? < count {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        Ok(())
    }
}

impl Transport for Xdp {
    fn kind(&self, _: PathId) -> TransportKind {
        TransportKind::Xdp
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize, _: Ecn) -> Result<(), LinkError> {
        let station = station_of(to).ok_or(LinkError::Unreachable)?;
        self.transmit(station, batch, segment).map_err(|error| {
            LinkError::of(error, || {
                format!("cannot send {} bytes through AF_XDP", batch.len())
            })
        })
    }

    fn take(&self, batch: &mut RecvBatch) -> Result<(), LinkError> {
        batch.clear(MAX_DATAGRAM * MAX_TAKEN, MAX_TAKEN);
        let RecvBatch { bytes, datagrams } = batch;
        let mut used = 0;
        self.socket.take(|frame| {
            let Some((header, payload)) = frame.split_first_chunk::<ETHERNET>() else {
                return;
            };
            let Some(framed) = parse(payload) else { return };
            let [_, _, _, _, _, _, a, b, c, d, e, f, _, _] = *header;
            let station = Station {
                mac: Mac([a, b, c, d, e, f]),
                interface: self.interface,
                port: framed.from,
            };
            let end = used + framed.datagram.len();
            bytes[used..end].copy_from_slice(framed.datagram);
            datagrams.push(Received {
                arrival: Arrival {
                    from: path_of_station(station),
                    // Copy mode provides no timestamps.
                    at: None,
                    ecn: None,
                },
                range: used..end,
            });
            used = end;
        });
        Ok(())
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.socket.readable()
    }
}

// The longest frame fits into a UMEM chunk, after its headroom.
const _: () = assert!(256 + ETHERNET + PREFIX + MAX_DATAGRAM <= 2048);

fn open_error(error: io::Error) -> LinkError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LinkError::Unavailable(
            "AF_XDP needs the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; use sudo or --link raw"
                .to_owned(),
        ),
        Some(libc::EBUSY) => LinkError::Io {
            what: "another program uses AF_XDP on this interface".to_owned(),
            error,
        },
        _ => LinkError::Io {
            what: "this interface or kernel does not support AF_XDP".to_owned(),
            error: io::Error::new(error.kind(), format!("{error}; use --link raw")),
        },
    }
}
