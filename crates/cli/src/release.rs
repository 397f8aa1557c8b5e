//! Release of pressed keys and buttons after the host has been killed. Keys and buttons that XTEST has pressed stay pressed
//! when the program that pressed them ends.
//!
//! A second process of this program, in its own process group, reads from a pipe. If the pipe closes without a message, the
//! host has been killed, and the process releases all keys and buttons.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use openuvr_media::input_sink::xtest::release_held;

/// The subcommand of the second process.
pub(crate) const COMMAND: &str = "release-when-killed";

/// The message that the host sends at a normal end, after it has released everything itself.
const DONE: &[u8] = b"done\n";

/// When standard input closes without a message, release the keys and buttons that XTEST has pressed (internal; started
/// by `openuvr host`)
#[derive(clap::Args)]
pub(crate) struct Args {
    /// X display
    #[arg(long)]
    display: String,
}

/// The second process, as seen by the host.
pub(crate) struct Release(Child);

impl Release {
    /// Starts the second process for `display`.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    pub(crate) fn start(display: &str) -> Result<Release> {
        // This works even if the executable has been replaced since this program was started.
        let mut command = Command::new("/proc/self/exe");
        command
            .args([COMMAND, "--display", display])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C must reach only the host.
            .process_group(0);
        let child = command.spawn();
        child
            .map(Release)
            .context("can't start the process that releases keys")
    }
}

impl Drop for Release {
    /// Reports to the second process that the host has released everything.
    fn drop(&mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe.write_all(DONE);
        }
        let _ = self.0.wait();
    }
}

/// Runs the second process.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut message = Vec::new();
    std::io::stdin().read_to_end(&mut message)?;
    if message != DONE {
        release_held(Some(&args.display))?;
    }
    Ok(())
}
