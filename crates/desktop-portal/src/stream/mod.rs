//! The picture stream of a session: frames, the separate pointer, and the end.
//!
//! libpipewire runs its callbacks in its own thread. A frame stays in the compositor's buffer: it is not copied, and
//! the buffer is returned when a newer frame has replaced it. At most two frames are held: the frame in use and the
//! waiting frame.

mod frame;
mod pod;
mod pointer;
mod sys;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openuvr_media::capture::CaptureError;
use openuvr_media::waker::Waker;
use openuvr_proto::units::Size;

pub(crate) use self::frame::Frame;
use self::pod::{Pod, VideoFormat};
pub(crate) use self::pointer::Pointer;
use self::sys::{Arrival, Connection, Listener, Mapping, PipeWire, Progress};

/// Maximum wait for the agreement on a format (guess: it takes milliseconds on an idle machine).
const AGREEMENT: Duration = Duration::from_secs(20);

/// After a stream has ended, the portal has this time to report the end of the session. A desktop ends both at once,
/// and reports each separately (guess: a millisecond apart on an idle machine).
const VERDICT: Duration = Duration::from_secs(3);

/// Why a stream has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The user or the desktop has ended it.
    Regular(&'static str),
    /// A failure, described in one line.
    Failed(String),
}

/// Frames, pointer and end of a stream. libpipewire's thread shares them with the capture and pointer threads.
pub(crate) struct Arrived {
    state: Mutex<State>,
    /// Notified at each change of the format, and at the end of the stream.
    changed: Condvar,
    /// Woken with each frame, and at the end of the stream.
    pub(crate) frames: Waker,
    /// Woken when the pointer has changed.
    pub(crate) pointers: Waker,
}

#[derive(Default)]
struct State {
    format: Option<VideoFormat>,
    memories: BTreeMap<u64, Arc<Mapping>>,
    waiting: Option<Frame>,
    /// The number of frames so far.
    count: u64,
    pointer: Pointer,
    /// The size of the newest frame, to which the pointer's position refers.
    size: Size,
    end: Option<End>,
}

impl Arrived {
    /// # Errors
    /// Returns an error if no file descriptor is left.
    pub(crate) fn new() -> Result<Arc<Arrived>, CaptureError> {
        Ok(Arc::new(Arrived {
            state: Mutex::default(),
            changed: Condvar::new(),
            frames: Waker::new()?,
            pointers: Waker::new()?,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the stream. Only the first reason counts.
    pub(crate) fn end(&self, end: End) {
        let mut state = self.state();
        if state.end.is_none() {
            state.end = Some(end);
            self.changed.notify_all();
            self.frames.wake();
            self.pointers.wake();
        }
    }

    /// Why the stream has ended, if it has.
    pub(crate) fn ended(&self) -> Option<End> {
        self.state().end.clone()
    }

    /// The number of frames so far, and the size of the waiting frame.
    pub(crate) fn progress(&self) -> (u64, Option<Size>) {
        let state = self.state();
        (state.count, state.waiting.as_ref().map(|frame| frame.size))
    }

    /// The waiting frame.
    pub(crate) fn take(&self) -> Option<Frame> {
        self.state().waiting.take()
    }

    /// The pointer, and the size of the picture that contains it.
    pub(crate) fn pointer(&self) -> (Pointer, Size) {
        let state = self.state();
        (state.pointer.clone(), state.size)
    }

    /// Handles a stream that has ended without a reason. Waits for the portal's reason, because the desktop's user may
    /// have stopped the stream.
    fn closed(&self) {
        let state = self.state();
        let waited = (self.changed).wait_timeout_while(state, VERDICT, |state| state.end.is_none());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.lost("disconnected");
    }

    fn lost(&self, why: &str) {
        self.end(End::Failed(format!(
            "the stream of the desktop's picture has ended ({why}): the PipeWire server or the desktop's portal has \
             probably stopped; start the host again"
        )));
    }

    fn fail(&self, why: &str) {
        self.end(End::Failed(format!(
            "PipeWire: {why}; start the host again, or restart the desktop's portal"
        )));
    }

    /// Waits for the first format.
    fn wait_for_size(&self) -> Result<Size, CaptureError> {
        let until = Instant::now() + AGREEMENT;
        let mut state = self.state();
        loop {
            if let Some(End::Failed(why)) = &state.end {
                return Err(CaptureError(why.clone()));
            }
            if state.end.is_some() {
                return Err(CaptureError(
                    "the desktop ended the session before the first picture".to_owned(),
                ));
            }
            if let Some(format) = state.format {
                return Ok(format.size);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(CaptureError(format!(
                    "PipeWire: the desktop's picture did not arrive within {} s: check that wireplumber, PipeWire's \
                     session manager, is running",
                    AGREEMENT.as_secs()
                )));
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Whether libpipewire can be opened.
///
/// # Errors
/// Returns a one-line error if it is not installed.
pub(crate) fn check_library() -> Result<(), CaptureError> {
    PipeWire::open().map(drop).map_err(CaptureError)
}

/// A connected stream. On drop, it is disconnected.
pub(crate) struct Stream {
    connection: Connection,
    pub(crate) arrived: Arc<Arrived>,
    pub(crate) first_size: Size,
}

impl Stream {
    /// Connects to the node of a portal's session, and waits for its format. `hint` is the probable size.
    ///
    /// # Errors
    /// Returns a one-line error if libpipewire is missing, the server refuses, the stream ends, or no format is agreed
    /// on in time.
    pub(crate) fn open(
        remote: OwnedFd,
        node: u32,
        hint: Size,
        arrived: Arc<Arrived>,
    ) -> Result<Stream, CaptureError> {
        let library = PipeWire::open().map_err(CaptureError)?;
        let offered = pod::offered_formats(hint);
        let listener = Arc::clone(&arrived) as Arc<dyn Listener>;
        let connection = Connection::open(library, remote, node, &offered, listener);
        let connection = connection.map_err(CaptureError)?;
        let mut stream = Stream {
            connection,
            arrived,
            first_size: hint,
        };
        stream.first_size = stream.arrived.wait_for_size()?;
        Ok(stream)
    }

    /// Returns the buffer of a frame that is no longer needed.
    pub(crate) fn give_back(&self, frame: &Frame) {
        self.connection.give_back(frame.number);
    }

    /// Sets whether the compositor draws for this stream.
    pub(crate) fn set_active(&self, active: bool) {
        self.connection.set_active(active);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The end of the stream also ends the wait for the portal's reason.
        self.arrived
            .end(End::Regular("the host has closed the session"));
    }
}

impl Listener for Arrived {
    /// Handles a change of state. When the stream has ended, this call blocks libpipewire's thread for up to
    /// [`VERDICT`]. That is harmless, because no more events come from this thread.
    fn state(&self, progress: Progress) {
        tracing::debug!(?progress, "state of the desktop's stream");
        match progress {
            Progress::Closed => self.closed(),
            Progress::Ended(why) => self.lost(&why),
            Progress::Waiting | Progress::Streaming => {}
        }
    }

    fn format(&self, pod: &[u8]) -> Option<Vec<Pod>> {
        match pod::read_format(pod) {
            Ok(format) => {
                tracing::debug!(?format, "format of the desktop's stream");
                self.state().format = Some(format);
                self.changed.notify_all();
                Some(pod::wanted_buffers().into())
            }
            Err(why) => {
                self.fail(&why);
                None
            }
        }
    }

    fn added(&self, number: u64, memory: Result<Mapping, String>) {
        match memory {
            Ok(memory) => _ = self.state().memories.insert(number, Arc::new(memory)),
            Err(why) => self.fail(&why),
        }
    }

    fn removed(&self, number: u64) {
        // A frame in this buffer stays readable.
        self.state().memories.remove(&number);
    }

    fn arrived(&self, arrival: &Arrival<'_>) -> Option<u64> {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some((_, bytes)) = arrival
            .metas
            .iter()
            .find(|(kind, _)| *kind == pod::META_CURSOR)
            && state.pointer.update(bytes, frame::chunk(arrival).is_some())
        {
            self.pointers.wake();
        }
        let (format, memory) = (state.format, state.memories.get(&arrival.number));
        let (Some(format), Some(memory)) = (format, memory) else {
            return Some(arrival.number);
        };
        match Frame::read(arrival, format, memory) {
            Ok(Some(mut frame)) => {
                let replaced = state.waiting.take();
                if let Some(replaced) = &replaced {
                    frame.follow(replaced);
                }
                state.size = frame.size;
                state.count += 1;
                state.waiting = Some(frame);
                drop(guard);
                self.frames.wake();
                replaced.map(|frame| frame.number)
            }
            // Only the pointer has moved.
            Ok(None) => Some(arrival.number),
            Err(why) => {
                drop(guard);
                self.fail(&why);
                Some(arrival.number)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_portals_reason_counts_if_the_stream_ends_first() {
        let arrived = Arrived::new().unwrap();
        let portal = Arc::clone(&arrived);
        std::thread::scope(|scope| {
            scope.spawn(|| Listener::state(&*arrived, Progress::Closed));
            // The portal's reason arrives before or while the other thread waits for it.
            scope.spawn(|| portal.end(End::Regular("by its user")));
        });
        assert_eq!(arrived.ended(), Some(End::Regular("by its user")));
    }

    #[test]
    fn a_stream_that_ends_alone_has_failed() {
        let arrived = Arrived::new().unwrap();
        Listener::state(&*arrived, Progress::Closed);
        assert!(matches!(arrived.ended(), Some(End::Failed(_))));
        let arrived = Arrived::new().unwrap();
        Listener::state(&*arrived, Progress::Ended("connection error".to_owned()));
        let Some(End::Failed(why)) = arrived.ended() else {
            panic!("{:?}", arrived.ended());
        };
        assert!(
            why.contains("connection error") && !why.contains('\n'),
            "{why}"
        );
    }
}
