//! Raw Ethernet through rings that the kernel and this process share (the paper's mapped link-layer
//! buffers, section IV-B2): the same frames as [`crate::raw`], on the wire and at the other end.
//!
//! On the way out a datagram is written into the ring once, and a card reads it there: the kernel
//! copies nothing (a virtual cable copies it once). On the way in the kernel copies it into the ring,
//! and this file copies it on into the batch: once more than recvmmsg(2), and what reading in place
//! would save. A batch owns its bytes, since it is the same for all transports and is kept while its
//! datagrams are decoded; a slot has to go back at once, for the kernel fills them in order, and says
//! that there is something to read while the last that it filled is out.
//!
//! Measured on a veth pair by a program that read in place, a 140 kB frame took 0.22 ms, against
//! 0.18 ms without rings: what they save is cheap, and a ring wakes its reader for each frame. A whole
//! stream at 10 Mb/s takes 5.81 ms from drawn to visible with them and 5.82 without (`openuvr bench
//! ablation`, five runs of each). So no session takes them by itself. They are of version 2 of the kernel's format; version 3 gives a frame
//! out up to a millisecond late.
//!
//! What it is not: it resolves no addresses (`neighbour`), and chooses nothing (`ladder`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use openuvr_proto::control::ladder::Rung;
use openuvr_proto::id::PathId;

use crate::address::{path_of_station, station_of};
use crate::arrival::Clocks;
use crate::ether::{Station, parse, prefix};
use crate::raw;
use crate::sys::ring::Rings;
use crate::sys::socket::{self, MAX_BATCH};
use crate::{LinkError, MAX_DATAGRAM, Received, RecvBatch, Transport};

/// A packet socket with two mapped rings. Any number of threads may send; one should receive.
pub(crate) struct Ring {
    rings: Rings,
    port: u16,
    /// It listens on one interface, not on all.
    bound: bool,
}

impl Ring {
    /// Listens as [`raw::Raw::open`] does. The rings are 6 MiB of the kernel's memory.
    ///
    /// # Errors
    /// [`LinkError::Io`], in one line what to do if the privilege is missing.
    pub(crate) fn open(interface: u32, port: u16) -> Result<Ring, LinkError> {
        let socket = raw::open(interface, port)?;
        let rings = Rings::new(socket).map_err(|error| LinkError::Io {
            what: "this kernel gives raw Ethernet no mapped rings: use the link raw".to_owned(),
            error,
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
    fn rung(&self, _: PathId) -> Rung {
        Rung::Ring
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError> {
        let station = station_of(to).ok_or(LinkError::NoWay)?;
        self.transmit(station, batch, segment)
            .map_err(|error| raw::send_error(error, station, batch.len()))
    }

    fn take(&self, batch: &mut RecvBatch) -> Result<(), LinkError> {
        batch.clear(MAX_DATAGRAM * MAX_BATCH, MAX_BATCH);
        let RecvBatch { bytes, datagrams } = batch;
        let mut used = 0;
        // A frame that comes in after this has no age yet.
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
                    from: path_of_station(station),
                    arrived: clocks.arrived(stamp),
                    range: used..end,
                });
                used = end;
            });
        if self.bound && datagrams.is_empty() {
            // An interface that went down, which may come up again, is an error that stays until
            // somebody reads it: until then a wait for datagrams would return at once.
            let _ = socket::read(&self.rings, libc::SOL_SOCKET, libc::SO_ERROR);
        }
        Ok(())
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.rings.as_fd()
    }
}
