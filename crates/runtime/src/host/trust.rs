//! Whom the host lets in, as its control thread sees it: it looks at once, and has a thread of its
//! own write down who paired and who was here.
//!
//! A disk may be slow, and another program may hold the folder's lock: whatever waits for either
//! must not hold up the player's input. A look is a `stat`, and after a change a small file.
//!
//! What it is not: the file and its rules, which are in [`crate::trust_store`].

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

/// Entries that may wait for the disk (guess: the sessions that begin in some seconds); what finds
/// no room is not written.
const MAX_ENTRIES: usize = 64;

/// What is to be written down.
struct Entry {
    event: TrustEvent,
    /// In seconds since 1970.
    at: u64,
}

/// What happened.
enum TrustEvent {
    /// A device paired, and goes by this name.
    Paired(PublicKey, DeviceName),
    /// A device began a session.
    SessionStarted(PublicKey),
    /// A device calls itself this now.
    Renamed(PublicKey, DeviceName),
    /// The pairing window was opened that this request asks for.
    WindowOpened(String),
}

/// Devices that paired in this run and are not in the file: not yet, or because it can't be
/// written. Each took a PIN that a person had shown.
type Unstored = Arc<Mutex<Vec<PublicKey>>>;

/// What the control thread asks and tells. The writing thread ends with it, after what waits.
pub(super) struct Trust {
    shared: Arc<Shared>,
    devices: DeviceStore,
    /// Pairing windows that a person asks for.
    requests: PairingRequests,
    unstored: Unstored,
    entries: SyncSender<Entry>,
    /// What is wrong with the list, if something is.
    last_error: Option<String>,
}

impl Trust {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// The system's, if it starts no more threads.
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

    /// Looks whom this host knows now: what a client is to it. A device that paired and could not
    /// be stored may come in as long as the host runs, unless a person says otherwise.
    pub(super) fn statuses(&mut self) -> impl Fn(&ClientId) -> DeviceStatus + '_ {
        // Before the file: what has left this list is in there.
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
        // Said once, however often it is met.
        if last_error != self.last_error
            && let Some(why) = &last_error
        {
            self.shared.notice(Notice::Warning(why.clone()));
        }
        self.last_error = last_error;
    }

    /// A device paired.
    pub(super) fn paired(&mut self, key: PublicKey, name: DeviceName) {
        let mut unstored = lock(&self.unstored);
        if !unstored.contains(&key) {
            unstored.push(key);
        }
        drop(unstored);
        self.write(TrustEvent::Paired(key, name));
    }

    /// A pairing window that a person asks for now. It is taken for opened.
    pub(super) fn requested_window(&mut self) -> Option<RequestedWindow> {
        let wanted = match self.requests.poll(now()) {
            Ok(wanted) => wanted?,
            Err(e) => {
                self.shared.notice(Notice::Warning(e.to_string()));
                return None;
            }
        };
        self.write(TrustEvent::WindowOpened(wanted.id.clone()));
        Some(wanted)
    }

    /// A known device began a session.
    pub(super) fn session_started(&mut self, key: PublicKey) {
        self.write(TrustEvent::SessionStarted(key));
    }

    /// A device joined and calls itself so: how a person is to be told of it. Names prove nothing, so
    /// the one under which it is stored comes first.
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
            let why = "the disk is too slow to write down which devices come: a new one will need \
                       a PIN again";
            self.shared.notice(Notice::Warning(why.to_owned()));
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |span| span.as_secs())
}

/// The thread that writes.
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
            // The session goes on; after this run a new device will need a PIN again.
            (Err(e), _) => shared.notice(Notice::Warning(e.to_string())),
        }
    }
}
