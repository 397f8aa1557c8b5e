//! One run. A host in this process draws with the received pose. The link has a delay. A client with a scripted head
//! displays the pictures on a virtual display, which a reader reads.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use openuvr_clock as clock;
use openuvr_media::capture::RenderInfo;
use openuvr_media::capture::pool::Pool;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::id::PoseId;
use openuvr_proto::pose::{Pose, ReceivedPose};
use openuvr_proto::time::Instant;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::video::{FieldOfView, View, Views};
use openuvr_runtime::guest::{Guest, InputTarget};
use openuvr_runtime::host::config::Config;
use openuvr_runtime::lock::lock;
use openuvr_runtime::sound_choice::SoundChoice;
use openuvr_sim::impairment::Impairment;
use openuvr_testbed::background::Background;
use openuvr_testbed::child::Child;
use openuvr_testbed::display::VirtualDisplay;
use openuvr_testbed::emulated::Emulated;
use openuvr_testbed::programs::openuvr;
use openuvr_testbed::screen::{Area, Screen};

use super::around;

/// Half of the interpupillary distance, in metres.
const HALF_APART: f32 = 0.0315;

/// Time limit for pairing and the first pictures.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which new poses are polled.
const LOOK: Duration = Duration::from_millis(1);

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunSetup<'a> {
    pub(super) eye: Size,
    pub(super) rate: f64,
    /// Degrees per second.
    pub(super) speed: f64,
    pub(super) round_trip: Duration,
    /// The client's `--reproject-backend`; `None` for no reprojection.
    pub(super) with: Option<&'a str>,
    /// Duration of the measurement. `warm_up` is the duration of the warm-up before it.
    pub(super) lasting: Duration,
    pub(super) warm_up: Duration,
    pub(super) dir: &'a Path,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RunResult {
    /// Angular error of each visible picture relative to the head, in degrees.
    pub(super) errors: Vec<f64>,
    /// The client's report of the cost of reprojecting a picture.
    pub(super) cost: Option<String>,
}

/// A yaw over time: the head's, as reported by the client, or the pictures'. Each entry has a time in nanoseconds of
/// the monotonic clock, which host and client share on one machine, and an angle in degrees.
type Track = Vec<(i64, f64)>;

/// Runs host and client, and stops both.
pub(super) fn run(
    display: &VirtualDisplay,
    setup: &RunSetup<'_>,
    stop: &AtomicBool,
) -> Result<RunResult> {
    let size = Size::new(setup.eye.width * 2, setup.eye.height);
    let pin = Pin::generate()?;
    let config = Config {
        bind: ([127, 0, 0, 1], 0).into(),
        config_dir: Some(setup.dir.join("host")),
        pin: Some(pin.clone()),
        sound: SoundChoice::Off,
        fps: setup.rate,
        bitrate: Some(Bitrate(20_000_000)),
        ..Config::default()
    };
    let guest = Guest::start(&config, InputTarget::Nothing, size, |_| ());
    let guest = guest.map_err(|e| anyhow!(e))?;
    let Some(at) = guest.address() else {
        bail!("the host has no address");
    };
    let way = Impairment {
        delay: setup.round_trip / 2,
        ..Impairment::default()
    };
    let link = Emulated::start([way.clone().into(), way.into()], None, at, 1, true)?;
    let mut client = client(display, setup, link.listens, &pin.to_string())?;
    let shown = Arc::new(Mutex::new(Vec::new()));
    let eye = watch(display, setup.eye, Arc::clone(&shown))?;
    let track = serve(&guest, setup, &mut client, &shown, stop)?;
    drop(eye);
    client.stop();
    let cost = client.log_value("stereo pictures drawn: ");
    drop((client, guest));
    link.end()?;
    let since = track.first().map_or(i64::MAX, |(at, _)| *at);
    let shown = std::mem::take(&mut *lock(&shown));
    let measured = shown.iter().filter(|(at, _)| *at >= since);
    let errors = measured.filter_map(|(at, yaw)| {
        let head = head_at(&track, *at)?;
        Some(around::difference(*yaw, head))
    });
    Ok(RunResult {
        errors: errors.collect(),
        cost,
    })
}

fn client(
    display: &VirtualDisplay,
    setup: &RunSetup<'_>,
    to: SocketAddr,
    pin: &str,
) -> Result<Child> {
    // The head repeats whole turns to the left, without a jump between two turns.
    let script = setup.dir.join("head.csv");
    let turn = 360.0 / setup.speed;
    std::fs::write(&script, format!("0,0,0,0,0,0,0\n{turn},0,0,0,360,0,0\n"))?;
    let mut client = openuvr("client")?;
    client
        .arg(to.to_string())
        .args(["--display", display.name()])
        .args(["--pin", pin])
        .args(["--table", "off"])
        .args(["--sound", "off"])
        .args(["--head-pose", &format!("script:{}", script.display())])
        .args([
            "--reproject",
            if setup.with.is_some() { "on" } else { "off" },
        ])
        .args(["--reproject-backend", setup.with.unwrap_or("auto")])
        .args(["--refresh", &setup.rate.to_string()])
        .arg("--config-dir")
        .arg(setup.dir.join("client"));
    Child::start("client", client, Some(&setup.dir.join("client.log")))
}

/// At each display change, reads the middle row of the left eye's picture, and records time and angle.
fn watch(display: &VirtualDisplay, eye: Size, shown: Arc<Mutex<Track>>) -> Result<Background> {
    let mut screen = Screen::open(display.name())?;
    screen.watch()?;
    let row = Area {
        x: 0,
        y: i16::try_from(eye.height / 2)?,
        size: Size::new(eye.width, 1),
    };
    let thread = Background::start("eye", move |stop| {
        let mut pixels = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let Ok(changed) = screen.changed(Duration::from_millis(50)) else {
                return;
            };
            let now = clock::now();
            if changed && screen.grab(row, &mut pixels).is_ok() {
                let yaw = around::read(&pixels);
                lock(&shown).extend(yaw.map(|yaw| (now.0, yaw)));
            }
        }
    });
    Ok(thread?)
}

/// Draws pictures with the newest pose until the end of the measurement. Returns the head's track during the
/// measurement.
fn serve(
    guest: &Guest,
    setup: &RunSetup<'_>,
    client: &mut Child,
    shown: &Mutex<Track>,
    stop: &AtomicBool,
) -> Result<Track> {
    let size = Size::new(setup.eye.width * 2, setup.eye.height);
    let pool = Pool::default();
    let period = Duration::from_secs_f64(1.0 / setup.rate);
    let began = clock::now();
    let mut slot = began;
    let mut visible: Option<Instant> = None;
    let mut known = PoseId::default();
    let mut track = Track::new();
    loop {
        let now = clock::now();
        let done = setup.warm_up + setup.lasting;
        // Continue for a round trip after the measurement, while the last pictures are in transit.
        if visible.is_some_and(|since| now.since(since) >= done + setup.round_trip) {
            return Ok(track);
        }
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        client.check()?;
        if visible.is_none() {
            if !lock(shown).is_empty() {
                visible = Some(now);
            } else if now.since(began) > START_TIMEOUT {
                bail!("no picture was visible{}", client.last_words());
            }
        }
        let posed = guest.pose();
        if let Some(posed) = posed.filter(|posed| posed.id != known) {
            known = posed.id;
            if visible.is_some_and(|since| now.since(since) >= setup.warm_up) {
                follow(&mut track, &posed);
            }
        }
        if now >= slot {
            slot = (slot + period).max(now);
            if let Some(posed) = posed
                && guest.wants()
            {
                let mut picture = pool.take(size);
                around::draw(yaw(&posed.pose), size, picture.bytes());
                let drawn = RenderInfo {
                    views: views(&posed.pose),
                    ..guest.drawn(size)
                };
                // Submitting fails if the session has ended, which the client reports.
                let _ = guest.frames().submit(Box::new(picture), drawn);
            }
        }
        clock::sleep_until(slot.min(clock::now() + LOOK));
    }
}

/// The yaw of a pose, in degrees to the left.
fn yaw(pose: &Pose) -> f64 {
    let [_, y, _, w] = pose.orientation().map(f64::from);
    (2.0 * y.atan2(w)).to_degrees()
}

/// The views of both eyes, each with a field of view of 90 degrees.
fn views(head: &Pose) -> Option<Views> {
    let half = (around::HALF as f32).to_radians();
    let fov = FieldOfView::new(-half, half, half, -half).ok()?;
    let [x, y, z] = head.position();
    let looks = openuvr_proto::rotation::Rotation::of(head);
    let eye = |side: f32| {
        let beside = looks.turn([side, 0.0, 0.0]);
        let at = [x + beside[0], y + beside[1], z + beside[2]];
        let pose = Pose::new(at, looks.0).ok()?;
        Some(View { pose, fov })
    };
    Some(Views::two(eye(-HALF_APART)?, eye(HALF_APART)?))
}

/// Appends the head's yaw to the track, without a jump by whole turns.
fn follow(track: &mut Track, posed: &ReceivedPose) {
    let at = posed.sampled.0;
    let yaw = yaw(&posed.pose);
    let before = track.last().map_or(yaw, |(_, yaw)| *yaw);
    let turned = (yaw - before + 180.0).rem_euclid(360.0) - 180.0;
    if track.last().is_none_or(|(last, _)| *last < at) {
        track.push((at, before + turned));
    }
}

/// The head's yaw at this time, interpolated; `None` if the time is outside the track.
fn head_at(track: &Track, at: i64) -> Option<f64> {
    let next = track.partition_point(|(known, _)| *known < at);
    let ((t0, a), (t1, b)) = (*track.get(next.checked_sub(1)?)?, *track.get(next)?);
    Some(a + (b - a) * (at - t0) as f64 / (t1 - t0) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_followed_through_whole_turns() {
        let track: Track = vec![(0, 350.0), (100, 360.0), (200, 370.0)];
        assert_eq!(head_at(&track, 50), Some(355.0));
        assert_eq!(head_at(&track, 150), Some(365.0));
        assert_eq!((head_at(&track, -1), head_at(&track, 201)), (None, None));
    }
}
