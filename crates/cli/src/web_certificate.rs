//! `openuvr web-certificate`: what a browser has to be given so that it trusts this host's page.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Result;
use openuvr_gateway::certificate::{PageNames, authority};
use openuvr_runtime::store::config_dir;

/// Print the certificate that browsers have to trust, in PEM form, so that they do not ask about this host's page
///
/// It is the certificate of an authority that the host made for itself (`web-authority.pem` beside its keys): the
/// page's own certificate is signed by it, and renewed without a new one. The authority can sign for this host's names
/// and for addresses of private networks alone. Give it to each browser or system that is to trust the page:
///
///   openuvr web-certificate > openuvr.crt
///
/// Hosts with --web-cert do not use it.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder of keys and devices [default: $XDG_CONFIG_HOME/openuvr or ~/.config/openuvr]
    #[arg(long, value_name = "FOLDER")]
    config_dir: Option<PathBuf>,
}

/// Prints it.
///
/// # Errors
/// One line: the file can't be read or made.
pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = args.config_dir.clone().map_or_else(config_dir, Ok)?;
    let everywhere = ([0; 16], openuvr_gateway::PORT).into();
    let names = PageNames::of(everywhere, []);
    print!("{}", authority(&dir, &names, SystemTime::now())?);
    Ok(())
}
