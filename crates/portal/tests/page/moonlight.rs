//! A session for Moonlight clients. A browser at the portal accepts the PIN.

use std::net::SocketAddr;

use peer::{Peer, element, get};

#[path = "../../../moonlight/tests/hostile/peer.rs"]
mod peer;

use super::support::{Installation, wait};
use super::{log_in, play, start_application, start_trusting, write_local, write_scene};

/// The client's video mode: width, height, frames/s.
const MODE: (u32, u32, u32) = (640, 360, 60);

#[test]
#[ignore = "belongs to ./dev test-portal: a browser, an encoder and an application at once"]
fn a_moonlight_client_plays_a_session() {
    let place = Installation::new();
    let secure = place.secure();
    let Some((mut browser, _turn)) = start_trusting(&place) else {
        return;
    };
    write_local(&place, secure);
    write_scene(&place, "moonlight = true");
    place.add_user("ada", &[]);
    let portal = place.start();
    let tab = log_in(&mut browser, &portal, "ada");
    start_application(&mut browser, &tab, "scene", "running");
    play(&mut browser, &tab);
    browser.until(
        &tab,
        "document.querySelector('#service-address')?.textContent.includes(':')",
    );
    let address = browser.run(
        &tab,
        "document.querySelector('#service-address').textContent",
    );
    let (_, port) = address.as_str().unwrap().rsplit_once(':').unwrap();
    let http = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));

    let peer = Peer::new();
    let paired = peer.pairs(http, "1234", || {
        browser.until(&tab, "!document.querySelector('#pairing').hidden");
        browser.run(
            &tab,
            "document.querySelector('#pairing-pin').value = '1234';
             document.querySelector('#pairing').requestSubmit(); true",
        );
    });
    assert!(paired, "the page's PIN reached the session");
    let port = element(&get(http, "serverinfo"), "HttpsPort");
    let https = SocketAddr::new(http.ip(), port.parse().unwrap());
    let application = element(&peer.get_protected(https, "applist"), "ID");
    let (width, height, rate) = MODE;
    let mode = format!("mode={width}x{height}x{rate}");
    let launched = peer.get_protected(https, &Peer::launch(&application, &mode));
    let url = element(&launched, "sessionUrl0");
    let rtsp = url.strip_prefix("rtspenc://").unwrap().parse().unwrap();
    let streams = peer::play(rtsp, 1, MODE).unwrap();
    wait("video of the session", || streams.packet().is_some());
}
