//! Where processes of an application ask what to do: the first that shows a picture gets the order, and
//! then says what happens; the next one gets it when that is gone.
//!
//! A process of this program's may stand in for them until the first comes: it is told to end then, and the other gets
//! the order when it is gone.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use openuvr_media::input_sink::pads::seats::SeatSockets;
use openuvr_proto::input::pad::MAX_PADS;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown,
    SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recv, sendmsg, shutdown,
    socket_with,
};
use rustix::process::{Pid, PidfdFlags, getuid, pidfd_open};

use super::LaunchError;
use crate::line::{LaunchSettings, Line};
use crate::sys::peer_credentials;

/// Processes that may wait in line, streaming or to be.
pub(super) const MAX_PROCESSES: usize = 64;

const NAME: &str = "socket";

/// A socket with a name in a folder of this user alone, and the processes that came to it. Both the
/// socket and its folder go when it is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: OwnedFd,
    /// Of this user alone; gone with the socket.
    folder: PathBuf,
    settings: String,
    /// What goes with the order.
    seats: SeatSockets,
    /// The first has the order.
    processes: Vec<Process>,
    was_used: bool,
    /// The process that stands in for the application's.
    stand_in: Option<Pid>,
    /// The last process that came could not be let in for that.
    descriptors_exhausted: bool,
    /// The displays into which processes injected input that have ended.
    abandoned: Vec<String>,
}

/// A process of the application.
#[derive(Debug)]
struct Process {
    socket: OwnedFd,
    pid: Pid,
    /// Tells its end also where a child of it still has the socket; Linux 5.3.
    end: Option<OwnedFd>,
    notified: bool,
    /// The display into which it injects input.
    injects: Option<String>,
}

impl Socket {
    /// Opens one for this user's processes.
    ///
    /// # Errors
    /// No socket can be made in the folder for such things.
    pub fn open(settings: &LaunchSettings) -> Result<Socket, LaunchError> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let settings = settings.text().map_err(LaunchError::Settings)?;
        let folder = own_folder(runtime.as_deref())?;
        let open = || -> rustix::io::Result<OwnedFd> {
            let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let listener = socket_with(family, kind, flags, None)?;
            bind(&listener, &SocketAddrUnix::new(folder.join(NAME))?)?;
            listen(&listener, 16)?;
            Ok(listener)
        };
        let listener = open();
        let listener = listener.map_err(|why| {
            LaunchError::system(format!("no socket in {}", folder.display()))(why.into())
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
        })
    }

    /// Where what the application needs to find us may lie.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The socket's name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// Whoever gets the order gets these as well: the pads that the application sees already.
    pub(super) fn set_seats(&mut self, seats: SeatSockets) {
        self.seats = seats;
    }

    /// From now on it is this order that processes get.
    ///
    /// # Errors
    /// It can't be written down.
    pub fn set_settings(&mut self, settings: &LaunchSettings) -> Result<(), LaunchError> {
        self.settings = settings.text().map_err(LaunchError::Settings)?;
        Ok(())
    }

    /// This process of ours stands in for those of the application, or none any more.
    pub fn set_stand_in(&mut self, process: Option<Pid>) {
        self.stand_in = process;
    }

    /// Waits for news, at most `turn`: what the streaming process has said.
    pub fn lines(&mut self, turn: Duration) -> Vec<Line> {
        // The listener stays readable for a process that can't be let in: it is looked at each turn, not at once.
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
        // Interrupted by a signal, there is nothing to read, and the caller looks at the signal.
        let _ = poll(&mut fds, turn.as_ref());
        drop(fds);
        self.accept();
        let mut lines = Vec::new();
        let abandoned = &mut self.abandoned;
        self.processes.retain_mut(|process| {
            let goes_on = process.receive(&mut lines);
            if !goes_on {
                abandoned.extend(process.injects.take());
            }
            goes_on
        });
        let has_application = self.has_application();
        if let Some(first) = self.processes.first_mut() {
            let stands_in = Some(first.pid) == self.stand_in;
            if !first.notified {
                // One that is gone by now says so at the next turn.
                let _ = send_settings(&first.socket, &self.settings, &self.seats);
                first.notified = true;
                self.was_used |= !stands_in;
            } else if stands_in && has_application {
                // Over for it; it is gone when it has closed its end.
                let _ = shutdown(&first.socket, Shutdown::Write);
            }
        }
        lines
    }

    /// Whether processes of the application are in line.
    fn has_application(&self) -> bool {
        self.processes.iter().any(|one| Some(one.pid) != self.stand_in)
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
            // The order may hold a PIN.
            let Ok(peer) = peer_credentials(&socket) else {
                continue;
            };
            // One that is not seen from here could not be watched.
            if let Some(pid) = peer.pid.filter(|_| peer.uid == getuid()) {
                self.processes.push(Process {
                    end: pidfd_open(pid, PidfdFlags::empty()).ok(),
                    pid,
                    socket,
                    notified: false,
                    injects: None,
                });
            }
        }
    }

    /// How many processes stream or want to.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.processes.len()
    }

    /// Whether a process of the application streams or wants to.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.has_application()
    }

    /// Whether there is a host: in a process of the application, or in the one that stands in.
    #[must_use]
    pub fn is_served(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Whether a process of the application ever has streamed or wanted to.
    #[must_use]
    pub fn was_used(&self) -> bool {
        self.was_used
    }

    /// The displays into which processes injected input that have ended since it was last asked.
    pub fn abandoned_displays(&mut self) -> Vec<String> {
        std::mem::take(&mut self.abandoned)
    }

    /// The process of the application that streams.
    #[must_use]
    pub fn streaming(&self) -> Option<Pid> {
        let first = self.processes.first().map(|first| first.pid);
        first.filter(|pid| Some(*pid) != self.stand_in)
    }
}

/// Sends the order, with its sockets beside it (unix(7), `SCM_RIGHTS`).
fn send_settings(process: &OwnedFd, settings: &str, seats: &SeatSockets) -> rustix::io::Result<()> {
    let sockets: Vec<BorrowedFd<'_>> = seats.0.iter().map(|seat| seat.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_PADS as usize))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    // More than there is room for are never made.
    if !sockets.is_empty() && !with.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(Errno::NOBUFS);
    }
    let parts = [IoSlice::new(settings.as_bytes())];
    sendmsg(process, &parts, &mut with, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Makes a folder of this user alone in the folder for such things, or where there is none, which is
/// only this user's, in that for temporary files. There everybody may make files, so it has a name
/// that nobody knows before, and must not have been there.
fn own_folder(runtime: Option<&Path>) -> Result<PathBuf, LaunchError> {
    // XDG Base Directory Specification 0.8: owned by the user, with access mode 0700.
    let is_ours = |folder: &&Path| {
        let meta = fs::symlink_metadata(folder);
        meta.is_ok_and(|meta| {
            let (owner, mode) = (meta.uid(), meta.mode());
            meta.is_dir() && owner == getuid().as_raw() && mode & 0o077 == 0
        })
    };
    let runtime = runtime.filter(is_ours).map(Path::to_owned);
    let runtime = runtime.unwrap_or_else(std::env::temp_dir);
    // Its keys are the system's random numbers.
    let random = RandomState::new().hash_one(std::process::id());
    let name = format!("openuvr-run-{random:016x}");
    let folder = runtime.join(name);
    let made = fs::DirBuilder::new().mode(0o700).create(&folder);
    made.map_err(LaunchError::system(format!(
        "can't make the folder {}",
        folder.display()
    )))?;
    Ok(folder)
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Process {
    /// Reads all that it has said; whether it is still there.
    fn receive(&mut self, lines: &mut Vec<Line>) -> bool {
        // Before its last words are read: what it said before its end is there then.
        let ended = self.has_ended();
        let mut text = vec![0; Line::MAX_LEN];
        loop {
            match recv(&self.socket, &mut text[..], RecvFlags::empty()) {
                Ok((_, 0)) => return false,
                Ok((_, length)) => {
                    let line = text
                        .get(..length)
                        .and_then(|text| std::str::from_utf8(text).ok());
                    match line.and_then(Line::read) {
                        Some(Line::InputDisplay(display)) => self.injects = Some(display),
                        line => lines.extend(line),
                    }
                }
                // Told once where it ended with our words unread; its own come after that.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(Errno::AGAIN) => return !ended,
                Err(_) => return false,
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
    fn the_sockets_folder_is_this_users_and_not_to_be_guessed() {
        let runtime = own_folder(None).unwrap();
        assert_eq!(runtime.parent(), Some(&*std::env::temp_dir()));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&runtime), 0o700);
        // A folder for such things is used if nobody else can get in.
        let [one, other] = [(); 2].map(|()| own_folder(Some(&runtime)).unwrap());
        assert_eq!(
            (one.parent(), other.parent()),
            (Some(&*runtime), Some(&*runtime))
        );
        assert_ne!(one, other);
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        let elsewhere = own_folder(Some(&runtime)).unwrap();
        assert_eq!(elsewhere.parent(), Some(&*std::env::temp_dir()));
        // Nor is one that is only a name for somebody else's.
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
        let link = elsewhere.join("link");
        std::os::unix::fs::symlink(&runtime, &link).unwrap();
        let beside = own_folder(Some(&link)).unwrap();
        assert_eq!(beside.parent(), Some(&*std::env::temp_dir()));
        for folder in [runtime, elsewhere, beside] {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}
