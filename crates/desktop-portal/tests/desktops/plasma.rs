//! KDE's portal: the permission with which it shares the desktop without a dialog.

use std::time::{Duration, Instant};

use ashpd::zbus::Proxy;
use ashpd::zbus::fdo::DBusProxy;

use crate::bus::on_bus;

const PORTAL: &str = "org.freedesktop.impl.portal.desktop.kde";

/// Waits for the portal, and permits sessions of applications without an identity, as a user does in KDE 6's settings.
/// KDE 5.27 neither reads this permission nor shows a dialog for a session with input.
pub(crate) fn permit(bus: &str, limit: Duration) {
    on_bus(bus, async |bus| {
        let names = DBusProxy::new(bus).await.unwrap();
        let until = Instant::now() + limit;
        while !names
            .name_has_owner(PORTAL.try_into().unwrap())
            .await
            .unwrap()
        {
            assert!(Instant::now() < until, "KDE's portal does not start");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let store = Proxy::new(
            bus,
            "org.freedesktop.impl.portal.PermissionStore",
            "/org/freedesktop/impl/portal/PermissionStore",
            "org.freedesktop.impl.portal.PermissionStore",
        );
        let permission = (
            "kde-authorized",
            true,
            "remote-desktop",
            "",
            ["yes"].as_slice(),
        );
        let set: Result<(), _> = store
            .await
            .unwrap()
            .call("SetPermission", &permission)
            .await;
        set.unwrap();
    });
}
