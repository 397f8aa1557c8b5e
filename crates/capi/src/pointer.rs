//! The application's pointer, and its state at a MUD.

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

/// The application's pointer. Set `size` to `sizeof(struct openuvr_pointer)` and unused fields to 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_pointer {
    /// Bytes of this structure.
    pub size: u32,
    /// 1: relative mouse motion (`OPENUVR_INPUT_MOTION`): the MUD grabs and hides its pointer; 0: absolute positions
    /// (`OPENUVR_INPUT_POINTER`).
    pub relative: u32,
    /// 1: visible; 0: hidden.
    pub visible: u32,
    /// The horizontal position for observers: 0 is the left edge of the picture, 65535 the right one. The player
    /// sees the pointer at its own mouse position.
    pub x: u32,
    /// The vertical position, from the upper edge.
    pub y: u32,
    /// Width of the shape in pixels, 1 to 256.
    pub width: u32,
    /// Height of the shape in pixels, 1 to 256.
    pub height: u32,
    /// The hot spot in the shape, from the left.
    pub hot_x: u32,
    /// The hot spot in the shape, from the top.
    pub hot_y: u32,
    /// Unused.
    pub unused: u32,
    /// `width * height` pixels without padding, each `0xAARRGGBB` with premultiplied alpha; NULL: the shape is unchanged.
    /// They are copied before the call returns; at the MUD they are valid until the next call.
    pub argb: *const u32,
}

// SAFETY: the type is `repr(C)` and contains only numbers and a pointer, for which every bit pattern is valid.
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
    /// `argb` is NULL or readable for `width * height` pixels.
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
                "invalid pointer shape {}x{} with the hot spot {}, {}: each side must be 1 to \
                 {MAX_SIDE}, and the hot spot must lie inside the shape",
                self.width, self.height, self.hot_x, self.hot_y
            )));
        }
        let [width, height, hot_x, hot_y] = [self.width, self.height, self.hot_x, self.hot_y]
            .map(|side| u16::try_from(side).unwrap_or(0));
        // SAFETY: the caller upholds this function's requirements, which include those of the called function.
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

    fn position(&self) -> Outcome<Option<(u16, u16)>> {
        let side = |side: u32| {
            u16::try_from(side).map_err(|_| {
                Failure::argument(format!("a pointer position must be 0 to 65535, not {side}"))
            })
        };
        let position = (side(self.x)?, side(self.y)?);
        Ok((self.visible != 0).then_some(position))
    }
}

/// Sets the pointer that the MUDs show, and their mouse mode. Until this is called, no pointer is shown over the picture,
/// and the mouse sends absolute positions. MUDs with a window apply the setting automatically; their users can release the
/// pointer. From any thread, after the threads are started; does not block.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `pointer` is NULL or readable for its `size` bytes, and
/// describes its pixels correctly.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_set_pointer(
    context: *mut openuvr_context,
    pointer: *const openuvr_pointer,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let pointer = read(pointer, openuvr_pointer::default(), "the pointer")?;
            if pointer.relative > 1 || pointer.visible > 1 {
                let why = "relative and visible must each be 0 or 1";
                return Err(Failure::argument(why));
            }
            let (shape, position) = (pointer.shape()?, pointer.position()?);
            let guest = &handle.started()?.guest;
            guest.set_pointer(shape.as_ref(), position);
            guest.set_relative_mouse(pointer.relative == 1);
            Ok(DONE)
        })
    }
}

/// Retrieves the host's pointer into `*pointer` (set its `size` first), for
/// `OPENUVR_SURFACE_APPLICATION`; its `argb` is valid until the next call. Returns 1 if it has changed since the
/// last call, 0 if not. From one thread at a time.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `pointer` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_mud_pointer(
    context: *mut openuvr_mud_context,
    pointer: *mut openuvr_pointer,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
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
            let mut current = openuvr_pointer {
                relative: known.relative.into(),
                ..openuvr_pointer::default()
            };
            let mut lent = lock(&started.pointed);
            if let Some(cursor) = &known.cursor {
                let shape = Arc::clone(&cursor.shape);
                (current.width, current.height) = (shape.width.into(), shape.height.into());
                (current.hot_x, current.hot_y) = (shape.hot_x.into(), shape.hot_y.into());
                current.visible = cursor.at.is_some().into();
                (current.x, current.y) = cursor.at.map_or((0, 0), |(x, y)| (x.into(), y.into()));
                if !shape.argb.is_empty() {
                    current.argb = shape.argb.as_ptr();
                }
                *lent = Some(shape);
            }
            write(pointer, &current, "the pointer")?;
            Ok(changed.into())
        })
    }
}
