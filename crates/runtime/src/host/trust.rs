//! Trust decisions of the control thread. The control thread reads the device list directly, and a writer thread stores
//! pairings and sessions.
//!
//! Writing may block, because a disk may be slow and another program may hold the folder's lock. A blocked control
//! thread would delay the player's input. A read costs a `stat`, and after a change also the reading of a small file.
//!
//! The file and its rules are in [`crate::trust_store`].

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use openuvr_proto::control::handshake::DeviceStatus;
use openuvr_proto::control::identity::{ClientId, DeviceName, PublicKey};

use super::{Notice, PanicReporter, Shared};
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};
use crate::trust_store::{DeviceStore, PairingRequests, RequestedWindow};

/// Maximum entries that wait for the disk (guess: the sessions of some seconds). Further entries are lost.
const MAX_ENTRIES: usize = 64;

/// An entry for the writer thread.
struct Entry {
    event: TrustEvent,
    /// Seconds since 1970.
    at: u64,
}

/// The event to store.
enum TrustEvent {
    /// A device paired under this name.
    Paired(PublicKey, DeviceName),
    SessionStarted(PublicKey),
    /// A device announced another name.
    Renamed(PublicKey, DeviceName),
    /// The pairing window of this request was opened.
    WindowOpened(String),
}

/// Devices that were paired in this run and are not in the file yet. They stay in this list if the file cannot be
/// written. A PIN authenticated each of these devices.
type Unstored = Arc<Mutex<Vec<PublicKey>>>;

/// The control thread's access to trust. The writer thread ends after this value has been dropped and all entries have
/// been written.
pub(super) struct Trust {
    shared: Arc<Shared>,
    devices: DeviceStore,
    requests: PairingRequests,
    unstored: Unstored,
    entries: SyncSender<Entry>,
    /// The error of the last reading of the device list, if it failed.
    last_error: Option<String>,
}

impl Trust {
    /// Starts the writer thread.
    ///
    /// # Errors
    /// Returns the system's error if the thread cannot be started.
    pub(super) fn start(
        shared: &Arc<Shared>,
        devices: DeviceStore,
        scheduler: &Scheduler,
    ) -> io::Result<(Trust, JoinHandle<()>)> {
        let (entries, inbox) = sync_channel(MAX_ENTRIES);
        let trust = Trust {
            shared: shared.clone(),
            requests: devices.pairing_requests(),
            devices: devices.clone(),
            unstored: Unstored::default(),
            entries,
            last_error: None,
        };
        let (unstored, panic_reporter) = (
            trust.unstored.clone(),
            PanicReporter(shared.clone(), "trust"),
        );
        let thread = scheduler.spawn(ThreadRole::Background, "ouvr-trust", move || {
            run_writer(&panic_reporter.0, devices, &inbox, &unstored);
        })?;
        Ok((trust, thread))
    }

    /// Reads the device list if it has changed, and returns a function that returns the status of a client. A paired
    /// device that could not be stored is allowed while the host runs, unless it is forbidden.
    pub(super) fn statuses(&mut self) -> impl Fn(&ClientId) -> DeviceStatus + '_ {
        // Read this list before the file, because a device is removed from the list only after it has been added to the
        // file.
        let unstored = lock(&self.unstored).clone();
        self.refresh();
        let devices = &self.devices;
        move |id| match devices.standing(id) {
            DeviceStatus::Unknown => {
                let key = unstored.iter().find(|key| ClientId::of(key) == *id);
                key.map_or(DeviceStatus::Unknown, |key| DeviceStatus::Allowed(*key))
            }
            known => known,
        }
    }

    fn refresh(&mut self) {
        let last_error = self.devices.refresh().err().map(|e| e.to_string());
        // Consecutive equal errors are reported once.
        if last_error != self.last_error
            && let Some(why) = &last_error
        {
            self.shared.notice(Notice::Warning(why.clone()));
        }
        self.last_error = last_error;
    }

    /// Stores a paired device.
    pub(super) fn paired(&mut self, key: PublicKey, name: DeviceName) {
        let mut unstored = lock(&self.unstored);
        if !unstored.contains(&key) {
            unstored.push(key);
        }
        drop(unstored);
        self.write(TrustEvent::Paired(key, name));
    }

    /// The pairing window that was newly requested, if any. It is recorded as opened.
    pub(super) fn requested_window(&mut self) -> Option<RequestedWindow> {
        let window = match self.requests.poll(now()) {
            Ok(window) => window?,
            Err(e) => {
                self.shared.notice(Notice::Warning(e.to_string()));
                return None;
            }
        };
        self.write(TrustEvent::WindowOpened(window.id.clone()));
        Some(window)
    }

    /// Records that a known device started a session.
    pub(super) fn session_started(&mut self, key: PublicKey) {
        self.write(TrustEvent::SessionStarted(key));
    }

    /// The display name of a device that joined under this announced name. A stored name takes precedence, because
    /// announced names are not authenticated.
    pub(super) fn display_name(&mut self, key: PublicKey, calls_itself: &str) -> String {
        let now = DeviceName::new(calls_itself);
        let known = self.devices.devices().iter().find(|d| d.key == key);
        let Some(device) = known else {
            return now.as_str().to_owned();
        };
        let mut device = device.clone();
        if device.rename(&now) {
            self.write(TrustEvent::Renamed(key, now));
        }
        device.title()
    }

    fn write(&mut self, event: TrustEvent) {
        let entry = Entry { event, at: now() };
        if self.entries.try_send(entry).is_err() {
            let why = "the disk is too slow to store devices: a newly paired device may have to pair again";
            self.shared.notice(Notice::Warning(why.to_owned()));
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |span| span.as_secs())
}

/// The writer thread.
fn run_writer(
    shared: &Shared,
    mut devices: DeviceStore,
    entries: &Receiver<Entry>,
    unstored: &Unstored,
) {
    let mut requests = devices.pairing_requests();
    for Entry { event, at } in entries {
        let stored = match &event {
            TrustEvent::Paired(key, name) => devices.pair(*key, name, at),
            TrustEvent::SessionStarted(key) => devices.seen(key, at),
            TrustEvent::Renamed(key, name) => devices.calls_itself(key, name),
            TrustEvent::WindowOpened(id) => requests.opened(id),
        };
        match (stored, event) {
            (Ok(()), TrustEvent::Paired(key, _)) => lock(unstored).retain(|other| *other != key),
            (Ok(()), _) => {}
            // The session continues. After this run, a new device needs a PIN again.
            (Err(e), _) => shared.notice(Notice::Warning(e.to_string())),
        }
    }
}
