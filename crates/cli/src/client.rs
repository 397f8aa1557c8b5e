//! `openuvr client`: opens the configured devices, starts the client's threads, and prints
//! events.

mod access_point;
mod hmd;
pub(crate) mod kms;
mod pads;
mod phase;

use std::io::IsTerminal as _;
use std::num::NonZeroU16;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::ArgMatches;
use openuvr_clock as clock;
use openuvr_discovery as discovery;
use openuvr_media::display;
use openuvr_media::head::{self, HeadPose};
use openuvr_media::input_source::{self, InputSource};
use openuvr_media::present::{self, PresentError, x11::WindowConfig};
use openuvr_net::address::{address_of, station_of};
use openuvr_portal_client::{self as portal, Account, PortalAddress, PortalClient};
use openuvr_proto::control::handshake::{HANDSHAKE_TIMEOUT, HandshakeError};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::display::Display;
use openuvr_proto::id::SessionId;
use openuvr_proto::ledger::of_report;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::video::Configuration;
use openuvr_report::{IdleText, Options, Recorder};
use openuvr_runtime::client::config::Opened;
use openuvr_runtime::client::{
    ClientRuntime, ClientSetup, Notice, OpenSurface, StereoSettings, StopReason, VIDEO_TRANSPORT,
};
use openuvr_runtime::sched::Scheduler;

use openuvr_vr::headset::Headset;
use openuvr_wayland::display as wayland_display;
use openuvr_wayland::present as wayland_window;
use x11rb::connection::Connection as _;

use crate::clients::{TICK, finish, goodbye_text};
use crate::config::portal::HostTarget;
use crate::config::{ClientConfig, InputSpec, PresentKind, Settings as _, Surface, WindowSpec};
use crate::realtime;
use hmd::Hmd;
use openuvr_terminal::out;
use openuvr_terminal::signals::stop_on_signals;

/// The time without an answer after which a hint is printed. It is far longer than a round trip.
const HINT_DELAY: Duration = Duration::from_secs(1);

/// The text of the hint. When the client gives up, [`HandshakeError::TimedOut`] asks the same questions.
const SILENT_HINT: &str = "is the host running, is the address right, does a firewall drop UDP?";

/// The interval at which the main thread checks whether a signal has arrived or the time limit has been reached.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl From<&ClientConfig> for Options {
    fn from(config: &ClientConfig) -> Options {
        Options {
            csv: config.csv.clone(),
            trace: None,
            table: config.table,
            idle_text: IdleText {
                yet: "no host yet",
                now: "no host now",
            },
        }
    }
}

/// Runs a client until Ctrl-C is pressed, its time limit is reached, its window is closed, or the host ends the
/// session.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let effective = ClientConfig::from_matches(matches)?;
    if let Some(text) = effective.printed {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut config = effective.config;
    openuvr_terminal::log_to_stderr(config.log);
    if let (Some(portal), None) = (&config.portal, &config.application) {
        portal::list(account(portal, &config))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Local errors are reported before the user types a PIN.
    let io = ClientIo::open(&config)?;
    let (Some(portal), Some(wanted)) = (&config.portal, &config.application) else {
        let host = config.host.clone();
        return play(&config, io, host, None);
    };
    let portal_client =
        PortalClient::log_in(account(portal, &config), wanted, config.stop_session)?;
    let stop = stop_on_signals()?;
    let Some(joined) = portal_client.join(config.observe, &stop)? else {
        return Ok(ExitCode::SUCCESS);
    };
    if !joined.own {
        config.watch();
    }
    let played = play(&config, io, Some(joined.link.into()), Some(stop));
    joined.session.finish();
    played
}

/// Runs a client with these arguments of `openuvr client`.
///
/// # Errors
/// Returns an error if the arguments are invalid or the client fails. The message has one line and repeats no argument.
pub(crate) fn run_with(arguments: &[&str]) -> Result<ExitCode> {
    let words = ["client"].iter().chain(arguments);
    let matches = ClientConfig::command().try_get_matches_from(words);
    run(&matches.map_err(|_| anyhow!("invalid link"))?)
}

fn account<'a>(portal: &'a PortalAddress, config: &'a ClientConfig) -> Account<'a> {
    Account {
        portal,
        user: config.portal_user.as_deref(),
        password_file: config.portal_password_file.as_deref(),
        fingerprint: config.portal_fingerprint,
        config_dir: &config.config_dir,
    }
}

/// Plays at `host`, or at a discovered host, until the client ends. `stop` is the stop flag of the signal handlers, if
/// the caller has already installed them.
fn play(
    config: &ClientConfig,
    mut io: ClientIo,
    host: Option<HostTarget>,
    stop: Option<Arc<AtomicBool>>,
) -> Result<ExitCode> {
    let hmd = io.hmd.take();
    let refreshes = io.refreshes.take();
    let recorder = Recorder::new(&Options::from(config))?;
    let (used, stop) = match (&config.via_ap, stop) {
        (None, stop) => (access_point::Use::None, stop),
        (Some(_), stop) => {
            let stop = stop.map_or_else(stop_on_signals, Ok)?;
            (access_point::join(config, &stop)?, Some(stop))
        }
    };
    let opened = match (&used, &stop) {
        (access_point::Use::Stopped, _) => return Ok(ExitCode::SUCCESS),
        (_, Some(stop)) => used.during(stop, || open(config, host, used.interface()))?,
        (_, None) => open(config, host, None)?,
    };
    let host = opened.target.host.clone();
    // If neither a portal nor an access point is used, signals are caught only from now on. Until the PIN has been
    // typed, there is nothing to clean up, so a signal may end the program.
    let stop = stop.map_or_else(stop_on_signals, Ok)?;
    let address = display_address(&opened);
    let silent = opened.no_sound_reason.clone();
    let scheduler = realtime::scheduler(config.realtime, &config.pin_cores);
    let (scheduler, recording) =
        realtime::recording(scheduler, config.scheduling_trace.as_deref())?;
    let client = start(config, opened, io, &scheduler)?;
    if let Some(eyes) = config.configured_eyes() {
        client.set_display(Display {
            refresh: None,
            eyes: Some(eyes),
        });
    }
    if let Some(warning) = scheduler.report().warning() {
        eprintln!("openuvr client: {warning}");
    }
    let mut session = Session {
        recorder,
        role: Role::Observer,
        address,
        host,
        count: 0,
        silent,
        headset: hmd.as_ref().map(|hmd| Arc::clone(&hmd.headset)),
        shows: config.present != PresentKind::Null,
    };
    let mut follow = || session.follow(&client, config.lasting, &stop);
    let eyes = config.configured_eyes();
    let outcome = match (hmd, refreshes) {
        (Some(hmd), _) => hmd.report_during(&client, eyes, follow),
        (None, Some(display)) => phase::report_during(&display, eyes, &client, follow),
        (None, None) => follow(),
    };
    let lost = client.lost_notices();
    for notice in client.stop() {
        // An error is ignored, because the client is ending.
        let _ = session.print_notice(notice);
    }
    // The summary's number of frames without a record is ignored, because the host may never have sent some of these
    // frames.
    let (_, complete) = finish(session.recorder);
    if lost > 0 {
        eprintln!(
            "openuvr client: {lost} events lost: processing them was too slow, so the counts of frames are too low"
        );
    }
    let recorded = realtime::finish(recording, "client");
    let code = outcome?;
    complete?;
    recorded?;
    // Leave the access point only now, because the goodbye to the host was sent over it.
    drop(used);
    Ok(code)
}

/// Opens the components that need no display, and prompts for the host and the PIN if necessary. Searches for the host
/// on `interface`; `None` means all interfaces.
fn open(
    config: &ClientConfig,
    host: Option<HostTarget>,
    interface: Option<&str>,
) -> Result<Opened> {
    let mut opened = match host {
        Some(host) => config.runtime_config(host).open(),
        None => {
            let host = discovery::select(&config.config_dir, interface)?;
            open_discovered(config, host, interface)
        }
    }
    .map_err(|e| anyhow!(e))?;
    for why in &opened.unusable {
        eprintln!("openuvr client: {why}");
    }
    if opened.ignores_pin() {
        eprintln!(
            "openuvr client: {} is already paired: --pin is ignored (--pair-again pairs again)",
            opened.host
        );
    }
    // A host is authenticated by its key, so a key that is stored for the same address with another port can be used.
    if opened.needs_pin()
        && !opened.pair_again
        && let Some(known_as) = opened.hosts.on_other_port(&opened.host).map(str::to_owned)
    {
        eprintln!(
            "openuvr client: {} is not paired yet: using the key stored for {known_as} (to pair instead, use --pin)",
            opened.host
        );
        opened.host = known_as;
    }
    if opened.needs_pin() {
        opened.pin = Some(prompt_for_pin(&opened)?);
    }
    Ok(opened)
}

/// Creates a client of a discovered host. The client connects to any of the host's addresses. If a key of the host is
/// stored, the client accepts only this key.
fn open_discovered(
    config: &ClientConfig,
    host: discovery::SelectedHost,
    interface: Option<&str>,
) -> Result<Opened, String> {
    let mut opened = config.runtime_config(host.target.into()).open()?;
    if let Some(known_as) = host.known_as {
        opened.host = known_as;
    }
    if !opened.only.is_some_and(|transport| transport.is_ethernet()) {
        opened.paths = host.paths;
        let (folder, fingerprint) = (config.config_dir.clone(), host.fingerprint);
        let interface = interface.map(str::to_owned);
        opened.search = Some(Box::new(move || {
            discovery::search_again(&folder, interface.as_deref(), &fingerprint)
        }));
    }
    Ok(opened)
}

/// The host's address, as specified and as resolved.
fn display_address(opened: &Opened) -> String {
    let by_ip = (opened.paths.iter()).filter(|path| station_of(**path).is_none());
    let found: Vec<String> = by_ip.map(|path| address_of(*path).to_string()).collect();
    match found.join(", ") {
        found if found.is_empty() || found == opened.host => opened.host.clone(),
        found => format!("{} ({found})", opened.host),
    }
}

/// The client's input sources and outputs.
struct ClientIo {
    input: Option<Box<dyn InputSource>>,
    send_input: bool,
    surface: OpenSurface,
    head: Option<HeadPose>,
    eyes: StereoSettings,
    /// The headset, if pictures are shown on one.
    hmd: Option<Hmd>,
    /// The X display whose refresh times are sent to the host.
    refreshes: Option<String>,
    /// The refresh rate of the display, rounded up, if it is known.
    fps: Option<NonZeroU16>,
}

impl ClientIo {
    fn open(config: &ClientConfig) -> Result<ClientIo> {
        let surface = config.surface().map_err(|e| anyhow!("{e}"))?;
        let from = config.input_spec();
        let input = match &from {
            InputSpec::Script(file) => Some(format!("script:{}", file.display())),
            InputSpec::Devices(list) => Some(format!("evdev:{list}")),
            InputSpec::Window | InputSpec::Nothing => None,
        };
        let refreshes = match &surface {
            Surface::X11 { display, .. } => Some(display.clone()),
            _ => None,
        };
        let (surface, hmd, refresh) = match surface {
            Surface::Xr => {
                let hmd = Hmd::open()?;
                let refresh = hmd.refresh();
                (hmd.surface(), Some(hmd), refresh)
            }
            surface => {
                let (surface, refresh) = open_surface(surface)?;
                (surface, None, refresh)
            }
        };
        let head = config.head.0.as_deref().map(head::open).transpose()?;
        // Only applications that draw for a head pose use the display's refresh times.
        let refreshes = refreshes.filter(|_| head.is_some() && config.motion_settings().is_none());
        Ok(ClientIo {
            refreshes,
            hmd,
            input: input.map(|spec| input_source::open(&spec)).transpose()?,
            send_input: from != InputSpec::Nothing,
            surface,
            head,
            eyes: config.eyes(refresh),
            fps: config.refresh.or(refresh).and_then(rounded_up),
        })
    }
}

fn start(
    config: &ClientConfig,
    mut opened: Opened,
    io: ClientIo,
    scheduler: &Scheduler,
) -> Result<ClientRuntime> {
    opened.offer.constraints.fps = io.fps;
    let setup = ClientSetup {
        input: io.input,
        send_input: io.send_input,
        head: io.head,
        motion: config.motion_settings(),
        eyes: io.eyes,
        clipboard: config.shared_clipboard(),
        pads: pads::database(config)?,
        overlay: config.overlay,
        reconnect: config.reconnect,
        ..opened.setup(io.surface, scheduler.clone())
    };
    ClientRuntime::start(setup).map_err(|e| anyhow!(e))
}

/// Waits until the host answers, because only a running host shows a PIN. Then prompts for the PIN at the terminal.
fn prompt_for_pin(opened: &Opened) -> Result<Pin> {
    let (host, address) = (&opened.host, display_address(opened));
    let answers = |timeout| match opened.host_responds(timeout) {
        Ok(answered) => Ok(answered),
        Err(e) => Err(anyhow!("{address}: {e}")),
    };
    if !answers(HINT_DELAY)? {
        eprintln!("openuvr client: no answer from {address} yet: {SILENT_HINT}");
        if !answers(HANDSHAKE_TIMEOUT)? {
            bail!(
                "{address}: {}",
                HandshakeError::TimedOut {
                    after: HANDSHAKE_TIMEOUT
                }
            );
        }
    }
    if !std::io::stdin().is_terminal() {
        let why = match opened.pair_again {
            true => "is to be paired again",
            false => "is not paired yet",
        };
        bail!(
            "the host {host} {why}: specify its PIN with --pin; `openuvr devices pair` at the host shows a new PIN"
        );
    }
    match opened.hosts.key(host) {
        Some(key) => eprintln!(
            "The host {host} is already paired, with the key {}. Pairing again replaces this key.",
            key.fingerprint()
        ),
        None => eprintln!("The host {host} is new."),
    }
    out::prompt(format_args!("PIN shown by the host: "));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(Pin::parse(line.trim())?)
}

/// Returns two values: a function that opens the surface, and the display's refresh rate. The function is called when
/// the size of the first picture is known, but a missing display is reported at once.
fn open_surface(surface: Surface) -> Result<(OpenSurface, Option<f64>)> {
    let mut refresh = None;
    let open: OpenSurface = match surface {
        Surface::X11 { display, window } => {
            let (conn, screen) = display::connect(&display).map_err(|e| anyhow!(e))?;
            let screen = conn.setup().roots.get(screen);
            refresh = screen.and_then(|screen| display::highest_refresh_rate(&conn, screen));
            open_window(Some(display), window, |window| present::open("x11", window))
        }
        Surface::Wayland { display, window } => {
            let conn = wayland_display::connect(display.as_deref()).map_err(|e| anyhow!(e))?;
            refresh = wayland_display::highest_refresh_rate(&conn);
            open_window(display, window, |window| {
                let (presenter, input) = wayland_window::open(window)?;
                Ok((Box::new(presenter), Some(Box::new(input))))
            })
        }
        Surface::Kms {
            display,
            refresh: wanted,
            window,
        } => {
            let (open, highest) = kms::open(&display, wanted, window)?;
            refresh = highest;
            open
        }
        Surface::Headless { output, every } => {
            let open = move || present::headless::Headless::new(&output, every);
            // The folder is created now, so that an error is reported now, and not with the first picture.
            let mut made = Some(open()?);
            Box::new(move |_, _, _| {
                let headless = made.take().map_or_else(&open, Ok)?;
                Ok((Box::new(headless), None))
            })
        }
        // Another module opens the headset, so this presenter shows nothing.
        Surface::Xr | Surface::Null => {
            Box::new(|_, _, _| present::open("null", &WindowConfig::default()))
        }
    };
    Ok((open, refresh))
}

/// The window of a display. `open` opens the window.
fn open_window(
    display: Option<String>,
    spec: WindowSpec,
    open: impl Fn(&WindowConfig) -> Result<present::Surface, PresentError> + Send + 'static,
) -> OpenSurface {
    Box::new(move |stream: Configuration, title: &str, role: Role| {
        let window = WindowConfig {
            display: display.clone(),
            title: title.to_owned(),
            size: spec.size.unwrap_or(stream.size),
            follow: spec.size.is_none(),
            full_screen: spec.full_screen,
            observer: role == Role::Observer,
            grab: spec.grab,
            keys: spec.keys,
            tearing: spec.tearing,
            slices: spec.slices,
            frame_rate: NonZeroU16::new(stream.fps),
        };
        open(&window)
    })
}

/// The rate rounded up to a whole number; `None` for 0.
fn rounded_up(rate: f64) -> Option<NonZeroU16> {
    #[expect(clippy::cast_possible_truncation, reason = "larger values saturate")]
    #[expect(clippy::cast_sign_loss, reason = "negative values saturate to 0")]
    let rate = rate.ceil() as u16;
    NonZeroU16::new(rate)
}

/// The state of the client's session, and the records of its frames.
struct Session {
    recorder: Recorder,
    role: Role,
    /// The host's address.
    address: String,
    host: String,
    /// The number of sessions so far. Each session has its own rows in the records.
    count: u32,
    /// The reason why sound is not played. The reason is printed when a host has admitted the client. Afterwards, this
    /// field is `None`.
    silent: Option<String>,
    /// The headset, for haptic feedback.
    headset: Option<Arc<Headset>>,
    /// Whether decoded pictures are shown.
    shows: bool,
}

impl Session {
    /// Prints events until the end.
    fn follow(
        &mut self,
        client: &ClientRuntime,
        lasting: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<ExitCode> {
        let began = clock::now();
        let mut hint_at = Some(began + HINT_DELAY);
        let mut tick_at = began;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(ExitCode::SUCCESS);
            }
            let now = clock::now();
            if let Some(span) = lasting.filter(|span| now.since(began) >= *span) {
                return self.end_of_time(span, client.unsent());
            }
            if now >= tick_at {
                self.recorder.tick(now);
                tick_at = now + TICK;
            }
            if self.count == 0 && hint_at.take_if(|at| now >= *at).is_some() {
                match client.unsent() {
                    Some(why) => {
                        eprintln!("openuvr client: {} can't be reached: {why}", self.address);
                    }
                    None => eprintln!(
                        "openuvr client: no answer from {} yet: {SILENT_HINT}",
                        self.address
                    ),
                }
            }
            let Some(notice) = client.notice(POLL_INTERVAL) else {
                continue;
            };
            if let Some(end) = self.print_notice(notice) {
                return end;
            }
        }
    }

    /// Prints the event. Returns the program's result if the event ends the client.
    fn print_notice(&mut self, notice: Notice) -> Option<Result<ExitCode>> {
        match notice {
            Notice::Connected {
                paired,
                fingerprint,
                before,
            } => {
                self.count += 1;
                let how = match before {
                    Some(before) if before == fingerprint => {
                        format!("paired again with the host {fingerprint}; the key is unchanged")
                    }
                    Some(before) => {
                        format!(
                            "paired again with the host {fingerprint}; the previous key was {before}"
                        )
                    }
                    None if paired => format!("paired with the host {fingerprint}"),
                    None => format!("connected to the host {fingerprint}"),
                };
                eprintln!("openuvr client: {how}");
            }
            Notice::Granted {
                role,
                host,
                observer_reason,
            } => {
                let why = observer_reason.map_or(String::new(), |why| format!("; {why}"));
                eprintln!("openuvr client: {} at {host}{why}", role.name());
                if let Some(why) = self.silent.take() {
                    eprintln!("openuvr client: {why}");
                }
                self.recorder
                    .joined(SessionId(self.count).into(), role, &host);
                self.role = role;
                self.host = host;
            }
            Notice::Link(transport) => {
                eprintln!("openuvr client: {VIDEO_TRANSPORT}{}", transport.name());
                self.recorder.link(SessionId(self.count).into(), transport);
            }
            Notice::Keys(keys) => eprintln!("openuvr client: key mapping: {}", keys.name()),
            Notice::EyeView(view) => eprintln!("openuvr client: displayed eyes: {}", view.name()),
            Notice::ReprojectionCost(re_aimed) => eprintln!("openuvr client: {re_aimed}"),
            Notice::Volume(0) => eprintln!("openuvr client: sound is muted"),
            Notice::Volume(percent) => eprintln!("openuvr client: sound at {percent} %"),
            Notice::Showing(size) => match self.shows {
                true => eprintln!("openuvr client: showing {size}"),
                false => {
                    eprintln!("openuvr client: decoding {size}, showing nothing (--present null)");
                }
            },
            Notice::SourceShown(false) => {
                eprintln!("openuvr client: the window is hidden at the host; waiting");
            }
            Notice::SourceShown(true) => {
                eprintln!("openuvr client: the window is visible again at the host");
            }
            Notice::Report(report) => {
                let record = of_report(SessionId(self.count).into(), &report, |_| None);
                self.recorder
                    .record(clock::now(), &record, self.role, &self.host);
            }
            Notice::Audio(report) => {
                let session = SessionId(self.count).into();
                self.recorder.audio(clock::now(), session, &report);
            }
            Notice::Lost(reason) => {
                self.recorder.left(SessionId(self.count).into());
                let (host, why) = (
                    &self.address,
                    reason.map_or("no more packets received", host_goodbye_text),
                );
                eprintln!("openuvr client: {host}: {why}; reconnecting");
            }
            Notice::Clipboard(words) | Notice::Sound(words) => eprintln!("openuvr client: {words}"),
            Notice::Pad(name, true) => eprintln!("openuvr client: game pad {name} is connected"),
            Notice::Pad(name, false) => eprintln!("openuvr client: game pad {name} is unplugged"),
            Notice::Haptic(haptic) => {
                if let Some(headset) = &self.headset {
                    headset.vibrate(haptic);
                }
            }
            Notice::Warning(why) => eprintln!("openuvr client: {why}"),
            Notice::StopReason(over) => return Some(self.end(over)),
        }
        None
    }

    /// The result after the time limit.
    fn end_of_time(&self, span: Duration, unsent: Option<String>) -> Result<ExitCode> {
        match (self.count, unsent) {
            (0, Some(why)) => bail!("{} can't be reached: {why}", self.address),
            (0, None) => bail!("no answer from {} within {span:?}", self.address),
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    fn end(&self, over: StopReason) -> Result<ExitCode> {
        match over {
            StopReason::Quit => Ok(ExitCode::SUCCESS),
            StopReason::Host(reason) => {
                let host = &self.address;
                eprintln!(
                    "openuvr client: {host}: session ended: {}",
                    host_goodbye_text(reason)
                );
                Ok(match reason {
                    GoodbyeReason::Quit | GoodbyeReason::SourceEnded => ExitCode::SUCCESS,
                    // The host has removed this client, or has failed.
                    GoodbyeReason::TakenOver | GoodbyeReason::Forbidden | GoodbyeReason::Failed => {
                        ExitCode::FAILURE
                    }
                })
            }
            StopReason::Handshake(e) => bail!("{}: {e}", self.address),
            StopReason::Refused(why) => bail!("{}: {why}", self.address),
            StopReason::Failed(why) => bail!(why),
        }
    }
}

/// The text for the reason of a host's goodbye.
fn host_goodbye_text(reason: GoodbyeReason) -> &'static str {
    match reason {
        GoodbyeReason::Quit => "the host has stopped",
        GoodbyeReason::Failed => "the host failed: see its messages",
        GoodbyeReason::SourceEnded | GoodbyeReason::TakenOver | GoodbyeReason::Forbidden => {
            goodbye_text(reason)
        }
    }
}
