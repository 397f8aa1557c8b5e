//! Streams a [Bevy](https://bevy.org) application to a thin client, and receives its input.
//!
//! ```no_run
//! use bevy::prelude::*;
//! use openuvr_bevy::{StreamPlugin, Streamed};
//!
//! App::new()
//!     .add_plugins((DefaultPlugins, StreamPlugin::new(1280, 720)))
//!     .add_systems(Startup, |mut commands: Commands| {
//!         commands.spawn((Camera2d, Streamed));
//!     })
//!     .run();
//! ```
//!
//! Cameras with the component [`Streamed`] draw into the stream's picture; no window is needed. The player's keys and
//! mouse arrive as Bevy's own messages (`KeyboardInput`, `MouseButtonInput`, `CursorMoved`, `MouseMotion`,
//! `MouseWheel`), so `ButtonInput` works. A camera with the component [`Head`] follows the player's head.
//!
//! Each frame states which input it shows: the input that the messages of this frame contain. This information is
//! extracted into the render world together with the frame, so it is also exact with pipelined rendering.
//!
//! Limits: the player's pointer belongs to no window, so read `CursorMoved` and not `Window::cursor_position`. For each
//! frame that the host needs, the render world waits until the GPU has finished the frame.

mod capture;
mod input;
mod keys;

use std::sync::Arc;

use bevy::camera::RenderTarget;
use bevy::input::InputSystems;
use bevy::log::{debug, error, info, warn};
use bevy::prelude::*;
use bevy::render::render_resource::{TextureFormat, TextureUsages};
use bevy::window::{CursorMoved, PrimaryWindow};
use openuvr_media::capture::RenderInfo;
use openuvr_proto::units::Size;
use openuvr_runtime::guest::{Guest, InputTarget};
use openuvr_runtime::host::Notice;
use openuvr_runtime::sound_choice::SoundChoice;

pub use openuvr_proto::control::pairing::Pin;
pub use openuvr_runtime::host::config::Config;

use input::{Player, Writers};

/// Streams the cameras with the component [`Streamed`]. Add it after `DefaultPlugins`.
///
/// If the host cannot be started, the plugin logs the reason, and the application runs without a stream and without the
/// resource [`Stream`].
pub struct StreamPlugin {
    /// The size of the picture in pixels, 1 to 16384 on each side.
    pub size: UVec2,
    /// The host's settings: address, PIN, bitrate, frame rate, and the file for a row of each frame.
    pub config: Config,
}

impl StreamPlugin {
    /// A stream of pictures of this size in pixels, with the default settings and without sound.
    #[must_use]
    pub fn new(width: u32, height: u32) -> StreamPlugin {
        StreamPlugin {
            size: UVec2::new(width, height),
            config: Config {
                // The application sets the frame rate.
                follows_display: false,
                sound: SoundChoice::Off,
                ..Config::default()
            },
        }
    }
}

/// The running stream.
#[derive(Resource, Clone)]
pub struct Stream {
    guest: Arc<Guest>,
    image: Handle<Image>,
    size: Size,
}

impl Stream {
    /// The picture: a render target for cameras without the component [`Streamed`], and an image that the application's
    /// own windows can show.
    #[must_use]
    pub fn image(&self) -> &Handle<Image> {
        &self.image
    }

    /// The address for clients, as text.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.guest.endpoint()
    }

    /// Selects relative mouse motion: the client hides its pointer, and only `MouseMotion` is sent.
    pub fn set_relative_mouse(&self, relative: bool) {
        self.guest.set_relative_mouse(relative);
    }
}

/// A camera that draws into the stream's picture.
#[derive(Component, Clone, Copy, Debug, Default)]
pub struct Streamed;

/// A camera, or another entity, that follows the head of a player with a headset: 1 unit is 1 m, and the parent entity is
/// the room.
#[derive(Component, Clone, Copy, Debug, Default)]
pub struct Head;

/// The frame that is drawn: the input and the pose that it shows; `None` if no picture is needed.
#[derive(Resource, Clone, Copy, Default)]
struct CurrentFrame(Option<RenderInfo>);

impl Plugin for StreamPlugin {
    fn build(&self, app: &mut App) {
        let size = Size::new(self.size.x, self.size.y);
        let input = InputTarget::Application;
        let guest = match Guest::start(&self.config, input, size, |notice| log(&notice)) {
            Ok(guest) => guest,
            Err(why) => {
                error!("no stream: {why}");
                return;
            }
        };
        info!("clients reach this host by {}", guest.endpoint());
        if let Some(pin) = guest.pin() {
            info!("a new device may pair with the PIN {pin}");
        }
        // The stream's fastest format.
        let format = TextureFormat::Bgra8UnormSrgb;
        let mut image = Image::new_target_texture(size.width, size.height, format, None);
        image.texture_descriptor.usage |= TextureUsages::COPY_SRC;
        let image = app.world_mut().resource_mut::<Assets<Image>>().add(image);
        let stream = Stream {
            guest: Arc::new(guest),
            image,
            size,
        };
        if !capture::build(app, &stream) {
            error!(
                "no stream: the application has no renderer; add RenderPlugin before this plugin"
            );
            return;
        }
        app.insert_resource(stream)
            .init_resource::<CurrentFrame>()
            .add_message::<CursorMoved>()
            .add_systems(First, aim)
            .add_systems(PreUpdate, take_input.before(InputSystems));
    }
}

/// Lets new cameras draw into the stream's picture.
fn aim(stream: Res<Stream>, mut cameras: Query<&mut RenderTarget, Added<Streamed>>) {
    for mut target in &mut cameras {
        *target = RenderTarget::from(stream.image.clone());
    }
}

/// Passes the player's input on, and begins a frame.
fn take_input(
    stream: Res<Stream>,
    mut player: Local<Player>,
    mut writers: Writers,
    windows: Query<Entity, With<PrimaryWindow>>,
    mut heads: Query<&mut Transform, With<Head>>,
    mut frame: ResMut<CurrentFrame>,
) {
    let guest = &stream.guest;
    // Without a window, the messages contain the placeholder.
    let window = windows.iter().next().unwrap_or(Entity::PLACEHOLDER);
    while let Some(input) = guest.next_input() {
        player.take(input.event, window, stream.size, &mut |event| {
            writers.write(event);
        });
    }
    if !heads.is_empty()
        && let Some(received) = guest.pose()
    {
        // Bevy has the axes of the pose: y up, -z forward.
        for mut transform in &mut heads {
            transform.translation = Vec3::from_array(received.pose.position());
            transform.rotation = Quat::from_array(received.pose.orientation());
        }
    }
    guest.begin_frame();
    let drawn = guest.drawn(stream.size);
    frame.0 = guest.wants().then_some(drawn);
}

/// Logs a notice of the host.
fn log(notice: &Notice) {
    match notice {
        Notice::Failed(why) => error!("the stream has ended: {why}"),
        Notice::SourceEnded(why) => error!("the stream has ended: {why}"),
        Notice::Warning(why) => warn!("{why}"),
        Notice::Paired { name, fingerprint } => info!("paired with {name} ({fingerprint})"),
        Notice::Subscribed { name, role, .. } => info!("{name} joins as {}", role.name()),
        Notice::Ended(_, ending) => info!("a client is gone: {ending:?}"),
        Notice::Record(_) | Notice::Audio(..) => {}
        other => debug!("{other:?}"),
    }
}
