//! `openuvr session`: one session of a portal. It starts a display, the application, and a host to which the portal's
//! browsers connect, and ends all of them together.
//!
//! ```text
//! launcher ─► openuvr session ─► openuvr host | run | xr ─► display, application
//!              │ limits, saves      │ stream, page, lease
//!              ◄── report.json ─────┘ in the session's own folder
//! ```
//! The session does not depend on its launcher, which may be a portal on this machine, a Slurm job, or a container.
//! This program prints a line of JSON with the session's address when the session is running, and another line with its
//! result. If this program is killed, the kernel notifies the host, which ends the application. If the host is killed,
//! this program ends the application. Orphaned processes become this program's children (prctl(2),
//! PR_SET_CHILD_SUBREAPER).

mod folder;
mod host_command;
mod limits;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use openuvr_net::address::parse_address;
use openuvr_proto::control::ticket::{SessionUuid, TicketKey};
use openuvr_proto::units::Size;
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};

use crate::confine::{Account, Confinement};
use crate::descendants;
use crate::report::{self, AUTHORITY, RunningReport, read_end, read_running};
use crate::sys::{close_inherited_on_exec, die_with_parent, set_xauthority};
use crate::virtual_display::{ApplicationDisplay as _, VirtualDisplay, shows_a_window};

use folder::{SaveFolder, SessionFolder};
use limits::Limits;

/// The interval at which this program checks its child processes and the limits.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long the host may take to disconnect its clients and to end the application. After that, host and application
/// are killed (guess: the sum of the host's own timeouts for the application and a display).
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The exit code if this program has ended the session because of a limit, or because the application showed no
/// picture. After a signal, the exit code is 0. If the session can't start, it is 1. Otherwise, it is the exit code in
/// the host's report, which is usually the application's exit code. Without a report, it is derived from the host's
/// exit status, and is never 0.
const EXIT_TERMINATED: u8 = 70;

/// The capture method for the application.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CaptureMethod {
    /// Capture of a virtual display, as with `openuvr host --virtual`
    Screen,
    /// Capture inside the application's process, as with `openuvr run`
    Run,
    /// OpenXR application, as with `openuvr xr`
    Xr,
    /// Application that links libopenuvr, as with `openuvr run --api`
    Api,
}

/// The kind of the display.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DisplayKind {
    /// An X server with a virtual screen
    Xvfb,
    /// The host's own Wayland compositor
    Wayland,
}

impl DisplayKind {
    /// The value of the host's setting.
    fn name(self) -> &'static str {
        match self {
            DisplayKind::Xvfb => "xvfb",
            DisplayKind::Wayland => "wayland",
        }
    }
}

/// Run one session of a portal: display, application, host and browser gateway
///
/// Prints one line of JSON when the session can be played ("session", "web", "fingerprint", "native", "key"), and
/// another line when the session has ended ("session", "code", "why"); everything else goes to standard error. Native
/// clients authenticate with a ticket of the portal. Browsers use the portal's page; the portal relays their signalling
/// over HTTPS at the address in "web", or over the Unix socket in "web" (--portal-socket). This address serves only the
/// portal: GET /session/signalling, GET /session, POST /session/renew, POST /session/dismiss, POST /session/stop. The
/// session ends when its application ends, when the portal stops the session, when a limit is exceeded (--memory,
/// --disk, --first-picture), or when the session has no client and the portal does not renew its lease (--lease).
#[derive(clap::Args, Debug)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  openuvr session --id 6f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f5a6b --ticket-key KEY --save /saves/maria -- xterm
  openuvr session --id UUID --ticket-key KEY --listen 192.168.1.5 --capture run --memory 4G -- supertuxkart
  openuvr session --id UUID --ticket-key KEY --sandbox --readable /srv/games -- /srv/games/quake
  openuvr session --id UUID --ticket-key KEY --capture api -- ./an-application-that-links-libopenuvr"
)]
pub struct Args {
    /// UUID of the session
    #[arg(long, value_name = "UUID")]
    id: SessionUuid,
    /// Public key of the portal that signs the tickets
    #[arg(long, value_name = "KEY")]
    ticket_key: TicketKey,
    /// User name for OPENUVR_USER in the application's environment
    #[arg(long, value_name = "NAME", default_value = "")]
    user: String,
    /// Capture method
    #[arg(long, value_enum, default_value = "screen")]
    capture: CaptureMethod,
    /// Size of the display
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1280x720", value_parser = size)]
    size: Size,
    /// Act as the window manager: let the first window fill the display, with dialogs centred over it. Set it to false
    /// for desktop sessions, and for window managers that cannot replace a running window manager (openbox --replace
    /// can)
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    place: bool,
    /// Kind of the display; wayland is for Wayland applications, requires --capture screen, and cannot be combined with
    /// --application-user
    #[arg(long, value_enum, default_value = "xvfb")]
    virtual_with: DisplayKind,
    /// Maximum frame rate [default: the host's]
    #[arg(long, value_name = "NUMBER")]
    fps: Option<f64>,
    /// Persistent home folder of the application; only one session at a time can use it [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// End the session after this many seconds without a client and without a lease renewal
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lease: u32,
    /// Address to listen on: the host uses PORT, and the portal and browsers use the next port; without PORT, free
    /// ports are chosen
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1", value_parser = listen)]
    listen: SocketAddr,
    /// Accept the portal's requests at a Unix socket in the session's folder instead of a TCP port. The portal must run on
    /// this machine
    #[arg(long)]
    portal_socket: bool,
    /// Address announced to the portal, and to browsers for media [default: OPENUVR_ADDRESS, otherwise the address of
    /// --listen]
    #[arg(long, value_name = "ADDRESS")]
    reached_as: Option<IpAddr>,
    /// Limit on the total private memory of the session's processes, in bytes; the suffixes K, M and G are allowed
    /// [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    /// Limit on the total disk space of the application's home and temporary files, in bytes; the suffixes K, M and G
    /// are allowed
    #[arg(long, value_name = "BYTES", default_value = "4G", value_parser = bytes)]
    disk: u64,
    /// End the session if the application has shown no picture after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    first_picture: u32,
    /// Run the application as this account, with its groups; requires root and --capture screen, since other methods run the
    /// host inside the application
    #[arg(long, value_name = "NAME")]
    application_user: Option<String>,
    /// Run the application in a bubblewrap sandbox: it sees only its own processes, can write only to its home and
    /// temporary files, and can read only system files and its own files. The host's keys are hidden, except with
    /// --capture run, xr and api, which run the host inside the application
    #[arg(long)]
    sandbox: bool,
    /// File or folder that is readable in the sandbox, for an application outside /usr and /opt; may be repeated
    #[arg(long, value_name = "PATH", requires = "sandbox")]
    readable: Vec<PathBuf>,
    /// Additional setting of the host, such as --set encoder=jpeg; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Program to start, with its arguments
    #[arg(value_name = "APP", required = true, last = true)]
    words: Vec<OsString>,
}

impl Args {
    /// The address to announce, if it differs from `--listen`.
    fn announced_address(&self) -> Option<IpAddr> {
        self.reached_as.or_else(address_of_machine)
    }
}

fn size(text: &str) -> Result<Size, String> {
    let parsed = text.split_once('x').and_then(|(width, height)| {
        let size = Size::new(width.parse().ok()?, height.parse().ok()?);
        let sound = |side: u32| (16..=16_384).contains(&side);
        (sound(size.width) && sound(size.height)).then_some(size)
    });
    parsed.ok_or_else(|| {
        "expected WIDTHxHEIGHT with sides of 16 to 16384 pixels, such as 1280x720".to_owned()
    })
}

/// The address of this machine. The cluster that started this program sets it in the environment, as an address or a
/// name.
fn address_of_machine() -> Option<IpAddr> {
    let name = std::env::var("OPENUVR_ADDRESS").ok()?;
    let mut found = (name.as_str(), 0).to_socket_addrs().ok()?;
    found.next().map(|at| at.ip())
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let alone = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    let place = alone.or_else(|_| parse_address(text));
    place.map_err(|_| "expected an address, such as 192.168.1.5 or 192.168.1.5:4710".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    let refused = || {
        "expected a number of bytes, such as 4G, with K, M or G for 2^10, 2^20 or 2^30".to_owned()
    };
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| refused())?;
    number
        .checked_mul(1 << shift)
        .filter(|n| *n > 0)
        .ok_or_else(refused)
}

/// Runs until the session has ended.
///
/// # Errors
/// Returns an error if signals or orphaned processes cannot be handled. If the session cannot start, the reason is
/// printed as the session's result, and the exit code is 1.
pub fn run(args: Args) -> Result<ExitCode> {
    // The application must not inherit files that a cluster's launcher has left open.
    close_inherited_on_exec();
    let stop = openuvr_terminal::signals::stop_gracefully_on_signals()?;
    set_child_subreaper(Some(getpid()))?;
    let id = args.id;
    let ended = serve(&args, &stop);
    // No process may survive, whatever the result.
    descendants::end_all();
    let (code, why) = match &ended {
        Ok(ended) => (ended.code, ended.why.clone()),
        Err(why) => (1, format!("{why:#}")),
    };
    eprintln!("openuvr session: {why}");
    report::print_line(&serde_json::json!({ "session": id.to_string(), "code": code, "why": why }));
    Ok(ExitCode::from(code))
}

/// The result of a session.
struct SessionEnd {
    code: u8,
    why: String,
}

fn serve(args: &Args, stop: &AtomicBool) -> Result<SessionEnd> {
    if args.application_user.is_some() && args.capture != CaptureMethod::Screen {
        bail!(
            "--application-user requires --capture screen: other capture methods run the host inside the application"
        );
    }
    if args.virtual_with == DisplayKind::Wayland {
        if args.capture != CaptureMethod::Screen {
            bail!(
                "--virtual-with wayland requires --capture screen: other methods use Xvfb or no display"
            );
        }
        if args.application_user.is_some() {
            bail!(
                "--virtual-with wayland cannot be combined with --application-user: only the host's account may connect to \
                 the Wayland display"
            );
        }
    }
    let folder = SessionFolder::create(args.id)?;
    // A host inside the application needs the folder of its keys, which is otherwise hidden from the application.
    let keys = match args.capture {
        CaptureMethod::Screen => Vec::new(),
        _ => vec![folder.keys()],
    };
    let temporary = folder.temporary();
    let confinement = Confinement {
        user: args.application_user.as_deref(),
        sandbox: args.sandbox,
        temporary: &temporary,
        readable: &args.readable,
        writable: &keys,
    };
    confinement.check()?;
    let shared = args.application_user.is_some();
    let saves = SaveFolder::open(args.save.as_deref(), &folder, shared)?;
    if let Some(user) = &args.application_user {
        folder.allow_traversal()?;
        Account::find(user)?.change_owner(&[saves.home(), &temporary])?;
    }
    let words = confinement.command_line(&args.words)?;
    let limits = Limits::new(args.memory, args.disk, [saves.home(), folder.path()]);
    // Games and applications that link the library use the display in their environment; an OpenXR application may need
    // none.
    let display = matches!(args.capture, CaptureMethod::Run | CaptureMethod::Api)
        .then(|| VirtualDisplay::start(args.size, Some(folder.path()), args.place));
    let display = display.transpose()?;
    if args.capture == CaptureMethod::Screen {
        // The host starts the display. This process connects to that display with the same cookie, to search it for a
        // window.
        set_xauthority(&folder.path().join(AUTHORITY));
    }
    let name = display.as_ref().map(VirtualDisplay::name);
    let mut host = HostProcess::start(args, &words, (&folder, &saves), name)?;
    let ended = supervise(args, &folder, limits, &mut host, stop);
    host.end();
    let ended = ended?;
    // Ends the application before its display.
    descendants::end_all_but(
        &display
            .as_ref()
            .map_or(Vec::new(), |display| display.process_watch()()),
    );
    drop(display);
    Ok(ended)
}

/// Supervises the session until it ends.
fn supervise(
    args: &Args,
    folder: &SessionFolder,
    mut limits: Limits,
    host: &mut HostProcess,
    stop: &AtomicBool,
) -> Result<SessionEnd> {
    let ended_by_us = |why: String| {
        Ok(SessionEnd {
            code: EXIT_TERMINATED,
            why,
        })
    };
    let began = Instant::now();
    let limit = Duration::from_secs(args.first_picture.into());
    let mut running: Option<RunningReport> = None;
    let mut shown = args.capture != CaptureMethod::Screen;
    loop {
        if let Some(status) = host.ended()? {
            return Ok(read_end(folder.path()).map_or_else(
                || unreported_end(status, running.is_some()),
                |end| SessionEnd {
                    code: end.code,
                    why: end.why,
                },
            ));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(SessionEnd {
                code: 0,
                why: "the session was ended by a signal".to_owned(),
            });
        }
        if running.is_none()
            && let Some(at) = read_running(folder.path())
        {
            let at = RunningReport {
                socket: args.portal_socket.then(|| folder.socket()),
                ..at
            };
            report::print_line(&at.line(args.id, args.announced_address()));
            running = Some(at);
        }
        if let Some(at) = running.as_ref().filter(|_| !shown) {
            shown = at.display.as_deref().is_none_or(shows_a_window);
        }
        let pending = running.is_none() || !shown;
        if pending && began.elapsed() >= limit {
            let seconds = limit.as_secs();
            return ended_by_us(format!(
                "the application showed no picture within {seconds} s"
            ));
        }
        if let Some(why) = limits.exceeded() {
            return ended_by_us(why);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The result if the host has ended without reporting one.
fn unreported_end(status: ExitStatus, ran: bool) -> SessionEnd {
    let code = status.code().or(status.signal().map(|signal| signal + 128));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    let when = match ran {
        true => "",
        false => " before the session could be played",
    };
    SessionEnd {
        code: code.max(1),
        why: format!("the host of the session ended{when}: {status}"),
    }
}

/// The streaming process: `openuvr host`, `run` or `xr`.
struct HostProcess(Child);

impl HostProcess {
    fn start(
        args: &Args,
        application: &[OsString],
        (folder, saves): (&SessionFolder, &SaveFolder),
        display: Option<&str>,
    ) -> Result<HostProcess> {
        let settings = args.settings.iter();
        let settings = settings.map(|setting| match setting.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(format!("--{name}={value}")),
            _ => bail!("--set {setting}: expected NAME=VALUE"),
        });
        let settings = settings.collect::<Result<Vec<String>>>()?;
        // This path works even if the executable has been replaced since this program was started.
        let mut command = Command::new("/proc/self/exe");
        host_command::add_arguments(args, folder, &mut command);
        command.args(settings).arg("--").args(application);
        host_command::set_environment(args, folder, saves, display, &mut command);
        #[expect(clippy::disallowed_methods, reason = "only its descriptor is used")]
        let log = std::io::stderr().as_fd().try_clone_to_owned()?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::from(log))
            // A signal to this program's process group must not reach the host. This program handles the signal, and
            // ends the session's processes in order.
            .process_group(0);
        // The host ends gracefully when this program has ended, for whatever reason.
        die_with_parent(&mut command);
        let child = command.spawn();
        child.map(HostProcess).context("can't start the host")
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }

    /// Ends the host, gracefully if possible.
    fn end(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let (Some(pid), Ok(None)) = (pid, self.0.try_wait()) {
            let _ = kill_process(pid, Signal::TERM);
            let until = Instant::now() + END_TIMEOUT;
            while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_values_are_parsed_or_rejected() {
        assert_eq!(bytes("4G"), Ok(4 << 30));
        assert_eq!(bytes("512"), Ok(512));
        for bad in ["", "K", "-1", "0", "1T", "99999999999G"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(size("640x480"), Ok(Size::new(640, 480)));
        for bad in ["640", "x", "0x0", "640x99999", "640x480x24"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(listen("::1"), Ok("[::1]:0".parse().unwrap()));
        assert_eq!(
            listen("10.0.0.7:4710"),
            Ok("10.0.0.7:4710".parse().unwrap())
        );
        assert!(listen("desk").is_err());
    }
}
