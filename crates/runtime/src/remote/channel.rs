//! A connection between the application and the process of its gateways. Messages of any length are sent over a
//! SOCK_SEQPACKET socket as [frames](openuvr_ipc::frame). Each process first sends a [greeting](openuvr_ipc::hello).

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_ipc::frame::{Assembler, FrameError, Message, encode};
use openuvr_ipc::hello::{self, OtherVersion};
use openuvr_net::CloseOnFork;
use openuvr_proto::time::Instant;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, shutdown, socket_with,
};
use rustix::process::getuid;

use crate::lock::lock;
use crate::sys::peer_credentials;

/// Maximum bytes of a message per datagram. A datagram must fit into the send buffer, whose default size is far larger
/// (Linux: 208 KiB).
const PIECE: usize = 32 << 10;

/// Requested size of the socket buffers: two key frames of 1080p (guess). The system may grant less.
const BUFFER: usize = 1 << 20;

/// Time without progress after which the peer counts as gone.
const STALLED: Duration = Duration::from_secs(10);

/// Why a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendError {
    /// The send buffer is full.
    Full,
    /// The peer is gone.
    Gone,
}

/// Why no message was received.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    /// The peer is gone, or sent nothing in time.
    #[error("the peer has closed the connection or is too slow")]
    Gone,
    /// The peer is of another build.
    #[error(transparent)]
    Version(#[from] OtherVersion),
    /// A protocol violation.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Splits a message and its payload into datagrams.
fn pieces<'a>(message: &'a [u8], payload: &'a [u8]) -> impl Iterator<Item = [&'a [u8]; 2]> {
    let (mut message, mut payload) = (message, payload);
    std::iter::from_fn(move || {
        let first = message.split_off(..message.len().min(PIECE))?;
        let rest = payload.split_off(..payload.len().min(PIECE - first.len()))?;
        (!first.is_empty() || !rest.is_empty()).then_some([first, rest])
    })
}

/// One end of the connection. Any thread may use it, but only one thread at a time may receive.
pub(super) struct Channel {
    /// Closes the socket in forked children, which might outlive the application.
    _own: CloseOnFork,
    socket: OwnedFd,
    /// The encoded message being sent. The lock keeps the datagrams of two messages apart; the memory is reused.
    sending: Mutex<Vec<u8>>,
    /// Whether the peer's greeting has arrived.
    greeted: AtomicBool,
}

impl Channel {
    /// Wraps a connected socket.
    pub(super) fn new(socket: OwnedFd) -> Channel {
        let _ = set_socket_send_buffer_size(&socket, BUFFER);
        let _ = set_socket_recv_buffer_size(&socket, BUFFER);
        let channel = Channel {
            _own: CloseOnFork::new(&socket),
            socket,
            sending: Mutex::default(),
            greeted: AtomicBool::new(false),
        };
        // The greeting fits, because the buffer is empty. If the peer is gone, the next call reports it.
        let _ = channel.send_piece([&hello::hello(), &[]]);
        channel
    }

    /// Connects to the listener at `path` without blocking. If the listener's backlog is full, for example because the
    /// application is stopped, the application counts as absent.
    pub(super) fn connect(path: &Path) -> rustix::io::Result<Channel> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, kind, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        // Another user's listener would receive PINs.
        let peer = peer_credentials(&socket).map_err(|_| Errno::PERM)?;
        if peer.uid != getuid() {
            return Err(Errno::PERM);
        }
        ioctl_fionbio(&socket, false)?;
        Ok(Channel::new(socket))
    }

    /// Sends a message and its payload. Blocks while the send buffer is full. Returns the number of bytes sent.
    pub(super) fn send<M: Message>(&self, message: &M, payload: &[u8]) -> Result<usize, SendError> {
        let mut buffer = lock(&self.sending);
        if encode(&mut buffer, message, payload.len()).is_err() {
            return self.too_long();
        }
        for piece in pieces(&buffer, payload) {
            while let Err(why) = self.send_piece(piece) {
                if why == SendError::Gone || !self.wait_for(PollFlags::OUT, STALLED) {
                    self.close();
                    return Err(SendError::Gone);
                }
            }
        }
        Ok(buffer.len() + payload.len())
    }

    /// Sends a message without blocking. The message and its payload must fit into one datagram. Must not be used while
    /// another thread calls [`send`](Channel::send) on this channel, because that call may block while it holds the
    /// lock.
    pub(super) fn offer<M: Message>(&self, message: &M, payload: &[u8]) -> Result<(), SendError> {
        let mut buffer = lock(&self.sending);
        if encode(&mut buffer, message, payload.len()).is_err() {
            return self.too_long();
        }
        match buffer.len() + payload.len() <= PIECE {
            true => self.send_piece([&buffer, payload]),
            false => Err(SendError::Full),
        }
    }

    /// Ends the connection, because the peer would refuse a message of this length.
    fn too_long<T>(&self) -> Result<T, SendError> {
        self.close();
        Err(SendError::Gone)
    }

    fn send_piece(&self, piece: [&[u8]; 2]) -> Result<(), SendError> {
        let datagram = piece.map(IoSlice::new);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            let mut nothing = SendAncillaryBuffer::default();
            match sendmsg(&self.socket, &datagram, &mut nothing, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return Err(SendError::Full),
                Err(_) => return Err(SendError::Gone),
            }
        }
    }

    /// Receives the next message and its payload.
    pub(super) fn receive<M: Message>(&self) -> Result<(M, Vec<u8>), ReceiveError> {
        self.message(None)
    }

    /// Receives the next message and its payload, if all of it arrives within `timeout`.
    pub(super) fn receive_within<M: Message>(
        &self,
        timeout: Duration,
    ) -> Result<(M, Vec<u8>), ReceiveError> {
        self.message(Some(clock::now() + timeout))
    }

    fn message<M: Message>(&self, until: Option<Instant>) -> Result<(M, Vec<u8>), ReceiveError> {
        let mut assembler = Assembler::default();
        let mut datagram = Vec::with_capacity(PIECE);
        loop {
            if let Some(until) = until
                && !self.wait_for(PollFlags::IN, until.since(clock::now()))
            {
                return Err(ReceiveError::Gone);
            }
            datagram.clear();
            let room = spare_capacity(&mut datagram);
            match recv(&self.socket, room, RecvFlags::TRUNC) {
                Ok((_, 0)) => return Err(ReceiveError::Gone),
                Ok((_, length)) if length > datagram.len() => {
                    return Err(FrameError::TooLong.into());
                }
                Ok(_) => {}
                // ECONNRESET is reported once if the peer closed with unread data. The messages that it sent can be
                // read afterwards.
                Err(Errno::INTR | Errno::CONNRESET) => continue,
                Err(_) => return Err(ReceiveError::Gone),
            }
            if !self.greeted.swap(true, Ordering::AcqRel) {
                hello::check(&datagram)?;
            } else if let Some(complete) = assembler.add(&datagram)? {
                return Ok(complete);
            }
        }
    }

    /// Waits until the operation `what` is possible. Returns `false` on timeout.
    fn wait_for(&self, what: PollFlags, timeout: Duration) -> bool {
        let mut fds = [PollFd::new(&self.socket, what)];
        let timeout = Timespec::try_from(timeout).ok();
        loop {
            match poll(&mut fds, timeout.as_ref()) {
                Ok(ready) => return ready > 0,
                // A signal interrupted the wait. Other threads handle signals, so wait again.
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Closes the channel for both processes. Blocked calls return.
    pub(super) fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
