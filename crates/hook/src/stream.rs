//! The one stream of this process: which window is streamed, whether a picture is wanted now, and
//! where it goes.
//!
//! [`stream`] is called at each swap; it takes no lock in a forked child ([`process`]).

use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use openuvr_media::capture::submit::Submitter;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::clock;
use openuvr_runtime::lock::lock;

use crate::process;
pub(crate) use crate::process::guarded;
use crate::session::{self, Session};
use crate::windows::{Key, Place, SharedWindows};

static STREAM: Stream = Stream {
    windows: SharedWindows::new(),
    session: Mutex::new(None),
};

/// The stream of this process, if it has one ([`process::streams`]). From any thread.
pub(crate) fn stream() -> Option<&'static Stream> {
    process::streams().then_some(&STREAM)
}

/// The same, if it is there already ([`process::has_begun`]).
pub(crate) fn begun() -> Option<&'static Stream> {
    process::has_begun().then_some(&STREAM)
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
    /// Locked before the session.
    windows: SharedWindows,
    session: Mutex<Option<Session>>,
}

impl Stream {
    /// The size of a window, if it was measured a moment ago: to measure it anew at each swap would
    /// cost more than the rest.
    pub(crate) fn size(&self, key: Key) -> Option<Size> {
        self.windows.lock().size(clock::now(), key)
    }

    /// Asked before each swap: whether this picture of this window is to be read back, and where it
    /// is to be handed over. The largest window is streamed. `place` says where the window is on an
    /// X display; it is asked once for each window. The first call starts the stream, on a thread
    /// of its own: until that is ready, no picture is wanted.
    pub(crate) fn wants(
        &'static self,
        key: Key,
        size: Size,
        place: impl FnOnce() -> Option<Place>,
    ) -> Option<Wanted> {
        let now = clock::now();
        let given = self.given(now, key, size, place)?;
        given.frames.wants(now).then_some(given)
    }

    /// Told instead, if a picture can't be read back: the one before it is not what the window shows.
    pub(crate) fn misses(
        &'static self,
        key: Key,
        size: Size,
        place: impl FnOnce() -> Option<Place>,
    ) {
        let now = clock::now();
        if let Some(given) = self.given(now, key, size, place) {
            given.frames.missed(now);
        }
    }

    /// Where pictures of this window are handed over, if it is the one that is streamed.
    fn given(
        &'static self,
        now: Instant,
        key: Key,
        size: Size,
        place: impl FnOnce() -> Option<Place>,
    ) -> Option<Wanted> {
        if !size.is_valid() {
            return None;
        }
        let mut windows = self.windows.lock();
        let shown = windows.shows(now, key, size, place);
        let mut session = lock(&self.session);
        if !shown {
            if let (Some(session), false) = (&*session, windows.unseen().is_empty()) {
                session.wake();
            }
            return None;
        }
        let session = match &mut *session {
            Some(session) => session,
            none => match session::start(size, windows.streamed(), &self.windows) {
                Some(started) => {
                    // SAFETY: the function stays (the library is never unloaded), and may be called at
                    // any time. Without room for it, clients hear nothing at the end.
                    let _ = unsafe { libc::atexit(at_exit) };
                    none.insert(started)
                }
                None => {
                    process::turn_off();
                    return None;
                }
            },
        };
        session.follow(windows.streamed());
        let (frames, size) = (session.frames()?, session.size());
        Some(Wanted { frames, size })
    }

    /// A window is gone, or its pictures can't be read: another may be streamed.
    pub(crate) fn gone(&self, key: Key) {
        self.windows.lock().gone(key);
    }

    /// Says why some pictures are not streamed; others may be. `false` if nobody can be told yet.
    pub(crate) fn say(&self, why: &str) -> bool {
        let session = lock(&self.session);
        session.as_ref().is_some_and(|session| session.say(why))
    }

    /// Ends the stream and waits until the clients have been told.
    pub(crate) fn end(&self) {
        process::turn_off();
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
            match self.session.try_lock() {
                Ok(mut session) => return session.take(),
                Err(TryLockError::Poisoned(session)) => return session.into_inner().take(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    }
}

/// At the end of the process (`exit`, or a return from `main`) the clients are told goodbye. Not in
/// a forked child. Libraries, this one included, take themselves apart later: our threads must have
/// ended by then.
extern "C" fn at_exit() {
    guarded(|| begun().map(Stream::end));
}
