//! `openuvr ap`: the crate `openuvr-access-point`, with this program's folder of keys.

use anyhow::Result;
use openuvr_access_point::{Args, Defaults};
use openuvr_runtime::{machine, store};

/// Runs an access point until a signal.
///
/// # Errors
/// It cannot be one. The message has one line.
pub(crate) fn run(args: &Args) -> Result<()> {
    let defaults = Defaults {
        config_dir: store::config_dir().map_err(Into::into),
        machine: machine::name(),
    };
    openuvr_access_point::run(args, defaults)
}
