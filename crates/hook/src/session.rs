//! The session thread. It gets its configuration from `openuvr run`, starts the host in this process, reports events,
//! and ends the host when the launcher or this process requests it.
//!
//! The process waits for this thread only when the process ends.

use std::env;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::application::WindowScope;
use openuvr_media::capture::Waker;
use openuvr_media::capture::submit::Submitter;
use openuvr_media::pad;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::guest::{Guest, InputTarget};
use openuvr_runtime::host::Notice;
use openuvr_runtime::launch_protocol::{LaunchReport, LaunchSettings};
use openuvr_runtime::launcher::Launcher;
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::process::turn_off;
use crate::window_tracker::{self, WindowTracker};
use crate::windows::{SharedWindows, XWindow};

/// How long the end of the process may wait for the session's threads (guess). They usually end within some tenths of a
/// second, even during the start of the host. They never end if they wait for another thread that was stopped.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The interval at which window titles are compared with the requested title, because games set titles late (guess: an
/// unnoticeable delay).
const TITLE_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// While there are subscribers, the thread checks at this interval whether the image of an idle window must be read
/// (guess: an acceptable delay).
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The delay before the image of an overlaid window is read again, if the last attempt was too early (guess: a quarter
/// of a frame at 60 Hz).
const RETRY_DELAY: Duration = Duration::from_millis(4);

/// How long the search for a window with the requested title may take before it is reported (guess: games set titles
/// before their first frame, or soon after).
const SEARCH_NOTICE_DELAY: Duration = Duration::from_secs(5);

/// A handle of a session for the swap calls.
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// Carries no message. It closes when the thread has ended.
    ended: Receiver<()>,
    /// The streamed window's changes are numbered. This is the last number that was passed to the thread.
    change: u64,
}

struct Shared {
    /// Set when the host runs.
    frames: OnceLock<Arc<Submitter>>,
    launcher: OnceLock<Launcher>,
    /// The streamed window, and the number of the change that selected it.
    window: Mutex<(u64, Option<XWindow>)>,
    /// All windows. The thread makes the X queries about them.
    windows: &'static SharedWindows,
    /// The measured size of the streamed window, and the number of the change that selected the window.
    measured: Mutex<Option<(u64, Size)>>,
    stop: AtomicBool,
    /// Wakes the thread, for example when `window` or `stop` has changed.
    waker: Waker,
}

/// Why the thread woke up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WakeReason {
    Event,
    /// The connection to the window's display failed.
    DisplayLost,
    Stopped,
}

/// Starts the thread for frames that initially have `size`. `window` is the streamed window, and `change` is the number
/// of the change that selected it. `None` if no thread can be created.
pub(crate) fn start(
    size: Size,
    (change, window): (u64, Option<&XWindow>),
    windows: &'static SharedWindows,
) -> Option<Session> {
    let shared = Arc::new(Shared {
        frames: OnceLock::new(),
        launcher: OnceLock::new(),
        window: Mutex::new((change, window.cloned())),
        windows,
        measured: Mutex::new(None),
        stop: AtomicBool::new(false),
        waker: Waker::new().ok()?,
    });
    // Panics must not print to the game's console. Users notice a panic, because the stream ends. The call sets the
    // panic hook only in this library's copy of the standard library; a game written in Rust has its own copy.
    std::panic::set_hook(Box::new(|_| {}));
    let (alive, ended) = sync_channel(0);
    let thread_shared = shared.clone();
    // The thread blocks all signals except those of its own faults, so that the game's own threads handle them.
    let thread = Scheduler::ordinary().spawn(ThreadRole::Background, "ouvr-run", move || {
        let _alive = alive;
        if let Err(why) = thread_shared.run(size) {
            thread_shared.send(&Notice::Failed(why).into());
        }
        turn_off();
    });
    thread.ok()?;
    Some(Session {
        shared,
        ended,
        change,
    })
}

impl Session {
    /// The receiver of frames; `None` before the host runs.
    pub(crate) fn frames(&self) -> Option<Arc<Submitter>> {
        self.shared.frames.get().cloned()
    }

    /// Notifies the thread if the streamed window has changed.
    pub(crate) fn follow(&mut self, (change, window): (u64, Option<&XWindow>)) {
        if change != self.change {
            self.change = change;
            *lock(&self.shared.window) = (change, window.cloned());
            self.shared.waker.wake();
        }
    }

    pub(crate) fn wake(&self) {
        self.shared.waker.wake();
    }

    /// The size of the streamed window, if the thread tracks it. This saves the game an X round trip.
    pub(crate) fn size(&self) -> Option<Size> {
        let measured = *lock(&self.shared.measured);
        measured
            .filter(|(change, _)| *change == self.change)
            .map(|(_, size)| size)
    }

    /// Reports a problem. Returns `false` before the launcher is connected.
    pub(crate) fn report(&self, why: &str) -> bool {
        self.shared.report(why.to_owned())
    }

    /// Ends the thread and waits for it, at most [`TIMEOUT`].
    pub(crate) fn end(self) {
        self.stop();
        // The channel closes when the thread has ended.
        let _ = self.ended.recv_timeout(TIMEOUT);
    }

    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.waker.wake();
    }
}

impl Shared {
    fn run(self: &Arc<Shared>, size: Size) -> Result<(), String> {
        let Some(mut settings) = self.wait_for_settings()? else {
            return Ok(());
        };
        // The folder in which this game's processes look for gamepads.
        settings.host.pads_folder = env::var_os(pad::FOLDER).map(PathBuf::from);
        let (_, window) = self.window();
        let display = window.map(|window| window.display);
        let display = display.or_else(|| env::var("DISPLAY").ok());
        let guest = self.host(&settings, display.as_deref(), size)?;
        self.send(&LaunchReport::Streaming {
            size,
            endpoint: guest.endpoint().to_owned(),
        });
        // A PIN that the user chose is not reported.
        if let Some(pin) = guest.pin().filter(|_| settings.host.pin.is_none()) {
            self.send(&LaunchReport::Invitation {
                pin: pin.to_string(),
                seconds: settings.host.pairing_timeout,
            });
        }
        if settings.window.is_some() {
            self.windows.lock().only_matching();
        }
        guest.frames().wake_when_watched(self.waker.clone());
        let _ = self.frames.set(guest.frames().clone());
        self.serve(&guest, settings.window.as_deref());
        // The game has ended if this was its last process. Otherwise, clients reconnect to the host in the game's next
        // process.
        if self.stop.load(Ordering::Relaxed)
            && self.launcher.get().is_some_and(Launcher::is_last_process)
        {
            guest.source_ended();
        }
        Ok(())
    }

    /// Waits for the configuration; `None` if the session is stopped first.
    fn wait_for_settings(&self) -> Result<Option<LaunchSettings>, String> {
        let launcher = Launcher::connect()?;
        let launcher = self.launcher.get_or_init(|| launcher);
        loop {
            if self.wait(None, None) == WakeReason::Stopped {
                return Ok(None);
            }
            if let Some(settings) = launcher.settings()? {
                return Ok(Some(settings));
            }
        }
    }

    /// Starts the host, without input if injection is unavailable.
    fn host(
        self: &Arc<Shared>,
        settings: &LaunchSettings,
        display: Option<&str>,
        size: Size,
    ) -> Result<Guest, String> {
        let start = |input| {
            let shared = self.clone();
            let notify = move |notice| shared.send(&LaunchReport::from(notice));
            Guest::on_display(&settings.host, input, display, size, notify)
        };
        let input = match display.filter(|_| settings.input) {
            Some(display) => InputTarget::Display(display.to_owned()),
            None => InputTarget::Nothing,
        };
        if let InputTarget::Display(display) = &input {
            // Sent before any key is pressed on this display. If this process is killed, the launcher releases the
            // keys.
            self.send(&LaunchReport::InputDisplay(display.clone()));
        }
        let first = start(input.clone());
        match first {
            Err(why) if input != InputTarget::Nothing => {
                let guest = start(InputTarget::Nothing)?;
                self.send(
                    &Notice::Warning(format!("keyboard and mouse input is unavailable: {why}"))
                        .into(),
                );
                Ok(guest)
            }
            result => result,
        }
    }

    /// Follows the streamed window until the session ends. With `title`, follows only a window with that title.
    fn serve(&self, guest: &Guest, title: Option<&str>) {
        let mut search = title.map(Search::new);
        // With a requested title, clients may see and control only the window with that title, with its menus and
        // dialogs.
        let scope = match title {
            Some(_) => WindowScope::Transients,
            None => WindowScope::Program,
        };
        guest.set_window_scope(scope);
        // With a requested title, no window gets input yet: the X queries for the window take time, and a client may
        // already be connected.
        guest.set_window(input_window(None, scope));
        let mut follower = Follower {
            shared: self,
            guest,
            scope,
            followed: (0, None),
            tracker: None,
        };
        loop {
            if let Some(search) = &mut search {
                search.update(self);
                *lock(&self.window) = self.windows.streamed();
            }
            self.windows.classify(window_tracker::is_popup);
            follower.follow();
            let recheck = follower.show();
            let tracker = &mut follower.tracker;
            if tracker.as_mut().is_some_and(WindowTracker::drain_events) {
                continue;
            }
            match self.wait(
                tracker.as_ref(),
                recheck.or(title.map(|_| TITLE_POLL_INTERVAL)),
            ) {
                WakeReason::Stopped => return,
                WakeReason::DisplayLost => follower.on_display_lost(),
                WakeReason::Event => {}
            }
        }
    }

    /// Waits for an event, at most `timeout`.
    fn wait(&self, tracker: Option<&WindowTracker>, timeout: Option<Duration>) -> WakeReason {
        let Some(launcher) = self.launcher.get() else {
            return WakeReason::Stopped;
        };
        let mut fds = vec![
            PollFd::new(&self.waker.0, PollFlags::IN),
            PollFd::new(launcher, PollFlags::IN),
        ];
        fds.extend(tracker.map(|tracker| PollFd::from_borrowed_fd(tracker.as_fd(), PollFlags::IN)));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // If a signal interrupts the wait, the caller waits again.
        let _ = poll(&mut fds, timeout.as_ref());
        let broke = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let (stopped, lost) = (broke(&fds[1]), fds.get(2).is_some_and(broke));
        let _ = rustix::io::read(&self.waker.0, &mut [0u8; 8]);
        match () {
            () if stopped || self.stop.load(Ordering::Relaxed) => WakeReason::Stopped,
            () if lost => WakeReason::DisplayLost,
            () => WakeReason::Event,
        }
    }

    fn window(&self) -> (u64, Option<XWindow>) {
        lock(&self.window).clone()
    }

    /// Reports a problem. Returns `false` before the launcher is connected.
    fn report(&self, why: String) -> bool {
        self.send(&Notice::Warning(why).into());
        self.launcher.get().is_some()
    }

    /// Sends a report to `openuvr run`, if connected. The report is lost if the buffer is full.
    fn send(&self, report: &LaunchReport) {
        if let Some(launcher) = self.launcher.get() {
            launcher.send(report);
        }
    }
}

/// Tracks the streamed window on the session thread.
struct Follower<'a> {
    shared: &'a Shared,
    guest: &'a Guest,
    scope: WindowScope,
    /// The window, and the number of the change that selected it.
    followed: (u64, Option<XWindow>),
    /// `None` if there is no window, or if the window or its display is unreachable.
    tracker: Option<WindowTracker>,
}

impl Follower<'_> {
    /// Switches to the currently streamed window, and passes its area to the host.
    fn follow(&mut self) {
        let window = self.shared.window();
        if self.followed != window {
            self.guest
                .set_window(input_window(window.1.as_ref(), self.scope));
            let open = |window: XWindow| WindowTracker::open(window, self.scope);
            self.tracker = window.1.clone().and_then(open);
            self.followed = window;
        }
        if let Some(area) = self.tracker.as_mut().and_then(WindowTracker::poll_area) {
            let size = area.size();
            self.guest.set_viewport(area.left, area.top, Some(size));
            *lock(&self.shared.measured) = Some((self.followed.0, size));
        }
    }

    /// Updates the window's visibility. Submits the window's image while swaps do not provide it: while other windows
    /// of the program cover the window, and while the window is idle. Returns the delay after which to check again if
    /// no event occurs.
    fn show(&mut self) -> Option<Duration> {
        let (frames, now) = (self.guest.frames(), clock::now());
        let tracker = self.tracker.as_mut();
        let overlaid = tracker.is_some_and(WindowTracker::is_overlaid);
        frames.overlaid(now, overlaid);
        let mut recheck = frames.is_watched().then_some(IDLE_POLL_INTERVAL);
        let Some(tracker) = &mut self.tracker else {
            return recheck;
        };
        let visible = tracker.is_visible();
        self.guest.set_shown(visible);
        self.shared
            .windows
            .lock()
            .set_alive(self.followed.0, visible);
        if overlaid && tracker.is_damaged() {
            recheck = recheck.map(|_| RETRY_DELAY);
            if let Some(still) = frames.wants_still(now) {
                // Cleared before the image is read, because the image may lack later drawing.
                tracker.clear_damage();
                if let Some(picture) = tracker.picture() {
                    frames.submit_still(still, Box::new(picture));
                }
            }
        }
        if let Some(still) = frames.missing_still(now)
            && let Some(picture) = tracker.picture()
        {
            frames.submit_still(still, Box::new(picture));
        }
        recheck
    }

    /// Handles the loss of the connection to the window's display.
    fn on_display_lost(&mut self) {
        self.tracker = None;
        self.shared.windows.lock().set_alive(self.followed.0, false);
        *lock(&self.shared.measured) = None;
    }
}

/// The window to which the host restricts input; `None` for no restriction. While no window has the requested title,
/// the result is an unused identifier, so that keys and clicks reach no window.
fn input_window(window: Option<&XWindow>, scope: WindowScope) -> Option<u32> {
    let unknown = match scope {
        WindowScope::Transients => Some(x11rb::NONE),
        WindowScope::Program => None,
    };
    window.map(|window| window.id).or(unknown)
}

/// The search for the window with the requested title.
struct Search<'a> {
    title: &'a str,
    started: Instant,
    reported: bool,
}

impl Search<'_> {
    fn new(title: &str) -> Search<'_> {
        Search {
            title,
            started: clock::now(),
            reported: false,
        }
    }

    /// Checks the titles of unmatched windows. If none matches for [`SEARCH_NOTICE_DELAY`], reports the existing titles
    /// once.
    fn update(&mut self, shared: &Shared) {
        let windows = shared.windows;
        windows.match_titles(|window| window_tracker::has_title(window, self.title));
        let late = clock::now().since(self.started) >= SEARCH_NOTICE_DELAY;
        if self.reported || !late || windows.streamed().1.is_some() {
            return;
        }
        let others = windows.lock().unmatched();
        let others: Vec<String> = others
            .iter()
            .filter_map(|window| window_tracker::titles(window).into_iter().next())
            .map(|name| format!("'{name}'"))
            .collect();
        self.reported = shared.report(format!(
            "no window with '{}' in its title or class has presented a frame yet; other windows: {}",
            self.title,
            if others.is_empty() {
                "none with a title".to_owned()
            } else {
                others.join(", ")
            }
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_waits_for_the_window_with_the_requested_title() {
        let window = XWindow {
            display: ":1".into(),
            id: 7,
        };
        let [titled, any] = [WindowScope::Transients, WindowScope::Program];
        assert_eq!(input_window(None, titled), Some(x11rb::NONE));
        assert_eq!(input_window(None, any), None);
        assert_eq!(input_window(Some(&window), titled), Some(7));
        assert_eq!(input_window(Some(&window), any), Some(7));
    }
}
