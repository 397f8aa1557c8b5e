//! Measures one point: a host plays a clip over an emulated link to a client, and the pictures on the client's display
//! are compared with the captured pictures.
//!
//! Every frame of the clip counts, in order, even if the host did not capture it. If a frame was not displayed, it is
//! compared with the picture displayed in its place. A frame is excluded if the bench missed this picture. The
//! comparison takes place after the stream, or between the batches of a long stream.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use openuvr_media::barcode;
use openuvr_media::capture::clip::{Clip, picture_index};
use openuvr_proto::time::Instant;
use openuvr_testbed::display::VirtualDisplay;
use openuvr_testbed::emulated::Emulated;
use openuvr_testbed::hop::Report;
use openuvr_testbed::journey::{self, Row};
use openuvr_testbed::pair::{self, Pair, TemporaryDir};
use openuvr_testbed::reader::Sighting;
use openuvr_testbed::stats::Summary;

use super::super::rig::pass;
use super::recorder::{DisplayRecorder, Shot};
use super::setup::Setup;
use super::similarity::Luma;
use crate::machine::Load;
use openuvr_clock as clock;

/// Results of a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    /// PSNR of each frame that can be compared, in order, in decibels.
    pub(super) psnr: Vec<f64>,
    /// SSIM of the same frames.
    pub(super) ssim: Vec<f64>,
    /// Outcomes of all frames, from the host's record, which does not contain frames that were not captured.
    pub(super) outcomes: BTreeMap<String, u32>,
    /// Number of excluded frames: the bench was late itself, and missed the picture that was displayed for them.
    pub(super) unseen: u32,
    /// Latency from Captured to Submitted, of complete frames.
    pub(super) latency_ms: Option<Summary>,
    /// Upstream traffic, from the client. `down` is the downstream traffic, from the host.
    pub(super) up: Traffic,
    pub(super) down: Traffic,
    /// Upstream and downstream traffic of each second. The last second may be shorter.
    pub(super) each_second: Vec<[Traffic; 2]>,
    /// Number of cores used by other processes during the measurement.
    pub(super) other_cores: f64,
    /// The p99 of the emulated link's own lateness.
    pub(super) link_late: Option<Duration>,
}

/// Traffic offered to the link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// Megabits per second, with IP and UDP headers.
    pub(super) mbps: f64,
    /// Datagrams per second.
    pub(super) rate: f64,
    /// Mean payload of a datagram in bytes, without headers.
    pub(super) payload: f64,
}

/// Size of the IPv4 and UDP headers of a datagram, in bytes.
const HEADERS: f64 = 28.0;
/// Maximum time until the first picture. Over the worst link, pairing alone takes seconds.
const FIRST_PICTURE: Duration = Duration::from_secs(20);
/// Warm-up, so that the first key frame has been sent and the rate control has settled.
const WARM_UP: Duration = Duration::from_millis(1500);

/// A running stream of a clip over an emulated link, after the warm-up.
pub(super) struct ClipStream<'a> {
    setup: &'a Setup<'a>,
    stop: &'a AtomicBool,
    pair: Pair,
    link: Emulated,
    eye: DisplayRecorder,
    record: RecordReader,
    /// Contains the record and the logs.
    _dir: TemporaryDir,
}

/// A reading of the link's meter: the time, and the numbers of datagrams and bytes upstream and downstream.
type Reading = (Instant, [(u64, u64); 2]);

impl<'a> ClipStream<'a> {
    /// Starts host, link and client, and waits until the stream has warmed up. `far` is the client's display.
    pub(super) fn start(
        setup: &'a Setup<'a>,
        far: &VirtualDisplay,
        stop: &'a AtomicBool,
    ) -> Result<ClipStream<'a>> {
        let dir = TemporaryDir::new()?;
        let csv = dir.path().join("frames.csv");
        let mut more_host: Vec<String> = ["--source", "clip", "--clip"].map(String::from).to_vec();
        more_host.push(setup.clip.to_string_lossy().into_owned());
        more_host.extend(setup.more_host.iter().cloned());
        let mut more_client = Vec::new();
        if !setup.real_time {
            for more in [&mut more_host, &mut more_client] {
                more.extend(["--realtime", "off"].map(String::from));
            }
        }
        let options = pair::Options {
            serve: pair::Serve::Host,
            host_display: far.name(),
            client_display: far.name(),
            fps: setup.fps,
            bitrate: setup.bitrate,
            dir: dir.path(),
            csv: Some(&csv),
            sound: None,
            pads: None,
            show_host: false,
            more_host: &more_host,
            more_client: &more_client,
        };
        let mut link = None;
        let pair = Pair::start_over(&options, |host| {
            let courses = [setup.link.clone(), setup.link.clone()];
            let started = Emulated::start(courses, None, host, setup.seed, setup.real_time)?;
            let listens = started.listens;
            link = Some(started);
            Ok(listens)
        })?;
        let mut stream = ClipStream {
            setup,
            stop,
            pair,
            link: link.context("no link")?,
            eye: DisplayRecorder::open(far.name(), setup)?,
            record: RecordReader::new(csv),
            _dir: dir,
        };
        let until = clock::now() + FIRST_PICTURE;
        while stream.eye.watched().area.is_none() {
            if clock::now() > until {
                bail!(
                    "no picture was visible within {} s",
                    FIRST_PICTURE.as_secs()
                );
            }
            stream.pass(Duration::from_millis(50))?;
        }
        stream.pass(WARM_UP + setup.round_trip)?;
        Ok(stream)
    }

    /// Waits for `span`, and checks host and client in the meantime.
    pub(super) fn pass(&mut self, span: Duration) -> Result<()> {
        self.pass_until(clock::now() + span)
    }

    /// Waits until `until`, and checks host and client in the meantime.
    pub(super) fn pass_until(&mut self, until: Instant) -> Result<()> {
        let pair = &mut self.pair;
        pass(until, self.stop, &mut || pair.check())
    }

    /// Records the display for [`Setup::seconds`]. Returns one reading of the link's meter from the beginning, and one
    /// from the end of each second. The last second may be shorter.
    pub(super) fn record(&mut self) -> Result<Vec<Reading>> {
        self.eye.watched().keeping = true;
        let mut readings = vec![self.reading()];
        let end = clock::now() + Duration::from_secs_f64(self.setup.seconds);
        loop {
            let rest = end.since(clock::now());
            if rest.is_zero() {
                break;
            }
            self.pass(rest.min(Duration::from_secs(1)))?;
            readings.push(self.reading());
        }
        self.eye.watched().keeping = false;
        Ok(readings)
    }

    fn reading(&self) -> Reading {
        (clock::now(), self.link.meter.read())
    }

    /// Compares the pictures that were recorded since the last call with the frames that the host has added to its
    /// record since then. The reports on these frames must have arrived, and the host must have written its record of
    /// them.
    pub(super) fn judge_recorded(&mut self) -> Result<Point> {
        let shots = std::mem::take(&mut self.eye.watched().shots);
        judge(self.setup, &shots, &self.record.new_rows()?)
    }

    /// Ends the stream. Returns the pictures and the rows of the host's record that were not judged yet, the link's
    /// report, and the client's last output.
    fn end(self) -> Result<(Vec<Shot>, Vec<Row>, Report, String)> {
        let ClipStream {
            mut pair,
            link,
            eye,
            mut record,
            _dir,
            ..
        } = self;
        pair.client.stop();
        pair.host.stop();
        let shots = eye.end()?;
        let report = link.end()?;
        Ok((shots, record.new_rows()?, report, pair.client.last_words()))
    }
}

/// Reads the host's record in parts, so that a long stream's record is read only once.
struct RecordReader {
    path: PathBuf,
    /// The line with the names of the columns; empty before the first call of `new_rows`.
    heading: String,
    /// Number of bytes in the complete lines that were read.
    position: u64,
}

impl RecordReader {
    fn new(path: PathBuf) -> RecordReader {
        RecordReader {
            path,
            heading: String::new(),
            position: 0,
        }
    }

    /// The rows that were completely written since the last call.
    fn new_rows(&mut self) -> Result<Vec<Row>> {
        let mut text = self.rest().with_context(|| {
            let path = self.path.display();
            format!("can't read the host's record {path}")
        })?;
        // The last line may be incomplete.
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        self.position += text.len() as u64;
        if self.heading.is_empty() {
            let heading = text.split_inclusive('\n').next().unwrap_or_default();
            self.heading = heading.to_owned();
        } else {
            text.insert_str(0, &self.heading);
        }
        journey::parse(&text)
    }

    /// The text after the last row that was read.
    fn rest(&self) -> std::io::Result<String> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.position))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    }
}

/// Measures one point; `far` is the client's display.
pub(super) fn measure(setup: &Setup<'_>, far: &VirtualDisplay, stop: &AtomicBool) -> Result<Point> {
    let mut stream = ClipStream::start(setup, far, stop)?;
    let (load, before) = (Load::now(), stream.reading());
    let readings = stream.record()?;
    let after = stream.reading();
    let used = Load::now().since(&load);
    // Wait for the reports of the last frames.
    stream.pass(Duration::from_millis(300) + setup.round_trip)?;
    let (shots, rows, report, words) = stream.end()?;
    let mut point = judge(setup, &shots, &rows).map_err(|why| {
        let ends = ends(&rows, before.0, after.0);
        anyhow!("{why}; captured frames: {ends}{words}")
    })?;
    [point.up, point.down] = traffic(&before, &after);
    let seconds = readings.windows(2);
    point.each_second = seconds.map(|pair| traffic(&pair[0], &pair[1])).collect();
    point.latency_ms = Summary::of(&latencies(&rows, before.0, after.0));
    point.other_cores = used.other_cores;
    point.link_late = report.lateness.quantile(990);
    Ok(point)
}

/// The upstream and the downstream traffic between two readings.
fn traffic(before: &Reading, after: &Reading) -> [Traffic; 2] {
    let seconds = after.0.since(before.0).as_secs_f64();
    [0, 1].map(|way| {
        let ((datagrams, bytes), (all_datagrams, all_bytes)) = (before.1[way], after.1[way]);
        let datagrams = (all_datagrams - datagrams) as f64;
        let bytes = (all_bytes - bytes) as f64;
        Traffic {
            mbps: (bytes + datagrams * HEADERS) * 8.0 / 1e6 / seconds,
            rate: datagrams / seconds,
            payload: bytes / datagrams.max(1.0),
        }
    })
}

/// Latency from Captured to Submitted, in milliseconds, of the complete frames captured from `begin` to `end`.
fn latencies(rows: &[Row], begin: Instant, end: Instant) -> Vec<f64> {
    let latency = |row: &Row| {
        let captured = row.at("Captured")?;
        let submitted = row.at("Submitted")?;
        let counts = row.is_whole() && (begin.0..end.0).contains(&captured);
        counts.then(|| (submitted - captured) as f64 / 1e6)
    };
    rows.iter().filter_map(latency).collect()
}

/// Compares each frame of the clip with the picture that was displayed for it.
fn judge(setup: &Setup<'_>, shots: &[Shot], rows: &[Row]) -> Result<Point> {
    if shots.is_empty() {
        bail!(
            "the picture on the client's display did not change within the measured {} s",
            setup.seconds
        );
    }
    let mut point = Point::default();
    let Some(rows) = Numbered::new(setup.fps, shots, rows) else {
        bail!(
            "no bar code could be read in any of the {} pictures on the client's display",
            shots.len()
        );
    };
    let shown = rows.shown(shots);
    let Some((&first, _)) = shown.first_key_value() else {
        bail!("no picture was shown during the measurement");
    };
    let mut clip = Clip::open(setup.clip)?;
    let mut bgrx = Vec::new();
    let mut stands: Option<&Shot> = None;
    let count = (setup.seconds * setup.fps).round() as u32;
    for number in first..first + count {
        let row = rows.by_number.get(&number).copied();
        let outcome = row.map_or("not captured", |row| row.outcome.as_str());
        *point.outcomes.entry(outcome.to_owned()).or_insert(0) += 1;
        if let Some(shot) = shown.get(&number) {
            stands = Some(shot);
        } else if row.is_some_and(|row| row.at("Submitted").is_some()) {
            // The frame was displayed but missed by the bench, so the displayed picture is unknown until the next one
            // is seen.
            stands = None;
        }
        let Some(stands) = stands else {
            point.unseen += 1;
            continue;
        };
        clip.read(picture_index(number, clip.count()), &mut bgrx)?;
        let captured = Luma::of(&bgrx, setup.size, barcode::height(setup.size.width));
        let same = "the client's window and the clip differ in size";
        point.psnr.push(stands.luma.psnr(&captured).context(same)?);
        point.ssim.push(stands.luma.ssim(&captured).context(same)?);
    }
    Ok(point)
}

/// Describes the outcomes of the frames captured from `begin` to `end`.
fn ends(rows: &[Row], begin: Instant, end: Instant) -> String {
    let mut ends = BTreeMap::<&str, u32>::new();
    let meanwhile = |row: &&Row| {
        row.at("Captured")
            .is_some_and(|at| (begin.0..end.0).contains(&at))
    };
    for row in rows.iter().filter(meanwhile) {
        *ends.entry(&row.outcome).or_insert(0) += 1;
    }
    let words: Vec<_> = (ends.iter().map(|(end, count)| format!("{count} {end}"))).collect();
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(", "),
    }
}

/// The host's record, indexed by the frame numbers of the clip.
struct Numbered<'a> {
    rows: &'a [Row],
    /// The due time of frame 1, in microseconds. `period` is the frame period, in microseconds.
    begin: f64,
    period: f64,
    by_number: BTreeMap<u32, &'a Row>,
}

impl<'a> Numbered<'a> {
    /// Numbers the frames of a record; `None` if no bar code was read.
    fn new(fps: f64, shots: &[Shot], rows: &'a [Row]) -> Option<Numbered<'a>> {
        let period = 1e6 / fps;
        // Frames are drawn at their due time or later, so the frame with the least delay determines the phase.
        let begin = shots
            .iter()
            .filter_map(|shot| shot.stamp)
            .map(|stamp| stamp.drawn_us as f64 - (f64::from(stamp.frame) - 1.0) * period)
            .min_by(f64::total_cmp)?;
        let mut numbered = Numbered {
            rows,
            begin,
            period,
            by_number: BTreeMap::new(),
        };
        let of = rows
            .iter()
            .filter_map(|row| Some((numbered.number(row)?, row)));
        numbered.by_number = of.collect();
        Some(numbered)
    }

    /// The clip's frame number for a row: the last frame that was due before the capture.
    fn number(&self, row: &Row) -> Option<u32> {
        let since = row.at("Captured")? as f64 / 1e3 - self.begin;
        (since >= 0.0).then(|| (since / self.period) as u32 + 1)
    }

    /// The picture that was displayed for each frame. The bar code of a complete picture identifies the frame. In an
    /// incomplete picture, error concealment may leave the bar code of an earlier frame. Such a picture is identified
    /// by the display times in the record.
    fn shown<'s>(&self, shots: &'s [Shot]) -> BTreeMap<u32, &'s Shot> {
        let sightings: Vec<Sighting> = shots
            .iter()
            .map(|shot| Sighting {
                frame: 0,
                drawn_us: 0,
                seen_us: barcode::micros(shot.at),
                inputs: 0,
            })
            .collect();
        let mut shown = BTreeMap::new();
        for (shot, by_time) in shots.iter().zip(journey::join(&sightings, self.rows)) {
            let complete = shot.stamp.map(|stamp| stamp.frame).filter(|number| {
                let row = self.by_number.get(number);
                row.is_some_and(|row| row.is_whole()) && !shown.contains_key(number)
            });
            let by_time = || by_time.and_then(|row| self.number(row));
            if let Some(number) = complete.or_else(by_time) {
                shown.entry(number).or_insert(shot);
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use openuvr_proto::units::Size;
    use openuvr_sim::schedule::ImpairmentSchedule;

    use super::*;

    #[test]
    fn each_row_of_the_record_is_read_once() {
        let folder = TemporaryDir::new().unwrap();
        let path = folder.path().join("frames.csv");
        let mut file = File::create(&path).unwrap();
        let mut record = RecordReader::new(path);
        let mut frames_after = |text: &str| {
            file.write_all(text.as_bytes()).unwrap();
            let rows = record.new_rows().unwrap();
            Vec::from_iter(rows.iter().map(|row| row.frame))
        };
        let mut names = "frame,outcome,stage,cause,datagrams,bytes,motion_to_photon_ns".to_owned();
        for (from, to) in journey::STEPS {
            names.extend([",", from, "_ns,", to, "_ns"]);
        }
        assert!(frames_after(&format!("{names}\n")).is_empty());
        assert_eq!(frames_after("1,complete\n2,comp"), [1]);
        assert_eq!(frames_after("lete\n3,complete\n"), [2, 3]);
        assert!(frames_after("").is_empty());
    }

    #[test]
    fn a_still_picture_differs_from_an_unreadable_code() {
        let setup = Setup {
            clip: Path::new("/nowhere.y4m"),
            size: Size::new(64, 48),
            fps: 30.0,
            bitrate: "3M",
            link: ImpairmentSchedule::default(),
            round_trip: Duration::ZERO,
            seed: 1,
            seconds: 2.0,
            real_time: false,
            more_host: Vec::new(),
        };
        let words = |shots: &[Shot]| judge(&setup, shots, &[]).unwrap_err().to_string();
        assert!(words(&[]).contains("did not change within the measured 2 s"));
        let shot = Shot {
            at: Instant(0),
            stamp: None,
            luma: Luma::of(&[0; 64 * 48 * 4], setup.size, 8),
        };
        assert!(words(&[shot]).contains("of the 1 pictures"));
    }
}
