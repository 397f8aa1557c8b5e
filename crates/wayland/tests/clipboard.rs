//! The clipboard of a real Wayland compositor, shared with other programs.
#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "../../media/tests/skip/mod.rs"]
mod skip;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use openuvr_media::clipboard::{Clipboard as _, ClipboardEvent, ReadFailure, WatchMode};
use openuvr_proto::units::Size;
use openuvr_wayland::clipboard::WaylandClipboard;
use openuvr_xserver::sway::Sway;

/// Copies `content` with another program. The other program runs until a different text is copied.
fn copy(sway: &Sway, kind: &str, content: &[u8]) {
    let mut program = sway
        .command("wl-copy")
        .args(["--type", kind])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    program.stdin.take().unwrap().write_all(content).unwrap();
    assert!(program.wait().unwrap().success());
}

fn sway() -> Option<Sway> {
    let has = |program| skip::has_program(program, "wl-clipboard");
    (has("wl-copy") && has("wl-paste")).then_some(())?;
    Sway::start(Size::new(320, 240))
}

fn open(sway: &Sway, watch: WatchMode, most: usize) -> WaylandClipboard {
    WaylandClipboard::open(sway.socket().to_str(), watch, most).unwrap()
}

#[test]
fn copied_text_arrives_and_offered_text_is_pasted() {
    let Some(sway) = sway() else { return };
    copy(&sway, "text/plain;charset=utf-8", "Grüße".as_bytes());
    let mut clipboard = open(&sway, WatchMode::Everything, 100_000);
    let copied = |text: &str| ClipboardEvent::Copied(Arc::from(text));
    assert_eq!(clipboard.next_event().unwrap(), copied("Grüße"));
    // This text is longer than the buffer of a pipe.
    let long = "мир ".repeat(10_000);
    copy(&sway, "text/plain", long.as_bytes());
    assert_eq!(clipboard.next_event().unwrap(), copied(&long));
    copy(&sway, "image/png", b"\x89PNG");
    let failed = ClipboardEvent::ReadFailed(ReadFailure::NotText);
    assert_eq!(clipboard.next_event().unwrap(), failed);
    copy(&sway, "text/plain", &[0xff, 0xfe]);
    assert_eq!(clipboard.next_event().unwrap(), failed);
    copy(&sway, "text/plain", &[b'x'; 100_001]);
    let failed = ClipboardEvent::ReadFailed(ReadFailure::TooLong);
    assert_eq!(clipboard.next_event().unwrap(), failed);

    let offered = "из дома\n".repeat(20_000);
    clipboard.offer(Arc::from(offered.as_str())).unwrap();
    let waker = clipboard.waker();
    let paste = paste(&sway);
    let pasted = std::thread::spawn(move || {
        let pasted = paste.wait_with_output().unwrap();
        waker.wake();
        pasted
    });
    // The clipboard does not report its own text as copied.
    assert_eq!(clipboard.next_event().unwrap(), ClipboardEvent::Woken);
    let pasted = pasted.join().unwrap();
    assert!(
        pasted.stdout == offered.as_bytes(),
        "{} bytes",
        pasted.stdout.len()
    );
    // Text that another program copies afterwards is reported.
    copy(&sway, "text/plain", b"later");
    assert_eq!(clipboard.next_event().unwrap(), copied("later"));
}

fn paste(sway: &Sway) -> std::process::Child {
    let mut command: Command = sway.command("wl-paste");
    command.arg("--no-newline").stdout(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn text_is_read_only_as_wanted() {
    let Some(sway) = sway() else { return };
    copy(&sway, "text/plain", b"before");
    let mut changes = open(&sway, WatchMode::Changes, 100);
    let mut nothing = open(&sway, WatchMode::Nothing, 100);
    // One second is enough to handle the initial state before the next text is copied.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(1);
    let waker = changes.waker();
    let started = std::thread::spawn(move || {
        std::thread::sleep(end.saturating_duration_since(std::time::Instant::now()));
        waker.wake();
    });
    assert_eq!(changes.next_event().unwrap(), ClipboardEvent::Woken);
    started.join().unwrap();
    copy(&sway, "text/plain", b"after");
    let copied = ClipboardEvent::Copied(Arc::from("after"));
    assert_eq!(changes.next_event().unwrap(), copied);
    nothing.waker().wake();
    assert_eq!(nothing.next_event().unwrap(), ClipboardEvent::Woken);
}

#[test]
fn a_dead_compositor_is_one_line() {
    let Some(mut sway) = sway() else { return };
    let mut clipboard = open(&sway, WatchMode::Everything, 100);
    sway.kill();
    let why = loop {
        match clipboard.next_event() {
            Ok(event) => assert!(matches!(event, ClipboardEvent::ReadFailed(_)), "{event:?}"),
            Err(why) => break why.to_string(),
        }
    };
    assert_eq!(why.lines().count(), 1, "{why}");
    assert!(why.contains("clipboard failed"), "{why}");
}
