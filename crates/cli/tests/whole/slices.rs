//! `--present-slices`: the rows of a picture are shown as they are decoded.

use openuvr_proto::units::Size;

use crate::support::{Display, Folder, Host, Painter, Program, ScreenCapture, eventually, openuvr};

const SIZE: &str = "640x360";
const PIXELS: Size = Size::new(640, 360);

#[test]
fn pictures_end_as_those_of_a_client_that_shows_whole_ones() {
    let (Some(here), Some(one), Some(other)) = (
        Display::start(SIZE),
        Display::start(SIZE),
        Display::start(SIZE),
    ) else {
        return;
    };
    let mut painter = Painter::open(&here, PIXELS, "painter");
    painter.paint();
    for encoder in ["x264", "jpeg"] {
        let source = ["--display", &here.name, "--cursor=false"];
        let args = [&source[..], &["--encoder", encoder]].concat();
        let host = Host::paired_with(&["whole", "slices"], &args);
        let mut whole = host.client("whole", &one, &[]);
        whole.line("showing 640x360");
        let mut slices = host.client("slices", &other, &["--observe", "--present-slices"]);
        slices.line("showing 640x360");
        let captures = [&one, &other].map(ScreenCapture::open);
        for _ in 0..15 {
            painter.paint();
            let painted = *painter.painted.last().expect("painted");
            // With slices, the bar code is displayed before the rows below it.
            eventually("the same picture in both windows", || {
                let [one, other] = captures.each_ref().map(ScreenCapture::shot);
                let both = [&one, &other].map(|shot| shot.stamp() == Some(painted));
                (both == [true; 2] && one.pixels == other.pixels).then_some(())
            });
        }
        for client in [&mut whole, &mut slices] {
            client.assert_running();
            client.stop();
        }
    }
}

#[test]
fn surfaces_that_take_whole_pictures_are_refused_in_one_line() {
    let folder = Folder::new();
    let dir = folder.join("client");
    let shots = folder.join("shots");
    for (present, reason) in [
        (
            &["wayland"][..],
            "a Wayland compositor takes whole pictures",
        ),
        (
            &["headless", "--output", &shots],
            "requires --present x11 or kms",
        ),
        (
            &["x11", "--display", ":1", "--view", "left"],
            "does not support stereo pictures",
        ),
    ] {
        let own = ["client", "127.0.0.1", "--config-dir", &dir];
        let args = [&own[..], &["--present-slices", "--present"], present].concat();
        let line = Program::start("client", openuvr(&args)).fails_in_one_line();
        assert!(
            line.contains("present-slices") && line.contains(reason),
            "{line}"
        );
    }
}
