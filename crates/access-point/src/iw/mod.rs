//! The output of `iw`, which queries the kernel through nl80211.
//!
//! The manual of `iw` warns against parsing the output, because it changes between versions. These parsers read the
//! forms of versions 5.9 to 6.9, and skip lines in other forms. Not all of the text comes from the kernel: a scan
//! repeats texts that networks send, and prints some of them unchanged, with line breaks. A network can therefore fake
//! any result of the scan. With forged beacons, it could do so anyway. Scan results affect only the order of the
//! channels, and the number of results is limited.
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

/// The first word after `key`, if the line begins with `key`.
fn word_behind<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.split_whitespace().next()
}
