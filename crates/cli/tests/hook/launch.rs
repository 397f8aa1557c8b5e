//! Ways to start programs (through scripts and launchers, with other preloaded libraries), and programs without
//! pictures.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::rig::{GREEN, RED, Run, WHITE, YELLOW, actor, build, displays, wait_for_colours};
use crate::support::machines::{HOST, Machines, on};
use crate::support::{Program, ScreenCapture, eventually, openuvr, port_of, skip};
use crate::xtest::XTest;

#[test]
fn a_game_behind_a_launcher_that_ends_is_streamed() {
    let (Some(actor), Some((here, there))) = (actor(), displays("640x480")) else {
        return;
    };
    let script = format!("(sleep 0.3; exec {actor}) & exit 42");
    let mut run = Run::start(&here, &[], &["sh", "-c", &script]);
    let client = run.client(&there, &[]);
    wait_for_colours(&ScreenCapture::open(&there), RED, GREEN);
    run.acknowledge("seen");
    let (code, text) = run.wait();
    assert_eq!(code, Some(42), "exit code of the launcher: {text}");
    client.line("session ended: the application has ended");
}

#[test]
fn a_game_that_leaves_its_process_group_is_streamed() {
    let (Some(actor), Some((here, there))) = (actor(), displays("640x480")) else {
        return;
    };
    // Daemons and launchers of game stores start programs like this, with short-lived helpers.
    let script = format!(
        "(sleep 0 &); (setsid sleep 0 &)
         setsid sh -c 'setsid sh -c \"sleep 0.5; exec {actor}\" & exit 0' & exit 42"
    );
    let mut run = Run::start(&here, &[], &["sh", "-c", &script]);
    let client = run.client(&there, &[]);
    wait_for_colours(&ScreenCapture::open(&there), RED, GREEN);
    let zombies = || {
        let of_run = format!("Z {} ", run.program.id());
        let all = std::fs::read_dir("/proc")
            .expect("proc is mounted")
            .flatten();
        let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(&of_run)).count()
    };
    eventually("the helpers' end", || (zombies() == 0).then_some(()));
    run.acknowledge("seen");
    let (code, text) = run.wait();
    assert_eq!(code, Some(42), "exit code of the launcher: {text}");
    client.line("session ended: the application has ended");
}

#[test]
fn a_launchers_window_is_shown_and_clicked_until_the_game_draws() {
    let (Some(actor), Some((here, there))) = (actor(), displays("640x480")) else {
        return;
    };
    let mut run = Run::start(&here, &[], &[actor, "welcome"]);
    let client = run.client(&there, &[]);
    let (capture, user) = (ScreenCapture::open(&there), XTest::open(&there));
    wait_for_colours(&capture, WHITE, WHITE);
    let window_is_gone = || run.program.text().contains("the welcome was clicked");
    eventually("the click", || {
        // A client that has just become the player may miss the first click.
        user.move_to(160, 120);
        user.button(1, true);
        user.button(1, false);
        window_is_gone().then_some(())
    });
    // The game's own process takes over, at the same address and with the same client. Before that, the stand-in may
    // stream the game's window, which has the same colours.
    eventually("the game's stream", || {
        let text = run.program.text();
        (text.matches("openuvr run: streaming").count() == 2).then_some(())
    });
    // A client that is still reconnecting at the end of the game would not receive the reason.
    client.nth_line(2, "player at");
    wait_for_colours(&capture, RED, GREEN);
    run.acknowledge("seen");
    let (code, text) = run.wait();
    assert_eq!(code, Some(7), "{text}");
    client.line("session ended: the application has ended");
    let places = text
        .lines()
        .filter(|line| line.contains("openuvr run: streaming"));
    let ports: Vec<u16> = places.map(port_of).collect();
    assert_eq!(ports.len(), 2, "{text}");
    assert_eq!(ports[0], ports[1], "{text}");
    assert!(!text.contains("without a picture"), "{text}");
}

#[test]
fn a_cleared_environment_is_reported() {
    let (Some(actor), Some((here, _))) = (actor(), displays("640x480")) else {
        return;
    };
    let script = format!("env -i DISPLAY=$DISPLAY MARKS=$MARKS {actor}");
    let mut run = Run::start(&here, &[], &["sh", "-c", &script]);
    let line = run.program.line("without LD_PRELOAD");
    assert!(line.contains("no picture yet. actor-"), "{line}");
    assert!(line.contains("env -i"), "{line}");
    run.acknowledge("seen");
    let (code, text) = run.wait();
    assert_eq!(code, Some(7), "{text}");
    assert!(!text.contains("32-bit"), "{text}");
}

#[test]
fn an_unreachable_game_is_not_reported_as_streaming() {
    let (Some(actor), Some((here, _))) = (actor(), displays("640x480")) else {
        return;
    };
    let sandbox = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--"];
    let tried = Command::new("bwrap")
        .args(&sandbox[1..])
        .arg("true")
        .output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return skip(
            "bubblewrap is not installed (apt-get install bubblewrap), or cannot create a sandbox here",
        );
    }
    let mut run = Run::start(&here, &[], &[&sandbox[..], &[actor]].concat());
    run.program.line("no native client can reach the game");
    run.acknowledge("seen");
    let (code, text) = run.wait();
    assert_eq!(code, Some(7), "{text}");
    assert!(!text.contains("streaming"), "{text}");
}

#[test]
fn a_crash_of_a_game_is_reported() {
    let Some((here, _)) = displays("640x480") else {
        return;
    };
    for (script, code, message) in [
        (
            "kill -SEGV $$",
            139,
            "without a picture: it crashed (signal: 11 (SIGSEGV)",
        ),
        (
            "sh -c 'kill -SEGV $$'; exit $?",
            139,
            "a child process crashed (signal: 11",
        ),
        ("exit 3", 3, "without a picture: it failed (exit status: 3)"),
    ] {
        let mut run = Run::start(&here, &[], &["sh", "-c", script]);
        let (status, text) = run.wait();
        assert_eq!(status, Some(code), "{text}");
        assert!(text.contains(message), "{text}");
        assert_eq!(text.contains("32-bit"), code == 3, "hints: {text}");
    }
}

#[test]
fn a_streamed_game_is_discoverable() {
    let (Some(actor), Some((here, _))) = (actor(), displays("640x480")) else {
        return;
    };
    let Some(machines) = Machines::with_ip() else {
        return;
    };
    let folder = crate::support::Folder::new();
    let (hook, dir, lap) = (crate::rig::hook(), folder.join("host"), folder.join("lap"));
    let hook = hook.to_str().expect("a path of text");
    let own = [
        "run",
        "--hook",
        hook,
        "--config-dir",
        &dir,
        "--name",
        "desk",
    ];
    let args = [&own[..], &["--realtime", "off", "--", actor]].concat();
    let mut command = on(&machines.host, &[], folder.path(), Some(&here), &args);
    command.env("MARKS", folder.path());
    let mut run = Program::start("run", command);
    run.line("openuvr run: streaming");
    let hosts = || {
        let args = ["hosts", "--config-dir", &lap];
        let out = on(&machines.client, &[], folder.path(), None, &args).output();
        String::from_utf8(out.expect("it runs").stdout).expect("text")
    };
    let name = Path::new(actor)
        .file_name()
        .expect("a file")
        .to_string_lossy();
    let expected = [format!("desk: {name}"), format!("{HOST}:4710")];
    let text = eventually("it is found", || {
        Some(hosts()).filter(|text| expected.iter().all(|part| text.contains(part)))
    });
    assert!(text.contains("new; pairing is open"), "{text}");
    std::fs::write(folder.path().join("seen"), "").expect("a temporary folder");
    assert_eq!(run.wait().0.code(), Some(7));
    eventually("it is gone", || hosts().is_empty().then_some(()));
}

#[test]
fn a_preloaded_library_finds_its_next_symbol() {
    let (Some(actor), Some((here, there))) = (actor(), displays("640x480")) else {
        return;
    };
    let Some(front) = build("front.c", "front.so", &["-shared", "-fPIC"]) else {
        return;
    };
    let preload = [("LD_PRELOAD", OsStr::new(&front))];
    let mut run = Run::start(&here, &preload, &[actor]);
    let _client = run.client(&there, &[]);
    wait_for_colours(&ScreenCapture::open(&there), RED, GREEN);
    run.acknowledge("seen");
    let (code, text) = run.wait();
    assert_eq!(code, Some(7), "{text}");
    assert!(text.contains("front: swaps came through"), "{text}");
}

#[test]
fn a_program_without_pictures_runs_with_a_reason() {
    let hook = crate::rig::hook();
    let hook = hook.to_str().expect("a path of text");
    let args = ["run", "--hook", hook, "--input", "none", "--"];
    let folder = crate::support::Folder::new();
    let start = |game: &[&str]| {
        let mut command = openuvr(&[&args, game].concat());
        let out = command
            .env("HOME", folder.path())
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        (out.status.code(), text)
    };
    let (code, text) = start(&["sh", "-c", "exit 42"]);
    assert_eq!(code, Some(42), "{text}");
    assert!(text.contains("without a picture"), "{text}");
    let (code, text) = start(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(code, Some(137), "{text}");
    let (code, text) = start(&["/nonexistent/game"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("can't start /nonexistent/game"), "{text}");
    let args = ["run", "--hook", "/nonexistent.so", "--", "true"];
    let out = openuvr(&args).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("can't find libopenuvr_hook.so"), "{text}");
}

#[test]
fn missing_gl_symbols_are_reported_like_libc_does() {
    let (Some(program), Some((here, _))) = (build("symbols.c", "symbols", &[]), displays("64x64"))
    else {
        return;
    };
    let mut run = Run::start(&here, &[], &[&program]);
    let (code, text) = run.wait();
    assert_eq!(code, Some(7), "{text}");
}

#[test]
fn an_unknown_window_name_lists_the_existing_ones() {
    let (Some(actor), Some((here, _))) = (actor(), displays("640x480")) else {
        return;
    };
    let run = Run::with(&here, &["--window", "Missing"], &[], &[actor]);
    let line = run.program.line("with 'Missing'");
    assert!(line.contains("other windows: 'actor'"), "{line}");
}

#[test]
fn only_the_window_of_a_name_is_streamed() {
    let (Some(actor), Some((here, there))) = (actor(), displays("640x480")) else {
        return;
    };
    let mut run = Run::with(&here, &["--window", "ACTOR"], &[], &[actor, "hand-over"]);
    let _client = run.client(&there, &[]);
    let capture = ScreenCapture::open(&there);
    wait_for_colours(&capture, RED, GREEN);
    run.acknowledge("seen");
    // The larger window is never streamed: its pictures have other colours.
    let large = ScreenCapture::open(&here);
    eventually("the larger window", || {
        let shown = large.shot().colours().contains(&[255, 255, 255]);
        shown.then_some(())
    });
    run.acknowledge("large");
    wait_for_colours(&capture, YELLOW, GREEN);
    run.acknowledge("small");
    let (code, text) = run.wait();
    assert_eq!(code, Some(7), "{text}");
    assert_eq!(text.matches("the picture is").count(), 1, "{text}");
}
