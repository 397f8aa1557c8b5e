//! The compositor's state, owned by its thread.

#[cfg(feature = "conformance")]
mod conformance;
pub(crate) mod cursor;
pub(crate) mod frames;
pub(crate) mod input;
pub(crate) mod keyboard;
pub(crate) mod move_grab;
mod protocols;
mod x11;

use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use openuvr_media::damage::{Block, Damage};
use openuvr_proto::units::Size;
use smithay::desktop::PopupManager;
use smithay::input::keyboard::KeyboardHandle;
use smithay::input::pointer::PointerHandle;
use smithay::input::{Seat, SeatState};
use smithay::output::{Mode, Output, PhysicalProperties, Scale, Subpixel};
use smithay::reexports::calloop::LoopHandle;
use smithay::reexports::wayland_server::backend::{ClientData, ClientId, DisconnectReason};
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::reexports::wayland_server::{Client, Display, DisplayHandle};
use smithay::utils::{Logical, Point, SERIAL_COUNTER, Size as Area};
use smithay::wayland::compositor::{CompositorClientState, with_states};

use crate::content::{self, Source};
use crate::error::DisplayError;
use crate::outside::Endpoints;
use crate::paint::{Canvas, Rows, Uniform, sys::with_pixels};
use crate::pictures::{PictureBuffer, Pictures};
use crate::scene::{self, Scene};
use crate::state::cursor::CursorState;
use crate::state::frames::Frames;
use crate::state::input::Buttons;
use crate::state::keyboard::Typist;
use crate::state::protocols::Globals;
use crate::state::protocols::shm::descriptor_limit;
pub(crate) use crate::state::x11::X11;
use crate::windows::Windows;
use crate::xwayland::X11Display;

/// The maximum number of surfaces whose pixels are copied because their buffers were released early. Any further
/// surface is black until its application draws it again.
const MAX_KEPT: usize = 8;

pub(crate) struct State {
    pub(crate) handle: DisplayHandle,
    pub(crate) globals: Globals,
    pub(crate) seats: SeatState<State>,
    pub(crate) seat: Seat<State>,
    pub(crate) keyboard: KeyboardHandle<State>,
    pub(crate) pointer: PointerHandle<State>,
    pub(crate) typist: Typist,
    pub(crate) buttons: Buttons,
    /// The newest absolute position of the player's pointer.
    pub(crate) absolute: Option<Point<f64, Logical>>,
    /// Whether the player has moved the pointer.
    pub(crate) has_moved: bool,
    /// The surface under the pointer, and the position of the surface's upper left corner.
    pub(crate) pointed: Option<(WlSurface, Point<f64, Logical>)>,
    /// The types of the data that an application has just copied.
    pub(crate) copied_types: Option<Vec<String>>,
    /// The types of copied data that does not come from an X11 application.
    pub(crate) copied_elsewhere: Vec<String>,
    pub(crate) output: Output,
    pub(crate) scale: f64,
    pub(crate) windows: Windows,
    pub(crate) popups: PopupManager,
    pub(crate) scene: Scene,
    pub(crate) cursor: CursorState,
    pub(crate) frames: Frames,
    pub(crate) pictures: Pictures,
    /// The changes since the newest picture.
    damage: Damage,
    /// Whether something may have changed since the scene was created.
    pub(crate) dirty: bool,
    /// Whether another surface, or another part of the same surface, may have come under the pointer.
    pub(crate) retarget: bool,
    /// Whether the scene has changed since the last picture was scheduled.
    pub(crate) changed: bool,
    pub(crate) ends: Endpoints,
    pub(crate) stopped: bool,
    /// Descriptors from applications must be below this number.
    pub(crate) descriptor_limit: RawFd,
    pub(crate) events: LoopHandle<'static, State>,
    pub(crate) x11_display: Option<X11Display>,
    pub(crate) x11_listening: x11::Listening,
    /// The X11 display's server, while it runs.
    pub(crate) x11: Option<X11>,
}

/// The state of each client in the compositor.
#[derive(Default)]
pub(crate) struct ClientState {
    pub(crate) compositor: CompositorClientState,
    surfaces: AtomicUsize,
    /// The number of the client's pools and buffers of shared memory.
    pub(crate) shm_objects: AtomicUsize,
    /// Whether the client is the X server.
    pub(crate) is_xwayland: bool,
    /// The number that a conformance suite has given to the client.
    #[cfg(feature = "conformance")]
    number: Option<i32>,
}

impl ClientState {
    /// The state of the client that is the X server.
    fn of_xwayland() -> ClientState {
        ClientState {
            is_xwayland: true,
            ..ClientState::default()
        }
    }

    /// The state of a client of a conformance suite, with the client's number.
    #[cfg(feature = "conformance")]
    fn numbered(number: i32) -> ClientState {
        ClientState {
            number: Some(number),
            ..ClientState::default()
        }
    }

    /// Counts a new surface of the client. Returns the number of the client's surfaces.
    pub(crate) fn add_surface(&self) -> usize {
        self.surfaces.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Subtracts a destroyed surface from the client's number of surfaces.
    pub(crate) fn remove_surface(&self) {
        self.surfaces.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ClientData for ClientState {
    fn disconnected(&self, _: ClientId, reason: DisconnectReason) {
        if let DisconnectReason::ProtocolError(error) = reason {
            tracing::warn!("an application was disconnected from its display: {error}");
        }
    }
}

impl State {
    /// Creates the protocol objects for a display of `size` pixels.
    ///
    /// # Errors
    /// Returns an error if the keyboard layout is unknown.
    pub(crate) fn new(
        display: &Display<State>,
        size: Size,
        fps: f64,
        scale: f64,
        ends: Endpoints,
        events: LoopHandle<'static, State>,
    ) -> Result<State, DisplayError> {
        let handle = display.handle();
        let globals = Globals::new(&handle);
        let mut seats = SeatState::new();
        let mut seat = seats.new_wl_seat(&handle, "seat0");
        let (typist, keyboard) = Typist::open(&mut seat)?;
        let pointer = seat.add_pointer();
        let output = Output::new(
            "OPENUVR-1".to_owned(),
            PhysicalProperties {
                size: (0, 0).into(),
                subpixel: Subpixel::Unknown,
                make: "OpenUVR".to_owned(),
                model: "Virtual display".to_owned(),
            },
        );
        output.create_global::<State>(&handle);
        let pictures = Pictures::new(ends.exchange.clone());
        let mut state = State {
            handle,
            globals,
            seats,
            seat,
            keyboard,
            pointer,
            typist,
            buttons: Buttons::new(),
            absolute: None,
            has_moved: false,
            pointed: None,
            copied_types: None,
            copied_elsewhere: Vec::new(),
            output,
            scale,
            windows: Windows::default(),
            popups: PopupManager::default(),
            scene: Scene::new(),
            cursor: CursorState::default(),
            frames: Frames::new(fps),
            pictures,
            damage: Damage::default(),
            dirty: true,
            retarget: false,
            changed: true,
            ends,
            stopped: false,
            descriptor_limit: descriptor_limit(),
            events,
            x11_display: None,
            x11_listening: x11::Listening::default(),
            x11: None,
        };
        state.resize(size);
        Ok(state)
    }

    /// Accepts a new client.
    pub(crate) fn accept(&mut self, stream: UnixStream) {
        if stream.as_raw_fd() >= self.descriptor_limit {
            return tracing::warn!(
                "an application can't connect to its display: too few descriptors are left"
            );
        }
        if let Err(why) = self.insert(stream, ClientState::default()) {
            tracing::warn!("an application can't connect to its display: {why}");
        }
    }

    fn insert(&mut self, stream: UnixStream, data: ClientState) -> std::io::Result<Client> {
        self.handle.insert_client(stream, Arc::new(data))
    }

    /// The display's size in units of windows.
    pub(crate) fn area(&self) -> Area<i32, Logical> {
        let size = self.pictures.size();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "sides of a display are below 2^15"
        )]
        let side = |pixels: u32| ((f64::from(pixels) / self.scale).round() as i32).max(1);
        Area::from((side(size.width), side(size.height)))
    }

    /// Changes the display's size.
    pub(crate) fn resize(&mut self, size: Size) {
        self.keep_pictures();
        self.pictures.resize(size);
        self.damage.clear(size);
        self.damage_all();
        self.set_mode();
        self.arrange();
        self.dirty = true;
    }

    /// Announces the display's size, refresh rate and scale to applications.
    pub(crate) fn set_mode(&mut self) {
        let size = self.pictures.size();
        let side = |pixels: u32| i32::try_from(pixels).unwrap_or(i32::MAX);
        let mode = Mode {
            size: (side(size.width), side(size.height)).into(),
            refresh: self.frames.millihertz(),
        };
        for old in self.output.modes() {
            if old != mode {
                self.output.delete_mode(old);
            }
        }
        let scale = Scale::Fractional(self.scale);
        self.output
            .change_current_state(Some(mode), None, Some(scale), None);
        self.output.set_preferred(mode);
    }

    /// Sets all windows' sizes and the keyboard focus.
    pub(crate) fn arrange(&mut self) {
        let focus = self.windows.active().cloned();
        self.windows.arrange(self.area(), focus.as_ref());
        self.place_x11();
        if !self.keyboard.is_grabbed() && self.keyboard.current_focus() != focus {
            let keyboard = self.keyboard.clone();
            keyboard.set_focus(self, focus.clone(), SERIAL_COUNTER.next_serial());
        }
        self.focus_x11(focus.as_ref());
        self.dirty = true;
    }

    fn damage_all(&mut self) {
        let size = self.pictures.size();
        let all = Block {
            columns: 0..size.width,
            rows: 0..size.height,
        };
        self.damage.add(size, Some(&all));
        self.changed = true;
    }

    /// Makes a new scene after changes.
    pub(crate) fn update_scene(&mut self) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let size = self.pictures.size();
        let whole = Block {
            columns: 0..size.width,
            rows: 0..size.height,
        };
        let next = scene::of(&self.windows, self.area(), self.scale);
        let mut changed = self.changed;
        if next != self.scene {
            self.keep_pictures();
            let same = |a: &_, b: &_| a == b;
            let begin = self.scene.iter().zip(&next);
            let begin = begin.take_while(|(a, b)| same(*a, *b)).count();
            let end = self.scene[begin..].iter().rev();
            let end = end.zip(next[begin..].iter().rev());
            let end = end.take_while(|(a, b)| same(*a, *b)).count();
            let before = &self.scene[begin..self.scene.len() - end];
            let after = &next[begin..next.len() - end];
            for element in before.iter().chain(after) {
                if let Some(block) = element.mapping.place.within(&whole) {
                    self.damage.add(size, Some(&block));
                    changed = true;
                }
            }
            self.enter_output(&next);
            self.scene = next;
            self.retarget = true;
        }
        for element in &self.scene {
            with_states(&element.surface.surface, |states| {
                for edges in content::of(states).borrow_mut().damage.drain(..) {
                    if let Some(block) = element.mapping.shown(edges).within(&whole) {
                        self.damage.add(size, Some(&block));
                        changed = true;
                    }
                }
            });
        }
        self.changed = changed;
    }

    /// Informs surfaces that are new in the scene about their output.
    fn enter_output(&self, next: &Scene) {
        for element in next {
            let surface = &element.surface.surface;
            let known = |scene: &Scene| scene.iter().any(|e| e.surface.surface == *surface);
            if !known(&self.scene) {
                self.output.enter(surface);
            }
        }
    }

    /// Copies pixels that only the newest picture contains, before another scene is drawn.
    fn keep_pictures(&mut self) {
        let kept = |element: &&crate::paint::Element<scene::ShownSurface>| {
            with_states(&element.surface.surface, |states| {
                matches!(content::of(states).borrow().source, Source::Kept(_))
            })
        };
        let full = self.scene.iter().filter(kept).count() >= MAX_KEPT;
        for element in &self.scene {
            with_states(&element.surface.surface, |states| {
                let mut content = content::of(states).borrow_mut();
                if matches!(content.source, Source::Picture) {
                    let newest = self.pictures.newest();
                    content.source = if full {
                        Source::Uniform(0xff00_0000)
                    } else {
                        Source::Kept(newest.data.clone())
                    };
                }
            });
        }
    }

    /// Draws the next picture. Returns `false` if no picture buffer was free.
    pub(crate) fn draw(&mut self) -> bool {
        let scene = &self.scene;
        let drawn = self.pictures.draw(&self.damage, |picture, block| {
            draw_block(scene, picture, block);
        });
        if drawn {
            self.damage.clear(self.pictures.size());
            self.release_covering();
        }
        drawn
    }

    /// Releases the buffer of a surface whose pixels are the whole picture.
    fn release_covering(&mut self) {
        let size = self.pictures.size();
        let whole = Block {
            columns: 0..size.width,
            rows: 0..size.height,
        };
        let Some(top) = self.scene.last() else {
            return;
        };
        if !top.opaque || !top.mapping.place.covers(&whole) || top.mapping.offset() != Some((0, 0))
        {
            return;
        }
        with_states(&top.surface.surface, |states| {
            let mut content = content::of(states).borrow_mut();
            if matches!(content.source, Source::Client(_))
                && content.size == (size.width, size.height)
            {
                content.replace(Source::Picture);
            }
        });
    }
}

fn draw_block(scene: &Scene, picture: &mut PictureBuffer, block: &Block) {
    let mut canvas = Canvas {
        width: picture.size.width,
        data: &mut picture.data,
    };
    let hides =
        |element: &crate::paint::Element<_>| element.opaque && element.mapping.place.covers(block);
    let first = scene.iter().rposition(hides);
    if first.is_none() {
        canvas.clear(block);
    }
    for element in &scene[first.unwrap_or(0)..] {
        let mapping = &element.mapping;
        let opaque = element.opaque;
        with_states(&element.surface.surface, |states| {
            let content = content::of(states).borrow();
            match &content.source {
                Source::Client(buffer) => {
                    let drawn =
                        with_pixels(buffer, |pixels| canvas.draw(pixels, mapping, opaque, block));
                    if let Err(why) = drawn {
                        tracing::warn!("an application's picture can't be read: {why}");
                    }
                }
                Source::Kept(data) => {
                    let rows = Rows {
                        size: content.size,
                        data,
                    };
                    canvas.draw(&rows, mapping, opaque, block);
                }
                Source::Uniform(colour) => {
                    canvas.draw(&Uniform(*colour), mapping, opaque, block);
                }
                // The picture already contains the pixels of a `Source::Picture`.
                Source::Picture | Source::Empty => {}
            }
        });
    }
}
