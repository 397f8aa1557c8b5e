//! `--moonlight`: the server for Moonlight clients, and its messages.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use openuvr_discovery::MoonlightAnnouncement;
use openuvr_gateway::{PinEntry, Service};
use openuvr_moonlight::session::Mode;
use openuvr_moonlight::{
    LaunchRefused, Launcher, Moonlight, MoonlightSetup, OfferedApplication, PinDesk,
};
use openuvr_proto::host::WantedDisplay;
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::sched::Scheduler;

use super::url::authority;
use crate::config::HostConfig;
use crate::config::kind::WindowName;
use crate::launches::{LaunchDesk, Listed, StartRefused};

/// The name of the application if the host streams a display. Moonlight's users expect this name.
const DISPLAY: &str = "Desktop";

/// The server for Moonlight clients, and its mDNS announcement.
pub(super) struct Door {
    // This must be the first field, so that the announcement is withdrawn before the server closes.
    _announcement: Option<MoonlightAnnouncement>,
    moonlight: Moonlight,
}

/// Opens the server, if configured. `sound` is whether the host has sound; `subcommand` is the prefix of each line.
pub(super) fn open(
    subcommand: &'static str,
    config: &HostConfig,
    host: &Arc<dyn GatewayHost>,
    (scheduler, sound): (&Scheduler, bool),
    desk: Option<LaunchDesk>,
) -> Result<Option<Door>> {
    let Some(bind) = config.moonlight else {
        return Ok(None);
    };
    let applications = match (&desk, &config.window) {
        (Some(desk), _) => desk.list().iter().map(offered).collect(),
        (None, Some(WindowName::Text(title))) => vec![plain(title)],
        (None, _) => vec![plain(DISPLAY)],
    };
    let setup = MoonlightSetup {
        bind,
        folder: config.config_dir.clone(),
        name: config.name.clone(),
        applications,
        launcher: desk.map(|desk| -> Arc<dyn Launcher> { Arc::new(Desk(desk)) }),
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

fn plain(title: &str) -> OfferedApplication {
    OfferedApplication {
        title: title.to_owned(),
        icon: None,
    }
}

fn offered(listed: &Listed) -> OfferedApplication {
    OfferedApplication {
        title: listed.name.clone(),
        icon: listed.icon.clone(),
    }
}

/// Starts the applications of this host.
struct Desk(LaunchDesk);

impl Launcher for Desk {
    fn launch(&self, place: usize, mode: Mode) -> Result<(), LaunchRefused> {
        let wanted = WantedDisplay {
            size: mode.size,
            rate: mode.rate.try_into().ok(),
        };
        self.0
            .start(place, wanted)
            .map_err(|refused| match refused {
                StartRefused::Busy(other) => LaunchRefused::Busy(other),
                StartRefused::Failed(why) => LaunchRefused::Failed(why),
            })
    }

    fn running(&self) -> Option<usize> {
        self.0.running()
    }

    fn quit(&self) {
        self.0.quit();
    }
}

/// Lets the browsers' page accept the PINs of this server's clients.
pub(super) fn pin_entry(door: &Door, config: &HostConfig) -> Arc<dyn PinEntry> {
    let named = config.public_address.first();
    Arc::new(PagePins {
        desk: door.moonlight.pin_desk(),
        address: named.map(|address| address.or_port(0).ip()),
    })
}

struct PagePins {
    desk: PinDesk,
    /// The host's address for Moonlight clients; `None` if it is the page's address.
    address: Option<IpAddr>,
}

impl PinEntry for PagePins {
    fn service(&self) -> Service {
        Service {
            name: "Moonlight",
            address: self.address,
            port: self.desk.port(),
        }
    }

    fn waiting(&self) -> Option<String> {
        self.desk.waiting().map(|from| from.to_string())
    }

    fn pair(&self, pin: &str, name: Option<&str>) -> Result<String, String> {
        (self.desk.pair(pin, name)).map_err(|why| why.to_string())
    }
}

/// Prints the address for Moonlight clients.
pub(super) fn print_address(subcommand: &str, door: &Door, name: &str) {
    let address = authority(door.moonlight.addresses().http, name);
    eprintln!("openuvr {subcommand}: Moonlight clients: add the host {address}");
}
