//! Present: the newest picture goes to the person's eyes at once.

mod convert;
pub mod headless;
pub mod null;
pub mod x11;

use std::ops::Range;

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::Viewpoint;

use crate::cursor::Cursor;
use crate::input_source::InputSource;
use crate::picture::Picture;
use crate::window::{DrawnWindow, WindowConfig, WindowError};

pub use convert::to_bgrx;

/// A surface that shows pictures, owned by the client's media thread.
pub trait Presenter: Send {
    /// Hands a picture to the display and returns as soon as the display has taken it; never
    /// waits for a refresh. Scales if the sizes differ.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn present(&mut self, frame: FrameId, picture: &Picture<'_>) -> Result<(), PresentError>;

    /// With what the picture was drawn that is presented next, on whichever way: called before each.
    fn viewpoint(&mut self, viewpoint: &Viewpoint) {
        let _ = viewpoint;
    }

    /// Memory to paint the next picture on, in place of one that [`present`](Presenter::present)
    /// copies; `None` for a surface that lends none.
    fn canvas(&mut self) -> Option<&mut dyn Canvas> {
        None
    }

    /// The window, for whoever draws on it with OpenGL; `None` for a surface that is none. From the first
    /// picture that is drawn so nothing else is drawn on it: pointer and text come with the pictures.
    fn window(&self) -> Option<DrawnWindow> {
        None
    }

    /// The pointer's shape and place, drawn over the picture without waiting for a frame.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError>;

    /// Whether the host's application wants to hear how far the mouse moves, not where the pointer is: a
    /// surface with a pointer of its own takes or frees it.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn relative_mouse(&mut self, wanted: bool) -> Result<(), PresentError> {
        let _ = wanted;
        Ok(())
    }

    /// Whether the person only watches (`observer`) from now on, as [`WindowConfig::observer`] says at
    /// first, and what a surface with a title has there.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn set_observer(&mut self, observer: bool, title: &str) -> Result<(), PresentError> {
        let _ = (observer, title);
        Ok(())
    }

    /// Lines of text in a box over the picture's first corner, at once and over every picture to
    /// come, until others take their place; none takes the box away. Of characters outside
    /// ISO 8859-1 a `?` is seen. A surface that nobody looks at while it is drawn shows none.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn panel(&mut self, lines: &[String]) -> Result<(), PresentError> {
        let _ = lines;
        Ok(())
    }
}

/// The memory of a surface's next picture, which shows what was painted on it without a copy.
pub trait Canvas {
    /// Rows of the next picture, packed BGRX, for the caller to write whole. Within a frame they
    /// are asked for from top to bottom; those that nobody asks for keep what the picture before
    /// had there. `None` while the surface has no memory to lend: the picture will not be shown.
    fn rows(&mut self, size: Size, rows: Range<u32>) -> Option<&mut [u8]>;

    /// Shows what was painted, as [`Presenter::present`] does; `false` if it could not, and the
    /// picture before stays.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone, or has no memory for a picture of this size.
    fn show(&mut self, frame: FrameId, size: Size) -> Result<bool, PresentError>;
}

/// A surface with the input that belongs to it, if any does.
pub type Surface = (Box<dyn Presenter>, Option<Box<dyn InputSource>>);

/// A surface that can be asked for by name.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The name on the command line.
    pub name: &'static str,
    /// What may follow the name and a colon.
    pub argument: &'static str,
    /// Opens it with the argument (empty if none was given).
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

/// Opens the surface that `spec` (`name` or `name:argument`) asks for.
///
/// # Errors
/// [`PresentError`] if there is none of that name or it can't be opened.
pub fn open(spec: &str, window: &WindowConfig) -> Result<Surface, PresentError> {
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let backend = BACKENDS
        .iter()
        .find(|backend| backend.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
            PresentError(format!(
                "no surface is named {name:?}; there are {}",
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
