//! GNOME's shell, controlled through scripts that it runs.

use std::time::{Duration, Instant};

use ashpd::zbus::{Connection, Proxy};

use crate::bus::on_bus;

/// Leaves the overview with which GNOME starts.
const LEAVE_OVERVIEW: &str = "(() => {
    if (Main.layoutManager._startingUp) return 'soon';
    if (Main.overview.visible) Main.overview.hide();
    return Main.overview.visible ? 'soon' : 'desktop';
})()";

/// The result of a script, as JSON; `None` if it has failed, or if the shell cannot run it yet.
pub(crate) async fn evaluate(bus: &Connection, script: &str) -> Option<String> {
    const NAME: &str = "org.gnome.Shell";
    let shell = Proxy::new(bus, NAME, "/org/gnome/Shell", NAME).await;
    let answer: Result<(bool, String), _> = shell.unwrap().call("Eval", &(script,)).await;
    answer.ok().filter(|(done, _)| *done).map(|(_, json)| json)
}

/// Waits until the shell has started, and leaves its overview, so that it shows the desktop.
pub(crate) fn wait_for_desktop(bus: &str, limit: Duration) {
    on_bus(bus, async |bus| {
        let until = Instant::now() + limit;
        loop {
            let found = evaluate(bus, LEAVE_OVERVIEW).await;
            if found
                .as_ref()
                .is_some_and(|found| found.contains("desktop"))
            {
                return;
            }
            assert!(Instant::now() < until, "GNOME does not start: {found:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}
