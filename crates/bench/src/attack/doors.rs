//! The doors of a host for browsers and video players, and the honest ones that come there.

use std::net::SocketAddr;

use anyhow::Result;
use openuvr_lab::attack::browsers::{Browser, Page};
use openuvr_proto::control::identity::DeviceName;
use openuvr_runtime::trust_store::DeviceStore;

/// What a URL for video players contains here.
pub(super) const TOKEN: &str = "the-token-of-this-attack";

/// Where the honest ones go, and what they are.
pub(super) struct Doors {
    pub(super) page: SocketAddr,
    pub(super) players: SocketAddr,
    pub(super) browser: Browser,
}

impl Doors {
    /// Those at these addresses, for a browser that the devices have from now on.
    pub(super) fn open(
        page: SocketAddr,
        players: SocketAddr,
        devices: &mut DeviceStore,
    ) -> Result<Doors> {
        let browser = Browser::new(Page::new(page)?)?;
        devices.pair(browser.device(), &DeviceName::new("a browser"), 1)?;
        Ok(Doors {
            page,
            players,
            browser,
        })
    }
}
