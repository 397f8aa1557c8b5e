//! `openuvr gateway`: browsers, video players and a recorder for a C API application, outside its process.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use clap::ArgMatches;
use openuvr_runtime::clock;

use crate::config::GatewayConfig;
use crate::gateways::Gateways;

/// The subcommand, the prefix of each line.
const WHO: &str = "gateway";

/// The maximum delay of a signal.
const TURN: Duration = Duration::from_millis(100);

/// The interval of attempts to reach an application to record.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let (effective, socket) = GatewayConfig::with_socket(matches)?;
    if let Some(text) = effective.printed {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let config = effective.config.host;
    openuvr_terminal::log_to_stderr(config.log);
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let Some(gateways) = Gateways::outside(WHO, &config, socket.clone())? else {
        return Ok(ExitCode::SUCCESS);
    };
    if !gateways.host_is_there() {
        waits_for(&socket);
    }
    let mut look_at = clock::now();
    let mut told = None;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(TURN);
        if gateways.is_recording() || clock::now() < look_at {
            continue;
        }
        look_at = clock::now() + LOOK_EVERY;
        // The application may start later, or restart.
        if !gateways.host_is_there() {
            continue;
        }
        let why = gateways.follow().err().map(|why| why.to_string());
        if let Some(why) = &why
            && told.as_ref() != Some(why)
        {
            eprintln!("openuvr {WHO}: {why}");
        }
        told = why;
    }
    gateways.finish(&config);
    Ok(ExitCode::SUCCESS)
}

fn waits_for(socket: &Path) {
    let socket = socket.display();
    eprintln!(
        "openuvr {WHO}: no application listens at {socket} yet; set this path as `gateway` in its configuration"
    );
}
