//! The features of the desktop's portals. They are queried without a session and without a permission dialog.

use std::time::Duration;

use ashpd::desktop::remote_desktop::RemoteDesktop;
use ashpd::desktop::screencast::{CursorMode, Screencast};

use super::{PortalError, runtime};
use crate::stream::check_library;

/// The maximum wait. The query may start the portal and its backend (guess: seconds on a busy machine).
const LIMIT: Duration = Duration::from_secs(20);

/// The portals of a desktop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portals {
    /// The version of ScreenCast.
    pub screen_cast: u32,
    /// Whether the pointer can be sent separately from the picture.
    pub pointer_apart: bool,
    /// The version of RemoteDesktop; `None` if the desktop has no portal for input.
    pub remote_desktop: Option<u32>,
}

impl Portals {
    /// Queries the portals on the D-Bus session bus at this address. If `bus` is `None`, the environment variable
    /// `DBUS_SESSION_BUS_ADDRESS` contains the address. Takes at most 20 s.
    ///
    /// # Errors
    /// Returns a one-line error if there is no D-Bus session bus, no portal that shares the screen, or no libpipewire,
    /// which delivers the pictures.
    pub fn probe(bus: Option<&str>) -> Result<Portals, PortalError> {
        check_library()?;
        runtime()?.block_on(async {
            let probed = tokio::time::timeout(LIMIT, probe(bus)).await;
            probed.unwrap_or_else(|_| {
                Err(PortalError::new(format!(
                    "the desktop's portal does not answer within {} s: see the messages of xdg-desktop-portal",
                    LIMIT.as_secs()
                )))
            })
        })
    }
}

async fn probe(bus: Option<&str>) -> Result<Portals, PortalError> {
    let bus = super::connect(bus).await?;
    let asking = |cause: ashpd::Error| PortalError::of("being asked", &cause);
    let casts = Screencast::with_connection(bus.clone())
        .await
        .map_err(asking)?;
    // Until the portal has answered a request, the version is only a default value.
    casts.available_source_types().await.map_err(asking)?;
    let pointer_apart = match casts.version() {
        0 | 1 => false,
        _ => {
            let modes = casts.available_cursor_modes().await.map_err(asking)?;
            modes.contains(CursorMode::Metadata)
        }
    };
    let remote = RemoteDesktop::with_connection(bus).await.ok();
    Ok(Portals {
        screen_cast: casts.version(),
        pointer_apart,
        remote_desktop: remote.map(|remote| remote.version()),
    })
}
