//! A host that replaces a game until the game draws. While a launcher shows a window without OpenGL or Vulkan, a second
//! process of this program is the host, and streams that window like `openuvr host`. The stand-in ends when the first
//! process of the game presents a picture.
//!
//! ```text
//! openuvr run ─► launcher with a visible window
//!      │  └────► openuvr stand-in ─► captures the window, streams to the clients
//!      │            ▲ ends
//!      └─► game ────┘ its first swap: it streams from inside
//! ```
//! Clients reconnect to the game's host at the same address, as to a restarted host.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, anyhow};
use openuvr_clock as clock;
use openuvr_media::application::{WindowScope, largest_window};
use openuvr_media::capture::pool::Pool;
use openuvr_media::capture::x11::{CaptureArea, Target, Viewport, WindowName, WindowQuery, open};
use openuvr_media::capture::{Capture as _, CaptureEvent};
use openuvr_media::display;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::guest::{Guest, InputTarget};
use openuvr_runtime::host::Notice;
use openuvr_runtime::launch::Socket;
use openuvr_runtime::launch_protocol::{LaunchReport, SOCKET};
use openuvr_runtime::launcher::Launcher;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{ConnectionExt as _, MapState, Window};
use x11rb::rust_connection::RustConnection;

use crate::descendants;
use crate::sys::die_with_parent;

/// The maximum number of reports queued for `openuvr run`. Additional reports are dropped. A stream has at most a few
/// hundred frames per second, and `openuvr run` reads their reports in each iteration (guess: room for the reports of a
/// few seconds).
const MAX_QUEUED_REPORTS: usize = 1024;

/// The subcommand.
pub const COMMAND: &str = "stand-in";

/// How long a window must be visible without an OpenGL or Vulkan picture before the stand-in starts (guess). A game opens
/// its window before it loads its data.
const WINDOW_DELAY: Duration = Duration::from_secs(3);

/// The maximum delay until the process detects that it must end, or that the window has moved.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The delay before the next attempt to submit a picture that came too early (guess: a quarter of a frame at 60 frames
/// per second).
const RETRY_INTERVAL: Duration = Duration::from_millis(4);

/// The maximum wait for the capture of the window, which has just been visible, and for the end of the stand-in's
/// process.
const CAPTURE_TIMEOUT: Duration = Duration::from_secs(1);

/// The stand-in, as seen by `openuvr run`.
pub struct StandIn {
    subcommand: &'static str,
    display: String,
    /// The connection to the display; `None` if there is no connection, or after the stand-in has failed.
    server: Option<(RustConnection, Window)>,
    /// When a window became visible.
    visible_since: Option<Instant>,
    process: Option<Child>,
}

impl StandIn {
    /// Creates a stand-in without a process. `subcommand` is the prefix of error lines.
    #[must_use]
    pub fn new(subcommand: &'static str, display: &str) -> StandIn {
        let server = display::connect(display).ok().and_then(|(conn, screen)| {
            let root = conn.setup().roots.get(screen)?.root;
            Some((conn, root))
        });
        StandIn {
            subcommand,
            display: display.to_owned(),
            server,
            visible_since: None,
            process: None,
        }
    }

    /// The stand-in's process, which this struct reaps.
    pub fn processes(&self) -> Vec<u32> {
        self.process.iter().map(Child::id).collect()
    }

    /// Starts the stand-in when it is due. Call this a few times per second.
    pub fn tick(&mut self, socket: &mut Socket, now: Instant) {
        if let Some(process) = &mut self.process {
            match process.try_wait() {
                Ok(None) => return,
                Ok(Some(status)) if status.success() => {}
                // The process has reported its error. Another process would fail in the same way, so none is started. A
                // window that was closed meanwhile is not an error.
                _ => self.server = None,
            }
            self.process = None;
            socket.set_stand_in(None);
        }
        let window = match socket.is_served() {
            true => None,
            false => self.window(),
        };
        let Some(window) = window else {
            self.visible_since = None;
            return;
        };
        if now.since(*self.visible_since.get_or_insert(now)) < WINDOW_DELAY {
            return;
        }
        self.visible_since = None;
        tracing::debug!("window {window:#x} of the launcher is shown");
        match start(&self.display, window, socket) {
            Ok(process) => {
                let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
                socket.set_stand_in(id);
                self.process = Some(process);
            }
            Err(why) => {
                let subcommand = self.subcommand;
                eprintln!("openuvr {subcommand}: can't stream the launcher's window: {why}");
                self.server = None;
            }
        }
    }

    /// The largest window of this program's descendant processes.
    fn window(&mut self) -> Option<Window> {
        let (conn, root) = self.server.as_ref()?;
        let ours = descendants::running();
        let is_ours = |pid: u32| {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.is_some_and(|pid| ours.contains(&pid))
        };
        match largest_window(conn, *root, is_ours) {
            Ok(window) => window,
            Err(why) => {
                tracing::debug!("can't search for windows: {why}");
                self.server = None;
                None
            }
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // The process ends when it detects that its socket is closed.
            let until = clock::now() + CAPTURE_TIMEOUT;
            while matches!(process.try_wait(), Ok(None)) && clock::now() < until {
                clock::sleep_until(clock::now() + Duration::from_millis(5));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn start(display: &str, window: Window, socket: &Socket) -> std::io::Result<Child> {
    // This path works even if the executable has been replaced since this program was started.
    let mut command = Command::new("/proc/self/exe");
    command
        .args([
            COMMAND,
            "--display",
            display,
            "--window",
            &window.to_string(),
        ])
        .env(SOCKET, socket.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C is meant for `openuvr run`.
        .process_group(0);
    die_with_parent(&mut command);
    command.spawn()
}

/// Stream a launcher's window until the game draws (internal; started by `openuvr run`)
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// X display
    #[arg(long)]
    display: String,
    /// Window id
    #[arg(long)]
    window: u32,
}

/// Runs the stand-in's process, which reports to `openuvr run`.
///
/// # Errors
/// Returns a one-line error if the window cannot be streamed. The error has also been sent to `openuvr run`, unless
/// there is no connection.
pub fn run(args: &Args) -> Result<()> {
    let launcher = Launcher::connect().map_err(|e| anyhow!(e))?;
    let result = show(args, &launcher);
    if let Err(why) = &result {
        launcher.send(&warning(format!(
            "can't stream the launcher's window: {why}"
        )));
    }
    result.map_err(|e| anyhow!(e))
}

fn warning(why: String) -> LaunchReport {
    Notice::Warning(why).into()
}

fn show(args: &Args, launcher: &Launcher) -> Result<(), String> {
    // The stand-in may be asked to end before its settings arrive.
    let settings = loop {
        if let Some(settings) = launcher.settings_within(POLL_INTERVAL)? {
            break settings;
        }
        if is_over(launcher) {
            return Ok(());
        }
    };
    let target = Target {
        display: Some(args.display.clone()),
        area: CaptureArea::Window(WindowQuery {
            name: WindowName::Id(args.window),
            wait: CAPTURE_TIMEOUT,
        }),
    };
    let mut capture = match open(&target) {
        Ok(capture) => capture,
        // The launcher has closed this window since, and may show another one.
        Err(_) if !is_viewable(&args.display, args.window) => return Ok(()),
        Err(why) => return Err(why.to_string()),
    };
    capture.limit_fps(settings.host.fps);
    let input = match settings.input {
        true => InputTarget::Display(args.display.clone()),
        false => InputTarget::Nothing,
    };
    if let InputTarget::Display(display) = &input {
        // This report must precede any key press on the display. If this process is killed, `openuvr run` must release
        // the keys.
        launcher.send(&LaunchReport::InputDisplay(display.clone()));
    }
    std::thread::scope(|scope| {
        let (sender, received) = std::sync::mpsc::sync_channel(MAX_QUEUED_REPORTS);
        let size = capture.size();
        let notice = move |notice| drop(sender.try_send(LaunchReport::from(notice)));
        let guest = Guest::on_display(&settings.host, input, Some(&args.display), size, notice)?;
        scope.spawn(|| {
            received
                .into_iter()
                .for_each(|report| launcher.send(&report))
        });
        launcher.send(&LaunchReport::Streaming {
            size,
            endpoint: guest.endpoint().to_owned(),
        });
        // A PIN set by the user is not printed.
        if let Some(pin) = guest.pin().filter(|_| settings.host.pin.is_none()) {
            launcher.send(&LaunchReport::Invitation {
                pin: pin.to_string(),
                seconds: settings.host.pairing_timeout,
            });
        }
        launcher.send(&warning(
            "the game does not draw with OpenGL or Vulkan yet; streaming its window until it does"
                .to_owned(),
        ));
        guest.set_window_scope(WindowScope::Program);
        let viewport = capture.shared_viewport();
        serve(&guest, &mut capture, &viewport, launcher)
    })
}

/// Whether the window is viewable. Returns true if this is unknown.
fn is_viewable(display: &str, window: Window) -> bool {
    let Ok((conn, _)) = display::connect(display) else {
        return true;
    };
    let about = conn.get_window_attributes(window).ok();
    let about = about.map(|about| about.reply());
    match about {
        Some(Ok(about)) => about.map_state == MapState::VIEWABLE,
        // The window does not exist.
        Some(Err(ReplyError::X11Error(_))) => false,
        _ => true,
    }
}

/// Submits the window's pictures until the window is closed or this process is no longer needed.
fn serve(
    guest: &Guest,
    capture: &mut openuvr_media::capture::x11::X11Capture,
    viewport: &Viewport,
    launcher: &Launcher,
) -> Result<(), String> {
    let pool = Pool::default();
    let mut placed: Option<((i32, i32, Size), Option<u32>)> = None;
    // Whether the newest picture still has to be submitted.
    let mut pending = false;
    while !is_over(launcher) && !guest.is_over() {
        let place = (viewport.now(), viewport.window());
        if placed.replace(place) != Some(place) {
            let ((x, y, size), window) = place;
            guest.set_viewport(x, y, Some(size));
            guest.set_window(window);
        }
        let turn = if pending {
            RETRY_INTERVAL
        } else {
            POLL_INTERVAL
        };
        match capture.next(Some(turn)).map_err(|e| e.to_string())? {
            CaptureEvent::Frame => pending = true,
            CaptureEvent::Hidden => guest.set_shown(false),
            CaptureEvent::Shown => guest.set_shown(true),
            CaptureEvent::Ended(_) => break,
            CaptureEvent::Resized(_) | CaptureEvent::TimedOut | CaptureEvent::Woken => {}
        }
        if pending
            && guest.wants()
            && let Some(picture) = capture.picture()
        {
            let _ = guest.submit(Box::new(pool.copy_of(&picture)));
            pending = false;
        }
    }
    Ok(())
}

/// Whether `openuvr run` has closed the connection.
fn is_over(launcher: &Launcher) -> bool {
    let mut fds = [PollFd::new(launcher, PollFlags::RDHUP)];
    let over = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let looked = poll(&mut fds, Some(&Timespec::default()));
    looked.is_ok() && fds[0].revents().intersects(over)
}

#[cfg(test)]
mod tests {
    use openuvr_xserver::fixture;

    use super::*;

    #[test]
    fn a_closed_window_is_not_viewable() {
        let Some(xvfb) = fixture::xvfb("64x64", &[]) else {
            return;
        };
        let (conn, root) = xvfb.connect();
        assert!(is_viewable(&xvfb.display, root));
        let missing = conn.generate_id().unwrap();
        assert!(!is_viewable(&xvfb.display, missing));
        assert!(is_viewable("nowhere", root), "unknown");
    }
}
