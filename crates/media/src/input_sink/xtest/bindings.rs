//! Unused key codes that were given a character which no key of the layout types.
//!
//! Clients read the map when they are told that it changed, some only when the key arrives. So a
//! binding stays as long as possible: key codes are taken in turn, and what was bound is given
//! back only at the end.

use std::collections::{BTreeSet, VecDeque};

use x11rb::errors::ConnectionError;
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use crate::keyboard::keymap::{Keymap, symbol_of};

/// The bindings of one sink, oldest first.
#[derive(Debug, Default)]
pub(super) struct Bindings(VecDeque<(u8, char)>);

impl Bindings {
    /// Binds `wanted` to an unused key code or, where all are in use, in place of the oldest
    /// binding that is not `held`. `None` if there is no such key code.
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
        // The same symbol with and without Shift: what is held doesn't matter.
        let symbol = symbol_of(wanted);
        conn.change_keyboard_mapping(1, keycode, 2, &[symbol, symbol])?;
        self.0.push_back((keycode, wanted));
        Ok(Some(keycode))
    }

    /// Forgets what someone else's change of the map has removed.
    pub(super) fn keep_those_in(&mut self, map: &Keymap) {
        self.0
            .retain(|(keycode, ch)| map.symbol(*keycode, 0, 0) == Some(symbol_of(*ch)));
    }

    /// Gives the key codes back.
    pub(super) fn restore(&mut self, conn: &RustConnection) -> Result<(), ConnectionError> {
        for (keycode, _) in self.0.drain(..) {
            conn.change_keyboard_mapping(1, keycode, 1, &[x11rb::NO_SYMBOL])?;
        }
        Ok(())
    }
}
