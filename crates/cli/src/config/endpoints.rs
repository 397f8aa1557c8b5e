//! Enumerated settings of a client's devices: picture output, decoder, input source and head-pose source.

use std::net::SocketAddr;
use std::path::PathBuf;

use openuvr_media::codec::Codec;
use openuvr_media::head;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::Size;

use super::kind::{Choice, Form, Kind};

/// The picture output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PresentKind {
    /// A window on an X display.
    X11,
    /// A window on this Wayland display; `None`: the display set in the environment.
    Wayland(Option<String>),
    /// A display without a window system: its card and its connector, each of which may be omitted.
    Kms(String),
    /// A headset.
    Xr,
    /// PNG files.
    Headless,
    /// No output.
    Null,
}

impl PresentKind {
    /// Whether it is a window, or a whole display that is used like a window.
    pub(crate) fn is_window(&self) -> bool {
        matches!(
            self,
            PresentKind::X11 | PresentKind::Wayland(_) | PresentKind::Kms(_)
        )
    }
}

pub(super) fn present() -> Kind<PresentKind> {
    const WORDS: &str = "x11, wayland[:DISPLAY], kms[:CARD[/CONNECTOR]], xr, headless, null";
    Kind {
        placeholder: "WORD",
        range: WORDS.to_owned(),
        allowed: format!("one of {WORDS}"),
        form: Form::Text,
        parse: Box::new(|text| {
            Some(match text {
                "x11" => PresentKind::X11,
                "wayland" => PresentKind::Wayland(None),
                "kms" => PresentKind::Kms(String::new()),
                "xr" => PresentKind::Xr,
                "headless" => PresentKind::Headless,
                "null" => PresentKind::Null,
                _ if let Some(display) = text.strip_prefix("kms:") => {
                    let given = !display.is_empty() && is_display(display);
                    PresentKind::Kms(given.then(|| display.to_owned())?)
                }
                _ => {
                    let display = text.strip_prefix("wayland:")?;
                    let given = (!display.is_empty()).then(|| display.to_owned())?;
                    PresentKind::Wayland(Some(given))
                }
            })
        }),
        absent: None,
    }
}

/// Whether the text after `kms:` is the name of a card or a connector.
fn is_display(text: &str) -> bool {
    #[cfg(feature = "kms")]
    let valid = openuvr_kms::Choice::parse(text).is_some();
    // A program that is built without kms accepts every name here, and reports its lack of kms when it opens the
    // display.
    #[cfg(not(feature = "kms"))]
    let valid = !text.is_empty();
    valid
}

/// The input source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InputKind {
    /// The window.
    Window,
    /// A file.
    Script,
    /// These devices.
    Evdev(String),
    /// No input.
    None,
}

/// The head-pose source, in the form that `openuvr_media::head::open` accepts; `None` if there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeadSpec(pub(crate) Option<String>);

pub(super) fn head() -> Kind<HeadSpec> {
    const WORDS: &str = "none, mouse, script:FILE, opentrack[:ADDRESS:PORT], iio[:FOLDER]";
    Kind {
        placeholder: "WORD",
        range: WORDS.to_owned(),
        allowed: format!("one of {WORDS}"),
        form: Form::Text,
        parse: Box::new(|text| match (text, head::find(text)) {
            ("none", _) => Some(HeadSpec(None)),
            // A script needs a file; the mouse takes no argument.
            (_, Ok((backend, argument))) => match (backend.name, argument) {
                ("script", "") => None,
                ("mouse", argument) if !argument.is_empty() => None,
                ("opentrack", address)
                    if !address.is_empty() && address.parse::<SocketAddr>().is_err() =>
                {
                    None
                }
                _ => Some(HeadSpec(Some(text.to_owned()))),
            },
            (_, Err(_)) => None,
        }),
        absent: None,
    }
}

pub(super) fn input() -> Kind<InputKind> {
    Kind {
        placeholder: "WORD",
        range: "window, none, script, evdev:DEVICES".to_owned(),
        allowed: "one of window, none, script, evdev:DEVICES".to_owned(),
        form: Form::Text,
        parse: Box::new(|text| match text {
            // `x11` is an older name of `window`.
            "window" | "x11" => Some(InputKind::Window),
            "none" => Some(InputKind::None),
            "script" => Some(InputKind::Script),
            _ => {
                let devices = text.strip_prefix("evdev:")?;
                (!devices.is_empty()).then(|| InputKind::Evdev(devices.to_owned()))
            }
        }),
        absent: None,
    }
}

/// The picture output with its parameters.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Surface {
    /// A window on this X display.
    X11 {
        /// The X display.
        display: String,
        /// The window.
        window: WindowSpec,
    },
    /// A window of a Wayland compositor.
    Wayland {
        /// The Wayland display; `None`: the display set in the environment.
        display: Option<String>,
        /// The window.
        window: WindowSpec,
    },
    /// A display without a window system.
    Kms {
        /// The card and the connector; may be empty.
        display: String,
        /// The requested refresh rate.
        refresh: Option<f64>,
        /// The settings that it shares with a window.
        window: WindowSpec,
    },
    /// The headset of the active OpenXR runtime.
    Xr,
    /// PNG files.
    Headless {
        /// The folder.
        output: PathBuf,
        /// The interval between written pictures; `None`: only the last picture is written.
        every: Option<u32>,
    },
    /// No output.
    Null,
}

/// The settings of a window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WindowSpec {
    /// The initial size; `None`: the picture's size.
    pub(crate) size: Option<Size>,
    /// Whether it covers the screen.
    pub(crate) full_screen: bool,
    /// Whether it grabs the mouse and the keyboard.
    pub(crate) grab: bool,
    /// The selected key mapping, if any.
    pub(crate) keys: Option<Keys>,
    /// Whether pictures may be shown in the middle of a refresh.
    pub(crate) tearing: bool,
    /// Whether the rows of a picture are shown as they are decoded.
    pub(crate) slices: bool,
}

/// The input source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InputSpec {
    /// The window.
    Window,
    /// A file, or `-` for the standard input.
    Script(PathBuf),
    /// These devices.
    Devices(String),
    /// No input.
    Nothing,
}

/// A codec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CodecName(pub(super) Codec);

impl Choice for CodecName {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("h264", CodecName(Codec::H264)),
        ("hevc", CodecName(Codec::Hevc)),
        ("jpeg", CodecName(Codec::Jpeg)),
        ("raw", CodecName(Codec::Raw)),
    ];
}

/// A decoder: its name in `openuvr_media::decode::BACKENDS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DecoderName(pub(crate) &'static str);

impl Choice for DecoderName {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("avcodec", DecoderName("avcodec")),
        ("h264_cuvid", DecoderName("h264_cuvid")),
        ("h264_qsv", DecoderName("h264_qsv")),
        ("h264_v4l2m2m", DecoderName("h264_v4l2m2m")),
        ("h264_vaapi", DecoderName("h264_vaapi")),
        ("h264_nvdec", DecoderName("h264_nvdec")),
        ("h264_vulkan", DecoderName("h264_vulkan")),
        ("hevc_vaapi", DecoderName("hevc_vaapi")),
        ("hevc_nvdec", DecoderName("hevc_nvdec")),
        ("hevc_vulkan", DecoderName("hevc_vulkan")),
    ];
}
