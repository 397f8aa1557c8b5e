//! `openuvr web-certificate`: the certificate that makes browsers trust this host's page.

use std::path::PathBuf;

use anyhow::Result;
use openuvr_runtime::store::config_dir;

use crate::gateways;

/// Print the certificate, in PEM format, that makes browsers trust this host's page
///
/// The certificate belongs to a certificate authority that the host has generated (`web-authority.pem` next to the
/// host's keys). The authority signs the page's certificate and all later certificates of the page. It can sign only
/// for this host's names and addresses, and for addresses of private networks. Install the certificate in each browser
/// or system that should trust the page:
///
///   openuvr web-certificate > openuvr.crt
///
/// Hosts with --web-cert do not use the authority.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder for keys and devices [default: $XDG_CONFIG_HOME/openuvr or ~/.config/openuvr]
    #[arg(long, value_name = "FOLDER")]
    config_dir: Option<PathBuf>,
}

/// Prints the certificate.
///
/// # Errors
/// Returns an error with a one-line message if the authority's file cannot be read or created.
pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = args.config_dir.clone().map_or_else(config_dir, Ok)?;
    print!("{}", gateways::page_authority(&dir)?);
    Ok(())
}
