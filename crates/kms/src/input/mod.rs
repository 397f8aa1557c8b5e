//! The input thread: reads keyboards and pointing devices from the kernel while the console is in the foreground.
//!
//! Keys are translated as for a window, with the console's layout. Ctrl+Alt+F1 to F12 switch consoles, and the
//! shortcuts of [`SHORTCUTS`](openuvr_media::input_source::SHORTCUTS) are executed here. When the console goes to the
//! background, all keys and buttons are released at the host. Until the console is in the foreground again, nothing is
//! sent.
//!
//! Spec: Linux, `input/event-codes.rst`; `docs/adr/0027-client-without-window-system.md`.

mod devices;
mod keyboard;
mod layout;
mod pointer;
mod sys;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_media::input_event::{Event, SYN_DROPPED};
use openuvr_media::input_source::keys::{KeyPress, KeyTranslator};
use openuvr_media::input_source::shortcuts::Action;
use openuvr_media::input_source::{InputSource, SourceError, SourceEvent};
use openuvr_media::window::WindowConfig;
use openuvr_proto::input::event::{EV_KEY, EV_SYN, InputEvent};
use openuvr_proto::input::keys::Keys;
use openuvr_proto::time;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::KmsError;
use crate::console::Switcher;
use crate::display::Shared;
use devices::{Device, Devices, FOLDER};
use keyboard::{EVDEV_OFFSET, KeyboardState, console_of};
use pointer::Report;

/// Keys that act on this machine and are not sent to the host: `KEY_POWER`, `KEY_SLEEP`, `KEY_WAKEUP`, `KEY_SUSPEND`.
const OF_MACHINE: [u16; 4] = [116, 142, 143, 205];

/// Reads the input devices.
pub struct ConsoleInput {
    devices: Devices,
    state: State,
}

/// The state except for the devices.
struct State {
    shared: Arc<Shared>,
    /// The switcher of consoles, and the number of this client's console.
    consoles: Option<(Switcher, u32)>,
    keyboard: KeyboardState,
    keys: KeyTranslator,
    /// Keys that have switched the console, until their release.
    swallowed: BTreeSet<u16>,
    /// Whether the console is in the foreground, as last reported.
    focused: bool,
    grab: Grab,
    /// The size of the display, as last reported.
    size: Size,
    ended: bool,
    ready: VecDeque<SourceEvent>,
}

/// Whether motion is sent relatively.
#[derive(Default)]
struct Grab {
    active: bool,
    /// `by_user`: whether the user has requested the grab. `declined`: whether the user has ended the grab since the
    /// host's request.
    by_user: bool,
    declined: bool,
    /// The host's request, as last received.
    requested: bool,
}

impl ConsoleInput {
    pub(crate) fn open(
        shared: Arc<Shared>,
        consoles: Option<(Switcher, u32)>,
        window: &WindowConfig,
        size: Size,
    ) -> Result<ConsoleInput, KmsError> {
        let (devices, refused) = Devices::open(Path::new(FOLDER));
        if let (Some(cause), true) = (refused, devices.open.is_empty()) {
            tracing::warn!(
                "no input device in {FOLDER} can be read: {cause}; add this user to the group input"
            );
        }
        let mut state = State {
            shared,
            consoles,
            keyboard: KeyboardState::new(layout::keyboard()),
            keys: KeyTranslator::new(window.keys),
            swallowed: BTreeSet::new(),
            focused: true,
            grab: Grab {
                by_user: window.grab,
                ..Grab::default()
            },
            size,
            ended: false,
            ready: VecDeque::from([SourceEvent::Resized(size)]),
        };
        state.follow_grab();
        Ok(ConsoleInput { devices, state })
    }

    /// Waits for events and handles them.
    fn turn(&mut self, end: Option<Instant>) -> io::Result<()> {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let shared = Arc::clone(&self.state.shared);
        let mut fds = vec![PollFd::from_borrowed_fd(shared.input.fd(), PollFlags::IN)];
        if let Some(watch) = &self.devices.watch {
            fds.push(PollFd::new(watch, PollFlags::IN));
        }
        let others = fds.len();
        let devices = self.devices.open.values();
        fds.extend(devices.map(|device| PollFd::new(&device.file, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if shared.input.lower() {
            self.follow_display();
        }
        let paths: Vec<PathBuf> = self.devices.open.keys().cloned().collect();
        for (path, _) in paths
            .iter()
            .zip(&ready[others..])
            .filter(|(_, ready)| **ready)
        {
            self.read(path);
        }
        if others > 1 && ready[1] {
            self.devices.changed();
            self.devices.set_locks(self.state.keyboard.locks());
        }
        Ok(())
    }

    /// Handles changes made by the other threads.
    fn follow_display(&mut self) {
        let (active, stopped, size) = {
            let display = self.state.shared.display();
            (display.active, display.stopped, display.size())
        };
        self.state.ended = stopped;
        if std::mem::replace(&mut self.state.size, size) != size {
            self.state.ready.push_back(SourceEvent::Resized(size));
        }
        if std::mem::replace(&mut self.state.focused, active) != active {
            if active {
                // The keys that switched the console are still down, but belong to the other console.
                let down: Vec<u8> = keycodes(self.devices.keys_down()).collect();
                self.state.keyboard.replace(down.iter().copied());
                self.state.keys.already_down(down);
                self.state.ready.push_back(SourceEvent::Focused(true));
                self.devices.set_locks(self.state.keyboard.locks());
            } else {
                self.state.release_all();
                self.state.ready.push_back(SourceEvent::Focused(false));
            }
        }
        self.state.follow_grab();
    }

    fn read(&mut self, path: &Path) {
        let Some(device) = self.devices.open.get_mut(path) else {
            return;
        };
        match device.read() {
            Ok(events) => {
                let locks = self.state.keyboard.locks();
                for event in &events {
                    self.state.event(device, event);
                }
                let now = self.state.keyboard.locks();
                if now != locks {
                    self.devices.set_locks(now);
                }
            }
            Err(_) => {
                if let Some(mut device) = self.devices.open.remove(path) {
                    self.state.release(&mut device);
                }
                // A different device may already have the path.
                self.devices.changed();
                self.devices.set_locks(self.state.keyboard.locks());
            }
        }
    }
}

impl InputSource for ConsoleInput {
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(event) = self.state.ready.pop_front() {
                return Ok(event);
            }
            if self.state.ended {
                return Ok(SourceEvent::Closed);
            }
            self.turn(end)
                .map_err(|cause| SourceError(format!("can't wait for input: {cause}")))?;
            if self.state.ready.is_empty() && end.is_some_and(|end| Instant::now() >= end) {
                return Ok(SourceEvent::TimedOut);
            }
        }
    }

    fn follow(&mut self, keys: Keys) {
        self.state.keys.follow(keys);
    }
}

impl State {
    fn event(&mut self, device: &mut Device, event: &Event) {
        if !self.focused {
            return;
        }
        if (event.kind, event.code) == (EV_SYN, SYN_DROPPED) {
            // The kernel's buffer has overflowed, so releases may be lost.
            device.missed = true;
            self.release(device);
            return;
        }
        let is_report = (event.kind, event.code) == (EV_SYN, 0);
        if device.missed {
            device.missed = !is_report;
            return;
        }
        let first = self.ready.len();
        if device.is_keyboard && event.kind == EV_KEY {
            device.record(event);
            self.key(event);
        }
        if let Some(pointer) = &mut device.pointer {
            if is_report {
                let side = |pixels: u32| i32::try_from(pixels).unwrap_or(i32::MAX);
                let report = pointer.end_report((side(self.size.width), side(self.size.height)));
                self.pointed(report);
            } else {
                pointer.event(event);
            }
        }
        if device.stamped {
            let nanos = i64::try_from(event.time.as_nanos()).unwrap_or(i64::MAX);
            self.stamp(first, time::Instant(nanos));
        }
    }

    /// Sets the kernel's time on the events from `first` on.
    fn stamp(&mut self, first: usize, at: time::Instant) {
        for event in self.ready.iter_mut().skip(first) {
            if let SourceEvent::Input(input) = event {
                *event = SourceEvent::Sampled(*input, at);
            }
        }
    }

    fn key(&mut self, event: &Event) {
        let Some(keycode) = keycode(event.code) else {
            // XKB has key codes only up to 255. Pointer buttons have higher codes, and are not keys.
            return;
        };
        if OF_MACHINE.contains(&event.code) {
            return;
        }
        match event.value {
            0 => {
                self.keyboard.release(keycode);
                if !self.swallowed.remove(&event.code) {
                    self.keys.release(keycode, &mut self.ready);
                }
            }
            1 => self.press(event.code, keycode),
            // The host's window system generates the repeats.
            _ => {}
        }
    }

    fn press(&mut self, code: u16, keycode: u8) {
        let modifiers = self.keyboard.modifiers();
        if let (Some(number), Some((switcher, own))) = (console_of(modifiers, code), &self.consoles)
        {
            self.swallowed.insert(code);
            if number != *own {
                switcher.switch_to(number);
            }
            return;
        }
        let press = KeyPress {
            keycode,
            state: modifiers,
            group: self.keyboard.group(),
            grabbed: self.grab.active,
        };
        let action = self
            .keys
            .press(&self.keyboard.keyboard, press, &mut self.ready);
        self.keyboard.press(keycode);
        if let Some(action) = action {
            self.own(action);
        }
    }

    fn own(&mut self, action: Action) {
        match action {
            Action::Quit => self.ready.push_back(SourceEvent::Closed),
            Action::Overlay => self.ready.push_back(SourceEvent::ToggleOverlay),
            Action::Eyes => self.ready.push_back(SourceEvent::NextEyes),
            Action::Recentre => self.ready.push_back(SourceEvent::Recentre),
            Action::Sound(change) => self.ready.push_back(SourceEvent::Sound(change)),
            // The picture is always in full screen.
            Action::FullScreen => {}
            Action::Grab => {
                self.keys.reset_composition();
                (self.grab.by_user, self.grab.declined) = (!self.grab.active, self.grab.active);
                self.follow_grab();
            }
            Action::Keys => {
                let other = self.keys.switch_mode(self.grab.active);
                self.ready.push_back(SourceEvent::Keys(other));
            }
        }
    }

    /// Sends motion relatively while the user or the host's application requests that.
    fn follow_grab(&mut self) {
        let mut display = self.shared.display();
        let (relative, observer) = (display.scene.relative, display.scene.observer);
        if std::mem::replace(&mut self.grab.requested, relative) != relative {
            self.grab.declined = false;
        }
        let requested = relative && !observer && !self.grab.declined;
        let active = (self.grab.by_user || requested) && self.focused;
        if std::mem::replace(&mut self.grab.active, active) == active {
            return;
        }
        display.scene.redrawn(|scene| scene.grabbed = active);
        display.cursor_dirty = true;
        drop(display);
        self.shared.events.wake();
        self.ready.push_back(SourceEvent::Grabbed(active));
    }

    fn pointed(&mut self, report: Report) {
        let Report { moved, at, events } = report;
        if moved != (0, 0) && self.grab.active {
            self.moved_relatively(moved);
        } else if moved != (0, 0) || at.is_some() {
            let place = {
                let mut display = self.shared.display();
                display.cursor_dirty = true;
                let placed = at.map(|at| display.scene.set_pointer(at));
                match placed {
                    Some(place) if moved == (0, 0) => place,
                    _ => display.scene.move_pointer(moved),
                }
            };
            self.shared.events.wake();
            if !self.grab.active {
                self.placed(place);
            }
        }
        for event in events {
            if let InputEvent::Button { pressed: true, .. } = event {
                let state = self.keyboard.modifiers();
                let (keyboard, grabbed) = (&self.keyboard.keyboard, self.grab.active);
                (self.keys).press_already_held(keyboard, state, grabbed, &mut self.ready);
            }
            self.ready.push_back(SourceEvent::Input(event));
        }
    }

    fn moved_relatively(&mut self, (dx, dy): (i32, i32)) {
        let step = |step: i32| {
            let limit = i32::from(i16::MAX);
            i16::try_from(step.clamp(-limit, limit)).unwrap_or(0)
        };
        let (dx, dy) = (step(dx), step(dy));
        self.ready
            .push_back(SourceEvent::Input(InputEvent::PointerRelative { dx, dy }));
    }

    /// Sends a position. It replaces an older position at the end of the queue.
    fn placed(&mut self, (x, y): (u16, u16)) {
        let waits = match self.ready.back() {
            Some(SourceEvent::Input(event) | SourceEvent::Sampled(event, _)) => {
                matches!(event, InputEvent::PointerAbsolute { .. })
            }
            _ => false,
        };
        if waits {
            self.ready.pop_back();
        }
        self.ready
            .push_back(SourceEvent::Input(InputEvent::PointerAbsolute { x, y }));
    }

    /// Releases the keys and buttons of a device whose events are lost. Those of other devices stay down.
    fn release(&mut self, device: &mut Device) {
        for released in device.release() {
            self.key(&released);
        }
        if let Some(pointer) = &mut device.pointer {
            let released = pointer.release().into_iter();
            self.ready.extend(released.map(SourceEvent::Input));
        }
    }

    /// Releases all keys and buttons at the host.
    fn release_all(&mut self) {
        self.keys.clear();
        self.swallowed.clear();
        self.keyboard.replace([]);
        self.ready
            .push_back(SourceEvent::Input(InputEvent::ReleaseAll));
    }
}

/// The XKB key code of an evdev key that has one.
fn keycode(code: u16) -> Option<u8> {
    u8::try_from(code.checked_add(EVDEV_OFFSET)?).ok()
}

fn keycodes(codes: Vec<u16>) -> impl Iterator<Item = u8> {
    codes.into_iter().filter_map(keycode)
}
