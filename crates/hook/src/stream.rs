//! The stream of this process: which window is streamed, whether its next frame is read, and which receiver gets the
//! frame.
//!
//! [`stream`] is called at each swap. It takes no lock in a forked child ([`process`]).

use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::submit::Submitter;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::lock::lock;

use crate::process;
pub(crate) use crate::process::guarded;
use crate::session::{self, Session};
use crate::windows::{Key, SharedWindows, XWindow};

static STREAM: Stream = Stream {
    windows: SharedWindows::new(),
    session: Mutex::new(None),
};

/// The stream of this process, if it has one ([`process::is_enabled`]). May be called from any thread.
pub(crate) fn stream() -> Option<&'static Stream> {
    process::is_enabled().then_some(&STREAM)
}

/// The stream of this process, if it has already started ([`process::has_started`]).
pub(crate) fn started_stream() -> Option<&'static Stream> {
    process::has_started().then_some(&STREAM)
}

/// A request to read a frame back.
pub(crate) struct ReadRequest {
    /// The receiver of the frame.
    pub(crate) frames: Arc<Submitter>,
    /// The current size of the window, if known without a query.
    pub(crate) size: Option<Size>,
}

/// The state shared by the swaps of this process.
pub(crate) struct Stream {
    /// A thread that needs this lock and the lock of `session` takes this one first.
    windows: SharedWindows,
    session: Mutex<Option<Session>>,
}

impl Stream {
    /// The size of a window, if it was measured recently. A measurement at each swap would cost more than all other
    /// steps.
    pub(crate) fn size(&self, key: Key) -> Option<Size> {
        self.windows.lock().size(clock::now(), key)
    }

    /// Called before each swap. If this frame of this window must be read back, returns the frame's receiver. The
    /// largest window is streamed. `window` returns the X window and is called once for each window. The first call of
    /// this method starts the stream on a separate thread. Until the stream is ready, no frame is requested.
    pub(crate) fn request_read(
        &'static self,
        key: Key,
        size: Size,
        window: impl FnOnce() -> Option<XWindow>,
    ) -> Option<ReadRequest> {
        let now = clock::now();
        let target = self.target(now, key, size, window)?;
        target.frames.wants(now).then_some(target)
    }

    /// Called instead of `request_read` if a frame can't be read back. The previous frame is then outdated.
    pub(crate) fn skip(
        &'static self,
        key: Key,
        size: Size,
        window: impl FnOnce() -> Option<XWindow>,
    ) {
        let now = clock::now();
        if let Some(target) = self.target(now, key, size, window) {
            target.frames.missed(now);
        }
    }

    /// The receiver of this window's frames, if it is the streamed one.
    fn target(
        &'static self,
        now: Instant,
        key: Key,
        size: Size,
        window: impl FnOnce() -> Option<XWindow>,
    ) -> Option<ReadRequest> {
        if !size.is_valid() {
            return None;
        }
        let mut windows = self.windows.lock();
        let streamed = windows.on_swap(now, key, size, window);
        let mut session = lock(&self.session);
        if !streamed {
            if let (Some(session), false) = (&*session, windows.unclassified().is_empty()) {
                session.wake();
            }
            return None;
        }
        let session = match &mut *session {
            Some(session) => session,
            none => match session::start(size, windows.streamed(), &self.windows) {
                Some(started) => {
                    // SAFETY: `at_exit` may run at any time, and remains valid because this library is never unloaded.
                    // If registration fails, clients get no goodbye.
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
        Some(ReadRequest { frames, size })
    }

    /// Removes a window that was destroyed or whose frames can't be read. Another window may be streamed instead.
    pub(crate) fn remove(&self, key: Key) {
        self.windows.lock().remove(key);
    }

    /// Reports why some frames are not streamed. Returns `false` before the launcher is connected.
    pub(crate) fn report(&self, why: &str) -> bool {
        let session = lock(&self.session);
        session.as_ref().is_some_and(|session| session.report(why))
    }

    /// Ends the stream and waits until the clients are notified.
    pub(crate) fn end(&self) {
        process::turn_off();
        if let Some(session) = self.take_session() {
            session.end();
        }
    }

    /// Removes the session. The lock is usually held only briefly. A thread that was stopped during a swap, possibly
    /// this one, may hold it forever. In that case, this method gives up.
    fn take_session(&self) -> Option<Session> {
        /// The number of attempts to lock, one millisecond apart.
        const ATTEMPTS: u32 = 100;
        for _ in 0..ATTEMPTS {
            match self.session.try_lock() {
                Ok(mut session) => return session.take(),
                Err(TryLockError::Poisoned(session)) => return session.into_inner().take(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    }
}

/// At the end of the process (`exit`, or a return from `main`), sends the clients a goodbye. Does nothing in a forked
/// child. The destructors of all libraries, including those of this library, run later. The stream's threads must have
/// ended by then.
extern "C" fn at_exit() {
    guarded(|| started_stream().map(Stream::end));
}
