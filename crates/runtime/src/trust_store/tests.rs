use std::fs;

use super::*;
use crate::store::tests::private_folder;

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
    let temp = private_folder();
    let mut store = DeviceStore::open(temp.path()).unwrap();
    let id = ClientId::of(&key(1));
    assert_eq!(store.standing(&id), DeviceStatus::Unknown);
    store.pair(key(1), &name("attic \"x\""), 1000).unwrap();
    store.pair(key(2), &name(""), 1001).unwrap();
    store.seen(&key(1), 2000).unwrap();
    assert_eq!(store.standing(&id), DeviceStatus::Allowed(key(1)));

    let mut again = DeviceStore::open(temp.path()).unwrap();
    assert_eq!(again.devices(), store.devices());
    let device = &again.devices()[0];
    assert_eq!((device.first_paired, device.last_seen), (1000, 2000));
    assert_eq!(
        (device.name.as_str(), again.devices()[1].name.as_str()),
        ("attic \"x\"", "unnamed")
    );

    again.set_allowed("attic \"x\"", false).unwrap();
    assert_eq!(again.standing(&id), DeviceStatus::Forbidden(key(1)));
    // Pairing again does not allow a forbidden device, and `seen` does not revive a forgotten device.
    again.pair(key(1), &name("attic"), 3000).unwrap();
    assert!(!is_allowed(&again, &key(1)));
    again.forget("attic").unwrap();
    again.seen(&key(1), 4000).unwrap();
    assert_eq!(again.standing(&id), DeviceStatus::Unknown);
}

#[test]
fn the_stored_name_is_kept_beside_the_announced_one() {
    let temp = private_folder();
    let mut store = DeviceStore::open(temp.path()).unwrap();
    store.pair(key(1), &name("attic"), 1).unwrap();
    for (now, title) in [
        ("attic", "attic"),
        ("cellar", "attic (calls itself \"cellar\")"),
        ("", "attic"),
    ] {
        store.calls_itself(&key(1), &name(now)).unwrap();
        let again = DeviceStore::open(temp.path()).unwrap();
        assert_eq!(again.devices()[0].title(), title);
    }
    // The device is found only by the stored name.
    store.calls_itself(&key(1), &name("cellar")).unwrap();
    assert_eq!(find(store.devices(), "attic").unwrap(), key(1));
    assert!(find(store.devices(), "cellar").is_err());
}

#[test]
fn a_name_in_the_file_can_not_control_a_terminal() {
    let temp = private_folder();
    let mut store = DeviceStore::open(temp.path()).unwrap();
    store.pair(key(1), &name("attic"), 1).unwrap();
    let path = temp.path().join("devices.toml");
    let text = fs::read_to_string(&path).unwrap();
    let evil = "name = \"a\\u001b[2Jb\\u202ec\"\ncalls_itself = \"d\\u009be\\u2067\"";
    fs::write(&path, text.replace("name = \"attic\"", evil)).unwrap();
    store.refresh().unwrap();
    assert_eq!(store.devices()[0].title(), "a[2Jbc (calls itself \"de\")");
}

#[test]
fn a_running_host_notices_a_forbid() {
    let temp = private_folder();
    let mut host = DeviceStore::open(temp.path()).unwrap();
    host.pair(key(1), &name("attic"), 1).unwrap();
    host.refresh().unwrap();
    assert!(is_allowed(&host, &key(1)));
    let mut command = DeviceStore::open(temp.path()).unwrap();
    command
        .set_allowed(&key(1).fingerprint()[..6], false)
        .unwrap();
    assert!(is_allowed(&host, &key(1)));
    host.refresh().unwrap();
    assert!(!is_allowed(&host, &key(1)));
    // A host that has not refreshed yet does not write the old state back.
    command.set_allowed("attic", true).unwrap();
    host.seen(&key(1), 9).unwrap();
    assert!(is_allowed(&host, &key(1)));
}

#[test]
fn no_change_of_concurrent_writers_is_lost() {
    let temp = private_folder();
    std::thread::scope(|scope| {
        for writer in 0..4_u8 {
            let dir = temp.path();
            scope.spawn(move || {
                let mut store = DeviceStore::open(dir).unwrap();
                for n in 0..10 {
                    store.pair(key(writer * 10 + n), &name("x"), 1).unwrap();
                }
            });
        }
    });
    assert_eq!(DeviceStore::open(temp.path()).unwrap().devices().len(), 40);
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
    // A full fingerprint finds its device, even if another device has this fingerprint as its name.
    let mut devices = devices;
    devices[2].name = print.clone();
    assert_eq!(find(&devices, &print).unwrap(), key(2));
}

#[test]
fn a_corrupt_file_is_reported_by_line_and_not_changed() {
    let temp = private_folder();
    let path = temp.path().join("devices.toml");
    let mut running = DeviceStore::open(temp.path()).unwrap();
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
            DeviceStore::open(temp.path()).unwrap_err(),
            running.refresh().unwrap_err(),
            running.seen(&key(1), 5).unwrap_err(),
        ] {
            let start = format!("{}:{line}: ", path.display());
            assert!(why.to_string().starts_with(&start), "{why}");
            assert_eq!(why.to_string().lines().count(), 1);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), bad);
        // The corrupt version is not read again, and the previous list stays valid.
        running.refresh().unwrap();
        assert!(is_allowed(&running, &key(1)));
    }
}

#[test]
fn a_forbidding_entry_overrides_a_duplicate() {
    let temp = private_folder();
    let mut store = DeviceStore::open(temp.path()).unwrap();
    store.pair(key(1), &name("attic"), 1).unwrap();
    let path = temp.path().join("devices.toml");
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
fn hosts_are_stored_by_address() {
    let temp = private_folder();
    let mut store = HostStore::open(temp.path()).unwrap();
    store.remember("192.0.2.1:4433", key(1)).unwrap();
    store.remember("[2001:db8::1]:4433", key(2)).unwrap();
    store.remember("192.0.2.1:4433", key(3)).unwrap();
    let again = HostStore::open(temp.path()).unwrap();
    assert_eq!(again.key("192.0.2.1:4433"), Some(key(3)));
    assert_eq!(again.key("[2001:db8::1]:4433"), Some(key(2)));
    assert_eq!(again.hosts.len(), 2);
}

#[test]
fn a_host_on_another_port_is_found_by_its_name() {
    let temp = private_folder();
    let mut store = HostStore::open(temp.path()).unwrap();
    store.remember("desk:4710", key(1)).unwrap();
    store.remember("[::1]:4710", key(2)).unwrap();
    assert_eq!(store.on_other_port("desk:4720"), Some("desk:4710"));
    assert_eq!(store.on_other_port("[::1]:4720"), Some("[::1]:4710"));
    assert_eq!(store.on_other_port("desk:4710"), None);
    assert_eq!(store.on_other_port("[::]:4720"), None);
    assert_eq!(store.on_other_port("attic:4720"), None);
    // Two hosts of one machine have different keys.
    store.remember("desk:4730", key(3)).unwrap();
    assert_eq!(store.on_other_port("desk:4720"), None);
}

#[test]
fn a_file_without_content_is_corrupt_not_an_empty_list() {
    let temp = private_folder();
    let mut store = DeviceStore::open(temp.path()).unwrap();
    store.pair(key(1), &name("attic"), 1).unwrap();
    store.set_allowed("attic", false).unwrap();
    let mut hosts = HostStore::open(temp.path()).unwrap();
    hosts.remember("desk", key(2)).unwrap();
    let devices = temp.path().join("devices.toml");
    let content = fs::read_to_string(&devices).unwrap();
    let comment = content.lines().next().unwrap();
    for lost in ["", "\n\n", comment, "[other]\n"] {
        for file in ["devices.toml", "hosts.toml"] {
            fs::write(temp.path().join(file), lost).unwrap();
        }
        // A running host keeps the list that it has read, and reports the error once.
        let why = store.refresh().unwrap_err().to_string();
        assert!(why.contains("devices.toml:"), "{why}");
        store.refresh().unwrap();
        let id = ClientId::of(&key(1));
        assert_eq!(store.standing(&id), DeviceStatus::Forbidden(key(1)));
        // A new host does not start with an empty list, and the file is not overwritten.
        assert!(DeviceStore::open(temp.path()).is_err());
        assert!(store.pair(key(3), &name("cellar"), 2).is_err());
        assert!(HostStore::open(temp.path()).is_err());
        assert!(hosts.remember("desk", key(4)).is_err());
        assert_eq!(fs::read_to_string(&devices).unwrap(), lost);
    }
    // Forgetting the last device leaves an empty list.
    fs::write(&devices, &content).unwrap();
    store.forget("attic").unwrap();
    assert!(DeviceStore::open(temp.path()).unwrap().devices().is_empty());
}
