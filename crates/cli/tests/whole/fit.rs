//! A display that takes the size of the player's window, and its own size again without a player.

use std::process::Command;

use openuvr_proto::units::Size;
use x11rb::protocol::xproto::{ConfigureWindowAux, ConnectionExt as _};
use x11rb::wrapper::ConnectionExt as _;

use crate::support::{
    Display, Eye, Folder, Host, PIN, Painter, Program, Shot, eventually, openuvr, port_of, psnr,
    skip,
};

const OWN: Size = Size::new(1280, 720);

/// The display's current size.
fn size_of(display: &Display) -> Size {
    let eye = Eye::open(display);
    eye.geometry(eye.root).expect("the root window")
}

fn becomes(display: &Display, size: Size) {
    eventually(&format!("{} becomes {size}", display.name), || {
        (size_of(display) == size).then_some(())
    });
}

/// Waits until the upper left of the client's display shows the painted picture.
fn shows(there: &Display, painted: &Shot) {
    shows_at(there, (0, 0), painted);
}

fn shows_at(there: &Display, at: (i16, i16), painted: &Shot) {
    let eye = Eye::open(there);
    let wanted = painted.stamp().expect("it has a bar code");
    eventually("the painted picture", || {
        let shot = eye.part_at(at, painted.size);
        (shot.stamp().as_ref() == Some(&wanted) && psnr(&shot, painted) > 30.0).then_some(())
    });
}

/// Resizes the client's window as its user would.
fn drag(there: &Display, size: Size) {
    let eye = Eye::open(there);
    let window = eventually("the client's window", || eye.client_window());
    let change = ConfigureWindowAux::new()
        .width(size.width)
        .height(size.height);
    eye.conn.configure_window(window, &change).expect("sent");
    eye.conn.sync().expect("the server lives");
}

/// A window manager; `None`, with a message, if it is not installed.
fn openbox(display: &Display, folder: &Folder) -> Option<Program> {
    if Command::new("openbox").arg("--version").output().is_err() {
        skip("openbox is not installed");
        return None;
    }
    let mut command = Command::new("openbox");
    command.arg("--sm-disable").env("DISPLAY", &display.name);
    for home in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
        command.env(home, folder.path());
    }
    let manager = Program::start("openbox", command);
    let eye = Eye::open(display);
    eventually("it manages", || eye.is_managed().then_some(()));
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
    let words = [&PIN[..], &["--size", "800x600"]].concat();
    let mut client = host.client("client", &there, &words);
    becomes(&here, Size::new(800, 600));
    shows(&there, &painter.paint());
    // Odd, larger, and larger than the server's maximum in one direction.
    for (wanted, given) in [
        ((701, 503), (701, 503)),
        ((1000, 700), (1000, 700)),
        ((640, 780), (640, 720)),
        ((900, 650), (900, 650)),
    ] {
        drag(&there, Size::new(wanted.0, wanted.1));
        becomes(&here, Size::new(given.0, given.1));
        if wanted == given {
            shows(&there, &painter.paint());
        }
    }
    client.stop();
    becomes(&here, OWN);
    let mut again = host.client("client", &there, &["--size", "640x480"]);
    becomes(&here, Size::new(640, 480));
    shows(&there, &painter.paint());
    let mut host = host;
    host.program.stop();
    becomes(&here, OWN);
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
    let words = [&PIN[..], &["--full-screen"]].concat();
    let mut client = host.client("client", &there, &words);
    // The screen's size, limited to the server's maximum height.
    becomes(&here, Size::new(1024, 720));
    shows_at(&there, (0, 24), &painter.paint());
    client.stop();
    becomes(&here, OWN);
    let mut client = host.client("client", &there, &["--size", "600x400"]);
    becomes(&here, Size::new(600, 400));
    client.stop();
    becomes(&here, OWN);
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
    let line = host.line("is empty: start something on it");
    let word = |start: &str| line.split(' ').find_map(|word| word.strip_prefix(start));
    let name = word("DISPLAY=").expect("a display");
    let here = Display::of_another(name, word("XAUTHORITY=").expect("a file"));
    let line = host.line("streaming 640x360 of display ");
    let mut painter = Painter::open(&here, Size::new(480, 320), "painted");
    let words = [&PIN[..], &["--display", &there.name, "--size", "1000x700"]].concat();
    let address = format!("127.0.0.1:{}", port_of(&line));
    let mut client = crate::support::client(&folder, "client", &address, &words);
    becomes(&here, Size::new(1000, 700));
    shows(&there, &painter.paint());
    client.stop();
    becomes(&here, Size::new(640, 360));
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
    let words = [&PIN[..], &["--size", "1000x700"]].concat();
    let client = host.client("client", &there, &words);
    client.line("showing 640x360");
    let painted = painter.paint();
    let eye = Eye::open(&there);
    eventually("a scaled picture", || {
        // 640x360 in 1000x700 is 1000x562, with bars of 69 rows.
        let shot = eye.part_at((0, 69), Size::new(1000, 562));
        (shot.stamp() == painted.stamp()).then_some(())
    });
    assert_eq!(host.program.count("--fit has no effect"), 1);
}
