//! The window with which an application replaces a destroyed window, as games do when they restart
//! their video.
//!
//! Only a window that appears shortly before or after the end of the old window counts, because the user did not choose
//! the application's other windows.

use std::os::fd::OwnedFd;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, MapState, Window, WindowClass};

use super::display::Display;
use crate::application::{Atoms, client_in, process_of};
use crate::capture::CaptureError;

/// Timeout for the appearance of the successor (guess: a large game loads its textures during this time).
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time by which the successor may appear before the end of the old window (guess).
const BEFORE: Duration = Duration::from_secs(1);

/// Poll interval. A new window causes an event, but the window manager reparents it into its frame later.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of remembered windows (guess: in a second, all applications together open fewer).
const MAX_WINDOWS: usize = 64;

/// The result of a search for the successor of a destroyed window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SuccessorState {
    /// This window is the successor.
    Window(Window),
    /// A successor may still appear.
    Pending,
    /// There is no successor.
    Absent,
}

/// The application of the captured window, and recently mapped windows.
pub(super) struct Successor {
    atoms: Atoms,
    process: Option<u32>,
    /// Readable when the process has ended; needs Linux 5.3.
    end: Option<OwnedFd>,
    /// The application's WM_CLASS, used when the process is unknown.
    class: Vec<u8>,
    /// Recently mapped children of the root.
    mapped: Vec<(Window, Instant)>,
    gone: Option<Instant>,
}

impl Successor {
    /// Creates the search for the successor of `window`, which must still exist.
    pub(super) fn of(display: &Display, window: Window) -> Result<Successor, CaptureError> {
        let conn = &display.conn;
        let ask = || -> Result<_, ReplyError> {
            let atoms = Atoms::of(conn)?;
            Ok((atoms, process_of(conn, window)?))
        };
        let (atoms, process) = ask().map_err(|e| display.broke(e))?;
        let id = process.and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        let class = match class_of(display, window) {
            Err(ReplyError::X11Error(_)) => Vec::new(),
            class => class.map_err(|e| display.broke(e))?,
        };
        Ok(Successor {
            atoms,
            process,
            end: id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok()),
            class,
            mapped: Vec::new(),
            gone: None,
        })
    }

    /// Records windows that appear.
    pub(super) fn handle_event(&mut self, display: &Display, event: &Event) {
        let Event::MapNotify(event) = event else {
            return;
        };
        if event.event != display.root() {
            return;
        }
        let now = clock::now();
        let since = self.gone.unwrap_or(now);
        self.mapped
            .retain(|(window, at)| *window != event.window && since.since(*at) < BEFORE);
        if self.mapped.len() < MAX_WINDOWS {
            self.mapped.push((event.window, now));
        }
    }

    /// Searches for the successor of the destroyed window. Call this when the window is destroyed, then every
    /// [`POLL_INTERVAL`].
    pub(super) fn search(&mut self, display: &Display) -> Result<SuccessorState, CaptureError> {
        let now = clock::now();
        let gone = *self.gone.get_or_insert(now);
        self.mapped.retain(|(_, at)| gone.since(*at) < BEFORE);
        let mut best: Option<(u32, Window)> = None;
        for (top, _) in &self.mapped {
            match self.candidate(display, *top) {
                Ok(Some((pixels, window))) if best.is_none_or(|(most, _)| pixels > most) => {
                    best = Some((pixels, window));
                }
                Ok(_) | Err(ReplyError::X11Error(_)) => {}
                Err(e) => return Err(display.broke(e)),
            }
        }
        Ok(match best {
            Some((_, window)) => SuccessorState::Window(window),
            None if now.since(gone) >= TIMEOUT || self.has_ended() => SuccessorState::Absent,
            None => SuccessorState::Pending,
        })
    }

    /// The client window in `top` and its pixel count, if the window belongs to the same application.
    fn candidate(
        &self,
        display: &Display,
        top: Window,
    ) -> Result<Option<(u32, Window)>, ReplyError> {
        let conn = &display.conn;
        let window = client_in(conn, self.atoms, top)?;
        let attributes = conn.get_window_attributes(window)?.reply()?;
        if attributes.map_state != MapState::VIEWABLE
            || attributes.class != WindowClass::INPUT_OUTPUT
        {
            return Ok(None);
        }
        let same = match self.process {
            Some(_) => process_of(conn, window)? == self.process,
            None => !self.class.is_empty() && class_of(display, window)? == self.class,
        };
        let is = conn.get_geometry(window)?.reply()?;
        Ok(same.then_some((u32::from(is.width) * u32::from(is.height), window)))
    }

    fn has_ended(&self) -> bool {
        let Some(end) = &self.end else { return false };
        let mut fds = [PollFd::new(end, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

fn class_of(display: &Display, window: Window) -> Result<Vec<u8>, ReplyError> {
    let class = AtomEnum::WM_CLASS;
    let property = (display.conn).get_property(false, window, class, AtomEnum::ANY, 0, 64)?;
    Ok(property.reply()?.value)
}
