//! The use case of the OpenUVR paper: a host streams a game over a dedicated radio link to a client without a window
//! system, and a sensor of the client turns the game's view.

use std::time::{Duration, Instant};

use openuvr_testbed::machine::Picture;

use super::radio::{COUNTRY, Radios};
use super::{VGA, inertial, pictures};

/// The folder of the sensor in the machine.
const SENSOR: &str = "/tmp/sensor/iio:device0";

/// Chocolate Doom with the first map of Freedoom, without monsters: only the player changes the view. The view turns in
/// proportion to the mouse motion.
const GAME: &str = "env DISPLAY=:7 HOME=/tmp/game SDL_RENDER_DRIVER=software SDL_AUDIODRIVER=dummy /usr/games/chocolate-doom \
    -iwad /usr/share/games/doom/freedoom1.wad -warp 1 1 -nomonsters -nosound -window -geometry 640x480 -extraconfig /tmp/game.cfg";

/// The maximum duration of a change of the view, on an emulated processor.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Maximum fraction of pixels that differ between two views in the same direction: the weapon and the lights move.
/// Measured: 0.01.
const SAME: f64 = 0.04;

/// Minimum fraction of pixels that differ between views in two directions. Measured: 0.16 for a third of the turn in
/// the test.
const OTHER: f64 = 0.08;

/// Maximum difference of colour components that JPEG causes.
const NOISE: u8 = 25;

/// The fraction of pixels that differ.
fn difference(one: &Picture, other: &Picture) -> f64 {
    if one.size != other.size {
        return 1.0;
    }
    let pairs = one
        .bgrx
        .as_chunks::<4>()
        .0
        .iter()
        .zip(other.bgrx.as_chunks::<4>().0);
    let differ = pairs.filter(|(a, b)| (0..3).any(|n| a[n].abs_diff(b[n]) > NOISE));
    differ.count() as f64 / one.size.pixels() as f64
}

impl Radios {
    /// Writes the files of a sensor, and keeps its FIFO open.
    fn add_sensor(&mut self) {
        let mut script =
            format!("mkdir -p {SENSOR}/buffer {SENSOR}/scan_elements\nmkfifo {SENSOR}/samples\n");
        for (name, text) in inertial::attributes() {
            script += &format!("echo '{text}' >{SENSOR}/{name}\n");
        }
        script +=
            &format!("setsid sh -c 'exec 5<>{SENSOR}/samples; sleep 100000' >/dev/null 2>&1 &\n");
        self.rig.machine.succeed(&script).unwrap();
    }

    /// Turns the sensor by these degrees, with time stamps from `stamp` on. Returns the time stamp for the next sample.
    fn turn_left(&mut self, degrees: f64, mut stamp: i64) -> i64 {
        let mut samples = Vec::new();
        // The last sample is at rest.
        for digits in inertial::turn_left(degrees).into_iter().chain([0]) {
            samples.extend(inertial::sample(digits, stamp));
            stamp += inertial::PERIOD;
        }
        let octal: String = samples.iter().map(|byte| format!("\\{byte:03o}")).collect();
        self.rig
            .machine
            .succeed(&format!("printf '{octal}' >{SENSOR}/samples"))
            .unwrap();
        stamp
    }

    /// Waits until the displayed view's difference from `reference` meets a condition.
    fn wait_for_view(&mut self, reference: &Picture, condition: impl Fn(f64) -> bool) {
        let (end, mut differences) = (Instant::now() + TIMEOUT, Vec::new());
        loop {
            let different = difference(reference, &self.rig.machine.picture().unwrap());
            if condition(different) {
                return;
            }
            differences.push(different);
            let log = |radios: &mut Radios| radios.log("client");
            assert!(Instant::now() < end, "{differences:?}\n{}", log(self));
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

#[test]
fn a_sensor_turns_a_game_that_a_radio_link_carries() {
    let Some(mut radios) = Radios::start(2) else {
        return;
    };
    radios
        .rig
        .machine
        .succeed("mkdir -p /tmp/game; printf 'mouse_acceleration 1.0\\nmouse_threshold 0\\n' >/tmp/game.cfg")
        .unwrap();
    radios.rig.start_x_display(VGA);
    radios.spawn(0, "game", GAME);
    let host = "openuvr host --display :7 --fps 5 --encoder jpeg --sound off --pin 135790 --config-dir /tmp/h";
    radios.spawn(0, "host", host);
    radios.start_access_point(&format!("--country {COUNTRY}"));
    let client = radios.client_command();
    radios.add_sensor();
    let options = "--present kms --sound off --pin 135790 --config-dir /tmp/c --head-pose iio:/tmp/sensor --motion mouse --motion-gain 25";
    radios.spawn(1, "client", &format!("{client} {options}"));
    radios.wait_for("client", "showing");
    let stamp = radios.turn_left(0.0, 1_000_000_000);
    // The game starts with a transition, so the loop waits for a still view.
    let mut ahead = radios.rig.machine.picture().unwrap();
    let end = Instant::now() + TIMEOUT;
    loop {
        std::thread::sleep(Duration::from_secs(3));
        let next = radios.rig.machine.picture().unwrap();
        let still = difference(&ahead, &next) < SAME;
        ahead = next;
        if still {
            break;
        }
        assert!(Instant::now() < end, "{}", radios.log("game"));
    }
    pictures::keep(&ahead, "game-ahead");
    let stamp = radios.turn_left(90.0, stamp);
    radios.wait_for_view(&ahead, |different| different > OTHER);
    pictures::keep(&radios.rig.machine.picture().unwrap(), "game-turned");
    radios.turn_left(-90.0, stamp);
    radios.wait_for_view(&ahead, |different| different < SAME);
    radios.end("client", "TERM");
    radios.end("ap", "INT");
}
