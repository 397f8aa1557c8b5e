//! Draws the scene on the window through one X connection: the picture or a part of it, with text and the host's
//! pointer on top.
//!
//! Presenter and input source have one painter each; the picture's resources belong to the server and are shared by
//! their ids. A picture of the window's size needs one `ShmPutImage`. Other pictures are copied to a pixmap, and the
//! server scales them (X Render), possibly on a GPU. Pictures for a screen of 8, 15, 16 or 30 bits take the same path,
//! and the server converts them.

use std::sync::Arc;

use openuvr_proto::units::Size;
use x11rb::connection::Connection;
use x11rb::errors::ReplyOrIdError;
use x11rb::protocol::render::{self, ConnectionExt as _};
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;
use x11rb::x11_utils::X11Error;

use super::WindowError;
use super::panel::Panel;
use super::placement::{Overlay, Placement, Rect};
use super::scene::{DisplayedPicture, Scene, SharedWindow};
use crate::cursor::CursorShape;

/// The resources of one connection for drawing on the window.
pub(crate) struct Painter {
    stage: Arc<SharedWindow>,
    gc: xproto::Gcontext,
    target: render::Picture,
    copies: Copies,
    argb: render::Pictformat,
    scaled: Option<Scaled>,
    pointer: Option<(Arc<CursorShape>, render::Picture)>,
    panel: Option<(Arc<Panel>, render::Picture)>,
}

/// Numbers of requests that read the shared buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reads {
    /// Number of requests that read the buffer of the displayed picture.
    pub(crate) shown: u32,
    /// Number of requests that read the buffer of the next picture, see [`Scene::next`].
    pub(crate) next: u32,
}

/// The format of the server's copies of pictures.
struct Copies {
    gc: xproto::Gcontext,
    depth: u8,
    format: render::Pictformat,
}

/// The server's copy of the newest picture, for scaling.
struct Scaled {
    pixmap: xproto::Pixmap,
    picture: render::Picture,
    placement: Placement,
    generation: u64,
}

impl Painter {
    /// Prepares drawing over `conn`.
    pub(crate) fn new(
        conn: &RustConnection,
        stage: Arc<SharedWindow>,
    ) -> Result<Painter, WindowError> {
        let missing = |what: &str| {
            WindowError(format!(
                "the X server of display {} lacks {what}",
                stage.display
            ))
        };
        let formats = conn
            .render_query_version(0, 11)
            .and_then(|_| conn.render_query_pict_formats())
            .map_err(|_| missing("the RENDER extension"))?
            .reply()
            .map_err(|cause| stage.gone(&cause))?;
        let opaque = (formats.screens.iter().flat_map(|screen| &screen.depths))
            .flat_map(|depth| &depth.visuals)
            .find(|visual| visual.visual == stage.visual)
            .map(|visual| visual.format)
            .ok_or_else(|| missing("a RENDER format for its default visual"))?;
        let argb = (formats.formats.iter())
            .find(|format| is_argb(format))
            .map(|format| format.id)
            .ok_or_else(|| missing("the standard ARGB32 format of RENDER"))?;
        let stored = |format: &&xproto::Format| format.depth == 24 && format.bits_per_pixel == 32;
        let rgb = (formats.formats.iter())
            .find(|format| is_rgb(format))
            .filter(|_| {
                conn.setup()
                    .pixmap_formats
                    .iter()
                    .any(|format| stored(&format))
            })
            .map(|format| format.id);
        let made: Result<_, ReplyOrIdError> = (|| {
            let (gc, target) = (conn.generate_id()?, conn.generate_id()?);
            let quiet = xproto::CreateGCAux::new().graphics_exposures(0);
            conn.create_gc(gc, stage.window, &quiet)?;
            conn.render_create_picture(target, stage.window, opaque, &Default::default())?;
            let copies = match stage.stores_bgrx {
                true => Some(Copies {
                    gc,
                    depth: stage.depth,
                    format: opaque,
                }),
                false => {
                    (rgb.map(|format| Copies::of_24_bits(conn, stage.root, format))).transpose()?
                }
            };
            Ok((gc, target, copies))
        })();
        let (gc, target, copies) = made.map_err(|cause| stage.gone(&cause))?;
        let copies = copies.ok_or_else(|| missing("the standard RGB24 format of RENDER"))?;
        Ok(Painter {
            stage,
            gc,
            target,
            copies,
            argb,
            scaled: None,
            pointer: None,
            panel: None,
        })
    }

    /// Redraws the complete picture, with the text and the pointer over it, but not the black bars. Returns the number
    /// of requests that read the shared buffers. If `announce` is set, these requests report their completion.
    pub(crate) fn everything(
        &mut self,
        conn: &RustConnection,
        scene: &Scene,
        announce: bool,
    ) -> Result<Reads, WindowError> {
        let Some(placement) = scene.placement() else {
            return Ok(Reads::default());
        };
        self.picture(conn, scene, placement.area, announce)
    }

    /// Draws the part of the picture inside `area`, with the text and the pointer over it.
    pub(crate) fn picture(
        &mut self,
        conn: &RustConnection,
        scene: &Scene,
        area: Rect,
        announce: bool,
    ) -> Result<Reads, WindowError> {
        let (Some(shown), Some(placement)) = (scene.shown, scene.placement()) else {
            return Ok(Reads::default());
        };
        let Some(segment) = shown.segment else {
            // If OpenGL draws the window, it draws the complete window with its next picture.
            self.stage.spoil();
            return Ok(Reads::default());
        };
        let Some(area) = area.and(placement.area) else {
            return Ok(Reads::default());
        };
        let stage = Arc::clone(&self.stage);
        let mut reads = Reads::default();
        if stage.copies(placement) {
            let (first, rest) = placement.split(area, scene.next.map_or(0, |next| next.rows));
            for (part, from, count) in [
                (first, scene.next.map(|next| next.segment), &mut reads.next),
                (rest, Some(segment), &mut reads.shown),
            ] {
                if let (Some(part), Some(from)) = (part, from) {
                    self.copy(conn, (from, shown.size), placement, part, announce)
                        .map_err(|cause| stage.gone(&cause))?;
                    *count = 1;
                }
            }
        } else {
            // If the picture is scaled, the rows of an incomplete picture are not drawn.
            let scaled = self.scale(conn, (segment, shown), placement, area, announce);
            reads.shown = scaled.map_err(|cause| stage.gone(&cause))?;
        }
        self.text(conn, scene, area)
            .map_err(|cause| stage.gone(&cause))?;
        if let Some(overlay) = stage.overlay(scene)
            && let Some(cursor) = &scene.cursor
        {
            self.overlay(conn, &cursor.shape, overlay, area)
                .map_err(|cause| stage.gone(&cause))?;
        }
        Ok(reads)
    }

    /// Paints the area outside of the picture black.
    pub(crate) fn bars(&self, conn: &RustConnection, scene: &Scene) -> Result<(), WindowError> {
        let bars = scene
            .placement()
            .into_iter()
            .flat_map(|it| it.bars(scene.window));
        for bar in bars {
            let (x, y) = (short(bar.x), short(bar.y));
            conn.clear_area(
                false,
                self.stage.window,
                x,
                y,
                length(bar.width),
                length(bar.height),
            )
            .map_err(|cause| self.stage.gone(&cause))?;
        }
        Ok(())
    }

    /// The pointer's shape as a picture in the server, uploaded when changed.
    pub(crate) fn pointer(
        &mut self,
        conn: &RustConnection,
        shape: &Arc<CursorShape>,
    ) -> Result<render::Picture, ReplyOrIdError> {
        if let Some((known, picture)) = &self.pointer
            && Arc::ptr_eq(known, shape)
        {
            return Ok(*picture);
        }
        let (w, h) = (shape.width.min(CURSOR_SIDE), shape.height.min(CURSOR_SIDE));
        let picture = upload(conn, self.stage.root, self.argb, (w, h), &shape.argb)?;
        if let Some((_, old)) = self.pointer.replace((Arc::clone(shape), picture)) {
            conn.render_free_picture(old)?;
        }
        Ok(picture)
    }

    fn copy(
        &self,
        conn: &RustConnection,
        (segment, size): (shm::Seg, Size),
        placement: Placement,
        area: Rect,
        announce: bool,
    ) -> Result<(), ReplyOrIdError> {
        conn.shm_put_image(
            self.stage.window,
            self.gc,
            size16(size.width),
            size16(size.height),
            length(area.x - placement.area.x),
            length(area.y - placement.area.y),
            length(area.width),
            length(area.height),
            short(area.x),
            short(area.y),
            self.stage.depth,
            u8::from(xproto::ImageFormat::Z_PIXMAP),
            announce,
            segment,
            0,
        )?;
        Ok(())
    }

    fn scale(
        &mut self,
        conn: &RustConnection,
        (segment, shown): (shm::Seg, DisplayedPicture),
        placement: Placement,
        area: Rect,
        announce: bool,
    ) -> Result<u32, ReplyOrIdError> {
        let mut scaled = match self.scaled.take() {
            Some(scaled) if scaled.placement == placement => scaled,
            old => {
                if let Some(old) = old {
                    conn.render_free_picture(old.picture)?;
                    conn.free_pixmap(old.pixmap)?;
                }
                self.scaled_copy(conn, placement)?
            }
        };
        let mut reads = 0;
        if scaled.generation != shown.generation {
            let (w, h) = (size16(shown.size.width), size16(shown.size.height));
            let format = u8::from(xproto::ImageFormat::Z_PIXMAP);
            conn.shm_put_image(
                scaled.pixmap,
                self.copies.gc,
                w,
                h,
                0,
                0,
                w,
                h,
                0,
                0,
                self.copies.depth,
                format,
                announce,
                segment,
                0,
            )?;
            scaled.generation = shown.generation;
            reads = 1;
        }
        let (from_x, from_y) = (
            short(area.x - placement.area.x),
            short(area.y - placement.area.y),
        );
        conn.render_composite(
            render::PictOp::SRC,
            scaled.picture,
            x11rb::NONE,
            self.target,
            from_x,
            from_y,
            0,
            0,
            short(area.x),
            short(area.y),
            length(area.width),
            length(area.height),
        )?;
        self.scaled = Some(scaled);
        Ok(reads)
    }

    fn scaled_copy(
        &self,
        conn: &RustConnection,
        placement: Placement,
    ) -> Result<Scaled, ReplyOrIdError> {
        let (pixmap, picture) = (conn.generate_id()?, conn.generate_id()?);
        let size = placement.picture;
        let (w, h) = (size16(size.width), size16(size.height));
        conn.create_pixmap(self.copies.depth, pixmap, self.stage.window, w, h)?;
        // Without repetition, the outermost rows and columns would be blended with black.
        let padded = render::CreatePictureAux::new().repeat(render::Repeat::PAD);
        conn.render_create_picture(picture, pixmap, self.copies.format, &padded)?;
        let step = |from: u32, to: i32| fixed(i64::from(from), i64::from(to));
        conn.render_set_picture_transform(
            picture,
            render::Transform {
                matrix11: step(size.width, placement.area.width),
                matrix22: step(size.height, placement.area.height),
                matrix33: 1 << 16,
                ..render::Transform::default()
            },
        )?;
        conn.render_set_picture_filter(picture, b"bilinear", &[])?;
        // Generations count from 1, so 0 means that there is no copy yet.
        Ok(Scaled {
            pixmap,
            picture,
            placement,
            generation: 0,
        })
    }

    /// Draws the part of the text that is inside `area`, where the picture has just been drawn.
    fn text(
        &mut self,
        conn: &RustConnection,
        scene: &Scene,
        area: Rect,
    ) -> Result<(), ReplyOrIdError> {
        let known = self.panel.as_ref().map(|(panel, _)| panel);
        let current = match (known, &scene.panel) {
            (None, None) => return Ok(()),
            (Some(known), Some(wanted)) => Arc::ptr_eq(known, wanted),
            _ => false,
        };
        if !current {
            if let Some((_, old)) = self.panel.take() {
                conn.render_free_picture(old)?;
            }
            if let Some(panel) = &scene.panel {
                let size = (panel.width, panel.height);
                let picture = upload(conn, self.stage.root, self.argb, size, &panel.argb)?;
                self.panel = Some((Arc::clone(panel), picture));
            }
        }
        let (Some((_, picture)), Some(whole)) = (&self.panel, scene.panel_area()) else {
            return Ok(());
        };
        let Some(visible) = whole.and(area) else {
            return Ok(());
        };
        conn.render_composite(
            render::PictOp::OVER,
            *picture,
            x11rb::NONE,
            self.target,
            short(visible.x - whole.x),
            short(visible.y - whole.y),
            0,
            0,
            short(visible.x),
            short(visible.y),
            length(visible.width),
            length(visible.height),
        )?;
        Ok(())
    }

    fn overlay(
        &mut self,
        conn: &RustConnection,
        shape: &Arc<CursorShape>,
        overlay: Overlay,
        area: Rect,
    ) -> Result<(), ReplyOrIdError> {
        let Some(visible) = overlay.area.and(area) else {
            return Ok(());
        };
        let pointer = self.pointer(conn, shape)?;
        conn.render_composite(
            render::PictOp::OVER,
            pointer,
            x11rb::NONE,
            self.target,
            short(overlay.from.0 + visible.x - overlay.area.x),
            short(overlay.from.1 + visible.y - overlay.area.y),
            0,
            0,
            short(visible.x),
            short(visible.y),
            length(visible.width),
            length(visible.height),
        )?;
        Ok(())
    }
}

impl Copies {
    /// The format of 24-bit BGRX pixels, for a window with a different format.
    fn of_24_bits(
        conn: &RustConnection,
        root: xproto::Window,
        format: render::Pictformat,
    ) -> Result<Copies, ReplyOrIdError> {
        let depth = 24;
        let (like, gc) = (conn.generate_id()?, conn.generate_id()?);
        conn.create_pixmap(depth, like, root, 1, 1)?;
        conn.create_gc(gc, like, &Default::default())?;
        conn.free_pixmap(like)?;
        Ok(Copies { gc, depth, format })
    }
}

impl SharedWindow {
    /// The error for a failed connection to the server.
    pub(crate) fn gone(&self, cause: &dyn std::fmt::Display) -> WindowError {
        WindowError(format!(
            "the X server of display {} is gone: {cause}",
            self.display
        ))
    }

    /// Handles an asynchronous X error. It is fatal if the window is gone. Other errors are logged.
    pub(crate) fn judge(&self, error: &X11Error) -> Result<(), WindowError> {
        if error.bad_value == self.window {
            return Err(WindowError(format!(
                "the window on display {} was destroyed by another program",
                self.display
            )));
        }
        tracing::warn!(
            display = self.display,
            ?error,
            "the X server refused a request"
        );
        Ok(())
    }
}

/// The standard format of BGRX pictures: 24 bits without alpha (Render protocol, section 7).
fn is_rgb(format: &render::Pictforminfo) -> bool {
    let direct = format.direct;
    format.type_ == render::PictType::DIRECT
        && format.depth == 24
        && direct.alpha_mask == 0
        && (direct.red_shift, direct.red_mask) == (16, 0xff)
        && (direct.green_shift, direct.green_mask) == (8, 0xff)
        && (direct.blue_shift, direct.blue_mask) == (0, 0xff)
}

/// The standard 32-bit format with premultiplied alpha (Render protocol, section 7).
fn is_argb(format: &render::Pictforminfo) -> bool {
    let direct = format.direct;
    format.type_ == render::PictType::DIRECT
        && format.depth == 32
        && (direct.alpha_shift, direct.alpha_mask) == (24, 0xff)
        && (direct.red_shift, direct.red_mask) == (16, 0xff)
        && (direct.green_shift, direct.green_mask) == (8, 0xff)
        && (direct.blue_shift, direct.blue_mask) == (0, 0xff)
}

/// Creates a picture in the server from premultiplied ARGB pixels.
fn upload(
    conn: &RustConnection,
    root: xproto::Window,
    format: render::Pictformat,
    (width, height): (u16, u16),
    argb: &[u32],
) -> Result<render::Picture, ReplyOrIdError> {
    // A shape without pixels (a hidden pointer) becomes one transparent pixel.
    let (w, h) = (width.max(1), height.max(1));
    let mut bytes: Vec<u8> = argb.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
    bytes.resize(usize::from(w) * usize::from(h) * 4, 0);
    let (pixmap, gc, picture) = (
        conn.generate_id()?,
        conn.generate_id()?,
        conn.generate_id()?,
    );
    conn.create_pixmap(32, pixmap, root, w, h)?;
    conn.create_gc(gc, pixmap, &Default::default())?;
    conn.put_image(
        xproto::ImageFormat::Z_PIXMAP,
        pixmap,
        gc,
        w,
        h,
        0,
        0,
        0,
        32,
        &bytes,
    )?;
    conn.render_create_picture(picture, pixmap, format, &Default::default())?;
    conn.free_gc(gc)?;
    conn.free_pixmap(pixmap)?;
    Ok(picture)
}

/// The maximum size of a pointer, see [`CursorShape`].
const CURSOR_SIDE: u16 = 256;

/// `numerator / denominator` in Render's 16.16 fixed point.
fn fixed(numerator: i64, denominator: i64) -> i32 {
    i32::try_from((numerator << 16) / denominator.max(1)).unwrap_or(i32::MAX)
}

fn short(value: i32) -> i16 {
    i16::try_from(value).unwrap_or(if value < 0 { i16::MIN } else { i16::MAX })
}

fn length(value: i32) -> u16 {
    u16::try_from(value.max(0)).unwrap_or(u16::MAX)
}

fn size16(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
