//! A browser over a link that loses datagrams in both directions. Pictures, keys and the host's reports about frames
//! stay correct.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::PoisonError;
use std::time::Duration;

use openuvr_devtools::Tab;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_sim::link::Impairment;
use openuvr_testbed::hop::{Config, Hop, Stopper};
use serde_json::json;

use super::ledger::{Going, listen};
use super::support::{PIN, Rig, eventually};
use super::{BARCODE, KEYS, SIZE, next_press, start};

/// Directs the media to the emulated link, and records the pictures passed to the compositor.
const WATCH: &str = include_str!("../../../testbed/assets/watch.js");

/// Loss rate in both directions.
const LOSS: f64 = 0.05;

/// Required complete frames: four seconds of the test pattern.
const FRAMES: usize = 240;

/// Key presses, each with its release.
const PRESSES: usize = 60;

/// An emulated link in a thread.
struct Lossy {
    listens: SocketAddr,
    stopper: Stopper,
    _carries: Going,
}

impl Lossy {
    fn to(host: SocketAddr) -> Lossy {
        let course = Impairment {
            delay: Duration::from_millis(2),
            loss: LOSS,
            ..Impairment::default()
        };
        let hop = Hop::open(Config {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            to: host,
            up: course.clone().into(),
            down: course.into(),
            seed: 13,
        })
        .unwrap();
        let (listens, stopper) = (hop.local_addr().unwrap(), hop.stopper());
        let mut hop = Some(hop);
        let carries = Going::on(move || {
            let Some(hop) = hop.take() else { return };
            let report = hop.run().unwrap();
            let [up, down] = [&report.up, &report.down].map(|way| way.lost);
            assert!(up > 0 && down > 0, "nothing was lost: {report:?}");
        });
        Lossy {
            listens,
            stopper,
            _carries: carries,
        }
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}

#[test]
fn five_percent_lost_both_ways_leave_nothing_wrong() {
    let rig = Rig::new("lossy", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let (_noting, ledger) = listen(rig.host.notices());
    let look = || ledger.lock().unwrap_or_else(PoisonError::into_inner);
    let link = Lossy::to(rig.address());
    let tab = browser.open("about:blank");
    let port = link.listens.port();
    let script = format!("globalThis.mediaLink = {port};\n{BARCODE}\n{WATCH}");
    browser.call(Some(&tab), "Page.enable", &json!({}));
    let source = json!({ "source": script });
    browser.call(Some(&tab), "Page.addScriptToEvaluateOnNewDocument", &source);
    let page = format!("https://127.0.0.1:{}/", rig.address().port());
    browser.call(Some(&tab), "Page.navigate", &json!({ "url": page }));
    browser.log_in(&tab, PIN);
    browser.until(
        &tab,
        "document.querySelector('#state').textContent === 'you play'",
    );
    browser.run(&tab, "watchPictures()");
    let player = eventually("the browser plays", || {
        look()
            .subscribers_as(Role::Player, "a browser")
            .first()
            .copied()
    });

    // Despite losses, each key arrives once, alternating down and up.
    let press = |browser: &mut super::Browser, tab: &Tab, number: usize| {
        let (code, types, number) = KEYS[number % KEYS.len()];
        for pressed in [true, false] {
            browser.key(tab, code, types[0], pressed);
            let text = types[0].chars().next().filter(|_| pressed);
            let code = KeyCode(number);
            let event = InputEvent::Key {
                code,
                text,
                pressed,
            };
            assert_eq!(next_press(&rig), event);
        }
    };
    for number in 0..PRESSES {
        press(&mut browser, &tab, number);
    }
    eventually("complete frames", || {
        (look().arrived(player) >= FRAMES).then_some(())
    });

    // Each frame has one result, and only complete pictures were shown, in order.
    let last = look().newest();
    eventually(&format!("a result of each frame up to {last}"), || {
        look().unaccounted(last).is_none().then_some(())
    });
    let twice = {
        let ledger = look();
        assert!(ledger.wrong.is_empty(), "{:?}", ledger.wrong);
        let mut frames = ledger.records[&player].iter();
        frames.find_map(|(frame, ends)| (ends.len() != 1).then(|| (*frame, ends.clone())))
    };
    assert_eq!(twice, None);
    // A slow browser shows only some of the pictures.
    browser.until(&tab, "watched.pictures.length > 60");
    let seen = browser.run(
        &tab,
        "({ unreadable: watched.unreadable, frames: watched.pictures.map((picture) => picture[0]) })",
    );
    assert_eq!(seen["unreadable"], 0, "{seen}");
    let frames: Vec<u64> = seen["frames"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(serde_json::Value::as_u64)
        .collect();
    assert!(frames.is_sorted(), "{frames:?}");
    let asked = browser.run(&tab, "statisticsOf('video').then((of) => of.nackCount)");
    assert!(asked.as_u64().unwrap() > 0, "nothing was retransmitted");
    // The round-trip time is known, so NACKs are repeated early.
    browser.until(
        &tab,
        "statisticsOf('video', 'remote-inbound-rtp').then((of) => of?.roundTripTimeMeasurements > 0)",
    );

    // No key is held, so the next event is the next press.
    press(&mut browser, &tab, 0);
    browser.close(&tab);
    assert_eq!(next_press(&rig), InputEvent::ReleaseAll);
}
