//! A PipeWire instance for a test, with its PulseAudio server and session manager, in a folder; ended when
//! dropped.

use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use super::{Folder, eventually, skip};

/// A running PipeWire.
pub(crate) struct PipeWire {
    programs: Vec<Child>,
    folder: Folder,
    /// Value for `$PULSE_SERVER`.
    pub(crate) address: String,
}

impl PipeWire {
    /// Starts an instance with the null sink `usual` as its default sink. Prints a message and returns `None` if
    /// PipeWire is not installed.
    pub(crate) fn start() -> Option<PipeWire> {
        let folder = Folder::new();
        let socket = folder.join("pulse/native");
        let mut pipewire = PipeWire {
            programs: Vec::new(),
            address: format!("unix:{socket}"),
            folder,
        };
        let core = pipewire.folder.join("pipewire-0");
        pipewire.run(&["pipewire"])?;
        eventually("PipeWire's socket", || UnixStream::connect(&core).ok());
        // Without a session manager, no nodes are linked. The session manager requires a bus, but does not use it here.
        pipewire.run(&["dbus-run-session", "--", "wireplumber"])?;
        pipewire.run(&["pipewire-pulse"])?;
        eventually("its PulseAudio server", || {
            UnixStream::connect(&socket).ok()
        });
        pipewire.pactl(&["load-module", "module-null-sink", "sink_name=usual"]);
        eventually("its sink", || {
            let sinks = pipewire.pactl(&["list", "short", "sinks"]);
            sinks.contains("usual").then_some(())
        });
        Some(pipewire)
    }

    fn run(&mut self, args: &[&str]) -> Option<()> {
        let mut command = Command::new(args[0]);
        command
            .args(&args[1..])
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .env("HOME", self.folder.path())
            .env_remove("DISPLAY")
            .env_remove("DBUS_SESSION_BUS_ADDRESS")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => self.programs.push(child),
            Err(why) => {
                skip(&format!("cannot start {}: {why}", args[0]));
                return None;
            }
        }
        Some(())
    }

    fn pactl(&self, args: &[&str]) -> String {
        let output = Command::new("pactl")
            .args(args)
            .env("PULSE_SERVER", &self.address)
            .env("HOME", self.folder.path())
            .output()
            .expect("pactl, of the package pulseaudio-utils");
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "pactl {args:?}: {printed}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for PipeWire {
    fn drop(&mut self) {
        for program in self.programs.iter_mut().rev() {
            // SIGTERM lets dbus-run-session end its child processes.
            let id = i32::try_from(program.id()).ok();
            if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
            }
            let _ = program.wait();
        }
    }
}
