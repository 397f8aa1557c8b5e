//! Connects to an X server, with a one-line error on failure.
//!
//! All connections with x11rb are made here, after a check of the display number: x11rb computes a port from this
//! number, and panics if it is too high.

use std::io::ErrorKind;
use std::time::Duration;

use x11rb::connection::RequestConnection as _;
use x11rb::errors::ConnectError;
use x11rb::protocol::randr::{self, ConnectionExt as _};
use x11rb::protocol::xproto::Screen;
#[cfg(feature = "client")]
use x11rb::protocol::xproto::{ImageOrder, Setup};
use x11rb::rust_connection::RustConnection;

/// Number of further attempts if the server closes a new connection, and the pause before each of them. A server resets
/// itself after its last client has left (Xserver(1), `-noreset`), and closes connections that arrive meanwhile. A
/// reset takes milliseconds; the values are guesses for a busy machine.
const RETRIES: usize = 20;
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Connects to `display`, such as `:0` or `host:0.1`, and returns the connection and the screen's number.
///
/// # Errors
/// Returns the problem and its remedy.
pub fn connect(display: &str) -> Result<(RustConnection, usize), String> {
    if display.is_empty() {
        return Err("no display is set: set DISPLAY (for example to :0) or specify one".to_owned());
    }
    if number(display).is_none_or(|number| number > LAST) {
        return Err(format!(
            "{display:?} is not a display name such as :0 or :1.0"
        ));
    }
    let mut connection = x11rb::connect(Some(display));
    for _ in 0..RETRIES {
        if !connection.as_ref().is_err_and(is_closed_by_server) {
            break;
        }
        std::thread::sleep(RETRY_PAUSE);
        connection = x11rb::connect(Some(display));
    }
    connection.map_err(|cause| {
        format!(
            "display {display} can't be reached ({cause}): is its X server running, and may this \
             user connect (xhost, XAUTHORITY)?"
        )
    })
}

/// Whether the server accepted the connection, and closed it before it answered.
fn is_closed_by_server(error: &ConnectError) -> bool {
    let ConnectError::IoError(cause) = error else {
        return false;
    };
    matches!(
        cause.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof
    )
}

/// Lets the server process requests of `conn` while another client grabs the server (XTEST 2.2, `GrabControl`). While a
/// window is dragged or a menu is open, window managers grab the server from the press to the release of a button. An
/// injected release would therefore wait for the end of the grab, and the grab would wait for this release. Without
/// XTEST, this does nothing.
///
/// Limitation: if a client has a pending request at the moment of the grab, X.Org's server (21.1) blocks that client even if
/// it is immune (`mark_client_grab` in its `dispatch.c`).
#[cfg(feature = "host")]
pub(crate) fn ignore_grabs(conn: &RustConnection) -> Result<(), x11rb::errors::ConnectionError> {
    use x11rb::protocol::xtest::{self, ConnectionExt as _};

    if conn
        .extension_information(xtest::X11_EXTENSION_NAME)?
        .is_some()
    {
        conn.xtest_grab_control(true)?;
    }
    Ok(())
}

/// The highest refresh rate of the current modes of `screen`; `None` if unknown, as on a virtual
/// display.
#[must_use]
pub fn highest_refresh_rate(conn: &RustConnection, screen: &Screen) -> Option<f64> {
    conn.extension_information(randr::X11_EXTENSION_NAME)
        .ok()??;
    let resources = conn
        .randr_get_screen_resources_current(screen.root)
        .ok()?
        .reply()
        .ok()?;
    let shown: Vec<u32> = resources
        .crtcs
        .iter()
        .filter_map(|&crtc| {
            let info = conn
                .randr_get_crtc_info(crtc, resources.config_timestamp)
                .ok()?;
            Some(info.reply().ok()?.mode)
        })
        .collect();
    let modes = resources
        .modes
        .iter()
        .filter(|mode| shown.contains(&mode.id));
    modes.filter_map(refresh_rate).reduce(f64::max)
}

/// Refresh rate of a mode; `None` without a dot clock, as on virtual displays.
fn refresh_rate(mode: &randr::ModeInfo) -> Option<f64> {
    let dots = f64::from(mode.htotal) * f64::from(mode.vtotal);
    (mode.dot_clock > 0 && dots > 0.0).then(|| f64::from(mode.dot_clock) / dots)
}

/// Whether a display is the Xwayland of a Wayland session. The screen of such a display stays black, so its windows can
/// only be captured separately. An Xwayland in rootful mode (one window for the screen) does not count.
///
/// An Xwayland is detected by its outputs' names (such as `XWAYLAND0`) in older versions, and by the extension
/// `XWAYLAND` from 23.1 on. It is rootless if the selection of a compositing manager has an owner (Extended Window
/// Manager Hints 1.5, `_NET_WM_CM_Sn`): the Wayland compositor owns this selection, because it redirects the windows.
#[cfg(feature = "host")]
#[must_use]
pub fn is_rootless_xwayland(conn: &RustConnection, screen: usize) -> bool {
    use x11rb::connection::Connection as _;
    use x11rb::errors::ReplyError;
    use x11rb::protocol::xproto::ConnectionExt as _;

    let look = || -> Result<bool, ReplyError> {
        let extension = conn.query_extension(b"XWAYLAND")?.reply()?.present;
        let Some(root) = conn.setup().roots.get(screen).map(|screen| screen.root) else {
            return Ok(false);
        };
        if !extension && !has_xwayland_output(conn, root)? {
            return Ok(false);
        }
        let manager = format!("_NET_WM_CM_S{screen}");
        let manager = conn.intern_atom(false, manager.as_bytes())?.reply()?.atom;
        Ok(conn.get_selection_owner(manager)?.reply()?.owner != x11rb::NONE)
    };
    look().unwrap_or(false)
}

/// Whether RandR has an output with an Xwayland name.
#[cfg(feature = "host")]
fn has_xwayland_output(
    conn: &RustConnection,
    root: x11rb::protocol::xproto::Window,
) -> Result<bool, x11rb::errors::ReplyError> {
    if conn
        .extension_information(randr::X11_EXTENSION_NAME)?
        .is_none()
    {
        return Ok(false);
    }
    let resources = conn.randr_get_screen_resources_current(root)?.reply()?;
    for output in resources.outputs {
        let info = conn.randr_get_output_info(output, resources.config_timestamp)?;
        if info.reply()?.name.starts_with(b"XWAYLAND") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the default visual of `screen` stores pixels as
/// [`PixelFormat::Bgrx`](crate::picture::PixelFormat::Bgrx), so that a window accepts our pixels
/// directly.
#[cfg(feature = "client")]
pub(crate) fn stores_bgrx(setup: &Setup, screen: &Screen) -> bool {
    let depth = screen.root_depth;
    let little = setup.image_byte_order == ImageOrder::LSB_FIRST;
    let wide = (setup.pixmap_formats.iter())
        .any(|format| format.depth == depth && format.bits_per_pixel == 32);
    let masks = (screen
        .allowed_depths
        .iter()
        .flat_map(|depth| &depth.visuals))
    .find(|visual| visual.visual_id == screen.root_visual)
    .map(|visual| (visual.red_mask, visual.green_mask, visual.blue_mask));
    little && wide && masks == Some((0xff_0000, 0xff00, 0xff))
}

/// The display of the environment, empty if unset.
pub(crate) fn from_environment() -> String {
    std::env::var("DISPLAY").unwrap_or_default()
}

/// The highest display number: X servers listen on TCP port 6000 plus their display number.
const LAST: u16 = u16::MAX - 6000;

fn number(display: &str) -> Option<u16> {
    let (_, number) = display.rsplit_once(':')?;
    number.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pass makes the server reset itself, because its only client leaves.
    #[test]
    fn a_server_that_resets_itself_is_reached() {
        let Some(server) = openuvr_xserver::fixture::xvfb("64x64", &["-reset"]) else {
            return;
        };
        for _ in 0..50 {
            if let Err(why) = connect(&server.display) {
                panic!("{why}");
            }
        }
    }

    #[test]
    fn rates_come_from_the_dot_clock() {
        let mode = randr::ModeInfo {
            dot_clock: 148_500_000,
            htotal: 2200,
            vtotal: 1125,
            ..randr::ModeInfo::default()
        };
        assert_eq!(refresh_rate(&mode).map(f64::round), Some(60.0));
        assert_eq!(refresh_rate(&randr::ModeInfo::default()), None);
    }

    #[test]
    fn invalid_names_are_refused_before_connecting() {
        for display in ["", "0", ":", ":x", ":64999", ":99999999"] {
            let error = connect(display).expect_err(display);
            assert!(
                error.contains("display") && error.lines().count() == 1,
                "{error}"
            );
        }
    }

    #[cfg(feature = "client")]
    #[test]
    fn other_masks_are_not_bgrx() {
        use x11rb::protocol::xproto::{Depth, Format, Visualtype};
        let visual = |visual_id, red_mask, blue_mask| Visualtype {
            visual_id,
            red_mask,
            green_mask: 0xff00,
            blue_mask,
            ..Visualtype::default()
        };
        let setup = Setup {
            image_byte_order: ImageOrder::LSB_FIRST,
            pixmap_formats: vec![Format {
                depth: 24,
                bits_per_pixel: 32,
                scanline_pad: 32,
            }],
            ..Setup::default()
        };
        let screen = |root_visual| Screen {
            root_depth: 24,
            root_visual,
            allowed_depths: vec![Depth {
                depth: 24,
                visuals: vec![visual(7, 0xff_0000, 0xff), visual(8, 0xff, 0xff_0000)],
            }],
            ..Screen::default()
        };
        assert!(stores_bgrx(&setup, &screen(7)));
        assert!(!stores_bgrx(&setup, &screen(8)), "red comes first");
        assert!(!stores_bgrx(&setup, &screen(9)));
    }
}
