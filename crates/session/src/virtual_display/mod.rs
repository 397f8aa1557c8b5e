//! A virtual display of the host: an X server without a screen (Xvfb), with the lifetime of the host.
//!
//! Only programs with its cookie can connect ([`Authority`]): this process and the application that it starts, which both
//! get it through `XAUTHORITY`. Other programs of the same user, such as another session in a sandbox, can't.

mod application;
mod placement;

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use openuvr_clock as clock;
use openuvr_media::display;
use openuvr_proto::units::Size;
use openuvr_runtime::launch::{Authority, xvfb};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, MapState};

use crate::report::AUTHORITY;
use crate::sys;

pub use application::RunningApplication;
use placement::Placement;

/// The time for Xvfb to end, with its socket and its lock file, before it is killed (guess).
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The time for Xvfb to report its display number (guess: half a second on an idle machine).
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A running virtual display. On drop it is ended, with everything on it.
pub struct VirtualDisplay {
    name: String,
    server: Child,
    /// It lives as long as the server may read it.
    authority: Authority,
    /// Ends after the server.
    _placement: Option<Placement>,
}

impl VirtualDisplay {
    /// Starts a display with a screen of `size`, 24 bits deep, and OpenGL in software. From then on this process and its
    /// child processes connect with its cookie, which is in the folder of this process's session, or in the folder for
    /// temporary files. With `place` the built-in placement of windows is active (`placement`). To be called while this
    /// process has no threads that use C libraries.
    ///
    /// # Errors
    /// Xvfb is not installed, or does not start. The message has one line.
    pub fn start(size: Size, session: Option<&Path>, place: bool) -> Result<VirtualDisplay> {
        let authority = match session {
            Some(folder) => Authority::make(folder.join(AUTHORITY)),
            None => Authority::make_in(&std::env::temp_dir()),
        }?;
        let mut command = xvfb(size, &authority);
        sys::die_with_parent(&mut command);
        // Ctrl-C is meant for the host, which ends the server last.
        command.process_group(0);
        let mut server = command
            .spawn()
            .context("a virtual display requires Xvfb: apt install xvfb")?;
        let output = server.stdout.take();
        let mut display = VirtualDisplay {
            name: String::new(),
            server,
            authority,
            _placement: None,
        };
        // It writes its number when it is ready, or closes the pipe when it ends.
        let line = output
            .map(|output| line_within(output, START_TIMEOUT))
            .transpose()?;
        let Some(line) = line.flatten() else {
            bail!("Xvfb did not start within 10 s: run `Xvfb :99` to see why");
        };
        let number = line.trim();
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            bail!(
                "Xvfb ended without a display of {size}: run `Xvfb -displayfd 1 -screen 0 {size}x24` to \
                 see why"
            );
        }
        display.name = format!(":{number}");
        sys::set_xauthority(display.authority.file());
        let connected = display::connect(&display.name)
            .map_err(|why| anyhow!("no answer from the virtual display: {why}"))?;
        let placement = place.then(|| Placement::start(connected)).transpose();
        display._placement = placement.context("can't place windows on the virtual display")?;
        Ok(display)
    }

    /// The processes of the display.
    pub(crate) fn processes(&self) -> Vec<u32> {
        vec![self.server.id()]
    }

    /// The value for `--display`, such as `:99`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file with its cookie, for `XAUTHORITY`.
    pub fn authority(&self) -> &Path {
        self.authority.file()
    }
}

impl Drop for VirtualDisplay {
    fn drop(&mut self) {
        // After SIGTERM it removes its socket and its lock file.
        if let Some(id) = i32::try_from(self.server.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, Signal::TERM);
        }
        let until = clock::now() + END_TIMEOUT;
        while matches!(self.server.try_wait(), Ok(None)) && clock::now() < until {
            clock::sleep_until(clock::now() + Duration::from_millis(5));
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The first line of a program's output, or its remainder at the end; `None` after the timeout.
fn line_within(mut output: impl Read + AsFd, timeout: Duration) -> Result<Option<String>> {
    let until = clock::now() + timeout;
    let mut line = Vec::new();
    loop {
        let left = Timespec::try_from(until.since(clock::now()))?;
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(why) => return Err(why.into()),
        }
        let mut byte = [0];
        if output.read(&mut byte)? == 0 || byte == *b"\n" {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
        line.extend(byte);
    }
}

/// Whether a window is visible on the display; also true if that is unknown.
pub(crate) fn shows_a_window(display: &str) -> bool {
    let Ok((conn, screen)) = display::connect(display) else {
        return true;
    };
    let root = conn.setup().roots.get(screen).map(|screen| screen.root);
    let children = root.and_then(|root| conn.query_tree(root).ok()?.reply().ok());
    children.is_none_or(|tree| {
        tree.children.iter().any(|window| {
            let about = conn.get_window_attributes(*window).ok();
            let about = about.and_then(|cookie| cookie.reply().ok());
            about.is_some_and(|about| about.map_state == MapState::VIEWABLE)
        })
    })
}
