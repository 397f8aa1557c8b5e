//! The virtual keyboard and pointer, and the connection that owns them.

use wayland_client::backend::WaylandError;
use wayland_client::globals::{GlobalListContents, registry_queue_init};
use wayland_client::protocol::wl_keyboard::{self, WlKeyboard};
use wayland_client::protocol::wl_output::{self, WlOutput};
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::protocol::wl_seat::{self, Capability, WlSeat};
use wayland_client::{
    Connection, Dispatch, EventQueue, Proxy as _, QueueHandle, WEnum, delegate_noop,
};
use wayland_protocols_misc::zwp_virtual_keyboard_v1::client::zwp_virtual_keyboard_manager_v1::ZwpVirtualKeyboardManagerV1;
use wayland_protocols_misc::zwp_virtual_keyboard_v1::client::zwp_virtual_keyboard_v1::ZwpVirtualKeyboardV1;
use wayland_protocols_wlr::virtual_pointer::v1::client::zwlr_virtual_pointer_manager_v1::ZwlrVirtualPointerManagerV1;
use wayland_protocols_wlr::virtual_pointer::v1::client::zwlr_virtual_pointer_v1::ZwlrVirtualPointerV1;

use crate::display;
use crate::xkbcommon;
use openuvr_media::input_sink::InputError;

/// The devices.
pub(super) struct VirtualSeat {
    conn: Connection,
    queue: EventQueue<State>,
    state: State,
    /// The name for messages, such as `Wayland display wayland-1`.
    name: String,
    pub(super) keyboard: ZwpVirtualKeyboardV1,
    pub(super) pointer: ZwlrVirtualPointerV1,
}

/// The compositor's announcements.
#[derive(Default)]
struct State {
    outputs: Vec<(WlOutput, String)>,
    has_keyboard: bool,
    keymap: Option<Vec<u8>>,
}

impl VirtualSeat {
    /// Connects to the display. Also returns the text of the session's key map; `None` if the session has no keyboard,
    /// or if its map cannot be read.
    pub(super) fn open(
        display: Option<&str>,
        output: Option<&str>,
    ) -> Result<(VirtualSeat, Option<Vec<u8>>), InputError> {
        let conn = display::connect(display).map_err(InputError)?;
        let name = format!("Wayland display {}", display::name_or_default(display));
        let failed = |cause: &dyn std::fmt::Display| gone(&name, cause);
        let (list, mut queue) = registry_queue_init::<State>(&conn).map_err(|e| failed(&e))?;
        let handle = queue.handle();
        let lacks = |what: &str| {
            InputError(format!(
                "{name}: its compositor lacks {what}, which programs need to inject input: stream without input \
                 (--input none), or use a compositor based on wlroots, such as sway"
            ))
        };
        let seat: WlSeat = list.bind(&handle, 1..=5, ()).map_err(|_| lacks("a seat"))?;
        let keyboards: ZwpVirtualKeyboardManagerV1 =
            (list.bind(&handle, 1..=1, ())).map_err(|_| lacks("virtual-keyboard"))?;
        let pointers: ZwlrVirtualPointerManagerV1 =
            (list.bind(&handle, 2..=2, ())).map_err(|_| lacks("wlr-virtual-pointer 2"))?;
        let mut state = State::default();
        list.contents().with_list(|globals| {
            for global in globals {
                if global.interface == WlOutput::interface().name && global.version >= 4 {
                    let proxy = list.registry().bind(global.name, 4, &handle, ());
                    state.outputs.push((proxy, String::new()));
                }
            }
        });
        queue.roundtrip(&mut state).map_err(|e| failed(&e))?;
        if state.has_keyboard {
            let keyboard = seat.get_keyboard(&handle, ());
            queue.roundtrip(&mut state).map_err(|e| failed(&e))?;
            // The session's keyboard is no longer needed: from now on, the virtual keyboard uses its own map, and this
            // connection needs no key events.
            if keyboard.version() >= 3 {
                keyboard.release();
            }
        }
        let named = state
            .outputs
            .iter()
            .find(|(_, name)| Some(name.as_str()) == output);
        let on = named.map(|(proxy, _)| proxy);
        let keyboard = keyboards.create_virtual_keyboard(&seat, &handle, ());
        let pointer = pointers.create_virtual_pointer_with_output(Some(&seat), on, &handle, ());
        let keymap = state.keymap.take();
        let seat = VirtualSeat {
            conn,
            queue,
            state,
            name,
            keyboard,
            pointer,
        };
        Ok((seat, keymap))
    }

    /// Processes the events that have arrived.
    pub(super) fn dispatch(&mut self) -> Result<(), InputError> {
        if let Some(guard) = self.queue.prepare_read() {
            match guard.read() {
                Ok(_) => {}
                Err(WaylandError::Io(e)) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(cause) => return Err(gone(&self.name, &cause)),
            }
        }
        let done = self.queue.dispatch_pending(&mut self.state);
        done.map(drop).map_err(|cause| gone(&self.name, &cause))
    }

    /// Sends the requests.
    pub(super) fn flush(&self) -> Result<(), InputError> {
        match self.conn.flush() {
            Ok(()) => Ok(()),
            Err(WaylandError::Io(e)) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Err(cause) => Err(gone(&self.name, &cause)),
        }
    }

    /// Waits until the compositor has processed all requests.
    pub(super) fn round_trip(&mut self) -> Result<(), InputError> {
        let done = self.queue.roundtrip(&mut self.state);
        done.map(drop).map_err(|cause| gone(&self.name, &cause))
    }

    /// The error with this cause.
    pub(super) fn failed(&self, why: &str) -> InputError {
        InputError(format!("{}: {why}", self.name))
    }
}

fn gone(name: &str, cause: &dyn std::fmt::Display) -> InputError {
    InputError(format!(
        "{name}: the connection failed: {cause}; check that its compositor is running"
    ))
}

impl Dispatch<WlRegistry, GlobalListContents> for State {
    fn event(
        _: &mut State,
        _: &WlRegistry,
        _: wl_registry::Event,
        _: &GlobalListContents,
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
    }
}

impl Dispatch<WlSeat, ()> for State {
    fn event(
        state: &mut State,
        _: &WlSeat,
        event: wl_seat::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let wl_seat::Event::Capabilities {
            capabilities: WEnum::Value(capabilities),
        } = event
        {
            state.has_keyboard = capabilities.contains(Capability::Keyboard);
        }
    }
}

impl Dispatch<WlKeyboard, ()> for State {
    fn event(
        state: &mut State,
        _: &WlKeyboard,
        event: wl_keyboard::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let wl_keyboard::Event::Keymap {
            format: WEnum::Value(wl_keyboard::KeymapFormat::XkbV1),
            fd,
            size,
        } = event
        {
            // If the map cannot be read, the map of a session without a keyboard is used.
            state.keymap = xkbcommon::read_text(fd, size).ok();
        }
    }
}

impl Dispatch<WlOutput, ()> for State {
    fn event(
        state: &mut State,
        proxy: &WlOutput,
        event: wl_output::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let wl_output::Event::Name { name } = event
            && let Some(output) = state.outputs.iter_mut().find(|(known, _)| known == proxy)
        {
            output.1 = name;
        }
    }
}

delegate_noop!(State: ZwpVirtualKeyboardManagerV1);
delegate_noop!(State: ZwpVirtualKeyboardV1);
delegate_noop!(State: ZwlrVirtualPointerManagerV1);
delegate_noop!(State: ZwlrVirtualPointerV1);
