//! A real engine that uses the C API: ioquake3 with `examples/ioquake3` in it, playing OpenArena's data.
//!
//! Not part of `./dev test`, since its sources are somebody else's: `./dev test-engine` builds it and
//! runs this.

use std::path::Path;
use std::process::Command;

use openuvr_proto::units::Size;

use crate::support::{Display, Eye, Folder, PIN, Program, Shot, eventually, openuvr, port_of};

const SIZE: Size = Size::new(640, 480);
/// From the loading screen to the map, on a slow machine.
const MAP: [&str; 2] = ["+devmap", "oa_dm1"];

/// The engine with its own settings, on `display`.
fn engine(folder: &Folder, display: &Display) -> Program {
    let built = std::env::var("OPENUVR_IOQUAKE3").expect("./dev test-engine says where it is");
    // Where they are found before the archives, whose modules are empty in Debian.
    std::fs::create_dir(folder.path().join("baseoa")).expect("a new folder");
    for module in ["ui", "cgame", "qagame"] {
        let file = format!("baseoa/{module}x86_64.so");
        let from = Path::new("/usr/lib/openarena").join(&file);
        std::os::unix::fs::symlink(from, folder.path().join(file)).expect("a new link");
    }
    let mut command = Command::new(Path::new(&built));
    command
        .env("DISPLAY", &display.name)
        // Cargo's own would put another build of the library before the one that it is linked to.
        .env_remove("LD_LIBRARY_PATH")
        .env("HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        .env("SDL_AUDIODRIVER", "dummy")
        .args(["+set", "com_basegame", "baseoa"])
        .args(["+set", "fs_basepath", "/usr/lib/openarena"])
        .args([
            "+set", "vm_ui", "0", "+set", "vm_cgame", "0", "+set", "vm_game", "0",
        ])
        .args(["+set", "fs_homepath", &folder.join("")])
        .args([
            "+set",
            "cl_renderer",
            "opengl1",
            "+set",
            "r_fullscreen",
            "0",
        ])
        .args(["+set", "r_mode", "3", "+set", "cg_draw2D", "0"])
        .args(["+set", "openuvr_bind", "127.0.0.1:0"])
        .args(["+set", "openuvr_pin", PIN[1]])
        .args(MAP);
    Program::start("ioquake3", command)
}

/// How many pixels of two pictures differ clearly, of a thousand.
fn differing(a: &Shot, b: &Shot) -> usize {
    let pairs = a.colours().into_iter().zip(b.colours());
    let (mut count, mut all) = (0, 0);
    for (a, b) in pairs {
        all += 1;
        count += usize::from(a.iter().zip(b).any(|(a, b)| a.abs_diff(b) > 24));
    }
    count * 1000 / all
}

/// How many different colours a picture has, in steps of 16.
fn colours(shot: &Shot) -> usize {
    let all = shot.colours().into_iter().map(|c| c.map(|byte| byte / 16));
    all.collect::<std::collections::HashSet<_>>().len()
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
    let keys = folder.join("player");
    let own = [
        "client",
        &address,
        "--config-dir",
        &keys,
        "--realtime",
        "off",
    ];
    let hands = ["--display", &display.name, "--input-script", "-"];
    let command = openuvr(&[&own[..], &PIN, &hands].concat());
    let mut player = Program::listening("player", command);
    player.line("showing 640x480");

    let eye = Eye::open(&display);
    let look = || eye.part(SIZE);
    eventually("the map", || {
        game.count("entered the game").gt(&0).then_some(())
    });
    eventually("a picture with many colours", || {
        (colours(&look()) > 40).then_some(())
    });

    // Half a turn: nothing is where it was.
    let before = look();
    player.types("rel 2000 0\n");
    eventually("the view turns", || {
        (differing(&before, &look()) > 500).then_some(())
    });

    // Commands, typed into the engine's console.
    let mut console = |command: &str| {
        let lines = ["key KEY_GRAVE", "wait 500ms", &format!("text /{command}")];
        let end = ["wait 200ms", "key KEY_ENTER", "wait 200ms", "key KEY_GRAVE"];
        player.types(&([&lines[..], &end].concat().join("\n") + "\n"));
    };
    console("echo typed from afar");
    game.line("typed from afar");

    // The renderer ends and begins again with another OpenGL context; the stream and the session stay.
    console("vid_restart");
    game.nth_line(2, "Initializing Renderer");
    eventually("a picture of the new renderer", || {
        (colours(&look()) > 40).then_some(())
    });
    let before = look();
    console("echo after the restart");
    game.line("after the restart");
    assert!(differing(&before, &look()) < 1000);
    assert_eq!(game.count("joins as player"), 1, "{}", game.text());

    console("quit");
    let (status, text) = game.ended();
    assert!(status.success(), "{text}");
    let (status, text) = player.ended();
    assert!(status.success(), "{text}");
}
