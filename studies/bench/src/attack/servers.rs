//! The web and RTSP servers of a host, and the honest browser and player.

use std::net::SocketAddr;

use anyhow::Result;
use openuvr_lab::attack::browsers::{Browser, Page};
use openuvr_proto::control::identity::DeviceName;
use openuvr_runtime::trust_store::DeviceStore;

/// The token in the URLs for video players.
pub(super) const TOKEN: &str = "the-token-of-this-attack";

/// The servers' addresses, and the browser that the host knows.
pub(super) struct Servers {
    pub(super) page: SocketAddr,
    pub(super) players: SocketAddr,
    pub(super) browser: Browser,
}

impl Servers {
    /// Describes the servers at these addresses, and adds a new browser to the device store.
    pub(super) fn open(
        page: SocketAddr,
        players: SocketAddr,
        devices: &mut DeviceStore,
    ) -> Result<Servers> {
        let browser = Browser::new(Page::new(page)?)?;
        devices.pair(browser.device(), &DeviceName::new("a browser"), 1)?;
        Ok(Servers {
            page,
            players,
            browser,
        })
    }
}
