//! The listener in the application's process. It accepts connections for subscribers, admissions, statistics and the
//! host's sound.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_ipc::gateway_message::{GatewayMessage, SoundCodec};
use openuvr_ipc::host_message::{HostMessage, MAX_SUBSCRIBERS};
use openuvr_media::capture::Waker;
use openuvr_net::CloseOnFork;
use openuvr_proto::host::{InputRefused, SubscribeRequest};
use openuvr_proto::id::{FrameId, SubscriberId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{DropCause, Stage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::process::getuid;

use super::channel::{Channel, ReceiveError, SendError};
use crate::host::{Admission, AdmissionGrant, AdmitRefused, HostRuntime, SubscribeError};
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};
use crate::sys::peer_credentials;

/// Maximum connections: one for each gateway client (32 browsers, 16 video players), and some requests.
const CONNECTIONS: usize = 64;

/// Listen backlog. It is as large as `CONNECTIONS`, so that a connection is refused only at that limit.
const BACKLOG: i32 = 64;

const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after accept has failed, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Retry interval for input that the host could not take.
const INPUT_RETRY: Duration = Duration::from_millis(1);

/// The socket to which gateways connect. Closing or dropping it ends all connections.
pub struct GatewayListener {
    shared: Arc<Shared>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    host: Weak<HostRuntime>,
    scheduler: Scheduler,
    stop: AtomicBool,
    waker: Waker,
    connections: Mutex<Vec<Connection>>,
}

struct Connection {
    channel: Arc<Channel>,
    thread: JoinHandle<()>,
}

impl GatewayListener {
    /// Opens the socket at `path`, which must be accessible only to this user.
    ///
    /// # Errors
    /// Returns one line if the socket cannot be created (the path is in use) or the thread cannot be started.
    pub fn open(
        path: &Path,
        host: &Arc<HostRuntime>,
        scheduler: &Scheduler,
    ) -> Result<GatewayListener, String> {
        let shown = path.display();
        let failed =
            |why: &dyn std::fmt::Display| format!("can't accept gateways at {shown}: {why}");
        // Removes the socket of an earlier process. Other files, and sockets with a listener, are kept.
        let socket = |there: std::fs::Metadata| there.file_type().is_socket();
        let refuses = matches!(Channel::connect(path), Err(Errno::CONNREFUSED));
        if refuses && path.symlink_metadata().is_ok_and(socket) {
            let _ = std::fs::remove_file(path);
        }
        let listener = listening_socket(path).map_err(|e| failed(&e))?;
        let shared = Arc::new(Shared {
            host: Arc::downgrade(host),
            scheduler: scheduler.clone(),
            stop: AtomicBool::new(false),
            waker: Waker::new().map_err(|e| failed(&e))?,
            connections: Mutex::default(),
        });
        let ours = shared.clone();
        let thread = scheduler.spawn(ThreadRole::Background, "ouvr-accept", move || {
            ours.accept(&listener);
        });
        Ok(GatewayListener {
            shared,
            path: path.to_owned(),
            thread: Some(thread.map_err(|e| failed(&e))?),
        })
    }

    /// Ends all connections and accepts no more.
    pub fn close(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        // A panicked thread has also ended.
        let _ = thread.join();
        let connections = std::mem::take(&mut *lock(&self.shared.connections));
        connections.iter().for_each(|one| one.channel.close());
        for one in connections {
            let _ = one.thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for GatewayListener {
    fn drop(&mut self) {
        self.close();
    }
}

fn listening_socket(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&listener, &SocketAddrUnix::new(path)?)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

impl Shared {
    fn accept(self: &Arc<Shared>, listener: &OwnedFd) {
        let _own = CloseOnFork::new(listener);
        while !self.stop.load(Ordering::Acquire) {
            let mut fds = [
                PollFd::new(&self.waker.0, PollFlags::IN),
                PollFd::new(listener, PollFlags::IN),
            ];
            // Ignore an error: after a signal, the loop checks again.
            let _ = poll(&mut fds, None);
            let socket = match accept_with(listener, SocketFlags::CLOEXEC) {
                Ok(socket) => socket,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => continue,
                // For example, file descriptors are exhausted. The socket then stays readable, because the connection
                // is still waiting.
                Err(_) => {
                    let mut stop = [PollFd::new(&self.waker.0, PollFlags::IN)];
                    let _ = poll(&mut stop, Timespec::try_from(ACCEPT_PAUSE).ok().as_ref());
                    continue;
                }
            };
            let ours = peer_credentials(&socket).is_ok_and(|peer| peer.uid == getuid());
            let mut connections = lock(&self.connections);
            connections.retain(|one| !one.thread.is_finished());
            if !ours || connections.len() >= CONNECTIONS {
                continue;
            }
            let channel = Arc::new(Channel::new(socket));
            let (shared, its) = (self.clone(), channel.clone());
            let thread = (self.scheduler).spawn(ThreadRole::Dispatch, "ouvr-remote", move || {
                shared.serve(&its);
                its.close();
            });
            // If the thread cannot be started, the connection is closed.
            connections.extend(thread.map(|thread| Connection { channel, thread }));
        }
    }

    fn serve(&self, channel: &Arc<Channel>) {
        match channel.receive_within(FIRST_MESSAGE_TIMEOUT) {
            Ok((GatewayMessage::Subscribe(request), _)) => self.subscriber(channel, request),
            Ok((GatewayMessage::Admit(admission), _)) => self.admit(channel, admission),
            Ok((GatewayMessage::Listen(codec), _)) => self.sound(channel, codec),
            Ok((GatewayMessage::Figures, _)) => self.figures(channel),
            Ok(_) | Err(ReceiveError::Gone) => {}
            Err(why) => tracing::debug!("a gateway was refused: {why}"),
        }
    }

    fn admit(&self, channel: &Arc<Channel>, admission: Admission) {
        let Some(host) = self.host.upgrade() else {
            return;
        };
        host.admit(admission, admission_answer(channel.clone()));
        drop(host);
        wait_for_close(channel);
    }

    fn figures(&self, channel: &Arc<Channel>) {
        let Some(host) = self.host.upgrade() else {
            return;
        };
        let mut all = host.figures();
        drop(host);
        all.truncate(MAX_SUBSCRIBERS);
        let _ = channel.offer(&HostMessage::Figures(all), &[]);
        wait_for_close(channel);
    }

    fn sound(&self, channel: &Arc<Channel>, codec: SoundCodec) {
        let Some(host) = self.host.upgrade() else {
            return;
        };
        let its = channel.clone();
        let listens = host.listen(codec, move |payload| {
            let sound = HostMessage::Sound(payload.captured, payload.samples);
            // A payload is lost if the send buffer is full.
            its.offer(&sound, payload.bytes) != Err(SendError::Gone)
        });
        drop(host);
        // Without sound, the connection ends at once. If the connection stayed open, the gateway would keep a listener
        // for each client that has ever joined, because it removes listeners only when a payload arrives.
        if listens {
            wait_for_close(channel);
        }
    }

    fn subscriber(&self, channel: &Arc<Channel>, request: SubscribeRequest) {
        let Some(id) = self.subscribe(channel, request) else {
            return;
        };
        while let Ok((message, _)) = channel.receive() {
            let Some(host) = self.host.upgrade() else {
                return;
            };
            match message {
                GatewayMessage::Role { role, take_over } => {
                    let reply = match host.request_role(id, role, take_over) {
                        Ok(grant) => HostMessage::Granted(grant),
                        Err(why) => HostMessage::Refused(why),
                    };
                    let _ = channel.send(&reply, &[]);
                }
                GatewayMessage::Input(event, sampled) => self.input(&host, id, event, sampled),
                GatewayMessage::ClipboardPiece(piece) => host.clipboard_piece(id, &piece),
                GatewayMessage::Pose(pose, sampled) => host.submit_pose(id, pose, sampled),
                GatewayMessage::Controllers(states, sampled) => {
                    host.submit_controllers(id, states, sampled);
                }
                GatewayMessage::Display(number, display) => {
                    host.submit_display(id, (number, display));
                }
                GatewayMessage::Activity => host.on_activity(id),
                GatewayMessage::Feedback(feedback) => host.feedback(id, feedback),
                // A protocol violation.
                _ => break,
            }
        }
        if let Some(host) = self.host.upgrade() {
            host.unsubscribe(id);
        }
    }

    /// Subscribes and sends the answer. No other message is sent before the answer.
    fn subscribe(&self, channel: &Arc<Channel>, request: SubscribeRequest) -> Option<SubscriberId> {
        let host = self.host.upgrade()?;
        let gate = Arc::new(Mutex::new(()));
        let answering = lock(&gate);
        let forwarder = Forwarder {
            channel: channel.clone(),
            gate: gate.clone(),
            departure: Departure::default(),
        };
        let subscribed = host.subscribe(request, Box::new(forwarder));
        let reply = match &subscribed {
            Ok((_, grant)) => HostMessage::Granted(*grant),
            Err(SubscribeError::Refused(why)) => HostMessage::Refused(*why),
            Err(why) => HostMessage::Failed(why.to_string()),
        };
        let answered = channel.send(&reply, &[]);
        drop(answering);
        let (id, _) = subscribed.ok()?;
        if answered.is_err() {
            host.unsubscribe(id);
            return None;
        }
        Some(id)
    }

    /// Passes an event to the host, and retries while the host is busy. Both processes number the events, so none may
    /// be skipped.
    fn input(&self, host: &HostRuntime, id: SubscriberId, event: InputEvent, sampled: PeerInstant) {
        while host.input(id, event, sampled) == Err(InputRefused::Busy) {
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            std::thread::sleep(INPUT_RETRY);
        }
    }
}

/// The connection of an admission. Dropping it ends the connection.
struct AdmissionConnection(Arc<Channel>);

impl AdmissionConnection {
    fn answer(&self, admitted: Result<AdmissionGrant, AdmitRefused>) {
        let reply = match admitted {
            Ok(admitted) => HostMessage::Admitted(admitted),
            Err(why) => HostMessage::NotAdmitted(why),
        };
        // This uses `offer`, because the control thread must not block.
        let _ = self.0.offer(&reply, &[]);
    }
}

impl Drop for AdmissionConnection {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The callback that sends the host's answer. If the host is busy or stops, it drops the callback without calling it.
/// This ends the connection, so that the peer does not wait for an answer.
fn admission_answer(
    channel: Arc<Channel>,
) -> impl FnOnce(Result<AdmissionGrant, AdmitRefused>) + Send + 'static {
    let connection = AdmissionConnection(channel);
    move |admitted| connection.answer(admitted)
}

/// Waits until the peer closes the connection. The peer does so after it has received the answer or, on a connection
/// for sound, when it has no listeners any more.
fn wait_for_close(channel: &Channel) {
    let _ = channel.receive::<GatewayMessage>();
}

/// Forwards the host's calls to a subscriber over the connection, in the subscriber's thread.
struct Forwarder {
    channel: Arc<Channel>,
    /// Held until the answer to the subscription has been sent.
    gate: Arc<Mutex<()>>,
    /// The departure of the current frame.
    departure: Departure,
}

impl Forwarder {
    fn send(&mut self, message: &HostMessage, payload: &[u8]) {
        let gate: MutexGuard<'_, ()> = lock(&self.gate);
        drop(gate);
        match self.channel.send(message, payload) {
            Ok(length) => {
                let now = clock::now();
                self.departure.first.get_or_insert(now);
                self.departure.last = Some(now);
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                self.departure.bytes = self.departure.bytes.saturating_add(length);
            }
            Err(_) => self.departure.overflowed = true,
        }
    }
}

impl Subscriber for Forwarder {
    fn start_frame(&mut self, now: Instant, frame: &Frame) {
        self.departure = Departure::default();
        self.send(&HostMessage::Begin(now, Box::new(*frame)), &[]);
    }

    fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        let message = HostMessage::Slice(now, slice.place, slice.clean_after);
        self.send(&message, slice.bytes);
    }

    fn end(&mut self, now: Instant) -> Progress {
        self.send(&HostMessage::End(now), &[]);
        match self.departure.overflowed {
            false => Progress::Sent(self.departure),
            // The connection has ended, and the connection's own thread cleans up.
            true => Progress::Missed,
        }
    }

    fn dropped(&mut self, now: Instant, frame: FrameId, stage: Stage, why: DropCause) {
        self.send(&HostMessage::Dropped(now, frame, stage, why), &[]);
    }

    fn update(&mut self, _: Instant, update: Update) {
        self.send(&HostMessage::Update(update), &[]);
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::socketpair;

    use super::*;

    fn connection() -> (Arc<Channel>, Channel) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        (Arc::new(Channel::new(ours)), Channel::new(theirs))
    }

    #[test]
    fn an_admission_without_an_answer_ends_the_connection() {
        let (ours, theirs) = connection();
        drop(admission_answer(ours.clone()));
        let sent = theirs.offer(&GatewayMessage::Figures, &[]);
        assert_eq!(sent, Err(SendError::Gone));
    }

    #[test]
    fn the_answer_to_an_admission_arrives_before_the_end() {
        let (ours, theirs) = connection();
        admission_answer(ours.clone())(Err(AdmitRefused::Unknown));
        let answer = theirs.receive().map(|(answer, _)| answer);
        assert_eq!(answer, Ok(HostMessage::NotAdmitted(AdmitRefused::Unknown)));
    }
}
