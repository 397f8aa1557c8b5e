//! Who is let in: by PIN once, by its key from then on, and not when the person says so.

use openuvr_proto::units::Size;

use super::caller::{Caller, devices, next};
use super::remote::Remote;
use super::support::{PIN, Rig, eventually};

const SIZE: Size = Size::new(320, 192);

#[test]
fn a_browser_pairs_once_and_is_a_device_like_others() {
    let rig = Rig::new("pairs", SIZE);
    let mut caller = Caller::new(&rig);
    let refused = caller.log_in("");
    assert_eq!(refused.status, 403);
    let why = refused.json()["refused"].as_str().unwrap().to_owned();
    assert!(why.contains("a PIN is needed"), "{why}");
    assert_eq!(caller.websocket("", &caller.origin()).err(), Some(401));
    assert_eq!(caller.log_in("999999").status, 403);
    let early = caller.log_in(PIN);
    // Unless that second has passed.
    if early.status != 200 {
        let wait = early.json();
        let why = wait["refused"].as_str().unwrap();
        assert!(why.contains("try again in 1 s"), "{wait}");
    }
    eventually("the wait is over", || {
        (caller.log_in(PIN).status == 200).then_some(())
    });
    // Its key is enough now; the PIN's window is closed to others.
    assert_eq!(caller.log_in("").status, 200);
    assert!(caller.websocket("", &caller.origin()).is_ok());
    let closed = Caller::new(&rig).log_in(PIN).json();
    assert_eq!(closed["refused"], "pairing is closed at the host");
    let listed = eventually("it is written down", || {
        let store = devices(&rig.folder.0);
        store.devices().first().cloned()
    });
    assert_eq!(listed.name, "a caller");
}

#[test]
fn a_device_that_is_forbidden_is_gone_at_once() {
    let rig = Rig::new("forbidden", SIZE);
    let mut caller = Caller::known(&rig);
    let mut remote = Remote::connected(&caller, "");
    let mut store = eventually("it is written down", || {
        let store = devices(&rig.folder.0);
        (!store.devices().is_empty()).then_some(store)
    });
    store.set_allowed("a caller", false).unwrap();
    let told = next(&mut remote.socket).unwrap();
    assert_eq!(told["message"], "the host forbids this device");
    assert_eq!(next(&mut remote.socket).unwrap()["type"], "disconnect");
    // Neither its cookie, nor its key, nor a PIN helps.
    assert_eq!(caller.websocket("", &caller.origin()).err(), Some(401));
    let pin = openuvr_proto::control::pairing::Pin::parse(PIN).unwrap();
    rig.host.open_pairing(pin, super::support::TIMEOUT);
    for pin in ["", PIN] {
        let refused = caller.log_in(pin).json();
        assert_eq!(refused["refused"], "the host forbids this device");
    }
}

#[test]
fn a_log_in_counts_once_at_one_address_by_one_key() {
    let rig = Rig::new("once", SIZE);
    let caller = Caller::new(&rig);
    let origin = format!("origin: {}", caller.origin());
    let post = |body: &str| caller.ask("POST /login", &[&origin], body);
    let refused = |body: &str| {
        post(body).json()["refused"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    };
    // For another site.
    let challenge = caller.challenge();
    let other = caller.body(&challenge, "https://evil.example", PIN);
    assert!(refused(&other).contains("signature"));
    // The challenge is used up by that.
    let body = caller.body(&challenge, &caller.origin(), PIN);
    assert!(refused(&body).contains("too long"));
    // One that nobody gave.
    let body = caller.body(&"0".repeat(64), &caller.origin(), PIN);
    assert!(refused(&body).contains("too long"));
    // Somebody else's key under this signature.
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
