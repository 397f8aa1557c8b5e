//! The clipboard of a real X server, with well-behaved and other owners.
#![cfg(any(feature = "host", feature = "client"))]
#![allow(clippy::unwrap_used)] // A test may panic.

use std::sync::Arc;

use openuvr_media::clipboard::x11::X11Clipboard;
use openuvr_media::clipboard::{Clipboard as _, ClipboardEvent, ReadFailure, WatchMode};
use openuvr_xserver::{
    Xvfb,
    fixture::{self, Painter},
};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode,
    SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent, Window, WindowClass,
};
use x11rb::wrapper::ConnectionExt as _;

const MOST: usize = 1_000_000;

fn server() -> Option<Xvfb> {
    fixture::xvfb("64x48", &[])
}

fn watching(server: &Xvfb) -> X11Clipboard {
    X11Clipboard::open(&server.display, WatchMode::Changes, MOST).unwrap()
}

/// Offers this text until the server ends. A separate thread answers requests for it.
fn offering(server: &Xvfb, text: &str) {
    let mut clipboard = X11Clipboard::open(&server.display, WatchMode::Nothing, MOST).unwrap();
    clipboard.offer(text.into()).unwrap();
    // The thread ends with the server.
    std::thread::spawn(move || while clipboard.next_event().is_ok() {});
}

fn copied(text: &str) -> ClipboardEvent {
    ClipboardEvent::Copied(Arc::from(text))
}

/// A clipboard owner controlled by the test.
struct Owner {
    painter: Painter,
    window: Window,
}

impl Owner {
    fn new(server: &Xvfb) -> Owner {
        let painter = server.painter();
        let window = painter.conn.generate_id().unwrap();
        let aux = CreateWindowAux::new();
        let class = WindowClass::INPUT_ONLY;
        (painter.conn)
            .create_window(0, window, painter.root, 0, 0, 1, 1, 0, class, 0, &aux)
            .unwrap();
        Owner { painter, window }
    }

    fn atom(&self, name: &str) -> Atom {
        let atom = self.painter.conn.intern_atom(false, name.as_bytes());
        atom.unwrap().reply().unwrap().atom
    }

    fn own(&self) {
        let clipboard = self.atom("CLIPBOARD");
        (self.painter.conn)
            .set_selection_owner(self.window, clipboard, x11rb::CURRENT_TIME)
            .unwrap();
        self.painter.sync();
    }

    fn request(&self) -> SelectionRequestEvent {
        loop {
            if let Event::SelectionRequest(request) = self.painter.conn.wait_for_event().unwrap() {
                return request;
            }
        }
    }

    fn answer(&self, request: &SelectionRequestEvent) {
        let notify = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor: request.requestor,
            selection: request.selection,
            target: request.target,
            property: request.property,
        };
        (self.painter.conn)
            .send_event(false, request.requestor, EventMask::NO_EVENT, notify)
            .unwrap();
        self.painter.sync();
    }

    /// Answers the next request with these targets.
    fn targets(&self, targets: &[&str]) {
        let request = self.request();
        let targets: Vec<Atom> = targets.iter().map(|name| self.atom(name)).collect();
        (self.painter.conn)
            .change_property32(
                PropMode::REPLACE,
                request.requestor,
                request.property,
                AtomEnum::ATOM,
                &targets,
            )
            .unwrap();
        self.answer(&request);
    }

    /// Answers the next request with these bytes of this type.
    fn give(&self, kind: &str, bytes: &[u8]) {
        let request = self.request();
        let kind = self.atom(kind);
        (self.painter.conn)
            .change_property8(
                PropMode::REPLACE,
                request.requestor,
                request.property,
                kind,
                bytes,
            )
            .unwrap();
        self.answer(&request);
    }

    /// Answers the next request with the announcement of an incremental transfer (INCR) of this many bytes.
    fn announce(&self, bytes: u32) -> SelectionRequestEvent {
        let request = self.request();
        let incr = self.atom("INCR");
        (self.painter.conn)
            .change_property32(
                PropMode::REPLACE,
                request.requestor,
                request.property,
                incr,
                &[bytes],
            )
            .unwrap();
        self.answer(&request);
        request
    }
}

#[test]
fn text_of_any_length_is_read_also_in_parts() {
    let Some(server) = server() else { return };
    let mut clipboard = watching(&server);
    for text in ["a", "Grüße 😀", &"wörd ".repeat(150_000), &"x".repeat(MOST)] {
        offering(&server, text);
        assert!(clipboard.next_event().unwrap() == copied(text));
    }
    offering(&server, &"x".repeat(MOST + 1));
    let long = ClipboardEvent::ReadFailed(ReadFailure::TooLong);
    assert_eq!(clipboard.next_event().unwrap(), long);
    let mut late = X11Clipboard::open(&server.display, WatchMode::Everything, 2 * MOST).unwrap();
    assert!(late.next_event().unwrap() == copied(&"x".repeat(MOST + 1)));
}

#[test]
fn an_offered_text_is_not_read_back() {
    let Some(server) = server() else { return };
    let mut clipboard = watching(&server);
    clipboard.offer("of the peer".into()).unwrap();
    // A clipboard manager takes over the same text. Then another text is copied.
    offering(&server, "of the peer");
    offering(&server, "marker");
    assert_eq!(clipboard.next_event().unwrap(), copied("marker"));
    clipboard.waker().wake();
    assert_eq!(clipboard.next_event().unwrap(), ClipboardEvent::Woken);
    // Another text was copied in between, so the first text counts as new again.
    offering(&server, "of the peer");
    assert_eq!(clipboard.next_event().unwrap(), copied("of the peer"));
}

#[test]
fn older_types_are_read_and_non_text_is_reported() {
    let Some(server) = server() else { return };
    let mut clipboard = watching(&server);
    let owner = Owner::new(&server);
    std::thread::scope(|scope| {
        let owns = scope.spawn(|| {
            owner.own();
            owner.targets(&["TARGETS", "TEXT", "STRING"]);
            owner.give("STRING", b"caf\xe9");
            owner.own();
            owner.targets(&["image/png"]);
            owner.own();
            owner.targets(&["UTF8_STRING"]);
            owner.give("UTF8_STRING", &[0xff, 0xfe]);
            owner.own();
            owner.targets(&["TEXT"]);
            owner.give("COMPOUND_TEXT", b"plain");
        });
        assert_eq!(clipboard.next_event().unwrap(), copied("café"));
        let none = ClipboardEvent::ReadFailed(ReadFailure::NotText);
        assert_eq!(clipboard.next_event().unwrap(), none);
        assert_eq!(clipboard.next_event().unwrap(), none);
        assert_eq!(clipboard.next_event().unwrap(), copied("plain"));
        owns.join().unwrap();
    });
}

#[test]
fn an_announced_oversized_text_is_not_transferred() {
    let Some(server) = server() else { return };
    let mut clipboard = watching(&server);
    let owner = Owner::new(&server);
    std::thread::scope(|scope| {
        let owns = scope.spawn(|| {
            owner.own();
            owner.targets(&["UTF8_STRING"]);
            owner.announce(100_000_000)
        });
        let long = ClipboardEvent::ReadFailed(ReadFailure::TooLong);
        assert_eq!(clipboard.next_event().unwrap(), long);
        owns.join().unwrap();
    });
}

#[test]
fn a_silent_owner_times_out() {
    let Some(server) = server() else { return };
    let mut clipboard = watching(&server);
    let owner = Owner::new(&server);
    owner.own();
    let silent = ClipboardEvent::ReadFailed(ReadFailure::NoAnswer);
    assert_eq!(clipboard.next_event().unwrap(), silent);
    // An owner that starts an incremental transfer (INCR) and then stops also causes a timeout. The text of the next
    // owner is read at once.
    std::thread::scope(|scope| {
        let owns = scope.spawn(|| {
            owner.own();
            // The earlier request.
            owner.request();
            owner.targets(&["UTF8_STRING"]);
            owner.announce(5);
        });
        assert_eq!(clipboard.next_event().unwrap(), silent);
        owns.join().unwrap();
    });
    offering(&server, "next");
    assert_eq!(clipboard.next_event().unwrap(), copied("next"));
}

#[test]
fn a_vanished_owner_is_not_awaited() {
    let Some(server) = server() else { return };
    let mut clipboard = watching(&server);
    let owner = Owner::new(&server);
    std::thread::scope(|scope| {
        let owns = scope.spawn(move || {
            owner.own();
            owner.targets(&["UTF8_STRING"]);
            owner.announce(5);
            drop(owner);
            offering(&server, "after it");
            server
        });
        assert_eq!(clipboard.next_event().unwrap(), copied("after it"));
        owns.join().unwrap();
    });
}

#[test]
fn owners_of_a_single_text_type_are_read() {
    let Some(server) = server() else { return };
    let mut clipboard = watching(&server);
    let owner = Owner::new(&server);
    let kinds: [(&str, &[u8], &str); 6] = [
        (
            "text/plain;charset=utf-8",
            "Gr\u{fc}\u{df}e \u{20ac}".as_bytes(),
            "Gr\u{fc}\u{df}e \u{20ac}",
        ),
        (
            "text/plain;charset=UTF-8",
            "\u{6f22}".as_bytes(),
            "\u{6f22}",
        ),
        ("text/plain", "na\u{ef}ve".as_bytes(), "na\u{ef}ve"),
        ("text/plain", b"caf\xe9", "caf\u{e9}"),
        ("COMPOUND_TEXT", b"caf\xe9", "caf\u{e9}"),
        ("COMPOUND_TEXT", b"5 \x1b-b\xa4", "5 \u{20ac}"),
    ];
    std::thread::scope(|scope| {
        let owns = scope.spawn(|| {
            for (kind, bytes, _) in kinds {
                owner.own();
                owner.targets(&["TARGETS", kind]);
                owner.give(kind, bytes);
            }
            owner.own();
            owner.targets(&["text/plain"]);
            owner.give("text/plain", b"\xff\0");
        });
        for (kind, _, text) in kinds {
            assert_eq!(clipboard.next_event().unwrap(), copied(text), "{kind}");
        }
        let none = ClipboardEvent::ReadFailed(ReadFailure::NotText);
        assert_eq!(clipboard.next_event().unwrap(), none);
        owns.join().unwrap();
    });
}

#[test]
fn plain_text_and_multiple_targets_are_offered() {
    let Some(server) = server() else { return };
    offering(&server, "Gr\u{fc}\u{df}e \u{20ac}");
    let asks = Owner::new(&server);
    let conn = &asks.painter.conn;
    let atom = |name: &str| asks.atom(name);
    let ask = |target: &str, property: &str| {
        let (clipboard, target, property) = (atom("CLIPBOARD"), atom(target), atom(property));
        conn.convert_selection(
            asks.window,
            clipboard,
            target,
            property,
            x11rb::CURRENT_TIME,
        )
        .unwrap();
        asks.painter.sync();
        loop {
            if let Event::SelectionNotify(answer) = conn.wait_for_event().unwrap() {
                return answer.property == property;
            }
        }
    };
    let value = |property: &str| {
        let all = conn.get_property(true, asks.window, atom(property), AtomEnum::ANY, 0, 1024);
        all.unwrap().reply().unwrap()
    };
    // Asks until the other thread owns the clipboard.
    let owned = (0..12_000).any(|_| {
        let there = ask("TARGETS", "ANSWER");
        if !there {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        there
    });
    assert!(owned);
    let targets: Vec<Atom> = value("ANSWER").value32().unwrap().collect();
    for kind in [
        "MULTIPLE",
        "text/plain",
        "text/plain;charset=utf-8",
        "UTF8_STRING",
    ] {
        assert!(targets.contains(&atom(kind)), "{kind}");
    }
    assert!(ask("text/plain", "ANSWER"));
    let plain = value("ANSWER");
    assert_eq!(plain.type_, atom("text/plain"));
    assert_eq!(plain.value, "Gr\u{fc}\u{df}e \u{20ac}".as_bytes());
    // Two of these targets fail: Latin-1 (`STRING`) has no euro sign, and no picture is offered.
    let pairs = [
        "UTF8_STRING",
        "A",
        "STRING",
        "B",
        "image/png",
        "C",
        "TIMESTAMP",
        "D",
    ]
    .map(atom);
    conn.change_property32(
        PropMode::REPLACE,
        asks.window,
        atom("PAIRS"),
        atom("ATOM_PAIR"),
        &pairs,
    )
    .unwrap();
    assert!(ask("MULTIPLE", "PAIRS"));
    let given: Vec<Atom> = value("PAIRS").value32().unwrap().collect();
    let [utf8, a, string, _, png, _, time, d] = pairs;
    assert_eq!(given, [utf8, a, string, 0, png, 0, time, d]);
    assert_eq!(value("A").value, "Gr\u{fc}\u{df}e \u{20ac}".as_bytes());
    assert_eq!(value("D").value32().unwrap().count(), 1);
    assert!(!ask("MULTIPLE", "NOTHING"), "no pairs");
}
