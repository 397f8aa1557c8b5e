//! Output of the game and of `openuvr run`. Neither program interrupts lines of the other, and both continue if their
//! output cannot be written.

use std::fs::{File, read_to_string};
use std::process::Stdio;

use crate::rig::hook;
use crate::support::screen::Screen;
use crate::support::{Display, Folder, PIN, Program, client, eventually, openuvr, port_of};

/// The command line of a run with keys in `folder`.
fn args<'a>(folder: &'a str, hook: &'a str, more: &[&'a str], game: &[&'a str]) -> Vec<&'a str> {
    let own = ["run", "--hook", hook, "--config-dir", folder];
    let network = ["--bind", "127.0.0.1:0", "--realtime", "off"];
    [&own[..], &network, &PIN, more, &["--"], game].concat()
}

#[test]
fn a_partial_line_of_the_game_is_not_interrupted() {
    let (Some(here), Some(there)) = (Display::start("640x480"), Display::start("640x480")) else {
        return;
    };
    let folder = Folder::new();
    let (dir, hook) = (folder.join("host"), hook());
    let hook = hook.to_str().expect("a path of text");
    let game = "printf 'Loading... '; glxgears >/dev/null & read line; kill $!; wait; echo; echo over; exit 7";
    let game = ["sh", "-c", game];
    let mut command = openuvr(&args(&dir, hook, &[], &game));
    command.env("DISPLAY", &here.name);
    command.env("XDG_RUNTIME_DIR", folder.path());
    let Some(screen) = Screen::start(120, 40, &command) else {
        return;
    };
    let port = port_of(&screen.row("streaming"));
    let more = [&["--display", &there.name][..], &PIN].concat();
    let desk = client(&folder, "desk", &format!("127.0.0.1:{port}"), &more);
    desk.line("showing");
    screen.row("desk (player)");
    screen.eventually("the line by itself, below what we say", |rows| {
        let index_of = |part: &str| rows.iter().position(|row| row.starts_with(part));
        let joins = index_of("openuvr run: desk joins as player")?;
        let loading = rows.iter().position(|row| row == "Loading...")?;
        (joins < loading && loading < index_of("desk (player)")?).then_some(())
    });
    screen.type_text(&["Enter"]);
    assert_eq!(screen.wait(), 7);
    let rows = screen.rows();
    for line in ["Loading...", "over"] {
        assert!(rows.iter().any(|row| row == line), "{line}: {rows:#?}");
    }
}

#[test]
fn a_run_with_lost_messages_keeps_streaming() {
    let Some(here) = Display::start("640x480") else {
        return;
    };
    let full = File::options().write(true).open("/dev/full");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let hook = hook();
    let hook = hook.to_str().expect("a path of text");
    for error in [full.expect("Linux has it").into(), Stdio::from(writer)] {
        let folder = Folder::new();
        let (dir, csv) = (folder.join("host"), folder.join("run.csv"));
        let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        let more = ["--csv", &csv, "--bind", &address];
        // Only the output of `openuvr run` fails, not that of the game.
        let game = ["sh", "-c", "exec glxgears 2>/dev/null"];
        let mut command = openuvr(&args(&dir, hook, &more, &game));
        command.env("DISPLAY", &here.name);
        command.env("XDG_RUNTIME_DIR", folder.path());
        let mut run = Program::with_stderr("run", command, error);
        let blind = [&["--present", "null"], &PIN[..]].concat();
        let desk = client(&folder, "desk", &address, &blind);
        desk.line("player at");
        let rows = || read_to_string(&csv).unwrap_or_default().lines().count();
        eventually("frames come", || (rows() > 60).then_some(()));
        run.assert_running();
        run.signal(rustix::process::Signal::TERM);
        let (status, _) = run.wait();
        // `openuvr run` was not killed itself. As a shell would, it returns 128 plus the number of SIGTERM, which ended
        // the game.
        assert_eq!(status.code(), Some(128 + 15));
    }
}

#[test]
fn a_game_that_ignores_signals_is_reported() {
    let hook = hook();
    let hook = hook.to_str().expect("a path of text");
    let folder = Folder::new();
    let (dir, started, done) = (
        folder.join("host"),
        folder.join("started"),
        folder.join("done"),
    );
    let script = format!(
        "trap '' INT TERM; touch {started}; until test -e {done}; do sleep 0.1; done; exit 42"
    );
    let game = ["sh", "-c", &script];
    let mut command = openuvr(&args(&dir, hook, &["--input", "none"], &game));
    command.env("XDG_RUNTIME_DIR", folder.path());
    let mut run = Program::start("run", command);
    eventually("the game", || {
        std::fs::exists(&started).ok().filter(|there| *there)
    });
    run.signal(rustix::process::Signal::TERM);
    let line = run.line("the game is still running 3 s after the signal");
    assert!(line.contains("kill -KILL "), "{line}");
    run.assert_running();
    std::fs::write(&done, "").expect("a temporary folder");
    let (status, text) = run.wait();
    assert_eq!(status.code(), Some(42), "{text}");
    assert_eq!(text.matches("kill -KILL").count(), 1, "{text}");
}
