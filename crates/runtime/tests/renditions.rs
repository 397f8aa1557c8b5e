//! Several renditions of one source: real capture, encoders, sockets and decoders.

#![expect(clippy::unwrap_used, reason = "a test fails there")]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use openuvr_media::barcode;
use openuvr_media::capture::pattern::Pattern;
use openuvr_media::capture::{Capture, CaptureError, CaptureEvent, Waker};
use openuvr_media::codec::Codec;
use openuvr_media::convert::Converter;
use openuvr_media::cursor::Cursor;
use openuvr_media::encode::{
    self, Backend, EncodeError, Encoded, Encoder, FrameRequest, Opening, Slice,
};
use openuvr_media::input_sink;
use openuvr_media::picture::{Picture, PixelFormat};
use openuvr_media::present::{PresentError, Presenter};
use openuvr_net::{Link, LinkError, RecvBatch};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::ecn::{Ecn, EcnCounts};
use openuvr_proto::id::{FrameId, PathId, RenditionId, SessionId, SubscriberId};
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::trace::{DropCause, Fidelity, FrameRecord, Outcome, Side, Stage};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::header::{Header, Plane};
use openuvr_runtime::client::{self, ClientRuntime, Target};
use openuvr_runtime::host::config::Config;
use openuvr_runtime::host::{
    EncoderName, Encoding, Encodings, HostRuntime, HostSetup, Input, Notice,
};
use openuvr_runtime::sound_choice::SoundChoice;
use support::stalls::measured_without_stalls;
use support::{MANY, STALLED, TIMEOUT};
use tempfile::TempDir;

const SIZE: Size = Size::new(320, 192);

/// Tolerance for the mean brightness of a block of 16 × 16 pixels. It allows for coding noise, including that of JPEG
/// at 4:2:0. A wrong or shifted picture differs by far more in some block.
const NEAR: f64 = 12.0;

/// A test pattern that records its pictures and the capturing threads.
struct RecordingPattern {
    pattern: Pattern,
    seen: Arc<Captured>,
}

#[derive(Default)]
struct Captured {
    /// Threads that captured pictures.
    threads: Mutex<Vec<ThreadId>>,
    /// Mean brightness of the blocks of each picture, by picture number.
    blocks: Mutex<HashMap<u32, Vec<f64>>>,
}

impl Capture for RecordingPattern {
    fn size(&self) -> Size {
        self.pattern.size()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        let event = self.pattern.next(timeout)?;
        if event == CaptureEvent::Frame {
            let picture = self.pattern.picture().expect("it was announced");
            let number = barcode::read(&picture).expect("it was drawn").frame;
            let mut blocks = self.seen.blocks.lock().unwrap();
            blocks.insert(number, blocks_of(&picture));
            let mut threads = self.seen.threads.lock().unwrap();
            let own = std::thread::current().id();
            if !threads.contains(&own) {
                threads.push(own);
            }
        }
        Ok(event)
    }

    fn picture(&self) -> Option<Picture<'_>> {
        self.pattern.picture()
    }

    fn waker(&self) -> Waker {
        self.pattern.waker()
    }
}

/// The mean brightness of each block of 16 × 16 pixels, from 16 (black) to 235 (white).
fn blocks_of(picture: &Picture<'_>) -> Vec<f64> {
    let plane = picture.planes[0];
    let luma = |x: usize, y: usize| match picture.format.packed() {
        None => f64::from(plane.data[y * plane.stride + x]),
        Some(bytes) => {
            let at = &plane.data[y * plane.stride + x * bytes..][..3];
            let red_first = matches!(picture.format, PixelFormat::Rgbx | PixelFormat::Rgb);
            let (red, blue) = if red_first {
                (at[0], at[2])
            } else {
                (at[2], at[0])
            };
            let [red, green, blue] = [red, at[1], blue].map(f64::from);
            16.0 + (0.2126 * red + 0.7152 * green + 0.0722 * blue) * 219.0 / 255.0
        }
    };
    let (columns, rows) = (SIZE.width as usize / 16, SIZE.height as usize / 16);
    let mean = |block: usize| {
        let (left, top) = (block % columns * 16, block / columns * 16);
        let pixels = (0..256).map(|n| luma(left + n % 16, top + n / 16));
        pixels.sum::<f64>() / 256.0
    };
    (0..columns * rows).map(mean).collect()
}

/// Impairment of one session's media datagrams.
#[derive(Default)]
struct Impairment {
    /// The impaired session; 0 if there is none.
    session: AtomicU32,
    /// One in this many datagrams is lost; 0 if none is lost.
    loses_one_in: AtomicU32,
    /// Whether the sender is blocked.
    blocks: Mutex<bool>,
    go: Condvar,
    sent: AtomicU32,
    /// Datagrams dropped.
    lost: AtomicU32,
    /// Number of blocked calls.
    waited: AtomicU32,
}

impl Impairment {
    fn block(&self, blocks: bool) {
        *self.blocks.lock().unwrap() = blocks;
        self.go.notify_all();
    }
}

struct ImpairedLink(Arc<dyn Link>, Arc<Impairment>);

impl Link for ImpairedLink {
    fn transport(&self, path: PathId) -> TransportKind {
        self.0.transport(path)
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError> {
        self.send_marked(to, batch, segment, Ecn::NotEct)
    }

    fn send_marked(
        &self,
        to: PathId,
        batch: &[u8],
        segment: usize,
        ecn: Ecn,
    ) -> Result<(), LinkError> {
        let impairment = &self.1;
        let of = Header::parse(batch)
            .ok()
            .filter(|(_, plane)| *plane == Plane::Media);
        let meant = of.is_some_and(|(header, _)| {
            header.session().0 == impairment.session.load(Ordering::Relaxed)
        });
        if !meant {
            return self.0.send_marked(to, batch, segment, ecn);
        }
        let mut blocks = impairment.blocks.lock().unwrap();
        if *blocks {
            impairment.waited.fetch_add(1, Ordering::Relaxed);
        }
        while *blocks {
            blocks = impairment.go.wait(blocks).unwrap();
        }
        drop(blocks);
        let one_in = impairment.loses_one_in.load(Ordering::Relaxed);
        for datagram in batch.chunks(segment) {
            let number = impairment.sent.fetch_add(1, Ordering::Relaxed) + 1;
            if one_in != 0 && number.is_multiple_of(one_in) {
                impairment.lost.fetch_add(1, Ordering::Relaxed);
            } else {
                self.0.send_marked(to, datagram, datagram.len(), ecn)?;
            }
        }
        Ok(())
    }

    fn recv(&self, batch: &mut RecvBatch, timeout: Option<Duration>) -> Result<(), LinkError> {
        self.0.recv(batch, timeout)
    }

    fn wake(&self) {
        self.0.wake();
    }
}

/// A shown picture: its number, and its blocks.
type ShownPicture = (u32, Vec<f64>);

struct PictureReader(SyncSender<Option<ShownPicture>>);

impl Presenter for PictureReader {
    fn present(&mut self, _: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        let number = barcode::read(picture).map(|stamp| stamp.frame);
        let _ = self
            .0
            .send(number.map(|number| (number, blocks_of(picture))));
        Ok(())
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        Ok(())
    }
}

struct Client {
    _runtime: ClientRuntime,
    seen: Receiver<Option<ShownPicture>>,
}

impl Client {
    /// Waits for this many further pictures.
    fn see(&self, pictures: usize) -> Vec<ShownPicture> {
        let next = || self.seen.recv_timeout(TIMEOUT).expect("a picture");
        let next = std::iter::repeat_with(next).flatten();
        next.take(pictures).collect()
    }
}

/// A host that streams the pattern, and its notices.
struct Rig {
    host: HostRuntime,
    port: u16,
    captured: Arc<Captured>,
    impairment: Arc<Impairment>,
    log: HostLog,
    folder: TempDir,
}

#[derive(Default)]
struct HostLog {
    /// The open encoders; `opened` also lists encoders that have been closed.
    open: BTreeMap<RenditionId, String>,
    opened: Vec<(u32, String)>,
    clients: Vec<(SessionId, Role, RenditionId)>,
    records: Vec<FrameRecord>,
    /// The warnings so far; `None` if warnings are not expected and fail the test.
    warnings: Option<Vec<String>>,
}

impl HostLog {
    fn note(&mut self, notice: Notice) {
        match notice {
            Notice::EncoderOpened {
                rendition, encoder, ..
            } => {
                let before = self.open.insert(rendition, encoder.clone());
                assert_eq!(before, None, "{rendition} has an encoder already");
                self.opened.push((rendition.0, encoder));
            }
            Notice::EncoderClosed(rendition) => {
                self.open.remove(&rendition).expect("it was open");
            }
            Notice::Subscribed {
                subscriber,
                role,
                rendition,
                ..
            } => {
                let session = subscriber.session().expect("all are sessions");
                self.clients.push((session, role, rendition));
            }
            Notice::RoleChanged(subscriber, role) => {
                let mut clients = self.clients.iter_mut();
                let client = clients.find(|client| SubscriberId::from(client.0) == subscriber);
                client.expect("it is known").1 = role;
            }
            Notice::Record(record) => self.records.push(*record),
            Notice::Warning(why) if self.warnings.is_some() => {
                self.warnings.get_or_insert_default().push(why);
            }
            Notice::Failed(why) | Notice::Warning(why) => panic!("{why}"),
            _ => {}
        }
    }

    fn names(&self) -> Vec<(u32, &str)> {
        let open = self.open.iter();
        open.map(|(rendition, encoder)| (rendition.0, encoder.as_str()))
            .collect()
    }

    /// The records of a session.
    fn of(&self, session: SessionId) -> Vec<FrameRecord> {
        let own = self
            .records
            .iter()
            .filter(|record| record.subscriber == session.into());
        own.copied().collect()
    }
}

impl Rig {
    fn new(name: &str, change: impl FnOnce(&mut Config)) -> Rig {
        Rig::with_encodings(name, change, |_| {})
    }

    /// A host with encodings that a configuration cannot name.
    fn with_encodings(
        name: &str,
        change: impl FnOnce(&mut Config),
        change_encoding: impl Fn(&mut Encoding),
    ) -> Rig {
        let folder = TempDir::with_prefix(name).unwrap();
        let mut config = Config {
            sound: SoundChoice::Off,
            bind: ([127, 0, 0, 1], 0).into(),
            config_dir: Some(folder.path().join("host")),
            realtime: false,
            link: Some(TransportKind::Udp),
            // An adaptive host would skip frames after a stall in which a client's socket overflows.
            adaptive: false,
            // With static refinement, a slow host would send a picture again if it captured no other picture for 100
            // ms.
            static_refinement: false,
            ..Config::default()
        };
        change(&mut config);
        let opened = config.open().unwrap();
        let mut encodings = opened.encodings.all().to_vec();
        encodings.iter_mut().for_each(change_encoding);
        let encodings = Encodings::new(encodings, opened.encodings.encoder_per_client());
        let port = opened.link.local_addr().unwrap().port();
        let captured = Arc::<Captured>::default();
        let impairment = Arc::<Impairment>::default();
        let pattern = Pattern::open(SIZE, 60.0).unwrap();
        let host = HostRuntime::start(HostSetup {
            policy: opened.policy,
            identity: opened.identity,
            devices: opened.devices,
            pairing: None,
            tickets: opened.tickets,
            link: Arc::new(ImpairedLink(opened.link, impairment.clone())),
            capture: Box::new(RecordingPattern {
                pattern,
                seen: captured.clone(),
            }),
            viewport: None,
            cursor: None,
            input: Input::Sink(input_sink::open("null").unwrap()),
            converter: Converter::new(),
            encodings,
            clipboard: None,
            pads: None,
            audio: None,
            microphone: None,
            scheduler: config.scheduler(),
        });
        Rig {
            host: host.unwrap(),
            port,
            captured,
            impairment,
            log: HostLog::default(),
            folder,
        }
    }

    /// Starts a client and waits for its first picture.
    fn client(&mut self, name: &str, observe: bool, codec: Option<Codec>) -> Client {
        let pin = Pin::generate().unwrap();
        self.host.open_pairing(pin.clone(), TIMEOUT);
        let target: Target = format!("127.0.0.1:{}", self.port).parse().unwrap();
        let config = client::config::Config {
            pin: Some(pin.to_string()),
            name: name.to_owned(),
            config_dir: Some(self.folder.path().join(name)),
            realtime: false,
            sound: "off".to_owned(),
            observe,
            codec,
            ..client::config::Config::new(target)
        };
        let (eye, seen) = sync_channel(MANY);
        let surface = move || Box::new(PictureReader(eye.clone())) as Box<dyn Presenter>;
        let runtime = support::start(&config, None, surface);
        let client = Client {
            _runtime: runtime,
            seen,
        };
        client.see(1);
        client
    }

    /// Handles notices until `holds` is true.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&HostLog) -> bool) {
        let until = Instant::now() + TIMEOUT;
        while !holds(&self.log) {
            let left = until.saturating_duration_since(Instant::now());
            let notice = self.host.notice(left);
            self.log
                .note(notice.unwrap_or_else(|| panic!("timeout: {what}")));
        }
    }

    /// Waits for this many new pictures of each client, and checks them with [`Rig::check`].
    fn see_as_captured<const N: usize>(
        &self,
        clients: [&Client; N],
        pictures: usize,
    ) -> Result<[Vec<ShownPicture>; N], String> {
        for client in clients {
            while client.seen.try_recv().is_ok() {}
        }
        let seen = clients.map(|client| client.see(pictures));
        for seen in &seen {
            self.check(seen)?;
        }
        Ok(seen)
    }

    /// Checks that the shown pictures have increasing numbers, and that each equals the captured one. A client that lost
    /// datagrams in a stall of the machine also shows damaged pictures.
    fn check(&self, seen: &[ShownPicture]) -> Result<(), String> {
        let numbers = numbers(seen);
        if !numbers.is_sorted_by(|a, b| a < b) {
            return Err(format!("the numbers do not increase: {numbers:?}"));
        }
        let captured = self.captured.blocks.lock().unwrap();
        for (number, blocks) in seen {
            let source = captured.get(number).expect("it was captured");
            let off = blocks.iter().zip(source).map(|(a, b)| (a - b).abs());
            let most = off.fold(0.0, f64::max);
            if most >= NEAR {
                return Err(format!("picture {number}: a block differs by {most}"));
            }
        }
        Ok(())
    }
}

fn numbers(seen: &[ShownPicture]) -> Vec<u32> {
    seen.iter().map(|(number, _)| *number).collect()
}

/// Whether the frame was dropped at the host, before the link.
fn dropped_at_host(record: &FrameRecord) -> bool {
    matches!(record.outcome, Outcome::Dropped { stage, .. } if stage.side() == Side::Host)
}

#[test]
fn each_codec_is_encoded_once_while_it_has_a_subscriber() {
    let mut rig = Rig::new("codecs", |config| {
        config.encoders = vec![EncoderName("x264"), EncoderName("jpeg")];
    });
    let player = rig.client("player", false, None);
    rig.until("the first encoder", |log| !log.open.is_empty());
    assert_eq!(rig.log.names(), [(1, "x264")]);
    let watcher = rig.client("watcher", true, Some(Codec::Jpeg));
    let second = rig.client("second", true, Some(Codec::Jpeg));
    rig.until("three clients", |log| log.clients.len() == 3);
    assert_eq!(rig.log.names(), [(1, "x264"), (2, "jpeg")]);
    let renditions: Vec<u32> = rig.log.clients.iter().map(|client| client.2.0).collect();
    assert_eq!(renditions, [1, 2, 2]);
    measured_without_stalls(5, STALLED, || {
        let [at_player, at_watcher] = rig.see_as_captured([&player, &watcher], 60)?;
        rig.see_as_captured([&second], 20)?;
        // Both clients show the same pictures, except those that a client misses on a slow machine.
        let (at_player, at_watcher) = (numbers(&at_player), numbers(&at_watcher));
        if at_watcher.iter().any(|at| at_player.contains(at)) {
            return Ok(());
        }
        Err(format!("other pictures: {at_player:?} {at_watcher:?}"))
    });
    // One thread captured each picture once.
    let captured = rig.captured.blocks.lock().unwrap();
    let newest = captured.keys().copied().max().unwrap();
    assert_eq!(captured.len(), newest as usize);
    drop(captured);
    assert_eq!(rig.captured.threads.lock().unwrap().len(), 1);

    // A rendition ends with its last subscriber.
    drop(second);
    watcher.see(30);
    drop(watcher);
    rig.until("its end", |log| log.open.len() == 1);
    assert_eq!(rig.log.names(), [(1, "x264")]);
    player.see(30);
    drop(player);
    rig.until("the end of both", |log| log.open.is_empty());
    let opened = [(1, "x264".to_owned()), (2, "jpeg".to_owned())];
    assert_eq!(rig.log.opened, opened, "once each");
}

#[test]
fn a_subscriber_that_blocks_costs_the_player_no_frame() {
    let mut rig = Rig::new("blocks", |config| config.encoder_per_client = true);
    let player = rig.client("player", false, None);
    let watcher = rig.client("watcher", true, None);
    watcher.see(10);
    rig.until("both", |log| log.clients.len() == 2);
    let [(plays, ..), (watches, ..)] = rig.log.clients[..] else {
        panic!("{:?}", rig.log.clients);
    };
    rig.impairment.session.store(watches.0, Ordering::Relaxed);
    measured_without_stalls(5, STALLED, || {
        let before = rig.impairment.waited.load(Ordering::Relaxed);
        rig.impairment.block(true);
        support::eventually("it blocks", || {
            (rig.impairment.waited.load(Ordering::Relaxed) > before).then_some(())
        });
        let seen = rig.see_as_captured([&player], 120);
        // The blocked observer may have shown frames that were sent before it was blocked.
        let newest = watcher.seen.try_iter().flatten().last();
        rig.impairment.block(false);
        let [seen] = seen?;
        let newest = newest.map_or(0, |(number, _)| number);
        assert!(newest < seen[60].0, "it is blocked");
        // The observer continues from the newest picture.
        let after = watcher.see(20);
        assert!(
            after[1].0 > seen[60].0,
            "it does not catch up with old pictures"
        );
        rig.check(&after)
    });
    // The frames that the blocked observer missed are recorded.
    let superseded = Outcome::Dropped {
        stage: Stage::Converted,
        why: DropCause::Superseded,
    };
    let missed = |log: &HostLog| {
        let own = log.of(watches);
        own.iter()
            .filter(|record| record.outcome == superseded)
            .count()
    };
    rig.until("the frames that it missed", |log| missed(log) >= 100);
    let ended = |log: &HostLog| -> Vec<u32> {
        let own = log.of(plays);
        own.iter().map(|record| record.frame.0).collect()
    };
    rig.until("the player's frames", |log| ended(log).len() >= 120);
    let names = ended(&rig.log);
    let (first, newest) = (*names.iter().min().unwrap(), *names.iter().max().unwrap());
    // A frame whose report is lost ends after later frames.
    let up_to_newest = |log: &HostLog| -> Vec<u32> {
        let mut names = ended(log);
        names.retain(|name| *name <= newest);
        names.sort_unstable();
        names
    };
    let all: Vec<u32> = (first..=newest).collect();
    rig.until("the end of each frame", |log| {
        up_to_newest(log).len() >= all.len()
    });
    assert_eq!(up_to_newest(&rig.log), all, "each has one end");
    for record in rig.log.of(plays) {
        // Frames before the player's first key frame may be dropped.
        let early = record.frame.0 < first + 3;
        assert!(early || !dropped_at_host(&record), "{record:?}");
    }
}

#[test]
fn a_lossy_link_harms_only_its_own_clients_frames() {
    measured_without_stalls(3, STALLED, lossy_link);
}

fn lossy_link() -> Result<(), String> {
    let mut rig = Rig::new("loses", |config| config.encoder_per_client = true);
    let player = rig.client("player", false, None);
    let sound = rig.client("sound", true, None);
    let lossy = rig.client("lossy", true, None);
    rig.until("all", |log| log.clients.len() == 3 && log.open.len() == 3);
    assert_eq!(rig.log.names(), [(1, "x264"), (2, "x264"), (3, "x264")]);
    let victim = rig.log.clients[2].0;
    rig.impairment.loses_one_in.store(10, Ordering::Relaxed);
    rig.impairment.session.store(victim.0, Ordering::Relaxed);
    for client in [&player, &sound] {
        rig.see_as_captured([client], 120)?;
    }
    assert!(rig.impairment.lost.load(Ordering::Relaxed) > 20);
    let missing = |log: &HostLog, session| {
        let own = log.of(session);
        own.iter()
            .map(|record| u32::from(record.missing))
            .sum::<u32>()
    };
    rig.until("reports of losses", |log| missing(log, victim) > 20);
    for client in [0, 1] {
        let session = rig.log.clients[client].0;
        let damaged = rig.log.of(session).into_iter().filter(|record| {
            matches!(
                record.outcome,
                Outcome::Displayed(Fidelity::Concealed | Fidelity::Tainted)
            )
        });
        let harmed = (missing(&rig.log, session), damaged.count());
        if harmed != (0, 0) {
            return Err(format!(
                "client {client}: {harmed:?} missing datagrams and damaged frames"
            ));
        }
    }
    let opened: Vec<u32> = rig.log.opened.iter().map(|opened| opened.0).collect();
    assert_eq!(opened, [1, 2, 3], "once each");
    // The lossy client also continues.
    lossy.see(20);
    Ok(())
}

#[test]
fn only_the_players_video_arrives_with_ect1() {
    let mut rig = Rig::new("marks", |config| {
        (config.adaptive, config.l4s) = (true, L4sMode::Auto);
    });
    let player = rig.client("player", false, None);
    let observer = rig.client("observer", true, None);
    let ecn = |log: &HostLog, client: usize| -> Vec<EcnCounts> {
        let own = log.of(log.clients[client].0);
        own.iter().filter_map(|record| record.ecn).collect()
    };
    rig.until("frames with ECT(1)", |log| {
        let marked = |counts: &EcnCounts| counts.ect1 > 0;
        log.clients.len() == 2 && ecn(log, 0).into_iter().filter(marked).count() >= 60
    });
    let counts = ecn(&rig.log, 0);
    assert!(
        counts
            .iter()
            .all(|counts| (counts.ect0, counts.ce) == (0, 0))
    );
    let first = counts.iter().position(|counts| counts.ect1 > 0).unwrap();
    // The first two reports from the first ECT(1) on may also count datagrams of earlier frames.
    let rest = &counts[first + 2..];
    assert!(rest.iter().all(|counts| counts.not_ect == 0), "{rest:?}");
    assert_eq!(ecn(&rig.log, 1), [], "an observer is not asked for counts");
    player.see(20);
    observer.see(20);
}

#[test]
fn the_next_player_takes_its_own_rendition_along() {
    let mut rig = Rig::new("next", |config| config.encoder_per_client = true);
    let first = rig.client("first", false, None);
    let next = rig.client("next", false, None);
    rig.until("both", |log| log.clients.len() == 2 && log.open.len() == 2);
    let roles: Vec<Role> = rig.log.clients.iter().map(|client| client.1).collect();
    assert_eq!(roles, [Role::Player, Role::Observer]);
    first.see(20);
    drop(first);
    // Only the new player's encoder is reopened, in the media thread.
    rig.until("the player's", |log| {
        log.opened.len() == 3 && log.open.len() == 1
    });
    rig.until("the new role", |log| log.clients[1].1 == Role::Player);
    assert_eq!(rig.log.names(), [(2, "x264")]);
    measured_without_stalls(5, STALLED, || rig.see_as_captured([&next], 60));
}

/// Number of frames that [`failing`] encodes.
const WORKS_FOR: u32 = 40;

/// A stand-in for a hardware encoder whose device fails: libx264 through libavcodec, which fails after [`WORKS_FOR`]
/// frames.
fn failing() -> &'static Backend {
    fn open(opening: &Opening<'_>) -> Result<Box<dyn Encoder>, EncodeError> {
        let backend = encode::find("libx264")?;
        let encoder = encode::open_with(&Opening {
            backend,
            ..*opening
        })?;
        Ok(Box::new(FailingEncoder {
            encoder,
            left: WORKS_FOR,
        }))
    }
    Box::leak(Box::new(Backend {
        name: "failing",
        hardware: true,
        open,
        ..*encode::find("libx264").unwrap()
    }))
}

struct FailingEncoder {
    encoder: Box<dyn Encoder>,
    left: u32,
}

impl Encoder for FailingEncoder {
    fn input(&self) -> PixelFormat {
        self.encoder.input()
    }

    fn slices(&self) -> u8 {
        self.encoder.slices()
    }

    fn encode(
        &mut self,
        picture: &Picture<'_>,
        ask: &FrameRequest<'_>,
        sink: &mut (dyn FnMut(Slice<'_>) + Send),
    ) -> Result<Encoded, EncodeError> {
        if self.left == 0 {
            return Err(EncodeError("the device was lost".to_owned()));
        }
        self.left -= 1;
        self.encoder.encode(picture, ask, sink)
    }

    fn retarget(&mut self, bitrate: Bitrate) -> Result<(), EncodeError> {
        self.encoder.retarget(bitrate)
    }
}

#[test]
fn x264_replaces_a_hardware_encoder_that_fails() {
    measured_without_stalls(3, STALLED, failing_encoder);
}

fn failing_encoder() -> Result<(), String> {
    let failing = failing();
    let mut rig = Rig::with_encodings("fallback", |_| {}, |encoding| encoding.encoder = failing);
    rig.log.warnings = Some(Vec::new());
    let player = rig.client("player", false, None);
    let seen = player.see(2 * WORKS_FOR as usize);
    rig.check(&seen)?;
    rig.until("the other encoder", |log| log.opened.len() == 2);
    assert_eq!(
        rig.log.opened,
        [(1, "failing".to_owned()), (1, "x264".to_owned())]
    );
    let session = rig.log.clients[0].0;
    // The frame after the failed one is a key frame of the same picture.
    let failed = |record: &FrameRecord| {
        let why = DropCause::EncodeFailed;
        matches!(record.outcome, Outcome::Dropped { why: cause, .. } if cause == why)
    };
    rig.until("more frames", |log| {
        let all = log.of(session);
        let at = all.iter().position(failed);
        at.is_some_and(|at| all.len() > at + 20)
    });
    let all = rig.log.of(session);
    assert_eq!(all.iter().filter(|record| failed(record)).count(), 1);
    let warnings = rig.log.warnings.take().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let line =
        "(failing): the device was lost; the encoder x264 replaces it from the next frame on";
    assert!(warnings[0].ends_with(line), "{warnings:?}");
    Ok(())
}
