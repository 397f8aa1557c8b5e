//! Pairs a host and a client.

use std::path::Path;

use openuvr_proto::control::identity::DeviceName;
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};
use openuvr_runtime::trust_store::{DeviceStore, HostStore};

/// Pairs a host and a client without a PIN, through their configuration folders. The host knows the client as "lap",
/// and the client knows the host by `address`. Returns the host's fingerprint.
pub(crate) fn pair(host: &str, client: &str, address: &str) -> String {
    let (host, client) = (Path::new(host), Path::new(client));
    let key = load_or_create(host, KeyOwner::Host).expect("a key");
    let own = load_or_create(client, KeyOwner::Client).expect("a key");
    let mut devices = DeviceStore::open(host).expect("a store");
    let paired = devices.pair(own.public(), &DeviceName::new("lap"), 1);
    paired.expect("the store is writable");
    let mut hosts = HostStore::open(client).expect("a store");
    let remembered = hosts.remember(address, key.public());
    remembered.expect("the store is writable");
    key.public().fingerprint()
}
