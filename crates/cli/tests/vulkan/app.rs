//! A Vulkan application that the test controls. It runs in a separate process, which is this test program started by
//! `openuvr run`.
//!
//! It presents one pattern repeatedly until it gets another command. As in a game, each picture is presented
//! with semaphores before and after rendering.

use std::ffi::CString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use openuvr_proto::units::Size;

use crate::support::{Folder, Program, Shot, eventually, openuvr};
use crate::sys::{AppWindow, Gpu};

/// Environment variable with the test's socket; set for the application only.
const SOCKET: &str = "OPENUVR_TEST_APPLICATION";

/// Environment variable with the display of its window, if that differs from `DISPLAY`.
pub(crate) const SHOWN_ON: &str = "OPENUVR_TEST_SHOWN_ON";

/// Pause between two pictures.
const PAUSE: Duration = Duration::from_millis(4);

/// The picture with this number; consecutive pictures differ.
pub(crate) fn pattern(size: Size, number: u32) -> Shot {
    let pixel = |at: u32| {
        let mixed = at.wrapping_mul(2_654_435_761).wrapping_add(number * 40_503);
        let [a, b, c, _] = (mixed ^ mixed >> 15).to_le_bytes();
        [a, b, c, 0]
    };
    let pixels = (0..size.width * size.height).flat_map(pixel).collect();
    Shot { size, pixels }
}

/// The test's connection to the application.
pub(crate) struct Application {
    pub(crate) program: Program,
    orders: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Application {
    /// Starts the application through `openuvr run` with these arguments.
    pub(crate) fn start(folder: &Folder, args: &[&str], variables: &[(&str, &str)]) -> Application {
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
        let mut command = openuvr(&[&["run"], args, &test].concat());
        command.env(SOCKET, &socket);
        // A killed process leaves sockets behind; this variable puts them into the test's folder.
        command.env("XDG_RUNTIME_DIR", folder.path());
        command.envs(variables.iter().copied());
        let program = Program::start("run", command);
        listener
            .set_nonblocking(true)
            .expect("a nonblocking socket");
        let (orders, _) = eventually("the application", || listener.accept().ok());
        orders.set_nonblocking(false).expect("it can");
        let answers = orders.try_clone().expect("a file descriptor");
        Application {
            program,
            orders,
            answers: BufReader::new(answers),
        }
    }

    /// Sends a command, waits for its completion, and returns the answer.
    pub(crate) fn command(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").expect("the application reads");
        let mut answer = String::new();
        self.answers
            .read_line(&mut answer)
            .expect("the application answers");
        answer.trim().to_owned()
    }
}

/// The application itself. When the test harness runs this function, it does nothing.
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
    let mut screen = AppWindow::open(Size::new(160, 120), on.as_deref());
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
            ["draw", text] => number = text.parse().expect("a number"),
            ["resize", width, height] => {
                let side = |text: &str| text.parse().expect("a number");
                screen.resize(Size::new(side(width), side(height)));
                gpu.recreate_swapchain(screen.size);
            }
            ["swapchain"] => gpu.recreate_swapchain(screen.size),
            ["device"] => gpu.recreate_device(screen.size),
            ["fork"] => assert!(gpu.fork(), "the child exits with its own code"),
            ["clicks"] => answer = format!("{:?}", screen.clicks()),
            ["end"] => break,
            ref other => panic!("unknown command {other:?}"),
        }
        gpu.show(&pattern(screen.size, number));
        writeln!(orders, "{answer}").expect("the test waits");
        line.clear();
    }
    gpu.close();
}
