//! `openuvr xr`: starts an OpenXR application on OpenUVR's runtime, or makes this runtime the default for all
//! applications of a user.

use std::process::ExitCode;

use anyhow::Result;
use clap::ArgMatches;
use openuvr_runtime::host::config::Config;
use openuvr_runtime::launch;
use openuvr_runtime::launch_protocol::LaunchSettings;

use crate::config::xr::{INSTALL, UNINSTALL};
use crate::config::{HostConfig, Settings as _, XrConfig};
use crate::gateways;
use crate::run::{Launch, supervise};
use openuvr_terminal::usage::{self, UsageError};

/// The default frame rate if the player's display is unknown. Many headsets support this rate.
const DEFAULT_FPS: f64 = 90.0;

/// The usual causes if an application presents no pictures.
const NO_PICTURE_HINT: &str = "Possible causes: the application uses a different OpenXR runtime, draws with neither \
                               Vulkan nor OpenGL, or does not use OpenXR; try `openuvr run` or `openuvr host`";

/// The hint if an application ends early, so that no client can connect to it.
const EARLY_END_HINT: &str = "Programs such as hello_xr exit at the end of their standard input, and standard input is \
                              not a terminal here: `sleep infinity | openuvr xr …` keeps it open";

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    match matches.subcommand() {
        Some((INSTALL, matches)) => install(matches),
        Some((UNINSTALL, _)) => uninstall(),
        _ => start(matches),
    }
}

/// Runs until the application has ended.
fn start(matches: &ArgMatches) -> Result<ExitCode> {
    let (effective, words) = XrConfig::with_application(matches)?;
    if let Some(text) = effective.printed {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let config = effective.config;
    openuvr_terminal::log_to_stderr(config.host.log);
    let settings = settings(&config);
    settings.host.check().map_err(UsageError::new)?;
    let library = launch::xr_runtime(config.runtime.as_deref())?;
    let eye = settings.eye;
    let application = words.clone();
    supervise(Launch {
        subcommand: "xr",
        noun: "application",
        no_picture_hint: NO_PICTURE_HINT,
        early_end_hint: Some(EARLY_END_HINT),
        host: &config.host,
        settings,
        words: &words,
        // The application uses the headset's controllers instead of game pads.
        pads: None,
        uses_stand_in: false,
        hook: None,
        command: &|socket| launch::xr_command(&application, &library, socket, eye),
    })
}

fn settings(config: &XrConfig) -> LaunchSettings {
    let mut host = Config::from(&config.host);
    host.fps = config.host.fps.unwrap_or(DEFAULT_FPS);
    LaunchSettings {
        input: false,
        window: None,
        eye: config.eye,
        gateways: gateways::are_configured(&config.host),
        host,
    }
}

fn install(matches: &ArgMatches) -> Result<ExitCode> {
    let config = XrConfig::from_matches(matches)?;
    if let Some(text) = config.printed {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    check_installable(&config.config.host)?;
    let mut settings = settings(&config.config);
    // Applications may start with other working directories, so the path must be absolute.
    let keys = settings.host.config_dir.as_deref().map(std::path::absolute);
    settings.host.config_dir = keys.transpose()?;
    settings.host.check().map_err(UsageError::new)?;
    let library = launch::xr_runtime(config.config.runtime.as_deref())?;
    let file = launch::install(&library, &settings)?;
    println!(
        "OpenUVR is now the OpenXR runtime of this user (registered in {})",
        file.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Checks that a host that runs without `openuvr xr` supports these settings.
fn check_installable(host: &HostConfig) -> Result<(), UsageError> {
    let writes = host.csv.is_some() || host.trace.is_some();
    usage::check(!writes && !gateways::are_configured(host), || {
        "`openuvr xr install` does not support --web, --rtsp, --record, --moonlight, --csv and --trace: start the \
         application with `openuvr xr -- APP`"
            .to_owned()
    })
}

fn uninstall() -> Result<ExitCode> {
    match launch::uninstall()? {
        true => println!("OpenUVR is no longer the OpenXR runtime of this user"),
        false => println!("OpenUVR was not the OpenXR runtime of this user"),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn host(options: &[&str]) -> HostConfig {
        let usual = ["xr", "--config", "/dev/null", "--config-dir", "/tmp"];
        let words = usual.iter().chain(options);
        let command = <XrConfig as Settings>::command();
        let matches = command.try_get_matches_from(words).unwrap();
        XrConfig::from_matches(&matches).unwrap().config.host
    }

    #[test]
    fn options_of_the_launcher_are_not_installed() {
        assert!(check_installable(&host(&["--fps", "72"])).is_ok());
        for option in ["--web", "--record=a.mp4", "--csv=a.csv", "--trace=a.json"] {
            let why = check_installable(&host(&[option])).unwrap_err();
            assert!(why.to_string().contains("--csv and --trace"), "{option}");
        }
    }
}
