//! The client's window in Weston. Weston is stricter than sway about the configuration of a window.
#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "../../media/tests/skip/mod.rs"]
mod skip;

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use openuvr_media::input_source::InputSource as _;
use openuvr_media::picture::Picture;
use openuvr_media::present::Presenter as _;
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;
use openuvr_wayland::present::{WindowConfig, open};
use openuvr_xserver::fixture::{fake, pixels, xvfb};
use skip::has_program;
use tempfile::TempDir;

const SCREEN: Size = Size::new(640, 360);

/// The window's size before it fills the screen. At this size, the window covers the middle of the screen regardless of
/// its position.
const SMALL: Size = Size::new(560, 315);

/// Time limit of each wait for the compositor; it is long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time for a picture to fill the screen before the request is repeated (guess).
const ASK_INTERVAL: Duration = Duration::from_secs(3);

/// Key codes of X11: Ctrl, Alt, Shift, F.
const FULL_SCREEN: [u8; 4] = [37, 64, 50, 41];

/// Event types of core X.
const KEY: [u8; 2] = [2, 3];
const BUTTON: [u8; 2] = [4, 5];
const MOTION: u8 = 6;

struct Weston {
    server: Child,
    folder: TempDir,
}

impl Weston {
    /// Starts Weston in a window that covers an X display.
    fn start(display: &str) -> Weston {
        let version = Command::new("weston").arg("--version").output().unwrap();
        // Of the versions in Debian releases, Weston 10 is the last one that expects the file name of the backend
        // module.
        let backend = match version.stdout.starts_with(b"weston 10.") {
            true => ["--backend=x11-backend.so", "--use-pixman"],
            false => ["--backend=x11", "--renderer=pixman"],
        };
        let folder = TempDir::with_prefix("weston-").unwrap();
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(folder.path(), private).unwrap();
        // The panel is turned off. Until Weston has seen a pointer motion, a click counts as a click in the upper left
        // corner, where the panel would start a terminal. The terminal would take the keys.
        let config = folder.path().join("weston.ini");
        std::fs::write(&config, "[shell]\npanel-position=none\n").unwrap();
        let server = Command::new("weston")
            .args(backend)
            .args(["--idle-time=0", "--socket=wayland-t", "--config"])
            .arg(&config)
            .arg(format!("--width={}", SCREEN.width))
            .arg(format!("--height={}", SCREEN.height))
            .env_remove("WAYLAND_DISPLAY")
            .env("DISPLAY", display)
            .env("XDG_RUNTIME_DIR", folder.path())
            .env("HOME", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let weston = Weston { server, folder };
        until("weston listens", || {
            UnixStream::connect(weston.socket()).is_ok()
        });
        weston
    }

    fn socket(&self) -> String {
        let socket = self.folder.path().join("wayland-t");
        socket.to_str().unwrap().to_owned()
    }
}

impl Drop for Weston {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_window_fills_the_screen_of_weston_on_request() {
    if !has_program("weston", "weston") {
        return;
    }
    let Some(server) = xvfb(&SCREEN.to_string(), &[]) else {
        return;
    };
    let weston = Weston::start(&server.display);
    let (mut presenter, mut source) = open(&WindowConfig {
        display: Some(weston.socket()),
        size: SMALL,
        ..WindowConfig::default()
    })
    .unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if source.next(Some(Duration::from_millis(50))).is_err() {
                    return;
                }
            }
        });
        // This stops the thread even if an assertion fails.
        let _stop = Stop(&stop);
        let white = vec![0xff; SMALL.pixels() * 4];
        let picture = Picture::bgrx(SMALL, &white, SMALL.width as usize * 4);
        presenter.present(FrameId(1), &picture).unwrap();

        let (conn, root) = server.connect();
        let all = (
            u16::try_from(SCREEN.width).unwrap(),
            u16::try_from(SCREEN.height).unwrap(),
        );
        let white = || {
            let screen = pixels(&conn, root, (0, 0), all);
            let white = screen.chunks_exact(4).filter(|p| p[..3] == [0xff; 3]);
            white.count()
        };
        // The pointer may cover a part of the picture.
        until("the small picture is shown", || {
            white() > SMALL.pixels() / 2
        });
        assert!(white() < SCREEN.pixels() - 1000);
        // After the click, Weston receives the keys of the X display.
        let middle = (all.0.cast_signed() / 2, all.1.cast_signed() / 2);
        let ask = || {
            fake(&conn, MOTION, 0, middle.0, middle.1);
            for kind in BUTTON {
                fake(&conn, kind, 1, 0, 0);
            }
            for key in FULL_SCREEN {
                fake(&conn, KEY[0], key, 0, 0);
            }
            for key in FULL_SCREEN.into_iter().rev() {
                fake(&conn, KEY[1], key, 0, 0);
            }
        };
        // The picture fills the screen, except for the area of the pointer. While Weston starts on a busy machine, it
        // may lose the click and therefore the keys, so the test repeats click and keys.
        let mut asked: Option<Instant> = None;
        until("the picture fills the screen", || {
            if asked.is_none_or(|at| at.elapsed() > ASK_INTERVAL) {
                ask();
                asked = Some(Instant::now());
            }
            white() > SCREEN.pixels() - 1000
        });
    });
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
