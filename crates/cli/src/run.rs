//! `openuvr run`: starts a game with the hook loaded, and prints the messages of the host inside the game.
//!
//! ```text
//! openuvr run ─► game (LD_PRELOAD=libopenuvr_hook.so, a Vulkan layer, OPENUVR_RUN=socket)
//!      ▲           └─► first swap: connects, receives its settings, streams to the clients itself
//!      └── reports ────┘
//! ```
//! Only pictures for browsers, video players, Moonlight clients and a recording pass through this process, because it
//! contains the gateways ([`Gateways`]). If this program is killed, the game continues without a stream.

mod signals;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::Result;
use clap::ArgMatches;
use openuvr_clock as clock;
use openuvr_discovery::{Announcer, HostInfo};
use openuvr_media::input_sink::xtest::release_held;
use openuvr_report::{Options, Recorder};
use openuvr_runtime::host::Notice;
use openuvr_runtime::host::config::{Config, udp_address};
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};
use openuvr_runtime::launch::{self, Application, GamePads, LAUNCH_TIMEOUT, LaunchError, Socket};
use openuvr_runtime::launch_protocol::{LaunchReport, LaunchSettings};
use openuvr_runtime::remote::NAME;
use openuvr_session::report::{self, reporter};
use openuvr_session::stand_in::StandIn;
use openuvr_session::{Fit, PseudoTerminal, VirtualAudio, descendants, no_picture};
use openuvr_terminal::usage::UsageError;

use crate::clients::{Clients, HostState, TICK, print_pairing_command};
use crate::config::{HostConfig, RunConfig};
use crate::gateways::{self, Gateways};

use signals::{GRACE_PERIOD, GracePeriod, Signals};

/// The interval of checks for signals and for the game's end; reports of the hook are processed at once.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// After this time without a picture, the possible causes are printed (guess: large games take this long to load).
const NO_PICTURE_DELAY: Duration = Duration::from_secs(15);

/// How long a cause must persist before it is printed (guess: short-lived helper programs of a game end sooner).
const CAUSE_DELAY: Duration = Duration::from_secs(3);

/// The interval of checks for the cause of missing pictures (guess: short enough to find the cause in short-lived
/// programs).
const CAUSE_INTERVAL: Duration = Duration::from_secs(1);

/// The usual causes if a game presents no pictures.
const NO_PICTURE_HINT: &str = "Possible causes: the game is a 32-bit, static or setuid program, has a capability, or \
                               draws with neither OpenGL nor Vulkan; try `openuvr host --window`";

/// The usual causes if an application that links the library presents no pictures.
const NO_PICTURE_HINT_API: &str = "Possible causes: the application does not link libopenuvr, links a version older \
                                   than this program, or does not start its host (`openuvr_init_thread`)";

/// The program to start: a game with the hook loaded, an application that links libopenuvr, or an OpenXR application on
/// OpenUVR's runtime.
pub(crate) struct Launch<'a> {
    /// The name of the subcommand, printed before each message.
    pub(crate) subcommand: &'static str,
    /// The term for the program in messages: `game` or `application`.
    pub(crate) noun: &'static str,
    /// The usual causes if there are no pictures.
    pub(crate) no_picture_hint: &'static str,
    /// A hint that is printed if an application ends without an error and its standard input is not a terminal.
    pub(crate) early_end_hint: Option<&'static str>,
    pub(crate) host: &'a HostConfig,
    pub(crate) settings: LaunchSettings,
    /// The program and its arguments.
    pub(crate) words: &'a [OsString],
    /// The hook's path, and the number of pads that are present from the start; `None` without game pads. The library
    /// that emulates game pads is in the hook's folder.
    pub(crate) pads: Option<(&'a Path, u8)>,
    /// Whether a stand-in host streams the program's windows until the program itself presents pictures.
    pub(crate) uses_stand_in: bool,
    /// The library to load into each process of the program, if any.
    pub(crate) hook: Option<&'a Path>,
    /// Creates the command that starts the program.
    pub(crate) command: &'a dyn Fn(&Socket) -> Result<Command, LaunchError>,
}

/// The process of the stand-in host, if it runs. It is a child of this program that does not belong to the game.
fn helpers(stand_in: Option<&StandIn>) -> Vec<u32> {
    stand_in.map(StandIn::processes).unwrap_or_default()
}

/// If the system chose the port of this host, makes the next host use the same port, so that clients can reconnect.
fn keep_port(
    settings: &mut LaunchSettings,
    socket: &mut Socket,
    report: &LaunchReport,
) -> Result<()> {
    if let LaunchReport::Streaming {
        endpoint: place, ..
    } = report
        && let (0, Some(address)) = (settings.host.bind.port(), udp_address(place))
    {
        settings.host.bind.set_port(address.port());
        socket.set_settings(settings)?;
    }
    Ok(())
}

/// Runs until the game and the processes that present its pictures have ended.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let (effective, words) = RunConfig::with_game(matches)?;
    if let Some(text) = effective.printed {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let config = effective.config;
    openuvr_terminal::log_to_stderr(config.host.log);
    // Errors are reported before the game is started, not inside it.
    Config::from(&config.host)
        .check()
        .map_err(UsageError::new)?;
    let settings = LaunchSettings {
        input: config.host.injects(),
        window: config.window.clone(),
        eye: None,
        gateways: gateways::are_configured(&config.host),
        host: (&config.host).into(),
    };
    if config.api {
        return supervise(Launch {
            subcommand: "run",
            noun: "application",
            no_picture_hint: NO_PICTURE_HINT_API,
            early_end_hint: None,
            host: &config.host,
            settings,
            words: &words,
            pads: None,
            uses_stand_in: false,
            hook: None,
            command: &|socket| launch::api_command(&words, socket),
        });
    }
    let library = launch::library(config.hook.as_deref())?;
    supervise(Launch {
        subcommand: "run",
        noun: "game",
        no_picture_hint: NO_PICTURE_HINT,
        early_end_hint: None,
        host: &config.host,
        settings,
        words: &words,
        pads: config.host.pads.seats().map(|seats| (&*library, seats)),
        // If the stream is restricted to one window, the stand-in must not stream other windows.
        uses_stand_in: config.window.is_none(),
        hook: Some(&library),
        command: &|socket| launch::command(&words, &library, socket),
    })
}

/// Starts the program, and supervises it until its end.
pub(crate) fn supervise(launch: Launch<'_>) -> Result<ExitCode> {
    let Launch {
        subcommand,
        noun,
        no_picture_hint,
        early_end_hint,
        host,
        mut settings,
        words,
        pads,
        uses_stand_in,
        hook,
        command,
    } = launch;
    if let Some(warning) = host.encoder_warning() {
        eprintln!("openuvr {subcommand}: {warning}");
    }
    // The virtual sound device exists as long as the game runs.
    let mut sound = VirtualAudio::create(&mut settings.host.sound, &mut settings.host.microphone)?;
    let recorder = Recorder::new(&Options::from(host))?;
    let mut announcer = announcer(subcommand, host, words);
    let display = std::env::var("DISPLAY").unwrap_or_default();
    let mut fit = Fit::open_if(host.fits(), subcommand, &display);
    let (mut signals, mut grace_period) = (Signals::catch()?, GracePeriod::default());
    let mut socket = Socket::open(&settings)?;
    let gateways = Gateways::open_remote(subcommand, host, socket.folder().join(NAME))?;
    let mut command = command(&socket)?;
    // The game must not report to the parent `openuvr session`.
    command.env_remove(report::FOLDER);
    sound.set_environment(&mut command);
    let pads = game_pads(subcommand, pads, &mut socket)?;
    if let Some(pads) = &pads {
        pads.attach_to(&mut command);
    }
    let mut terminal = PseudoTerminal::attach(&mut command);
    let mut stand_in = uses_stand_in.then(|| StandIn::new(subcommand, &display));
    let earlier: Vec<u32> = descendants::running()
        .iter()
        .map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
        .collect();
    let mut game = Application::start(command)?;
    let mut clients = Clients::new(subcommand, recorder);
    let began = clock::now();
    let (mut tick_at, mut quiet_since, mut hint_printed) = (began, began, false);
    let mut refused = false;
    let mut hints_pairing = reporter().is_none();
    // `known_cause` holds the cause of missing pictures, if known, and the time at which it was first found.
    let (mut check_cause_at, mut known_cause) = (began, None);
    loop {
        for report in socket.reports(POLL_INTERVAL) {
            announce(subcommand, announcer.as_mut(), &host.config_dir, &report);
            report_running(subcommand, gateways.as_ref(), &host.config_dir, &report);
            let streams = matches!(report, LaunchReport::Streaming { .. });
            keep_port(&mut settings, &mut socket, &report)?;
            if let (Some(fit), LaunchReport::Notice(Notice::PlayerWindow(size))) =
                (&mut fit, &report)
            {
                fit.request(*size, clock::now());
            }
            let first = socket.streaming().filter(|_| streams);
            if first.is_some_and(no_picture::has_no_network) {
                eprintln!(
                    "openuvr {subcommand}: no native client can reach the {noun}: its network namespace has no \
                     interface (as with bwrap --unshare-net); start it with network access"
                );
            } else {
                refused |= matches!(
                    report,
                    LaunchReport::Notice(Notice::Warning(_) | Notice::NoPicture | Notice::Lost(_))
                );
                handle_report(&mut clients, (subcommand, noun), report);
            }
            // Standard input belongs to the game, so pairing cannot be opened by typing a command here.
            if streams && std::mem::take(&mut hints_pairing) {
                print_pairing_command(subcommand, &host.config_dir);
            }
            if let Some(gateways) = gateways.as_ref().filter(|_| streams)
                && let Err(why) = gateways.start_recording()
            {
                eprintln!("openuvr {subcommand}: {why}");
            }
            if let Some(why) = sound.silent.take_if(|_| streams) {
                eprintln!("openuvr {subcommand}: {why}");
            }
        }
        release_orphaned_input(&mut socket);
        let now = clock::now();
        // The stream of one process has ended, but another process may already be streaming.
        if socket.take_stream_end() {
            clients.on_host_ended();
            pads.iter().for_each(GamePads::release_all);
            if let Some(fit) = &mut fit {
                fit.request(None, now);
            }
        }
        if now >= tick_at {
            clients.tick(now);
            if let Some(stand_in) = &mut stand_in {
                stand_in.tick(&mut socket, now);
            }
            // This call also reaps child processes that have ended.
            game.has_orphans(&helpers(stand_in.as_ref()));
            let over = gateways.as_ref().and_then(|g| g.is_over(clients.count()));
            if let Some(over) = over {
                end_session(subcommand, &over);
            }
            pads.iter().for_each(GamePads::sync_devices);
            if let Some(announcer) = &mut announcer {
                if !socket.is_served() {
                    announcer.ended();
                }
                announcer.tick(now);
            }
            if let Some(fit) = &mut fit {
                fit.tick(now);
            }
            if let Some(terminal) = &mut terminal {
                terminal.resize();
            }
            tick_at = now + TICK;
        }
        let pending = signals.pending();
        game.forward_signals(&pending, socket.streaming());
        if grace_period.is_over(&pending, now) && game.ended().is_none() {
            eprintln!(
                "openuvr {subcommand}: the {noun} is still running {} s after the signal; to kill it: kill -KILL {}",
                GRACE_PERIOD.as_secs(),
                game.id()
            );
        }
        if socket.is_served() || game.ended().is_none() {
            quiet_since = now;
        }
        if let Some(hook) = hook.filter(|_| !socket.was_used() && now >= check_cause_at) {
            check_cause_at = now + CAUSE_INTERVAL;
            known_cause = no_picture::without_hook(hook, &earlier)
                .map(|why| (known_cause.map_or(now, |(since, _)| since), why));
        }
        let hint_due = match &known_cause {
            Some((since, _)) => now.since(*since) >= CAUSE_DELAY,
            None => !socket.is_served() && now.since(began) >= NO_PICTURE_DELAY,
        };
        if !socket.was_used() && !hint_printed && hint_due {
            hint_printed = true;
            let why = known_cause.as_ref().map_or(no_picture_hint, |(_, why)| why);
            eprintln!("openuvr {subcommand}: no picture yet. {why}");
        }
        let launching = now.since(quiet_since) < LAUNCH_TIMEOUT;
        if game.ended().is_some()
            && !socket.is_served()
            && !(launching && game.has_orphans(&helpers(stand_in.as_ref())))
        {
            break;
        }
    }
    drop(stand_in);
    for report in socket.reports(Duration::ZERO) {
        handle_report(&mut clients, (subcommand, noun), report);
    }
    release_orphaned_input(&mut socket);
    if let Some(terminal) = terminal {
        terminal.finish();
    }
    if let Some(gateways) = gateways {
        gateways.finish(host);
    }
    let complete = clients.finish();
    let status = game.ended();
    print_end((subcommand, noun), status, socket.was_used(), || {
        // A hint that has already been printed is not repeated.
        let why = known_cause.map_or(no_picture_hint.to_owned(), |(_, why)| why);
        (!hint_printed && !refused).then_some(why)
    });
    // The hint applies even without a picture: on a busy machine, the application reads the end of its input before the
    // first frame.
    if let (Some(why), true) = (early_end_hint, ended_well(status))
        && !io::stdin().is_terminal()
    {
        eprintln!("openuvr {subcommand}: the {noun} exited normally. {why}");
    }
    if let Some(reporter) = reporter() {
        let without = if socket.was_used() {
            ""
        } else {
            " without a picture"
        };
        let how = status.map_or(String::new(), |status| format!(": {status}"));
        reporter.report_end(
            code_of(status),
            format!("the {noun} has ended{without}{how}"),
        );
    }
    match complete {
        Err(why) if ended_well(status) => Err(why),
        Err(why) => {
            eprintln!("openuvr {subcommand}: {why}");
            Ok(exit_code(status))
        }
        Ok(()) => Ok(exit_code(status)),
    }
}

fn ended_well(status: Option<ExitStatus>) -> bool {
    status.is_some_and(|status| status.success())
}

/// Prints how a game ended if it presented no picture or was killed. Adds the usual causes unless the exit status
/// explains the missing picture.
fn print_end(
    (subcommand, noun): (&str, &str),
    status: Option<ExitStatus>,
    shown: bool,
    no_picture_hint: impl FnOnce() -> Option<String>,
) {
    let (end, explains) = status.map_or((String::new(), false), no_picture::end);
    match (shown, explains) {
        (true, true) => eprintln!("openuvr {subcommand}: the {noun} ended: {end}"),
        (true, false) => {}
        (false, true) => {
            eprintln!("openuvr {subcommand}: the {noun} has ended without a picture: {end}")
        }
        (false, false) => {
            let why = no_picture_hint().map_or(String::new(), |why| format!(". {why}"));
            eprintln!("openuvr {subcommand}: the {noun} has ended without a picture: {end}{why}");
        }
    }
}

/// Creates the emulated game pads of the game, if configured.
fn game_pads(
    subcommand: &str,
    wanted: Option<(&Path, u8)>,
    socket: &mut Socket,
) -> Result<Option<GamePads>> {
    let Some((hook, seats)) = wanted else {
        return Ok(None);
    };
    match GamePads::prepare(hook, socket, seats) {
        Ok(pads) => Ok(Some(pads)),
        Err(why @ LaunchError::NoPads(_)) => {
            eprintln!("openuvr {subcommand}: {why}");
            Ok(None)
        }
        Err(why) => Err(why.into()),
    }
}

/// The mDNS announcer for the game's host, unless the configuration disables it. It runs in this process, never in
/// the game's.
fn announcer(subcommand: &'static str, host: &HostConfig, words: &[OsString]) -> Option<Announcer> {
    let program = words.first().map(Path::new).and_then(Path::file_name);
    let about = HostInfo {
        name: host.name.clone(),
        shows: program.map(|name| name.to_string_lossy().into_owned()),
    };
    (host.discoverable).then(|| Announcer::new(subcommand, about))
}

/// Forwards a report of the game's host to the announcer.
fn announce(
    subcommand: &str,
    announcer: Option<&mut Announcer>,
    config_dir: &Path,
    report: &LaunchReport,
) {
    let Some(announcer) = announcer else {
        return;
    };
    let now = clock::now();
    announcer.on_report(report, now);
    if let LaunchReport::Streaming {
        endpoint: place, ..
    } = report
        && let Some(address) = udp_address(place)
    {
        // The key file exists, because the host has already loaded it.
        match load_or_create(config_dir, KeyOwner::Host) {
            Ok(identity) => {
                announcer.announce_at(address, identity.public().fingerprint(), now);
            }
            Err(why) => eprintln!("openuvr {subcommand}: can't announce the host: {why}"),
        }
    }
}

/// At the end of a portal's session, prints and reports the reason `over`, and ends the processes that this program has
/// started.
fn end_session(subcommand: &str, over: &dyn Display) {
    eprintln!("openuvr {subcommand}: {over}");
    if let Some(reporter) = reporter() {
        reporter.report_end(0, over.to_string());
    }
    descendants::end_started();
}

/// Reports to the parent `openuvr session` that the session can be played.
fn report_running(
    subcommand: &str,
    gateways: Option<&Gateways>,
    config_dir: &Path,
    report: &LaunchReport,
) {
    let (
        Some(reporter),
        LaunchReport::Streaming {
            endpoint: place, ..
        },
    ) = (reporter(), report)
    else {
        return;
    };
    match load_or_create(config_dir, KeyOwner::Host) {
        Ok(identity) => {
            let page = gateways.and_then(Gateways::page);
            reporter.report_running(udp_address(place), &identity.public(), page, None);
        }
        Err(why) => eprintln!("openuvr {subcommand}: can't report the session: {why}"),
    }
}

/// The exit code of the game. After a signal, it is the code that a shell would return.
pub(crate) fn exit_code(status: Option<ExitStatus>) -> ExitCode {
    ExitCode::from(code_of(status))
}

/// Like [`exit_code`], but returns a number.
pub(crate) fn code_of(status: Option<ExitStatus>) -> u8 {
    let code = status.and_then(|status| {
        let signal = status.signal().map(|signal| signal + 128);
        status.code().or(signal)
    });
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Releases the keys and buttons that ended processes had pressed, because a killed process could not release them.
fn release_orphaned_input(socket: &mut Socket) {
    for display in socket.abandoned_displays() {
        // On a closed display, nothing is pressed.
        if let Err(e) = release_held(Some(&display)) {
            tracing::debug!("{e}");
        }
    }
}

/// Prints a report of the game's host. The end of the stream does not end the game.
fn handle_report(clients: &mut Clients, (subcommand, noun): (&str, &str), report: LaunchReport) {
    if let HostState::Failed(why) = clients.handle(report) {
        eprintln!("openuvr {subcommand}: {why}; the {noun} continues without a stream");
    }
}
