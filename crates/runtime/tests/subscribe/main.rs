//! Subscribers other than OpenUVR sessions, together with a real client: real capture, encoder, sockets and decoders.

#![expect(clippy::unwrap_used, reason = "a test fails there")]

#[path = "../support/mod.rs"]
mod support;

mod figures;
mod play;
mod remote;
mod watch;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use openuvr_media::application::WindowScope;
use openuvr_media::barcode;
use openuvr_media::capture::pattern::Pattern;
use openuvr_media::convert::Converter;
use openuvr_media::cursor::Cursor;
use openuvr_media::input_sink::{InputError, InputSink};
use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, Presenter};
use openuvr_proto::control::negotiate::{ClientConstraints, Role};
use openuvr_proto::host::{SecondPlayer, SubscribeRequest};
use openuvr_proto::id::{FrameId, SubscriberId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::units::Size;
use openuvr_runtime::client::ClientRuntime;
use openuvr_runtime::host::config::Config;
use openuvr_runtime::host::{HostRuntime, HostSetup, Input};
use openuvr_runtime::sound_choice::SoundChoice;
use support::{MANY, TIMEOUT, client};
use tempfile::TempDir;

const SIZE: Size = Size::new(320, 192);

/// A frame's header, and its concatenated slices: H.264 in Annex B format.
pub(crate) type CodedFrame = (Frame, Vec<u8>);

/// Whether the second of two frames can be decoded after the first: it is the next frame, or it is a key frame. A slow
/// machine delays the threads of subscribers, and a subscriber that is late misses frames up to the next key frame.
pub(crate) fn continues(pair: &[CodedFrame]) -> bool {
    let (before, after) = (&pair[0].0.header, &pair[1].0.header);
    after.is_key() || after.frame.0 == before.frame.0 + 1
}

/// Records the frames it gets.
pub(crate) struct Writer {
    frame: Option<CodedFrame>,
    file: SyncSender<CodedFrame>,
}

impl Writer {
    fn new() -> (Writer, Receiver<CodedFrame>) {
        let (file, written) = sync_channel(MANY);
        (Writer { frame: None, file }, written)
    }
}

impl Subscriber for Writer {
    fn start_frame(&mut self, _: Instant, frame: &Frame) {
        self.frame = Some((*frame, Vec::new()));
    }

    fn slice(&mut self, _: Instant, slice: &Slice<'_>) {
        let (_, bytes) = self.frame.as_mut().expect("it has begun");
        bytes.extend_from_slice(slice.bytes);
    }

    fn end(&mut self, _: Instant) -> Progress {
        let _ = self.file.send(self.frame.take().expect("it has begun"));
        Progress::Sent(Departure::default())
    }

    fn dropped(&mut self, _: Instant, _: FrameId, _: Stage, _: DropCause) {
        self.frame = None;
    }
}

/// Runs a misbehaving closure at each slice.
pub(crate) struct Misbehaving<F>(pub(crate) Writer, pub(crate) F);

impl<F: FnMut() + Send> Subscriber for Misbehaving<F> {
    fn start_frame(&mut self, now: Instant, frame: &Frame) {
        self.0.start_frame(now, frame);
    }

    fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        (self.1)();
        self.0.slice(now, slice);
    }

    fn end(&mut self, now: Instant) -> Progress {
        self.0.end(now)
    }

    fn dropped(&mut self, now: Instant, frame: FrameId, stage: Stage, why: DropCause) {
        self.0.dropped(now, frame, stage, why);
    }
}

/// Adds an observer.
fn watch(host: &HostRuntime, subscriber: impl Subscriber + 'static) -> SubscriberId {
    let request = SubscribeRequest::new(Role::Observer, "recorder");
    host.subscribe(request, Box::new(subscriber)).unwrap().0
}

/// The application as input sink. It records received events, and an [`InputEvent::ReleaseAll`] for each release of all
/// keys.
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

/// Reads the numbers of the shown pictures.
struct PictureReader(SyncSender<Option<u32>>);

impl Presenter for PictureReader {
    fn present(&mut self, _: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        let _ = self.0.send(barcode::read(picture).map(|stamp| stamp.frame));
        Ok(())
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        Ok(())
    }
}

struct Player {
    _client: ClientRuntime,
    seen: Receiver<Option<u32>>,
}

impl Player {
    /// Waits for this many further pictures.
    fn see(&self, pictures: usize) -> Vec<u32> {
        let next = || self.seen.recv_timeout(TIMEOUT).expect("a picture");
        std::iter::repeat_with(next)
            .take(pictures)
            .flatten()
            .collect()
    }

    /// Waits for the picture with this number. Returns the numbers of the pictures up to it.
    fn see_up_to(&self, number: u32) -> Vec<u32> {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| *last < number) {
            seen.extend(self.see(1));
        }
        seen
    }
}

/// A host that streams the test pattern, and its player.
struct Streaming {
    // The fields are dropped in this order, so that the client says goodbye before the host ends.
    player: Player,
    host: HostRuntime,
    /// Input received by the host's application.
    received: Receiver<InputEvent>,
    _folder: TempDir,
}

fn start(name: &str) -> Streaming {
    let folder = TempDir::with_prefix(name).unwrap();
    let config = Config {
        sound: SoundChoice::Off,
        bind: ([127, 0, 0, 1], 0).into(),
        config_dir: Some(folder.path().join("host")),
        realtime: false,
        second_player: SecondPlayer::TakeOver,
        // An adaptive host would skip frames after a stall in which the client's socket overflows.
        adaptive: false,
        // With static refinement, the host would send a picture again after a stall of 100 ms.
        static_refinement: false,
        ..Config::default()
    };
    let opened = config.open().unwrap();
    let port = openuvr_net::Link::local_addr(&*opened.link).unwrap().port();
    let pin = opened.pairing.as_ref().unwrap().0.clone();
    let (application, received) = sync_channel(MANY);
    let host = HostRuntime::start(HostSetup {
        policy: opened.policy,
        identity: opened.identity,
        devices: opened.devices,
        pairing: opened.pairing,
        tickets: opened.tickets,
        link: opened.link,
        capture: Box::new(Pattern::open(SIZE, 60.0).unwrap()),
        viewport: None,
        cursor: None,
        input: Input::Sink(Box::new(Application(application))),
        converter: Converter::new(),
        encodings: opened.encodings,
        audio: None,
        microphone: None,
        clipboard: None,
        pads: None,
        scheduler: config.scheduler(),
    });
    let (eye, seen) = sync_channel(MANY);
    let surface = move || Box::new(PictureReader(eye.clone())) as Box<dyn Presenter>;
    let client = client(
        (port, &pin),
        folder.path(),
        ClientConstraints::default(),
        None,
        surface,
    );
    let player = Player {
        _client: client,
        seen,
    };
    player.see(1);
    Streaming {
        player,
        host: host.unwrap(),
        received,
        _folder: folder,
    }
}
