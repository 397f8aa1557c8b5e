//! A game under `openuvr run` on its own display, and the client's display.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{
    Display, Folder, PIN, Program, ScreenCapture, client, eventually, openuvr, port_of, skip,
};

/// The hook that was built with these tests.
pub(crate) fn hook() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_openuvr"));
    let folder = program.parent().expect("a folder");
    folder.join("deps/libopenuvr_hook.so")
}

/// A running game.
pub(crate) struct Run {
    pub(crate) program: Program,
    pub(crate) folder: Folder,
}

impl Run {
    /// Starts a game on a display, with more environment variables.
    pub(crate) fn start(display: &Display, variables: &[(&str, &OsStr)], game: &[&str]) -> Run {
        Run::with(display, &[], variables, game)
    }

    /// Like [`Run::start`], but with more arguments for `openuvr run`.
    pub(crate) fn with(
        display: &Display,
        args: &[&str],
        variables: &[(&str, &OsStr)],
        game: &[&str],
    ) -> Run {
        let folder = Folder::new();
        let (hook, dir) = (hook(), folder.join("host"));
        let hook = hook.to_str().expect("a path of text");
        let own = ["run", "--hook", hook, "--config-dir", &dir];
        let network = ["--bind", "127.0.0.1:0", "--realtime", "off"];
        let args = [&own[..], &network, &PIN, args, &["--"], game].concat();
        let mut command = openuvr(&args);
        command
            .env("DISPLAY", &display.name)
            .env("HOME", folder.path())
            // A killed process leaves sockets behind; this variable puts them into the test's folder.
            .env("XDG_RUNTIME_DIR", folder.path())
            .env("MARKS", folder.path())
            .envs(variables.iter().copied());
        let program = Program::start("run", command);
        Run { program, folder }
    }

    /// Starts a client with a window on a display.
    pub(crate) fn client(&self, display: &Display, args: &[&str]) -> Program {
        self.client_named("client", display, args)
    }

    /// Like [`Run::client`], but with another name and key.
    pub(crate) fn client_named(&self, name: &str, display: &Display, args: &[&str]) -> Program {
        let port = port_of(&self.program.line("openuvr run: streaming"));
        let address = format!("127.0.0.1:{port}");
        let args = [&["--display", &display.name], &PIN[..], args].concat();
        client(&self.folder, name, &address, &args)
    }

    /// Acknowledges an act to the actor.
    pub(crate) fn acknowledge(&self, act: &str) {
        std::fs::write(self.folder.path().join(act), "").expect("a temporary folder");
    }

    /// Waits for the end of the game; returns its exit code and all output.
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let (status, text) = self.program.wait();
        (status.code(), text)
    }
}

/// Builds the actor. Prints a message and returns `None` if there is no C compiler.
pub(crate) fn actor() -> Option<&'static str> {
    static BUILT: OnceLock<Option<String>> = OnceLock::new();
    BUILT
        .get_or_init(|| build("actor.c", "actor", &["-pthread"]))
        .as_deref()
}

/// Builds a program or library of `tests/hook`; returns its path.
pub(crate) fn build(source: &str, name: &str, args: &[&str]) -> Option<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let made = folder.join(format!("{name}-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/hook")
        .join(source);
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-Wall", "-Werror", "-O1", "-o"]);
    command.arg(&made).arg(source).args(args).args(["-ldl"]);
    match command.status() {
        Ok(status) => assert!(status.success(), "{name} is built"),
        Err(e) => {
            skip(&format!(
                "no C compiler is installed: {e}: apt-get install build-essential"
            ));
            return None;
        }
    }
    Some(made.to_str().expect("a path of text").to_owned())
}

/// Starts two displays, the game's and the client's.
pub(crate) fn displays(size: &str) -> Option<(Display, Display)> {
    Some((Display::start(size)?, Display::start(size)?))
}

/// Colours of the actor, with one bit each for red, green and blue.
pub(crate) const BLUE: u8 = 1;
pub(crate) const GREEN: u8 = 2;
pub(crate) const RED: u8 = 4;
pub(crate) const YELLOW: u8 = 6;
pub(crate) const WHITE: u8 = 7;

/// Waits until the picture in the client's window has these colours above and below its middle. The window
/// keeps its first size and scales other pictures to fit.
pub(crate) fn wait_for_colours(capture: &ScreenCapture, above: u8, below: u8) {
    eventually(&format!("{above} above {below}"), || {
        let size = capture.geometry(capture.client_window()?)?;
        let shot = capture.region(size);
        let at = |eighth: usize| {
            let (x, y) = (size.width as usize / 2, size.height as usize * eighth / 8);
            let at = (y * size.width as usize + x) * 4;
            let bit = |offset: usize| u8::from(shot.pixels[at + offset] > 128);
            bit(2) << 2 | bit(1) << 1 | bit(0)
        };
        (at(3) == above && at(5) == below).then_some(())
    });
}
