//! `openuvr run`: starts a game with the hook in it, and prints the messages of the host that runs inside the
//! game.
//!
//! ```text
//! openuvr run ─► game (LD_PRELOAD=libopenuvr_hook.so, a Vulkan layer, OPENUVR_RUN=socket)
//!      ▲           └─► first swap: connects, receives its settings, streams to the clients itself
//!      └── lines ──────┘
//! ```
//! Only pictures for browsers, video players and a recording pass through this process, which contains their gateways
//! ([`Gateways`]). If this program is killed, the game continues without a stream.

mod cause;
mod signals;
pub(crate) mod stand_in;
pub(crate) mod terminal;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::Result;
use clap::ArgMatches;
use openuvr_gateway::lease::Over;
use openuvr_media::input_sink::xtest::release_held;
use openuvr_runtime::clock;
use openuvr_runtime::host::config::{Config, address_in};
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};
use openuvr_runtime::launch::{self, Application, GamePads, LAUNCHING, LaunchError, Socket};
use openuvr_runtime::line::{Line, Order};
use openuvr_runtime::remote::NAME;

use crate::clients::{Clients, HostState, TICK};
use crate::config::{HostConfig, RunConfig};
use crate::descendants;
use crate::fit::Fit;
use crate::gateways::Gateways;
use crate::nearby::{About, Announcer};
use crate::own_sound::OwnSound;
use crate::record::{Options, Recorder};
use crate::session_report::{self as report, reporter};
use openuvr_terminal::usage::WrongUsage;

use signals::{PATIENCE, Patience, Signals};
use stand_in::StandIn;
use terminal::Terminal;

/// The interval of checks for signals and for the game's end; lines of the hook are processed at once.
const TURN: Duration = Duration::from_millis(50);

/// The time without a picture after which a game may not support the hook (guess: a large game loads for that
/// long).
const WONDER: Duration = Duration::from_secs(15);

/// How long a cause must persist before it is printed (guess: short-lived helper programs of a game end sooner).
const SURE: Duration = Duration::from_secs(3);

/// The interval of checks for the cause of missing pictures (guess: programs that end sooner are reported then).
const LOOK: Duration = Duration::from_secs(1);

/// The usual causes of missing pictures of a game.
const WHY_NONE: &str = "Possible causes: it is a 32-bit, static or setuid program, or draws with neither OpenGL nor \
    Vulkan; try `openuvr host --window`";

/// The usual causes of missing pictures of an application that links the library.
const WHY_NONE_OF_API: &str = "Possible causes: it does not link libopenuvr, links a version older than this program, or \
    does not start its host (`openuvr_init_thread`)";

/// The program to start: a game with the hook in it, or an OpenXR application on our runtime.
pub(crate) struct Launch<'a> {
    /// The subcommand, the prefix of each line.
    pub(crate) who: &'static str,
    /// What the messages call the program: `game` or `application`.
    pub(crate) what: &'static str,
    /// The usual causes of missing pictures.
    pub(crate) why_none: &'static str,
    /// A hint for an application that ends without an error, if its standard input is no terminal.
    pub(crate) why_over: Option<&'static str>,
    pub(crate) host: &'a HostConfig,
    pub(crate) order: Order,
    /// The program and its arguments.
    pub(crate) words: &'a [OsString],
    /// The hook, beside which the library of emulated game pads lies, and the number of pads present from the start;
    /// `None` without game pads.
    pub(crate) pads: Option<(&'a Path, u8)>,
    /// Whether a stand-in host shows its windows before it presents pictures.
    pub(crate) stands_in: bool,
    /// The library to load into each of its processes, if any.
    pub(crate) hook: Option<&'a Path>,
    /// Creates the command that starts it.
    pub(crate) command: &'a dyn Fn(&Socket) -> Result<Command, LaunchError>,
}

/// The processes of this program besides the game.
fn helpers(stand_in: Option<&StandIn>) -> Vec<u32> {
    stand_in.map(StandIn::processes).unwrap_or_default()
}

/// Makes the next host use the port of this one, if the system chose it: clients reconnect to it.
fn keep_port(order: &mut Order, socket: &mut Socket, line: &Line) -> Result<()> {
    if let Line::Streaming { place, .. } = line
        && let (0, Some(address)) = (order.host.bind.port(), address_in(place))
    {
        order.host.bind.set_port(address.port());
        socket.order(order)?;
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
        .map_err(WrongUsage::new)?;
    let order = Order {
        input: config.host.injects(),
        window: config.window.clone(),
        eye: None,
        gateways: Gateways::are_wanted(&config.host),
        host: (&config.host).into(),
    };
    if config.api {
        return launched(Launch {
            who: "run",
            what: "application",
            why_none: WHY_NONE_OF_API,
            why_over: None,
            host: &config.host,
            order,
            words: &words,
            pads: None,
            stands_in: false,
            hook: None,
            command: &|socket| launch::api_command(&words, socket),
        });
    }
    let library = launch::library(config.hook.as_deref())?;
    launched(Launch {
        who: "run",
        what: "game",
        why_none: WHY_NONE,
        why_over: None,
        host: &config.host,
        order,
        words: &words,
        pads: config.host.pads.seats().map(|seats| (&*library, seats)),
        // A restriction to one window excludes the others.
        stands_in: config.window.is_none(),
        hook: Some(&library),
        command: &|socket| launch::command(&words, &library, socket),
    })
}

/// Starts the program, and supervises it until its end.
pub(crate) fn launched(launch: Launch<'_>) -> Result<ExitCode> {
    let Launch {
        who,
        what,
        why_none,
        why_over,
        host,
        mut order,
        words,
        pads,
        stands_in,
        hook,
        command,
    } = launch;
    // It lives as long as the game.
    let mut sound = OwnSound::make(&mut order.host.sound, &mut order.host.microphone)?;
    let recorder = Recorder::new(&Options::from(host))?;
    let mut announcer = announcer(who, host, words);
    let display = std::env::var("DISPLAY").unwrap_or_default();
    let mut fit = Fit::wanted(host.fit, who, &display);
    let (mut signals, mut patience) = (Signals::take()?, Patience::default());
    let mut socket = Socket::open(&order)?;
    let gateways = Gateways::outside(who, host, socket.folder().join(NAME))?;
    let mut command = command(&socket)?;
    // The game is no host of a session.
    command.env_remove(report::FOLDER);
    sound.surround(&mut command);
    let pads = game_pads(pads, &mut socket)?;
    if let Some(pads) = &pads {
        pads.give(&mut command);
    }
    let mut terminal = Terminal::give(&mut command);
    let mut stand_in = stands_in.then(|| StandIn::new(who, &display));
    let mut game = Application::start(command)?;
    let mut clients = Clients::new(who, recorder);
    let began = clock::now();
    let (mut tick_at, mut quiet_since, mut wondered) = (began, began, false);
    let (mut streamed, mut refused) = (false, false);
    // The cause of missing pictures, if known, and the time since when.
    let (mut look_at, mut known) = (began, None);
    loop {
        for line in socket.lines(TURN) {
            announce(announcer.as_mut(), &host.config_dir, &line);
            report_running(gateways.as_ref(), &host.config_dir, &line);
            let streams = matches!(line, Line::Streaming { .. });
            keep_port(&mut order, &mut socket, &line)?;
            if let (Some(fit), Line::PlayerWindow(size)) = (&mut fit, &line) {
                fit.wish(*size, clock::now());
            }
            let first = socket.streaming().filter(|_| streams);
            if first.is_some_and(cause::has_no_network) {
                eprintln!(
                    "openuvr {who}: no native client can reach the {what}: its network namespace has no \
                     interface (as with bwrap --unshare-net); start it with network access"
                );
            } else {
                refused |= matches!(line, Line::Trouble(_));
                hear(&mut clients, (who, what), line);
            }
            if let Some(gateways) = gateways.as_ref().filter(|_| streams)
                && let Err(why) = gateways.follow()
            {
                eprintln!("openuvr {who}: {why}");
            }
            if let Some(why) = sound.silent.take_if(|_| streams) {
                eprintln!("openuvr {who}: {why}");
            }
        }
        release_for(&mut socket);
        let streams = socket.is_served();
        let now = clock::now();
        if std::mem::replace(&mut streamed, streams) && !streams {
            pads.iter().for_each(GamePads::rest);
            if let Some(fit) = &mut fit {
                fit.wish(None, now);
            }
        }
        if now >= tick_at {
            clients.tick(now);
            if let Some(stand_in) = &mut stand_in {
                stand_in.tick(&mut socket, now);
            }
            // Reaps child processes that have ended.
            game.has_orphans(&helpers(stand_in.as_ref()));
            let over = gateways.as_ref().and_then(|g| g.is_over(clients.count()));
            if let Some(over) = over {
                end_session(who, over);
            }
            pads.iter().for_each(GamePads::follow);
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
                terminal.fit();
            }
            tick_at = now + TICK;
        }
        let pending = signals.pending();
        game.pass_on(&pending, socket.streaming());
        if patience.is_over(&pending, now) && game.ended().is_none() {
            eprintln!(
                "openuvr {who}: the {what} is still running {} s after the signal; to kill it: kill -KILL {}",
                PATIENCE.as_secs(),
                game.id()
            );
        }
        if socket.is_served() || game.ended().is_none() {
            quiet_since = now;
        }
        if let Some(hook) = hook.filter(|_| !socket.was_used() && now >= look_at) {
            look_at = now + LOOK;
            known =
                cause::without_hook(hook).map(|why| (known.map_or(now, |(since, _)| since), why));
        }
        let wonders = match &known {
            Some((since, _)) => now.since(*since) >= SURE,
            None => !socket.is_served() && now.since(began) >= WONDER,
        };
        if !socket.was_used() && !wondered && wonders {
            wondered = true;
            let why = known.as_ref().map_or(why_none, |(_, why)| why);
            eprintln!("openuvr {who}: no picture yet. {why}");
        }
        let launching = now.since(quiet_since) < LAUNCHING;
        if game.ended().is_some()
            && !socket.is_served()
            && !(launching && game.has_orphans(&helpers(stand_in.as_ref())))
        {
            break;
        }
    }
    drop(stand_in);
    for line in socket.lines(Duration::ZERO) {
        hear(&mut clients, (who, what), line);
    }
    release_for(&mut socket);
    if let Some(terminal) = terminal {
        terminal.finish();
    }
    if let Some(gateways) = gateways {
        gateways.finish(host);
    }
    let complete = clients.finish();
    let status = game.ended();
    tell_end((who, what), status, socket.was_used(), || {
        // It was printed before.
        let why = known.map_or(why_none.to_owned(), |(_, why)| why);
        (!wondered && !refused).then_some(why)
    });
    if let (Some(why), true, true) = (why_over, socket.was_used(), ended_well(status))
        && !io::stdin().is_terminal()
    {
        eprintln!("openuvr {who}: the {what} exited normally. {why}");
    }
    if let Some(reporter) = reporter() {
        let without = if socket.was_used() {
            ""
        } else {
            " without a picture"
        };
        let how = status.map_or(String::new(), |status| format!(": {status}"));
        reporter.ends(
            code_of(status),
            format!("the {what} has ended{without}{how}"),
        );
    }
    match complete {
        Err(why) if ended_well(status) => Err(why),
        Err(why) => {
            eprintln!("openuvr {who}: {why}");
            Ok(exit_code(status))
        }
        Ok(()) => Ok(exit_code(status)),
    }
}

fn ended_well(status: Option<ExitStatus>) -> bool {
    status.is_some_and(|status| status.success())
}

/// Prints how a game ended that presented no picture or did not end by itself, with the usual causes unless the end
/// explains it.
fn tell_end(
    (who, what): (&str, &str),
    status: Option<ExitStatus>,
    shown: bool,
    why_none: impl FnOnce() -> Option<String>,
) {
    let (end, explains) = status.map_or((String::new(), false), cause::end);
    match (shown, explains) {
        (true, true) => eprintln!("openuvr {who}: the {what} is over: {end}"),
        (true, false) => {}
        (false, true) => eprintln!("openuvr {who}: the {what} has ended without a picture: {end}"),
        (false, false) => {
            let why = why_none().map_or(String::new(), |why| format!(". {why}"));
            eprintln!("openuvr {who}: the {what} has ended without a picture: {end}{why}");
        }
    }
}

/// The emulated game pads of the game, if configured.
fn game_pads(wanted: Option<(&Path, u8)>, socket: &mut Socket) -> Result<Option<GamePads>> {
    let Some((hook, seats)) = wanted else {
        return Ok(None);
    };
    match GamePads::prepare(hook, socket, seats) {
        Ok(pads) => Ok(Some(pads)),
        Err(why @ LaunchError::NoPads(_)) => {
            eprintln!("openuvr run: {why}");
            Ok(None)
        }
        Err(why) => Err(why.into()),
    }
}

/// The mDNS announcer for the game's host, unless the configuration disables it. It runs in this process, never in
/// the game's.
fn announcer(who: &'static str, host: &HostConfig, words: &[OsString]) -> Option<Announcer> {
    let program = words.first().map(Path::new).and_then(Path::file_name);
    let about = About {
        name: host.name.clone(),
        shows: program.map(|name| name.to_string_lossy().into_owned()),
    };
    (host.discoverable).then(|| Announcer::new(who, about))
}

/// Forwards a line of the game's host to the announcer.
fn announce(announcer: Option<&mut Announcer>, config_dir: &Path, line: &Line) {
    let Some(announcer) = announcer else {
        return;
    };
    let now = clock::now();
    announcer.heard(line, now);
    if let Line::Streaming { place, .. } = line
        && let Some(address) = address_in(place)
    {
        // The key exists: the host has loaded it.
        match load_or_create(config_dir, KeyOwner::Host) {
            Ok(identity) => {
                announcer.streams_at(address, identity.public().fingerprint(), now);
            }
            Err(why) => eprintln!("openuvr run: can't announce the host: {why}"),
        }
    }
}

/// Ends the started processes at the end of a portal's session.
fn end_session(who: &str, over: Over) {
    eprintln!("openuvr {who}: {over}");
    if let Some(reporter) = reporter() {
        reporter.ends(0, over.to_string());
    }
    descendants::end_started();
}

/// Reports to the parent `openuvr session` that the session can be played.
fn report_running(gateways: Option<&Gateways>, config_dir: &Path, line: &Line) {
    let (Some(reporter), Line::Streaming { place, .. }) = (reporter(), line) else {
        return;
    };
    match load_or_create(config_dir, KeyOwner::Host) {
        Ok(identity) => {
            let page = gateways.and_then(Gateways::page);
            reporter.running(address_in(place), &identity.public(), page, None);
        }
        Err(why) => eprintln!("openuvr run: can't report the session: {why}"),
    }
}

/// The exit code of the game; after a signal, that of a shell.
pub(crate) fn exit_code(status: Option<ExitStatus>) -> ExitCode {
    ExitCode::from(code_of(status))
}

/// The same as a number.
pub(crate) fn code_of(status: Option<ExitStatus>) -> u8 {
    let code = status.and_then(|status| {
        let signal = status.signal().map(|signal| signal + 128);
        status.code().or(signal)
    });
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Releases the keys and buttons of ended processes: a killed process could not release them.
fn release_for(socket: &mut Socket) {
    for display in socket.left_behind() {
        // A closed display holds nothing.
        if let Err(e) = release_held(Some(&display)) {
            tracing::debug!("{e}");
        }
    }
}

/// Prints a line of the game's host. The end of the stream does not end the game.
fn hear(clients: &mut Clients, (who, what): (&str, &str), line: Line) {
    if let HostState::Failed(why) = clients.tell(line) {
        eprintln!("openuvr {who}: {why}; the {what} continues without a stream");
    }
}
