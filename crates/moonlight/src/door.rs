//! The state that all threads of the Moonlight server share.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use openuvr_proto::control::handshake::{DeviceStatus, foreign_key};
use openuvr_proto::control::identity::{ClientId, DeviceName, PublicKey};
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::lock::lock;
use openuvr_runtime::store::StoreError;
use openuvr_runtime::trust_store::DeviceStore;

use crate::admission::Admission;
use crate::applications::{Application, Launcher};
use crate::identity::Identity;
use crate::pairing::Desk;
use crate::session::{Session, Sessions};

/// Prints a line for the user at the host.
pub type Announce = Box<dyn Fn(&str) + Send + Sync>;

/// Bound addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// Unprotected requests: description and pairing.
    pub http: SocketAddr,
    /// Requests of paired clients.
    pub https: SocketAddr,
    /// RTSP.
    pub rtsp: SocketAddr,
    /// Video.
    pub video: SocketAddr,
    /// Control stream.
    pub control: SocketAddr,
    /// Sound.
    pub sound: SocketAddr,
}

/// The shared state.
pub(crate) struct Door {
    pub(crate) host: Arc<dyn GatewayHost>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) name: String,
    pub(crate) applications: Vec<Application>,
    /// Starts the applications. `None` if the host's only application is already running.
    pub(crate) launcher: Option<Arc<dyn Launcher>>,
    /// The client that started the running application.
    pub(crate) launched_by: Mutex<Option<PublicKey>>,
    pub(crate) sound: bool,
    /// Whether the display changes to the player's mode.
    pub(crate) fits: bool,
    pub(crate) identity: Identity,
    pub(crate) addresses: Addresses,
    pub(crate) desk: Desk,
    pub(crate) admission: Admission,
    pub(crate) folder: PathBuf,
    pub(crate) announce: Announce,
    pub(crate) devices: Mutex<DeviceStore>,
    pub(crate) closing: Arc<AtomicBool>,
    /// The sockets for video and for sound.
    pub(crate) media: (Arc<UdpSocket>, Arc<UdpSocket>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PairedClient {
    pub(crate) device: PublicKey,
    pub(crate) title: String,
}

/// The key under which a client is stored: the hash of its certificate. The client proves possession of the certificate's
/// private key.
#[must_use]
pub(crate) fn device_key(certificate: &[u8]) -> PublicKey {
    foreign_key("moonlight", certificate)
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

impl Door {
    /// Whether the Moonlight server is stopping.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// The sockets for video and for sound.
    pub(crate) fn media_sockets(&self) -> (Arc<UdpSocket>, Arc<UdpSocket>) {
        self.media.clone()
    }

    /// The paired client with this certificate. `None` if it is not paired or the host does not allow it.
    pub(crate) fn paired(&self, certificate: &[u8]) -> Option<PairedClient> {
        let device = device_key(certificate);
        let mut devices = lock(&self.devices);
        if let Err(error) = devices.refresh() {
            tracing::warn!("cannot read the list of devices: {error}");
        }
        match devices.standing(&ClientId::of(&device)) {
            DeviceStatus::Allowed(key) if key == device => {}
            _ => return None,
        }
        let known = devices.devices().iter().find(|known| known.key == device)?;
        let title = known.title();
        Some(PairedClient { device, title })
    }

    /// Whether the host forbids the client with this certificate.
    pub(crate) fn is_forbidden(&self, certificate: &[u8]) -> bool {
        let device = device_key(certificate);
        let mut devices = lock(&self.devices);
        // An error is ignored: if the list cannot be read, its previous content counts, as in `paired`.
        let _ = devices.refresh();
        let standing = devices.standing(&ClientId::of(&device));
        matches!(standing, DeviceStatus::Forbidden(_))
    }

    /// Stores a client that has proved that it knows the PIN. Returns its name for the user.
    pub(crate) fn pair(
        &self,
        certificate: &[u8],
        from: IpAddr,
        name: Option<&str>,
    ) -> Result<String, StoreError> {
        let name = name.map_or_else(|| format!("Moonlight at {from}"), str::to_owned);
        let name = DeviceName::new(&name);
        let key = device_key(certificate);
        lock(&self.devices).pair(key, &name, unix_time())?;
        self.admission.authenticated(Instant::now(), from, key);
        let title = format!("{} ({})", name.as_str(), key.fingerprint());
        (self.announce)(&format!("paired with {title}"));
        Ok(title)
    }

    /// Removes the pairing of a client at the client's request.
    pub(crate) fn unpair(&self, client: &PairedClient) {
        self.admission.forget(&client.device);
        let forgotten = lock(&self.devices).forget(&client.device.fingerprint());
        match forgotten {
            Ok(device) => (self.announce)(&format!("{} has unpaired", device.title())),
            Err(error) => tracing::warn!("cannot forget a Moonlight client: {error}"),
        }
    }

    /// Records a visit.
    pub(crate) fn seen(&self, client: &PairedClient) {
        if let Err(error) = lock(&self.devices).seen(&client.device, unix_time()) {
            tracing::warn!("cannot record that a Moonlight client connected: {error}");
        }
    }

    /// The number of the running application. `None` if there is no launcher or the launcher has no running
    /// application.
    pub(crate) fn running(&self) -> Option<u32> {
        let place = self.launcher.as_ref()?.running()?;
        let application = self.applications.get(place)?;
        Some(application.number)
    }

    /// Ends the started application for a client. Returns `false` if the client may not end it. The client that started
    /// the application may always end it. A client that did not start it may end it only while no other device has a
    /// session.
    pub(crate) fn quit(&self, client: &PairedClient) -> bool {
        let Some(launcher) = self.launcher.as_ref().filter(|it| it.running().is_some()) else {
            return true;
        };
        let is_other = |session: &Arc<Session>| session.owner.device != client.device;
        let others = self.sessions.all().iter().any(is_other);
        if others && *lock(&self.launched_by) != Some(client.device) {
            return false;
        }
        launcher.quit();
        for session in self.sessions.all() {
            self.end(&session);
        }
        true
    }

    /// Ends the sessions whose application has ended.
    pub(crate) fn end_finished(&self) {
        if self.launcher.is_none() {
            return;
        }
        for session in self.sessions.all() {
            if self.running() != Some(session.application) {
                self.end(&session);
            }
        }
    }

    /// Ends a session. May be called more than once.
    pub(crate) fn end(&self, session: &Arc<Session>) {
        self.sessions.remove(session);
        if let Some(subscriber) = session.close() {
            self.host.unsubscribe(subscriber);
        }
    }
}
