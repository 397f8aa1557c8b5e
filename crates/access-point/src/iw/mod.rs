//! The output of `iw`, which asks the kernel by nl80211.
//!
//! Its manual calls the output unfit for parsing, since it changes between versions; the forms of versions 5.9 to 6.9 are
//! read. Lines without a known form are skipped. Not all text is the kernel's: a scan repeats texts of networks, and
//! prints some of them as they are, with line breaks. A network can therefore claim any result of the scan, which
//! it could by forged beacons as well; results only order the channels, and are limited in number.
//!
//! The alternative, nl80211 by netlink, is weighed in `docs/adr/0028-access-point.md`.

pub mod channels;
pub mod interfaces;
pub mod phy;
pub mod regulatory;
pub mod scan;
pub mod survey;

use crate::channel::Frequency;

/// A frequency with or without decimals: `5180`, `5180.0`.
fn frequency(text: &str) -> Option<Frequency> {
    let whole = text.split('.').next()?;
    whole.parse().ok().map(Frequency)
}

/// The first word behind `key`, if the line begins with it.
fn word_behind<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.split_whitespace().next()
}
