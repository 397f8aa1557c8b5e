//! A session's program gets no secrets of the portal in its environment or in its arguments. All users of the machine
//! can read the arguments.

use std::fmt::Display;
use std::fs;

use super::support::{Installation, id};

const SECRET: &str = "hush-of-a-test";

/// The zero-terminated parts of a `/proc` file.
fn parts(process: impl Display, file: &str) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{process}/{file}")).unwrap();
    let parts = bytes.split(|byte| *byte == 0);
    let text = parts.map(|part| String::from_utf8_lossy(part).into_owned());
    text.filter(|part| !part.is_empty()).collect()
}

/// The only running session.
fn session(place: &Installation) -> i32 {
    let processes = place.processes();
    assert_eq!(processes.len(), 1);
    processes[0]
}

#[test]
fn a_session_has_no_secret_of_the_portals_environment() {
    let mut place = Installation::new();
    let config = fs::read_to_string(place.path("portal.toml")).unwrap();
    // The file ends with the table `[local]`, so the additional line belongs to this table.
    let more = "environment = [\"SITE_LICENCE\"]\n";
    place.write("portal.toml", &format!("{config}{more}"));
    let secrets = ["AWS_SECRET_ACCESS_KEY", "OPENUVR_PORTAL_OF_A_TEST"];
    let given = secrets.map(|name| (name, SECRET.to_owned()));
    place.environment.extend(given);
    let licence = ("SITE_LICENCE", "north".to_owned());
    place.environment.push(licence);
    place.add_user("ada", &[]);
    let portal = place.start();
    let ada = portal.log_in("ada");
    assert_eq!(ada.start_session(&id(1), "bare").status, 202);
    ada.until(&id(1), "running");

    let (of_portal, of_session) = (
        parts(portal.id(), "environ"),
        parts(session(&place), "environ"),
    );
    let names_secret = |all: &[String]| all.iter().any(|of| of.contains(SECRET));
    assert!(names_secret(&of_portal) && !names_secret(&of_session));
    let names = of_session.iter().filter_map(|of| of.split('=').next());
    let names: Vec<&str> = names.collect();
    for secret in secrets {
        assert!(!names.contains(&secret), "{names:?}");
    }
    let has = |of: &str| of_session.iter().any(|known| known == of);
    assert!(has("SITE_LICENCE=north"), "{names:?}");
    assert!(names.contains(&"PATH"), "{names:?}");
    assert!(has(&format!("OPENUVR_SESSION={}", id(1))), "{names:?}");
}

#[test]
fn a_session_gets_no_relay_secret_in_its_arguments() {
    let place = Installation::new();
    let config = fs::read_to_string(place.path("portal.toml")).unwrap();
    place.write("portal.toml", &format!("ice_file = \"relays\"\n{config}"));
    let relays = format!("turn:ada:{SECRET}@relay.example:3478\n");
    place.write("relays", &relays);
    place.add_user("ada", &[]);
    let portal = place.start();
    let ada = portal.log_in("ada");
    assert_eq!(ada.start_session(&id(1), "bare").status, 202);
    ada.until(&id(1), "running");

    let words = parts(session(&place), "cmdline");
    let set: Vec<&String> = words.iter().filter(|of| of.starts_with("--set")).collect();
    let file = place.path("relays");
    let told = format!("--set=ice-servers-file={}", file.display());
    assert_eq!(set, [&told]);
    let environment = parts(session(&place), "environ");
    let mut all = words.iter().chain(&environment);
    assert!(all.all(|of| !of.contains(SECRET) && !of.contains("relay.example")));
}
