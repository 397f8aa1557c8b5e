//! Registered devices at the host. If a device is mapped to a descriptor, its events are written to the descriptor as
//! the kernel would write them. The other devices act as keyboard and mouse.
//!
//! This is not a sink: events not consumed here go to the host's sink.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::id::DeviceId;
use openuvr_proto::input::event::{EV_ABS, EV_KEY, EV_SYN, InputEvent};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::InputError;
use super::translate::{Translated, Translator};
use crate::input_event::Event;

/// Maximum number of events in a report: enough for a touch screen's report of ten fingers. A longer report is written
/// in parts, to limit the memory. A report of this size is smaller than `PIPE_BUF`, so its write to a pipe is atomic.
const MAX_REPORT: usize = 128;

// From `linux/input-event-codes.h`. `ABS_MT_SLOT` selects the slot of the following touch events. `ABS_MT_TRACKING_ID`
// is the number of the finger in this slot, or −1 if there is none.
const ABS_MT_SLOT: u16 = 0x2f;
const ABS_MT_TRACKING_ID: u16 = 0x39;

/// A descriptor that accepts `struct input_event`s.
#[derive(Debug)]
pub struct Descriptor {
    fd: OwnedFd,
    is_socket: bool,
}

impl Descriptor {
    /// Makes the file description of `fd` non-blocking.
    ///
    /// # Errors
    /// [`InputError`] if the descriptor is not open for writing.
    pub fn new(fd: OwnedFd) -> Result<Descriptor, InputError> {
        let refused = |e: Errno| InputError(format!("the descriptor can't accept events: {e}"));
        let flags = fcntl_getfl(&fd).map_err(refused)?;
        if flags & OFlags::RWMODE == OFlags::RDONLY {
            return Err(InputError(
                "the descriptor can't accept events: it is open for reading only".to_owned(),
            ));
        }
        fcntl_setfl(&fd, flags | OFlags::NONBLOCK).map_err(refused)?;
        let mode = fstat(&fd).map_err(refused)?.st_mode;
        let is_socket = FileType::from_raw_mode(mode) == FileType::Socket;
        Ok(Descriptor { fd, is_socket })
    }

    /// Writes `bytes` with one system call. Returns `false` if the descriptor can't take them now. A partial write is
    /// an error.
    fn write(&self, bytes: &[u8]) -> Result<bool, Errno> {
        loop {
            let wrote = if self.is_socket {
                // NOSIGNAL prevents SIGPIPE if the reader is gone.
                rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL)
            } else {
                rustix::io::write(&self.fd, bytes)
            };
            match wrote {
                Ok(n) if n == bytes.len() => return Ok(true),
                // After a partial write, later events would be misaligned.
                Ok(_) => return Err(Errno::MSGSIZE),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// The fingers on a touch screen (`Documentation/input/multi-touch-protocol.rst` of Linux, protocol B).
#[derive(Clone, Debug, Default)]
struct Touches {
    /// The slot to which the next touch events belong.
    slot: i32,
    /// The number of each finger by its slot.
    fingers: BTreeMap<i32, i32>,
}

impl Touches {
    fn take(&mut self, code: u16, value: i32) {
        match (code, value) {
            (ABS_MT_SLOT, slot) => self.slot = slot,
            (ABS_MT_TRACKING_ID, i32::MIN..0) => _ = self.fingers.remove(&self.slot),
            // The peer controls the size of this map, so the size is limited.
            (ABS_MT_TRACKING_ID, finger) if self.fingers.len() < MAX_REPORT => {
                self.fingers.insert(self.slot, finger);
            }
            _ => {}
        }
    }

    /// The events that bring a reader from the state `known` to this state.
    fn since(&self, known: &Touches) -> Vec<(u16, u16, i32)> {
        let mut events = Vec::new();
        let mut slot = known.slot;
        let mut select = |events: &mut Vec<_>, wanted| {
            if std::mem::replace(&mut slot, wanted) != wanted {
                events.push((EV_ABS, ABS_MT_SLOT, wanted));
            }
        };
        let slots: BTreeSet<&i32> = known.fingers.keys().chain(self.fingers.keys()).collect();
        for at in slots {
            let finger = self.fingers.get(at);
            if finger != known.fingers.get(at) {
                select(&mut events, *at);
                let finger = finger.copied().unwrap_or(-1);
                events.push((EV_ABS, ABS_MT_TRACKING_ID, finger));
            }
        }
        select(&mut events, self.slot);
        events
    }
}

/// A device mapped to a descriptor.
#[derive(Debug)]
struct Mapped {
    /// `None` after a failure; the device's events are then dropped.
    descriptor: Option<Descriptor>,
    /// Events of the unfinished report.
    report: Vec<(u16, u16, i32)>,
    /// `down`: the pressed keys. `known`: the keys that are pressed according to the events that the descriptor's
    /// reader has received.
    down: BTreeSet<u16>,
    known: BTreeSet<u16>,
    /// The touches: now, before the unfinished report, and according to the events that the descriptor's reader has
    /// received.
    touches: Touches,
    touches_before: Touches,
    known_touches: Touches,
    /// Whether the reader has missed events.
    behind: bool,
    lost: u64,
}

impl Mapped {
    fn new(descriptor: Descriptor) -> Mapped {
        Mapped {
            descriptor: Some(descriptor),
            report: Vec::new(),
            down: BTreeSet::new(),
            known: BTreeSet::new(),
            touches: Touches::default(),
            touches_before: Touches::default(),
            known_touches: Touches::default(),
            behind: false,
            lost: 0,
        }
    }

    fn take(&mut self, kind: u16, code: u16, value: i32) -> Result<(), Errno> {
        match (kind, code) {
            (EV_SYN, 0) => return self.write(),
            (EV_KEY, code) if value == 0 => _ = self.down.remove(&code),
            // The peer controls the size of this set, so the size is limited. No keyboard has this many keys.
            (EV_KEY, code) if self.down.len() < MAX_REPORT => _ = self.down.insert(code),
            (EV_ABS, code) => self.touches.take(code, value),
            _ => {}
        }
        self.report.push((kind, code, value));
        if self.report.len() == MAX_REPORT {
            return self.write();
        }
        Ok(())
    }

    /// Releases the keys and touches that are held according to the reader's events.
    fn release_all(&mut self) -> Result<(), Errno> {
        self.report.clear();
        self.down.clear();
        self.touches.fingers.clear();
        self.touches_before.clone_from(&self.touches);
        self.behind = true;
        self.write()
    }

    /// Writes the report. If the reader has missed events, first writes the missed changes of keys and touches.
    fn write(&mut self) -> Result<(), Errno> {
        let report = std::mem::take(&mut self.report);
        let touches_before = std::mem::replace(&mut self.touches_before, self.touches.clone());
        let Some(descriptor) = self.descriptor.as_ref() else {
            return Ok(());
        };
        let key = |value| move |code: &u16| (EV_KEY, *code, value);
        let mut events = Vec::new();
        if self.behind {
            events.extend(self.known.difference(&self.down).map(key(0)));
            events.extend(self.down.difference(&self.known).map(key(1)));
            events.extend(touches_before.since(&self.known_touches));
            events.extend(report.iter().filter(|(kind, ..)| *kind != EV_KEY));
        } else {
            events.extend(&report);
        }
        if events.is_empty() {
            self.behind = false;
            return Ok(());
        }
        events.push((EV_SYN, 0, 0));
        let time = Duration::from_nanos(u64::try_from(clock::now().0).unwrap_or(0));
        let bytes = events.iter().flat_map(|&(kind, code, value)| {
            let event = Event {
                time,
                kind,
                code,
                value,
            };
            event.to_bytes()
        });
        let bytes: Vec<u8> = bytes.collect();
        match descriptor.write(&bytes) {
            Ok(true) => {
                self.known.clone_from(&self.down);
                self.known_touches.clone_from(&self.touches);
                self.behind = false;
                Ok(())
            }
            Ok(false) => {
                self.behind = true;
                self.lost += report.len() as u64;
                Ok(())
            }
            Err(e) => {
                self.descriptor = None;
                Err(e)
            }
        }
    }
}

/// All devices of the player. The host's control thread owns them.
#[derive(Debug, Default)]
pub struct Devices {
    mapped: BTreeMap<DeviceId, Mapped>,
    unmapped: Translator,
    /// Events lost on devices that are no longer mapped.
    lost: u64,
    /// A descriptor's failure that [`Devices::take`] has not returned.
    failed: Option<InputError>,
}

impl Devices {
    /// Maps the device to a descriptor. With `None`, the device acts as keyboard and mouse. If the device was mapped
    /// before, releases of its held keys and touches are written to the previous descriptor.
    ///
    /// # Errors
    /// [`InputError`] if the previous descriptor failed; the new one is installed nevertheless.
    pub fn map(
        &mut self,
        device: DeviceId,
        descriptor: Option<Descriptor>,
    ) -> Result<(), InputError> {
        let before = self.mapped.remove(&device);
        if let Some(descriptor) = descriptor {
            self.mapped.insert(device, Mapped::new(descriptor));
        }
        let Some(mut before) = before else {
            return Ok(());
        };
        self.lost += before.lost;
        before.release_all().map_err(|e| gone(device, e))
    }

    /// Consumes an event of a mapped device and returns `None`. Otherwise, returns the event as
    /// translated for a sink or an application.
    ///
    /// # Errors
    /// [`InputError`] if the device's descriptor failed. The failure is reported once; later events of the device are
    /// dropped. A failure during [`InputEvent::ReleaseAll`] is returned by the next [`Devices::catch_up`], because the
    /// sink must also get this event.
    pub fn take(&mut self, event: &InputEvent) -> Result<Option<Translated>, InputError> {
        let InputEvent::Device {
            device,
            kind,
            code,
            value,
        } = *event
        else {
            if *event == InputEvent::ReleaseAll {
                self.failed = self.release_all().err().or(self.failed.take());
            }
            return Ok(Some(Translated::from(*event)));
        };
        let Some(mapped) = self.mapped.get_mut(&device) else {
            return Ok(Some(self.unmapped.take(device, kind, code, value)));
        };
        let taken = mapped.take(kind, code, value);
        taken.map(|()| None).map_err(|e| gone(device, e))
    }

    /// Releases the held keys and touches of mapped devices, and forgets the unfinished reports of the other devices.
    ///
    /// # Errors
    /// [`InputError`] with the first descriptor that failed. The other devices are handled nevertheless.
    pub fn release_all(&mut self) -> Result<(), InputError> {
        self.unmapped = Translator::default();
        self.each(Mapped::release_all)
    }

    /// Writes missed changes of keys and touches to readers if there is room now. Must be called periodically.
    ///
    /// # Errors
    /// [`InputError`] with the first descriptor that failed. The other devices are handled nevertheless.
    pub fn catch_up(&mut self) -> Result<(), InputError> {
        let failed = self.failed.take().map_or(Ok(()), Err);
        let written = self.each(|mapped| match mapped.behind && mapped.report.is_empty() {
            true => mapped.write(),
            false => Ok(()),
        });
        failed.and(written)
    }

    fn each(&mut self, act: impl Fn(&mut Mapped) -> Result<(), Errno>) -> Result<(), InputError> {
        let mut all = Ok(());
        for (device, mapped) in &mut self.mapped {
            let done = act(mapped).map_err(|e| gone(*device, e));
            all = all.and(done);
        }
        all
    }

    /// Number of events lost because a descriptor was full. Lost changes of keys and touches are sent to the reader
    /// later.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost + self.mapped.values().map(|mapped| mapped.lost).sum::<u64>()
    }
}

fn gone(device: DeviceId, cause: Errno) -> InputError {
    InputError(format!(
        "the descriptor of input device {} no longer accepts events: {cause}",
        device.0
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::input_event::BYTES;

    const PAD: DeviceId = DeviceId(3);
    const EV_REL: u16 = 2;

    fn event(kind: u16, code: u16, value: i32) -> InputEvent {
        InputEvent::Device {
            device: PAD,
            kind,
            code,
            value,
        }
    }

    fn mapped() -> (Devices, std::fs::File) {
        let (read, write) = std::io::pipe().unwrap();
        fcntl_setfl(&read, OFlags::NONBLOCK).unwrap();
        let mut devices = Devices::default();
        let descriptor = Descriptor::new(write.into()).unwrap();
        devices.map(PAD, Some(descriptor)).unwrap();
        (devices, OwnedFd::from(read).into())
    }

    fn take(devices: &mut Devices, events: &[(u16, u16, i32)]) {
        for (kind, code, value) in events {
            let left = devices.take(&event(*kind, *code, *value)).unwrap();
            assert!(left.is_none(), "it was written to the descriptor");
        }
    }

    fn read(pipe: &mut std::fs::File) -> Vec<(u16, u16, i32)> {
        let mut bytes = vec![0; 1 << 16];
        let n = pipe.read(&mut bytes).unwrap_or(0);
        assert_eq!(n % BYTES, 0);
        bytes[..n]
            .as_chunks::<BYTES>()
            .0
            .iter()
            .map(Event::from_bytes)
            .map(|e| (e.kind, e.code, e.value))
            .collect()
    }

    const REPORT: (u16, u16, i32) = (EV_SYN, 0, 0);

    #[test]
    fn a_failed_device_does_not_keep_the_release_from_the_sink() {
        let (mut devices, pipe) = mapped();
        take(&mut devices, &[(EV_KEY, 30, 1), REPORT]);
        drop(pipe);
        let left = devices.take(&InputEvent::ReleaseAll).unwrap();
        assert!(left.is_some(), "keys of other devices may be down");
        assert!(devices.catch_up().is_err());
        assert!(devices.catch_up().is_ok(), "the failure is reported once");
    }

    #[test]
    fn events_pass_unchanged_and_held_keys_are_released() {
        let (mut devices, mut pipe) = mapped();
        let all = [(EV_KEY, 30, 1), (EV_REL, 0, -3), (3, 1, 70_000), REPORT];
        take(&mut devices, &all[..3]);
        assert_eq!(read(&mut pipe), [], "a report is written at once");
        take(&mut devices, &all[3..]);
        assert_eq!(read(&mut pipe), all);
        let left = devices.take(&InputEvent::ReleaseAll).unwrap();
        assert_eq!(left.unwrap().collect::<Vec<_>>(), [InputEvent::ReleaseAll]);
        assert_eq!(read(&mut pipe), [(EV_KEY, 30, 0), REPORT]);
        devices.release_all().unwrap();
        assert_eq!(read(&mut pipe), []);
        take(&mut devices, &[(EV_KEY, 31, 1), REPORT]);
        devices.map(PAD, None).unwrap();
        assert_eq!(
            read(&mut pipe),
            [(EV_KEY, 31, 1), REPORT, (EV_KEY, 31, 0), REPORT]
        );
    }

    #[test]
    fn a_full_pipe_loses_motion_but_no_key_stays_down() {
        let (mut devices, mut pipe) = mapped();
        take(&mut devices, &[(EV_KEY, 30, 1), (EV_KEY, 31, 1), REPORT]);
        for _ in 0..5000 {
            take(&mut devices, &[(EV_REL, 0, 1), REPORT]);
        }
        take(&mut devices, &[(EV_KEY, 30, 0), (EV_KEY, 32, 1), REPORT]);
        take(&mut devices, &[(EV_KEY, 33, 1), REPORT]);
        take(&mut devices, &[(EV_KEY, 33, 0), REPORT]);
        devices.catch_up().unwrap();
        let moved = |events: &[(u16, u16, i32)]| {
            let moves = events.iter().filter(|e| e.0 == EV_REL);
            moves.count() as u64
        };
        let first = read(&mut pipe);
        assert!((100..5000).contains(&moved(&first)));
        assert_eq!(devices.lost(), 5000 - moved(&first) + 4);
        devices.catch_up().unwrap();
        let caught_up = [(EV_KEY, 30, 0), (EV_KEY, 32, 1), REPORT];
        assert_eq!(read(&mut pipe), caught_up);
        devices.catch_up().unwrap();
        take(&mut devices, &[(EV_KEY, 31, 0), REPORT]);
        assert_eq!(read(&mut pipe), [(EV_KEY, 31, 0), REPORT]);
    }

    #[test]
    fn touches_end_with_a_release() {
        let (mut devices, mut pipe) = mapped();
        let [slot, finger] =
            [ABS_MT_SLOT, ABS_MT_TRACKING_ID].map(|code| move |value: i32| (EV_ABS, code, value));
        let touch = [finger(7), slot(2), finger(8), (EV_KEY, 330, 1), REPORT];
        take(&mut devices, &touch);
        assert_eq!(read(&mut pipe), touch);
        take(
            &mut devices,
            &[slot(0), finger(-1), slot(1), finger(9), REPORT],
        );
        read(&mut pipe);
        devices.release_all().unwrap();
        let released = [(EV_KEY, 330, 0), finger(-1), slot(2), finger(-1), slot(1)];
        assert_eq!(read(&mut pipe), [&released[..], &[REPORT]].concat());
        devices.release_all().unwrap();
        assert_eq!(read(&mut pipe), []);
        // The reader's slot is again the device's current slot.
        take(&mut devices, &[finger(10), REPORT]);
        assert_eq!(read(&mut pipe), [finger(10), REPORT]);
    }

    #[test]
    fn a_full_pipe_loses_no_end_of_a_touch() {
        let (mut devices, mut pipe) = mapped();
        let [slot, finger] =
            [ABS_MT_SLOT, ABS_MT_TRACKING_ID].map(|code| move |value: i32| (EV_ABS, code, value));
        take(&mut devices, &[finger(7), REPORT]);
        for _ in 0..5000 {
            take(&mut devices, &[(EV_REL, 0, 1), REPORT]);
        }
        take(&mut devices, &[finger(-1), slot(3), finger(8), REPORT]);
        read(&mut pipe);
        let moved = (EV_ABS, 0x35, 100);
        take(&mut devices, &[moved, REPORT]);
        let caught_up = [finger(-1), slot(3), finger(8), moved, REPORT];
        assert_eq!(read(&mut pipe), caught_up);
    }

    #[test]
    fn a_lost_reader_is_reported_once_and_read_ends_refused() {
        let (mut devices, pipe) = mapped();
        // Rust programs ignore SIGPIPE, so a write to the closed pipe returns an error.
        drop(pipe);
        devices.take(&event(EV_KEY, 30, 1)).unwrap();
        let error = devices.take(&event(EV_SYN, 0, 0)).unwrap_err().to_string();
        assert!(error.contains("input device 3"), "{error}");
        take(&mut devices, &[(EV_KEY, 30, 0), REPORT]);

        let (read, _write) = std::io::pipe().unwrap();
        let error = Descriptor::new(read.into()).unwrap_err().to_string();
        assert!(error.contains("reading only"), "{error}");
    }

    #[test]
    fn a_socket_takes_events_too() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut devices = Devices::default();
        let descriptor = Descriptor::new(ours.into()).unwrap();
        devices.map(PAD, Some(descriptor)).unwrap();
        take(&mut devices, &[(EV_KEY, 30, 1), REPORT]);
        let mut bytes = [0; 2 * BYTES];
        theirs.read_exact(&mut bytes).unwrap();
        drop(theirs);
        devices.take(&event(EV_KEY, 30, 0)).unwrap();
        assert!(devices.take(&event(EV_SYN, 0, 0)).is_err());
    }
}
