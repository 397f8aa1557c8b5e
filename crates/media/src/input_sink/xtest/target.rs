//! The window that receives input, and the check that a key or click would reach it now. XTEST events go to the focus
//! window or to the window under the pointer.
//!
//! If an event would go to a different window, the target window is raised once and checked again. Pointer motion and
//! releases are always allowed. If an application holds a grab, it receives the events regardless of pointer and focus.
//! Other clients can't detect such a grab.
//!
//! Spec: Extended Window Manager Hints 1.5 (_NET_ACTIVE_WINDOW, _NET_SUPPORTING_WM_CHECK).

use std::time::{Duration, Instant};

use openuvr_proto::units::Size;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{
    AtomEnum, ClientMessageEvent, ConfigureWindowAux, ConnectionExt as _, EventMask, InputFocus,
    MapState, QueryPointerReply, StackMode, Window,
};
use x11rb::rust_connection::RustConnection;

use crate::application::{Application, Atoms, WindowScope, top_of};

/// Maximum time for which input waits until a window manager has raised the window. The value is a guess: a window
/// manager usually needs less than two frame intervals, but a busy machine may stop it for longer. Pings are not
/// answered meanwhile. Together with a ping interval, the time is below the 1.2 s after which a client counts a
/// transport as dead.
const TIMEOUT: Duration = Duration::from_millis(600);

/// Like [`TIMEOUT`], after a failed attempt. The control thread is blocked meanwhile, so it must not wait long for a
/// window that cannot be raised.
const TIMEOUT_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Poll interval while waiting for the window manager.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Retry delay after a failed attempt, so that not every key press of a typing user waits (guess).
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The destination of an input event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InputTarget {
    /// The focus window.
    Keyboard,
    /// The window under the pointer.
    Pointer,
}

/// The window that receives input.
#[derive(Default)]
pub(super) struct Target {
    window: Option<(Window, WindowScope)>,
    atoms: Option<(Atoms, u32, u32)>,
    /// The last failed attempt to raise the window, until an event of the same kind reaches the window.
    failed: Option<(InputTarget, Instant)>,
    /// Why the last press was suppressed.
    suppressed: Option<&'static str>,
}

impl Target {
    /// Restricts input to this window and the windows in its scope; `None` means no restriction.
    pub(super) fn set(&mut self, window: Option<(Window, WindowScope)>) {
        if self.window != window {
            self.window = window;
            self.failed = None;
            self.suppressed = None;
        }
    }

    /// Why the last press was suppressed.
    pub(super) fn suppressed(&self) -> Option<&'static str> {
        self.suppressed
    }

    /// Whether a press now reaches the window at `viewport`. If not, raises the window, and waits for a limited time
    /// until a press reaches it.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub(super) fn admits(
        &mut self,
        conn: &RustConnection,
        root: Window,
        viewport: (i32, i32, Size),
        goes: InputTarget,
    ) -> Result<bool, ReplyError> {
        let Some(window) = self.window else {
            return Ok(true);
        };
        let why = match self.check(conn, root, window, viewport, goes) {
            Err(ReplyError::X11Error(_)) => Some(NOT_VISIBLE),
            why => why?,
        };
        self.suppressed = why;
        Ok(why.is_none())
    }

    fn check(
        &mut self,
        conn: &RustConnection,
        root: Window,
        window: (Window, WindowScope),
        viewport: (i32, i32, Size),
        goes: InputTarget,
    ) -> Result<Option<&'static str>, ReplyError> {
        let (atoms, active, check) = match self.atoms {
            Some(known) => known,
            None => {
                let number =
                    |name| Ok::<_, ReplyError>(conn.intern_atom(false, name)?.reply()?.atom);
                let atoms = Atoms::of(conn)?;
                let active = number(b"_NET_ACTIVE_WINDOW")?;
                let check = number(b"_NET_SUPPORTING_WM_CHECK")?;
                *self.atoms.insert((atoms, active, check))
            }
        };
        let mut since = None;
        loop {
            // The window may have a different frame after it was raised.
            let application = Application::of(conn, atoms, root, window)?;
            let gets = match goes {
                InputTarget::Keyboard => has_keyboard(conn, root, &application)?,
                InputTarget::Pointer => has_pointer(conn, root, &application, viewport)?,
            };
            if gets {
                self.failed.take_if(|(kind, _)| *kind == goes);
                return Ok(None);
            }
            let attributes = conn.get_window_attributes(window.0)?.reply()?;
            if attributes.map_state != MapState::VIEWABLE {
                return Ok(Some(NOT_VISIBLE));
            }
            if (self.failed).is_some_and(|(_, at)| at.elapsed() < RETRY_DELAY) {
                return Ok(Some(COVERED));
            }
            match since {
                None => {
                    bring_to_front(conn, root, &application, active, check)?;
                    since = Some(Instant::now());
                }
                Some(since) if since.elapsed() >= self.timeout() => {
                    self.failed = Some((goes, Instant::now()));
                    return Ok(Some(COVERED));
                }
                Some(_) => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    fn timeout(&self) -> Duration {
        match self.failed {
            None => TIMEOUT,
            Some(_) => TIMEOUT_AFTER_FAILURE,
        }
    }
}

const NOT_VISIBLE: &str = "the streamed window is not visible";
const COVERED: &str = "another window covers the streamed window, which could not be raised";

fn has_keyboard(
    conn: &RustConnection,
    root: Window,
    application: &Application,
) -> Result<bool, ReplyError> {
    let focus = conn.get_input_focus()?.reply()?.focus;
    if focus == x11rb::NONE {
        return Ok(false);
    }
    // With one of these focus values, keys go to the window under the pointer.
    if focus == u32::from(InputFocus::POINTER_ROOT) || focus == root {
        let at = conn.query_pointer(root)?.reply()?;
        return is_over(conn, application, &at);
    }
    match top_of(conn, root, focus) {
        Err(ReplyError::X11Error(_)) => Ok(false),
        top => application.has(conn, top?),
    }
}

/// Whether a click now reaches the window. If a game has left the pointer outside, the pointer is first moved to the
/// nearest position in the picture. Games that read raw motion do not notice this move.
fn has_pointer(
    conn: &RustConnection,
    root: Window,
    application: &Application,
    (left, top, size): (i32, i32, Size),
) -> Result<bool, ReplyError> {
    let at = conn.query_pointer(root)?.reply()?;
    if is_over(conn, application, &at)? {
        return Ok(true);
    }
    let inside = |at: i16, from: i32, side: u32| {
        let last = i32::try_from(side.saturating_sub(1)).unwrap_or(i32::MAX);
        let at = i32::from(at).clamp(from, from.saturating_add(last));
        i16::try_from(at).unwrap_or(0)
    };
    let x = inside(at.root_x, left, size.width);
    let y = inside(at.root_y, top, size.height);
    if (x, y) == (at.root_x, at.root_y) {
        return Ok(false);
    }
    conn.warp_pointer(x11rb::NONE, root, 0, 0, 0, 0, x, y)?;
    let at = conn.query_pointer(root)?.reply()?;
    is_over(conn, application, &at)
}

fn is_over(
    conn: &RustConnection,
    application: &Application,
    at: &QueryPointerReply,
) -> Result<bool, ReplyError> {
    Ok(at.same_screen && at.child != x11rb::NONE && application.has(conn, at.child)?)
}

/// Raises the window through the window manager or, if there is none, directly.
fn bring_to_front(
    conn: &RustConnection,
    root: Window,
    application: &Application,
    active: u32,
    check: u32,
) -> Result<(), ReplyError> {
    let managed = conn
        .get_property(false, root, check, AtomEnum::WINDOW, 0, 1)?
        .reply()?;
    let manager = managed.value32().and_then(|mut ids| ids.next());
    // A window manager that has ended may have left this property on the root window.
    let lives = match manager {
        Some(manager) => {
            let named = conn.get_property(false, manager, check, AtomEnum::WINDOW, 0, 1)?;
            named.reply().is_ok_and(|named| named.value_len == 1)
        }
        None => false,
    };
    if lives {
        /// The request comes from the user, not from the application (its `source indication`).
        const PERSON: u32 = 2;
        let client = application.client(conn)?;
        let data = [PERSON, x11rb::CURRENT_TIME, 0, 0, 0];
        let message = ClientMessageEvent::new(32, client, active, data);
        let to = EventMask::SUBSTRUCTURE_NOTIFY | EventMask::SUBSTRUCTURE_REDIRECT;
        return conn.send_event(false, root, to, message)?.check();
    }
    let top = application.top();
    let above = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
    conn.configure_window(top, &above)?.check()?;
    conn.set_input_focus(InputFocus::PARENT, top, x11rb::CURRENT_TIME)?
        .check()
}
