//! An application with guests in it, and real clients: real encoder, decoder and sockets.

#![expect(clippy::unwrap_used, reason = "a test ends there")]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use openuvr_media::capture::submit::Pool;
use openuvr_media::cursor::Cursor;
use openuvr_media::input_source::{InputSource, SourceError, SourceEvent};
use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, Presenter, to_bgrx};
use openuvr_proto::id::FrameId;
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::EchoKind;
use openuvr_runtime::client::{self, ClientRuntime, ClientSetup, Target};
use openuvr_runtime::guest::{Guest, InputTo};
use openuvr_runtime::host::Notice;
use openuvr_runtime::host::config::Config;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// More pictures and notices than a test makes.
const MOST: usize = 65_536;

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("openuvr-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The size and the grey level in the middle of each picture that is shown.
struct Eye(SyncSender<(Size, u8)>);

impl Presenter for Eye {
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

/// What is sent here is typed at the client.
struct Hand(Receiver<InputEvent>);

impl InputSource for Hand {
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError> {
        let event = self.0.recv_timeout(timeout.unwrap_or(PATIENCE)).ok();
        Ok(event.map_or(SourceEvent::TimedOut, SourceEvent::Input))
    }
}

struct Watcher {
    client: ClientRuntime,
    seen: Receiver<(Size, u8)>,
    hand: SyncSender<InputEvent>,
}

fn watch(guest: &Guest, folder: &Path) -> Watcher {
    let port = guest.address().unwrap().port();
    let target: Target = format!("127.0.0.1:{port}").parse().unwrap();
    let config = client::config::Config {
        pin: Some(guest.pin().unwrap().to_string()),
        config_dir: Some(folder.join(format!("client-{port}"))),
        realtime: false,
        ..client::config::Config::new(target)
    };
    let opened = config.open().unwrap();
    let (eye, seen) = sync_channel(MOST);
    let (hand, typed) = sync_channel(MOST);
    let client = ClientRuntime::start(ClientSetup {
        identity: opened.identity,
        name: opened.name,
        hosts: opened.hosts,
        host: opened.host,
        paths: opened.paths,
        pin: opened.pin,
        offer: opened.offer,
        decoder: opened.decoder,
        link: opened.link,
        only: opened.only,
        surface: Box::new(move |_, _, _| Ok((Box::new(Eye(eye.clone())), None))),
        input: Some(Box::new(Hand(typed))),
        send_input: true,
        overlay: false,
        reconnect: false,
        scheduler: config.scheduler(),
    });
    Watcher {
        client: client.unwrap(),
        seen,
        hand,
    }
}

fn start(folder: &Path, name: &str, size: Size) -> (Guest, Receiver<Notice>) {
    let config = Config {
        name: name.to_owned(),
        bind: ([127, 0, 0, 1], 0).into(),
        config_dir: Some(folder.join(name)),
        realtime: false,
        fps: 240.0,
        csv: Some(folder.join(format!("{name}.csv"))),
        ..Config::default()
    };
    let (tell, told) = sync_channel(MOST);
    let tell = move |notice| drop(tell.send(notice));
    (
        Guest::start(&config, InputTo::Application, size, tell).unwrap(),
        told,
    )
}

/// Draws grey pictures until the client shows this one.
fn draw_until_seen(guest: &Guest, watcher: &Watcher, size: Size, grey: u8) {
    let pool = Pool::default();
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        guest.begin_frame();
        let mut picture = pool.take(size);
        picture.bytes().fill(grey);
        if guest.wants() {
            let ticket = guest.submit(Box::new(picture)).expect("the host runs");
            assert!(guest.wait(ticket, PATIENCE), "encoded and sent");
        }
        let near = |(s, g): (Size, u8)| s == size && g.abs_diff(grey) <= 3;
        if watcher.seen.try_iter().any(near) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let over = watcher.client.notice(Duration::ZERO);
    panic!("no picture of {size} with grey {grey} was shown: {over:?}");
}

#[test]
fn an_application_streams_itself_takes_input_and_changes_its_size() {
    let folder = Folder::new("guest");
    let size = Size::new(320, 180);
    let (guest, told) = start(&folder.0, "application", size);
    let watcher = watch(&guest, &folder.0);
    draw_until_seen(&guest, &watcher, size, 60);

    let event = InputEvent::Key {
        code: KeyCode(30),
        text: Some('a'),
        pressed: true,
    };
    watcher.hand.send(event).unwrap();
    let until = Instant::now() + PATIENCE;
    let taken = loop {
        assert!(Instant::now() < until, "no input came");
        match guest.next_input() {
            Some(input) => break input,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    assert_eq!(taken.event, event);
    // The picture that shows it says so, exactly.
    draw_until_seen(&guest, &watcher, size, 120);
    let larger = Size::new(352, 200);
    draw_until_seen(&guest, &watcher, larger, 200);

    drop(watcher);
    drop(guest);
    let (mut exact, mut ended, mut records) = (0, 0, 0);
    for notice in told.try_iter() {
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
    let csv = std::fs::read_to_string(folder.0.join("application.csv")).unwrap();
    assert_eq!(
        csv.lines().count(),
        1 + records,
        "a header and a row for each"
    );
}

#[test]
fn two_guests_of_one_process_have_clients_of_their_own() {
    let folder = Folder::new("guests");
    let sizes = [Size::new(160, 90), Size::new(192, 108)];
    let guests = ["left", "right"].map(|name| {
        let size = sizes[usize::from(name == "right")];
        start(&folder.0, name, size).0
    });
    let watchers = [0, 1].map(|i| watch(&guests[i], &folder.0));
    for (i, grey) in [40, 220].into_iter().enumerate() {
        draw_until_seen(&guests[i], &watchers[i], sizes[i], grey);
    }
    for guest in &guests {
        let figures = guest.statistics();
        assert_eq!(figures.clients.len(), 1);
    }
}

#[test]
fn what_is_out_of_range_starts_nothing_and_says_why() {
    let config = Config {
        encoder: "vhs".into(),
        ..Config::default()
    };
    let size = Size::new(160, 90);
    let why = Guest::start(&config, InputTo::Nothing, size, |_| ()).err();
    assert!(why.unwrap().contains("choose one of x264"));
}
