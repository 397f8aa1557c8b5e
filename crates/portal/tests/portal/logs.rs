//! The log of a failed session. The history stores it for the session's owner and for operators.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use super::support::{Installation, Person, id, wait};

/// Makes a bare session execute a command line, and waits until the session has read it.
fn execute(place: &Installation, session: &str, what: &str) {
    let said = place.path(&format!("data/sessions/{session}/said"));
    let said: Value = serde_json::from_slice(&fs::read(said).unwrap()).unwrap();
    let at = said["web"].as_str().unwrap().strip_prefix("https://");
    let mut stream = TcpStream::connect(at.unwrap()).unwrap();
    writeln!(stream, "{what}").unwrap();
    // The session closes the connection when it has read the line.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn the_log_of_a_failed_session_is_kept_for_its_owner() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    place.add_user("bob", &[]);
    place.add_user("root", &["--operator"]);
    let portal = place.start();
    let people = ["ada", "bob", "root"].map(|name| portal.log_in(name));
    let [ada, bob, root] = &people;
    let session = id(1);
    assert_eq!(ada.start_session(&session, "bare").status, 202);
    ada.until(&session, "running");
    execute(&place, &session, "log the first line");
    execute(&place, &session, "log the last line");
    execute(&place, &session, "exit 3");
    let ended = ada.until(&session, "ended");
    let why = ended["why"].as_str().unwrap();
    assert_eq!(why, "failed with exit code 3: the last line");

    let path = format!("/api/sessions/{session}");
    let log = |person: &Person| {
        let path = format!("{path}/log");
        let answer = person.request("GET", &path, None).unwrap();
        (answer.status, answer.json()["text"].clone())
    };
    let whole = Value::from("the first line\nthe last line\n");
    let check = |anonymous: &Person, ada: &Person, bob: &Person, root: &Person| {
        assert_eq!(log(ada), (200, whole.clone()));
        assert_eq!(log(root), (200, whole.clone()));
        assert_eq!(log(bob), (404, Value::Null));
        assert_eq!(log(anonymous), (401, Value::Null));
    };
    check(&portal.anonymous(), ada, bob, root);
    // The engine forgets the session and removes the session's log file.
    assert_eq!(ada.status("DELETE", &path, None), 202);
    let folder = place.path(&format!("data/sessions/{session}"));
    wait("removal of its folder", || !folder.exists());
    check(&portal.anonymous(), ada, bob, root);
    portal.kill();
    let portal = place.start();
    let [ada, bob, root] = [ada, bob, root].map(|person| person.at(&portal));
    check(&portal.anonymous(), &ada, &bob, &root);
}
