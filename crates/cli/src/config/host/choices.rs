//! Enumerated settings of a host: the accepted values and their meanings.

use openuvr_media::encode::Chroma;
use openuvr_proto::control::clipboard::ClipboardDirections;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::send::policy::Recovery;
use openuvr_runtime::host::{CLIPBOARD_DIRECTIONS, SoundCodec};
use openuvr_scene::source::Submit;

use crate::config::kind::Choice;

/// Congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rate {
    /// The rate follows the link.
    Adaptive,
    /// The rate does not change.
    Constant,
}

impl Choice for Rate {
    const VALUES: &'static [(&'static str, Self)] =
        &[("adaptive", Rate::Adaptive), ("constant", Rate::Constant)];
}

impl Choice for ClipboardDirections {
    const VALUES: &'static [(&'static str, Self)] = &CLIPBOARD_DIRECTIONS;
}

impl Choice for L4sMode {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("auto", L4sMode::Auto),
        ("on", L4sMode::On),
        ("off", L4sMode::Off),
    ];
}

impl Choice for Recovery {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("reference-invalidation", Recovery::ReferenceInvalidation),
        ("key-frame", Recovery::KeyFrame),
        ("intra-refresh", Recovery::Refresh),
        ("none", Recovery::None),
    ];
}

/// Congestion control for browsers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WebRateControl {
    /// The host's rate control, from the page's reports.
    Reports,
    /// Google Congestion Control.
    Gcc,
}

impl Choice for WebRateControl {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("reports", WebRateControl::Reports),
        ("gcc", WebRateControl::Gcc),
    ];
}

/// Quarter-pixel motion search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subpel {
    /// On if the picture is small enough.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl Subpel {
    /// The setting for the rendition; `None` if it depends on the picture's size.
    pub(crate) fn requested(self) -> Option<bool> {
        match self {
            Subpel::Auto => None,
            Subpel::On => Some(true),
            Subpel::Off => Some(false),
        }
    }
}

impl Choice for Subpel {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("auto", Subpel::Auto),
        ("on", Subpel::On),
        ("off", Subpel::Off),
    ];
}

/// The rate control in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RateMode {
    /// The host's own rate control.
    Own,
    /// The encoder's rate control.
    Cbr,
}

impl Choice for RateMode {
    const VALUES: &'static [(&'static str, Self)] =
        &[("own", RateMode::Own), ("cbr", RateMode::Cbr)];
}

/// The picture source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceKind {
    /// An X display.
    X11,
    /// The session of a Wayland compositor.
    Wayland,
    /// A screen that the desktop's portal shares.
    Portal,
    /// The test pattern.
    Pattern,
    /// A file.
    Clip,
    /// The scene, drawn by the host itself.
    Scene,
}

impl Choice for Chroma {
    const VALUES: &'static [(&'static str, Self)] = &[
        (Chroma::Yuv420.name(), Chroma::Yuv420),
        (Chroma::Rgb.name(), Chroma::Rgb),
        (Chroma::Yuv444.name(), Chroma::Yuv444),
    ];
}

impl Choice for SourceKind {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("x11", SourceKind::X11),
        ("wayland", SourceKind::Wayland),
        ("portal", SourceKind::Portal),
        ("pattern", SourceKind::Pattern),
        ("clip", SourceKind::Clip),
        ("scene", SourceKind::Scene),
    ];
}

/// The kind of a virtual display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DisplayKind {
    /// An X server without a screen.
    Xvfb,
    /// A Wayland compositor of this process.
    Wayland,
}

impl Choice for DisplayKind {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("xvfb", DisplayKind::Xvfb),
        ("wayland", DisplayKind::Wayland),
    ];
}

/// Duration of a sound packet, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SoundFrame(pub(crate) u32);

impl Choice for SoundFrame {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("2.5", SoundFrame(2_500)),
        ("5", SoundFrame(5_000)),
        ("10", SoundFrame(10_000)),
        ("20", SoundFrame(20_000)),
    ];
}

impl Choice for SoundCodec {
    const VALUES: &'static [(&'static str, Self)] =
        &[("opus", SoundCodec::Opus), ("aac", SoundCodec::Aac)];
}

impl Choice for Submit {
    const VALUES: &'static [(&'static str, Self)] =
        &[("free", Submit::Free), ("lock-step", Submit::LockStep)];
}

/// The target of input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InputKind {
    /// The X display, by the XTEST extension.
    Xtest,
    /// Input is ignored.
    None,
}

impl Choice for InputKind {
    const VALUES: &'static [(&'static str, Self)] =
        &[("xtest", InputKind::Xtest), ("none", InputKind::None)];
}

/// How game pads are emulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PadsKind {
    /// For a game, in its process, with one pad present from the start. For other applications, through uinput if
    /// available.
    Auto,
    /// In a game's process, with this number of pads present from the start.
    Seats(u8),
    /// Through the kernel's uinput.
    Uinput,
    /// No pads.
    Off,
}

impl Choice for PadsKind {
    const VALUES: &'static [(&'static str, Self)] = &[
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
    /// The number of pads that are present when a game starts; `None` if there are no pads in its process.
    pub(crate) fn seats(self) -> Option<u8> {
        match self {
            PadsKind::Auto => Some(1),
            PadsKind::Seats(seats) => Some(seats),
            PadsKind::Uinput | PadsKind::Off => None,
        }
    }
}
