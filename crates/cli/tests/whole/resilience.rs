//! Failures at run time: a process dies, a cable is cut, a window changes or closes, a display ends. The program
//! recovers automatically where this is possible; otherwise it ends with one line.

use std::process::Command;

use openuvr_proto::units::Size;
use rustix::process::Signal;

use crate::support::{
    Display, Hop, Host, Painter, Program, Quality, ScreenCapture, Shot, client, eventually, psnr,
    skip,
};

const SIZE: &str = "320x200";
const PIXELS: Size = Size::new(320, 200);
const SLOW: [&str; 2] = ["--fps", "30"];

/// Paints new pictures, as a running application does, until the client shows one of them. Then waits until the client
/// shows the newest one: on a busy machine, a further picture may be painted before an earlier one is shown.
fn paint_until_shown(painter: &mut Painter, capture: &ScreenCapture) {
    let before = painter.painted.len();
    let mut wait = 0;
    eventually("a picture painted just now", || {
        // Every tenth poll paints a picture, about every 50 ms.
        if wait == 0 {
            painter.paint();
        }
        wait = (wait + 1) % 10;
        capture
            .stamp()
            .filter(|stamp| painter.painted[before..].contains(stamp))
    });
    let newest = painter.painted.last().copied();
    eventually("the newest picture", || {
        (capture.stamp() == newest).then_some(())
    });
}

#[test]
fn a_killed_host_is_found_again() {
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return;
    };
    let mut painter = Painter::open(&here, PIXELS, "painter");
    painter.paint();
    let mut host = Host::paired_with(
        &["client"],
        &[&SLOW[..], &["--display", &here.name]].concat(),
    );
    let mut client = host.client("client", &there, &[]);
    let capture = ScreenCapture::open(&there);
    paint_until_shown(&mut painter, &capture);
    host.program.kill();
    let last = capture.shot();
    client.line("no more packets received; reconnecting");
    client.assert_running();
    // The client shows a message over the picture until new pictures arrive.
    eventually("text over it", || (capture.shot() != last).then_some(()));
    let host = host.restart();
    client.nth_line(2, "connected to the host");
    paint_until_shown(&mut painter, &capture);
    let painted = ScreenCapture::open(&here);
    eventually("the picture alone", || {
        let likeness = psnr(&painted.shot(), &capture.shot());
        (likeness > 30.0).then_some(())
    });
    host.program.line("client joins as player");
    // The client has kept its window.
    assert!(capture.client_window().is_some());
    assert_eq!(client.count("showing"), 1, "{}", client.text());
}

#[test]
fn a_restarted_host_is_found_again() {
    let args = ["--source", "pattern", "--size", SIZE, "--fps", "15"];
    let mut host = Host::paired_with(&["client"], &args);
    let client = host.headless_client("client", &[]);
    client.line("showing");
    host.program.stop();
    client.line("the host has stopped; reconnecting");
    let host = host.restart();
    client.nth_line(2, "connected to the host");
    host.program.line("client joins as player");
}

#[test]
fn a_client_without_reconnect_ends_with_its_host() {
    let args = ["--source", "pattern", "--size", SIZE, "--fps", "15"];
    let mut host = Host::paired_with(&["client"], &args);
    let mut client = host.headless_client("client", &["--reconnect=false"]);
    client.line("showing");
    host.program.stop();
    let (status, text) = client.wait();
    assert!(status.success(), "it was asked to: {text}");
    assert!(
        text.contains("session ended: the host has stopped"),
        "{text}"
    );
}

#[test]
fn after_a_client_was_killed_the_next_one_plays() {
    let args = ["--source", "pattern", "--size", SIZE, "--fps", "15"];
    let mut host = Host::paired_with(&["first", "second"], &args);
    let mut first = host.headless_client("first", &[]);
    first.line("showing");
    first.kill();
    // The same device reconnects at once, before its old session times out.
    let mut again = host.headless_client("first", &[]);
    again.line("player at");
    again.line("showing");
    // On a busy machine, the first session may have ended like this, too.
    let left = "first left: no more packets received";
    let before = host.program.count(left);
    again.kill();
    host.program.nth_line(before + 1, left);
    let second = host.headless_client("second", &[]);
    second.line("player at");
    second.line("showing");
    host.program.assert_running();
}

#[test]
fn a_cut_link_recovers() {
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return;
    };
    let mut painter = Painter::open(&here, PIXELS, "painter");
    painter.paint();
    let args = [&SLOW[..], &["--display", &here.name]].concat();
    let mut host = Host::paired_with(&["client"], &args);
    let hop = Hop::start(&host, 0, Quality::PERFECT);
    let port = hop.port;
    host.add_address("client", &hop.address());
    let args = ["--display", there.name.as_str()];
    let mut client = client(&host.folder, "client", &hop.address(), &args);
    let capture = ScreenCapture::open(&there);
    paint_until_shown(&mut painter, &capture);
    // The interruption is too short to be noticed: the same session continues, from another port.
    drop(hop);
    let hop = Hop::start(&host, port, Quality::PERFECT);
    paint_until_shown(&mut painter, &capture);
    // The interruption is so long that host and client give up the session.
    drop(hop);
    client.line("reconnecting");
    host.program.line("client left");
    let _hop = Hop::start(&host, port, Quality::PERFECT);
    paint_until_shown(&mut painter, &capture);
    client.assert_running();
    host.program.assert_running();
}

#[test]
fn a_host_is_found_at_its_names_new_address() {
    if !rustix::process::geteuid().is_root() {
        skip("a private hosts file needs root");
        return;
    }
    let args = ["--source", "pattern", "--size", SIZE, "--fps", "15"];
    let host = Host::paired_with(&["client"], &args);
    // A hop answers at the old address.
    let listen = ([127, 0, 0, 2], host.port).into();
    let hop = Hop::at(listen, &host, Quality::PERFECT);
    let names = host.folder.join("names");
    std::fs::write(&names, "127.0.0.2 desk\n").unwrap();
    let desk = format!("desk:{}", host.port);
    host.add_address("client", &desk);

    let with_names = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let keys = host.folder.join("client");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", with_names, &names]);
    command.args([env!("CARGO_BIN_EXE_openuvr"), "client", &desk]);
    command.args([
        "--config-dir",
        &keys,
        "--present",
        "null",
        "--realtime",
        "off",
    ]);
    let mut client = Program::start("client", command);
    client.line("showing");
    std::fs::write(&names, "127.0.0.1 desk\n").unwrap();
    drop(hop);
    client.line("reconnecting");
    client.nth_line(2, "connected to the host");
    client.assert_running();
}

/// Starts a client that writes every picture into a folder. Also returns the folder.
fn writer(host: &Host, name: &str) -> (Program, std::path::PathBuf) {
    let output = host.folder.join("pictures");
    let args = ["--present", "headless", "--output", &output, "--every", "1"];
    let client = client(&host.folder, name, &host.address(), &args);
    (client, output.into())
}

/// Whether one of the files is exactly this picture.
fn is_written(folder: &std::path::Path, picture: &Shot) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let newest = paths
        .iter()
        .rev()
        .take(8)
        .filter_map(|path| Shot::from_png(path));
    newest
        .filter(|shot| shot.size == picture.size)
        .any(|shot| shot.colours() == picture.colours())
}

#[test]
fn a_window_is_shown_in_each_size_until_its_end() {
    let Some(here) = Display::start("640x480") else {
        return;
    };
    let mut painter = Painter::open(&here, PIXELS, "the painter");
    let first = painter.paint();
    let window = [
        "--window",
        "the painter",
        "--encoder",
        "raw",
        "--cursor=false",
    ];
    let args = [&SLOW[..], &["--display", &here.name], &window].concat();
    let mut host = Host::paired_with(&["client"], &args);
    let (mut client, output) = writer(&host, "client");
    eventually("the first picture", || {
        is_written(&output, &first).then_some(())
    });
    for size in [
        Size::new(640, 360),
        Size::new(333, 241),
        Size::new(320, 200),
    ] {
        let painted = painter.resize(size);
        eventually(&format!("the picture of {size}"), || {
            is_written(&output, &painted).then_some(())
        });
        host.program.line(&format!("the picture is {size}"));
    }
    painter.close();
    let (status, text) = host.program.wait();
    assert!(
        status.success(),
        "the end of a source is not a failure: {text}"
    );
    assert!(text.contains("stream ended: window destroyed"), "{text}");
    let (status, text) = client.wait();
    assert!(status.success(), "{text}");
    assert!(text.contains("the application has ended"), "{text}");
}

#[test]
fn a_codec_shows_a_window_of_odd_size() {
    let (Some(here), Some(there)) = (Display::start("640x480"), Display::start("640x480")) else {
        return;
    };
    let mut painter = Painter::open(&here, Size::new(333, 241), "odd");
    painter.paint();
    let args = [&SLOW[..], &["--display", &here.name, "--window", "odd"]].concat();
    let host = Host::paired_with(&["client"], &args);
    let client = host.client("client", &there, &[]);
    client.line("showing 333x241");
    let capture = ScreenCapture::open(&there);
    let painted = painter.paint();
    eventually("the same picture at the client", || {
        let shown = capture.region(painted.size);
        (crate::support::psnr(&shown, &painted) >= 28.0).then_some(())
    });
}

#[test]
fn a_host_reports_the_end_of_its_display() {
    let (Some(mut here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return;
    };
    let mut painter = Painter::open(&here, PIXELS, "painter");
    painter.paint();
    let mut host = Host::paired_with(
        &["client"],
        &[&SLOW[..], &["--display", &here.name]].concat(),
    );
    let mut client = host.client("client", &there, &[]);
    client.line("showing");
    host.program.line("the picture is");
    let lines_before = host.program.text().lines().count();
    here.kill();
    let (status, text) = host.program.wait();
    assert_eq!(status.code(), Some(1), "{text}");
    let more = text.lines().skip(lines_before);
    // The client may have selected its transport only now.
    let more: Vec<&str> = more
        .filter(|line| !line.contains("uses transport"))
        .collect();
    // These lines contain the reason, the disconnected clients, and in some cases failures of pointer and input.
    let reasons = more.iter().filter(|line| line.starts_with("openuvr: "));
    assert_eq!(reasons.count(), 1, "{text}");
    assert!(text.contains("capture failed: X display"), "{text}");
    assert!(more.len() <= 4, "{text}");
    // The client waits for a new start of the host.
    client.line("the host failed: see its messages; reconnecting");
    client.assert_running();
}

#[test]
fn a_client_ends_with_its_display() {
    let Some(mut there) = Display::start(SIZE) else {
        return;
    };
    let args = ["--source", "pattern", "--size", SIZE, "--fps", "15"];
    let mut host = Host::paired_with(&["client", "other"], &args);
    let mut client = host.client("client", &there, &[]);
    client.line("showing");
    let lines_before = client.text().lines().count();
    there.kill();
    let (status, text) = client.wait();
    assert_eq!(status.code(), Some(1), "{text}");
    let more: Vec<&str> = text.lines().skip(lines_before).collect();
    // These lines contain the summary of the session, and then the reason.
    let reasons: Vec<&&str> = more.iter().filter(|l| l.starts_with("openuvr: ")).collect();
    assert_eq!(reasons.len(), 1, "one line: {text}");
    assert!(reasons[0].contains("display"), "{text}");
    host.program.line("client left: it disconnected");
    let other = host.headless_client("other", &[]);
    other.line("player at");
    other.line("showing");
    host.program.assert_running();
}

#[test]
fn both_end_in_order_on_sigterm() {
    let args = ["--source", "pattern", "--size", SIZE, "--fps", "15"];
    let mut host = Host::paired_with(&["client"], &args);
    let mut client = host.headless_client("client", &[]);
    client.line("showing");
    client.signal(Signal::TERM);
    assert!(client.wait().0.success());
    host.program.line("client left: it disconnected");
    host.program.signal(Signal::TERM);
    assert!(host.program.wait().0.success());
}
