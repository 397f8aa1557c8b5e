//! The peers that a machine trusts: `devices.toml` at a host, `hosts.toml` at a client.
//!
//! Users and other programs may edit both files while this program runs. Every change therefore starts from the current
//! file, and a running host detects a `forbid` by the file's stamp. Secrets are in [`crate::identity_store`].

mod pairing;

use std::path::{Path, PathBuf};

use openuvr_proto::control::handshake::DeviceStatus;
use openuvr_proto::control::identity::{ClientId, DeviceName, PublicKey};
use openuvr_proto::printable::printable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::pairing::{MAX_WINDOW, PairingRequest, PairingRequests, RequestedWindow};
use crate::store::{Lock, Stamp, StoreError, read, replace};

/// A client that has paired with this host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its identity.
    #[serde(with = "hex_key")]
    pub key: PublicKey,
    /// The name that it announced when it paired, for display. It is neither unique nor authenticated.
    pub name: String,
    /// The name that it announces now, if it differs from the stored name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_itself: Option<String>,
    /// When it first paired, in seconds since 1970.
    pub first_paired: u64,
    /// When its last session began, in seconds since 1970.
    pub last_seen: u64,
    /// Whether it is allowed.
    pub allowed: bool,
}

impl Device {
    /// Its display name: the stored name, followed by the currently announced name if the names differ. Unprintable
    /// characters are replaced, because users may edit the file.
    #[must_use]
    pub fn title(&self) -> String {
        let name = printable(&self.name);
        match &self.calls_itself {
            Some(now) => format!("{name} (calls itself {:?})", printable(now)),
            None => name,
        }
    }

    /// Sets the announced name. Returns whether the name changed.
    pub(crate) fn rename(&mut self, now: &DeviceName) -> bool {
        let now = Some(now.as_str()).filter(|now| !now.is_empty() && *now != self.name);
        let news = self.calls_itself.as_deref() != now;
        self.calls_itself = now.map(str::to_owned);
        news
    }
}

/// The clients that a host knows.
#[derive(Clone, Debug)]
pub struct DeviceStore {
    file: TrustFile,
    devices: Vec<Device>,
}

impl DeviceStore {
    /// The devices in the folder `dir` (see [`crate::store::config_dir`]). The list is empty if there is no file yet.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read, is invalid, or may be changed by others.
    pub fn open(dir: &Path) -> Result<DeviceStore, StoreError> {
        let mut store = DeviceStore {
            file: TrustFile::new(dir, "devices.toml"),
            devices: Vec::new(),
        };
        store.refresh()?;
        Ok(store)
    }

    /// Reads the file again if it has changed. Without a change, a call costs one `stat`, so a host calls this function
    /// at every handshake of a client with a validated address, and a few times a second.
    ///
    /// # Errors
    /// [`StoreError`]. [`StoreError::Corrupt`] is returned once per version of the file. The previous list stays valid.
    pub fn refresh(&mut self) -> Result<(), StoreError> {
        if let Some(found) = self.file.read_if_changed::<Devices>()? {
            self.devices = found.device;
        }
        Ok(())
    }

    /// The known devices, as of the last [`DeviceStore::refresh`].
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The status of the client `id`, as of the last [`DeviceStore::refresh`]. A forbidding entry overrides
    /// an allowing one.
    #[must_use]
    pub fn standing(&self, id: &ClientId) -> DeviceStatus {
        let mut standing = DeviceStatus::Unknown;
        for device in self.devices.iter().filter(|d| ClientId::of(&d.key) == *id) {
            if !device.allowed {
                return DeviceStatus::Forbidden(device.key);
            }
            standing = DeviceStatus::Allowed(device.key);
        }
        standing
    }

    /// Stores a device that paired at `now`, in seconds since 1970. A known device keeps the time of its first pairing
    /// and takes the new name. A forbidden device stays forbidden.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read or changed.
    pub fn pair(&mut self, key: PublicKey, name: &DeviceName, now: u64) -> Result<(), StoreError> {
        let name = match name.as_str() {
            "" => "unnamed",
            name => name,
        };
        self.change(|devices| {
            if let Some(device) = devices.iter_mut().find(|device| device.key == key) {
                name.clone_into(&mut device.name);
                device.calls_itself = None;
                device.last_seen = now;
            } else {
                devices.push(Device {
                    key,
                    name: name.to_owned(),
                    calls_itself: None,
                    first_paired: now,
                    last_seen: now,
                    allowed: true,
                });
            }
            Ok(())
        })
    }

    /// Records that the device with this key was seen at `now`, in seconds since 1970. A forgotten device
    /// stays forgotten.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read or changed.
    pub fn seen(&mut self, key: &PublicKey, now: u64) -> Result<(), StoreError> {
        self.change(|devices| {
            for device in devices.iter_mut().filter(|device| device.key == *key) {
                device.last_seen = now;
            }
            Ok(())
        })
    }

    /// Records that the device with this key now announces `name`. Its stored name is kept.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read or changed.
    pub fn calls_itself(&mut self, key: &PublicKey, name: &DeviceName) -> Result<(), StoreError> {
        self.change(|devices| {
            for device in devices.iter_mut().filter(|device| device.key == *key) {
                device.rename(name);
            }
            Ok(())
        })
    }

    /// Allows or forbids the device `which`, and returns it. `which` is a name, or at least the first four digits of a
    /// fingerprint.
    ///
    /// # Errors
    /// [`StoreError::NoSuchDevice`] or [`StoreError::Ambiguous`] if `which` does not identify a device, or another
    /// [`StoreError`] if the file cannot be read or changed.
    pub fn set_allowed(&mut self, which: &str, allowed: bool) -> Result<Device, StoreError> {
        self.change(|devices| {
            let key = find(devices, which)?;
            let mut found = devices.iter_mut().filter(|device| device.key == key);
            let first = found.next().map(|device| {
                device.allowed = allowed;
                device.clone()
            });
            found.for_each(|device| device.allowed = allowed);
            first.ok_or_else(|| no_such_device(which))
        })
    }

    /// Forgets the device `which` (as for [`DeviceStore::set_allowed`]) and returns it. It may pair again.
    ///
    /// # Errors
    /// The errors of [`DeviceStore::set_allowed`].
    pub fn forget(&mut self, which: &str) -> Result<Device, StoreError> {
        self.change(|devices| {
            let key = find(devices, which)?;
            let removed = devices.iter().find(|device| device.key == key).cloned();
            devices.retain(|device| device.key != key);
            removed.ok_or_else(|| no_such_device(which))
        })
    }

    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Vec<Device>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (devices, outcome) = self.file.change(|found: &mut Devices| {
            let outcome = change(&mut found.device)?;
            Ok((found.device.clone(), outcome))
        })?;
        self.devices = devices;
        Ok(outcome)
    }
}

fn find(devices: &[Device], which: &str) -> Result<PublicKey, StoreError> {
    let digits: String = which.chars().filter(|c| *c != '-').collect();
    let digits = digits.to_ascii_lowercase();
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut fitting: Vec<PublicKey> = Vec::new();
    for device in devices {
        let fingerprint = device.key.fingerprint().replace('-', "");
        if fingerprint == digits {
            // A full fingerprint identifies its device, regardless of other devices' names.
            return Ok(device.key);
        }
        let fits = digits.len() >= 4 && is_hex && fingerprint.starts_with(&digits);
        if (fits || device.name == which) && !fitting.contains(&device.key) {
            fitting.push(device.key);
        }
    }
    match fitting[..] {
        [] => Err(no_such_device(which)),
        [key] => Ok(key),
        _ => Err(StoreError::Ambiguous {
            which: which.to_owned(),
            count: fitting.len(),
        }),
    }
}

fn no_such_device(which: &str) -> StoreError {
    StoreError::NoSuchDevice {
        which: which.to_owned(),
    }
}

/// The hosts that a client has paired with.
#[derive(Debug)]
pub struct HostStore {
    file: TrustFile,
    hosts: Vec<Host>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    address: String,
    #[serde(with = "hex_key")]
    key: PublicKey,
}

impl HostStore {
    /// The hosts in the folder `dir` (see [`crate::store::config_dir`]). The list is empty if there is no file yet.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read, is invalid, or may be changed by others.
    pub fn open(dir: &Path) -> Result<HostStore, StoreError> {
        let mut file = TrustFile::new(dir, "hosts.toml");
        let found: Option<Hosts> = file.read_if_changed()?;
        let hosts = found.unwrap_or_default().host;
        Ok(HostStore { file, hosts })
    }

    /// The key of the host at `address`, if this client has paired with it. `address` is the name or address that the
    /// user entered, followed by the port.
    #[must_use]
    pub fn key(&self, address: &str) -> Option<PublicKey> {
        let host = self.hosts.iter().find(|host| host.address == address)?;
        Some(host.key)
    }

    /// The address under which the host with this fingerprint is stored; the first one, if there are several. An
    /// announced fingerprint is no proof: only a handshake with the [`HostStore::key`] of this address authenticates
    /// the host.
    #[must_use]
    pub fn address_of(&self, fingerprint: &str) -> Option<&str> {
        let mut hosts = self.hosts.iter();
        let host = hosts.find(|host| host.key.fingerprint() == fingerprint)?;
        Some(&host.address)
    }

    /// The stored address with the same host name as `address`, but another port. `None` if there is no such address,
    /// or if the hosts at several such addresses have different keys.
    #[must_use]
    pub fn on_other_port(&self, address: &str) -> Option<&str> {
        let (name, _) = address.rsplit_once(':')?;
        let fits = |host: &&Host| {
            let other = host.address.rsplit_once(':');
            host.address != address && other.is_some_and(|(other, _)| other == name)
        };
        let mut fitting = self.hosts.iter().filter(fits);
        let first = fitting.next()?;
        let unique = fitting.all(|host| host.key == first.key);
        unique.then_some(first.address.as_str())
    }

    /// Stores the key of the host at `address`, replacing an older one.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read or changed.
    pub fn remember(&mut self, address: &str, key: PublicKey) -> Result<(), StoreError> {
        self.hosts = self.file.change(|found: &mut Hosts| {
            found.host.retain(|host| host.address != address);
            found.host.push(Host {
                address: address.to_owned(),
                key,
            });
            Ok(found.host.clone())
        })?;
        Ok(())
    }
}

/// `devices.toml`.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Devices {
    device: Vec<Device>,
}

/// `hosts.toml`.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hosts {
    host: Vec<Host>,
}

/// A TOML file that other programs also change.
#[derive(Clone, Debug)]
struct TrustFile {
    dir: PathBuf,
    path: PathBuf,
    /// `None` before the first read; `Some(None)` if the file did not exist at the last read.
    stamp: Option<Option<Stamp>>,
}

impl TrustFile {
    fn new(dir: &Path, name: &str) -> TrustFile {
        TrustFile {
            dir: dir.to_owned(),
            path: dir.join(name),
            stamp: None,
        }
    }

    fn read_if_changed<T: DeserializeOwned + Default>(&mut self) -> Result<Option<T>, StoreError> {
        let stamp = Stamp::of(&self.path)?;
        if self.stamp == Some(stamp) {
            return Ok(None);
        }
        let content = self.parse();
        if matches!(content, Ok(_) | Err(StoreError::Corrupt { .. })) {
            // The stamp was taken before the read. If the file changed in between, the next call reads it again, so
            // that no change is missed.
            self.stamp = Some(stamp);
        }
        content.map(Some)
    }

    fn change<T: DeserializeOwned + Serialize + Default, R>(
        &mut self,
        change: impl FnOnce(&mut T) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let lock = Lock::take(&self.dir)?;
        let mut content: T = self.parse()?;
        let outcome = change(&mut content)?;
        let body = toml::to_string(&content).map_err(|e| StoreError::Corrupt {
            path: self.path.clone(),
            line: 1,
            what: e.to_string(),
        })?;
        replace(&lock, &self.path, format!("{COMMENT}\n{body}").as_bytes())?;
        self.stamp = Some(Stamp::of(&self.path)?);
        Ok(outcome)
    }

    fn parse<T: DeserializeOwned + Default>(&self) -> Result<T, StoreError> {
        let Some(text) = read(&self.path)? else {
            return Ok(T::default());
        };
        // A file without content is corrupt, because its forbidden devices may have been lost. Even an empty list is
        // written with its TOML key.
        if text
            .lines()
            .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        {
            return Err(StoreError::Corrupt {
                path: self.path.clone(),
                line: text.lines().count().max(1),
                what: "the file has lost its content".to_owned(),
            });
        }
        toml::from_str(&text).map_err(|e| {
            let start = e.span().map_or(0, |span| span.start).min(text.len());
            let before = &text.as_bytes()[..start];
            StoreError::Corrupt {
                path: self.path.clone(),
                line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
                what: e.message().replace('\n', " "),
            }
        })
    }
}

const COMMENT: &str = "# Written by OpenUVR; comments are lost at its next change.";

/// A public key as 64 hexadecimal digits.
mod hex_key {
    use openuvr_proto::control::identity::PublicKey;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    use crate::store::{from_hex, to_hex};

    pub(super) fn serialize<S: Serializer>(key: &PublicKey, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&to_hex(&key.0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PublicKey, D::Error> {
        let text = String::deserialize(from)?;
        from_hex(&text)
            .map(PublicKey)
            .ok_or_else(|| D::Error::custom("expected a public key of 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests;
