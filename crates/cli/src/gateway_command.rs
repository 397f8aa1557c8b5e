//! `openuvr gateway`: serves browsers, video players and Moonlight clients for a C API application, or records it, in a
//! separate process.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use clap::ArgMatches;
use openuvr_clock as clock;

use crate::config::GatewayConfig;
use crate::gateways::Gateways;

/// The name of the subcommand, printed before each message.
const SUBCOMMAND: &str = "gateway";

/// The maximum delay before a signal is handled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The interval between attempts to reach the application's host, and to start recording.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let (effective, socket) = GatewayConfig::with_socket(matches)?;
    if let Some(text) = effective.printed {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let config = effective.config.host;
    openuvr_terminal::log_to_stderr(config.log);
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let Some(gateways) = Gateways::open_remote(SUBCOMMAND, &config, socket.clone())? else {
        return Ok(ExitCode::SUCCESS);
    };
    if !gateways.is_host_reachable() {
        print_waiting(&socket);
    }
    let mut retry_at = clock::now();
    let mut last_error = None;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(POLL_INTERVAL);
        if gateways.is_recording() || clock::now() < retry_at {
            continue;
        }
        retry_at = clock::now() + RETRY_INTERVAL;
        // The application may not have started yet, or may restart.
        if !gateways.is_host_reachable() {
            continue;
        }
        let why = gateways.start_recording().err().map(|why| why.to_string());
        if let Some(why) = &why
            && last_error.as_ref() != Some(why)
        {
            eprintln!("openuvr {SUBCOMMAND}: {why}");
        }
        last_error = why;
    }
    gateways.finish(&config);
    Ok(ExitCode::SUCCESS)
}

fn print_waiting(socket: &Path) {
    let socket = socket.display();
    eprintln!(
        "openuvr {SUBCOMMAND}: no application listens at {socket} yet; set this path as `gateway` in the \
         application's configuration"
    );
}
