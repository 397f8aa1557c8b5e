//! The sessions of clients, from `launch` until the client leaves or falls silent.
//!
//! A session belongs to a device, and a device has at most one session. The client sends the session's key over TLS.
//! The host sends the token of the client's pings and the number of its control connection over RTSP.

mod key;
mod launch;
mod mode;
mod outlet;
mod parameters;
mod registry;

use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use aws_lc_rs::rand;
use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::id::SubscriberId;
use openuvr_runtime::lock::lock;

pub use self::key::SessionKey;
pub use self::launch::{InvalidLaunch, Launch};
pub use self::mode::{InvalidMode, Mode};
pub use self::outlet::{Outlet, SendOutcome};
pub use self::parameters::StreamParameters;
pub use self::registry::{MAX_SESSIONS, Sessions};
use crate::feedback::{Redundancy, SentFrames, Updates};
use crate::hex::to_hex;

/// Length of the token in a client's pings.
pub const PING_WORDS: usize = 16;

/// The client of a session.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Its identity at the host.
    pub device: PublicKey,
    /// Its name for users.
    pub title: String,
    /// Its canonical address.
    pub address: IpAddr,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// The client.
    pub owner: Owner,
    /// What the client requested.
    pub launch: Launch,
    /// The application's number.
    pub application: u32,
    /// The requested picture.
    pub mode: Mode,
    /// Its name in RTSP.
    pub name: String,
    /// The token in the client's pings, in both media streams.
    pub ping: [u8; PING_WORDS],
    /// The number that the client's control connection presents.
    pub connect_data: u32,
    /// The outlet for video.
    pub video: Outlet,
    /// The outlet for sound.
    pub sound: Outlet,
    /// The frames that were sent.
    pub frames: SentFrames,
    /// The loss of the video, and the parity against it.
    pub redundancy: Redundancy,
    /// The host's updates for its client.
    pub updates: Updates,
    /// Whether the display is about to take the session's mode.
    awaits_mode: AtomicBool,
    /// Whether nothing more is sent or received.
    closed: AtomicBool,
    /// Number of messages sealed by the host on the control stream.
    control_sealed: AtomicU32,
    /// Number of messages sealed by the host in RTSP.
    rtsp_sealed: AtomicU32,
    state: Mutex<State>,
}

/// The progress of a session.
#[derive(Debug)]
struct State {
    /// The parameters from ANNOUNCE.
    parameters: Option<StreamParameters>,
    /// Whether PLAY has been accepted.
    plays: bool,
    /// Whether the streams have been started.
    started: bool,
    subscriber: Option<SubscriberId>,
    /// The newest number of the sealed RTSP requests so far.
    rtsp_opened: Option<u32>,
    last_message: Instant,
}

/// The system provides no random numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the system provides no random numbers")]
pub struct NoRandomness;

/// Random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

impl Session {
    /// Creates a session of `owner`. It sends video and sound through these sockets.
    ///
    /// # Errors
    /// [`NoRandomness`] if the system provides no random numbers.
    pub fn new(
        owner: Owner,
        launch: Launch,
        (application, mode): (u32, Mode),
        (video, sound): (Arc<UdpSocket>, Arc<UdpSocket>),
    ) -> Result<Session, NoRandomness> {
        let mut ping = [0; PING_WORDS];
        ping.copy_from_slice(to_hex(&random::<{ PING_WORDS / 2 }>()?).as_bytes());
        Ok(Session {
            owner,
            launch,
            application,
            mode,
            name: to_hex(&random::<8>()?),
            ping,
            connect_data: u32::from_ne_bytes(random()?),
            video: Outlet::new(video),
            sound: Outlet::new(sound),
            frames: SentFrames::default(),
            redundancy: Redundancy::new(Instant::now()),
            updates: Updates::default(),
            awaits_mode: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            control_sealed: AtomicU32::new(0),
            rtsp_sealed: AtomicU32::new(0),
            state: Mutex::new(State {
                parameters: None,
                plays: false,
                started: false,
                subscriber: None,
                rtsp_opened: None,
                last_message: Instant::now(),
            }),
        })
    }

    /// Sets the parameters of the session's streams. Returns whether they were accepted. They are refused after PLAY.
    #[must_use]
    pub fn announce(&self, parameters: StreamParameters) -> bool {
        let mut state = lock(&self.state);
        if !state.plays {
            state.parameters = Some(parameters);
        }
        !state.plays
    }

    /// Starts to play. Returns whether this is permitted: once, and only after the parameters were set.
    ///
    /// A session plays only once, because a second start would use the key with the same nonces again.
    #[must_use]
    pub fn play(&self) -> bool {
        let mut state = lock(&self.state);
        let may = state.parameters.is_some() && !state.plays;
        state.plays |= may;
        may
    }

    /// Returns the parameters of the session's streams once, when the streams are due to start: the session plays, and
    /// the client's address for video is known.
    #[must_use]
    pub fn start(&self) -> Option<StreamParameters> {
        let mut state = lock(&self.state);
        if !state.plays || state.started || !self.video.is_found() || self.is_closed() {
            return None;
        }
        state.started = true;
        state.parameters
    }

    /// Whether PLAY has been accepted.
    #[must_use]
    pub fn plays(&self) -> bool {
        lock(&self.state).plays
    }

    /// Whether the display is about to take the session's mode. False for an observer.
    #[must_use]
    pub fn awaits_mode(&self) -> bool {
        self.awaits_mode.load(Ordering::Relaxed)
    }

    /// Records that the display does not take the session's mode, because the client observes.
    pub fn observes(&self) {
        self.awaits_mode.store(false, Ordering::Relaxed);
    }

    /// The client's subscription to frames.
    #[must_use]
    pub fn subscriber(&self) -> Option<SubscriberId> {
        lock(&self.state).subscriber
    }

    /// Sets the subscription. If the session has been closed in the meantime, returns the subscription, which the
    /// caller must then end.
    #[must_use]
    pub fn subscribed(&self, subscriber: SubscriberId) -> Option<SubscriberId> {
        let mut state = lock(&self.state);
        if self.is_closed() {
            return Some(subscriber);
        }
        state.subscriber = Some(subscriber);
        None
    }

    /// Checks the number of a sealed RTSP request. Returns whether it is newer than all earlier numbers.
    #[must_use]
    pub fn opens_rtsp(&self, number: u32) -> bool {
        let mut state = lock(&self.state);
        let newer = state.rtsp_opened.is_none_or(|newest| number > newest);
        if newer {
            state.rtsp_opened = Some(number);
        }
        newer
    }

    /// The number of the next message that the host seals in RTSP; `None` if no unused number is left.
    #[must_use]
    pub fn next_rtsp(&self) -> Option<u32> {
        next(&self.rtsp_sealed)
    }

    /// The number of the next message that the host seals on the control stream; `None` if no unused number is left.
    #[must_use]
    pub fn next_control(&self) -> Option<u32> {
        next(&self.control_sealed)
    }

    /// Records that a message of the client arrived.
    pub fn note_message(&self, now: Instant) {
        lock(&self.state).last_message = now;
    }

    /// When the last message arrived.
    #[must_use]
    pub fn last_message(&self) -> Instant {
        lock(&self.state).last_message
    }

    /// Ends the session. The first call returns the subscription.
    #[must_use]
    pub fn close(&self) -> Option<SubscriberId> {
        let mut state = lock(&self.state);
        self.closed.store(true, Ordering::Relaxed);
        self.video.forget();
        self.sound.forget();
        state.subscriber.take()
    }

    /// Whether the session has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

/// Counts without wrapping, because a repeated number would repeat a nonce.
fn next(counter: &AtomicU32) -> Option<u32> {
    let counted = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
    counted.ok()
}
