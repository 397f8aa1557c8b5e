//! The thread that talks with `openuvr run`: it asks what to do, starts the host in this process,
//! tells what happens, and ends the host when either side wants that.
//!
//! Nobody waits for it but the end of the process.

use std::env;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use openuvr_media::application::WindowScope;
use openuvr_media::capture::Waker;
use openuvr_media::capture::submit::Submitter;
use openuvr_media::pad;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::clock;
use openuvr_runtime::guest::{Guest, InputTo};
use openuvr_runtime::launched::Launcher;
use openuvr_runtime::line::{Line, Order};
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::place::{self, WindowTracker};
use crate::process::turn_off;
use crate::windows::{Place, SharedWindows};

/// How long the end of the process may wait for our threads (guess: they end within some tenths of a
/// second, even if the host is just being started, unless what they need was stopped).
const TIMEOUT: Duration = Duration::from_secs(5);

/// How often windows are looked at again that are not called as the person wants: games name theirs
/// when they like (guess: a person does not notice).
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How often a program that somebody watches is looked at, whether it has come to rest and shows what
/// was not read (guess: a person does not wait for what comes this much later).
const REST: Duration = Duration::from_millis(100);

/// A picture with other windows in it that came too soon is tried again this much later (guess: a
/// quarter of a frame at 60 a second).
const SOON: Duration = Duration::from_millis(4);

/// A window with the name that a person has given is waited for in silence this long (guess: games
/// name theirs before their first picture, or soon after).
const WONDER: Duration = Duration::from_secs(5);

/// A session, from the side of the swaps.
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// Nothing comes; it closes when the thread has ended.
    over: Receiver<()>,
    /// The change of the streamed window that the thread knows of.
    told: u64,
}

struct Shared {
    /// There when the host runs.
    frames: OnceLock<Arc<Submitter>>,
    launcher: OnceLock<Launcher>,
    /// The streamed window, and the change with which it came.
    place: Mutex<(u64, Option<Place>)>,
    /// All windows, which the thread looks at where that takes a turn with the X server.
    windows: &'static SharedWindows,
    /// Its size as the thread has heard of it, and for which change.
    heard: Mutex<Option<(u64, Size)>>,
    stop: AtomicBool,
    /// Raised when `place` or `stop` has changed.
    waker: Waker,
}

/// What the thread woke up for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WakeReason {
    News,
    /// The window's display broke.
    Lost,
    /// The end.
    Over,
}

/// Starts the thread for pictures of `size` at first, of the window that is `streamed` now (the number of
/// the change, and its place). `None` if the system has none to give.
pub(crate) fn start(
    size: Size,
    (told, place): (u64, Option<&Place>),
    windows: &'static SharedWindows,
) -> Option<Session> {
    let shared = Arc::new(Shared {
        frames: OnceLock::new(),
        launcher: OnceLock::new(),
        place: Mutex::new((told, place.cloned())),
        windows,
        heard: Mutex::new(None),
        stop: AtomicBool::new(false),
        waker: Waker::new().ok()?,
    });
    // A panic of ours is told by what it ends; the console is the game's. This is the hook of the
    // standard library in this library: a game in Rust has its own.
    std::panic::set_hook(Box::new(|_| {}));
    let (alive, over) = sync_channel(0);
    let ours = shared.clone();
    // All its signals are the game's.
    let thread = Scheduler::ordinary().spawn(ThreadRole::Background, "ouvr-run", move || {
        let _alive = alive;
        if let Err(why) = ours.run(size) {
            ours.say(&Line::Failed(why));
        }
        turn_off();
    });
    thread.ok()?;
    Some(Session { shared, over, told })
}

impl Session {
    /// Where pictures go; `None` while the host does not run yet.
    pub(crate) fn frames(&self) -> Option<Arc<Submitter>> {
        self.shared.frames.get().cloned()
    }

    /// Tells the thread if another window is streamed now.
    pub(crate) fn follow(&mut self, (changes, place): (u64, Option<&Place>)) {
        if changes != self.told {
            self.told = changes;
            *lock(&self.shared.place) = (changes, place.cloned());
            self.shared.waker.wake();
        }
    }

    /// Has the thread look at what is new.
    pub(crate) fn wake(&self) {
        self.shared.waker.wake();
    }

    /// The size of the streamed window, if the thread follows it: what it hears costs the game no
    /// turn with the X server.
    pub(crate) fn size(&self) -> Option<Size> {
        let heard = *lock(&self.shared.heard);
        heard
            .filter(|(change, _)| *change == self.told)
            .map(|(_, size)| size)
    }

    /// Says what does not work; `false` if nobody can be told yet.
    pub(crate) fn say(&self, why: &str) -> bool {
        self.shared.trouble(why.to_owned())
    }

    /// Ends the thread and waits for it, at most [`TIMEOUT`].
    pub(crate) fn end(self) {
        self.stop();
        // Nothing is ever sent: it returns when the thread has ended.
        let _ = self.over.recv_timeout(TIMEOUT);
    }

    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.waker.wake();
    }
}

impl Shared {
    fn run(self: &Arc<Shared>, size: Size) -> Result<(), String> {
        let Some(mut order) = self.ask()? else {
            return Ok(());
        };
        // Where the processes of this game look for pads, if they do.
        order.host.pads_folder = env::var_os(pad::FOLDER).map(PathBuf::from);
        let (_, place) = self.place();
        let display = place.map(|place| place.display);
        let display = display.or_else(|| env::var("DISPLAY").ok());
        let guest = self.host(&order, display.as_deref(), size)?;
        self.say(&Line::Streaming {
            size,
            place: guest.place().to_owned(),
        });
        // One that the person chose need not be told.
        if let Some(pin) = guest.pin().filter(|_| order.host.pin.is_none()) {
            self.say(&Line::Invitation {
                pin: pin.to_string(),
                seconds: order.host.pair_for,
            });
        }
        if order.window.is_some() {
            self.windows.lock().only_named();
        }
        guest.frames().tell_of_audience(self.waker.clone());
        let _ = self.frames.set(guest.frames().clone());
        self.serve(&guest, order.window.as_deref());
        Ok(())
    }

    /// Waits for what to do; `None` if it is over before.
    fn ask(&self) -> Result<Option<Order>, String> {
        let launcher = Launcher::connect()?;
        let launcher = self.launcher.get_or_init(|| launcher);
        loop {
            if self.waits(None, None) == WakeReason::Over {
                return Ok(None);
            }
            if let Some(order) = launcher.order()? {
                return Ok(Some(order));
            }
        }
    }

    /// Starts the host; if input can't be injected, without input.
    fn host(
        self: &Arc<Shared>,
        order: &Order,
        display: Option<&str>,
        size: Size,
    ) -> Result<Guest, String> {
        let start = |input| {
            let shared = self.clone();
            let tell = move |notice| shared.say(&Line::from(notice));
            Guest::on_display(&order.host, input, display, size, tell)
        };
        let input = match display.filter(|_| order.input) {
            Some(display) => InputTo::Display(display.to_owned()),
            None => InputTo::Nothing,
        };
        if let InputTo::Display(display) = &input {
            // Before anything is pressed there: if this process is killed, somebody must know.
            self.say(&Line::InputGoesTo(display.clone()));
        }
        let first = start(input.clone());
        match first {
            Err(why) if input != InputTo::Nothing => {
                let guest = start(InputTo::Nothing)?;
                self.say(&Line::Trouble(format!("no input reaches the game: {why}")));
                Ok(guest)
            }
            result => result,
        }
    }

    /// Follows the streamed window until the end, which is to have this title if there is one.
    fn serve(&self, guest: &Guest, title: Option<&str>) {
        let mut search = title.map(Search::new);
        // Who was given one window was not given the others.
        let scope = match title {
            Some(_) => WindowScope::Accompanying,
            None => WindowScope::Program,
        };
        guest.set_window_scope(scope);
        let mut following = Following {
            shared: self,
            guest,
            scope,
            followed: (0, None),
            tracker: None,
        };
        loop {
            if let Some(search) = &mut search {
                search.look(self);
                *lock(&self.place) = self.windows.streamed();
            }
            self.windows.look(place::is_popup);
            following.follow();
            let again = following.show();
            let tracker = &mut following.tracker;
            if tracker.as_mut().is_some_and(WindowTracker::drain_events) {
                continue;
            }
            match self.waits(tracker.as_ref(), again.or(title.map(|_| LOOK_AGAIN))) {
                WakeReason::Over => return,
                WakeReason::Lost => following.lose(),
                WakeReason::News => {}
            }
        }
    }

    /// Waits until something has happened, or at most so long.
    fn waits(&self, follower: Option<&WindowTracker>, longest: Option<Duration>) -> WakeReason {
        let Some(launcher) = self.launcher.get() else {
            return WakeReason::Over;
        };
        let mut fds = vec![
            PollFd::new(&self.waker.0, PollFlags::IN),
            PollFd::new(launcher, PollFlags::IN),
        ];
        fds.extend(follower.map(|f| PollFd::from_borrowed_fd(f.as_fd(), PollFlags::IN)));
        let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
        // Interrupted, it waits again.
        let _ = poll(&mut fds, longest.as_ref());
        let broke = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let (over, lost) = (broke(&fds[1]), fds.get(2).is_some_and(broke));
        let _ = rustix::io::read(&self.waker.0, &mut [0u8; 8]);
        match () {
            () if over || self.stop.load(Ordering::Relaxed) => WakeReason::Over,
            () if lost => WakeReason::Lost,
            () => WakeReason::News,
        }
    }

    fn place(&self) -> (u64, Option<Place>) {
        lock(&self.place).clone()
    }

    /// Says what does not work; `false` if nobody can be told yet.
    fn trouble(&self, why: String) -> bool {
        self.say(&Line::Trouble(why));
        self.launcher.get().is_some()
    }

    /// Tells `openuvr run`, if it listens: a line for which there is no room is lost.
    fn say(&self, line: &Line) {
        if let Some(launcher) = self.launcher.get() {
            launcher.say(line);
        }
    }
}

/// The streamed window, as the thread follows it.
struct Following<'a> {
    shared: &'a Shared,
    guest: &'a Guest,
    scope: WindowScope,
    /// The window, and the change with which it came.
    followed: (u64, Option<Place>),
    /// `None` where its display can't be reached.
    tracker: Option<WindowTracker>,
}

impl Following<'_> {
    /// Takes up the window that is streamed now, and passes on where it lies.
    fn follow(&mut self) {
        let place = self.shared.place();
        if self.followed != place {
            let window = place.1.as_ref().map(|place| place.window);
            self.guest.set_window(window);
            let open = |place: Place| WindowTracker::open(place, self.scope);
            self.tracker = place.1.clone().and_then(open);
            self.followed = place;
        }
        if let Some(area) = self.tracker.as_mut().and_then(WindowTracker::news) {
            let size = area.size();
            self.guest.set_viewport(area.left, area.top, Some(size));
            *lock(&self.shared.heard) = Some((self.followed.0, size));
        }
    }

    /// Passes on whether the window is seen, and its picture where the swaps do not give it: while other
    /// windows lie over it, and when it rests. When to look again, if nothing happens before.
    fn show(&mut self) -> Option<Duration> {
        let (frames, now) = (self.guest.frames(), clock::now());
        let tracker = self.tracker.as_mut();
        let accompanied = tracker.is_some_and(WindowTracker::is_accompanied);
        frames.overlaid(now, accompanied);
        let mut again = frames.is_watched().then_some(REST);
        let Some(tracker) = &mut self.tracker else {
            return again;
        };
        let visible = tracker.is_visible();
        self.guest.set_shown(visible);
        self.shared.windows.lock().hold(self.followed.0, visible);
        if accompanied && tracker.has_drawn() {
            again = again.map(|_| SOON);
            if let Some(still) = frames.wants_still(now) {
                // What is drawn from here on may not be in the picture.
                tracker.forget_drawn();
                if let Some(picture) = tracker.picture() {
                    frames.submit_still(still, Box::new(picture));
                }
            }
        }
        if let Some(still) = frames.lacks(now)
            && let Some(picture) = tracker.picture()
        {
            frames.submit_still(still, Box::new(picture));
        }
        again
    }

    /// Its display is gone.
    fn lose(&mut self) {
        self.tracker = None;
        self.shared.windows.lock().hold(self.followed.0, false);
        *lock(&self.shared.heard) = None;
    }
}

/// The search for the window that a person has named.
struct Search<'a> {
    title: &'a str,
    begun: Instant,
    told: bool,
}

impl Search<'_> {
    fn new(title: &str) -> Search<'_> {
        Search {
            title,
            begun: clock::now(),
            told: false,
        }
    }

    /// Looks at the windows that are not known yet to be called so; says once which there are if none
    /// is.
    fn look(&mut self, shared: &Shared) {
        let windows = shared.windows;
        windows.name(|place| place::is_called(place, self.title));
        let late = clock::now().since(self.begun) >= WONDER;
        if self.told || !late || windows.streamed().1.is_some() {
            return;
        }
        let others = windows.lock().nameless();
        let others: Vec<String> = others
            .iter()
            .filter_map(|place| place::names(place).into_iter().next())
            .map(|name| format!("'{name}'"))
            .collect();
        self.told = shared.trouble(format!(
            "no window whose title or class has '{}' has shown a picture yet; there are: {}",
            self.title,
            if others.is_empty() {
                "none with a title".to_owned()
            } else {
                others.join(", ")
            }
        ));
    }
}
