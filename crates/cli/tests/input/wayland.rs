//! A Wayland session as a host's source: pictures, typed text and the clipboard, with a real compositor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::barcode::{self, Stamp};
use openuvr_media::input_source::{InputSource, SourceEvent};
use openuvr_media::picture::Picture;
use openuvr_media::present::Presenter as _;
use openuvr_proto::id::FrameId;
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::units::Size;
use openuvr_wayland::present::{WaylandPresenter, WindowConfig, open};
use openuvr_xserver::sway::Sway;

use crate::support::clipboard::{can_copy, copy_text, pasted};
use crate::support::skip::has_program;
use crate::support::{Display, Host, PIN, ScreenCapture, eventually};
use crate::xtest::XTest;

/// The key code of the letter A in X.
const A: u8 = 30 + 8;

const SIZE: &str = "640x360";
const SCREEN: Size = Size::new(640, 360);

/// A window that fills the session's output. A separate thread reads the events. Otherwise, the compositor's first
/// configuration would not be answered, and the window would not be shown.
struct SessionWindow {
    presenter: WaylandPresenter,
    input: Receiver<InputEvent>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl SessionWindow {
    fn open(sway: &Sway) -> SessionWindow {
        let (presenter, mut source) = open(&WindowConfig {
            display: Some(socket(sway)),
            size: SCREEN,
            ..WindowConfig::default()
        })
        .expect("sway shows windows");
        let (sender, input) = sync_channel(1024);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match source.next(Some(Duration::from_millis(20))) {
                    Ok(SourceEvent::Input(event)) => _ = sender.try_send(event),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        });
        SessionWindow {
            presenter,
            input,
            stop,
            reader: Some(reader),
        }
    }

    /// Shows a picture with this number.
    fn show(&mut self, id: u32) {
        let row = SCREEN.width as usize * 4;
        let mut pixels = vec![0x40; SCREEN.pixels() * 4];
        let stamp = Stamp {
            frame: id,
            ..Stamp::default()
        };
        assert!(barcode::draw(&mut pixels, row, SCREEN, &stamp));
        let picture = Picture::bgrx(SCREEN, &pixels, row);
        self.presenter
            .present(FrameId(id), &picture)
            .expect("sway runs");
    }

    /// Waits until the key A is pressed (`wanted`) or released.
    fn until_key(&self, wanted: bool) {
        eventually("the letter", || match self.input.try_recv().ok()? {
            InputEvent::Key {
                code: KeyCode(30),
                text,
                pressed,
            } if pressed == wanted => {
                assert!(!pressed || text == Some('a'), "{text:?}");
                Some(())
            }
            _ => None,
        });
    }
}

impl Drop for SessionWindow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn socket(sway: &Sway) -> String {
    let path = sway.socket();
    path.to_str().expect("temporary names are text").to_owned()
}

/// Starts a host that streams the session.
fn host(sway: &Sway, args: &[&str]) -> Host {
    let socket = socket(sway);
    let own = ["--source", "wayland", "--wayland-display", &socket];
    Host::start(&[&PIN[..], &own, args].concat())
}

#[test]
fn a_wayland_session_is_streamed_and_typed_into() {
    let (Some(sway), Some(there)) = (Sway::start(SCREEN), Display::start(SIZE)) else {
        return;
    };
    let mut window = SessionWindow::open(&sway);
    window.show(1);
    let mut host = host(&sway, &[]);
    assert!(
        host.program.text().contains("640x360 of output HEADLESS-1"),
        "{}",
        host.program.text()
    );
    let mut client = host.client("client", &there, &PIN);
    client.line("showing 640x360");
    let screen = ScreenCapture::open(&there);
    for id in 2..10 {
        window.show(id);
        screen.stamp_when("the session's picture", |stamp| stamp.frame == id);
    }
    // Keys pressed in the client's window arrive in the session's window, letter for letter.
    let xtest = XTest::open(&there);
    xtest.move_to(100, 100);
    xtest.chord(&[A]);
    window.until_key(true);
    host.program.assert_running();
    client.assert_running();
}

#[test]
fn the_clipboard_of_a_wayland_session_is_shared_both_ways() {
    let (Some(sway), Some(there)) = (Sway::start(SCREEN), Display::start(SIZE)) else {
        return;
    };
    if !can_copy() || !has_program("wl-copy", "wl-clipboard") {
        return;
    }
    let host = host(&sway, &["--clipboard", "both"]);
    let client = host.client("client", &there, &PIN);
    client.line("openuvr client: showing");
    copy_text(&there, "Grüße an den Wirt");
    eventually("the player's text in the session", || {
        let output = sway.command("wl-paste").arg("--no-newline").output();
        let text = output.expect("it is installed").stdout;
        (text == "Grüße an den Wirt".as_bytes()).then_some(())
    });
    let copied = sway.command("wl-copy").arg("Grüße zurück").status();
    assert!(copied.expect("it is installed").success());
    pasted(&there, "Grüße zurück");
}

#[test]
fn nothing_stays_pressed_when_the_host_is_killed() {
    let (Some(sway), Some(there)) = (Sway::start(SCREEN), Display::start(SIZE)) else {
        return;
    };
    let mut window = SessionWindow::open(&sway);
    window.show(1);
    let mut host = host(&sway, &[]);
    let client = host.client("client", &there, &PIN);
    client.line("openuvr client: showing");
    let xtest = XTest::open(&there);
    xtest.set_repeat(false);
    xtest.move_to(100, 100);
    xtest.key(A, true);
    window.until_key(true);
    host.program.kill();
    window.until_key(false);
}
