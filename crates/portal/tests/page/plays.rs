//! End-to-end test from the portal's page to a moving picture in the browser, and back. It uses the real `openuvr
//! session`, which cargo builds as part of another package.

use std::collections::BTreeSet;
use std::fs;

use openuvr_devtools::{Browser, Tab};
use serde_json::json;

use super::support::{Installation, wait};
use super::{log_in, play, start_application, start_trusting, state, write_local, write_scene};

/// A script that defines `pixels()`. It returns a few pixels of the displayed picture as text, or an empty text if
/// there is no picture.
const PIXELS: &str = "globalThis.pixels = () => {
  const video = document.querySelector('#video');
  if (!video || !video.videoWidth) return '';
  const canvas = new OffscreenCanvas(48, 27);
  const context = canvas.getContext('2d');
  context.drawImage(video, 0, 0, 48, 27);
  const data = [...context.getImageData(0, 0, 48, 27).data].filter((_, at) => at % 4 !== 3);
  return data.some((value) => value > 40) ? data.join() : '';
}; true";

#[test]
#[ignore = "belongs to ./dev test-portal: a browser, an encoder and an application at once"]
fn pixels_move_in_the_browser_until_the_session_is_stopped() {
    let place = Installation::new();
    let secure = place.secure();
    // The browser accepts only the portal's certificate. A page with another certificate would not load.
    let Some((mut browser, _turn)) = start_trusting(&place) else {
        return;
    };
    write_local(&place, secure);
    write_scene(&place, "title = \"Scene\"\nsaves = true");
    place.add_user("ada", &["--operator"]);
    let portal = place.start();
    let tab = log_in(&mut browser, &portal, "ada");
    start_application(&mut browser, &tab, "scene", "running");
    a_link_opens_the_native_client(&mut browser, &tab);
    play(&mut browser, &tab);
    let origin = format!("{}://{}", portal.scheme, portal.at);
    browser.until(
        &tab,
        &format!(
            "location.origin === {origin:?} && location.pathname.startsWith('/play/') && \
             document.querySelector('#video')?.videoWidth > 0"
        ),
    );
    no_session_listens_by_tcp(&place);
    pixels_move(&mut browser, &tab);
    // The user has logged in only once: the page that plays the session does not ask for a log-in, and its URL contains
    // no credentials.
    let asked = "[document.querySelector('#login').hidden, location.search + location.hash]";
    assert_eq!(browser.run(&tab, asked), json!([true, ""]));
    let all = browser.run(
        &tab,
        "[...new Set(performance.getEntriesByType('resource').map((of) => new URL(of.name).origin))]",
    );
    assert_eq!(all, json!([origin]));

    // The portal's page opens in another window, because a browser does not display frames of a hidden tab.
    let played = tab;
    let tab = browser.open_window(&format!("{}://{}/", portal.scheme, portal.at));
    browser.until(&tab, &state("running"));
    an_operator_sees_figures(&mut browser, &tab);
    browser.run(
        &tab,
        "document.querySelector('#tab-play').click();
         [...document.querySelectorAll('#own button')].find((of) => of.textContent === 'Stop').click(); true",
    );
    browser.until(&tab, &state("ended"));
    wait("no remaining processes", || place.processes().is_empty());
    // The page that plays the session shows the end prominently, and its link leads back to the portal.
    browser.until(
        &played,
        "!document.querySelector('#notice').hidden && \
         document.querySelector('#notice h1').textContent === 'Session ended'",
    );
    browser.run(&played, "document.querySelector('#back').click(); true");
    browser.until(
        &played,
        &format!(
            "location.href === '{origin}/' && \
             document.querySelector('#own li')?.dataset.state === 'ended'"
        ),
    );
    assert!(
        place.path("data/saves/ada/scene").is_dir(),
        "saves are kept"
    );
}

/// Presses the button for the native client. Checks that its link lies under the pointer then, so that a second click
/// presses no other button, and that the button returns after the link was clicked.
fn a_link_opens_the_native_client(browser: &mut Browser, tab: &Tab) {
    browser.run(
        tab,
        "globalThis.native = () => [...document.querySelectorAll('#own button')]
           .find((of) => of.textContent === 'Native client');
         native().scrollIntoView();
         const box = native().getBoundingClientRect();
         globalThis.pointer = [box.x + box.width / 2, box.y + box.height / 2];
         native().click(); true",
    );
    browser.until(
        tab,
        "document.querySelector('#own a')?.href.startsWith('openuvr://')",
    );
    let under_pointer =
        "document.elementFromPoint(...pointer) === document.querySelector('#own a')";
    assert_eq!(browser.run(tab, under_pointer), json!(true));
    // No program of this machine is registered for the link's scheme.
    browser.run(
        tab,
        "const link = document.querySelector('#own a');
         link.addEventListener('click', (event) => event.preventDefault());
         link.click(); true",
    );
    browser.until(tab, "native() && !document.querySelector('#own a')");
    assert_eq!(browser.run(tab, &state("running")), json!(true));
}

/// Checks five times that the displayed picture changes.
pub(super) fn pixels_move(browser: &mut Browser, tab: &Tab) {
    browser.run(tab, PIXELS);
    for _ in 0..5 {
        browser.until(tab, "pixels() !== ''");
        let before = browser.run(tab, "globalThis.before = pixels(); before.length");
        assert!(before.as_u64().unwrap() > 0);
        browser.until(tab, "pixels() !== '' && pixels() !== before");
    }
}

/// Checks that no process of a session has a listening TCP socket (`/proc/net/tcp`, state 0A).
fn no_session_listens_by_tcp(place: &Installation) {
    let mut all = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        let lines = table.lines().map(|line| line.split_whitespace().collect());
        let listening = lines.filter(|words: &Vec<&str>| words.get(3) == Some(&"0A"));
        all.extend(listening.filter_map(|words| Some(format!("socket:[{}]", words.get(9)?))));
    }
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let sessions = fs::read_dir(place.path("data/sessions")).unwrap().flatten();
    let marks: Vec<String> = sessions
        .map(|of| format!("OPENUVR_SESSION={}", of.file_name().display()))
        .collect();
    let of_sessions = processes.filter(|entry| {
        let about = fs::read(entry.path().join("environ")).unwrap_or_default();
        let mut variables = about.split(|byte| *byte == 0);
        variables.any(|of| marks.iter().any(|mark| mark.as_bytes() == of))
    });
    let mut seen = 0;
    for process in of_sessions {
        let descriptors = fs::read_dir(process.path().join("fd"));
        for descriptor in descriptors.into_iter().flatten().flatten() {
            seen += 1;
            let open = fs::read_link(descriptor.path()).unwrap_or_default();
            let open = open.to_string_lossy();
            assert!(
                !all.contains(&*open),
                "{} listens",
                process.path().display()
            );
        }
    }
    assert!(seen > 0, "no session was checked");
}

/// Checks that the operator's tab shows the statistics of the browser that plays.
fn an_operator_sees_figures(browser: &mut Browser, tab: &Tab) {
    browser.run(tab, "document.querySelector('#tab-operator').click(); true");
    let shown = "document.querySelector('#all-sessions .figures')?.textContent ?? ''";
    let whole = r"/^1 player \(browser\), [\d.]+ frames\/s, [\d.]+\sms\s\(p50\), [\d.]+\sms\s\(p99\), ±[\d.]+\sms$/";
    browser.until(tab, &format!("{whole}.test({shown})"));
    let told = browser.run(
        tab,
        "fetch('/api/operator/sessions').then((of) => of.json())",
    );
    let player = &told[0]["subscribers"][0];
    let of = |name: &str| {
        player[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name} in {told}"))
    };
    // The scene draws 60 frames/s.
    let rate = of("frames_per_second");
    assert!(rate > 0.0 && rate < 70.0, "{told}");
    assert!(0.0 < of("latency_p50"), "{told}");
    assert!(of("latency_p50") <= of("latency_p99"), "{told}");
}
