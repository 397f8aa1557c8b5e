//! Raw Ethernet through rings that the kernel and this process share (the mapped link-layer buffers of the OpenUVR
//! paper, section IV-B2). The frames on the wire are the same as in [`crate::raw`].
//!
//! To send a datagram, this module writes it into the ring once, and the network card reads it there: the kernel does
//! not copy (a veth device copies once). On receipt, the kernel copies the datagram into the ring, and this module
//! copies it into the batch. This is one more copy than with recvmmsg(2). Reading in place would avoid it, but a batch
//! owns its bytes, because all transports share it and decoding outlives the call. A slot must also be returned at
//! once: the kernel fills slots in order and reports the socket readable until the last slot is returned.
//!
//! Measured on a veth pair, the transfer of a 140 kB video frame took 0.22 ms with rings and reading in place, and 0.18
//! ms without rings: the saved copies are cheap, and a ring wakes its reader once per Ethernet frame. At 10 Mb/s, the
//! latency of a stream from rendering to display is 5.81 ms with rings and 5.82 ms without (`openuvr bench ablation`,
//! five runs each). Rings are therefore never chosen automatically. They use version 2 of the kernel's format, because
//! version 3 delivers frames up to a millisecond late.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::ecn::Ecn;
use openuvr_proto::id::PathId;

use crate::address::{path_of_station, station_of};
use crate::arrival::{Arrival, Clocks};
use crate::ether::{Station, parse, prefix};
use crate::raw;
use crate::sys::ring::Rings;
use crate::sys::socket::{self, MAX_BATCH};
use crate::{LinkError, MAX_DATAGRAM, Received, RecvBatch, Transport};

/// A packet socket with two mapped rings. Any number of threads may send, but only one should receive.
pub(crate) struct Ring {
    rings: Rings,
    port: u16,
    /// Whether the socket listens on one interface instead of all.
    bound: bool,
}

impl Ring {
    /// Listens like [`raw::Raw::open`]. The rings take 6 MiB of kernel memory.
    ///
    /// # Errors
    /// [`LinkError`] if the rings cannot be created, with a remedy if the privilege is missing.
    pub(crate) fn open(interface: u32, port: u16) -> Result<Ring, LinkError> {
        let socket = raw::open(interface, port)?;
        let rings = Rings::new(socket).map_err(|error| LinkError::Io {
            what: "cannot map the rings of a packet socket".to_owned(),
            error: io::Error::new(error.kind(), format!("{error}; use --link raw")),
        })?;
        Ok(Ring {
            rings,
            port,
            bound: interface != 0,
        })
    }

    fn transmit(&self, to: Station, batch: &[u8], segment: usize) -> io::Result<()> {
        let datagrams = batch.chunks(segment);
        let count = datagrams.len();
        let frames = datagrams.map(|datagram| {
            let prefix = prefix(to.port, self.port, datagram.len());
            (prefix, datagram)
        });
        if self.rings.send(to, frames)? < count {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        Ok(())
    }
}

impl Transport for Ring {
    fn kind(&self, _: PathId) -> TransportKind {
        TransportKind::Ring
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize, _: Ecn) -> Result<(), LinkError> {
        let station = station_of(to).ok_or(LinkError::Unreachable)?;
        self.transmit(station, batch, segment)
            .map_err(|error| raw::send_error(error, station, batch.len()))
    }

    fn take(&self, batch: &mut RecvBatch) -> Result<(), LinkError> {
        batch.clear(MAX_DATAGRAM * MAX_BATCH, MAX_BATCH);
        let RecvBatch { bytes, datagrams } = batch;
        let mut used = 0;
        // A frame that arrives after this reading has no valid age.
        let clocks = Clocks::read();
        self.rings
            .take(MAX_BATCH, |interface, mac, stamp, payload| {
                let Some(framed) = parse(payload) else { return };
                let station = Station {
                    mac,
                    interface,
                    port: framed.from,
                };
                let end = used + framed.datagram.len();
                bytes[used..end].copy_from_slice(framed.datagram);
                datagrams.push(Received {
                    arrival: Arrival {
                        from: path_of_station(station),
                        at: clocks.arrived(stamp),
                        ecn: None,
                    },
                    range: used..end,
                });
                used = end;
            });
        if self.bound && datagrams.is_empty() {
            // An interface that went down sets a pending error. Until the error is read, poll returns at once. The
            // interface may come up again.
            let _ = socket::read(&self.rings, libc::SOL_SOCKET, libc::SO_ERROR);
        }
        Ok(())
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.rings.as_fd()
    }
}
