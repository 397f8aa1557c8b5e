//! The socket to which an application's processes connect. The first process that connects receives the settings and
//! sends messages. When it has ended, the process that connected next receives the settings.
//!
//! A stand-in process of this program may stream until a process of the application connects. The stand-in is then
//! asked to end, and the connected process receives the settings once the stand-in has ended.

use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use openuvr_ipc::frame::{self, Message as _, PREFIX};
use openuvr_ipc::hello;
use openuvr_ipc::notice::Notice;
use openuvr_media::input_sink::pads::seats::SeatSockets;
use openuvr_media::temporary_folder::TemporaryFolder;
use openuvr_proto::input::pad::MAX_PADS;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown,
    SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recv, send, sendmsg,
    shutdown, socket_with,
};
use rustix::process::{Pid, PidfdFlags, getuid, pidfd_open};

use super::LaunchError;
use crate::launch_protocol::{LaunchReport, LaunchSettings};
use crate::sys::peer_credentials;

/// Maximum connected processes, streaming or waiting.
pub(super) const MAX_PROCESSES: usize = 64;

const NAME: &str = "socket";

/// A socket in a folder that is private to this user, and the connected processes. Dropping it removes the socket and
/// the folder.
#[derive(Debug)]
pub struct Socket {
    listener: OwnedFd,
    folder: TemporaryFolder,
    /// The settings, encoded as a frame.
    settings: Vec<u8>,
    /// Pad sockets sent with the settings.
    seats: SeatSockets,
    /// The connected processes, in order of connection. Only the first is sent the settings.
    processes: Vec<Process>,
    was_used: bool,
    /// The stand-in process.
    stand_in: Option<Pid>,
    /// Whether the last accept failed for lack of file descriptors.
    descriptors_exhausted: bool,
    /// Displays into which ended processes had injected input.
    abandoned: Vec<String>,
    /// Whether a process that had received the settings has ended since [`Socket::take_stream_end`] was called.
    stream_ended: bool,
}

/// A connected process: one of the application, or the stand-in.
#[derive(Debug)]
struct Process {
    socket: OwnedFd,
    pid: Pid,
    /// A pidfd, which signals the process's exit even if a child keeps the socket open (Linux 5.3).
    end: Option<OwnedFd>,
    /// Whether its greeting has arrived and names this version.
    greeted: bool,
    notified: bool,
    /// The display into which it injects input.
    injects: Option<String>,
}

impl Socket {
    /// Opens a socket for this user's processes.
    ///
    /// # Errors
    /// Returns an error if the socket or its folder cannot be created.
    pub fn open(settings: &LaunchSettings) -> Result<Socket, LaunchError> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let settings = to_frame(settings)?;
        let folder = own_folder(runtime.as_deref())?;
        let open = || -> rustix::io::Result<OwnedFd> {
            let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let listener = socket_with(family, kind, flags, None)?;
            bind(&listener, &SocketAddrUnix::new(folder.path().join(NAME))?)?;
            listen(&listener, 16)?;
            Ok(listener)
        };
        let listener = open();
        let listener = listener.map_err(|why| {
            let folder = folder.path().display();
            LaunchError::system(format!("can't create a socket in {folder}"))(why.into())
        })?;
        Ok(Socket {
            listener,
            folder,
            settings,
            seats: SeatSockets::default(),
            processes: Vec::new(),
            was_used: false,
            stand_in: None,
            descriptors_exhausted: false,
            abandoned: Vec::new(),
            stream_ended: false,
        })
    }

    /// The folder for files that the application needs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The socket's path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder().join(NAME)
    }

    /// Sets the sockets of the pads that always exist. They are sent with the settings.
    pub(super) fn set_seats(&mut self, seats: SeatSockets) {
        self.seats = seats;
    }

    /// Replaces the settings for later processes.
    ///
    /// # Errors
    /// Returns an error if they cannot be serialised.
    pub fn set_settings(&mut self, settings: &LaunchSettings) -> Result<(), LaunchError> {
        self.settings = to_frame(settings)?;
        Ok(())
    }

    /// Sets the stand-in process, if any.
    pub fn set_stand_in(&mut self, process: Option<Pid>) {
        self.stand_in = process;
    }

    /// Accepts connections, sends the settings to the process whose turn it is, and asks the stand-in to end when a
    /// process of the application is connected. Waits at most `turn` for messages of the streaming process, and returns
    /// them. Call this regularly.
    pub fn reports(&mut self, turn: Duration) -> Vec<LaunchReport> {
        // While accept fails, the listener stays readable, and polling it would return at once. It is therefore not
        // polled, and accept is retried once per call.
        let takes = !self.descriptors_exhausted && self.processes.len() < MAX_PROCESSES;
        let listener = Some(&self.listener).filter(|_| takes);
        let listener = listener.map(|listener| PollFd::new(listener, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = listener.into_iter().collect();
        for process in &self.processes {
            fds.push(PollFd::new(&process.socket, PollFlags::IN));
            fds.extend(
                process
                    .end
                    .as_ref()
                    .map(|end| PollFd::new(end, PollFlags::IN)),
            );
        }
        let turn = Timespec::try_from(turn).ok();
        // After a signal there is nothing to read, and the caller handles the signal.
        let _ = poll(&mut fds, turn.as_ref());
        drop(fds);
        self.accept();
        let mut reports = Vec::new();
        let (abandoned, stream_ended) = (&mut self.abandoned, &mut self.stream_ended);
        self.processes.retain_mut(|process| {
            let connected = process.receive(&mut reports);
            if !connected {
                abandoned.extend(process.injects.take());
                *stream_ended |= process.notified;
            }
            connected
        });
        let has_application = self.has_application();
        if let Some(first) = self.processes.first_mut() {
            let stands_in = Some(first.pid) == self.stand_in;
            if !first.notified && first.greeted {
                // A process that has ended is removed in the next call.
                let _ = send_settings(&first.socket, &self.settings, &self.seats);
                first.notified = true;
                self.was_used |= !stands_in;
            } else if first.notified && stands_in && has_application {
                // Asks the stand-in to end. It is removed after it has closed its socket.
                let _ = shutdown(&first.socket, Shutdown::Write);
            }
        }
        reports
    }

    /// Whether processes of the application are connected.
    fn has_application(&self) -> bool {
        self.processes
            .iter()
            .any(|one| Some(one.pid) != self.stand_in)
    }

    fn accept(&mut self) {
        self.descriptors_exhausted = false;
        while self.processes.len() < MAX_PROCESSES {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(why) => {
                    self.descriptors_exhausted = matches!(why, Errno::MFILE | Errno::NFILE);
                    return;
                }
            };
            // Other users' processes are refused, because the settings may hold a PIN.
            let Ok(peer) = peer_credentials(&socket) else {
                continue;
            };
            // A process without a PID in this process's namespace is also refused, because it cannot be watched.
            if let Some(pid) = peer.pid.filter(|_| peer.uid == getuid()) {
                // A process that has ended is removed in the next call.
                let _ = send(&socket, &hello::hello(), SendFlags::NOSIGNAL);
                self.processes.push(Process {
                    end: pidfd_open(pid, PidfdFlags::empty()).ok(),
                    pid,
                    socket,
                    greeted: false,
                    notified: false,
                    injects: None,
                });
            }
        }
    }

    /// The number of connected processes.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.processes.len()
    }

    /// Whether a process of the application is connected.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.has_application()
    }

    /// Whether there is a host, in a process of the application or in the stand-in.
    #[must_use]
    pub fn is_served(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Whether a process of the application has ever received the settings.
    #[must_use]
    pub fn was_used(&self) -> bool {
        self.was_used
    }

    /// Takes the displays into which processes had injected input before they ended. Only processes that ended since
    /// the last call count.
    pub fn abandoned_displays(&mut self) -> Vec<String> {
        std::mem::take(&mut self.abandoned)
    }

    /// Whether a streaming process has ended since the last call. All of its reports have been returned. The reports of
    /// the next process are returned later, even if it was already waiting.
    pub fn take_stream_end(&mut self) -> bool {
        std::mem::take(&mut self.stream_ended)
    }

    /// The application's streaming process.
    #[must_use]
    pub fn streaming(&self) -> Option<Pid> {
        let first = self.processes.first().map(|first| first.pid);
        first.filter(|pid| Some(*pid) != self.stand_in)
    }
}

fn to_frame(settings: &LaunchSettings) -> Result<Vec<u8>, LaunchError> {
    frame::to_bytes(settings)
        .map_err(|e| LaunchError::Settings(format!("can't serialise the settings: {e}")))
}

/// Sends the settings, with the pad sockets attached (unix(7), `SCM_RIGHTS`).
fn send_settings(
    process: &OwnedFd,
    settings: &[u8],
    seats: &SeatSockets,
) -> rustix::io::Result<()> {
    let sockets: Vec<BorrowedFd<'_>> = seats.0.iter().map(|seat| seat.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_PADS as usize))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    // The buffer has room for the largest number of sockets.
    if !sockets.is_empty() && !with.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(Errno::NOBUFS);
    }
    let parts = [IoSlice::new(settings)];
    sendmsg(process, &parts, &mut with, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Creates a private folder. It is in the runtime folder if that is private to this user, and otherwise in the folder
/// of temporary files.
fn own_folder(runtime: Option<&Path>) -> Result<TemporaryFolder, LaunchError> {
    // The runtime folder must be owned by the user and have access mode 0700 (XDG Base Directory Specification 0.8).
    let is_ours = |folder: &&Path| {
        let meta = fs::symlink_metadata(folder);
        meta.is_ok_and(|meta| {
            let (owner, mode) = (meta.uid(), meta.mode());
            meta.is_dir() && owner == getuid().as_raw() && mode & 0o077 == 0
        })
    };
    let runtime = runtime.filter(is_ours).map(Path::to_owned);
    let runtime = runtime.unwrap_or_else(std::env::temp_dir);
    TemporaryFolder::create(&runtime, "openuvr-run-").map_err(LaunchError::system(format!(
        "can't create a folder in {}",
        runtime.display()
    )))
}

impl Process {
    /// Reads the process's reports. Returns whether the process is still connected. A process of another version is
    /// disconnected, with a notice.
    fn receive(&mut self, reports: &mut Vec<LaunchReport>) -> bool {
        // Checked before reading, so that all messages that the process sent before its exit are read.
        let ended = self.has_ended();
        let mut buffer = vec![0; PREFIX + LaunchReport::MAX_LEN];
        loop {
            let length = match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => return false,
                Ok((_, length)) => length,
                // ECONNRESET is reported once if the process ended without reading the settings. Its messages can be
                // read afterwards.
                Err(Errno::INTR | Errno::CONNRESET) => continue,
                Err(Errno::AGAIN) => return !ended,
                Err(_) => return false,
            };
            let bytes = buffer.get(..length).unwrap_or_default();
            if !self.greeted {
                if let Err(why) = hello::check(bytes) {
                    reports.push(Notice::Warning(why.to_string()).into());
                    return false;
                }
                self.greeted = true;
                continue;
            }
            match frame::from_bytes(bytes) {
                Ok(LaunchReport::InputDisplay(display)) => self.injects = Some(display),
                Ok(report) => reports.push(report),
                // The report is truncated, or the process that sent it was tampered with.
                Err(why) => tracing::debug!("invalid report of the application's host: {why}"),
            }
        }
    }

    fn has_ended(&self) -> bool {
        let Some(end) = &self.end else { return false };
        let mut fds = [PollFd::new(end, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_sockets_folder_is_private_and_unpredictable() {
        let runtime = own_folder(None).unwrap();
        let runtime = runtime.path();
        assert_eq!(runtime.parent(), Some(&*std::env::temp_dir()));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(runtime), 0o700);
        // The runtime folder is used if it is private to this user.
        let [one, other] = [(); 2].map(|()| own_folder(Some(runtime)).unwrap());
        let parents = [&one, &other].map(|folder| folder.path().parent());
        assert_eq!(parents, [Some(runtime); 2]);
        assert_ne!(one.path(), other.path());
        fs::set_permissions(runtime, fs::Permissions::from_mode(0o755)).unwrap();
        let elsewhere = own_folder(Some(runtime)).unwrap();
        assert_eq!(elsewhere.path().parent(), Some(&*std::env::temp_dir()));
        // A symlink is not accepted.
        fs::set_permissions(runtime, fs::Permissions::from_mode(0o700)).unwrap();
        let link = elsewhere.path().join("link");
        std::os::unix::fs::symlink(runtime, &link).unwrap();
        let beside = own_folder(Some(&link)).unwrap();
        assert_eq!(beside.path().parent(), Some(&*std::env::temp_dir()));
    }
}
