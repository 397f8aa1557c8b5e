//! `openuvr client`: opens everything that the configuration names, starts the client's threads,
//! and tells the person what happens.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::ArgMatches;
use openuvr_media::input_source;
use openuvr_media::present::{self, x11::WindowConfig};
use openuvr_net::address::{address_of, station_of};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::id::SessionId;
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_runtime::client::config::{Config, Opened};
use openuvr_runtime::client::{ClientRuntime, ClientSetup, Notice, OpenSurface, Over};
use openuvr_runtime::clock;
use openuvr_runtime::sched::Scheduler;

use crate::clients::{TICK, finish, goodbye};
use crate::config::{ClientConfig, InputFrom, Settings as _, Surface};
use crate::realtime;
use crate::record::{self, Options, Recorder};

/// A host that has not answered by then is worth a word: far more than a round trip.
const WONDER: Duration = Duration::from_secs(1);

/// What is said before the name of the link that a session has come to; benches look for it.
pub(crate) const COMES_BY: &str = "the video comes by ";

/// How often the main thread looks for signals and the end of its time.
const TURN: Duration = Duration::from_millis(50);

/// Runs a client until Ctrl-C, its window is closed, or the host ends it.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let effective = ClientConfig::from_matches(matches)?;
    if let Some(text) = effective.printed {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let config = effective.config;
    crate::log_to_stderr(config.log);
    let opened = open(&config)?;
    // Only now: until the PIN is typed there is nothing to tidy up, and a signal simply ends this.
    let stop = crate::stop_on_signals()?;
    let recorder = Recorder::new(&Options::from(&config))?;
    let address = address(&opened);
    let (client, scheduler) = start(&config, opened)?;
    if let Some(warning) = scheduler.report().warning() {
        eprintln!("openuvr client: {warning}");
    }
    let began = clock::now();
    let mut session = Session {
        recorder,
        role: Role::Observer,
        address,
        host: config.host.host.clone(),
        count: 0,
    };
    let mut wonder_at = Some(began + WONDER);
    let mut tick_at = began;
    let outcome = loop {
        let over = config
            .lasting
            .is_some_and(|span| clock::now().since(began) >= span);
        if over || stop.load(Ordering::Relaxed) {
            break Ok(ExitCode::SUCCESS);
        }
        let now = clock::now();
        if now >= tick_at {
            session.recorder.tick(now);
            tick_at = now + TICK;
        }
        if session.count == 0 && wonder_at.take_if(|at| now >= *at).is_some() {
            match client.unsent() {
                Some(why) => eprintln!(
                    "openuvr client: {} can't be reached: {why}",
                    session.address
                ),
                None => eprintln!("openuvr client: no answer from {} yet", session.address),
            }
        }
        let Some(notice) = client.notice(TURN) else {
            continue;
        };
        if let Some(end) = session.tell(notice) {
            break end;
        }
    };
    for notice in client.stop() {
        // It ends anyway.
        let _ = session.tell(notice);
    }
    // What did not leave the host is not known here: gaps mean nothing.
    let _ = finish(session.recorder);
    outcome
}

/// Opens what needs no display, and asks for the PIN if there has to be one.
fn open(config: &ClientConfig) -> Result<Opened> {
    let mut opened = Config::from(config).open().map_err(|e| anyhow!(e))?;
    for why in &opened.unusable {
        eprintln!("openuvr client: {why}");
    }
    if opened.needs_pin() {
        opened.pin = Some(ask_for_pin(&opened)?);
    }
    Ok(opened)
}

/// Where the host is looked for: as the person wrote it, and what that means.
fn address(opened: &Opened) -> String {
    let by_ip = (opened.paths.iter()).filter(|path| station_of(**path).is_none());
    let found: Vec<String> = by_ip.map(|path| address_of(*path).to_string()).collect();
    match found.join(", ") {
        found if found.is_empty() || found == opened.host => opened.host.clone(),
        found => format!("{} ({found})", opened.host),
    }
}

fn start(config: &ClientConfig, opened: Opened) -> Result<(ClientRuntime, Scheduler)> {
    let surface = config.surface().map_err(|e| anyhow!("{e}"))?;
    let scheduler = realtime::scheduler(config.realtime, &config.pin_cores);
    let input_from = config.input_from();
    let input = match &input_from {
        InputFrom::Script(file) => Some(input_source::open(&format!("script:{}", file.display()))?),
        InputFrom::Devices(list) => Some(input_source::open(&format!("evdev:{list}"))?),
        InputFrom::Window | InputFrom::Nothing => None,
    };
    let setup = ClientSetup {
        identity: opened.identity,
        name: opened.name,
        hosts: opened.hosts,
        host: opened.host,
        target: opened.target,
        paths: opened.paths,
        pin: opened.pin,
        offer: opened.offer,
        decoder: opened.decoder,
        link: opened.link,
        only: opened.only,
        surface: open_surface(surface)?,
        input,
        send_input: input_from != InputFrom::Nothing,
        overlay: config.overlay,
        reconnect: config.reconnect,
        scheduler: scheduler.clone(),
    };
    let client = ClientRuntime::start(setup).map_err(|e| anyhow!(e))?;
    Ok((client, scheduler))
}

fn ask_for_pin(opened: &Opened) -> Result<Pin> {
    let host = &opened.host;
    if !std::io::stdin().is_terminal() {
        bail!("the host {host} is not known yet: give the PIN that it shows with --pin");
    }
    // Before somebody looks for a PIN in vain.
    match opened.is_answered(WONDER) {
        Ok(true) => {}
        Ok(false) => eprintln!("openuvr client: no answer from {} yet", address(opened)),
        Err(e) => bail!("{}: {e}", address(opened)),
    }
    eprintln!("The host {host} is new.");
    eprint!("The PIN that it shows: ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(Pin::parse(line.trim())?)
}

/// The surface is opened when the first picture tells its size; a display that is not there is
/// told at once.
fn open_surface(surface: Surface) -> Result<OpenSurface> {
    Ok(match surface {
        Surface::X11 {
            display,
            size,
            full_screen,
            grab,
        } => {
            openuvr_media::display::connect(&display).map_err(|e| anyhow!(e))?;
            Box::new(move |picture: Size, host: &str, role: Role| {
                let window = WindowConfig {
                    display: Some(display.clone()),
                    title: format!("OpenUVR – {host}"),
                    size: size.unwrap_or(picture),
                    full_screen,
                    observer: role == Role::Observer,
                    grab,
                };
                present::open("x11", &window)
            })
        }
        Surface::Headless { output, every } => Box::new(move |_, _, _| {
            let headless = present::headless::Headless::new(&output, every)?;
            Ok((Box::new(headless), None))
        }),
        Surface::Null => Box::new(|_, _, _| present::open("null", &WindowConfig::default())),
    })
}

/// What this client knows of its session, and what is kept of its frames.
struct Session {
    recorder: Recorder,
    role: Role,
    /// Where the host is.
    address: String,
    /// What it is called.
    host: String,
    /// Sessions so far: each has its own rows in the records.
    count: u32,
}

impl Session {
    /// Says what happened; the program's end, if this is it.
    fn tell(&mut self, notice: Notice) -> Option<Result<ExitCode>> {
        match notice {
            Notice::Connected {
                paired,
                fingerprint,
            } => {
                self.count += 1;
                let how = if paired {
                    "paired with"
                } else {
                    "connected to"
                };
                eprintln!("openuvr client: {how} the host {fingerprint}");
            }
            Notice::Granted { role, host } => {
                eprintln!("openuvr client: {} at {host}", role.name());
                self.role = role;
                self.host = host;
            }
            Notice::Link(rung) => {
                eprintln!("openuvr client: {COMES_BY}{}", rung.name());
                self.recorder.link(SessionId(self.count), rung);
            }
            Notice::Showing(size) => eprintln!("openuvr client: showing {size}"),
            Notice::Report(report) => {
                let record = record::of_report(SessionId(self.count), &report);
                self.recorder
                    .record(clock::now(), &record, self.role, &self.host);
            }
            Notice::Lost(reason) => {
                let (host, why) = (&self.address, reason.map_or("it fell silent", goodbye));
                eprintln!("openuvr client: {host}: {why}; looking for it again");
            }
            Notice::Trouble(why) => eprintln!("openuvr client: {why}"),
            Notice::Over(over) => return Some(self.end(over)),
        }
        None
    }

    fn end(&self, over: Over) -> Result<ExitCode> {
        match over {
            Over::Quit => Ok(ExitCode::SUCCESS),
            Over::Host(reason) => {
                let host = &self.address;
                eprintln!("openuvr client: {host}: the end: {}", goodbye(reason));
                Ok(match reason {
                    GoodbyeReason::Quit | GoodbyeReason::SourceEnded => ExitCode::SUCCESS,
                    // It was thrown out.
                    GoodbyeReason::TakenOver | GoodbyeReason::Forbidden | GoodbyeReason::Failed => {
                        ExitCode::FAILURE
                    }
                })
            }
            Over::Handshake(e) => bail!("{}: {e}", self.address),
            Over::Refused(why) => bail!("{}: {why}", self.address),
            Over::Failed(why) => bail!(why),
        }
    }
}
