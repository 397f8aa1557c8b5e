//! The server's repeat of the key that was pressed last: stopped while nothing is heard of the person who
//! holds it, and begun anew.
//!
//! A server repeats one key, the newest that was pressed. It stops when that key is taken out of those that
//! may repeat, and stays so when it is put back at once: nothing else of the keyboard changes, nor anything
//! that stays if the host is killed. A key that is pressed although it is down is no event to clients, but
//! the server begins to wait for its repeat.
//!
//! Spec: XKB protocol, section 10.2 (`PerKeyRepeat`). That the repeat stops and begins so is what X.Org's
//! server does (`ProcXkbSetControls`, `AccessXFilterPressEvent`).

use x11rb::connection::Connection as _;
use x11rb::errors::{ConnectionError, ReplyError};
use x11rb::protocol::xkb::{self, ConnectionExt as _};
use x11rb::protocol::xproto;
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use crate::keyboard::CORE_KEYBOARD;

/// The repeat of what a sink pressed.
#[derive(Debug, Default)]
pub(super) struct Repeat {
    /// The key that the server may repeat, by X key code.
    newest: Option<u8>,
    stopped: bool,
}

impl Repeat {
    /// This key went down.
    pub(super) fn pressed(&mut self, keycode: u8) {
        *self = Repeat {
            newest: Some(keycode),
            stopped: false,
        };
    }

    /// This key goes up.
    pub(super) fn released(&mut self, keycode: u8) {
        self.newest.take_if(|newest| *newest == keycode);
    }

    /// The key that is down repeats no more.
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

    /// The key that was stopped, and is down still, repeats after the usual delay.
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

/// Says which keys may repeat; changes nothing else.
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
