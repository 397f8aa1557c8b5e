//! The live table and the messages above it, as rendered by a terminal.

use std::net::UdpSocket;

use crate::support::screen::Screen;
use crate::support::{Folder, PIN, Program, client, eventually, openuvr};

/// A host that streams a moving picture, with its address.
struct Host {
    screen: Screen,
    folder: Folder,
    address: String,
}

impl Host {
    /// Starts a host in a terminal; `None` if tmux is not installed.
    fn start(columns: u16, rows: u16) -> Option<Host> {
        let folder = Folder::new();
        let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        let dir = folder.join("host");
        let own = ["host", "--config-dir", &dir, "--bind", &address];
        let more = ["--source", "pattern", "--size", "320x200", "--fps", "30"];
        let args = [&own[..], &more, &PIN, &["--realtime", "off"]].concat();
        let screen = Screen::start(columns, rows, &openuvr(&args))?;
        screen.row("streaming a test pattern");
        Some(Host {
            screen,
            folder,
            address,
        })
    }

    fn client(&self, name: &str, args: &[&str]) -> Program {
        let args = [&["--present", "null"], args].concat();
        client(&self.folder, name, &self.address, &args)
    }

    /// Waits until the table is redrawn with other values.
    fn wait_for_redraw(&self) {
        let before = table_of(&self.screen.visible_rows());
        self.screen.eventually("another table", |_| {
            let now = table_of(&self.screen.visible_rows());
            (!now.is_empty() && now != before).then_some(())
        });
    }
}

/// The rows of the table, from its heading on.
fn table_of(rows: &[String]) -> Vec<String> {
    let head = |row: &String| row.contains(" (player)") || row.contains("complete frames/s");
    let first = rows.iter().position(head);
    first.map_or(Vec::new(), |first| rows[first..].to_vec())
}

fn count(rows: &[String], part: &str) -> usize {
    rows.iter().filter(|row| row.contains(part)).count()
}

#[test]
fn messages_stay_above_the_table() {
    let Some(host) = Host::start(100, 40) else {
        return;
    };
    host.screen.row("no client yet");
    let desk = host.client("desk", &PIN);
    desk.line("player at");
    host.screen.row("desk joins as player");
    host.screen.row("desk (player)");
    host.wait_for_redraw();
    host.screen.type_text(&["p", "Enter"]);
    let pin = host.screen.row("with the PIN");
    host.wait_for_redraw();
    host.wait_for_redraw();
    let expected = [
        "streaming a test",
        "desk joins as player",
        pin.as_str(),
        "complete frames/s",
    ];
    // While the table is redrawn, the screen may show a part of it.
    host.screen.eventually("messages, then one table", |rows| {
        let places: Vec<_> = (expected.iter())
            .map(|part| rows.iter().position(|row| row.contains(part)))
            .collect();
        let in_order = places.iter().all(Option::is_some) && places.is_sorted();
        let counts = ["complete frames/s", "FirstSent→FirstReceived", "no client"]
            .map(|part| count(rows, part));
        (in_order && counts == [1, 1, 0]).then_some(())
    });
    // A client leaves.
    drop(desk);
    host.screen.row("desk left: ");
    host.screen.row("no client now");
    let rows = host.screen.rows();
    for part in [&expected[..3], &["desk left"]].concat() {
        assert_eq!(count(&rows, part), 1, "{part}: {rows:#?}");
    }
    host.screen.type_text(&["C-c"]);
    assert_eq!(host.screen.wait(), 0);
    let rows = host.screen.rows();
    assert_eq!(
        count(&rows, "no client"),
        0,
        "the rows are removed: {rows:#?}"
    );
    assert_eq!(count(&rows, "FirstSent→FirstReceived"), 1, "{rows:#?}");
    assert_eq!(count(&rows, "desk left"), 1, "{rows:#?}");
}

#[test]
fn a_terminal_of_another_size_has_one_table() {
    let Some(host) = Host::start(100, 40) else {
        return;
    };
    let _desk = host.client("desk", &PIN);
    host.screen.row("desk joins as player");
    host.screen.row("desk (player)");
    for columns in [50, 30, 72, 120] {
        host.screen.resize(columns, 40);
        // This command prints a message that wraps in a narrow terminal.
        host.screen.type_text(&["b", "Enter"]);
        host.wait_for_redraw();
        host.wait_for_redraw();
        // Rows that the terminal has rewrapped may have scrolled off.
        host.screen.eventually("one table", |_| {
            let rows = host.screen.visible_rows();
            let whole = rows
                .iter()
                .filter(|row| row.starts_with("FirstReceived→Recover"));
            (count(&rows, "desk (player)") == 1 && whole.count() == 1).then_some(())
        });
        let rows = host.screen.visible_rows();
        let all: String = rows.concat();
        assert!(all.contains("streaming a test pattern"), "{rows:#?}");
        assert!(all.contains("desk joins as player"), "{rows:#?}");
        let long = rows.iter().find(|row| row.chars().count() > columns.into());
        assert_eq!(long, None);
    }
}

#[test]
fn a_still_picture_has_a_live_table() {
    let folder = Folder::new();
    let dir = folder.join("client");
    let args = [
        "client",
        "127.0.0.1:9",
        "--config-dir",
        &dir,
        "--present",
        "null",
    ];
    let Some(screen) = Screen::start(80, 24, &openuvr(&[&args[..], &PIN].concat())) else {
        return;
    };
    screen.row("no answer from 127.0.0.1:9 yet");
    screen.row("no host yet");
    assert_eq!(count(&screen.rows(), "client yet"), 0);
}

#[test]
fn typed_input_stays_until_its_end() {
    let Some(host) = Host::start(100, 40) else {
        return;
    };
    let _desk = host.client("desk", &PIN);
    host.screen.row("desk (player)");
    host.screen.type_text(&["b", "Space", "2"]);
    host.wait_for_redraw();
    host.wait_for_redraw();
    eventually("it is still there", || {
        let rows = host.screen.rows();
        rows.iter().any(|row| row == "b 2").then_some(())
    });
    host.screen.type_text(&["x", "Enter"]);
    host.screen.row("must be bits per second");
}
