//! A session of the portals. A separate thread requests it and keeps it open.

mod command;
mod error;
mod grant;
mod probe;
mod token;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ashpd::zbus::Connection;
use ashpd::zbus::connection::Builder;
use futures_util::StreamExt as _;
use tokio::sync::{mpsc as queue, oneshot};

pub(crate) use self::command::{Command, Permitted, Wheel};
pub use self::error::PortalError;
pub(crate) use self::grant::Grant;
use self::grant::Granted;
pub use self::probe::Portals;
use crate::stream::{Arrived, End};

/// The maximum wait for the user's answer to the permission dialog (guess: the user may have to walk to the machine).
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// Interval of the calls to `keep_waiting` during the wait.
const TICK: Duration = Duration::from_millis(100);

/// The maximum wait for the portal to end the session or to handle the last input (guess: it takes a millisecond).
const LAST_WAIT: Duration = Duration::from_secs(1);

/// After the portal has ended the session, PipeWire has this time to report its own end (guess: the two reports come
/// within milliseconds, but a busy machine may delay PipeWire's thread). It is shorter than the time that the module
/// `stream` grants to the portal's report.
const SETTLE: Duration = Duration::from_secs(1);

/// The maximum number of input events that wait for the portal. The command queue of the virtual Wayland display (crate
/// `openuvr-compositor`) has the same length.
const QUEUE: usize = 1024;

/// The part of [`QUEUE`] that only releases of keys and buttons may use (guess: more than a user holds at once).
/// Without it, keys would stay down if a slow portal had left the queue full of motion.
const RESERVED: usize = 64;

/// The request to the desktop.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether to show the pointer. It is sent separately from the picture if the desktop supports this, and otherwise
    /// drawn into the picture. If this is `false`, the pointer is hidden.
    pub cursor: bool,
    /// Whether to get keyboard and pointer input.
    pub input: bool,
    /// The file that stores the permission, so that the desktop asks only once, if its portals can store permissions.
    /// If `None`, the desktop asks each time.
    pub permission: Option<PathBuf>,
    /// The address of the D-Bus session bus. If `None`, the environment variable `DBUS_SESSION_BUS_ADDRESS` contains
    /// it.
    pub bus: Option<String>,
    /// The Wayland display of the session. Its keyboard layout determines which keys type a text. If `None`, the
    /// environment variable `WAYLAND_DISPLAY` contains its name.
    pub display: Option<String>,
}

/// The connection to the portal. On drop, the session is closed.
pub(crate) struct Connected {
    commands: Option<queue::Sender<Command>>,
    /// Dropped to tell the thread that the owner is waiting for the thread's end.
    owner: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Connected {
    pub(crate) fn open(
        options: &Options,
        arrived: &Arc<Arrived>,
        keep_waiting: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<(Connected, Grant), PortalError> {
        let (commands, queued) = queue::channel(QUEUE);
        let (owner, gone) = oneshot::channel();
        let (answer, answers) = mpsc::sync_channel(1);
        let (options, arrived) = (options.clone(), Arc::clone(arrived));
        let runtime = runtime()?;
        let thread = std::thread::Builder::new().name("desktop-portal".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(run(&options, &answer, queued, gone, &arrived));
        });
        let thread =
            thread.map_err(|cause| PortalError::new(format!("can't start a thread: {cause}")))?;
        // Dropping this value ends the thread.
        let connected = Connected {
            commands: Some(commands),
            owner: Some(owner),
            thread: Some(thread),
        };
        let begun = Instant::now();
        loop {
            match answers.recv_timeout(TICK) {
                Ok(result) => return Ok((connected, result?)),
                Err(RecvTimeoutError::Disconnected) => return Err(PortalError::broken()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let waited = begun.elapsed();
            if !keep_waiting(waited) {
                return Err(PortalError::new(
                    "stopped before the desktop's permission was given",
                ));
            }
            if waited > ANSWER_WAIT {
                return Err(PortalError::unanswered());
            }
        }
    }

    /// Queues an input event. Returns `false` if the session has ended, or if the queue is full because the portal
    /// hangs.
    pub(crate) fn send(&self, command: Command) -> bool {
        let Some(queue) = &self.commands else {
            return false;
        };
        let has_space = command.is_release() || queue.capacity() > RESERVED;
        has_space && queue.try_send(command).is_ok()
    }

    /// Waits, for at most a second, until the queued events have reached the portal.
    pub(crate) fn flush(&self) {
        let (done, waited) = mpsc::sync_channel(1);
        if self.send(Command::Flush(done)) {
            // A timeout is ignored, because the portal may hang.
            let _ = waited.recv_timeout(LAST_WAIT);
        }
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        drop(self.commands.take());
        drop(self.owner.take());
        if let Some(thread) = self.thread.take() {
            // A panic is ignored here, because the thread has already reported it.
            let _ = thread.join();
        }
    }
}

/// Connects to the D-Bus session bus in the calling runtime, because ashpd's own connection would outlive this runtime.
async fn connect(address: Option<&str>) -> Result<Connection, PortalError> {
    let builder = match address {
        Some(address) => Builder::address(address),
        None => Builder::session(),
    };
    let connected = match builder {
        Ok(builder) => builder.build().await,
        Err(why) => Err(why),
    };
    connected.map_err(|cause| PortalError::no_bus(&cause))
}

/// A runtime for one thread.
fn runtime() -> Result<tokio::runtime::Runtime, PortalError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .map_err(|cause| PortalError::new(format!("can't wait for the desktop's portal: {cause}")))
}

/// The body of the thread. It negotiates, then passes on input until the session or its owner ends.
async fn run(
    options: &Options,
    answer: &mpsc::SyncSender<Result<Grant, PortalError>>,
    mut queued: queue::Receiver<Command>,
    gone: oneshot::Receiver<Infallible>,
    arrived: &Arrived,
) {
    let negotiated = tokio::select! {
        negotiated = grant::negotiate(options) => negotiated,
        // The owner has stopped waiting.
        _ = queued.recv() => return,
    };
    let (granted, grant) = match negotiated {
        Ok(both) => both,
        Err(why) => {
            let _ = answer.send(Err(why));
            return;
        }
    };
    if answer.send(Ok(grant)).is_ok() {
        unless_abandoned(serve(&granted, &mut queued, arrived), gone).await;
    }
    // A failure is ignored, because the portal also ends the session when this connection is closed.
    let _ = tokio::time::timeout(LAST_WAIT, granted.close()).await;
}

/// Does the work, but stops it if it lasts longer than [`LAST_WAIT`] after the owner's end: the portal may hang, and
/// calls over D-Bus have no time limit.
async fn unless_abandoned(work: impl Future<Output = ()>, gone: oneshot::Receiver<Infallible>) {
    let overdue = async {
        // Nothing is ever sent, so this returns when the owner has dropped its sender.
        let _ = gone.await;
        tokio::time::sleep(LAST_WAIT).await;
    };
    tokio::select! {
        () = work => {}
        () = overdue => {}
    }
}

/// Passes on input, and watches for the end.
async fn serve(granted: &Granted, queued: &mut queue::Receiver<Command>, arrived: &Arrived) {
    let closed = match granted.closed().await {
        Ok(closed) => closed,
        Err(why) => return arrived.end(End::Failed(why.to_string())),
    };
    let mut closed = std::pin::pin!(closed);
    loop {
        let command = tokio::select! {
            command = queued.recv() => command,
            signal = closed.next() => {
                // A desktop also ends the session when PipeWire has stopped. PipeWire's own report states the actual
                // reason, so this task gives it time to arrive.
                tokio::time::sleep(SETTLE).await;
                arrived.end(match signal {
                    Some(()) => End::Regular(
                        "the desktop has ended the shared session: its user stopped it, or its screens changed",
                    ),
                    None => End::Failed(PortalError::broken().to_string()),
                });
                return;
            }
        };
        let Some(mut command) = command else {
            return;
        };
        loop {
            // Motion events that have been queued in the meantime are merged into one.
            let next = queued.try_recv().ok();
            let (now, later) = command.merged(next);
            let done = granted.perform(now).await;
            if let Err(why) = done {
                tracing::warn!(%why, "the desktop's portal has refused an input event");
            }
            match later {
                Some(later) => command = later,
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_full_of_motion_still_takes_releases() {
        let (commands, _queued) = queue::channel(QUEUE);
        let connected = Connected {
            commands: Some(commands),
            owner: None,
            thread: None,
        };
        let mut taken = 0;
        while connected.send(Command::Move(1.0, 0.0)) {
            taken += 1;
        }
        assert_eq!(taken, QUEUE - RESERVED);
        assert!(!connected.send(Command::Key(30, true)));
        assert!(connected.send(Command::Key(30, false)));
        assert!(connected.send(Command::Button(0x110, false)));
    }

    #[test]
    fn a_hanging_portal_does_not_hold_up_the_owner() {
        let (owner, gone) = oneshot::channel();
        drop(owner);
        let runtime = runtime().expect("a runtime");
        // Without a time limit, this call doesn't return.
        runtime.block_on(unless_abandoned(std::future::pending(), gone));
    }
}
