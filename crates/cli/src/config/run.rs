//! Settings of `openuvr run`: the settings of a host, except for its source.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Command};

use super::host::{HostConfig, PadsKind};
use super::kind::{flag, optional, path, text};
use super::{ConfigError, Default, Effective, RawValues, Setting, Settings, app_args, settings};

settings! {
    /// The settings that a host does not have.
    RunSettings is "run" {
        about: "Start a game and stream its pictures from inside its process";
        examples: "\
Examples:
  openuvr run -- glxgears                   new clients pair with the PIN shown
  openuvr run --fps 120 -- openarena +set r_fullscreen 0
  openuvr run --window Neverball -- sh start-game.sh
                                            games started by scripts and launchers are found
  openuvr run --api --web -- ./my-engine    an application of the C API (libopenuvr)
  openuvr run --fit --pads 2 -- neverball   resize the display to the player's window; two game
                                            pads are present from the start

For games that draw with OpenGL (GLX, EGL) or Vulkan. The first process that presents a picture is
streamed. `openuvr run` forwards Ctrl-C to the game, and exits with the game's exit code. 32-bit,
static and setuid programs are not supported: for them, use `openuvr host --window`.
--FLAG=false disables a flag, --OPTION '' unsets a saved option. If an option is repeated, the last
one applies; encoder options add up. -h prints short help, --help the full help.";
        check_consistency: |_| Ok(());
        check_environment: |_| Ok(());

        "Video source" {
            /// Stream only windows with this text in their title or class.
            /// Case is ignored. If several windows match, the largest of them is streamed. Without this option, the largest
            /// window is streamed.
            window: Option<String> = "window", optional(text("TITLE", 255)),
                Default::Unset("any");
            /// Library to load into the game.
            hook: Option<PathBuf> = "hook", optional(path("FILE")),
                Default::Unset("libopenuvr_hook.so next to this program, or in ../lib/openuvr");
            /// For an application that links libopenuvr: load no library into it.
            /// `openuvr run` passes the listen address and the access rules to the application's host. It also serves
            /// browsers and video players, and records the stream. The application controls its picture source, encoder
            /// and input.
            api: bool = "api", flag(), Default::Is("false");
        }
    }
}

/// The configuration of `openuvr run`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RunConfig {
    /// A part of the title or class of the windows to stream.
    pub(crate) window: Option<String>,
    /// The library to load.
    pub(crate) hook: Option<PathBuf>,
    /// Whether the game links libopenuvr itself.
    pub(crate) api: bool,
    /// The settings of the host inside the game.
    pub(crate) host: HostConfig,
}

impl Settings for RunConfig {
    const ROLE: &'static str = RunSettings::ROLE;
    const ABOUT: &'static str = RunSettings::ABOUT;
    const EXAMPLES: &'static str = RunSettings::EXAMPLES;

    fn table() -> Vec<Setting> {
        let host = HostConfig::table_in_process(&[]);
        let host = host.filter(|setting| setting.key != "window");
        let host = host.map(|setting| match setting.key {
            // By default, a game's keys keep their physical positions.
            "key-mapping" => setting.with_default(Default::Is("position")),
            // The defaults of a host depend on options that `openuvr run` does not have.
            "fit" => setting.with_default(Default::Unset("false")),
            "input" => setting.with_default(Default::Unset("xtest")),
            _ => setting,
        });
        RunSettings::table().into_iter().chain(host).collect()
    }

    fn typed(values: &RawValues) -> Result<RunConfig, ConfigError> {
        let RunSettings { window, hook, api } = RunSettings::typed(values)?;
        let host = HostConfig {
            window: None,
            ..HostConfig::typed(values)?
        };
        Ok(RunConfig {
            window,
            hook,
            api,
            host,
        })
    }

    fn check_consistency(&self) -> Result<(), ConfigError> {
        if self.host.pads == PadsKind::Uinput {
            let words = "--pads uinput is for openuvr host: use --pads auto, 0 to 4, or off";
            return Err(ConfigError(words.to_owned()));
        }
        if self.api && (self.window.is_some() || self.hook.is_some()) {
            let words = "--api cannot be combined with --window or --hook: no library is loaded into the application";
            return Err(ConfigError(words.to_owned()));
        }
        self.host.check_gateways()?;
        self.host.check_encoding()
    }

    fn check_environment(&self) -> Result<(), ConfigError> {
        self.host.check_files()?;
        self.host.check_encoder_options()
    }
}

impl RunConfig {
    /// The subcommand with all flags and the game.
    pub(crate) fn command() -> Command {
        let command = <RunConfig as Settings>::command();
        let command = command.override_usage("openuvr run [OPTIONS] -- GAME [ARGS]...");
        command.arg(app_args::required("GAME"))
    }

    /// The configuration and the game's command line.
    ///
    /// # Errors
    /// See [`Settings::from_matches`].
    pub(crate) fn with_game(
        matches: &ArgMatches,
    ) -> anyhow::Result<(Effective<RunConfig>, Vec<OsString>)> {
        Ok((
            RunConfig::from_matches(matches)?,
            app_args::program(matches)?,
        ))
    }
}
