//! `--web`: the gateway for browsers and its messages.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use openuvr_gateway::lease::Lease;
use openuvr_gateway::{Certificate, Gateway, PinEntry, PortalListener, RateControl, Setup};
use openuvr_gateway_settings::IceServer;
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::host::config::default_bitrate;
use openuvr_runtime::sched::Scheduler;
use openuvr_runtime::trust_store::DeviceStore;

use super::url::authority;
use crate::config::{HostConfig, WebRateControl};

/// Starts the gateway, if configured. Its page accepts PINs for `pin_entry`.
pub(super) fn open(
    config: &HostConfig,
    host: &Arc<dyn GatewayHost>,
    (lease, pin_entry): (Option<&Arc<Lease>>, Option<Arc<dyn PinEntry>>),
    scheduler: &Scheduler,
) -> Result<Option<Gateway>> {
    let Some(bind) = config.web else {
        return Ok(None);
    };
    let certificate = match (&config.web_cert, &config.web_key) {
        (Some(certificate), Some(key)) => Certificate::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        },
        _ => Certificate::Own(config.config_dir.clone()),
    };
    let mut ice_servers = config.ice_servers.clone();
    if let Some(file) = &config.ice_servers_file {
        let read = IceServer::read_file(file);
        ice_servers.extend(read.map_err(|why| anyhow!("--ice-servers-file: {why}"))?);
    }
    let setup = Setup {
        bind,
        certificate,
        portal: portal_endpoint(config),
        name: config.name.clone(),
        ice_servers,
        addresses: config.public_address.clone(),
        lease: lease.cloned(),
        devices: DeviceStore::open(&config.config_dir).map_err(|e| anyhow!("--web: {e}"))?,
        origins: config.web_origin.clone(),
        proxies: config.web_proxy.clone(),
        pin_entry,
        encoders: config.encoders.clone(),
        rate_control: rate_control(config),
    };
    let gateway = Gateway::start(setup, host.clone(), scheduler);
    gateway.map(Some).map_err(|e| anyhow!("--web: {e}"))
}

/// The congestion control for browsers. If no bitrate is configured, its maximum is the default bitrate of the first
/// encoder in the list. The host also applies the limits of the encoder in use.
fn rate_control(config: &HostConfig) -> RateControl {
    if config.web_rate_control == WebRateControl::Reports {
        return RateControl::Reports;
    }
    let encoder = config.encoders.first().map_or("", |encoder| encoder.0);
    let max = config.bitrate.unwrap_or(default_bitrate(encoder));
    let start = config.start_bitrate.unwrap_or(max);
    RateControl::Gcc { start, max }
}

/// The listener for a portal that relays the signalling of its browsers; `None` without such a portal.
fn portal_endpoint(config: &HostConfig) -> Option<PortalListener> {
    let socket = config.portal_socket.clone().map(PortalListener::Socket);
    socket.or_else(|| config.portal_only.then_some(PortalListener::Https))
}

/// Prints the page's URLs and the certificate's fingerprint.
pub(super) fn print_addresses(subcommand: &str, gateway: &Gateway, config: &HostConfig) {
    let (bound, fingerprint) = (gateway.address(), gateway.fingerprint());
    if portal_endpoint(config).is_some() {
        eprintln!(
            "openuvr {subcommand}: browsers connect through the portal, and their media use UDP at {bound}"
        );
        return;
    }
    let named = config.public_address.iter();
    let mut addresses: Vec<_> = named.map(|named| named.or_port(bound.port())).collect();
    if addresses.is_empty() {
        addresses.push(bound);
    }
    for address in addresses {
        let address = authority(address, &config.name);
        eprintln!("openuvr {subcommand}: browsers: https://{address}/, certificate {fingerprint}");
    }
    for origin in &config.web_origin {
        eprintln!("openuvr {subcommand}: browsers: {origin}/, through a reverse proxy");
    }
}
