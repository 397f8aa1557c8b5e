//! Present: displays the newest picture immediately.

pub mod buffers;
pub mod convert;
pub mod headless;
pub mod null;
pub mod x11;

use std::ops::Range;

use openuvr_proto::id::FrameId;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::Viewpoint;

use crate::cursor::Cursor;
use crate::dma_buf::DmaBufPicture;
use crate::input_source::InputSource;
use crate::picture::Picture;
use crate::window::{DrawnWindow, WindowConfig, WindowError};

pub use convert::to_bgrx;

/// A surface that displays pictures. The client's media thread owns it.
pub trait Presenter: Send {
    /// Passes a picture to the display and returns when the display has accepted it, without
    /// waiting for a refresh. Scales the picture if the sizes differ.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn present(&mut self, frame: FrameId, picture: &Picture<'_>) -> Result<(), PresentError>;

    /// Whether the surface has skipped the last picture that was passed to [`present`](Presenter::present), because the
    /// display hangs.
    fn has_skipped(&self) -> bool {
        false
    }

    /// Displays a picture that is in the memory of a device, as [`present`](Presenter::present) does, but without a
    /// copy. Returns `false` if the surface can't do that now; the caller then presents a copy. The surface keeps the
    /// picture as long as it displays it.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn present_dma_buf(
        &mut self,
        frame: FrameId,
        picture: &DmaBufPicture,
    ) -> Result<bool, PresentError> {
        let _ = (frame, picture);
        Ok(false)
    }

    /// Announces the viewpoint of the next presented picture. It applies to all methods that present a picture.
    fn viewpoint(&mut self, viewpoint: &Viewpoint) {
        let _ = viewpoint;
    }

    /// Memory to paint the next picture on, as an alternative to [`present`](Presenter::present), which copies; `None`
    /// if the surface lends no memory.
    fn canvas(&mut self) -> Option<&mut dyn Canvas> {
        None
    }

    /// The window, for drawing with OpenGL; `None` for other surfaces. After the first OpenGL picture, the surface
    /// itself draws nothing on the window; the caller draws the pointer and the text with each picture.
    fn window(&self) -> Option<DrawnWindow> {
        None
    }

    /// Shows the host's pointer, without waiting for a frame: draws its shape over the picture, or gives this shape to
    /// the window's own cursor.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError>;

    /// Reports whether the host's application requests relative mouse motion instead of pointer positions. A surface
    /// with a pointer then grabs or releases the pointer.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn relative_mouse(&mut self, wanted: bool) -> Result<(), PresentError> {
        let _ = wanted;
        Ok(())
    }

    /// Changes whether the user is an observer, initially set by [`WindowConfig::observer`]. If the
    /// surface has a title, also changes the title.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn set_observer(&mut self, observer: bool, title: &str) -> Result<(), PresentError> {
        let _ = (observer, title);
        Ok(())
    }

    /// Whether [`presented`](Presenter::presented) reports when pictures become visible.
    fn reports_times(&self) -> bool {
        false
    }

    /// Takes the oldest report that has arrived, in the order of the pictures if the display keeps that order. `None`
    /// if there is no report. A report comes milliseconds after its picture, or never.
    fn presented(&mut self) -> Option<Presented> {
        None
    }

    /// Shows lines of text in a box near the picture's upper left corner, immediately and over all later pictures,
    /// until they are replaced. Without lines, the box is removed. Characters outside of ISO 8859-1 appear as `?`.
    /// Surfaces without a viewer ignore this.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn panel(&mut self, lines: &[String]) -> Result<(), PresentError> {
        let _ = lines;
        Ok(())
    }
}

/// A frame, and the time at which the display made it visible. The time is `None` if it is unknown, or if the frame
/// never became visible, for example because a newer picture replaced it.
pub type Presented = (FrameId, Option<Instant>);

/// The memory of a surface's next picture, which is displayed without a copy.
pub trait Canvas {
    /// Rows of the next picture, packed BGRX, to be written completely by the caller. Within a frame, they must be
    /// requested from top to bottom. Rows that are not requested keep the previous picture. `None` if the surface has
    /// no memory to lend now; the picture is then not displayed.
    fn rows(&mut self, size: Size, rows: Range<u32>) -> Option<&mut [u8]>;

    /// Displays the rows that have been painted so far, over the previous picture, if the surface was opened with
    /// [`WindowConfig::slices`] and supports slices. Otherwise, [`show`](Canvas::show) displays them. If the frame
    /// fails, `show` is not called. Rows do not change again within their frame.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn show_rows(&mut self) -> Result<(), PresentError> {
        Ok(())
    }

    /// Displays the painted picture, like [`Presenter::present`]. Returns `false` if the display did not accept it, so
    /// that the previous picture stays.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone, or has no memory for a picture of this size.
    fn show(&mut self, frame: FrameId, size: Size) -> Result<bool, PresentError>;

    /// Whether the canvas still contains the picture that [`show`](Canvas::show) displayed last. Otherwise, the next
    /// picture must be painted completely.
    fn keeps_picture(&self) -> bool {
        true
    }
}

/// A surface with its input source, if it has one.
pub type Surface = (Box<dyn Presenter>, Option<Box<dyn InputSource>>);

/// A surface that can be selected by name.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// The syntax of the argument after the name and a colon.
    pub argument: &'static str,
    /// Opens the surface with the argument (empty if none was given).
    pub open: fn(&str, &WindowConfig) -> Result<Surface, PresentError>,
}

/// All surfaces.
pub const BACKENDS: &[Backend] = &[
    Backend {
        name: "x11",
        argument: "display",
        open: open_x11,
    },
    Backend {
        name: "headless",
        argument: "directory[,every n-th]",
        open: headless::open,
    },
    Backend {
        name: "null",
        argument: "",
        open: |_, _| Ok((Box::<null::Null>::default(), None)),
    },
];

/// Opens the surface for `spec` (`name` or `name:argument`).
///
/// # Errors
/// [`PresentError`] if the name is unknown or the surface can't be opened.
pub fn open(spec: &str, window: &WindowConfig) -> Result<Surface, PresentError> {
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let backend = BACKENDS
        .iter()
        .find(|backend| backend.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
            PresentError(format!(
                "unknown surface {name:?}; choose one of {}",
                known.join(", ")
            ))
        })?;
    (backend.open)(argument, window)
}

fn open_x11(display: &str, window: &WindowConfig) -> Result<Surface, PresentError> {
    let mut window = window.clone();
    if !display.is_empty() {
        window.display = Some(display.to_owned());
    }
    let (presenter, input) = x11::open(&window)?;
    Ok((Box::new(presenter), Some(Box::new(input))))
}

/// Why a surface could not be opened, or is gone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PresentError(pub String);

impl From<WindowError> for PresentError {
    fn from(WindowError(why): WindowError) -> PresentError {
        PresentError(why)
    }
}
