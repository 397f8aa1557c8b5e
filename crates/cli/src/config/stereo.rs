//! Settings of a client's stereo pictures.

use openuvr_runtime::client::{DrawBackend, EyeView, Reproject};

use super::kind::Choice;

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
