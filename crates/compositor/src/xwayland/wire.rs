//! The messages between the compositor and the X11 window manager. The compositor never waits for the window manager:
//! an X11 application that grabs the server, or a stopped server, delays only the window manager.
//!
//! The compositor leaves its newest requests on a [`Board`], where a newer request replaces an older one of the same
//! kind (only `fetches` are queued); the window manager sends [`Report`]s through a bounded queue.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use openuvr_media::capture::Waker;
use smithay::utils::{Logical, Rectangle, Size};

/// The identifier of an X11 window.
pub(crate) type WindowId = u32;

/// The maximum number of concurrent transfers of copied data in each direction. Additional transfers get nothing
/// (guess: far more than applications request).
pub(crate) const MAX_TRANSFERS: usize = 16;

/// The maximum number of reports that wait for the compositor.
pub(crate) const REPORTS: usize = 256;

/// Smallest and largest size of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) least: Size<i32, Logical>,
    pub(crate) most: Size<i32, Logical>,
}

impl Limits {
    /// The allowed size nearest to `wanted`.
    pub(crate) fn nearest(&self, wanted: Size<i32, Logical>) -> Size<i32, Logical> {
        let side = |wanted: i32, least: i32, most: i32| wanted.clamp(least, most.max(least));
        Size::from((
            side(wanted.w, self.least.w, self.most.w),
            side(wanted.h, self.least.h, self.most.h),
        ))
    }
}

/// The properties of a managed window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct About {
    /// Whether the window accompanies another window, as a dialog or a palette does.
    pub(crate) accompanies: bool,
    /// The window to which it belongs.
    pub(crate) parent: Option<WindowId>,
    pub(crate) limits: Limits,
    pub(crate) size: Size<i32, Logical>,
    pub(crate) full_screen: bool,
    pub(crate) maximized: bool,
    /// Whether the window takes the keyboard focus.
    pub(crate) takes_focus: bool,
}

/// The position and size that a window should have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Placement {
    pub(crate) at: Rectangle<i32, Logical>,
    /// Whether the window fills the display. Toolkits then draw no frame.
    pub(crate) fills: bool,
    pub(crate) full_screen: bool,
}

/// How an X server identifies the Wayland surface of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SurfaceName {
    /// The object id of the surface, from Xwayland before 23.1.
    Object(u32),
    /// The serial number of `xwayland_surface_v1`.
    Serial(u64),
}

/// A report to the compositor.
#[derive(Debug)]
pub(crate) enum Report {
    /// A window should be shown. It is mapped as soon as it has a position.
    Requested(WindowId, About),
    /// The properties of a shown window have changed.
    Changed(WindowId, About),
    /// A window requests another size and, if it is being dragged, another position.
    Resize(WindowId, Size<i32, Logical>, Option<(i32, i32)>),
    /// A window has disappeared.
    Hidden(WindowId),
    /// A window that positions itself, such as a menu or a tooltip, is shown or has moved.
    Override(WindowId, Rectangle<i32, Logical>),
    /// The Wayland surface with the window's pixels.
    Surface(WindowId, SurfaceName),
    /// A window requests to be the active one.
    Activate(WindowId),
    /// A window requests to be moved with the pointer.
    Move(WindowId),
    /// An X11 application has copied data, and offers it in these types. An empty list means that the data is no longer
    /// offered.
    Copied(Vec<String>),
    /// An X11 application pastes. The data of this type must be written to the descriptor.
    Paste(String, OwnedFd),
    /// The connection to the server has ended.
    Ended(String),
}

/// The compositor's newest requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The new positions of windows. Some windows may already be at their new position.
    pub(crate) places: BTreeMap<WindowId, Placement>,
    /// The X11 window with the keyboard focus. `None` if the focus has not changed; `Some(None)` if no X11 window has
    /// the focus.
    pub(crate) focus: Option<Option<WindowId>>,
    /// The types of copied data that does not come from an X11 application. `None` if they have not changed.
    pub(crate) copied: Option<Vec<String>>,
    /// Requests for data that an X11 application has copied: its type, and the descriptor to which it must be written.
    pub(crate) fetches: VecDeque<(String, OwnedFd)>,
    pub(crate) stop: bool,
}

/// The storage of the requests.
pub(crate) struct Board {
    requests: Mutex<Requests>,
    /// Woken when a request is stored.
    pub(crate) changed: Waker,
}

impl Board {
    pub(crate) fn new(changed: Waker) -> Board {
        Board {
            requests: Mutex::default(),
            changed,
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn request(&self, change: impl FnOnce(&mut Requests)) {
        change(&mut self.requests());
        self.changed.wake();
    }

    /// Takes the requests, and leaves only `stop` in place.
    pub(crate) fn take(&self) -> Requests {
        let mut requests = self.requests();
        let stop = requests.stop;
        let taken = std::mem::take(&mut *requests);
        requests.stop = stop;
        taken
    }

    /// Whether the window manager should end.
    pub(crate) fn stops(&self) -> bool {
        self.requests().stop
    }
}
