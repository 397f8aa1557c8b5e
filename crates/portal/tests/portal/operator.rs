//! Operator actions: accounts, and draining.

use serde_json::{Value, json};

use super::support::{Installation, id, wait};

#[test]
fn an_operator_makes_limits_and_disables_accounts() {
    let place = Installation::new();
    place.add_user("root", &["--operator"]);
    let portal = place.start();
    let root = portal.log_in("root");
    let change = |name: &str, rights: &Value| {
        let path = format!("/api/operator/users/{name}");
        root.status("PUT", &path, Some(rights))
    };
    let new = json!({"name": "ada", "sessions": 1});
    let made = root
        .request("POST", "/api/operator/users", Some(&new))
        .unwrap();
    assert_eq!(made.status, 201);
    let login = json!({"name": "ada", "password": made.json()["password"]});
    let again = root.status("POST", "/api/operator/users", Some(&new));
    assert_eq!(again, 409, "the account exists");
    let ada = portal.log_in_with(&login);
    assert_eq!(ada.start_session(&id(1), "bare").status, 202);
    assert_eq!(
        ada.start_session(&id(2), "bare").status,
        409,
        "one session is the limit"
    );
    let more = json!({"operator": false, "sessions": 2, "disabled": false});
    assert_eq!(change("ada", &more), 204);
    assert_eq!(ada.start_session(&id(2), "bare").status, 202);
    ada.until(&id(1), "running");
    ada.until(&id(2), "running");
    assert_eq!(place.processes().len(), 2);
    // Disabling the account ends its log-ins and its sessions. New log-ins are refused.
    let disabled = json!({"operator": false, "sessions": 2, "disabled": true});
    assert_eq!(change("ada", &disabled), 204);
    assert_eq!(ada.status("GET", "/api/me", None), 401);
    let anonymous = portal.anonymous();
    assert_eq!(anonymous.status("POST", "/api/login", Some(&login)), 401);
    wait("the end of its sessions", || place.processes().is_empty());
    let listed = root
        .request("GET", "/api/operator/users", None)
        .unwrap()
        .json();
    let ada = json!({"name": "ada", "operator": false, "sessions": 2, "disabled": true});
    assert!(listed.as_array().unwrap().contains(&ada), "{listed}");
    assert_eq!(change("ada", &more), 204);
    assert_eq!(anonymous.status("POST", "/api/login", Some(&login)), 200);
    // Operators cannot lock themselves out.
    assert_eq!(change("root", &disabled), 409);
    assert_eq!(change("root", &more), 409);
}

#[test]
fn a_portal_that_is_drained_starts_nothing_and_ends_nothing() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    place.add_user("root", &["--operator"]);
    let portal = place.start();
    let (ada, root) = (portal.log_in("ada"), portal.log_in("root"));
    assert_eq!(ada.start_session(&id(1), "bare").status, 202);
    ada.until(&id(1), "running");
    let drain = |draining: bool| {
        let body = json!({ "draining": draining });
        assert_eq!(
            root.status("PUT", "/api/operator/draining", Some(&body)),
            204
        );
        let load = root.request("GET", "/api/operator/servers", None).unwrap();
        assert_eq!(load.json()["draining"], json!(draining));
    };
    drain(true);
    let refused = ada.start_session(&id(2), "bare");
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("maintenance"), "{}", refused.text());
    // A repeated request for a running session starts no second program.
    assert_eq!(ada.start_session(&id(1), "bare").status, 202);
    assert_eq!(place.processes().len(), 1);
    drain(false);
    assert_eq!(ada.start_session(&id(2), "bare").status, 202);
}
