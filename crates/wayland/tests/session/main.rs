//! The host's devices in a session of a real Wayland compositor: pictures of an output, and injected input, which a
//! window of the test receives.
#![allow(clippy::unwrap_used)] // A test may panic.

mod capture;
#[path = "../devices/mod.rs"]
#[allow(dead_code, reason = "a part of it is needed")]
mod devices;
mod image_copy;
mod input;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::barcode::{self, Stamp};
use openuvr_media::input_source::{InputSource as _, SourceEvent};
use openuvr_media::picture::Picture;
use openuvr_media::present::Presenter as _;
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;
use openuvr_wayland::present::{WaylandPresenter, WindowConfig, open};
use openuvr_xserver::sway::Sway;

const SCREEN: Size = Size::new(640, 360);

/// Time limit of each wait for the compositor; it is long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A window that fills the output. A separate thread reads the events of the window.
struct Window {
    presenter: WaylandPresenter,
    events: Receiver<SourceEvent>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Window {
    fn open(sway: &Sway) -> Window {
        let (presenter, mut source) = open(&WindowConfig {
            display: Some(socket(sway)),
            size: SCREEN,
            ..WindowConfig::default()
        })
        .unwrap();
        let (sender, events) = sync_channel(1024);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match source.next(Some(Duration::from_millis(50))) {
                    Ok(SourceEvent::TimedOut) => {}
                    Ok(event) => _ = sender.send(event),
                    Err(_) => return,
                }
            }
        });
        Window {
            presenter,
            events,
            stop,
            reader: Some(reader),
        }
    }

    /// Shows a picture with this number.
    fn show(&mut self, id: u32) {
        let pixels = pixels(id);
        let picture = Picture::bgrx(SCREEN, &pixels, SCREEN.width as usize * 4);
        self.presenter.present(FrameId(id), &picture).unwrap();
    }
}

/// The picture with this number, in BGRX.
fn pixels(id: u32) -> Vec<u8> {
    let mut pixels = vec![0x40; SCREEN.pixels() * 4];
    let stamp = Stamp {
        frame: id,
        ..Stamp::default()
    };
    let row = SCREEN.width as usize * 4;
    assert!(barcode::draw(&mut pixels, row, SCREEN, &stamp));
    pixels
}

impl Drop for Window {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn socket(sway: &Sway) -> String {
    sway.socket().to_str().unwrap().to_owned()
}
