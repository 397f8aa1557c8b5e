//! Real contexts of Mesa's software renderer.

mod context;

use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use openuvr_proto::units::Size;

use self::context::{Context, Egl, Glx, Profile, Wanted, colour, draw, functions};
use super::super::{Reading, Sharing, Submit, What};
use super::ReadBack;
use crate::capture::Drawn;
use crate::capture::submit::{Frame, channel};
use crate::picture::{Picture, PixelFormat, Rows};
use crate::xvfb::Xvfb;

const SIZE: Size = Size::new(71, 46);

/// Where the pictures go: all that came, oldest first.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Vec<(Box<dyn Frame>, Drawn)>>>);

impl Shelf {
    fn submit(&self) -> Submit {
        let shelf = self.clone();
        Arc::new(move |frame, drawn| {
            shelf.0.lock().unwrap().push((frame, drawn));
            None
        })
    }

    fn take(&self) -> Vec<(Box<dyn Frame>, Drawn)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The only one.
    fn one(&self) -> Box<dyn Frame> {
        let mut all = self.take();
        assert_eq!(all.len(), 1);
        all.remove(0).0
    }
}

fn read_back(context: &dyn Context, sharing: Sharing, shelf: &Shelf) -> ReadBack {
    let mut find = |name: &CStr| context.find(name);
    // SAFETY: the context is current, here and when it is used, and is destroyed afterwards.
    unsafe { ReadBack::new(&mut find, sharing, shelf.submit()) }.expect("a context")
}

/// Red, green and blue, seen from the top.
fn pixel(picture: &Picture<'_>, x: u32, y: u32) -> [u8; 3] {
    let y = match picture.rows {
        Rows::TopDown => y,
        Rows::BottomUp => picture.size.height - 1 - y,
    };
    let bytes = picture.format.packed().expect("packed");
    let plane = picture.planes[0];
    let at = y as usize * plane.stride + x as usize * bytes;
    let [a, b, c] = [0, 1, 2].map(|i| plane.data[at + i]);
    match picture.format {
        PixelFormat::Rgbx | PixelFormat::Rgb => [a, b, c],
        _ => [c, b, a],
    }
}

fn assert_shows(frame: &dyn Frame, size: Size, seed: u32, what: &str) {
    let picture = frame.picture();
    assert_eq!(picture.size, size, "{what}");
    for y in 0..size.height {
        for x in 0..size.width {
            let (have, want) = (pixel(&picture, x, y), colour(x, y, seed));
            assert_eq!(have, want, "{what}: {x}, {y}");
        }
    }
}

#[test]
fn what_is_drawn_is_read_to_the_bit() {
    let Some(server) = Xvfb::start("320x240") else {
        return;
    };
    let kinds = [
        Wanted::USUAL,
        Wanted::of(Profile::Core, 4, 5),
        Wanted::of(Profile::Core, 3, 2),
        Wanted::of(Profile::Compatible, 2, 1),
        Wanted::of(Profile::Embedded, 3, 0),
        Wanted::of(Profile::Embedded, 2, 0),
        Wanted {
            double: false,
            ..Wanted::USUAL
        },
        Wanted {
            samples: 4,
            ..Wanted::USUAL
        },
    ];
    for wanted in kinds {
        let glx = Glx::open(&server.display, SIZE, wanted, None);
        let egl = (wanted.samples == 0 && wanted.double).then(|| Egl::open(SIZE, wanted));
        let glx = glx.map(|context| Box::new(context) as Box<dyn Context>);
        let egl = egl
            .flatten()
            .map(|context| Box::new(context) as Box<dyn Context>);
        for (name, context) in [("GLX", glx), ("EGL", egl)] {
            let Some(context) = context else {
                eprintln!("{name}: {wanted:?} is not there");
                continue;
            };
            context.make_current(true);
            let gl = functions(&*context);
            let shelf = Shelf::default();
            let mut back = read_back(&*context, Sharing::None, &shelf);
            for seed in 0..3 {
                draw(&gl, SIZE, seed);
                let reading = back.read(SIZE, What::Window, Drawn::default());
                assert_eq!(reading, Reading::Submitted(None), "{name}, {wanted:?}");
                assert_shows(&*shelf.one(), SIZE, seed, &format!("{name}, {wanted:?}"));
                context.swap();
            }
            back.retire(true);
            context.make_current(false);
        }
    }
}
