//! User input, simulated with XTEST on an X server.

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{self, ConnectionExt as _, Window};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use crate::support::Display;

/// A connection that injects input into a display.
pub(crate) struct XTest {
    pub(crate) conn: RustConnection,
    pub(crate) root: Window,
}

/// X key codes are Linux key codes plus eight.
pub(crate) const SHIFT: u8 = 42 + 8;
pub(crate) const CONTROL: u8 = 29 + 8;
pub(crate) const ALT: u8 = 56 + 8;
const ALT_GR: u8 = 100 + 8;

/// The key symbol of a Cyrillic letter (`keysymdef.h`), in the order of KOI8.
fn cyrillic(ch: char) -> Option<u32> {
    const SMALL: &str = "юабцдефгхийклмнопярстужвьызшэщчъ";
    let at = |ch| {
        SMALL
            .chars()
            .zip(0..)
            .find_map(|(c, n)| (c == ch).then_some(n))
    };
    let small = ch.to_lowercase().next()?;
    Some(at(small)? + if ch == small { 0x6c0 } else { 0x6e0 })
}

impl XTest {
    pub(crate) fn open(side: &Display) -> XTest {
        let (conn, screen) = x11rb::connect(Some(&side.name)).expect("Xvfb runs");
        let root = conn.setup().roots[screen].root;
        XTest { conn, root }
    }

    /// Sets a pointer shape of 16x16 red pixels for a window and its children. The hot spot is the upper left pixel.
    pub(crate) fn red_square_over(&self, window: Window) {
        let conn = &self.conn;
        let [bitmap, gc, cursor] = [(); 3].map(|()| conn.generate_id().expect("an id"));
        conn.create_pixmap(1, bitmap, window, 16, 16).expect("sent");
        let white = xproto::CreateGCAux::new().foreground(1);
        conn.create_gc(gc, bitmap, &white).expect("sent");
        let all = xproto::Rectangle {
            x: 0,
            y: 0,
            width: 16,
            height: 16,
        };
        conn.poly_fill_rectangle(bitmap, gc, &[all]).expect("sent");
        conn.create_cursor(cursor, bitmap, bitmap, 0xffff, 0, 0, 0xffff, 0, 0, 0, 0)
            .expect("sent");
        let aux = xproto::ChangeWindowAttributesAux::new().cursor(cursor);
        conn.change_window_attributes(window, &aux).expect("sent");
        x11rb::wrapper::ConnectionExt::sync(conn).expect("a running X server");
    }

    fn fake(&self, kind: u8, detail: u8, x: i16, y: i16) {
        self.conn
            .xtest_fake_input(kind, detail, x11rb::CURRENT_TIME, x11rb::NONE, x, y, 0)
            .expect("the XTEST extension");
        x11rb::wrapper::ConnectionExt::sync(&self.conn).expect("a running X server");
    }

    /// Presses or releases a key.
    pub(crate) fn key(&self, keycode: u8, down: bool) {
        let kind = if down {
            xproto::KEY_PRESS_EVENT
        } else {
            xproto::KEY_RELEASE_EVENT
        };
        self.fake(kind, keycode, 0, 0);
    }

    /// Presses keys in order, and releases them in reverse order.
    pub(crate) fn chord(&self, keycodes: &[u8]) {
        for &keycode in keycodes {
            self.key(keycode, true);
        }
        for &keycode in keycodes.iter().rev() {
            self.key(keycode, false);
        }
    }

    /// Types a text with the display's current layout.
    pub(crate) fn type_text(&self, text: &str) {
        let setup = self.conn.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let map = self
            .conn
            .get_keyboard_mapping(first, last - first + 1)
            .expect("sent")
            .reply()
            .expect("a keyboard map");
        // The core protocol shows the four levels of the first group in columns 0, 1, 4 and 5. Columns 2 and 3 belong
        // to the second group (X Keyboard Extension: Library Specification, section 17.1.3).
        let levels: [(usize, &[u8]); 4] = [
            (0, &[]),
            (1, &[SHIFT]),
            (4, &[ALT_GR]),
            (5, &[SHIFT, ALT_GR]),
        ];
        for ch in text.chars() {
            let wanted = match ch {
                '\n' => 0xff0d,
                '€' => 0x20ac,
                'ё' => 0x6a3,
                'Ё' => 0x6b3,
                '№' => 0x6b0,
                ch if cyrillic(ch).is_some() => cyrillic(ch).expect("it is"),
                ch if u32::from(ch) < 256 => u32::from(ch),
                ch => 0x0100_0000 | u32::from(ch),
            };
            let rows = map.keysyms.chunks(map.keysyms_per_keycode.into());
            let found = levels.iter().find_map(|(column, modifiers)| {
                // Key codes up to this one are on real keyboards.
                const LAST: u8 = 94;
                let rows = rows.clone().take((LAST - first + 1).into());
                let is = |row: &[u32]| row.get(*column) == Some(&wanted);
                let at = { rows }.position(is)?;
                Some((first + u8::try_from(at).expect("a key code"), *modifiers))
            });
            let (keycode, modifiers) =
                found.unwrap_or_else(|| panic!("the layout has no key for {ch:?}"));
            self.chord(&[modifiers, &[keycode]].concat());
        }
    }

    /// Moves the pointer to a position.
    pub(crate) fn move_to(&self, x: i16, y: i16) {
        self.fake(xproto::MOTION_NOTIFY_EVENT, 0, x, y);
    }

    /// Moves the mouse by a distance.
    pub(crate) fn move_by(&self, dx: i16, dy: i16) {
        self.fake(xproto::MOTION_NOTIFY_EVENT, 1, dx, dy);
    }

    /// Presses or releases a button.
    pub(crate) fn button(&self, number: u8, down: bool) {
        let kind = if down {
            xproto::BUTTON_PRESS_EVENT
        } else {
            xproto::BUTTON_RELEASE_EVENT
        };
        self.fake(kind, number, 0, 0);
    }

    /// Position of the pointer.
    pub(crate) fn pointer(&self) -> (i16, i16) {
        let at = self.conn.query_pointer(self.root).expect("sent");
        let at = at.reply().expect("a running X server");
        (at.root_x, at.root_y)
    }

    /// The pressed keys (key codes) and buttons (X's mask).
    pub(crate) fn pressed(&self) -> (Vec<u8>, u16) {
        let keys = self.conn.query_keymap().expect("sent");
        let keys = keys.reply().expect("a running X server").keys;
        let down = |code: &u8| keys[usize::from(*code / 8)] & (1 << (code % 8)) != 0;
        let at = self.conn.query_pointer(self.root).expect("sent");
        let mask = u16::from(at.reply().expect("a running X server").mask);
        ((0..=255).filter(down).collect(), mask & 0x1f00)
    }

    pub(crate) fn windows(&self, class: &str) -> Vec<Window> {
        let tree = self.conn.query_tree(self.root).expect("sent");
        let children = tree.reply().expect("a running X server").children;
        children
            .into_iter()
            .filter(|window| {
                self.text(*window, xproto::AtomEnum::WM_CLASS.into())
                    .contains(class)
            })
            .collect()
    }

    pub(crate) fn text(&self, window: Window, property: xproto::Atom) -> String {
        let any = xproto::AtomEnum::ANY;
        let value = self
            .conn
            .get_property(false, window, property, any, 0, 1024)
            .expect("sent")
            .reply()
            .map(|reply| reply.value)
            .unwrap_or_default();
        String::from_utf8_lossy(&value).into_owned()
    }

    /// Position and size of a child window of the root.
    pub(crate) fn geometry(&self, window: Window) -> (i16, i16, u16, u16) {
        self.try_geometry(window).expect("the window is there")
    }

    /// Like [`XTest::geometry`], if the window exists.
    pub(crate) fn try_geometry(&self, window: Window) -> Option<(i16, i16, u16, u16)> {
        let is = self.conn.get_geometry(window).expect("sent").reply().ok()?;
        Some((is.x, is.y, is.width, is.height))
    }

    /// Whether a window is mapped.
    pub(crate) fn is_shown(&self, window: Window) -> bool {
        let is = self.conn.get_window_attributes(window).expect("sent");
        is.reply()
            .is_ok_and(|is| is.map_state == xproto::MapState::VIEWABLE)
    }

    /// Moves and resizes a window, as a window manager would.
    pub(crate) fn move_resize(&self, window: Window, (x, y, width, height): (i16, i16, u16, u16)) {
        let aux = xproto::ConfigureWindowAux::new()
            .x(i32::from(x))
            .y(i32::from(y))
            .width(u32::from(width))
            .height(u32::from(height));
        self.conn.configure_window(window, &aux).expect("sent");
        x11rb::wrapper::ConnectionExt::sync(&self.conn).expect("a running X server");
    }

    /// Gives a window the keyboard focus.
    pub(crate) fn focus(&self, window: Window) {
        let parent = xproto::InputFocus::PARENT;
        self.conn
            .set_input_focus(parent, window, x11rb::CURRENT_TIME)
            .expect("sent");
        x11rb::wrapper::ConnectionExt::sync(&self.conn).expect("a running X server");
    }

    /// Sets the display's key repeat.
    pub(crate) fn set_repeat(&self, on: bool) {
        let mode = match on {
            true => xproto::AutoRepeatMode::ON,
            false => xproto::AutoRepeatMode::OFF,
        };
        let aux = xproto::ChangeKeyboardControlAux::new().auto_repeat_mode(mode);
        self.conn.change_keyboard_control(&aux).expect("sent");
        x11rb::wrapper::ConnectionExt::sync(&self.conn).expect("a running X server");
    }

    /// Whether the keyboard is not grabbed.
    pub(crate) fn keyboard_is_free(&self) -> bool {
        let (now, mode) = (x11rb::CURRENT_TIME, xproto::GrabMode::ASYNC);
        let grabbed = self.conn.grab_keyboard(false, self.root, now, mode, mode);
        let grabbed = grabbed.expect("sent").reply().expect("a running X server");
        let free = grabbed.status == xproto::GrabStatus::SUCCESS;
        if free {
            self.conn.ungrab_keyboard(now).expect("sent");
        }
        x11rb::wrapper::ConnectionExt::sync(&self.conn).expect("a running X server");
        free
    }
}
