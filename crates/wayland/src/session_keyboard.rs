//! The keyboard of a Wayland session, for a program that injects keys by other means than Wayland.

use std::os::fd::OwnedFd;

use wayland_client::globals::{GlobalListContents, registry_queue_init};
use wayland_client::protocol::wl_keyboard::{self, WlKeyboard};
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::protocol::wl_seat::{self, Capability, WlSeat};
use wayland_client::{Connection, Dispatch, QueueHandle, WEnum};

use openuvr_media::keyboard::XkbKeyboard;

use crate::{display as wayland_display, xkbcommon};

/// The environment variable with the layout of a session without a keyboard. Compositors use it in the same way.
/// Without it, the layout is `us`.
const LAYOUT: &str = "XKB_DEFAULT_LAYOUT";

/// The keyboard of `display`. `None` selects the display in the environment variable `WAYLAND_DISPLAY`. If the session
/// has no keyboard, returns the default keyboard.
///
/// # Errors
/// Returns a one-line error if the display cannot be reached or libxkbcommon is missing.
pub fn keyboard(display: Option<&str>) -> Result<XkbKeyboard, String> {
    let conn = wayland_display::connect(display)?;
    let failed =
        |cause: &dyn std::fmt::Display| format!("can't read the session's keyboard: {cause}");
    let (globals, mut queue) = registry_queue_init::<State>(&conn).map_err(|e| failed(&e))?;
    let handle = queue.handle();
    let mut state = State::default();
    let seat: WlSeat = globals.bind(&handle, 1..=5, ()).map_err(|e| failed(&e))?;
    queue.roundtrip(&mut state).map_err(|e| failed(&e))?;
    if state.has_keyboard {
        // The compositor sends the map even without the focus.
        let _keyboard = seat.get_keyboard(&handle, ());
        queue.roundtrip(&mut state).map_err(|e| failed(&e))?;
    }
    match state.keymap {
        Some((file, size)) => xkbcommon::compile(&xkbcommon::read_text(file, size)?),
        None => xkbcommon::compile(default_map().as_bytes()),
    }
}

/// The keyboard of a layout, such as `de`, from the files of xkb-data.
///
/// # Errors
/// Returns a one-line error if there is no such layout or libxkbcommon is missing.
pub fn layout(name: &str) -> Result<XkbKeyboard, String> {
    xkbcommon::compile(map_of(name).as_bytes())
}

/// The keyboard for these names of rules, model, layouts, variants and options (xkeyboard-config(7)). It is for a
/// program without a session. For each `None`, libxkbcommon has a default.
///
/// # Errors
/// Returns a one-line error if there is no such layout or libxkbcommon is missing.
pub fn named(names: [Option<&str>; 5]) -> Result<XkbKeyboard, String> {
    xkbcommon::compile_names(names)
}

/// The text of the key map for a session without a keyboard.
pub(crate) fn default_map() -> String {
    let named = std::env::var(LAYOUT).ok();
    let plain = |name: &String| {
        !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"()_-".contains(&b))
    };
    // If there are several layouts, the first one is used.
    let first = named.and_then(|named| named.split(',').next().map(str::to_owned));
    map_of(&first.filter(plain).unwrap_or_else(|| "us".to_owned()))
}

fn map_of(layout: &str) -> String {
    format!(
        "xkb_keymap {{\nxkb_keycodes {{ include \"evdev+aliases(qwerty)\" }};\n\
         xkb_types {{ include \"complete\" }};\nxkb_compat {{ include \"complete\" }};\n\
         xkb_symbols {{ include \"pc+{layout}+inet(evdev)\" }};\n}};\n"
    )
}

/// The compositor's announcements.
#[derive(Default)]
struct State {
    has_keyboard: bool,
    keymap: Option<(OwnedFd, u32)>,
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
            state.keymap = Some((fd, size));
        }
    }
}
