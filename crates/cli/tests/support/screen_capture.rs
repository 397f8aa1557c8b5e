//! Reads the pixels of a display, and the bar code in them.

use openuvr_media::barcode::{self, Stamp};
use openuvr_media::picture::Picture;
use openuvr_proto::units::Size;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, ImageFormat, MapState, Window};
use x11rb::rust_connection::RustConnection;

use super::{Display, eventually};

/// A connection to a display.
pub(crate) struct ScreenCapture {
    pub(crate) conn: RustConnection,
    pub(crate) root: Window,
    size: Size,
}

/// A picture, BGRX without padding.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Shot {
    pub(crate) size: Size,
    pub(crate) pixels: Vec<u8>,
}

impl ScreenCapture {
    pub(crate) fn open(display: &Display) -> ScreenCapture {
        let (conn, number) = x11rb::connect(Some(&display.name)).expect("the display runs");
        let screen = &conn.setup().roots[number];
        let size = Size::new(
            screen.width_in_pixels.into(),
            screen.height_in_pixels.into(),
        );
        let root = screen.root;
        ScreenCapture { conn, root, size }
    }

    /// The upper left region of the screen.
    pub(crate) fn region(&self, size: Size) -> Shot {
        self.region_at((0, 0), size)
    }

    pub(crate) fn region_at(&self, (x, y): (i16, i16), size: Size) -> Shot {
        let side = |pixels: u32| u16::try_from(pixels).expect("a screen's side");
        let format = ImageFormat::Z_PIXMAP;
        let image = self
            .conn
            .get_image(
                format,
                self.root,
                x,
                y,
                side(size.width),
                side(size.height),
                !0,
            )
            .expect("the display is there")
            .reply()
            .expect("it gives its picture");
        let pixels = image.data;
        Shot { size, pixels }
    }

    /// The whole screen.
    pub(crate) fn shot(&self) -> Shot {
        self.region(self.size)
    }

    /// The bar code of a picture of the screen's size; `None` if there is none.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        let rows = barcode::height(self.size.width);
        self.region(Size::new(self.size.width, rows)).stamp()
    }

    /// Waits for a bar code that satisfies `condition`.
    pub(crate) fn stamp_when(&self, what: &str, condition: impl Fn(&Stamp) -> bool) -> Stamp {
        eventually(what, || self.stamp().filter(&condition))
    }

    /// Waits for `n` further frames; returns the newest.
    pub(crate) fn more_frames(&self, n: u32) -> Stamp {
        let first = self.stamp_when("a first bar code", |_| true);
        self.stamp_when("later bar codes", |stamp| stamp.frame >= first.frame + n)
    }

    /// The size of a window, if it exists.
    pub(crate) fn geometry(&self, window: Window) -> Option<Size> {
        let reply = self.conn.get_geometry(window).ok()?.reply().ok()?;
        Some(Size::new(reply.width.into(), reply.height.into()))
    }

    /// Whether a window manager is running on the display.
    pub(crate) fn is_managed(&self) -> bool {
        let is_set = || {
            let atom = self.conn.intern_atom(false, b"_NET_SUPPORTING_WM_CHECK");
            let atom = atom.ok()?.reply().ok()?.atom;
            let kind = AtomEnum::WINDOW;
            let query = self.conn.get_property(false, self.root, atom, kind, 0, 1);
            Some(!query.ok()?.reply().ok()?.value.is_empty())
        };
        is_set().unwrap_or(false)
    }

    /// The client's window, if it is mapped.
    pub(crate) fn client_window(&self) -> Option<Window> {
        let tree = self.conn.query_tree(self.root).ok()?.reply().ok()?;
        tree.children.into_iter().find(|window| {
            let class = AtomEnum::WM_CLASS;
            let named = self
                .conn
                .get_property(false, *window, class, AtomEnum::STRING, 0, 64)
                .ok()
                .and_then(|cookie| cookie.reply().ok())
                .is_some_and(|reply| reply.value.starts_with(b"openuvr"));
            let shown = self.conn.get_window_attributes(*window).ok();
            let shown = shown.and_then(|cookie| cookie.reply().ok());
            named && shown.is_some_and(|a| a.map_state == MapState::VIEWABLE)
        })
    }
}

impl Shot {
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        let stride = self.size.width as usize * 4;
        barcode::read(&Picture::bgrx(self.size, &self.pixels, stride))
    }

    /// Reads a PNG file; `None` if it is incomplete.
    pub(crate) fn from_png(path: &std::path::Path) -> Option<Shot> {
        let file = std::io::BufReader::new(std::fs::File::open(path).ok()?);
        let mut reader = png::Decoder::new(file).read_info().ok()?;
        let mut rgb = vec![0; reader.output_buffer_size()?];
        let info = reader.next_frame(&mut rgb).ok()?;
        assert_eq!(info.color_type, png::ColorType::Rgb);
        let pixels = rgb
            .chunks_exact(3)
            .flat_map(|p| [p[2], p[1], p[0], 0])
            .collect();
        let size = Size::new(info.width, info.height);
        Some(Shot { size, pixels })
    }

    /// The colours without the unused fourth byte of each pixel.
    pub(crate) fn colours(&self) -> Vec<[u8; 3]> {
        self.pixels
            .chunks_exact(4)
            .map(|p| [p[0], p[1], p[2]])
            .collect()
    }
}

/// Peak signal-to-noise ratio of the luma (BT.709) of two pictures in dB; 100 if they are equal.
pub(crate) fn psnr(one: &Shot, other: &Shot) -> f64 {
    assert_eq!(one.size, other.size, "only pictures of one size compare");
    let luma =
        |p: &[u8]| 0.0722 * f64::from(p[0]) + 0.7152 * f64::from(p[1]) + 0.2126 * f64::from(p[2]);
    let pairs = one.pixels.chunks_exact(4).zip(other.pixels.chunks_exact(4));
    let squares: f64 = pairs.map(|(a, b)| (luma(a) - luma(b)).powi(2)).sum();
    let mean = squares * 4.0 / one.pixels.len() as f64;
    if mean <= 0.0 {
        100.0
    } else {
        (10.0 * (255.0_f64.powi(2) / mean).log10()).min(100.0)
    }
}
