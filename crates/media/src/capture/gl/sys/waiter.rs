//! Waits for the GPU while the application continues, in a thread with its own context. The thread is started the first
//! time that a picture is not finished at once. With a software renderer, the thread is rarely needed.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::{Loader, Sharing, Submit};
use super::capabilities::Gl;
use super::sharing::{Maker, Shared};
use super::{ALREADY_SIGNALED, CONDITION_SATISFIED, Flight, delete_fence};
use crate::capture::submit::Ticket;

/// `GL_TIMEOUT_EXPIRED`.
const TIMEOUT_EXPIRED: u32 = 0x911B;
/// Timeout of one wait for a fence. After each wait, the thread checks whether it should end.
const LOOK: Duration = Duration::from_millis(20);

/// The waiting thread, if it has been started, and the means to start it.
pub(super) struct Waiter {
    gl: Arc<Gl>,
    maker: Option<Maker>,
    worker: Option<Worker>,
}

struct Worker {
    line: Arc<Line>,
    thread: JoinHandle<()>,
    context: Shared,
}

/// State shared by the application's thread and the waiting thread.
#[derive(Default)]
struct Line {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Flight>,
    /// Whether a picture has been taken from the queue and is not submitted yet.
    busy: bool,
    /// The ticket of the newest picture that the waiting thread submitted.
    ticket: Option<Ticket>,
    /// Whether the thread should end.
    end: bool,
    /// Whether the thread has ended because its context can't be used.
    broken: bool,
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// # Safety
    /// See [`super::ReadBack::new`].
    pub(super) unsafe fn new(loader: Loader<'_>, sharing: Sharing, gl: &Arc<Gl>) -> Waiter {
        Waiter {
            gl: gl.clone(),
            // Without persistently mapped buffers, the thread could wait, but not submit pictures.
            maker: (gl.storage.is_some())
                // SAFETY: the caller upholds this function's contract.
                .then(|| unsafe { Maker::new(loader, sharing) })
                .flatten(),
            worker: None,
        }
    }

    /// Whether the thread has no picture to wait for.
    pub(super) fn is_idle(&self) -> bool {
        (self.worker.as_ref()).is_none_or(|worker| {
            let state = worker.line.state();
            state.queue.is_empty() && !state.busy
        })
    }

    /// Makes the thread wait for a picture and then submit it. Returns the picture if the thread can't be started or
    /// can't use its context. The application's context must be current and flushed.
    pub(super) fn wait_for(&mut self, flight: Flight, submit: &Submit) -> Option<Flight> {
        if let Some(maker) = self.maker.take() {
            // SAFETY: the caller has made the context of `gl` current, as the contract of `ReadBack::new` requires.
            self.worker = unsafe { maker.share(&self.gl) }
                .and_then(|context| Worker::start(context, self.gl.clone(), submit.clone()));
        }
        let Some(worker) = &self.worker else {
            return Some(flight);
        };
        let mut state = worker.line.state();
        if state.broken {
            return Some(flight);
        }
        state.queue.push_back(flight);
        drop(state);
        worker.line.moved.notify_all();
        None
    }

    /// Takes back the pictures of a thread that could not use its context, oldest first.
    pub(super) fn returned(&mut self) -> VecDeque<Flight> {
        match &self.worker {
            Some(worker) if worker.line.state().broken => self.stop(),
            _ => VecDeque::new(),
        }
    }

    /// Waits, at most `timeout`, until all pictures are submitted. Returns the ticket of the last picture that the
    /// thread has submitted since the previous call.
    pub(super) fn finish(&mut self, timeout: Duration) -> Option<Ticket> {
        let worker = self.worker.as_ref()?;
        let under_way =
            |state: &mut State| (state.busy || !state.queue.is_empty()) && !state.broken;
        let waited =
            (worker.line.moved).wait_timeout_while(worker.line.state(), timeout, under_way);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.ticket.take()
    }

    /// Ends the thread and its context. Returns the pictures that were not submitted.
    pub(super) fn stop(&mut self) -> VecDeque<Flight> {
        self.maker = None;
        let Some(worker) = self.worker.take() else {
            return VecDeque::new();
        };
        worker.line.state().end = true;
        worker.line.moved.notify_all();
        // A panic of the thread must not stop the application.
        let _ = worker.thread.join();
        worker.context.destroy();
        std::mem::take(&mut worker.line.state().queue)
    }
}

impl Worker {
    fn start(context: Shared, gl: Arc<Gl>, submit: Submit) -> Option<Worker> {
        let line = Arc::new(Line::default());
        let (theirs, current) = (line.clone(), context.clone());
        let work = move || {
            if current.make_current(true) {
                work(&gl, &theirs, &submit);
                current.make_current(false);
            } else {
                theirs.state().broken = true;
                theirs.moved.notify_all();
            }
        };
        let thread = without_signals(|| {
            let thread = std::thread::Builder::new().name("openuvr-gl".into());
            thread.spawn(work)
        });
        match thread {
            Ok(thread) => Some(Worker {
                line,
                thread,
                context,
            }),
            Err(_) => {
                context.destroy();
                None
            }
        }
    }
}

/// Waits for the pictures in order. The thread's own context is current.
fn work(gl: &Gl, line: &Line, submit: &Submit) {
    let mut state = line.state();
    loop {
        if state.end {
            return;
        }
        let Some(flight) = state.queue.pop_front() else {
            state = (line.moved.wait(state)).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.busy = true;
        drop(state);
        let finished = wait(gl, line, &flight);
        let mut ticket = None;
        if finished == Some(false) {
            // [`Waiter::stop`] returns the picture after the thread has ended.
            state = line.state();
            state.queue.push_front(flight);
        } else {
            // SAFETY: a context of the share group is current, and nothing uses the fence afterwards.
            unsafe { delete_fence(gl, flight.fence) };
            if finished == Some(true) {
                ticket = submit(Box::new(flight.loan), flight.drawn);
            }
            state = line.state();
        }
        state.busy = false;
        state.ticket = ticket;
        line.moved.notify_all();
    }
}

/// `Some(true)` when the picture is finished, `Some(false)` if the thread should end before that, `None` if the picture
/// will never be finished.
fn wait(gl: &Gl, line: &Line, flight: &Flight) -> Option<bool> {
    let buffers = gl.buffers.as_ref()?;
    let look = u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX);
    loop {
        // SAFETY: a context of the share group is current, and the fence is not deleted yet.
        match unsafe { (buffers.wait)(flight.fence, 0, look) } {
            ALREADY_SIGNALED | CONDITION_SATISFIED => return Some(true),
            TIMEOUT_EXPIRED if line.state().end => return Some(false),
            TIMEOUT_EXPIRED => {}
            _ => return None,
        }
    }
}

/// Synchronous signals: a fault in the driver raises them on this thread. If blocked, they would end the process
/// without calling the application's handler.
const OWN_FAULTS: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// Calls `start` with all signals except [`OWN_FAULTS`] blocked in this thread. Threads that it starts inherit the
/// mask, so the application's signals reach only the application's threads.
fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: `sigfillset` initialises `all`, and `pthread_sigmask` initialises `before`; neither fails with these
    // arguments.
    let before: libc::sigset_t = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in OWN_FAULTS {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    };
    let result = start();
    // SAFETY: `before` is the mask that the kernel returned above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(signal: libc::c_int) -> bool {
        let mut mask = MaybeUninit::uninit();
        // SAFETY: with a null new set, the call only reads the current mask.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            libc::sigismember(mask.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn a_drivers_crash_reaches_the_applications_handler() {
        let seen = without_signals(|| {
            std::thread::spawn(|| [libc::SIGSEGV, libc::SIGABRT, libc::SIGTERM].map(blocks))
        });
        assert_eq!(seen.join().unwrap(), [false, false, true]);
        assert!(!blocks(libc::SIGUSR1), "this thread's mask is unchanged");
    }
}
