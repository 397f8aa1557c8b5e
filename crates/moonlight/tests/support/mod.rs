//! A host with a Moonlight server: real capture, encoder and sockets, on loopback.

#![allow(dead_code, reason = "each test uses part of it")]
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openuvr_media::application::WindowScope;
use openuvr_media::capture::pattern::Pattern;
use openuvr_media::capture::{Capture as _, Waker};
use openuvr_media::convert::Converter;
use openuvr_media::input_sink::pads::{PadSink, Pads, RumbleSource};
use openuvr_media::input_sink::{InputError, InputSink};
use openuvr_moonlight::pairing::{OfferError, offer};
use openuvr_moonlight::{Moonlight, MoonlightSetup, OfferedApplication};
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::pad::{PadId, PadIdentity, PadState, Rumble};
use openuvr_proto::units::Size;
use openuvr_runtime::host::config::Config;
use openuvr_runtime::host::{HostRuntime, HostSetup, Input};
use openuvr_runtime::sound_choice::SoundChoice;
use tempfile::TempDir;

const SIZE: Size = Size::new(640, 384);

/// Timeout. No step takes this long, even on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum recorded input events, and lines for the user. The tests cause fewer.
const MOST: usize = 65_536;

/// How often an idle thread checks whether the host stops.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A destination of input events that records them.
struct Application(SyncSender<InputEvent>);

impl InputSink for Application {
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError> {
        let _ = self.0.send(*event);
        Ok(())
    }

    fn release_all(&mut self) -> Result<(), InputError> {
        self.apply(&InputEvent::ReleaseAll)
    }

    fn set_viewport(&mut self, _: i32, _: i32, _: Size) {}

    fn set_window(&mut self, _: Option<u32>, _: WindowScope) {}
}

/// Game pads are recorded like other input.
impl PadSink for Application {
    fn plug(&mut self, pad: PadId, identity: &PadIdentity) -> Result<(), InputError> {
        let identity = *identity;
        self.apply(&InputEvent::PadConnected { pad, identity })
    }

    fn unplug(&mut self, pad: PadId) {
        let _ = self.apply(&InputEvent::PadDisconnected { pad });
    }

    fn held(&mut self, pad: PadId, _: &PadState, now: &PadState) -> Result<(), InputError> {
        let state = *now;
        self.apply(&InputEvent::Pad { pad, state })
    }
}

/// An application that never lets a pad rumble.
struct NoRumble(Waker);

impl RumbleSource for NoRumble {
    fn next(&mut self, timeout: Option<Duration>) -> Option<(PadId, Rumble)> {
        std::thread::park_timeout(timeout.unwrap_or(TIMEOUT).min(POLL_INTERVAL));
        None
    }

    fn waker(&self) -> Waker {
        self.0.clone()
    }
}

/// A host that streams the test pattern and a tone to Moonlight clients.
pub(crate) struct Rig {
    // Fields are dropped in this order. The Moonlight server (`door`) holds the host, so it comes first.
    pub(crate) door: Moonlight,
    pub(crate) host: Arc<HostRuntime>,
    pub(crate) input: Receiver<InputEvent>,
    /// The lines for the user at the host.
    pub(crate) lines: Receiver<String>,
    folder: TempDir,
}

impl Rig {
    pub(crate) fn new(name: &str) -> Rig {
        let folder = TempDir::with_prefix(name).unwrap();
        let dir = folder.path().join("host");
        let config = Config {
            sound: SoundChoice::parse("tone:440"),
            bind: ([127, 0, 0, 1], 0).into(),
            config_dir: Some(dir.clone()),
            realtime: false,
            second_player: SecondPlayer::TakeOver,
            ..Config::default()
        };
        let opened = config.open().unwrap();
        let (application, input) = sync_channel(MOST);
        let capture = Pattern::open(SIZE, 60.0).unwrap();
        let pads = Pads {
            sink: Box::new(Application(application.clone())),
            rumble: Box::new(NoRumble(capture.waker())),
        };
        let scheduler = config.scheduler();
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
            input: Input::Sink(Box::new(Application(application))),
            converter: Converter::new(),
            encodings: opened.encodings,
            audio: opened.sounds.audio,
            microphone: None,
            pads: Some(pads),
            clipboard: None,
            scheduler: scheduler.clone(),
        });
        let host = Arc::new(host.unwrap());
        let (announcements, lines) = sync_channel(MOST);
        let setup = MoonlightSetup {
            bind: ([127, 0, 0, 1], 0).into(),
            folder: dir,
            name: "the <test>".to_owned(),
            applications: vec![OfferedApplication {
                title: "Pattern & tone".to_owned(),
                icon: None,
            }],
            launcher: None,
            sound: true,
            fits: false,
            announce: Box::new(move |line| {
                let _ = announcements.try_send(line.to_owned());
            }),
        };
        let door = Moonlight::start(setup, host.clone(), &scheduler).unwrap();
        Rig {
            door,
            host,
            input,
            lines,
            folder,
        }
    }

    /// The folder of the host's keys and devices.
    pub(crate) fn trust_folder(&self) -> PathBuf {
        self.folder.path().join("host")
    }

    /// A folder of this name for a client.
    pub(crate) fn client_folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn next_input(&self) -> InputEvent {
        self.input.recv_timeout(TIMEOUT).expect("input")
    }
}

/// Enters a PIN at the host that uses `folder`, as a user does, with a name for the client.
pub(crate) fn enter(folder: &Path, pin: &str, name: &str) -> Result<String, OfferError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    offer(folder, pin, Some(name), now.as_secs())
}
