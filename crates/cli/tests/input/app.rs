//! An application on the host's display that records its input.

use x11rb::connection::Connection as _;
use x11rb::properties::{WmSizeHints, WmSizeHintsSpecification};
use x11rb::protocol::Event;
use x11rb::protocol::xinput::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{self, AtomEnum, ConnectionExt as _, EventMask, PropMode, Window};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use crate::support::{Display, eventually};
use crate::xtest::XTest;

/// An input event of the application. Keys are X key codes of the host's keyboard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    Down(u8),
    Up(u8),
    ButtonDown(u8),
    ButtonUp(u8),
}

/// A window with the keyboard focus, for tests.
pub(crate) struct App {
    pub(crate) conn: RustConnection,
    pub(crate) root: Window,
    pub(crate) window: Window,
    /// Received events that have not been returned by a call yet.
    events: Vec<Received>,
    /// Total motion of the mouse, from raw events.
    pub(crate) moved: (i64, i64),
}

impl App {
    /// Opens a window with this title at this position.
    pub(crate) fn open(
        side: &Display,
        title: &str,
        (x, y, width, height): (i16, i16, u16, u16),
    ) -> App {
        let (conn, screen) = x11rb::connect(Some(&side.name)).expect("Xvfb runs");
        let screen = conn.setup().roots[screen].clone();
        let window = conn.generate_id().expect("an id");
        let events = EventMask::KEY_PRESS
            | EventMask::KEY_RELEASE
            | EventMask::BUTTON_PRESS
            | EventMask::BUTTON_RELEASE
            | EventMask::FOCUS_CHANGE;
        let attributes = xproto::CreateWindowAux::new()
            .background_pixel(0x20_40_60)
            .event_mask(events);
        conn.create_window(
            screen.root_depth,
            window,
            screen.root,
            x,
            y,
            width,
            height,
            0,
            xproto::WindowClass::INPUT_OUTPUT,
            screen.root_visual,
            &attributes,
        )
        .expect("sent");
        conn.change_property8(
            PropMode::REPLACE,
            window,
            AtomEnum::WM_NAME,
            AtomEnum::STRING,
            title.as_bytes(),
        )
        .expect("sent");
        // Without this hint, a window manager chooses the position.
        let mut hints = WmSizeHints::new();
        let given = WmSizeHintsSpecification::UserSpecified;
        hints.position = Some((given, x.into(), y.into()));
        hints.set_normal_hints(&conn, window).expect("sent");
        conn.map_window(window).expect("sent");
        conn.sync().expect("a running X server");
        let parent = xproto::InputFocus::PARENT;
        conn.set_input_focus(parent, window, x11rb::CURRENT_TIME)
            .expect("sent");
        conn.xinput_xi_query_version(2, 2)
            .expect("sent")
            .reply()
            .expect("XInput 2");
        let raw = xinput::EventMask {
            deviceid: u16::from(xinput::Device::ALL_MASTER),
            mask: vec![xinput::XIEventMask::RAW_MOTION],
        };
        conn.xinput_xi_select_events(screen.root, &[raw])
            .expect("sent");
        conn.sync().expect("a running X server");
        App {
            conn,
            root: screen.root,
            window,
            events: Vec::new(),
            moved: (0, 0),
        }
    }

    /// Reads the events up to now. The round trip is needed: what another connection already sees, such as the new
    /// position of the pointer, may not have been sent to this connection yet.
    pub(crate) fn poll(&mut self) {
        self.conn.sync().expect("a running X server");
        while let Some(event) = self.conn.poll_for_event().expect("a running X server") {
            let event = match event {
                Event::KeyPress(event) => Received::Down(event.detail),
                Event::KeyRelease(event) => Received::Up(event.detail),
                Event::ButtonPress(event) => Received::ButtonDown(event.detail),
                Event::ButtonRelease(event) => Received::ButtonUp(event.detail),
                Event::XinputRawMotion(event) => {
                    let mask = event.valuator_mask.first().copied().unwrap_or(0);
                    let mut values = event.axisvalues_raw.iter().map(|v| i64::from(v.integral));
                    if mask & 1 != 0 {
                        self.moved.0 += values.next().unwrap_or(0);
                    }
                    if mask & 2 != 0 {
                        self.moved.1 += values.next().unwrap_or(0);
                    }
                    continue;
                }
                _ => continue,
            };
            self.events.push(event);
        }
    }

    /// Moves the client's mouse in 100 steps, by (3100, -700) in all, and returns the motion that arrives here. As in a
    /// game whose view keeps turning, this is far beyond the edges of both displays. Consecutive steps differ, because
    /// SDL 2 drops a raw motion that equals the previous one within the same millisecond.
    pub(crate) fn turned_by(&mut self, client: &XTest) -> (i64, i64) {
        let before = self.moved;
        for _ in 0..50 {
            client.move_by(32, -6);
            client.move_by(30, -8);
        }
        // The click comes after the motion.
        client.button(1, true);
        client.button(1, false);
        self.wait_for(Received::ButtonUp(1));
        (self.moved.0 - before.0, self.moved.1 - before.1)
    }

    /// Waits for `last` and returns all events up to it.
    pub(crate) fn wait_for(&mut self, last: Received) -> Vec<Received> {
        let end = eventually(&format!("the application receives {last:?}"), || {
            self.poll();
            self.events.iter().position(|event| *event == last)
        });
        self.events.drain(..=end).collect()
    }

    /// Number of pending events equal to `expected`.
    pub(crate) fn pending(&self, expected: Received) -> usize {
        self.events
            .iter()
            .filter(|event| **event == expected)
            .count()
    }

    /// Takes all pending events.
    pub(crate) fn take(&mut self) -> Vec<Received> {
        std::mem::take(&mut self.events)
    }

    /// Whether no event is pending after a round trip to the server.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.poll();
        self.events.is_empty()
    }
}
