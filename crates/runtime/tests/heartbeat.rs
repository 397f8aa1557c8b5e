//! A host notices that its media thread hangs. Real threads, with a source of pictures that can be stopped.

#![expect(clippy::unwrap_used, reason = "a test fails there")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openuvr_media::capture::pattern::Pattern;
use openuvr_media::capture::{Capture, CaptureError, CaptureEvent, Waker};
use openuvr_media::convert::Converter;
use openuvr_media::input_sink;
use openuvr_media::picture::Picture;
use openuvr_proto::units::Size;
use openuvr_runtime::host::config::Config;
use openuvr_runtime::host::{HostRuntime, HostSetup, Input};
use openuvr_runtime::sound_choice::SoundChoice;
use support::eventually;
use tempfile::TempDir;

/// A test pattern whose next picture waits for a lock, like a call to a frozen display server.
struct FreezingPattern {
    pattern: Pattern,
    lock: Arc<Mutex<()>>,
    /// Whether the media thread has found the lock taken.
    frozen: Arc<AtomicBool>,
}

impl Capture for FreezingPattern {
    fn size(&self) -> Size {
        self.pattern.size()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        if self.lock.try_lock().is_err() {
            self.frozen.store(true, Ordering::SeqCst);
            drop(self.lock.lock().unwrap());
        }
        self.pattern.next(timeout)
    }

    fn picture(&self) -> Option<Picture<'_>> {
        self.pattern.picture()
    }

    fn waker(&self) -> Waker {
        self.pattern.waker()
    }
}

#[test]
fn a_hanging_media_thread_is_named_until_it_continues() {
    let folder = TempDir::with_prefix("heartbeat").unwrap();
    let config = Config {
        sound: SoundChoice::Off,
        bind: ([127, 0, 0, 1], 0).into(),
        config_dir: Some(folder.path().join("host")),
        realtime: false,
        ..Config::default()
    };
    let opened = config.open().unwrap();
    let (lock, frozen) = (Arc::<Mutex<()>>::default(), Arc::<AtomicBool>::default());
    let capture = FreezingPattern {
        pattern: Pattern::open(Size::new(320, 192), 60.0).unwrap(),
        lock: lock.clone(),
        frozen: frozen.clone(),
    };
    let host = HostRuntime::start(HostSetup {
        policy: opened.policy,
        identity: opened.identity,
        devices: opened.devices,
        pairing: opened.pairing,
        tickets: opened.tickets,
        link: opened.link,
        capture: Box::new(capture),
        viewport: None,
        cursor: None,
        input: Input::Sink(input_sink::open("null").unwrap()),
        converter: Converter::new(),
        encodings: opened.encodings,
        audio: None,
        microphone: None,
        clipboard: None,
        pads: None,
        scheduler: config.scheduler(),
    });
    let host = host.unwrap();
    // The first call has no previous one. The second one therefore shows whether the threads answer.
    assert_eq!(host.hanging_thread(), None);
    eventually("both threads answer", || {
        host.hanging_thread().is_none().then_some(())
    });

    let hold = lock.lock().unwrap();
    eventually("the media thread hangs", || {
        frozen.load(Ordering::SeqCst).then_some(())
    });
    // This poll follows the last answer of the media thread.
    let _ = host.hanging_thread();
    eventually("only the media thread hangs", || {
        (host.hanging_thread() == Some("media")).then_some(())
    });
    for _ in 0..100 {
        assert_ne!(host.hanging_thread(), None);
    }

    drop(hold);
    eventually("both threads answer again", || {
        host.hanging_thread().is_none().then_some(())
    });
}
