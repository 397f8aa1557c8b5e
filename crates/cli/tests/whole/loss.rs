//! Links with loss, reordering and duplication: the displayed picture stays correct.

use std::path::Path;
use std::time::{Duration, Instant};

use openuvr_proto::units::Size;

use crate::support::stalls::measured_without_stalls;
use crate::support::{
    Display, Folder, Hop, Host, PIN, Painter, Program, Quality, ScreenCapture, client, eventually,
    psnr,
};

/// Small pictures at a low rate: frames of a few datagrams.
const SIZE: &str = "320x200";
const PIXELS: Size = Size::new(320, 200);
const FRUGAL: [&str; 6] = ["--bitrate", "500K", "--slices", "1", "--fps", "30"];

/// Pause between two pictures of a painter, for about 30 pictures a second.
const PAUSE: Duration = Duration::from_millis(33);

/// The maximum stall of the machine. During a longer stall, the programs themselves lose frames, so the test measures
/// again.
const STALLED: Duration = Duration::from_millis(10);

/// Minimum PSNR in dB of an undamaged picture at this rate. A picture with a missing slice or a wrong
/// reference has large parts of another picture.
const ALIKE: f64 = 25.0;

/// A host with a painter's window, and a client behind a hop.
struct LossyStream {
    painter: Painter,
    host: Host,
    hop: Hop,
    client: Program,
    capture: ScreenCapture,
    records: Folder,
    _displays: [Display; 2],
}

impl LossyStream {
    fn start(link: Quality<'_>) -> Option<LossyStream> {
        LossyStream::with(link, &[])
    }

    /// Like [`LossyStream::start`], but with more arguments for the host.
    fn with(link: Quality<'_>, more: &[&str]) -> Option<LossyStream> {
        let (here, there) = (Display::start(SIZE)?, Display::start(SIZE)?);
        let mut painter = Painter::open(&here, PIXELS, "painter");
        painter.paint();
        let records = Folder::new();
        let csv = records.join("host.csv");
        let own = ["--display", &here.name, "--cursor=false", "--csv", &csv];
        let host = Host::start(&[&PIN[..], &own, &FRUGAL, more].concat());
        let hop = Hop::start(&host, 0, link);
        let args = [&PIN[..], &["--display", &there.name]].concat();
        let client = client(&host.folder, "client", &hop.address(), &args);
        client.line(&format!("showing {SIZE}"));
        Some(LossyStream {
            painter,
            host,
            hop,
            client,
            capture: ScreenCapture::open(&there),
            records,
            _displays: [here, there],
        })
    }

    /// Paints `n` pictures, and waits until the last is shown undamaged.
    fn burst(&mut self, n: u32) {
        let mut last = self.painter.paint();
        for _ in 1..n {
            std::thread::sleep(PAUSE);
            last = self.painter.paint();
        }
        let end = *self.painter.painted.last().expect("painted");
        self.capture
            .stamp_when("the last picture of a burst", |shown| *shown == end);
        eventually("a clean last picture", || {
            (psnr(&self.capture.shot(), &last) >= ALIKE).then_some(())
        });
    }

    /// Ends the stream cleanly; returns the outcomes of all frames.
    fn end(mut self) -> Vec<Row> {
        self.host.program.assert_running();
        self.client.stop();
        self.host.program.line("left: it disconnected");
        self.host.program.stop();
        drop(self.hop);
        let rows = rows(&self.records.path().join("host.csv"));
        // Each captured frame has exactly one outcome.
        let mut frames: Vec<u64> = rows.iter().map(|row| row.frame).collect();
        frames.sort_unstable();
        let first = frames.first().copied().expect("frames were sent");
        assert!(
            frames.iter().copied().eq(first..first + rows.len() as u64),
            "a frame without exactly one outcome: {frames:?}"
        );
        rows
    }
}

/// A row of the host's CSV.
struct Row {
    frame: u64,
    outcome: String,
    held_back: bool,
    key_frame: bool,
    /// 0 if the frame was not encoded.
    qp: u32,
    /// The number of FEC repair packets. `recovered` is the number of fragments recovered by FEC or retransmission.
    parity: u32,
    recovered: u32,
}

fn rows(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).expect("the host's CSV");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a header");
    let column = |name| names.iter().position(|n| *n == name).expect("a column");
    let (frame, outcome, key) = (column("frame"), column("outcome"), column("key_frame"));
    let [parity, repaired, resent] =
        ["fec_datagrams", "fec_recovered", "retransmitted"].map(column);
    let (cause, qp) = (column("cause"), column("qp"));
    // Frames that were not sent have empty fields, which count as 0.
    let number = |field: &str| field.parse().unwrap_or(0);
    lines
        .map(|line| Row {
            frame: line[frame].parse().expect("a number"),
            outcome: line[outcome].to_owned(),
            held_back: line[cause] == "CongestionSkipped",
            key_frame: line[key] == "1",
            qp: number(line[qp]),
            parity: number(line[parity]),
            recovered: number(line[repaired]) + number(line[resent]),
        })
        .collect()
}

fn count(rows: &[Row], outcome: &str) -> usize {
    rows.iter().filter(|row| row.outcome == outcome).count()
}

/// The result of [`stream_bursts`], which is repeated if the machine stalled.
fn bursts_over(loss: &str, bursts: u32) -> Option<(u32, u32)> {
    measured_without_stalls(3, STALLED, || stream_bursts(loss, bursts))
}

/// Sends bursts over a link with this loss. The picture does not change after a burst, so only the protocol itself can
/// repair the last picture. Returns the number of FEC repair packets and of recovered fragments, or an error if there
/// are too many key frames. Exact counts of complete frames would also depend on the machine's load; the deterministic
/// simulation checks them (`crates/sim/tests/losses.rs`).
fn stream_bursts(loss: &str, bursts: u32) -> Result<Option<(u32, u32)>, String> {
    let loss = format!("loss={loss}");
    let Some(mut chain) = LossyStream::start(Quality::both(&loss).seeded(7)) else {
        return Ok(None);
    };
    for _ in 0..bursts {
        chain.burst(12);
    }
    let rows = chain.end();
    // The first key frame starts the stream. Each later key frame answers a loss.
    let keys = rows.iter().filter(|row| row.key_frame).count();
    let broken = rows.len() - count(&rows, "complete");
    if keys > broken + 1 {
        return Err(format!("{keys} key frames for {broken} incomplete frames"));
    }
    let parity = rows.iter().map(|row| row.parity).sum();
    let recovered = rows.iter().map(|row| row.recovered).sum();
    Ok(Some((parity, recovered)))
}

#[test]
fn one_percent_of_loss() {
    bursts_over("1%", 4);
}

#[test]
fn five_percent_of_loss() {
    if let Some((parity, recovered)) = bursts_over("5%", 4) {
        assert!(parity > 0 && recovered > 0, "{parity} {recovered}");
    }
}

#[test]
fn twenty_percent_of_loss() {
    if let Some((parity, recovered)) = bursts_over("20%", 3) {
        assert!(parity > 0 && recovered > 0, "{parity} {recovered}");
    }
}

/// An intra refresh repairs the picture over several frames. The picture does not change after a burst, so the host
/// itself has to send these frames.
#[test]
fn losses_are_answered_by_an_intra_refresh() {
    // Every three seconds, all packets are lost for 150 ms. Between these outages, a refresh completes.
    let losses = (1..=20).map(|n| {
        let (from, to) = (3000 * n, 3000 * n + 150);
        format!("; {from}ms loss=100%; {to}ms loss=0")
    });
    let script = losses.fold("loss=0".to_owned(), |all, one| all + &one);
    let args = ["--recovery", "intra-refresh", "--log", "debug"];
    let Some(mut chain) = LossyStream::with(Quality::down(&script), &args) else {
        return;
    };
    let until = Instant::now() + Duration::from_secs(60);
    while chain.host.program.count("intra refresh from frame") < 2 {
        assert!(Instant::now() < until, "no loss was answered");
        chain.burst(6);
    }
    let mut rows = chain.end();
    rows.sort_by_key(|row| row.frame);
    // Frames that the host itself dropped are not part of the stream.
    rows.retain(|row| row.outcome != "dropped");
    let refreshed = rows.windows(2).filter(|pair| {
        let [before, after] = [0, 1].map(|i| pair[i].outcome.as_str());
        before == "tainted" && after == "complete" && !pair[1].key_frame
    });
    assert!(refreshed.count() > 0, "no refresh repaired a picture");
}

#[test]
fn losses_in_bursts() {
    let link = Quality::both("burst-loss=2%,25%").seeded(3);
    let Some(mut chain) = LossyStream::start(link) else {
        return;
    };
    for _ in 0..4 {
        chain.burst(12);
    }
    chain.end();
}

#[test]
fn a_lost_last_frame_is_noticed_although_nothing_moves() {
    // There are pauses between the pictures, so that each picture is the last of its burst.
    let link = Quality::down("loss=20%").seeded(5);
    let Some(mut chain) = LossyStream::start(link) else {
        return;
    };
    for _ in 0..12 {
        chain.burst(1);
    }
    chain.end();
}

#[test]
fn reordering_and_duplication_do_no_harm() {
    let link = Quality::both("reorder=10% reorder-by=3ms duplicate=20%").seeded(11);
    measured_without_stalls(3, STALLED, || {
        let Some(mut chain) = LossyStream::start(link) else {
            return Ok(());
        };
        for _ in 0..3 {
            chain.burst(15);
        }
        let rows = chain.end();
        let dropped = count(&rows, "dropped");
        let harmed = rows.len() - count(&rows, "complete") - dropped;
        let keys = rows.iter().filter(|row| row.key_frame).count();
        if keys > 1 + harmed + dropped {
            return Err(format!("{keys} key frames, {harmed} frames are harmed"));
        }
        // On an idle machine, no frame is harmed. A slow machine delays datagrams beyond the wait for reordered ones.
        // If each reordered datagram counted as lost, more than a tenth of the frames would be harmed. The
        // deterministic simulation has a lower limit (`crates/sim/tests/losses.rs`).
        match harmed * 10 <= rows.len() {
            true => Ok(()),
            false => Err(format!(
                "{harmed} of {} frames are damaged or lost",
                rows.len()
            )),
        }
    });
}

/// A frame that is skipped because of congestion must not count as a still picture. A still picture is encoded again at
/// higher quality, and this would keep the link full.
#[test]
fn skipped_frames_do_not_raise_the_quality() {
    let link = Quality::both("rate=200k queue=20000");
    // The host's minimum bitrate is below the link's rate. Otherwise, the link would never drain.
    let Some(mut chain) = LossyStream::with(link, &["--min-bitrate", "100K"]) else {
        return;
    };
    // There are several bursts, because the host's reaction time depends on the machine's load.
    for _ in 0..3 {
        chain.burst(60);
    }
    // A busy machine paints fewer pictures a second, so that the link may need more bursts until it is full.
    let csv = chain.records.path().join("host.csv");
    eventually("skipped frames", || {
        let text = std::fs::read_to_string(&csv).unwrap_or_default();
        if text.matches("CongestionSkipped").count() > 3 {
            return Some(());
        }
        chain.burst(60);
        None
    });
    let mut rows = chain.end();
    rows.sort_by_key(|row| row.frame);
    let held = rows.iter().filter(|row| row.held_back).count();
    assert!(held > 3, "{held} of {} frames were skipped", rows.len());
    let (mut before, mut after_held) = (0, false);
    for row in &rows {
        if row.qp > 0 {
            // The rate control itself changes the quantiser by two steps, and lowers it slightly when the rate rises.
            let better = !row.key_frame && row.qp + 4 < before;
            assert!(
                !(after_held && better),
                "frame {}: {before}, {}",
                row.frame,
                row.qp
            );
            before = row.qp;
        }
        after_held = row.held_back;
    }
}
