//! The window itself: its role, its size, its scale, and full screen.

use openuvr_proto::units::Size;
use wayland_client::protocol::wl_surface::{self, WlSurface};
use wayland_client::{Connection, Dispatch, QueueHandle, delegate_noop};
use wayland_protocols::wp::fractional_scale::v1::client::wp_fractional_scale_v1::{
    self, WpFractionalScaleV1,
};
use wayland_protocols::wp::tearing_control::v1::client::wp_tearing_control_v1::PresentationHint;
use wayland_protocols::xdg::decoration::zv1::client::zxdg_toplevel_decoration_v1::{
    Mode, ZxdgToplevelDecorationV1,
};
use wayland_protocols::xdg::shell::client::xdg_surface::{self, XdgSurface};
use wayland_protocols::xdg::shell::client::xdg_toplevel::{self, XdgToplevel};

use super::State;
use super::globals::Globals;
use crate::window::image::Image;
use crate::window::{SCALE_ONE, SharedSurface};
use openuvr_media::input_source::SourceEvent;
use openuvr_media::window::WindowConfig;

/// The limits of a scale in 120ths (guess). They are needed because a hostile compositor may state any scale.
const SCALES: std::ops::RangeInclusive<u32> = 60..=1920;

/// Side of the black picture in pixels. The compositor scales this picture to the window with fixed-point steps. With
/// pixman's steps of 16 bits, a picture of a single pixel would miss the last rows of a large window.
const BACKGROUND: u16 = 256;

/// The part of the window's state that only the input source needs.
pub(super) struct Window {
    /// The black picture behind the picture, the text and the host's pointer.
    background: Option<Image>,
    pub(super) full_screen: bool,
    configured: bool,
    /// The configuration that is being received.
    next: Configuration,
    own_scale: bool,
    bounds: bool,
}

#[derive(Default)]
struct Configuration {
    /// The size in logical pixels; `None` if the program may choose it.
    size: Option<Size>,
    full_screen: bool,
    /// Whether the window is maximised or tiled.
    fixed: bool,
}

impl Window {
    /// Describes the window to the compositor, which then sends the first configuration.
    pub(super) fn new(
        globals: &Globals,
        stage: &SharedSurface,
        handle: &QueueHandle<State>,
        config: &WindowConfig,
    ) -> Window {
        let surfaces = &stage.surfaces;
        surfaces.toplevel.set_title(config.title.clone());
        surfaces.toplevel.set_app_id("openuvr".to_owned());
        if let Some(decorations) = &globals.decorations {
            let decoration = decorations.get_toplevel_decoration(&surfaces.toplevel, handle, ());
            decoration.set_mode(Mode::ServerSide);
        }
        if let Some(scales) = &globals.scales {
            scales.get_fractional_scale(&surfaces.window, handle, ());
        }
        if config.tearing {
            match &globals.tearing {
                Some(tearing) => {
                    let picture = &surfaces.picture.surface;
                    let control = tearing.get_tearing_control(picture, handle, ());
                    control.set_presentation_hint(PresentationHint::Async);
                }
                None => tracing::warn!(
                    "the compositor does not support tearing: pictures wait for the display's refresh"
                ),
            }
        }
        if config.full_screen {
            surfaces.toplevel.set_fullscreen(None);
        }
        surfaces.window.commit();
        Window {
            background: Image::new(
                &surfaces.shm,
                (BACKGROUND, BACKGROUND),
                &[0xff00_0000; BACKGROUND as usize * BACKGROUND as usize],
            ),
            full_screen: false,
            configured: false,
            next: Configuration::default(),
            own_scale: false,
            bounds: false,
        }
    }

    /// Whether the compositor has configured the window.
    pub(super) fn is_configured(&self) -> bool {
        self.configured
    }

    /// Whether the compositor states the window's scale.
    pub(super) fn has_own_scale(&self) -> bool {
        self.own_scale
    }

    /// Whether the compositor states the window's maximum size.
    pub(super) fn has_bounds(&self) -> bool {
        self.bounds
    }

    /// Requests that the compositor toggle full screen.
    pub(super) fn toggle_full_screen(&self, stage: &SharedSurface) {
        match self.full_screen {
            true => stage.surfaces.toplevel.unset_fullscreen(),
            false => stage.surfaces.toplevel.set_fullscreen(None),
        }
    }
}

impl State {
    /// Applies the received configuration.
    fn configure(&mut self) {
        let next = std::mem::take(&mut self.window.next);
        let first = !std::mem::replace(&mut self.window.configured, true);
        self.window.full_screen = next.full_screen;
        let stage = std::sync::Arc::clone(&self.stage);
        let mut scene = stage.scene();
        scene.free = !(next.full_screen || next.fixed);
        match next.size {
            None => scene.logical = scene.own_size(),
            Some(size) => {
                if size != scene.logical && scene.free && !first {
                    // The user or another program has resized the window.
                    scene.following = false;
                }
                if scene.free {
                    scene.wanted = pixels(size, scene.scale);
                }
                scene.logical = size;
            }
        }
        // The black picture is attached for each configuration, because Weston 10 applies a configuration only together
        // with a buffer. Otherwise, Weston 10 would not move a full-screen window.
        if let Some(black) = &self.window.background {
            black.attach(&stage.surfaces.window);
        }
        stage.arrange(&mut scene);
        drop(scene);
        self.inhibit_shortcuts();
        if first {
            self.grab_at_start();
        }
    }

    /// Sets the window's scale, in 120ths.
    pub(super) fn scale_changed(&mut self, scale: u32) {
        let scale = scale.clamp(*SCALES.start(), *SCALES.end());
        let stage = std::sync::Arc::clone(&self.stage);
        let mut scene = stage.scene();
        if std::mem::replace(&mut scene.scale, scale) == scale || !self.window.configured {
            return;
        }
        if scene.free && scene.following {
            scene.logical = scene.own_size();
        }
        stage.arrange(&mut scene);
        stage.define_cursor(&mut scene);
    }
}

fn pixels(logical: Size, scale: u32) -> Size {
    let side = |logical: u32| (logical.saturating_mul(scale) / SCALE_ONE).max(1);
    Size::new(side(logical.width), side(logical.height))
}

impl Dispatch<XdgSurface, ()> for State {
    fn event(
        state: &mut State,
        surface: &XdgSurface,
        event: xdg_surface::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let xdg_surface::Event::Configure { serial } = event {
            surface.ack_configure(serial);
            state.configure();
        }
    }
}

impl Dispatch<XdgToplevel, ()> for State {
    fn event(
        state: &mut State,
        _: &XdgToplevel,
        event: xdg_toplevel::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        let side = |pixels: i32| u32::try_from(pixels).unwrap_or(0);
        match event {
            xdg_toplevel::Event::Configure {
                width,
                height,
                states,
            } => {
                let size = Size::new(side(width), side(height));
                let states = states
                    .chunks_exact(4)
                    .map(|bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                let states: Vec<_> = states
                    .filter_map(|state| xdg_toplevel::State::try_from(state).ok())
                    .collect();
                let is = |one: &[xdg_toplevel::State]| states.iter().any(|s| one.contains(s));
                use xdg_toplevel::State as Is;
                state.window.next = Configuration {
                    size: size.is_valid().then_some(size),
                    full_screen: is(&[Is::Fullscreen]),
                    fixed: is(&[
                        Is::Maximized,
                        Is::TiledLeft,
                        Is::TiledRight,
                        Is::TiledTop,
                        Is::TiledBottom,
                    ]),
                };
            }
            xdg_toplevel::Event::ConfigureBounds { width, height } => {
                let size = Size::new(side(width), side(height));
                state.window.bounds = size.is_valid();
                state.stage.scene().room = size.is_valid().then_some(size);
            }
            xdg_toplevel::Event::Close => state.ready.push_back(SourceEvent::Closed),
            _ => {}
        }
    }
}

impl Dispatch<WlSurface, ()> for State {
    fn event(
        state: &mut State,
        surface: &WlSurface,
        event: wl_surface::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if *surface != state.stage.surfaces.window {
            return;
        }
        match event {
            wl_surface::Event::Enter { output } => state.output_entered(&output, true),
            wl_surface::Event::Leave { output } => state.output_entered(&output, false),
            wl_surface::Event::PreferredBufferScale { factor }
                if state.globals.scales.is_none() =>
            {
                state.window.own_scale = true;
                let scale = u32::try_from(factor).unwrap_or(1);
                state.scale_changed(scale.saturating_mul(SCALE_ONE));
            }
            _ => {}
        }
    }
}

impl Dispatch<WpFractionalScaleV1, ()> for State {
    fn event(
        state: &mut State,
        _: &WpFractionalScaleV1,
        event: wp_fractional_scale_v1::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let wp_fractional_scale_v1::Event::PreferredScale { scale } = event {
            state.window.own_scale = true;
            state.scale_changed(scale);
        }
    }
}

delegate_noop!(State: ignore ZxdgToplevelDecorationV1);
