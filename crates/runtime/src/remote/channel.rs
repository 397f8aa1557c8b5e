//! A connection between both ends: messages of any length over a SOCK_SEQPACKET socket.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use openuvr_clock as clock;
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

use super::wire::MAX_MESSAGE;
use crate::sys::peer_credentials;

/// Bytes of a message per datagram: far less than the default send buffer (Linux: 208 KiB), into which a
/// datagram must fit.
const PIECE: usize = 32 << 10;

/// Requested socket buffer: two key frames of 1080p (guess). The system may grant less.
const BUFFER: usize = 1 << 20;

/// Time without progress after which the peer counts as gone.
const STALLED: Duration = Duration::from_secs(10);

/// The first byte of each piece: whether another follows.
const LAST: u8 = 0;
const MORE: u8 = 1;

/// Why a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendError {
    /// The send buffer is full.
    Full,
    /// The other end is gone.
    Gone,
}

/// One end. It may be used from any thread; only one at a time receives.
pub(super) struct Channel {
    /// Closes it in forked children, which might outlive the application.
    _own: CloseOnFork,
    socket: OwnedFd,
    /// Keeps the pieces of two messages apart.
    sending: Mutex<()>,
}

impl Channel {
    /// Wraps a connected socket.
    pub(super) fn new(socket: OwnedFd) -> Channel {
        let _ = set_socket_send_buffer_size(&socket, BUFFER);
        let _ = set_socket_recv_buffer_size(&socket, BUFFER);
        Channel {
            _own: CloseOnFork::new(&socket),
            socket,
            sending: Mutex::default(),
        }
    }

    /// Connects to the listener at `path` without blocking: a stopped application does not accept connections
    /// and counts as absent.
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

    /// Sends a message; blocks while the buffer is full.
    pub(super) fn send(&self, message: &[u8]) -> Result<(), SendError> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pieces = message.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            let more = if pieces.peek().is_some() { MORE } else { LAST };
            while let Err(why) = self.send_piece(more, piece) {
                if why == SendError::Gone || !self.wait_for(PollFlags::OUT, STALLED) {
                    self.close();
                    return Err(SendError::Gone);
                }
            }
        }
        Ok(())
    }

    /// Sends a message of one piece without blocking. Not for a channel on which other threads
    /// [`send`](Channel::send), which may block.
    pub(super) fn offer(&self, message: &[u8]) -> Result<(), SendError> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        match message.len() <= PIECE {
            true => self.send_piece(LAST, message),
            false => Err(SendError::Full),
        }
    }

    fn send_piece(&self, more: u8, piece: &[u8]) -> Result<(), SendError> {
        let more = [more];
        let datagram = [IoSlice::new(&more), IoSlice::new(piece)];
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

    /// Receives the next message; `None` if the other end is gone or the message is too long.
    pub(super) fn receive(&self) -> Option<Vec<u8>> {
        self.message(None)
    }

    /// The same, if all of it arrives within `timeout`.
    pub(super) fn receive_within(&self, timeout: Duration) -> Option<Vec<u8>> {
        self.message(Some(clock::now() + timeout))
    }

    fn message(&self, until: Option<Instant>) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        let mut datagram = Vec::with_capacity(1 + PIECE);
        loop {
            if let Some(until) = until
                && !self.wait_for(PollFlags::IN, until.since(clock::now()))
            {
                return None;
            }
            datagram.clear();
            let room = spare_capacity(&mut datagram);
            match recv(&self.socket, room, RecvFlags::TRUNC) {
                Ok((_, length)) if length > datagram.len() => return None,
                Ok(_) => {}
                // ECONNRESET is reported once if the peer closed with unread data; its own messages follow.
                Err(Errno::INTR | Errno::CONNRESET) => continue,
                Err(_) => return None,
            }
            let (more, piece) = datagram.split_first()?;
            message.extend_from_slice(piece);
            match *more {
                LAST => return Some(message),
                MORE if !piece.is_empty() && message.len() <= MAX_MESSAGE => {}
                _ => return None,
            }
        }
    }

    /// Waits until an operation is possible; returns whether it is.
    fn wait_for(&self, what: PollFlags, timeout: Duration) -> bool {
        let mut fds = [PollFd::new(&self.socket, what)];
        let timeout = Timespec::try_from(timeout).ok();
        loop {
            match poll(&mut fds, timeout.as_ref()) {
                Ok(ready) => return ready > 0,
                // Signals are handled by other threads; wait again.
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Closes it for both ends; blocked calls return.
    pub(super) fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
