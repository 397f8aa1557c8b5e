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
//! Each submitted frame states the newest input that it shows, that is, the newest input in the messages of this frame.
//! This is also exact with pipelined rendering, because the statement is passed to the render world together with the
//! frame.
//!
//! Limits: the player's pointer is in no window. Read its position from `CursorMoved`, not from
//! `Window::cursor_position`. Bevy's widgets and picking do not react to this pointer, because they use pointers in
//! windows only. When a frame is read back, the render world waits until the GPU has finished it.

mod capture;
mod input;
mod keys;

use std::sync::Arc;

use bevy::camera::{CameraUpdateSystems, RenderTarget};
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
    /// The host's settings, such as the address, the PIN, the bitrate, the frame rate, and a CSV file with a row for
    /// each frame.
    pub config: Config,
}

impl StreamPlugin {
    /// Streams pictures of this size, with the default settings and without sound.
    #[must_use]
    pub fn new(width: u32, height: u32) -> StreamPlugin {
        StreamPlugin {
            size: UVec2::new(width, height),
            config: Config {
                // The application chooses the frame rate, and the player's display does not limit it.
                follows_display: false,
                sound: SoundChoice::Off,
                ..Config::default()
            },
        }
    }
}

/// The running stream. The plugin inserts this resource after the host has started.
#[derive(Resource, Clone)]
pub struct Stream {
    guest: Arc<Guest>,
    image: Handle<Image>,
    size: Size,
}

impl Stream {
    /// The image that is streamed. Use it as the target of cameras without the component [`Streamed`], or to show the
    /// picture in a window of the application.
    #[must_use]
    pub fn image(&self) -> &Handle<Image> {
        &self.image
    }

    /// The address that clients connect to, as text.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.guest.endpoint()
    }

    /// Selects relative mouse motion (`true`) or absolute positions (`false`). With relative motion, the client hides
    /// its pointer, and its motion arrives as `MouseMotion` without `CursorMoved`.
    pub fn set_relative_mouse(&self, relative: bool) {
        self.guest.set_relative_mouse(relative);
    }
}

/// A camera that draws into the stream's picture.
#[derive(Component, Clone, Copy, Debug, Default)]
pub struct Streamed;

/// A camera or another entity that follows the head of a player with a headset. Its transform, relative to its parent
/// entity, is the pose of the head in the player's room, with one unit per metre.
#[derive(Component, Clone, Copy, Debug, Default)]
pub struct Head;

/// The description of the frame that is drawn: the newest input and the head pose that it shows.
#[derive(Resource, Clone, Copy, Default)]
struct CurrentFrame(RenderInfo);

impl Plugin for StreamPlugin {
    fn build(&self, app: &mut App) {
        match start(self, app) {
            Ok(stream) => {
                app.insert_resource(stream)
                    .init_resource::<CurrentFrame>()
                    .add_message::<CursorMoved>()
                    .add_systems(PreUpdate, take_input.before(InputSystems))
                    // Bevy computes a camera's projection from its target in both schedules.
                    .add_systems(PostStartup, aim.before(CameraUpdateSystems))
                    .add_systems(PostUpdate, aim.before(CameraUpdateSystems));
            }
            Err(why) => error!("can't start the stream: {why}"),
        }
    }
}

/// Starts the host, and creates the image that is streamed. Returns an error if the size is invalid, if the application
/// lacks Bevy's images or renderer, or if the host cannot be started.
fn start(plugin: &StreamPlugin, app: &mut App) -> Result<Stream, String> {
    let size = Size::new(plugin.size.x, plugin.size.y);
    if !size.is_valid() {
        let most = Size::MAX_SIDE;
        return Err(format!(
            "invalid picture size {size}; each side must be 1 to {most}"
        ));
    }
    if !app.world().contains_resource::<Assets<Image>>() || !capture::is_possible(app) {
        let parts = "this application lacks Bevy's images or renderer";
        let advice = "add DefaultPlugins before StreamPlugin, with a graphics backend";
        return Err(format!("{parts}; {advice}"));
    }
    let input = InputTarget::Application;
    let guest = Guest::start(&plugin.config, input, size, |notice| log(&notice))?;
    info!("the host listens on {}", guest.endpoint());
    if let Some(pin) = guest.pin() {
        info!("a new client can pair with the PIN {pin}");
    }
    // The host encodes this format fastest.
    let format = TextureFormat::Bgra8UnormSrgb;
    let mut image = Image::new_target_texture(size.width, size.height, format, None);
    image.texture_descriptor.usage |= TextureUsages::COPY_SRC;
    let stream = Stream {
        guest: Arc::new(guest),
        image: app.world_mut().resource_mut::<Assets<Image>>().add(image),
        size,
    };
    capture::build(app, &stream);
    Ok(stream)
}

/// Lets cameras with the component [`Streamed`] draw into the stream's picture.
fn aim(
    stream: Res<Stream>,
    mut cameras: Query<(&mut RenderTarget, &mut Projection), With<Streamed>>,
) {
    for (mut target, mut projection) in &mut cameras {
        if target.as_image() != Some(&stream.image) {
            *target = RenderTarget::from(stream.image.clone());
            // Bevy does not detect that the target of an existing camera has changed. This call makes Bevy compute the
            // projection for the new target.
            projection.set_changed();
        }
    }
}

/// Writes the player's input as messages, moves the entities with the component [`Head`], and begins a frame.
fn take_input(
    stream: Res<Stream>,
    mut player: Local<Player>,
    mut writers: Writers,
    windows: Query<Entity, With<PrimaryWindow>>,
    mut heads: Query<&mut Transform, With<Head>>,
    mut frame: ResMut<CurrentFrame>,
) {
    let guest = &stream.guest;
    // Without a window, the messages name a placeholder as their window.
    let window = windows.iter().next().unwrap_or(Entity::PLACEHOLDER);
    while let Some(input) = guest.next_input() {
        player.take(input.event, window, stream.size, &mut |event| {
            writers.write(event);
        });
    }
    if !heads.is_empty()
        && let Some(received) = guest.pose()
    {
        // Bevy and the pose use the same axes: y up, -z forward.
        for mut transform in &mut heads {
            transform.translation = Vec3::from_array(received.pose.position());
            transform.rotation = Quat::from_array(received.pose.orientation());
        }
    }
    guest.begin_frame();
    frame.0 = guest.drawn(stream.size);
    if heads.is_empty() {
        // The guest reports the last pose that `pose` returned, even if no entity follows the head any longer.
        frame.0.pose = None;
    }
}

/// Logs a notice of the host.
fn log(notice: &Notice) {
    match notice {
        Notice::Failed(why) => error!("the stream has ended: {why}"),
        Notice::SourceEnded(why) => error!("the stream has ended: {why}"),
        // For example, a client has sent a wrong PIN.
        Notice::Warning(why) | Notice::Pairing(why) => warn!("{why}"),
        Notice::NoPicture => warn!("a client is waiting, but no picture has been drawn yet"),
        Notice::Lost(notices) => {
            warn!("{notices} notices lost: this machine could not keep up");
        }
        Notice::Paired { name, fingerprint } => info!("paired with {name} ({fingerprint})"),
        Notice::Subscribed { name, role, .. } => info!("{name} joins as {}", role.name()),
        Notice::Ended(_, ending) => info!("a client is gone: {ending:?}"),
        Notice::Record(_) | Notice::Audio(..) => {}
        other => debug!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use bevy::app::PluginsState;
    use bevy::window::ExitCondition;

    use super::*;

    /// A folder for keys, removed when dropped.
    struct Keys(PathBuf);

    impl Drop for Keys {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// An application that renders without a window.
    fn streaming(keys: &Keys) -> App {
        let no_window = WindowPlugin {
            primary_window: None,
            exit_condition: ExitCondition::DontExit,
            ..default()
        };
        let mut stream = StreamPlugin::new(64, 32);
        stream.config.bind = ([127, 0, 0, 1], 0).into();
        stream.config.config_dir = Some(keys.0.clone());
        let mut app = App::new();
        app.add_plugins((DefaultPlugins.set(no_window), stream));
        // The renderer opens the GPU in another thread.
        while app.plugins_state() == PluginsState::Adding {
            bevy::tasks::tick_global_task_pools_on_main_thread();
        }
        app.finish();
        app.cleanup();
        app
    }

    #[test]
    fn an_application_without_a_renderer_runs_without_a_stream() {
        let mut app = App::new();
        app.add_plugins((MinimalPlugins, StreamPlugin::new(64, 32)));
        app.update();
        assert!(app.world().get_resource::<Stream>().is_none());
    }

    #[test]
    fn a_picture_without_pixels_is_refused() {
        let why = start(&StreamPlugin::new(0, 64), &mut App::new()).err();
        assert!(why.is_some_and(|why| why.contains("invalid picture size")));
    }

    #[test]
    fn a_camera_that_is_streamed_later_has_the_size_of_the_picture() {
        let name = format!("openuvr-bevy-{}", std::process::id());
        let keys = Keys(std::env::temp_dir().join(name));
        let mut app = streaming(&keys);
        let camera = app.world_mut().spawn(Camera2d).id();
        app.update();
        let size = |app: &App| app.world().get::<Camera>(camera)?.physical_target_size();
        assert_eq!(size(&app), None, "there is no window");
        app.world_mut().entity_mut(camera).insert(Streamed);
        app.update();
        assert_eq!(size(&app), Some(UVec2::new(64, 32)));
        let guest = app.world().resource::<Stream>().guest.clone();
        let is_submitted = (0..100).any(|_| {
            app.update();
            guest.frames().submitted() > 0
        });
        assert!(is_submitted, "a picture without a client");
    }
}
