//! Sound from a player at the host's sound server to a client's output: pitch, level, and cases without sound.

use std::path::PathBuf;
use std::time::Duration;

use crate::support::pipewire::PipeWire;
use crate::support::pulse_server::PulseServer;
use crate::support::sound::{
    LEVEL, Player, Recorder, from_first_to_last, levels, samples, silent_frames, tenths_at,
};
use crate::support::stalls::measured_without_stalls;
use crate::support::{Folder, Hop, Host, NO_SOUND, Program, Quality, client, eventually, openuvr};

/// The maximum stall of the machine. A longer stall causes silence, which the test cannot distinguish from a fault, so
/// the test measures again.
const STALLED: Duration = Duration::from_millis(250);

const PICTURE: [&str; 6] = ["--source", "pattern", "--size", "320x200", "--fps", "30"];

const PITCH: f64 = 500.0;

/// The pitch of another player.
const OTHER: f64 = 800.0;

/// Samples at a tone's start and end that the codec may fade: 0.1 s.
const EDGE: usize = 9600;

/// A client with its recording and its CSV.
struct Listener {
    program: Program,
    recording: PathBuf,
    csv: PathBuf,
}

impl Listener {
    /// Joins `host` at `address`; its sound goes to a file.
    fn join(host: &Host, name: &str, address: &str, args: &[&str]) -> Listener {
        let recording = host.folder.path().join(format!("{name}.wav"));
        let csv = host.folder.path().join(format!("{name}.csv"));
        // A repeated measurement must not read the files of the previous one.
        for previous in [&recording, &csv] {
            let _ = std::fs::remove_file(previous);
        }
        let sound = format!("wav:{}", recording.display());
        let own = ["--present", "null", "--csv", csv.to_str().expect("text")];
        let args = [&own[..], &["--sound", &sound], args].concat();
        Listener {
            program: client(&host.folder, name, address, &args),
            recording,
            csv,
        }
    }

    /// Waits until the recording has a pitch at a level for this many 0.1 s windows.
    fn wait_for_tone(&self, pitch: f64, level: f64, tenths: usize) {
        eventually(
            &format!("{tenths} tenths of a second of {pitch} Hz"),
            || {
                let found = tenths_at(&samples(&self.recording), pitch, level);
                (found >= tenths).then_some(())
            },
        );
    }

    /// Waits for new CSV rows with audio statistics.
    fn wait_for_report(&self) {
        let before = rows(&self.csv, "audio_delay_ns").len();
        // Rows and reports are written once a second.
        eventually("later rows", || {
            (rows(&self.csv, "audio_delay_ns").len() > before + 90).then_some(())
        });
    }
}

/// A column of a CSV.
fn rows(csv: &std::path::Path, column: &str) -> Vec<String> {
    let text = std::fs::read_to_string(csv).unwrap_or_default();
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default().split(',');
    let Some(index) = names.clone().position(|name| name == column) else {
        return Vec::new();
    };
    let fields = lines.map(|line| line.split(',').nth(index).unwrap_or_default().to_owned());
    fields.collect()
}

/// The newest number of concealed sample frames in a CSV.
fn concealed(csv: &std::path::Path) -> usize {
    last_sum(csv, "audio_concealed_samples")
}

fn last_sum(csv: &std::path::Path, column: &str) -> usize {
    let rows = rows(csv, column);
    let last = rows.iter().rev().find_map(|row| row.parse().ok());
    last.expect("a report of the client")
}

/// Checks that at least four of five 0.1 s windows contain [`PITCH`] at the played level. A client that gets too little
/// processor time reports underruns; for each underrun, one more window may be wrong.
fn check_tone(tone: &[f32], csv: &std::path::Path) -> Result<(), String> {
    let (right, tenths) = (tenths_at(tone, PITCH, LEVEL), levels(tone, PITCH).len());
    let dry = last_sum(csv, "audio_underruns");
    match (right + dry) * 10 >= tenths * 8 {
        true => Ok(()),
        false => Err(format!(
            "{right} of {tenths} tenths contain the tone, {dry} underruns"
        )),
    }
}

fn threads(program: &Program) -> Vec<String> {
    let folder = format!("/proc/{}/task", program.id());
    let tasks = std::fs::read_dir(folder).expect("it runs").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

fn has_audio_thread(program: &Program) -> bool {
    threads(program).iter().any(|name| name == "ouvr-audio")
}

/// Waits for more frames in a client's CSV.
fn wait_for_frames(csv: &std::path::Path) {
    let before = rows(csv, "outcome").len();
    eventually("more frames", || {
        (rows(csv, "outcome").len() > before + 30).then_some(())
    });
}

fn host(server: &PulseServer, clients: &[&str]) -> Host {
    let args = [&PICTURE[..], &["--sound", "pulse:usual"]].concat();
    Host::with_sound(&server.address, clients, &args)
}

#[test]
fn a_client_hears_a_program_at_the_host() {
    let Some(server) = PulseServer::start() else {
        return;
    };
    let host = host(&server, &["client"]);
    measured_without_stalls(3, STALLED, || hears_a_program(&server, &host));
}

/// Checks that a new client plays a tone of the host's sound server. Returns an error for a spoiled tone.
fn hears_a_program(server: &PulseServer, host: &Host) -> Result<(), String> {
    let mut client = Listener::join(host, "client", &host.address(), &["--table", "on"]);
    client.program.line("showing");
    assert!(has_audio_thread(&client.program) && has_audio_thread(&host.program));
    let played = host.folder.path().join("played");
    let recorder = Recorder::start(&server.address, "usual", &played);
    let player = Player::start(&server.address, "usual", PITCH);
    client.wait_for_tone(PITCH, LEVEL, 40);
    drop((player, recorder));
    // This report includes all concealment within the tone.
    client.wait_for_report();
    let output = client.program.stop();
    let all = samples(&client.recording);
    let length = std::fs::metadata(&client.recording).expect("a file").len();
    assert_eq!(length, 44 + all.len() as u64 * 2, "the file is finished");
    let tone = from_first_to_last(&all);
    check_tone(tone, &client.csv)?;
    let tenths = levels(tone, PITCH).len();
    let wrong = levels(tone, OTHER).iter().filter(|l| **l > 0.05).count();
    // A gap in the tone contains all pitches, so each underrun may spoil one more window.
    let dry = last_sum(&client.csv, "audio_underruns");
    if wrong > tenths / 5 + dry {
        return Err(format!(
            "{wrong} of {tenths} tenths contain another tone, {dry} underruns"
        ));
    }
    let (silent, concealed) = (
        silent_frames(&tone[EDGE..tone.len() - EDGE]),
        concealed(&client.csv),
    );
    // Samples that the player itself skipped for lack of processor time are not a fault of the stream.
    let left_out = silent_frames(from_first_to_last(&samples(&played)));
    // A client that gets too little processor time has more silence, and reports it.
    let allowed = match output.contains(" underruns") {
        true => tone.len() / 20,
        false => concealed + left_out,
    };
    if silent > allowed {
        return Err(format!(
            "{silent} silent, {concealed} concealed, {left_out} not played"
        ));
    }
    assert!(output.contains("sound p50"), "{output}");
    let late = rows(&client.csv, "audio_latency_ns");
    assert!(late.iter().any(|row| !row.is_empty()), "latency is known");
    Ok(())
}

#[test]
fn sound_of_pipewire_is_heard() {
    let Some(server) = PipeWire::start() else {
        return;
    };
    let args = [&PICTURE[..], &["--sound", "pulse:usual"]].concat();
    let host = Host::with_sound(&server.address, &["client"], &args);
    let client = Listener::join(&host, "client", &host.address(), &[]);
    let _player = Player::start(&server.address, "usual", PITCH);
    // The amount of loss is checked with PulseAudio, because PipeWire's threads have no real-time priority here and
    // skip late data.
    client.wait_for_tone(PITCH, LEVEL, 20);
    assert_eq!(tenths_at(&samples(&client.recording), OTHER, LEVEL), 0);
}

#[test]
fn two_clients_have_separate_volumes() {
    let Some(server) = PulseServer::start() else {
        return;
    };
    let host = host(&server, &["one", "two"]);
    let one = Listener::join(&host, "one", &host.address(), &[]);
    let two = Listener::join(&host, "two", &host.address(), &["--volume", "50"]);
    let _player = Player::start(&server.address, "usual", PITCH);
    one.wait_for_tone(PITCH, LEVEL, 15);
    two.wait_for_tone(PITCH, LEVEL / 2.0, 15);
    assert_eq!(tenths_at(&samples(&two.recording), PITCH, LEVEL), 0);
}

#[test]
fn sound_that_is_off_at_one_end_has_no_thread() {
    let Some(server) = PulseServer::start() else {
        return;
    };
    let _player = Player::start(&server.address, "usual", PITCH);
    let args = [&PICTURE[..], &["--sound", "off"]].concat();
    let mute = Host::with_sound(&server.address, &["client"], &args);
    let client = Listener::join(&mute, "client", &mute.address(), &[]);
    client.program.line("showing");
    wait_for_frames(&client.csv);
    assert!(!has_audio_thread(&mute.program) && !has_audio_thread(&client.program));
    assert!(samples(&client.recording).is_empty());

    let host = host(&server, &["deaf"]);
    let csv = host.folder.join("deaf.csv");
    let deaf = host.headless_client("deaf", &["--sound", "off", "--csv", &csv]);
    deaf.line("showing");
    wait_for_frames(csv.as_ref());
    assert!(!has_audio_thread(&deaf));
    let delays = rows(csv.as_ref(), "audio_delay_ns");
    assert!(delays.iter().all(String::is_empty), "{delays:?}");
}

#[test]
fn a_missing_sound_server_fails_only_if_required() {
    let why = "can't reach a sound server";
    let args = [&PICTURE[..], &["--sound", "auto"]].concat();
    let host = Host::paired_with(&["client"], &args);
    assert_eq!(host.program.count(why), 1, "{}", host.program.text());
    let csv = host.folder.join("client.csv");
    let client = host.headless_client("client", &["--sound", "auto", "--csv", &csv]);
    client.line("showing");
    wait_for_frames(csv.as_ref());
    // By default, a client on the host's own machine plays no sound.
    let here = "the host is this machine";
    assert_eq!(client.count(here), 1, "{}", client.text());

    let folder = Folder::new();
    let dir = folder.join("keys");
    let insists = ["--config-dir", &dir, "--sound", "pulse:usual"];
    let host = [&["host", "--bind", "127.0.0.1:0"], &PICTURE[..], &insists].concat();
    let client = [
        &["client", "127.0.0.1:9", "--present", "null"][..],
        &insists,
    ]
    .concat();
    for args in [host, client] {
        let mut command = openuvr(&args);
        command.env("PULSE_SERVER", NO_SOUND);
        let line = Program::start(args[0], command).fails_in_one_line();
        assert!(line.contains(why) && line.contains("start one"), "{line}");
    }
}

#[test]
fn sound_comes_back_with_its_server() {
    let Some(mut server) = PulseServer::start() else {
        return;
    };
    let host = host(&server, &["client"]);
    let client = Listener::join(&host, "client", &host.address(), &[]);
    let player = Player::start(&server.address, "usual", PITCH);
    client.wait_for_tone(PITCH, LEVEL, 5);
    server.kill();
    drop(player);
    host.program.line("no sound for now");
    wait_for_frames(&client.csv);
    server.again();
    let _player = Player::start(&server.address, "usual", OTHER);
    client.wait_for_tone(OTHER, LEVEL, 5);
    let count = host.program.count("no sound for now");
    assert_eq!(count, 1, "{}", host.program.text());
    wait_for_frames(&client.csv);
}

#[test]
fn sound_follows_the_default_sink() {
    let Some(server) = PulseServer::start() else {
        return;
    };
    server.add_sink("headphones");
    let args = [&PICTURE[..], &["--sound", "pulse"]].concat();
    let host = Host::with_sound(&server.address, &["client"], &args);
    let client = Listener::join(&host, "client", &host.address(), &[]);
    let _before = Player::start(&server.address, "usual", PITCH);
    client.wait_for_tone(PITCH, LEVEL, 5);
    server.pactl(&["set-default-sink", "headphones"]);
    host.program
        .line("openuvr host: sound capture switched to the default device: headphones");
    let _after = Player::start(&server.address, "headphones", OTHER);
    client.wait_for_tone(OTHER, LEVEL, 5);
    assert_eq!(
        host.program.count("sound capture switched"),
        1,
        "reported once"
    );
}

#[test]
fn a_lossy_link_makes_no_gap_in_the_sound() {
    let Some(server) = PulseServer::start() else {
        return;
    };
    let host = host(&server, &["client"]);
    measured_without_stalls(3, STALLED, || hears_through_losses(&server, &host));
}

/// Checks that a new client behind a link with 10 % loss plays a tone. Returns an error for a spoiled tone.
fn hears_through_losses(server: &PulseServer, host: &Host) -> Result<(), String> {
    let hop = Hop::start(host, 0, Quality::both("loss=10%").seeded(7));
    host.add_address("client", &hop.address());
    let mut client = Listener::join(host, "client", &hop.address(), &["--table", "on"]);
    let player = Player::start(&server.address, "usual", PITCH);
    client.wait_for_tone(PITCH, LEVEL, 60);
    drop(player);
    client.wait_for_report();
    let output = client.program.stop();
    let all = samples(&client.recording);
    let tone = from_first_to_last(&all);
    assert!(output.contains("sound p50"), "{output}");
    check_tone(tone, &client.csv)?;
    let made_up = concealed(&client.csv);
    // Each payload is repeated in the next packet, so that 10 % of loss leaves 1 %. A slow machine also conceals late
    // payloads. Without the repetition, 10 % would be concealed. The limit is 8 %.
    match made_up * 25 < all.len() {
        true => Ok(()),
        false => Err(format!("{made_up} of {} concealed", all.len() / 2)),
    }
}

/// Starts a client that plays the host's sound to a sink of the server.
fn play_to_sink(server: &PulseServer, host: &Host, name: &str, sink: &str) -> (Program, PathBuf) {
    let csv = host.folder.path().join(format!("{name}.csv"));
    let (dir, sink) = (host.folder.join(name), format!("pulse:{sink}"));
    let (address, file) = (host.address(), csv.to_str().expect("text"));
    let own = ["client", &address, "--config-dir", &dir, "--name", name];
    let how = ["--realtime", "off", "--present", "null", "--csv", file];
    let mut command = openuvr(&[&own[..], &how, &["--sound", &sink]].concat());
    command.env("PULSE_SERVER", &server.address);
    (Program::start(name, command), csv)
}

#[test]
fn a_sink_with_a_changed_rate_is_heard() {
    let Some(server) = PulseServer::start() else {
        return;
    };
    let load = |rate: &str| {
        let rate = format!("rate={rate}");
        let args = ["load-module", "module-null-sink", "sink_name=out", &rate];
        server.pactl(&args).trim().to_owned()
    };
    let module = load("48000");
    let args = [&PICTURE[..], &["--sound", "pulse:out"]].concat();
    let host = Host::with_sound(&server.address, &["client"], &args);
    let client = Listener::join(&host, "client", &host.address(), &[]);
    let player = Player::start(&server.address, "out", PITCH);
    client.wait_for_tone(PITCH, LEVEL, 5);
    server.pactl(&["unload-module", &module]);
    drop(player);
    host.program.line("no sound for now");
    wait_for_frames(&client.csv);
    load("44100");
    let _player = Player::start(&server.address, "out", OTHER);
    client.wait_for_tone(OTHER, LEVEL, 5);
    wait_for_frames(&client.csv);
}

#[test]
fn a_stuck_sound_server_blocks_no_client() {
    let Some(server) = PulseServer::start() else {
        return;
    };
    let args = [
        "load-module",
        "module-null-sink",
        "sink_name=out",
        "rate=48000",
    ];
    server.pactl(&args);
    let host = host(&server, &["listener", "player", "other"]);
    let listener = Listener::join(&host, "listener", &host.address(), &[]);
    let (mut player, played) = play_to_sink(&server, &host, "player", "out");
    let _tone = Player::start(&server.address, "usual", PITCH);
    listener.wait_for_tone(PITCH, LEVEL, 10);
    player.line("showing");
    server.hold();
    wait_for_frames(&listener.csv);
    wait_for_frames(&played);
    // While the server hangs, a client can still leave. A new client that requires sound gets an error.
    player.stop();
    let (mut other, _) = play_to_sink(&server, &host, "other", "out");
    let line = other.fails_in_one_line();
    assert!(line.contains("does not respond: restart it"), "{line}");
    server.go_on();
    let before = tenths_at(&samples(&listener.recording), PITCH, LEVEL);
    listener.wait_for_tone(PITCH, LEVEL, before + 10);
}
