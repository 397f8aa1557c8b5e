//! The output of `iw`, which queries the kernel through nl80211.
//!
//! Its manual warns against parsing the output, because it changes between versions; the forms of versions 5.9 to 6.9 are
//! read. Lines without a known form are skipped. Not all of the text comes from the kernel: a scan repeats texts of
//! networks, and prints some of them unchanged, with line breaks. A network can therefore fake any result of the scan, which
//! it could with forged beacons as well. Results only order the channels, and are limited in number.
//!
//! `docs/adr/0028-access-point.md` discusses the alternative, nl80211 through netlink.

pub mod channels;
pub mod interfaces;
pub mod phy;
pub mod regulatory;
pub mod scan;
pub mod survey;

use crate::channel::Frequency;

/// A frequency with or without decimals, such as `5180` or `5180.0`.
fn frequency(text: &str) -> Option<Frequency> {
    let whole = text.split('.').next()?;
    whole.parse().ok().map(Frequency)
}

/// The first word after `key`, if the line begins with it.
fn word_behind<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.split_whitespace().next()
}
