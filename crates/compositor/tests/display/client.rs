//! A small Wayland client whose windows have known pixels.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use openuvr_proto::units::Size;
use smithay::input::keyboard::{Keycode, xkb};
use wayland_client::globals::{GlobalList, GlobalListContents, registry_queue_init};
use wayland_client::protocol::{
    wl_buffer, wl_callback, wl_compositor, wl_data_device, wl_data_device_manager, wl_data_offer,
    wl_data_source, wl_keyboard, wl_output, wl_pointer, wl_region, wl_registry, wl_seat, wl_shm,
    wl_shm_pool, wl_subcompositor, wl_subsurface, wl_surface,
};
use wayland_client::{
    Connection, Dispatch, EventQueue, Proxy as _, QueueHandle, WEnum, delegate_noop,
    event_created_child,
};
use wayland_protocols::wp::pointer_constraints::zv1::client::{
    zwp_confined_pointer_v1, zwp_locked_pointer_v1, zwp_pointer_constraints_v1,
};
use wayland_protocols::wp::presentation_time::client::{wp_presentation, wp_presentation_feedback};
use wayland_protocols::wp::relative_pointer::zv1::client::{
    zwp_relative_pointer_manager_v1, zwp_relative_pointer_v1,
};
use wayland_protocols::xdg::shell::client::{
    xdg_popup, xdg_positioner, xdg_surface, xdg_toplevel, xdg_wm_base,
};

/// The events that the client has received.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) frames_done: usize,
    pub(crate) released: usize,
    pub(crate) presented: usize,
    /// The newest requested size of each toplevel.
    pub(crate) sizes: HashMap<wayland_client::backend::ObjectId, (i32, i32)>,
    pub(crate) states: HashMap<wayland_client::backend::ObjectId, Vec<u32>>,
    pub(crate) configured: usize,
    pub(crate) modes: Vec<(i32, i32, i32)>,
    /// The typed characters, according to the newest keymap.
    pub(crate) typed: String,
    /// Pressed and released keys (evdev).
    pub(crate) keys: Vec<(u32, bool)>,
    pub(crate) moved: Option<(f64, f64)>,
    pub(crate) relative: (f64, f64),
    pub(crate) buttons: Vec<(u32, bool)>,
    pub(crate) wheel: Vec<i32>,
    pub(crate) locked: bool,
    pub(crate) confined: bool,
    pub(crate) popup_done: usize,
    pub(crate) serial: u32,
    /// Types of the newest clipboard offer, and the offer.
    pub(crate) offered: Vec<String>,
    pub(crate) offer: Option<wl_data_offer::WlDataOffer>,
    /// The text of this client's own selection.
    pub(crate) own_text: String,
    keyboard: Option<xkb::State>,
}

/// A connected client.
pub(crate) struct Client {
    pub(crate) conn: Connection,
    pub(crate) globals: GlobalList,
    pub(crate) queue: EventQueue<Events>,
    pub(crate) events: Events,
    pub(crate) compositor: wl_compositor::WlCompositor,
    pub(crate) shm: wl_shm::WlShm,
    pub(crate) shell: xdg_wm_base::XdgWmBase,
    pub(crate) seat: wl_seat::WlSeat,
    pub(crate) pointer: wl_pointer::WlPointer,
}

/// A surface with a role.
pub(crate) struct Window {
    pub(crate) surface: wl_surface::WlSurface,
    pub(crate) xdg: xdg_surface::XdgSurface,
    pub(crate) toplevel: xdg_toplevel::XdgToplevel,
}

/// Pixels in shared memory.
pub(crate) struct Picture {
    pub(crate) file: File,
    pub(crate) buffer: wl_buffer::WlBuffer,
    pub(crate) size: Size,
}

impl Picture {
    pub(crate) fn write(&self, pixels: &[u8]) {
        self.file.write_all_at(pixels, 0).unwrap();
    }

    /// Writes one colour.
    pub(crate) fn fill(&self, colour: u32) {
        self.write(&colour.to_le_bytes().repeat(self.size.pixels()));
    }
}

pub(crate) fn memory(length: usize) -> File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = File::from(rustix::fs::memfd_create("test", flags).unwrap());
    file.set_len(length as u64).unwrap();
    file
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        let conn = Connection::from_socket(stream).unwrap();
        let (globals, queue) = registry_queue_init::<Events>(&conn).unwrap();
        let qh = queue.handle();
        let compositor = globals.bind(&qh, 1..=6, ()).unwrap();
        let shm = globals.bind(&qh, 1..=1, ()).unwrap();
        let shell = globals.bind(&qh, 1..=6, ()).unwrap();
        let seat: wl_seat::WlSeat = globals.bind(&qh, 8..=9, ()).unwrap();
        let _: wl_output::WlOutput = globals.bind(&qh, 1..=4, ()).unwrap();
        let pointer = seat.get_pointer(&qh, ());
        seat.get_keyboard(&qh, ());
        let mut client = Client {
            conn,
            globals,
            queue,
            events: Events::default(),
            compositor,
            shm,
            shell,
            seat,
            pointer,
        };
        client.sync();
        client
    }

    pub(crate) fn qh(&self) -> QueueHandle<Events> {
        self.queue.handle()
    }

    /// Waits until the display has answered all requests.
    pub(crate) fn sync(&mut self) {
        self.queue.roundtrip(&mut self.events).unwrap();
    }

    /// Handles events until a condition holds.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Events) -> bool) {
        let began = std::time::Instant::now();
        while !holds(&self.events) {
            assert!(
                began.elapsed().as_secs() < 20,
                "never: {what}; buttons {:?}, dismissed {}",
                self.events.buttons,
                self.events.popup_done
            );
            self.sync();
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// A toplevel window that has been configured, without a picture.
    pub(crate) fn window(&mut self) -> Window {
        let qh = self.qh();
        let surface = self.compositor.create_surface(&qh, ());
        let xdg = self.shell.get_xdg_surface(&surface, &qh, ());
        let toplevel = xdg.get_toplevel(&qh, ());
        surface.commit();
        self.sync();
        Window {
            surface,
            xdg,
            toplevel,
        }
    }

    pub(crate) fn size_of(&self, window: &Window) -> (i32, i32) {
        self.events.sizes[&window.toplevel.id()]
    }

    pub(crate) fn picture(&self, size: Size) -> Picture {
        self.picture_of(size, wl_shm::Format::Xrgb8888)
    }

    pub(crate) fn picture_of(&self, size: Size, format: wl_shm::Format) -> Picture {
        let qh = self.qh();
        let file = memory(size.pixels() * 4);
        let side = |side: u32| i32::try_from(side).unwrap();
        let (width, height) = (side(size.width), side(size.height));
        let pool = self
            .shm
            .create_pool(file.as_fd(), width * height * 4, &qh, ());
        let buffer = pool.create_buffer(0, width, height, width * 4, format, &qh, ());
        pool.destroy();
        Picture { file, buffer, size }
    }

    pub(crate) fn show(&mut self, surface: &wl_surface::WlSurface, picture: &Picture) {
        surface.attach(Some(&picture.buffer), 0, 0);
        surface.damage_buffer(0, 0, i32::MAX, i32::MAX);
        surface.commit();
        self.conn.flush().unwrap();
    }

    /// A window that shows one colour in its configured size, or in `size`.
    pub(crate) fn coloured(&mut self, size: Option<Size>, colour: u32) -> Window {
        let window = self.window();
        let (width, height) = self.size_of(&window);
        let given = || Size::new(width.try_into().unwrap(), height.try_into().unwrap());
        let picture = self.picture(size.unwrap_or_else(given));
        picture.fill(colour);
        self.show(&window.surface, &picture);
        self.sync();
        window
    }
}

impl Dispatch<wl_registry::WlRegistry, GlobalListContents> for Events {
    fn event(
        _: &mut Self,
        _: &wl_registry::WlRegistry,
        _: wl_registry::Event,
        _: &GlobalListContents,
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
    }
}

/// Implements `Dispatch` with a closure.
macro_rules! dispatch {
    ($proxy:ty, |$events:ident, $object:ident, $event:ident| $body:expr) => {
        impl Dispatch<$proxy, ()> for Events {
            fn event(
                $events: &mut Self,
                $object: &$proxy,
                $event: <$proxy as wayland_client::Proxy>::Event,
                (): &(),
                _: &Connection,
                _: &QueueHandle<Self>,
            ) {
                $body
            }
        }
    };
}

dispatch!(wl_callback::WlCallback, |events, _o, _e| events
    .frames_done +=
    1);
dispatch!(wl_buffer::WlBuffer, |events, _o, _e| events.released += 1);
dispatch!(xdg_wm_base::XdgWmBase, |_events, shell, event| {
    if let xdg_wm_base::Event::Ping { serial } = event {
        shell.pong(serial);
    }
});
dispatch!(xdg_surface::XdgSurface, |events, surface, event| {
    if let xdg_surface::Event::Configure { serial } = event {
        surface.ack_configure(serial);
        events.configured += 1;
    }
});
dispatch!(xdg_toplevel::XdgToplevel, |events, toplevel, event| {
    if let xdg_toplevel::Event::Configure {
        width,
        height,
        states,
    } = event
    {
        events.sizes.insert(toplevel.id(), (width, height));
        let states = states.chunks_exact(4);
        let states = states.map(|s| u32::from_ne_bytes(s.try_into().unwrap()));
        events.states.insert(toplevel.id(), states.collect());
    }
});
dispatch!(xdg_popup::XdgPopup, |events, _popup, event| {
    if let xdg_popup::Event::PopupDone = event {
        events.popup_done += 1;
    }
});
dispatch!(wl_output::WlOutput, |events, _output, event| {
    if let wl_output::Event::Mode {
        width,
        height,
        refresh,
        ..
    } = event
    {
        events.modes.push((width, height, refresh));
    }
});
dispatch!(
    wl_keyboard::WlKeyboard,
    |events, _keyboard, event| match event {
        wl_keyboard::Event::Keymap { fd, size, .. } => {
            let mut file = File::from(fd);
            let mut text = vec![0; size as usize];
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_exact(&mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let context = xkb::Context::new(xkb::CONTEXT_NO_FLAGS);
            let keymap = xkb::Keymap::new_from_string(
                &context,
                text.trim_end_matches('\0').to_owned(),
                xkb::KEYMAP_FORMAT_TEXT_V1,
                xkb::KEYMAP_COMPILE_NO_FLAGS,
            );
            events.keyboard = Some(xkb::State::new(&keymap.expect("a keymap")));
        }
        wl_keyboard::Event::Modifiers {
            mods_depressed,
            mods_latched,
            mods_locked,
            group,
            ..
        } => {
            if let Some(keyboard) = &mut events.keyboard {
                keyboard.update_mask(mods_depressed, mods_latched, mods_locked, 0, 0, group);
            }
        }
        wl_keyboard::Event::Key {
            key, state, serial, ..
        } => {
            let pressed = state == WEnum::Value(wl_keyboard::KeyState::Pressed);
            events.keys.push((key, pressed));
            events.serial = serial;
            if let (true, Some(keyboard)) = (pressed, &events.keyboard) {
                let text = keyboard.key_get_utf8(Keycode::new(key + 8));
                events.typed.push_str(&text);
            }
        }
        _ => {}
    }
);
dispatch!(
    wl_pointer::WlPointer,
    |events, _pointer, event| match event {
        wl_pointer::Event::Enter {
            surface_x,
            surface_y,
            serial,
            ..
        } => {
            events.serial = serial;
            events.moved = Some((surface_x, surface_y));
        }
        wl_pointer::Event::Leave { .. } => events.moved = None,
        wl_pointer::Event::Motion {
            surface_x,
            surface_y,
            ..
        } => events.moved = Some((surface_x, surface_y)),
        wl_pointer::Event::Button {
            button,
            state,
            serial,
            ..
        } => {
            events.serial = serial;
            let pressed = state == WEnum::Value(wl_pointer::ButtonState::Pressed);
            events.buttons.push((button, pressed));
        }
        wl_pointer::Event::AxisValue120 { value120, .. } => events.wheel.push(value120),
        _ => {}
    }
);
dispatch!(
    zwp_relative_pointer_v1::ZwpRelativePointerV1,
    |events, _pointer, event| {
        if let zwp_relative_pointer_v1::Event::RelativeMotion { dx, dy, .. } = event {
            events.relative.0 += dx;
            events.relative.1 += dy;
        }
    }
);
dispatch!(
    zwp_locked_pointer_v1::ZwpLockedPointerV1,
    |events, _pointer, event| {
        events.locked = matches!(event, zwp_locked_pointer_v1::Event::Locked);
    }
);
dispatch!(
    zwp_confined_pointer_v1::ZwpConfinedPointerV1,
    |events, _pointer, event| {
        events.confined = matches!(event, zwp_confined_pointer_v1::Event::Confined);
    }
);
dispatch!(
    wp_presentation_feedback::WpPresentationFeedback,
    |events, _feedback, event| {
        if let wp_presentation_feedback::Event::Presented { .. } = event {
            events.presented += 1;
        }
    }
);
dispatch!(wl_data_source::WlDataSource, |events, _source, event| {
    if let wl_data_source::Event::Send { fd, .. } = event {
        write(fd, &events.own_text);
    }
});
dispatch!(wl_data_offer::WlDataOffer, |events, _offer, event| {
    if let wl_data_offer::Event::Offer { mime_type } = event {
        events.offered.push(mime_type);
    }
});

fn write(fd: OwnedFd, text: &str) {
    std::io::Write::write_all(&mut File::from(fd), text.as_bytes()).unwrap();
}

impl Dispatch<wl_data_device::WlDataDevice, ()> for Events {
    fn event(
        events: &mut Self,
        _: &wl_data_device::WlDataDevice,
        event: wl_data_device::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        match event {
            wl_data_device::Event::DataOffer { .. } => events.offered.clear(),
            wl_data_device::Event::Selection { id } => events.offer = id,
            _ => {}
        }
    }

    event_created_child!(Events, wl_data_device::WlDataDevice, [
        wl_data_device::EVT_DATA_OFFER_OPCODE => (wl_data_offer::WlDataOffer, ()),
    ]);
}

delegate_noop!(Events: ignore wl_compositor::WlCompositor);
delegate_noop!(Events: ignore wl_subcompositor::WlSubcompositor);
delegate_noop!(Events: ignore wl_subsurface::WlSubsurface);
delegate_noop!(Events: ignore wl_surface::WlSurface);
delegate_noop!(Events: ignore wl_region::WlRegion);
delegate_noop!(Events: ignore wl_shm::WlShm);
delegate_noop!(Events: ignore wl_shm_pool::WlShmPool);
delegate_noop!(Events: ignore wl_seat::WlSeat);
delegate_noop!(Events: ignore wl_data_device_manager::WlDataDeviceManager);
delegate_noop!(Events: ignore xdg_positioner::XdgPositioner);
delegate_noop!(Events: ignore wp_presentation::WpPresentation);
delegate_noop!(Events: ignore zwp_pointer_constraints_v1::ZwpPointerConstraintsV1);
delegate_noop!(Events: ignore zwp_relative_pointer_manager_v1::ZwpRelativePointerManagerV1);
