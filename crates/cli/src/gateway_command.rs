//! `openuvr gateway`: browsers, video players and a recorder of an application of the C API, outside its process.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use clap::ArgMatches;

use crate::config::GatewayConfig;
use crate::gateways::Gateways;

/// The subcommand, as it begins each line.
const WHO: &str = "gateway";

/// How often the application is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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
    let mut told = false;
    while !stop.load(Ordering::Relaxed) {
        if !gateways.is_following() {
            // Whoever is not there yet, or no more, may come.
            let _ = gateways.follow();
        }
        if !socket.exists() && !std::mem::replace(&mut told, true) {
            waits_for(&socket);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    gateways.finish(&config);
    Ok(ExitCode::SUCCESS)
}

fn waits_for(socket: &Path) {
    let socket = socket.display();
    eprintln!(
        "openuvr {WHO}: no application listens at {socket} yet: it names this path as its gateway"
    );
}
