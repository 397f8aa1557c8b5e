//! A display that takes the size of the player's window, and returns to its own size without a player.

use std::process::Command;

use openuvr_proto::units::Size;
use x11rb::protocol::xproto::{ConfigureWindowAux, ConnectionExt as _};
use x11rb::wrapper::ConnectionExt as _;

use crate::support::{
    Display, Folder, Host, PIN, Painter, Program, ScreenCapture, Shot, eventually, openuvr,
    port_of, psnr, skip,
};

const OWN: Size = Size::new(1280, 720);

/// The display's current size.
fn size_of(display: &Display) -> Size {
    let capture = ScreenCapture::open(display);
    capture.geometry(capture.root).expect("the root window")
}

fn wait_for_size(display: &Display, size: Size) {
    eventually(&format!("{} becomes {size}", display.name), || {
        (size_of(display) == size).then_some(())
    });
}

/// Waits until the upper left of the client's display shows the painted picture.
fn wait_for_picture(there: &Display, painted: &Shot) {
    wait_for_picture_at(there, (0, 0), painted);
}

fn wait_for_picture_at(there: &Display, at: (i16, i16), painted: &Shot) {
    let capture = ScreenCapture::open(there);
    let expected = painted.stamp().expect("it has a bar code");
    eventually("the painted picture", || {
        let shot = capture.region_at(at, painted.size);
        (shot.stamp().as_ref() == Some(&expected) && psnr(&shot, painted) > 30.0).then_some(())
    });
}

/// Resizes the client's window as its user would.
fn drag(there: &Display, size: Size) {
    let capture = ScreenCapture::open(there);
    let window = eventually("the client's window", || capture.client_window());
    let change = ConfigureWindowAux::new()
        .width(size.width)
        .height(size.height);
    capture
        .conn
        .configure_window(window, &change)
        .expect("sent");
    capture.conn.sync().expect("a running X server");
}

/// Starts a window manager. Prints a message and returns `None` if it is not installed.
fn openbox(display: &Display, folder: &Folder) -> Option<Program> {
    if Command::new("openbox").arg("--version").output().is_err() {
        skip("openbox is not installed: apt-get install openbox");
        return None;
    }
    let mut command = Command::new("openbox");
    command.arg("--sm-disable").env("DISPLAY", &display.name);
    for home in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
        command.env(home, folder.path());
    }
    let manager = Program::start("openbox", command);
    let capture = ScreenCapture::open(display);
    eventually("it manages", || capture.is_managed().then_some(()));
    Some(manager)
}

#[test]
fn the_display_follows_the_window_and_is_restored() {
    let (Some(here), Some(there)) = (Display::start("1280x720"), Display::start("1100x800")) else {
        return;
    };
    let mut painter = Painter::open(&here, Size::new(480, 320), "painted");
    let host = Host::start(&[&["--display", &here.name, "--fit"][..], &PIN].concat());
    assert_eq!(size_of(&here), OWN, "no player yet");
    let args = [&PIN[..], &["--size", "800x600"]].concat();
    let mut client = host.client("client", &there, &args);
    wait_for_size(&here, Size::new(800, 600));
    wait_for_picture(&there, &painter.paint());
    // The window gets an odd width and height, a larger size, one that exceeds the server's maximum height, and one
    // below it.
    for (expected, given) in [
        ((701, 503), (701, 503)),
        ((1000, 700), (1000, 700)),
        ((640, 780), (640, 720)),
        ((900, 650), (900, 650)),
    ] {
        drag(&there, Size::new(expected.0, expected.1));
        wait_for_size(&here, Size::new(given.0, given.1));
        if expected == given {
            wait_for_picture(&there, &painter.paint());
        }
    }
    client.stop();
    wait_for_size(&here, OWN);
    let mut again = host.client("client", &there, &["--size", "640x480"]);
    wait_for_size(&here, Size::new(640, 480));
    wait_for_picture(&there, &painter.paint());
    let mut host = host;
    host.program.stop();
    wait_for_size(&here, OWN);
    again.kill();
}

#[test]
fn fit_works_with_window_managers_at_both_ends() {
    let (Some(here), Some(there)) = (Display::start("1280x720"), Display::start("1024x768")) else {
        return;
    };
    let folder = Folder::new();
    let (Some(_here), Some(_there)) = (openbox(&here, &folder), openbox(&there, &folder)) else {
        return;
    };
    let mut painter = Painter::open(&here, Size::new(480, 320), "painted");
    let host = Host::start(&[&["--display", &here.name, "--fit"][..], &PIN].concat());
    let args = [&PIN[..], &["--full-screen"]].concat();
    let mut client = host.client("client", &there, &args);
    // The display gets the size of the client's screen, limited to the maximum height of the display's server.
    wait_for_size(&here, Size::new(1024, 720));
    wait_for_picture_at(&there, (0, 24), &painter.paint());
    client.stop();
    wait_for_size(&here, OWN);
    let mut client = host.client("client", &there, &["--size", "600x400"]);
    wait_for_size(&here, Size::new(600, 400));
    client.stop();
    wait_for_size(&here, OWN);
}

#[test]
fn a_virtual_display_becomes_larger_than_it_was() {
    let Some(there) = Display::start("1100x800") else {
        return;
    };
    let folder = Folder::new();
    let dir = folder.join("host");
    let own = ["host", "--config-dir", &dir, "--bind", "127.0.0.1:0"];
    let more = ["--virtual", "640x360", "--fit", "--realtime", "off"];
    let program = openuvr(&[&own[..], &more, &PIN].concat());
    let host = Program::start("host", program);
    let line = host.line("is empty; start an application with");
    let word = |start: &str| line.split(' ').find_map(|word| word.strip_prefix(start));
    let name = word("DISPLAY=").expect("a display");
    let here = Display::of_another(name, word("XAUTHORITY=").expect("a file"));
    let line = host.line("streaming 640x360 of display ");
    let mut painter = Painter::open(&here, Size::new(480, 320), "painted");
    let args = [&PIN[..], &["--display", &there.name, "--size", "1000x700"]].concat();
    let address = format!("127.0.0.1:{}", port_of(&line));
    let mut client = crate::support::client(&folder, "client", &address, &args);
    wait_for_size(&here, Size::new(1000, 700));
    wait_for_picture(&there, &painter.paint());
    client.stop();
    wait_for_size(&here, Size::new(640, 360));
}

#[test]
fn without_randr_the_picture_is_scaled() {
    let (Some(here), Some(there)) = (
        Display::with("640x360", &["-extension", "RANDR"]),
        Display::start("1100x800"),
    ) else {
        return;
    };
    let mut painter = Painter::open(&here, Size::new(640, 360), "painted");
    let host = Host::start(&[&["--display", &here.name, "--fit"][..], &PIN].concat());
    host.program.line("--fit has no effect: X display :");
    let args = [&PIN[..], &["--size", "1000x700"]].concat();
    let client = host.client("client", &there, &args);
    client.line("showing 640x360");
    let painted = painter.paint();
    let capture = ScreenCapture::open(&there);
    eventually("a scaled picture", || {
        // A picture of 640x360 is scaled to 1000x562 in a window of 1000x700, with bars of 69 rows.
        let shot = capture.region_at((0, 69), Size::new(1000, 562));
        (shot.stamp() == painted.stamp()).then_some(())
    });
    assert_eq!(host.program.count("--fit has no effect"), 1);
}
