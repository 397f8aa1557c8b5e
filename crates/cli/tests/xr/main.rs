//! OpenXR applications under `openuvr xr`, as a user starts them: the test room, and the distribution's hello_xr on
//! lavapipe without a display server. Clients check the pictures.
//!
//! hello_xr renders cubes whose sides have different colours. One cube is two metres ahead of the head; others are on
//! the floor around it.

mod room;
#[path = "../support/mod.rs"]
mod support;

mod browsers;
mod desktop;
mod killed;
mod watcher;

use std::path::{Path, PathBuf};
use std::process::Command;

use openuvr_proto::units::Size;

use support::{Folder, PIN, Program, Shot, client, eventually, openuvr, port_of, skip};
use watcher::Watcher;

/// Size of a picture with both eyes side by side.
const BOTH: Size = Size::new(640, 320);
const EYE: u32 = 320;

/// The driver manifest of lavapipe, so that the test gives the same result on a machine with a GPU.
fn driver() -> Option<PathBuf> {
    let files = std::fs::read_dir("/usr/share/vulkan/icd.d").into_iter();
    let mut files = files.flatten().flatten().map(|file| file.path());
    let found = files.find(|path| path.to_string_lossy().contains("lvp_icd"));
    if found.is_none() {
        skip("lavapipe is not installed: apt-get install mesa-vulkan-drivers");
    }
    found
}

/// An application under `openuvr xr`, usually hello_xr.
struct Hello {
    program: Program,
    folder: Folder,
}

impl Hello {
    /// Prints a message and returns `None` if a dependency is missing.
    fn start(args: &[&str]) -> Option<Hello> {
        // Lossless pictures.
        Hello::with_encoder("raw", args)
    }

    /// Like [`Hello::start`], but with another encoder.
    fn with_encoder(encoder: &str, args: &[&str]) -> Option<Hello> {
        if Command::new("hello_xr").arg("--help").output().is_err() {
            skip("hello_xr is not installed: apt-get install libopenxr-utils");
            return None;
        }
        // Line-buffered output, as in a terminal.
        Hello::with_application(
            encoder,
            args,
            &["stdbuf", "-oL", "hello_xr", "-g", "Vulkan2"],
        )
    }

    /// Like [`Hello::with_encoder`], but with another application.
    fn with_application(encoder: &str, args: &[&str], application: &[&str]) -> Option<Hello> {
        let driver = driver()?;
        let folder = Folder::new();
        let runtime = Path::new(env!("CARGO_BIN_EXE_openuvr"));
        let runtime = runtime.with_file_name("deps/libopenuvr_xr.so");
        let (runtime, dir) = (runtime.to_str().expect("UTF-8"), folder.join("host"));
        let own = ["--runtime", runtime, "--config-dir", &dir, "--sound", "off"];
        let network = ["--bind", "127.0.0.1:0", "--discoverable=false"];
        let how = [
            "--encoder",
            encoder,
            "--realtime",
            "off",
            "--eye",
            "320x320",
        ];
        let args = [&["xr"], &own[..], &network, &how, &PIN, args].concat();
        let mut command = openuvr(&[&args[..], &["--"], application].concat());
        command
            .env("VK_ICD_FILENAMES", driver)
            .env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
            .env("HOME", folder.path())
            .env("XDG_RUNTIME_DIR", folder.path());
        // hello_xr ends on input, or at the end of its input.
        let program = Program::with_stdin("xr", command);
        Some(Hello { program, folder })
    }

    fn port(&self) -> u16 {
        port_of(&self.program.line("openuvr xr: streaming"))
    }

    /// Starts a client that writes every picture to a file.
    fn watch(&self) -> Program {
        let output = self.folder.join("pictures");
        let _ = std::fs::remove_dir_all(&output);
        let own = ["--present", "headless", "--every", "1", "--output", &output];
        let address = format!("127.0.0.1:{}", self.port());
        let args = [&PIN[..], &own].concat();
        client(&self.folder, "client", &address, &args)
    }

    /// Waits until a client has written a complete picture that satisfies `condition`.
    fn wait_for(&self, what: &str, condition: impl Fn(&Shot) -> bool) -> Shot {
        let folder = self.folder.path().join("pictures");
        eventually(what, || {
            let files = std::fs::read_dir(&folder).ok()?;
            let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
            files.sort();
            let gone = files.len().saturating_sub(2);
            files
                .drain(..gone)
                .for_each(|file| drop(std::fs::remove_file(file)));
            let newest = files.iter().rev().find_map(|file| Shot::from_png(file))?;
            condition(&newest).then_some(newest)
        })
    }
}

/// Colours of the cubes' sides in hello_xr: pure blue, green or red. Each constant is the index of the colour's byte in
/// a BGRX pixel.
const BLUE: usize = 0;
const GREEN: usize = 1;
const RED: usize = 2;

/// Centroid of the pixels of one colour in a region of a picture, if there are any.
fn centroid(shot: &Shot, colour: usize, from: [u32; 2], to: [u32; 2]) -> Option<[f64; 2]> {
    let mut sum = [0.0; 2];
    let mut count = 0.0;
    for y in from[1]..to[1] {
        for x in from[0]..to[0] {
            let at = (y * shot.size.width + x) as usize * 4;
            let pixel = &shot.pixels[at..at + 3];
            let pure = (0..3).all(|part| match part == colour {
                true => pixel[part] > 200,
                false => pixel[part] < 40,
            });
            if pure {
                sum = [sum[0] + f64::from(x), sum[1] + f64::from(y)];
                count += 1.0;
            }
        }
    }
    (count > 0.0).then(|| sum.map(|sum| sum / count))
}

/// Centroid of the cube ahead in each eye's picture.
fn cube_centroids(shot: &Shot) -> Option<[[f64; 2]; 2]> {
    let (above, below) = (EYE / 2 - 40, EYE / 2 + 40);
    let left = centroid(shot, BLUE, [100, above], [EYE - 100, below])?;
    let right = centroid(shot, BLUE, [EYE + 100, above], [2 * EYE - 100, below])?;
    Some([left, [right[0] - f64::from(EYE), right[1]]])
}

#[test]
fn a_failed_call_is_reported() {
    if Command::new("hello_xr").arg("--help").output().is_err() {
        return skip("hello_xr is not installed: apt-get install libopenxr-utils");
    }
    let handheld = ["hello_xr", "-g", "Vulkan2", "-ff", "Handheld"];
    let Some(mut hello) = Hello::with_application("raw", &[], &handheld) else {
        return;
    };
    let (status, text) = hello.program.wait();
    assert!(!status.success(), "{text}");
    let message = "xrGetSystem failed: only head-mounted displays are supported \
        (XR_ERROR_FORM_FACTOR_UNSUPPORTED)";
    assert_eq!(text.matches(message).count(), 1, "{text}");
    assert!(!text.contains("uses a different OpenXR runtime"), "{text}");
}

#[test]
fn a_crash_is_reported() {
    let Some(mut hello) = Hello::with_application("raw", &[], &["sh", "-c", "kill -SEGV $$"])
    else {
        return;
    };
    let (status, text) = hello.program.wait();
    assert_eq!(status.code(), Some(139), "{text}");
    let message = "the application has ended without a picture: it crashed (signal: 11 (SIGSEGV)";
    assert!(text.contains(message), "{text}");
    assert!(!text.contains("uses a different OpenXR runtime"), "{text}");
}

#[test]
fn an_application_without_a_picture_gets_a_hint() {
    let Some(mut hello) = Hello::with_application("raw", &[], &["true"]) else {
        return;
    };
    let (status, text) = hello.program.wait();
    assert!(status.success(), "{text}");
    let message = "the application has ended without a picture: it exited normally. Possible causes: the application \
                   uses a different OpenXR runtime, draws with neither Vulkan nor OpenGL, or does not use OpenXR";
    assert_eq!(text.matches(message).count(), 1, "{text}");
    let help = openuvr(&["xr", "--help"]).output().expect("it runs");
    let help = String::from_utf8_lossy(&help.stdout);
    assert!(help.contains("that draw with Vulkan or OpenGL"), "{help}");
}

#[test]
fn an_exit_at_the_end_of_stdin_is_reported() {
    let Some(mut hello) =
        Hello::with_application("raw", &[], &["sh", "-c", "hello_xr -g Vulkan2 </dev/null"])
    else {
        return;
    };
    let (status, text) = hello.program.wait();
    assert!(status.success(), "{text}");
    let message = "the application exited normally. Programs such as hello_xr exit at the end of their standard input";
    assert_eq!(text.matches(message).count(), 1, "{text}");
}

#[test]
fn both_eyes_of_hello_xr_have_parallax() {
    let Some(mut hello) = Hello::start(&[]) else {
        return;
    };
    hello.program.line("->XR_SESSION_STATE_SYNCHRONIZED");
    let watcher = hello.watch();
    hello.program.line("->XR_SESSION_STATE_FOCUSED");
    let is_drawn = |shot: &Shot| shot.size == BOTH && cube_centroids(shot).is_some();
    let shot = hello.wait_for("both eyes", is_drawn);
    let [left, right] = cube_centroids(&shot).expect("as above");
    // The eyes are 63 mm apart, the cube is two metres away, and each eye's view is 90° wide: 2.5 pixels to each side.
    let middle = f64::from(EYE) / 2.0 - 0.5;
    let (to_right, to_left) = (left[0] - middle, middle - right[0]);
    assert!((1.5..4.0).contains(&to_right), "{left:?} in the left eye");
    assert!((1.5..4.0).contains(&to_left), "{right:?} in the right eye");
    assert!((left[1] - right[1]).abs() < 0.5, "at the same height");
    // The cubes on the floor have green upper sides, which are above the red sides.
    let floor = |colour| centroid(&shot, colour, [0, EYE / 2], [2 * EYE, EYE]);
    let (green, red) = (floor(GREEN).expect("green"), floor(RED).expect("red"));
    assert!(green[1] < red[1], "upright: {green:?} {red:?}");

    // When the client leaves, the application loses the focus. It gets the focus back with the next client, and
    // continues in the meantime.
    drop(watcher);
    hello.program.nth_line(2, "->XR_SESSION_STATE_SYNCHRONIZED");
    let _watcher = hello.watch();
    hello.program.nth_line(2, "->XR_SESSION_STATE_FOCUSED");
    hello.wait_for("both eyes again", is_drawn);
    hello.program.close_stdin();
    let (status, text) = hello.program.wait();
    assert!(status.success(), "{text}");
}

#[test]
fn frames_carry_the_pose_of_a_turning_head() {
    let Some(mut hello) = Hello::start(&[]) else {
        return;
    };
    let mut watcher = Watcher::start(hello.port(), hello.folder.path());
    let green_ahead = |shot: &Shot| {
        let (left, right) = ([130, 190], [190, 260]);
        centroid(shot, GREEN, left, right).is_some()
    };
    let straight = watcher.wait_for("straight ahead", 0.0, |shot| {
        shot.size == BOTH && !green_ahead(shot)
    });
    assert_eq!(straight, BOTH);
    // Content at the right edge of the left eye's picture, 45° to the right, is now ahead.
    let turned = -std::f32::consts::FRAC_PI_4;
    watcher.wait_for("to the right", turned, green_ahead);
    assert!(watcher.frames_with_pose() > 0, "frames carry poses");
    hello.program.close_stdin();
    let (status, text) = hello.program.wait();
    assert!(status.success(), "{text}");
}

#[test]
fn a_runtime_is_installed_for_one_user_and_removed() {
    let folder = Folder::new();
    let runtime = Path::new(env!("CARGO_BIN_EXE_openuvr"));
    let runtime = runtime.with_file_name("deps/libopenuvr_xr.so");
    let runtime = runtime.to_str().expect("UTF-8");
    let run = |args: &[&str]| {
        let mut command = openuvr(&[&["xr"], args].concat());
        command.env("XDG_CONFIG_HOME", folder.path());
        let output = command.output().expect("it runs");
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        (output.status.success(), printed)
    };
    let active = folder.path().join("openxr/1/active_runtime.json");
    let install = ["install", "--runtime", runtime, "--eye", "480x480"];
    let (good, printed) = run(&install);
    assert!(good, "{printed}");
    let manifest = std::fs::read_to_string(&active).expect("the manifest");
    assert!(manifest.contains(runtime), "{manifest}");
    let settings = folder.path().join("openuvr/xr-runtime.toml");
    let settings = std::fs::read_to_string(settings).expect("the settings file");
    assert!(settings.contains("eye = [480, 480]"), "{settings}");
    let (good, printed) = run(&["uninstall"]);
    assert!(good && !active.exists(), "{printed}");
    // Another runtime is not replaced.
    std::fs::write(&active, r#"{"runtime": {"name": "Other"}}"#).expect("a writable folder");
    let (good, printed) = run(&install);
    assert!(
        !good && printed.contains("another OpenXR runtime"),
        "{printed}"
    );
    assert!(run(&["uninstall"]).0 && active.exists());
}
