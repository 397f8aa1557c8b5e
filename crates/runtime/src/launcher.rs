//! The program that started this application, from within: what it wants, and what it is told. The other end
//! is `crate::launch`.
//!
//! It prints nothing and starts no thread. A child that the application forks does not have the socket.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use openuvr_media::capture::Waker;
use openuvr_media::input_sink::pads::seats::SeatSockets;
use openuvr_net::NotForked;
use openuvr_proto::input::pad::MAX_PADS;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};

use crate::clock;
use crate::line::{LaunchSettings, Line, SOCKET};
use crate::remote;

/// The socket of who started this application.
pub struct Launcher {
    /// A child that goes on when the application has ended would keep it open otherwise.
    _own: NotForked,
    socket: OwnedFd,
    /// Where its gateways look for the host.
    gateway: Option<PathBuf>,
}

/// What a wait ended for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeReason {
    /// Something is new: the waker was used, or an order may be there.
    Event,
    /// The other end is gone.
    Disconnected,
}

impl Launcher {
    /// Connects as the environment says ([`SOCKET`]).
    ///
    /// # Errors
    /// One line: nobody listens there.
    pub fn connect() -> Result<Launcher, String> {
        let path = std::env::var_os(SOCKET).unwrap_or_default();
        Launcher::connect_to(Path::new(&path))
    }

    /// Connects to the socket of this name.
    ///
    /// # Errors
    /// One line: nobody listens there.
    pub fn connect_to(path: &Path) -> Result<Launcher, String> {
        let kind = (
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
        );
        let socket = socket_with(kind.0, kind.1, kind.2, None).map_err(failed)?;
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        connect(&socket, &address).map_err(failed)?;
        Ok(Launcher {
            _own: NotForked::new(&socket),
            socket,
            gateway: path.parent().map(|folder| folder.join(remote::NAME)),
        })
    }

    /// What to do, if it was said: once, and to one process of an application at a time. With it come the sockets of
    /// pads that are there already.
    ///
    /// # Errors
    /// One line: it is not understood, or the socket broke.
    pub fn settings(&self) -> Result<Option<LaunchSettings>, String> {
        let mut text = vec![0; LaunchSettings::MAX_LEN];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_PADS as usize))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(&mut text)];
        let length = match recvmsg(&self.socket, &mut parts, &mut with, flags) {
            // It has ended, which the next wait says.
            Ok(received) if received.bytes == 0 => return Ok(None),
            Ok(received) => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let mut sockets = Vec::new();
        for message in with.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                sockets.extend(received.map(Arc::new));
            }
        }
        let mut settings = LaunchSettings::read(text.get(..length).unwrap_or_default())?;
        settings.host.seats = SeatSockets(sockets);
        settings.host.gateway = self.gateway.clone().filter(|_| settings.gateways);
        Ok(Some(settings))
    }

    /// Waits for what to do, at most so long; `None` if it is not said, or the other end is gone.
    ///
    /// # Errors
    /// As [`settings`](Launcher::order).
    pub fn settings_within(&self, span: Duration) -> Result<Option<LaunchSettings>, String> {
        let until = clock::now() + span;
        loop {
            let left = until.since(clock::now());
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            let turn = Timespec::try_from(left).ok();
            // Interrupted, it is asked again.
            let _ = poll(&mut fds, turn.as_ref());
            let over = fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
            let settings = self.settings()?;
            if settings.is_some() || over || left.is_zero() {
                return Ok(settings);
            }
        }
    }

    /// Waits until `waker` is used, or the other end says something or is gone.
    pub fn wait(&self, waker: &Waker) -> WakeReason {
        let mut fds = [
            PollFd::new(&waker.0, PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN),
        ];
        // Interrupted, it is asked again.
        let _ = poll(&mut fds, None);
        let over = fds[1].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let _ = rustix::io::read(&waker.0, &mut [0u8; 8]);
        match over {
            true => WakeReason::Disconnected,
            false => WakeReason::Event,
        }
    }

    /// Tells the other end, if it listens: a line for which there is no room is lost.
    pub fn send(&self, line: &Line) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = send(self.socket.as_fd(), line.text().as_bytes(), flags);
    }
}

impl AsFd for Launcher {
    /// To wait for beside others; it hangs up when the other end is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn failed(e: Errno) -> String {
    format!("openuvr can't be reached: {e}")
}
