//! The desktop client as a headset. Its window shows the test room from the head's viewpoint.

use openuvr_proto::pose::Pose;
use openuvr_proto::units::Size;
use rustix::process::Signal;

use crate::EYE;
use crate::room::{code, room, shows_direction};
use crate::support::{Display, PIN, ScreenCapture, Shot, client, eventually};
use crate::watcher::head_pose;

/// The head alternates between left and right.
const SCRIPT: &str =
    "0,0,0,0,20,0,0\n5,0,0,0,20,0,0\n5.5,0,0,0,-20,0,0\n10.5,0,0,0,-20,0,0\n11,0,0,0,20,0,0\n";

#[test]
fn a_scripted_head_turns_the_picture_in_the_window() {
    let Some(display) = Display::start("640x480") else {
        return;
    };
    let Some(mut room) = room() else {
        return;
    };
    let script = room.folder.join("head.csv");
    std::fs::write(&script, SCRIPT).expect("it is written");
    let (address, head) = (
        format!("127.0.0.1:{}", room.port()),
        format!("script:{script}"),
    );
    let own = ["--display", &display.name, "--sound", "off"];
    let seen = ["--head-pose", &head, "--view", "left", "--reproject", "on"];
    let args = [&PIN[..], &own, &seen].concat();
    let mut client = client(&room.folder, "client", &address, &args);
    client.line("showing");
    let capture = ScreenCapture::open(&display);
    for (side, yaw) in [("left", 20.0_f32), ("right", -20.0), ("left again", 20.0)] {
        let head = head_pose(yaw.to_radians(), 0.0);
        eventually(side, || shows(&capture, &head).then_some(()));
    }
    let text = client.stop();
    // The reprojection thread must have drawn pictures.
    assert!(text.contains("stereo pictures drawn"), "{text}");
    room.program.signal(Signal::INT);
    let (status, text) = room.program.wait();
    assert!(status.success(), "{text}");
}

/// Whether the window shows the left eye's picture for this head pose.
fn shows(capture: &ScreenCapture, head: &Pose) -> bool {
    let shot: Shot = capture.region(Size::new(EYE, EYE));
    code(&shot, false).is_some_and(|code| !code.right && shows_direction(&code, head))
}
