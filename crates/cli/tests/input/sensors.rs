//! A simulated inertial sensor of the client's machine controls an application at the host. The application does not
//! support head poses.

use crate::app::{App, Received};
use crate::rig::{Rig, poll_until};
use crate::support::sensor::Sensor;
use crate::support::{Program, eventually};
use crate::xtest::{ALT, CONTROL, SHIFT, XTest};

/// X key codes are Linux key codes plus eight.
const A: u8 = 38;
const B: u8 = 56;
const C: u8 = 54;

/// A sensor, its client and an application at the host.
struct Moved {
    app: App,
    sensor: Sensor,
    client: Program,
    xtest: XTest,
    /// The motion of the application's mouse before the sensor moves the mouse.
    start: (i64, i64),
}

impl Moved {
    /// Starts a client with these options, gives its window the focus, and centres the sensor.
    fn start(rig: &Rig, host: &crate::support::Host, app: App, options: &[&str]) -> Moved {
        let sensor = Sensor::new();
        let head = sensor.spec();
        let motion = ["--head-pose", &head, "--motion", "mouse"];
        let client = rig.client(host, "client", &[&motion[..], options].concat());
        let xtest = XTest::open(&rig.client_side);
        let window = xtest.windows("openuvr").pop().expect("its window");
        xtest.focus(window);
        xtest.move_to(100, 100);
        let mut moved = Moved {
            app,
            sensor,
            client,
            xtest,
            start: (0, 0),
        };
        // The click arrives after the motion of the pointer.
        moved.xtest.button(1, true);
        moved.xtest.button(1, false);
        moved.app.wait_for(Received::ButtonUp(1));
        moved.start = moved.app.moved;
        moved.sensor.turn_left(0.0);
        moved
    }

    /// The motion of the application's mouse since the start, in counts.
    fn counts(&mut self) -> (i64, i64) {
        self.app.poll();
        let (across, down) = self.app.moved;
        (across - self.start.0, down - self.start.1)
    }

    /// Waits until the mouse has moved by `across` counts in all. Rounding in the sensor's data may change the result
    /// by two counts.
    fn wait_for(&mut self, across: i64) {
        let there = poll_until(|| (self.counts().0 - across).abs() <= 2);
        let counts = self.counts();
        assert!(there && counts.1.abs() <= 1, "{counts:?}, not {across}");
    }
}

#[test]
fn a_turned_sensor_turns_the_view_and_recentring_returns_it() {
    let Some(rig) = Rig::new("640x480", "640x480") else {
        return;
    };
    let app = App::open(&rig.host_side, "app", (0, 0, 640, 480));
    let host = rig.host(&[]);
    let mut moved = Moved::start(&rig, &host, app, &["--motion-gain", "20", "--grab"]);
    assert_eq!(moved.sensor.attribute("buffer/enable"), "1");
    moved.sensor.turn_left(-30.0);
    moved.wait_for(600);
    moved.sensor.turn_left(50.0);
    moved.wait_for(-400);
    // This is farther than the display is wide, like a view that keeps turning.
    moved.sensor.turn_left(-100.0);
    moved.wait_for(1600);
    moved.xtest.chord(&[CONTROL, ALT, SHIFT, C]);
    // Recentring takes effect with the next sample.
    eventually("the view is ahead again", || {
        moved.sensor.turn_left(0.0);
        (moved.counts().0.abs() <= 1).then_some(())
    });
    moved.sensor.turn_left(-10.0);
    moved.wait_for(200);
    moved.client.stop();
    assert_eq!(moved.sensor.attribute("buffer/enable"), "0", "as before");
    assert_eq!(moved.sensor.attribute("scan_elements/in_anglvel_x_en"), "0");
}

#[test]
fn a_client_without_the_focus_moves_nothing() {
    let Some(rig) = Rig::new("320x240", "640x480") else {
        return;
    };
    let app = App::open(&rig.host_side, "app", (0, 0, 320, 240));
    let host = rig.host(&[]);
    let mut moved = Moved::start(&rig, &host, app, &["--motion-axes", "-yaw,none"]);
    moved.sensor.turn_left(10.0);
    moved.wait_for(100);
    moved.xtest.key(A, true);
    moved.app.wait_for(Received::Down(A));
    let window = moved.xtest.windows("openuvr").pop().expect("its window");
    let other = App::open(&rig.client_side, "another program", (400, 300, 50, 50));
    moved.xtest.focus(other.window);
    // When the focus is lost, all keys are released.
    moved.app.wait_for(Received::Up(A));
    moved.xtest.key(A, false);
    moved.sensor.turn_left(90.0);
    moved.xtest.focus(window);
    moved.xtest.chord(&[B]);
    moved.app.wait_for(Received::Up(B));
    // The turn that happened without the focus is not sent later.
    assert!(
        (98..=102).contains(&moved.counts().0),
        "{:?}",
        moved.counts()
    );
    moved.sensor.turn_left(10.0);
    moved.wait_for(200);
}
