//! `iw reg get`: the country whose rules apply, and the rules.
//!
//! ```text
//! global
//! country DE: DFS-ETSI
//!         (5150 - 5250 @ 80), (N/A, 23), (N/A), NO-OUTDOOR, AUTO-BW
//!
//! phy#0 (self-managed)
//! country US: DFS-FCC
//!         (5170 - 5250 @ 80), (N/A, 23), (N/A), AUTO-BW
//! ```
//! The global rules apply to most cards. If the firmware of a card sets the country, the output has a separate section
//! for this card.

use std::fmt;
use std::str::FromStr;

/// Maximum number of lines that are read. A country has about ten rules, and a card with its own rules has about 60,
/// one per line.
const MAX_RULES: usize = 512;

/// A country: two capital letters (ISO 3166-1), or `00`, `98` or `99` for none or several.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Country([u8; 2]);

impl Country {
    /// No country: the rules that apply everywhere.
    pub const WORLD: Country = Country(*b"00");

    /// Whether the value names a single country.
    #[must_use]
    pub fn is_one(self) -> bool {
        self.0.iter().all(u8::is_ascii_uppercase)
    }
}

impl FromStr for Country {
    type Err = String;

    fn from_str(text: &str) -> Result<Country, String> {
        let bytes: Option<[u8; 2]> = text.as_bytes().try_into().ok();
        let valid = |bytes: &[u8; 2]| {
            bytes.iter().all(u8::is_ascii_uppercase) || bytes.iter().all(u8::is_ascii_digit)
        };
        let country = bytes.filter(valid).map(Country);
        country.ok_or_else(|| "expected two capital letters, such as DE".to_owned())
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", char::from(self.0[0]), char::from(self.0[1]))
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The rules of a country.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// The index of the card to which these rules apply; `None` for the global rules, which apply to all other cards.
    pub phy: Option<u32>,
    /// Whether the card selects the country itself.
    pub self_managed: bool,
    /// The country.
    pub country: Country,
    /// The ranges of frequencies in MHz that are for indoor use only.
    pub indoors: Vec<(u32, u32)>,
}

impl Domain {
    /// Whether a range of frequencies in MHz is for indoor use only, at least partly.
    #[must_use]
    pub fn is_indoors(&self, (low, high): (u32, u32)) -> bool {
        (self.indoors.iter()).any(|(start, end)| *start < high && low < *end)
    }
}

/// Reads the rules, in the order of the output: the global rules first.
#[must_use]
pub fn parse(text: &str) -> Vec<Domain> {
    let mut domains: Vec<Domain> = Vec::new();
    let (mut phy, mut self_managed) = (None, false);
    let mut rules = 0;
    for line in text.lines() {
        if line == "global" {
            (phy, self_managed) = (None, false);
        } else if let Some(rest) = line.strip_prefix("phy#") {
            let index = rest.split_whitespace().next();
            phy = index.and_then(|index| index.parse().ok());
            self_managed = rest.contains("(self-managed)");
        } else if let Some(rest) = line.strip_prefix("country ") {
            let country = rest.split(':').next().unwrap_or_default();
            if let Ok(country) = country.parse() {
                domains.push(Domain {
                    phy,
                    self_managed,
                    country,
                    indoors: Vec::new(),
                });
            }
        } else if let (Some(domain), Some(range)) = (domains.last_mut(), indoor_range(line)) {
            domain.indoors.push(range);
        }
        rules += 1;
        if rules >= MAX_RULES {
            break;
        }
    }
    domains
}

/// The rules that apply to the card with this index.
#[must_use]
pub fn of_card(domains: &[Domain], phy: u32) -> Option<&Domain> {
    let own = domains.iter().find(|domain| domain.phy == Some(phy));
    own.or_else(|| domains.iter().find(|domain| domain.phy.is_none()))
}

/// The country of the global rules, which `iw reg set` changes.
#[must_use]
pub fn global_country(domains: &[Domain]) -> Country {
    let global = domains.iter().find(|domain| domain.phy.is_none());
    global.map_or(Country::WORLD, |domain| domain.country)
}

/// The range of a rule for indoor use, such as `(5150 - 5250 @ 80), (N/A, 23), (N/A), NO-OUTDOOR`.
fn indoor_range(line: &str) -> Option<(u32, u32)> {
    let flags = line.split(',').map(str::trim);
    flags.into_iter().find(|flag| *flag == "NO-OUTDOOR")?;
    let range = line.trim().strip_prefix('(')?.split_once(" @ ")?.0;
    let (low, high) = range.split_once(" - ")?;
    Some((low.parse().ok()?, high.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "global\ncountry DE: DFS-ETSI\n\t(2400 - 2483 @ 40), (N/A, 20), (N/A)\n\
        \t(5150 - 5250 @ 80), (N/A, 23), (N/A), NO-OUTDOOR, AUTO-BW\n\
        \t(5470 - 5725 @ 160), (N/A, 26), (0 ms), DFS\n\nphy#1 (self-managed)\ncountry US: DFS-FCC\n\
        \t(5170 - 5250 @ 80), (6, 22), (N/A), AUTO-BW\n";

    #[test]
    fn a_card_has_its_own_country_or_that_of_all() {
        let all = parse(TEXT);
        assert_eq!(all.len(), 2);
        let (first, second) = (of_card(&all, 0).unwrap(), of_card(&all, 1).unwrap());
        assert_eq!(first.country.to_string(), "DE");
        assert!(first.is_indoors((5170, 5250)) && !first.is_indoors((5490, 5570)));
        assert_eq!(
            (second.country.to_string().as_str(), second.self_managed),
            ("US", true)
        );
        assert_eq!(of_card(&[], 0), None);
        assert_eq!(global_country(&all).to_string(), "DE");
        assert_eq!(global_country(&all[1..]), Country::WORLD);
    }

    #[test]
    fn countries_have_two_capital_letters() {
        let country = |text: &str| text.parse::<Country>();
        assert!(country("DE").unwrap().is_one() && !country("00").unwrap().is_one());
        for text in ["", "D", "de", "DEU", "D1", "é"] {
            assert!(country(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(country [A-Z0-9]{1,3}:\n|phy#[0-9]{1,12}\n|\t\\PC{0,40}\n){0,60}") {
            prop_assert!(parse(&text).len() <= MAX_RULES);
        }
    }
}
