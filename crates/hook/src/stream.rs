//! The one stream of this process: which window is streamed, whether a picture is wanted now, and
//! where it goes.
//!
//! A library that is loaded into a process has no place to keep anything but the process: the
//! statics of this file are the only ones that hold state of the stream. [`stream`] is called at each
//! swap; it takes no lock in a forked child, whose locks may be held by threads that are not there.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use openuvr_media::capture::submit::Submitter;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::clock;
use openuvr_runtime::line::SOCKET;

use crate::gl::Readers;
use crate::session::{self, Session};
use crate::windows::{Key, Place, Windows};

/// The process whose stream it is; 0 before its first context or swap. A child inherits its parent's
/// id, which is not its own.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Nothing is done any more in this process, for whatever reason.
static OFF: AtomicBool = AtomicBool::new(false);

static STREAM: Stream = Stream {
    state: Mutex::new(State {
        windows: Windows::new(),
        session: None,
    }),
    readers: Readers::new(),
};

/// The stream of this process; `None` if it has none: not started by `openuvr run`, forked, or
/// failed. From any thread; the first call makes this process the owner.
pub(crate) fn stream() -> Option<&'static Stream> {
    if OFF.load(Ordering::Relaxed) {
        return None;
    }
    let me = std::process::id();
    match OWNER.load(Ordering::Acquire) {
        0 => {
            if std::env::var_os(SOCKET).is_none() {
                turn_off();
                return None;
            }
            let first = OWNER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire);
            match first {
                Ok(_) => Some(&STREAM),
                Err(owner) => (owner == me).then_some(&STREAM),
            }
        }
        owner => (owner == me).then_some(&STREAM),
    }
}

/// The same, if it is there already, also where it does nothing any more: for what goes away, and
/// may still be in use.
pub(crate) fn begun() -> Option<&'static Stream> {
    let mine = OWNER.load(Ordering::Acquire) == std::process::id();
    mine.then_some(&STREAM)
}

/// What every function that the game calls does of its own: a panic in it ends the stream, and not
/// the game. `None` then.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    result.map_err(|_| turn_off()).ok()
}

/// Does nothing any more in this process, and in children that it forks from now on.
pub(crate) fn turn_off() {
    OFF.store(true, Ordering::Relaxed);
}

/// A picture is to be read back.
pub(crate) struct Wanted {
    /// Where it is handed over.
    pub(crate) frames: Arc<Submitter>,
    /// Its window's size now, where that is known without asking.
    pub(crate) size: Option<Size>,
}

/// What the swaps of this process share.
pub(crate) struct Stream {
    state: Mutex<State>,
    readers: Readers,
}

struct State {
    windows: Windows,
    session: Option<Session>,
}

impl Stream {
    /// The size of a window, if it was measured a moment ago: to measure it anew at each swap would
    /// cost more than the rest.
    pub(crate) fn size(&self, key: Key) -> Option<Size> {
        self.state().windows.size(clock::now(), key)
    }

    /// Asked before each swap: whether this picture of this window is to be read back, and where it
    /// is to be handed over. The largest window is streamed. `place` says where the window is on an
    /// X display; it is asked once for each window. The first call starts the stream, on a thread
    /// of its own: until that is ready, no picture is wanted.
    pub(crate) fn wants(
        &self,
        key: Key,
        size: Size,
        place: impl FnOnce() -> Option<Place>,
    ) -> Option<Wanted> {
        let now = clock::now();
        let given = self.given(now, key, size, place)?;
        given.frames.wants(now).then_some(given)
    }

    /// Told instead, if a picture can't be read back: the one before it is not what the window shows.
    pub(crate) fn misses(&self, key: Key, size: Size, place: impl FnOnce() -> Option<Place>) {
        let now = clock::now();
        if let Some(given) = self.given(now, key, size, place) {
            given.frames.missed(now);
        }
    }

    /// Where pictures of this window are handed over, if it is the one that is streamed.
    fn given(
        &self,
        now: Instant,
        key: Key,
        size: Size,
        place: impl FnOnce() -> Option<Place>,
    ) -> Option<Wanted> {
        if !size.is_valid() {
            return None;
        }
        let mut state = self.state();
        let State { windows, session } = &mut *state;
        if !windows.shows(now, key, size, place) {
            if let (Some(session), false) = (&session, windows.unseen().is_empty()) {
                session.wake();
            }
            return None;
        }
        let session = match session {
            Some(session) => session,
            None => match session::start(size, windows) {
                Some(started) => session.insert(started),
                None => {
                    turn_off();
                    return None;
                }
            },
        };
        session.follow(windows);
        let (frames, size) = (session.frames()?, session.size());
        Some(Wanted { frames, size })
    }

    /// What reads the pictures of contexts of OpenGL.
    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    /// A window is gone, or its pictures can't be read: another may be streamed.
    pub(crate) fn gone(&self, key: Key) {
        self.state().windows.gone(key);
    }

    /// From now on only windows are streamed whose place is said to be `named`, which is asked again
    /// and again for the others: titles come late.
    pub(crate) fn only_named(&self) {
        self.state().windows.only_named();
    }

    /// Looks at the windows that are not called as the person wants, as far as is known.
    pub(crate) fn name(&self, named: impl Fn(&Place) -> bool) {
        // Who is asked may take a while: not under the lock.
        let nameless = self.nameless();
        for place in nameless.iter().filter(|place| named(place)) {
            self.state().windows.name(place);
        }
    }

    /// Looks at the windows of which it is not known whether they are menus, where that matters.
    pub(crate) fn look(&self, is_popup: impl Fn(&Place) -> bool) {
        let unseen = self.state().windows.unseen();
        // Not under the lock: who is asked may take a while.
        for place in &unseen {
            let popup = is_popup(place);
            self.state().windows.looked_at(place, popup);
        }
    }

    /// Where windows are that are not called as the person wants.
    pub(crate) fn nameless(&self) -> Vec<Place> {
        self.state().windows.nameless()
    }

    /// Where the streamed window is, and a number that changes with the window.
    pub(crate) fn streamed(&self) -> (u64, Option<Place>) {
        let state = self.state();
        let (change, place) = state.windows.streamed();
        (change, place.cloned())
    }

    /// Whether the streamed window, as of change `change`, is there, even if it draws nothing.
    pub(crate) fn hold(&self, change: u64, there: bool) {
        self.state().windows.hold(change, there);
    }

    /// Says why some pictures are not streamed; others may be. `false` if nobody can be told yet.
    pub(crate) fn say(&self, why: &str) -> bool {
        let state = self.state();
        let session = state.session.as_ref();
        session.is_some_and(|session| session.say(why))
    }

    /// Ends the stream and waits until the clients have been told.
    pub(crate) fn end(&self) {
        turn_off();
        if let Some(session) = self.last_session() {
            session.end();
        }
    }

    /// Takes the session away. Who holds the lock lets go of it at once, unless it is a thread that
    /// was stopped in mid-swap, perhaps this one: it is not waited for.
    fn last_session(&self) -> Option<Session> {
        /// Times a millisecond.
        const TRIES: u32 = 100;
        for _ in 0..TRIES {
            match self.state.try_lock() {
                Ok(mut state) => return state.session.take(),
                Err(TryLockError::Poisoned(state)) => return state.into_inner().session.take(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// At the end of the process (`exit`, or a return from `main`) the clients are told goodbye. Not in
/// a forked child. Libraries, this one included, take themselves apart later: our threads must have
/// ended by then.
pub(crate) extern "C" fn at_exit() {
    guarded(|| begun().map(Stream::end));
}
