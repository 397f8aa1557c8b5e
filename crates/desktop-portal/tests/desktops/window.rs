//! The test's window on a desktop: it shows numbered pictures, and receives input.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openuvr_desktop_portal::PortalInput;
use openuvr_media::barcode::{self, Stamp};
use openuvr_media::input_sink::InputSink as _;
use openuvr_media::input_source::{InputSource as _, SourceEvent};
use openuvr_media::picture::Picture;
use openuvr_media::present::Presenter as _;
use openuvr_proto::id::FrameId;
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_wayland::present::{WaylandPresenter, WindowConfig, open};

use crate::desktop::Desktop;
use crate::{PATIENCE, SCREEN};

/// How long a window must have the focus before the focus counts as lasting. If the window gets the focus through a
/// short-lived keyboard, it loses the focus earlier (guess: after tens of milliseconds on a busy machine).
const SETTLE: Duration = Duration::from_secs(2);

/// The window. A separate thread reads its events.
pub(crate) struct Window {
    presenter: WaylandPresenter,
    events: Receiver<SourceEvent>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Window {
    pub(crate) fn open(desktop: &Desktop, full_screen: bool) -> Window {
        let (presenter, mut source) = open(&WindowConfig {
            display: Some(desktop.socket()),
            size: SCREEN,
            full_screen,
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
    pub(crate) fn show(&mut self, id: u32) {
        let mut pixels = vec![0x40; SCREEN.pixels() * 4];
        let stamp = Stamp {
            frame: id,
            ..Stamp::default()
        };
        let row = SCREEN.width as usize * 4;
        assert!(barcode::draw(&mut pixels, row, SCREEN, &stamp));
        let picture = Picture::bgrx(SCREEN, &pixels, row);
        self.presenter.present(FrameId(id), &picture).unwrap();
    }

    fn event(&self, wait: Duration) -> Option<InputEvent> {
        match self.events.recv_timeout(wait) {
            Ok(SourceEvent::Input(event) | SourceEvent::Sampled(event, _)) => Some(event),
            _ => None,
        }
    }

    /// Waits until the window has a lasting keyboard focus. Earlier events are discarded.
    pub(crate) fn wait_for_focus(&self) {
        let until = Instant::now() + PATIENCE;
        let mut focused = false;
        loop {
            assert!(Instant::now() < until, "the window never has the focus");
            match self.events.recv_timeout(SETTLE) {
                Ok(SourceEvent::Focused(now)) => focused = now,
                Err(RecvTimeoutError::Timeout) if focused => return,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the window is gone"),
            }
        }
    }

    /// Repeats `attempt` until a wanted event arrives.
    pub(crate) fn wait_while(
        &self,
        mut attempt: impl FnMut(),
        wanted: impl Fn(&InputEvent) -> bool,
    ) {
        let until = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < until, "the window never has the focus");
            attempt();
            if self
                .event(Duration::from_millis(200))
                .is_some_and(|event| wanted(&event))
            {
                break;
            }
        }
        // Discards the remaining events of the attempts.
        while self.event(Duration::from_millis(500)).is_some() {}
    }

    /// Waits for an event for which `wanted` returns a result, and returns this result.
    pub(crate) fn until<T>(&self, mut wanted: impl FnMut(&InputEvent) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while Instant::now() < until {
            if let Some(event) = self.event(Duration::from_secs(1)) {
                if let Some(found) = wanted(&event) {
                    return found;
                }
                seen.push(event);
            }
        }
        panic!("only {seen:?}");
    }

    /// Types a text with keys that have other characters in the desktop's layout. Returns the characters that arrive.
    pub(crate) fn typed(&self, input: &mut PortalInput, text: &str) -> String {
        for (code, ch) in (30..).zip(text.chars()) {
            let event = |pressed| InputEvent::Key {
                code: KeyCode(code),
                text: Some(ch).filter(|_| pressed),
                pressed,
            };
            input.apply(&event(true)).unwrap();
            input.apply(&event(false)).unwrap();
        }
        let mut typed = String::new();
        let count = text.chars().count();
        self.until(|event| {
            if let InputEvent::Key { text: Some(ch), .. } = event {
                typed.push(*ch);
            }
            (typed.chars().count() == count).then_some(())
        });
        typed
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
