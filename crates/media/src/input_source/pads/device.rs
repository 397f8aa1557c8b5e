//! One pad: its event device and state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use openuvr_proto::input::pad::{PadIdentity, PadName, PadState, Rumble};
use openuvr_proto::time::Instant;

use super::mapping::{Database, Mapping};
use super::sys;
use crate::input_event::{BYTES, Event, SYN_DROPPED};
use crate::pad::OWN_LOCATION;
use crate::pad::codes::{EV_ABS, EV_FF, EV_KEY, EV_SYN, FF_RUMBLE};

/// Number of events read at once: the minimum length of the kernel's queue (`EVDEV_MIN_BUFFER_SIZE`). The queue of a
/// pad with eight axes has 128 events.
const AT_ONCE: usize = 64;

/// The kind of an opened device.
pub(super) enum DeviceKind {
    Pad(Box<Pad>),
    /// A pad or a similar device with unknown mapping, with its name.
    Unmapped(String),
    /// A device that is not read: a keyboard, a mouse, a pad presented by a host, or a file that is not an event
    /// device.
    Other,
}

/// A pad that is read.
pub(super) struct Pad {
    pub(super) identity: PadIdentity,
    file: File,
    mapping: Mapping,
    /// Whether event times are on the monotonic clock.
    stamped: bool,
    keys: BTreeSet<u16>,
    axes: BTreeMap<u16, i32>,
    reported: PadState,
    /// Whether the kernel has dropped events, so that events up to the next report are ignored.
    missed: bool,
    rest: Vec<u8>,
    /// The uploaded effect.
    effect: Option<i16>,
    felt: Rumble,
}

impl Pad {
    /// Opens an event device.
    ///
    /// # Errors
    /// Returns an error if the device is not readable, or is already gone.
    pub(super) fn open(path: &Path, database: &Database) -> io::Result<DeviceKind> {
        let (file, writable) = sys::open(path)?;
        // Only event devices answer this request.
        let Ok(id) = sys::id(&file) else {
            return Ok(DeviceKind::Other);
        };
        if sys::location(&file).starts_with(OWN_LOCATION) {
            return Ok(DeviceKind::Other);
        }
        let name = sys::name(&file);
        let (keys, axes) = (sys::keys(&file)?, sys::axes(&file)?);
        let Some(mapping) = Mapping::of(database, id, &name, &keys, &axes) else {
            let like_one = keys.iter().any(|code| (0x120..0x130).contains(code));
            return Ok(match like_one && axes.len() >= 2 {
                true => DeviceKind::Unmapped(name),
                false => DeviceKind::Other,
            });
        };
        let rumbles = writable && sys::forces(&file).contains(&FF_RUMBLE);
        let (buttons, sticks) = mapping.has();
        let stamped = sys::stamp_by_monotonic_clock(&file);
        let mut pad = Pad {
            identity: PadIdentity {
                name: PadName::new(&name),
                vendor: id[1],
                product: id[2],
                buttons,
                sticks,
                rumbles,
            },
            file,
            mapping,
            stamped,
            keys: BTreeSet::new(),
            axes: BTreeMap::new(),
            reported: PadState::NEUTRAL,
            missed: false,
            rest: Vec::new(),
            effect: None,
            felt: Rumble::OFF,
        };
        pad.resync()?;
        Ok(DeviceKind::Pad(Box::new(pad)))
    }

    /// The descriptor to poll.
    pub(super) fn fd(&self) -> &File {
        &self.file
    }

    /// The state, if it has changed since the last call.
    pub(super) fn poll_state(&mut self) -> Option<PadState> {
        let keys = |code| self.keys.contains(&code);
        let axes = |code| self.axes.get(&code).copied().unwrap_or(0);
        let state = self.mapping.state(keys, axes);
        let before = std::mem::replace(&mut self.reported, state);
        (before != state).then_some(state)
    }

    /// Reads available events, and passes on the state after each report that changes it.
    ///
    /// # Errors
    /// Returns an error if the device is gone.
    pub(super) fn read(
        &mut self,
        mut report: impl FnMut(PadState, Option<Instant>),
    ) -> io::Result<()> {
        let mut buffer = [0; AT_ONCE * BYTES];
        let read = match (&self.file).read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(e) => return Err(e),
        };
        self.rest.extend_from_slice(&buffer[..read]);
        let bytes = std::mem::take(&mut self.rest);
        let (events, rest) = bytes.as_chunks();
        for bytes in events {
            let event = Event::from_bytes(bytes);
            if !self.follow(&event)? {
                continue;
            }
            if let Some(state) = self.poll_state() {
                let stamp = i64::try_from(event.time.as_nanos()).unwrap_or(i64::MAX);
                report(state, self.stamped.then_some(Instant(stamp)));
            }
        }
        self.rest = rest.to_vec();
        Ok(())
    }

    /// Applies an event. Returns whether it ends a report.
    fn follow(&mut self, event: &Event) -> io::Result<bool> {
        match (event.kind, event.code) {
            (EV_SYN, SYN_DROPPED) => self.missed = true,
            (EV_SYN, 0) => {
                if std::mem::take(&mut self.missed) {
                    self.resync()?;
                }
                return Ok(true);
            }
            _ if self.missed => {}
            (EV_KEY, code) if event.value == 0 => _ = self.keys.remove(&code),
            (EV_KEY, code) => _ = self.keys.insert(code),
            (EV_ABS, code) => _ = self.axes.insert(code, event.value),
            _ => {}
        }
        Ok(false)
    }

    /// Queries the complete state.
    fn resync(&mut self) -> io::Result<()> {
        self.keys = sys::keys_down(&self.file)?.into_iter().collect();
        let axes = sys::axes(&self.file)?.into_iter();
        self.axes = axes.map(|(code, axis)| (code, axis.value)).collect();
        Ok(())
    }

    /// Runs the pad's motors with this rumble until the next call. A pad without motors is ignored.
    ///
    /// # Errors
    /// Returns an error if the device refuses.
    pub(super) fn rumble(&mut self, rumble: Rumble) -> io::Result<()> {
        if !self.identity.rumbles || self.felt == rumble {
            return Ok(());
        }
        if rumble != Rumble::OFF {
            self.effect = Some(sys::upload(
                &self.file,
                self.effect,
                rumble.strong,
                rumble.weak,
            )?);
        }
        let Some(effect) = self.effect.and_then(|id| u16::try_from(id).ok()) else {
            return Ok(());
        };
        let (was, runs) = (self.felt != Rumble::OFF, rumble != Rumble::OFF);
        self.felt = rumble;
        // If the effect is already playing, the upload has changed it.
        if was != runs {
            let play = Event {
                time: Duration::ZERO,
                kind: EV_FF,
                code: effect,
                value: i32::from(runs),
            };
            (&self.file).write_all(&play.to_bytes())?;
        }
        Ok(())
    }
}
