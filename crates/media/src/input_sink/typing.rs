//! Chooses the key that types a character, and the modifiers to change before this key is pressed.
//!
//! The choice depends only on the keyboard map and the keyboard state. This module presses nothing.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::keyboard::keymap::{COMMAND, Keymap, LOCK};

/// The X key codes of the typewriter keys of every PC keyboard, from the digit 1 to the key next to the left Shift.
/// They are the same in the `evdev` and the older `xfree86` set of key codes. Linux has more keys, such as the
/// parentheses of some keypads, but hardly any keyboard has those.
const TYPEWRITER: RangeInclusive<u8> = 10..=94;

/// The steps to type a character.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The X key code to press; `None` if no key of the map types the character, so that a binding
    /// is needed.
    pub keycode: Option<u8>,
    /// Modifier keys to press first.
    pub press: Vec<u8>,
    /// Held modifier keys to release first.
    pub lift: Vec<u8>,
}

/// The keyboard state before the steps.
pub struct Typing<'a> {
    /// The keyboard map.
    pub map: &'a Keymap,
    /// The effective modifiers of the server.
    pub mods: u8,
    /// The effective group (layout) of the server.
    pub group: u8,
    /// The X key codes that the sink holds.
    pub held: &'a BTreeSet<u8>,
    /// Whether the character belongs to a command (Ctrl+C). If so, its modifiers stay pressed, and
    /// Lock is ignored.
    pub command: bool,
}

impl Typing<'_> {
    /// Returns the steps that type `wanted` with the fewest side effects. `physical` is the key that the user pressed;
    /// it is preferred.
    #[must_use]
    pub fn plan(&self, wanted: char, physical: Option<u8>) -> Plan {
        // If the character does not belong to a command, a held right Alt is AltGr at the client, but may have a
        // different meaning here. Command modifiers are therefore released first.
        let (in_force, lift_always) = match self.command {
            true => (self.mods & !LOCK, 0),
            false => (self.mods, self.mods & COMMAND),
        };
        let as_it_is = |key: &u8| self.map.character(*key, in_force, self.group) == Some(wanted);
        if lift_always == 0
            && let Some(keycode) = physical.filter(as_it_is)
        {
            return Plan {
                keycode: Some(keycode),
                ..Plan::default()
            };
        }
        let ways = self.map.combinations(wanted, self.group).filter_map(|way| {
            let press = self.keys_for(way.mods & !in_force)?;
            let excess = in_force & way.mask & !way.mods;
            let lift = self.held_for(excess | lift_always)?;
            // A modifier that the key's type ignores may still change the character: Lock capitalises.
            let mods = (in_force | way.mods) & !(excess | lift_always);
            let typed = self.map.character(way.keycode, mods, self.group);
            (typed == Some(wanted)).then_some(())?;
            let other = physical != Some(way.keycode);
            // The keypad's keys are avoided, because applications treat them differently: with Shift and the keypad's
            // +, xterm changes its font.
            let symbol = self.map.symbol(way.keycode, mods, self.group);
            (!other || !symbol.is_some_and(is_keypad)).then_some(())?;
            // Programs that read keys by position, such as games and dosbox, may not support other keys.
            let unusual = other && !TYPEWRITER.contains(&way.keycode);
            // A key that is down would have to be released first, so a different key is preferred.
            let down = self.held.contains(&way.keycode);
            let cost = (unusual, press.len() + lift.len(), down, other);
            Some((
                cost,
                Plan {
                    keycode: Some(way.keycode),
                    press,
                    lift,
                },
            ))
        });
        let best = ways.min_by_key(|(cost, _)| *cost).map(|(_, plan)| plan);
        best.unwrap_or_else(|| Plan {
            // If the layout lacks the letter of a command, the physical key is used.
            keycode: physical.filter(|_| self.command),
            lift: self.held_for(lift_always).unwrap_or_default(),
            press: Vec::new(),
        })
    }

    /// Keys to press, one for each modifier of `mods`. `None` if a modifier has no such key.
    fn keys_for(&self, mods: u8) -> Option<Vec<u8>> {
        bits(mods).map(|bit| self.map.modifier_key(bit)).collect()
    }

    /// Held keys to release to clear `mods`. `None` if this sink holds no key for one of these modifiers. That modifier
    /// is then locked, or held by a user at the host.
    fn held_for(&self, mods: u8) -> Option<Vec<u8>> {
        let of = |key: &&u8| self.map.modifiers_of(**key) & mods != 0;
        let keys: Vec<u8> = self.held.iter().filter(of).copied().collect();
        let cleared = keys
            .iter()
            .fold(0, |all, key| all | self.map.modifiers_of(*key));
        (cleared & mods == mods).then_some(keys)
    }
}

/// `XK_KP_Space` to `XK_KP_Equal` of `keysymdef.h`.
fn is_keypad(symbol: u32) -> bool {
    (0xff80..=0xffbd).contains(&symbol)
}

fn bits(mods: u8) -> impl Iterator<Item = u8> {
    (0..8)
        .map(|bit| 1 << bit)
        .filter(move |bit| mods & bit != 0)
}
