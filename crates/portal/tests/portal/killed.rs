//! A portal that is killed at any point: nothing is started twice, and nothing is left without one.

use std::thread;
use std::time::Duration;

use serde_json::json;

use super::support::{Installation, id, wait};

#[test]
fn a_killed_portal_finds_its_sessions_again() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    let portal = place.start();
    let ada = portal.log_in("ada");
    assert_eq!(ada.begin(&id(1), "save").status, 202);
    ada.until(&id(1), "running");
    let share = format!("/api/sessions/{}/shared", id(1));
    assert_eq!(
        ada.status("PUT", &share, Some(&json!({"shared": true}))),
        204
    );
    let before = place.processes();
    portal.kill();
    assert_eq!(place.processes(), before, "playing goes on");

    let portal = place.start();
    let ada = ada.at(&portal);
    let found = ada.until(&id(1), "running");
    assert_eq!(found["shared"], true);
    assert_eq!(ada.begin(&id(1), "save").status, 202);
    assert_eq!(
        ada.begin(&id(2), "save").status,
        409,
        "its saves have a writer"
    );
    assert_eq!(place.processes(), before);

    // Whose account is gone has no sessions.
    portal.kill();
    assert!(place.run(&["user", "remove", "ada"], "").status.success());
    let _portal = place.start();
    wait("it is stopped", || place.processes().is_empty());
}

#[test]
fn killed_between_launch_and_answer_nothing_runs_twice() {
    let place = Installation::new();
    place.add_user("ada", &["--sessions", "100"]);
    let mut portal = place.start();
    let mut ada = portal.log_in("ada");
    // Points in time from before the request is read to after its answer; where they fall is the machine's choice,
    // and what must hold is the same everywhere.
    for round in 0..12_u32 {
        let session = id(round + 1);
        let asked = {
            let (ada, session) = (ada.at(&portal), session.clone());
            thread::spawn(move || {
                let body = json!({"application": "bare"});
                ada.request("PUT", &format!("/api/sessions/{session}"), Some(&body))
            })
        };
        thread::sleep(Duration::from_micros(u64::from(round) * 1500));
        portal.kill();
        let _ = asked.join().unwrap();

        portal = place.start();
        ada = ada.at(&portal);
        let again = ada.begin(&session, "bare").status;
        if again == 410 {
            // Killed after it was noted, and before it was launched.
            assert!(place.processes().is_empty(), "round {round}");
            continue;
        }
        assert_eq!(again, 202, "round {round}");
        let seen = {
            let mut seen = String::new();
            wait("it runs or is lost", || {
                let path = format!("/api/sessions/{session}");
                let view = ada.request("GET", &path, None).unwrap().json();
                seen = view["state"].as_str().unwrap_or_default().to_owned();
                seen == "running" || seen == "lost"
            });
            seen
        };
        let running = place.processes().len();
        assert_eq!(
            running,
            usize::from(seen == "running"),
            "round {round}: {seen}"
        );
        let path = format!("/api/sessions/{session}");
        assert_eq!(ada.status("DELETE", &path, None), 202);
        wait("nothing is left", || place.processes().is_empty());
    }
}
