//! What `openuvr run` can be told: what a host can, but for where its pictures come from.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::host::{HostConfig, PadsKind};
use super::kind::{optional, path, text};
use super::{Default, Effective, Given, Refused, Setting, Settings, settings};

settings! {
    /// What a host has no use for.
    Own is "run" {
        about: "Start a game and stream what it draws, from inside its process";
        examples: "\
Examples:
  openuvr run -- glxgears                   a new client needs the PIN shown
  openuvr run --fps 120 -- openarena +set r_fullscreen 0
  openuvr run --window Neverball -- sh start-game.sh
                                            scripts and launchers are followed to the game

For games that draw with OpenGL (GLX, EGL) or Vulkan. The first process that shows a picture is
streamed. Ctrl-C goes to the game; its exit code is this program's. Not for 32-bit and static
programs, nor those that gain privileges when they start (setuid): `openuvr host --window` shows
these. --FLAG=false turns a flag off, --OPTION '' unsets an option that was saved; of an option given twice
the last counts. --help says more on each than -h.";
        agree: |_| Ok(());
        can_begin: |_| Ok(());

        "What is shown" {
            /// Only windows with this in their title or class.
            /// Upper and lower case alike. Of several, and without this, the largest is streamed.
            window: Option<String> = "window", optional(text("TITLE", 255)),
                Default::Unset("any");
            /// The library that is loaded into the game.
            hook: Option<PathBuf> = "hook", optional(path("FILE")),
                Default::Unset("libopenuvr_hook.so beside this program, or in ../lib/openuvr");
        }
    }
}

/// Settings of a host that a game decides by itself, or that need another source.
const NOT_OURS: [&str; 12] = [
    "source",
    "display",
    "virtual",
    "fit",
    "window",
    "region",
    "size",
    "clip",
    "for",
    "submit",
    "scene-fps",
    // The host is in the game's process, where nobody would write it.
    "handoffs",
];

/// The configuration of `openuvr run`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RunConfig {
    /// Only windows with this in their title or class.
    pub(crate) window: Option<String>,
    /// The library.
    pub(crate) hook: Option<PathBuf>,
    /// The host inside the game.
    pub(crate) host: HostConfig,
}

impl Settings for RunConfig {
    const ROLE: &'static str = Own::ROLE;
    const ABOUT: &'static str = Own::ABOUT;
    const EXAMPLES: &'static str = Own::EXAMPLES;

    fn table() -> Vec<Setting> {
        let host = HostConfig::table().into_iter();
        let host = host.filter(|setting| setting.key != "window");
        let host = host.map(|setting| match NOT_OURS.contains(&setting.key) {
            true => setting.fixed(),
            // A game's keys are places.
            false if setting.key == "keys" => setting.with_default(Default::Is("position")),
            false => setting,
        });
        Own::table().into_iter().chain(host).collect()
    }

    fn typed(given: &Given) -> Result<RunConfig, Refused> {
        let Own { window, hook } = Own::typed(given)?;
        let host = HostConfig {
            window: None,
            ..HostConfig::typed(given)?
        };
        Ok(RunConfig { window, hook, host })
    }

    fn agree(&self) -> Result<(), Refused> {
        if self.host.pads == PadsKind::Uinput {
            let words = "pads uinput is for openuvr host: a game of openuvr run sees pads by itself (auto), or off";
            return Err(Refused(words.to_owned()));
        }
        self.host.encoding_agrees()
    }

    fn can_begin(&self) -> Result<(), Refused> {
        self.host.files_are_apart()
    }
}

impl RunConfig {
    /// The subcommand with all flags and the game.
    pub(crate) fn command() -> Command {
        let command = <RunConfig as Settings>::command();
        let command = command.override_usage("openuvr run [OPTIONS] -- GAME [ARGS]...");
        command.arg(
            Arg::new(GAME)
                .value_name("GAME")
                .help("The program to start, with its arguments")
                .value_parser(value_parser!(OsString))
                .action(ArgAction::Append)
                .num_args(1..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .required_unless_present_any(["print-config", "save"]),
        )
    }

    /// The configuration, and the game with its arguments.
    ///
    /// # Errors
    /// See [`Settings::from_matches`].
    pub(crate) fn with_game(
        matches: &ArgMatches,
    ) -> anyhow::Result<(Effective<RunConfig>, Vec<OsString>)> {
        let game = matches.get_many(GAME).unwrap_or_default().cloned();
        Ok((RunConfig::from_matches(matches)?, game.collect()))
    }
}

const GAME: &str = "game";
