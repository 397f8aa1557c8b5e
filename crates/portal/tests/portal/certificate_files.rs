//! A certificate in files that another program, such as certbot, renews.

use std::fs;

use super::acme::shown;
use super::support::{Installation, wait};

#[test]
fn changed_files_are_used_without_a_restart() {
    let place = Installation::new();
    place.write(
        "portal.toml",
        &format!("{}data = \"data\"\n", place.secure()),
    );
    let portal = place.start();
    let port = portal.at.rsplit(':').next().unwrap().parse().unwrap();
    let first = shown(port);
    assert!(first.contains("serial"), "{first}");
    let key = fs::read_to_string(place.path("key.pem")).unwrap();
    // The new certificate is written before its key. Until the new key is written, certificate and key do not match,
    // and the first certificate stays in use.
    place.secure();
    let next_key = fs::read_to_string(place.path("key.pem")).unwrap();
    place.write("key.pem", &key);
    wait("the error in the log", || {
        let log = fs::read_to_string(place.path("log")).unwrap_or_default();
        log.contains("cannot load the new certificate")
    });
    assert_eq!(shown(port), first);
    place.write("key.pem", &next_key);
    wait("the next certificate", || {
        let now = shown(port);
        now.contains("serial") && now != first
    });
}
