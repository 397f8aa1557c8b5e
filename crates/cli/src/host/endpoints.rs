//! The endpoints of a display: the source of its pictures, and the targets of the player's input and clipboard.

mod portal;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use openuvr_compositor::WaylandDisplay;
use openuvr_media::capture::Capture;
use openuvr_media::capture::clip::Player;
use openuvr_media::capture::cursor::CursorWatch;
use openuvr_media::capture::cursor::x11::X11Cursor;
use openuvr_media::capture::pattern::Pattern;
use openuvr_media::capture::x11::{self, CaptureArea, Target, WindowQuery};
use openuvr_media::clipboard::ClipboardError;
use openuvr_media::clipboard::x11::X11Clipboard;
use openuvr_media::display;
use openuvr_media::input_sink::{self, InputSink};
use openuvr_proto::units::Size;
use openuvr_runtime::host::SharedClipboard;
use openuvr_runtime::host::config::DEFAULT_FPS;
use openuvr_scene as scene;
use openuvr_scene::source::Submit;
use openuvr_wayland::capture as session_capture;
use openuvr_wayland::clipboard::WaylandClipboard;
use openuvr_wayland::cursor::WaylandCursor;
use openuvr_wayland::input_sink::WaylandInput;

use crate::config::kind::WindowName;
use crate::config::{HostConfig, SourceKind, Subject};
use crate::release::Release;

/// The maximum wait for a window that is missing because its application is still starting.
const WINDOW_WAIT: Duration = Duration::from_secs(15);

pub(super) struct DisplayEndpoints {
    pub(super) source: Source,
    pub(super) input: Box<dyn InputSink>,
    pub(super) release: Option<Release>,
    pub(super) clipboard: Option<SharedClipboard>,
}

impl DisplayEndpoints {
    /// Opens the endpoints of the configured source. `own` is the Wayland display that this host has started.
    ///
    /// # Errors
    /// Returns an error with a one-line message if a display cannot be reached or lacks a required feature, or if a
    /// source cannot be opened.
    pub(super) fn open(
        config: &HostConfig,
        own: Option<&WaylandDisplay>,
        stop: &AtomicBool,
    ) -> Result<DisplayEndpoints> {
        match (own, config.source()) {
            (Some(display), _) => open_wayland(config, display),
            (None, SourceKind::Portal) => portal::open(config, stop),
            (None, SourceKind::Wayland) if portal::is_needed(config) => portal::open(config, stop),
            (None, SourceKind::Wayland) => open_session(config, stop),
            (None, _) => open_x11(config, stop),
        }
    }
}

/// Opens the configured source, and the X display for input and the clipboard.
fn open_x11(config: &HostConfig, stop: &AtomicBool) -> Result<DisplayEndpoints> {
    let source = open_source(config, stop)?;
    let display = config.display.clone().unwrap_or_default();
    let input = if config.injects() {
        format!("xtest:{display}")
    } else {
        "null".to_owned()
    };
    let input = input_sink::open(&input)?;
    let release = config.injects().then(|| Release::start(&display));
    let release = release.transpose().unwrap_or_else(|why| {
        eprintln!("openuvr host: keys may stay pressed if the host is killed: {why:#}");
        None
    });
    let clipboard = SharedClipboard::open(config.clipboard, |watch, most| {
        Ok(Box::new(X11Clipboard::open(&display, watch, most)?))
    });
    Ok(DisplayEndpoints {
        source,
        input,
        release,
        clipboard: clipboard.map_err(|e| anyhow!("can't share the clipboard: {e}"))?,
    })
}

/// Opens the Wayland display of this process. If the host is killed, pressed keys need no release, because the display
/// ends with the host.
fn open_wayland(config: &HostConfig, display: &WaylandDisplay) -> Result<DisplayEndpoints> {
    let capture = Box::new(display.capture()?);
    let cursor = config.cursor.then(|| display.cursor()).transpose()?;
    let words = format!("{} of a Wayland display", capture.size());
    let input: Box<dyn InputSink> = match config.injects() {
        true => Box::new(display.input()),
        false => input_sink::open("null")?,
    };
    let clipboard = SharedClipboard::open(config.clipboard, |watch, most| {
        let opened = display.clipboard(watch, most);
        Ok(Box::new(
            opened.map_err(|e| ClipboardError::new(e.to_string()))?,
        ))
    });
    Ok(DisplayEndpoints {
        source: Source {
            capture,
            viewport: None,
            cursor: cursor.map(|cursor| Box::new(cursor) as Box<dyn CursorWatch>),
            words,
        },
        input,
        release: None,
        clipboard: clipboard.map_err(|e| anyhow!("can't share the clipboard: {e}"))?,
    })
}

/// Opens the session of another Wayland compositor. If the host is killed, the compositor itself releases the pressed
/// keys.
fn open_session(config: &HostConfig, stop: &AtomicBool) -> Result<DisplayEndpoints> {
    let display = config.wayland_display.clone();
    let window = match config.subject() {
        Subject::Window(WindowName::Text(text)) => Some(text),
        _ => None,
    };
    let cursor = match config.cursor && window.is_none() {
        true => WaylandCursor::open(display.as_deref(), config.output.as_deref())?,
        false => None,
    };
    let target = session_capture::Target {
        display: display.clone(),
        output: config.output.clone(),
        window,
        // If the pointer is not captured separately, the picture must contain it.
        pointer: config.cursor && cursor.is_none(),
    };
    let until = Instant::now() + window_wait(config);
    let mut keep_waiting = keep_waiting(config, stop);
    let mut capture =
        session_capture::open_while(&target, &mut || keep_waiting() && Instant::now() < until)?;
    capture.limit_fps(config.fps.unwrap_or(DEFAULT_FPS));
    let display = display.as_deref();
    let words = format!(
        "{} of {} of Wayland display {}",
        capture.size(),
        capture.subject(),
        display.unwrap_or_default()
    );
    let input: Box<dyn InputSink> = match config.injects() {
        true => Box::new(WaylandInput::open(display, Some(capture.output()))?),
        false => input_sink::open("null")?,
    };
    let clipboard = SharedClipboard::open(config.clipboard, |watch, most| {
        Ok(Box::new(WaylandClipboard::open(display, watch, most)?))
    });
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

/// A source of pictures.
pub(super) struct Source {
    pub(super) capture: Box<dyn Capture>,
    pub(super) viewport: Option<x11::Viewport>,
    pub(super) cursor: Option<Box<dyn CursorWatch>>,
    /// The description of the source for the user.
    pub(super) words: String,
}

fn open_source(config: &HostConfig, stop: &AtomicBool) -> Result<Source> {
    let fps = config.fps.unwrap_or(DEFAULT_FPS);
    let what = match config.subject() {
        Subject::Pattern(size) => {
            let capture = Box::new(Pattern::open(size, fps)?);
            let words = format!("a test pattern of {size}");
            return Ok(Source {
                capture,
                viewport: None,
                cursor: None,
                words,
            });
        }
        Subject::Clip(file) => {
            let capture = Box::new(Player::open(&file, fps)?);
            let words = format!("{} of {}", capture.size(), file.display());
            return Ok(Source {
                capture,
                viewport: None,
                cursor: None,
                words,
            });
        }
        Subject::Scene(size) => return open_scene(config, size),
        Subject::Display => CaptureArea::Display,
        Subject::Region(r) => CaptureArea::Region {
            x: r.x,
            y: r.y,
            size: r.size,
        },
        Subject::Window(name) => CaptureArea::Window(WindowQuery {
            name: match name {
                WindowName::Id(id) => x11::WindowName::Id(id),
                WindowName::Text(text) => x11::WindowName::Text(text),
            },
            wait: window_wait(config),
        }),
    };
    open_display(config, what, stop)
}

/// The maximum wait for a window: [`WINDOW_WAIT`], or the host's time limit if that is shorter.
fn window_wait(config: &HostConfig) -> Duration {
    (config.lasting).map_or(WINDOW_WAIT, |lasting| lasting.min(WINDOW_WAIT))
}

/// Returns a function that tells whether to keep waiting for a missing window. Its first call prints that the window is
/// missing.
fn keep_waiting(config: &HostConfig, stop: &AtomicBool) -> impl FnMut() -> bool {
    let mut reported = false;
    move || {
        if !std::mem::replace(&mut reported, true) {
            eprintln!(
                "openuvr host: no such window yet; waiting up to {} s",
                window_wait(config).as_secs_f64()
            );
        }
        !stop.load(Ordering::Relaxed)
    }
}

/// Captures an X display, or a part of it.
fn open_display(config: &HostConfig, what: CaptureArea, stop: &AtomicBool) -> Result<Source> {
    let fps = config.fps.unwrap_or(DEFAULT_FPS);
    let display = config.display.clone();
    if !matches!(what, CaptureArea::Window(_))
        && let Some(name) = &display
        && display::connect(name)
            .is_ok_and(|(conn, screen)| display::is_rootless_xwayland(&conn, screen))
    {
        eprintln!(
            "openuvr host: display {name} is the Xwayland of a Wayland session: X11 clients cannot \
             capture its desktop, and the picture stays black; capture the session itself (--source wayland), \
             one X11 window (--window TITLE), or an application (openuvr run, or openuvr host --virtual \
             1280x720 -- COMMAND)"
        );
    }
    let target = Target {
        display: display.clone(),
        area: what,
    };
    let mut capture = x11::open_while(&target, &mut keep_waiting(config, stop))?;
    capture.limit_fps(fps);
    let viewport = capture.shared_viewport();
    let cursor = config
        .cursor
        .then(|| X11Cursor::open(display.as_deref(), viewport.clone()))
        .transpose()?
        .map(|cursor| Box::new(cursor) as Box<dyn CursorWatch>);
    let display = display.unwrap_or_default();
    let words = format!("{} of display {display}", capture.size());
    Ok(Source {
        capture: Box::new(capture),
        viewport: Some(viewport),
        cursor,
        words,
    })
}

/// Starts the scene in this process, in the upper left corner of the display.
fn open_scene(config: &HostConfig, size: Size) -> Result<Source> {
    let display = config.display.clone().unwrap_or_default();
    let submit = config.submit.unwrap_or(Submit::Free);
    let fps = config.scene_fps.unwrap_or(60.0);
    let capture = Box::new(scene::source::start(&display, size, fps, submit)?);
    Ok(Source {
        capture,
        viewport: Some(x11::Viewport::new(0, 0, size)),
        cursor: None,
        words: format!("the scene of {size}, drawn by this host on display {display}"),
    })
}
