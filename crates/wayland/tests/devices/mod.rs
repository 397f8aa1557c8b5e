//! A virtual keyboard and a virtual pointer, created as other programs create them.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use openuvr_proto::units::Size;
use wayland_client::globals::{GlobalListContents, registry_queue_init};
use wayland_client::protocol::wl_keyboard::KeymapFormat;
use wayland_client::protocol::wl_pointer::{Axis, AxisSource, ButtonState};
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::protocol::wl_seat::WlSeat;
use wayland_client::{Connection, Dispatch, EventQueue, QueueHandle, delegate_noop};
use wayland_protocols_misc::zwp_virtual_keyboard_v1::client::zwp_virtual_keyboard_manager_v1::ZwpVirtualKeyboardManagerV1;
use wayland_protocols_misc::zwp_virtual_keyboard_v1::client::zwp_virtual_keyboard_v1::ZwpVirtualKeyboardV1;
use wayland_protocols_wlr::virtual_pointer::v1::client::zwlr_virtual_pointer_manager_v1::ZwlrVirtualPointerManagerV1;
use wayland_protocols_wlr::virtual_pointer::v1::client::zwlr_virtual_pointer_v1::ZwlrVirtualPointerV1;

pub(crate) struct Devices {
    queue: EventQueue<Nothing>,
    keyboard: ZwpVirtualKeyboardV1,
    pointer: ZwlrVirtualPointerV1,
    time: u32,
}

struct Nothing;

impl Devices {
    pub(crate) fn connect(socket: &Path) -> Devices {
        let stream = UnixStream::connect(socket).unwrap();
        let conn = Connection::from_socket(stream).unwrap();
        let (globals, queue) = registry_queue_init::<Nothing>(&conn).unwrap();
        let handle = queue.handle();
        let seat: WlSeat = globals.bind(&handle, 1..=1, ()).unwrap();
        let keyboards: ZwpVirtualKeyboardManagerV1 = globals.bind(&handle, 1..=1, ()).unwrap();
        let pointers: ZwlrVirtualPointerManagerV1 = globals.bind(&handle, 1..=2, ()).unwrap();
        let mut devices = Devices {
            keyboard: keyboards.create_virtual_keyboard(&seat, &handle, ()),
            pointer: pointers.create_virtual_pointer(Some(&seat), &handle, ()),
            queue,
            time: 0,
        };
        devices.layout("us");
        devices
    }

    /// Waits until the compositor has handled the previous events. Returns the time for the next event.
    fn sync(&mut self) -> u32 {
        self.queue.roundtrip(&mut Nothing).unwrap();
        self.time += 1;
        self.time
    }

    /// Sets the keyboard's layout, such as `de`.
    pub(crate) fn layout(&mut self, layout: &str) {
        let text = format!(
            "xkb_keymap {{ xkb_keycodes {{ include \"evdev+aliases(qwerty)\" }}; \
             xkb_types {{ include \"complete\" }}; xkb_compat {{ include \"complete\" }}; \
             xkb_symbols {{ include \"pc+{layout}+inet(evdev)\" }}; }};\0"
        );
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let size = u32::try_from(text.len()).unwrap();
        let format = KeymapFormat::XkbV1.into();
        self.keyboard.keymap(format, file.as_fd(), size);
        self.sync();
    }

    /// Presses or releases a key, by its evdev code.
    pub(crate) fn key(&mut self, code: u32, pressed: bool) {
        let time = self.sync();
        self.keyboard.key(time, code, pressed.into());
        self.sync();
    }

    /// Sets the held modifiers, as bits of core X.
    pub(crate) fn modifiers(&mut self, held: u32) {
        self.keyboard.modifiers(held, 0, 0, 0);
        self.sync();
    }

    pub(crate) fn move_to(&mut self, (x, y): (u32, u32), screen: Size) {
        let time = self.sync();
        self.pointer
            .motion_absolute(time, x, y, screen.width, screen.height);
        self.pointer.frame();
        self.sync();
    }

    pub(crate) fn move_by(&mut self, dx: f64, dy: f64) {
        let time = self.sync();
        self.pointer.motion(time, dx, dy);
        self.pointer.frame();
        self.sync();
    }

    pub(crate) fn button(&mut self, button: u32, pressed: bool) {
        let time = self.sync();
        let state = match pressed {
            true => ButtonState::Pressed,
            false => ButtonState::Released,
        };
        self.pointer.button(time, button, state);
        self.pointer.frame();
        self.sync();
    }

    /// Turns the wheel down by this number of notches.
    pub(crate) fn wheel(&mut self, notches: i32) {
        let time = self.sync();
        let axis = Axis::VerticalScroll;
        self.pointer.axis_source(AxisSource::Wheel);
        let value = 15.0 * f64::from(notches);
        self.pointer.axis_discrete(time, axis, value, notches);
        self.pointer.frame();
        self.sync();
    }
}

impl Dispatch<WlRegistry, GlobalListContents> for Nothing {
    fn event(
        _: &mut Nothing,
        _: &WlRegistry,
        _: wl_registry::Event,
        _: &GlobalListContents,
        _: &Connection,
        _: &QueueHandle<Nothing>,
    ) {
    }
}

delegate_noop!(Nothing: ignore WlSeat);
delegate_noop!(Nothing: ZwpVirtualKeyboardManagerV1);
delegate_noop!(Nothing: ZwpVirtualKeyboardV1);
delegate_noop!(Nothing: ZwlrVirtualPointerManagerV1);
delegate_noop!(Nothing: ZwlrVirtualPointerV1);
