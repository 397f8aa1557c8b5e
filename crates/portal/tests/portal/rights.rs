//! Authorization: every route of the interface, for each role. The test fails if a route is missing in the table.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::support::{Installation, Person, id};

/// Method, path and body of a request, and the expected statuses for an anonymous client, the owner, another user, and
/// an operator other than the owner. `{own}` is a session that its owner does not share, and `{shared}` is a shared
/// session.
type Line = (&'static str, &'static str, Option<Value>, [u16; 4]);

fn table() -> Vec<Line> {
    let share = || Some(json!({"shared": true}));
    let wish = || Some(json!({"watch": true}));
    let start = || Some(json!({"application": "bare"}));
    let login = Some(json!({"name": "unknown", "password": "wrong password"}));
    let password = Some(json!({"old": "wrong password", "new": "another password"}));
    vec![
        ("GET", "/api/me", None, [401, 200, 200, 200]),
        ("GET", "/api/applications", None, [401, 200, 200, 200]),
        (
            "GET",
            "/api/applications/bare/picture",
            None,
            [401, 200, 200, 200],
        ),
        ("GET", "/api/sessions", None, [401, 200, 200, 200]),
        ("GET", "/api/history", None, [401, 200, 200, 200]),
        ("GET", "/api/events", None, [401, 200, 200, 200]),
        ("GET", "/api/sessions/{own}", None, [401, 200, 404, 200]),
        ("GET", "/api/sessions/{shared}", None, [401, 200, 200, 200]),
        ("PUT", "/api/sessions/{own}", start(), [401, 202, 404, 404]),
        (
            "PUT",
            "/api/sessions/{own}/shared",
            Some(json!({"shared": false})),
            [401, 204, 404, 403],
        ),
        (
            "PUT",
            "/api/sessions/{shared}/shared",
            share(),
            [401, 204, 403, 403],
        ),
        (
            "POST",
            "/api/sessions/{own}/ticket",
            wish(),
            [401, 200, 404, 200],
        ),
        (
            "POST",
            "/api/sessions/{shared}/ticket",
            wish(),
            [401, 200, 200, 200],
        ),
        ("GET", "/api/sessions/{own}/log", None, [401, 200, 404, 200]),
        (
            "GET",
            "/api/sessions/{shared}/log",
            None,
            [401, 200, 404, 200],
        ),
        (
            "GET",
            "/api/sessions/{own}/play",
            None,
            [401, 200, 404, 200],
        ),
        (
            "GET",
            "/api/sessions/{shared}/play",
            None,
            [401, 200, 200, 200],
        ),
        ("DELETE", "/api/sessions/{shared}", None, [401, 0, 403, 0]),
        ("DELETE", "/api/sessions/{own}", None, [401, 0, 404, 202]),
        ("GET", "/api/operator/sessions", None, [401, 403, 403, 200]),
        ("GET", "/api/operator/servers", None, [401, 403, 403, 200]),
        ("GET", "/api/operator/users", None, [401, 403, 403, 200]),
        (
            "POST",
            "/api/operator/users",
            Some(json!({"name": "no name"})),
            [401, 403, 403, 422],
        ),
        (
            "PUT",
            "/api/operator/users/unknown",
            Some(json!({"operator": false, "sessions": null, "disabled": false})),
            [401, 403, 403, 404],
        ),
        (
            "PUT",
            "/api/operator/draining",
            Some(json!({"draining": false})),
            [401, 403, 403, 204],
        ),
        ("GET", "/metrics", None, [401, 403, 403, 200]),
        ("GET", "/api/login", None, [200, 200, 200, 200]),
        // This portal has no provider; `oidc.rs` tests with a provider.
        ("POST", "/api/oidc/login", None, [404, 404, 404, 404]),
        ("GET", "/api/oidc/callback", None, [404, 404, 404, 404]),
        ("POST", "/api/login", login, [401, 401, 401, 401]),
        ("PUT", "/api/password", password, [401, 403, 403, 403]),
        ("POST", "/api/logout", None, [401, 204, 204, 204]),
    ]
}

#[test]
fn each_route_permits_the_right_roles() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    place.add_user("bob", &[]);
    place.add_user("root", &["--operator"]);
    let portal = place.start();
    let people = ["ada", "bob", "root"].map(|name| portal.log_in(name));
    let [ada, ..] = &people;
    let [own, shared] = [id(1), id(2)];
    for id in [&own, &shared] {
        assert_eq!(ada.start_session(id, "bare").status, 202);
        ada.until(id, "running");
    }
    let path = format!("/api/sessions/{shared}/shared");
    assert_eq!(
        ada.status("PUT", &path, Some(&json!({"shared": true}))),
        204
    );

    let anonymous = portal.anonymous();
    let all: [&Person; 4] = [&anonymous, &people[0], &people[1], &people[2]];
    let names = ["anonymous", "the owner", "another", "an operator"];
    for (method, path, body, expected) in table() {
        let path = path.replace("{own}", &own).replace("{shared}", &shared);
        for ((person, name), expected) in all.iter().zip(names).zip(expected) {
            // A request with the expected status 0 is skipped, because it would remove data that the other requests
            // need.
            if expected != 0 {
                let status = person.status(method, &path, body.as_ref());
                assert_eq!(status, expected, "{method} {path} by {name}");
            }
        }
    }

    let api = anonymous
        .request("GET", "/api/openapi.json", None)
        .unwrap()
        .json();
    let known: BTreeSet<(String, String)> = (api["paths"].as_object().unwrap().iter())
        .flat_map(|(path, of)| {
            let methods = of.as_object().unwrap().keys();
            methods.map(|method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    // Operation ids must be unique, because client generators use them as function names.
    let ids = (api["paths"].as_object().unwrap().values()).flat_map(|of| of.as_object().unwrap());
    let mut ids: Vec<&str> = ids
        .map(|(_, of)| of["operationId"].as_str().unwrap())
        .collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "duplicate operation id: {ids:?}");
    let plain = |path: &str| {
        path.replace("{own}", "{id}")
            .replace("{shared}", "{id}")
            .replace("/bare/", "/{name}/")
            .replace("/users/unknown", "/users/{name}")
    };
    let tested: BTreeSet<(String, String)> = (table().iter())
        .map(|(method, path, ..)| ((*method).to_owned(), plain(path)))
        .collect();
    let missing: Vec<_> = known.difference(&tested).collect();
    assert!(missing.is_empty(), "missing in the table: {missing:?}");
}

#[test]
fn only_operators_see_subscribers() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    place.add_user("root", &["--operator"]);
    let portal = place.start();
    let (ada, root) = (portal.log_in("ada"), portal.log_in("root"));
    for (person, number) in [(&ada, 1), (&root, 2)] {
        assert_eq!(person.start_session(&id(number), "bare").status, 202);
        person.until(&id(number), "running");
    }
    let ask = |person: &Person, path: &str| person.request("GET", path, None).unwrap();
    // The session program of this test reports no statistics, so they are null.
    let all = ask(&root, "/api/operator/sessions").json();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 2);
    for session in all {
        assert_eq!(session.get("subscribers"), Some(&Value::Null), "{session}");
    }
    // Only the list for operators contains statistics. Requests for a user's own sessions return no statistics, even to
    // an operator.
    for (person, number) in [(&ada, 1), (&root, 2)] {
        let own = format!("/api/sessions/{}", id(number));
        for path in ["/api/sessions", &own] {
            let told = ask(person, path).text();
            assert!(
                told.contains(&id(number)) && !told.contains("subscribers"),
                "{told}"
            );
        }
    }
    assert_eq!(ask(&ada, "/api/operator/sessions").status, 403);
    assert_eq!(ask(&ada, "/metrics").status, 403);
}

#[test]
fn changes_need_the_portals_own_page() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    let portal = place.start();
    let ada = portal.log_in("ada");
    let body = json!({"application": "bare"});
    let path = format!("/api/sessions/{}", id(1));
    let forged = Person {
        csrf: None,
        ..ada.at(&portal)
    };
    assert_eq!(
        forged.status("PUT", &path, Some(&body)),
        403,
        "without the header"
    );
    let foreign = [("origin", "http://evil.example")];
    let refused = ada
        .request_with("PUT", &path, Some(&body), &foreign)
        .unwrap();
    assert_eq!(refused.status, 403, "from another site");
    let site = [("sec-fetch-site", "cross-site")];
    let login = json!({"name": "ada", "password": super::support::PASSWORD});
    let refused = portal
        .anonymous()
        .request_with("POST", "/api/login", Some(&login), &site);
    assert_eq!(refused.unwrap().status, 403, "logging in from another site");
    assert!(place.processes().is_empty());
}
