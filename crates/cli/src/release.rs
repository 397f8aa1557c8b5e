//! What a host holds down on its display is released also when the host is killed: XTEST's keys
//! and buttons stay down when the program that pressed them ends.
//!
//! A second process of this program waits at a pipe, in a process group of its own. If the pipe
//! closes without a word, the host was killed, and the process releases what is down.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use openuvr_media::input_sink::xtest::release_held;

/// The subcommand that the second process is started with.
pub(crate) const COMMAND: &str = "release-when-killed";

/// What the host says at an orderly end, when it has released everything by itself.
const DONE: &[u8] = b"done\n";

/// Waits until standard input ends; releases what XTEST holds down on a display, unless the host
/// has done so (started by `openuvr host` for itself).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The display.
    #[arg(long)]
    display: String,
}

/// The second process, from the side of the host.
pub(crate) struct Release(Child);

impl Release {
    /// Starts it for `display`.
    ///
    /// # Errors
    /// There is no room for a process.
    pub(crate) fn start(display: &str) -> Result<Release> {
        // Also where the file was replaced since this program was started.
        let mut command = Command::new("/proc/self/exe");
        command
            .args([COMMAND, "--display", display])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the host.
            .process_group(0);
        let child = command.spawn();
        child
            .map(Release)
            .context("no process can be started that releases it")
    }
}

impl Drop for Release {
    /// The host has released everything.
    fn drop(&mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe.write_all(DONE);
        }
        let _ = self.0.wait();
    }
}

/// Runs the second process.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut said = Vec::new();
    std::io::stdin().read_to_end(&mut said)?;
    if said != DONE {
        release_held(Some(&args.display))?;
    }
    Ok(())
}
