//! The sound of a game under `openuvr run` is played at the client, and on no other sink.

use std::ffi::OsStr;
use std::io::Write as _;

use openuvr_media::audio::pulse::Capture;
use openuvr_media::audio::tone::Sine;
use openuvr_media::audio::{AudioCapture as _, AudioEvent, CHANNELS, Settings};
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{Run, displays};
use crate::support::pulse_server::PulseServer;
use crate::support::sound::{LEVEL, bytes, samples, tenths_at};
use crate::support::{Display, Folder, eventually};

const PITCH: f64 = 500.0;

/// Shows pictures and plays the file `$TONE`. Both end when this command ends.
const GAME: &str = "echo $$ >\"$MARKS/id\"; glxgears >/dev/null 2>&1 & gears=$!; \
    pacat --raw --format=float32le --rate=48000 --channels=2 \"$TONE\" >/dev/null 2>&1 & player=$!; \
    trap 'kill $gears $player; exit 0' TERM; wait $gears";

/// Length of the tone in seconds: longer than the longest wait of a test,
/// [`support::TIMEOUT`](crate::support::TIMEOUT).
const LENGTH: usize = 150;

struct Rig {
    server: PulseServer,
    here: Display,
    there: Display,
    files: Folder,
}

impl Rig {
    fn start() -> Option<Rig> {
        let server = PulseServer::start()?;
        let (here, there) = displays("640x480")?;
        let files = Folder::new();
        let mut tone = std::fs::File::create(files.join("tone")).expect("a file");
        let second = bytes(&mut Sine::new(PITCH, LEVEL));
        for _ in 0..LENGTH {
            // Each second contains a whole number of periods.
            tone.write_all(&second).expect("there is room");
        }
        Some(Rig {
            server,
            here,
            there,
            files,
        })
    }

    fn game(&self) -> Run {
        let tone = self.files.join("tone");
        let variables = [
            ("PULSE_SERVER", OsStr::new(&self.server.address)),
            ("TONE", OsStr::new(&tone)),
        ];
        Run::with(
            &self.here,
            &["--sound", "auto"],
            &variables,
            &["sh", "-c", GAME],
        )
    }

    fn game_sinks(&self) -> Vec<String> {
        let mut sinks = self.server.sinks();
        sinks.retain(|sink| sink.starts_with("openuvr_"));
        sinks
    }
}

/// Whether the default sink is silent for a second.
fn default_sink_is_silent(server: &PulseServer) -> bool {
    let device = Some("usual.monitor".to_owned());
    let settings = Settings {
        device,
        ..Settings::default()
    };
    let mut capture = Capture::open(Some(&server.address), &settings).expect("a monitor");
    let mut second = vec![0.0_f32; 48_000 * CHANNELS];
    let read = capture.read(&mut second, Some(crate::support::TIMEOUT));
    assert!(matches!(read, Ok(AudioEvent::Captured(_))), "{read:?}");
    second.iter().all(|sample| sample.abs() < 1e-3)
}

#[test]
fn a_game_is_heard_at_the_client_alone() {
    let Some(rig) = Rig::start() else {
        return;
    };
    let mut run = rig.game();
    let recording = rig.files.join("recording.wav");
    let sound = format!("wav:{recording}");
    let _client = run.client(&rig.there, &["--sound", &sound]);
    eventually("two seconds of what the game plays", || {
        let found = tenths_at(&samples(recording.as_ref()), PITCH, LEVEL);
        (found >= 20).then_some(())
    });
    assert_eq!(rig.game_sinks().len(), 1);
    assert!(default_sink_is_silent(&rig.server));
    run.program.signal(Signal::TERM);
    let (_, text) = run.wait();
    assert!(
        rig.game_sinks().is_empty(),
        "{:?}: {text}",
        rig.game_sinks()
    );
}

#[test]
fn the_next_run_removes_a_killed_runs_sink() {
    let Some(rig) = Rig::start() else {
        return;
    };
    let mut first = rig.game();
    let before = eventually("a first sink", || rig.game_sinks().pop());
    let id = first.folder.join("id");
    let id = eventually("the game's number", || {
        let text = std::fs::read_to_string(&id).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    });
    first.program.kill();
    // The game has continued without `openuvr run`, and is ended here.
    kill_process(id, Signal::TERM).expect("a child process");
    let left = rig.game_sinks().contains(&before);
    assert!(left, "no process removed it");
    let mut second = rig.game();
    eventually("the second's sink alone", || {
        let sinks = rig.game_sinks();
        (sinks.len() == 1 && sinks[0] != before).then_some(())
    });
    second.program.signal(Signal::TERM);
    second.wait();
    assert!(rig.game_sinks().is_empty(), "{:?}", rig.game_sinks());
}
