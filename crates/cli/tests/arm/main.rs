//! Two clients of one stream, the program for 64-bit ARM and the program for this machine, must show the same pictures.
//!
//! This is a separate tier, because the program is cross-compiled and runs under qemu's user emulation: `./dev
//! test-arm`. The path of the program is in the variable `OPENUVR_AARCH64_PROGRAM`; `cross/aarch64 run` starts it.
//! Nothing here measures time.

#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use support::{
    Display, Host, Program, ScreenCapture, Shot, client, eventually, openuvr, psnr, scene, skip,
};

/// The size of display, scene and stream. It is small, because an emulated processor decodes the stream.
const SIZE: &str = "640x360";

/// Frames of the scene per second.
const RATE: &str = "5";

/// The number of pictures that both clients must have shown.
const PICTURES: usize = 40;

/// The environment variable with the path of the program for ARM.
const PROGRAM: &str = "OPENUVR_AARCH64_PROGRAM";

/// Whether the program for ARM is available. If not, a message states the missing part.
fn has_program() -> bool {
    let found = std::env::var_os(PROGRAM).is_some_and(|path| Path::new(&path).is_file());
    if !found {
        skip::skip("the program for ARM is not built: ./dev test-arm");
    }
    found
}

/// The same command with the program for ARM.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the type of Host::restart_as"
)]
fn on_arm(command: Command) -> Command {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cross/aarch64");
    let mut emulated = Command::new(run);
    let program = std::env::var_os(PROGRAM).expect("has_program was asked");
    emulated.arg("run").arg(program).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => emulated.env(name, value),
            None => emulated.env_remove(name),
        };
    }
    emulated
}

/// A client that writes every picture into a folder named after the client, and the outcome of every frame into a CSV.
struct Writer {
    program: Program,
    pictures: PathBuf,
    csv: PathBuf,
}

impl Writer {
    fn start(host: &Host, name: &str, program: fn(Command) -> Command) -> Writer {
        let output = host.folder.join(&format!("{name}-pictures"));
        let dir = host.folder.join(name);
        let csv = host.folder.join(&format!("{name}.csv"));
        let command = openuvr(&[
            "client",
            &host.address(),
            "--config-dir",
            &dir,
            "--name",
            name,
            "--realtime",
            "off",
            "--present",
            "headless",
            "--every",
            "1",
            "--output",
            &output,
            "--csv",
            &csv,
        ]);
        let program = Program::start(name, program(command));
        Writer {
            program,
            pictures: output.into(),
            csv: csv.into(),
        }
    }

    /// The names of the frames that have been written so far.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.pictures).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name.starts_with("frame-"))
            .collect()
    }

    /// Ends the client, so that all files are complete, and reads the pictures of complete frames. On a busy machine,
    /// an emulated client may be too slow for a frame. The client then conceals the lost slices, so that this picture
    /// and the pictures that refer to it differ from the sent ones.
    fn stop(mut self) -> BTreeMap<String, Shot> {
        self.program.signal(Signal::INT);
        let (status, _) = self.program.wait();
        assert!(status.success(), "{status}");
        let complete = self.complete_frames();
        let names = self.names().into_iter();
        names
            .filter(|name| complete.contains(name))
            .map(|name| {
                let shot = Shot::from_png(&self.pictures.join(&name)).expect("a whole picture");
                (name, shot)
            })
            .collect()
    }

    /// The names of the pictures whose frames were displayed completely.
    fn complete_frames(&self) -> HashSet<String> {
        let text = std::fs::read_to_string(&self.csv).expect("the client's CSV");
        let rows = text.lines().map(|row| row.split(',').collect::<Vec<_>>());
        // The first columns: subscriber, frame, outcome.
        rows.filter(|row| row[2] == "complete")
            .map(|row| {
                let frame: u64 = row[1].parse().expect("a frame's number");
                format!("frame-{frame:06}.png")
            })
            .collect()
    }
}

/// Half the side, in pixels, of the square around the display's centre that contains the pointer. Each client draws the
/// pointer itself, and the pointer's shape arrives separately from the pictures.
const POINTER: usize = 32;

/// Compares two pictures of the same size outside the square of [`POINTER`]. Describes the number of different pixels,
/// the largest difference of a colour value, and the rectangle of the different pixels. `None` if the pictures are
/// equal.
fn difference(one: &Shot, other: &Shot) -> Option<String> {
    let (width, height) = (one.size.width as usize, one.size.height as usize);
    let pairs = one.pixels.iter().zip(&other.pixels);
    let bytes = pairs.enumerate().filter(|(_, (a, b))| a != b);
    let places: Vec<(usize, usize, u8)> = bytes
        .map(|(at, (a, b))| (at / 4 % width, at / 4 / width, a.abs_diff(*b)))
        .filter(|(x, y, _)| x.abs_diff(width / 2) > POINTER || y.abs_diff(height / 2) > POINTER)
        .collect();
    let largest = places.iter().map(|place| place.2).max()?;
    let (left, right) = (
        places.iter().map(|p| p.0).min()?,
        places.iter().map(|p| p.0).max()?,
    );
    let (top, bottom) = (places.first()?.1, places.last()?.1);
    let pixels: HashSet<(usize, usize)> = places.iter().map(|p| (p.0, p.1)).collect();
    let count = pixels.len();
    Some(format!(
        "{count} pixels by up to {largest}, columns {left} to {right}, rows {top} to {bottom}"
    ))
}

/// Sends one stream to a client for this machine and to one for ARM, and checks that their pictures are the same.
fn pictures_are_equal(encoder: &str) {
    if !has_program() {
        return;
    }
    let Some(display) = Display::start(SIZE) else {
        return;
    };
    let _scene = scene(&display, SIZE, RATE);
    let args = ["--display", &display.name, "--encoder", encoder];
    let host = Host::paired_with(&["native", "arm"], &args);
    let native = Writer::start(&host, "native", std::convert::identity);
    native.program.line("connected to the host");
    let arm = Writer::start(&host, "arm", on_arm);
    eventually("pictures of the client for ARM", || {
        // Some frames may be incomplete.
        (arm.names().len() > PICTURES + PICTURES / 2).then_some(())
    });
    let (arm, native) = (arm.stop(), native.stop());
    let mut common = 0;
    for (name, shot) in &arm {
        if let Some(other) = native.get(name) {
            assert_eq!(shot.size, other.size, "{encoder}: {name}");
            let different = difference(shot, other);
            assert_eq!(
                different, None,
                "{encoder}: {name}, after {common} equal ones"
            );
            common += 1;
        }
    }
    assert!(common >= PICTURES, "{encoder}: {common} of {}", arm.len());
}

#[test]
#[ignore = "tier arm: needs the program for ARM"]
fn pictures_of_h264_are_equal() {
    pictures_are_equal("x264");
}

#[test]
#[ignore = "tier arm: needs the program for ARM"]
fn pictures_of_jpeg_are_equal() {
    pictures_are_equal("jpeg");
}

#[test]
#[ignore = "tier arm: needs the program for ARM"]
fn a_host_for_arm_streams_its_screen() {
    if !has_program() {
        return;
    }
    let Some(display) = Display::start(SIZE) else {
        return;
    };
    let _scene = scene(&display, SIZE, "1");
    let host = Host::paired_with(&["native"], &["--display", &display.name]).restart_as(on_arm);
    let output = host.folder.join("pictures");
    let args = ["--present", "headless", "--every", "1", "--output", &output];
    let _client = client(&host.folder, "native", &host.address(), &args);
    let screen = ScreenCapture::open(&display);
    eventually("the screen's picture at the client", || {
        let shown = screen.shot();
        newest(&output)
            .filter(|received| received.size == shown.size && psnr(received, &shown) > 35.0)
            .map(|_| ())
    });
}

/// The newest picture in a folder.
fn newest(output: &str) -> Option<Shot> {
    let entries = std::fs::read_dir(output).ok()?.flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    Shot::from_png(paths.last()?)
}
