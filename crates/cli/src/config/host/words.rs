//! Words of a host's settings: what each may be, and what it means.

use openuvr_media::encode::Pixels;
use openuvr_proto::control::clipboard::ClipboardWays;
use openuvr_proto::send::policy::Recovery;
use openuvr_runtime::host::CLIPBOARD_WAYS;

use crate::config::kind::Choice;
use crate::scene::source::Submit;

/// Whether the rate follows the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rate {
    /// It does.
    Adaptive,
    /// It does not.
    Constant,
}

impl Choice for Rate {
    const WORDS: &'static [(&'static str, Self)] =
        &[("adaptive", Rate::Adaptive), ("constant", Rate::Constant)];
}

impl Choice for ClipboardWays {
    const WORDS: &'static [(&'static str, Self)] = &CLIPBOARD_WAYS;
}

impl Choice for Recovery {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("skip-back", Recovery::SkipBack),
        ("key-frame", Recovery::KeyFrame),
        ("refresh", Recovery::Refresh),
    ];
}

/// Whether motion is searched to quarters of a pixel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subpel {
    /// As the picture's size allows.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl Subpel {
    /// What the rendition is asked for.
    pub(crate) fn wanted(self) -> Option<bool> {
        match self {
            Subpel::Auto => None,
            Subpel::On => Some(true),
            Subpel::Off => Some(false),
        }
    }
}

impl Choice for Subpel {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Subpel::Auto),
        ("on", Subpel::On),
        ("off", Subpel::Off),
    ];
}

/// Who decides how many bits a picture gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RateMode {
    /// The host.
    Own,
    /// The encoder.
    Cbr,
}

impl Choice for RateMode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("own", RateMode::Own), ("cbr", RateMode::Cbr)];
}

/// Where pictures come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceKind {
    /// An X display.
    X11,
    /// The test pattern.
    Pattern,
    /// A file.
    Clip,
    /// The scene, drawn by the host itself.
    Scene,
}

impl Choice for Pixels {
    const WORDS: &'static [(&'static str, Self)] = &[
        (Pixels::Nv12.name(), Pixels::Nv12),
        (Pixels::Rgb444.name(), Pixels::Rgb444),
        (Pixels::Yuv444.name(), Pixels::Yuv444),
    ];
}

impl Choice for SourceKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("x11", SourceKind::X11),
        ("pattern", SourceKind::Pattern),
        ("clip", SourceKind::Clip),
        ("scene", SourceKind::Scene),
    ];
}

/// Microseconds of a packet of sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SoundFrame(pub(crate) u32);

impl Choice for SoundFrame {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("2.5", SoundFrame(2_500)),
        ("5", SoundFrame(5_000)),
        ("10", SoundFrame(10_000)),
        ("20", SoundFrame(20_000)),
    ];
}

impl Choice for Submit {
    const WORDS: &'static [(&'static str, Self)] =
        &[("free", Submit::Free), ("lock-step", Submit::LockStep)];
}

/// An encoder: its name in `openuvr_media::encode::BACKENDS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EncoderName(pub(crate) &'static str);

impl Choice for EncoderName {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("x264", EncoderName("x264")),
        ("jpeg", EncoderName("jpeg")),
        ("openh264", EncoderName("openh264")),
        ("h264_nvenc", EncoderName("h264_nvenc")),
        ("h264_qsv", EncoderName("h264_qsv")),
        ("h264_v4l2m2m", EncoderName("h264_v4l2m2m")),
        ("h264_vaapi", EncoderName("h264_vaapi")),
        ("libx264", EncoderName("libx264")),
        ("raw", EncoderName("raw")),
        ("null", EncoderName("null")),
    ];
}

/// Where input goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InputKind {
    /// The display, by the extension XTEST.
    Xtest,
    /// Nowhere.
    None,
}

impl Choice for InputKind {
    const WORDS: &'static [(&'static str, Self)] =
        &[("xtest", InputKind::Xtest), ("none", InputKind::None)];
}

/// How the player's game pads reach the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PadsKind {
    /// As they can; a game has one from its beginning.
    Auto,
    /// A game has so many from its beginning.
    Seats(u8),
    /// By the kernel's uinput.
    Uinput,
    /// Not at all.
    Off,
}

impl Choice for PadsKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", PadsKind::Auto),
        ("0", PadsKind::Seats(0)),
        ("1", PadsKind::Seats(1)),
        ("2", PadsKind::Seats(2)),
        ("3", PadsKind::Seats(3)),
        ("4", PadsKind::Seats(4)),
        ("uinput", PadsKind::Uinput),
        ("off", PadsKind::Off),
    ];
}

impl PadsKind {
    /// How many a game sees from its beginning; `None`: it sees none.
    pub(crate) fn seats(self) -> Option<u8> {
        match self {
            PadsKind::Auto => Some(1),
            PadsKind::Seats(seats) => Some(seats),
            PadsKind::Uinput | PadsKind::Off => None,
        }
    }
}
