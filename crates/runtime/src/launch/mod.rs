//! Starts an application with the hook or on the OpenXR runtime, for `openuvr run`, `openuvr xr` and portals.
//!
//! ```text
//! Socket::open(settings) ─► command(words, library, &socket) ─► Application::start
//!      ▲                        └─ LD_PRELOAD, the Vulkan layer, OPENUVR_RUN=socket
//!      └─ reports ◄──────────── the host in the application's process ◄─┘
//! ```
//! The application is a child of this process. Its first process that shows a picture connects to the [`Socket`],
//! receives the [`LaunchSettings`](crate::launch_protocol::LaunchSettings), and streams to the clients itself. It sends
//! its messages as [`LaunchReport`](crate::launch_protocol::LaunchReport)s. Pictures do not pass through the launcher.
//!
//! The module prints nothing, catches no signals, and opens no terminal. Only the thread that started an application
//! may call the methods of its [`Application`].

mod application;
mod layer;
mod library;
mod pads;
mod socket;
mod xr;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::launch_protocol::{API_SOCKET, SOCKET};

pub use application::{Application, ForwardedSignal, LAUNCH_TIMEOUT};
pub use library::{LIBRARY, XR_RUNTIME, library, xr_runtime};
pub use pads::{GamePads, PADS_LIBRARY};
pub use socket::Socket;
pub use xr::{EYE, XR_SETTINGS, install, uninstall, xr_command};

/// Why an application cannot be launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The hook was not found.
    #[error(
        "can't find {LIBRARY} ({0}): install the package openuvr-guest, or run `./dev install` in the sources, or \
         specify its path with --hook"
    )]
    NoLibrary(String),
    /// The game-pad library is not in the hook's folder.
    #[error("no game pads: can't find {}: install the package openuvr-guest, or run `./dev install` in the sources, or \
             disable them with --pads off", .0.display())]
    NoPads(PathBuf),
    /// The OpenXR runtime was not found.
    #[error(
        "can't find {XR_RUNTIME} ({0}): install the package openuvr-guest, or run `./dev install` in the sources, or \
         specify its path with --runtime"
    )]
    NoRuntime(String),
    /// The path contains a space or a colon. The loader separates entries of `LD_PRELOAD` by these characters, and they
    /// cannot be quoted (ld.so(8)).
    #[error(
        "the dynamic loader does not support the space or colon in {}: move openuvr and its libraries to another path",
        .0.display()
    )]
    Unquotable(PathBuf),
    /// The path is not UTF-8. The manifest of an OpenXR runtime requires UTF-8.
    #[error(
        "the OpenXR loader does not support {}: the path is not UTF-8; move openuvr and its libraries to another path",
        .0.display()
    )]
    NotUtf8(PathBuf),
    /// Another OpenXR runtime is the user's active runtime.
    #[error("another OpenXR runtime is active: remove {} first", .0.display())]
    OtherRuntime(PathBuf),
    /// The command is empty.
    #[error("no application given")]
    NoApplication,
    /// The settings for the hook cannot be serialised.
    #[error("{0}")]
    Settings(String),
    /// A failed operation, and its error.
    #[error("{0}: {1}")]
    System(String, io::Error),
}

impl LaunchError {
    fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> LaunchError {
        |why| LaunchError::System(what.into(), why)
    }
}

/// The command that starts `words`, a program and its arguments. Its environment preloads the hook `library`, registers
/// the Vulkan layer, and names the path of `socket`. The caller may set stdio, the working directory and other
/// variables before [`Application::start`].
///
/// The existing values of `LD_PRELOAD` and of the layer's variables are kept at the end of the new values.
///
/// # Errors
/// Returns an error if `words` is empty or the layer cannot be registered in the socket's folder.
pub fn command(
    words: &[OsString],
    library: &Path,
    socket: &Socket,
) -> Result<Command, LaunchError> {
    let [program, arguments @ ..] = words else {
        return Err(LaunchError::NoApplication);
    };
    let set = |name: &str| std::env::var_os(name);
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = set("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let layer = layer::register(socket.folder(), library, set)
        .map_err(LaunchError::system("can't register the Vulkan layer"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(layer)
        .env("LD_PRELOAD", preload)
        .env(SOCKET, socket.path());
    Ok(command)
}

/// The command that starts `words`, an application that links `libopenuvr`. Its environment names the path of `socket`,
/// from which the application's first host receives its settings and to which it sends its messages. No library is
/// preloaded.
///
/// # Errors
/// Returns an error if `words` is empty.
pub fn api_command(words: &[OsString], socket: &Socket) -> Result<Command, LaunchError> {
    let [program, arguments @ ..] = words else {
        return Err(LaunchError::NoApplication);
    };
    let mut command = Command::new(program);
    command.args(arguments).env(API_SOCKET, socket.path());
    Ok(command)
}

#[cfg(test)]
mod tests;
