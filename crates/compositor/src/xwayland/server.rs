//! A running Xwayland: its command, its connections to the display, and its end.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use openuvr_xserver::Authority;
use rustix::net::sockopt::{set_socket_send_buffer_size, set_socket_send_buffer_size_force};
use rustix::pipe::{PipeFlags, pipe_with};

use super::sockets::X11Sockets;
use super::sys;

/// The server's program.
pub(crate) const PROGRAM: &str = "Xwayland";

/// A running server. On drop it is killed. The sockets and the lock file belong to `X11Sockets`.
#[derive(Debug)]
pub(crate) struct Xwayland {
    child: Child,
}

/// The size of the server's send buffer in bytes. The server ends when this buffer is full (libwayland 1.21:
/// "request could not be marshaled"). Each message with a descriptor takes about 1 KiB. If a program opens windows as
/// fast as it can, the default of 208 KiB is full after a tenth of a second, and a busy machine can stop the compositor
/// for longer than that.
const SEND_BUFFER: usize = 8 << 20;

/// The compositor's sockets for the connections to a server.
pub(crate) struct Connections {
    /// The connection of the server as a client of the Wayland display.
    pub(crate) wayland: UnixStream,
    /// The connection of the server's window manager.
    pub(crate) window_manager: UnixStream,
    /// Readable when the server is ready or has ended.
    pub(crate) ready: OwnedFd,
}

impl Xwayland {
    /// Starts a server on the listening sockets. The server becomes ready only after it has received answers from the
    /// Wayland display.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started or no descriptor is left.
    pub(crate) fn start(
        sockets: &X11Sockets,
        authority: &Authority,
    ) -> io::Result<(Xwayland, Connections)> {
        let (wayland, its_wayland) = UnixStream::pair()?;
        // Without a privilege, the kernel limits the size. An error is ignored: a smaller buffer only fills sooner.
        let _ = set_socket_send_buffer_size_force(&its_wayland, SEND_BUFFER)
            .or_else(|_| set_socket_send_buffer_size(&its_wayland, SEND_BUFFER));
        let (window_manager, its_window_manager) = UnixStream::pair()?;
        let (ready, its_ready) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut command = Command::new(PROGRAM);
        command
            .arg(sockets.name())
            .args(["-rootless", "-noreset", "-nolisten", "tcp", "-auth"])
            .arg(authority.file())
            .args(["-wm", &its_window_manager.as_raw_fd().to_string()])
            .args(["-displayfd", &its_ready.as_raw_fd().to_string()])
            .env("WAYLAND_SOCKET", its_wayland.as_raw_fd().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // The server has its own process group, so that a Ctrl-C for the host does not end it.
            .process_group(0);
        let mut inherited = vec![
            its_wayland.as_raw_fd(),
            its_window_manager.as_raw_fd(),
            its_ready.as_raw_fd(),
        ];
        for socket in sockets.listening() {
            command.args(["-listenfd", &socket.as_raw_fd().to_string()]);
            inherited.push(socket.as_raw_fd());
        }
        sys::inherit(&mut command, inherited);
        let child = command.spawn()?;
        let connections = Connections {
            wayland,
            window_manager,
            ready,
        };
        Ok((Xwayland { child }, connections))
    }

    /// The server's process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The server's exit status, after the server has ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Xwayland {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // An error is ignored: other code in this process may have reaped the server.
        let _ = self.child.wait();
    }
}

/// Whether the program is installed.
pub(crate) fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder: std::path::PathBuf| is_program(&folder.join(PROGRAM)))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    let about = std::fs::metadata(file);
    about.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}
