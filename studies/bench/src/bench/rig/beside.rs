//! Measures a host and a client while observers (browsers and video players) receive the same encode.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openuvr_clock as clock;
use openuvr_proto::id::SubscriberId;
use openuvr_proto::units::Size;
use openuvr_testbed::child::Child;
use openuvr_testbed::chromium::{Browser, Page};
use openuvr_testbed::journey::{self, Row};
use openuvr_testbed::pair::{self, Pair};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::moonlight::{MoonlightClient, SERVES};
use super::{Rig, Stream, StreamSetup};

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::bench) struct Observers<'a> {
    /// The browser's program, or `None` for no observing browser.
    pub(in crate::bench) browser: Option<&'a str>,
    /// The Python interpreter of the observing Moonlight client, or `None` for no such client.
    pub(in crate::bench) moonlight: Option<&'a Path>,
    /// Number of video players, at most four. They receive but do not decode. In practice, players run on other
    /// machines, so their decoding would not use the cores of the host's machine.
    pub(in crate::bench) players: usize,
    /// Whether to stop the last player with SIGSTOP, so that it does not read.
    pub(in crate::bench) stalled: bool,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::bench) struct ObserverResults {
    /// Number of encoders that the host opened.
    pub(in crate::bench) encoders_opened: usize,
    /// The frames of each subscriber. The client that plays is a subscriber, too.
    pub(in crate::bench) subscribers: Vec<Account>,
}

/// Outcomes of the frames of one subscriber.
#[derive(Clone, Debug, Serialize)]
pub(in crate::bench) struct Account {
    pub(in crate::bench) subscriber: String,
    /// Number of frames, by outcome.
    pub(in crate::bench) outcomes: BTreeMap<String, usize>,
    /// Number of missing and duplicate rows of this subscriber in the record, between its first and its last frame.
    pub(in crate::bench) unaccounted: usize,
}

/// Timeout of a video player's first frame.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The running observers. The browser is dropped last.
struct RunningObservers {
    players: Vec<Child>,
    moonlight: Option<Child>,
    browser: Option<Browser>,
}

impl Rig<'_> {
    /// Measures a host and a client with these observers.
    pub(in crate::bench) fn stream_beside(
        &mut self,
        of: &StreamSetup<'_>,
        watchers: Observers<'_>,
    ) -> Result<(Stream, ObserverResults)> {
        let mut servers = vec!["--web", "127.0.0.1:0", "--rtsp", "127.0.0.1:0"];
        servers.extend(watchers.moonlight.iter().flat_map(|_| SERVES));
        let servers = Vec::from_iter(servers.into_iter().map(str::to_owned));
        let more_host = [of.more_host, &servers].concat();
        let of = StreamSetup {
            more_host: &more_host,
            ..*of
        };
        let mut watching = None;
        let size = self.setup.size;
        let stream = self.stream_by(&of, |options| {
            let mut pair = Pair::start_beside(options)?;
            watching = Some(RunningObservers::start(&mut pair, watchers, &of, size)?);
            Ok((pair, None))
        });
        if let Some(mut watching) = watching {
            // A stopped process would not handle SIGTERM.
            watching.resume();
        }
        let stream = stream?;
        let record = std::fs::read_to_string(of.csv)?;
        let log = std::fs::read_to_string(of.dir.join("host").join("log"))?;
        Ok((stream, ObserverResults::of(&journey::parse(&record)?, &log)))
    }
}

impl RunningObservers {
    fn start(
        pair: &mut Pair,
        watchers: Observers<'_>,
        of: &StreamSetup<'_>,
        size: Size,
    ) -> Result<RunningObservers> {
        let dir = of.dir;
        let mut watching = RunningObservers {
            players: Vec::new(),
            moonlight: None,
            browser: None,
        };
        if let Some(program) = watchers.browser {
            let url = pair::page_of(&mut pair.host)?;
            let mut browser = Browser::start(program, &dir.join("browser"), None)?;
            browser.show(Page {
                url: &url,
                pin: &pair.pin,
                query: "?role=watch",
                link: None,
            })?;
            watching.browser = Some(browser);
        }
        if let Some(python) = watchers.moonlight {
            let client = MoonlightClient {
                python,
                display: None,
                size,
                fps: of.fps,
                bitrate: of.bitrate.parse()?,
                host_dir: &dir.join("host"),
                dir: &dir.join("moonlight"),
            };
            watching.moonlight = Some(client.start(&mut pair.host)?);
        }
        let url = pair::stream_of(&mut pair.host)?;
        for number in 1..=watchers.players {
            let player = player(&url, &dir.join(format!("player-{number}")))?;
            watching.players.push(player);
        }
        if watchers.stalled {
            watching.signal_last(Signal::STOP);
        }
        Ok(watching)
    }

    fn resume(&mut self) {
        self.signal_last(Signal::CONT);
    }

    fn signal_last(&self, signal: Signal) {
        let last = self
            .players
            .last()
            .and_then(|player| i32::try_from(player.id()).ok());
        if let Some(process) = last.and_then(Pid::from_raw) {
            let _ = kill_process(process, signal);
        }
    }
}

/// Starts a video player that counts frames, and waits for the first frame.
fn player(url: &str, folder: &Path) -> Result<Child> {
    std::fs::create_dir_all(folder)?;
    let progress = folder.join("progress");
    let mut command = Command::new("ffmpeg");
    command
        .args(["-loglevel", "error", "-nostdin"])
        // Without these options, ffmpeg first probes the stream for seconds. `-fflags nobuffer` is no alternative: it
        // discards the probed data, which include the only key frame.
        .args(["-probesize", "32", "-analyzeduration", "0"])
        // Probing stops after one packet. That could be an audio packet, and ffmpeg would not find the video.
        .args(["-allowed_media_types", "video"])
        .args(["-rtsp_transport", "tcp", "-i", url])
        .args([
            "-map",
            "0:v",
            "-c",
            "copy",
            "-f",
            "null",
            "-stats_period",
            "0.2",
            "-progress",
        ])
        .arg(&progress)
        .arg("-");
    let log = folder.join("log");
    let mut player = Child::start("video player", command, Some(&log))
        .context("a video player is needed (apt install ffmpeg)")?;
    let until = clock::now() + CONNECT_TIMEOUT;
    while frames_of(&progress) == 0 {
        player.check()?;
        if clock::now() > until {
            bail!("the video player received no frame{}", player.last_words());
        }
        clock::sleep_until(clock::now() + Duration::from_millis(20));
    }
    Ok(player)
}

/// ffmpeg's latest frame count.
fn frames_of(progress: &Path) -> u64 {
    let text = std::fs::read_to_string(progress).unwrap_or_default();
    let mut counts = text
        .lines()
        .rev()
        .filter_map(|line| line.strip_prefix("frame="));
    counts
        .find_map(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

impl ObserverResults {
    fn of(record: &[Row], log: &str) -> ObserverResults {
        let mut by: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
        for row in record {
            let subscriber = row.subscriber.map_or("player".to_owned(), |id| match id {
                SubscriberId::Session(_) => "player".to_owned(),
                other @ SubscriberId::Other(_) => other.to_string(),
            });
            by.entry(subscriber).or_default().push(row);
        }
        ObserverResults {
            // crates/cli/src/clients.rs writes this log line.
            encoders_opened: log
                .lines()
                .filter(|line| line.contains(" is open for "))
                .count(),
            subscribers: by
                .into_iter()
                .map(|(subscriber, rows)| Account::of(subscriber, &rows))
                .collect(),
        }
    }

    /// Number of missing and duplicate rows of all subscribers in the record.
    pub(in crate::bench) fn unaccounted(&self) -> usize {
        self.subscribers
            .iter()
            .map(|account| account.unaccounted)
            .sum()
    }
}

impl Account {
    fn of(subscriber: String, rows: &[&Row]) -> Account {
        let frames: BTreeSet<u32> = rows.iter().map(|row| row.frame).collect();
        let [first, last] =
            [frames.first(), frames.last()].map(|frame| frame.copied().unwrap_or(0));
        let due = (last - first) as usize + usize::from(!frames.is_empty());
        let mut outcomes = BTreeMap::new();
        for row in rows {
            *outcomes.entry(row.outcome.clone()).or_insert(0) += 1;
        }
        Account {
            subscriber,
            outcomes,
            unaccounted: (due - frames.len()) + (rows.len() - frames.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "subscriber,frame,outcome,stage,cause,Captured_ns,Converted_ns,FirstSlice_ns,Encoded_ns,\
        FirstSent_ns,LastSent_ns,FirstReceived_ns,Recoverable_ns,Decoded_ns,Submitted_ns,clock_error_bound_ns,datagrams,bytes,\
        motion_to_photon_ns";

    #[test]
    fn missing_and_duplicate_frames_are_counted() {
        let row = |subscriber: &str, frame: u32| {
            format!("{subscriber},{frame},sent_unacknowledged,,,,,,,,,,,,,,2,100,")
        };
        let rows = [
            row("1", 5),
            row("1", 6),
            row("1", 7),
            row("other-1", 5),
            row("other-1", 8),
            row("other-1", 8),
        ];
        let text = format!("{HEADER}\n{}", rows.join("\n"));
        let log = "openuvr host: rendition 1: x264 is open for 1280x720\nopenuvr host: bye";
        let company = ObserverResults::of(&journey::parse(&text).unwrap(), log);
        assert_eq!(company.encoders_opened, 1);
        let counts: Vec<(&str, usize)> = (company.subscribers.iter())
            .map(|account| (account.subscriber.as_str(), account.unaccounted))
            .collect();
        assert_eq!(counts, [("other-1", 3), ("player", 0)]);
        assert_eq!(company.unaccounted(), 3);
        assert_eq!(company.subscribers[1].outcomes["sent_unacknowledged"], 3);
    }
}
