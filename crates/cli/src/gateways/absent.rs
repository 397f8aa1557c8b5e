//! Replaces `present` in a program that is built without the feature `gateway`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::sched::Scheduler;

use super::are_configured;
use crate::config::HostConfig;
use crate::launches::LaunchDesk;

/// The error message for any option of a gateway.
const ABSENT: &str = "--web, --rtsp, --record and --moonlight: this program was built without the gateway; build it \
                      with ./dev build";

/// No gateways.
pub(crate) struct Gateways(());

impl Gateways {
    pub(crate) fn recorder(
        _subcommand: &'static str,
        config: &HostConfig,
        _scheduler: &Scheduler,
        _sound: bool,
    ) -> Result<Option<Infallible>> {
        refuse(config)?;
        Ok(None)
    }

    pub(crate) fn open(
        _subcommand: &'static str,
        config: &HostConfig,
        _host: Arc<dyn GatewayHost>,
        _recorder: Option<Infallible>,
        _threads: (&Scheduler, bool),
        _desk: Option<LaunchDesk>,
    ) -> Result<Gateways> {
        refuse(config)?;
        Ok(Gateways(()))
    }

    pub(crate) fn open_remote(
        _subcommand: &'static str,
        config: &HostConfig,
        _socket: PathBuf,
    ) -> Result<Option<Gateways>> {
        refuse(config)?;
        Ok(None)
    }

    pub(crate) fn start_recording(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) fn is_recording(&self) -> bool {
        true
    }

    pub(crate) fn is_host_reachable(&self) -> bool {
        true
    }

    pub(crate) fn is_over(&self, _connected: usize) -> Option<Infallible> {
        None
    }

    pub(crate) fn page(&self) -> Option<(SocketAddr, &str)> {
        None
    }

    pub(crate) fn print_addresses(&self, _config: &HostConfig) {}

    pub(crate) fn finish(self, _config: &HostConfig) {}
}

/// The certificate authority of a page.
pub(crate) fn page_authority(_config_dir: &Path) -> Result<String> {
    bail!(ABSENT)
}

fn refuse(config: &HostConfig) -> Result<()> {
    if are_configured(config) {
        bail!(ABSENT);
    }
    Ok(())
}
