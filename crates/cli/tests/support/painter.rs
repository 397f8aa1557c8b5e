//! A test application: a window with known pictures.

use openuvr_media::barcode::{self, Stamp};
use openuvr_proto::units::Size;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    self, AtomEnum, ConfigureWindowAux, ConnectionExt as _, CreateGCAux, CreateWindowAux,
    ImageFormat, PropMode, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::{Display, Shot};

/// Paints on request, each picture in one X request, so that no partial picture is visible.
pub(crate) struct Painter {
    conn: RustConnection,
    window: Window,
    gc: xproto::Gcontext,
    size: Size,
    frame: u32,
    /// The painted pictures.
    pub(crate) painted: Vec<Stamp>,
}

impl Painter {
    /// Opens a window of `size` at the upper left, named `name`.
    pub(crate) fn open(display: &Display, size: Size, name: &str) -> Painter {
        let (conn, number) = x11rb::connect(Some(&display.name)).expect("the display runs");
        let root = conn.setup().roots[number].root;
        let window = conn.generate_id().expect("an id");
        let gc = conn.generate_id().expect("an id");
        let (width, height) = (side(size.width), side(size.height));
        let class = WindowClass::INPUT_OUTPUT;
        let attributes = CreateWindowAux::new().override_redirect(1);
        conn.create_window(
            0,
            window,
            root,
            0,
            0,
            width,
            height,
            0,
            class,
            0,
            &attributes,
        )
        .expect("sent");
        let title = name.as_bytes();
        conn.change_property8(
            PropMode::REPLACE,
            window,
            AtomEnum::WM_NAME,
            AtomEnum::STRING,
            title,
        )
        .expect("sent");
        conn.create_gc(gc, window, &CreateGCAux::new())
            .expect("sent");
        conn.map_window(window).expect("sent");
        conn.sync().expect("a running X server");
        Painter {
            conn,
            window,
            gc,
            size,
            frame: 0,
            painted: Vec::new(),
        }
    }

    /// Paints and returns the next picture.
    pub(crate) fn paint(&mut self) -> Shot {
        self.frame += 1;
        // This is not a real time: it is only compared for equality.
        let drawn_us = u64::from(self.frame) * 1_000_003;
        let stamp = Stamp {
            frame: self.frame,
            drawn_us,
            inputs: 0,
        };
        let shot = picture(self.size, &stamp);
        let (width, height) = (side(self.size.width), side(self.size.height));
        let format = ImageFormat::Z_PIXMAP;
        self.conn
            .put_image(
                format,
                self.window,
                self.gc,
                width,
                height,
                0,
                0,
                0,
                24,
                &shot.pixels,
            )
            .expect("sent");
        self.conn.sync().expect("a running X server");
        self.painted.push(stamp);
        shot
    }

    /// Resizes the window and paints it.
    pub(crate) fn resize(&mut self, size: Size) -> Shot {
        let change = ConfigureWindowAux::new()
            .width(size.width)
            .height(size.height);
        self.conn
            .configure_window(self.window, &change)
            .expect("sent");
        self.size = size;
        self.paint()
    }

    pub(crate) fn window(&self) -> Window {
        self.window
    }

    /// Destroys the window.
    pub(crate) fn close(self) {
        self.conn.destroy_window(self.window).expect("sent");
        self.conn.sync().expect("a running X server");
    }
}

fn side(pixels: u32) -> u16 {
    u16::try_from(pixels).expect("a window's side")
}

/// Colour blocks that move with the frame number, under a bar code.
fn picture(size: Size, stamp: &Stamp) -> Shot {
    let shift = stamp.frame * 3;
    let mut pixels = Vec::with_capacity(size.pixels() * 4);
    for y in 0..size.height {
        for x in 0..size.width {
            let block = ((x + shift) / 24).wrapping_mul(31) ^ (y / 24).wrapping_mul(17);
            let [b, g, r, _] = block.wrapping_mul(0x9e37_79b1).to_le_bytes();
            // Edges inside the blocks are soft, so that there is fine detail to encode.
            let ramp = u8::try_from((x + y) % 24).unwrap_or(0);
            pixels.extend([b / 2 + ramp, g / 2 + 2 * ramp, r / 2 + ramp, 0]);
        }
    }
    let drawn = barcode::draw(&mut pixels, size.width as usize * 4, size, stamp);
    assert!(drawn, "a picture of {size} has room for a bar code");
    Shot { size, pixels }
}
