//! An X11 display number, and its listening sockets. They are reserved before the server runs. The server inherits the
//! sockets when the first application connects.
//!
//! As X servers do, this module creates a lock file with the owner's process id, a socket in the file system, and an
//! abstract socket with the same name. The kernel frees the abstract name when the owner ends, so this name also
//! indicates which numbers are free.
//!
//! Spec: Xserver(1), "Network connections"; `LockServer` of the X server's `os/utils.c` for the file's layout.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Pid, test_kill_process};

/// The folder of the sockets, which all X11 programs use.
const FOLDER: &str = "/tmp/.X11-unix";

/// The numbers that are tried: far more than there are displays on one machine.
const NUMBERS: std::ops::Range<u32> = 0..1000;

/// A reserved number with its sockets. Dropping this frees the number.
#[derive(Debug)]
pub(crate) struct X11Sockets {
    number: u32,
    lock: PathBuf,
    file: PathBuf,
    in_folder: UnixListener,
    is_abstract: UnixListener,
}

impl X11Sockets {
    /// Reserves the lowest free number.
    ///
    /// # Errors
    /// Returns an error if the folder or the files in it cannot be written.
    pub(crate) fn take() -> io::Result<X11Sockets> {
        make_folder()?;
        for number in NUMBERS {
            if let Some(taken) = X11Sockets::take_number(number)? {
                return Ok(taken);
            }
        }
        Err(io::Error::other("all X11 display numbers are taken"))
    }

    /// Reserves one number; `None` if it is in use.
    fn take_number(number: u32) -> io::Result<Option<X11Sockets>> {
        let file = Path::new(FOLDER).join(format!("X{number}"));
        let name = SocketAddr::from_abstract_name(file.as_os_str().as_encoded_bytes())?;
        let is_abstract = match UnixListener::bind_addr(&name) {
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            bound => bound?,
        };
        let lock = PathBuf::from(format!("/tmp/.X{number}-lock"));
        if !take_lock(&lock)? {
            return Ok(None);
        }
        // A server that was killed may have left this file.
        let bound = match fs::remove_file(&file) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
            _ => UnixListener::bind(&file),
        };
        let in_folder = match bound {
            Ok(in_folder) => in_folder,
            Err(_) => {
                // The socket exists, although there was no lock file: it belongs to another user. The caller tries
                // another number.
                let _ = fs::remove_file(&lock);
                return Ok(None);
            }
        };
        let taken = X11Sockets {
            number,
            lock,
            file,
            in_folder,
            is_abstract,
        };
        taken.in_folder.set_nonblocking(true)?;
        taken.is_abstract.set_nonblocking(true)?;
        Ok(Some(taken))
    }

    /// The display's name, such as `:7`.
    pub(crate) fn name(&self) -> String {
        format!(":{}", self.number)
    }

    /// The listening sockets.
    pub(crate) fn listening(&self) -> [BorrowedFd<'_>; 2] {
        [self.in_folder.as_fd(), self.is_abstract.as_fd()]
    }

    /// Closes all connections that no server has accepted.
    pub(crate) fn refuse(&self) {
        for socket in self.listening() {
            while accept_with(socket, SocketFlags::CLOEXEC).is_ok() {}
        }
    }
}

impl Drop for X11Sockets {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
        let _ = fs::remove_file(&self.lock);
    }
}

/// Creates the folder, for all users, if there is none.
fn make_folder() -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o1777).create(FOLDER) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Unlike the mode at creation, this mode is not reduced by the process's umask.
        made => made.and_then(|()| fs::set_permissions(FOLDER, fs::Permissions::from_mode(0o1777))),
    }
}

/// Writes the lock file. Returns `false` if a running process owns it.
fn take_lock(lock: &Path) -> io::Result<bool> {
    for _ in 0..2 {
        match fs::File::create_new(lock) {
            Ok(mut file) => {
                let id = std::process::id();
                let written = file.write_all(format!("{id:>10}\n").as_bytes());
                if written.is_err() {
                    // The file names no owner, so other programs would treat the number as taken.
                    let _ = fs::remove_file(lock);
                }
                return written.map(|()| true);
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(why),
        }
        let owner = fs::read_to_string(lock).unwrap_or_default();
        let owner = owner.trim().parse().ok().and_then(Pid::from_raw);
        let has_ended = |owner| test_kill_process(owner) == Err(rustix::io::Errno::SRCH);
        if !owner.is_some_and(has_ended) || fs::remove_file(lock).is_err() {
            return Ok(false);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn numbers_differ_and_are_free_again() {
        let [one, other] = [(); 2].map(|()| X11Sockets::take().unwrap());
        assert_ne!(one.number, other.number);
        let (file, lock) = (one.file.clone(), one.lock.clone());
        UnixStream::connect(&file).unwrap();
        let name = SocketAddr::from_abstract_name(file.as_os_str().as_encoded_bytes()).unwrap();
        UnixStream::connect_addr(&name).unwrap();
        let owner = fs::read_to_string(&lock).unwrap();
        assert_eq!(owner.trim(), std::process::id().to_string());
        assert_eq!(owner.len(), 11);
        assert!(X11Sockets::take_number(one.number).unwrap().is_none());
        drop(one);
        assert!(!file.exists() && !lock.exists());
        assert!(UnixStream::connect_addr(&name).is_err());
    }

    #[test]
    fn refused_applications_read_the_end_and_others_can_connect() {
        let sockets = X11Sockets::take().unwrap();
        let name = sockets.file.as_os_str().as_encoded_bytes();
        let name = SocketAddr::from_abstract_name(name).unwrap();
        for _ in 0..2 {
            let mut waiting = Vec::new();
            for _ in 0..2 {
                waiting.push(UnixStream::connect(&sockets.file).unwrap());
                waiting.push(UnixStream::connect_addr(&name).unwrap());
            }
            sockets.refuse();
            for mut stream in waiting {
                let limit = Duration::from_secs(20);
                stream.set_read_timeout(Some(limit)).unwrap();
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            }
        }
    }

    #[test]
    fn a_lock_of_an_ended_process_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        fs::write(&lock, format!("{:>10}\n", child.id())).unwrap();
        assert!(take_lock(&lock).unwrap());
        assert!(!take_lock(&lock).unwrap(), "this process runs");
        fs::write(&lock, "odd\n").unwrap();
        assert!(!take_lock(&lock).unwrap(), "unknown owners stay");
    }
}
