//! `openuvr demo --vr`: a virtual room, and a turning head.
//!
//! The room is `openuvr room` on `openuvr xr`, which needs no display server. The bar code in each eye's picture
//! encodes the direction for which the picture was drawn. The demo reads the bar code from the pixels of the client's
//! window, and it knows the head's motion, so this machine's clock alone is enough to measure the latency.

mod eyes;
mod head;
mod player;
mod table;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openuvr_clock as clock;
use openuvr_proto::units::Size;
use openuvr_testbed::journey::eyes_steps;
use openuvr_testbed::pair::{self, Host, TemporaryDir};
use openuvr_testbed::picture_match::Shot;
use openuvr_testbed::programs::own;
use openuvr_testbed::screen::Screen;

use super::{Args, client_display, lasting, write_png};
use eyes::EyeReader;
use head::SimulatedHead;
use table::Handed;

/// Frames per second: the rate of most headsets.
const FPS: f64 = 90.0;

/// The size of the window: both eyes' pictures, side by side, in the size that the runtime recommends.
const WINDOW: Size = Size::new(1280, 640);

/// Timeout for the first picture. Until then, programs start, pairing happens, and shaders are compiled.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Minimum number of pictures for a verdict.
const FEWEST: usize = 10;

/// Runs the VR demo. Succeeds only if the bar codes in both eyes' pictures match the head's motion.
pub(super) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    // Dropped in reverse order: the display last.
    let (client_virtual, display) = client_display(args, WINDOW)?;
    let dir = TemporaryDir::new()?;
    let csv = dir.path().join("host.csv");
    let eyes = EyeReader::start(&display)?;
    let room = own("room")?;
    let words = [
        room.get_program().to_string_lossy().into_owned(),
        "room".to_owned(),
    ];
    let mut more_host = ["--sound", "off", "--discoverable=false"]
        .map(String::from)
        .to_vec();
    more_host.extend_from_slice(&args.host_arg);
    let mut host = Host::start(&pair::Options {
        serve: pair::Serve::Xr(&words),
        host_display: "",
        client_display: &display,
        fps: args.fps.unwrap_or(FPS),
        bitrate: &args.bitrate,
        dir: dir.path(),
        csv: Some(&csv),
        sound: None,
        pads: None,
        show_host: true,
        more_host: &more_host,
        more_client: &[],
    })?;
    let client = player::start(&host, &display, &dir.path().join("client"))?;
    let head = SimulatedHead::start(client.clone())?;
    let place = match client_virtual {
        Some(_) => format!("on the virtual display {display}"),
        None => format!("in a window on {display}"),
    };
    eprintln!("demo: a virtual room, shown {place}; Ctrl-C to stop");
    let mut handed = Vec::new();
    let mut whole = 0_u32;
    let mut begun = None;
    let (began, last) = (clock::now(), lasting(args));
    while !stop.load(Ordering::Relaxed) {
        host.child.check()?;
        for shown in player::frame_reports(&client, Duration::from_millis(100))? {
            whole += u32::from(shown.whole && begun.is_some());
            handed.extend(Handed::from(&shown, &head));
        }
        let now = clock::now();
        if begun.is_none() && eyes.area().is_some() {
            begun = Some(now);
        }
        match begun {
            Some(begun) if last.is_some_and(|last| now.since(begun) >= last) => break,
            None if now.since(began) > START_TIMEOUT => {
                bail!(
                    "no picture had readable bar codes for both eyes: see the host's messages above"
                )
            }
            _ => {}
        }
    }
    let Some(begun) = begun else {
        bail!("interrupted before the first picture");
    };
    let lasted = clock::now().since(begun).as_secs_f64().max(0.001);
    let seen = eyes.seen()?;
    let picture = args.out.join("openuvr-demo-vr.png");
    if let Some(area) = eyes.area() {
        write_png(&[&Shot::take(&Screen::open(&display)?, area)?], &picture)?;
    }
    let way = head.way;
    drop(head);
    drop(client);
    host.child.stop_by_itself();

    println!(
        "demo: {:.1} complete frames/s displayed",
        f64::from(whole) / lasted
    );
    let right = table::print(&seen, &handed, way);
    let record = std::fs::read_to_string(&csv).context("can't read the host's frame records")?;
    let times: Vec<_> = seen.iter().map(|seen| seen.at).collect();
    for step in eyes_steps(&record, &times)? {
        let (name, ms) = (format!("{} -> {}", step.from, step.to), step.ms);
        let bound = step.bound();
        println!(
            "demo: {name:<44} p50 {:>6.1} ms, p99 {:>6.1} ms{bound}, of {} values",
            ms.p50, ms.p99, ms.count
        );
    }
    if eyes.unreadable() > 0 {
        println!("demo: {} bar codes could not be read", eyes.unreadable());
    }
    println!("demo: the client's picture: {}", picture.display());
    if seen.len() < FEWEST {
        println!("demo: FAILED: only {} pictures became visible", seen.len());
    }
    Ok(match right && seen.len() >= FEWEST {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
