//! The configured gateways.

#[cfg(feature = "moonlight")]
mod moonlight;
#[cfg(not(feature = "moonlight"))]
#[path = "present/moonlight_absent.rs"]
mod moonlight;
mod record;
mod rtsp;
mod sound;
mod url;
mod web;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, anyhow};
use openuvr_gateway::Gateway;
use openuvr_gateway::certificate::{PageNames, authority};
use openuvr_gateway::lease::{Lease, LeaseEnd};
use openuvr_gateway::record::Recorder;
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::remote::RemoteHost;
use openuvr_runtime::sched::Scheduler;
use openuvr_runtime::sound_choice::SoundChoice;
use openuvr_runtime::store::ensure_dir;

use super::are_configured;
use crate::config::HostConfig;
use crate::launches::LaunchDesk;

/// The configured gateways. They hold a reference to the host.
pub(crate) struct Gateways {
    /// The name of the subcommand, printed before each message.
    subcommand: &'static str,
    gateway: Option<Gateway>,
    players: Option<rtsp::Players>,
    moonlight: Option<moonlight::Door>,
    recorder: Option<Recorder>,
    host: Arc<dyn GatewayHost>,
    /// The portal's lease, if there is one.
    lease: Option<Arc<Lease>>,
}

impl Gateways {
    /// The recorder, if configured. Its file is created before the host, so that an error is reported early.
    ///
    /// # Errors
    /// Returns an error with a one-line message if the file cannot be created.
    pub(crate) fn recorder(
        subcommand: &'static str,
        config: &HostConfig,
        scheduler: &Scheduler,
        sound: bool,
    ) -> Result<Option<Recorder>> {
        record::open(subcommand, config, scheduler, sound)
    }

    /// Opens the gateways of `host`, with `recorder`. `sound` is whether the host may have sound; `desk` starts
    /// applications for Moonlight clients.
    ///
    /// # Errors
    /// Returns an error with a one-line message if a gateway cannot be opened.
    pub(crate) fn open(
        subcommand: &'static str,
        config: &HostConfig,
        host: Arc<dyn GatewayHost>,
        recorder: Option<Recorder>,
        (scheduler, sound): (&Scheduler, bool),
        desk: Option<LaunchDesk>,
    ) -> Result<Gateways> {
        let lease = lease(config);
        let moonlight = moonlight::open(subcommand, config, &host, (scheduler, sound), desk)?;
        let pin_entry = moonlight
            .as_ref()
            .map(|door| moonlight::pin_entry(door, config));
        Ok(Gateways {
            subcommand,
            gateway: web::open(config, &host, (lease.as_ref(), pin_entry), scheduler)?,
            players: rtsp::open(config, &host, scheduler, sound)?,
            moonlight,
            recorder,
            host,
            lease,
        })
    }

    /// Opens the configured gateways, if any, for the host inside an application. That host may start listening at
    /// `socket` later.
    ///
    /// # Errors
    /// Returns an error with a one-line message if a gateway cannot be opened.
    pub(crate) fn open_remote(
        subcommand: &'static str,
        config: &HostConfig,
        socket: PathBuf,
    ) -> Result<Option<Gateways>> {
        if !are_configured(config) {
            return Ok(None);
        }
        // The gateways share this folder with the application's host. The host creates the folder, but may not have
        // started yet.
        ensure_dir(&config.config_dir)?;
        // The gateways' threads get no real-time priority, so that they do not delay the application.
        let scheduler = Scheduler::ordinary();
        let host = Arc::new(RemoteHost::new(socket, &scheduler));
        let sound = config.sound != SoundChoice::Off;
        let recorder = record::open(subcommand, config, &scheduler, sound)?;
        let threads = (&scheduler, sound);
        let gateways = Gateways::open(subcommand, config, host, recorder, threads, None)?;
        gateways.print_addresses(config);
        Ok(Some(gateways))
    }

    /// Starts recording; the host must already be streaming.
    ///
    /// # Errors
    /// Returns an error with a one-line message if recording cannot start.
    pub(crate) fn start_recording(&self) -> Result<()> {
        let Some(recorder) = &self.recorder else {
            return Ok(());
        };
        let followed = recorder.follow(self.host.clone());
        followed.map_err(|e| anyhow!("--record: {e}"))
    }

    /// Whether the recorder is running, or none is configured.
    pub(crate) fn is_recording(&self) -> bool {
        (self.recorder.as_ref()).is_none_or(Recorder::is_following)
    }

    pub(crate) fn is_host_reachable(&self) -> bool {
        self.host.is_available()
    }

    /// Updates the lease with the number of connected clients of all kinds. Returns why the session is over, if it is.
    pub(crate) fn is_over(&self, connected: usize) -> Option<LeaseEnd> {
        let lease = self.lease.as_ref()?;
        let now = Instant::now();
        lease.connected(now, connected);
        lease.ended(now)
    }

    /// The page's address and its certificate's fingerprint, if there is a page.
    pub(crate) fn page(&self) -> Option<(SocketAddr, &str)> {
        let gateway = self.gateway.as_ref()?;
        Some((gateway.address(), gateway.fingerprint()))
    }

    /// Prints the gateways' addresses.
    pub(crate) fn print_addresses(&self, config: &HostConfig) {
        if let Some(gateway) = &self.gateway {
            web::print_addresses(self.subcommand, gateway, config);
        }
        if let Some(players) = &self.players {
            rtsp::print_address(self.subcommand, players, &config.name);
        }
        if let Some(door) = &self.moonlight {
            moonlight::print_address(self.subcommand, door, &config.name);
        }
    }

    /// Ends all gateways, and prints a summary of the recording.
    pub(crate) fn finish(self, config: &HostConfig) {
        drop((self.gateway, self.players, self.moonlight));
        record::finish(self.subcommand, config, self.recorder);
    }
}

fn lease(config: &HostConfig) -> Option<Arc<Lease>> {
    let (key, session) = (config.ticket_key?, config.ticket_session?);
    // Without a lease duration, the lease does not expire.
    let span = config.lease.unwrap_or(Duration::MAX);
    config.web?;
    let lease = Lease::new(Instant::now(), key, session, span);
    Some(Arc::new(lease))
}

/// The certificate authority of this host's page, in PEM format. It is created if `config_dir` has none.
///
/// # Errors
/// Returns an error with a one-line message if the file cannot be read or created.
pub(crate) fn page_authority(config_dir: &Path) -> Result<String> {
    let everywhere = ([0; 16], openuvr_gateway::PORT).into();
    let names = PageNames::of(everywhere, []);
    Ok(authority(config_dir, &names, SystemTime::now())?)
}
