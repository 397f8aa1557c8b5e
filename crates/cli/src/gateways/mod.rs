//! Access for other clients: browsers, video players, Moonlight and a recorder, for a host in this process or in an
//! application's process.

#[cfg(not(feature = "gateway"))]
mod absent;
#[cfg(feature = "gateway")]
mod present;

use crate::config::HostConfig;

#[cfg(not(feature = "gateway"))]
pub(crate) use absent::{Gateways, page_authority};
#[cfg(feature = "gateway")]
pub(crate) use present::{Gateways, page_authority};

/// Whether any gateway is configured.
pub(crate) fn are_configured(config: &HostConfig) -> bool {
    config.web.is_some()
        || config.rtsp.is_some()
        || config.record.is_some()
        || config.moonlight.is_some()
}
