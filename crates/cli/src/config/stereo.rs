//! Settings of a client's stereo pictures.

use openuvr_runtime::client::{DrawBackend, EyeView, Reproject};

use super::kind::Choice;

/// The options that decide which thread draws stereo pictures.
#[derive(Clone, Copy, Debug)]
pub(super) struct StereoOptions {
    pub(super) view: EyeView,
    pub(super) reproject: Reproject,
    /// Whether head poses are sent.
    pub(super) has_head: bool,
}

impl StereoOptions {
    /// Whether a separate thread draws stereo pictures. Otherwise, the media thread shows them as they are decoded.
    pub(super) fn draws(&self) -> bool {
        let reprojects = match self.reproject {
            Reproject::Auto => self.has_head,
            Reproject::On => true,
            Reproject::Off => false,
        };
        reprojects || self.view != EyeView::Both
    }
}

impl Choice for EyeView {
    const VALUES: &'static [(&'static str, Self)] = &[
        (EyeView::Both.name(), EyeView::Both),
        (EyeView::Left.name(), EyeView::Left),
        (EyeView::Right.name(), EyeView::Right),
        (EyeView::Anaglyph.name(), EyeView::Anaglyph),
    ];
}

impl Choice for Reproject {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("auto", Reproject::Auto),
        ("on", Reproject::On),
        ("off", Reproject::Off),
    ];
}

impl Choice for DrawBackend {
    const VALUES: &'static [(&'static str, Self)] = &[
        (DrawBackend::Auto.name(), DrawBackend::Auto),
        (DrawBackend::Gl.name(), DrawBackend::Gl),
        (DrawBackend::Software.name(), DrawBackend::Software),
    ];
}
