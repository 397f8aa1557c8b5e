//! Device cookies (OWASP, "Device Cookies"). A browser that has logged in before presents its device cookie. Password
//! guesses by unknown clients then cannot prevent a log-in from this browser.
//!
//! The cookie does not grant access. It has an entry for each of the last four accounts that logged in with the
//! browser: an id, an expiry time, and a MAC over the id, the time and the account's name. The portal does not store
//! the cookie.

use std::fmt::Write as _;

use aws_lc_rs::hmac;

use super::Secret;
use super::secret::hex;
use crate::store::{Store, StoreError, now};

/// Name of the key in the database.
const KEY: &str = "devices";

/// How long a browser stays known after a log-in, in seconds: half a year (a guess).
pub(crate) const LIFE: u32 = 180 * 24 * 3600;

/// Maximum number of accounts per browser: enough for a family (a guess).
const ACCOUNTS: usize = 4;

/// Length in characters of an entry's id and of its MAC: 128 and 256 bits.
const ID: usize = 32;
const MAC: usize = 64;

/// Domain separation of the MAC.
const DOMAIN: &str = "openuvr-device";

/// Creates and verifies device cookies.
pub(crate) struct Devices {
    key: hmac::Key,
}

impl Devices {
    /// Uses the key from the database, and creates the key if it is missing.
    pub(crate) async fn open(store: &Store) -> Result<Devices, StoreError> {
        let kept = store.key(KEY, &Secret::random().text()).await?;
        Ok(Devices::with_key(kept.as_bytes()))
    }

    pub(crate) fn with_key(key: &[u8]) -> Devices {
        Devices {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
        }
    }

    /// The browser's id for this account, if the browser has logged in to the account within [`LIFE`].
    pub(crate) fn read(&self, cookie: Option<&str>, name: &str) -> Option<String> {
        let now = now();
        let entries = cookie?.split('~').take(ACCOUNTS);
        let mut known = entries.filter_map(|entry| self.id(entry, name, now));
        known.next().map(str::to_owned)
    }

    /// The new cookie of a browser that logs in to this account. `cookie` is its current cookie.
    pub(crate) fn written(&self, cookie: Option<&str>, name: &str) -> String {
        let now = now();
        let mut written = self.entry(name, now + i64::from(LIFE));
        let entries = cookie.unwrap_or_default().split('~').take(ACCOUNTS);
        let others = entries.filter(|entry| is_entry(entry) && self.id(entry, name, now).is_none());
        for entry in others.take(ACCOUNTS - 1) {
            // Writing to a string cannot fail.
            let _ = write!(written, "~{entry}");
        }
        written
    }

    fn entry(&self, name: &str, until: i64) -> String {
        let id = &Secret::random().text()[..ID];
        let mac = hmac::sign(&self.key, &signed(name, id, until));
        format!("{id}.{until}.{}", hex(mac.as_ref()))
    }

    fn id<'a>(&self, entry: &'a str, name: &str, now: i64) -> Option<&'a str> {
        let (id, rest) = entry.split_once('.')?;
        let (until, mac) = rest.split_once('.')?;
        let until: i64 = until.parse().ok()?;
        let mac = unhex(mac)?;
        let right = hmac::verify(&self.key, &signed(name, id, until), &mac).is_ok();
        (right && until >= now).then_some(id)
    }
}

/// The input of the MAC. Id and time contain no zero byte, so the fields are unambiguous.
fn signed(name: &str, id: &str, until: i64) -> Vec<u8> {
    format!("{DOMAIN}\0{id}\0{until}\0{name}").into_bytes()
}

/// Whether the entry is well-formed. The portal sends a browser's entries back to the browser, so it accepts only
/// well-formed ones.
fn is_entry(text: &str) -> bool {
    let length = 1..=ID + MAC + 24;
    length.contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'.')
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() != MAC || !text.is_ascii() {
        return None;
    }
    let pairs = (0..MAC).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_lists_the_browsers_accounts() {
        let devices = Devices::with_key(b"key");
        let cookie = devices.written(None, "ada");
        assert!(devices.read(Some(&cookie), "ada").is_some());
        assert_eq!(devices.read(Some(&cookie), "eve"), None);
        assert_eq!(devices.read(None, "ada"), None);
        let cookie = devices.written(Some(&cookie), "eve");
        assert!(devices.read(Some(&cookie), "ada").is_some());
        assert!(devices.read(Some(&cookie), "eve").is_some());
        assert_eq!(devices.written(Some(&cookie), "eve").split('~').count(), 2);
    }

    #[test]
    fn forged_and_old_cookies_are_rejected() {
        let (own, other) = (Devices::with_key(b"key"), Devices::with_key(b"another"));
        assert_eq!(own.read(Some(&other.written(None, "ada")), "ada"), None);
        let old = own.entry("ada", now() - 1);
        assert_eq!(own.read(Some(&old), "ada"), None);
        let cookie = own.written(None, "ada");
        let longer = cookie.replacen('.', ".9", 1);
        assert_eq!(own.read(Some(&longer), "ada"), None);
        for junk in [
            "",
            "..",
            "a.1.b",
            "~~~~",
            &"a".repeat(4000),
            "\u{e9}.1.\u{e9}",
        ] {
            assert_eq!(own.read(Some(junk), "ada"), None);
            assert!(own.written(Some(junk), "ada").len() < 200);
        }
    }

    #[test]
    fn a_cookie_does_not_grow() {
        let devices = Devices::with_key(b"key");
        let mut cookie = String::new();
        for n in 0..20 {
            cookie = devices.written(Some(&cookie), &format!("user{n}"));
        }
        assert_eq!(cookie.split('~').count(), ACCOUNTS);
        assert!(cookie.len() < 512);
        assert!(devices.read(Some(&cookie), "user16").is_some());
        assert_eq!(devices.read(Some(&cookie), "user15"), None);
    }
}
