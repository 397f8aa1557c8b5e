//! Links that lose, hold back and repeat: what is shown stays right.

use std::time::Duration;

use openuvr_proto::units::Size;

use crate::support::{Display, Eye, Hop, Host, PIN, Painter, Program, client, eventually, psnr};

/// Small pictures at a low rate: a key frame of a few datagrams, of which all have to arrive, since
/// nothing is sent twice.
const SIZE: &str = "320x200";
const PIXELS: Size = Size::new(320, 200);
const FRUGAL: [&str; 6] = ["--bitrate", "500K", "--slices", "1", "--fps", "30"];

/// Between two pictures of a painter: about 30 a second.
const PAUSE: Duration = Duration::from_millis(33);

/// The least likeness of a clean picture in decibel at this rate. A picture in which a slice is
/// missing or that builds on a wrong one has large parts of another picture.
const ALIKE: f64 = 25.0;

/// A host that shows a painter's window to a client behind a hop.
struct Chain {
    painter: Painter,
    host: Host,
    hop: Hop,
    client: Program,
    eye: Eye,
    _displays: [Display; 2],
}

impl Chain {
    fn start(hop: &[&str]) -> Option<Chain> {
        let (here, there) = (Display::start(SIZE)?, Display::start(SIZE)?);
        let mut painter = Painter::open(&here, PIXELS, "painter");
        painter.paint();
        let own = ["--display", &here.name, "--cursor=false"];
        let host = Host::start(&[&PIN[..], &own, &FRUGAL].concat());
        let hop = Hop::start(&host, 0, hop);
        let words = [&PIN[..], &["--display", &there.name]].concat();
        let client = client(&host.folder, "client", &hop.address(), &words);
        client.line(&format!("showing {SIZE}"));
        Some(Chain {
            painter,
            host,
            hop,
            client,
            eye: Eye::open(&there),
            _displays: [here, there],
        })
    }

    /// Paints `n` pictures; the last becomes visible and is right.
    fn burst(&mut self, n: u32) {
        let mut last = self.painter.paint();
        for _ in 1..n {
            std::thread::sleep(PAUSE);
            last = self.painter.paint();
        }
        let end = *self.painter.painted.last().expect("painted");
        self.eye
            .stamp_when("the last picture of a burst", |shown| *shown == end);
        eventually("a clean last picture", || {
            (psnr(&self.eye.shot(), &last) >= ALIKE).then_some(())
        });
    }

    fn end(mut self) {
        self.host.program.assert_running();
        self.client.stop();
        self.host.program.line("is gone: it said goodbye");
        self.host.program.stop();
        self.hop.program.stop();
    }
}

/// Bursts over a link that loses this much: nothing moves after each, so that nothing but the
/// protocol itself can repair the last picture.
fn bursts_over(loss: &str, bursts: u32) {
    let Some(mut chain) = Chain::start(&["--loss", loss, "--seed", "7"]) else {
        return;
    };
    for _ in 0..bursts {
        chain.burst(12);
    }
    chain.end();
}

#[test]
fn one_percent_of_loss() {
    bursts_over("1%", 4);
}

#[test]
fn five_percent_of_loss() {
    bursts_over("5%", 4);
}

#[test]
fn twenty_percent_of_loss() {
    bursts_over("20%", 3);
}

#[test]
fn losses_in_bursts() {
    let Some(mut chain) = Chain::start(&["--burst-loss", "2%,25%", "--seed", "3"]) else {
        return;
    };
    for _ in 0..4 {
        chain.burst(12);
    }
    chain.end();
}

#[test]
fn a_lost_last_frame_is_noticed_although_nothing_moves() {
    // Single pictures with a pause behind each: every one is the last of its burst.
    let Some(mut chain) = Chain::start(&["--loss", "20%", "--down", "--seed", "5"]) else {
        return;
    };
    for _ in 0..12 {
        chain.burst(1);
    }
    chain.end();
}

#[test]
fn what_overtakes_or_comes_twice_harms_nothing() {
    let link = [
        "--reorder",
        "10%",
        "--reorder-by",
        "3ms",
        "--duplicate",
        "20%",
        "--seed",
        "11",
    ];
    let Some(mut chain) = Chain::start(&link) else {
        return;
    };
    for _ in 0..3 {
        chain.burst(15);
    }
    chain.end();
}
