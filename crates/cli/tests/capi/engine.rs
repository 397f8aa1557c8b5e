//! A real engine with the C API: ioquake3 with `examples/ioquake3`, playing OpenArena's data.
//!
//! Not part of `./dev test`, since its sources are external: `./dev test-engine` builds and runs it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use openuvr_proto::units::Size;

use crate::support::{
    Display, Folder, PIN, Program, ScreenCapture, Shot, eventually, openuvr, port_of,
};

const SIZE: Size = Size::new(640, 480);

/// Rotation of the view per mouse count: the engine's own arithmetic, without acceleration.
const DEGREES: f64 = SENSITIVITY * YAW;
const SENSITIVITY: f64 = 5.0;
const YAW: f64 = 0.022;

/// The engine as `play` starts it, with test settings.
fn engine(folder: &Folder, display: &Display) -> Program {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("examples/ioquake3/play"));
    command
        .env("DISPLAY", &display.name)
        // Cargo's own path would find another build of the library first.
        .env_remove("LD_LIBRARY_PATH")
        .env("HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        .env("SDL_AUDIODRIVER", "dummy")
        .args(["--settings", &folder.join("game"), "--start-only"]);
    let settings = [
        ["r_mode", "3"],
        ["cg_draw2D", "0"],
        ["sensitivity", &SENSITIVITY.to_string()],
        ["m_yaw", &YAW.to_string()],
        ["cl_mouseAccel", "0"],
        ["openuvr_bind", "127.0.0.1:0"],
        ["openuvr_pin", PIN[1]],
    ];
    for [name, value] in settings {
        command.args(["+set", name, value]);
    }
    command.args(["+devmap", "oa_dm1"]);
    Program::start("ioquake3", command)
}

/// Parses the player's position and view direction from the engine's output: `(96 -416 50) : 135`.
fn view(line: &str) -> Option<([f64; 3], f64)> {
    let (place, yaw) = line.rsplit_once(") : ")?;
    let (_, place) = place.rsplit_once('(')?;
    let mut place = place.split(' ').map(|word| word.parse().ok());
    let mut next = || place.next().flatten();
    Some(([next()?, next()?, next()?], yaw.trim().parse().ok()?))
}

/// A remote player, and the engine's console.
struct Play<'a> {
    game: &'a Program,
    player: &'a mut Program,
    asked: usize,
}

impl Play<'_> {
    /// Types a command into the engine's console, and closes it.
    fn console(&mut self, command: &str) {
        self.opened_console(command);
        self.player.type_text("wait 200ms\nkey KEY_GRAVE\n");
    }

    /// As [`Play::console`], but the console stays open unless the command closes it.
    fn opened_console(&mut self, command: &str) {
        let lines = ["key KEY_GRAVE", "wait 500ms", &format!("text /{command}")];
        let end = ["wait 200ms", "key KEY_ENTER\n"];
        self.player
            .type_text(&[&lines[..], &end].concat().join("\n"));
    }

    /// The player's position and view direction.
    fn view(&mut self) -> ([f64; 3], f64) {
        self.asked += 1;
        self.console("viewpos");
        let line = self.game.nth_line(self.asked, ") : ");
        view(&line).unwrap_or_else(|| panic!("no view: {line:?}"))
    }
}

/// Number of clearly different pixels of two pictures, per mille.
fn differing(a: &Shot, b: &Shot) -> usize {
    let pairs = a.colours().into_iter().zip(b.colours());
    let (mut count, mut all) = (0, 0);
    for (a, b) in pairs {
        all += 1;
        count += usize::from(a.iter().zip(b).any(|(a, b)| a.abs_diff(b) > 24));
    }
    count * 1000 / all
}

/// Number of different colours of a picture, in steps of 16.
fn colours(shot: &Shot) -> usize {
    let all = shot.colours().into_iter().map(|c| c.map(|byte| byte / 16));
    all.collect::<std::collections::HashSet<_>>().len()
}

/// Checks the client's CSV: each frame has one outcome, and most are complete, on a machine that runs both
/// ends.
fn account(csv: &str) {
    let mut seen = BTreeSet::new();
    let mut whole = 0;
    for row in csv.lines().skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        let frame: u32 = fields[1].parse().expect("a frame's number");
        assert!(seen.insert(frame), "two outcomes: {row}");
        assert_ne!(fields[4], "DecodeFailed", "{row}");
        whole += usize::from(fields[2] == "whole");
    }
    assert!(whole > 130, "{whole} complete frames");
    assert!(whole * 2 > seen.len(), "{whole} of {} complete", seen.len());
}

#[test]
#[ignore = "needs ioquake3 and OpenArena's data: ./dev test-engine"]
fn an_engine_is_played_from_a_client() {
    let (Some(host_display), Some(display)) =
        (Display::start("800x600"), Display::start("640x480"))
    else {
        return;
    };
    let folder = Folder::new();
    let mut game = engine(&folder, &host_display);
    let port = port_of(&game.line("MUDs reach this host by"));
    let address = format!("127.0.0.1:{port}");
    let (keys, csv) = (folder.join("player"), folder.join("player.csv"));
    let own = ["client", &address, "--config-dir", &keys, "--csv", &csv];
    let hands = ["--display", &display.name, "--input-script", "-"];
    let command = openuvr(&[&own[..], &["--realtime", "off"], &PIN, &hands].concat());
    let mut player = Program::with_stdin("player", command);
    player.line("showing 640x480");

    let capture = ScreenCapture::open(&display);
    let look = || capture.region(SIZE);
    let colourful = |what: &str| {
        eventually(what, || (colours(&look()) > 40).then_some(()));
    };
    eventually("the map", || {
        game.count("entered the game").gt(&0).then_some(())
    });
    colourful("a picture of the map");

    let mut play = Play {
        game: &game,
        player: &mut player,
        asked: 0,
    };
    // Bots that join later do no harm.
    play.console("god");
    game.line("godmode ON");

    // The mouse rotates the view by exactly its motion, and the picture with it.
    let (_, before) = play.view();
    let seen = look();
    play.player.type_text("rel 1000 0\n");
    eventually("the view turns", || {
        (differing(&seen, &look()) > 500).then_some(())
    });
    let (stood, after) = play.view();
    let turned = (before - after).rem_euclid(360.0);
    assert!((turned - 1000.0 * DEGREES).abs() <= 2.0, "{turned} degrees");

    // A key walks for as long as it is held.
    (play.player).type_text("key KEY_W down\nwait 1s\nkey KEY_W up\n");
    let (walked_to, _) = play.view();
    let way = [0, 1].map(|n| (walked_to[n] - stood[n]).abs());
    assert!(way[0].max(way[1]) > 30.0, "from {stood:?} to {walked_to:?}");
    assert_eq!(play.view().0, walked_to, "the key was released");

    // Bots play: pictures change without input.
    for bot in ["Sarge", "Grunt"] {
        play.console(&format!("addbot {bot} 3"));
    }
    game.nth_line(3, "entered the game");
    let counted = |text: &str| text.lines().count();
    let rows = || counted(&std::fs::read_to_string(&csv).unwrap_or_default());
    let before = rows();
    eventually("a hundred frames", || (rows() > before + 100).then_some(()));

    // The renderer restarts with another OpenGL context; the stream and the session stay.
    play.opened_console("vid_restart");
    game.nth_line(2, "Initializing Renderer");
    colourful("a picture of the new renderer");
    let before = rows();
    eventually("frames of the new renderer", || {
        (rows() > before + 30).then_some(())
    });
    play.console("echo after the restart");
    game.line("after the restart");
    assert_eq!(game.count("joins as player"), 1, "{}", game.text());

    play.console("quit");
    let (status, text) = game.wait();
    assert!(status.success(), "{text}");
    // The address can be used again.
    player.line("it said goodbye");
    player.stop();
    account(&std::fs::read_to_string(&csv).expect("the client's CSV"));
}
