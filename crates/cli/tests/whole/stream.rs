//! The client shows the source's pictures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::barcode::{self, Stamp};
use openuvr_media::capture::pattern::Pattern;
use openuvr_media::capture::{Capture as _, CaptureEvent};
use openuvr_proto::units::Size;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::wrapper::ConnectionExt as _;

use crate::support::stalls::measured_without_stalls;
use crate::support::{
    Display, Folder, Host, PIN, Painter, Program, ScreenCapture, Shot, eventually, psnr, scene,
};

const SIZE: &str = "640x360";
const PIXELS: Size = Size::new(640, 360);

/// Pause between two pictures of a painter, for about 30 pictures a second.
const PAUSE: Duration = Duration::from_millis(33);

/// If the machine stalls for longer than this, the programs may lose datagrams or print warnings, and the test starts
/// again.
const STALLED: Duration = Duration::from_millis(100);

/// Polls a display, and records its distinct bar codes in order.
struct StampRecorder {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Stamp>>>,
    thread: JoinHandle<()>,
}

impl StampRecorder {
    fn start(display: &Display) -> StampRecorder {
        let capture = ScreenCapture::open(display);
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::<Mutex<Vec<Stamp>>>::default();
        let (stopping, recorded) = (stop.clone(), seen.clone());
        let thread = std::thread::spawn(move || {
            loop {
                // The last turn reads the display after the request to stop.
                let last = stopping.load(Ordering::Relaxed);
                if let Some(stamp) = capture.stamp() {
                    let mut seen = locked(&recorded);
                    if seen.last() != Some(&stamp) {
                        seen.push(stamp);
                    }
                }
                if last {
                    return;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        StampRecorder { stop, seen, thread }
    }

    /// The bar codes so far.
    fn seen(&self) -> Vec<Stamp> {
        locked(&self.seen).clone()
    }

    fn end(self) -> Vec<Stamp> {
        let StampRecorder { stop, seen, thread } = self;
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("the polling thread");
        locked(&seen).clone()
    }
}

fn locked(seen: &Mutex<Vec<Stamp>>) -> MutexGuard<'_, Vec<Stamp>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of shown frames that were also seen at the source.
fn seen_at_both(drawn: &[Stamp], shown: &[Stamp]) -> usize {
    let known = |shown: &&Stamp| drawn.iter().any(|drawn| drawn.frame == shown.frame);
    shown.iter().filter(known).count()
}

fn assert_increasing(seen: &[Stamp]) {
    for pair in seen.windows(2) {
        assert!(
            pair[0].frame < pair[1].frame,
            "{:?} then {:?}",
            pair[0],
            pair[1]
        );
    }
}

#[test]
fn the_scene_arrives_unchanged() {
    measured_without_stalls(3, STALLED, scene_arrives);
}

/// Streams the scene. Returns an error if the client prints a warning.
fn scene_arrives() -> Result<(), String> {
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return Ok(());
    };
    let _scene = scene(&here, SIZE, "20");
    ScreenCapture::open(&here).more_frames(1);
    let mut host = Host::start(&[&PIN[..], &["--display", &here.name]].concat());
    let mut client = host.client("client", &there, &PIN);
    client.line("showing 640x360");
    let (drawn, shown) = (StampRecorder::start(&here), StampRecorder::start(&there));
    ScreenCapture::open(&there).more_frames(40);
    // On a busy machine, this test may miss frames at both ends.
    eventually("ten frames at both ends", || {
        (seen_at_both(&drawn.seen(), &shown.seen()) >= 10).then_some(())
    });
    // The recorder of the source ends last, so that it reads each frame that the recorder of the client has read.
    let shown = shown.end();
    let drawn = drawn.end();
    assert_increasing(&drawn);
    assert_increasing(&shown);
    let drawn: BTreeMap<u32, Stamp> = drawn.iter().map(|s| (s.frame, *s)).collect();
    let first = drawn.keys().next().expect("a frame");
    let last = drawn.keys().last().expect("a frame");
    for stamp in shown.iter().filter(|s| s.frame >= *first) {
        assert!(
            stamp.frame <= *last,
            "{stamp:?} is shown, but was not rendered ({last})"
        );
        if let Some(drawn) = drawn.get(&stamp.frame) {
            assert_eq!(drawn, stamp);
        }
    }
    host.program.assert_running();
    client.assert_running();
    let text = client.text();
    match text.lines().count() {
        4 => Ok(()),
        _ => Err(format!("there are warnings:\n{text}")),
    }
}

#[test]
fn each_encoder_shows_the_rendered_frames() {
    let Some(there) = Display::start(SIZE) else {
        return;
    };
    for way in [
        &["--encoder", "jpeg"][..],
        &["--encoder", "jpeg", "--chroma", "444"],
        &["--encoder", "openh264"],
        &["--encoder", "libx264"],
        &["--encoder", "libx265"],
        &["--encoder-option", "preset=veryfast"],
        &["--chroma", "rgb"],
        &["--chroma", "444"],
        &["--rate-control", "cbr"],
    ] {
        let pattern = ["--source", "pattern", "--size", SIZE];
        let mut host = Host::start(&[&PIN[..], &pattern, way].concat());
        let mut client = host.client("client", &there, &PIN);
        client.line("showing 640x360");
        // Each of these frames has a bar code that was read from the window.
        ScreenCapture::open(&there).more_frames(5);
        host.program.assert_running();
        client.assert_running();
    }
}

#[test]
fn only_painted_pictures_are_shown() {
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return;
    };
    let mut painter = Painter::open(&here, PIXELS, "painter");
    painter.paint();
    let args = [
        "--display",
        &here.name,
        "--bitrate",
        "20M",
        "--cursor=false",
    ];
    let host = Host::start(&[&PIN[..], &args].concat());
    let client = host.client("client", &there, &PIN);
    client.line("showing 640x360");
    let watch = StampRecorder::start(&there);
    let capture = ScreenCapture::open(&there);
    capture.stamp_when("the picture that was there before the client", |s| {
        s.frame == 1
    });
    let mut last = painter.paint();
    for _ in 0..40 {
        std::thread::sleep(PAUSE);
        last = painter.paint();
    }
    // On a busy machine, this test may miss pictures.
    eventually("ten pictures", || {
        if watch.seen().len() >= 10 {
            return Some(());
        }
        std::thread::sleep(PAUSE);
        last = painter.paint();
        None
    });
    let end = *painter.painted.last().unwrap();
    capture.stamp_when("the last picture", |stamp| *stamp == end);
    let shown = watch.end();
    assert_increasing(&shown);
    for stamp in &shown {
        assert!(
            painter.painted.contains(stamp),
            "{stamp:?} was never painted"
        );
    }
    // The picture is still now: static refinement improves it.
    let mut best = 0.0_f64;
    eventually("a good picture", || {
        best = best.max(psnr(&capture.shot(), &last));
        (best >= 36.0).then_some(())
    });
}

#[test]
fn pictures_of_a_moving_scene_are_alike_at_both_ends() {
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return;
    };
    let _scene = scene(&here, SIZE, "5");
    let source = ScreenCapture::open(&here);
    source.more_frames(1);
    let host = Host::start(&[&PIN[..], &["--display", &here.name, "--cursor=false"]].concat());
    let client = host.client("client", &there, &PIN);
    client.line("showing 640x360");
    let window = ScreenCapture::open(&there);
    let mut drawn: BTreeMap<u32, Shot> = BTreeMap::new();
    let mut compared: BTreeMap<u32, f64> = BTreeMap::new();
    eventually("five pictures at both ends", || {
        let shot = source.shot();
        if let Some(stamp) = shot.stamp() {
            drawn.insert(stamp.frame, shot);
        }
        let shown = window.shot();
        if let Some(stamp) = shown.stamp()
            && let Some(drawn) = drawn.get(&stamp.frame)
        {
            let alike = psnr(drawn, &shown);
            // A still picture may be refined later, so the best result counts.
            let best = compared.entry(stamp.frame).or_insert(alike);
            *best = best.max(alike);
        }
        (compared.len() >= 6).then_some(())
    });
    // The newest frame does not count: the source may have been captured while it was painting.
    for (frame, alike) in compared.iter().take(5) {
        assert!(*alike >= 28.0, "frame {frame}: {alike:.1} dB");
    }
}

#[test]
fn raw_pixels_arrive_exactly_in_a_window() {
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return;
    };
    let mut painter = Painter::open(&here, PIXELS, "painter");
    painter.paint();
    let args = [
        "--display",
        &here.name,
        "--encoder",
        "raw",
        "--cursor=false",
    ];
    let host = Host::start(&[&PIN[..], &args].concat());
    let client = host.client("client", &there, &PIN);
    client.line("showing 640x360");
    let capture = ScreenCapture::open(&there);
    for _ in 0..5 {
        let painted = painter.paint().colours();
        let stamp = *painter.painted.last().unwrap();
        capture.stamp_when("the picture just painted", |shown| *shown == stamp);
        // If a stalled client loses datagrams, the host repairs the picture.
        eventually("the same pixels", || {
            (capture.shot().colours() == painted).then_some(())
        });
    }
}

/// Paints a whole display: a flat area, and grey noise below it.
fn paint_noise(capture: &ScreenCapture) {
    let mut seed = 5u32;
    let pixels: Vec<u8> = (0..PIXELS.height)
        .flat_map(|y| (0..PIXELS.width).map(move |_| y))
        .flat_map(|y| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = (seed >> 26).to_le_bytes()[0];
            [if y < PIXELS.height / 2 {
                93
            } else {
                60 + noise
            }; 4]
        })
        .collect();
    let gc = capture.conn.generate_id().expect("an id");
    let (width, height) = (640, 360);
    let format = xproto::ImageFormat::Z_PIXMAP;
    capture
        .conn
        .create_gc(gc, capture.root, &xproto::CreateGCAux::new())
        .expect("sent");
    (capture.conn)
        .put_image(
            format,
            capture.root,
            gc,
            width,
            height,
            0,
            0,
            0,
            24,
            &pixels,
        )
        .expect("sent");
    capture.conn.sync().expect("a running X server");
}

#[test]
fn a_still_picture_becomes_exact_at_no_further_cost() {
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return;
    };
    let source = ScreenCapture::open(&here);
    paint_noise(&source);
    let folder = Folder::new();
    let csv = folder.join("host.csv");
    let args = ["--display", &here.name, "--cursor=false", "--csv", &csv];
    let host = Host::start(&[&PIN[..], &args].concat());
    let client = host.client("client", &there, &PIN);
    client.line("showing 640x360");
    let (drawn, capture) = (source.shot(), ScreenCapture::open(&there));
    eventually("an exact picture", || {
        (psnr(&drawn, &capture.shot()) >= 49.0).then_some(())
    });
    let frames = || std::fs::read_to_string(&csv).map_or(0, |csv| csv.lines().count());
    let (mut before, mut calm) = (frames(), 0);
    eventually("no frame for a second", || {
        calm = if frames() == before { calm + 1 } else { 0 };
        before = frames();
        (calm >= 200).then_some(())
    });
    // Flat areas are exact to two levels.
    let shown = capture.region(Size::new(PIXELS.width, PIXELS.height / 2 - 8));
    let worst = |pixels: &[u8]| (0..3).map(|n| pixels[n].abs_diff(93)).max();
    let worst = shown.pixels.chunks_exact(4).filter_map(worst).max();
    assert!(worst <= Some(2), "{worst:?}");
}

/// The complete picture files, in the order of their names.
fn pictures(folder: &Path) -> Vec<Shot> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let named = |path: &&std::path::PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("frame-"))
    };
    paths
        .iter()
        .filter(named)
        .filter_map(|path| Shot::from_png(path))
        .collect()
}

fn count_files(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, |entries| entries.count())
}

/// Number of files with the same name in all folders. The name of a picture contains the number of its frame.
fn count_common_files(folders: &[&std::path::PathBuf]) -> usize {
    let names = |folder: &Path| -> BTreeSet<std::ffi::OsString> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect()
    };
    let common = folders.iter().map(|folder| names(folder));
    let common = common.reduce(|one, other| one.intersection(&other).cloned().collect());
    common.map_or(0, |names| names.len())
}

/// Starts a client that writes every picture into a folder next to its keys. Also returns this folder.
fn writer(host: &Host, name: &str, args: &[&str]) -> (Program, std::path::PathBuf) {
    let output = host.folder.join(&format!("{name}-pictures"));
    let own = ["--present", "headless", "--output", &output, "--every", "1"];
    let own = [&own, args].concat();
    let client = crate::support::client(&host.folder, name, &host.address(), &own);
    (client, output.into())
}

/// The names of the picture files of a client's complete frames, in order. The first columns of the client's CSV are
/// subscriber, frame and outcome.
fn complete_pictures(csv: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(csv).unwrap_or_default();
    // The last line may be incomplete.
    let rows = text.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let complete = rows.filter(|row| row.get(2) == Some(&"complete"));
    let frames = complete.filter_map(|row| row[1].parse::<u64>().ok());
    frames
        .map(|frame| format!("frame-{frame:06}.png"))
        .collect()
}

#[test]
fn raw_pictures_of_a_headless_client_are_exact() {
    let size = Size::new(320, 200);
    let args = [
        "--source",
        "pattern",
        "--size",
        "320x200",
        "--encoder",
        "raw",
        "--fps",
        "10",
    ];
    let host = Host::start(&[&PIN[..], &args].concat());
    let csv = host.folder.join("client.csv");
    let args = [&PIN[..], &["--csv", &csv]].concat();
    let (mut client, output) = writer(&host, "client", &args);
    // The host sends each of these large frames at once, so a slow client loses datagrams, and shows rows of an older
    // frame instead. Complete frames must be exact.
    eventually("ten complete pictures", || {
        (complete_pictures(&csv).len() >= 10).then_some(())
    });
    client.stop();
    let last = Shot::from_png(&output.join("last.png")).expect("the last picture is written");
    let newest = pictures(&output).pop().expect("pictures");
    assert!(last == newest, "the last picture is another one");

    // The same pattern is generated here: it is equal except for the time in the bar code.
    let mut pattern = Pattern::open(size, 1000.0).expect("the pattern");
    let (mut frame, mut truth) = (0, Vec::new());
    let below = (barcode::height(320) * 320) as usize;
    for name in complete_pictures(&csv) {
        let shot = Shot::from_png(&output.join(&name)).expect("a complete file");
        let stamp = shot.stamp().expect("a bar code");
        assert!(stamp.frame >= frame, "{} after {frame}", stamp.frame);
        while frame < stamp.frame {
            if pattern.next(None).expect("the pattern") == CaptureEvent::Frame {
                frame += 1;
            }
        }
        let picture = pattern.picture().expect("a picture");
        truth.clear();
        truth.extend(
            picture.planes[0]
                .data
                .chunks_exact(4)
                .map(|p| [p[0], p[1], p[2]]),
        );
        assert!(
            shot.colours()[below..] == truth[below..],
            "frame {frame} differs"
        );
    }
}

/// The column `rendition` of each row of a host's CSV, keyed by the row's first column.
fn renditions(csv: &str) -> BTreeMap<String, String> {
    let mut rows = csv.lines().map(|row| row.split(','));
    let mut names = rows.next().expect("the columns' names");
    let index = names
        .position(|name| name == "rendition")
        .expect("a column");
    let rows = rows.filter_map(|mut row| {
        let session = row.clone().next()?;
        Some((session.to_owned(), row.nth(index)?.to_owned()))
    });
    rows.collect()
}

#[test]
fn each_client_can_have_its_own_encoder() {
    measured_without_stalls(3, STALLED, stream_with_own_encoders);
}

/// Streams to two clients with an encoder each. Returns an error if a client misses a frame.
fn stream_with_own_encoders() -> Result<(), String> {
    let folder = Folder::new();
    let csv = folder.join("frames.csv");
    let args = ["--source", "pattern", "--size", "320x200", "--fps", "15"];
    let own = ["--encoder-per-client", "--csv", &csv, "--table", "on"];
    let mut host = Host::paired_with(&["player", "observer"], &[&args[..], &own].concat());
    let (mut player, a) = writer(&host, "player", &[]);
    host.program.line("rendition 1: x264 is open for 320x200");
    let (mut observer, b) = writer(&host, "observer", &["--observe"]);
    host.program.line("rendition 2: x264 is open for 320x200");
    eventually("20 pictures at each", || {
        let there = [&a, &b].into_iter().all(|folder| count_files(folder) >= 20);
        there.then_some(())
    });
    host.program.line("(observer) (rendition 2)");
    observer.stop();
    host.program.line("rendition 2: its encoder is closed");
    player.stop();
    host.program.line("rendition 1: its encoder is closed");
    host.program.stop();
    let csv = std::fs::read_to_string(&csv).expect("the CSV file");
    let given = renditions(&csv);
    let given: Vec<&str> = given.values().map(String::as_str).collect();
    assert!(
        given.len() == 2 && given.contains(&"1") && given.contains(&"2"),
        "{given:?}"
    );
    for text in [player.text(), observer.text()] {
        if !text.contains("0 concealed + 0 tainted") {
            return Err(text);
        }
    }
    Ok(())
}

#[test]
fn a_client_gets_the_first_encoder_it_supports() {
    let args = ["--source", "pattern", "--size", "320x200", "--fps", "15"];
    let both = ["--encoder", "x264,jpeg"];
    let host = Host::paired_with(&["jpeg", "h264"], &[&args[..], &both].concat());
    let (mut jpeg, a) = writer(&host, "jpeg", &["--codec", "jpeg"]);
    host.program.line("rendition 2: jpeg is open for 320x200");
    let (mut h264, b) = writer(&host, "h264", &["--observe"]);
    host.program.line("rendition 1: x264 is open for 320x200");
    eventually("20 frames at both", || {
        (count_common_files(&[&a, &b]) >= 20).then_some(())
    });
    jpeg.stop();
    h264.stop();
    let seen = |folder| -> Vec<u32> {
        let stamps = pictures(folder);
        let stamps = stamps
            .iter()
            .map(|shot| shot.stamp().expect("a bar code").frame);
        stamps.collect()
    };
    let (a, b) = (seen(&a), seen(&b));
    assert!(
        a.iter().filter(|frame| b.contains(frame)).count() > 5,
        "{a:?} {b:?}"
    );
}

#[test]
fn a_player_and_two_observers_see_the_same() {
    let args = ["--source", "pattern", "--size", "320x200", "--fps", "15"];
    let host = Host::paired_with(&["player", "observer", "second"], &args);
    let (mut player, a) = writer(&host, "player", &[]);
    player.line("player at");
    let (mut observer, b) = writer(&host, "observer", &["--observe"]);
    observer.line("observer at");
    // A further client becomes an observer by default.
    let (mut second, c) = writer(&host, "second", &[]);
    second.line("observer at");
    let folders = [&a, &b, &c];
    eventually("20 frames at all three", || {
        (count_common_files(&folders) >= 20).then_some(())
    });
    for client in [&mut player, &mut observer, &mut second] {
        client.stop();
    }
    let mut times: BTreeMap<u32, (u64, usize)> = BTreeMap::new();
    for folder in folders {
        let stamps: Vec<Stamp> = pictures(folder)
            .iter()
            .map(|shot| shot.stamp().expect("a bar code"))
            .collect();
        assert!(stamps.len() >= 19);
        // Static refinement may resend a still picture.
        assert!(stamps.is_sorted_by_key(|stamp| stamp.frame), "{stamps:?}");
        let distinct: BTreeMap<u32, u64> = stamps.iter().map(|s| (s.frame, s.drawn_us)).collect();
        for (frame, drawn_us) in distinct {
            let (first, count) = times.entry(frame).or_insert((drawn_us, 0));
            assert_eq!(*first, drawn_us, "one frame, one picture");
            *count += 1;
        }
    }
    let by_all = times.values().filter(|(_, count)| *count == 3).count();
    assert!(by_all >= 10, "{by_all} frames arrived at all three");
    for name in ["player", "observer", "second"] {
        host.program.line(&format!("{name} left: it disconnected"));
    }
}
