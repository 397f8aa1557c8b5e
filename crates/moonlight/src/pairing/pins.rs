//! Passes the PIN from `openuvr devices pair --moonlight PIN` to the running host, in a file in the trust folder (mode
//! 0600, next to the keys). When the host takes the PIN, it removes the PIN from the file. It then writes the outcome
//! into the file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_runtime::store::{Lock, StoreError, read_text, write_whole};
use serde::{Deserialize, Serialize};

use crate::session::{NoRandomness, random};

/// The file's name.
const FILE: &str = "moonlight-pin.toml";

/// How long a PIN is offered. A host with a waiting client checks the file four times a second.
const OFFERED: Duration = Duration::from_secs(10);

/// Maximum time from the offer to the outcome: ten seconds until the host takes the PIN, and half a minute for the
/// client. Clients need a second.
const FINISHED: Duration = Duration::from_secs(40);

/// Interval at which the file is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The file's content.
#[derive(Serialize, Deserialize, Default, Clone)]
#[serde(deny_unknown_fields)]
struct Content {
    /// Distinguishes offers.
    id: String,
    /// The PIN. It is empty once the host has taken it.
    pin: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The time at which the offer ends, in seconds since 1970.
    until: u64,
    /// The outcome, one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    #[serde(default)]
    paired: bool,
}

/// A PIN that the user entered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfferedPin {
    /// Distinguishes offers.
    pub id: String,
    /// The digits.
    pub pin: String,
    /// The name for the client.
    pub name: Option<String>,
}

/// Why an offered PIN did not pair a client. Each error is one line.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// The text is not a PIN of the protocol.
    #[error("'{0}' is not a Moonlight PIN: enter the four digits that the client shows")]
    Form(String),
    /// No host took the PIN.
    #[error(
        "no client is pairing with a host that uses the folder {}: \
         choose the host in Moonlight first, then enter the PIN that Moonlight shows",
        .0.display()
    )]
    NotTaken(PathBuf),
    /// There is no outcome, for example because the client went away after the host took the PIN.
    #[error("the client did not answer: start over in Moonlight")]
    NoOutcome,
    /// The pairing failed.
    #[error("{0}")]
    Failed(String),
    /// The file cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system provides no random numbers.
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

/// Whether the text is a PIN. PINs have four digits, but up to eight are accepted, because some clients may show more.
fn is_pin(text: &str) -> bool {
    (4..=8).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit())
}

/// Offers a PIN to the running hosts that use `folder`, and waits for the outcome. Returns the outcome as one line.
///
/// # Errors
/// [`OfferError`] if the PIN did not pair a client.
pub fn offer(folder: &Path, pin: &str, name: Option<&str>, now: u64) -> Result<String, OfferError> {
    if !is_pin(pin) {
        return Err(OfferError::Form(pin.to_owned()));
    }
    let file = PinFile::new(folder);
    let id = crate::hex::to_hex(&random::<8>()?);
    file.write(&Content {
        id: id.clone(),
        pin: pin.to_owned(),
        name: name.map(str::to_owned),
        until: now.saturating_add(OFFERED.as_secs()),
        outcome: None,
        paired: false,
    })?;
    let result = file.await_outcome(&id);
    file.withdraw(&id)?;
    result
}

/// The file.
#[derive(Clone, Debug)]
pub struct PinFile {
    folder: PathBuf,
    path: PathBuf,
}

impl PinFile {
    /// The file in this folder.
    #[must_use]
    pub fn new(folder: &Path) -> PinFile {
        PinFile {
            folder: folder.to_owned(),
            path: folder.join(FILE),
        }
    }

    /// Takes an offered PIN at `now`, in seconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read or written.
    pub fn take(&self, now: u64) -> Result<Option<OfferedPin>, StoreError> {
        // The file is first checked without the lock, because usually no PIN is offered.
        if !self.read()?.is_some_and(|content| is_pin(&content.pin)) {
            return Ok(None);
        }
        let lock = Lock::take(&self.folder)?;
        let Some(mut content) = self.read()? else {
            return Ok(None);
        };
        if !is_pin(&content.pin) || content.until <= now {
            return Ok(None);
        }
        let pin = std::mem::take(&mut content.pin);
        self.replace(&lock, &content)?;
        Ok(Some(OfferedPin {
            id: content.id,
            pin,
            name: content.name,
        }))
    }

    /// Writes the outcome of an offer.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read or written.
    pub fn finish(&self, id: &str, paired: bool, outcome: &str) -> Result<(), StoreError> {
        let lock = Lock::take(&self.folder)?;
        let content = self.read()?.filter(|content| content.id == id);
        let Some(mut content) = content else {
            return Ok(());
        };
        content.outcome = Some(outcome.to_owned());
        content.paired = paired;
        self.replace(&lock, &content)
    }

    fn await_outcome(&self, id: &str) -> Result<String, OfferError> {
        let offered_at = clock::now();
        loop {
            let content = self.read()?.filter(|content| content.id == id);
            // If the id is missing, another offer has replaced this offer.
            let content = content.ok_or(OfferError::NoOutcome)?;
            match (content.outcome, content.paired) {
                (Some(outcome), true) => return Ok(outcome),
                (Some(outcome), false) => return Err(OfferError::Failed(outcome)),
                _ => {}
            }
            let waited = clock::now().since(offered_at);
            if !content.pin.is_empty() && waited > OFFERED {
                return Err(OfferError::NotTaken(self.folder.clone()));
            }
            if waited > FINISHED {
                return Err(OfferError::NoOutcome);
            }
            clock::sleep_until(clock::now() + POLL_INTERVAL);
        }
    }

    /// Removes the PIN and the outcome of an offer from the file, unless another offer has replaced it.
    fn withdraw(&self, id: &str) -> Result<(), StoreError> {
        let lock = Lock::take(&self.folder)?;
        match self.read()? {
            Some(content) if content.id != id => Ok(()),
            _ => self.replace(&lock, &Content::default()),
        }
    }

    fn read(&self) -> Result<Option<Content>, StoreError> {
        let text = read_text(&self.path)?;
        // A damaged file offers nothing, and the next offer replaces it.
        Ok(text.and_then(|text| toml::from_str(&text).ok()))
    }

    fn write(&self, content: &Content) -> Result<(), StoreError> {
        let lock = Lock::take(&self.folder)?;
        self.replace(&lock, content)
    }

    /// Replaces the content while the lock is held.
    fn replace(&self, _: &Lock, content: &Content) -> Result<(), StoreError> {
        let text = toml::to_string(content).unwrap_or_default();
        write_whole(&self.path, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_that_was_replaced_leaves_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("keys");
        let file = PinFile::new(&folder);
        let next = Content {
            id: "next".to_owned(),
            pin: "5678".to_owned(),
            until: 2000,
            ..Content::default()
        };
        let replaced = std::thread::scope(|scope| {
            let offered = scope.spawn(|| offer(&folder, "1234", None, 1000));
            // Taking the first offer proves that it was in the file before the next one replaces it.
            while !matches!(file.take(1001), Ok(Some(_))) {
                std::thread::yield_now();
            }
            file.write(&next).unwrap();
            offered.join().unwrap()
        });
        assert!(
            matches!(replaced, Err(OfferError::NoOutcome)),
            "{replaced:?}"
        );
        let taken = file.take(1001).unwrap().map(|offered| offered.pin);
        assert_eq!(taken.as_deref(), Some("5678"));
    }

    #[test]
    fn a_pin_is_taken_once_and_its_outcome_returned() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("keys");
        let file = PinFile::new(&folder);
        std::thread::scope(|scope| {
            let offered = scope.spawn(|| offer(&folder, "1234", Some("attic"), 1000));
            let taken = loop {
                match file.take(1001) {
                    Ok(Some(taken)) => break taken,
                    _ => std::thread::yield_now(),
                }
            };
            assert_eq!(
                (taken.pin.as_str(), taken.name.as_deref()),
                ("1234", Some("attic"))
            );
            assert_eq!(file.take(1001).unwrap(), None);
            file.finish("another", true, "not this").unwrap();
            file.finish(&taken.id, true, "paired with attic").unwrap();
            assert_eq!(offered.join().unwrap().unwrap(), "paired with attic");
        });
        let text = std::fs::read_to_string(folder.join(FILE)).unwrap();
        assert!(!text.contains("1234") && !text.contains("attic"), "{text}");
    }

    #[test]
    fn a_pin_has_digits_and_expires() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("keys");
        for bad in ["", "123", "12a4", "123456789", "١٢٣٤"] {
            let why = offer(&folder, bad, None, 0).unwrap_err();
            assert!(matches!(why, OfferError::Form(_)), "{why}");
        }
        let file = PinFile::new(&folder);
        let content = Content {
            id: "1".to_owned(),
            pin: "1234".to_owned(),
            until: 100,
            ..Content::default()
        };
        file.write(&content).unwrap();
        assert_eq!(file.take(100).unwrap(), None);
        std::fs::write(folder.join(FILE), "id = 1").unwrap();
        assert_eq!(file.take(1).unwrap(), None);
    }
}
