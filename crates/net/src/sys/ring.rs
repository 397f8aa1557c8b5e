//! The rings of a packet socket (`PACKET_MMAP`: packet(7) and the kernel's packet_mmap.rst): slots in
//! memory that the kernel and this process share, of version 2 of its format (linux/if_packet.h).
//!
//! The first word of a slot says whose it is. Whoever has it reads or writes the rest, then gives it
//! away with a store that releases what was written; the other's load acquires it.

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

use super::clock::WallStamp;
use super::packet::{LEN_OF_NAME, name_of, sender};
use super::socket::{self, MAX_BATCH, set};
use crate::MAX_DATAGRAM;
use crate::ether::{Mac, PREFIX, Station};

/// Bytes of a slot: a power of two, so that slots fill blocks without gaps. On the way in the kernel
/// puts a frame 80 bytes into it.
const SLOT: usize = 2048;
const _: () = assert!(80 + PREFIX + MAX_DATAGRAM <= SLOT);

/// Bytes of a block, which the kernel allocates in one piece: the largest page of any machine.
const BLOCK: usize = 64 << 10;

/// Slots of the ring for what arrives: the receive buffer of the other transports, 4 MiB.
pub(crate) const RECEIVING: usize = socket::RECEIVE_BUFFER as usize / SLOT;
/// Slots of the ring for what leaves: their send buffer, 2 MiB.
pub(crate) const SENDING: usize = socket::SEND_BUFFER as usize / SLOT;
const _: () = assert!((RECEIVING * SLOT).is_multiple_of(BLOCK));
const _: () = assert!((SENDING * SLOT).is_multiple_of(BLOCK));

/// Bytes of both, which lie one behind the other.
const MAPPED: usize = (RECEIVING + SENDING) * SLOT;

/// Where in a slot the sender's name stands that arrived, and the payload that leaves: behind the
/// header.
const BEHIND: usize = libc::TPACKET2_HDRLEN - size_of::<sockaddr_ll>();

/// A packet socket and its two rings.
pub(crate) struct Rings {
    memory: NonNull<u8>,
    /// The slot that the kernel looks at first when it is told to send.
    sending: Mutex<usize>,
    /// The slot that the next frame arrives in.
    receiving: Mutex<usize>,
    socket: OwnedFd,
}

// SAFETY: the memory is mapped until the value is dropped, moves with it, and is not bound to a
// thread. A slot is touched only by who holds its ring's lock.
unsafe impl Send for Rings {}
// SAFETY: as above.
unsafe impl Sync for Rings {}

impl Rings {
    /// Gives the socket its rings. What has arrived before is lost.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Rings> {
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        request(&socket, libc::PACKET_RX_RING, RECEIVING)?;
        request(&socket, libc::PACKET_TX_RING, SENDING)?;
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

    /// Sends datagrams to one station, each behind its prefix, and returns how many left. The others
    /// did not fit into the ring, the socket's buffer or the interface's queue.
    ///
    /// A slot is free again when its frame has left, for a few virtual devices a moment before it was
    /// read; it is written again only after all the others.
    ///
    /// The kernel leaves what it could not send in the ring, for the next call, which may be for
    /// another station. So that is taken back: it is lost as in any full buffer.
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
                let slot = self.leaving(*first + filled);
                if slot.status().load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
                    break;
                }
                let Some((prefix, datagram)) = datagrams.next() else {
                    break;
                };
                // SAFETY: it is ours: we have the lock, and the kernel has nothing to send in it.
                unsafe { slot.fill(&prefix, datagram) };
                filled += 1;
            }
            if filled == 0 {
                break;
            }
            let outcome = self.tell_to_send(to);
            let left = self.take_back(*first, filled);
            *first = (*first + left) % SENDING;
            sent += left;
            if left < filled {
                outcome?;
                break;
            }
        }
        Ok(sent)
    }

    /// Has the kernel send what is in the ring, without waiting.
    fn tell_to_send(&self, to: Station) -> io::Result<()> {
        let name = name_of(to.interface, to.mac);
        // SAFETY: no buffer, and a name of the length given.
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

    /// How many of the `filled` slots from `first` on the kernel has taken; makes the others ours
    /// again. It stops at the first that it cannot send, also at one whose length it refuses
    /// (`TP_STATUS_WRONG_FORMAT`), and looks there again next time. Outside of a call it looks at
    /// none, and no other call is under way: the lock is ours.
    fn take_back(&self, first: usize, filled: usize) -> usize {
        const REFUSED: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;
        let status = |i| self.leaving(first + i).status();
        let taken = (0..filled)
            .find(|i| status(*i).load(Ordering::Acquire) & REFUSED != 0)
            .unwrap_or(filled);
        for i in taken..filled {
            status(i).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        taken
    }

    /// Shows what has arrived, at most `most` frames, and gives their slots back: the interface that
    /// a frame came in by, its sender, when it came in, and its payload, the end of a longer one cut off.
    pub(crate) fn take(&self, most: usize, mut see: impl FnMut(u32, Mac, WallStamp, &[u8])) {
        let mut next = lock(&self.receiving);
        for _ in 0..most {
            let slot = self.arriving(*next);
            if slot.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            // SAFETY: the slot is ours, and goes back only below.
            let (name, stamp, payload) = unsafe { (slot.name(), slot.stamp(), slot.payload()) };
            let (interface, mac) = sender(&name);
            see(interface, mac, stamp, payload);
            slot.status()
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            *next = (*next + 1) % RECEIVING;
        }
    }

    fn arriving(&self, number: usize) -> Slot<'_> {
        self.slot(number % RECEIVING)
    }

    fn leaving(&self, number: usize) -> Slot<'_> {
        self.slot(RECEIVING + number % SENDING)
    }

    fn slot(&self, number: usize) -> Slot<'_> {
        // SAFETY: the mapping has so many slots: see the two callers.
        let start = unsafe { self.memory.add(number * SLOT) };
        Slot {
            start,
            of: PhantomData,
        }
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody borrows from it any more.
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
    /// Whose the slot is.
    fn status(&self) -> &'a AtomicU32 {
        const _: () = assert!(offset_of!(tpacket2_hdr, tp_status) == 0);
        // SAFETY: a slot begins with this word, is aligned to its size, and is mapped as long as the
        // rings live. Both sides only load and store it.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().cast()) }
    }

    /// Writes a datagram behind its prefix and gives the slot to the kernel to send. What is longer
    /// than a slot is cut off.
    ///
    /// # Safety
    /// The slot is ours, of the ring that sends.
    unsafe fn fill(&self, prefix: &[u8; PREFIX], datagram: &[u8]) {
        let len = datagram.len().min(SLOT - BEHIND - PREFIX);
        // SAFETY: all of it lies in the slot, behind its header, and nobody else looks at it now.
        unsafe {
            let to = self.start.add(BEHIND);
            to.copy_from_nonoverlapping(NonNull::from(prefix).cast(), PREFIX);
            let from = NonNull::from(datagram).cast();
            to.add(PREFIX).copy_from_nonoverlapping(from, len);
            let header = self.start.cast::<tpacket2_hdr>().as_ptr();
            (&raw mut (*header).tp_len).write((PREFIX + len) as u32);
        }
        let send = libc::TP_STATUS_SEND_REQUEST;
        self.status().store(send, Ordering::Release);
    }

    /// Where the frame came from.
    ///
    /// # Safety
    /// The slot is ours, of the ring that receives.
    unsafe fn name(&self) -> sockaddr_ll {
        // SAFETY: the kernel has put it there, aligned.
        unsafe { self.start.add(BEHIND).cast().read() }
    }

    /// When the frame came in: where its socket asks for no stamps, when the kernel put it here.
    ///
    /// # Safety
    /// The slot is ours, of the ring that receives.
    unsafe fn stamp(&self) -> WallStamp {
        // SAFETY: the header is the kernel's, whole and aligned.
        let header = unsafe { self.start.cast::<tpacket2_hdr>().read() };
        WallStamp::new(header.tp_sec.into(), header.tp_nsec.into())
    }

    /// What the frame carries.
    ///
    /// # Safety
    /// The slot is ours, of the ring that receives, until the result is gone.
    unsafe fn payload(&self) -> &'a [u8] {
        // SAFETY: the header is the kernel's, whole and aligned; the slice ends with the slot.
        unsafe {
            let header = self.start.cast::<tpacket2_hdr>().read();
            let start = usize::from(header.tp_net).min(SLOT);
            let len = (header.tp_snaplen as usize).min(SLOT - start);
            std::slice::from_raw_parts(self.start.add(start).as_ptr(), len)
        }
    }
}

/// Asks for a ring of so many slots.
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
