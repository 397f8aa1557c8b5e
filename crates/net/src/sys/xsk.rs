//! An `AF_XDP` socket (crate `xdp`), and the eBPF program that redirects OpenUVR frames to it (bpf(2)).

// Lengths of a few bytes and system call results, converted to the integer types of bpf(2).
#![allow(clippy::cast_possible_truncation)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{RingConfigBuilder, Rings, Umem};

use crate::ether::{ETHER_TYPE, MAGIC};

/// Entries of each ring, a power of two. A ring holds the datagrams of ten key frames of 140 kB.
const RING_ENTRIES: u32 = 1024;

/// Maximum frames sent or received in one call.
const MAX_FRAMES: usize = 64;

/// Bytes before the payload.
const ETHERNET: usize = 14;

/// The receive queue of non-IP frames. Network cards distribute only IP packets over several queues.
const QUEUE: u32 = 0;

/// A socket on one interface. Frames that the eBPF program redirects bypass the network stack.
pub(crate) struct Xsk {
    state: Mutex<State>,
    // Dropping this field detaches the program from the interface. The kernel also detaches it if this process dies.
    _program: Attached,
}

/// Fields are dropped in order, so the memory comes last.
struct State {
    rings: Rings,
    slab: HeapSlab,
    socket: XdpSocket,
    umem: Umem,
}

// SAFETY: the pointers refer to memory that is mapped only for this value, so they stay valid when another thread gets
// the value. No field is bound to a thread.
unsafe impl Send for State {}

struct Attached {
    _link: OwnedFd,
    _program: OwnedFd,
    _map: OwnedFd,
}

impl Xsk {
    /// Opens a socket on an interface, in copy mode with the generic hook, which every driver supports.
    pub(crate) fn open(interface: u32, port: u16) -> io::Result<Xsk> {
        let config = UmemCfgBuilder {
            frame_size: FrameSize::TwoK,
            frame_count: RING_ENTRIES * 2,
            ..UmemCfgBuilder::default()
        };
        let config = config.build().map_err(io::Error::other)?;
        let mut umem = Umem::map(config)?;
        let mut builder = XdpSocketBuilder::new().map_err(io_error)?;
        let counts = RingConfigBuilder {
            rx_count: RING_ENTRIES,
            tx_count: RING_ENTRIES,
            fill_count: RING_ENTRIES,
            completion_count: RING_ENTRIES,
        };
        let counts = counts.build().map_err(io::Error::other)?;
        let (mut rings, mut flags) = builder.build_rings(&umem, counts).map_err(io_error)?;
        flags.force_copy();
        let socket = builder
            .bind(NicIndex::new(interface), QUEUE, flags)
            .map_err(io_error)?;
        // SAFETY: `umem` is dropped after the socket, because it is the last field of `State`.
        unsafe { rings.fill_ring.enqueue(&mut umem, RING_ENTRIES as usize) };
        let program = Attached::new(interface, port, &socket)?;
        Ok(Xsk {
            state: Mutex::new(State {
                rings,
                slab: HeapSlab::with_capacity(MAX_FRAMES),
                socket,
                umem,
            }),
            _program: program,
        })
    }

    /// Sends frames, each the concatenation of its three parts, and returns how many fit into the ring.
    pub(crate) fn send<'a>(
        &self,
        frames: impl Iterator<Item = ([u8; ETHERNET], [u8; crate::ether::PREFIX], &'a [u8])>,
    ) -> io::Result<usize> {
        let mut state = self.state();
        let State {
            rings,
            slab,
            socket,
            umem,
        } = &mut *state;
        rings.completion_ring.dequeue(umem, RING_ENTRIES as usize);
        let mut sent = 0;
        let mut frames = frames.peekable();
        while frames.peek().is_some() {
            for (header, prefix, datagram) in frames.by_ref().take(MAX_FRAMES) {
                // SAFETY: before this method returns, the packet goes to the kernel or back to `umem`.
                let Some(mut packet) = (unsafe { umem.alloc() }) else {
                    break;
                };
                let written = [&header[..], &prefix, datagram]
                    .into_iter()
                    .try_for_each(|part| packet.append(part));
                if written.is_ok() {
                    slab.push_front(packet);
                } else {
                    umem.free_packet(packet);
                }
            }
            let queued = rings.tx_ring.as_mut().map_or(0, |tx| {
                // SAFETY: `umem` is dropped after the socket, because it is the last field of `State`.
                unsafe { tx.send(slab) }
            });
            sent += queued;
            while let Some(left) = slab.pop_back() {
                umem.free_packet(left);
            }
            if queued == 0 {
                break;
            }
            kick(socket, queued)?;
            rings.completion_ring.dequeue(umem, RING_ENTRIES as usize);
        }
        Ok(sent)
    }

    /// Passes up to 64 received frames to `visit` and returns their memory.
    pub(crate) fn take(&self, mut visit: impl FnMut(&[u8])) {
        let mut state = self.state();
        let State {
            rings, slab, umem, ..
        } = &mut *state;
        let Some(rx) = rings.rx_ring.as_mut() else {
            return;
        };
        // SAFETY: all packets go back to `umem` below.
        let count = unsafe { rx.recv(umem, slab) };
        while let Some(packet) = slab.pop_back() {
            visit(&packet);
            umem.free_packet(packet);
        }
        // SAFETY: `umem` is dropped after the socket, because it is the last field of `State`.
        unsafe { rings.fill_ring.enqueue(umem, count) };
    }

    /// The descriptor that is readable while frames are pending.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        let fd = self.state().socket.as_raw_fd();
        // SAFETY: the socket stays open as long as `self`, which the result borrows.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the kernel send the frames in the ring. Each system call sends up to 32 frames, and fails with EAGAIN if more
/// are left.
fn kick(socket: &XdpSocket, queued: usize) -> io::Result<()> {
    for _ in 0..=queued.div_ceil(32) {
        // SAFETY: the call has no buffer and no address, and `socket` keeps the descriptor open.
        let rc = unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        if rc >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if !matches!(
            error.raw_os_error(),
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS)
        ) {
            return Err(error);
        }
    }
    // The device is busy. The frames in the ring are sent with the next call.
    Ok(())
}

fn io_error(error: SocketError) -> io::Error {
    match error {
        SocketError::SocketCreation(inner)
        | SocketError::Bind(inner)
        | SocketError::SetSockOpt { inner, .. }
        | SocketError::GetSockOpt { inner, .. }
        | SocketError::RingMap { inner, .. } => inner,
    }
}

// linux/bpf.h, linux/if_link.h.
const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;

impl Attached {
    /// Loads the program and attaches it to the interface.
    fn new(interface: u32, port: u16, socket: &XdpSocket) -> io::Result<Attached> {
        // Map type, bytes of a key, bytes of a value, number of entries.
        let map = descriptor(BPF_MAP_CREATE, &[BPF_MAP_TYPE_XSKMAP, 4, 4, QUEUE + 1])?;
        let program = load(&map, port)?;
        let (key, value) = (QUEUE, socket.as_raw_fd());
        let [low, high] = words(std::ptr::from_ref(&key) as u64);
        let [value_low, value_high] = words(std::ptr::from_ref(&value) as u64);
        let fd = number(&map);
        // Map, padding, pointers to key and value, flags.
        let update = [fd, 0, low, high, value_low, value_high, 0, 0];
        bpf(BPF_MAP_UPDATE_ELEM, &update)?;
        let attach = [number(&program), interface, BPF_XDP, XDP_FLAGS_SKB_MODE];
        let link = descriptor(BPF_LINK_CREATE, &attach)?;
        Ok(Attached {
            _link: link,
            _program: program,
            _map: map,
        })
    }
}

/// Loads the program. Unicast frames with [`ETHER_TYPE`], [`MAGIC`] and `port` go to the socket of their receive queue.
/// All other frames, and frames of queues without a socket, pass to the network stack.
fn load(map: &OwnedFd, port: u16) -> io::Result<OwnedFd> {
    // Instructions of eBPF (RFC 9669): operation, destination, source, jump or offset, constant.
    let step = |code: u8, to: u8, from: u8, offset: i16, constant: u32| -> u64 {
        u64::from(code)
            | u64::from(to) << 8
            | u64::from(from) << 12
            | u64::from(offset as u16) << 16
            | u64::from(constant) << 32
    };
    let load_word = |to, from, offset| step(0x61, to, from, offset, 0);
    let load_half = |to, from, offset| step(0x69, to, from, offset, 0);
    let load_byte = |to, from, offset| step(0x71, to, from, offset, 0);
    let set = |to, constant| step(0xb7, to, 0, 0, constant);
    // Jumps are relative to the next instruction. The last two instructions pass the frame.
    let unless_equal = |what, constant, over| step(0x55, what, 0, over, constant);
    // The constant has the bytes in memory order, because loads use this machine's byte order.
    let memory = |bytes: [u8; 2]| u32::from(u16::from_ne_bytes(bytes));
    let program = [
        load_word(2, 1, 0),     // r2: the frame's start
        load_word(3, 1, 4),     // r3: its end
        step(0xbf, 4, 2, 0, 0), // r4 = r2
        step(0x07, 4, 0, 0, (ETHERNET + crate::ether::PREFIX) as u32), // r4 += headers
        step(0x2d, 4, 3, 14, 0), // too short: pass
        load_byte(5, 2, 0),     // first byte of the destination
        step(0x45, 5, 0, 12, 1), // multicast: pass
        load_half(5, 2, 12),
        unless_equal(5, memory(ETHER_TYPE.to_be_bytes()), 10),
        load_half(5, 2, 14),
        unless_equal(5, memory(MAGIC), 8),
        load_half(5, 2, 18),
        unless_equal(5, memory(port.to_le_bytes()), 6),
        load_word(2, 1, 16),              // r2: the queue
        step(0x18, 1, 1, 0, number(map)), // r1: the map, in two words
        0,
        set(3, 2),               // XDP_PASS, if it has no socket
        step(0x85, 0, 0, 0, 51), // bpf_redirect_map
        step(0x95, 0, 0, 0, 0),  // exit
        set(0, 2),               // XDP_PASS
        step(0x95, 0, 0, 0, 0),
    ];
    let [code_low, code_high] = words(program.as_ptr() as u64);
    let licence = c"Dual MIT/GPL";
    let [licence_low, licence_high] = words(licence.as_ptr() as u64);
    let mut attributes = [0; 18];
    attributes[0] = BPF_PROG_TYPE_XDP;
    attributes[1] = program.len() as u32;
    attributes[2..6].copy_from_slice(&[code_low, code_high, licence_low, licence_high]);
    // Words 6 to 16 stay zero: log (level, size, pointer), kernel version, flags, name and interface.
    attributes[17] = BPF_XDP;
    descriptor(BPF_PROG_LOAD, &attributes)
}

fn words(pointer: u64) -> [u32; 2] {
    let bytes = pointer.to_ne_bytes();
    let [a, b, c, d, e, f, g, h] = bytes;
    [
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    ]
}

fn number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().unsigned_abs()
}

fn descriptor(command: i32, attributes: &[u32]) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: these commands return a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls bpf(2). `attributes` is the start of the command's `union bpf_attr`; its pointers refer to memory that outlives the
/// call.
fn bpf(command: i32, attributes: &[u32]) -> io::Result<i32> {
    // SAFETY: the kernel reads `attributes`, whose length is given. The callers keep the memory to which the attributes
    // point alive during the call.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_ptr(),
            size_of_val(attributes),
        )
    };
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(rc as i32)
    }
}
