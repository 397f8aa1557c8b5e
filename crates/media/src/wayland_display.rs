//! Connects to a Wayland compositor, with a one-line error on failure.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use wayland_client::Connection;

/// Connects to the display `name` in `XDG_RUNTIME_DIR`, or the socket at an absolute path; without
/// a name to that of the environment variable `WAYLAND_DISPLAY`, else to `wayland-0`.
///
/// # Errors
/// The problem and its remedy.
pub fn connect(name: Option<&str>) -> Result<Connection, String> {
    let path = socket(name)?;
    let failed = |cause: io::Error| {
        format!(
            "the Wayland display {} can't be reached ({cause}): does its compositor run, and as \
             this user?",
            path.display()
        )
    };
    let stream = UnixStream::connect(&path).map_err(failed)?;
    Connection::from_socket(stream).map_err(|cause| failed(io::Error::other(cause)))
}

/// The name of the display: `name`, else that of the environment, else the usual one.
#[must_use]
pub fn name_or_default(name: Option<&str>) -> String {
    let environment = || std::env::var("WAYLAND_DISPLAY").ok();
    name.map(str::to_owned)
        .or_else(environment)
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "wayland-0".to_owned())
}

fn socket(name: Option<&str>) -> Result<PathBuf, String> {
    let name = name_or_default(name);
    if name.starts_with('/') {
        return Ok(name.into());
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let runtime = runtime.ok_or_else(|| {
        format!(
            "the Wayland display {name} can't be found: XDG_RUNTIME_DIR is not set; run the \
             program in its session, or give the path of the socket"
        )
    })?;
    Ok(PathBuf::from(runtime).join(name))
}
