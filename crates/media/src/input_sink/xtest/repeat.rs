//! The server's auto-repeat of the newest key. The auto-repeat is stopped while the client sends nothing, and restarted
//! when the client sends again.
//!
//! A server repeats only the key that was pressed last. The repeat stops when that key is removed from the set of
//! repeating keys. It stays stopped when the key is added again immediately afterwards. Therefore, no other keyboard
//! state changes, and no state remains if the host is killed. Pressing a key that is already down sends no event to
//! clients, but restarts the server's repeat delay.
//!
//! Spec: XKB protocol, section 10.2 (`PerKeyRepeat`). Starts and stops follow the behaviour of X.Org's server
//! (`ProcXkbSetControls`, `AccessXFilterPressEvent`).

use x11rb::connection::Connection as _;
use x11rb::errors::{ConnectionError, ReplyError};
use x11rb::protocol::xkb::{self, ConnectionExt as _};
use x11rb::protocol::xproto;
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use crate::keyboard::CORE_KEYBOARD;

/// The auto-repeat of a sink's keys.
#[derive(Debug, Default)]
pub(super) struct Repeat {
    /// The key that the server may repeat, as X key code.
    newest: Option<u8>,
    stopped: bool,
}

impl Repeat {
    /// Records that a key was pressed.
    pub(super) fn pressed(&mut self, keycode: u8) {
        *self = Repeat {
            newest: Some(keycode),
            stopped: false,
        };
    }

    /// Records that a key was released.
    pub(super) fn released(&mut self, keycode: u8) {
        self.newest.take_if(|newest| *newest == keycode);
    }

    /// Stops the repeat of the held key.
    pub(super) fn stop(&mut self, conn: &RustConnection) -> Result<(), ReplyError> {
        let Some(newest) = self.newest else {
            return Ok(());
        };
        self.stopped = true;
        let may = conn
            .xkb_get_controls(CORE_KEYBOARD)?
            .reply()?
            .per_key_repeat;
        let mut without = may;
        without[usize::from(newest / 8)] &= !(1 << (newest % 8));
        set_repeating(conn, &without)?;
        set_repeating(conn, &may)?;
        Ok(conn.flush()?)
    }

    /// Restarts the repeat of the stopped key, if it is still held, after the usual delay.
    pub(super) fn resume(&mut self, conn: &RustConnection) -> Result<(), ReplyError> {
        if let Some(newest) = self.newest.filter(|_| self.stopped) {
            self.stopped = false;
            let (now, none) = (x11rb::CURRENT_TIME, x11rb::NONE);
            conn.xtest_fake_input(xproto::KEY_PRESS_EVENT, newest, now, none, 0, 0, 0)?;
            conn.flush()?;
        }
        Ok(())
    }
}

/// Sets the keys that may repeat, and changes nothing else.
fn set_repeating(conn: &RustConnection, keys: &[u8; 32]) -> Result<(), ConnectionError> {
    let mods = xproto::ModMask::default();
    let virtual_mods = xkb::VMod::default();
    let controls = xkb::BoolCtrl::default();
    let access_x = xkb::AXOption::default();
    conn.xkb_set_controls(
        CORE_KEYBOARD,
        mods,
        mods,
        mods,
        mods,
        virtual_mods,
        virtual_mods,
        virtual_mods,
        virtual_mods,
        0,
        0,
        access_x,
        controls,
        controls,
        xkb::Control::PER_KEY_REPEAT,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        controls,
        controls,
        access_x,
        access_x,
        keys,
    )?;
    Ok(())
}
