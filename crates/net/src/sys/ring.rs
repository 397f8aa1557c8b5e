//! The rings of a packet socket (`PACKET_MMAP`: packet(7) and the kernel's packet_mmap.rst): slots in memory that the
//! kernel and this process share, in version 2 of the kernel's format (linux/if_packet.h).
//!
//! The first word of a slot holds its owner. The owner reads or writes the rest of the slot, then transfers the slot
//! with a release store. The new owner sees the transfer with an acquire load.

// Lengths of a few bytes, converted to the integer types of the C interfaces.
#![allow(clippy::cast_possible_truncation)]

use std::io;
use std::marker::PhantomData;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{sockaddr_ll, tpacket_req, tpacket2_hdr};

use super::packet::{LEN_OF_NAME, name_of, sender};
use super::socket::{self, MAX_BATCH, set};
use crate::MAX_DATAGRAM;
use crate::ether::{Mac, PREFIX, Station};
use openuvr_clock::WallTime;

/// Bytes of a slot: a power of two, so that slots fill blocks without gaps. The kernel writes a received
/// frame at offset 80.
const SLOT: usize = 2048;
const _: () = assert!(80 + PREFIX + MAX_DATAGRAM <= SLOT);

/// Bytes of a block: the largest page size in common use. The kernel allocates a block in one piece.
const BLOCK: usize = 64 << 10;

/// Slots of the receive ring, which is as large as the receive buffer of the other transports, 4 MiB.
pub(crate) const RX_SLOTS: usize = socket::RECEIVE_BUFFER as usize / SLOT;
/// Slots of the transmit ring, which is as large as the send buffer of the other transports, 2 MiB.
pub(crate) const TX_SLOTS: usize = socket::SEND_BUFFER as usize / SLOT;
const _: () = assert!((RX_SLOTS * SLOT).is_multiple_of(BLOCK));
const _: () = assert!((TX_SLOTS * SLOT).is_multiple_of(BLOCK));

/// Bytes of both rings, which are contiguous.
const MAPPED: usize = (RX_SLOTS + TX_SLOTS) * SLOT;

/// The offset of the data behind a slot's header: the sender's address in a received frame, or the payload of a frame
/// to send.
const DATA_OFFSET: usize = libc::TPACKET2_HDRLEN - size_of::<sockaddr_ll>();

/// A packet socket and its two rings.
pub(crate) struct Rings {
    memory: NonNull<u8>,
    /// The slot that the kernel sends next.
    sending: Mutex<usize>,
    /// The slot of the next received frame.
    receiving: Mutex<usize>,
    socket: OwnedFd,
}

// SAFETY: the memory is mapped until the value is dropped, moves with it, and is not bound to a
// thread. A slot is accessed only under its ring's lock.
unsafe impl Send for Rings {}
// SAFETY: as above.
unsafe impl Sync for Rings {}

impl Rings {
    /// Creates the rings of a socket. Frames that the socket received earlier are lost.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Rings> {
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        request(&socket, libc::PACKET_RX_RING, RX_SLOTS)?;
        request(&socket, libc::PACKET_TX_RING, TX_SLOTS)?;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                MAPPED,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Rings {
            memory: NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            sending: Mutex::new(0),
            receiving: Mutex::new(0),
            socket,
        })
    }

    /// Sends datagrams to one station, each with its prefix, and returns how many were sent. The others did not fit into the
    /// ring, the socket's buffer or the interface's queue.
    ///
    /// A slot becomes free once its frame has been sent. A few virtual devices free a slot just before they read it.
    /// This is safe, because the slot is reused only after all other slots.
    ///
    /// The kernel keeps unsent frames in the ring for the next call, which may address another station. This function
    /// therefore reclaims these frames, which are lost, as with any full buffer.
    pub(crate) fn send<'a>(
        &self,
        to: Station,
        datagrams: impl Iterator<Item = ([u8; PREFIX], &'a [u8])>,
    ) -> io::Result<usize> {
        let mut first = lock(&self.sending);
        let mut datagrams = datagrams.peekable();
        let mut sent = 0;
        while datagrams.peek().is_some() {
            let mut filled = 0;
            while filled < MAX_BATCH {
                let slot = self.tx_slot(*first + filled);
                if slot.status().load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
                    break;
                }
                let Some((prefix, datagram)) = datagrams.next() else {
                    break;
                };
                // SAFETY: this process owns the slot: it has the lock, and the slot is available.
                unsafe { slot.fill(&prefix, datagram) };
                filled += 1;
            }
            if filled == 0 {
                break;
            }
            let outcome = self.flush(to);
            let left = self.reclaim(*first, filled);
            *first = (*first + left) % TX_SLOTS;
            sent += left;
            if left < filled {
                outcome?;
                break;
            }
        }
        Ok(sent)
    }

    /// Makes the kernel send the frames in the ring, without waiting.
    fn flush(&self, to: Station) -> io::Result<()> {
        let name = name_of(to.interface, to.mac);
        // SAFETY: the call has no buffer, and `name` has the given length.
        let rc = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                (&raw const name).cast(),
                LEN_OF_NAME,
            )
        };
        if rc < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Returns how many slots the kernel has sent, of the `filled` slots from `first` on. Reclaims the others. The
    /// kernel stops at the first slot that it cannot send, including a slot with a refused length
    /// (`TP_STATUS_WRONG_FORMAT`), and resumes there in the next call. Outside a call, the kernel accesses no slot, and
    /// the lock excludes concurrent calls.
    fn reclaim(&self, first: usize, filled: usize) -> usize {
        const REFUSED: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;
        let status = |i| self.tx_slot(first + i).status();
        let taken = (0..filled)
            .find(|i| status(*i).load(Ordering::Acquire) & REFUSED != 0)
            .unwrap_or(filled);
        for i in taken..filled {
            status(i).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        taken
    }

    /// Passes up to `most` received frames to `visit` and returns their slots. `visit` gets the interface, sender, arrival
    /// time, and payload, truncated to the slot.
    pub(crate) fn take(&self, most: usize, mut visit: impl FnMut(u32, Mac, WallTime, &[u8])) {
        let mut next = lock(&self.receiving);
        for _ in 0..most {
            let slot = self.rx_slot(*next);
            if slot.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            // SAFETY: the kernel has passed the slot to this process, which owns it until the store below.
            let (name, stamp, payload) = unsafe { (slot.name(), slot.stamp(), slot.payload()) };
            let (interface, mac) = sender(&name);
            visit(interface, mac, stamp, payload);
            slot.status()
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            *next = (*next + 1) % RX_SLOTS;
        }
    }

    fn rx_slot(&self, number: usize) -> Slot<'_> {
        self.slot(number % RX_SLOTS)
    }

    fn tx_slot(&self, number: usize) -> Slot<'_> {
        self.slot(RX_SLOTS + number % TX_SLOTS)
    }

    fn slot(&self, number: usize) -> Slot<'_> {
        // SAFETY: both callers pass a number within the mapping.
        let start = unsafe { self.memory.add(number * SLOT) };
        Slot {
            start,
            of: PhantomData,
        }
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and no borrow of it is left.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), MAPPED) };
    }
}

impl AsFd for Rings {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

struct Slot<'a> {
    start: NonNull<u8>,
    of: PhantomData<&'a Rings>,
}

impl<'a> Slot<'a> {
    /// The owner of the slot.
    fn status(&self) -> &'a AtomicU32 {
        const _: () = assert!(offset_of!(tpacket2_hdr, tp_status) == 0);
        // SAFETY: a slot begins with this word, is aligned to its size, and is mapped as long as the rings live. The
        // kernel and this process only load and store this word.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().cast()) }
    }

    /// Writes the prefix and the datagram, truncated to the slot, and transfers the slot to the kernel.
    ///
    /// # Safety
    /// This process must own the slot, which must be in the transmit ring.
    unsafe fn fill(&self, prefix: &[u8; PREFIX], datagram: &[u8]) {
        let len = datagram.len().min(SLOT - DATA_OFFSET - PREFIX);
        // SAFETY: prefix and datagram fit into the slot behind its header, and the caller guarantees exclusive access.
        unsafe {
            let to = self.start.add(DATA_OFFSET);
            to.copy_from_nonoverlapping(NonNull::from(prefix).cast(), PREFIX);
            let from = NonNull::from(datagram).cast();
            to.add(PREFIX).copy_from_nonoverlapping(from, len);
            let header = self.start.cast::<tpacket2_hdr>().as_ptr();
            (&raw mut (*header).tp_len).write((PREFIX + len) as u32);
        }
        let send = libc::TP_STATUS_SEND_REQUEST;
        self.status().store(send, Ordering::Release);
    }

    /// The sender of the frame.
    ///
    /// # Safety
    /// This process must own the slot, which must be in the receive ring.
    unsafe fn name(&self) -> sockaddr_ll {
        // SAFETY: the caller guarantees that the kernel has filled the slot, and the kernel aligns the address.
        unsafe { self.start.add(DATA_OFFSET).cast().read() }
    }

    /// Arrival time of the frame; without socket timestamps, the time when the kernel filled the slot.
    ///
    /// # Safety
    /// This process must own the slot, which must be in the receive ring.
    unsafe fn stamp(&self) -> WallTime {
        // SAFETY: the caller guarantees that the kernel has filled the slot, which starts with the header and is
        // aligned for it.
        let header = unsafe { self.start.cast::<tpacket2_hdr>().read() };
        WallTime::new(header.tp_sec.into(), header.tp_nsec.into())
    }

    /// The payload of the frame.
    ///
    /// # Safety
    /// This process must own the slot, which must be in the receive ring, during the lifetime of the result.
    unsafe fn payload(&self) -> &'a [u8] {
        // SAFETY: the caller guarantees that the kernel has filled the slot, which starts with the header and is
        // aligned for it. The slice does not extend beyond the slot.
        unsafe {
            let header = self.start.cast::<tpacket2_hdr>().read();
            let start = usize::from(header.tp_net).min(SLOT);
            let len = (header.tp_snaplen as usize).min(SLOT - start);
            std::slice::from_raw_parts(self.start.add(start).as_ptr(), len)
        }
    }
}

/// Requests a ring of `slots` slots.
fn request(socket: &OwnedFd, ring: i32, slots: usize) -> io::Result<()> {
    let request = tpacket_req {
        tp_block_size: BLOCK as u32,
        tp_block_nr: (slots * SLOT / BLOCK) as u32,
        tp_frame_size: SLOT as u32,
        tp_frame_nr: slots as u32,
    };
    // SAFETY: `request` is readable for the length given.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            ring,
            (&raw const request).cast(),
            size_of::<tpacket_req>() as u32,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn lock(position: &Mutex<usize>) -> MutexGuard<'_, usize> {
    position.lock().unwrap_or_else(PoisonError::into_inner)
}
