//! Settings of `openuvr gateway`: the host's settings for browsers, video players, Moonlight clients and recordings.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};

use super::host::HostConfig;
use super::{ConfigError, Effective, RawValues, Setting, Settings};

/// The settings of a gateway. All others belong to the application. The gateway offers browsers the codec of the
/// default encoder, H.264. The C API has no encoder for VP9, the other codec of browsers.
const GATEWAY_SETTINGS: [&str; 20] = [
    "config-dir",
    "log",
    "name",
    "moonlight",
    "sound",
    "record",
    "record-overwrite",
    "record-sound",
    "rtsp",
    "rtsp-sound",
    "rtsp-token",
    "web",
    "web-cert",
    "web-key",
    "ice-servers",
    "ice-servers-file",
    "public-address",
    "web-origin",
    "web-proxy",
    "web-rate-control",
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
        "Serve a C API application's stream to browsers, video players and Moonlight, or record it";
    const EXAMPLES: &'static str = "\
Examples:
  openuvr gateway /run/user/1000/game.sock --web
                                            serve browsers; the page's address is shown
  openuvr gateway game.sock --rtsp --record play.mp4
                                            serve video players, and record

SOCKET is the path that the application has configured (`gateway` of struct openuvr_config). The
gateway runs outside the application's process. The socket need not exist yet, and the gateway
continues when the application restarts. Ctrl-C ends the gateway. --FLAG=false disables a flag,
--OPTION '' unsets a saved option. If an option is repeated, the last one applies. -h prints short
help, --help the full help.";

    fn table() -> Vec<Setting> {
        let host = HostConfig::table().into_iter();
        let host = host.map(|setting| match GATEWAY_SETTINGS.contains(&setting.key) {
            true => setting,
            false => setting.fixed(),
        });
        host.collect()
    }

    fn typed(values: &RawValues) -> Result<GatewayConfig, ConfigError> {
        let host = HostConfig::typed(values)?;
        Ok(GatewayConfig { host })
    }

    fn check_consistency(&self) -> Result<(), ConfigError> {
        self.host.check_gateways()
    }

    fn check_environment(&self) -> Result<(), ConfigError> {
        match &self.host {
            HostConfig {
                web: None,
                rtsp: None,
                record: None,
                moonlight: None,
                ..
            } => Err(ConfigError(
                "the gateway has nothing to serve: use --web, --rtsp, --moonlight or --record"
                    .to_owned(),
            )),
            host => host.check_files(),
        }
    }
}

impl GatewayConfig {
    /// The subcommand with all flags and the socket.
    pub(crate) fn command() -> Command {
        let socket = Arg::new(SOCKET)
            .value_name("SOCKET")
            .help("Socket on which the application's host listens")
            .value_parser(value_parser!(PathBuf))
            .required_unless_present_any(["print-config", "save"]);
        <GatewayConfig as Settings>::command()
            .override_usage("openuvr gateway [OPTIONS] SOCKET")
            .arg(socket)
    }

    /// The configuration and the socket's path, which is empty if settings are only printed or saved.
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
