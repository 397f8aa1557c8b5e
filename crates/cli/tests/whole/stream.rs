//! What the source drew is what the client shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use openuvr_media::barcode::Stamp;

use crate::support::{Display, Eye, Host, PIN, scene};

const SIZE: &str = "640x360";

/// Reads a display's bar code again and again: every different one that it saw, in order.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Stamp>>,
}

impl Watch {
    fn start(display: &Display) -> Watch {
        let eye = Eye::open(display);
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen: Vec<Stamp> = Vec::new();
            while !stopping.load(Ordering::Relaxed) {
                if let Some(stamp) = eye.stamp().filter(|stamp| seen.last() != Some(stamp)) {
                    seen.push(stamp);
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            seen
        });
        Watch { stop, thread }
    }

    fn end(self) -> Vec<Stamp> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the display stays")
    }
}

fn assert_increasing(seen: &[Stamp]) {
    for pair in seen.windows(2) {
        assert!(
            pair[0].frame < pair[1].frame,
            "{:?} then {:?}",
            pair[0],
            pair[1]
        );
    }
}

#[test]
fn the_scene_arrives_as_it_was_drawn() {
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return;
    };
    let _scene = scene(&here, SIZE, "20");
    Eye::open(&here).more_frames(1);
    let mut host = Host::start(&[&PIN[..], &["--display", &here.name]].concat());
    let mut client = host.client("client", &there, &PIN);
    client.line("showing 640x360");
    let (drawn, shown) = (Watch::start(&here), Watch::start(&there));
    Eye::open(&there).more_frames(40);
    // The last that the client showed is surely seen at the source by now.
    let (shown, drawn) = (shown.end(), drawn.end());
    assert_increasing(&drawn);
    assert_increasing(&shown);
    let drawn: BTreeMap<u32, Stamp> = drawn.iter().map(|s| (s.frame, *s)).collect();
    let (first, last) = (drawn.keys().next().unwrap(), drawn.keys().last().unwrap());
    let mut known = 0;
    for stamp in shown.iter().filter(|s| s.frame >= *first) {
        assert!(
            stamp.frame <= *last,
            "{stamp:?} is shown but not drawn yet ({last})"
        );
        // A busy machine may have kept this test from seeing one or the other at the source.
        if let Some(drawn) = drawn.get(&stamp.frame) {
            assert_eq!(drawn, stamp);
            known += 1;
        }
    }
    assert!(
        known >= 10,
        "{known} frames were seen at both ends, of {} shown",
        shown.len()
    );
    host.program.assert_running();
    client.assert_running();
    assert_eq!(
        client.text().lines().count(),
        3,
        "nothing to complain about:\n{}",
        client.text()
    );
}
