//! A client's microphone, recorded by a program at the host's sound server: pitch, level, and microphones that must not
//! be recorded.

use std::io::Read as _;
use std::process::{Command, Stdio};

use openuvr_media::audio::{CHANNELS, RATE};

use crate::support::pulse_server::PulseServer;
use crate::support::sound::{LEVEL, Player, tenths_at};
use crate::support::{Folder, Host, Program, eventually, openuvr};

const HOST: [&str; 8] = [
    "--source", "pattern", "--size", "320x200", "--fps", "30", "--sound", "off",
];

const PITCH: f64 = 500.0;
const OTHER: f64 = 800.0;

/// Records `seconds` of samples from a source with `parec`. The recording starts when the source delivers samples.
fn recorded(server: &PulseServer, source: &str, seconds: usize) -> Vec<f32> {
    let mut child = Command::new("parec")
        .args(["--raw", "--format=float32le", "--rate=48000"])
        .args([
            "--channels=2",
            "--latency-msec=20",
            &format!("--device={source}"),
        ])
        .env("PULSE_SERVER", &server.address)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("parec, of the package pulseaudio-utils");
    let mut bytes = vec![0; seconds * RATE as usize * CHANNELS * 4];
    let output = child.stdout.as_mut().expect("piped");
    output.read_exact(&mut bytes).expect("it records");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let sample = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes.chunks_exact(4).map(sample).collect()
}

fn wait_for_tone(server: &PulseServer, source: &str, pitch: f64) {
    let what = format!("more than half of two seconds of {pitch} Hz");
    eventually(&what, || {
        let tenths = tenths_at(&recorded(server, source, 2), pitch, LEVEL);
        (tenths >= 12).then_some(())
    });
}

fn join_speaking(host: &Host, name: &str, pitch: f64, more: &[&str]) -> Program {
    let microphone = format!("tone:{pitch}");
    let args = [&["--sound", "off", "--microphone", &microphone][..], more].concat();
    host.headless_client(name, &args)
}

fn is_captured(program: &Program) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", program.id())).expect("it runs");
    let names = tasks.flatten();
    let mut names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.any(|name| name.starts_with("ouvr-microphone"))
}

fn source_of(host: &Host) -> String {
    let line = host
        .program
        .line("the player's microphone is available as the source");
    let name = line.split_whitespace().last().expect("a name");
    name.to_owned()
}

#[test]
fn an_application_records_the_player() {
    let Some(server) = PulseServer::start() else {
        return;
    };
    let args = [&HOST[..], &["--microphone", "on"]].concat();
    let mut host = Host::with_sound(&server.address, &["player", "watcher"], &args);
    let source = source_of(&host);
    let sources = server.pactl(&["list", "short", "sources"]);
    assert!(sources.contains(&source), "{sources}");
    let player = join_speaking(&host, "player", PITCH, &[]);
    wait_for_tone(&server, &source, PITCH);
    // An observer's microphone is not used.
    let watcher = join_speaking(&host, "watcher", OTHER, &["--observe"]);
    watcher.line("showing");
    eventually("its microphone", || is_captured(&watcher).then_some(()));
    let both = recorded(&server, &source, 2);
    assert_eq!(tenths_at(&both, OTHER, LEVEL), 0);
    drop(player);
    host.program.stop();
    let left = server.pactl(&["list", "short", "modules"]);
    assert!(!left.contains("openuvr_"), "{left}");
}

#[test]
fn the_microphone_follows_the_default_source() {
    let (Some(there), Some(here)) = (PulseServer::start(), PulseServer::start()) else {
        return;
    };
    let args = [&HOST[..], &["--microphone", "on"]].concat();
    let host = Host::with_sound(&there.address, &["player"], &args);
    let source = source_of(&host);
    // The monitors of two sinks stand in for two microphones.
    here.add_sink("headset");
    here.pactl(&["set-default-source", "usual.monitor"]);
    let (address, dir) = (host.address(), host.folder.join("player"));
    let own = [
        "client",
        &address,
        "--config-dir",
        &dir,
        "--name",
        "player",
        "--realtime",
        "off",
    ];
    let how = ["--present", "null", "--sound", "off", "--microphone", "on"];
    let mut command = openuvr(&[&own[..], &how].concat());
    command.env("PULSE_SERVER", &here.address);
    let client = Program::start("player", command);
    let _before = Player::start(&here.address, "usual", PITCH);
    wait_for_tone(&there, &source, PITCH);
    here.pactl(&["set-default-source", "headset.monitor"]);
    client.line("openuvr client: the microphone switched to the default device: headset");
    let _after = Player::start(&here.address, "headset", OTHER);
    wait_for_tone(&there, &source, OTHER);
    assert_eq!(client.count("the microphone switched"), 1, "reported once");
}

#[test]
fn nothing_is_captured_for_a_host_without_it() {
    let host = Host::paired_with(&["client"], &HOST);
    let client = join_speaking(&host, "client", PITCH, &[]);
    client.line("showing");
    // A grant of the host would have arrived before the first picture.
    assert!(!is_captured(&client));
}

#[test]
fn a_missing_microphone_is_one_error_line() {
    let folder = Folder::new();
    let dir = folder.join("keys");
    for (args, why) in [
        (
            ["client", "127.0.0.1:9", "--microphone", "on"],
            "microphone: can't reach a sound server",
        ),
        (
            ["client", "127.0.0.1:9", "--microphone", "kazoo"],
            "microphone: unknown sound backend \"kazoo\": choose one of off, on, pulse",
        ),
        (
            ["host", "--bind=127.0.0.1:0", "--microphone", "on"],
            "can't create the microphone: can't reach a sound server",
        ),
    ] {
        let more = match args[0] {
            "host" => &HOST[..],
            _ => &["--present", "null"],
        };
        let command = openuvr(&[&args[..], more, &["--config-dir", &dir]].concat());
        let line = Program::start(args[0], command).fails_in_one_line();
        assert!(line.contains(why), "{line}");
    }
}
