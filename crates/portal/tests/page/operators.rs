//! The operator's page: accounts, their limits, and draining.

use serde_json::{Value, json};

use super::support::{Installation, id, wait};
use super::{log_in, press, start};

#[test]
fn an_operator_adds_limits_and_disables_an_account_on_the_page() {
    let place = Installation::new();
    let Some((mut browser, _turn)) = start(&place) else {
        return;
    };
    place.add_user("root", &["--operator"]);
    let portal = place.start();
    let tab = log_in(&mut browser, &portal, "root");
    browser.run(
        &tab,
        "document.querySelector('#tab-operator').click(); true",
    );
    browser.until(&tab, "!!document.querySelector('[data-account=root]')");
    browser.run(
        &tab,
        "document.querySelector('#add-name').value = ' bob ';
         document.querySelector('#add-sessions').value = '1';
         document.querySelector('#add').requestSubmit(); true",
    );
    browser.until(
        &tab,
        "!document.querySelector('#made').hidden && !!document.querySelector('[data-account=bob]')",
    );
    // The new account's password is shown only once.
    let made = browser.run(&tab, "document.querySelector('#made').textContent");
    let made = made.as_str().unwrap();
    let password = made
        .strip_prefix("bob can log in with the password ")
        .and_then(|rest| rest.split_once(". "))
        .map(|(password, _)| password)
        .unwrap_or_else(|| panic!("{made}"));
    let login = json!({"name": "bob", "password": password});
    let bob = portal.log_in_with(&login);
    assert_eq!(bob.start_session(&id(1), "bare").status, 202);
    assert_eq!(
        bob.start_session(&id(2), "bare").status,
        409,
        "one is the limit"
    );

    let root = portal.log_in("root");
    let account = || {
        let all = root
            .request("GET", "/api/operator/users", None)
            .unwrap()
            .json();
        let mut all = all.as_array().unwrap().iter();
        all.find(|of| of["name"] == "bob").unwrap().clone()
    };
    // The script simulates that the user types a value and moves to the next field.
    browser.run(
        &tab,
        "{ const most = document.querySelector('[data-account=bob] input');
           most.focus(); most.dataset.typed = ''; most.value = '2'; most.dispatchEvent(new Event('change')); } true",
    );
    // The page rebuilds the account's line from the portal's response.
    browser.until(
        &tab,
        "document.querySelector('[data-account=bob] input:not([data-typed])')?.value === '2'",
    );
    assert_eq!(account()["sessions"], 2);
    assert_eq!(bob.start_session(&id(2), "bare").status, 202);
    bob.until(&id(1), "running");
    bob.until(&id(2), "running");

    let line = "document.querySelector('[data-account=bob]').textContent";
    browser.run(&tab, &press("Disable", "[data-account=bob]"));
    browser.until(
        &tab,
        &format!("{line}.includes('disabled') && {line}.includes('Enable')"),
    );
    assert_eq!(account()["disabled"], Value::Bool(true));
    assert_eq!(account()["sessions"], 2, "the value is stored");
    assert_eq!(bob.status("GET", "/api/me", None), 401);
    wait("the end of its sessions", || place.processes().is_empty());
    browser.run(&tab, &press("Enable", "[data-account=bob]"));
    browser.until(
        &tab,
        &format!("!{line}.includes('disabled') && {line}.includes('Disable')"),
    );
    portal.log_in_with(&login);
}

#[test]
fn an_operator_drains_the_portal_on_the_page() {
    let place = Installation::new();
    let Some((mut browser, _turn)) = start(&place) else {
        return;
    };
    place.add_user("ada", &[]);
    place.add_user("root", &["--operator"]);
    let portal = place.start();
    let ada = portal.log_in("ada");
    assert_eq!(ada.start_session(&id(1), "bare").status, 202);
    ada.until(&id(1), "running");
    let tab = log_in(&mut browser, &portal, "root");
    browser.run(
        &tab,
        "document.querySelector('#tab-operator').click(); true",
    );
    let says = |word: &str| format!("document.querySelector('#drain').textContent === '{word}'");
    let drain = "document.querySelector('#drain').click(); true";
    browser.until(&tab, &says("Refuse new sessions"));
    browser.run(&tab, drain);
    browser.until(&tab, &says("Accept new sessions"));
    assert_eq!(ada.start_session(&id(2), "bare").status, 503);
    assert_eq!(place.processes().len(), 1, "running sessions continue");
    // The page shows users the reason when it refuses to start a session.
    browser.run(
        &tab,
        "document.querySelector('#tab-play').click();
         document.querySelector('[data-start=bare]').click(); true",
    );
    browser.until(
        &tab,
        "document.querySelector('#problem').textContent.includes('maintenance')",
    );
    browser.run(
        &tab,
        "document.querySelector('#tab-operator').click(); true",
    );
    browser.run(&tab, drain);
    browser.until(&tab, &says("Refuse new sessions"));
    assert_eq!(ada.start_session(&id(2), "bare").status, 202);
}
