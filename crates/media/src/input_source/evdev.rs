//! Registered devices: event devices (`/dev/input/event*`) and mice with three-byte packets
//! (`/dev/input/mice`), each with a number. Devices are not grabbed, so other programs also read
//! them.
//!
//! Keyboard layouts are not applied. Events that the host does not use (auto-repeat, scan codes, LEDs) are left out;
//! all other events are sent to the host unchanged.

mod sys;

use std::collections::{BTreeSet, VecDeque};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openuvr_proto::id::DeviceId;
use openuvr_proto::input::event::{Button, EV_ABS, EV_KEY, EV_REL, EV_SYN, InputEvent};
use openuvr_proto::time;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat, major};
use rustix::io::Errno;

use super::{InputSource, SourceError, SourceEvent};
use crate::input_event::{BYTES, Event, SYN_DROPPED};

/// `EV_SW`: a switch, such as the switch of a lid or a dock.
const EV_SW: u16 = 5;

/// Number of events read at once: the minimum length of the kernel's queue (`EVDEV_MIN_BUFFER_SIZE`). A mouse's queue
/// has 128 events.
const AT_ONCE: usize = 64;

/// The maximum number of listed devices: [`DeviceId`] has 8 bits.
const MOST: usize = 256;

/// Bytes of a mouse packet (PS/2, the default of the kernel's mousedev).
const PACKET: usize = 3;

/// The major number of /dev/zero, /dev/urandom and similar devices (Linux, devices.txt).
const MEMORY: u32 = 1;

/// Reads devices, which may be added at any time. Waits if there is no device.
#[derive(Debug)]
pub struct Evdev {
    devices: Vec<Device>,
    registrar: Registrar,
    ready: VecDeque<SourceEvent>,
}

/// Adds devices to an [`Evdev`] from any thread.
#[derive(Clone, Debug)]
pub struct Registrar {
    added: Arc<Mutex<Vec<Device>>>,
    waker: Arc<OwnedFd>,
}

impl Registrar {
    /// Starts reading `fd` as the device with this number, replacing an earlier device. The file description of `fd`
    /// becomes non-blocking. Event devices, and files that are not devices (pipes, sockets), must provide `struct
    /// input_event`s. Other devices must provide three-byte packets.
    ///
    /// # Errors
    /// [`SourceError`] if `fd` is not open for reading, or if it is not a source of input.
    pub fn register(&self, id: DeviceId, fd: OwnedFd) -> Result<(), SourceError> {
        let name = format!("input device {}", id.0);
        self.add(Device::new(id, name, fd)?);
        Ok(())
    }

    fn add(&self, device: Device) {
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        added.push(device);
        drop(added);
        // The only possible error is a full counter. The waker is then already raised.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }
}

impl Evdev {
    /// A source without devices.
    ///
    /// # Errors
    /// [`SourceError`] if no file descriptor is left.
    pub fn new() -> Result<Evdev, SourceError> {
        let waker = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|e| SourceError(format!("can't create an eventfd: {e}")))?;
        Ok(Evdev {
            devices: Vec::new(),
            registrar: Registrar {
                added: Arc::default(),
                waker: Arc::new(waker),
            },
            ready: VecDeque::new(),
        })
    }

    /// Opens the devices of a comma-separated list, each `PATH` or `NUMBER=PATH`; the default
    /// number is the position in the list, from 0.
    ///
    /// # Errors
    /// [`SourceError`] if a device can't be opened, if two devices have the same number, or if the list has more than 256
    /// devices.
    pub fn open(list: &str) -> Result<Evdev, SourceError> {
        let count = list.split(',').count();
        if count > MOST {
            return Err(SourceError(format!(
                "{count} input devices are listed: list at most {MOST}"
            )));
        }
        let source = Evdev::new()?;
        let mut numbers = BTreeSet::new();
        for (place, item) in (0_u8..=u8::MAX).zip(list.split(',')) {
            let numbered = item.split_once('=').and_then(|(number, path)| {
                let number = number.parse().ok()?;
                Some((number, path))
            });
            let (number, path) = numbered.unwrap_or((place, item));
            if !numbers.insert(number) {
                return Err(SourceError(format!(
                    "the input device {path:?} can't be used: an earlier device has its number {number}; write \
                     another number before it, such as {}={path}",
                    number.wrapping_add(1)
                )));
            }
            let refused = |cause| {
                SourceError(format!(
                    "the input device {path:?} can't be opened: {cause}"
                ))
            };
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(path)
                .map_err(refused)?;
            let name = format!("input device {path}");
            source
                .registrar
                .add(Device::new(DeviceId(number), name, file.into())?);
        }
        Ok(source)
    }

    /// A handle that can add devices to this source from any thread.
    #[must_use]
    pub fn registrar(&self) -> Registrar {
        self.registrar.clone()
    }

    /// Adopts added devices.
    fn adopt(&mut self) {
        let _ = rustix::io::read(&self.registrar.waker, &mut [0_u8; 8]);
        let added = self.registrar.added.lock();
        let added = std::mem::take(&mut *added.unwrap_or_else(PoisonError::into_inner));
        for device in added {
            let same = |before: &mut Device| before.id == device.id;
            for mut before in self.devices.extract_if(.., same) {
                before.release_all(&mut self.ready);
            }
            self.devices.push(device);
        }
    }

    /// Waits for input, at most until `until`, and reads it. Returns `false` if `until` had already been reached.
    fn wait(&mut self, until: Option<Instant>) -> Result<bool, SourceError> {
        self.adopt();
        if !self.ready.is_empty() {
            return Ok(true);
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let waker = PollFd::new(&self.registrar.waker, PollFlags::IN);
        let devices = self.devices.iter();
        let mut fds: Vec<_> = devices
            .map(|device| PollFd::new(&device.fd, PollFlags::IN))
            .chain([waker])
            .collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(SourceError(format!("can't wait for input: {e}"))),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready_now = ready.iter();
        let ready = &mut self.ready;
        self.devices.retain_mut(|device| {
            if ready_now.next() != Some(&true) {
                return true;
            }
            let why = match device.read(ready) {
                Ok(()) => return true,
                Err(why) => why,
            };
            tracing::warn!("the {} failed: {why}", device.name);
            device.release_all(ready);
            false
        });
        Ok(left != Some(Duration::ZERO))
    }
}

impl InputSource for Evdev {
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut in_time = true;
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            if !in_time {
                return Ok(SourceEvent::TimedOut);
            }
            in_time = self.wait(until)?;
        }
    }
}

/// The format of a device's input.
#[derive(Clone, Copy, Debug)]
enum EventFormat {
    /// `struct input_event`s, and whether their times are on the monotonic clock.
    Events { stamped: bool },
    /// Packets, and the buttons of the last packet.
    Packets { buttons: u8 },
}

#[derive(Debug)]
struct Device {
    id: DeviceId,
    name: String,
    fd: OwnedFd,
    speech: EventFormat,
    /// The start of an incomplete event.
    rest: Vec<u8>,
    /// The keys reported to the host as down.
    held: BTreeSet<u16>,
    /// Whether the kernel has dropped events, so that events up to the next report are ignored.
    missed: bool,
    /// Whether events were sent since the last report.
    open: bool,
}

impl Device {
    fn new(id: DeviceId, name: String, fd: OwnedFd) -> Result<Device, SourceError> {
        let refused = |e: Errno| SourceError(format!("the {name} can't be read: {e}"));
        let flags = fcntl_getfl(&fd).map_err(refused)?;
        if flags & OFlags::RWMODE == OFlags::WRONLY {
            return Err(refused(Errno::BADF));
        }
        fcntl_setfl(&fd, flags | OFlags::NONBLOCK).map_err(refused)?;
        let is = fstat(&fd).map_err(refused)?;
        let kind = FileType::from_raw_mode(is.st_mode);
        let no_input = |what: &str| {
            let why = "use an event device such as /dev/input/event3, or a pipe";
            Err(SourceError(format!("the {name} is {what}: {why}")))
        };
        match kind {
            FileType::Directory => return no_input("a folder"),
            FileType::RegularFile => return no_input("a file"),
            FileType::BlockDevice => return no_input("a disk"),
            // Endless data from such a device is not user input.
            FileType::CharacterDevice if major(is.st_rdev) == MEMORY => {
                return no_input("not an input device");
            }
            _ => {}
        }
        let is_device = kind == FileType::CharacterDevice;
        let speech = if sys::is_event_device(fd.as_fd()) {
            EventFormat::Events {
                stamped: sys::stamp_by_monotonic_clock(fd.as_fd()).is_ok(),
            }
        } else if is_device {
            EventFormat::Packets { buttons: 0 }
        } else {
            EventFormat::Events { stamped: false }
        };
        Ok(Device {
            id,
            name,
            fd,
            speech,
            rest: Vec::new(),
            held: BTreeSet::new(),
            missed: false,
            open: false,
        })
    }

    /// Reads the available input, at most the size of [`AT_ONCE`] events in one call.
    ///
    /// # Errors
    /// Returns the reason why the device has failed permanently.
    fn read(&mut self, ready: &mut VecDeque<SourceEvent>) -> Result<(), String> {
        let mut buffer = [0; AT_ONCE * BYTES];
        let read = match rustix::io::read(&self.fd, &mut buffer) {
            Ok(0) => return Err("end of file".to_owned()),
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(e) => return Err(e.to_string()),
        };
        self.rest.extend_from_slice(&buffer[..read]);
        let bytes = std::mem::take(&mut self.rest);
        let used = match self.speech {
            EventFormat::Events { stamped } => {
                let (events, rest) = bytes.as_chunks();
                for bytes in events {
                    let event = Event::from_bytes(bytes);
                    let at = stamped.then(|| instant(event.time));
                    self.event(&event, at, ready);
                }
                bytes.len() - rest.len()
            }
            EventFormat::Packets { mut buttons } => {
                let used = self.packets(&bytes, &mut buttons, ready);
                self.speech = EventFormat::Packets { buttons };
                used
            }
        };
        self.rest.extend_from_slice(&bytes[used..]);
        Ok(())
    }

    fn event(
        &mut self,
        event: &Event,
        at: Option<time::Instant>,
        ready: &mut VecDeque<SourceEvent>,
    ) {
        let Event {
            kind, code, value, ..
        } = *event;
        let is_report = (kind, code) == (EV_SYN, 0);
        if (kind, code) == (EV_SYN, SYN_DROPPED) {
            self.missed = true;
        } else if self.missed && is_report {
            self.missed = false;
            self.resync(at, ready);
        } else if self.missed || (is_report && !self.open) {
        } else {
            self.emit(kind, code, value, at, ready);
        }
    }

    /// Sends an event, if the host needs it.
    fn emit(
        &mut self,
        kind: u16,
        code: u16,
        value: i32,
        at: Option<time::Instant>,
        ready: &mut VecDeque<SourceEvent>,
    ) {
        let is_change = match (kind, value) {
            (EV_KEY, 0) => self.held.remove(&code),
            // The client generates its own auto-repeat.
            (EV_KEY, 2) => false,
            (EV_KEY, _) => self.held.insert(code),
            (EV_SYN | EV_REL | EV_ABS | EV_SW, _) => true,
            _ => false,
        };
        if !is_change {
            return;
        }
        self.open = (kind, code) != (EV_SYN, 0);
        let event = InputEvent::Device {
            device: self.id,
            kind,
            code,
            value,
        };
        ready.push_back(match at {
            Some(at) => SourceEvent::Sampled(event, at),
            None => SourceEvent::Input(event),
        });
    }

    /// Sends changes of keys, axes and switches that were lost with dropped events.
    fn resync(&mut self, at: Option<time::Instant>, ready: &mut VecDeque<SourceEvent>) {
        let down = sys::pressed(self.fd.as_fd()).unwrap_or_default();
        let released: Vec<u16> = self.held.iter().copied().collect();
        for code in released.into_iter().filter(|code| !down.contains(code)) {
            self.emit(EV_KEY, code, 0, at, ready);
        }
        for code in down {
            self.emit(EV_KEY, code, 1, at, ready);
        }
        for (kind, code, value) in sys::values(self.fd.as_fd()) {
            self.emit(kind, code, value, at, ready);
        }
        if self.open {
            self.emit(EV_SYN, 0, 0, at, ready);
        }
    }

    fn release_all(&mut self, ready: &mut VecDeque<SourceEvent>) {
        for code in std::mem::take(&mut self.held) {
            self.held.insert(code);
            self.emit(EV_KEY, code, 0, None, ready);
        }
        if self.open {
            self.emit(EV_SYN, 0, 0, None, ready);
        }
    }

    /// Processes packets, and returns the number of bytes used. A byte that can't start a packet is skipped.
    fn packets(
        &mut self,
        bytes: &[u8],
        buttons: &mut u8,
        ready: &mut VecDeque<SourceEvent>,
    ) -> usize {
        let mut at = 0;
        while let Some(&[first, x, y]) = bytes[at..].first_chunk::<PACKET>() {
            if first & 8 == 0 {
                at += 1;
                continue;
            }
            at += PACKET;
            let pressed = first & 7;
            for (bit, button) in [Button::LEFT, Button::RIGHT, Button::MIDDLE]
                .into_iter()
                .enumerate()
            {
                if (pressed ^ *buttons) >> bit & 1 == 1 {
                    let value = i32::from(pressed >> bit & 1);
                    self.emit(EV_KEY, button.0, value, None, ready);
                }
            }
            *buttons = pressed;
            // The ninth bit of each motion, its sign, is in the first byte. y points up.
            let dx = i32::from(x) - (i32::from(first) << 4 & 0x100);
            let dy = i32::from(y) - (i32::from(first) << 3 & 0x100);
            for (axis, moved) in [(0, dx), (1, -dy)] {
                if moved != 0 {
                    self.emit(EV_REL, axis, moved, None, ready);
                }
            }
            if self.open {
                self.emit(EV_SYN, 0, 0, None, ready);
            }
        }
        at
    }
}

fn instant(since_origin: Duration) -> time::Instant {
    time::Instant(i64::try_from(since_origin.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Write as _};

    use super::*;

    fn event(device: u8, kind: u16, code: u16, value: i32) -> InputEvent {
        InputEvent::Device {
            device: DeviceId(device),
            kind,
            code,
            value,
        }
    }

    fn bytes(kind: u16, code: u16, value: i32) -> [u8; BYTES] {
        let time = Duration::from_secs(1);
        Event {
            time,
            kind,
            code,
            value,
        }
        .to_bytes()
    }

    fn piped(source: &Evdev, id: u8) -> PipeWriter {
        let (read, write) = std::io::pipe().unwrap();
        source
            .registrar()
            .register(DeviceId(id), read.into())
            .unwrap();
        write
    }

    /// All events until none is left.
    fn all(source: &mut Evdev) -> Vec<InputEvent> {
        let mut events = Vec::new();
        loop {
            match source.next(Some(Duration::ZERO)).unwrap() {
                SourceEvent::Input(event) => events.push(event),
                SourceEvent::TimedOut => return events,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn events_of_several_devices_also_in_pieces() {
        let mut source = Evdev::new().unwrap();
        let (mut keys, mut pad) = (piped(&source, 0), piped(&source, 200));
        let said = [
            bytes(4, 4, 458_756),
            bytes(EV_KEY, 30, 1),
            bytes(EV_SYN, 0, 0),
            bytes(EV_KEY, 30, 2),
            bytes(EV_SYN, 0, 1),
        ]
        .concat();
        keys.write_all(&said[..BYTES + 5]).unwrap();
        assert_eq!(all(&mut source), []);
        keys.write_all(&said[BYTES + 5..]).unwrap();
        let report = |device| event(device, EV_SYN, 0, 0);
        // Scan codes, repeats, and reports that contain only these are not sent.
        assert_eq!(all(&mut source), [event(0, EV_KEY, 30, 1), report(0)]);
        pad.write_all(&[bytes(EV_ABS, 1, -5), bytes(EV_SYN, 0, 0)].concat())
            .unwrap();
        assert_eq!(all(&mut source), [event(200, EV_ABS, 1, -5), report(200)]);
        drop(keys);
        // The device was closed with a key down; the other device continues.
        assert_eq!(all(&mut source), [event(0, EV_KEY, 30, 0), report(0)]);
        pad.write_all(&[bytes(EV_SW, 0, 1), bytes(EV_SYN, 0, 0)].concat())
            .unwrap();
        assert_eq!(all(&mut source), [event(200, EV_SW, 0, 1), report(200)]);
    }

    #[test]
    fn dropped_events_leave_no_key_down() {
        let mut source = Evdev::new().unwrap();
        let mut keys = piped(&source, 1);
        let said = [
            bytes(EV_KEY, 30, 1),
            bytes(EV_SYN, 0, 0),
            bytes(EV_SYN, SYN_DROPPED, 0),
            bytes(EV_KEY, 31, 1),
            bytes(EV_SYN, 0, 0),
            bytes(EV_KEY, 32, 1),
            bytes(EV_SYN, 0, 0),
        ];
        keys.write_all(&said.concat()).unwrap();
        let report = event(1, EV_SYN, 0, 0);
        // The key state of a pipe can't be read, so all keys count as released.
        let expected = [
            event(1, EV_KEY, 30, 1),
            report,
            event(1, EV_KEY, 30, 0),
            report,
            event(1, EV_KEY, 32, 1),
            report,
        ];
        assert_eq!(all(&mut source), expected);
        // A different device with the same number.
        let _other = piped(&source, 1);
        assert_eq!(all(&mut source), [event(1, EV_KEY, 32, 0), report]);
    }

    #[test]
    fn a_mouse_of_three_bytes() {
        let mut source = Evdev::new().unwrap();
        let mut mouse = pty(&source);
        mouse.write_all(&[0x08, 5, 3, 0x29, 0, 0xff, 0x18]).unwrap();
        let report = event(9, EV_SYN, 0, 0);
        let rel = |axis, by| event(9, EV_REL, axis, by);
        let left = |down| event(9, EV_KEY, Button::LEFT.0, down);
        let moved = [rel(0, 5), rel(1, -3), report, left(1), rel(1, 1), report];
        assert_eq!(all(&mut source), moved);
        // The rest of a packet, followed by an additional byte before the next packet.
        mouse.write_all(&[0xfe, 0, 0x07, 0x08, 1, 0]).unwrap();
        let rest = [left(0), rel(0, -2), report, rel(0, 1), report];
        assert_eq!(all(&mut source), rest);
    }

    /// A character device that is not an event device: the slave of a raw terminal.
    fn pty(source: &Evdev) -> std::fs::File {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(name.to_str().unwrap())
            .unwrap();
        let mut raw = tcgetattr(&slave).unwrap();
        raw.make_raw();
        tcsetattr(&slave, OptionalActions::Now, &raw).unwrap();
        source
            .registrar()
            .register(DeviceId(9), slave.into())
            .unwrap();
        master.into()
    }

    #[test]
    fn two_devices_with_one_number_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let path = pipe.display();
        // In the first list, the second device gets its position in the list as its number, 1.
        for list in [format!("1={path},{path}"), format!("7={path},7={path}")] {
            let words = Evdev::open(&list).unwrap_err().to_string();
            assert!(words.contains("an earlier device"), "{words}");
        }
        assert!(Evdev::open(&format!("{path},7={path}")).is_ok());
    }

    #[test]
    fn more_devices_than_numbers_are_refused() {
        let words = Evdev::open(&["/dev/null"; 257].join(",")).unwrap_err();
        assert!(words.0.contains("257 input devices"), "{words}");
    }

    #[test]
    fn an_unreadable_device_is_named() {
        let source = Evdev::new().unwrap();
        let (_read, write) = std::io::pipe().unwrap();
        let refused = source.registrar().register(DeviceId(4), write.into());
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("input device 4"), "{words}");
        for (device, wrong) in [
            ("7=/nonexistent/event3", "/nonexistent/event3"),
            ("/dev/null,7=/nonexistent/event3", "/dev/null"),
        ] {
            let words = Evdev::open(device).unwrap_err().to_string();
            assert!(words.contains(wrong), "{words}");
        }
    }
}
