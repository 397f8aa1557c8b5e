//! Plays the scene that each plug-in has as its example: a square follows the mouse, and the space bar changes the
//! background. The host's CSV must state each input in the first frame that shows it.

use std::path::{Path, PathBuf};

use openuvr_proto::units::Size;
use rustix::process::Signal;

use crate::support::{Folder, PIN, Program, Shot, eventually, openuvr};

/// The size of each scene.
pub(crate) const SIZE: Size = Size::new(640, 360);

/// The number of pictures before the first input.
const PICTURES: usize = 30;

/// Background colours, each as blue, green, red.
const GROUNDS: [[u8; 3]; 2] = [[153, 51, 26], [51, 153, 26]];
const SQUARE: [u8; 3] = [26, 51, 255];

/// The state of the scene in a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scene {
    /// No input.
    Start,
    /// The square has followed the mouse.
    Moved,
    /// The background has changed, too.
    Changed,
}

impl Scene {
    /// `None` if the picture shows no state of the scene.
    fn of(shot: &Shot) -> Option<Scene> {
        let colours = shot.colours();
        let (width, height) = (shot.size.width as usize, shot.size.height as usize);
        let is = |x: usize, y: usize, colour: [u8; 3]| {
            let pixel = colours[y * width + x];
            pixel.iter().zip(colour).all(|(a, b)| a.abs_diff(b) < 60)
        };
        let moved = is(width * 3 / 4, height / 4, SQUARE);
        let ground = GROUNDS.iter().position(|ground| is(8, height - 8, *ground));
        match (moved, ground) {
            (false, Some(0)) => Some(Scene::Start),
            (true, Some(0)) => Some(Scene::Moved),
            (true, Some(1)) => Some(Scene::Changed),
            _ => None,
        }
    }
}

/// Starts a client that writes each picture into a file, and executes its standard input as an input script.
fn client(folder: &Folder, address: &str, pictures: &str) -> Program {
    let keys = folder.join("guest");
    let own = ["client", address, "--config-dir", &keys, "--name", "guest"];
    let present = [
        "--present",
        "headless",
        "--every",
        "1",
        "--output",
        pictures,
    ];
    let input = ["--realtime", "off", "--input-script", "-"];
    let args = [&own[..], &PIN, &present, &input].concat();
    Program::with_stdin("guest", openuvr(&args))
}

/// The numbers and files of the received pictures, oldest first.
fn pictures(folder: &str) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let number = name.strip_prefix("frame-")?.strip_suffix(".png")?;
            Some((number.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// The state in the newest complete picture.
fn newest(folder: &str) -> Option<Scene> {
    let files = pictures(folder);
    // The client may still be writing the last file.
    let mut shots = files.iter().rev().take(2);
    Scene::of(&shots.find_map(|(_, file)| Shot::from_png(file))?)
}

/// A row of the host's CSV.
struct Row {
    frame: u64,
    /// Whether the frame is the first one after the application has consumed an input.
    names_input: bool,
    echo: String,
}

/// The complete rows of the CSV.
fn rows(csv: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(csv).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = complete.lines();
    let header: Vec<_> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name);
    let columns = ["frame", "InputConsumed_ns", "input_echo"].map(column);
    let [Some(frame), Some(consumed), Some(echo)] = columns else {
        return Vec::new();
    };
    lines
        .map(|line| {
            let fields: Vec<_> = line.split(',').collect();
            Row {
                frame: fields[frame].parse().expect("a number"),
                names_input: !fields[consumed].is_empty(),
                echo: fields[echo].to_owned(),
            }
        })
        .collect()
}

/// The frames that the CSV names as the first to show an input; oldest first.
fn naming(csv: &Path) -> Vec<u64> {
    let rows = rows(csv);
    let mut frames: Vec<_> = (rows.iter().filter(|row| row.names_input))
        .map(|row| row.frame)
        .collect();
    frames.sort_unstable();
    frames
}

/// Plays the scene at `address`, whose host writes the file `csv`.
pub(crate) fn play(folder: &Folder, address: &str, csv: &Path) {
    let output = folder.join("pictures");
    let mut client = client(folder, address, &output);
    eventually("pictures of the scene", || {
        (pictures(&output).len() >= PICTURES && newest(&output) == Some(Scene::Start)).then_some(())
    });
    for (line, state) in [
        ("move 0.75 0.25\n", Scene::Moved),
        ("key KEY_SPACE down\n", Scene::Changed),
    ] {
        client.type_text(line);
        eventually(line, || (newest(&output) == Some(state)).then_some(()));
    }
    let named = eventually("rows of both inputs", || {
        Some(naming(csv)).filter(|frames| frames.len() >= 2)
    });
    assert_eq!(named.len(), 2, "{named:?}: the client has sent two events");
    eventually("a frame with a measured latency", || {
        let shown = |row: &Row| row.frame >= named[1] && row.echo == "consumed";
        rows(csv).iter().any(shown).then_some(())
    });
    // All files are complete after the client's end.
    client.signal(Signal::INT);
    let (status, text) = client.wait();
    assert!(status.success(), "{status}: {text}");
    let mut shown = 0;
    for (number, file) in pictures(&output) {
        let shot = Shot::from_png(&file).expect("a complete file");
        let scene = Scene::of(&shot);
        // Some engines load their shaders while they draw the first pictures.
        if shown == 0 && scene.is_none() {
            continue;
        }
        shown += 1;
        let expected = match named.iter().filter(|frame| **frame <= number).count() {
            0 => Scene::Start,
            1 => Scene::Moved,
            _ => Scene::Changed,
        };
        assert_eq!(shot.size, SIZE);
        assert_eq!(
            scene,
            Some(expected),
            "frame {number}; {named:?} name the inputs"
        );
    }
    assert!(shown > PICTURES, "only {shown} pictures of the scene");
}
