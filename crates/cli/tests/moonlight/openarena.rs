//! OpenArena on a virtual display of a host, played with Moonlight clients: a key turns the view, and shots are heard.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::{self, Moonlight, PIN};
use crate::loudness::{loud_parts, similarity};
use crate::rig::Rig;
use crate::support::pulse_server::PulseServer;
use crate::support::sound::{Recorder, samples};
use crate::support::{Host, Program, ScreenCapture, Shot, eventually, port_of, psnr, skip};
use crate::xtest::XTest;
use crate::{SIZE, Table, pictures, quit_by_keys};

const GAME: &str = "/usr/games/openarena";

/// Settings for a software renderer.
const SETTINGS: &str = "+set r_mode -1 +set r_customwidth 1280 +set r_customheight 720 +set r_fullscreen 0 \
    +set com_introplayed 1 +set com_maxfps 30 +set r_vertexlight 1 +set r_picmip 2 +devmap oa_dm1";

/// X key code of the left arrow key.
const LEFT: u8 = 105 + 8;

/// The number of turns of the view. One would not be enough: the first still picture may be the loading screen, which
/// changes without a key.
const TURNS: u32 = 2;

/// PSNR in dB: the minimum for the same view (with motion and encoding), and the maximum for different views.
const SAME_VIEW: f64 = 24.0;
const OTHER_VIEW: f64 = 18.0;

/// Minimum correlation of the played and the heard sound, which codec, mixing and delays reduce.
const ALIKE: f64 = 0.9;

/// Minimum number of audible parts of 20 ms.
const MIN_LOUD_PARTS: usize = 100;

/// A host with the game.
struct Game {
    host: Host,
    port: u16,
    played: Played,
    server: PulseServer,
    rig: Rig,
}

/// A recording of the sound that the game plays.
struct Played {
    file: PathBuf,
    _recorder: Recorder,
}

impl Game {
    /// Starts the game; prints a message and returns `None` if something is missing.
    fn start() -> Option<Game> {
        if !Path::new(GAME).exists() {
            skip::skip("openarena is not installed: apt-get install openarena");
            return None;
        }
        let (rig, server) = (Rig::new(SIZE, SIZE)?, PulseServer::start()?);
        let home = format!("HOME={}", rig.folder.path().display());
        let own = [
            "--virtual",
            SIZE,
            "--moonlight",
            "127.0.0.1:0",
            "--sound",
            "auto",
        ];
        let program = ["--", "env", &home, "SDL_AUDIODRIVER=pulseaudio", GAME];
        let settings: Vec<&str> = SETTINGS.split_whitespace().collect();
        let args = [&own[..], &program, &settings].concat();
        let host = Host::with_sound(&server.address, &[], &args);
        let port = port_of(&host.program.line("Moonlight clients: add the host"));
        host.program.line("entered the game");
        let sinks = server.sinks().into_iter();
        let mut given = sinks.filter(|sink| sink.starts_with("openuvr_"));
        let sink = given.next().expect("a sink of the game's own");
        let file = rig.folder.path().join("played");
        let played = Played {
            _recorder: Recorder::start(&server.address, &sink, &file),
            file,
        };
        Some(Game {
            host,
            port,
            played,
            server,
            rig,
        })
    }
}

impl Played {
    /// Checks that a client heard this sound, which is in the file `heard`.
    fn check(&self, heard: &Path) {
        eventually("a second of sound like that of the game", || {
            let heard = samples(heard);
            let audible = loud_parts(&heard) >= MIN_LOUD_PARTS;
            (audible && similarity(&samples(&self.file), &heard) > ALIKE).then_some(())
        });
    }
}

/// Waits until the picture of a display shows the game and stands still.
fn still_view(capture: &ScreenCapture) -> Shot {
    eventually("a view that stands still", || {
        let before = capture.shot();
        let colours = before.colours();
        let painted = colours.iter().filter(|colour| **colour != [0; 3]).count();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let now = capture.shot();
        (painted > colours.len() / 4 && psnr(&before, &now) > SAME_VIEW).then_some(now)
    })
}

#[test]
#[ignore = "tier moonlight: needs a client of Moonlight, and openarena"]
fn openarena_is_played_and_heard() {
    let Some(program) = client::program() else {
        return;
    };
    let Some(game) = Game::start() else { return };
    let Game {
        host,
        port,
        played,
        server,
        rig,
    } = game;
    let client = Moonlight::new(program, &rig, &server.address, port);
    let heard = rig.folder.path().join("heard");
    let _recorder = Recorder::start(&server.address, "usual", &heard);
    let table = Table {
        client,
        host,
        server,
        rig,
    };
    table.pair();
    let mut stream = table.client.stream();
    let there = ScreenCapture::open(&table.rig.client_side);
    let keys = XTest::open(&table.rig.client_side);
    for _ in 0..TURNS {
        let before = still_view(&there);
        pictures::save(&before, "moonlight-openarena-before");
        keys.key(LEFT, true);
        eventually("another view", || {
            (psnr(&before, &there.shot()) < OTHER_VIEW).then_some(())
        });
        keys.key(LEFT, false);
        pictures::save(&there.shot(), "moonlight-openarena-after");
    }
    keys.button(1, true);
    played.check(&heard);
    keys.button(1, false);
    quit_by_keys(&table, &mut stream);
}

/// The same test with the client from PyPI. `game.py` performs the steps.
#[test]
#[ignore = "tier moonlight: needs moonlight-python and openarena"]
fn openarena_is_played_and_heard_by_moonlight_python() {
    let Ok(python) = std::env::var("OPENUVR_MOONLIGHT_PYTHON") else {
        return skip::skip("OPENUVR_MOONLIGHT_PYTHON names no Python with moonlight-python");
    };
    let Some(game) = Game::start() else { return };
    let out = game.rig.folder.path().join("out");
    std::fs::create_dir(&out).expect("a temporary folder");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/moonlight/game.py");
    let mut command = Command::new(python);
    command
        .args([script, "127.0.0.1", &game.port.to_string()])
        .args([&game.rig.folder.join("keys"), PIN])
        .arg(&out);
    let mut player = Program::start("game.py", command);
    player.line("pairs");
    game.host.program.line("wants to pair");
    let said = game
        .host
        .devices(&["pair", "--moonlight", PIN, "--name", "foreign"]);
    assert!(said.starts_with("paired with foreign ("), "{said}");
    for step in ["the view stands still", "the view turns", "quit"] {
        player.line(step);
    }
    let (status, output) = player.wait();
    assert!(status.success(), "{output}");
    game.played.check(&out.join("heard"));
    for name in ["before", "after"] {
        let shot = Shot::from_png(&out.join(format!("{name}.png"))).expect("a picture");
        pictures::save(&shot, &format!("moonlight-python-openarena-{name}"));
    }
}
