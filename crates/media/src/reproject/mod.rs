//! Reprojection: redraws the picture of one or two eyes for the selected view and the current head
//! pose.
//!
//! The mathematics is in [`openuvr_proto::reproject`]; this module draws pixels, with several
//! [`BACKENDS`]. The caller provides the timing and the head pose.

mod gl;
mod software;

use std::ops::Range;

use openuvr_proto::id::FrameId;
use openuvr_proto::reproject::Homography;
use openuvr_proto::units::Size;

use crate::present::{PresentError, Presenter};
pub use software::draw;

/// Draws eye pictures on a surface. Every call must get the surface for which the reprojector was opened, and must be
/// made on the thread that opened the reprojector.
pub trait Reprojector {
    /// Whether [`DrawBackend::Auto`] may select this reprojector. If it is not fast, a later entry of the table is
    /// preferred.
    fn is_fast(&self) -> bool;

    /// The renderer's name, as reported by its driver.
    fn renderer(&self) -> &str {
        "the CPU"
    }

    /// Loads a new picture, packed BGRX. The pose is chosen later. This method does the slow work that does not need
    /// the pose.
    ///
    /// # Errors
    /// [`PresentError`] if there is not enough memory.
    fn load(&mut self, source: &Source<'_>) -> Result<(), PresentError>;

    /// Draws the newest picture, and returns when it is drawn.
    ///
    /// # Errors
    /// [`PresentError`] if this backend can't draw it.
    fn draw(&mut self, on: &mut dyn Presenter, params: &DrawParams<'_>)
    -> Result<(), PresentError>;

    /// Displays the drawing on the surface.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn show(&mut self, on: &mut dyn Presenter, frame: FrameId) -> Result<(), PresentError>;

    /// Whether a redraw is necessary although picture and pose are unchanged, for example after a
    /// resize.
    fn is_stale(&self) -> bool {
        false
    }
}

/// The parameters of a drawing.
#[derive(Clone, Copy, Debug)]
pub struct DrawParams<'a> {
    /// The last loaded picture.
    pub source: Source<'a>,
    /// The picture's regions and their transforms.
    pub parts: &'a [AimedRegion],
    /// How pixels are filtered.
    pub filter: Filter,
    /// The displayed size, from [`eye_regions`].
    pub size: Size,
}

/// The renderer of eye pictures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DrawBackend {
    /// The first backend of the table that works and is fast.
    Auto,
    /// OpenGL.
    Gl,
    /// The CPU.
    #[default]
    Software,
}

impl DrawBackend {
    /// The backend's name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DrawBackend::Auto => "auto",
            DrawBackend::Gl => "gl",
            DrawBackend::Software => "software",
        }
    }
}

/// Opens a [`Reprojector`] for a surface, or returns the missing requirement in one line.
pub type OpenReprojector = fn(&mut dyn Presenter) -> Result<Box<dyn Reprojector>, String>;

/// A reprojection backend.
#[derive(Clone, Copy)]
pub struct Backend {
    /// Its id.
    pub with: DrawBackend,
    /// Opens it.
    pub open: OpenReprojector,
}

/// All backends, in order of preference. The last backend always works.
pub const BACKENDS: &[Backend] = &[
    Backend {
        with: DrawBackend::Gl,
        open: gl::open,
    },
    Backend {
        with: DrawBackend::Software,
        open: |_| Ok(software()),
    },
];

/// The backend that always works.
#[must_use]
pub fn software() -> Box<dyn Reprojector> {
    Box::<software::Software>::default()
}

/// An opened reprojector.
pub struct OpenedReprojector {
    /// The reprojector.
    pub reprojector: Box<dyn Reprojector>,
    /// Its backend.
    pub with: DrawBackend,
    /// One line with the reason why this is not the requested backend, or why it is slower than expected.
    pub warning: Option<String>,
}

/// Opens the requested backend or, as fallback, the backend that always works. The result must stay on this thread.
pub fn open(with: DrawBackend, on: &mut dyn Presenter) -> OpenedReprojector {
    let mut warning = None;
    for backend in BACKENDS {
        if with != DrawBackend::Auto && with != backend.with {
            continue;
        }
        let name = backend.with.name();
        match (backend.open)(on) {
            Ok(reprojector) if with == backend.with || reprojector.is_fast() => {
                let renderer = reprojector.renderer().to_owned();
                tracing::info!("reprojecting with {name}: {renderer}");
                let slow = !reprojector.is_fast() && backend.with != DrawBackend::Software;
                return OpenedReprojector {
                    warning: slow.then(|| {
                        format!(
                            "{name} uses a software renderer on this machine ({renderer}): --reproject-backend software is faster"
                        )
                    }),
                    reprojector,
                    with: backend.with,
                };
            }
            Ok(reprojector) => tracing::info!(
                "not reprojecting with {name}, because it uses a software renderer on this machine: {}",
                reprojector.renderer()
            ),
            Err(why) if with == DrawBackend::Auto => {
                tracing::info!("not reprojecting with {name}: {why}");
            }
            Err(why) => {
                warning = Some(format!(
                    "{name} can't reproject on this machine: {why}; reprojecting in software"
                ))
            }
        }
    }
    OpenedReprojector {
        reprojector: software(),
        with: DrawBackend::Software,
        warning,
    }
}

/// The displayed eyes of a stereo picture (side by side).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EyeView {
    /// Both eyes, side by side.
    #[default]
    Both,
    /// The left eye.
    Left,
    /// The right eye.
    Right,
    /// Both eyes superimposed, for glasses with a red filter on the left and a cyan filter on the right.
    Anaglyph,
}

impl EyeView {
    /// All views, in the order of the shortcut key.
    pub const ALL: [EyeView; 4] = [
        EyeView::Both,
        EyeView::Left,
        EyeView::Right,
        EyeView::Anaglyph,
    ];

    /// The view's name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EyeView::Both => "both",
            EyeView::Left => "left",
            EyeView::Right => "right",
            EyeView::Anaglyph => "anaglyph",
        }
    }

    /// The next view, cyclically.
    #[must_use]
    pub fn next(self) -> EyeView {
        let at = EyeView::ALL.iter().position(|view| *view == self);
        EyeView::ALL[at.map_or(0, |at| (at + 1) % EyeView::ALL.len())]
    }
}

/// How a pixel is interpolated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Filter {
    /// The nearest pixel.
    Nearest,
    /// Bilinear interpolation.
    #[default]
    Bilinear,
}

/// A packed BGRX picture, rows `4 × width` bytes apart.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its size.
    pub size: Size,
    /// Its pixels.
    pub bytes: &'a [u8],
}

/// One eye's columns in the source and in the display.
#[derive(Clone, PartialEq, Debug)]
pub struct EyeRegion {
    /// The eye, from 0.
    pub eye: usize,
    /// The eye's columns in the picture.
    pub from: Range<u32>,
    /// The eye's columns in the displayed picture.
    pub to: Range<u32>,
    /// The bits of a pixel that the region writes, as a little-endian BGRX word.
    pub mask: u32,
}

impl EyeRegion {
    /// The size of the eye's picture, both in the source and displayed.
    #[must_use]
    pub fn size(&self, height: u32) -> Size {
        Size::new(self.from.end - self.from.start, height)
    }
}

/// All channels.
const WHOLE: u32 = u32::MAX;
/// Red, for the left eye, and the unused byte.
const RED: u32 = 0xffff_0000;
/// Green and blue, for the right eye.
const CYAN: u32 = 0x0000_ffff;

/// The displayed size of a picture of `size` with `eyes` views side by side, and the displayed
/// regions. If the width is not a multiple of `eyes`, the surplus columns are not displayed.
#[must_use]
pub fn eye_regions(size: Size, eyes: u32, view: EyeView) -> (Size, Vec<EyeRegion>) {
    let eyes = eyes.clamp(1, 2);
    let width = size.width / eyes;
    let part = |eye: u32, at: u32, mask| EyeRegion {
        eye: eye as usize,
        from: eye * width..(eye + 1) * width,
        to: at * width..(at + 1) * width,
        mask,
    };
    let parts = match view {
        _ if eyes == 1 => vec![part(0, 0, WHOLE)],
        EyeView::Both => vec![part(0, 0, WHOLE), part(1, 1, WHOLE)],
        EyeView::Left => vec![part(0, 0, WHOLE)],
        EyeView::Right => vec![part(1, 0, WHOLE)],
        EyeView::Anaglyph => vec![part(0, 0, RED), part(1, 0, CYAN)],
    };
    let across = parts.iter().map(|part| part.to.end).max().unwrap_or(width);
    (Size::new(across, size.height), parts)
}

/// A region and its transform from displayed pixels to source pixels.
#[derive(Clone, PartialEq, Debug)]
pub struct AimedRegion {
    /// The region.
    pub part: EyeRegion,
    /// The transform from displayed pixels to source pixels, both relative to the region's corner.
    pub how: Homography,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortcut_cycles_through_all_views() {
        let mut seen = vec![EyeView::Both];
        while seen.len() < 4 {
            seen.push(seen.last().expect("one").next());
        }
        assert_eq!(seen, EyeView::ALL);
        assert_eq!(EyeView::Anaglyph.next(), EyeView::Both);
    }

    #[test]
    fn each_view_has_its_columns() {
        let size = Size::new(1281, 640);
        let (both, two) = eye_regions(size, 2, EyeView::Both);
        assert_eq!(both, Size::new(1280, 640));
        assert_eq!(
            (two[1].from.clone(), two[1].to.clone()),
            (640..1280, 640..1280)
        );
        let (right, one) = eye_regions(size, 2, EyeView::Right);
        assert_eq!(right, Size::new(640, 640));
        assert_eq!((one[0].eye, one[0].to.clone()), (1, 0..640));
        let (glasses, masks) = eye_regions(size, 2, EyeView::Anaglyph);
        assert_eq!(glasses, right);
        assert_eq!(masks[0].mask ^ masks[1].mask, u32::MAX);
        let (mono, all) = eye_regions(size, 1, EyeView::Left);
        assert_eq!((mono, all.len()), (size, 1));
    }
}
