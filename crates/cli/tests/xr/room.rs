//! The test room under `openuvr xr`: a bar code in each eye's picture encodes the view, which must match the
//! frame's viewpoint.

use openuvr_media::barcode::view::{self, STEP, ViewStamp};
use openuvr_media::picture::Picture;
use openuvr_proto::controller::{ControllerState, Hand};
use openuvr_proto::pose::Pose;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::Viewpoint;
use rustix::process::Signal;

use crate::support::{PIN, Shot};
use crate::watcher::{Watcher, head_pose};
use crate::{BLUE, BOTH, EYE, Hello, RED, centroid};

/// The bar code in one half of the picture.
pub(crate) fn code(shot: &Shot, right: bool) -> Option<ViewStamp> {
    let from = if right { EYE as usize * 4 } else { 0 };
    let size = Size::new(EYE, EYE);
    let stride = shot.size.width as usize * 4;
    view::read(&Picture::bgrx(size, &shot.pixels[from..], stride))
}

/// The bar codes of both eyes, if this is a picture of the room and its frame has a viewpoint.
fn codes(shot: &Shot, with: &Viewpoint) -> Option<[ViewStamp; 2]> {
    let is_complete = shot.size == BOTH && with.pose.is_some() && with.views.is_some();
    is_complete.then(|| Some([code(shot, false)?, code(shot, true)?]))?
}

/// Whether the bar code encodes the direction of this pose. Rounding may change the code by one step.
pub(crate) fn shows_direction(code: &ViewStamp, pose: &Pose) -> bool {
    let output = ViewStamp::default().looking(pose.orientation());
    let off = |a: f32, b: f32| (a - b).abs() < 1.5 * STEP;
    off(code.yaw_degrees(), output.yaw_degrees())
        && off(code.pitch_degrees(), output.pitch_degrees())
}

/// Centroid of one colour in each eye's picture.
fn centroids(shot: &Shot, colour: usize) -> [[f64; 2]; 2] {
    let eye = |from| {
        centroid(shot, colour, [from, 20], [from + EYE, EYE]).expect("pixels of this colour")
    };
    let (left, right) = (eye(0), eye(EYE));
    [left, [right[0] - f64::from(EYE), right[1]]]
}

/// Starts the room under `openuvr xr`. Prints a message and returns `None` if a dependency is missing.
pub(crate) fn room() -> Option<Hello> {
    Hello::with_application("raw", &[], &[env!("CARGO_BIN_EXE_openuvr"), "room"])
}

fn trigger_pulled() -> ControllerState {
    let mut held = ControllerState::new(Hand::Right);
    held.grip = Some(Pose::new([0.2, -0.2, -0.6], [0.0, 0.0, 0.0, 1.0]).expect("a pose"));
    held.trigger = ControllerState::pull(1.0);
    held
}

/// Whether the bar codes of both eyes match this head pose.
fn shows_head(head: Pose) -> impl Fn(&Shot, &Viewpoint) -> bool {
    move |shot, with| {
        codes(shot, with).is_some_and(|codes| codes.iter().all(|c| shows_direction(c, &head)))
    }
}

#[test]
fn the_views_of_a_frame_match_its_picture() {
    let Some(mut room) = room() else {
        return;
    };
    let mut watcher = Watcher::start(room.port(), room.folder.path());
    // The head looks to the left and upwards.
    let head = head_pose(0.35, 0.2);
    let (shot, with) = watcher.wait_for_view("the head's direction", &head, None, shows_head(head));
    let [left, right] = codes(&shot, &with).expect("as above");
    assert!(!left.right && right.right, "each eye has its own picture");
    assert_eq!(left.frame, right.frame);
    assert_eq!(left.display_us, right.display_us);
    // The frame's pose is the pose with which the application has rendered.
    let (echo, views) = (with.pose.expect("as above"), with.views.expect("as above"));
    assert_eq!(views.count(), 2);
    assert!(
        shows_direction(&left, &views.left().pose),
        "{left:?} {views:?}"
    );
    assert!(
        shows_direction(&right, &views.right().pose),
        "{right:?} {views:?}"
    );
    assert!(shows_direction(&left, &echo.at), "{left:?} {echo:?}");
    let display = echo.display.expect("the runtime has predicted it");
    let us = u64::try_from(display.0 / 1000).expect("after the start");
    assert_eq!(left.display_us_near(us), us);

    // Straight ahead are two blocks: a red one near and below, and a blue one far and above.
    let ahead = head_pose(0.0, 0.0);
    // A slow machine loses datagrams of raw pictures. The missing rows then show an older picture. After some pictures,
    // all rows show the new view.
    for _ in 0..10 {
        watcher.wait_for_view("the middle", &ahead, None, shows_head(ahead));
    }
    let (shot, _) = watcher.wait_for_view("the middle", &ahead, None, shows_head(ahead));
    let ([near, near_right], [far, far_right]) = (centroids(&shot, RED), centroids(&shot, BLUE));
    assert!(near[0] < far[0], "the red one is on the left");
    assert!(near[1] > far[1], "upright");
    // The eyes are 63 mm apart, and each eye's view is 90° wide. The parallax is half the picture's width times 63 mm,
    // divided by the distance of a block's front side.
    let shift = |distance: f64| f64::from(EYE) / 2.0 * 0.063 / distance;
    let (near, far) = (near[0] - near_right[0], far[0] - far_right[0]);
    assert!((near - shift(0.93)).abs() < 1.5, "the near one: {near}");
    assert!((far - shift(3.15)).abs() < 1.5, "the far one: {far}");

    // A controller with a pulled trigger gets haptic feedback.
    wait_for_haptic(&mut watcher, ahead);

    room.program.signal(Signal::INT);
    let (status, text) = room.program.wait();
    assert!(text.contains("frames were drawn"), "{text}");
    assert!(!text.contains("VUID"), "{text}");
    assert!(status.success(), "{text}");
}

/// Pulls the right controller's trigger until this controller gets haptic feedback.
fn wait_for_haptic(watcher: &mut Watcher, head: Pose) {
    crate::support::eventually("a tick", || {
        watcher.wait_for_view("the room", &head, Some(trigger_pulled()), shows_head(head));
        watcher
            .felt
            .iter()
            .any(|felt| felt.hand == Hand::Right)
            .then_some(())
    });
}

#[test]
fn a_client_in_a_headset_shows_the_heads_view() {
    let Some(mut room) = room() else {
        return;
    };
    // The client itself runs as an OpenXR application, with a second client as its headset.
    let program = env!("CARGO_BIN_EXE_openuvr");
    let (host, dir) = (
        format!("127.0.0.1:{}", room.port()),
        room.folder.join("client"),
    );
    let own = ["--present", "xr", "--config-dir", &dir, "--sound", "off"];
    let args = [&[program, "client", &host][..], &own, &PIN].concat();
    let Some(mut client) = Hello::with_application("raw", &[], &args) else {
        return;
    };
    let mut watcher = Watcher::start(client.port(), client.folder.path());
    for (yaw, pitch) in [(0.35, 0.2), (-0.5, -0.1)] {
        // The head pose of the second client goes through both hosts to the room. The room's picture returns with the
        // views for which it was rendered.
        let head = head_pose(yaw, pitch);
        let (shot, with) =
            watcher.wait_for_view("the head's direction", &head, None, shows_head(head));
        let [left, right] = codes(&shot, &with).expect("as above");
        assert!(!left.right && right.right, "each eye has its own picture");
        assert_eq!(left.frame, right.frame);
        let views = with.views.expect("as above");
        assert!(
            shows_direction(&left, &views.left().pose),
            "{left:?} {views:?}"
        );
        assert!(
            shows_direction(&right, &views.right().pose),
            "{right:?} {views:?}"
        );
    }
    wait_for_haptic(&mut watcher, head_pose(-0.5, -0.1));
    for (program, output) in [
        (&mut client.program, "openuvr client"),
        (&mut room.program, "room"),
    ] {
        program.signal(Signal::INT);
        let (_, text) = program.wait();
        assert!(text.contains(output) && !text.contains("VUID"), "{text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}
