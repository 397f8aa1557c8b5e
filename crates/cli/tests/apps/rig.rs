//! One program on its own display with a window manager, streamed to a client on another display.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use openuvr_proto::units::Size;
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, MapState, Window, WindowClass};

use crate::pictures;
use crate::support::{
    Display, Folder, PIN, Program, ScreenCapture, TIMEOUT, client, eventually, openuvr, port_of,
    psnr,
};
use crate::table::{App, CaptureMethod, Opens};
use crate::watch::Watch;
use crate::xtest::XTest;

const SCREEN: &str = "1280x800";

/// The size of the client's screen. It is larger than the host's, so that the client's window can have the picture's
/// size.
const LARGER: &str = "1600x1000";

/// The X key code of the letter A on every PC keyboard. No program quits when it is pressed.
const A: u8 = 30 + 8;

const ESCAPE: u8 = 1 + 8;

/// Minimum PSNR in dB of two pictures of the same scene, after motion and encoding. Pictures of different scenes have
/// 10 to 15 dB. Dark pictures of different scenes have a higher PSNR, but do not correlate.
const ALIKE: f64 = 24.0;
const CORRELATED: f64 = 0.7;

/// Minimum number of pixels that differ from the first pixel. With fewer, the picture shows an empty window. Even a
/// window with only a shell prompt has more such pixels.
const PAINTED: usize = 40;

/// Time limit for a program to load. Wine first creates a prefix, and games load textures with software drivers.
const LOADING: Duration = Duration::from_secs(180);

/// Minimum number of pixels of a menu. Smaller windows are not menus: toolkits use windows of one pixel for grabs.
const SMALLEST: usize = 400;

/// A program that is streamed to a client.
pub(crate) struct Trial {
    client: Program,
    /// The host, or the program that contains the host.
    host: Program,
    program: Option<Program>,
    _manager: Program,
    here: Display,
    there: Display,
    folder: Folder,
    port: u16,
    window: Window,
}

/// A fully visible rectangle of the host's screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Area {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

impl Area {
    fn at((x, y): (i16, i16), size: Size) -> Area {
        let side = |pixels: u32| i32::try_from(pixels).expect("a side");
        let (left, top) = (i32::from(x), i32::from(y));
        Area {
            left,
            top,
            right: left + side(size.width),
            bottom: top + side(size.height),
        }
    }

    fn intersection(self, other: Area) -> Area {
        Area {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        }
    }

    /// The size; empty rectangles have a side of 0.
    fn size(self) -> Size {
        let side = |pixels: i32| u32::try_from(pixels).unwrap_or(0);
        Size::new(side(self.right - self.left), side(self.bottom - self.top))
    }

    fn from(self, origin: (i16, i16)) -> (i16, i16) {
        let at = |pixels: i32, origin: i16| i16::try_from(pixels).expect("a coordinate") - origin;
        (at(self.left, origin.0), at(self.top, origin.1))
    }

    fn position(self) -> (i16, i16) {
        self.from((0, 0))
    }
}

impl Trial {
    pub(crate) fn start(app: &App, method: CaptureMethod) -> Trial {
        let here = Display::start(SCREEN).expect("Xvfb is installed");
        let there = Display::start(LARGER).expect("Xvfb is installed");
        let folder = Folder::new();
        let manager = manager(&here);
        if !app.before.is_empty() {
            let mut command = Command::new("sh");
            command.args(["-c", app.before]);
            let mut before = Program::start("before", isolated(command, &here, &folder));
            wait_for("the end of the preparation", || {
                before.has_ended().then_some(())
            });
        }
        let dir = folder.join("host");
        let own = [
            "--config-dir",
            &dir,
            "--bind",
            "127.0.0.1:0",
            "--realtime",
            "off",
        ];
        let (host, program, window) = match method {
            CaptureMethod::Screen => {
                let mut command = Command::new(app.args[0]);
                command.args(&app.args[1..]);
                let program = Program::start(app.args[0], isolated(command, &here, &folder));
                let window = main_window(&here);
                let id = format!("{window:#x}");
                let args = ["host", "--display", &here.name, "--window", &id];
                let host = Program::start("host", openuvr(&[&args, &own[..], &PIN].concat()));
                (host, Some(program), window)
            }
            CaptureMethod::Hook => {
                let folder_of_tests = Path::new(env!("CARGO_BIN_EXE_openuvr")).parent();
                let hook = folder_of_tests.expect("a folder");
                let hook = hook.join("deps/libopenuvr_hook.so");
                let hook = hook.to_str().expect("a path of text");
                let args = ["run", "--hook", hook];
                let args = [&args, &own[..], &PIN, &["--"], app.args].concat();
                let host = Program::start("run", isolated(openuvr(&args), &here, &folder));
                let window = main_window(&here);
                (host, None, window)
            }
        };
        let port = port_of(&host.line("streaming"));
        let client = start_client(&folder, &there, port, &[]);
        Trial {
            client,
            host,
            program,
            _manager: manager,
            here,
            there,
            folder,
            port,
            window,
        }
    }

    /// The size of the program's window as text.
    pub(crate) fn size(&self) -> String {
        let (_, size) = self.geometry();
        size.to_string()
    }

    /// Waits until the client shows a non-empty picture like the host's; returns the PSNR in dB.
    pub(crate) fn picture(&self) -> f64 {
        let (here, there) = (
            ScreenCapture::open(&self.here),
            ScreenCapture::open(&self.there),
        );
        wait_for("the same picture at both ends", || {
            let (_, size) = self.geometry();
            if there.geometry(there.client_window()?)? != size {
                return None;
            }
            self.similarity(&here, &there, self.visible())
        })
    }

    /// PSNR in dB between a part of the host's screen and the same part of the picture on the client's screen; `None`
    /// if the pictures differ or are empty.
    fn similarity(&self, here: &ScreenCapture, there: &ScreenCapture, area: Area) -> Option<f64> {
        let (origin, _) = self.geometry();
        let one = here.region_at(area.position(), area.size());
        let other = there.region_at(area.from(origin), area.size());
        let colours = one.colours();
        let first = *colours.first()?;
        let painted = colours.iter().filter(|colour| **colour != first).count();
        let alike = psnr(&one, &other);
        let same = alike >= ALIKE && pictures::correlation(&one, &other) >= CORRELATED;
        (same && painted >= PAINTED).then_some(alike)
    }

    /// Stores the pictures of host and client for manual inspection.
    pub(crate) fn save(&self, name: &str) {
        pictures::save(
            &ScreenCapture::open(&self.here).shot(),
            &format!("{name}-host"),
        );
        pictures::save(
            &ScreenCapture::open(&self.there).shot(),
            &format!("{name}-client"),
        );
    }

    /// Presses a key at the client, and checks that it arrives in the streamed program.
    pub(crate) fn key(&self) {
        let watch = Watch::open(&self.here);
        XTest::open(&self.there).chord(&[A]);
        let mut codes = Vec::new();
        eventually("the key at the host", || {
            codes.extend(watch.keys());
            codes.contains(&u32::from(A)).then_some(())
        });
        let xtest = XTest::open(&self.here);
        let focus = xtest.conn.get_input_focus().expect("sent").reply();
        let focus = focus.expect("a running X server").focus;
        assert_eq!(
            top(&xtest, focus),
            top(&xtest, self.window),
            "the program has the keyboard"
        );
    }

    /// Clicks the middle of the window at the client, and checks that the click arrives in the streamed program.
    pub(crate) fn click(&self) {
        let watch = Watch::open(&self.here);
        self.move_to(0.5);
        let xtest = XTest::open(&self.there);
        xtest.button(1, true);
        xtest.button(1, false);
        let mut seen = Vec::new();
        eventually("the click at the host", || {
            seen.extend(watch.buttons());
            seen.contains(&1).then_some(())
        });
        let here = XTest::open(&self.here);
        let under = here.conn.query_pointer(here.root).expect("sent");
        let under = under.reply().expect("a running X server").child;
        assert!(
            under == top(&here, self.window) || self.companions().iter().any(|(w, _)| *w == under),
            "the click went to another window"
        );
    }

    /// Moves the client's pointer to a point on the window's diagonal (`part` is 0 to 1), and waits until the host's
    /// pointer follows.
    fn move_to(&self, part: f64) {
        let (xtest, here) = (XTest::open(&self.there), XTest::open(&self.here));
        let near = |a: i16, b: i16| (i32::from(a) - i32::from(b)).abs() <= 2;
        let way = |side: u32| (f64::from(side) * part) as i16;
        let mut position = (0, 0);
        let at = || {
            let ((left, upper), size) = self.geometry();
            let (x, y) = (way(size.width), way(size.height));
            ((x, y), (left + x, upper + y))
        };
        xtest.move_to(at().0.0, at().0.1);
        let there = poll_until(|| {
            position = here.pointer();
            let (_, expected) = at();
            near(position.0, expected.0) && near(position.1, expected.1)
        });
        assert!(there, "the pointer is at {position:?}, not at {:?}", at().1);
    }

    /// Moves the pointer over the window, and compares the pointer's shape at host and client. Returns whether the
    /// pointer is visible.
    pub(crate) fn pointer(&self) -> &'static str {
        let (xtest, here) = (XTest::open(&self.there), XTest::open(&self.here));
        for part in [0.2, 0.7] {
            self.move_to(part);
        }
        let mut shown = "";
        eventually("the same shape of the pointer", || {
            let (one, other) = (shape(&here), shape(&xtest));
            shown = if one.is_empty() { "hidden" } else { "shown" };
            (one == other).then_some(())
        });
        shown
    }

    /// Opens a menu or a dialog, waits until the client shows it, and closes it with Escape. Returns its PSNR in dB.
    pub(crate) fn opens(&self, with: Opens, name: &str) -> f64 {
        let xtest = XTest::open(&self.there);
        let (here, there) = (
            ScreenCapture::open(&self.here),
            ScreenCapture::open(&self.there),
        );
        let (before, screen) = (self.companions(), here.shot());
        match with {
            Opens::Keys(keys) => xtest.chord(keys),
            Opens::Button(number) => {
                self.move_to(0.5);
                xtest.button(number, true);
                xtest.button(number, false);
            }
            Opens::Held(keys, number) => {
                self.move_to(0.3);
                keys.iter().for_each(|key| xtest.key(*key, true));
                xtest.button(number, true);
            }
        }
        let mut opened = 0;
        let alike = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let is_new = |(window, _): &(Window, Area)| before.iter().all(|(old, _)| old != window);
            eventually("a window in front of it", || {
                opened = self.companions().into_iter().find(is_new)?.0;
                Some(())
            });
            eventually("the same in front of it at both ends", || {
                // In the meantime, a window manager may have reparented the new window.
                let (window, area) = self.companions().into_iter().find(is_new)?;
                opened = window;
                let now = here.region_at(area.position(), area.size());
                // The window is mapped before it is painted.
                let painted = pictures::differing(
                    &now,
                    &pictures::region(&screen, area.position(), area.size()),
                );
                let alike = self.similarity(&here, &there, area);
                alike.filter(|_| painted >= PAINTED)
            })
        }));
        self.save(name);
        if let Opens::Held(keys, number) = with {
            // The button is released in the window's corner, not on an item of the menu.
            let (_, size) = self.geometry();
            let corner = |side: u32| i16::try_from(side - 1).expect("a side");
            xtest.move_to(corner(size.width), corner(size.height));
            xtest.button(number, false);
            keys.iter().rev().for_each(|key| xtest.key(*key, false));
        }
        let alike = alike.unwrap_or_else(|why| std::panic::resume_unwind(why));
        for _ in 0..5 {
            xtest.chord(&[ESCAPE]);
            if poll_for(Duration::from_secs(3), || {
                self.companions()
                    .iter()
                    .all(|(window, _)| *window != opened)
            }) {
                // In Windows programs, the menu's title is still active after the menu has closed, so Escape is pressed
                // again.
                xtest.chord(&[ESCAPE]);
                return alike;
            }
        }
        panic!("Escape did not close it");
    }

    /// The visible windows in front of the program's window, each with the area that it covers of the program's window.
    fn companions(&self) -> Vec<(Window, Area)> {
        let xtest = XTest::open(&self.here);
        let capture = ScreenCapture::open(&self.here);
        let (own, visible) = (top(&xtest, self.window), self.visible());
        let tree = xtest.conn.query_tree(xtest.root).expect("sent").reply();
        let children = tree.expect("the root is there").children;
        let own = children.iter().position(|window| *window == own);
        let front = children.into_iter().skip(own.map_or(0, |own| own + 1));
        let shown = front.filter_map(|window| {
            let is = xtest
                .conn
                .get_window_attributes(window)
                .ok()?
                .reply()
                .ok()?;
            let (x, y, ..) = xtest.try_geometry(window)?;
            let area = Area::at((x, y), capture.geometry(window)?).intersection(visible);
            let is_visible =
                is.map_state == MapState::VIEWABLE && is.class == WindowClass::INPUT_OUTPUT;
            (is_visible && area.size().pixels() >= SMALLEST).then_some((window, area))
        });
        shown.collect()
    }

    fn visible(&self) -> Area {
        let (at, size) = self.geometry();
        let capture = ScreenCapture::open(&self.here);
        let screen = capture.geometry(capture.root).expect("the screen");
        Area::at(at, size).intersection(Area::at((0, 0), screen))
    }

    /// Restarts the client with a mouse grab, as a player would.
    pub(crate) fn grab(&mut self) {
        self.client.kill();
        self.client = start_client(&self.folder, &self.there, self.port, &["--grab"]);
    }

    /// Checks that relative motion arrives unchanged.
    pub(crate) fn motion(&self) {
        let (watch, xtest) = (Watch::open(&self.here), XTest::open(&self.there));
        let mut moved = (0, 0);
        let add_motion = |moved: &mut (i64, i64)| {
            let more = watch.motion();
            *moved = (moved.0 + more.0, moved.1 + more.1);
        };
        eventually("the grab of the mouse", || {
            xtest.move_by(0, 1);
            add_motion(&mut moved);
            (moved.1 > 0).then_some(())
        });
        xtest.chord(&[A]);
        let mut keys = Vec::new();
        eventually("the key behind the motion", || {
            keys.extend(watch.keys_and(&mut |more| moved = (moved.0 + more.0, moved.1 + more.1)));
            keys.contains(&u32::from(A)).then_some(())
        });
        let before = moved;
        for _ in 0..20 {
            xtest.move_by(7, -3);
        }
        eventually("the complete motion", || {
            add_motion(&mut moved);
            let way = (moved.0 - before.0, moved.1 - before.1);
            (way == (140, -60)).then_some(())
        });
    }

    /// Position and size of the window at the host.
    fn geometry(&self) -> ((i16, i16), Size) {
        let xtest = XTest::open(&self.here);
        let at = xtest
            .conn
            .translate_coordinates(self.window, xtest.root, 0, 0);
        let at = at.expect("sent").reply().expect("its window");
        let size = ScreenCapture::open(&self.here).geometry(self.window);
        ((at.dst_x, at.dst_y), size.expect("its window"))
    }
}

impl Drop for Trial {
    /// Child processes of the program end with their display.
    fn drop(&mut self) {
        self.client.kill();
        self.host.kill_group();
        if let Some(program) = &mut self.program {
            program.kill_group();
        }
    }
}

/// The search path for programs; games are outside of root's default path.
pub(crate) fn path() -> String {
    std::env::var("PATH").unwrap_or_default() + ":/usr/games"
}

fn isolated(mut command: Command, display: &Display, folder: &Folder) -> Command {
    command
        // The program leads its own process group, so that its child processes end with it.
        .process_group(0)
        .current_dir(folder.path())
        .env("DISPLAY", &display.name)
        .env("HOME", folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        .env("XDG_DATA_HOME", folder.path())
        .env("PATH", path())
        // foobillardplus uses this variable as the player's name, and crashes without it.
        .env("USER", "player")
        .env("LC_ALL", "C.UTF-8")
        .env("SDL_AUDIODRIVER", "dummy")
        .env("ALSOFT_DRIVERS", "null")
        .env("WINEDEBUG", "-all")
        // Otherwise, wine asks two questions for a new prefix.
        .env("WINEDLLOVERRIDES", "mscoree=;mshtml=")
        .env("NO_AT_BRIDGE", "1");
    command
}

/// Starts a window manager, and waits until it runs.
fn manager(display: &Display) -> Program {
    let mut command = Command::new("openbox");
    command
        .arg("--sm-disable")
        .env("DISPLAY", &display.name)
        .env("HOME", "/nonexistent");
    let manager = Program::start("openbox", command);
    let xtest = XTest::open(display);
    eventually("the window manager", || {
        property(&xtest, b"_NET_CLIENT_LIST").map(|_| ())
    });
    manager
}

fn start_client(folder: &Folder, display: &Display, port: u16, args: &[&str]) -> Program {
    let address = format!("127.0.0.1:{port}");
    let args = [&["--display", &display.name], &PIN[..], args].concat();
    let client = client(folder, "client", &address, &args);
    client.line("openuvr client: showing");
    client
}

/// The largest managed window, once several polls return the same size: programs show splash screens first, and resize
/// themselves.
fn main_window(display: &Display) -> Window {
    let (xtest, capture) = (XTest::open(display), ScreenCapture::open(display));
    let mut steady = (None, 0);
    wait_for("its window", || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let windows = property(&xtest, b"_NET_CLIENT_LIST")?;
        let sized = windows.into_iter().filter(|window| xtest.is_shown(*window));
        let sized = sized.filter_map(|window| Some((window, capture.geometry(window)?)));
        let largest = sized.max_by_key(|(_, size)| size.pixels());
        let same = largest.is_some() && largest == steady.0;
        steady = (largest, if same { steady.1 + 1 } else { 0 });
        (steady.1 >= 20).then_some(largest?.0)
    })
}

fn property(xtest: &XTest, name: &[u8]) -> Option<Vec<Window>> {
    let name = xtest.conn.intern_atom(false, name).expect("sent");
    let name = name.reply().expect("a name").atom;
    let any = AtomEnum::ANY;
    let value = xtest.conn.get_property(false, xtest.root, name, any, 0, 64);
    let value = value.expect("sent").reply().expect("the root is there");
    Some(value.value32()?.collect())
}

/// The pointer's shape: its visible pixels, relative to the hot spot.
fn shape(xtest: &XTest) -> Vec<(i32, i32, u32)> {
    let version = xtest.conn.xfixes_query_version(5, 0).expect("sent");
    version.reply().expect("XFixes is there");
    let image = xtest.conn.xfixes_get_cursor_image().expect("sent").reply();
    let Ok(image) = image else { return Vec::new() };
    let (width, hot) = (
        i32::from(image.width),
        (i32::from(image.xhot), i32::from(image.yhot)),
    );
    let pixels = (0..).zip(image.cursor_image);
    let opaque = pixels.filter(|(_, pixel)| pixel >> 24 != 0);
    opaque
        .map(|(n, pixel)| (n % width - hot.0, n / width - hot.1, pixel))
        .collect()
}

/// Polls until the time limit for loading.
fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    poll_for(LOADING, || {
        found = poll();
        found.is_some()
    });
    found.unwrap_or_else(|| panic!("timeout: {what}"))
}

fn poll_until(condition: impl FnMut() -> bool) -> bool {
    poll_for(TIMEOUT, condition)
}

/// Polls a condition for at most `longest`. Returns whether it became true.
fn poll_for(longest: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > longest {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// The top-level window that contains `window`: a child of the root window.
fn top(xtest: &XTest, mut window: Window) -> Window {
    loop {
        let tree = xtest.conn.query_tree(window).expect("sent").reply();
        let Ok(tree) = tree else { return window };
        if tree.parent == xtest.root || tree.parent == x11rb::NONE {
            return window;
        }
        window = tree.parent;
    }
}
