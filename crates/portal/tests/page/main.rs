//! The page in a real browser. `./dev test-portal` installs it; without one these tests say so and do nothing.

#![expect(clippy::unwrap_used, reason = "a test ends there")]

mod apart;
mod browser;
mod log_in_elsewhere;
mod operators;
mod passwords;
mod plays;
#[path = "../portal/provider.rs"]
#[allow(dead_code, reason = "here a real browser visits it")]
mod provider;
mod shows;
#[path = "../portal/support.rs"]
#[allow(dead_code, reason = "the tests without a browser use more of it")]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use browser::Browser;
use serde_json::json;
use support::{Installation, PASSWORD, Portal, wait};

/// One browser at a time: each takes more than a core until its page is there.
static TURN: Mutex<()> = Mutex::new(());

/// A browser, if there is one, and its turn.
fn start(place: &Installation) -> Option<(Browser, MutexGuard<'static, ()>)> {
    start_with(|program| Browser::start(program, &place.folder))
}

/// The same, which takes the certificate of [`Installation::secure`] and no other.
fn start_trusting(place: &Installation) -> Option<(Browser, MutexGuard<'static, ()>)> {
    let public_key = std::fs::read_to_string(place.path("spki")).unwrap();
    start_with(|program| Browser::start_trusting(program, &place.folder, &public_key))
}

#[expect(clippy::print_stderr, reason = "a test that does nothing says so")]
fn start_with(
    begin: impl FnOnce(&'static str) -> Browser,
) -> Option<(Browser, MutexGuard<'static, ()>)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match browser::program() {
        Some(program) => Some((begin(program), turn)),
        None => {
            assert!(std::env::var_os("CI").is_none(), "there is no browser");
            eprintln!("skipped: install chromium for it, or run ./dev test-portal");
            None
        }
    }
}

/// The same, in this network namespace.
fn start_in(namespace: &str, place: &Installation) -> Option<(Browser, MutexGuard<'static, ()>)> {
    let public_key = std::fs::read_to_string(place.path("spki")).unwrap();
    start_with(|program| Browser::start_in(namespace, program, &place.folder, &public_key))
}

/// What a person does to get in.
fn log_in(browser: &mut Browser, portal: &Portal, name: &str) -> browser::Tab {
    let tab = browser.open(&format!("{}://{}/", portal.scheme, portal.at));
    browser.until(
        &tab,
        "document.querySelector('#login') && !document.querySelector('#login').hidden",
    );
    let script = format!(
        "document.querySelector('#name').value = {name:?};
         document.querySelector('#password').value = {PASSWORD:?};
         document.querySelector('#login').requestSubmit(); true"
    );
    browser.run(&tab, &script);
    browser.until(
        &tab,
        "document.querySelectorAll('#applications > li').length > 0",
    );
    tab
}

/// Presses the first button with this word in these elements.
fn press(word: &str, within: &str) -> String {
    format!(
        "[...document.querySelectorAll('{within} button')].find((of) => of.textContent === '{word}').click(); true"
    )
}

/// Whether the person's newest session is in this state.
fn state(of: &str) -> String {
    format!("document.querySelector('#own li')?.dataset.state === '{of}'")
}

/// Starts an application from the list, and waits for its session to be in this state.
fn begin(browser: &mut Browser, tab: &browser::Tab, application: &str, until: &str) {
    let button = format!("document.querySelector('[data-start={application}]').click(); true");
    browser.run(tab, &button);
    browser.until(tab, &state(until));
}

/// Plays as where a browser opens no second window: the session's page takes the place of the portal's.
fn play(browser: &mut Browser, tab: &browser::Tab) {
    let play = press("Play", "#own");
    browser.run(tab, &format!("window.open = () => null; {play}"));
}

#[test]
fn a_person_logs_in_starts_shares_and_stops() {
    let place = Installation::new();
    let Some((mut browser, _turn)) = start(&place) else {
        return;
    };
    place.add_user("ada", &[]);
    place.add_user("root", &["--operator"]);
    let portal = place.start();
    let tab = log_in(&mut browser, &portal, "ada");
    let titles = browser.run(
        &tab,
        "[...document.querySelectorAll('#applications h3')].map((of) => of.textContent)",
    );
    assert_eq!(titles, json!(["Bare", "save", "adas"]));
    // The picture of the first has the first bytes of one and no more: a letter stands there, as with the others.
    browser.until(
        &tab,
        "[...document.querySelectorAll('#applications .picture')].map((of) => of.textContent).join('') === 'BSA'",
    );
    begin(&mut browser, &tab, "bare", "running");
    assert_eq!(place.processes().len(), 1);
    let said = browser.run(
        &tab,
        "document.querySelector('#own .what span').textContent",
    );
    assert!(said.as_str().unwrap().starts_with("running on "), "{said}");
    browser.run(&tab, &press("Share", "#own"));
    browser.until(
        &tab,
        "document.querySelector('#own').textContent.includes('Stop sharing')",
    );

    // The portal is started anew under the page, at the same address: it goes on by itself.
    let address = portal.at.clone();
    portal.kill();
    let portal = place.start_at(&address);
    browser.until(&tab, &state("running"));

    let operator = log_in_anew(&mut browser, &portal, &tab);
    browser.run(
        &operator,
        "document.querySelector('#tab-operator').click(); true",
    );
    browser.until(
        &operator,
        "document.querySelectorAll('#all-sessions > li').length === 1",
    );
    let servers = browser.run(&operator, "document.querySelector('#servers').textContent");
    assert!(
        servers.as_str().unwrap().contains("1 of 3 sessions"),
        "{servers}"
    );
    browser.run(&operator, &press("Stop", "#all-sessions"));
    wait("it is stopped", || place.processes().is_empty());
    browser.run(
        &operator,
        "document.querySelector('#tab-play').click(); true",
    );
    browser.until(
        &operator,
        "document.querySelectorAll('#shared > li').length === 0",
    );
}

/// Logs out, and in as the operator, in the same tab.
fn log_in_anew(browser: &mut Browser, portal: &Portal, tab: &browser::Tab) -> browser::Tab {
    browser.run(tab, "document.querySelector('#logout').click(); true");
    browser.until(tab, "!document.querySelector('#login').hidden");
    log_in(browser, portal, "root")
}
