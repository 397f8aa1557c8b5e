//! The page in a real browser, against a real host. `./dev test-web` installs the browser; without one these
//! tests say so and do nothing.

#![expect(clippy::unwrap_used, reason = "a test ends there")]

mod browser;
#[path = "../support/mod.rs"]
mod support;

use browser::{Browser, Tab};
use openuvr_proto::units::Size;
use support::{PIN, Rig};

const SIZE: Size = Size::new(640, 384);

/// Reads the bar code of the picture that the page shows now (crates/media/src/barcode.rs): the frame's
/// number, or null.
const BARCODE: &str = include_str!("barcode.js");

/// A browser, if there is one.
fn start(rig: &Rig) -> Option<Browser> {
    match browser::program() {
        Some(program) => Some(Browser::start(program, &rig.folder.0)),
        None => {
            eprintln!("skipped: install chromium for it, or run ./dev test-web");
            None
        }
    }
}

fn log_in(rig: &Rig, browser: &mut Browser) -> Tab {
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    browser.until(&tab, "!!document.querySelector('#login:not([hidden])')");
    let typed = format!(
        "document.querySelector('#pin').value = '{PIN}'; \
         document.querySelector('#login').requestSubmit(); true"
    );
    browser.run(&tab, &typed);
    browser.until(&tab, "document.querySelector('#video').videoWidth > 0");
    tab
}

#[test]
fn the_page_shows_what_the_host_draws() {
    let rig = Rig::new("shows", SIZE);
    let Some(mut browser) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    browser.run(&tab, BARCODE);
    let mut last = 0;
    for _ in 0..20 {
        browser.until(&tab, &format!("(readBarcode() ?? 0) > {last}"));
        last = browser.run(&tab, "readBarcode()").as_u64().unwrap();
    }
}
