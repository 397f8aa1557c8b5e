//! `openuvr host --web --moonlight`: a player enters a Moonlight client's PIN on the page.

use openuvr_devtools::{Browser, Tab};
use openuvr_xserver::fixture::has_xvfb;

use crate::moonlight::Rig;
use crate::moonlight::peer::Peer;
use crate::support::{openuvr, skip};

/// The PIN with which browsers log in.
const PIN: &str = "271828";

/// Whether the form for the client's PIN is shown.
const ASKED: &str = "!document.querySelector('#pairing').hidden";

/// Enters a PIN on the page.
fn enter(browser: &mut Browser, tab: &Tab, pin: &str) {
    browser.until(tab, ASKED);
    let typed = format!(
        "document.querySelector('#pairing-pin').value = '{pin}'; \
         document.querySelector('#pairing-name').value = 'attic'; \
         document.querySelector('#pairing').requestSubmit(); true"
    );
    browser.run(tab, &typed);
}

/// Waits until the page shows this message about the pairing.
fn says(browser: &mut Browser, tab: &Tab, words: &str) {
    let said = format!(
        "document.querySelector('#state').textContent.includes('{words}') && document.querySelector('#pairing').hidden"
    );
    browser.until(tab, &said);
}

#[test]
fn a_player_enters_the_pin_on_the_page() {
    let Some(program) = openuvr_devtools::program().filter(|_| has_xvfb()) else {
        return skip("chromium or Xvfb is not installed: apt-get install chromium xvfb");
    };
    let rig = Rig::new(&["--web", "127.0.0.1:0"]);
    let line = rig.host.line("browsers: https://");
    let url = line.split(' ').find(|word| word.starts_with("https://"));
    let url = url.expect("its address").trim_end_matches(',').to_owned();
    let dir = rig.folder.join("host");
    let words = ["devices", "--config-dir", &dir, "pair", "--pin", PIN];
    assert!(openuvr(&words).output().unwrap().status.success());
    let mut browser = Browser::start(program, rig.folder.path());
    let watches = browser.open(&format!("{url}?role=watch"));
    browser.log_in(&watches, PIN);
    let plays = browser.open_window(&url);
    let address = format!("127.0.0.1:{}", rig.http.port());
    let shown = format!("document.querySelector('#service-address').textContent === '{address}'");
    browser.until(&plays, &shown);

    let peer = Peer::new();
    let paired = peer.pairs(rig.http, "1234", || enter(&mut browser, &plays, "4321"));
    assert!(!paired, "the PIN was another");
    says(&mut browser, &plays, "pairing failed");

    let paired = peer.pairs(rig.http, "1234", || {
        browser.until(&plays, ASKED);
        // Only players see the form.
        assert_eq!(browser.run(&watches, ASKED), false);
        enter(&mut browser, &plays, "1234");
    });
    assert!(paired, "the PIN is right");
    says(&mut browser, &plays, "paired with attic");
    assert!(
        peer.get_protected(rig.https(), "applist")
            .contains("Desktop")
    );
}
