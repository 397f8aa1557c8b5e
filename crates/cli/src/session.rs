//! `openuvr session`: one session of a portal. It starts a display, the application, and a host that the portal lets
//! browsers into, and sees to it that all of it ends together.
//!
//! ```text
//! launcher ─► openuvr session ─► openuvr host | run | xr ─► display, application
//!              │ limits, saves      │ stream, page, lease
//!              ◄── report.json ─────┘ in a folder of this session alone
//! ```
//! Nothing of it depends on who starts it: a portal on this machine, a job of Slurm, a container. It says in one
//! line of JSON where the session is when it runs, and in another how it ended. If this program is killed, the host
//! hears of it from the kernel, and ends the application; if the host is killed, this program does. What both lose
//! sight of becomes this program's child (prctl(2), PR_SET_CHILD_SUBREAPER).

mod folder;
mod inner;
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
use crate::session_report::{self as report, AUTHORITY, Running, read_end, read_running};
use crate::sys::{die_with_parent, keep_inherited, name_authority};
use crate::virtual_display::{VirtualDisplay, shows_a_window};

use folder::{Saves, SessionFolder};
use limits::Limits;

/// How often the children and the limits are looked at.
const TURN: Duration = Duration::from_millis(50);

/// How long the host may take to say goodbye and to end the application, before both are killed: what it gives
/// an application, and what a display takes (guess).
const END: Duration = Duration::from_secs(10);

/// The code of a session that this program ended, in place of an application's.
const ENDED_BY_US: u8 = 70;

/// How an application's pictures are taken.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Door {
    /// What it draws on a display of its own, as `openuvr host --virtual`
    Screen,
    /// From inside its process, as `openuvr run`
    Run,
    /// As an OpenXR application, as `openuvr xr`
    Xr,
    /// By the application itself, which links libopenuvr, as `openuvr run --api`
    Api,
}

/// Run one session of a portal: a display, an application, a host, and a page to play it at
///
/// It writes one line of JSON when the session can be played ("web", "fingerprint", "native", "key"), and one when
/// it has ended ("code", "why"); all else goes to standard error. Native clients show a ticket of the portal. Browsers
/// go to the portal's page; the portal carries their signalling, and asks by HTTPS at "web", where it alone is answered:
/// GET /session/signalling, GET /session, POST /session/renew, POST /session/stop. The session ends with its
/// application, when the portal stops it, or when nobody plays and the portal does not renew it.
#[derive(clap::Args, Debug)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  openuvr session --id 6f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f5a6b --ticket-key KEY --save /saves/maria -- xterm
  openuvr session --id UUID --ticket-key KEY --listen 192.168.1.5 --door run --memory 4G -- supertuxkart
  openuvr session --id UUID --ticket-key KEY --sandbox --readable /srv/games -- /srv/games/quake
  openuvr session --id UUID --ticket-key KEY --door api -- ./an-application-that-links-libopenuvr"
)]
pub(crate) struct Args {
    /// Which session this is: its UUID
    #[arg(long, value_name = "UUID")]
    id: SessionUuid,
    /// The key of the portal, whose tickets are taken
    #[arg(long, value_name = "KEY")]
    ticket_key: TicketKey,
    /// Whose session it is: OPENUVR_USER in the application's environment
    #[arg(long, value_name = "NAME", default_value = "")]
    user: String,
    /// How the application's pictures are taken
    #[arg(long, value_enum, default_value = "screen")]
    door: Door,
    /// The size of its display
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1280x720", value_parser = size)]
    size: Size,
    /// Whether an only window fills the display and dialogs lie centred over it; false for desktop sessions, and for
    /// window managers that do not replace another
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    place: bool,
    /// Most frames a second [default: the host's]
    #[arg(long, value_name = "NUMBER")]
    fps: Option<f64>,
    /// A folder that is the application's home and stays; only one session at a time may have it [default: one that
    /// goes with the session]
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// End when nobody was connected, and the portal did not renew the session, for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lease: u32,
    /// The address at which the session is reached; its ports are free ones, unless one is named
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1", value_parser = listen)]
    listen: SocketAddr,
    /// Answer the portal, which is on this machine, at a Unix socket in the session's folder, and at no TCP port
    #[arg(long)]
    portal_socket: bool,
    /// The address that is told to the portal, and to browsers for media [default: that in OPENUVR_ADDRESS, else that of
    /// --listen]
    #[arg(long, value_name = "ADDRESS")]
    reached_as: Option<IpAddr>,
    /// Bytes of memory that all its processes may have of their own, with K, M or G [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    /// Bytes that its home and its temporary files may take on the disk, with K, M or G
    #[arg(long, value_name = "BYTES", default_value = "4G", value_parser = bytes)]
    disk: u64,
    /// End when the application has shown nothing within so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    first_picture: u32,
    /// Start the application as this account, with its groups: for that this program must be root. With --door
    /// screen alone, since otherwise the host is in the application
    #[arg(long, value_name = "NAME")]
    application_user: Option<String>,
    /// Start the application in a sandbox of bubblewrap: it sees its own processes alone, can write to its home and
    /// temporary files alone, and can read the system's files and its own. The host's keys are not among them, but
    /// with --door run, xr and api the host is in the application
    #[arg(long)]
    sandbox: bool,
    /// A file or folder that can be read in the sandbox, for an application that is installed elsewhere than in
    /// /usr or /opt; may be repeated
    #[arg(long, value_name = "PATH", requires = "sandbox")]
    readable: Vec<PathBuf>,
    /// A further setting of the host, as in --set encoder=jpeg; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// The program to start, with its arguments
    #[arg(value_name = "APP", required = true, last = true)]
    words: Vec<OsString>,
}

impl Args {
    /// The address that people are told, if it is not that of `--listen`.
    fn told_address(&self) -> Option<IpAddr> {
        self.reached_as.or_else(address_of_machine)
    }
}

fn size(text: &str) -> Result<Size, String> {
    let parsed = text.split_once('x').and_then(|(width, height)| {
        let size = Size::new(width.parse().ok()?, height.parse().ok()?);
        let sound = |side: u32| (16..=16_384).contains(&side);
        (sound(size.width) && sound(size.height)).then_some(size)
    });
    parsed.ok_or_else(|| "a size is WIDTHxHEIGHT, as in 1280x720".to_owned())
}

/// What the cluster that started this says of the machine: an address, or a name of it.
fn address_of_machine() -> Option<IpAddr> {
    let said = std::env::var("OPENUVR_ADDRESS").ok()?;
    let mut found = (said.as_str(), 0).to_socket_addrs().ok()?;
    found.next().map(|at| at.ip())
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let alone = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    let place = alone.or_else(|_| parse_address(text));
    place.map_err(|_| "an address is 192.168.1.5, or with a port 192.168.1.5:4710".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    let refused = || "a number of bytes, with K, M or G for 2^10, 2^20, 2^30".to_owned();
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
/// One line: it can't begin. It has said so as its end, too.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    // What a cluster's launcher left open is not for the application.
    keep_inherited();
    let stop = openuvr_terminal::signals::stop_in_order()?;
    set_child_subreaper(Some(getpid()))?;
    let id = args.id;
    let ended = serve(&args, &stop);
    // Whatever happened: nothing goes on.
    descendants::end_all();
    let (code, why) = match &ended {
        Ok(ended) => (ended.code, ended.why.clone()),
        Err(why) => (1, format!("{why:#}")),
    };
    eprintln!("openuvr session: {why}");
    report::say(&serde_json::json!({ "session": id.to_string(), "code": code, "why": why }));
    Ok(ExitCode::from(code))
}

/// How a session ended.
struct Ended {
    code: u8,
    why: String,
}

fn serve(args: &Args, stop: &AtomicBool) -> Result<Ended> {
    if args.application_user.is_some() && args.door != Door::Screen {
        bail!(
            "--application-user is for --door screen: by other doors the host is in the application"
        );
    }
    let folder = SessionFolder::make(args.id)?;
    // What the host in the application needs of the folder that is hidden from it.
    let keys = match args.door {
        Door::Screen => Vec::new(),
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
    let saves = Saves::open(args.save.as_deref(), &folder, shared)?;
    if let Some(user) = &args.application_user {
        folder.let_through()?;
        Account::find(user)?.give(&[saves.home(), &temporary])?;
    }
    let words = confinement.words(&args.words)?;
    let limits = Limits::new(args.memory, args.disk, [saves.home(), folder.path()]);
    // A game needs a display, and takes the one it finds, as may what links the library; an OpenXR application may
    // have none.
    let display = matches!(args.door, Door::Run | Door::Api)
        .then(|| VirtualDisplay::start(args.size, Some(folder.path()), args.place));
    let display = display.transpose()?;
    if args.door == Door::Screen {
        // The host's, on which this process looks for a window.
        name_authority(&folder.path().join(AUTHORITY));
    }
    let name = display.as_ref().map(VirtualDisplay::name);
    let mut host = Host::start(args, &words, (&folder, &saves), name)?;
    let ended = follow(args, &folder, limits, &mut host, stop);
    host.end();
    let ended = ended?;
    // What it held of the display goes first.
    descendants::end_all_but(
        &display
            .as_ref()
            .map_or(Vec::new(), VirtualDisplay::processes),
    );
    drop(display);
    Ok(ended)
}

/// Looks after the session until it ends.
fn follow(
    args: &Args,
    folder: &SessionFolder,
    mut limits: Limits,
    host: &mut Host,
    stop: &AtomicBool,
) -> Result<Ended> {
    let ended_by_us = |why: String| {
        Ok(Ended {
            code: ENDED_BY_US,
            why,
        })
    };
    let began = Instant::now();
    let patience = Duration::from_secs(args.first_picture.into());
    let mut running: Option<Running> = None;
    let mut shown = args.door != Door::Screen;
    loop {
        if let Some(status) = host.ended()? {
            return Ok(read_end(folder.path()).map_or_else(
                || lost_host(status, running.is_some()),
                |end| Ended {
                    code: end.code,
                    why: end.why,
                },
            ));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(Ended {
                code: 0,
                why: "the session was told to end by a signal".to_owned(),
            });
        }
        if running.is_none()
            && let Some(at) = read_running(folder.path())
        {
            let at = Running {
                socket: args.portal_socket.then(|| folder.socket()),
                ..at
            };
            report::say(&at.line(args.id, args.told_address()));
            running = Some(at);
        }
        if let Some(at) = running.as_ref().filter(|_| !shown) {
            shown = at.display.as_deref().is_none_or(shows_a_window);
        }
        let waits = running.is_none() || !shown;
        if waits && began.elapsed() >= patience {
            let seconds = patience.as_secs();
            return ended_by_us(format!(
                "the application has shown nothing within {seconds} s"
            ));
        }
        if let Some(why) = limits.exceeded() {
            return ended_by_us(why);
        }
        std::thread::sleep(TURN);
    }
}

/// The host went without a word.
fn lost_host(status: ExitStatus, ran: bool) -> Ended {
    let code = status.code().or(status.signal().map(|signal| signal + 128));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    let when = match ran {
        true => "",
        false => " before the session could be played",
    };
    Ended {
        code: code.max(1),
        why: format!("the host of the session ended{when}: {status}"),
    }
}

/// The process that streams: `openuvr host`, `run` or `xr`.
struct Host(Child);

impl Host {
    fn start(
        args: &Args,
        application: &[OsString],
        (folder, saves): (&SessionFolder, &Saves),
        display: Option<&str>,
    ) -> Result<Host> {
        let settings = args.settings.iter();
        let settings = settings.map(|setting| match setting.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(format!("--{name}={value}")),
            _ => bail!("--set {setting}: a setting is NAME=VALUE"),
        });
        let settings = settings.collect::<Result<Vec<String>>>()?;
        // Also where the file was replaced since this program was started.
        let mut command = Command::new("/proc/self/exe");
        inner::words(args, folder, &mut command);
        command.args(settings).arg("--").args(application);
        inner::surround(args, folder, saves, display, &mut command);
        #[expect(
            clippy::disallowed_methods,
            reason = "its descriptor: nothing is written"
        )]
        let log = std::io::stderr().as_fd().try_clone_to_owned()?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::from(log))
            // Who ends the session by a signal to a group ends this program, which ends the rest in order.
            .process_group(0);
        // It ends in order when this program is gone, however that ended.
        die_with_parent(&mut command);
        let child = command.spawn();
        child
            .map(Host)
            .context("no process can be started that streams")
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }

    /// Ends it, in order if it can.
    fn end(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let (Some(pid), Ok(None)) = (pid, self.0.try_wait()) {
            let _ = kill_process(pid, Signal::TERM);
            let until = Instant::now() + END;
            while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(TURN);
            }
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_command_line_are_read_or_refused() {
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
