//! What `openuvr gateway` can be told: of what a host can, what lets others than our own clients in.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};

use super::host::HostConfig;
use super::{Effective, Given, Refused, Setting, Settings};

/// What a gateway has a choice of; all else is the application's.
const ITS_OWN: [&str; 16] = [
    "config-dir",
    "log",
    "name",
    "sound",
    "record",
    "record-overwrite",
    "rtsp",
    "rtsp-token",
    "web",
    "web-cert",
    "web-key",
    "web-ice",
    "web-ice-file",
    "web-address",
    "web-origin",
    "web-proxy",
];

const SOCKET: &str = "socket";

/// The configuration of `openuvr gateway`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct GatewayConfig {
    pub(crate) host: HostConfig,
}

impl Settings for GatewayConfig {
    const ROLE: &'static str = "gateway";
    const ABOUT: &'static str =
        "Let browsers and video players into an application of the C API, or record it";
    const EXAMPLES: &'static str = "\
Examples:
  openuvr gateway /run/user/1000/game.sock --web
                                            browsers, at the address that is shown
  openuvr gateway game.sock --rtsp --record play.mp4
                                            video players, and a recording

SOCKET is what the application has named in its configuration (`gateway` of struct
openuvr_config): none of this runs in the application's process. It need not be there yet, and may
come again. Ctrl-C ends it. --FLAG=false turns a flag off, --OPTION '' unsets an option that was
saved; of an option given twice the last counts. --help says more on each than -h.";

    fn table() -> Vec<Setting> {
        let host = HostConfig::table().into_iter();
        let host = host.map(|setting| match ITS_OWN.contains(&setting.key) {
            true => setting,
            false => setting.fixed(),
        });
        host.collect()
    }

    fn typed(given: &Given) -> Result<GatewayConfig, Refused> {
        let host = HostConfig::typed(given)?;
        Ok(GatewayConfig { host })
    }

    fn agree(&self) -> Result<(), Refused> {
        self.host.gateways_agree()
    }

    fn can_begin(&self) -> Result<(), Refused> {
        match &self.host {
            HostConfig {
                web: None,
                rtsp: None,
                record: None,
                ..
            } => Err(Refused(
                "nobody is to be let in: give --web, --rtsp or --record".to_owned(),
            )),
            host => host.files_are_apart(),
        }
    }
}

impl GatewayConfig {
    /// The subcommand with all flags and the socket.
    pub(crate) fn command() -> Command {
        let socket = Arg::new(SOCKET)
            .value_name("SOCKET")
            .help("Where the application's host listens")
            .value_parser(value_parser!(PathBuf))
            .required_unless_present_any(["print-config", "save"]);
        <GatewayConfig as Settings>::command()
            .override_usage("openuvr gateway [OPTIONS] SOCKET")
            .arg(socket)
    }

    /// The configuration, and the socket; without one settings are only printed or saved.
    ///
    /// # Errors
    /// See [`Settings::from_matches`].
    pub(crate) fn with_socket(
        matches: &ArgMatches,
    ) -> anyhow::Result<(Effective<GatewayConfig>, PathBuf)> {
        let socket = matches.get_one(SOCKET).cloned().unwrap_or_default();
        Ok((GatewayConfig::from_matches(matches)?, socket))
    }
}
