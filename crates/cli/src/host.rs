//! `openuvr host`: opens the configured devices, starts the host's threads, and prints
//! events.

mod endpoints;
mod parts;
mod service;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use openuvr_clock as clock;
use openuvr_compositor::WaylandDisplay;
use openuvr_discovery::{Announcer, HostInfo};
use openuvr_media::input_sink::pads::{Pads, uinput};
use openuvr_net::Link as _;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::host::WantedDisplay;
use openuvr_proto::time::Instant;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_report::{Options, Recorder};
use openuvr_runtime::host::config::{Config, DEFAULT_FPS};
use openuvr_runtime::host::{HostRuntime, HostSetup, Input, Notice};
use openuvr_runtime::launch_protocol::LaunchReport;
use openuvr_runtime::recording::Recording;
use openuvr_runtime::sched::{self, Scheduler, ThreadRole};
use openuvr_session::report::{AUTHORITY, Reporter, reporter};
use openuvr_session::{
    ApplicationDisplay, Fit, RunningApplication, VirtualAudio, VirtualDisplay, max_size,
};
use openuvr_terminal::{out, shell, usage};

use crate::clients::{Clients, HostState, TICK, print_invitation, print_pairing_command};
use crate::config::kind::WindowName;
use crate::config::{HostConfig, PadsKind, Settings as _, Subject};
use crate::gateways::Gateways;
use crate::launches::{Launches, Stage};
use crate::realtime;
use crate::release::{self, Release};
use crate::run;

use endpoints::DisplayEndpoints;
pub use parts::{DefaultParts, HostParts, SourceKind};
use service::ServiceManager;

/// The interval at which the main thread checks whether a signal has arrived or the time limit has been reached.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The subcommands of a program that contains a host: `host`, and a hidden subcommand for the second process of this
/// program, which a host starts.
#[must_use]
pub fn commands() -> [Command; 2] {
    let release = Command::new(release::COMMAND).hide(true);
    [HostConfig::command(), release::Args::augment_args(release)]
}

/// Whether `name` is the name of one of [`commands`].
#[must_use]
pub fn is_command(name: &str) -> bool {
    [HostConfig::ROLE, release::COMMAND].contains(&name)
}

/// Runs the command `name` of [`commands`]. The host is built from `parts`, and runs until Ctrl-C, its time limit, or
/// the end of its source. It writes to the terminal and handles the process's signals.
///
/// # Errors
/// Returns an error with a one-line message for wrong settings, a device that cannot be opened, or a failure of the host.
pub fn run(name: &str, matches: &ArgMatches, parts: &dyn HostParts) -> Result<ExitCode> {
    if name == release::COMMAND {
        release::run(&release::Args::from_arg_matches(matches)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    stream(matches, parts)
}

fn stream(matches: &ArgMatches, parts: &dyn HostParts) -> Result<ExitCode> {
    let (effective, words) = HostConfig::with_application(matches)?;
    if let Some(text) = effective.printed {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut config = effective.config;
    openuvr_terminal::log_to_stderr(config.log);
    // Wrong settings are reported before an application is started.
    Config::from(&config)
        .check()
        .map_err(usage::UsageError::new)?;
    if let Some(warning) = config.encoder_warning() {
        eprintln!("openuvr host: {warning}");
    }
    let stop = match reporter() {
        // Child processes end in order, however many signals arrive (see `openuvr session`).
        Some(_) => openuvr_terminal::signals::stop_gracefully_on_signals()?,
        None => openuvr_terminal::signals::stop_on_signals()?,
    };
    let recorder = Recorder::new(&Options::from(&config))?;
    let mut app_display = AppDisplay::open(&mut config, &words)?;
    let RunningHost {
        host,
        scheduler,
        recording,
        release,
        gateways,
        mut announcer,
    } = match start(&config, parts, &app_display, &stop) {
        // After a signal during the wait for a window, a missing window is not an error.
        Err(_) if stop.load(Ordering::Relaxed) => return Ok(ExitCode::SUCCESS),
        started => started?,
    };
    let mut service = ServiceManager::ready(clock::now());
    if let Some(warning) = scheduler.report().warning() {
        eprintln!("openuvr host: {warning}");
    }
    if let Some(why) = &app_display.sound.silent {
        eprintln!("openuvr host: {why}");
    }
    let commands = read_commands(&scheduler, &config.config_dir);
    let mut clients = Clients::new("host", recorder);
    let mut lost = 0;
    let receivers = NoticeReceivers {
        clients: &mut clients,
        announcer: announcer.as_mut(),
        lost: &mut lost,
    };
    let outcome = serve(
        &config,
        (&host, &gateways),
        &commands,
        receivers,
        &mut app_display,
        &mut service,
        &stop,
    );
    if let Some(service) = service {
        service.stopping();
    }
    // The ending host must no longer be discoverable.
    drop(announcer);
    // Clients must not reconnect, because neither an ended application nor a portal's session starts again.
    if app_display.is_over() || reporter().is_some() {
        host.source_ended();
    }
    gateways.finish(&config);
    let notices = match Arc::into_inner(host) {
        Some(host) => host.stop(),
        None => Vec::new(),
    };
    // The host has now released the pressed keys and buttons itself, so the second process need not release them.
    drop(release);
    for notice in notices {
        // An error is ignored, because the host is ending.
        let _ = clients.handle(notice.into());
    }
    if lost > 0 {
        eprintln!("openuvr host: {lost} messages or records lost: this machine is too slow");
    }
    let complete = clients.finish();
    let recorded = realtime::finish(recording, "host");
    outcome?;
    complete?;
    recorded?;
    Ok(app_display.exit_code())
}

/// The application, its display and its sound, as far as this host has started them. Fields are dropped in order, so the
/// application ends before its display.
#[derive(Default)]
struct AppDisplay {
    application: Option<RunningApplication>,
    launches: Option<Launches>,
    /// The display mode that the player wants.
    wanted: Option<WantedDisplay>,
    fit: Option<Fit>,
    display: Option<OwnDisplay>,
    sound: VirtualAudio,
}

/// A display that this host has started.
enum OwnDisplay {
    X11(VirtualDisplay),
    Wayland(WaylandDisplay),
}

impl OwnDisplay {
    fn as_application_display(&self) -> &dyn ApplicationDisplay {
        match self {
            OwnDisplay::X11(display) => display,
            OwnDisplay::Wayland(display) => display,
        }
    }

    /// The display's name and a space; empty if the display has no name.
    fn name(&self) -> String {
        match self {
            OwnDisplay::X11(display) => format!("{} ", display.name()),
            OwnDisplay::Wayland(_) => String::new(),
        }
    }

    /// The shell command that starts a program on this display.
    fn instruction(&self) -> String {
        match self {
            OwnDisplay::X11(display) => format!(
                "XAUTHORITY={} DISPLAY={} COMMAND",
                shell::word(display.authority()),
                display.name()
            ),
            OwnDisplay::Wayland(display) => {
                let x11 = display.x11().map_or_else(
                    |_| String::new(),
                    |x11| {
                        let authority = shell::word(&x11.authority);
                        format!("XAUTHORITY={authority} DISPLAY={} ", x11.display)
                    },
                );
                let socket = shell::word(display.socket());
                format!("{x11}WAYLAND_DISPLAY={socket} COMMAND")
            }
        }
    }
}

impl AppDisplay {
    /// Starts the configured application and display, and sets the display's name in the configuration.
    fn open(config: &mut HostConfig, words: &[OsString]) -> Result<AppDisplay> {
        let Some(size) = config.virtual_display else {
            let display = config.display.as_deref().unwrap_or_default();
            let fit = Fit::open_if(config.fits(), "host", display);
            let sound = VirtualAudio::microphone(&mut config.microphone)?;
            print_microphone_source(&sound);
            return Ok(AppDisplay {
                sound,
                fit,
                ..AppDisplay::default()
            });
        };
        let folder = reporter().map(Reporter::folder);
        let (display, fit) = match config.is_wayland() {
            true => AppDisplay::start_wayland(config, size, folder)?,
            false => AppDisplay::start_xvfb(config, size, folder)?,
        };
        let launches = config.applications.as_deref().map(Launches::open);
        let launches = launches.transpose()?;
        let sound = match words {
            [] if launches.is_none() => VirtualAudio::microphone(&mut config.microphone)?,
            _ => VirtualAudio::create(&mut config.sound, &mut config.microphone)?,
        };
        let application = match (words, &launches) {
            ([], Some(launches)) => {
                let count = launches.len();
                eprintln!(
                    "openuvr host: {count} applications for Moonlight clients, on a display of {size}"
                );
                None
            }
            ([], None) => {
                eprintln!(
                    "openuvr host: the virtual display {}of {size} is empty; start an application with {}",
                    display.name(),
                    display.instruction()
                );
                print_microphone_source(&sound);
                None
            }
            (words, _) => {
                let display = display.as_application_display();
                Some(RunningApplication::start(words, display, &sound)?)
            }
        };
        Ok(AppDisplay {
            application,
            launches,
            wanted: None,
            fit,
            display: Some(display),
            sound,
        })
    }

    /// Starts an X server, and sets its name in the configuration.
    fn start_xvfb(
        config: &mut HostConfig,
        size: Size,
        folder: Option<&Path>,
    ) -> Result<(OwnDisplay, Option<Fit>)> {
        let fits = config.fits();
        let max_size = match fits {
            true => max_size(size, config.moonlight.is_some()),
            false => size,
        };
        let display = VirtualDisplay::start(max_size, folder, config.place)?;
        let name = display.name().to_owned();
        let fit = fits.then(|| Fit::open_virtual("host", &name, size));
        let fit = fit.transpose().map_err(|e| anyhow!(e))?;
        config.display = Some(name);
        Ok((OwnDisplay::X11(display), fit))
    }

    /// Starts a Wayland compositor in this process.
    fn start_wayland(
        config: &mut HostConfig,
        size: Size,
        folder: Option<&Path>,
    ) -> Result<(OwnDisplay, Option<Fit>)> {
        let options = openuvr_compositor::Options {
            folder: folder.map_or_else(std::env::temp_dir, Path::to_owned),
            size,
            fps: config.fps.unwrap_or(DEFAULT_FPS),
            scale: 1.0,
            authority: folder.map(|folder| folder.join(AUTHORITY)),
        };
        let display = WaylandDisplay::start(&options)?;
        if let Err(why) = display.x11() {
            eprintln!("openuvr host: no X11 applications on the Wayland display: {why}");
        }
        let fit = config
            .fits()
            .then(|| Fit::of_wayland("host", display.resizer()));
        // The X display of this host's environment is not streamed.
        config.display = None;
        Ok((OwnDisplay::Wayland(display), fit))
    }

    /// Stores the display mode that the player wants, and applies it.
    fn player_wants(&mut self, wanted: Option<WantedDisplay>, now: Instant) {
        self.wanted = wanted;
        if let Some(fit) = &mut self.fit {
            fit.request(wanted, now);
            fit.tick(now);
        }
    }

    /// Starts and ends applications as Moonlight clients request.
    fn turn(&mut self, now: Instant) {
        let (Some(launches), Some(display)) = (&mut self.launches, &self.display) else {
            return;
        };
        let (fit, wanted) = (&mut self.fit, self.wanted);
        // A display mode that a player has requested takes precedence.
        let mut request = |mode: Option<WantedDisplay>| {
            if let Some(fit) = fit.as_mut().filter(|_| wanted.is_none()) {
                fit.request(mode, now);
                fit.tick(now);
            }
        };
        let mut stage = Stage {
            display: display.as_application_display(),
            sound: &self.sound,
            fit: &mut request,
        };
        launches.turn(now, &mut stage);
    }

    /// The Wayland display, if this host has started one.
    fn wayland(&self) -> Option<&WaylandDisplay> {
        match &self.display {
            Some(OwnDisplay::Wayland(display)) => Some(display),
            _ => None,
        }
    }

    fn application_name(&self) -> Option<&str> {
        self.application.as_ref().map(RunningApplication::name)
    }

    /// Whether the application has ended.
    fn is_over(&mut self) -> bool {
        let now = clock::now();
        let application = self.application.as_mut();
        application.is_some_and(|application| application.is_over(now))
    }

    /// Returns the application's exit code, and prints a message, if the application has ended by itself. Otherwise
    /// returns success.
    fn exit_code(&mut self) -> ExitCode {
        let Some(application) = &mut self.application else {
            return ExitCode::SUCCESS;
        };
        // The host may have ended with the application's window, before a regular check noticed the application's end.
        // Therefore this function checks again.
        let Some(status) = application
            .ended()
            .filter(|_| application.is_over_now(clock::now()))
        else {
            return ExitCode::SUCCESS;
        };
        eprintln!("openuvr host: {} has ended: {status}", application.name());
        if let Some(reporter) = reporter() {
            let why = format!("{} has ended: {status}", application.name());
            reporter.report_end(run::code_of(Some(status)), why);
        }
        run::exit_code(Some(status))
    }
}

/// Prints the name of the source from which other applications record the player's microphone.
fn print_microphone_source(sound: &VirtualAudio) {
    if let Some(source) = sound.source() {
        eprintln!("openuvr host: the player's microphone is available as the source {source}");
    }
}

struct NoticeReceivers<'a> {
    clients: &'a mut Clients,
    announcer: Option<&'a mut Announcer>,
    /// The number of notices that were lost because this program read too slowly.
    lost: &'a mut u64,
}

/// Forwards notices and executes typed commands until the end.
fn serve(
    config: &HostConfig,
    (host, gateways): (&HostRuntime, &Gateways),
    commands: &Receiver<HostCommand>,
    receivers: NoticeReceivers<'_>,
    app_display: &mut AppDisplay,
    service: &mut Option<ServiceManager>,
    stop: &AtomicBool,
) -> Result<()> {
    let NoticeReceivers {
        clients,
        mut announcer,
        lost,
    } = receivers;
    let began = clock::now();
    let mut tick_at = began;
    loop {
        let now = clock::now();
        let over = config.lasting.is_some_and(|span| now.since(began) >= span);
        if over || stop.load(Ordering::Relaxed) || app_display.is_over() {
            return Ok(());
        }
        if now >= tick_at {
            clients.tick(now);
            if let Some(over) = gateways.is_over(clients.count()) {
                eprintln!("openuvr host: {over}");
                if let Some(reporter) = reporter() {
                    reporter.report_end(0, over.to_string());
                }
                return Ok(());
            }
            if let Some(announcer) = &mut announcer {
                announcer.tick(now);
            }
            if let Some(fit) = &mut app_display.fit {
                fit.tick(now);
            }
            tick_at = now + TICK;
        }
        app_display.turn(now);
        if let Some(service) = service {
            service.turn(now, || host.hanging_thread());
        }
        match commands.try_recv() {
            Ok(HostCommand::Pair) => {
                let pin = Pin::generate()?;
                print_invitation("host", &pin, config.pairing_timeout.as_secs());
                host.open_pairing(pin, config.pairing_timeout);
                if let Some(announcer) = &mut announcer {
                    announcer.set_pairing_until(now + config.pairing_timeout);
                }
            }
            Ok(HostCommand::Bitrate(target)) => host.set_bitrate(target),
            Err(_) => {}
        }
        let notice = match host.notice(POLL_INTERVAL) {
            None => continue,
            Some(Notice::Lost(more)) => {
                clients.note_loss();
                *lost += more;
                continue;
            }
            Some(notice) => notice,
        };
        let report = LaunchReport::from(notice);
        if let Some(announcer) = &mut announcer {
            announcer.on_report(&report, now);
        }
        if let LaunchReport::Notice(Notice::PlayerWindow(wanted)) = &report {
            app_display.player_wants(*wanted, now);
        }
        match clients.handle(report) {
            HostState::Running => {}
            HostState::Ended => return Ok(()),
            HostState::Failed(why) => return Err(anyhow!(why)),
        }
    }
}

/// A command typed at a running host.
enum HostCommand {
    /// Open pairing for another device.
    Pair,
    /// Change the bitrate.
    Bitrate(Bitrate),
}

/// Reads commands, one per line, if standard input is a terminal. `folder` is the configuration folder.
fn read_commands(scheduler: &Scheduler, folder: &Path) -> Receiver<HostCommand> {
    let (sender, commands) = sync_channel(1);
    if std::io::stdin().is_terminal() {
        eprintln!(
            "openuvr host: type p and Enter to pair another device, b 10M to set the bitrate, \
             Ctrl-C to stop"
        );
        // The scheduler's threads block all signals. If the program is in the background, reading from the terminal
        // therefore fails, and this thread ends. With an unblocked SIGTTIN, reading would stop the whole program.
        let reader = scheduler.spawn(sched::ThreadRole::Background, "ouvr-terminal", move || {
            out::track_typed_lines();
            for line in std::io::stdin().lines().map_while(Result::ok) {
                out::line_typed();
                match parse_command(&line) {
                    // The main thread executes one command in each iteration of its loop. If sending fails, the program
                    // is ending.
                    Ok(Some(command)) => drop(sender.send(command)),
                    Ok(None) => {}
                    Err(why) => out::unlimited_message(format_args!("openuvr host: {why}")),
                }
            }
        });
        if let Err(e) = reader {
            eprintln!("openuvr host: can't read commands from the terminal: {e}");
        }
    } else if reporter().is_none() {
        print_pairing_command("host", folder);
    }
    commands
}

fn parse_command(line: &str) -> Result<Option<HostCommand>> {
    let mut words = line.split_whitespace();
    match (words.next(), words.next()) {
        (None, _) => Ok(None),
        (Some("p"), None) => Ok(Some(HostCommand::Pair)),
        (Some("b"), Some(rate)) => Ok(Some(HostCommand::Bitrate(HostConfig::parse_bitrate(rate)?))),
        _ => Err(anyhow!(
            "unknown command {line:?}: type p, or b and a bitrate such as 10M"
        )),
    }
}

struct RunningHost {
    host: Arc<HostRuntime>,
    gateways: Gateways,
    scheduler: Scheduler,
    recording: Option<Recording>,
    release: Option<Release>,
    announcer: Option<Announcer>,
}

/// The emulated game pads, if available. An error is reported only if uinput was requested.
fn game_pads(kind: PadsKind) -> Result<Option<Pads>> {
    Ok(match kind {
        PadsKind::Auto | PadsKind::Seats(_) => uinput::open().ok(),
        PadsKind::Uinput => Some(uinput::open()?),
        PadsKind::Off => None,
    })
}

fn start(
    config: &HostConfig,
    parts: &dyn HostParts,
    app_display: &AppDisplay,
    stop: &AtomicBool,
) -> Result<RunningHost> {
    let opened = Config::from(config).open().map_err(|e| anyhow!(e))?;
    let DisplayEndpoints {
        source,
        input,
        release,
        clipboard,
    } = DisplayEndpoints::open(config, app_display.wayland(), stop)?;
    let streaming = format!("streaming {} on {}", source.words, opened.endpoint);
    // A PIN set by the user is not printed.
    let pairing = opened.pairing.as_ref().map(|(_, span)| *span);
    let invitation = opened.pairing.clone().filter(|_| config.pin.is_none());
    let scheduler = realtime::scheduler(config.realtime, &config.pin_cores);
    let (scheduler, recording) =
        realtime::recording(scheduler, config.scheduling_trace.as_deref())?;
    if let Some(display) = app_display.wayland() {
        let scheduler = scheduler.clone();
        display.run_in_thread(move || scheduler.enter(ThreadRole::Compose));
    }
    let fps = config.fps.unwrap_or(DEFAULT_FPS);
    let mut announcer = announcer(config, app_display.application_name());
    let key = opened.identity.public();
    let fingerprint = key.fingerprint();
    let address = opened.link.local_addr();
    let sound = opened.sounds.audio.is_some();
    let recorder = Gateways::recorder("host", config, &scheduler, sound)?;
    let setup = HostSetup {
        policy: opened.policy,
        identity: opened.identity,
        devices: opened.devices,
        pairing: opened.pairing,
        tickets: opened.tickets,
        link: parts.link(opened.link, config.bitrate(), &scheduler)?,
        capture: parts.capture(source.capture, config.source(), fps)?,
        viewport: source.viewport,
        cursor: source.cursor,
        input: Input::Sink(input),
        converter: parts.converter()?,
        encodings: opened.encodings,
        audio: opened.sounds.audio,
        microphone: opened.sounds.microphone,
        clipboard,
        pads: game_pads(config.pads)?,
        scheduler: scheduler.clone(),
    };
    let host = HostRuntime::start(setup).map_err(|e| anyhow!(e))?;
    let host = Arc::new(host);
    let desk = app_display.launches.as_ref().map(Launches::desk);
    let threads = (&scheduler, sound);
    let gateways = Gateways::open("host", config, host.clone(), recorder, threads, desk)?;
    gateways.start_recording()?;
    // This is printed only here, because the start may fail before.
    eprintln!("openuvr host: {streaming}");
    if let Some(why) = opened.sounds.no_sound_reason {
        eprintln!("openuvr host: {why}");
    }
    gateways.print_addresses(config);
    if let Some(reporter) = reporter() {
        let display = config.virtual_display.and(config.display.as_deref());
        reporter.report_running(address, &key, gateways.page(), display);
    }
    if let Some((pin, span)) = invitation {
        print_invitation("host", &pin, span.as_secs());
    }
    if let (Some(announcer), Some(address)) = (&mut announcer, address) {
        let now = clock::now();
        if let Some(span) = pairing {
            announcer.set_pairing_until(now + span);
        }
        announcer.announce_at(address, fingerprint, now);
    }
    Ok(RunningHost {
        host,
        gateways,
        scheduler,
        recording,
        release,
        announcer,
    })
}

/// The mDNS announcer, unless the configuration disables it.
fn announcer(config: &HostConfig, shows: Option<&str>) -> Option<Announcer> {
    let shows = match (shows, config.subject()) {
        (Some(application), _) => Some(application.to_owned()),
        (None, Subject::Window(WindowName::Text(title))) => Some(title),
        (None, _) => None,
    };
    let about = HostInfo {
        name: config.name.clone(),
        shows,
    };
    config.discoverable.then(|| Announcer::new("host", about))
}
