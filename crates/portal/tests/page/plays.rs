//! The whole way: from the portal's page to a moving picture in the browser, and back. With the real `openuvr
//! session`, which cargo builds for another package.

use super::browser::{Browser, Tab};
use super::support::{Place, openuvr, wait};
use super::{log_in, start};

/// A few pixels of what the page shows, as text; empty while it shows nothing.
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
    let place = Place::new();
    let Some((mut browser, _turn)) = start(&place) else {
        return;
    };
    let openuvr = openuvr();
    place.write(
        "portal.toml",
        // By HTTPS, as the session's own page: both have cookies of this machine.
        &format!(
            "{}data = \"data\"\n[local]\nprogram = [{openuvr:?}, \"session\"]\n",
            place.secure()
        ),
    );
    place.write(
        "applications.toml",
        &format!(
            "[[application]]\nname = \"scene\"\ntitle = \"Scene\"\ncommand = [{openuvr:?}, \"scene\"]\n\
             size = \"640x360\"\nsaves = true\n"
        ),
    );
    place.add_user("ada", &["--operator"]);
    let portal = place.start();
    let tab = log_in(&mut browser, &portal, "ada");
    browser.run(
        &tab,
        "document.querySelector('[data-start=scene]').click(); true",
    );
    browser.until(
        &tab,
        "document.querySelector('#own li')?.dataset.state === 'running'",
    );
    // As where a browser opens no second window: the session's page takes the place of the portal's.
    browser.run(
        &tab,
        "window.open = () => null;
         [...document.querySelectorAll('#own button')].find((of) => of.textContent === 'Play').click(); true",
    );
    browser.until(
        &tab,
        "location.protocol === 'https:' && document.querySelector('#video')?.videoWidth > 0",
    );
    browser.run(&tab, PIXELS);
    for _ in 0..5 {
        browser.until(&tab, "pixels() !== ''");
        let before = browser.run(&tab, "globalThis.before = pixels(); before.length");
        assert!(before.as_u64().unwrap() > 0);
        browser.until(&tab, "pixels() !== '' && pixels() !== before");
    }
    // Tickets serve once, so the address holds none any more.
    assert_eq!(browser.run(&tab, "location.hash"), "");

    // Beside it: of a tab that is hidden no frame is displayed.
    let tab = browser.open_window(&format!("{}://{}/", portal.scheme, portal.at));
    browser.until(
        &tab,
        "document.querySelector('#own li')?.dataset.state === 'running'",
    );
    an_operator_sees_figures(&mut browser, &tab);
    browser.run(
        &tab,
        "document.querySelector('#tab-play').click();
         [...document.querySelectorAll('#own button')].find((of) => of.textContent === 'Stop').click(); true",
    );
    browser.until(
        &tab,
        "document.querySelector('#own li')?.dataset.state === 'ended'",
    );
    wait("nothing of it is left", || place.processes().is_empty());
    assert!(
        place.path("data/saves/ada/scene").is_dir(),
        "what is saved stays"
    );
}

/// The operator's tab shows how it is for the browser that plays, as the interface tells it.
fn an_operator_sees_figures(browser: &mut Browser, tab: &Tab) {
    browser.run(tab, "document.querySelector('#tab-operator').click(); true");
    let shown = "document.querySelector('#everybody .figures')?.textContent ?? ''";
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
    // The scene draws 60 a second.
    let rate = of("frames_per_second");
    assert!(rate > 0.0 && rate < 70.0, "{told}");
    assert!(0.0 < of("latency_p50"), "{told}");
    assert!(of("latency_p50") <= of("latency_p99"), "{told}");
}
