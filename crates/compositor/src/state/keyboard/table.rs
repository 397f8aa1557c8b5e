//! Converts a keymap of libxkbcommon to a table, in which the keys that type a character are looked up.

use std::collections::BTreeMap;

use openuvr_media::keyboard::keymap::{Key, KeyType, Keymap};
use smithay::input::keyboard::{Keycode, xkb};

/// The table of a keymap's key codes up to 255. X11 applications support the same range.
pub(super) fn of(keymap: &xkb::Keymap) -> Keymap {
    let mut table = Keymap::default();
    // One state for each combination of the real modifiers, which are the lowest eight bits.
    let mut states: Vec<xkb::State> = Vec::new();
    for mods in 0..=u8::MAX {
        let mut state = xkb::State::new(keymap);
        state.update_mask(mods.into(), 0, 0, 0, 0, 0);
        states.push(state);
    }
    for code in codes(keymap) {
        let key = Keycode::new(code.into());
        let mut groups = Vec::new();
        for layout in 0..keymap.num_layouts_for_key(key).min(4) {
            let symbols: Vec<u32> = (0..keymap.num_levels_for_key(key, layout))
                .map(|level| {
                    // Several symbols at once do not type a single character.
                    match keymap.key_get_syms_by_level(key, layout, level) {
                        [symbol] => symbol.raw(),
                        _ => 0,
                    }
                })
                .collect();
            let kind = key_type(&states, key, layout);
            let known = table
                .types
                .iter()
                .position(|other| (other.mask, &other.levels) == (kind.mask, &kind.levels));
            let index = known.unwrap_or_else(|| {
                table.types.push(kind);
                table.types.len() - 1
            });
            if let Ok(index) = u8::try_from(index) {
                groups.push((index, symbols));
            }
        }
        let mut state = xkb::State::new(keymap);
        state.update_key(key, xkb::KeyDirection::Down);
        let mods = state
            .serialize_mods(xkb::STATE_MODS_DEPRESSED)
            .to_le_bytes()[0];
        if mods != 0 {
            table.modifiers.insert(code, mods);
        }
        table.keys.insert(
            code,
            Key {
                groups,
                ..Key::default()
            },
        );
    }
    table
}

/// The names of the key codes.
pub(super) fn names(keymap: &xkb::Keymap) -> BTreeMap<u8, String> {
    let name = |code: u8| {
        Some((
            code,
            keymap.key_get_name(Keycode::new(code.into()))?.to_owned(),
        ))
    };
    codes(keymap).filter_map(name).collect()
}

fn codes(keymap: &xkb::Keymap) -> impl Iterator<Item = u8> {
    let [first, last] = [keymap.min_keycode(), keymap.max_keycode()].map(Keycode::raw);
    let limited = |code: u32| u8::try_from(code).unwrap_or(u8::MAX);
    limited(first)..=limited(last)
}

/// How modifiers select a level of a key. A modifier is relevant if it changes the level in at least one combination.
fn key_type(states: &[xkb::State], key: Keycode, layout: u32) -> KeyType {
    let level = |mods: usize| {
        states
            .get(mods)
            .map_or(0, |state| state.key_get_level(key, layout))
    };
    let all: Vec<u32> = (0..states.len()).map(level).collect();
    let matters = |bit: &u8| (0..all.len()).any(|mods| all[mods] != all[mods ^ (1 << bit)]);
    let mask = (0..8).filter(matters).fold(0, |mask, bit| mask | 1 << bit);
    let levels = (0..=u8::MAX).filter(|mods| mods & !mask == 0);
    let levels = levels.filter_map(|mods| {
        let level = u8::try_from(all[usize::from(mods)]).ok()?;
        (level != 0).then_some((mods, level))
    });
    KeyType {
        mask,
        levels: levels.collect(),
    }
}

#[cfg(test)]
mod tests {
    use openuvr_media::keyboard::keymap::SHIFT;

    use super::*;

    fn layout(name: &str) -> Keymap {
        let context = xkb::Context::new(xkb::CONTEXT_NO_FLAGS);
        let flags = xkb::KEYMAP_COMPILE_NO_FLAGS;
        let keymap = xkb::Keymap::new_from_names(&context, "evdev", "pc105", name, "", None, flags);
        of(&keymap.expect("xkb-data is installed"))
    }

    #[test]
    fn levels_and_modifiers_are_those_of_the_layout() {
        let us = layout("us");
        // KEY_Q, KEY_2
        assert_eq!(us.character(24, 0, 0), Some('q'));
        assert_eq!(us.character(24, SHIFT, 0), Some('Q'));
        assert_eq!(us.character(11, SHIFT, 0), Some('@'));
        assert_eq!(us.modifier_key(SHIFT), Some(50), "the left Shift");
        let de = layout("de");
        assert_eq!(de.character(29, 0, 0), Some('z'), "KEY_Y");
        let at: Vec<_> = de.combinations('@', 0).collect();
        assert!(
            at.iter().any(|way| way.keycode == 24 && way.mods != 0),
            "AltGr and Q: {at:?}"
        );
        assert!(
            us.unused().count() > 8,
            "{:?}",
            us.unused().collect::<Vec<_>>()
        );
    }
}
