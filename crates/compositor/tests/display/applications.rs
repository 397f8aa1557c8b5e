//! Toolkit applications, browsers and games. Each program shows its window and reacts to input.
//!
//! The expensive tests are ignored by default; `./dev test-apps` runs them.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use openuvr_media::capture::{Capture as _, CaptureEvent};
use openuvr_media::input_sink::InputSink as _;
use openuvr_proto::input::event::{Button, InputEvent};

use crate::rig::Rig;
use crate::skip::skip;

/// How long a program may take to draw, on a busy machine.
const SOON: Duration = Duration::from_secs(90);

/// A program, and its picture.
struct Case {
    program: &'static str,
    package: &'static str,
    args: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// The minimum number of colours in its window. A background, an error message or a frame has fewer.
    colours: usize,
}

/// A running program. On drop, its whole process group is killed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok();
        if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// The path of an installed program. Debian installs games in a separate folder.
fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/games".into()]);
    folders
        .map(|folder: std::path::PathBuf| folder.join(program))
        .find(|file| file.is_file())
}

/// The number of colours in the newest picture.
fn colours(rig: &Rig) -> usize {
    let Some(picture) = rig.capture.picture() else {
        return 0;
    };
    let pixels = picture.planes[0].data.chunks_exact(4);
    let colours: std::collections::BTreeSet<_> = pixels.map(|pixel| &pixel[..3]).collect();
    colours.len()
}

/// Starts a program, waits for its picture, and clicks into it.
fn shows(case: &Case) {
    use std::os::unix::process::CommandExt as _;

    let Some(file) = find(case.program) else {
        return skip(&format!(
            "{} is not installed: apt-get install {}",
            case.program, case.package
        ));
    };
    let mut rig = Rig::new();
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(file);
    let args = case
        .args
        .iter()
        .map(|arg| arg.replace("HOME", &home.path().display().to_string()));
    command
        .args(args)
        .env("HOME", home.path())
        .env("XDG_RUNTIME_DIR", rig.display.socket().parent().unwrap())
        .env("WAYLAND_DISPLAY", rig.display.socket())
        .env_remove("DISPLAY")
        .envs(case.variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    if let Ok(x11) = rig.display.x11() {
        command
            .env("DISPLAY", &x11.display)
            .env("XAUTHORITY", &x11.authority);
    }
    let mut running = Running(command.spawn().unwrap());
    let began = Instant::now();
    while (rig.display.windows())() == 0 || colours(&rig) < case.colours {
        let ended = running.0.try_wait().unwrap();
        assert!(ended.is_none(), "{} has ended: {ended:?}", case.program);
        let seen = colours(&rig);
        assert!(began.elapsed() < SOON, "{} colours", seen);
        let _ = rig.capture.next(Some(Duration::from_millis(200))).unwrap();
    }
    let mut input = rig.display.input();
    let (x, y) = (32_768, 32_768);
    input.apply(&InputEvent::PointerAbsolute { x, y }).unwrap();
    for pressed in [true, false] {
        let button = Button::LEFT;
        input
            .apply(&InputEvent::Button { button, pressed })
            .unwrap();
    }
    // The program and the display must still run after the click.
    for _ in 0..10 {
        let event = rig.capture.next(Some(Duration::from_millis(100))).unwrap();
        assert_ne!(event, CaptureEvent::Woken);
    }
    let ended = running.0.try_wait().unwrap();
    assert!(ended.is_none(), "{} has ended: {ended:?}", case.program);
}

#[test]
fn opengl_es_of_wayland() {
    shows(&Case {
        program: "es2gears_wayland",
        package: "mesa-utils",
        args: &[],
        variables: &[],
        colours: 16,
    });
}

#[test]
fn vulkan_of_wayland() {
    shows(&Case {
        program: "vkcube-wayland",
        package: "vulkan-tools mesa-vulkan-drivers",
        args: &[],
        variables: &[],
        colours: 16,
    });
}

#[test]
fn a_game_of_sdl_2() {
    shows(&Case {
        program: "chromium-bsu",
        package: "chromium-bsu",
        args: &["--window", "--noaudio"],
        variables: &[("SDL_VIDEODRIVER", "wayland")],
        colours: 64,
    });
}

/// Programs of `./dev test-apps`.
const COSTLY: [Case; 14] = [
    Case {
        program: "gtk3-widget-factory",
        package: "gtk-3-examples",
        args: &[],
        variables: &[("GDK_BACKEND", "wayland")],
        colours: 64,
    },
    Case {
        program: "gtk3-widget-factory",
        package: "gtk-3-examples",
        args: &[],
        variables: &[("GDK_BACKEND", "x11")],
        colours: 64,
    },
    Case {
        program: "gtk4-widget-factory",
        package: "gtk-4-examples",
        args: &[],
        variables: &[("GDK_BACKEND", "wayland")],
        colours: 64,
    },
    Case {
        program: "featherpad",
        package: "featherpad qtwayland5",
        args: &["--standalone"],
        variables: &[("QT_QPA_PLATFORM", "wayland")],
        colours: 32,
    },
    Case {
        program: "featherpad",
        package: "featherpad",
        args: &["--standalone"],
        variables: &[("QT_QPA_PLATFORM", "xcb")],
        colours: 32,
    },
    Case {
        program: "cutemaze",
        package: "cutemaze qt6-wayland",
        args: &[],
        variables: &[("QT_QPA_PLATFORM", "wayland")],
        colours: 32,
    },
    Case {
        program: "cutemaze",
        package: "cutemaze",
        args: &[],
        variables: &[("QT_QPA_PLATFORM", "xcb")],
        colours: 32,
    },
    // kitty contains its own copy of GLFW. Debian's copy, which goxel uses, supports only X11.
    Case {
        program: "kitty",
        package: "kitty",
        args: &["--config=NONE", "-o", "linux_display_server=wayland"],
        variables: &[("LIBGL_ALWAYS_SOFTWARE", "1")],
        colours: 16,
    },
    Case {
        program: "goxel",
        package: "goxel",
        args: &[],
        variables: &[],
        colours: 64,
    },
    // `WINEDLLOVERRIDES` avoids the questions at wine's first start.
    Case {
        program: "wine",
        package: "wine",
        args: &["winecfg"],
        variables: &[
            ("WINEDLLOVERRIDES", "mscoree=;mshtml="),
            ("WINEDEBUG", "-all"),
        ],
        colours: 16,
    },
    Case {
        program: "firefox-esr",
        package: "firefox-esr",
        args: &["--no-remote", "--profile", "HOME", "about:license"],
        variables: &[("MOZ_ENABLE_WAYLAND", "1")],
        colours: 64,
    },
    Case {
        program: "chromium",
        package: "chromium",
        args: &[
            "--no-sandbox",
            "--ozone-platform=wayland",
            "--user-data-dir=HOME",
            "about:version",
        ],
        variables: &[],
        colours: 64,
    },
    Case {
        program: "neverball",
        package: "neverball",
        args: &[],
        variables: &[("SDL_VIDEODRIVER", "wayland")],
        colours: 256,
    },
    Case {
        program: "neverball",
        package: "neverball",
        args: &[],
        variables: &[("SDL_VIDEODRIVER", "x11")],
        colours: 256,
    },
];

#[test]
#[ignore = "./dev test-apps: it requires browsers and large programs"]
fn toolkits_and_browsers_show_their_windows() {
    for case in &COSTLY {
        shows(case);
    }
}
