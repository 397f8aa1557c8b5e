//! `openuvr host --web`: the gateway for browsers, and what the person is told of it.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use openuvr_gateway::{Certificate, Gateway, Setup};
use openuvr_runtime::host::HostRuntime;
use openuvr_runtime::sched::Scheduler;

use crate::config::HostConfig;

/// Opens it, if that is wanted.
pub(super) fn open(
    config: &HostConfig,
    host: &Arc<HostRuntime>,
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
    let setup = Setup {
        bind,
        certificate,
        name: config.name.clone(),
    };
    let gateway = Gateway::start(setup, host.clone(), scheduler);
    gateway.map(Some).map_err(|e| anyhow!("--web: {e}"))
}

/// Says where browsers go, and by what they know that they are right there.
pub(super) fn tell(gateway: &Gateway, name: &str) {
    let address = gateway.address();
    let host = match address.ip() {
        // Whoever reads this knows how others call this machine.
        ip if ip.is_unspecified() => name.to_owned(),
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    };
    eprintln!(
        "openuvr host: browsers: https://{host}:{}/, certificate {}",
        address.port(),
        gateway.fingerprint()
    );
}
