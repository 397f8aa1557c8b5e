//! Log-in through an OpenID Connect provider in the browser. The test presses every button at the portal and at the
//! provider.

use openuvr_devtools::{Browser, Tab};
use serde_json::json;

use super::provider::Provider;
use super::start;
use super::support::Installation;

/// Waits until the page shows the button, and presses it.
fn press(browser: &mut Browser, tab: &Tab, button: &str) {
    browser.until(
        tab,
        &format!(
            "!!document.querySelector({button:?}) && !document.querySelector({button:?}).hidden"
        ),
    );
    let script = format!("document.querySelector({button:?}).click(); true");
    browser.run(tab, &script);
}

/// Fills in the provider's form with this name, and confirms the consent.
fn log_in_there(browser: &mut Browser, tab: &Tab, provider: &Provider, name: &str) {
    browser.until(
        tab,
        &format!(
            "location.origin === {:?} && !!document.querySelector('[name=login]')",
            provider.issuer
        ),
    );
    let script = format!(
        "document.querySelector('[name=login]').value = {name:?};
         document.querySelector('[name=password]').value = 'x'; true"
    );
    browser.run(tab, &script);
    press(browser, tab, "button[type=submit]");
    browser.until(
        tab,
        "location.pathname.startsWith('/interaction/') && !document.querySelector('[name=login]')",
    );
    press(browser, tab, "button[type=submit]");
}

#[test]
#[ignore = "belongs to ./dev test-portal: a browser, and a provider of OpenID Connect"]
fn a_user_logs_in_and_out_through_a_provider() {
    let place = Installation::new();
    let Some((mut browser, _turn)) = start(&place) else {
        return;
    };
    let provider = Provider::start(&place, "create = true\nusers = \"players\"");
    let portal = place.start_at(&provider.portal);
    let at_portal = format!("location.origin === 'http://{}'", portal.at);
    let tab = browser.open(&format!("http://{}/", portal.at));
    let log_in_is_asked =
        format!("{at_portal} && document.querySelector('#login')?.hidden === false");
    browser.until(
        &tab,
        &format!("{log_in_is_asked} && !document.querySelector('#provider').hidden"),
    );
    let said = browser.run(&tab, "document.querySelector('#provider').textContent");
    assert_eq!(said, "Log in with Example");

    press(&mut browser, &tab, "#provider");
    log_in_there(&mut browser, &tab, &provider, "ada");
    browser.until(
        &tab,
        &format!("{at_portal} && document.querySelectorAll('#applications > li').length > 0"),
    );
    let shown = browser.run(
        &tab,
        "({
            user: document.querySelector('#user').textContent,
            path: location.pathname + location.search + location.hash,
            login: document.querySelector('#login').hidden,
            operator: document.querySelector('#tab-operator').hidden,
            problem: document.querySelector('#problem').hidden,
            sessions: document.querySelectorAll('#own > li').length,
        })",
    );
    let expected = json!({
        "user": "ada", "path": "/", "login": true, "operator": true, "problem": true, "sessions": 0,
    });
    assert_eq!(shown, expected);
    assert!(place.processes().is_empty(), "a log-in starts nothing");
    // An account that logs in through the provider has no password to change.
    press(&mut browser, &tab, "#tab-account");
    browser.until(
        &tab,
        "document.querySelector('#change').hidden && !document.querySelector('#no-password').hidden",
    );

    // Logs out of the portal and of the provider. The provider asks for confirmation.
    press(&mut browser, &tab, "#logout");
    browser.until(&tab, &format!("location.origin === {:?}", provider.issuer));
    press(&mut browser, &tab, "button[name=logout][value=yes]");
    browser.until(&tab, &log_in_is_asked);
    let me = browser.run(&tab, "fetch('/api/me').then((answer) => answer.status)");
    assert_eq!(me, 401);

    // The next user must authenticate again. The page shows users outside of the group why their log-in fails.
    press(&mut browser, &tab, "#provider");
    log_in_there(&mut browser, &tab, &provider, "stranger");
    browser.until(&tab, &log_in_is_asked);
    browser.until(
        &tab,
        "document.querySelector('#problem').textContent === 'You are not allowed to log in here. Contact the operator.'",
    );
    let hash = browser.run(&tab, "location.hash");
    assert_eq!(hash, "", "the reason is shown once");
}
