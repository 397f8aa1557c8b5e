//! What `openuvr run` can be told: what a host can, but for where its pictures come from.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Command};

use super::host::{HostConfig, PadsKind};
use super::kind::{flag, optional, path, text};
use super::{Default, Effective, Given, Refused, Setting, Settings, command_words, settings};

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
  openuvr run --api --web -- ./my-engine    an application of the C API (libopenuvr)
  openuvr run --fit --pads 2 -- neverball   the display takes the size of the player's window; two pads
                                            are there from the start

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
            /// For an application that links libopenuvr: nothing is loaded into it.
            /// Its host is told from here where it listens and who may come in, and browsers, video players
            /// and a recording are served by this program. What it shows, how that is encoded and what input
            /// does is its own.
            api: bool = "api", flag(), Default::Is("false");
        }
    }
}

/// The configuration of `openuvr run`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RunConfig {
    /// Only windows with this in their title or class.
    pub(crate) window: Option<String>,
    /// The library.
    pub(crate) hook: Option<PathBuf>,
    /// Whether the game links the library itself.
    pub(crate) api: bool,
    /// The host inside the game.
    pub(crate) host: HostConfig,
}

impl Settings for RunConfig {
    const ROLE: &'static str = Own::ROLE;
    const ABOUT: &'static str = Own::ABOUT;
    const EXAMPLES: &'static str = Own::EXAMPLES;

    fn table() -> Vec<Setting> {
        let host = HostConfig::table_inside(&[]);
        let host = host.filter(|setting| setting.key != "window");
        let host = host.map(|setting| match setting.key {
            // A game's keys are places.
            "keys" => setting.with_default(Default::Is("position")),
            _ => setting,
        });
        Own::table().into_iter().chain(host).collect()
    }

    fn typed(given: &Given) -> Result<RunConfig, Refused> {
        let Own { window, hook, api } = Own::typed(given)?;
        let host = HostConfig {
            window: None,
            ..HostConfig::typed(given)?
        };
        Ok(RunConfig {
            window,
            hook,
            api,
            host,
        })
    }

    fn agree(&self) -> Result<(), Refused> {
        if self.host.pads == PadsKind::Uinput {
            let words = "pads uinput is for openuvr host: a game of openuvr run sees pads by itself (auto), or off";
            return Err(Refused(words.to_owned()));
        }
        if self.api && (self.window.is_some() || self.hook.is_some()) {
            let words = "window and hook are for a game with the hook in it: api does without";
            return Err(Refused(words.to_owned()));
        }
        self.host.gateways_agree()?;
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
        command.arg(command_words::required("GAME"))
    }

    /// The configuration, and the game with its arguments.
    ///
    /// # Errors
    /// See [`Settings::from_matches`].
    pub(crate) fn with_game(
        matches: &ArgMatches,
    ) -> anyhow::Result<(Effective<RunConfig>, Vec<OsString>)> {
        Ok((
            RunConfig::from_matches(matches)?,
            command_words::program(matches)?,
        ))
    }
}
