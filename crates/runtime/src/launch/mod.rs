//! Starting an application with the hook in it: what `openuvr run` does, and a portal does for others.
//!
//! ```text
//! Socket::open(order) ─► command(words, library, &socket) ─► Application::start
//!      ▲                        └─ LD_PRELOAD, the layer of Vulkan, OPENUVR_RUN=socket
//!      └─ lines ◄──────────── the host in the application's process ◄─┘
//! ```
//! The application is a child of this process. The first of its processes that shows a picture connects
//! to the [`Socket`], is told the [`Order`](crate::line::Order), and streams to the clients itself; what it
//! says comes as [`Line`](crate::line::Line)s. No picture passes through here.
//!
//! What it is not: it prints nothing, catches no signal, and opens no terminal. All of it belongs to one
//! thread, that which started the application.

mod application;
mod layer;
mod library;
mod pads;
mod socket;
mod xr;
mod xvfb;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::line::{API_SOCKET, SOCKET};

pub use application::{Application, LAUNCH_TIMEOUT, ForwardedSignal};
pub use library::{LIBRARY, XR_RUNTIME, library, xr_runtime};
pub use pads::{GamePads, PADS_LIBRARY};
pub use socket::Socket;
pub use xr::{EYE, XR_SETTINGS, install, uninstall, xr_command};
pub use xvfb::{Authority, xvfb};

/// Why an application can't be launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The hook is not where it was looked for.
    #[error("there is no {LIBRARY} {0}: `./dev install` puts it there; --hook names another")]
    NoLibrary(String),
    /// The library that shows game pads is not beside the hook.
    #[error("no game pads: there is no {}: `./dev install` puts it there; --pads off does without", .0.display())]
    NoPads(PathBuf),
    /// The OpenXR runtime is not where it was looked for.
    #[error("there is no {XR_RUNTIME} {0}: `./dev install` puts it there; --runtime names another")]
    NoRuntime(String),
    /// ld.so(8): `LD_PRELOAD` is separated by these, and there is no way to quote them.
    #[error(
        "the loader takes no path with a blank or a colon, as {}: put program and library elsewhere", .0.display()
    )]
    Unquotable(PathBuf),
    /// Another OpenXR runtime than ours is the person's.
    #[error("another OpenXR runtime is active: {} says so; remove that file first", .0.display())]
    OtherRuntime(PathBuf),
    /// There are no words to start.
    #[error("there is no application to start")]
    NoApplication,
    /// The settings for the hook can't be written down.
    #[error("{0}")]
    Settings(String),
    /// What was tried, and why it failed.
    #[error("{0}: {1}")]
    System(String, io::Error),
}

impl LaunchError {
    fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> LaunchError {
        |why| LaunchError::System(what.into(), why)
    }
}

/// The command that starts `words`, a program and its arguments, with the hook `library` in front of its
/// libraries, the layer of Vulkan announced, and the way to `socket`. The caller decides what it reads
/// and writes, where it runs and what else its environment holds, before [`Application::start`].
///
/// What the caller's environment says of these variables stays behind what is ours.
///
/// # Errors
/// There are no words, or the layer can't be announced in the socket's folder.
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
    let layer = layer::register(socket.folder(), library, set).map_err(LaunchError::system(
        "the layer of Vulkan can't be announced",
    ))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(layer)
        .env("LD_PRELOAD", preload)
        .env(SOCKET, socket.path());
    Ok(command)
}

/// The command that starts `words`, an application that links `libopenuvr`, with the way to `socket`: its first host
/// is told there who may come in, and says there what happens. Nothing is loaded into it.
///
/// # Errors
/// There are no words.
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
