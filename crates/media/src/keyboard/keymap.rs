//! An XKB keyboard map: symbols, levels and types, without I/O.
//!
//! Module `load` reads it from a server.
//!
//! Spec: XKB protocol, section 12.2 (from key code and state to key symbol).

use std::collections::BTreeMap;

/// Modifier bits of core X: Shift.
pub const SHIFT: u8 = 1 << 0;
/// Caps Lock.
pub const LOCK: u8 = 1 << 1;
/// Control.
pub const CONTROL: u8 = 1 << 2;
/// Alt by convention.
pub const MOD1: u8 = 1 << 3;
/// Super by convention.
pub const MOD4: u8 = 1 << 6;
/// Modifiers of commands.
pub const COMMAND: u8 = CONTROL | MOD1 | MOD4;

/// Symbols of keys that select a level while held: both Shifts, `ISO_Level3_Shift`, `ISO_Level5_Shift` (`keysymdef.h`).
/// Locks are excluded. `Mode_switch` is also excluded: it changes the group, although the modifier map lists it with
/// the third level.
const HOLDING: &[u32] = &[0xffe1, 0xffe2, 0xfe03, 0xfe11];

/// How modifiers select a level.
#[derive(Clone, Debug, Default)]
pub struct KeyType {
    /// The relevant modifiers.
    pub mask: u8,
    /// Exact combinations of these modifiers, each with the level (0-based) that it selects. All other combinations
    /// select level 0.
    pub levels: Vec<(u8, u8)>,
}

/// A key's symbols.
#[derive(Clone, Debug, Default)]
pub struct Key {
    /// For each group (at most 4), the index of its type, and its symbols by level. Symbol 0 means no symbol.
    pub groups: Vec<(u8, Vec<u32>)>,
    /// Handling of missing groups (XKB section 7.2.1).
    pub out_of_range: OutOfRange,
}

/// Handling of a group number that a key lacks.
#[derive(Clone, Copy, Debug, Default)]
pub enum OutOfRange {
    /// The number wraps around to the first group.
    #[default]
    Wrap,
    /// Uses the last group.
    Clamp,
    /// Uses this group.
    Redirect(u8),
}

/// A keyboard's map at one time.
#[derive(Clone, Debug, Default)]
pub struct Keymap {
    /// Key types by number.
    pub types: Vec<KeyType>,
    /// Keys by X key code.
    pub keys: BTreeMap<u8, Key>,
    /// The modifiers set by each key, by X key code.
    pub modifiers: BTreeMap<u8, u8>,
}

/// A key combination that types a character.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyCombination {
    /// The X key code to press.
    pub keycode: u8,
    /// The modifiers that the key's type uses.
    pub mask: u8,
    /// The modifiers of `mask` that must be held; the other modifiers of `mask` must not be held.
    pub mods: u8,
}

impl Keymap {
    /// The symbol of `keycode` with the modifiers `mods` in `group`; `None` if there is none.
    #[must_use]
    pub fn symbol(&self, keycode: u8, mods: u8, group: u8) -> Option<u32> {
        let (kind, symbols) = self.group(keycode, group)?;
        let held = mods & kind.mask;
        let level = kind
            .levels
            .iter()
            .find(|(m, _)| *m == held)
            .map_or(0, |(_, level)| *level);
        symbols
            .get(usize::from(level))
            .copied()
            .filter(|symbol| *symbol != 0)
    }

    /// The character of `keycode`; `None` for other keys (arrows, dead keys).
    #[must_use]
    pub fn character(&self, keycode: u8, mods: u8, group: u8) -> Option<char> {
        let typed = character_of(self.symbol(keycode, mods, group)?)?;
        let (kind, _) = self.group(keycode, group)?;
        // Section 12.4: Lock capitalises if the key's type ignores Lock.
        if mods & LOCK != 0 && kind.mask & LOCK == 0 {
            let mut upper = typed.to_uppercase();
            if let (Some(single), None) = (upper.next(), upper.next()) {
                return Some(single);
            }
        }
        Some(typed)
    }

    /// All combinations that type `wanted` in `group`, by key code.
    pub fn combinations(
        &self,
        wanted: char,
        group: u8,
    ) -> impl Iterator<Item = KeyCombination> + '_ {
        self.keys.keys().flat_map(move |&keycode| {
            let group_of_key = self.group(keycode, group);
            let types_it = group_of_key.is_some_and(|(_, symbols)| {
                symbols
                    .iter()
                    .any(|symbol| character_of(*symbol) == Some(wanted))
            });
            let mask = group_of_key.filter(|_| types_it).map(|(kind, _)| kind.mask);
            mask.into_iter()
                .flat_map(subsets)
                .filter_map(move |(mask, mods)| {
                    let typed = self.character(keycode, mods, group);
                    (typed == Some(wanted)).then_some(KeyCombination {
                        keycode,
                        mask,
                        mods,
                    })
                })
        })
    }

    /// Key codes without a symbol or modifier, which can be bound.
    pub fn unused(&self) -> impl Iterator<Item = u8> + '_ {
        let blank = |key: &Key| key.groups.iter().all(|(_, s)| s.iter().all(|s| *s == 0));
        let plain = |code: &u8| self.modifiers.get(code).is_none_or(|mods| *mods == 0);
        self.keys
            .iter()
            .filter(move |(_, key)| blank(key))
            .map(|(code, _)| *code)
            .filter(plain)
    }

    /// The modifiers that `keycode` sets while held. A key that selects a level but is not in the modifier map (right
    /// Alt as `ISO_Level3_Shift`) has the modifiers of those keys in the map that have the same symbol.
    #[must_use]
    pub fn modifiers_of(&self, keycode: u8) -> u8 {
        let own = self.modifiers.get(&keycode).copied().unwrap_or(0);
        let Some(symbol) = self.symbol(keycode, 0, 0).filter(|_| own == 0) else {
            return own;
        };
        if !HOLDING.contains(&symbol) {
            return 0;
        }
        let namesakes = self
            .modifiers
            .iter()
            .filter(|(code, _)| self.symbol(**code, 0, 0) == Some(symbol));
        namesakes.fold(0, |all, (_, mods)| all | mods)
    }

    /// A key that sets the modifier `bit` while held and has no other effect.
    #[must_use]
    pub fn modifier_key(&self, bit: u8) -> Option<u8> {
        let holds = |code: u8| {
            self.symbol(code, 0, 0)
                .is_some_and(|s| HOLDING.contains(&s))
        };
        let exact = |(code, mods): (&u8, &u8)| (*mods == bit && holds(*code)).then_some(*code);
        let code = self.modifiers.iter().find_map(exact)?;
        // The modifier map lists a virtual key for the third level, and AltGr acts as that key. AltGr is preferred,
        // because programs that read keys by position, such as wine, support only AltGr.
        let listed = |code: u8| self.modifiers.get(&code).is_some_and(|mods| *mods != 0);
        let symbol = self.symbol(code, 0, 0);
        let real = |other: &u8| !listed(*other) && self.symbol(*other, 0, 0) == symbol;
        Some(self.keys.keys().copied().find(real).unwrap_or(code))
    }

    fn group(&self, keycode: u8, group: u8) -> Option<(&KeyType, &[u32])> {
        let key = self.keys.get(&keycode)?;
        let count = u8::try_from(key.groups.len())
            .ok()
            .filter(|count| *count > 0)?;
        let group = match key.out_of_range {
            _ if group < count => group,
            OutOfRange::Wrap => group % count,
            OutOfRange::Clamp => count - 1,
            OutOfRange::Redirect(to) => {
                if to < count {
                    to
                } else {
                    0
                }
            }
        };
        let (kind, symbols) = &key.groups[usize::from(group)];
        Some((self.types.get(usize::from(*kind))?, symbols))
    }
}

/// Each subset of the modifiers `mask`, paired with `mask`.
fn subsets(mask: u8) -> impl Iterator<Item = (u8, u8)> {
    (0..=mask)
        .filter(move |mods| mods & !mask == 0)
        .map(move |mods| (mask, mods))
}

/// The character of a key symbol; `None` for function keys, dead keys and controls.
#[must_use]
pub fn character_of(symbol: u32) -> Option<char> {
    xkeysym::Keysym::new(symbol)
        .key_char()
        .filter(|ch| !ch.is_control())
}

/// The key symbol of a character: the legacy symbol if there is one, otherwise the symbol derived from Unicode.
#[must_use]
pub fn symbol_of(ch: char) -> u32 {
    xkeysym::Keysym::from_char(ch).raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_key() -> Keymap {
        let types = vec![KeyType {
            mask: SHIFT | LOCK,
            levels: vec![(SHIFT, 1), (LOCK, 1)],
        }];
        let key = Key {
            groups: vec![(0, vec![0x61, 0x41])],
            ..Key::default()
        };
        let keys = BTreeMap::from([(38, key), (93, Key::default())]);
        Keymap {
            types,
            keys,
            modifiers: BTreeMap::new(),
        }
    }

    #[test]
    fn levels_follow_the_type() {
        let map = one_key();
        assert_eq!(map.character(38, 0, 0), Some('a'));
        assert_eq!(
            map.character(38, SHIFT, 3),
            Some('A'),
            "a missing group wraps"
        );
        assert_eq!(
            map.character(38, SHIFT | LOCK, 0),
            Some('a'),
            "no such combination: level 0"
        );
        assert_eq!(map.character(39, 0, 0), None);
        let mods = |wanted| {
            map.combinations(wanted, 0)
                .map(|way| way.mods)
                .collect::<Vec<u8>>()
        };
        assert_eq!(mods('A'), [SHIFT, LOCK]);
        assert_eq!(mods('a'), [0, SHIFT | LOCK]);
        assert_eq!(map.unused().collect::<Vec<_>>(), [93]);
    }

    #[test]
    fn symbols_and_characters() {
        assert_eq!(character_of(0x20ac), Some('\u{20ac}'), "EuroSign");
        assert_eq!(character_of(0xfe52), None, "dead_circumflex");
        assert_eq!(character_of(0xff0d), None, "Return");
        assert_eq!(character_of(0xffb7), Some('7'), "KP_7");
        assert_eq!(character_of(symbol_of('\u{6f22}')), Some('\u{6f22}'));
    }
}
