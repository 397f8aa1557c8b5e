//! `--moonlight`: the door for Moonlight clients and its messages.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use openuvr_discovery::MoonlightAnnouncement;
use openuvr_moonlight::{Moonlight, MoonlightSetup};
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::sched::Scheduler;

use super::url::authority;
use crate::config::HostConfig;
use crate::config::kind::WindowName;

/// The application of a host that streams a display: the name that Moonlight's users know.
const DISPLAY: &str = "Desktop";

/// A door, and its announcement by mDNS.
pub(super) struct Door {
    // Withdrawn before the door closes.
    _announcement: Option<MoonlightAnnouncement>,
    moonlight: Moonlight,
}

/// Opens the door, if configured; `sound`: the host has sound. `subcommand` is the prefix of each line.
pub(super) fn open(
    subcommand: &'static str,
    config: &HostConfig,
    host: &Arc<dyn GatewayHost>,
    scheduler: &Scheduler,
    sound: bool,
) -> Result<Option<Door>> {
    let Some(bind) = config.moonlight else {
        return Ok(None);
    };
    let application = match &config.window {
        Some(WindowName::Text(title)) => title,
        _ => DISPLAY,
    };
    let setup = MoonlightSetup {
        bind,
        folder: config.config_dir.clone(),
        name: config.name.clone(),
        applications: vec![application.to_owned()],
        sound,
        fits: config.fits(),
        announce: Box::new(move |line| eprintln!("openuvr {subcommand}: {line}")),
    };
    let moonlight = Moonlight::start(setup, host.clone(), scheduler);
    let moonlight = moonlight.map_err(|e| anyhow!("--moonlight: {e}"))?;
    let (name, number) = (&config.name, moonlight.identity());
    let announcement = config.discoverable.then(|| {
        MoonlightAnnouncement::start(subcommand, name, number, moonlight.addresses().http)
    });
    Ok(Some(Door {
        _announcement: announcement.flatten(),
        moonlight,
    }))
}

/// Prints the address for Moonlight clients.
pub(super) fn print_address(subcommand: &str, door: &Door, name: &str) {
    let address = authority(door.moonlight.addresses().http, name);
    eprintln!("openuvr {subcommand}: Moonlight clients: add the host {address}");
}
