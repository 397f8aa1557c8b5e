//! Key symbols by the names in compose tables.
//!
//! Source: `keysymdef.h`.

use std::collections::HashMap;

use super::super::keymap::symbol_of;

/// Alternative names of symbols.
const ALIASES: &[(&str, u32)] = &[
    ("quoteright", 0x27),
    ("quoteleft", 0x60),
    ("dead_perispomeni", 0xfe53),
    ("dead_psili", 0xfe64),
    ("dead_dasia", 0xfe65),
    ("Greek_IOTAdiaeresis", 0x7a5),
    ("guillemotleft", 0xab),
    ("guillemotright", 0xbb),
    ("guillemetleft", 0xab),
    ("guillemetright", 0xbb),
    ("masculine", 0xba),
    ("ordmasculine", 0xba),
    ("Ooblique", 0xd8),
    ("Oslash", 0xd8),
    ("oslash", 0xf8),
    ("ooblique", 0xf8),
];

/// All names in use.
pub(super) struct Names(HashMap<&'static str, u32>);

impl Names {
    pub(super) fn new() -> Names {
        // First the legacy symbols, then some hundred Unicode symbols with names.
        let all = (0..=0xffff).chain(0x0100_0000..=0x0100_2fff);
        let named = all.filter_map(|raw| {
            let name = xkeysym::Keysym::new(raw).name()?;
            Some((name.strip_prefix("XK_").unwrap_or(name), raw))
        });
        Names(named.chain(ALIASES.iter().copied()).collect())
    }

    /// The symbol of a name: `dead_grave`, `a`, or `U2260`.
    pub(super) fn symbol(&self, name: &str) -> Option<u32> {
        if let Some(symbol) = self.0.get(name) {
            return Some(*symbol);
        }
        let digits = name.strip_prefix('U').filter(|digits| digits.len() >= 4)?;
        let code = u32::from_str_radix(digits, 16).ok()?;
        char::from_u32(code).map(symbol_of)
    }
}
