//! A scene that is streamed, without a window: a square follows the player's mouse; the space bar changes the background.
//!
//! ```sh
//! cargo run --example scene -- [PIN [ADDRESS:PORT [CSV]]]
//! openuvr client localhost
//! ```
//!
//! The log shows the PIN. CSV is a file that gets a row for each frame. Ctrl-C ends the program.

use std::path::PathBuf;
use std::time::Duration;

use bevy::app::ScheduleRunnerPlugin;
use bevy::prelude::*;
use bevy::window::{CursorMoved, ExitCondition};
use openuvr_bevy::{Pin, StreamPlugin, Streamed};

const WIDTH: f32 = 640.0;
const HEIGHT: f32 = 360.0;
const GROUNDS: [Color; 2] = [Color::srgb(0.1, 0.2, 0.6), Color::srgb(0.1, 0.6, 0.2)];

/// The square that follows the mouse.
#[derive(Component)]
struct Square;

fn main() -> Result<AppExit> {
    let mut words = std::env::args().skip(1);
    let mut stream = StreamPlugin::new(640, 360);
    let config = &mut stream.config;
    config.pin = words.next().map(|pin| pin.parse::<Pin>()).transpose()?;
    if let Some(address) = words.next() {
        config.bind = address.parse()?;
    }
    config.csv = words.next().map(PathBuf::from);
    let no_window = WindowPlugin {
        primary_window: None,
        exit_condition: ExitCondition::DontExit,
        ..default()
    };
    Ok(App::new()
        .insert_resource(ClearColor(GROUNDS[0]))
        .add_plugins((
            DefaultPlugins.set(no_window),
            ScheduleRunnerPlugin::run_loop(Duration::from_secs_f64(1.0 / 60.0)),
            stream,
        ))
        .add_systems(Startup, build)
        .add_systems(Update, (move_square, change_ground))
        .run())
}

fn build(mut commands: Commands) {
    commands.spawn((Camera2d, Streamed));
    let square = Sprite::from_color(Color::srgb(1.0, 0.2, 0.1), Vec2::splat(64.0));
    commands.spawn((square, Square));
}

/// Moves the square to the mouse. The world's origin is the middle of the picture, and y points upwards.
fn move_square(
    mut moves: MessageReader<CursorMoved>,
    mut square: Single<&mut Transform, With<Square>>,
) {
    if let Some(moved) = moves.read().last() {
        let Vec2 { x, y } = moved.position;
        square.translation = Vec3::new(x - WIDTH / 2.0, HEIGHT / 2.0 - y, 0.0);
    }
}

fn change_ground(keys: Res<ButtonInput<KeyCode>>, mut ground: ResMut<ClearColor>) {
    if keys.just_pressed(KeyCode::Space) {
        let changed = ground.0 == GROUNDS[0];
        ground.0 = GROUNDS[usize::from(changed)];
    }
}
