//! The capture methods that `openuvr bench capture` measures, one per row.

use openuvr_testbed::programs;

use crate::bench::rig::{ClientWindow, PROGRAMS, Source};

/// Whether and how the scene is streamed.
#[derive(Clone, Copy, Debug)]
pub(super) enum StreamMode {
    /// The scene is not streamed. If `true`, each picture is read back.
    Alone(bool),
    Streamed(Source),
    /// The scene is streamed by screen capture, and displayed in this kind of window, in a compositor.
    Shown(ClientWindow),
}

impl StreamMode {
    /// Whether a compositor other than the host's own is needed.
    fn needs_compositor(self) -> bool {
        matches!(
            self,
            StreamMode::Streamed(Source::Session { .. }) | StreamMode::Shown(_)
        )
    }

    /// Whether the scene's display is a separate process.
    pub(super) fn has_display_process(self) -> bool {
        !matches!(self, StreamMode::Streamed(Source::Virtual("wayland")))
    }
}

#[derive(Clone, Debug)]
pub(super) struct CaptureMethod {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) how: StreamMode,
}

static METHODS: [CaptureMethod; 12] = [
    CaptureMethod {
        name: "alone",
        what: "nothing is streamed",
        how: StreamMode::Alone(false),
    },
    CaptureMethod {
        name: "read-back",
        what: "the scene reads each picture back and discards it",
        how: StreamMode::Alone(true),
    },
    CaptureMethod {
        name: "screen",
        what: "openuvr host captures the display when it changes",
        how: StreamMode::Streamed(Source::Screen),
    },
    CaptureMethod {
        name: "session",
        what: "openuvr host captures a headless sway at 60 Hz, in which a Wayland scene runs",
        how: StreamMode::Streamed(Source::Session { refresh: 60 }),
    },
    CaptureMethod {
        name: "session-240",
        what: "like session, with sway at 240 Hz, so that frames hardly wait for sway",
        how: StreamMode::Streamed(Source::Session { refresh: 240 }),
    },
    CaptureMethod {
        name: "virtual-xvfb",
        what: "openuvr host --virtual-with xvfb starts the display and the scene",
        how: StreamMode::Streamed(Source::Virtual("xvfb")),
    },
    CaptureMethod {
        name: "virtual-wayland",
        what: "openuvr host --virtual-with wayland starts the display and a Wayland scene",
        how: StreamMode::Streamed(Source::Virtual("wayland")),
    },
    CaptureMethod {
        name: "hook",
        what: "openuvr run: the host runs in the scene's process and captures at each buffer swap",
        how: StreamMode::Streamed(Source::Hook),
    },
    CaptureMethod {
        name: "c-api",
        what: "the scene hands over its pixel buffer and continues (openuvr_frame_ready)",
        how: StreamMode::Streamed(Source::Api { synchronous: false }),
    },
    CaptureMethod {
        name: "c-api-sync",
        what: "the scene waits until the frame is sent (openuvr_send_frame)",
        how: StreamMode::Streamed(Source::Api { synchronous: true }),
    },
    CaptureMethod {
        name: "client-x11",
        what: "like screen; the client uses the Xwayland of a sway on the client's display",
        how: StreamMode::Shown(ClientWindow::X11),
    },
    CaptureMethod {
        name: "client-wayland",
        what: "like screen; the client uses Wayland, in a sway on the client's display",
        how: StreamMode::Shown(ClientWindow::Wayland),
    },
];

pub(super) fn named(name: &str) -> Result<&'static CaptureMethod, String> {
    let found = METHODS.iter().find(|way| way.name == name);
    let names = METHODS.iter().map(|way| way.name).collect::<Vec<_>>();
    found.ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

/// The methods whose programs are installed.
pub(super) fn possible() -> Vec<&'static CaptureMethod> {
    let missing = PROGRAMS.map(|program| (!programs::is_installed(program)).then_some(program));
    let missing = Vec::from_iter(missing.into_iter().flatten()).join(", ");
    let (possible, left_out): (Vec<_>, Vec<_>) =
        (METHODS.iter()).partition(|method| missing.is_empty() || !method.how.needs_compositor());
    for method in left_out {
        let name = method.name;
        eprintln!(
            "bench capture: {name} is left out: {missing} is missing; apt install sway xwayland"
        );
    }
    possible
}
