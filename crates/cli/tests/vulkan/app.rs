//! An application that draws with Vulkan and does what it is told: it runs in a process of its
//! own, which is this test program, started by `openuvr run`.
//!
//! It shows one pattern again and again until it is told another; every picture is presented as a
//! game does it, with semaphores before and after the drawing.

use std::ffi::CString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use openuvr_proto::units::Size;

use crate::support::{Folder, Program, Shot, eventually, openuvr};
use crate::sys::{Gpu, Screen};

/// What names the socket of the test; only the application has it.
const SOCKET: &str = "OPENUVR_TEST_APPLICATION";

/// What names the display of its window, where that is not the environment's.
pub(crate) const SHOWN_ON: &str = "OPENUVR_TEST_SHOWN_ON";

/// Between two pictures.
const PAUSE: Duration = Duration::from_millis(4);

/// What the picture with this number shows: no two neighbours are alike.
pub(crate) fn pattern(size: Size, number: u32) -> Shot {
    let pixel = |at: u32| {
        let mixed = at.wrapping_mul(2_654_435_761).wrapping_add(number * 40_503);
        let [a, b, c, _] = (mixed ^ mixed >> 15).to_le_bytes();
        [a, b, c, 0]
    };
    let pixels = (0..size.width * size.height).flat_map(pixel).collect();
    Shot { size, pixels }
}

/// The application, from the test's side.
pub(crate) struct Application {
    pub(crate) program: Program,
    orders: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Application {
    /// Has `openuvr run` with these words start it.
    pub(crate) fn start(
        folder: &Folder,
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> Application {
        let socket = folder.path().join("application");
        let listener = UnixListener::bind(&socket).expect("a new socket");
        let itself = std::env::current_exe().expect("it runs");
        let itself = itself.to_str().expect("UTF-8");
        let test = [
            "--",
            itself,
            "--exact",
            "app::the_application",
            "--nocapture",
        ];
        let mut command = openuvr(&[&["run"], words, &test].concat());
        command.env(SOCKET, &socket);
        // Where one that is killed leaves its socket.
        command.env("XDG_RUNTIME_DIR", folder.path());
        command.envs(variables.iter().copied());
        let program = Program::start("run", command);
        listener.set_nonblocking(true).expect("it can");
        let (orders, _) = eventually("the application", || listener.accept().ok());
        orders.set_nonblocking(false).expect("it can");
        let answers = orders.try_clone().expect("a file descriptor");
        Application {
            program,
            orders,
            answers: BufReader::new(answers),
        }
    }

    /// Tells it something, and returns when that is done; what it answers.
    pub(crate) fn does(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").expect("it listens");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("it answers");
        answer.trim().to_owned()
    }
}

/// The application itself; for the test harness, a test that has nothing to do.
#[test]
fn the_application() {
    let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) else {
        return;
    };
    let mut orders = UnixStream::connect(&socket).expect("the test waits");
    orders.set_read_timeout(Some(PAUSE)).expect("not zero");
    let mut lines = BufReader::new(orders.try_clone().expect("a file descriptor"));
    let mut number = 0;
    let on = std::env::var(SHOWN_ON).ok();
    let on = on.map(|name| CString::new(name).expect("a name"));
    let mut screen = Screen::open(Size::new(160, 120), on.as_deref());
    let mut gpu = Gpu::open(&screen);
    let mut line = String::new();
    loop {
        gpu.show(&pattern(screen.size, number));
        match lines.read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => continue,
        }
        let words: Vec<_> = line.split_whitespace().collect();
        let mut answer = "done".to_owned();
        match words[..] {
            ["draw", wanted] => number = wanted.parse().expect("a number"),
            ["resize", width, height] => {
                let side = |text: &str| text.parse().expect("a number");
                screen.resize(Size::new(side(width), side(height)));
                gpu.swapchain_anew(screen.size);
            }
            ["swapchain"] => gpu.swapchain_anew(screen.size),
            ["device"] => gpu.device_anew(screen.size),
            ["fork"] => assert!(gpu.fork(), "the child ends as it wants"),
            ["clicks"] => answer = format!("{:?}", screen.clicks()),
            ["end"] => break,
            ref other => panic!("what is {other:?}?"),
        }
        gpu.show(&pattern(screen.size, number));
        writeln!(orders, "{answer}").expect("the test waits");
        line.clear();
    }
    gpu.close();
}
