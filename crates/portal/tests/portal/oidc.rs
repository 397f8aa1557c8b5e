//! Log-ins with a real OpenID Connect provider.

use serde_json::json;

use super::provider::{Provider, Visitor, come_back, log_in, start_log_in};
use super::support::{Installation, PASSWORD};

const GROUPS: &str = "create = true\nusers = \"players\"\noperators = \"operators\"";

/// The value of a field in a URL's query, without decoding.
fn field<'a>(url: &'a str, name: &str) -> &'a str {
    let query = url.split_once('?').unwrap().1;
    let mut fields = query.split('&').filter_map(|field| field.split_once('='));
    fields.find(|(of, _)| *of == name).unwrap().1
}

#[test]
#[ignore = "belongs to ./dev test-portal: a provider of OpenID Connect"]
fn people_come_by_the_provider() {
    let place = Installation::new();
    let provider = Provider::start(&place, GROUPS);
    let portal = place.start_at(&provider.portal);
    let anonymous = portal.anonymous();
    let ways = anonymous.request("GET", "/api/login", None).unwrap().json();
    assert_eq!(ways, json!({"provider": "Example"}));

    for _ in 0..2 {
        let ada = log_in(&provider, portal.anonymous(), "ada").unwrap();
        let me = ada.request("GET", "/api/me", None).unwrap().json();
        assert_eq!(
            (&me["name"], &me["operator"]),
            (&json!("ada"), &json!(false))
        );
        assert_eq!(me["password"], false);
        assert_eq!(
            ada.start_session(&super::support::id(1), "bare").status,
            202
        );
    }
    let olga = log_in(&provider, portal.anonymous(), "olga").unwrap();
    let users = olga
        .request("GET", "/api/operator/users", None)
        .unwrap()
        .json();
    assert_eq!(users.as_array().unwrap().len(), 2, "{users}");
    let stranger = log_in(&provider, portal.anonymous(), "stranger").err();
    assert_eq!(stranger.as_deref(), Some("/#login=group"));
    let odd = log_in(&provider, portal.anonymous(), "..%2Fada").err();
    assert_eq!(odd.as_deref(), Some("/#login=name"));

    // An account from the provider has no password.
    for password in ["", "x", PASSWORD] {
        let body = json!({"name": "ada", "password": password});
        let answer = anonymous
            .request("POST", "/api/login", Some(&body))
            .unwrap();
        assert_eq!(answer.status, 401);
    }
    let left = olga.request("POST", "/api/logout", None).unwrap();
    assert_eq!(left.status, 200);
    let url = left.json()["url"].as_str().unwrap().to_owned();
    assert!(
        url.starts_with(&format!("{}/session/end?", provider.issuer)),
        "{url}"
    );
    assert_eq!(olga.status("GET", "/api/me", None), 401);
}

#[test]
#[ignore = "belongs to ./dev test-portal: a provider of OpenID Connect"]
fn a_log_in_counts_once_and_in_its_own_browser() {
    let place = Installation::new();
    let provider = Provider::start(&place, GROUPS);
    let portal = place.start_at(&provider.portal);
    let (url, person) = start_log_in(portal.anonymous());
    for part in [
        "code_challenge_method=S256",
        "nonce=",
        "state=",
        "response_type=code",
    ] {
        assert!(url.contains(part), "{url}");
    }
    let back = Visitor::default().log_in(&provider, &url, "ada");
    let leads = |person: &super::support::Person, back: &str| {
        let answer = come_back(person, back);
        answer.header("location").unwrap().to_owned()
    };
    // The redirect fails in another user's browser, which would otherwise act as ada. It also fails in a browser
    // without a cookie.
    let (_, other) = start_log_in(portal.anonymous());
    assert_eq!(leads(&other, &back), "/#login=state");
    assert_eq!(leads(&portal.anonymous(), &back), "/#login=state");
    // The redirect fails with an unknown state.
    let forged = back.replace("state=", "state=x");
    assert_eq!(leads(&person, &forged), "/#login=state");
    assert_eq!(leads(&person, &back), "/");
    assert_eq!(leads(&person, &back), "/#login=state", "a second time");

    // A used code fails in a new log-in, because the verifier of the new log-in differs.
    let code = field(&back, "code");
    let (url, person) = start_log_in(portal.anonymous());
    let state = field(&url, "state");
    let replayed = format!(
        "http://{}/api/oidc/callback?code={code}&state={state}",
        person.at
    );
    assert_eq!(leads(&person, &replayed), "/#login=token");
    let (url, person) = start_log_in(portal.anonymous());
    let state = field(&url, "state");
    let denied = format!(
        "http://{}/api/oidc/callback?error=access_denied&state={state}",
        person.at
    );
    assert_eq!(leads(&person, &denied), "/#login=denied");
    let site = [("sec-fetch-site", "cross-site")];
    let refused = portal
        .anonymous()
        .request_with("POST", "/api/oidc/login", None, &site);
    assert_eq!(refused.unwrap().status, 403, "started by another site");
}

#[test]
#[ignore = "belongs to ./dev test-portal: a provider of OpenID Connect"]
fn a_name_never_selects_an_existing_account() {
    let place = Installation::new();
    let provider = Provider::start(&place, "create = true");
    place.add_user("ada", &["--operator"]);
    let portal = place.start_at(&provider.portal);
    let refused = log_in(&provider, portal.anonymous(), "ada").err();
    assert_eq!(refused.as_deref(), Some("/#login=name"));
    let link = place.run(&["user", "link", "ada", "--subject", "ada"], "");
    assert!(
        link.status.success(),
        "{}",
        String::from_utf8_lossy(&link.stderr)
    );
    let ada = log_in(&provider, portal.anonymous(), "ada").unwrap();
    let me = ada.request("GET", "/api/me", None).unwrap().json();
    assert_eq!(me["operator"], true, "as set by the operator's command");
    let twice = place.run(&["user", "add", "bob", "--subject", "ada"], "");
    let said = String::from_utf8(twice.stderr).unwrap();
    assert!(
        !twice.status.success() && said.contains("has the account \"ada\""),
        "{said}"
    );
    assert!(place.run(&["user", "link", "ada"], "").status.success());
    assert_eq!(ada.status("GET", "/api/me", None), 401, "its log-ins end");
    let refused = log_in(&provider, portal.anonymous(), "ada").err();
    assert_eq!(refused.as_deref(), Some("/#login=name"));
}

#[test]
#[ignore = "belongs to ./dev test-portal: a provider of OpenID Connect"]
fn without_the_provider_passwords_go_on() {
    let place = Installation::new();
    let provider = Provider::start(&place, "");
    place.add_user("ada", &[]);
    let portal = place.start_at(&provider.portal);
    let unknown = log_in(&provider, portal.anonymous(), "bob").err();
    assert_eq!(unknown.as_deref(), Some("/#login=account"), "none is made");
    let (url, person) = start_log_in(portal.anonymous());
    let back = Visitor::default().log_in(&provider, &url, "ada");
    let at = provider.portal.clone();
    drop(provider);
    // The provider stops during a log-in. The portal can start without the provider.
    let answer = come_back(&person, &back);
    assert_eq!(answer.header("location"), Some("/#login=provider"));
    portal.kill();
    let portal = place.start_at(&at);
    let begun = portal
        .anonymous()
        .request("POST", "/api/oidc/login", None)
        .unwrap();
    assert_eq!(begun.status, 503);
    assert!(
        begun.text().contains("log in with name and password"),
        "{}",
        begun.text()
    );
    portal.log_in("ada");
}
