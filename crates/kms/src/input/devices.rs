//! Event devices in `/dev/input` that this user may read, with hot plug: keyboards and pointing devices.
//!
//! Game pads have their own reader. Devices are not grabbed, because the kernel sends their keys to no terminal while
//! the console is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use openuvr_media::input_event::{BYTES, Event};
use openuvr_proto::input::event::{EV_ABS, EV_KEY, EV_REL, EV_SYN};
use rustix::fs::inotify;

use super::pointer::{Axes, Kind, Pointer};
use super::sys;

/// The kernel's folder of event devices.
pub(super) const FOLDER: &str = "/dev/input";

/// Number of events read at once. The kernel queues 64 for a mouse.
const AT_ONCE: usize = 64;

const EV_LED: u16 = 0x11;
const LED_NUM_LOCK: u16 = 0;
const LED_CAPS_LOCK: u16 = 1;
const ABS_MT_POSITION_X: u16 = 0x35;
const INPUT_PROP_DIRECT: u16 = 1;
const BTN_LEFT: u16 = 0x110;
const BTN_JOYSTICK: u16 = 0x120;
const BTN_TOUCH: u16 = 0x14a;
const BTN_TOOL_FINGER: u16 = 0x145;
const REL_WHEEL_HI_RES: u16 = 11;

/// A device that is read.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) file: File,
    pub(super) is_keyboard: bool,
    pub(super) pointer: Option<Pointer>,
    /// Whether event times are on the monotonic clock.
    pub(super) stamped: bool,
    /// Whether the kernel has dropped events, so that events up to the next report are ignored.
    pub(super) missed: bool,
    /// The keys that are down on a keyboard.
    down: BTreeSet<u16>,
    leds: bool,
}

/// All devices of the folder.
#[derive(Debug)]
pub(super) struct Devices {
    folder: PathBuf,
    /// Reports changes of the folder.
    pub(super) watch: Option<OwnedFd>,
    pub(super) open: BTreeMap<PathBuf, Device>,
    /// Devices that are neither keyboards nor pointing devices, with their inodes. A different device may later have the
    /// same path.
    passed: BTreeMap<PathBuf, u64>,
}

impl Devices {
    /// Opens the devices of a folder. The second value is the error of the first device that can't be read; `None` if
    /// all can be read.
    pub(super) fn open(folder: &Path) -> (Devices, Option<io::Error>) {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK);
        let watch = watch.ok().filter(|watch| {
            // A device exists before its permissions are set, so changes of permissions are also watched.
            let changes = inotify::WatchFlags::CREATE
                | inotify::WatchFlags::ATTRIB
                | inotify::WatchFlags::DELETE;
            inotify::add_watch(watch, folder, changes).is_ok()
        });
        let mut devices = Devices {
            folder: folder.to_owned(),
            watch,
            open: BTreeMap::new(),
            passed: BTreeMap::new(),
        };
        let refused = devices.scan();
        (devices, refused)
    }

    /// Handles changes of the folder.
    pub(super) fn changed(&mut self) {
        let mut messages = [0; 4096];
        if let Some(watch) = &self.watch {
            while rustix::io::read(watch, &mut messages).is_ok() {}
        }
        self.scan();
    }

    fn scan(&mut self) -> Option<io::Error> {
        let mut refused = None;
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return None;
        };
        let names = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let is_event = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("event"))
        };
        let inode = |path: PathBuf| {
            let inode = std::fs::metadata(&path).ok()?.ino();
            Some((path, inode))
        };
        let present: BTreeMap<PathBuf, u64> = names.filter(is_event).filter_map(inode).collect();
        self.passed
            .retain(|path, inode| present.get(path) == Some(&*inode));
        for (path, inode) in present {
            if self.open.contains_key(&path) || self.passed.contains_key(&path) {
                continue;
            }
            match Device::open(&path) {
                Ok(Some(device)) => _ = self.open.insert(path, device),
                Ok(None) => _ = self.passed.insert(path, inode),
                // This device is tried again when its permissions change.
                Err(cause) => refused = refused.or(Some(cause)),
            }
        }
        refused
    }

    /// Reads from the kernel which keys are down on all keyboards.
    pub(super) fn keys_down(&mut self) -> Vec<u16> {
        let mut all = Vec::new();
        for device in self.open.values_mut().filter(|device| device.is_keyboard) {
            let down = sys::keys_down(&device.file);
            device.down = down.iter().copied().collect();
            all.extend(down);
        }
        all
    }

    /// Sets the lights of Caps Lock and Num Lock.
    pub(super) fn set_locks(&self, (caps, num): (bool, bool)) {
        for device in self.open.values().filter(|device| device.leds) {
            for (code, on) in [(LED_CAPS_LOCK, caps), (LED_NUM_LOCK, num)] {
                let event = |kind, code, value| Event {
                    time: std::time::Duration::ZERO,
                    kind,
                    code,
                    value,
                };
                let events = [event(EV_LED, code, i32::from(on)), event(EV_SYN, 0, 0)];
                // An unplugged keyboard is removed when it is read.
                let _ = (&device.file).write_all(events.map(Event::to_bytes).as_flattened());
            }
        }
    }
}

impl Device {
    /// Opens a device; `None` if it is neither a keyboard nor a pointing device.
    fn open(path: &Path) -> io::Result<Option<Device>> {
        let open = |write| {
            OpenOptions::new()
                .read(true)
                .write(write)
                .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
                .open(path)
        };
        // Writing is needed only for the lights.
        let (file, writable) = match open(true) {
            Ok(file) => (file, true),
            Err(_) => (open(false)?, false),
        };
        if !sys::is_event_device(&file) {
            return Ok(None);
        }
        let keys = sys::codes::<96>(&file, EV_KEY);
        let steps = sys::codes::<2>(&file, EV_REL);
        let axes = sys::codes::<8>(&file, EV_ABS);
        let direct = sys::properties(&file).contains(&INPUT_PROP_DIRECT);
        let (is_keyboard, kind) =
            classify(&keys, &steps, &axes, direct, |axis| sys::range(&file, axis));
        if !is_keyboard && kind.is_none() {
            return Ok(None);
        }
        let stamped = sys::stamp_by_monotonic_clock(&file);
        let leds = writable && is_keyboard && !sys::codes::<2>(&file, EV_LED).is_empty();
        Ok(Some(Device {
            file,
            is_keyboard,
            pointer: kind.map(Pointer::new),
            stamped,
            missed: false,
            down: BTreeSet::new(),
            leds,
        }))
    }

    /// Records a key event.
    pub(super) fn record(&mut self, event: &Event) {
        match (event.kind, event.value) {
            (EV_KEY, 0) => _ = self.down.remove(&event.code),
            (EV_KEY, 1) => _ = self.down.insert(event.code),
            _ => {}
        }
    }

    /// Returns the releases of the keys that are down.
    pub(super) fn release(&mut self) -> Vec<Event> {
        let down = std::mem::take(&mut self.down).into_iter();
        let released = down.map(|code| Event {
            time: std::time::Duration::ZERO,
            kind: EV_KEY,
            code,
            value: 0,
        });
        released.collect()
    }

    /// Reads the available events.
    ///
    /// # Errors
    /// Returns an error if the device is gone.
    pub(super) fn read(&mut self) -> io::Result<Vec<Event>> {
        let mut bytes = [0; AT_ONCE * BYTES];
        match (&self.file).read(&mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            // The kernel writes only complete events.
            Ok(read) => Ok(bytes[..read]
                .as_chunks()
                .0
                .iter()
                .map(Event::from_bytes)
                .collect()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }
}

/// Whether a device with these codes is a keyboard, and how it points if it is a pointing device.
fn classify(
    keys: &[u16],
    steps: &[u16],
    axes: &[u16],
    direct: bool,
    range: impl Fn(u16) -> Option<(i32, i32)>,
) -> (bool, Option<Kind>) {
    let has = |code: u16| keys.contains(&code);
    // A pad of buttons and sticks, without a pen's or finger's buttons, is not a pointing device.
    if keys.iter().any(|code| (BTN_JOYSTICK..0x140).contains(code)) && !has(BTN_TOUCH) {
        return (keys.iter().any(|code| (16..26).contains(code)), None);
    }
    // Keys have codes below and above the codes of buttons. A remote control has keys above them, so it counts as a
    // keyboard.
    let is_keyboard = keys
        .iter()
        .any(|code| matches!(code, 1..0x100 | 0x160..0x2c0));
    let both = || {
        Some(Axes {
            x: range(0)?,
            y: range(1)?,
        })
    };
    let points = axes.contains(&0) && axes.contains(&1);
    let kind = match () {
        () if steps.contains(&0) && steps.contains(&1) && has(BTN_LEFT) => Some(Kind::Mouse {
            fine_wheel: steps.contains(&REL_WHEEL_HI_RES),
        }),
        () if points && has(BTN_TOUCH) && direct => both().map(Kind::TouchScreen),
        () if points && has(BTN_TOOL_FINGER) => both().map(Kind::TouchPad),
        () if points && has(BTN_TOUCH) && axes.contains(&ABS_MT_POSITION_X) => {
            both().map(Kind::TouchScreen)
        }
        () if points && has(BTN_LEFT) => both().map(Kind::Tablet),
        () => None,
    };
    (is_keyboard, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_apart_by_their_codes() {
        let range = |_| Some((0, 100));
        let axes = Axes {
            x: (0, 100),
            y: (0, 100),
        };
        let of = |keys: &[u16], steps: &[u16], axes: &[u16], direct| {
            classify(keys, steps, axes, direct, range)
        };
        let letters: Vec<u16> = (1..84).collect();
        assert_eq!(of(&letters, &[], &[], false), (true, None));
        let mouse = Kind::Mouse { fine_wheel: true };
        assert_eq!(
            of(&[BTN_LEFT], &[0, 1, 8, 11], &[], false),
            (false, Some(mouse))
        );
        assert_eq!(
            of(&[BTN_LEFT], &[8], &[0, 1], false),
            (false, Some(Kind::Tablet(axes)))
        );
        let touch = [BTN_TOUCH];
        let screen = Some(Kind::TouchScreen(axes));
        assert_eq!(of(&touch, &[], &[0, 1, 0x35], true), (false, screen));
        let pad = [BTN_LEFT, BTN_TOOL_FINGER, BTN_TOUCH];
        assert_eq!(
            of(&pad, &[], &[0, 1, 0x35], false),
            (false, Some(Kind::TouchPad(axes)))
        );
        assert_eq!(
            of(&[0x130, 0x131], &[], &[0, 1], false),
            (false, None),
            "a game pad"
        );
        assert_eq!(
            of(&[], &[], &[0, 1], false),
            (false, None),
            "an accelerometer"
        );
    }

    #[test]
    fn a_lost_keyboard_releases_only_its_own_keys() {
        let keyboard = || Device {
            file: tempfile::tempfile().unwrap(),
            is_keyboard: true,
            pointer: None,
            stamped: false,
            missed: false,
            down: BTreeSet::new(),
            leds: false,
        };
        let (mut lost, mut other) = (keyboard(), keyboard());
        let event = |code, value| Event {
            time: std::time::Duration::ZERO,
            kind: EV_KEY,
            code,
            value,
        };
        for (code, value) in [(30, 1), (31, 1), (31, 2), (30, 0)] {
            lost.record(&event(code, value));
        }
        other.record(&event(42, 1));
        let codes = |device: &mut Device| -> Vec<u16> {
            let released = device.release().into_iter();
            released.map(|event| event.code).collect()
        };
        assert_eq!(codes(&mut lost), [31]);
        assert!(codes(&mut lost).is_empty());
        assert_eq!(codes(&mut other), [42]);
    }

    #[test]
    fn files_that_are_no_devices_are_passed_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("event0");
        std::fs::write(&path, b"no device").unwrap();
        std::fs::write(folder.path().join("mice"), b"").unwrap();
        let (mut devices, refused) = Devices::open(folder.path());
        assert!(refused.is_none() && devices.open.is_empty());
        let inode = |devices: &Devices| devices.passed.get(&path).copied();
        let before = inode(&devices);
        assert!(before.is_some());
        // A different device gets the path before the folder is read again.
        let new = folder.path().join("new");
        std::fs::write(&new, b"no device").unwrap();
        std::fs::rename(new, &path).unwrap();
        devices.changed();
        assert!(inode(&devices).is_some());
        assert_ne!(inode(&devices), before);
        std::fs::remove_file(&path).unwrap();
        devices.changed();
        assert!(devices.passed.is_empty());
    }
}
