//! Virtual reality on the page. The application ignores the head pose, so any rotation comes from the page. The headset is
//! emulated by iwer (`npm install` in `page`), which draws into the page's canvas.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openuvr_devtools::{Browser, Tab};
use openuvr_proto::controller::{Buttons, Hand, Haptic};
use openuvr_proto::display::PlayerDisplay;
use openuvr_proto::pose::ReceivedPose;
use serde_json::{Value, json};

use super::start;
use super::support::skip::skip;
use super::support::{PIN, Rig, eventually};
use super::world::{Head, WALL, WALLS, World};

const READ_WALLS: &str = include_str!("walls.js");

/// An emulated headset, instead of the browser's WebXR.
const HEADSET: &str = include_str!("headset.js");

/// A host with virtual reality, and the pose with which its application draws.
fn reality(name: &str) -> (Rig, Head) {
    let head = Arc::new(Mutex::new(None));
    let world = Box::new(World::new(head.clone()));
    (Rig::showing(name, world, Vec::new(), |_| ()), head)
}

/// The newest pose that the application has consumed.
fn takes(rig: &Rig, head: &Head) -> Option<ReceivedPose> {
    let posed = rig.host.pose();
    *head.lock().unwrap_or_else(PoisonError::into_inner) = posed;
    posed
}

/// Opens the page as player.
fn open(rig: &Rig, browser: &mut Browser, query: &str, before: Option<&str>) -> Tab {
    let tab = browser.open("about:blank");
    browser.call(Some(&tab), "Page.enable", &json!({}));
    if let Some(script) = before {
        let source = json!({ "source": script });
        browser.call(Some(&tab), "Page.addScriptToEvaluateOnNewDocument", &source);
    }
    let url = format!("https://127.0.0.1:{}/{query}", rig.address().port());
    browser.call(Some(&tab), "Page.navigate", &json!({ "url": url }));
    browser.log_in(&tab, PIN);
    browser.run(&tab, READ_WALLS);
    tab
}

/// The library that emulates a headset, and code that installs one.
fn headset() -> Option<String> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/page/node_modules/iwer/build/iwer.min.js"
    );
    let library = std::fs::read_to_string(Path::new(path));
    if library.is_err() {
        skip("iwer is not installed: npm install in crates/gateway/page, or ./dev test-web");
    }
    library.ok().map(|library| format!("{library};{HEADSET}"))
}

/// A visible wall: its number, and its edges in pixels from the left of the eye's part of the canvas.
struct WallView {
    wall: usize,
    from: f64,
    to: f64,
}

/// The walls in one eye's part of the canvas.
fn walls(said: &Value) -> Option<Vec<WallView>> {
    let each = said.as_array()?.iter().map(|wall| {
        let colour = wall["colour"].as_array()?.iter().map(Value::as_bool);
        let colour: Vec<bool> = colour.collect::<Option<_>>()?;
        Some((colour, wall["from"].as_f64()?, wall["to"].as_f64()?))
    });
    let each: Vec<_> = each.collect::<Option<_>>()?;
    let known = each.into_iter().filter_map(|(colour, from, to)| {
        let wall = WALLS.iter().position(|wall| wall[..] == colour[..])?;
        Some(WallView { wall, from, to })
    });
    Some(known.collect())
}

/// Yaw of the view in one part of the canvas, in degrees to the left. It is computed from the wall in the middle of
/// that part. This wall must be completely visible.
fn looks(said: &Value, width: f64) -> Option<f64> {
    let middle = width / 2.0;
    let all = walls(said)?;
    let seen = all
        .iter()
        .find(|seen| (seen.from..seen.to).contains(&middle))?;
    // Distances in pixels from the middle of the picture to the wall's edges.
    let (left, right) = (middle - seen.from, seen.to - middle);
    let ahead = (seen.wall as f64 - 3.0) * WALL;
    // Bisection finds the scale at which the wall has its known width in degrees. A larger scale makes this width
    // smaller.
    let width_at =
        |scale: f64| (left / scale).atan().to_degrees() + (right / scale).atan().to_degrees();
    let (mut near, mut far) = (1.0, 100_000.0);
    for _ in 0..60 {
        let scale = f64::midpoint(near, far);
        match width_at(scale) > WALL {
            true => near = scale,
            false => far = scale,
        }
    }
    let to_its_left_edge = (left / near).atan().to_degrees();
    Some(ahead + WALL / 2.0 - to_its_left_edge)
}

/// Yaw of a head in degrees to the left.
fn turned(posed: &ReceivedPose) -> f64 {
    let [_, y, _, w] = posed.pose.orientation().map(f64::from);
    2.0 * y.atan2(w).to_degrees()
}

#[test]
fn a_dragged_mouse_turns_the_head_and_the_picture() {
    let (rig, head) = reality("drag");
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = open(&rig, &mut browser, "?view=left", None);
    browser.until(&tab, "!document.querySelector('#look').hidden");
    // The page shows one eye's view, straight ahead like the application's.
    let sees = |browser: &mut Browser, parts: usize| -> Option<Vec<f64>> {
        let said = browser.run(&tab, &format!("readWalls({parts})"));
        let width = said["width"].as_f64()?;
        let parts = said["all"].as_array()?.iter();
        parts.map(|part| looks(part, width)).collect()
    };
    eventually("the left eye", || {
        let angles = sees(&mut browser, 1)?;
        (angles[0].abs() < 1.0).then_some(())
    });
    assert_eq!(browser.run(&tab, "readWalls(1)")["above"], json!(false));
    assert_eq!(rig.host.pose(), None, "no head pose");
    browser.run(&tab, "document.querySelector('#look').click()");
    let middle = browser.run(
        &tab,
        "(() => { const b = document.querySelector('#reality').getBoundingClientRect(); \
         return [b.left + b.width / 2, b.top + b.height / 2]; })()",
    );
    let (x, y) = (middle[0].as_f64().unwrap(), middle[1].as_f64().unwrap());
    let mouse = |browser: &mut Browser, kind: &str, at: f64| {
        let params = json!({ "type": kind, "x": at, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
        browser.call(Some(&tab), "Input.dispatchMouseEvent", &params);
    };
    mouse(&mut browser, "mousePressed", x);
    // Dragging moves the picture to the left, which turns the head to the right.
    for step in 1..=30 {
        mouse(&mut browser, "mouseMoved", x - 10.0 * f64::from(step));
    }
    mouse(&mut browser, "mouseReleased", x - 300.0);
    let to_left = eventually("a turned head", || {
        takes(&rig, &head)
            .map(|posed| turned(&posed))
            .filter(|to_left| *to_left < -25.0)
    });
    eventually("the turned picture", || {
        let angles = sees(&mut browser, 1)?;
        ((angles[0] - to_left).abs() < 1.0).then_some(())
    });
    assert!(
        rig.received.try_recv().is_err(),
        "the mouse is not sent to the host meanwhile"
    );
    // The statistics contain the latency from a pose to its picture.
    eventually("the statistics", || {
        takes(&rig, &head)?;
        let told = "(document.querySelector('#figures-over').hidden = false, \
                    document.querySelector('#figures-over').textContent)";
        let told = browser.run(&tab, told);
        told.as_str()?
            .contains("pose: InputSampled to Submitted p50")
            .then_some(())
    });
    // Shows both eyes, then disables looking around.
    browser.run(&tab, "document.querySelector('#eyes').click()");
    eventually("both eyes", || {
        let angles = sees(&mut browser, 2)?;
        let near = angles.iter().all(|angle| (angle - to_left).abs() < 1.0);
        near.then_some(())
    });
    browser.run(&tab, "document.querySelector('#look').click()");
    browser.until(&tab, "document.querySelector('#reality').hidden");
}

#[test]
fn a_headset_is_entered_and_left() {
    let (rig, head) = reality("headset");
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let Some(headset) = headset() else { return };
    let tab = open(&rig, &mut browser, "", Some(&headset));
    let enter = "document.querySelector('#enter')";
    browser.until(&tab, &format!("!{enter}.hidden"));
    browser.until(&tab, "!document.querySelector('#look').hidden");
    browser.run(&tab, &format!("{enter}.click()"));
    browser.until(&tab, &format!("{enter}.textContent === 'Leave VR'"));
    for to_left in [0.0, 30.0, -15.0_f64] {
        let half = (to_left / 2.0).to_radians();
        let turn = format!(
            "device.quaternion.set(0, {}, 0, {})",
            half.sin(),
            half.cos()
        );
        browser.run(&tab, &turn);
        eventually("a turned head", || {
            takes(&rig, &head).filter(|posed| (turned(posed) - to_left).abs() < 0.5)
        });
        eventually("both eyes", || {
            let said = browser.run(&tab, "readWalls(2)");
            let width = said["width"].as_f64()?;
            let parts = said["all"].as_array()?.iter();
            let angles: Vec<f64> = parts
                .map(|part| looks(part, width))
                .collect::<Option<_>>()?;
            let near = angles.iter().all(|angle| (angle - to_left).abs() < 1.0);
            near.then_some(())
        });
    }
    // Fields of view of Meta's Quest 3.
    eventually("the display", || {
        let display = rig.host.display()?;
        let [left, right] = display.eyes?.fov.map(|fov| fov.angles());
        let mirrored = (left[0] + right[1]).abs() < 1e-3 && (left[1] + right[0]).abs() < 1e-3;
        let apart = (0.055..0.07).contains(&display.eyes?.between);
        (mirrored && left[0] < -0.3 && apart).then_some(())
    });
    // Controllers and haptic feedback.
    browser.run(
        &tab,
        "device.controllers.right.position.set(0.25, 0.5, -0.75)",
    );
    browser.run(
        &tab,
        "device.controllers.right.updateButtonValue('trigger', 1)",
    );
    browser.run(
        &tab,
        "device.controllers.left.updateAxes('thumbstick', 0.5, -1)",
    );
    eventually("both controllers", || {
        let [left, right] = rig.host.controllers()?.states;
        let (left, right) = (left?, right?);
        let pulled = right.trigger == u16::MAX && right.buttons.contains(Buttons::TRIGGER_TOUCH);
        let pushed = left.thumbstick == (16_384, 32_767) && left.trigger == 0;
        let [x, _, z] = right.grip?.position();
        let is_there = (x - 0.25).abs() < 0.1 && (z + 0.75).abs() < 0.1;
        (pulled && pushed && is_there && left.aim.is_some()).then_some(())
    });
    rig.host.haptic(Haptic {
        hand: Hand::Right,
        amplitude: u16::MAX,
        frequency: 0,
        duration: Duration::from_millis(150),
    });
    browser.until(
        &tab,
        "String(felt('right')) === '1,150' && felt('left') === null",
    );
    // The right eye is bright at the top.
    assert_eq!(browser.run(&tab, "readWalls(2)")["above"], json!(true));
    // After virtual reality is left, no controllers, display or head pose remain.
    browser.run(&tab, &format!("{enter}.click()"));
    browser.until(&tab, &format!("{enter}.textContent === 'Enter VR'"));
    eventually("no controllers and no display", || {
        let none = rig.host.display()? == PlayerDisplay::default();
        (none && rig.host.controllers()?.states == [None, None]).then_some(())
    });
    browser.run(&tab, &format!("{enter}.click()"));
    browser.until(&tab, &format!("{enter}.textContent === 'Leave VR'"));
    // Another tab plays, so this one sends no more poses, and shows the picture on a virtual screen.
    let other = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    browser.until(&other, "!document.querySelector('#role').hidden");
    browser.run(&other, "document.querySelector('#role').click()");
    browser.until(
        &other,
        "document.querySelector('#state').textContent === 'you play'",
    );
    eventually("no head pose", || rig.host.pose().is_none().then_some(()));
    browser.close(&other);
    browser.run(&tab, &format!("{enter}.click()"));
    browser.until(&tab, &format!("{enter}.textContent === 'Enter VR'"));
    browser.until(&tab, "document.querySelector('#reality').hidden");
}

#[test]
fn a_flat_picture_is_a_screen_in_a_headset() {
    let rig = Rig::new("screen", super::SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let Some(headset) = headset() else { return };
    let tab = open(&rig, &mut browser, "", Some(&headset));
    let enter = "document.querySelector('#enter')";
    browser.until(&tab, &format!("!{enter}.hidden"));
    browser.run(&tab, &format!("{enter}.click()"));
    browser.until(&tab, &format!("{enter}.textContent === 'Leave VR'"));
    // Bright in the middle, black around it.
    let lit = "new Promise((done) => requestAnimationFrame(() => { \
        const canvas = document.querySelector('#reality'); \
        const copy = document.createElement('canvas'); \
        [copy.width, copy.height] = [canvas.width, canvas.height]; \
        const context = copy.getContext('2d'); \
        context.drawImage(canvas, 0, 0); \
        const at = (x, y) => context.getImageData(x * copy.width, y * copy.height, 1, 1).data \
            .slice(0, 3).some((level) => level > 40); \
        done([at(0.25, 0.5), at(0.75, 0.5), at(0.02, 0.5), at(0.98, 0.5), at(0.25, 0.02)]); }))";
    eventually("the screen", || {
        let said = browser.run(&tab, lit);
        (said == json!([true, true, false, false, false])).then_some(())
    });
    // The session ends with the connection.
    drop(rig);
    browser.until(&tab, &format!("{enter}.textContent === 'Enter VR'"));
}
