//! The portal may be killed at any point: no session starts twice, and no process is orphaned.

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
    assert_eq!(ada.start_session(&id(1), "save").status, 202);
    ada.until(&id(1), "running");
    let share = format!("/api/sessions/{}/shared", id(1));
    assert_eq!(
        ada.status("PUT", &share, Some(&json!({"shared": true}))),
        204
    );
    let before = place.processes();
    portal.kill();
    assert_eq!(place.processes(), before, "playing continues");

    let portal = place.start();
    let ada = ada.at(&portal);
    let found = ada.until(&id(1), "running");
    assert_eq!(found["shared"], true);
    assert_eq!(ada.start_session(&id(1), "save").status, 202);
    assert_eq!(
        ada.start_session(&id(2), "save").status,
        409,
        "its saves are in use"
    );
    assert_eq!(place.processes(), before);

    // When an account has been removed, its sessions end.
    portal.kill();
    assert!(place.run(&["user", "remove", "ada"], "").status.success());
    let _portal = place.start();
    wait("the end of its processes", || place.processes().is_empty());
}

#[test]
fn killed_between_launch_and_answer_nothing_runs_twice() {
    let place = Installation::new();
    place.add_user("ada", &["--sessions", "100"]);
    let mut portal = place.start();
    let mut ada = portal.log_in("ada");
    // The portal is killed at different times, from before it reads the request until after its response. The exact
    // points depend on the machine, but the requirement is the same at every point.
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
        let again = ada.start_session(&session, "bare").status;
        if again == 410 {
            // The portal was killed after it had recorded the session, and before it launched the session.
            assert!(place.processes().is_empty(), "round {round}");
            continue;
        }
        assert_eq!(again, 202, "round {round}");
        let seen = {
            let mut seen = String::new();
            wait("running or lost", || {
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
        wait("no remaining processes", || place.processes().is_empty());
    }
}
