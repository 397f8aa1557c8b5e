//! Tests of guests (hosts inside an application), with real clients, encoders, decoders and sockets.

#![expect(clippy::unwrap_used, reason = "a test fails there")]

mod support;

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use openuvr_clock as clock;
use openuvr_media::capture::pool::Pool;
use openuvr_media::cursor::Cursor;
use openuvr_media::input_source::evdev::Evdev;
use openuvr_media::input_source::{InputSource, SourceError, SourceEvent};
use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, Presenter, to_bgrx};
use openuvr_proto::control::negotiate::ClientConstraints;
use openuvr_proto::id::{DeviceId, FrameId};
use openuvr_proto::input::event::{EV_KEY, EV_REL, EV_SYN, InputEvent, KeyCode};
use openuvr_proto::pose::Pose;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::video::EchoKind;
use openuvr_runtime::client::{ClientRuntime, Notice as ClientNotice};
use openuvr_runtime::guest::{Guest, InputTarget};
use openuvr_runtime::host::EncoderName;
use openuvr_runtime::host::Notice;
use openuvr_runtime::host::config::Config;
use openuvr_runtime::sound_choice::SoundChoice;
use support::{MANY, TIMEOUT, client, eventually};

/// Reports the size of each shown picture, and the grey level in its middle.
struct PictureReader(SyncSender<(Size, u8)>);

impl Presenter for PictureReader {
    fn present(&mut self, _: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        let mut bgrx = vec![0; picture.size.pixels() * 4];
        to_bgrx(picture, &mut bgrx)?;
        let _ = self.0.send((picture.size, bgrx[bgrx.len() / 2]));
        Ok(())
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        Ok(())
    }
}

struct TypedInput(Receiver<InputEvent>);

impl InputSource for TypedInput {
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError> {
        let event = self.0.recv_timeout(timeout.unwrap_or(TIMEOUT)).ok();
        Ok(event.map_or(SourceEvent::TimedOut, SourceEvent::Input))
    }
}

struct Watcher {
    client: ClientRuntime,
    seen: Receiver<(Size, u8)>,
    hand: SyncSender<InputEvent>,
}

fn watch(guest: &Guest, folder: &Path) -> Watcher {
    let (hand, typed) = sync_channel(MANY);
    watch_with(guest, folder, Box::new(TypedInput(typed)), hand)
}

fn watch_with(
    guest: &Guest,
    folder: &Path,
    input: Box<dyn InputSource>,
    hand: SyncSender<InputEvent>,
) -> Watcher {
    watch_constrained(guest, folder, input, hand, ClientConstraints::default())
}

fn watch_constrained(
    guest: &Guest,
    folder: &Path,
    input: Box<dyn InputSource>,
    hand: SyncSender<InputEvent>,
    constraints: ClientConstraints,
) -> Watcher {
    let host = (guest.address().unwrap().port(), guest.pin().unwrap());
    let (eye, seen) = sync_channel(MANY);
    let surface = move || Box::new(PictureReader(eye.clone())) as Box<dyn Presenter>;
    Watcher {
        client: client(host, folder, constraints, Some(input), surface),
        seen,
        hand,
    }
}

fn start(folder: &Path, name: &str, size: Size) -> (Guest, Receiver<Notice>) {
    let config = Config {
        sound: SoundChoice::Off,
        name: name.to_owned(),
        bind: ([127, 0, 0, 1], 0).into(),
        config_dir: Some(folder.join(name)),
        realtime: false,
        fps: 240.0,
        // An adaptive host would send fewer bits and skip frames after delays of a slow machine.
        adaptive: false,
        csv: Some(folder.join(format!("{name}.csv"))),
        ..Config::default()
    };
    let (sender, notices) = sync_channel(MANY);
    let on_notice = move |notice| drop(sender.send(notice));
    (
        Guest::start(&config, InputTarget::Application, size, on_notice).unwrap(),
        notices,
    )
}

/// Draws grey pictures until the client shows a picture of this size and level.
fn draw_until_seen(guest: &Guest, watcher: &Watcher, size: Size, grey: u8) {
    let pool = Pool::default();
    let until = Instant::now() + TIMEOUT;
    while Instant::now() < until {
        guest.begin_frame();
        let mut picture = pool.take(size);
        picture.bytes().fill(grey);
        if guest.wants() {
            let ticket = guest.submit(Box::new(picture)).expect("the host runs");
            assert!(guest.wait(ticket, TIMEOUT), "encoded and sent");
        }
        let near = |(s, g): (Size, u8)| s == size && g.abs_diff(grey) <= 3;
        if watcher.seen.try_iter().any(near) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let last = watcher.client.notice(Duration::ZERO);
    panic!("no picture of {size} with grey {grey} was shown: {last:?}");
}

#[test]
fn an_application_streams_takes_input_and_is_resized() {
    let folder = tempfile::tempdir().unwrap();
    let size = Size::new(320, 180);
    let (guest, notices) = start(folder.path(), "application", size);
    let watcher = watch(&guest, folder.path());
    draw_until_seen(&guest, &watcher, size, 60);

    let event = InputEvent::Key {
        code: KeyCode(30),
        text: Some('a'),
        pressed: true,
    };
    watcher.hand.send(event).unwrap();
    let taken = eventually("input", || guest.next_input());
    assert_eq!(taken.event, event);
    // The first picture after the application has taken the key echoes it exactly.
    draw_until_seen(&guest, &watcher, size, 120);
    let larger = Size::new(352, 200);
    draw_until_seen(&guest, &watcher, larger, 200);
    let showing = || {
        eventually("a new size", || match watcher.client.notice(TIMEOUT)? {
            ClientNotice::Showing(size) => Some(size),
            _ => None,
        })
    };
    assert_eq!([showing(), showing()], [size, larger]);

    drop(watcher);
    drop(guest);
    let (mut exact, mut ended, mut records) = (0, 0, 0);
    for notice in notices.try_iter() {
        match notice {
            Notice::Record(record) => {
                records += 1;
                if record.motion_to_photon.is_some() {
                    assert_eq!(record.echo, EchoKind::Consumed);
                    exact += 1;
                }
            }
            Notice::Ended(..) => ended += 1,
            _ => {}
        }
    }
    assert_eq!(
        (exact, ended),
        (1, 1),
        "one picture is the first to show the key"
    );
    let csv = std::fs::read_to_string(folder.path().join("application.csv")).unwrap();
    assert_eq!(
        csv.lines().count(),
        1 + records,
        "a header and a row for each"
    );
}

#[test]
fn a_picture_shows_no_event_that_is_still_being_handled() {
    let folder = tempfile::tempdir().unwrap();
    let size = Size::new(320, 180);
    let (guest, _notices) = start(folder.path(), "handler", size);
    let watcher = watch(&guest, folder.path());
    draw_until_seen(&guest, &watcher, size, 60);
    let shown = || {
        guest.begin_frame();
        guest.drawn(size).input.map(|input| input.seq)
    };
    for draws_in_handler in [false, true] {
        let event = InputEvent::PointerRelative { dx: 1, dy: 0 };
        watcher.hand.send(event).unwrap();
        let seq = eventually("input", || {
            let mut seen = None;
            guest.deliver_input(Duration::from_millis(5), |input| {
                assert_ne!(shown(), Some(input.taken.seq));
                if draws_in_handler {
                    guest.accept_input();
                    assert_eq!(shown(), Some(input.taken.seq));
                }
                seen = Some(input.taken.seq);
            });
            seen
        });
        assert_eq!(shown(), Some(seq));
    }
}

/// Draws this many pictures of changing grey. Each picture is encoded and sent.
fn draw(guest: &Guest, size: Size, pictures: u8) {
    let pool = Pool::default();
    for grey in 0..pictures {
        eventually("a picture is wanted", || guest.wants().then_some(()));
        let mut picture = pool.take(size);
        picture.bytes().fill(grey);
        let ticket = guest.submit(Box::new(picture)).expect("the host runs");
        assert!(guest.wait(ticket, TIMEOUT), "encoded and sent");
    }
}

#[test]
fn the_group_of_pictures_changes_while_streaming() {
    let folder = tempfile::tempdir().unwrap();
    let size = Size::new(320, 180);
    let (guest, notices) = start(folder.path(), "gop", size);
    let watcher = watch(&guest, folder.path());
    draw_until_seen(&guest, &watcher, size, 60);
    guest.set_key_frame_interval(Some(5));
    draw(&guest, size, 40);
    guest.set_key_frame_interval(None);
    draw(&guest, size, 40);
    drop(watcher);
    drop(guest);
    let mut frames: Vec<(u32, bool)> = notices
        .try_iter()
        .filter_map(|notice| match notice {
            Notice::Record(record) => Some((record.frame.0, record.cost.key_frame)),
            _ => None,
        })
        .collect();
    frames.sort_unstable();
    let keys = frames.iter().filter(|(_, key)| *key);
    let keys: Vec<u32> = keys.map(|(frame, _)| *frame).collect();
    let groups = keys.windows(2).filter(|pair| pair[1] - pair[0] == 5);
    assert!(groups.count() >= 6, "40 pictures have 8 groups: {keys:?}");
    let (newest, _) = frames.last().expect("frames");
    let last = keys.last().expect("key frames");
    assert!(
        newest - last >= 30,
        "none follows without a request: {keys:?} of {newest}"
    );
}

/// A device event: type, code and value.
type DeviceEvent = (u16, u16, i32);

/// Writes `struct input_event`s of a 64-bit Linux, as its event devices do.
fn write_events(device: &mut impl Write, events: &[DeviceEvent]) {
    let mut bytes = Vec::new();
    for (kind, code, value) in events {
        bytes.extend([0; 16]);
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
    }
    device.write_all(&bytes).unwrap();
}

/// Reads this many events from a non-blocking pipe, and waits until they have arrived.
fn read_events(descriptor: &mut impl Read, events: usize) -> Vec<DeviceEvent> {
    let mut bytes = vec![0; events * 24];
    let mut read = 0;
    eventually("all events", || {
        read += descriptor.read(&mut bytes[read..]).unwrap_or(0);
        (read == bytes.len()).then_some(())
    });
    let events = bytes.chunks_exact(24).map(|e| {
        let half = |at: usize| u16::from_ne_bytes([e[at], e[at + 1]]);
        let value = i32::from_ne_bytes([e[20], e[21], e[22], e[23]]);
        (half(16), half(18), value)
    });
    events.collect()
}

#[test]
#[cfg(target_pointer_width = "64")]
fn registered_devices_reach_descriptors_or_the_display() {
    const PAD: DeviceId = DeviceId(7);
    const REPORT: DeviceEvent = (EV_SYN, 0, 0);
    let folder = tempfile::tempdir().unwrap();
    let size = Size::new(160, 90);
    let (guest, _notices) = start(folder.path(), "devices", size);
    let (mut out, sink) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&out, true).unwrap();
    guest.map_device(PAD, sink.into()).unwrap();
    let source = Evdev::new().unwrap();
    let registrar = source.registrar();
    let register = |device| {
        let (read, write) = std::io::pipe().unwrap();
        registrar.register(device, read.into()).unwrap();
        write
    };
    let (mut pad, mut keyboard) = (register(PAD), register(DeviceId(0)));
    let (hand, _typed) = sync_channel(1);
    let watcher = watch_with(&guest, folder.path(), Box::new(source), hand);
    draw_until_seen(&guest, &watcher, size, 60);

    let steps = (1..=200).flat_map(|i| [(EV_REL, 0, i), (EV_KEY, 30, i % 2), (3, 1, -i), REPORT]);
    let steps: Vec<DeviceEvent> = steps.collect();
    write_events(&mut pad, &steps);
    assert_eq!(read_events(&mut out, steps.len()), steps);

    let typed = [(EV_KEY, 31, 1), (EV_REL, 0, 3), (EV_REL, 1, -4), REPORT];
    write_events(&mut keyboard, &typed);
    let key = InputEvent::Key {
        code: KeyCode(31),
        text: None,
        pressed: true,
    };
    let moved = InputEvent::PointerRelative { dx: 3, dy: -4 };
    for event in [key, moved] {
        let input = eventually("input", || guest.next_input());
        assert_eq!(input.event, event);
    }

    // Held keys are released when their device is unplugged, and when the client leaves.
    write_events(&mut pad, &[(EV_KEY, 33, 1), REPORT]);
    assert_eq!(read_events(&mut out, 2), [(EV_KEY, 33, 1), REPORT]);
    drop(pad);
    assert_eq!(read_events(&mut out, 2), [(EV_KEY, 33, 0), REPORT]);
    let mut pad = register(PAD);
    write_events(&mut pad, &[(EV_KEY, 34, 1), REPORT]);
    assert_eq!(read_events(&mut out, 2), [(EV_KEY, 34, 1), REPORT]);
    drop(watcher);
    assert_eq!(read_events(&mut out, 2), [(EV_KEY, 34, 0), REPORT]);
    let let_go = eventually("a release", || guest.next_input());
    assert_eq!(let_go.event, InputEvent::ReleaseAll);
    guest.unmap_device(PAD).unwrap();
    drop(guest);
    assert_eq!(out.read(&mut [0]).unwrap(), 0, "nothing more");
}

/// Streams a hundred noise pictures. Returns the mean size in bytes of the last 20 frames that are not repetitions, and
/// the picture size that the client showed.
fn noise_seen(name: &str, constraints: ClientConstraints) -> (u32, Size) {
    let folder = tempfile::tempdir().unwrap();
    let size = Size::new(320, 180);
    let (guest, notices) = start(folder.path(), name, size);
    let (hand, typed) = sync_channel(1);
    let watcher = watch_constrained(
        &guest,
        folder.path(),
        Box::new(TypedInput(typed)),
        hand,
        constraints,
    );
    eventually("a subscriber", || guest.wants().then_some(()));
    let pool = Pool::default();
    let mut seed = 1_u32;
    for _ in 0..100 {
        eventually("a wanted picture", || guest.wants().then_some(()));
        let mut picture = pool.take(size);
        for byte in picture.bytes() {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // The noise is faint, so that coarse quantisers remove it.
            *byte = seed.to_le_bytes()[3] / 4 + 96;
        }
        let ticket = guest.submit(Box::new(picture)).expect("the host runs");
        assert!(guest.wait(ticket, TIMEOUT), "encoded and sent");
    }
    let (seen, _) = watcher.seen.recv_timeout(TIMEOUT).unwrap();
    drop(watcher);
    drop(guest);
    // If the client ends late, the host has sent the last picture again, with more bits.
    let bytes = notices.try_iter().filter_map(|notice| match notice {
        Notice::Record(record) if !record.cost.repeats => Some(record.cost.bytes),
        _ => None,
    });
    let bytes = bytes.filter(|bytes| *bytes > 0);
    let bytes: Vec<u32> = bytes.collect();
    let last = &bytes[bytes.len().saturating_sub(20)..];
    let mean = last.iter().sum::<u32>() / u32::try_from(last.len().max(1)).unwrap();
    (mean, seen)
}

#[test]
fn the_host_keeps_to_the_players_bitrate_and_size_limits() {
    let (all, seen) = noise_seen("unconstrained", ClientConstraints::default());
    assert_eq!(seen, Size::new(320, 180));
    let bitrate = Some(Bitrate(2_000_000));
    let (less, seen) = noise_seen(
        "modest",
        ClientConstraints {
            bitrate,
            ..ClientConstraints::default()
        },
    );
    assert_eq!(seen, Size::new(320, 180));
    assert!(less < all / 2, "{less} of {all} bytes a frame");
    let limit = Some(Size::new(160, 1000));
    let (_, seen) = noise_seen(
        "small",
        ClientConstraints {
            bitrate,
            size: limit,
            ..ClientConstraints::default()
        },
    );
    assert_eq!(seen, Size::new(160, 90));
}

#[test]
fn the_application_receives_the_players_head_pose() {
    let folder = tempfile::tempdir().unwrap();
    let size = Size::new(160, 90);
    let (guest, notices) = start(folder.path(), "pose", size);
    let watcher = watch(&guest, folder.path());
    draw_until_seen(&guest, &watcher, size, 60);
    assert_eq!(guest.pose(), None);
    let at = |x: u8| Pose::new([x.into(), 1.5, 0.0], [0.0, 0.6, 0.0, 0.8]).unwrap();
    let begun = clock::now();
    for x in 0..=100 {
        watcher.client.set_pose(&at(x), clock::now()).unwrap();
    }
    // The first poses may arrive before the clocks are synchronised.
    let (posed, here) = eventually("the last pose, and when it was sampled", || {
        watcher.client.set_pose(&at(100), clock::now()).unwrap();
        let posed = guest.pose().filter(|posed| posed.pose == at(100))?;
        Some((posed, posed.sampled_here?))
    });
    // Client and host have the same clock here, so the converted sampling time must be correct within its bound.
    assert!(here.at + here.bound >= begun && here.at <= posed.received + here.bound);
    // The next picture is drawn with the pose, and its frame carries the pose's number.
    draw_until_seen(&guest, &watcher, size, 200);
    // The client reports a picture after it has shown it.
    let mut poses = Vec::new();
    while !poses.contains(&Some(posed.id)) {
        let notice = notices.recv_timeout(TIMEOUT).expect("a report with it");
        if let Notice::Record(record) = notice {
            poses.push(record.pose);
        }
    }
    drop(watcher);
    eventually("its player is gone", || {
        guest.pose().is_none().then_some(())
    });
    drop(guest);
    assert_eq!(
        poses.first(),
        Some(&None),
        "before the application took one"
    );
    let csv = std::fs::read_to_string(folder.path().join("pose.csv")).unwrap();
    let names = csv.lines().next().unwrap().split(',');
    let column = names.into_iter().position(|name| name == "pose").unwrap();
    let id = posed.id.0.to_string();
    let named = |row: &str| row.split(',').nth(column) == Some(&id);
    assert!(csv.lines().any(named), "{csv}");
}

#[test]
fn two_guests_of_one_process_have_clients_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [Size::new(160, 90), Size::new(192, 108)];
    let guests = ["left", "right"].map(|name| {
        let size = sizes[usize::from(name == "right")];
        start(folder.path(), name, size).0
    });
    let watchers = [0, 1].map(|i| watch(&guests[i], folder.path()));
    for (i, grey) in [40, 220].into_iter().enumerate() {
        draw_until_seen(&guests[i], &watchers[i], sizes[i], grey);
    }
    // The thread that counts the clients may be later than the first pictures.
    for guest in &guests {
        eventually("one client", || {
            (guest.statistics().clients.len() == 1).then_some(())
        });
    }
}

#[test]
fn an_invalid_configuration_is_refused_with_the_reason() {
    let config = Config {
        sound: SoundChoice::Off,
        encoders: vec![EncoderName("vhs")],
        ..Config::default()
    };
    let size = Size::new(160, 90);
    let why = Guest::start(&config, InputTarget::Nothing, size, |_| ()).err();
    assert!(why.unwrap().contains("one of x264"));
}
