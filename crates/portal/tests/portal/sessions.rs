//! Sessions through the REST interface, from start to history.

use serde_json::{Value, json};

use super::support::{Installation, Person, id, wait};

fn history(person: &Person) -> Value {
    person.request("GET", "/api/history", None).unwrap().json()
}

#[test]
fn a_person_starts_plays_and_stops() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    let portal = place.start();
    let ada = portal.log_in("ada");
    let listed = ada
        .request("GET", "/api/applications", None)
        .unwrap()
        .json();
    let names: Vec<&str> = (listed.as_array().unwrap().iter())
        .map(|of| of["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["bare", "save", "adas"]);

    let session = id(1);
    for _ in 0..2 {
        assert_eq!(ada.start_session(&session, "bare").status, 202);
    }
    let running = ada.until(&session, "running");
    assert_eq!(running["title"], "Bare");
    assert!(running["server"].is_string());
    assert_eq!(place.processes().len(), 1);
    let path = format!("/api/sessions/{session}/ticket");
    let ticket = ada.request("POST", &path, Some(&json!({}))).unwrap().json();
    // The session has no endpoint for native clients, and browsers need no ticket.
    assert_eq!(ticket["native"], Value::Null);
    assert_eq!(ticket["ticket"].as_str().unwrap().len(), 187);
    assert_eq!(history(&ada)[0]["ended"], Value::Null);

    let path = format!("/api/sessions/{session}");
    assert_eq!(ada.status("DELETE", &path, None), 202);
    let ended = ada.until(&session, "ended");
    assert_eq!(ended["why"], "stopped");
    assert!(place.processes().is_empty());
    wait("the history", || history(&ada)[0]["why"] == "stopped");
    let ticket = format!("{path}/ticket");
    assert_eq!(ada.status("POST", &ticket, Some(&json!({}))), 410);
}

#[test]
fn limit_errors_are_readable() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    place.add_user("bob", &["--sessions", "5"]);
    let portal = place.start();
    let (ada, bob) = (portal.log_in("ada"), portal.log_in("bob"));
    assert_eq!(
        bob.start_session(&id(1), "adas").status,
        404,
        "not permitted"
    );
    assert_eq!(
        bob.start_session("../../x", "bare").status,
        404,
        "another path"
    );
    assert_eq!(bob.start_session("x", "bare").status, 422);
    assert_eq!(bob.start_session(&id(1), "none").status, 404);
    assert_eq!(bob.start_session(&id(1), "bare").status, 202);
    assert_eq!(
        ada.start_session(&id(1), "bare").status,
        404,
        "another's id"
    );

    assert_eq!(ada.start_session(&id(2), "save").status, 202);
    let twice = ada.start_session(&id(3), "save");
    assert_eq!(twice.status, 409);
    assert!(
        twice.text().contains("would overwrite each other's saves"),
        "{}",
        twice.text()
    );
    assert_eq!(ada.start_session(&id(4), "bare").status, 202);
    let many = ada.start_session(&id(5), "bare");
    assert_eq!(many.status, 409);
    assert!(
        many.text().contains("session limit reached (2)"),
        "{}",
        many.text()
    );

    // All three slots are in use; one session may be queued.
    assert_eq!(bob.start_session(&id(6), "bare").status, 202);
    wait("the reason of queueing", || {
        bob.until(&id(6), "queued")["why"] == "all 3 session slots of this machine are in use"
    });
    let full = bob.start_session(&id(7), "bare");
    assert_eq!(full.status, 503);
    assert!(full.text().contains("no capacity"), "{}", full.text());
    assert_eq!(
        ada.status("DELETE", &format!("/api/sessions/{}", id(4)), None),
        202
    );
    bob.until(&id(6), "running");
    assert_eq!(place.processes().len(), 3);
}

#[test]
fn applications_are_reloaded_when_they_change() {
    let place = Installation::new();
    place.add_user("root", &["--operator"]);
    let portal = place.start();
    let root = portal.log_in("root");
    place.write(
        "applications.toml",
        "[[application]]\nname = \"new\"\ncommand = [\"x\"]\n[[application]]\nname = \"bad\"\n",
    );
    let listed = root
        .request("GET", "/api/applications", None)
        .unwrap()
        .json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["name"], "new");
    let load = root
        .request("GET", "/api/operator/servers", None)
        .unwrap()
        .json();
    let problem = load["problems"][0].as_str().unwrap();
    assert!(
        problem.contains("\"bad\"") && problem.contains("command"),
        "{problem}"
    );
}
