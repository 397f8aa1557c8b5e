//! Connects to a Wayland compositor, with a one-line error on failure.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::event::PollFlags;
use wayland_client::backend::WaylandError;
use wayland_client::globals::{GlobalListContents, registry_queue_init};
use wayland_client::protocol::wl_output::{self, WlOutput};
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::{Connection, Dispatch, Proxy as _, QueueHandle, WEnum};

/// Connects to the display `name` in `XDG_RUNTIME_DIR`, or to the socket at an absolute path. Without a name, connects
/// to the display in the environment variable `WAYLAND_DISPLAY`, or to `wayland-0` if it is not set.
///
/// # Errors
/// Returns a message with the problem and its remedy.
pub fn connect(name: Option<&str>) -> Result<Connection, String> {
    let path = socket(name)?;
    let failed = |cause: io::Error| {
        format!(
            "the Wayland display {} can't be reached ({cause}): check that its compositor is running as this user",
            path.display()
        )
    };
    let stream = UnixStream::connect(&path).map_err(failed)?;
    Connection::from_socket(stream).map_err(|cause| failed(io::Error::other(cause)))
}

/// Sends the requests, and returns the events of the socket that a wait for the compositor must include. If the
/// compositor does not read at present, the remaining requests must be sent when the socket is writable.
///
/// # Errors
/// [`WaylandError`] if the connection has failed.
pub(crate) fn flush(conn: &Connection) -> Result<PollFlags, WaylandError> {
    match conn.flush() {
        Ok(()) => Ok(PollFlags::IN),
        Err(WaylandError::Io(cause)) if cause.kind() == io::ErrorKind::WouldBlock => {
            Ok(PollFlags::IN | PollFlags::OUT)
        }
        Err(cause) => Err(cause),
    }
}

/// The name of the display: `name`, or otherwise the environment variable `WAYLAND_DISPLAY`, or otherwise `wayland-0`.
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
            "the Wayland display {name} can't be found: XDG_RUNTIME_DIR is not set; run the program in the display's \
             session, or specify the path of the display's socket"
        )
    })?;
    Ok(PathBuf::from(runtime).join(name))
}

/// The highest refresh rate in Hz among the current modes of the compositor's outputs; `None` if it is unknown, for
/// example on a virtual display. Waits for the compositor's answer.
#[must_use]
pub fn highest_refresh_rate(conn: &Connection) -> Option<f64> {
    let (globals, mut queue) = registry_queue_init::<RefreshRates>(conn).ok()?;
    let handle = queue.handle();
    let outputs = globals.contents().clone_list();
    for global in outputs
        .iter()
        .filter(|global| global.interface == WlOutput::interface().name)
    {
        let _: WlOutput = globals.registry().bind(global.name, 1, &handle, ());
    }
    let mut rates = RefreshRates(0);
    queue.roundtrip(&mut rates).ok()?;
    // The rate is in mHz; 0 means unknown (`wl_output.mode`).
    (rates.0 > 0).then(|| f64::from(rates.0) / 1e3)
}

/// The highest rate so far, in mHz.
struct RefreshRates(i32);

impl Dispatch<WlOutput, ()> for RefreshRates {
    fn event(
        rates: &mut RefreshRates,
        _: &WlOutput,
        event: wl_output::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<RefreshRates>,
    ) {
        if let wl_output::Event::Mode {
            flags: WEnum::Value(flags),
            refresh,
            ..
        } = event
            && flags.contains(wl_output::Mode::Current)
        {
            rates.0 = rates.0.max(refresh);
        }
    }
}

impl Dispatch<WlRegistry, GlobalListContents> for RefreshRates {
    fn event(
        _: &mut RefreshRates,
        _: &WlRegistry,
        _: wl_registry::Event,
        _: &GlobalListContents,
        _: &Connection,
        _: &QueueHandle<RefreshRates>,
    ) {
    }
}

/// Whether a compositor with these interfaces allows programs to capture its screen.
#[must_use]
pub fn can_capture(interfaces: &BTreeMap<String, u32>) -> bool {
    let has = |name: &str, version: u32| interfaces.get(name).is_some_and(|v| *v >= version);
    let image_copy = has("ext_image_copy_capture_manager_v1", 1)
        && has("ext_output_image_capture_source_manager_v1", 1);
    image_copy || has("zwlr_screencopy_manager_v1", 3)
}

/// The interfaces that the compositor offers, with their versions. Waits for the compositor's answer.
///
/// # Errors
/// Returns a one-line error if the connection fails.
pub fn interfaces(conn: &Connection) -> Result<BTreeMap<String, u32>, String> {
    let listed = registry_queue_init::<RefreshRates>(conn);
    let (globals, _) =
        listed.map_err(|why| format!("can't list the compositor's protocols: {why}"))?;
    let globals = globals.contents().clone_list().into_iter();
    Ok(globals
        .map(|global| (global.interface, global.version))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use wayland_client::delegate_noop;
    use wayland_client::protocol::wl_callback::WlCallback;

    use super::*;

    struct Nothing;

    delegate_noop!(Nothing: ignore WlCallback);

    #[test]
    fn a_full_socket_is_waited_for() {
        let (own, mut compositor) = UnixStream::pair().unwrap();
        let mut filler = own.try_clone().unwrap();
        let conn = Connection::from_socket(own).unwrap();
        filler.set_nonblocking(true).unwrap();
        while filler.write(&[0; 4096]).is_ok_and(|count| count > 0) {}
        let queue = conn.new_event_queue::<Nothing>();
        conn.display().sync(&queue.handle(), ());
        assert_eq!(flush(&conn).unwrap(), PollFlags::IN | PollFlags::OUT);
        compositor.set_nonblocking(true).unwrap();
        while compositor.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        assert_eq!(flush(&conn).unwrap(), PollFlags::IN);
    }
}
