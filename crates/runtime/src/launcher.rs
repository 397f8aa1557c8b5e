//! The application's connection to the program that started it, which uses `crate::launch`.
//!
//! The module prints nothing and starts no thread. Forked children do not inherit the socket.

use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_ipc::frame::{self, Message as _, PREFIX};
use openuvr_ipc::hello;
use openuvr_ipc::notice::Notice;
use openuvr_media::capture::Waker;
use openuvr_media::input_sink::pads::seats::SeatSockets;
use openuvr_net::CloseOnFork;
use openuvr_proto::input::pad::MAX_PADS;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use rustix::process::{Pid, getpid, getppid};

use crate::launch_protocol::{LaunchReport, LaunchSettings, SOCKET};
use crate::remote;
use crate::sys::peer_credentials;

/// The connection to the launcher of this application.
pub struct Launcher {
    /// Closes the socket in forked children, which might outlive the application.
    _own: CloseOnFork,
    socket: OwnedFd,
    /// Whether the launcher's greeting has arrived.
    greeted: AtomicBool,
    /// Number of lost reports, to be sent to the launcher.
    lost: AtomicU64,
    /// The socket path at which the launcher's gateways look for the host.
    gateway: Option<PathBuf>,
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeReason {
    /// The waker was used, or settings may have arrived.
    Event,
    /// The launcher has closed the connection.
    Disconnected,
}

impl Launcher {
    /// Connects to the socket named by the environment ([`SOCKET`]).
    ///
    /// # Errors
    /// Returns one line if there is no listener.
    pub fn connect() -> Result<Launcher, String> {
        let path = std::env::var_os(SOCKET).unwrap_or_default();
        Launcher::connect_to(Path::new(&path))
    }

    /// Connects to the socket at this path.
    ///
    /// # Errors
    /// Returns one line if there is no listener.
    pub fn connect_to(path: &Path) -> Result<Launcher, String> {
        let kind = (
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
        );
        let socket = socket_with(kind.0, kind.1, kind.2, None).map_err(failed)?;
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        connect(&socket, &address).map_err(failed)?;
        // The greeting is lost only if the launcher has just ended.
        let _ = send(
            &socket,
            &hello::hello(),
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        );
        Ok(Launcher {
            _own: CloseOnFork::new(&socket),
            socket,
            greeted: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            gateway: path.parent().map(|folder| folder.join(remote::NAME)),
        })
    }

    /// Receives the settings, if they have been sent. A launcher sends them to each process at most once, and never to
    /// two processes of an application at the same time. The sockets of the pads that always exist are attached.
    ///
    /// # Errors
    /// Returns one line if the launcher has another version or the socket fails.
    pub fn settings(&self) -> Result<Option<LaunchSettings>, String> {
        let mut bytes = vec![0; PREFIX + LaunchSettings::MAX_LEN];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_PADS as usize))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let length = match recvmsg(&self.socket, &mut parts, &mut with, flags) {
            // Disconnected; the next wait reports it.
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
        let bytes = bytes.get(..length).unwrap_or_default();
        if !self.greeted.swap(true, Ordering::AcqRel) {
            hello::check(bytes).map_err(|e| e.to_string())?;
            return self.settings();
        }
        let settings = frame::from_bytes::<LaunchSettings>(bytes);
        let mut settings = settings.map_err(|e| format!("can't read the settings: {e}"))?;
        settings.host.seats = SeatSockets(sockets);
        settings.host.gateway = self.gateway.clone().filter(|_| settings.gateways);
        Ok(Some(settings))
    }

    /// Waits for the settings, for `span` at most. Returns `None` on timeout or if the launcher has disconnected.
    ///
    /// # Errors
    /// As [`settings`](Launcher::settings).
    pub fn settings_within(&self, span: Duration) -> Result<Option<LaunchSettings>, String> {
        let until = clock::now() + span;
        loop {
            let left = until.since(clock::now());
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            let turn = Timespec::try_from(left).ok();
            // Ignore an error: after a signal, the loop checks again.
            let _ = poll(&mut fds, turn.as_ref());
            let over = fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
            let settings = self.settings()?;
            if settings.is_some() || over || left.is_zero() {
                return Ok(settings);
            }
        }
    }

    /// Waits until `waker` is used, or the launcher sends something or disconnects.
    pub fn wait(&self, waker: &Waker) -> WakeReason {
        let mut fds = [
            PollFd::new(&waker.0, PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN),
        ];
        // Ignore an error: after a signal, the caller checks again.
        let _ = poll(&mut fds, None);
        let over = fds[1].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let _ = rustix::io::read(&waker.0, &mut [0u8; 8]);
        match over {
            true => WakeReason::Disconnected,
            false => WakeReason::Event,
        }
    }

    /// Whether the application ends with this process: the process is the launcher's only child, and has no children.
    /// The launcher inherits the application's orphans. `false` if the launcher is not the parent, as behind a shell,
    /// which may start another process.
    #[must_use]
    pub fn is_last_process(&self) -> bool {
        let peer = peer_credentials(&self.socket).ok();
        let launcher = peer.and_then(|peer| peer.pid);
        let Some(launcher) = launcher.filter(|pid| getppid() == Some(*pid)) else {
            return false;
        };
        children_of(launcher) == [getpid()] && children_of(getpid()).is_empty()
    }

    /// Sends a report to the launcher. The report is lost if the send buffer is full. The number of lost reports is
    /// sent before the next report.
    pub fn send(&self, report: &LaunchReport) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let told = lost == 0 || self.offer(&Notice::Lost(lost).into());
        let unknown = if told { 0 } else { lost };
        let lost = unknown + u64::from(!(told && self.offer(report)));
        self.lost.fetch_add(lost, Ordering::Relaxed);
    }

    /// Sends a report if the send buffer has room. Returns whether it was sent.
    fn offer(&self, report: &LaunchReport) -> bool {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let bytes = encoded(report);
        bytes.is_some_and(|bytes| send(self.socket.as_fd(), &bytes, flags).is_ok())
    }
}

/// If a report is too long, its text is truncated to this many bytes.
const MAX_TEXT: usize = LaunchReport::MAX_LEN / 2;

/// Encodes a report. If it is too long, its text is truncated. `None` if it is too long for another reason.
fn encoded(report: &LaunchReport) -> Option<Vec<u8>> {
    if let Ok(bytes) = frame::to_bytes(report) {
        return Some(bytes);
    }
    let mut shorter = report.clone();
    let LaunchReport::Notice(notice) = &mut shorter else {
        return None;
    };
    let text = match notice {
        Notice::Failed(text)
        | Notice::Warning(text)
        | Notice::Pairing(text)
        | Notice::Clipboard(text)
        | Notice::Sound(text) => text,
        Notice::SourceEnded(why) => why.to_mut(),
        _ => return None,
    };
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    frame::to_bytes(&shorter).ok()
}

impl AsFd for Launcher {
    /// The socket, for polling. It reports a hang-up when the launcher disconnects.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The children of a process, including zombies (proc(5), `/proc/PID/task/TID/children`). A child belongs to the thread
/// that started or inherited it.
pub(crate) fn children_of(process: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    let threads = threads.into_iter().flatten();
    let lists = threads
        .flatten()
        .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let lists: Vec<String> = lists.collect();
    let words = lists.iter().flat_map(|list| list.split_whitespace());
    words
        .filter_map(|word| word.parse().ok().and_then(Pid::from_raw))
        .collect()
}

fn failed(e: Errno) -> String {
    format!("can't reach openuvr: {e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_truncated() {
        let long = "é".repeat(LaunchReport::MAX_LEN);
        let sent = |notice: Notice| {
            let bytes = encoded(&notice.into()).expect("a shorter report");
            frame::from_bytes::<LaunchReport>(&bytes).expect("a report")
        };
        let kept = "é".repeat(MAX_TEXT / 2);
        let failed = LaunchReport::from(Notice::Failed(kept.clone()));
        assert_eq!(sent(Notice::Failed(long.clone())), failed);
        let ended = LaunchReport::from(Notice::SourceEnded(kept.into()));
        assert_eq!(sent(Notice::SourceEnded(long.into())), ended);
        let short = Notice::Warning("short".into());
        assert_eq!(sent(short.clone()), LaunchReport::from(short));
    }
}
