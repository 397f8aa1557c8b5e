//! Access for Moonlight clients (phones, televisions, consoles and desktops), with the host's existing encoder.
//!
//! ```text
//!  client                         server                                     host
//!  description, pairing ── HTTP ─►  http, pairing ─────────────────────────►  devices
//!  launch, resume       ─ HTTPS ─►  http ── session
//!  handshake            ── RTSP ─►  rtsp ── session
//!  pings                ── UDP ──►  media ───────────────────── subscribe ─►  the player's rendition
//!  video                ◄─ UDP ───  video ◄───────────────────────── slices ─
//!  sound                ◄─ UDP ───  audio ◄─────────────────────── payloads ─
//!  input, losses        ── ENet ─►  control ── input ── feedback ───────────►  roles, injection, policy
//! ```
//!
//! Each client is one subscriber of the host and has its own thread, so the native player never waits for a Moonlight
//! client. There is no async runtime, because a TCP connection carries one request and there are few clients.
//!
//! The protocol was learned from public sources. `docs/moonlight.md` lists these sources and the supported parts of the
//! protocol.
#![forbid(unsafe_code)]

mod admission;
mod applications;
pub mod audio;
pub mod control;
mod door;
pub mod feedback;
mod hex;
pub mod http;
mod identity;
pub mod input;
mod listeners;
mod media;
pub mod pairing;
mod pin_desk;
mod query;
pub mod rtsp;
pub mod session;
pub mod video;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::SystemTime;

use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use openuvr_runtime::store::StoreError;
use openuvr_runtime::trust_store::DeviceStore;

use self::admission::{Admission, AdmissionSlot};
use self::applications::Application;
pub use self::applications::{LaunchRefused, Launcher, OfferedApplication};
use self::door::Door;
pub use self::door::{Addresses, Announce};
use self::identity::Identity;
pub use self::identity::IdentityError;
pub use self::listeners::BindError;
use self::listeners::{LimitedStream, Serve, Sockets, accept};
use self::pairing::Desk;
pub use self::pin_desk::PinDesk;
pub use self::query::Query;
use self::session::Sessions;

/// The protocol's default port for HTTP. Clients can be given another port.
pub const PORT: u16 = 47_989;

/// Configuration of a Moonlight server.
pub struct MoonlightSetup {
    /// Address and port of HTTP. The other ports are relative to this port. Port 0 selects any free ports.
    pub bind: SocketAddr,
    /// Folder of keys and devices.
    pub folder: PathBuf,
    /// Name of the host.
    pub name: String,
    /// The applications.
    pub applications: Vec<OfferedApplication>,
    /// Starts the applications. `None` if the host's only application is already running.
    pub launcher: Option<Arc<dyn Launcher>>,
    /// Whether the host may have sound.
    pub sound: bool,
    /// Whether the display changes to the player's mode, if it supports that mode.
    pub fits: bool,
    /// Prints a line for the user at the host.
    pub announce: Announce,
}

/// Why a Moonlight server does not start. Each error is one line.
#[derive(Debug, thiserror::Error)]
pub enum MoonlightError {
    /// An address is not available.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The host's certificate cannot be used or created.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The list of devices cannot be used.
    #[error(transparent)]
    Devices(#[from] StoreError),
    /// TLS cannot use the certificate.
    #[error("cannot use the certificate for Moonlight clients: {0}")]
    Tls(#[from] rustls::Error),
    /// The system provides no thread or no socket.
    #[error("cannot create a thread or socket for Moonlight clients: {0}")]
    Start(#[from] io::Error),
}

/// A running Moonlight server. Dropping it ends all sessions.
pub struct Moonlight {
    addresses: Addresses,
    identity: String,
    door: Weak<Door>,
    closing: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Moonlight {
    /// Binds the ports and serves `host` on its own threads.
    ///
    /// # Errors
    /// [`MoonlightError`] if a port, the certificate, the list of devices or a thread is not available.
    pub fn start(
        setup: MoonlightSetup,
        host: Arc<dyn GatewayHost>,
        scheduler: &Scheduler,
    ) -> Result<Moonlight, MoonlightError> {
        let identity = Identity::open(&setup.folder, SystemTime::now())?;
        let devices = DeviceStore::open(&setup.folder)?;
        let tls = http::config(&identity)?;
        let number = identity.number.clone();
        let sockets = Sockets::bind(setup.bind)?;
        let addresses = sockets.addresses()?;
        let (video, sound) = (Arc::new(sockets.video), Arc::new(sockets.sound));
        let closing = Arc::new(AtomicBool::new(false));
        let door = Arc::new(Door {
            host,
            sessions: Arc::new(Sessions::default()),
            name: setup.name,
            applications: Application::all(setup.applications),
            launcher: setup.launcher,
            launched_by: Mutex::default(),
            sound: setup.sound,
            fits: setup.fits,
            identity,
            addresses,
            desk: Desk::default(),
            admission: Admission::default(),
            folder: setup.folder,
            announce: setup.announce,
            devices: Mutex::new(devices),
            closing: closing.clone(),
            media: (video.clone(), sound.clone()),
        });
        // From here on, a failure drops `started`, which ends the threads.
        let mut started = Moonlight {
            addresses,
            identity: number,
            door: Arc::downgrade(&door),
            closing,
            threads: Vec::new(),
        };
        type Slot<'a> = &'a mut AdmissionSlot;
        let plain: Arc<Serve> = {
            let door = door.clone();
            Arc::new(move |mut stream: LimitedStream, slot: Slot<'_>, here| {
                http::serve(&door, &mut stream, slot, here)
            })
        };
        let protected: Arc<Serve> = {
            let door = door.clone();
            Arc::new(move |stream: LimitedStream, slot: Slot<'_>, here| {
                http::serve_tls(&door, tls.clone(), stream, slot, here)
            })
        };
        let handshakes: Arc<Serve> = {
            let door = door.clone();
            Arc::new(move |mut stream: LimitedStream, slot: Slot<'_>, _| {
                rtsp::serve(&door, &mut stream, slot.from())
            })
        };
        for (listener, serve) in [
            (sockets.http, plain),
            (sockets.https, protected),
            (sockets.rtsp, handshakes),
        ] {
            let (door, connections) = (door.clone(), scheduler.clone());
            let work = move || {
                let closing = || door.is_closing();
                accept(&listener, &connections, &door.admission, &closing, &serve);
            };
            let thread = scheduler.spawn(ThreadRole::Background, "ouvr-moon-tcp", work)?;
            started.threads.push(thread);
        }
        let control = {
            let (door, socket) = (door.clone(), sockets.control);
            move || control::serve(&door, socket)
        };
        let thread = scheduler.spawn(ThreadRole::Background, "ouvr-moon-ctl", control)?;
        started.threads.push(thread);
        let pings = move || media::serve(&door, &video, &sound);
        let thread = scheduler.spawn(ThreadRole::Background, "ouvr-moon-ping", pings)?;
        started.threads.push(thread);
        Ok(started)
    }

    /// The bound addresses.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// A handle with which a PIN can be entered while the Moonlight server runs.
    #[must_use]
    pub fn pin_desk(&self) -> PinDesk {
        PinDesk {
            door: self.door.clone(),
            port: self.addresses.http.port(),
        }
    }

    /// The number by which clients identify the host.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }
}

impl Drop for Moonlight {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic is ignored here, because the thread has already reported it.
            let _ = thread.join();
        }
    }
}
