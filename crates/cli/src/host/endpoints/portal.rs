//! The endpoints of a desktop that shares its screen through its portal.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use openuvr_wayland::display as wayland_display;

use super::DisplayEndpoints;
use crate::config::HostConfig;

/// Whether the portal is needed, because programs cannot capture the compositor's screen directly and the user has not
/// selected a source.
pub(super) fn is_needed(config: &HostConfig) -> bool {
    if config.source.is_some() || config.window.is_some() || config.output.is_some() {
        return false;
    }
    let listed = wayland_display::connect(config.wayland_display.as_deref())
        .and_then(|connection| wayland_display::interfaces(&connection));
    listed.is_ok_and(|interfaces| !wayland_display::can_capture(&interfaces))
}

/// Opens a session of the portal. If the host is killed, the desktop itself releases the pressed keys.
#[cfg(feature = "desktop-portal")]
pub(super) fn open(config: &HostConfig, stop: &AtomicBool) -> Result<DisplayEndpoints> {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use anyhow::anyhow;
    use openuvr_desktop_portal::{DesktopSession, Options};
    use openuvr_media::capture::Capture as _;
    use openuvr_media::capture::cursor::CursorWatch;
    use openuvr_media::input_sink::{self, InputSink};
    use openuvr_runtime::host::SharedClipboard;
    use openuvr_runtime::host::config::DEFAULT_FPS;
    use openuvr_wayland::clipboard::WaylandClipboard;

    use super::Source;

    /// If the portal has not answered after this time, the desktop is assumed to be showing a permission dialog (guess:
    /// a stored permission is granted sooner).
    const ASKED: Duration = Duration::from_secs(1);

    let display = config.wayland_display.clone();
    let options = Options {
        cursor: config.cursor,
        input: config.injects(),
        permission: Some(config.config_dir.join("desktop-permission")),
        bus: None,
        display: display.clone(),
    };
    let mut reported = false;
    let mut keep_waiting = |waited: Duration| {
        if waited > ASKED && !std::mem::replace(&mut reported, true) {
            eprintln!(
                "openuvr host: waiting for permission to share the desktop's screen: answer the dialog at the desktop \
                 itself"
            );
        }
        !stop.load(Ordering::Relaxed)
    };
    let DesktopSession {
        mut capture,
        cursor,
        input,
    } = DesktopSession::open(&options, &mut keep_waiting)?;
    capture.limit_fps(config.fps.unwrap_or(DEFAULT_FPS));
    let words = format!("{} of the desktop, through its portal", capture.size());
    let input: Box<dyn InputSink> = match input {
        Some(input) => Box::new(input),
        None => {
            if config.injects() {
                eprintln!(
                    "openuvr host: players can only watch: this desktop's portal accepts no input (RemoteDesktop), or its \
                     user has not allowed it"
                );
            }
            input_sink::open("null")?
        }
    };
    // The clipboard can be shared only if the compositor has a data control protocol, as in KDE.
    let listed = wayland_display::connect(display.as_deref())
        .and_then(|connection| wayland_display::interfaces(&connection));
    let controls = [
        "ext_data_control_manager_v1",
        "zwlr_data_control_manager_v1",
    ];
    let controlled = listed.is_ok_and(|all| controls.iter().any(|name| all.contains_key(*name)));
    let clipboard = match controlled {
        true => SharedClipboard::open(config.clipboard, |watch, most| {
            let opened = WaylandClipboard::open(display.as_deref(), watch, most)?;
            Ok(Box::new(opened))
        }),
        false => Ok(None),
    };
    Ok(DisplayEndpoints {
        source: Source {
            capture: Box::new(capture),
            viewport: None,
            cursor: cursor.map(|cursor| Box::new(cursor) as Box<dyn CursorWatch>),
            words,
        },
        input,
        release: None,
        clipboard: clipboard.map_err(|e| anyhow!("can't share the clipboard: {e}"))?,
    })
}

/// Returns an error, because this program was built without support for portals.
#[cfg(not(feature = "desktop-portal"))]
pub(super) fn open(_: &HostConfig, _: &AtomicBool) -> Result<DisplayEndpoints> {
    anyhow::bail!(
        "this program was built without support for desktop portals: build it with the feature desktop-portal (as \
         ./dev build does), or stream a single application (openuvr run, openuvr host --virtual 1280x720 -- COMMAND)"
    )
}
