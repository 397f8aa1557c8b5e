//! Maps a device's controls to the standard gamepad. It uses a line of a database in SDL's format
//! (`SDL_GAMECONTROLLERCONFIG`, gamecontrollerdb.txt), or the kernel's rules for pads
//! (Documentation/input/gamepad.rst).
//!
//! No database is included. Without a database, a pad is supported only if its kernel driver follows these rules.

use std::collections::HashMap;

use openuvr_proto::input::pad::{PadButton, PadState};

use crate::pad::codes::*;
use crate::pad::description::Axis;

/// Maximum number of database lines, and of complaints about them.
const MAX_LINES: usize = 100_000;
const MAX_COMPLAINTS: usize = 5;

/// SDL's identifier of a device, as in the database: the bus, then vendor, product and version, or the start of the
/// name if the vendor is unknown.
pub(super) type Guid = [u8; 16];

pub(super) fn guid([bus, vendor, product, version]: [u16; 4], name: &str) -> Guid {
    let mut guid = [0; 16];
    guid[..2].copy_from_slice(&bus.to_le_bytes());
    if vendor != 0 {
        guid[4..6].copy_from_slice(&vendor.to_le_bytes());
        guid[8..10].copy_from_slice(&product.to_le_bytes());
        guid[12..14].copy_from_slice(&version.to_le_bytes());
    } else {
        // As much of the name as fits before a terminating zero.
        for (to, byte) in guid[4..15].iter_mut().zip(name.bytes()) {
            *to = byte;
        }
    }
    guid
}

/// A control of the standard gamepad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Button(PadButton),
    /// The index in [`PadState::sticks`], and the half of that axis that the control moves.
    Stick(usize, Half),
    Trigger(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Half {
    Both,
    Lower,
    Upper,
}

/// A device's control, by SDL's numbering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Button(usize),
    Axis(usize, Half, bool),
    /// The hat, and the bit of its direction: up 1, right 2, down 4, left 8.
    Hat(usize, u8),
}

/// A line of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry(Vec<(Target, Source)>);

/// A database of pads.
#[derive(Clone, Debug, Default)]
pub struct Database(HashMap<Guid, Entry>);

impl Database {
    /// Adds the lines of `text`, read from `what`; later lines win. Appends a complaint for each of the first five
    /// invalid lines to `complaints`, and a complaint with the number of further invalid lines.
    pub fn add(&mut self, text: &str, what: &str, complaints: &mut Vec<String>) {
        let mut wrong = 0;
        for (number, line) in (1..).zip(text.lines().take(MAX_LINES)) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match parse(line) {
                Ok(Some((guid, entry))) => drop(self.0.insert(guid, entry)),
                Ok(None) => {}
                Err(why) => {
                    wrong += 1;
                    if wrong <= MAX_COMPLAINTS {
                        complaints.push(format!("{what}, line {number} skipped: {why}"));
                    }
                }
            }
        }
        if wrong > MAX_COMPLAINTS {
            let more = wrong - MAX_COMPLAINTS;
            complaints.push(format!("{what}: {more} more invalid lines skipped"));
        }
    }

    /// The number of pads.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the database is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entry of a device. A device that differs only in the version is accepted.
    fn of(&self, guid: &Guid) -> Option<&Entry> {
        let mut unversioned = *guid;
        unversioned[12..14].fill(0);
        let versions = || {
            let same = |other: &&Guid| other[..12] == guid[..12] && guid[4..6] != [0, 0];
            self.0.keys().filter(same).min()
        };
        let found = self.0.get(guid).or_else(|| self.0.get(&unversioned));
        found.or_else(|| self.0.get(versions()?))
    }
}

/// Parses a line. `None` if it is for a different system.
fn parse(line: &str) -> Result<Option<(Guid, Entry)>, String> {
    let mut fields = line.split(',');
    let number = fields.next().unwrap_or_default();
    let mut guid = hex(number).ok_or_else(|| {
        let shown: String = number.chars().take(40).collect();
        format!("'{shown}' is not a device GUID: expected 32 hexadecimal digits")
    })?;
    // These bytes are a checksum of the name. Older databases lack it.
    guid[2..4].fill(0);
    fields.next().ok_or("the name is missing")?;
    let mut entry = Vec::new();
    for field in fields.filter(|field| !field.trim().is_empty()) {
        let (key, value) = field.split_once(':').ok_or_else(|| {
            let shown: String = field.chars().take(40).collect();
            format!("'{shown}' is not of the form control:source")
        })?;
        if key == "platform" && value != "Linux" {
            return Ok(None);
        }
        // Paddles, touch pads, hints and other additions of newer versions are skipped.
        let Some(target) = target(key) else {
            continue;
        };
        let source = source(value).ok_or_else(|| {
            let shown: String = value.chars().take(40).collect();
            format!("'{shown}' is not a button, axis or hat such as b0, a0 or h0.1")
        })?;
        entry.push((target, source));
    }
    match entry.is_empty() {
        true => Err("the line maps no button or stick".to_owned()),
        false => Ok(Some((guid, Entry(entry)))),
    }
}

fn hex(text: &str) -> Option<Guid> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|d| d.iter().fold(0, |n, d| n << 4 | d))
        .collect();
    (digits.len() == 32)
        .then(|| bytes.try_into().ok())
        .flatten()
}

fn target(key: &str) -> Option<Target> {
    let (half, axis) = match key.as_bytes().first() {
        Some(b'+') => (Half::Upper, &key[1..]),
        Some(b'-') => (Half::Lower, &key[1..]),
        _ => (Half::Both, key),
    };
    let stick = ["leftx", "lefty", "rightx", "righty"]
        .iter()
        .position(|name| *name == axis);
    if let Some(stick) = stick {
        return Some(Target::Stick(stick, half));
    }
    Some(match key {
        "a" => Target::Button(PadButton::South),
        "b" => Target::Button(PadButton::East),
        "x" => Target::Button(PadButton::West),
        "y" => Target::Button(PadButton::North),
        "leftshoulder" => Target::Button(PadButton::LeftShoulder),
        "rightshoulder" => Target::Button(PadButton::RightShoulder),
        "back" => Target::Button(PadButton::Back),
        "start" => Target::Button(PadButton::Start),
        "guide" => Target::Button(PadButton::Guide),
        "leftstick" => Target::Button(PadButton::LeftStick),
        "rightstick" => Target::Button(PadButton::RightStick),
        "dpup" => Target::Button(PadButton::Up),
        "dpdown" => Target::Button(PadButton::Down),
        "dpleft" => Target::Button(PadButton::Left),
        "dpright" => Target::Button(PadButton::Right),
        "lefttrigger" => Target::Trigger(0),
        "righttrigger" => Target::Trigger(1),
        _ => return None,
    })
}

fn source(value: &str) -> Option<Source> {
    let value = value.trim();
    let (half, rest) = match value.as_bytes().first()? {
        b'+' => (Half::Upper, &value[1..]),
        b'-' => (Half::Lower, &value[1..]),
        _ => (Half::Both, value),
    };
    let (inverted, rest) = match rest.strip_suffix('~') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let number = |text: &str| text.parse().ok().filter(|n| *n < KEY_CNT);
    match rest.split_at_checked(1)? {
        ("b", n) if value == rest => Some(Source::Button(number(n)?)),
        ("a", n) => Some(Source::Axis(number(n)?, half, inverted)),
        ("h", n) if value == rest => {
            let (hat, direction) = n.split_once('.')?;
            let direction: u8 = direction.parse().ok()?;
            let one = direction.is_power_of_two() && direction < 16;
            one.then_some(Source::Hat(number(hat)?, direction))
        }
        _ => None,
    }
}

/// A device's control, by its event code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Control {
    Key(u16),
    /// An axis, the half in use, and whether it is inverted.
    Axis(u16, Half, bool),
}

/// The mapping of a device.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    controls: Vec<(Target, Control)>,
    axes: HashMap<u16, Axis>,
}

impl Mapping {
    /// The mapping of a device with these keys and axes; `None` if neither the database nor the
    /// kernel's rules identify it as a pad.
    pub(super) fn of(
        database: &Database,
        id: [u16; 4],
        name: &str,
        keys: &[u16],
        axes: &[(u16, Axis)],
    ) -> Option<Mapping> {
        let entry = database.of(&guid(id, name));
        let by_rules = || {
            keys.contains(&BTN_SOUTH)
                .then(|| by_rules(id[1], keys, axes))
        };
        let controls = entry.map(|entry| by_entry(entry, keys, axes));
        Some(Mapping {
            controls: controls.or_else(by_rules)?,
            axes: axes.iter().copied().collect(),
        })
    }

    /// The pad's buttons, as in [`PadIdentity::buttons`](openuvr_proto::input::pad::PadIdentity::buttons), and the
    /// presence of each stick.
    pub(super) fn has(&self) -> (u32, [bool; 2]) {
        let (mut buttons, mut sticks) = (0, [false; 2]);
        for (target, _) in &self.controls {
            match target {
                Target::Button(button) => buttons |= button.bit(),
                Target::Trigger(n) => buttons |= 1 << (6 + n),
                Target::Stick(n, _) => sticks[n / 2] = true,
            }
        }
        (buttons, sticks)
    }

    /// The standard gamepad's state for the given states of the device's keys and axes.
    pub(super) fn state(&self, is_down: impl Fn(u16) -> bool, at: impl Fn(u16) -> i32) -> PadState {
        let mut state = PadState::NEUTRAL;
        let mut sticks = [0_i32; 4];
        for (target, control) in &self.controls {
            // The value of a full axis is from -1 to 1, and of half an axis from 0 to 1, in units of 1/65 535.
            let (whole, value) = match *control {
                Control::Key(code) => (false, if is_down(code) { FULL } else { 0 }),
                Control::Axis(code, half, inverted) => {
                    let axis = self.axes.get(&code).copied().unwrap_or_default();
                    let value = scaled(&axis, at(code));
                    let value = if inverted { -value } else { value };
                    match half {
                        Half::Both => (true, value),
                        Half::Upper => (false, value.max(0)),
                        Half::Lower => (false, (-value).max(0)),
                    }
                }
            };
            match *target {
                // The threshold is the middle of the range, as in SDL.
                Target::Button(button) => {
                    let middle = if whole { 0 } else { FULL / 2 };
                    if value > middle {
                        state.buttons |= button.bit();
                    }
                }
                Target::Trigger(n) => {
                    let pulled = if whole { (value + FULL) / 2 } else { value };
                    let pulled = u16::try_from(pulled.clamp(0, FULL)).unwrap_or(0);
                    state.triggers[n] = state.triggers[n].max(pulled);
                }
                Target::Stick(n, half) => {
                    sticks[n] += match (half, whole) {
                        (Half::Both, true) => value,
                        // A button deflects a stick fully, to the right or downwards.
                        (Half::Both | Half::Upper, _) => value.max(0),
                        (Half::Lower, _) => -value.max(0),
                    };
                }
            }
        }
        // Maps 131 071 positions to the 65 536 positions of a stick.
        state.sticks = sticks.map(|at| {
            let at = at.clamp(-FULL, FULL);
            i16::try_from((at + FULL) / 2 + i32::from(i16::MIN)).unwrap_or(i16::MAX)
        });
        for (stick, at) in state.sticks.iter_mut().zip(sticks) {
            // A centred stick must be exactly 0, but the division above gives -1.
            if at == 0 {
                *stick = 0;
            }
        }
        state
    }
}

const FULL: i32 = 65_535;

/// The axis position from -65 535 to 65 535. Values in the driver's dead zone (`flat`) become 0.
fn scaled(axis: &Axis, value: i32) -> i32 {
    let (low, high) = (i64::from(axis.minimum), i64::from(axis.maximum));
    let value = i64::from(value).clamp(low.min(high), high.max(low));
    if high <= low {
        return 0;
    }
    let middle = (low + high + 1) / 2;
    if axis.flat > 0 && (value - middle).abs() <= i64::from(axis.flat) {
        return 0;
    }
    let (full, span) = (i64::from(FULL), high - low);
    let at = ((value - low) * 2 * full + span / 2) / span - full;
    i32::try_from(at).unwrap_or(0)
}

/// The controls of a database entry. The entry numbers a device's controls as SDL does.
fn by_entry(entry: &Entry, keys: &[u16], axes: &[(u16, Axis)]) -> Vec<(Target, Control)> {
    let (low, high): (Vec<u16>, Vec<u16>) = keys.iter().partition(|code| **code < BTN_JOYSTICK);
    let buttons: Vec<u16> = high.into_iter().chain(low).collect();
    let has = |code: u16| axes.iter().any(|(axis, _)| *axis == code);
    let is_hat = |code: u16| (ABS_HAT0X..=ABS_HAT3Y).contains(&code);
    let sticks: Vec<u16> = axes
        .iter()
        .map(|a| a.0)
        .filter(|code| !is_hat(*code))
        .collect();
    let hats: Vec<u16> = (ABS_HAT0X..=ABS_HAT3Y)
        .step_by(2)
        .filter(|code| has(*code) || has(code + 1))
        .collect();
    let control = |source: Source| match source {
        Source::Button(n) => buttons.get(n).map(|code| Control::Key(*code)),
        Source::Axis(n, half, inverted) => {
            let code = sticks.get(n)?;
            Some(Control::Axis(*code, half, inverted))
        }
        Source::Hat(n, direction) => {
            let x = *hats.get(n)?;
            Some(match direction {
                1 => Control::Axis(x + 1, Half::Lower, false),
                2 => Control::Axis(x, Half::Upper, false),
                4 => Control::Axis(x + 1, Half::Upper, false),
                _ => Control::Axis(x, Half::Lower, false),
            })
        }
    };
    let controls = entry.0.iter();
    controls
        .filter_map(|(target, source)| Some((*target, control(*source)?)))
        .collect()
}

/// USB vendors with drivers that use BTN_NORTH for the north button.
const BY_PLACE: [u16; 2] = [0x054c, 0x057e];

/// The kernel's rules for pads, as its drivers implement them.
fn by_rules(vendor: u16, keys: &[u16], axes: &[(u16, Axis)]) -> Vec<(Target, Control)> {
    let mut controls = Vec::new();
    let mut key = |button, code| {
        if keys.contains(&code) {
            controls.push((Target::Button(button), Control::Key(code)));
        }
    };
    // Most drivers report X and Y by their labels, as xpad does: `BTN_NORTH` is also `BTN_X`, and `BTN_WEST` is also
    // `BTN_Y`.
    let (west, north) = match BY_PLACE.contains(&vendor) {
        true => (BTN_WEST, BTN_NORTH),
        false => (BTN_NORTH, BTN_WEST),
    };
    for (button, code) in [
        (PadButton::South, BTN_SOUTH),
        (PadButton::East, BTN_EAST),
        (PadButton::West, west),
        (PadButton::North, north),
        (PadButton::LeftShoulder, BTN_TL),
        (PadButton::RightShoulder, BTN_TR),
        (PadButton::Back, BTN_SELECT),
        (PadButton::Start, BTN_START),
        (PadButton::Guide, BTN_MODE),
        (PadButton::LeftStick, BTN_THUMBL),
        (PadButton::RightStick, BTN_THUMBR),
        (PadButton::Up, BTN_DPAD_UP),
        (PadButton::Down, BTN_DPAD_DOWN),
        (PadButton::Left, BTN_DPAD_LEFT),
        (PadButton::Right, BTN_DPAD_RIGHT),
    ] {
        key(button, code);
    }
    let has = |code: u16| axes.iter().any(|(axis, _)| *axis == code);
    let whole = |code| Control::Axis(code, Half::Both, false);
    let mut axis = |target, code, half| {
        if has(code) {
            controls.push((target, Control::Axis(code, half, false)));
        }
    };
    for (button, code, half) in [
        (PadButton::Up, ABS_HAT0Y, Half::Lower),
        (PadButton::Down, ABS_HAT0Y, Half::Upper),
        (PadButton::Left, ABS_HAT0X, Half::Lower),
        (PadButton::Right, ABS_HAT0X, Half::Upper),
    ] {
        axis(Target::Button(button), code, half);
    }
    // The right stick is RX and RY, and the triggers are Z and RZ. Without RX and RY, the right stick is Z and RZ.
    let (right, rest) = match has(ABS_RX) && has(ABS_RY) {
        true => ([ABS_RX, ABS_RY], [ABS_Z, ABS_RZ]),
        false => ([ABS_Z, ABS_RZ], [ABS_CNT_NONE; 2]),
    };
    let places = [ABS_X, ABS_Y, right[0], right[1]];
    for (n, code) in places.into_iter().enumerate() {
        axis(Target::Stick(n, Half::Both), code, Half::Both);
    }
    for (n, codes, digital) in [
        (0, [ABS_BRAKE, ABS_HAT2Y, rest[0]], BTN_TL2),
        (1, [ABS_GAS, ABS_HAT2X, rest[1]], BTN_TR2),
    ] {
        if let Some(code) = codes.into_iter().find(|code| has(*code)) {
            controls.push((Target::Trigger(n), whole(code)));
        } else if keys.contains(&digital) {
            controls.push((Target::Trigger(n), Control::Key(digital)));
        }
    }
    controls
}

/// An invalid axis.
const ABS_CNT_NONE: u16 = 0xffff;

#[cfg(test)]
mod tests;
