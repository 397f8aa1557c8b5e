//! Replaces `moonlight` in a program that is built without that feature.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::{Result, bail};
use openuvr_gateway::PinEntry;
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::sched::Scheduler;

use crate::config::HostConfig;
use crate::launches::LaunchDesk;

/// There is no server for Moonlight clients.
pub(super) type Door = Infallible;

pub(super) fn open(
    _subcommand: &'static str,
    config: &HostConfig,
    _host: &Arc<dyn GatewayHost>,
    _threads: (&Scheduler, bool),
    _desk: Option<LaunchDesk>,
) -> Result<Option<Door>> {
    if config.moonlight.is_some() {
        bail!(
            "--moonlight: this program was built without support for Moonlight; build it with ./dev build"
        );
    }
    Ok(None)
}

pub(super) fn pin_entry(door: &Door, _config: &HostConfig) -> Arc<dyn PinEntry> {
    match *door {}
}

pub(super) fn print_address(_subcommand: &str, door: &Door, _name: &str) {
    match *door {}
}
