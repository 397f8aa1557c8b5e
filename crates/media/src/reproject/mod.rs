//! Reprojection: the picture of one or two eyes, drawn again as the person wants to see it and as the head
//! looks now.
//!
//! The mathematics is [`openuvr_proto::reproject`]; here are pixels, and the ways to draw them ([`BACKENDS`]). What
//! it is not: it keeps no time, and does not know where a head looks.

mod gl;
mod software;

use std::ops::Range;

use openuvr_proto::id::FrameId;
use openuvr_proto::reproject::Homography;
use openuvr_proto::units::Size;

use crate::present::{PresentError, Presenter};
pub use software::draw;

/// Draws pictures of eyes on a surface: always the same one, and on the thread that opened it.
pub trait Reprojector {
    /// Whether it is to be taken unasked, before those behind it in the table.
    fn is_fast(&self) -> bool;

    /// What makes the pixels, as its driver calls it.
    fn renderer(&self) -> &str {
        "the processor"
    }

    /// Takes a picture that was not there before, packed BGRX. After it comes the choice of the pose, so what
    /// costs time and needs none is done here.
    ///
    /// # Errors
    /// [`PresentError`] if there is no memory for it.
    fn load(&mut self, source: &Source<'_>) -> Result<(), PresentError>;

    /// Draws the newest picture, and returns when it is drawn.
    ///
    /// # Errors
    /// [`PresentError`] if it can't be drawn in this way.
    fn draw(&mut self, on: &mut dyn Presenter, shot: &DrawParams<'_>) -> Result<(), PresentError>;

    /// Puts on the surface what was drawn.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn show(&mut self, on: &mut dyn Presenter, frame: FrameId) -> Result<(), PresentError>;

    /// Whether it must draw again although picture and pose are the same: the window changed, say.
    fn is_stale(&self) -> bool {
        false
    }
}

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct DrawParams<'a> {
    /// The picture that was loaded last.
    pub source: Source<'a>,
    /// Its parts, and how they are aimed.
    pub parts: &'a [AimedRegion],
    /// How pixels are made.
    pub filter: Filter,
    /// The size of what is shown, as [`parts`] says it.
    pub size: Size,
}

/// What draws pictures of eyes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DrawBackend {
    /// The first of the table that works and is fast here.
    Auto,
    /// OpenGL.
    Gl,
    /// The processor.
    #[default]
    Software,
}

impl DrawBackend {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DrawBackend::Auto => "auto",
            DrawBackend::Gl => "gl",
            DrawBackend::Software => "software",
        }
    }
}

/// Opens a [`Reprojector`] for a surface; what is missing for it, in one line, otherwise.
pub type OpenReprojector = fn(&mut dyn Presenter) -> Result<Box<dyn Reprojector>, String>;

/// A way to draw pictures of eyes.
#[derive(Clone, Copy)]
pub struct Backend {
    /// What asks for it.
    pub with: DrawBackend,
    /// Opens it.
    pub open: OpenReprojector,
}

/// All ways, the preferred first. The last always works.
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

/// The way that always works.
#[must_use]
pub fn software() -> Box<dyn Reprojector> {
    Box::<software::Software>::default()
}

/// What was opened.
pub struct OpenedReprojector {
    /// It.
    pub reprojector: Box<dyn Reprojector>,
    /// What it is.
    pub with: DrawBackend,
    /// Why it is another than was asked for by name, or not what a person expects of it, in one line.
    pub trouble: Option<String>,
}

/// Opens the way that is asked for, or the one that always works if that can't be. The result stays on this thread.
pub fn open(with: DrawBackend, on: &mut dyn Presenter) -> OpenedReprojector {
    let mut trouble = None;
    for backend in BACKENDS {
        if with != DrawBackend::Auto && with != backend.with {
            continue;
        }
        let name = backend.with.name();
        match (backend.open)(on) {
            Ok(reprojector) if with == backend.with || reprojector.is_fast() => {
                let renderer = reprojector.renderer().to_owned();
                tracing::info!("pictures of eyes are drawn with {name}: {renderer}");
                let slow = !reprojector.is_fast() && backend.with != DrawBackend::Software;
                return OpenedReprojector {
                    trouble: slow.then(|| {
                        format!(
                            "{name} draws pictures of eyes with the processor here ({renderer}): software is faster"
                        )
                    }),
                    reprojector,
                    with: backend.with,
                };
            }
            Ok(reprojector) => tracing::info!(
                "pictures of eyes are not drawn with {name}, which uses the processor here: {}",
                reprojector.renderer()
            ),
            Err(why) if with == DrawBackend::Auto => {
                tracing::info!("pictures of eyes are not drawn with {name}: {why}");
            }
            Err(why) => {
                trouble = Some(format!(
                    "{name} can't draw pictures of eyes here: {why}; in software"
                ))
            }
        }
    }
    OpenedReprojector {
        reprojector: software(),
        with: DrawBackend::Software,
        trouble,
    }
}

/// Which eyes' pictures are seen, of a picture with two side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EyeView {
    /// Both, side by side.
    #[default]
    Both,
    /// The left one.
    Left,
    /// The right one.
    Right,
    /// Both over each other, for glasses with a red filter on the left and a cyan one on the right.
    Anaglyph,
}

impl EyeView {
    /// All of them, in the order in which a key goes through them.
    pub const ALL: [EyeView; 4] = [
        EyeView::Both,
        EyeView::Left,
        EyeView::Right,
        EyeView::Anaglyph,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EyeView::Both => "both",
            EyeView::Left => "left",
            EyeView::Right => "right",
            EyeView::Anaglyph => "anaglyph",
        }
    }

    /// The one behind it, from the last to the first.
    #[must_use]
    pub fn next(self) -> EyeView {
        let at = EyeView::ALL.iter().position(|view| *view == self);
        EyeView::ALL[at.map_or(0, |at| (at + 1) % EyeView::ALL.len())]
    }
}

/// How a pixel is made of those that it falls between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Filter {
    /// The nearest.
    Nearest,
    /// A mean of four, by their distance.
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

/// One eye: where it lies in the picture, and where it is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct EyeRegion {
    /// The eye, from 0.
    pub eye: usize,
    /// Its columns in the picture.
    pub from: Range<u32>,
    /// Its columns in what is shown.
    pub to: Range<u32>,
    /// The bits of a pixel that it writes, as of a little-endian BGRX word.
    pub mask: u32,
}

impl EyeRegion {
    /// The size of its picture, which is that of what is shown of it.
    #[must_use]
    pub fn size(&self, height: u32) -> Size {
        Size::new(self.from.end - self.from.start, height)
    }
}

/// All channels.
const WHOLE: u32 = u32::MAX;
/// Red, for the left eye, and the unused byte.
const RED: u32 = 0xffff_0000;
/// Green and blue, for the right one.
const CYAN: u32 = 0x0000_ffff;

/// How a picture of `size` with `eyes` views side by side is shown: the size of what is shown, and what of which
/// eye lies where in it. Columns that no eye has, of a width that is no multiple of `eyes`, are not shown.
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

/// A part and how it is aimed: places of what is shown of it to places of its own picture.
#[derive(Clone, PartialEq, Debug)]
pub struct AimedRegion {
    /// The part.
    pub part: EyeRegion,
    /// From its shown pixels to its drawn ones, both counted from the part's own corner.
    pub how: Homography,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_goes_through_all_views() {
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
