//! Game pads in `/dev/input` that this user may read, with hot plug, mapped to the standard
//! gamepad.
//!
//! The focus is not considered, because the caller decides whether pad input is for the host. Pads
//! are not grabbed, so other programs also read them.

mod device;
pub mod mapping;
mod sys;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::pad::{PadId, Rumble};
use openuvr_proto::time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::device::{DeviceKind, Pad};
use self::mapping::Database;
use crate::waker::{Waker, WakerError};

/// The kernel's folder of event devices.
const FOLDER: &str = "/dev/input";

/// Poll interval of the folder if the kernel does not report changes.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);

/// Retry delay for an unreadable device. A device's permissions are set slightly after its creation (guess).
const PERMISSION_DELAY: Duration = Duration::from_secs(1);

/// An event of the pads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PadEvent {
    /// Input of the user, with the kernel's timestamp on the monotonic clock if there is one.
    Input(InputEvent, Option<time::Instant>),
    /// A warning for the user in one line.
    Warning(String),
    /// No event.
    Idle,
}

/// Each pad's requested rumble, with its maximum duration.
type RumbleRequests = BTreeMap<PadId, (Rumble, Duration)>;

/// Sets the pads' rumble from any thread, and wakes their reader.
#[derive(Clone)]
pub struct Rumbler {
    requests: Arc<Mutex<RumbleRequests>>,
    waker: Waker,
}

impl Rumbler {
    /// A rumbler for one reader.
    ///
    /// # Errors
    /// [`WakerError`] if no file descriptor is left.
    pub fn new() -> Result<Rumbler, WakerError> {
        Ok(Rumbler {
            requests: Arc::default(),
            waker: Waker::new()?,
        })
    }

    /// Sets a pad's rumble, for at most this duration.
    pub fn rumble(&self, pad: PadId, rumble: Rumble, lasts: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.insert(pad, (rumble, lasts));
        drop(requests);
        self.waker.wake();
    }

    /// Makes the reader's wait return.
    pub fn wake(&self) {
        self.waker.wake();
    }

    fn take(&self) -> RumbleRequests {
        self.waker.lower();
        let requests = self.requests.lock();
        std::mem::take(&mut *requests.unwrap_or_else(PoisonError::into_inner))
    }
}

struct Plugged {
    path: PathBuf,
    pad: Box<Pad>,
    /// The time at which the pad's motors must stop.
    still: Option<Instant>,
}

/// Reads the pads. One thread owns it.
pub struct PadReader {
    folder: PathBuf,
    database: Database,
    plugged: BTreeMap<PadId, Plugged>,
    /// Watch on the folder. `None` if it is polled.
    watch: Option<OwnedFd>,
    look_at: Option<Instant>,
    /// The paths and inodes of devices that are not read, because they are not pads or because the maximum number of
    /// pads is connected. The inode is needed because a different device may later have the same path.
    passed: BTreeMap<PathBuf, u64>,
    /// Unreadable devices, with the time of the first attempt, and whether the user has been warned.
    refused: BTreeMap<PathBuf, (Instant, bool)>,
    rumbler: Rumbler,
    ready: VecDeque<PadEvent>,
}

impl PadReader {
    /// A reader of this machine's pads that runs their motors as `rumbler` requests.
    #[must_use]
    pub fn new(database: Database, rumbler: Rumbler) -> PadReader {
        PadReader {
            folder: FOLDER.into(),
            database,
            plugged: BTreeMap::new(),
            watch: None,
            look_at: Some(Instant::now()),
            passed: BTreeMap::new(),
            refused: BTreeMap::new(),
            rumbler,
            ready: VecDeque::new(),
        }
    }

    /// Waits for the next event, at most `timeout`.
    pub fn next(&mut self, timeout: Duration) -> PadEvent {
        let until = Instant::now() + timeout;
        loop {
            self.feel();
            if self.look_at.is_some_and(|at| at <= Instant::now()) {
                self.scan();
            }
            if let Some(news) = self.ready.pop_front() {
                return news;
            }
            if Instant::now() >= until || !self.wait(until) {
                return PadEvent::Idle;
            }
        }
    }

    /// Waits for input and reads it. Returns `false` if woken.
    fn wait(&mut self, until: Instant) -> bool {
        let still = self.plugged.values().filter_map(|plugged| plugged.still);
        let until = still.chain(self.look_at).fold(until, Instant::min);
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        let mut fds = vec![PollFd::new(&self.rumbler.waker.0, PollFlags::IN)];
        if let Some(watch) = &self.watch {
            fds.push(PollFd::new(watch, PollFlags::IN));
        }
        let others = fds.len();
        let pads = self.plugged.values();
        fds.extend(pads.map(|plugged| PollFd::new(plugged.pad.fd(), PollFlags::IN)));
        // If `poll` is interrupted, the devices are checked anyway.
        let _ = poll(&mut fds, left.as_ref());
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let numbers: Vec<PadId> = self.plugged.keys().copied().collect();
        for (number, _) in numbers
            .iter()
            .zip(&ready[others..])
            .filter(|(_, ready)| **ready)
        {
            self.read(*number);
        }
        if others > 1 && ready[1] {
            self.drain();
            self.look_at = Some(Instant::now());
        }
        !ready[0]
    }

    fn read(&mut self, number: PadId) {
        let Some(plugged) = self.plugged.get_mut(&number) else {
            return;
        };
        let ready = &mut self.ready;
        let read = plugged.pad.read(|state, at| {
            let event = InputEvent::Pad { pad: number, state };
            ready.push_back(PadEvent::Input(event, at));
        });
        if read.is_err() {
            self.unplug(number);
        }
    }

    fn unplug(&mut self, pad: PadId) {
        self.plugged.remove(&pad);
        let event = InputEvent::PadDisconnected { pad };
        self.ready.push_back(PadEvent::Input(event, None));
        // A device that exceeded the limit may fit now.
        self.passed.clear();
        self.look_at = Some(Instant::now());
    }

    /// Discards the watch's events: the reader needs to know only that something has changed.
    fn drain(&self) {
        let Some(watch) = &self.watch else { return };
        let mut buffer = [0_u8; 4096];
        while rustix::io::read(watch, &mut buffer).is_ok_and(|read| read > 0) {}
    }

    /// Scans the folder.
    fn scan(&mut self) {
        if self.watch.is_none() {
            self.watch = sys::watch(&self.folder);
        }
        self.look_at = match self.watch {
            Some(_) => None,
            None => Some(Instant::now() + SCAN_INTERVAL),
        };
        let mut paths = devices(&self.folder);
        paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        self.passed
            .retain(|path, passed| inode(path) == Some(*passed));
        self.refused.retain(|path, _| paths.contains(path));
        let gone = |plugged: &Plugged| !paths.contains(&plugged.path);
        let gone: Vec<PadId> = self
            .plugged
            .iter()
            .filter(|(_, plugged)| gone(plugged))
            .map(|(pad, _)| *pad)
            .collect();
        for pad in gone {
            self.unplug(pad);
        }
        for path in paths {
            let known = self.plugged.values().any(|plugged| plugged.path == path);
            if !known && !self.passed.contains_key(&path) {
                self.open(path);
            }
        }
    }

    fn open(&mut self, path: PathBuf) {
        let Some(inode) = inode(&path) else {
            // The device was removed in the meantime.
            return;
        };
        match Pad::open(&path, &self.database) {
            Ok(DeviceKind::Pad(pad)) => self.plug(path, inode, pad),
            Ok(DeviceKind::Unmapped(name)) => {
                self.warn(format!(
                    "the button mapping of {name} ({}) is unknown: use --pad-db FILE with a pad database in SDL's format",
                    path.display()
                ));
                self.passed.insert(path, inode);
            }
            Ok(DeviceKind::Other) => _ = self.passed.insert(path, inode),
            Err(e) => self.refuse(path, &e),
        }
    }

    fn plug(&mut self, path: PathBuf, inode: u64, mut pad: Box<Pad>) {
        let free = PadId::all().find(|number| !self.plugged.contains_key(number));
        let Some(number) = free else {
            self.warn(format!(
                "the game pad {} is ignored: the limit of {} pads is reached",
                pad.identity.name,
                self.plugged.len()
            ));
            self.passed.insert(path, inode);
            return;
        };
        self.refused.remove(&path);
        let connected = InputEvent::PadConnected {
            pad: number,
            identity: pad.identity,
        };
        self.ready.push_back(PadEvent::Input(connected, None));
        if let Some(state) = pad.poll_state() {
            let event = InputEvent::Pad { pad: number, state };
            self.ready.push_back(PadEvent::Input(event, None));
        }
        let plugged = Plugged {
            path,
            pad,
            still: None,
        };
        self.plugged.insert(number, plugged);
    }

    /// Handles a device that can't be opened. Its permissions may still change. If they do not change and the device is
    /// a pad, the user is warned once.
    fn refuse(&mut self, path: PathBuf, why: &io::Error) {
        if why.kind() != io::ErrorKind::PermissionDenied {
            // The device was removed in the meantime, or the file is not a device.
            return;
        }
        let now = Instant::now();
        let (since, told) = self.refused.entry(path.clone()).or_insert((now, false));
        if now.duration_since(*since) < PERMISSION_DELAY {
            let again = *since + PERMISSION_DELAY;
            self.look_at = Some(self.look_at.map_or(again, |at| at.min(again)));
        } else if !std::mem::replace(told, true) && is_pad(&path) {
            self.warn(format!(
                "no permission to read the game pad {}: add this user to the group input (`usermod -aG input NAME`, \
                 then log in again), or use --pads=false",
                path.display()
            ));
        }
    }

    fn warn(&mut self, words: String) {
        self.ready.push_back(PadEvent::Warning(words));
    }

    /// Starts and stops motors.
    fn feel(&mut self) {
        let now = Instant::now();
        for (pad, (rumble, lasts)) in self.rumbler.take() {
            if let Some(plugged) = self.plugged.get_mut(&pad) {
                plugged.still = (rumble != Rumble::OFF).then(|| now + lasts);
                // A pad that refuses is treated as a pad without motors.
                let _ = plugged.pad.rumble(rumble);
            }
        }
        for plugged in self.plugged.values_mut() {
            if plugged.still.take_if(|at| *at <= now).is_some() {
                let _ = plugged.pad.rumble(Rumble::OFF);
            }
        }
    }
}

impl Drop for PadReader {
    fn drop(&mut self) {
        for plugged in self.plugged.values_mut() {
            let _ = plugged.pad.rumble(Rumble::OFF);
        }
    }
}

/// The event devices of a folder.
fn devices(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_event = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("event"));
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    entries.map(|entry| entry.path()).filter(is_event).collect()
}

/// The inode of a file; `None` if there is no file.
fn inode(path: &Path) -> Option<u64> {
    Some(fs::metadata(path).ok()?.ino())
}

/// Whether the kernel reports pad buttons for a device that can't be opened. This is read from
/// sysfs, which lists the words of a bit set highest first.
fn is_pad(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let keys = format!("/sys/class/input/{name}/device/capabilities/key");
    let words = fs::read_to_string(keys).unwrap_or_default();
    let bit = u32::from(crate::pad::codes::BTN_SOUTH);
    let word = words
        .split_whitespace()
        .rev()
        .nth((bit / usize::BITS) as usize);
    let word = word.and_then(|word| usize::from_str_radix(word, 16).ok());
    word.is_some_and(|word| word >> (bit % usize::BITS) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passed_path_of_another_device_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("event7");
        fs::write(&path, b"no device").unwrap();
        let mut reader = PadReader::new(Database::default(), Rumbler::new().unwrap());
        reader.folder = folder.path().to_owned();
        reader.scan();
        let before = reader.passed.get(&path).copied();
        assert!(before.is_some());
        // A different device gets the path before the folder is scanned again.
        let new = folder.path().join("new");
        fs::write(&new, b"no device").unwrap();
        fs::rename(new, &path).unwrap();
        reader.scan();
        let after = reader.passed.get(&path).copied();
        assert!(after.is_some());
        assert_ne!(after, before);
    }
}
