//! Log-in: once with a PIN, and then with the device's key. Forbidden devices are refused.

use openuvr_proto::units::Size;

use super::caller::{Caller, devices, next};
use super::remote::Remote;
use super::support::{PIN, Rig, eventually};

const SIZE: Size = Size::new(320, 192);

#[test]
fn a_browser_pairs_once_and_is_a_device() {
    let rig = Rig::new("pairs", SIZE);
    let mut caller = Caller::new(&rig);
    let refused = caller.log_in("");
    assert_eq!(refused.status, 403);
    let why = refused.json()["refused"].as_str().unwrap().to_owned();
    assert!(why.contains("enter the PIN"), "{why}");
    assert_eq!(caller.websocket("", &caller.origin()).err(), Some(401));
    assert_eq!(caller.log_in("999999").status, 403);
    let early = caller.log_in(PIN);
    // The log-in succeeds if the required wait of one second has already passed.
    if early.status != 200 {
        let wait = early.json();
        let why = wait["refused"].as_str().unwrap();
        assert!(why.contains("try again in 1 s"), "{wait}");
    }
    eventually("the wait has ended", || {
        (caller.log_in(PIN).status == 200).then_some(())
    });
    // The device's key is sufficient now. The PIN window is closed to others.
    assert_eq!(caller.log_in("").status, 200);
    assert!(caller.websocket("", &caller.origin()).is_ok());
    eventually("the network's rate limit", || {
        let closed = Caller::new(&rig).log_in(PIN).json();
        let why = closed["refused"].as_str().unwrap().to_owned();
        let busy = why.contains("too many log-ins");
        assert!(
            busy || why.contains("pairing is closed at the host"),
            "{why}"
        );
        (!busy).then_some(())
    });
    let listed = eventually("the device list", || {
        let store = devices(rig.folder.path());
        store.devices().first().cloned()
    });
    assert_eq!(listed.name, "a caller");
}

/// Forbids the only device.
fn forbid(rig: &Rig) {
    let mut store = eventually("the device list", || {
        let store = devices(rig.folder.path());
        (!store.devices().is_empty()).then_some(store)
    });
    store.set_allowed("a caller", false).unwrap();
}

#[test]
fn the_reason_of_the_end_needs_no_reliable_channel() {
    let rig = Rig::new("unnoticed", SIZE);
    let caller = Caller::known(&rig);
    let mut remote = Remote::without_notices(&caller);
    forbid(&rig);
    let told = next(&mut remote.socket).unwrap();
    assert_eq!(told["message"], "the host forbids this device");
}

#[test]
fn a_forbidden_device_is_disconnected() {
    let rig = Rig::new("forbidden", SIZE);
    let mut caller = Caller::known(&rig);
    let mut remote = Remote::connected(&caller, "");
    forbid(&rig);
    let told = next(&mut remote.socket).unwrap();
    assert_eq!(told["message"], "the host forbids this device");
    assert_eq!(next(&mut remote.socket).unwrap()["type"], "disconnect");
    // The forbidden device is refused with its cookie, with its key and with a PIN.
    assert_eq!(caller.websocket("", &caller.origin()).err(), Some(401));
    let pin = openuvr_proto::control::pairing::Pin::parse(PIN).unwrap();
    rig.host.open_pairing(pin, super::support::TIMEOUT);
    for pin in ["", PIN] {
        let refused = caller.log_in(pin).json();
        assert_eq!(refused["refused"], "the host forbids this device");
    }
}

#[test]
fn a_log_in_counts_at_one_address_by_one_key() {
    let rig = Rig::new("once", SIZE);
    let caller = Caller::new(&rig);
    let origin = format!("origin: {}", caller.origin());
    let post = |body: &str| caller.request("POST /login", &[&origin], body);
    let refused = |body: &str| {
        post(body).json()["refused"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    };
    // A log-in that is signed for another site.
    let challenge = caller.challenge();
    let other = caller.body(&challenge, "https://evil.example", PIN);
    assert!(refused(&other).contains("signature"));
    // A forged challenge, and a challenge for another network.
    let body = caller.body(&"0".repeat(challenge.len()), &caller.origin(), PIN);
    assert!(refused(&body).contains("no longer valid"));
    let mut neighbour = Caller::new(&rig);
    neighbour.from = Some([127, 0, 0, 9]);
    let body = caller.body(&neighbour.challenge(), &caller.origin(), PIN);
    assert!(refused(&body).contains("no longer valid"));
    // Another device's key with this signature.
    let challenge = caller.challenge();
    let (ours, theirs) = (
        caller.body(&challenge, &caller.origin(), PIN),
        Caller::new(&rig).body(&challenge, &caller.origin(), PIN),
    );
    let mut mixed: serde_json::Value = serde_json::from_str(&ours).unwrap();
    let theirs: serde_json::Value = serde_json::from_str(&theirs).unwrap();
    mixed["key"] = theirs["key"].clone();
    assert!(refused(&mixed.to_string()).contains("signature"));
    assert!(refused("{}").contains("not a log-in"));
    assert_eq!(post(&"x".repeat(5000)).status, 413);
}

#[test]
fn a_requested_pairing_window_admits_a_second_browser() {
    use openuvr_proto::control::pairing::Pin;
    use openuvr_runtime::trust_store::PairingRequest;
    let rig = Rig::new("second", SIZE);
    let _first = Caller::known(&rig);
    let mut second = Caller::new(&rig);
    let closed = second.log_in(PIN).json();
    let why = closed["refused"].as_str().unwrap();
    assert!(why.contains("`openuvr devices pair`"), "{why}");
    let since_1970 = std::time::UNIX_EPOCH.elapsed().unwrap();
    let pin = Pin::parse("271828").unwrap();
    let folder = rig.folder.path().join("host");
    let span = super::support::TIMEOUT;
    let request = PairingRequest::submit(&folder, &pin, span, since_1970.as_secs()).unwrap();
    eventually("an open pairing window", || {
        (request.opened().unwrap().len() == 1).then_some(())
    });
    request.withdraw().unwrap();
    // The PIN contains blanks, as it may when pasted.
    assert_eq!(second.log_in(" 271 828 ").status, 200);
}
