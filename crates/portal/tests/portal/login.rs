//! Log-in: cookie attributes, and limits for wrong passwords.

use serde_json::json;

use super::support::{Installation, PASSWORD};

#[test]
fn wrong_passwords_are_limited_and_tell_nothing() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    let portal = place.start();
    let anonymous = portal.anonymous();
    let try_as = |name: &str| {
        let body = json!({"name": name, "password": "wrong password"});
        let answer = anonymous
            .request("POST", "/api/login", Some(&body))
            .unwrap();
        (answer.status, answer.text())
    };
    let [ada, unknown] = ["ada", "unknown"].map(|name| {
        let mut answers = Vec::new();
        for _ in 0..7 {
            answers.push(try_as(name));
        }
        answers
    });
    assert_eq!(
        ada, unknown,
        "the response is the same with and without an account"
    );
    let statuses: Vec<u16> = ada.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429, 429]);
    let right = json!({"name": "ada", "password": PASSWORD});
    let limited = anonymous
        .request("POST", "/api/login", Some(&right))
        .unwrap();
    assert_eq!(limited.status, 429, "the correct one is limited, too");
    assert!(limited.header("retry-after").is_some());
    let asked = [("authorization", "Bearer count me")];
    let metrics = anonymous
        .request_with("GET", "/metrics", None, &asked)
        .unwrap();
    let counted = "openuvr_portal_logins_refused_total{reason=\"wrong\"} 10";
    assert!(metrics.text().contains(counted), "{}", metrics.text());
}

#[test]
fn a_login_is_a_cookie_that_scripts_do_not_see() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    let portal = place.start();
    let body = json!({"name": "ada", "password": PASSWORD});
    let answer = portal
        .anonymous()
        .request("POST", "/api/login", Some(&body))
        .unwrap();
    let cookie = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");

    let ada = portal.log_in("ada");
    portal.kill();
    let portal = place.start();
    let ada = ada.at(&portal);
    assert_eq!(
        ada.status("GET", "/api/me", None),
        200,
        "it survives a restart"
    );
    assert_eq!(ada.status("POST", "/api/logout", None), 204);
    assert_eq!(ada.status("GET", "/api/me", None), 401);

    let other = portal.log_in("ada");
    let changed = place.run(&["user", "password", "ada"], "");
    let said = String::from_utf8(changed.stdout).unwrap();
    assert!(said.contains("can log in with the password"), "{said}");
    assert_eq!(
        other.status("GET", "/api/me", None),
        401,
        "a new password ends log-ins"
    );
    let removed = place.run(&["user", "remove", "ada"], "");
    assert!(removed.status.success());
    let again = place.run(&["user", "remove", "ada"], "");
    assert!(!again.status.success());
}
