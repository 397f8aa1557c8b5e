//! The display as a library for wlcs, the Wayland conformance suite.
//!
//! The suite's crate with Rust bindings links libwayland, which nothing else here needs, so `sys` declares the few
//! structures of the suite's C interface.

mod sys;

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use openuvr_compositor::{DisplayCapture, DisplayInput, Options, WaylandDisplay};
use openuvr_media::capture::Capture as _;
use openuvr_media::input_sink::InputSink as _;
use openuvr_proto::input::event::{Button, InputEvent};
use openuvr_proto::units::Size;

/// The display's size. Some of the suite's windows are 1000 units wide.
const SIZE: Size = Size::new(1280, 1024);

/// A display under test.
struct Server {
    display: WaylandDisplay,
    /// Exists as long as the display, because a display without a capture draws less often.
    _capture: DisplayCapture,
    /// Removed after the display has ended.
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().expect("a folder for the display");
        let display = WaylandDisplay::start(&Options {
            folder: folder.path().to_owned(),
            size: SIZE,
            fps: 60.0,
            scale: 1.0,
            authority: None,
        });
        let display = display.expect("the display starts");
        let mut capture = display.capture().expect("the display's only capture");
        capture.limit_fps(60.0);
        capture.set_watched(true);
        Server {
            display,
            _capture: capture,
            _folder: folder,
        }
    }

    /// The client's end of a new connection. Its descriptor is the client's number.
    fn connect(&self) -> io::Result<OwnedFd> {
        let (client, server) = UnixStream::pair()?;
        self.display.accept_numbered(server, client.as_raw_fd());
        Ok(client.into())
    }

    fn move_window(&self, client: i32, surface: u32, x: i32, y: i32) {
        self.display.move_window(client, surface, (x, y));
    }

    fn pointer(&self) -> Pointer {
        Pointer(self.display.input())
    }
}

struct Pointer(DisplayInput);

impl Pointer {
    fn apply(&mut self, event: InputEvent) {
        self.0.apply(&event).expect("the display takes input");
    }

    /// Moves the pointer to a position in units of windows.
    fn move_to(&mut self, x: i32, y: i32) {
        // The smallest position on this pixel, in 1/65535 of the display's width or height.
        let along = |at: i32, side: u32| {
            let place = (u32::try_from(at).unwrap_or(0) * 65_535).div_ceil(side);
            u16::try_from(place).unwrap_or(u16::MAX)
        };
        self.apply(InputEvent::PointerAbsolute {
            x: along(x, SIZE.width),
            y: along(y, SIZE.height),
        });
    }

    fn move_by(&mut self, dx: i32, dy: i32) {
        let short =
            |delta: i32| i16::try_from(delta).expect("the suite moves it by less than 2^15");
        self.apply(InputEvent::PointerRelative {
            dx: short(dx),
            dy: short(dy),
        });
    }

    fn button(&mut self, button: u16, pressed: bool) {
        self.apply(InputEvent::Button {
            button: Button(button),
            pressed,
        });
    }
}
