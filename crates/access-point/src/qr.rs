//! A QR code as text: two modules per character.
//!
//! Spec: ISO/IEC 18004:2015, 6.3.8 (a quiet zone of four modules on each side).

use qrcode::{Color, QrCode};

/// The width of the quiet zone in modules.
const QUIET: usize = 4;

/// The colours of the code, independent of the terminal's colours: black characters on white.
const COLOURS: &str = "\x1b[30;107m";

/// Restores the terminal's colours.
const PLAIN: &str = "\x1b[0m";

/// The code of `text` in lines of half blocks; `None` if the text is too long for any code. With `colours`, dark
/// modules are black blocks on white, which suits every terminal. Otherwise, light modules are blocks in the colour of
/// the text, which suits only a dark terminal.
#[must_use]
pub(crate) fn lines(text: &str, colours: bool) -> Option<Vec<String>> {
    let code = QrCode::new(text).ok()?;
    let (modules, width) = (code.to_colors(), code.width());
    let dark = |x: usize, y: usize| {
        let inside = |at: usize| at.checked_sub(QUIET).filter(|at| *at < width);
        let module = inside(x).zip(inside(y));
        module.is_some_and(|(x, y)| modules.get(y * width + x) == Some(&Color::Dark))
    };
    let side = width + 2 * QUIET;
    let row = |y: usize| {
        let characters = (0..side).map(|x| {
            // Positions below the last row count as light, like the quiet zone.
            let (upper, lower) = (dark(x, y), dark(x, y + 1));
            match (upper == colours, lower == colours) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            }
        });
        let characters: String = characters.collect();
        match colours {
            true => format!("{COLOURS}{characters}{PLAIN}"),
            false => characters,
        }
    };
    Some((0..side).step_by(2).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modules of lines without colours: `true` is dark.
    fn modules(lines: &[String]) -> Vec<Vec<bool>> {
        let rows = lines.iter().flat_map(|line| {
            let half = |upper: bool| {
                let lit = if upper {
                    ['█', '▀']
                } else {
                    ['█', '▄']
                };
                line.chars().map(|c| !lit.contains(&c)).collect()
            };
            [half(true), half(false)]
        });
        rows.collect()
    }

    #[test]
    fn a_code_has_its_three_finders_and_a_quiet_zone() {
        let rows = modules(&lines("WIFI:T:SAE;S:desk;P:12345678;;", false).unwrap());
        let side = rows[0].len();
        assert!(rows.len() - side <= 1);
        // A finder is a dark square with sides of 7 modules. It contains a light square of 5 modules, which contains a
        // dark one of 3.
        for (left, top) in [(4, 4), (side - 11, 4), (4, side - 11)] {
            for n in 0..7 {
                assert!(rows[top][left + n] && rows[top + 6][left + n]);
                assert_eq!(rows[top + 1][left + n], n == 0 || n == 6);
                assert_eq!(rows[top + 3][left + n], n != 1 && n != 5);
            }
        }
        let quiet = |row: &Vec<bool>| row.iter().all(|dark| !dark);
        assert!(rows[..4].iter().all(quiet) && !quiet(&rows[4]));
    }

    #[test]
    fn colours_invert_the_characters_and_end_on_each_line() {
        let plain = lines("a", false).unwrap();
        let coloured = lines("a", true).unwrap();
        for (plain, coloured) in plain.iter().zip(&coloured) {
            let characters = coloured.strip_prefix(COLOURS).unwrap();
            let characters = characters.strip_suffix(PLAIN).unwrap();
            assert_eq!(characters.chars().count(), plain.chars().count());
            let lit = |text: &str| text.chars().filter(|c| *c == '█').count();
            let unlit = |text: &str| text.chars().filter(|c| *c == ' ').count();
            assert_eq!(lit(plain), unlit(characters));
        }
    }

    #[test]
    fn the_longest_credentials_have_a_code() {
        let text = format!("WIFI:T:SAE;S:{};P:{};;", "\\;".repeat(32), "\\;".repeat(63));
        assert!(lines(&text, false).is_some());
        assert_eq!(lines(&"x".repeat(10_000), false), None);
    }
}
