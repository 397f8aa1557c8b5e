//! A Moonlight client that was built elsewhere (moonlight-qt or moonlight-embedded) on a virtual display, with software
//! decoding.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::rig::{Rig, poll_until};
use crate::support::{Program, skip};

/// The name of the application if a host streams a display.
const APPLICATION: &str = "Desktop";

/// The PIN that the client shows.
pub(crate) const PIN: &str = "2718";

/// The client program. The programs differ in their options and messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Qt,
    Embedded,
}

/// A client with its own home directory, and the host that it connects to.
pub(crate) struct Moonlight {
    program: PathBuf,
    kind: Kind,
    home: PathBuf,
    display: String,
    sound: String,
    port: u16,
}

/// The path of the client program, as given in its environment variable. Prints a message and returns `None` if the
/// variable is not set.
pub(crate) fn program() -> Option<PathBuf> {
    let named = std::env::var_os("OPENUVR_MOONLIGHT_CLIENT");
    if named.is_none() {
        skip("no Moonlight client is named: ./dev test-moonlight --client PATH");
    }
    named.map(PathBuf::from)
}

impl Moonlight {
    /// Creates a client on the user's display that plays its sound through the server at `sound`.
    pub(crate) fn new(program: PathBuf, rig: &Rig, sound: &str, port: u16) -> Moonlight {
        let home = rig.folder.path().join("home");
        // Qt requires that only the owner has permissions.
        let mut folder = std::fs::DirBuilder::new();
        folder.mode(0o700).create(&home).expect("a new folder");
        let mut client = Moonlight {
            program,
            kind: Kind::Qt,
            home,
            display: rig.client_side.name.clone(),
            sound: sound.to_owned(),
            port,
        };
        let help = client.command(&["help"]).output();
        let help = help.expect("the program of --client can be started");
        if String::from_utf8_lossy(&help.stdout).contains("Moonlight Embedded") {
            client.kind = Kind::Embedded;
        }
        client
    }

    fn command(&self, args: &[&str]) -> Command {
        // If its output is a pipe, moonlight-embedded writes its lines only at its end, unless `stdbuf` changes this.
        let mut command = Command::new("stdbuf");
        command.arg("-oL").arg(&self.program).args(args);
        for folder in [
            "HOME",
            "XDG_CONFIG_HOME",
            "XDG_CACHE_HOME",
            "XDG_DATA_HOME",
            "XDG_RUNTIME_DIR",
        ] {
            command.env(folder, &self.home);
        }
        command
            .env("DISPLAY", &self.display)
            .env("QT_QPA_PLATFORM", "xcb")
            .env("SDL_VIDEODRIVER", "x11")
            .env("SDL_AUDIODRIVER", "pulseaudio")
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .env("PULSE_SERVER", &self.sound)
            .env_remove("WAYLAND_DISPLAY")
            .env_remove("DBUS_SESSION_BUS_ADDRESS");
        command
    }

    /// A command of the client that is addressed to the host.
    fn to_host(&self, action: &str, args: &[&str]) -> Command {
        let port = self.port.to_string();
        let address = format!("127.0.0.1:{port}");
        match self.kind {
            Kind::Qt => self.command(&[&[action, &address], args].concat()),
            Kind::Embedded => {
                let to = ["127.0.0.1", "-port", &port];
                self.command(&[&[action], args, &to].concat())
            }
        }
    }

    /// Starts pairing with [`PIN`].
    pub(crate) fn pair(&self) -> Program {
        let pin = match self.kind {
            Kind::Qt => "--pin",
            Kind::Embedded => "-pin",
        };
        Program::start("pairing", self.to_host("pair", &[pin, PIN]))
    }

    /// Waits until the client reports that the PIN entered at the host was wrong.
    pub(crate) fn was_refused(&self, pairing: &Program) {
        pairing.line(match self.kind {
            Kind::Qt => "Incorrect PIN",
            Kind::Embedded => "Pairing failed",
        });
    }

    /// Waits until the client has stored the pairing.
    pub(crate) fn was_paired(&self, pairing: &Program) {
        match self.kind {
            Kind::Embedded => {
                pairing.line("Succesfully paired");
            }
            Kind::Qt => {
                let settings = "Moonlight Game Streaming Project/Moonlight.conf";
                let settings = self.home.join(settings);
                let stored = poll_until(|| {
                    let text = std::fs::read_to_string(&settings).unwrap_or_default();
                    text.contains("srvcert=\"@ByteArray(-----BEGIN CERTIFICATE")
                });
                assert!(stored, "{} has no certificate", settings.display());
            }
        }
    }

    /// The list of the host's applications that the client prints.
    pub(crate) fn applications(&self) -> String {
        let listed = self.to_host("list", &[]).output().expect("it was started");
        String::from_utf8_lossy(&listed.stdout).into_owned()
    }

    /// Starts a stream of 1280x720 in full screen, with relative mouse motion, as for games.
    pub(crate) fn stream(&self) -> Program {
        let command = match self.kind {
            Kind::Qt => {
                let picture = ["--720", "--fps", "60", "--bitrate", "10000"];
                let how = ["--video-decoder", "software", "--no-vsync"];
                let mouse = ["--display-mode", "fullscreen", "--no-absolute-mouse"];
                let args = [&[APPLICATION], &picture[..], &how, &mouse].concat();
                self.to_host("stream", &args)
            }
            Kind::Embedded => {
                let picture = ["-720", "-fps", "60", "-bitrate", "10000"];
                let how = ["-platform", "sdl", "-debug", "-app", APPLICATION];
                self.to_host("stream", &[&picture[..], &how].concat())
            }
        };
        Program::start("moonlight", command)
    }

    /// Starts the client's command that ends the session at the host. In moonlight-qt 6.1.0, this command does not end
    /// by itself: it waits for updates from the host after it has stopped polling for them.
    pub(crate) fn quit(&self) -> Program {
        Program::start("quitting", self.to_host("quit", &[]))
    }

    /// The client's own statistics of a stream that has ended, and its messages about losses.
    pub(crate) fn figures(&self, output: &str) -> String {
        let of_losses = |line: &&str| line.contains("Network dropped");
        let losses = output.lines().filter(of_losses).count();
        let stalls = output.matches("decode unit queue overflow").count();
        let lines = output
            .lines()
            .skip_while(|line| !line.contains("Global video stats"));
        let lines = lines.take_while(|line| !line.contains("Stopping"));
        let lines: Vec<&str> = lines.collect();
        format!(
            "{:?}: {losses} messages about lost frames, {stalls} about a full queue of its decoder\n{}",
            self.kind,
            lines.join("\n")
        )
    }
}
