//! Scene and client on a Wayland compositor instead of one of the rig's X displays.

use anyhow::{Context as _, Result};
use openuvr_testbed::sched::Participant;
use openuvr_xserver::sway::Sway;

use super::Rig;
use crate::machine::{self, Used};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bench) enum ClientWindow {
    /// An X11 window, through the compositor's Xwayland.
    X11,
    /// A Wayland window.
    Wayland,
}

/// A compositor in a window of the second display, and the client's window in it.
pub(super) struct Desktop {
    sway: Sway,
    window: ClientWindow,
}

/// The programs that the compositors of a rig need.
pub(in crate::bench) const PROGRAMS: [&str; 3] = ["sway", "swaymsg", "Xwayland"];

const MISSING: &str = "a Wayland compositor is needed (apt install sway xwayland)";

impl Rig<'_> {
    /// Starts a compositor in a window of the second display. Subsequent clients show their windows in this compositor.
    pub(in crate::bench) fn show_in_compositor(&mut self, window: ClientWindow) -> Result<()> {
        let sway = Sway::start_desktop_in(self.far.name(), self.setup.size).context(MISSING)?;
        self.setup.sched.raise(sway.id(), Participant::Display);
        self.desktop = Some(Desktop { sway, window });
        Ok(())
    }

    /// Moves the scene into a new headless compositor, whose output has this refresh rate in Hz.
    pub(super) fn start_session(&mut self, refresh: u32) -> Result<()> {
        self.scene = None;
        let size = self.setup.size;
        let mode = format!("output HEADLESS-1 mode {size}@{refresh}Hz");
        let sway = Sway::start_with(size, &mode).context(MISSING)?;
        self.setup.sched.raise(sway.id(), Participant::Display);
        self.session = Some(sway);
        Ok(())
    }

    /// The client's X display, and the additional arguments that select the kind of its window.
    pub(super) fn client_window(&self) -> (String, Vec<String>) {
        let far = self.far.name();
        let Some(Desktop { sway, window }) = &self.desktop else {
            return (far.to_owned(), Vec::new());
        };
        let present = match window {
            ClientWindow::X11 => "x11".to_owned(),
            ClientWindow::Wayland => format!("wayland:{}", sway.socket().display()),
        };
        let display = sway.x_display().unwrap_or(far);
        (display.to_owned(), vec!["--present".to_owned(), present])
    }

    /// Corrections by name, which are added to the cores that processes and their descendants used. The cores of the
    /// rig's compositors are added to those of the displays. If the host has started the application and an X server,
    /// their cores are subtracted from those of the host, and counted as `scene` and `display A`.
    pub(super) fn further_cores(&self, host: Option<u32>, used: &Used) -> Vec<(&'static str, f64)> {
        let mut further = Vec::new();
        for (name, sway) in [
            ("display A", self.session.as_ref()),
            (
                "display B",
                self.desktop.as_ref().map(|desktop| &desktop.sway),
            ),
        ] {
            further.extend(sway.map(|sway| (name, used.of_family(sway.id()))));
        }
        let parts = host.filter(|_| self.host_has_scene).map(parts_of_host);
        for (name, id) in parts.into_iter().flatten() {
            let cores = used.of_family(id);
            further.extend([(name, cores), ("host", -cores)]);
        }
        further
    }

    /// The process of the scene, or `None` if the scene is not a separate process.
    pub(super) fn scene_process(&self, host: u32) -> Option<u32> {
        match &self.scene {
            Some(scene) => Some(scene.id()),
            None if self.host_has_scene => scene_of_host(host),
            None => None,
        }
    }
}

fn scene_of_host(host: u32) -> Option<u32> {
    machine::descendant(host, |words| words.get(1) == Some(&"scene"))
}

fn parts_of_host(host: u32) -> Vec<(&'static str, u32)> {
    let server = |words: &[&str]| {
        words
            .first()
            .is_some_and(|program| program.ends_with("Xvfb"))
    };
    let parts = [
        ("scene", scene_of_host(host)),
        ("display A", machine::descendant(host, server)),
    ];
    (parts.into_iter())
        .filter_map(|(name, id)| Some((name, id?)))
        .collect()
}
