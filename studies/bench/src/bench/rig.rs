//! The base of most measurements that read pixels: two virtual displays, an application on the first, and a reader of
//! the second.
//!
//! This module neither chooses the measurements to compare nor prints results.

mod beside;
mod browser;
mod compositors;
mod drawn;
mod ends;
mod fidelity;
mod moonlight;
mod peer;
mod source;
mod still;
mod window;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_sim::link::Impairment;
use openuvr_testbed::cable::Cable;
use openuvr_testbed::child::Child;
use openuvr_testbed::display::VirtualDisplay;
use openuvr_testbed::emulated::Emulated;
use openuvr_testbed::hop::Meter;
use openuvr_testbed::journey;
use openuvr_testbed::pair::{self, Pair};
use openuvr_testbed::picture_match::{History, Shot};
use openuvr_testbed::programs;
use openuvr_testbed::reader::{BothEnds, Reader, Sighting};
use openuvr_testbed::sched::{Participant, Sched};
use openuvr_testbed::screen::Screen;
use openuvr_testbed::stats::{Frames, Summary};
use openuvr_xserver::sway::Sway;

pub(super) use self::beside::{ObserverResults, Observers};
pub(super) use self::browser::{BrowserMeasurement, BrowserSetup, MediaLink};
use self::compositors::Desktop;
pub(super) use self::compositors::{ClientWindow, PROGRAMS};
use self::drawn::Drawn;
use self::fidelity::Pictures;
pub(super) use self::moonlight::MoonlightSetup;
pub(super) use self::peer::{Listens, PeerSetup};
pub(super) use self::source::Source;
pub(super) use self::still::SETTLE;
pub(super) use self::window::{WindowContent, WindowSetup};
use super::case::{Case, Sample, Stream};
use super::floor::Copier;
use crate::machine::{self, Load};
use openuvr_clock as clock;

/// Timeout of the first frame.
const FIRST_FRAME: Duration = Duration::from_secs(60);
/// Grace period for the last frame drawn during the measurement.
const GRACE_PERIOD: Duration = Duration::from_millis(500);
/// Seed of the emulated link's losses, identical in each run.
const SEED: u64 = 1;

/// Parameters of a rig.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) size: Size,
    /// Frames per second of the scene.
    pub(super) scene_fps: f64,
    pub(super) sched: Sched,
    /// Warm-up time of a case. Caches, rate control and schedulers settle meanwhile.
    pub(super) warm_up: Duration,
    /// Number of frames compared for the PSNR.
    pub(super) compared: usize,
}

/// Parameters of a measured host and client.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamSetup<'a> {
    pub(super) source: Source,
    /// The cable between host and client, or `None` for the loopback device.
    pub(super) cable: Option<&'a Cable>,
    /// Impairments in each direction of the emulated link between host and client, or `None` for no emulated link.
    pub(super) impaired: Option<&'a Impairment>,
    pub(super) fps: f64,
    pub(super) bitrate: &'a str,
    pub(super) seconds: f64,
    /// Number of key presses.
    pub(super) presses: u32,
    /// Whether to compare the displayed pictures with the drawn ones.
    pub(super) compare: bool,
    /// The folder for keys, logs and the record.
    pub(super) dir: &'a Path,
    pub(super) csv: &'a Path,
    /// The sound server of host and client; see [`pair::Options`].
    pub(super) sound: Option<&'a str>,
    /// The folder of the client's gamepads; see [`pair::Options`].
    pub(super) pads: Option<&'a Path>,
    pub(super) more_host: &'a [String],
    pub(super) more_client: &'a [String],
}

/// The displays and the scene. Both the floor and the streams are measured with them.
pub(super) struct Rig<'a> {
    setup: Setup,
    stop: &'a AtomicBool,
    scene: Option<Child>,
    /// File for the scene's frame times.
    times: Option<PathBuf>,
    /// File for the times at which the scene reads the gamepad.
    pad_times: Option<PathBuf>,
    /// Traffic counters of the emulated link, if there is one.
    meter: Option<Meter>,
    /// The sound server and the sink for the scene's clicks.
    clicks: Option<(String, String)>,
    /// Duration of the measurement of a still picture, or `None` to skip that measurement.
    still: Option<Duration>,
    /// The bar codes from the first and the last rows of the last stream's pictures. `None` if only the first rows are
    /// read.
    both_ends: Option<Vec<BothEnds>>,
    /// Whether the host has started the scene.
    host_has_scene: bool,
    /// The compositor that shows the scene. `None` if the scene is an X11 program.
    session: Option<Sway>,
    /// The compositor that shows the client's window. `None` if the window is directly on the second display.
    desktop: Option<Desktop>,
    near: VirtualDisplay,
    far: VirtualDisplay,
}

impl<'a> Rig<'a> {
    pub(super) fn start(setup: Setup, stop: &'a AtomicBool) -> Result<Rig<'a>> {
        let near = VirtualDisplay::start(setup.size)?;
        let far = VirtualDisplay::start(setup.size)?;
        for display in [&near, &far] {
            setup.sched.raise(display.id(), Participant::Display);
        }
        Ok(Rig {
            setup,
            stop,
            scene: None,
            times: None,
            pad_times: None,
            meter: None,
            clicks: None,
            still: None,
            both_ends: None,
            host_has_scene: false,
            session: None,
            desktop: None,
            near,
            far,
        })
    }

    /// Makes the next scene write its frame times to this file when it ends.
    pub(super) fn keep_times(&mut self, path: &Path) {
        self.times = Some(path.to_owned());
    }

    /// Makes the next scene write its gamepad reads and their times to this file.
    pub(super) fn keep_pad_times(&mut self, path: &Path) {
        self.pad_times = Some(path.to_owned());
    }

    /// Makes the next scene flash without input. At each flash, the scene also clicks through this sink of the sound
    /// server at `server`.
    pub(super) fn click(&mut self, server: &str, sink: &str) {
        self.clicks = Some((server.to_owned(), sink.to_owned()));
    }

    /// The arguments of a scene on its own display.
    fn scene_words(&self) -> Vec<String> {
        match self.session.as_ref().map(Sway::socket) {
            None => self.scene_words_on(&["--display", self.near.name()]),
            Some(socket) => self.scene_words_on(&["--wayland", &socket.to_string_lossy()]),
        }
    }

    /// The arguments of a scene on the display that the arguments `display` select.
    fn scene_words_on(&self, display: &[&str]) -> Vec<String> {
        let Setup {
            size, scene_fps, ..
        } = self.setup;
        let mut words = pair::scene_words_on(display, size, scene_fps);
        for (option, path) in [("--times", &self.times), ("--pad-times", &self.pad_times)] {
            if let Some(path) = path {
                words.extend([option.to_owned(), path.display().to_string()]);
            }
        }
        words.extend(self.both_ends.is_some().then(|| "--bottom-code".to_owned()));
        words
    }

    /// Starts the scene's process unless it is already running.
    fn with_scene(&mut self) -> Result<()> {
        if self.scene.is_none() {
            let words = self.scene_words();
            self.scene = Some(match &self.clicks {
                Some((server, sink)) => pair::clicking_scene(&words, server, sink)?,
                None => pair::scene(&words)?,
            });
        }
        Ok(())
    }

    /// Runs the scene without a stream. With `read_back`, the scene reads its pictures back and discards them. Returns
    /// the cores used by other processes.
    pub(super) fn alone(&mut self, seconds: f64, read_back: bool) -> Result<f64> {
        let mut words = self.scene_words();
        words.extend(read_back.then(|| "--read-back".to_owned()));
        let mut scene = pair::scene(&words)?;
        // On a busy machine, the scene may take longer to start than the whole measurement lasts.
        let reader = Reader::start_as(self.near.name(), self.setup.sched)?;
        self.first_frame(&reader, &mut || scene.check())?;
        drop(reader);
        self.pass(self.setup.warm_up, &mut || scene.check())?;
        let before = Load::now();
        self.pass(Duration::from_secs_f64(seconds), &mut || scene.check())?;
        Ok(Load::now().since(&before).other_cores)
    }

    /// The scene's own reaction time to a press, without a stream. It consists of the wait for the next frame and the
    /// drawing of that frame.
    pub(super) fn application_reaction(&mut self, presses: u32) -> Result<Vec<f64>> {
        self.with_scene()?;
        let reader = Reader::start_as(self.near.name(), self.setup.sched)?;
        self.first_frame(&reader, &mut || Ok(()))?;
        self.reactions(self.near.name(), &reader, presses)
    }

    /// Measures the floor: the latency of the displays, the copier and the reader, without a stream.
    pub(super) fn floor(&mut self, seconds: f64) -> Result<Case> {
        self.with_scene()?;
        let sched = self.setup.sched;
        let copier = Copier::start_as(self.near.name(), self.far.name(), sched)?;
        let reader = Reader::start_as(self.far.name(), sched)?;
        let any = &mut |seen: &[Sighting]| Ok(!seen.is_empty());
        let source = Some(self.near.name());
        let case = self.measure(source, &reader, &[], seconds, any, &mut || Ok(()))?;
        copier.stop()?;
        Ok(case)
    }

    /// Measures a host and a client.
    pub(super) fn stream(&mut self, of: &StreamSetup<'_>) -> Result<Stream> {
        // The link is dropped only after the stream has ended.
        let mut link = None;
        self.stream_by(of, |options| {
            let pair = match (of.cable, of.impaired) {
                (Some(cable), _) => Pair::start_on(options, cable),
                (None, Some(impaired)) => Pair::start_over(options, |host| {
                    let courses = [(); 2].map(|()| impaired.clone().into());
                    let started = Emulated::start(courses, None, host, SEED, true)?;
                    let listens = started.listens;
                    link = Some(started);
                    Ok(listens)
                }),
                (None, None) => Pair::start(options),
            };
            Ok((pair?, None))
        })
    }

    fn stream_by(
        &mut self,
        of: &StreamSetup<'_>,
        start: impl FnOnce(&pair::Options<'_>) -> Result<(Pair, Option<Meter>)>,
    ) -> Result<Stream> {
        let mut more_host = of.source.words();
        let fps = self.setup.scene_fps.to_string();
        let mut game = Vec::new();
        self.host_has_scene = matches!(of.source, Source::Virtual(_));
        match of.source {
            Source::Screen | Source::OwnHost => self.with_scene()?,
            Source::Session { refresh } => {
                self.start_session(refresh)?;
                self.with_scene()?;
            }
            Source::Hook | Source::Virtual(_) => {
                self.scene = None;
                let program = programs::program()?;
                game.extend([program.display().to_string(), "scene".to_owned()]);
                game.extend(match of.source {
                    Source::Virtual("wayland") => self.scene_words_on(&["--wayland"]),
                    // The scene draws on the display that the host starts.
                    Source::Virtual(_) => self.scene_words_on(&[]),
                    _ => self.scene_words(),
                });
            }
            Source::Api { synchronous } => {
                self.scene = None;
                game.extend(self.scene_words());
                game.extend(synchronous.then(|| "--synchronous".to_owned()));
                ensure!(
                    of.more_host.is_empty() && self.setup.sched == Sched::Auto,
                    "a scene that streams through the C API does not take host options"
                );
            }
            Source::Submit(_) => {
                self.scene = None;
                let size = self.setup.size.to_string();
                more_host.extend(["--size".into(), size, "--scene-fps".into(), fps]);
            }
        }
        let (client_display, mut more_client) = self.client_window();
        let session = self.session.as_ref().map(Sway::socket);
        let session = session.as_deref().map(Path::to_string_lossy);
        if self.setup.sched == Sched::Off {
            for more in [&mut more_host, &mut more_client] {
                more.extend(["--realtime".to_owned(), "off".to_owned()]);
            }
        }
        // The caller's options come last, so that they take precedence.
        more_host.extend_from_slice(of.more_host);
        more_client.extend_from_slice(of.more_client);
        let options = pair::Options {
            serve: (of.source).serve(&game, session.as_deref(), self.setup.size),
            host_display: self.near.name(),
            client_display: &client_display,
            fps: of.fps,
            bitrate: of.bitrate,
            dir: of.dir,
            csv: Some(of.csv),
            sound: of.sound,
            pads: of.pads,
            show_host: false,
            more_host: &more_host,
            more_client: &more_client,
        };
        let (mut pair, meter) = start(&options)?;
        self.meter = meter;
        let reader = self.reader()?;
        let children = [("host", pair.host.id()), ("client", pair.client.id())];
        // If a picture is displayed slice by slice, its top is visible before the whole picture is submitted. Then the
        // time of submission does not identify the picture, but the time of capture does.
        let join: Join = match self.both_ends {
            Some(_) => journey::join_by_capture,
            None => journey::join,
        };
        let any_complete = &mut |seen: &[Sighting]| {
            // Errors in the record are reported at the end.
            let text = std::fs::read_to_string(of.csv).unwrap_or_default();
            let mut record = journey::parse(&text).unwrap_or_default();
            record.retain(journey::Row::belongs_to_session);
            let joined = join(seen, &record);
            Ok(joined.into_iter().flatten().any(journey::Row::is_whole))
        };
        let check = &mut || pair.check();
        let near = of.source.draws_on_near_display().then(|| self.near.name());
        let seconds = of.seconds;
        let case = self.measure(near, &reader, &children, seconds, any_complete, check)?;
        self.keep_both_ends(&reader);
        let link = pair.link();
        let reaction_ms = self.reactions(self.far.name(), &reader, of.presses)?;
        let still_cores = self.still_cores(pair.host.id(), &mut || pair.check())?;
        let mut pictures = Pictures::default();
        if of.compare {
            // The pictures for the comparison are captured last and separately, because capturing whole pictures of
            // both displays loads the machine. First wait until the flashes of the key presses have ended.
            self.pass(self.setup.warm_up, &mut || pair.check())?;
            pictures = self.pictures(&reader)?;
        }
        drop(reader);
        pair.client.stop();
        pair.host.stop_by_itself();
        let text = std::fs::read_to_string(of.csv)
            .with_context(|| format!("can't read the host's record {}", of.csv.display()))?;
        let mut record = journey::parse(&text)?;
        record.retain(journey::Row::belongs_to_session);
        Ok(Stream {
            link,
            still_cores,
            ..with_record(case, &record, join, reaction_ms, &pictures.compared())
        })
    }

    /// Measures for `seconds`, and then for at most [`FIRST_FRAME`] until `enough` is satisfied: on a busy machine,
    /// `seconds` can pass without a displayed picture, and a run without a result is useless. `source` is the display
    /// on which the scene draws, or `None` if only the host can read that display.
    fn measure(
        &self,
        source: Option<&str>,
        reader: &Reader,
        children: &[(&'static str, u32)],
        seconds: f64,
        enough: &mut dyn FnMut(&[Sighting]) -> Result<bool>,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Case> {
        self.first_frame(reader, check)?;
        let scene = match source {
            Some(display) => Drawn::open(display)?,
            None => Drawn::Visible(reader),
        };
        self.pass(self.setup.warm_up, check)?;
        let carried = || self.meter.as_ref().map(carried_bytes);
        let (unreadable, before, given) = (reader.unreadable(), Load::now(), carried());
        let (from, first) = scene.newest()?;
        self.pass(Duration::from_secs_f64(seconds), check)?;
        let until = clock::now() + FIRST_FRAME;
        loop {
            let mut seen = reader.since(0);
            seen.retain(|sighting| sighting.frame > first);
            if enough(&seen)? || clock::now() >= until {
                break;
            }
            self.pass(Duration::from_millis(50), check)?;
        }
        let (to, last) = scene.newest()?;
        let used = Load::now().since(&before);
        let carried = carried().zip(given).map(|(all, before)| all - before);
        reader.wait(0, GRACE_PERIOD, |sighting| sighting.frame >= last)?;
        let drawn = first + 1..=last;
        let mut samples = reader.since(0);
        samples.retain(|sighting| drawn.contains(&sighting.frame));
        let application = self.scene.as_ref().map(|scene| ("scene", scene.id()));
        let shared = [
            ("display A", self.near.id()),
            ("display B", self.far.id()),
            ("bench", std::process::id()),
        ];
        let latencies: Vec<f64> = samples.iter().map(Sighting::latency_ms).collect();
        let mut cores: BTreeMap<&'static str, f64> = (children.iter().chain(&application))
            .map(|(name, id)| (*name, used.of_family(*id)))
            .chain(shared.map(|(name, id)| (name, used.of(id))))
            .collect();
        let host = children.iter().find(|(name, _)| *name == "host");
        for (name, further) in self.further_cores(host.map(|(_, id)| *id), &used) {
            *cores.entry(name).or_default() += further;
        }
        Ok(Case {
            frames: Frames::drawn(drawn, samples.iter().map(|sighting| sighting.frame)),
            window: [from, to],
            seconds: to.since(from).as_secs_f64(),
            latency_ms: Summary::of(&latencies),
            unreadable: reader.unreadable() - unreadable,
            other_cores: used.other_cores,
            cores,
            audio_cores: (children.iter())
                .filter_map(|(name, id)| Some((*name, used.of_audio(*id)?)))
                .collect(),
            loopback_mbps: used.loopback_mbps,
            package_joules: used.package_joules,
            carried_mbps: carried
                .map(|bytes| bytes as f64 * 8.0 / 1e6 / to.since(from).as_secs_f64()),
            threads: machine::threads().into_iter().collect(),
            samples: samples
                .into_iter()
                .map(|sighting| Sample {
                    sighting,
                    outcome: None,
                })
                .collect(),
        })
    }

    fn first_frame(&self, reader: &Reader, check: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let until = clock::now() + FIRST_FRAME;
        while reader
            .wait(0, Duration::from_millis(100), |_| true)?
            .is_none()
        {
            self.pass(Duration::ZERO, check)?;
            if clock::now() > until {
                bail!(
                    "no bar code became visible within {} s",
                    FIRST_FRAME.as_secs()
                );
            }
        }
        Ok(())
    }

    fn pass(&self, span: Duration, check: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        pass(clock::now() + span, self.stop, check)
    }

    /// Presses a key on `display` repeatedly. Waits for the visible effect of each press on that display.
    fn reactions(&self, display: &str, reader: &Reader, presses: u32) -> Result<Vec<f64>> {
        let mut reactions = Vec::new();
        if presses == 0 {
            return Ok(reactions);
        }
        let keyboard = Screen::open(display)?;
        self.setup.sched.raise_me(Participant::Injector);
        let _ordinary_again = SchedGuard(self.setup.sched);
        for press in 0..presses {
            let before = reader.latest().map(|sighting| sighting.inputs);
            let mark = reader.mark();
            let pressed = clock::now();
            keyboard.press_key()?;
            let changed = |sighting: &Sighting| Some(sighting.inputs) != before;
            if let Some(seen) = reader.wait(mark, Duration::from_secs(2), changed)? {
                let ms = (seen.seen_us as f64 - pressed.0 as f64 / 1000.0) / 1000.0;
                reactions.push(ms);
            }
            // Two presses are at least 150 ms apart. The time beyond 150 ms varies, and so shifts the next press
            // relative to the frames.
            let apart = Duration::from_micros(150_000 + u64::from(press) * 6_180 % 16_667);
            clock::sleep_until(pressed + apart);
            self.pass(Duration::ZERO, &mut || Ok(()))?;
        }
        Ok(reactions)
    }

    /// About half a second of consecutive pictures of the scene, as the host captures them.
    pub(super) fn film(&mut self) -> Result<Vec<Shot>> {
        self.with_scene()?;
        let history = History::start(self.near.name(), None)?;
        self.pass(Duration::from_millis(1_500), &mut || Ok(()))?;
        let mut shots = history.shots();
        shots.retain(|shot| shot.stamp.is_some());
        shots.dedup_by_key(|shot| shot.stamp.map(|stamp| stamp.frame));
        Ok(shots)
    }
}

/// Traffic offered to an emulated link in both directions. Includes the Ethernet, IPv4 and UDP headers, as the counter
/// of the loopback device does.
fn carried_bytes(meter: &Meter) -> u64 {
    const HEADERS: u64 = 14 + 20 + 8;
    let ways = meter.read().into_iter();
    ways.map(|(datagrams, bytes)| bytes + datagrams * HEADERS)
        .sum()
}

/// Waits until the time `until`, and calls `check` at least every 200 ms.
///
/// # Errors
/// Returns the error of `check`, or an error if the user interrupts the bench.
pub(super) fn pass(
    until: Instant,
    stop: &AtomicBool,
    check: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    loop {
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        check()?;
        let now = clock::now();
        if now >= until {
            return Ok(());
        }
        clock::sleep_until(until.min(now + Duration::from_millis(200)));
    }
}

/// Restores the calling thread's ordinary scheduling when dropped.
pub(super) struct SchedGuard(pub(super) Sched);

impl Drop for SchedGuard {
    fn drop(&mut self) {
        self.0.lower_me();
    }
}

/// Finds the row of the record for each sighting.
type Join = for<'a> fn(&[Sighting], &'a [journey::Row]) -> Vec<Option<&'a journey::Row>>;

/// Restricts the latencies to complete frames, and the record to the rows of the measured time.
fn with_record(
    mut case: Case,
    record: &[journey::Row],
    join: Join,
    reaction_ms: Vec<f64>,
    compared: &[(Sighting, f64)],
) -> Stream {
    let sightings: Vec<Sighting> = case.samples.iter().map(|s| s.sighting).collect();
    let joined = join(&sightings, record);
    for (sample, row) in case.samples.iter_mut().zip(&joined) {
        sample.outcome = row.map(|row| row.outcome.clone());
    }
    let complete: Vec<f64> = sightings
        .iter()
        .zip(&joined)
        .filter(|(_, row)| row.is_some_and(journey::Row::is_whole))
        .map(|(sighting, _)| sighting.latency_ms())
        .collect();
    case.latency_ms = Summary::of(&complete);
    let steps = journey::steps(&sightings, &joined);
    let [from, to] = case.window.map(|at| at.0);
    let mut outcomes = BTreeMap::new();
    let mut wire_bytes = 0;
    for row in record {
        if row.at("Captured").is_some_and(|at| at >= from && at < to) {
            *outcomes.entry(row.outcome.clone()).or_insert(0) += 1;
            wire_bytes += row.wire_bytes;
        }
    }
    Stream {
        link: None,
        incomplete: sightings.len() - complete.len(),
        steps,
        outcomes,
        wire_mbps: (!record.is_empty()).then(|| wire_bytes as f64 * 8.0 / 1e6 / case.seconds),
        reaction_ms,
        psnr_db: compared.iter().map(|(_, db)| *db).collect(),
        compared: fidelity::recorded(compared, record),
        still_cores: None,
        case,
    }
}
