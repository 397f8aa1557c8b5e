//! Two machines on one network, each with a display: a game on one, and its player at the other.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use openuvr_media::input_sink::pads::server::PadServer;
use openuvr_media::pad::FOLDER;
use openuvr_media::pad::codes::*;
use openuvr_media::pad::description::{Axis, Description};
use openuvr_proto::units::Size;
use rustix::process::Signal;

use crate::support::machines::{HOST, Machines, on};
use crate::support::pairing::pair;
use crate::support::pulse_server::PulseServer;
use crate::support::sound::{Recorder, samples};
use crate::support::{Display, Folder, Program, ScreenCapture, Shot, eventually, psnr, skip};
use crate::{loudness, pictures};

/// The host's original display size.
const OWN: &str = "1024x768";

/// The user's display size.
const THEIRS: &str = "1280x800";

/// Minimum correlation of recorded and played sound. The codec, the mixing of two sinks and the delays of a busy
/// machine reduce the correlation.
const ALIKE: f64 = 0.9;

/// Minimum number of audible parts of 20 ms: four seconds.
const MIN_LOUD_PARTS: usize = 200;

/// Rule with which the window manager makes each window fill the screen, without a frame.
const MANAGER: &str = r#"<openbox_config xmlns="http://openbox.org/3.4/rc"><applications>
<application class="*"><decor>no</decor><maximized>yes</maximized></application>
</applications></openbox_config>"#;

/// All components for playing a game.
pub(crate) struct Table {
    name: &'static str,
    window: Size,
    client: Option<Program>,
    run: Option<Program>,
    recorder: Option<Recorder>,
    pads: PadServer,
    _manager: Program,
    here: Display,
    there: Display,
    server: PulseServer,
    machines: Machines,
    folder: Folder,
}

impl Table {
    /// Sets up everything except the game and the client. `program` is the game's file name. Prints a message and
    /// returns `None` if a dependency is missing.
    pub(crate) fn set_up(program: &'static str, window: Size) -> Option<Table> {
        if !Path::new("/usr/games").join(program).exists() {
            skip(&format!("{program} is not installed: ./dev test-games"));
            return None;
        }
        let (here, there) = (Display::start(OWN)?, Display::start(THEIRS)?);
        let folder = Folder::new();
        let pads = PadServer::open(&folder.path().join("pads")).expect("a temporary folder");
        pads.plug(0, xbox()).expect("a folder");
        Some(Table {
            name: program,
            window,
            client: None,
            run: None,
            recorder: None,
            pads,
            _manager: manager(&here, &folder)?,
            here,
            there,
            server: PulseServer::start()?,
            machines: Machines::on_a_bridge()?,
            folder,
        })
    }

    /// The game's home directory.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn home_file(&self, name: &str, text: &str) {
        let file = self.home().join(name);
        std::fs::create_dir_all(file.parent().expect("in the home")).expect("a temporary folder");
        std::fs::write(file, text).expect("a temporary folder");
    }

    /// Starts the game, without a player.
    pub(crate) fn start(&mut self, game: &[&str]) {
        std::fs::create_dir_all(self.home()).expect("a temporary folder");
        let (dir, hook) = (self.folder.join("host"), library("libopenuvr_hook.so"));
        pair(&dir, &self.folder.join("client"), &format!("{HOST}:4710"));
        let hook = hook.to_str().expect("a path of text");
        let own = [
            "run",
            "--config",
            "/dev/null",
            "--config-dir",
            &dir,
            "--hook",
            hook,
        ];
        let how = [
            "--name",
            "desk",
            "--realtime",
            "off",
            "--fit",
            "--sound",
            "auto",
            "--",
        ];
        let args = [&own[..], &how, game].concat();
        let mut command = on(
            &self.machines.host,
            &[],
            &self.home(),
            Some(&self.here),
            &args,
        );
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/games";
        command
            .env("PATH", path)
            .env("PULSE_SERVER", &self.server.address)
            .env("XDG_RUNTIME_DIR", self.home())
            .env_remove("XDG_DATA_HOME")
            .env("SDL_AUDIODRIVER", "pulseaudio");
        let run = Program::start("run", command);
        run.line("openuvr run: streaming");
        // Records the sound that the game plays.
        let sinks = self.server.sinks().into_iter();
        let mut given = sinks.filter(|sink| sink.starts_with("openuvr_"));
        let sink = given.next().expect("a sink of the game's own");
        let played = self.folder.path().join("played");
        self.recorder = Some(Recorder::start(&self.server.address, &sink, &played));
        self.run = Some(run);
    }

    /// Starts a client on the other machine, where it discovers the host.
    pub(crate) fn join(&mut self) {
        let (dir, wav) = (
            self.folder.join("client"),
            self.folder.join("recording.wav"),
        );
        let (size, sound) = (self.window.to_string(), format!("wav:{wav}"));
        let own = [
            "client",
            "--config",
            "/dev/null",
            "--config-dir",
            &dir,
            "--name",
            "lap",
        ];
        let how = ["--realtime", "off", "--size", &size, "--sound", &sound];
        let args = [&own[..], &how].concat();
        let home = self.folder.path().to_owned();
        let mut command = on(&self.machines.client, &[], &home, Some(&self.there), &args);
        command
            .env("LD_PRELOAD", library("libopenuvr_pads.so"))
            .env(FOLDER, self.folder.path().join("pads"));
        let client = Program::start("client", command);
        let name = format!("\"desk: {}\"", self.name);
        client.line(&format!("found the paired host {name} at {HOST}:4710"));
        client.line("game pad A pad");
        client.line("player at desk");
        self.client = Some(client);
    }

    fn run(&self) -> &Program {
        self.run.as_ref().expect("a started game")
    }

    /// Waits until the game has printed this line.
    pub(crate) fn wait_for_line(&self, line: &str) {
        self.run().line(line);
    }

    /// Number of lines with this text that the game has printed.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.run().count(line)
    }

    /// Waits until the game's window and the picture have the size of the user's window, and host and client show the
    /// same picture.
    pub(crate) fn fills_the_window(&self) {
        let (here, there) = (
            ScreenCapture::open(&self.here),
            ScreenCapture::open(&self.there),
        );
        eventually("a display of the window's size", || {
            (here.geometry(here.root)? == self.window).then_some(())
        });
        eventually("the game's picture, as large as the window", || {
            let (one, other) = (here.region(self.window), there.region(self.window));
            let window = there.geometry(there.client_window()?)?;
            let same = pictures::correlation(&one, &other) > 0.9;
            (window == self.window && self.is_painted() && same).then_some(())
        });
    }

    /// Whether at least a quarter of the client's picture is not black.
    pub(crate) fn is_painted(&self) -> bool {
        let picture = self.picture();
        let painted = picture.colours().iter().filter(|c| **c != [0; 3]).count();
        painted > self.window.pixels() / 4
    }

    /// The client's picture.
    pub(crate) fn picture(&self) -> Shot {
        ScreenCapture::open(&self.there).region(self.window)
    }

    /// Waits until the picture stands still, except for minor motion.
    pub(crate) fn wait_for_stillness(&self, alike: f64) -> Shot {
        eventually("a view that stands still", || {
            let before = self.picture();
            std::thread::sleep(std::time::Duration::from_millis(300));
            let now = self.picture();
            (psnr(&before, &now) > alike).then_some(now)
        })
    }

    /// Waits until enough sound has been recorded, and checks that it matches the played sound.
    pub(crate) fn check_sound(&self) {
        let file = |name: &str| samples(&self.folder.path().join(name));
        eventually("four seconds of sound", || {
            (loudness::loud_parts(&file("recording.wav")) >= MIN_LOUD_PARTS).then_some(())
        });
        let mut best: f64 = 0.0;
        eventually("the recording matches the played sound", || {
            best = best.max(loudness::similarity(
                &file("played"),
                &file("recording.wav"),
            ));
            (best > ALIKE).then_some(())
        });
        println!(
            "{}: loudness at both ends correlates by {best:.3}",
            self.name
        );
    }

    /// Sends events of the pad as one report.
    pub(crate) fn send_events(&self, events: &[(u16, u16, i32)]) {
        let events = [events, &[(EV_SYN, 0, 0)]].concat();
        self.pads.write(0, &events).expect("it is served");
    }

    /// Presses a button long enough for a game that polls it a few times a second.
    pub(crate) fn press(&self, button: u16) {
        self.send_events(&[(EV_KEY, button, 1)]);
        std::thread::sleep(std::time::Duration::from_millis(300));
        self.send_events(&[(EV_KEY, button, 0)]);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }

    /// Stores both pictures for manual inspection.
    pub(crate) fn save(&self, what: &str) {
        let name = format!("{}-{what}", self.name);
        pictures::save(
            &ScreenCapture::open(&self.here).region(self.window),
            &format!("{name}-host"),
        );
        pictures::save(&self.picture(), &format!("{name}-client"));
    }

    /// Checks that host and client are running, and that the host's display gets its original size back.
    pub(crate) fn end(&mut self) {
        self.run.as_mut().expect("a started game").assert_running();
        let mut client = self.client.take().expect("a client");
        client.assert_running();
        client.stop();
        let here = ScreenCapture::open(&self.here);
        eventually("the display's own size", || {
            let size = here.geometry(here.root)?;
            (size.to_string() == OWN).then_some(())
        });
        self.run().signal(Signal::TERM);
        let mut run = self.run.take().expect("a started game");
        run.wait();
        println!(
            "{}: pictures are in {}",
            self.name,
            pictures::folder().display()
        );
    }
}

/// A library that was built with these tests.
fn library(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_openuvr")).parent();
    folder.expect("a folder").join("deps").join(name)
}

/// A pad as the xpad driver presents it.
fn xbox() -> Description {
    let axis = |minimum, maximum| Axis {
        minimum,
        maximum,
        ..Axis::default()
    };
    let mut pad = Description::new("A pad", [3, 0x045e, 0x02ea, 0x0408]);
    for key in [
        0x130, 0x131, 0x133, 0x134, 0x136, 0x137, 0x13a, 0x13b, 0x13c, 0x13d, 0x13e,
    ] {
        pad = pad.with_key(key);
    }
    for code in [ABS_X, ABS_Y, ABS_RX, ABS_RY] {
        pad = pad.with_axis(code, axis(-32_768, 32_767));
    }
    pad.with_axis(ABS_Z, axis(0, 1023))
        .with_axis(ABS_RZ, axis(0, 1023))
        .with_axis(ABS_HAT0X, axis(-1, 1))
        .with_axis(ABS_HAT0Y, axis(-1, 1))
}

/// Starts a window manager, and waits until it runs. Prints a message and returns `None` if it is not installed.
fn manager(display: &Display, folder: &Folder) -> Option<Program> {
    if Command::new("openbox").arg("--version").output().is_err() {
        skip("openbox is not installed: apt-get install openbox");
        return None;
    }
    let rules = folder.join("rc.xml");
    std::fs::write(&rules, MANAGER).expect("a temporary folder");
    let mut command = Command::new("openbox");
    command
        .args(["--sm-disable", "--config-file", &rules])
        .env("DISPLAY", &display.name)
        .env("HOME", OsStr::new("/nonexistent"));
    let manager = Program::start("openbox", command);
    let capture = ScreenCapture::open(display);
    eventually("the window manager", || capture.is_managed().then_some(()));
    Some(manager)
}
