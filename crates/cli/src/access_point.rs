//! `openuvr ap`: the crate `openuvr-access-point`, with this program's configuration folder.

use anyhow::Result;
use openuvr_access_point::{Args, Defaults};
use openuvr_runtime::{machine, store};

/// Runs an access point until a signal arrives.
///
/// # Errors
/// Returns an error with a one-line message if this machine cannot be an access point.
pub(crate) fn run(args: &Args) -> Result<()> {
    let defaults = Defaults {
        config_dir: store::config_dir().map_err(Into::into),
        machine: machine::name(),
    };
    openuvr_access_point::run(args, defaults)
}
