//! The pointer of an X display.
//!
//! XInput 2 reports motion, XFixes reports shape changes, and RECORD (where the server has it) reports clients that
//! hide the pointer. The position is queried after each of these reports and on timeout. To inject motion, see
//! [`input_sink`](crate::input_sink).
//!
//! Protocols: XFIXES 2.0 (`SelectCursorInput`, `GetCursorImage`), XI 2.2, from `xorgproto`.

use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use x11rb::connection::Connection;
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::{ConnectionExt as _, CursorNotifyMask, GetCursorImageReply};
use x11rb::protocol::xinput::{ConnectionExt as _, Device, EventMask, XIEventMask};
use x11rb::protocol::xproto::ConnectionExt as _;

use super::hidden_pointer::HiddenPointer;
use super::position::normalised;
use super::{CursorEvent, CursorWatch};
use crate::capture::x11::Viewport;
use crate::capture::x11::display::Display;
use crate::capture::{CaptureError, Waker};
use crate::cursor::{Cursor, CursorShape};

/// The largest side of a shape in pixels. A larger shape is cropped around its hot spot.
const MAX_SIDE: u16 = 256;

/// Watches the pointer of a display over its own connection. One thread owns it.
pub struct X11Cursor {
    display: Display,
    viewport: Viewport,
    waker: Waker,
    /// `None` if hidden pointers can't be detected.
    hidden: Option<HiddenPointer>,
    cursor: Cursor,
    /// An event may have moved the pointer or changed its shape.
    moved: bool,
    shaped: bool,
}

impl X11Cursor {
    /// Watches the pointer of `display` (`None`: the environment variable DISPLAY) relative to
    /// `viewport`. The first calls of [`CursorWatch::next`] return the current shape and position.
    ///
    /// # Errors
    /// [`CaptureError`] if the display can't be reached or lacks XFIXES or XInput 2.
    pub fn open(display: Option<&str>, viewport: Viewport) -> Result<X11Cursor, CaptureError> {
        let named = display;
        let display = Display::open(named, &["XFIXES", "XInputExtension"])?;
        let subscribe = || -> Result<(), ReplyError> {
            let (conn, root) = (&display.conn, display.root());
            conn.xfixes_query_version(5, 0)?.reply()?;
            conn.xfixes_select_cursor_input(root, CursorNotifyMask::DISPLAY_CURSOR)?
                .check()?;
            conn.xinput_xi_query_version(2, 2)?.reply()?;
            // Raw motion events arrive regardless of which client gets the motion event. Motion events on the root
            // window also report warps, unless a window between the pointer and the root window has selected motion
            // events.
            let masks = [EventMask {
                deviceid: Device::ALL_MASTER.into(),
                mask: vec![XIEventMask::RAW_MOTION | XIEventMask::MOTION],
            }];
            conn.xinput_xi_select_events(root, &masks)?.check()
        };
        subscribe()
            .map_err(|e| CaptureError(format!("{}: can't watch its pointer: {e}", display.name)))?;
        // If this fails, a pointer hidden by a client is shown.
        let hidden = HiddenPointer::open(named, &display)
            .inspect_err(|why| tracing::debug!("hidden pointers are not detected: {why}"));
        Ok(X11Cursor {
            hidden: hidden.ok(),
            display,
            viewport,
            waker: Waker::new()?,
            cursor: Cursor {
                at: None,
                shape: Arc::default(),
            },
            moved: true,
            shaped: true,
        })
    }

    fn is_hidden(&self) -> bool {
        self.hidden.as_ref().is_some_and(HiddenPointer::is_hidden)
    }

    /// Updates the state after a client may have hidden or shown the pointer.
    fn update_hidden(&mut self) {
        let before = self.is_hidden();
        let heard = self.hidden.as_mut().map(|it| it.receive(&self.display));
        if let Some(Err(why)) = heard {
            tracing::debug!("hidden pointers are no longer detected: {why}");
            self.hidden = None;
        }
        self.moved |= self.is_hidden() != before;
    }

    fn drain_events(&mut self) -> Result<(), CaptureError> {
        loop {
            let event = self.display.conn.poll_for_event();
            match event.map_err(|e| self.display.broke(e))? {
                None => return Ok(()),
                Some(Event::XfixesCursorNotify(_)) => self.shaped = true,
                Some(Event::XinputRawMotion(_) | Event::XinputMotion(_)) => self.moved = true,
                Some(_) => {}
            }
        }
    }

    /// The new shape, or `None` if it is unchanged.
    fn query_shape(&mut self) -> Result<Option<Arc<CursorShape>>, CaptureError> {
        let image = || self.display.conn.xfixes_get_cursor_image()?.reply();
        let shape = match image() {
            Ok(image) => bounded(&image),
            // Without a cursor, the server returns an X error.
            Err(ReplyError::X11Error(_)) => CursorShape::default(),
            Err(e) => return Err(self.display.broke(e)),
        };
        if shape == *self.cursor.shape {
            return Ok(None);
        }
        self.cursor.shape = Arc::new(shape);
        Ok(Some(Arc::clone(&self.cursor.shape)))
    }

    fn query_position(&self) -> Result<Option<(u16, u16)>, CaptureError> {
        let ask = || {
            self.display
                .conn
                .query_pointer(self.display.root())?
                .reply()
        };
        let reply = ask().map_err(|e: ReplyError| self.display.broke(e))?;
        if !reply.same_screen || self.cursor.shape.is_invisible() || self.is_hidden() {
            return Ok(None);
        }
        let place = (reply.root_x.into(), reply.root_y.into());
        Ok(normalised(place, self.viewport.now()))
    }
}

impl CursorWatch for X11Cursor {
    fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// A program can warp the pointer without causing an event here. On timeout, the position is therefore queried once
    /// more.
    fn next(&mut self, timeout: Option<Duration>) -> Result<CursorEvent, CaptureError> {
        let until = timeout.map(|span| clock::now() + span);
        loop {
            if self.waker.lower() {
                return Ok(CursorEvent::Woken);
            }
            // This call may query the server, and events may arrive with the reply. Therefore, the call precedes
            // `drain_events`.
            self.update_hidden();
            self.drain_events()?;
            if std::mem::take(&mut self.shaped) {
                // No position is reported while the shape is invisible. If the old shape was invisible, the position
                // must be reported, too.
                self.moved = true;
                if let Some(shape) = self.query_shape()? {
                    return Ok(CursorEvent::Shaped(shape));
                }
            }
            let late = until.is_some_and(|until: Instant| until <= clock::now());
            if std::mem::take(&mut self.moved) || late {
                let at = self.query_position()?;
                if at != self.cursor.at {
                    self.cursor.at = at;
                    return Ok(CursorEvent::Moved(at));
                }
                if late {
                    return Ok(CursorEvent::TimedOut);
                }
                // Events may have arrived with the reply.
                continue;
            }
            let hiding = self.hidden.as_ref().map(HiddenPointer::fd);
            self.display.wait([Some(self.waker.fd()), hiding], until)?;
        }
    }
}

/// The shape in `image`, cropped to [`MAX_SIDE`] so that it contains the hot spot.
fn bounded(image: &GetCursorImageReply) -> CursorShape {
    let cut = |side: u16, hot: u16| {
        let kept = side.min(MAX_SIDE);
        let first = hot.saturating_sub(kept / 2).min(side - kept);
        (
            first,
            kept,
            hot.saturating_sub(first).min(kept.saturating_sub(1)),
        )
    };
    let (left, width, hot_x) = cut(image.width, image.xhot);
    let (top, height, hot_y) = cut(image.height, image.yhot);
    let rows = image
        .cursor_image
        .chunks_exact(usize::from(image.width).max(1));
    let argb: Vec<u32> = rows
        .skip(top.into())
        .take(height.into())
        .flat_map(|row| row.iter().skip(left.into()).take(width.into()).copied())
        .collect();
    if argb.len() != usize::from(width) * usize::from(height) {
        return CursorShape::default();
    }
    CursorShape {
        width,
        height,
        hot_x,
        hot_y,
        argb,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(width: u16, height: u16, xhot: u16, yhot: u16) -> GetCursorImageReply {
        GetCursorImageReply {
            width,
            height,
            xhot,
            yhot,
            cursor_image: (0..u32::from(width) * u32::from(height)).collect(),
            ..GetCursorImageReply::default()
        }
    }

    #[test]
    fn a_usual_shape_is_kept_as_it_is() {
        let shape = bounded(&image(24, 16, 3, 15));
        assert_eq!((shape.width, shape.height), (24, 16));
        assert_eq!((shape.hot_x, shape.hot_y), (3, 15));
        assert_eq!(shape.argb.len(), 24 * 16);
    }

    #[test]
    fn a_huge_shape_is_cut_around_its_hot_spot() {
        let shape = bounded(&image(600, 300, 590, 0));
        assert_eq!((shape.width, shape.height), (256, 256));
        assert_eq!((shape.hot_x, shape.hot_y), (590 - 344, 0));
        assert_eq!(shape.argb[0], 344);
        assert_eq!(shape.argb[256], 600 + 344);
    }

    #[test]
    fn a_broken_shape_is_none() {
        let mut broken = image(8, 8, 0, 0);
        broken.cursor_image.truncate(5);
        assert_eq!(bounded(&broken), CursorShape::default());
        assert_eq!(bounded(&image(0, 0, 0, 0)), CursorShape::default());
        assert!(CursorShape::default().is_invisible());
    }
}
