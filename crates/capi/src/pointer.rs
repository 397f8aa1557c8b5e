//! What an application says of its pointer, and what a MUD is told of it.

use std::ffi::c_int;
use std::sync::Arc;

use openuvr_media::cursor::CursorShape;
use openuvr_runtime::lock::lock;

use crate::enums::OPENUVR_SURFACE;
use crate::error::{DONE, Failure, Outcome};
use crate::ffi::{Sized32, read, write};
use crate::handle::{Handle, call};
use crate::host::{Host, openuvr_context};
use crate::mud::{Mud, openuvr_mud_context};

/// The application's pointer. Set `size` to `sizeof(struct openuvr_pointer)` and everything that is not
/// named to 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_pointer {
    /// Bytes of this structure.
    pub size: u32,
    /// 1: the application wants to hear how far the mouse moves (`OPENUVR_INPUT_MOTION`): the MUD keeps
    /// its pointer and hides it; 0: where it is (`OPENUVR_INPUT_POINTER`).
    pub relative: u32,
    /// 1: the pointer is seen; 0: it is hidden.
    pub visible: u32,
    /// Where it is, for those who only watch: 0 is the left edge of the picture, 65535 the other. The
    /// player's is where the player's own is.
    pub x: u32,
    /// The same from the upper edge.
    pub y: u32,
    /// Pixels per row of the shape, 1 to 256.
    pub width: u32,
    /// Its rows, 1 to 256.
    pub height: u32,
    /// The pixel of the shape that points, from its left.
    pub hot_x: u32,
    /// The same from above.
    pub hot_y: u32,
    /// Not used.
    pub unused: u32,
    /// `width * height` pixels without gaps, each `0xAARRGGBB` with the colours multiplied by the opacity;
    /// NULL: the shape stays as it was told last. Copied before the call returns; at the MUD valid until
    /// the next call.
    pub argb: *const u32,
}

// SAFETY: `repr(C)`; numbers and a pointer.
unsafe impl Sized32 for openuvr_pointer {}

impl Default for openuvr_pointer {
    fn default() -> openuvr_pointer {
        openuvr_pointer {
            size: crate::size_of32::<openuvr_pointer>(),
            relative: 0,
            visible: 0,
            x: 0,
            y: 0,
            width: 0,
            height: 0,
            hot_x: 0,
            hot_y: 0,
            unused: 0,
            argb: std::ptr::null(),
        }
    }
}

/// The longest side of a shape: see docs/protocol.md.
const MAX_SIDE: u32 = 256;

impl openuvr_pointer {
    /// # Safety
    /// `argb` is NULL or readable for as many pixels as are said.
    unsafe fn shape(&self) -> Outcome<Option<CursorShape>> {
        if self.argb.is_null() {
            return Ok(None);
        }
        let sides = [self.width, self.height];
        if sides.iter().any(|side| !(1..=MAX_SIDE).contains(side))
            || self.hot_x >= self.width
            || self.hot_y >= self.height
        {
            return Err(Failure::argument(format!(
                "a pointer of {}x{} that points at {}, {}: its sides are 1 to {MAX_SIDE}, and it points \
                 at a pixel of its own",
                self.width, self.height, self.hot_x, self.hot_y
            )));
        }
        let [width, height, hot_x, hot_y] = [self.width, self.height, self.hot_x, self.hot_y]
            .map(|side| u16::try_from(side).unwrap_or(0));
        // SAFETY: the caller has promised this function the same.
        let argb = unsafe {
            std::slice::from_raw_parts(self.argb, usize::from(width) * usize::from(height))
        };
        Ok(Some(CursorShape {
            width,
            height,
            hot_x,
            hot_y,
            argb: argb.to_vec(),
        }))
    }

    fn place(&self) -> Outcome<Option<(u16, u16)>> {
        let side = |side: u32| {
            u16::try_from(side).map_err(|_| {
                Failure::argument(format!("a pointer's place is 0 to 65535, not {side}"))
            })
        };
        let place = (side(self.x)?, side(self.y)?);
        Ok((self.visible != 0).then_some(place))
    }
}

/// Says what the MUDs show as pointer, and how they send the mouse. Until it is called no pointer is seen
/// over the picture, and the mouse sends places. A MUD with a window does it by itself; its person can let
/// the pointer go. From any thread, once the thread is started; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `pointer` is NULL or readable for as many bytes as
/// its size says, and what it says of its pixels is true.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_set_pointer(
    context: *mut openuvr_context,
    pointer: *const openuvr_pointer,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let pointer = read(pointer, openuvr_pointer::default(), "the pointer")?;
            if pointer.relative > 1 || pointer.visible > 1 {
                let why = "a pointer's relative and visible are 0 or 1";
                return Err(Failure::argument(why));
            }
            let (shape, place) = (pointer.shape()?, pointer.place()?);
            let guest = &handle.started()?.guest;
            guest.set_pointer(shape.as_ref(), place);
            guest.set_relative_mouse(pointer.relative == 1);
            Ok(DONE)
        })
    }
}

/// With `OPENUVR_SURFACE_APPLICATION`: writes what the host says of the pointer into `*pointer`, whose
/// `size` the caller has set; its `argb` is valid until the next call. Returns 1 if something has changed
/// since the last call, 0 if not. From one thread at a time.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `pointer` is NULL or writable for as many bytes as
/// its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_mud_pointer(
    context: *mut openuvr_mud_context,
    pointer: *mut openuvr_pointer,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            read(pointer, openuvr_pointer::default(), "the pointer")?;
            let started = handle.started()?;
            if started.surface != OPENUVR_SURFACE::OPENUVR_SURFACE_APPLICATION {
                let why = "the window shows the pointer: set the surface to \
                           OPENUVR_SURFACE_APPLICATION";
                return Err(Failure::state(why));
            }
            let mut known = lock(&started.pictures.pointer);
            let changed = std::mem::take(&mut known.changed);
            let mut told = openuvr_pointer {
                relative: known.relative.into(),
                ..openuvr_pointer::default()
            };
            let mut shown = lock(&started.pointed);
            if let Some(cursor) = &known.cursor {
                let shape = Arc::clone(&cursor.shape);
                (told.width, told.height) = (shape.width.into(), shape.height.into());
                (told.hot_x, told.hot_y) = (shape.hot_x.into(), shape.hot_y.into());
                told.visible = cursor.at.is_some().into();
                (told.x, told.y) = cursor.at.map_or((0, 0), |(x, y)| (x.into(), y.into()));
                if !shape.argb.is_empty() {
                    told.argb = shape.argb.as_ptr();
                }
                *shown = Some(shape);
            }
            write(pointer, &told, "the pointer")?;
            Ok(changed.into())
        })
    }
}
