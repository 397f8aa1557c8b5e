//! The program that started this application, from within: what it wants, and what it is told. The other end
//! is `crate::launch`.
//!
//! It prints nothing and starts no thread. A child that the application forks does not have the socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use openuvr_media::capture::Waker;
use openuvr_net::NotForked;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

use crate::line::{Line, Order, SOCKET};

/// The socket of who started this application.
pub struct Launcher {
    /// A child that goes on when the application has ended would keep it open otherwise.
    _own: NotForked,
    socket: OwnedFd,
}

/// What a wait ended for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// Something is new: the waker was used, or an order may be there.
    News,
    /// The other end is gone.
    Over,
}

impl Launcher {
    /// Connects as the environment says ([`SOCKET`]).
    ///
    /// # Errors
    /// One line: nobody listens there.
    pub fn connect() -> Result<Launcher, String> {
        let path = std::env::var_os(SOCKET).unwrap_or_default();
        let kind = (
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
        );
        let socket = socket_with(kind.0, kind.1, kind.2, None).map_err(failed)?;
        let address = SocketAddrUnix::new(&path).map_err(failed)?;
        connect(&socket, &address).map_err(failed)?;
        Ok(Launcher {
            _own: NotForked::new(&socket),
            socket,
        })
    }

    /// What to do, if it was said: once, and to one process of an application at a time.
    ///
    /// # Errors
    /// One line: it is not understood, or the socket broke.
    pub fn order(&self) -> Result<Option<Order>, String> {
        let mut text = vec![0; Order::LONGEST];
        match recv(&self.socket, &mut text[..], RecvFlags::DONTWAIT) {
            // It has ended, which the next wait says.
            Ok((_, 0)) => Ok(None),
            Ok((_, length)) => Order::read(&text[..length]).map(Some),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(e) => Err(failed(e)),
        }
    }

    /// Waits until `waker` is used, or the other end says something or is gone.
    pub fn wait(&self, waker: &Waker) -> Woken {
        let mut fds = [
            PollFd::new(&waker.0, PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN),
        ];
        // Interrupted, it is asked again.
        let _ = poll(&mut fds, None);
        let over = fds[1].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let _ = rustix::io::read(&waker.0, &mut [0u8; 8]);
        match over {
            true => Woken::Over,
            false => Woken::News,
        }
    }

    /// Tells the other end, if it listens: a line for which there is no room is lost.
    pub fn say(&self, line: &Line) {
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
