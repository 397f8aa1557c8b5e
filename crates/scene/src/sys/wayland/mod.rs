//! The window on a Wayland display: xdg-shell, with OpenGL through EGL.

mod egl;
mod libwayland;

use std::ffi::{CStr, c_void};

use anyhow::{Context as _, Result, ensure};
use openuvr_proto::units::Size;
use wayland_client::Proxy as _;
use wayland_client::backend::protocol::Interface;
use wayland_client::protocol::wl_compositor::WlCompositor;
use wayland_client::protocol::wl_keyboard::WlKeyboard;
use wayland_client::protocol::wl_pointer::WlPointer;
use wayland_client::protocol::wl_registry::WlRegistry;
use wayland_client::protocol::wl_seat::WlSeat;
use wayland_client::protocol::wl_surface::WlSurface;
use wayland_protocols::xdg::shell::client::xdg_surface::XdgSurface;
use wayland_protocols::xdg::shell::client::xdg_toplevel::XdgToplevel;
use wayland_protocols::xdg::shell::client::xdg_wm_base::XdgWmBase;

use super::event::{Direction, Event};
use egl::Egl;
use libwayland::{Argument, Connection, Message, Object};

/// Maximum versions of the interfaces in use. A compositor may have older versions.
const COMPOSITOR: u32 = 4;
const SHELL: u32 = 1;
const SEAT: u32 = 5;

/// `capability` of wl_seat, and the pressed state of its keys and buttons (wayland.xml).
const POINTER: u32 = 1;
const KEYBOARD: u32 = 2;
const PRESSED: u32 = 1;
/// The first version in which the devices of a seat have the request `release`.
const RELEASE_SINCE: u32 = 3;

/// A window with a current OpenGL context. It belongs to the thread that opened it.
pub(crate) struct WaylandWindow {
    /// Dropped before the connection.
    egl: Egl,
    shell: Shell,
}

/// The window's protocol objects, and their state as sent by the compositor.
struct Shell {
    connection: Connection,
    base: Object,
    surface: Object,
    shell_surface: Object,
    toplevel: Object,
    seat: Option<Object>,
    pointer: Option<Object>,
    keyboard: Option<Object>,
    size: Size,
    /// The size that takes effect with the next configuration.
    next_size: Size,
    configured: bool,
    /// Held movement keys. They are released when the window loses the focus, because another window may get their
    /// release.
    walking: Vec<Direction>,
}

impl WaylandWindow {
    /// Opens a window on a display, by its name or the path of its socket. The compositor may choose a different size.
    ///
    /// # Errors
    /// Returns an error if there is no such display, it lacks an interface or OpenGL, or a library is missing.
    pub(crate) fn open(name: &str, size: Size, full_screen: bool) -> Result<WaylandWindow> {
        let mut shell = Shell::open(name, size)?;
        if full_screen {
            let anywhere = [Argument::Null];
            (shell.connection).request(shell.toplevel, "set_fullscreen", &anywhere)?;
        }
        // This commit without a picture requests the first configuration.
        shell.connection.request(shell.surface, "commit", &[])?;
        let mut events = Vec::new();
        // The second round trip is for a compositor that configures in its next iteration.
        for _ in 0..2 {
            shell.connection.roundtrip()?;
            shell.take(&mut events)?;
        }
        ensure!(
            shell.configured,
            "the Wayland display {name} does not show the window: its compositor has not configured the window"
        );
        let egl = Egl::open(shell.connection.display()?, shell.surface, shell.size)?;
        Ok(WaylandWindow { egl, shell })
    }

    /// The window's size in pixels.
    pub(crate) fn size(&self) -> Size {
        self.shell.size
    }

    /// The events since the last call, without waiting.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let before = self.shell.size;
        let received = self.shell.connection.receive();
        if let Err(why) = received.and_then(|()| self.shell.take(&mut events)) {
            eprintln!("scene: {why:#}");
            events.push(Event::Close);
        }
        if self.shell.size != before {
            self.egl.resize(self.shell.size);
        }
        events
    }

    /// Passes the drawn picture to the compositor. With swap interval 0, it waits only if the compositor still holds
    /// all of the surface's buffers.
    pub(crate) fn swap(&self) {
        self.egl.swap();
    }

    /// An OpenGL function of the context, or null.
    pub(crate) fn gl_function(&self, name: &CStr) -> *const c_void {
        self.egl.function(name)
    }
}

/// The globals of a display.
struct Globals {
    registry: Object,
    announced: Vec<Message>,
}

impl Globals {
    fn of(connection: &mut Connection) -> Result<Globals> {
        let (display, new) = (connection.display()?, [Argument::New]);
        let interface = WlRegistry::interface();
        let registry = connection.create(display, "get_registry", &new, interface, None)?;
        connection.roundtrip()?;
        let mut announced = connection.messages();
        announced.retain(|message| message.name == "global");
        Ok(Globals {
            registry,
            announced,
        })
    }

    /// Binds a global of this interface, with at most this version. Returns `None` if the display has no such global.
    fn bind(
        &self,
        connection: &mut Connection,
        interface: &'static Interface,
        version: u32,
    ) -> Result<Option<Object>> {
        let is_it = |text: &CStr| text.to_bytes() == interface.name.as_bytes();
        let mut globals = self.announced.iter().filter_map(|message| {
            let text = message.text.as_deref().filter(|text| is_it(text))?;
            Some((message.numbers[0], text, message.numbers[2]))
        });
        let Some((global, text, newest)) = globals.next() else {
            return Ok(None);
        };
        let version = newest.min(version);
        let arguments = [
            Argument::Number(global),
            Argument::Text(text),
            Argument::Number(version),
            Argument::New,
        ];
        let (registry, version) = (self.registry, Some(version));
        let object = connection.create(registry, "bind", &arguments, interface, version)?;
        Ok(Some(object))
    }
}

impl Shell {
    fn open(name: &str, size: Size) -> Result<Shell> {
        let mut connection = Connection::open(name)?;
        let globals = Globals::of(&mut connection)?;
        let lacks = |what: &str| format!("the Wayland display {name} lacks {what}");
        let compositor = globals.bind(&mut connection, WlCompositor::interface(), COMPOSITOR)?;
        let compositor = compositor.with_context(|| lacks("wl_compositor"))?;
        let base = globals.bind(&mut connection, XdgWmBase::interface(), SHELL)?;
        let base =
            base.with_context(|| lacks("xdg_wm_base, without which it cannot show windows"))?;
        let seat = globals.bind(&mut connection, WlSeat::interface(), SEAT)?;
        let new = [Argument::New];
        let interface = WlSurface::interface();
        let surface = connection.create(compositor, "create_surface", &new, interface, None)?;
        let of_surface = [Argument::New, Argument::Object(surface)];
        let interface = XdgSurface::interface();
        let shell_surface =
            connection.create(base, "get_xdg_surface", &of_surface, interface, None)?;
        let interface = XdgToplevel::interface();
        let toplevel = connection.create(shell_surface, "get_toplevel", &new, interface, None)?;
        let title = [Argument::Text(c"OpenUVR scene")];
        connection.request(toplevel, "set_title", &title)?;
        connection.request(toplevel, "set_app_id", &[Argument::Text(c"openuvr-scene")])?;
        Ok(Shell {
            connection,
            base,
            surface,
            shell_surface,
            toplevel,
            seat,
            pointer: None,
            keyboard: None,
            size,
            next_size: size,
            configured: false,
            walking: Vec::new(),
        })
    }

    /// Handles the received events.
    fn take(&mut self, events: &mut Vec<Event>) -> Result<()> {
        for message in self.connection.messages() {
            self.handle(&message, events)?;
        }
        Ok(())
    }

    fn handle(&mut self, message: &Message, events: &mut Vec<Event>) -> Result<()> {
        let numbers = &message.numbers;
        let serial = [Argument::Number(numbers[0])];
        match message.name.as_str() {
            "ping" if message.is_of(Some(self.base)) => {
                self.connection.request(self.base, "pong", &serial)?;
            }
            "configure" if message.is_of(Some(self.toplevel)) => {
                // A side of 0 lets the window choose.
                let side = |given: u32, own: u32| if given == 0 { own } else { given };
                self.next_size = Size::new(
                    side(numbers[0], self.size.width),
                    side(numbers[1], self.size.height),
                );
            }
            "close" if message.is_of(Some(self.toplevel)) => events.push(Event::Close),
            "configure" if message.is_of(Some(self.shell_surface)) => {
                (self.connection).request(self.shell_surface, "ack_configure", &serial)?;
                self.configured = true;
                if self.next_size != self.size {
                    self.size = self.next_size;
                    events.push(Event::Resized(self.size));
                }
            }
            "capabilities" if message.is_of(self.seat) => self.take_devices(numbers[0])?,
            "enter" if message.is_of(self.pointer) => {
                events.push(self.look(numbers[2], numbers[3]))
            }
            "motion" if message.is_of(self.pointer) => {
                events.push(self.look(numbers[1], numbers[2]));
            }
            "button" if message.is_of(self.pointer) => {
                events.extend((numbers[3] == PRESSED).then_some(Event::Press));
            }
            "key" if message.is_of(self.keyboard) => {
                let down = numbers[3] == PRESSED;
                events.extend(down.then_some(Event::Press));
                if let Some(direction) = Direction::of_key(numbers[2]) {
                    self.walking.retain(|held| *held != direction);
                    self.walking.extend(down.then_some(direction));
                    events.push(Event::Walk(direction, down));
                }
            }
            "leave" if message.is_of(self.keyboard) => {
                let released = self.walking.drain(..);
                events.extend(released.map(|direction| Event::Walk(direction, false)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Binds the keyboard and the pointer while they exist, because they appear and disappear with their devices.
    fn take_devices(&mut self, capabilities: u32) -> Result<()> {
        let Some(seat) = self.seat else {
            return Ok(());
        };
        for (capability, request, interface, device) in [
            (
                POINTER,
                "get_pointer",
                WlPointer::interface(),
                &mut self.pointer,
            ),
            (
                KEYBOARD,
                "get_keyboard",
                WlKeyboard::interface(),
                &mut self.keyboard,
            ),
        ] {
            let exists = capabilities & capability != 0;
            if let Some(gone) = device.take_if(|_| !exists) {
                self.connection.destroy(gone, "release", RELEASE_SINCE)?;
            }
            if exists && device.is_none() {
                let new = [Argument::New];
                let made = self
                    .connection
                    .create(seat, request, &new, interface, None)?;
                *device = Some(made);
            }
        }
        Ok(())
    }

    /// The event for a pointer at this position, which is in 256ths of a pixel.
    fn look(&self, x: u32, y: u32) -> Event {
        let part = |place: u32, all: u32| place.cast_signed() as f32 / 256.0 / all.max(1) as f32;
        Event::Look(part(x, self.size.width), part(y, self.size.height))
    }
}
