//! The display of a client without a window system: the crate `openuvr-kms`, if it is built in.

use anyhow::Result;
use clap::{ArgMatches, Command};
use openuvr_runtime::client::OpenSurface;

use crate::config::WindowSpec;

#[cfg(feature = "kms")]
mod built_in {
    use anyhow::anyhow;
    use openuvr_kms::{Choice, KmsConfig, guard};
    use openuvr_media::present::PresentError;

    use super::*;
    use crate::client::open_window;

    pub(crate) fn open(
        display: &str,
        refresh: Option<f64>,
        window: WindowSpec,
    ) -> Result<(OpenSurface, Option<f64>)> {
        let wrong = || {
            anyhow!(
                "invalid card or connector {display:?}: expected CARD/CONNECTOR, such as card0/HDMI-A-1"
            )
        };
        let choice = Choice::parse(display).ok_or_else(wrong)?;
        // A missing display is reported at once. The console is taken with the first picture.
        let highest = openuvr_kms::probe(&choice)?;
        let config = KmsConfig { choice, refresh };
        let open = open_window(None, window, move |window| {
            let program = std::env::current_exe().map_err(|cause| {
                PresentError(format!("can't find the path of this executable: {cause}"))
            })?;
            let mut command = std::process::Command::new(program);
            command.arg(guard::COMMAND);
            let (presenter, input) = openuvr_kms::open(&config, window, Some(command))?;
            Ok((Box::new(presenter), Some(Box::new(input))))
        });
        Ok((open, highest))
    }

    pub(crate) fn commands() -> Option<Command> {
        Some(Command::new(guard::COMMAND).hide(true))
    }

    pub(crate) fn run(name: &str, _: &ArgMatches) -> Option<Result<()>> {
        (name == guard::COMMAND).then(|| guard::run().map_err(|why| anyhow!(why)))
    }
}

#[cfg(not(feature = "kms"))]
mod built_in {
    use anyhow::bail;

    use super::*;

    pub(crate) fn open(
        _: &str,
        _: Option<f64>,
        _: WindowSpec,
    ) -> Result<(OpenSurface, Option<f64>)> {
        bail!(
            "this program was built without --present kms: build openuvr-cli with the feature kms"
        )
    }

    pub(crate) fn commands() -> Option<Command> {
        None
    }

    pub(crate) fn run(_: &str, _: &ArgMatches) -> Option<Result<()>> {
        None
    }
}

/// The surface, and the highest refresh rate of the display.
///
/// # Errors
/// Returns an error if there is no card or no display, or if this program was built without `openuvr-kms`.
pub(super) fn open(
    display: &str,
    refresh: Option<f64>,
    window: WindowSpec,
) -> Result<(OpenSurface, Option<f64>)> {
    built_in::open(display, refresh, window)
}

/// The hidden subcommand that releases the console after the client has been killed.
pub(crate) fn commands() -> Option<Command> {
    built_in::commands()
}

/// Runs the hidden subcommand; `None` if `name` is another subcommand.
pub(crate) fn run(name: &str, matches: &ArgMatches) -> Option<Result<()>> {
    built_in::run(name, matches)
}
