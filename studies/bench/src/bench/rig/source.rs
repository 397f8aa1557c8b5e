//! The source of the pictures.

use openuvr_proto::units::Size;
use openuvr_testbed::pair::Serve;

/// Capture method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bench) enum Source {
    /// The scene is a separate process, and the host captures its display.
    Screen,
    /// Like [`Source::Screen`], but with the host that is built into this program, which accepts the option
    /// [`crate::baseline::OPTION`].
    OwnHost,
    /// The scene is a program of a headless Wayland compositor, and the host captures that compositor.
    Session {
        /// Refreshes per second of the compositor's output. A commit waits for the next refresh.
        refresh: u32,
    },
    /// The host starts a display, and the scene on that display. The string is the value of the host's option
    /// `--virtual-with`.
    Virtual(&'static str),
    /// The host draws the scene itself and submits its pictures. The string is the value of the host's option
    /// `--submit`.
    Submit(&'static str),
    /// `openuvr run` starts the scene, and the host runs in the scene's process.
    Hook,
    /// The scene streams itself through the C API.
    Api {
        /// Whether the scene waits after each picture until it has been sent.
        synchronous: bool,
    },
}

impl Source {
    /// The host's options.
    pub(super) fn words(self) -> Vec<String> {
        match self {
            Source::Submit(how) => ["--source", "scene", "--submit", how]
                .map(String::from)
                .to_vec(),
            _ => Vec::new(),
        }
    }

    /// Whether the scene draws on the rig's first display.
    pub(super) fn draws_on_near_display(self) -> bool {
        !matches!(self, Source::Session { .. } | Source::Virtual(_))
    }

    /// The program that serves the stream. `scene` contains the arguments of the scene, or of the program that contains
    /// the scene. `session` is the socket of the compositor that shows the scene. `size` is the scene's size.
    pub(super) fn serve<'a>(
        self,
        scene: &'a [String],
        session: Option<&'a str>,
        size: Size,
    ) -> Serve<'a> {
        match self {
            Source::Hook => Serve::Hook(scene),
            Source::Api { .. } => Serve::Api(scene),
            Source::OwnHost => Serve::OwnHost,
            Source::Screen | Source::Submit(_) => Serve::Host,
            Source::Session { .. } => Serve::Session(session.unwrap_or_default()),
            Source::Virtual(with) => Serve::Virtual {
                with,
                size,
                program: scene,
            },
        }
    }
}
