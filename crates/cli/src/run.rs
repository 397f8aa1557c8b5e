//! `openuvr run`: starts a game with the hook in it, and tells the person what the host says that
//! runs inside the game.
//!
//! ```text
//! openuvr run ─► game (LD_PRELOAD=libopenuvr_hook.so, a layer of Vulkan, OPENUVR_RUN=socket)
//!      ▲           └─► first swap: connects, is told what to do, streams to the clients itself
//!      └── lines ──────┘
//! ```
//! No picture passes through here: if this program is killed, the game goes on without a stream.

mod desk;
mod game;
mod terminal;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::ArgMatches;
use openuvr_media::input_sink::xtest::release_held;
use openuvr_runtime::clock;
use openuvr_runtime::host::config::Config;
use openuvr_runtime::line::{Line, Order};

use crate::clients::{Clients, HostState, TICK};
use crate::config::RunConfig;
use crate::record::{Options, Recorder};

use desk::Desk;
pub(crate) use game::library;
use game::{Game, Signals};

/// How often signals and the game's end are looked for; what the hook says is heard at once.
const TURN: Duration = Duration::from_millis(50);

/// A game that has shown no picture for so long may be one that can't be hooked (guess: a large
/// one loads for that long).
const WONDER: Duration = Duration::from_secs(15);

/// How long a launcher that has ended may take to bring its game to a first picture (guess).
const LAUNCHING: Duration = Duration::from_secs(10);

/// Runs until the game and the processes that show its pictures have ended.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let (effective, words) = RunConfig::with_game(matches)?;
    if let Some(text) = effective.printed {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let config = effective.config;
    openuvr_terminal::log_to_stderr(config.host.log);
    // What is wrong is told before the game begins, not within it.
    Config::from(&config.host).check().map_err(|e| anyhow!(e))?;
    let library = library(config.hook.as_deref())?;
    let order = Order {
        input: config.host.injects(),
        window: config.window.clone(),
        host: (&config.host).into(),
    };
    let recorder = Recorder::new(&Options::from(&config.host))?;
    let mut signals = Signals::take()?;
    let mut desk = Desk::open(&order)?;
    let mut game = Game::start(&words, &library, &desk)?;
    let mut clients = Clients::new("run", recorder);
    let began = clock::now();
    let (mut tick_at, mut quiet_since, mut wondered) = (began, began, false);
    loop {
        for line in desk.lines(TURN) {
            hear(&mut clients, line);
        }
        release_for(&mut desk);
        let now = clock::now();
        if now >= tick_at {
            clients.tick(now);
            game.fit_terminal();
            tick_at = now + TICK;
        }
        game.pass_on(&signals.pending(), desk.streaming());
        if desk.is_busy() || !game.ended() {
            quiet_since = now;
        }
        if !desk.was_used() && !wondered && now.since(began) >= WONDER {
            wondered = true;
            eprintln!("openuvr run: no picture yet. {}", game::WHY_NONE);
        }
        let waits = game.has_children() && now.since(quiet_since) < LAUNCHING;
        if game.ended() && !desk.is_busy() && !waits {
            break;
        }
    }
    for line in desk.lines(Duration::ZERO) {
        hear(&mut clients, line);
    }
    release_for(&mut desk);
    game.say_last_words();
    let complete = clients.finish();
    if !desk.was_used() && !wondered {
        eprintln!(
            "openuvr run: the game has ended without a picture. {}",
            game::WHY_NONE
        );
    }
    match complete {
        Err(why) if game.succeeded() => Err(why),
        Err(why) => {
            eprintln!("openuvr run: {why}");
            Ok(game.exit_code())
        }
        Ok(()) => Ok(game.exit_code()),
    }
}

/// Releases what processes that have ended held down: one that was killed could not.
fn release_for(desk: &mut Desk) {
    for display in desk.left_behind() {
        // A display that is gone holds nothing.
        if let Err(e) = release_held(Some(&display)) {
            tracing::debug!("{e}");
        }
    }
}

/// The end of the stream is not the end of the game.
fn hear(clients: &mut Clients, line: Line) {
    if let HostState::Failed(why) = clients.tell(line) {
        eprintln!("openuvr run: {why}; the game goes on without a stream");
    }
}
