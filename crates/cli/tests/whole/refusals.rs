//! Errors: each is one line with a remedy, and a failure exit code.

use std::net::UdpSocket;
use std::process::Command;

use openuvr_media::encode::{self, automatic};

use crate::support::{
    Display, Folder, Host, NO_SOUND, PIN, Program, client, eventually, openuvr, skip,
};

/// A small, slow test pattern.
const PATTERN: [&str; 6] = ["--source", "pattern", "--size", "320x200", "--fps", "10"];

fn fails(command: Command) -> String {
    Program::start("it", command).fails_in_one_line()
}

/// Runs `openuvr host` with arguments that make its start fail.
fn host_fails(args: &[&str]) -> String {
    let folder = Folder::new();
    let dir = folder.join("host");
    let own = ["host", "--config-dir", &dir, "--realtime", "off"];
    fails(openuvr(&[&own, args].concat()))
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// Starts a client with a new key at a terminal, where the text `typed` is entered.
fn new_client(address: &str, dir: &str, typed: &str) -> Program {
    let args = ["client", address, "--present", "null", "--config-dir", dir];
    Program::at_terminal("client", &openuvr(&args), typed)
}

#[test]
fn a_wrong_pin_is_reported_and_tries_are_limited() {
    let mut host = Host::start(&[&PIN[..], &PATTERN].concat());
    let text = host
        .headless_client("stranger", &["--pin", "000000"])
        .fails_in_one_line();
    assert_contains(&text, &["the PIN is not the one that the host shows"]);
    // The host reports the wrong PIN with the client's address.
    let report = host.program.line("a wrong PIN came from 127.0.0.1:");
    assert_contains(&report, &["2 tries left"]);
    // Each wrong try extends the wait before the next try. A try that comes too early gets an error, and the third
    // wrong try is the last.
    let mut wrong = 1;
    eventually("the last try", || {
        let text = host
            .headless_client("stranger", &["--pin", "000001"])
            .fails_in_one_line();
        let (waits, closed) = (
            text.contains("accepts no attempt now: wait"),
            text.contains("the host is not pairing now"),
        );
        let tried = text.contains("the PIN is not the one");
        assert!(waits || closed || tried, "{text}");
        wrong += usize::from(tried);
        closed.then_some(())
    });
    assert_eq!(wrong, 3);
    host.program.nth_line(3, "a wrong PIN came from 127.0.0.1:");
    host.program.line("no tries left");
    assert_eq!(host.program.count("a wrong PIN"), 3);
    host.program.assert_running();
    assert_eq!(
        host.devices(&["list"]),
        "No devices are paired with this host.\n"
    );
}

#[test]
fn without_a_pairing_window_no_device_pairs() {
    let mut host = Host::paired_with(&["old"], &PATTERN);
    let text = host.headless_client("new", &PIN).fails_in_one_line();
    assert_contains(
        &text,
        &[
            &host.address(),
            "the host is not pairing now",
            "devices pair",
        ],
    );
    let old = host.headless_client("old", &[]);
    old.line("player at");
    host.program.assert_running();
}

#[test]
fn a_host_with_vp9_alone_refuses_clients() {
    let vp9 = ["--encoder", "libvpx-vp9"];
    let mut host = Host::start(&[&PIN[..], &PATTERN, &vp9].concat());
    let client = host.headless_client("new", &PIN);
    client.line("host and client have no common codec: change --encoder at the host");
    host.program.assert_running();
}

#[test]
fn a_new_host_needs_a_pin() {
    let host = Host::start(&[&PIN[..], &PATTERN].concat());
    let text = host.headless_client("new", &[]).fails_in_one_line();
    assert_contains(&text, &["is not paired yet", "--pin"]);
}

#[test]
fn a_terminal_gets_a_pin_prompt() {
    let host = Host::start(&[&PIN[..], &PATTERN].concat());
    let (address, dir) = (host.address(), host.folder.join("new"));
    let pin = format!("{}\n", PIN[1]);
    let client = new_client(&address, &dir, &pin);
    client.line("PIN shown by the host: ");
    client.line("paired with the host");
    client.line("player at");
}

#[test]
fn the_pin_prompt_waits_for_the_hosts_answer() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let folder = Folder::new();
    let dir = folder.join("new");
    let mut client = new_client(&address, &dir, "");
    let (status, text) = client.wait();
    assert_contains(
        &text,
        &[
            &format!("no answer from {address} yet: is the host running, is the address right"),
            "no answer from the host",
        ],
    );
    assert!(!text.contains("PIN shown by the host"), "{text}");
    assert_eq!(status.code(), Some(1), "{text}");
}

#[test]
fn a_silent_host_gives_a_hint() {
    let mut host = Host::paired_with(&["known"], &PATTERN);
    let address = host.address();
    host.program.stop();
    let silent = UdpSocket::bind(&address).expect("the port is free");
    let hint = format!(
        "no answer from {address} yet: is the host running, is the address right, does a firewall drop UDP?"
    );
    let known = host.headless_client("known", &[]);
    let mut new = host.headless_client("new", &PIN);
    known.line(&hint);
    let (status, text) = new.wait();
    assert_contains(&text, &[&hint, "no answer from the host"]);
    assert_eq!(text.matches(&hint).count(), 1, "{text}");
    assert_eq!(status.code(), Some(1), "{text}");
    drop(silent);
}

#[test]
fn ctrl_c_ends_the_pin_prompt() {
    let host = Host::start(&[&PIN[..], &PATTERN].concat());
    let (address, dir) = (host.address(), host.folder.join("new"));
    let mut client = new_client(&address, &dir, "");
    client.line("is new");
    client.type_text("\u{3}");
    let (status, text) = client.wait();
    assert_eq!(status.code(), Some(130), "{text}");
}

#[test]
fn ctrl_c_ends_the_wait_for_a_window() {
    let Some(display) = Display::start("320x200") else {
        return;
    };
    let folder = Folder::new();
    let dir = folder.join("host");
    let own = ["host", "--config-dir", &dir, "--bind", "127.0.0.1:0"];
    let window = ["--display", &display.name, "--window", "missing"];
    let mut host = Program::start("host", openuvr(&[&own[..], &window].concat()));
    host.line("waiting up to 15 s");
    let text = host.stop();
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn the_wait_for_a_window_has_a_limit() {
    let Some(display) = Display::start("320x200") else {
        return;
    };
    let folder = Folder::new();
    let dir = folder.join("host");
    let own = ["host", "--config-dir", &dir, "--bind", "127.0.0.1:0"];
    let window = ["--display", &display.name, "--window", "nosuch"];
    let args = [&own[..], &window, &["--duration", "2s"]].concat();
    let (status, text) = Program::start("host", openuvr(&args)).wait();
    assert_eq!(status.code(), Some(1), "{text}");
    // Both messages state the limit, not the elapsed time.
    assert_contains(
        &text,
        &[
            "waiting up to 2 s",
            "no window with 'nosuch' in its title or class was found within 2.0 s",
        ],
    );
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn a_closed_stdout_is_not_an_error_message() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = openuvr(&["host", "--config-dir", "/nonexistent", "--print-config"]);
    let out = command.stdout(writer).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), &*text), (Some(141), ""));
}

#[test]
fn a_port_in_use_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = host_fails(&[&PATTERN[..], &["--bind", &address]].concat());
    assert_contains(&text, &[&address, "in use"]);
}

#[test]
fn a_missing_display_is_named() {
    // 65533 is beyond the possible displays.
    for name in [":65533", ":6553"] {
        let text = host_fails(&["--display", name, "--bind", "127.0.0.1:0"]);
        assert_contains(&text, &[name]);
    }
    let text = host_fails(&[]);
    assert_contains(&text, &["no X display is known", "--display", "DISPLAY"]);
    let folder = Folder::new();
    let text = client(
        &folder,
        "client",
        "127.0.0.1:9",
        &["--display", ":65533", "--pin", "1234"],
    )
    .fails_in_one_line();
    assert_contains(&text, &[":65533"]);
    let text = client(&folder, "client", "127.0.0.1:9", &PIN).fails_in_one_line();
    assert_contains(&text, &["display", "--display"]);
}

#[test]
fn a_display_without_shared_memory_is_reported() {
    let Some(display) = Display::with("640x360", &["-extension", "MIT-SHM"]) else {
        return;
    };
    let text = host_fails(&["--display", &display.name, "--bind", "127.0.0.1:0"]);
    assert_contains(&text, &["MIT-SHM"]);
    let host = Host::start(&[&PIN[..], &PATTERN].concat());
    let (status, text) = host.client("client", &display, &PIN).wait();
    assert_eq!(status.code(), Some(1), "{text}");
    assert_contains(
        text.lines().last().unwrap_or_default(),
        &["MIT-SHM", "run the client on"],
    );
    // The client exits cleanly.
    host.program.line("client left: it disconnected");
}

#[test]
fn a_missing_encoder_library_is_named() {
    let folder = Folder::new();
    let dir = folder.join("host");
    let args = [
        "host",
        "--config-dir",
        &dir,
        "--bind",
        "127.0.0.1:0",
        "--realtime",
        "off",
    ];
    let mut command = openuvr(&[&args[..], &PATTERN].concat());
    command.env("OPENUVR_X264", "/nonexistent/libx264.so");
    let text = fails(command);
    assert_contains(&text, &["/nonexistent/libx264.so", "--encoder openh264"]);
}

#[test]
fn auto_warns_once_and_streams_without_libx264() {
    if automatic::choice().backend.hardware {
        return skip("a hardware encoder of H.264 works on this machine");
    }
    if let Err(why) = encode::find("openh264").and_then(encode::probe) {
        return skip(&why.to_string());
    }
    let folder = Folder::new();
    let dir = folder.join("host");
    let args = [
        "host",
        "--config-dir",
        &dir,
        "--bind",
        "127.0.0.1:0",
        "--realtime",
        "off",
        "--encoder",
        "auto",
    ];
    let mut command = openuvr(&[&args[..], &PATTERN].concat());
    command.env("OPENUVR_X264", "/nonexistent/libx264.so");
    command.env("PULSE_SERVER", NO_SOUND);
    let host = Program::start("host", command);
    let warning = host.line("so --encoder auto selects openh264");
    assert_contains(&warning, &["/nonexistent/libx264.so", "apt install"]);
    host.line("openuvr host: streaming");
    assert_eq!(host.count("--encoder auto"), 1, "{}", host.text());
}

#[test]
fn a_bad_configuration_file_is_named() {
    let folder = Folder::new();
    let dir = folder.path().join("openuvr");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("host.toml");
    let run = || {
        let mut command = openuvr(&["host", "--bind", "127.0.0.1:0", "--source", "pattern"]);
        command.env("XDG_CONFIG_HOME", folder.path());
        command
    };
    let path = file.to_str().unwrap();
    for (content, parts) in [
        ("fsp = 30\n", ["fsp", "openuvr host --help"]),
        ("fps = 1000\n", ["fps", "240"]),
        ("bitrate = \"much\"\n", ["bitrate", "much"]),
        ("fps = [\n", [":1:", "unclosed"]),
    ] {
        std::fs::write(&file, content).unwrap();
        let text = fails(run());
        assert_contains(&text, &[path]);
        assert_contains(&text, &parts);
    }
    // A directory cannot be read as a file, not even by root.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_contains(&fails(run()), &[path]);
}

#[test]
fn a_bad_value_is_reported_with_the_allowed_ones() {
    for (args, parts) in [
        (["--fps", "0"], ["fps", "240"]),
        (["--slices", "65"], ["slices", "64"]),
        (["--bitrate", "1"], ["bitrate", "1G"]),
        (["--encoder", "vp9"], ["encoder", "x264"]),
        (
            ["--encoder", "x264,vp9"],
            ["encoder", "separated by commas"],
        ),
        (
            ["--encoder", "x264,openh264"],
            ["both encode H.264", "openh264 would never be used"],
        ),
        (
            ["--encoder-option", "bframes=2"],
            ["option bframes is refused", "delay"],
        ),
        (
            ["--encoder-option", "prest=faster"],
            ["option prest is refused", "libx264 has no such option"],
        ),
        (
            ["--encoder-option", "preset"],
            ["--encoder-option must be NAME=VALUE", "`preset`"],
        ),
    ] {
        let folder = Folder::new();
        let dir = folder.join("host");
        let mut command = openuvr(&["host", "--config-dir", &dir]);
        command.args(["--source", "pattern"]).args(args);
        let (status, text) = Program::start("host", command).wait();
        assert!(!status.success(), "{args:?}: {text}");
        assert_contains(&text, &parts);
    }
}

#[test]
fn a_second_player_can_be_rejected() {
    let args = [&PATTERN[..], &["--second-player", "refuse"]].concat();
    let host = Host::paired_with(&["first", "second"], &args);
    let mut first = host.headless_client("first", &[]);
    first.line("player at");
    let text = host.headless_client("second", &[]).wait();
    assert_ne!(text.0.code(), Some(0));
    assert_contains(&text.1, &["--observe"]);
    let watcher = host.headless_client("second", &["--observe"]);
    watcher.line("observer at");
    first.assert_running();
    assert_eq!(
        first.count("at "),
        1,
        "the player got no message: {}",
        first.text()
    );
}

#[test]
fn a_second_player_can_take_over() {
    let args = [&PATTERN[..], &["--second-player", "take-over"]].concat();
    let host = Host::paired_with(&["first", "second", "third"], &args);
    let mut first = host.headless_client("first", &[]);
    first.line("player at");
    let second = host.headless_client("second", &["--take-over"]);
    second.line("player at");
    first.line("observer at");
    host.program.line("first is now observer");
    let third = host.headless_client("third", &[]);
    third.line("another client plays; take over its role (--take-over)");
    drop(second);
    host.program.line("first is now player");
    first.assert_running();
}

#[test]
fn a_reconnection_does_not_repeat_a_takeover() {
    let args = [&PATTERN[..], &["--second-player", "take-over"]].concat();
    let mut host = Host::paired_with(&["first", "second"], &args);
    let first = host.headless_client("first", &["--take-over"]);
    first.line("player at");
    let second = host.headless_client("second", &["--take-over"]);
    second.line("player at");
    first.line("observer at");
    // Both clients reconnect, in any order.
    host.program.stop();
    let host = host.restart();
    host.program.line("first joins as observer");
    host.program.line("second joins as player");
    assert_eq!(host.program.count("is now"), 0, "{}", host.program.text());
}

#[test]
fn a_client_without_pictures_reports_the_reason() {
    let host = Host::start(&[&PIN[..], &PATTERN].concat());
    let client = host.headless_client("guest", &PIN);
    client.line("decoding 320x200, showing nothing (--present null)");
    let host = Host::start(&[&PIN[..], &PATTERN, &["--encoder", "null"]].concat());
    let client = host.headless_client("guest", &PIN);
    client.line("frames arrive, but the host's encoder makes no pictures (codec null)");
}

#[test]
fn without_a_common_codec_both_sides_are_named() {
    let host = Host::start(&[&PIN[..], &PATTERN, &["--encoder", "null"]].concat());
    let strict = [&PIN[..], &["--codec", "h264"]].concat();
    let (status, text) = host.headless_client("strict", &strict).wait();
    assert!(!status.success(), "an error exit");
    assert_contains(&text, &["--encoder at the host", "--codec at the client"]);
}

#[test]
fn forbidding_a_device_ends_its_live_session() {
    let mut host = Host::paired_with(&["guest", "friend"], &PATTERN);
    let mut friend = host.headless_client("friend", &[]);
    friend.line("player at");
    let mut guest = host.headless_client("guest", &[]);
    guest.line("showing");
    assert_contains(&host.devices(&["forbid", "guest"]), &["forbidden: guest"]);
    let (status, text) = guest.wait();
    assert_contains(&text, &["this device is forbidden"]);
    assert!(!status.success(), "an error exit");
    host.program.line("guest left");
    // The forbidden device cannot reconnect, and gets the reason. A PIN does not bypass this.
    for args in [&[][..], &PIN] {
        let (status, text) = host.headless_client("guest", args).wait();
        assert!(!status.success(), "{text}");
        assert_contains(&text, &["the host forbids this device"]);
    }
    // An unknown device does not get that reason.
    let dir = host.folder.path().join("guest");
    std::fs::remove_file(dir.join("client.key")).unwrap();
    let text = host.headless_client("guest", &[]).fails_in_one_line();
    assert_contains(&text, &["does not know this device"]);
    assert_eq!(host.program.count("wrong PIN"), 0);
    friend.assert_running();
    host.program.assert_running();
}

#[test]
fn an_allowed_device_can_connect_again() {
    let host = Host::paired_with(&["guest"], &PATTERN);
    assert_contains(&host.devices(&["forbid", "guest"]), &["forbidden: guest"]);
    let text = host.headless_client("guest", &[]).fails_in_one_line();
    assert_contains(
        &text,
        &["the host forbids this device", "openuvr devices allow"],
    );
    assert_contains(&host.devices(&["allow", "guest"]), &["allowed: guest"]);
    host.headless_client("guest", &[]).line("showing");
}

#[test]
fn a_locked_device_list_blocks_no_session() {
    let host = Host::paired_with(&["guest"], &PATTERN);
    let locked = std::fs::File::create(host.folder.path().join("host/.lock")).unwrap();
    locked.lock().unwrap();
    // Meanwhile, the host attempts to write the time of the last connection.
    let mut guest = host.headless_client("guest", &[]);
    guest.line("showing");
    drop(locked);
    assert_contains(&host.devices(&["forbid", "guest"]), &["forbidden: guest"]);
    let (_, text) = guest.wait();
    assert_contains(&text, &["this device is forbidden"]);
}

#[test]
fn a_device_is_forbidden_without_a_writable_list() {
    let mut host = Host::start(&[&PIN[..], &PATTERN].concat());
    let lock = host.folder.path().join("host/.lock");
    let list = host.folder.path().join("host/devices.toml");
    // A directory cannot be locked as a file, not even by root.
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let mut guest = host.headless_client("guest", &PIN);
    guest.line("showing");
    host.program.nth_line(1, "can't open");
    guest.stop();
    // The paired device stays known as long as this host runs.
    host.headless_client("guest", &[]).line("showing");
    host.program.nth_line(2, "can't open");

    std::fs::remove_dir(&lock).unwrap();
    host.program.stop();
    let host = host.restart();
    let args = [&PIN[..], &["--pair-again", "--reconnect=false"]].concat();
    host.headless_client("guest", &args).line("showing");
    eventually("the device is written down", || {
        std::fs::read_to_string(&list)
            .ok()?
            .contains("guest")
            .then_some(())
    });
    // Now the device is stored, but the time of its connection cannot be written.
    eventually("the lock is a directory", || {
        // The host may create the file again when it writes the list.
        let _ = std::fs::remove_file(&lock);
        std::fs::create_dir(&lock).ok()
    });
    let mut guest = host.headless_client("guest", &[]);
    guest.line("showing");
    host.program.nth_line(1, "can't open");
    let text = std::fs::read_to_string(&list).unwrap();
    // The host must not read a part of the list.
    let new = list.with_extension("new");
    std::fs::write(&new, text.replace("allowed = true", "allowed = false")).unwrap();
    std::fs::rename(&new, &list).unwrap();
    let (_, text) = guest.wait();
    assert_contains(&text, &["this device is forbidden"]);
}

#[test]
fn an_unavailable_page_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let bind = ["--bind", "127.0.0.1:0", "--discoverable=false"];
    let with = |args: &[&str]| host_fails(&[&PATTERN[..], &bind, args].concat());
    assert_contains(
        &with(&["--web", &address]),
        &[
            "--web: cannot serve browsers at",
            &address,
            "in use",
            "choose another port",
        ],
    );
    assert_contains(
        &with(&["--web", "--web-cert", "/nonexistent.pem"]),
        &["--web-cert and --web-key require each other"],
    );
    let files = [
        "--web-cert",
        "/nonexistent.pem",
        "--web-key",
        "/nonexistent.pem",
    ];
    let free = "127.0.0.1:0";
    assert_contains(
        &with(&[&["--web", free][..], &files].concat()),
        &["/nonexistent.pem", "no such file"],
    );
    assert_contains(&with(&files), &["--web-cert and --web-key require --web"]);
    assert_contains(
        &with(&["--web", free, "--ice-servers", "turn:relay.example"]),
        &["ice-servers", "turn:USER:SECRET@HOST"],
    );
    let printed = with(&["--web", free, "--ice-servers", "turn:me:hidden@relay:70000"]);
    assert_contains(&printed, &["ice-servers", "turn:…@relay:70000"]);
    assert_contains(
        &with(&["--ice-servers", "stun:relay.example"]),
        &["--ice-servers is for browsers: it requires --web"],
    );
    for bad in ["desk", "203.0.113.7:0", "0.0.0.0", "203.0.113.7,224.0.0.1"] {
        assert_contains(
            &with(&["--web", free, "--public-address", bad]),
            &["public-address", "203.0.113.7:4711"],
        );
    }
    assert_contains(
        &with(&["--public-address", "203.0.113.7"]),
        &["--public-address is for browsers: it requires --web"],
    );
}
