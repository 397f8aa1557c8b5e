//! Vulkan programs on lavapipe, streamed by the Vulkan layer. `openuvr run` and `openuvr client` are used as a user
//! starts them.

mod app;
#[path = "../support/mod.rs"]
mod support;
#[allow(
    unsafe_code,
    reason = "the application, a separate program, calls Vulkan and Xlib"
)]
mod sys;

use std::path::Path;

use openuvr_proto::units::Size;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::ConnectionExt as _;

use app::{Application, SHOWN_ON, pattern};
use support::{
    Display, Folder, PIN, Program, ScreenCapture, Shot, client, eventually, openuvr, port_of, skip,
};

/// The driver manifest of lavapipe, so that the test gives the same result on a machine with a GPU.
fn driver() -> Option<String> {
    let folder = Path::new("/usr/share/vulkan/icd.d");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files = files.map(|file| file.path());
    let found = files.find(|path| path.to_string_lossy().contains("lvp_icd"));
    if found.is_none() {
        skip("lavapipe is not installed: apt-get install mesa-vulkan-drivers");
    }
    Some(found?.to_str()?.to_owned())
}

/// A display for the application, and headless clients.
struct Fixture {
    display: Display,
    folder: Folder,
    driver: String,
}

impl Fixture {
    fn new() -> Option<Fixture> {
        Some(Fixture {
            driver: driver()?,
            display: Display::start("400x300")?,
            folder: Folder::new(),
        })
    }

    fn variables(&self) -> [(&str, &str); 2] {
        [
            ("DISPLAY", &self.display.name),
            ("VK_ICD_FILENAMES", &self.driver),
        ]
    }

    /// Options of `openuvr run`: all pictures, lossless, and without the pointer, because the pointer is in the middle
    /// of this display.
    fn args(&self) -> Vec<String> {
        let own = ["--bind", "127.0.0.1:0", "--encoder", "raw", "--fps", "240"];
        let more = ["--cursor=false", "--realtime", "off"];
        let args = own.into_iter().chain(more).chain(PIN);
        let program = Path::new(env!("CARGO_BIN_EXE_openuvr"));
        let hook = program.with_file_name("deps/libopenuvr_hook.so");
        let hook = hook.to_str().expect("UTF-8").to_owned();
        let folder = self.folder.join("host");
        let paths = ["--hook".to_owned(), hook, "--config-dir".to_owned(), folder];
        args.map(str::to_owned).chain(paths).collect()
    }

    fn application(&self) -> Application {
        self.application_with(&[])
    }

    fn application_with(&self, more: &[(&str, &str)]) -> Application {
        let args = self.args();
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        Application::start(&self.folder, &args, &[&self.variables(), more].concat())
    }

    /// Starts a client of the stream of `run`.
    fn client(&self, run: &Program, args: &[&str]) -> Program {
        let line = run.line("openuvr run: streaming");
        let address = format!("127.0.0.1:{}", port_of(&line));
        client(&self.folder, "client", &address, &[&PIN[..], args].concat())
    }

    /// Starts a client that writes every picture to a file.
    fn watch(&self, run: &Program) -> Program {
        let output = self.folder.join("pictures");
        self.client(
            run,
            &["--present", "headless", "--every", "1", "--output", &output],
        )
    }

    /// The newest complete picture of a client.
    fn newest_picture(&self) -> Option<Shot> {
        let files = std::fs::read_dir(self.folder.join("pictures")).ok()?;
        let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
        files.sort();
        let gone = files.len().saturating_sub(2);
        files
            .drain(..gone)
            .for_each(|file| drop(std::fs::remove_file(file)));
        files.iter().rev().find_map(|file| Shot::from_png(file))
    }

    /// Waits until the client shows exactly this picture.
    fn wait_for(&self, what: &str, expected: &Shot) {
        eventually(what, || {
            let seen = self.newest_picture()?;
            (seen.size == expected.size && seen.colours() == expected.colours()).then_some(())
        });
    }
}

#[test]
fn presented_pictures_are_shown_exactly() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut application = fixture.application();
    let _client = fixture.watch(&application.program);
    let capture = ScreenCapture::open(&fixture.display);
    let (small, large) = (Size::new(160, 120), Size::new(200, 180));
    let steps = [
        ("", small),
        ("", small),
        ("swapchain", small),
        ("resize 200 180", large),
        ("device", large),
        ("fork", large),
        ("resize 160 120", small),
    ];
    for (number, (order, size)) in (1..).zip(steps) {
        if !order.is_empty() {
            assert_eq!(application.command(order), "done", "{order}");
        }
        assert_eq!(application.command(&format!("draw {number}")), "done");
        let expected = pattern(size, number);
        fixture.wait_for(&format!("picture {number}, after {order:?}"), &expected);
        // The client may have the picture before the X server has painted it.
        eventually("the window shows it too", || {
            let window = capture.region_at(sys::PLACE, size);
            (window.colours() == expected.colours()).then_some(())
        });
    }
    application.command("end");
    let (status, text) = application.program.wait();
    assert!(status.success(), "{status}: {text}");
    assert!(text.contains("client left: closed by this host"), "{text}");
}

#[test]
fn a_click_arrives_at_the_windows_position() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let Some(desk) = Display::start("160x120") else {
        return;
    };
    let mut application = fixture.application();
    let client = fixture.client(&application.program, &["--display", &desk.name]);
    client.line("openuvr client: showing");
    clicks_arrive(&desk, &mut application);
    application.command("end");
}

/// Clicks a position of the client's window until the application gets a click, which must have the same position.
fn clicks_arrive(desk: &Display, application: &mut Application) {
    let capture = ScreenCapture::open(desk);
    eventually("the client's window", || capture.client_window());
    // The click is repeated, because the host gets the window's position asynchronously.
    let clicks = eventually("the click", || {
        let mut xdotool = std::process::Command::new("xdotool");
        let click = ["mousemove", "100", "25", "click", "1"];
        let Ok(status) = xdotool.env("DISPLAY", &desk.name).args(click).status() else {
            skip("xdotool is not installed: apt-get install xdotool");
            return Some(String::new());
        };
        assert!(status.success(), "xdotool clicks");
        let answer = application.command("clicks");
        answer.contains('(').then_some(answer)
    });
    assert!(
        clicks.is_empty() || clicks.contains("(100, 25)"),
        "{clicks}"
    );
}

fn pointer(display: &Display) -> (i16, i16) {
    let (conn, screen) = x11rb::connect(Some(&display.name)).expect("it runs");
    let root = conn.setup().roots[screen].root;
    let query = conn.query_pointer(root).expect("sent");
    let reply = query.reply().expect("every server knows");
    (reply.root_x, reply.root_y)
}

#[test]
fn input_goes_to_the_display_that_a_surface_is_on() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let (Some(desk), Some(shown)) = (Display::start("160x120"), Display::start("400x300")) else {
        return;
    };
    let mut application = fixture.application_with(&[(SHOWN_ON, &shown.name)]);
    let client = fixture.client(&application.program, &["--display", &desk.name]);
    client.line("openuvr client: showing");
    let before = pointer(&fixture.display);
    clicks_arrive(&desk, &mut application);
    let wrong = pointer(&fixture.display);
    assert_eq!(wrong, before, "the pointer of DISPLAY does not move");
    application.command("end");
}

/// Starts `openuvr run -- vkcube` with these arguments. Prints a message and returns `None` if vkcube is not installed.
fn vkcube(fixture: &Fixture, args: &[&str]) -> Option<Program> {
    if std::process::Command::new("vkcube")
        .arg("--help")
        .output()
        .is_err()
    {
        skip("vkcube is not installed: apt-get install vulkan-tools");
        return None;
    }
    let own = fixture.args();
    let own: Vec<_> = own.iter().map(String::as_str).collect();
    let mut command = openuvr(&[&["run"], &own[..], &["--", "vkcube"], args].concat());
    command.envs(fixture.variables());
    command.env("XDG_RUNTIME_DIR", fixture.folder.path());
    Some(Program::start("vkcube", command))
}

#[test]
fn vkcube_is_streamed_and_keeps_its_exit_code() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let Some(mut run) = vkcube(&fixture, &["--c", "100"]) else {
        return;
    };
    let (status, text) = run.wait();
    assert_eq!(status.code(), Some(0), "{text}");
    let Some(mut run) = vkcube(&fixture, &[]) else {
        return;
    };
    let _client = fixture.watch(&run);
    let mut before = Vec::new();
    for turn in 1..=3 {
        let seen = eventually(&format!("turn {turn} of the cube"), || {
            fixture
                .newest_picture()
                .filter(|seen| seen.pixels != before)
        });
        assert_eq!(seen.size, Size::new(500, 500));
        before = seen.pixels;
    }
    // Ctrl-C goes to the game, which prints nothing.
    run.signal(rustix::process::Signal::INT);
    let (status, text) = run.wait();
    assert_eq!(status.code(), Some(130), "{text}");
}

#[test]
fn the_layer_passes_validation() {
    let layer = Path::new("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json");
    if !layer.exists() {
        skip(
            "Vulkan's validation layers are not installed: apt-get install vulkan-validationlayers",
        );
        return;
    }
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut application = fixture.application_with(&[
        ("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation"),
        (
            "VK_LAYER_ENABLES",
            "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
        ),
        ("VK_LOADER_DEBUG", "layer"),
    ]);
    let _client = fixture.watch(&application.program);
    let size = Size::new(160, 120);
    for number in 1..=3 {
        assert_eq!(application.command(&format!("draw {number}")), "done");
        fixture.wait_for(&format!("picture {number}"), &pattern(size, number));
        assert_eq!(application.command("swapchain"), "done");
    }
    assert_eq!(application.command("device"), "done");
    application.command("end");
    let (status, text) = application.program.wait();
    assert!(status.success(), "{status}: {text}");
    let inserted = |name: &str| text.find(&format!("Insert instance layer \"{name}\""));
    let behind = inserted("VK_LAYER_KHRONOS_validation").expect("it was there");
    let ours = inserted("VK_LAYER_OPENUVR_capture").expect("it was there");
    assert!(behind < ours, "layers are listed from the driver on");
    assert!(!text.contains("VUID") && !text.contains("SYNC-"), "{text}");
}
