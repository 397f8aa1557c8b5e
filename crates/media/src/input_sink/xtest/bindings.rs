//! Unused key codes bound to characters that no key of the layout types.
//!
//! Some clients read the map when they are notified of a change, others only when the key arrives. Therefore, a binding
//! is kept as long as possible: key codes are used in rotation, and bindings are removed only when the sink is dropped.

use std::collections::{BTreeSet, VecDeque};

use x11rb::errors::ConnectionError;
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use crate::keyboard::keymap::{Keymap, symbol_of};

/// The bindings of a sink, oldest first.
#[derive(Debug, Default)]
pub(super) struct Bindings(VecDeque<(u8, char)>);

impl Bindings {
    /// Binds `wanted` to an unused key code or, if all are used, replaces the oldest binding that is not `held`. `None`
    /// if neither is possible.
    pub(super) fn bind(
        &mut self,
        conn: &RustConnection,
        map: &Keymap,
        held: &BTreeSet<u8>,
        wanted: char,
    ) -> Result<Option<u8>, ConnectionError> {
        let oldest = || {
            self.0
                .iter()
                .position(|(keycode, _)| !held.contains(keycode))
        };
        let keycode = match map.unused().find(|keycode| !held.contains(keycode)) {
            Some(unused) => unused,
            None => match oldest().and_then(|at| self.0.remove(at)) {
                Some((keycode, _)) => keycode,
                None => return Ok(None),
            },
        };
        // The same symbol with and without Shift, so that the modifier state is irrelevant.
        let symbol = symbol_of(wanted);
        conn.change_keyboard_mapping(1, keycode, 2, &[symbol, symbol])?;
        self.0.push_back((keycode, wanted));
        Ok(Some(keycode))
    }

    /// Discards bindings that another client's change of the map has removed.
    pub(super) fn keep_those_in(&mut self, map: &Keymap) {
        self.0
            .retain(|(keycode, ch)| map.symbol(*keycode, 0, 0) == Some(symbol_of(*ch)));
    }

    /// Removes the bindings.
    pub(super) fn restore(&mut self, conn: &RustConnection) -> Result<(), ConnectionError> {
        for (keycode, _) in self.0.drain(..) {
            conn.change_keyboard_mapping(1, keycode, 1, &[x11rb::NO_SYMBOL])?;
        }
        Ok(())
    }
}
