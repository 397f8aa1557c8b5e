//! A connection between both ends: messages of any length by a socket that keeps them apart, in datagrams.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use openuvr_net::NotForked;
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
use crate::clock;
use crate::sys::peer_credentials;

/// Bytes of a message in one datagram: far less than the smallest send buffer that systems give (Linux: 208 KiB),
/// which a datagram has to fit into.
const PIECE: usize = 32 << 10;

/// What may be on its way: two key frames of 1080p (guess). The system gives what it may.
const BUFFER: usize = 1 << 20;

/// Who takes nothing for so long is gone.
const STALLED: Duration = Duration::from_secs(10);

/// In front of each piece: whether another follows.
const LAST: u8 = 0;
const MORE: u8 = 1;

/// Why a message did not leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendError {
    /// There is no room now.
    Full,
    /// The other end is gone.
    Gone,
}

/// One end. It may be used from any thread; one at a time receives.
pub(super) struct Channel {
    /// A child that goes on when the application has ended would keep it open otherwise.
    _own: NotForked,
    socket: OwnedFd,
    /// So that the pieces of two messages don't mix.
    sending: Mutex<()>,
}

impl Channel {
    /// An end that is connected.
    pub(super) fn new(socket: OwnedFd) -> Channel {
        let _ = set_socket_send_buffer_size(&socket, BUFFER);
        let _ = set_socket_recv_buffer_size(&socket, BUFFER);
        Channel {
            _own: NotForked::new(&socket),
            socket,
            sending: Mutex::default(),
        }
    }

    /// Connects to who listens at `path`. Waits for nobody: an application that is stopped takes no connections, and
    /// is not there.
    pub(super) fn connect(path: &Path) -> rustix::io::Result<Channel> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, kind, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        // Whoever else listens there would hear PINs.
        let peer = peer_credentials(&socket).map_err(|_| Errno::PERM)?;
        if peer.uid != getuid() {
            return Err(Errno::PERM);
        }
        ioctl_fionbio(&socket, false)?;
        Ok(Channel::new(socket))
    }

    /// Sends a message, and waits for room if there is none.
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

    /// Sends a message of one piece, if there is room now. Not where others [`send`](Channel::send), who may wait.
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

    /// The next message; `None` when the other end is gone, or says something that is too long.
    pub(super) fn receive(&self) -> Option<Vec<u8>> {
        self.message(None)
    }

    /// The same, if all of it comes within `timeout`.
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
                // The latter once where the other end went with words of ours unread; its own come after that.
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

    /// Waits until something is possible; whether it is.
    fn wait_for(&self, what: PollFlags, timeout: Duration) -> bool {
        let mut fds = [PollFd::new(&self.socket, what)];
        let timeout = Timespec::try_from(timeout).ok();
        loop {
            match poll(&mut fds, timeout.as_ref()) {
                Ok(ready) => return ready > 0,
                // Signals go to the application's threads; one here waits a little longer.
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Ends it for both ends; who waits in it returns.
    pub(super) fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
