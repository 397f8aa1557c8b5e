//! The grab. While the grab is active, the pointer is confined and hidden, the mouse reports raw motion, and all keys
//! go to the window, including a window manager's shortcuts. If another client has grabbed the keyboard, that client
//! gets the keys.
//!
//! Spec: The X Input Extension 2.2, `RawMotion`; X protocol, `GrabKeyboard`.

use std::collections::BTreeMap;

use x11rb::connection::Connection;
use x11rb::errors::{ReplyError, ReplyOrIdError};
use x11rb::protocol::xinput::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{self, ConnectionExt as _, EventMask};
use x11rb::rust_connection::RustConnection;

use crate::window::toplevel::Window;

/// The grab of a window, active or not.
#[derive(Debug)]
pub(super) struct Grab {
    window: xproto::Window,
    root: xproto::Window,
    hidden: xproto::Cursor,
    active: bool,
    keyboard: bool,
    /// Pending motion of less than a pixel.
    rest: (f64, f64),
    /// The pointing devices that have moved.
    devices: BTreeMap<xinput::DeviceId, Device>,
}

/// The two axes of a pointing device.
#[derive(Debug)]
struct Device([Axis; 2]);

/// The mode of an axis.
#[derive(Clone, Copy, Debug)]
enum Axis {
    /// Relative (a mouse).
    Relative,
    /// Absolute, as with the tablet that emulates a mouse in a virtual machine: pixels per unit, and
    /// the last position.
    Absolute(f64, Option<f64>),
}

impl Axis {
    /// The distance in pixels for `value`.
    fn motion(&mut self, value: f64) -> f64 {
        match self {
            Axis::Relative => value,
            Axis::Absolute(pixels, last) => {
                let from = last.replace(value).unwrap_or(value);
                (value - from) * *pixels
            }
        }
    }
}

impl Device {
    fn query(
        conn: &RustConnection,
        root: xproto::Window,
        id: xinput::DeviceId,
    ) -> Result<Device, ReplyError> {
        let screen = conn.get_geometry(root)?;
        let devices = match conn.xinput_xi_query_device(id)?.reply() {
            Ok(reply) => reply.infos,
            // The device was unplugged after moving. This happens with mice, but hardly ever with
            // tablets.
            Err(ReplyError::X11Error(_)) => Vec::new(),
            Err(gone) => return Err(gone),
        };
        let screen = screen.reply()?;
        let mut axes = [Axis::Relative; 2];
        for class in devices.iter().flat_map(|device| &device.classes) {
            if let xinput::DeviceClassData::Valuator(axis) = &class.data
                && axis.mode == xinput::ValuatorMode::ABSOLUTE
                && let Some(entry) = axes.get_mut(usize::from(axis.number))
            {
                let side = if axis.number == 0 {
                    screen.width
                } else {
                    screen.height
                };
                let range = f64::from(axis.max.integral) - f64::from(axis.min.integral);
                *entry = Axis::Absolute(f64::from(side) / range.max(1.0), None);
            }
        }
        Ok(Device(axes))
    }
}

impl Grab {
    pub(super) fn new(conn: &RustConnection, window: &Window) -> Result<Grab, ReplyOrIdError> {
        conn.xinput_xi_query_version(2, 2)?.reply()?;
        let (bitmap, gc, hidden) = (
            conn.generate_id()?,
            conn.generate_id()?,
            conn.generate_id()?,
        );
        conn.create_pixmap(1, bitmap, window.root, 1, 1)?;
        // The pixmap's content is undefined until it is drawn; the foreground of a new context is
        // 0.
        conn.create_gc(gc, bitmap, &xproto::CreateGCAux::new().foreground(0))?;
        let pixel = xproto::Rectangle {
            x: 0,
            y: 0,
            width: 1,
            height: 1,
        };
        conn.poly_fill_rectangle(bitmap, gc, &[pixel])?;
        conn.create_cursor(hidden, bitmap, bitmap, 0, 0, 0, 0, 0, 0, 0, 0)?;
        conn.free_gc(gc)?;
        conn.free_pixmap(bitmap)?;
        let (window, root) = (window.id, window.root);
        Ok(Grab {
            window,
            root,
            hidden,
            active: false,
            keyboard: false,
            rest: (0.0, 0.0),
            devices: BTreeMap::new(),
        })
    }

    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    /// Whether the keyboard is also grabbed.
    pub(super) fn holds_keyboard(&self) -> bool {
        self.keyboard
    }

    /// Grabs the pointer and the keyboard. Returns `false` if the server refuses the pointer, for example because
    /// another client holds it. If another client holds only the keyboard, as a desktop may briefly do, that client
    /// keeps the keyboard.
    pub(super) fn take(&mut self, conn: &RustConnection) -> Result<bool, ReplyError> {
        let buttons = EventMask::BUTTON_PRESS | EventMask::BUTTON_RELEASE;
        let reply = conn
            .grab_pointer(
                false,
                self.window,
                buttons,
                xproto::GrabMode::ASYNC,
                xproto::GrabMode::ASYNC,
                self.window,
                self.hidden,
                x11rb::CURRENT_TIME,
            )?
            .reply()?;
        self.active = reply.status == xproto::GrabStatus::SUCCESS;
        self.rest = (0.0, 0.0);
        self.devices.clear();
        if !self.active {
            tracing::warn!(status = ?reply.status, "the pointer could not be grabbed");
            return Ok(false);
        }
        self.select(conn, xinput::XIEventMask::RAW_MOTION)?;
        let mode = xproto::GrabMode::ASYNC;
        let keyboard = conn.grab_keyboard(false, self.window, x11rb::CURRENT_TIME, mode, mode)?;
        let status = keyboard.reply()?.status;
        self.keyboard = status == xproto::GrabStatus::SUCCESS;
        if !self.keyboard {
            tracing::warn!(
                ?status,
                "the keyboard could not be grabbed: the window manager's shortcuts stay active"
            );
        }
        Ok(true)
    }

    /// Releases the pointer and the keyboard.
    pub(super) fn release(&mut self, conn: &RustConnection) -> Result<(), ReplyError> {
        (self.active, self.keyboard) = (false, false);
        self.select(conn, xinput::XIEventMask::default())?;
        conn.ungrab_pointer(x11rb::CURRENT_TIME)?;
        conn.ungrab_keyboard(x11rb::CURRENT_TIME)?;
        Ok(conn.flush()?)
    }

    /// The number of whole pixels to which raw events add up, without the server's acceleration. `None` if the sum is
    /// less than one pixel on each axis.
    pub(super) fn motion(
        &mut self,
        conn: &RustConnection,
        event: &xinput::RawMotionEvent,
    ) -> Result<Option<(i16, i16)>, ReplyError> {
        if !self.devices.contains_key(&event.sourceid) {
            let device = Device::query(conn, self.root, event.sourceid)?;
            self.devices.insert(event.sourceid, device);
        }
        let mask = event.valuator_mask.first().copied().unwrap_or(0);
        let mut values = event.axisvalues_raw.iter();
        let axes = self
            .devices
            .get_mut(&event.sourceid)
            .map(|device| &mut device.0);
        let rests = [&mut self.rest.0, &mut self.rest.1];
        for (number, (axis, rest)) in axes.into_iter().flatten().zip(rests).enumerate() {
            if mask & (1 << number) != 0
                && let Some(value) = values.next()
            {
                let value = f64::from(value.integral) + f64::from(value.frac) / 4_294_967_296.0;
                *rest += axis.motion(value);
            }
        }
        let (dx, dy) = (whole(&mut self.rest.0), whole(&mut self.rest.1));
        Ok((dx != 0 || dy != 0).then_some((dx, dy)))
    }

    fn select(
        &self,
        conn: &RustConnection,
        mask: xinput::XIEventMask,
    ) -> Result<(), x11rb::errors::ConnectionError> {
        let deviceid = u16::from(xinput::Device::ALL_MASTER);
        let masks = [xinput::EventMask {
            deviceid,
            mask: vec![mask],
        }];
        conn.xinput_xi_select_events(self.root, &masks)?;
        Ok(())
    }
}

/// Removes the whole pixels from `rest`.
fn whole(rest: &mut f64) -> i16 {
    let pixels = rest.trunc().clamp(f64::from(i16::MIN), f64::from(i16::MAX));
    *rest -= pixels;
    // The value is in range because it was clamped.
    #[allow(clippy::cast_possible_truncation)]
    let pixels = pixels as i16;
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_become_distances_and_fractions_are_kept() {
        let mut tablet = Axis::Absolute(0.5, None);
        let moves = [1000.0, 1003.0, 1002.0].map(|place| tablet.motion(place));
        assert_eq!(moves, [0.0, 1.5, -0.5]);
        assert_eq!(Axis::Relative.motion(-0.25).to_bits(), (-0.25f64).to_bits());
        let mut rest = -2.75;
        assert_eq!(
            (whole(&mut rest), rest.to_bits()),
            (-2, (-0.75f64).to_bits())
        );
        rest = 1e9;
        assert_eq!(whole(&mut rest), i16::MAX);
    }
}
