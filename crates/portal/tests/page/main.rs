//! Tests the page in a real browser, which `./dev test-portal` installs. Without a browser, the tests are skipped with
//! a message.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod apart;
mod log_in_elsewhere;
mod moonlight;
mod operators;
mod passwords;
mod plays;
#[path = "../portal/provider.rs"]
#[allow(dead_code, reason = "here a real browser is used")]
mod provider;
mod shows;
#[path = "../portal/support.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use openuvr_devtools::{Browser, Tab};
use serde_json::json;
use support::skip::skip;
use support::{Installation, PASSWORD, Portal, wait};

/// Serialises the tests, because each browser uses more than one core until it has loaded its page.
static TURN: Mutex<()> = Mutex::new(());

/// Starts a browser, and takes the lock that serialises the tests. `None` if no browser is installed.
fn start(place: &Installation) -> Option<(Browser, MutexGuard<'static, ()>)> {
    start_with(|program| Browser::start(program, place.folder.path()))
}

/// Like [`start`], but the browser accepts only the certificate of [`Installation::secure`].
fn start_trusting(place: &Installation) -> Option<(Browser, MutexGuard<'static, ()>)> {
    let public_key = std::fs::read_to_string(place.path("spki")).unwrap();
    start_with(|program| Browser::start_trusting(program, place.folder.path(), &public_key))
}

fn start_with(
    open_browser: impl FnOnce(&'static str) -> Browser,
) -> Option<(Browser, MutexGuard<'static, ()>)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match openuvr_devtools::program() {
        Some(program) => Some((open_browser(program), turn)),
        None => {
            skip("chromium is not installed: apt-get install chromium, or ./dev test-portal");
            None
        }
    }
}

/// Like [`start`], in this network namespace.
fn start_in(namespace: &str, place: &Installation) -> Option<(Browser, MutexGuard<'static, ()>)> {
    let public_key = std::fs::read_to_string(place.path("spki")).unwrap();
    start_with(|program| Browser::start_in(namespace, program, place.folder.path(), &public_key))
}

/// Configures real sessions on this machine.
fn write_local(place: &Installation, secure: &str) {
    let openuvr = support::openuvr();
    let local = format!("[local]\nprogram = [{openuvr:?}, \"session\"]");
    place.write(
        "portal.toml",
        &format!("{secure}data = \"data\"\n{local}\n"),
    );
}

/// Makes the scene the only application, with these additional lines in its entry.
fn write_scene(place: &Installation, more: &str) {
    let openuvr = support::openuvr();
    let entry = format!("name = \"scene\"\ncommand = [{openuvr:?}, \"scene\"]\nsize = \"640x360\"");
    place.write(
        "applications.toml",
        &format!("[[application]]\n{entry}\n{more}\n"),
    );
}

/// Logs in through the form.
fn log_in(browser: &mut Browser, portal: &Portal, name: &str) -> Tab {
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

/// A script that presses the first button with the label `word` in the elements that `within` selects.
fn press(word: &str, within: &str) -> String {
    format!(
        "[...document.querySelectorAll('{within} button')].find((of) => of.textContent === '{word}').click(); true"
    )
}

/// A script that returns whether the user's newest session is in this state.
fn state(of: &str) -> String {
    format!("document.querySelector('#own li')?.dataset.state === '{of}'")
}

/// Starts an application from the list, and waits until its session is in this state.
fn start_application(browser: &mut Browser, tab: &Tab, application: &str, until: &str) {
    let button = format!("document.querySelector('[data-start={application}]').click(); true");
    browser.run(tab, &button);
    browser.until(tab, &state(until));
}

/// Opens the page that plays the session. It opens in the same window, as if the browser had blocked a new window.
fn play(browser: &mut Browser, tab: &Tab) {
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
    // The first picture consists only of a valid signature and cannot be displayed. The page shows a letter instead, as
    // for applications without a picture.
    browser.until(
        &tab,
        "[...document.querySelectorAll('#applications .picture')].map((of) => of.textContent).join('') === 'BSA'",
    );
    start_application(&mut browser, &tab, "bare", "running");
    assert_eq!(place.processes().len(), 1);
    let said = browser.run(
        &tab,
        "document.querySelector('#own .what span').textContent",
    );
    assert!(said.as_str().unwrap().starts_with("running on "), "{said}");
    // The duration advances while the page is open.
    browser.until(
        &tab,
        &format!("document.querySelector('#own .what span').textContent !== {said}"),
    );
    browser.run(&tab, &press("Share", "#own"));
    browser.until(
        &tab,
        "document.querySelector('#own').textContent.includes('Stop sharing')",
    );

    // When the portal restarts at the same address, the page reconnects.
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
    wait("the end of its processes", || place.processes().is_empty());
    browser.run(
        &operator,
        "document.querySelector('#tab-play').click(); true",
    );
    browser.until(
        &operator,
        "document.querySelectorAll('#shared > li').length === 0",
    );
}

/// Logs out, and logs in as the operator.
fn log_in_anew(browser: &mut Browser, portal: &Portal, tab: &Tab) -> Tab {
    browser.run(tab, "document.querySelector('#logout').click(); true");
    browser.until(tab, "!document.querySelector('#login').hidden");
    log_in(browser, portal, "root")
}
