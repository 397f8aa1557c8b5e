//! The host in the application's process: clients, the player's poses, and submission of pictures.
//!
//! A background thread starts the host. The configuration comes from `openuvr xr`, through the same socket that
//! `openuvr run` uses. For users who use this runtime for all applications, the configuration is in a file. No client
//! can connect before the host runs. If the host fails, the application continues without clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::Waker;
use openuvr_media::capture::submit::Submitter;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::controller::{Haptic, ReceivedControllers};
use openuvr_proto::display::{PlayerDisplay, RefreshTiming};
use openuvr_proto::id::SubscriberId;
use openuvr_proto::pose::ReceivedPose;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{FrameRecord, Stage};
use openuvr_proto::units::Size;
use openuvr_runtime::guest::{Guest, InputTarget};
use openuvr_runtime::host::Notice;
use openuvr_runtime::launch_protocol::{LaunchReport, LaunchSettings};
use openuvr_runtime::launcher::{Launcher, WakeReason};
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::{Scheduler, ThreadRole};

use crate::logic::delay::{Delay, DelayEstimate};
use crate::logic::lifecycle::Audience;
use crate::settings::{self, Source};

/// Time limit for the stream's thread to end when the session ends (guess: it ends within some tenths of a second).
const TIMEOUT: Duration = Duration::from_secs(5);

/// The live streams of this process. An `atexit` handler ends them.
static LIVE: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Sink for finished pictures.
pub(crate) type FrameSink = Arc<Submitter>;

/// A session's host.
pub(crate) struct Stream {
    shared: Arc<Shared>,
}

struct Shared {
    guest: Mutex<Option<Arc<Guest>>>,
    launcher: Mutex<Option<Arc<Launcher>>>,
    /// The connected clients.
    clients: Mutex<Vec<(SubscriberId, Role)>>,
    delay: Mutex<DelayEstimate>,
    stop: AtomicBool,
    waker: Waker,
    /// A channel without messages. It disconnects when the thread ends.
    ended: Mutex<Option<Receiver<()>>>,
}

impl Stream {
    /// Starts the stream; the first pictures have this `size`. `None` if no host is configured, or if the stream's
    /// thread cannot be started.
    pub(crate) fn start(size: Size) -> Option<Stream> {
        let source = settings::source()?;
        let (alive, ended) = sync_channel(0);
        let shared = Arc::new(Shared {
            guest: Mutex::new(None),
            launcher: Mutex::new(None),
            clients: Mutex::default(),
            delay: Mutex::default(),
            stop: AtomicBool::new(false),
            waker: Waker::new().ok()?,
            ended: Mutex::new(Some(ended)),
        });
        let in_thread = shared.clone();
        // The application handles signals, so the thread blocks all of them.
        let thread = Scheduler::ordinary().spawn(ThreadRole::Background, "ouvr-xr", move || {
            let _alive = alive;
            if let Err(why) = in_thread.run(&source, size) {
                in_thread.send(&Notice::Failed(why).into());
            }
            in_thread.release_host();
        });
        thread.ok()?;
        register(&shared);
        Some(Stream { shared })
    }

    pub(crate) fn audience(&self) -> Audience {
        let clients = lock(&self.shared.clients);
        match () {
            () if clients.is_empty() => Audience::None,
            () if clients.iter().any(|(_, role)| *role == Role::Player) => Audience::Player,
            () => Audience::Observers,
        }
    }

    /// The newest pose of the player's head.
    pub(crate) fn pose(&self) -> Option<ReceivedPose> {
        self.shared.guest()?.pose()
    }

    /// The player's newest controller state.
    pub(crate) fn controllers(&self) -> Option<ReceivedControllers> {
        self.shared.guest()?.controllers()
    }

    /// Sends haptic feedback to a controller of the player.
    pub(crate) fn haptic(&self, haptic: Haptic) {
        if let Some(guest) = self.shared.guest() {
            guest.haptic(haptic);
        }
    }

    /// Sets the times at which the player's client should sample poses.
    pub(crate) fn set_pose_schedule(&self, schedule: RefreshTiming<Instant>) {
        if let Some(guest) = self.shared.guest() {
            guest.pose_schedule(schedule);
        }
    }

    /// Parameters of the player's display, if its client has reported them.
    pub(crate) fn display(&self) -> Option<PlayerDisplay> {
        self.shared.guest()?.display()
    }

    /// Maximum frame rate that the clients can display.
    pub(crate) fn fps(&self) -> Option<f64> {
        self.shared.guest()?.frames().fps()
    }

    /// Measured latency from the start of a frame to its display.
    pub(crate) fn delay(&self) -> Option<Delay> {
        lock(&self.shared.delay).expected()
    }

    /// The sink for a picture that is finished now. `None` if no picture is needed.
    pub(crate) fn sink(&self) -> Option<FrameSink> {
        let frames = self.shared.guest()?.frames().clone();
        frames.wants(clock::now()).then_some(frames)
    }

    /// Reports a problem to the launcher.
    pub(crate) fn report(&self, why: &str) {
        self.shared.send(&Notice::Warning(why.to_owned()).into());
    }

    /// Ends the host and notifies the clients.
    pub(crate) fn end(&self) {
        self.shared.end();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Shared {
    fn guest(&self) -> Option<Arc<Guest>> {
        lock(&self.guest).clone()
    }

    fn run(self: &Arc<Shared>, source: &Source, size: Size) -> Result<(), String> {
        let Some(settings) = self.settings(source)? else {
            return Ok(());
        };
        let in_host = self.clone();
        let on_notice = move |notice| in_host.on_notice(notice);
        let guest = Guest::start(&settings.host, InputTarget::Application, size, on_notice)?;
        self.send(&LaunchReport::Streaming {
            size,
            endpoint: guest.endpoint().to_owned(),
        });
        // Report only a generated PIN: the user already knows a PIN from the configuration.
        if let Some(pin) = guest.pin().filter(|_| settings.host.pin.is_none()) {
            self.send(&LaunchReport::Invitation {
                pin: pin.to_string(),
                seconds: settings.host.pairing_timeout,
            });
        }
        *lock(&self.guest) = Some(Arc::new(guest));
        while self.wait() == WakeReason::Event {}
        Ok(())
    }

    /// The configuration; `None` if the session ends first.
    fn settings(&self, source: &Source) -> Result<Option<LaunchSettings>, String> {
        let Source::Launcher = source else {
            let Source::File(file) = source else {
                return Ok(None);
            };
            return settings::read(file).map(Some);
        };
        let launcher = Arc::new(Launcher::connect()?);
        *lock(&self.launcher) = Some(launcher.clone());
        loop {
            if self.wait() == WakeReason::Disconnected {
                return Ok(None);
            }
            if let Some(settings) = launcher.settings()? {
                return Ok(Some(settings));
            }
        }
    }

    /// Waits for a message from the launcher or for the end of the session.
    fn wait(&self) -> WakeReason {
        let launcher = lock(&self.launcher).clone();
        let woken = match launcher {
            Some(launcher) => launcher.wait(&self.waker),
            None => {
                self.waker.wait();
                WakeReason::Event
            }
        };
        match self.stop.load(Ordering::Relaxed) {
            true => WakeReason::Disconnected,
            false => woken,
        }
    }

    /// Handles a notice from the host.
    fn on_notice(&self, notice: Notice) {
        let mut clients = lock(&self.clients);
        match &notice {
            Notice::Subscribed {
                subscriber, role, ..
            } => clients.push((*subscriber, *role)),
            Notice::RoleChanged(subscriber, role) => {
                let known = clients.iter_mut().find(|(id, _)| id == subscriber);
                if let Some((_, now)) = known {
                    *now = *role;
                }
            }
            Notice::Ended(subscriber, _) => clients.retain(|(id, _)| id != subscriber),
            Notice::Record(record) if clients.contains(&(record.subscriber, Role::Player)) => {
                if let Some(latency) = display_latency(record) {
                    lock(&self.delay).record(latency);
                }
            }
            _ => {}
        }
        let roles = matches!(
            notice,
            Notice::Subscribed { .. } | Notice::RoleChanged(..) | Notice::Ended(..)
        );
        drop(clients);
        if roles {
            lock(&self.delay).reset();
        }
        self.send(&notice.into());
    }

    /// Sends a report to the launcher, if there is one.
    fn send(&self, report: &LaunchReport) {
        if let Some(launcher) = &*lock(&self.launcher) {
            launcher.send(report);
        }
    }

    /// Ends the host and discards its clients.
    fn release_host(&self) {
        let guest = lock(&self.guest).take();
        // A thread that is submitting a frame briefly holds another reference. The host then ends when that thread
        // drops its reference.
        drop(guest);
        lock(&self.clients).clear();
    }

    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(ended) = lock(&self.ended).take() {
            // Returns when the channel disconnects, because the thread has ended, or after [`TIMEOUT`]. No message is
            // ever sent.
            let _ = ended.recv_timeout(TIMEOUT);
        }
    }
}

/// Latency from the start of a frame to its display by the client. If the client does not report when the frame was
/// presented, the latency ends at its submission to the display.
fn display_latency(record: &FrameRecord) -> Option<Duration> {
    let begun = record.host.at(Stage::RenderBegun)?;
    let stages = [Stage::Presented, Stage::Submitted];
    let last = stages
        .into_iter()
        .find_map(|stage| record.client.here(stage));
    Some(last?.at.since(begun)).filter(|_| record.outcome.is_complete())
}

/// Registers the stream, so that it ends at process exit (`exit` or return from `main`). Clients are then notified even
/// if the application does not destroy its session.
fn register(shared: &Arc<Shared>) {
    let mut live = lock(&LIVE);
    live.retain(|stream| stream.strong_count() > 0);
    if live.capacity() == 0 {
        // SAFETY: the library is never unloaded, and the function may be called at any time. If registration
        // fails, clients are not notified at exit.
        let _ = unsafe { libc::atexit(at_exit) };
    }
    live.push(Arc::downgrade(shared));
}

extern "C" fn at_exit() {
    crate::ffi::call(c"exit", || {
        let live = std::mem::take(&mut *lock(&LIVE));
        for stream in live.iter().filter_map(Weak::upgrade) {
            stream.end();
        }
        crate::ffi::DONE
    });
}
