//! The host in the application's process: who watches, where the player's head is, and where pictures go.
//!
//! A thread of ours starts it: it is told what to do by `openuvr xr`, through the socket that `openuvr run`
//! has as well, or by the file of a person who uses this runtime for everything. Until it runs, nobody watches.
//! If it fails, nobody ever will, and the application goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use openuvr_media::capture::Waker;
use openuvr_media::capture::submit::Submitter;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::controller::{Controlled, Haptic};
use openuvr_proto::display::{PlayersDisplay, Refresh};
use openuvr_proto::id::SubscriberId;
use openuvr_proto::pose::Posed;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{FrameRecord, Stage};
use openuvr_proto::units::Size;
use openuvr_runtime::clock;
use openuvr_runtime::guest::{Guest, InputTo};
use openuvr_runtime::host::Notice;
use openuvr_runtime::launched::{Launcher, Woken};
use openuvr_runtime::line::{Line, Order};
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::{Scheduler, ThreadRole};

use crate::logic::delay::{Delay, DelayEstimate};
use crate::logic::life::Audience;
use crate::settings::{self, Source};

/// How long the end of a session may wait for our threads (guess: they end within some tenths of a second).
const TIMEOUT: Duration = Duration::from_secs(5);

/// Streams of this process, for its end.
static LIVE: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Where a picture is handed over.
pub(crate) type Wanted = Arc<Submitter>;

/// A session's host.
pub(crate) struct Stream {
    shared: Arc<Shared>,
}

struct Shared {
    guest: Mutex<Option<Arc<Guest>>>,
    launcher: Mutex<Option<Arc<Launcher>>>,
    /// The clients, as they were told of last.
    clients: Mutex<Vec<(SubscriberId, Role)>>,
    delay: Mutex<DelayEstimate>,
    stop: AtomicBool,
    waker: Waker,
    /// Nothing comes; it closes when the thread has ended.
    over: Mutex<Option<Receiver<()>>>,
}

impl Stream {
    /// Starts one for pictures of `size` at first, if there is to be one.
    pub(crate) fn start(size: Size) -> Option<Stream> {
        let source = settings::source()?;
        let (alive, over) = sync_channel(0);
        let shared = Arc::new(Shared {
            guest: Mutex::new(None),
            launcher: Mutex::new(None),
            clients: Mutex::default(),
            delay: Mutex::default(),
            stop: AtomicBool::new(false),
            waker: Waker::new().ok()?,
            over: Mutex::new(Some(over)),
        });
        let ours = shared.clone();
        // All its signals are the application's.
        let thread = Scheduler::ordinary().spawn(ThreadRole::Background, "ouvr-xr", move || {
            let _alive = alive;
            if let Err(why) = ours.run(&source, size) {
                ours.say(&Line::Failed(why));
            }
            ours.let_go();
        });
        thread.ok()?;
        remember(&shared);
        Some(Stream { shared })
    }

    /// Who looks.
    pub(crate) fn audience(&self) -> Audience {
        let clients = lock(&self.shared.clients);
        match () {
            () if clients.is_empty() => Audience::Nobody,
            () if clients.iter().any(|(_, role)| *role == Role::Player) => Audience::Plays,
            () => Audience::Watches,
        }
    }

    /// The newest pose of the player's head.
    pub(crate) fn pose(&self) -> Option<Posed> {
        self.shared.guest()?.pose()
    }

    /// What the player holds, as it said last.
    pub(crate) fn controllers(&self) -> Option<Controlled> {
        self.shared.guest()?.controllers()
    }

    /// A hand of the player's is to feel this now.
    pub(crate) fn haptic(&self, haptic: Haptic) {
        if let Some(guest) = self.shared.guest() {
            guest.haptic(haptic);
        }
    }

    /// The application takes poses at these moments: the player's client is to sample for them.
    pub(crate) fn poses_wanted(&self, wanted: Refresh<Instant>) {
        if let Some(guest) = self.shared.guest() {
            guest.poses_wanted(wanted);
        }
    }

    /// What the player's display is like, if its client has said so.
    pub(crate) fn display(&self) -> Option<PlayersDisplay> {
        self.shared.guest()?.display()
    }

    /// Frames a second that the clients can show.
    pub(crate) fn fps(&self) -> Option<f64> {
        self.shared.guest()?.frames().fps()
    }

    /// From the beginning of a frame to its display, as it was measured.
    pub(crate) fn delay(&self) -> Option<Delay> {
        lock(&self.shared.delay).expected()
    }

    /// Where a picture that is finished now goes, if it is wanted.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        let frames = self.shared.guest()?.frames().clone();
        frames.wants(clock::now()).then_some(frames)
    }

    /// Says what does not work.
    pub(crate) fn say(&self, why: &str) {
        self.shared.say(&Line::Trouble(why.to_owned()));
    }

    /// Says goodbye to the clients.
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
        let Some(order) = self.order(source)? else {
            return Ok(());
        };
        let ours = self.clone();
        let tell = move |notice| ours.hear(notice);
        let guest = Guest::start(&order.host, InputTo::Application, size, tell)?;
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
        *lock(&self.guest) = Some(Arc::new(guest));
        while self.waits() == Woken::News {}
        Ok(())
    }

    /// What to do; `None` if it is over before that is told.
    fn order(&self, source: &Source) -> Result<Option<Order>, String> {
        let Source::Launcher = source else {
            let Source::File(file) = source else {
                return Ok(None);
            };
            return settings::order(file).map(Some);
        };
        let launcher = Arc::new(Launcher::connect()?);
        *lock(&self.launcher) = Some(launcher.clone());
        loop {
            if self.waits() == Woken::Over {
                return Ok(None);
            }
            if let Some(order) = launcher.order()? {
                return Ok(Some(order));
            }
        }
    }

    /// Waits until something has happened.
    fn waits(&self) -> Woken {
        let launcher = lock(&self.launcher).clone();
        let woken = match launcher {
            Some(launcher) => launcher.wait(&self.waker),
            None => {
                self.waker.wait();
                Woken::News
            }
        };
        match self.stop.load(Ordering::Relaxed) {
            true => Woken::Over,
            false => woken,
        }
    }

    /// What the host says.
    fn hear(&self, notice: Notice) {
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
                if let Some(after) = seen_after(record) {
                    lock(&self.delay).seen(after);
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
            lock(&self.delay).forget();
        }
        self.say(&Line::from(notice));
    }

    /// Tells who started the application, if that listens.
    fn say(&self, line: &Line) {
        if let Some(launcher) = &*lock(&self.launcher) {
            launcher.say(line);
        }
    }

    /// The host ends; nobody watches any more.
    fn let_go(&self) {
        let guest = lock(&self.guest).take();
        // A frame that is being handed over holds it for a moment longer.
        drop(guest);
        lock(&self.clients).clear();
    }

    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(over) = lock(&self.over).take() {
            // Nothing is ever sent: it returns when the thread has ended.
            let _ = over.recv_timeout(TIMEOUT);
        }
    }
}

/// How long after the beginning of a frame the client had shown it, as far as the client can tell.
fn seen_after(record: &FrameRecord) -> Option<Duration> {
    let begun = record.host.at(Stage::RenderBegun)?;
    let stages = [Stage::Presented, Stage::Submitted];
    let last = stages
        .into_iter()
        .find_map(|stage| record.client.here(stage));
    Some(last?.at.since(begun)).filter(|_| record.outcome.is_whole())
}

/// At the end of the process (`exit`, or a return from `main`) the clients are told goodbye, also of an
/// application that leaves its session as it is.
fn remember(shared: &Arc<Shared>) {
    let mut live = lock(&LIVE);
    live.retain(|stream| stream.strong_count() > 0);
    if live.capacity() == 0 {
        // SAFETY: the function stays (the library is never unloaded), and may be called at any time.
        // Without room for it, clients hear nothing at the end.
        let _ = unsafe { libc::atexit(at_exit) };
    }
    live.push(Arc::downgrade(shared));
}

extern "C" fn at_exit() {
    crate::border::call(c"exit", || {
        let live = std::mem::take(&mut *lock(&LIVE));
        for stream in live.iter().filter_map(Weak::upgrade) {
            stream.end();
        }
        crate::border::DONE
    });
}
