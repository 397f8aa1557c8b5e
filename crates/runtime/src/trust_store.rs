//! Whom a machine trusts: `devices.toml` at a host, `hosts.toml` at a client.
//!
//! Both may be edited by hand and by other programs while this one runs: every change starts from
//! what is in the file now, and a running host notices a `forbid` by the file's stamp. It is not
//! where secrets are: see [`crate::identity_store`].

use std::path::{Path, PathBuf};

use openuvr_proto::control::handshake::DeviceStatus;
use openuvr_proto::control::identity::{ClientId, DeviceName, PublicKey};
use openuvr_proto::printable::printable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::store::{Lock, Stamp, StoreError, read, replace};

/// A client that has paired with this host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its identity.
    #[serde(with = "hex_key")]
    pub key: PublicKey,
    /// What it called itself when it paired, for people: neither unique nor proven.
    pub name: String,
    /// What it calls itself now, if that is another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_itself: Option<String>,
    /// When it paired first, in seconds since 1970.
    pub first_paired: u64,
    /// When its last session began, in seconds since 1970.
    pub last_seen: u64,
    /// Whether it may come in.
    pub allowed: bool,
}

impl Device {
    /// How people are told of it: by the name that is stored, which a file that was edited by hand
    /// may hold in any form, and beside it by what it calls itself now, if that is another.
    #[must_use]
    pub fn title(&self) -> String {
        let name = printable(&self.name);
        match &self.calls_itself {
            Some(now) => format!("{name} (calls itself {:?})", printable(now)),
            None => name,
        }
    }

    /// Notes what it calls itself now; whether that is news.
    pub(crate) fn call(&mut self, now: &DeviceName) -> bool {
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
    /// The devices in the folder `dir` (see [`crate::store::config_dir`]); none if there is no
    /// file yet.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] or [`StoreError::Io`].
    pub fn open(dir: &Path) -> Result<DeviceStore, StoreError> {
        let mut store = DeviceStore {
            file: TrustFile::new(dir, "devices.toml"),
            devices: Vec::new(),
        };
        store.refresh()?;
        Ok(store)
    }

    /// Reads the file again if it has changed: one `stat` otherwise, so a host calls it at every
    /// handshake of a client that has shown its address, and a few times a second.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], once for each content of the file, or [`StoreError::Io`]; what was
    /// read before stays in force.
    pub fn refresh(&mut self) -> Result<(), StoreError> {
        if let Some(found) = self.file.read_if_changed::<Devices>()? {
            self.devices = found.device;
        }
        Ok(())
    }

    /// What this host knows, as of the last [`DeviceStore::refresh`].
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What the client `id` is to this host, as of the last [`DeviceStore::refresh`]. One line
    /// that forbids outweighs another that allows.
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

    /// Stores a device that has just paired, at `now` in seconds since 1970. One that is known
    /// already keeps its first time and takes the new name; one that is forbidden stays so.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] or [`StoreError::Io`]; nothing was changed then.
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

    /// Notes that the device with this key was here at `now`, in seconds since 1970. One that was
    /// forgotten meanwhile stays forgotten.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] or [`StoreError::Io`]; nothing was changed then.
    pub fn seen(&mut self, key: &PublicKey, now: u64) -> Result<(), StoreError> {
        self.change(|devices| {
            for device in devices.iter_mut().filter(|device| device.key == *key) {
                device.last_seen = now;
            }
            Ok(())
        })
    }

    /// Notes that the device with this key calls itself `name` now. The name that is stored for it
    /// stays.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] or [`StoreError::Io`]; nothing was changed then.
    pub fn calls_itself(&mut self, key: &PublicKey, name: &DeviceName) -> Result<(), StoreError> {
        self.change(|devices| {
            for device in devices.iter_mut().filter(|device| device.key == *key) {
                device.call(name);
            }
            Ok(())
        })
    }

    /// Lets the device that goes by `which` in again, or no longer, and returns it. `which` is a
    /// name, or at least four digits that a fingerprint begins with.
    ///
    /// # Errors
    /// [`StoreError::NoSuchDevice`], [`StoreError::Ambiguous`], [`StoreError::Corrupt`] or
    /// [`StoreError::Io`]; nothing was changed then.
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

    /// Forgets the device that goes by `which` (as for [`DeviceStore::set_allowed`]) and returns
    /// what was known of it. It may pair again.
    ///
    /// # Errors
    /// As for [`DeviceStore::set_allowed`].
    pub fn forget(&mut self, which: &str) -> Result<Device, StoreError> {
        self.change(|devices| {
            let key = find(devices, which)?;
            let gone = devices.iter().find(|device| device.key == key).cloned();
            devices.retain(|device| device.key != key);
            gone.ok_or_else(|| no_such_device(which))
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
            // A whole fingerprint means its device, whatever names the others gave themselves.
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
    /// The hosts in the folder `dir` (see [`crate::store::config_dir`]); none if there is no file
    /// yet.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] or [`StoreError::Io`].
    pub fn open(dir: &Path) -> Result<HostStore, StoreError> {
        let mut file = TrustFile::new(dir, "hosts.toml");
        let found: Option<Hosts> = file.read_if_changed()?;
        let hosts = found.unwrap_or_default().host;
        Ok(HostStore { file, hosts })
    }

    /// The key of the host at `address`, as the user writes it, if this client has paired with it.
    #[must_use]
    pub fn key(&self, address: &str) -> Option<PublicKey> {
        let host = self.hosts.iter().find(|host| host.address == address)?;
        Some(host.key)
    }

    /// Remembers the key of the host at `address`, in place of an older one.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] or [`StoreError::Io`]; nothing was changed then.
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
    #[serde(default)]
    device: Vec<Device>,
}

/// `hosts.toml`.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hosts {
    #[serde(default)]
    host: Vec<Host>,
}

/// A TOML file that others change too.
#[derive(Clone, Debug)]
struct TrustFile {
    dir: PathBuf,
    path: PathBuf,
    /// `None` before the first read; `Some(None)` when there was no file.
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
            // Taken before the read: a change in between is read once more, never missed.
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

const COMMENT: &str = "# Written by OpenUVR; comments don't survive its next change.";

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
            .ok_or_else(|| D::Error::custom("a public key is 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::tests::TempDir;

    fn key(n: u8) -> PublicKey {
        PublicKey([n; 32])
    }

    fn name(text: &str) -> DeviceName {
        DeviceName::new(text)
    }

    fn is_allowed(store: &DeviceStore, key: &PublicKey) -> bool {
        store.standing(&ClientId::of(key)) == DeviceStatus::Allowed(*key)
    }

    #[test]
    fn a_device_comes_and_goes() {
        let temp = TempDir::new();
        let mut store = DeviceStore::open(&temp.0).unwrap();
        let id = ClientId::of(&key(1));
        assert_eq!(store.standing(&id), DeviceStatus::Unknown);
        store.pair(key(1), &name("attic \"x\""), 1000).unwrap();
        store.pair(key(2), &name(""), 1001).unwrap();
        store.seen(&key(1), 2000).unwrap();
        assert_eq!(store.standing(&id), DeviceStatus::Allowed(key(1)));

        let mut again = DeviceStore::open(&temp.0).unwrap();
        assert_eq!(again.devices(), store.devices());
        let device = &again.devices()[0];
        assert_eq!((device.first_paired, device.last_seen), (1000, 2000));
        assert_eq!(
            (device.name.as_str(), again.devices()[1].name.as_str()),
            ("attic \"x\"", "unnamed")
        );

        again.set_allowed("attic \"x\"", false).unwrap();
        assert_eq!(again.standing(&id), DeviceStatus::Forbidden(key(1)));
        // Pairing anew doesn't lift it, and `seen` doesn't revive what is forgotten.
        again.pair(key(1), &name("attic"), 3000).unwrap();
        assert!(!is_allowed(&again, &key(1)));
        again.forget("attic").unwrap();
        again.seen(&key(1), 4000).unwrap();
        assert_eq!(again.standing(&id), DeviceStatus::Unknown);
    }

    #[test]
    fn the_stored_name_stays_beside_what_it_calls_itself() {
        let temp = TempDir::new();
        let mut store = DeviceStore::open(&temp.0).unwrap();
        store.pair(key(1), &name("attic"), 1).unwrap();
        for (now, title) in [
            ("attic", "attic"),
            ("cellar", "attic (calls itself \"cellar\")"),
            ("", "attic"),
        ] {
            store.calls_itself(&key(1), &name(now)).unwrap();
            let again = DeviceStore::open(&temp.0).unwrap();
            assert_eq!(again.devices()[0].title(), title);
        }
        // It is found by the stored one alone.
        store.calls_itself(&key(1), &name("cellar")).unwrap();
        assert_eq!(find(store.devices(), "attic").unwrap(), key(1));
        assert!(find(store.devices(), "cellar").is_err());
    }

    #[test]
    fn a_name_in_the_file_does_not_steer_a_terminal() {
        let temp = TempDir::new();
        let mut store = DeviceStore::open(&temp.0).unwrap();
        store.pair(key(1), &name("attic"), 1).unwrap();
        let path = temp.0.join("devices.toml");
        let text = fs::read_to_string(&path).unwrap();
        let evil = "name = \"a\\u001b[2Jb\\u202ec\"\ncalls_itself = \"d\\u009be\\u2067\"";
        fs::write(&path, text.replace("name = \"attic\"", evil)).unwrap();
        store.refresh().unwrap();
        assert_eq!(store.devices()[0].title(), "a[2Jbc (calls itself \"de\")");
    }

    #[test]
    fn a_running_host_notices_a_forbid() {
        let temp = TempDir::new();
        let mut host = DeviceStore::open(&temp.0).unwrap();
        host.pair(key(1), &name("attic"), 1).unwrap();
        host.refresh().unwrap();
        assert!(is_allowed(&host, &key(1)));
        let mut command = DeviceStore::open(&temp.0).unwrap();
        command
            .set_allowed(&key(1).fingerprint()[..6], false)
            .unwrap();
        assert!(is_allowed(&host, &key(1)));
        host.refresh().unwrap();
        assert!(!is_allowed(&host, &key(1)));
        // A host that hasn't looked yet doesn't write the old state back.
        command.set_allowed("attic", true).unwrap();
        host.seen(&key(1), 9).unwrap();
        assert!(is_allowed(&host, &key(1)));
    }

    #[test]
    fn no_change_of_many_writers_is_lost() {
        let temp = TempDir::new();
        std::thread::scope(|scope| {
            for writer in 0..4_u8 {
                let dir = &temp.0;
                scope.spawn(move || {
                    let mut store = DeviceStore::open(dir).unwrap();
                    for n in 0..10 {
                        store.pair(key(writer * 10 + n), &name("x"), 1).unwrap();
                    }
                });
            }
        });
        assert_eq!(DeviceStore::open(&temp.0).unwrap().devices().len(), 40);
    }

    #[test]
    fn devices_are_found_by_name_or_fingerprint() {
        let devices: Vec<Device> = [(1, "attic"), (2, "attic"), (3, "cellar")]
            .map(|(n, name)| Device {
                key: key(n),
                name: name.to_owned(),
                calls_itself: None,
                first_paired: 0,
                last_seen: 0,
                allowed: true,
            })
            .to_vec();
        assert_eq!(find(&devices, "cellar").unwrap(), key(3));
        let print = key(2).fingerprint();
        for which in [
            &print,
            &print[..4],
            &print.to_uppercase(),
            &print.replace('-', ""),
        ] {
            assert_eq!(find(&devices, which).unwrap(), key(2), "{which}");
        }
        assert!(matches!(
            find(&devices, "attic"),
            Err(StoreError::Ambiguous { count: 2, .. })
        ));
        for which in ["", "cell", &print[..3]] {
            let found = find(&devices, which);
            assert!(
                matches!(found, Err(StoreError::NoSuchDevice { .. })),
                "{which}"
            );
        }
        // A name that looks like another's fingerprint doesn't catch what is meant for that one.
        let mut devices = devices;
        devices[2].name = print.clone();
        assert_eq!(find(&devices, &print).unwrap(), key(2));
    }

    #[test]
    fn a_corrupt_file_is_named_by_line_and_left_alone() {
        let temp = TempDir::new();
        let path = temp.0.join("devices.toml");
        let mut running = DeviceStore::open(&temp.0).unwrap();
        running.pair(key(1), &name("attic"), 1).unwrap();
        let good = fs::read_to_string(&path).unwrap();
        assert_eq!(
            good.lines().nth(2),
            Some(&*format!("key = \"{}\"", "01".repeat(32)))
        );
        for (bad, line) in [
            (good.replace("allowed = true", "allowed = maybe"), 7),
            (good.replace("01010101", "0101010"), 3),
            (good.replace("last_seen", "last_sighted"), 6),
        ] {
            fs::write(&path, &bad).unwrap();
            for why in [
                DeviceStore::open(&temp.0).unwrap_err(),
                running.refresh().unwrap_err(),
                running.seen(&key(1), 5).unwrap_err(),
            ] {
                let start = format!("{}:{line}: ", path.display());
                assert!(why.to_string().starts_with(&start), "{why}");
                assert_eq!(why.to_string().lines().count(), 1);
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), bad);
            // It is not read once more to say the same.
            running.refresh().unwrap();
            assert!(is_allowed(&running, &key(1)));
        }
    }

    #[test]
    fn a_line_that_forbids_outweighs_its_twin() {
        let temp = TempDir::new();
        let mut store = DeviceStore::open(&temp.0).unwrap();
        store.pair(key(1), &name("attic"), 1).unwrap();
        let path = temp.0.join("devices.toml");
        let text = fs::read_to_string(&path).unwrap();
        let entry = text.split_once('\n').unwrap().1;
        fs::write(
            &path,
            format!("{entry}\n{}", entry.replace("true", "false")),
        )
        .unwrap();
        store.refresh().unwrap();
        assert_eq!(store.devices().len(), 2);
        assert_eq!(
            store.standing(&ClientId::of(&key(1))),
            DeviceStatus::Forbidden(key(1))
        );
        store.set_allowed("attic", true).unwrap();
        assert!(is_allowed(&store, &key(1)));
    }

    #[test]
    fn hosts_are_remembered_by_address() {
        let temp = TempDir::new();
        let mut store = HostStore::open(&temp.0).unwrap();
        store.remember("192.0.2.1:4433", key(1)).unwrap();
        store.remember("[2001:db8::1]:4433", key(2)).unwrap();
        store.remember("192.0.2.1:4433", key(3)).unwrap();
        let again = HostStore::open(&temp.0).unwrap();
        assert_eq!(again.key("192.0.2.1:4433"), Some(key(3)));
        assert_eq!(again.key("[2001:db8::1]:4433"), Some(key(2)));
        assert_eq!(again.hosts.len(), 2);
    }
}
