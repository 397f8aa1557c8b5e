//! Subscribers that are no OpenUVR sessions, beside a real client: real capture, encoder, sockets and
//! decoders.

#![expect(clippy::unwrap_used, reason = "a test ends there")]

mod support;

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use openuvr_media::barcode;
use openuvr_media::capture::pattern::Pattern;
use openuvr_media::codec::Codec;
use openuvr_media::convert::Converter;
use openuvr_media::cursor::Cursor;
use openuvr_media::decode::{self, Chunk};
use openuvr_media::input_sink;
use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, Presenter};
use openuvr_proto::control::negotiate::{Role, Wishes};
use openuvr_proto::id::FrameId;
use openuvr_proto::send::subscriber::{Departure, Feedback, Frame, Progress, Slice, Subscriber};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::units::Size;
use openuvr_runtime::client::ClientRuntime;
use openuvr_runtime::host::config::Config;
use openuvr_runtime::host::{HostRuntime, HostSetup, Input, Notice};
use support::{Folder, MOST, PATIENCE, client};

const SIZE: Size = Size::new(320, 192);

/// A frame's header, and its slices one behind the other: H.264 in Annex B form.
type Written = (Frame, Vec<u8>);

/// Writes down what it gets.
struct Writer {
    frame: Option<Written>,
    file: SyncSender<Written>,
}

impl Writer {
    fn new() -> (Writer, Receiver<Written>) {
        let (file, written) = sync_channel(MOST);
        (Writer { frame: None, file }, written)
    }
}

impl Subscriber for Writer {
    fn begin(&mut self, _: Instant, frame: &Frame) {
        self.frame = Some((*frame, Vec::new()));
    }

    fn slice(&mut self, _: Instant, slice: &Slice<'_>) {
        let (_, bytes) = self.frame.as_mut().expect("it has begun");
        bytes.extend_from_slice(slice.bytes);
    }

    fn end(&mut self, _: Instant) -> Progress {
        let _ = self.file.send(self.frame.take().expect("it has begun"));
        Progress::Left(Departure::default())
    }

    fn dropped(&mut self, _: Instant, _: FrameId, _: Stage, _: DropCause) {
        self.frame = None;
    }
}

/// What a decoder sees in the stream: the number that the pattern drew into each picture.
fn decoded(written: &[Written]) -> Vec<u32> {
    let mut decoder = decode::open(Codec::H264).unwrap();
    let mut decode = |(frame, bytes): &Written| {
        let chunk = Chunk {
            frame: frame.header.frame,
            first: true,
            last: true,
            first_mb: 0,
            mbs: u16::try_from(SIZE.pixels() / 256).unwrap(),
            bytes: Some(bytes),
        };
        let picture = decoder.feed(&chunk).unwrap().expect("the frame is whole");
        barcode::read(&picture).expect("a sharp picture").frame
    };
    written.iter().map(&mut decode).collect()
}

#[test]
fn a_stranger_gets_the_frames_that_a_player_gets() {
    let (_folder, host, player) = host_and_player("stranger");
    let (writer, written) = Writer::new();
    player.see(10);
    let id = host.subscribe(Role::Observer, Box::new(writer)).unwrap();
    let take = |n| -> Vec<Written> {
        let next = || written.recv_timeout(PATIENCE).expect("a frame");
        std::iter::repeat_with(next).take(n).collect()
    };
    let frames = take(60);
    let configuration = frames[0]
        .0
        .configuration
        .expect("it begins with a key frame");
    assert_eq!(configuration.size, SIZE);
    assert_eq!(Codec::try_from(configuration.codec).ok(), Some(Codec::H264));
    let names: Vec<u32> = frames
        .iter()
        .map(|(frame, _)| frame.header.frame.0)
        .collect();
    assert!(
        names.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{names:?}"
    );
    let numbers = decoded(&frames);
    assert!(
        numbers.windows(2).all(|pair| pair[1] > pair[0]),
        "{numbers:?}"
    );
    // What the player saw meanwhile is the same.
    let seen = player.see_up_to(numbers[59]);
    let both = numbers.iter().filter(|number| seen.contains(number));
    assert!(both.count() > 30, "{seen:?} {numbers:?}");

    // It may ask for a key frame.
    let newest = frames[59].0.header.frame;
    let last_good = FrameId::NONE;
    host.feedback(id, Feedback::KeyFrame { last_good, newest });
    let more = std::iter::repeat_with(|| written.recv_timeout(PATIENCE).expect("a frame"));
    let key = more
        .take(600)
        .find(|(frame, _)| frame.configuration.is_some());
    let key = key.expect("a key frame in two seconds");
    assert_eq!(decoded(&[key]).len(), 1, "it stands for itself");

    host.unsubscribe(id).unwrap();
    // Its thread drops it when it has taken what was under way.
    while written.recv_timeout(PATIENCE).is_ok() {}
    player.see(10);
}

/// Does something that it should not with each slice.
struct Bad<F>(Writer, F);

impl<F: FnMut() + Send> Subscriber for Bad<F> {
    fn begin(&mut self, now: Instant, frame: &Frame) {
        self.0.begin(now, frame);
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

#[test]
fn an_observer_that_blocks_or_is_slow_delays_no_player() {
    let (_folder, host, player) = host_and_player("slow");
    let (writer, written) = Writer::new();
    // It goes on with a slice when it is told to.
    let (go, told) = sync_channel::<()>(MOST);
    let (reached, at_a_slice) = sync_channel(MOST);
    let slow = Bad(writer, move || {
        let _ = reached.send(());
        let _ = told.recv();
    });
    host.subscribe(Role::Observer, Box::new(slow)).unwrap();
    at_a_slice.recv_timeout(PATIENCE).expect("its first slice");
    // It blocks; the player goes on.
    player.see(120);
    assert_eq!(at_a_slice.try_iter().count(), 0, "it is at its first slice");
    assert!(written.try_recv().is_err());
    // It is slow: a slice for three pictures of the player.
    let mut frames: Vec<Written> = Vec::new();
    while frames.len() < 6 {
        let _ = go.send(());
        player.see(3);
        frames.extend(written.try_iter());
    }
    // It missed frames, and what it has can be decoded: each gap ends with a key frame.
    let gap = |pair: &&[Written]| pair[1].0.header.frame.0 > pair[0].0.header.frame.0 + 1;
    let gaps = frames.windows(2).filter(gap);
    let keys = gaps.map(|pair| pair[1].0.configuration.is_some());
    let keys: Vec<bool> = keys.collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| *key), "{keys:?}");
    assert_eq!(decoded(&frames).len(), frames.len());
    // It blocks again, and the host stops all the same.
    drop(player);
    drop(host);
}

#[test]
fn an_observer_that_panics_is_told_of_and_forgotten() {
    let (_folder, host, player) = host_and_player("panics");
    let (writer, written) = Writer::new();
    let mut slices = 0;
    let bad = Bad(writer, move || {
        slices += 1;
        assert!(slices < 20, "as the test wants it");
    });
    host.subscribe(Role::Observer, Box::new(bad)).unwrap();
    let told = || match host.notice(PATIENCE).expect("a notice") {
        Notice::Trouble(why) => Some(why),
        _ => None,
    };
    let why = std::iter::repeat_with(told).take(MOST).flatten().next();
    assert!(why.unwrap().contains("a subscriber panicked"));
    assert!(written.try_iter().count() > 0);
    player.see(60);
    // Another one finds a host that serves.
    let (writer, written) = Writer::new();
    host.subscribe(Role::Observer, Box::new(writer)).unwrap();
    let (first, _) = written.recv_timeout(PATIENCE).expect("a frame");
    assert!(first.configuration.is_some());
}

#[test]
fn there_is_no_second_player() {
    let (_folder, host, player) = host_and_player("second");
    let (writer, _) = Writer::new();
    let refused = host.subscribe(Role::Player, Box::new(writer));
    assert!(refused.unwrap_err().contains("a player already"));
    player.see(1);
}

/// Reads the numbers of the pictures that a client shows.
struct Eye(SyncSender<Option<u32>>);

impl Presenter for Eye {
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
    /// Waits for so many pictures more.
    fn see(&self, pictures: usize) -> Vec<u32> {
        let next = || self.seen.recv_timeout(PATIENCE).expect("a picture");
        std::iter::repeat_with(next)
            .take(pictures)
            .flatten()
            .collect()
    }

    /// All pictures up to this one.
    fn see_up_to(&self, number: u32) -> Vec<u32> {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| *last < number) {
            seen.extend(self.see(1));
        }
        seen
    }
}

/// A host that streams the test pattern, and its player.
fn host_and_player(name: &str) -> (Folder, HostRuntime, Player) {
    let folder = Folder::new(name);
    let host = host(&folder.0);
    (folder, host.0, host.1)
}

fn host(folder: &Path) -> (HostRuntime, Player) {
    let config = Config {
        bind: ([127, 0, 0, 1], 0).into(),
        config_dir: Some(folder.join("host")),
        realtime: false,
        ..Config::default()
    };
    let opened = config.open().unwrap();
    let port = openuvr_net::Link::local_addr(&*opened.link).unwrap().port();
    let pin = opened.pairing.as_ref().unwrap().0.clone();
    let host = HostRuntime::start(HostSetup {
        policy: opened.policy,
        identity: opened.identity,
        devices: opened.devices,
        pairing: opened.pairing,
        link: opened.link,
        capture: Box::new(Pattern::open(SIZE, 60.0).unwrap()),
        viewport: None,
        cursor: None,
        input: Input::Sink(input_sink::open("null").unwrap()),
        converter: Converter::new(),
        encodings: opened.encodings,
        scheduler: config.scheduler(),
    });
    let (eye, seen) = sync_channel(MOST);
    let surface = move || Box::new(Eye(eye.clone())) as Box<dyn Presenter>;
    let client = client((port, &pin), folder, Wishes::default(), None, surface);
    let player = Player {
        _client: client,
        seen,
    };
    player.see(1);
    (host.unwrap(), player)
}
