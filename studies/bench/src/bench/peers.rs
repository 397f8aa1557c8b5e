//! `openuvr bench peers`: compares OpenUVR's stream with the streams of other programs. The programs take turns. Scene,
//! size and reader are the same for all of them, and so is the bitrate of each program that has such an option.
//!
//! Some differences are unavoidable. The other programs poll the display, while OpenUVR waits for damage. Therefore the
//! scene draws slightly faster than the other programs poll, so that each phase between drawing and polling occurs.
//! OpenUVR requests real-time scheduling, so it is also measured with ordinary scheduling. TCP connections, browsers,
//! Moonlight and GamingAnywhere do not use the emulated link.

mod figures;
mod floor_share;
mod gaminganywhere;
pub(super) mod moonlight;
pub(super) mod presence;
mod print;
pub(super) mod table;
mod windows;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use openuvr_proto::units::Bitrate;
use openuvr_sim::link::Impairment;
use openuvr_testbed::chromium::{self, Slices};
use openuvr_testbed::emulated::Emulated;
use openuvr_testbed::pair::{self, TemporaryDir};
use serde::Serialize;

use self::figures::Figures;
use self::floor_share::Floor;
use self::table::{PEERS, Peer, Transport};
use self::windows::{WINDOWS, Window};
use super::case::Stream;
use super::heading::{Heading, Report, write_json};
use super::rig::{
    Listens, MoonlightSetup, PeerSetup, Rig, Setup, Source, StreamSetup, WindowSetup,
};
use super::turns::{ComparisonOptions, Turns};
use super::verdict::Verdict;

/// Compare OpenUVR's stream with those of GStreamer (RTP, WebRTC), ffmpeg, TigerVNC and GamingAnywhere.
///
/// OpenUVR's stream is displayed by its own client, and by the host's page in a Chromium window. Other rendering paths
/// of that window, and the minimum latency of a browser window without a stream, are measured only if `--only` lists
/// them. A Moonlight client of OpenUVR's host is also measured. The floor is the latency of a program that copies
/// pictures from one display to the other, without a stream.
///
/// All figures are for the same scene at the same size, and at the same bitrate for programs with a bitrate option. The
/// bench reads these figures from the pixels of the receiver's display: latency from drawn to visible; distinct frames
/// seen per second; the share of compared pictures that are intact (30 dB of luma PSNR or more), and the median PSNR;
/// and, where keys reach the application, the time from a press to its effect. It also measures the traffic in both
/// directions, and the cores used by sender and receiver. `loss` sends datagrams through an emulated link with a delay
/// of 2 ms each way and 1 % loss; TigerVNC (TCP), browsers, Moonlight and GamingAnywhere are not measured over this
/// link. If a program is missing, its package is reported. GamingAnywhere has no package: the environment variable
/// OPENUVR_GAMINGANYWHERE names the folder of its programs. Times, rates and cores are medians and ranges over
/// interleaved repetitions.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("scene_fps", |arg| arg.default_value("60.25")))]
#[command(mut_arg("repetitions", |arg| arg.default_value("3")))]
#[command(mut_arg("seconds", |arg| arg.default_value("8s")))]
pub(crate) struct Args {
    #[command(flatten)]
    options: ComparisonOptions,
    /// The programs to measure, such as openuvr,webrtc (default: all except the other rendering paths of the browser
    /// window, and the browser window without a stream)
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name)]
    only: Vec<&'static str>,
    /// Link between sender and receiver
    #[arg(long, value_enum, value_delimiter = ',', default_value = "direct,loss")]
    links: Vec<Link>,
    /// Number of key presses in each run, for programs that pass keys to the application
    #[arg(long, default_value_t = 15)]
    presses: u32,
    /// Additional arguments for Chromium, for features that a page cannot request
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "",
        allow_hyphen_values = true
    )]
    browser_args: String,
    /// Seed of the losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write peers.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// The link between sender and receiver.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// The loopback device
    Direct,
    /// An emulated link: 2 ms each way, 1 % of the datagrams lost
    Loss,
}

impl Link {
    fn impairment(self) -> Option<Impairment> {
        match self {
            Link::Direct => None,
            // The same impairment as in the case `loss` of `bench link`.
            Link::Loss => Some(Impairment {
                delay: Duration::from_millis(2),
                loss: 0.01,
                ..Impairment::default()
            }),
        }
    }
}

/// OpenUVR's own host and client: with default scheduling, and scheduled like the other programs.
const OURS: [(&str, &str, &[&str]); 2] = [
    (
        "openuvr",
        "openuvr host and client; real-time scheduling, where the system allows it",
        &[],
    ),
    (
        "openuvr-ordinary",
        "openuvr host and client, scheduled like the other programs (--realtime off)",
        &["--realtime", "off"],
    ),
];

#[derive(Clone, Copy, Debug)]
enum Contender {
    /// OpenUVR's own host and client, with additional arguments for both.
    Ours(&'static [&'static str]),
    Other(&'static Peer),
    /// A browser's window.
    Window(&'static Window),
    /// A Moonlight client of OpenUVR's host.
    Moonlight,
}

fn name(name: &str) -> Result<&'static str, String> {
    let mut names = names();
    names.find(|known| *known == name).ok_or_else(|| {
        format!(
            "expected one of {}",
            self::names().collect::<Vec<_>>().join(", ")
        )
    })
}

fn names() -> impl Iterator<Item = &'static str> {
    let ours = OURS.iter().map(|(name, ..)| *name);
    let others = PEERS.iter().map(|peer| peer.name);
    let windows = WINDOWS.iter().map(|window| window.name);
    ours.chain(others).chain(windows).chain([moonlight::NAME])
}

/// The results of one program over its repetitions.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    what: &'static str,
    versions: Vec<String>,
    /// The command lines of sender and receiver, with display, port and size in braces. For a browser, only the options
    /// in addition to those of every browser. Empty for OpenUVR and Moonlight.
    commands: Vec<String>,
    takes_input: bool,
    /// The missing packages, if the program was not measured because of them.
    skipped: Option<String>,
    /// The reason why the measurement failed; `None` if it did not fail.
    failed: Option<String>,
    direct: Option<Figures>,
    loss: Option<Figures>,
    #[serde(skip)]
    contender: Contender,
    #[serde(skip)]
    runs: [Vec<Run>; 2],
}

#[derive(Debug)]
struct Run {
    stream: Stream,
    /// The steps in the browser's trace. Empty for other programs.
    slices: Slices,
    /// The p99 of the emulated link's own lateness, ms.
    link_late_ms: Option<f64>,
}

/// Measures, prints the results, and writes them to a file if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    let turns = Turns::new(&args.options, 1.5)?;
    let bitrate: Bitrate = args.options.bitrate.parse()?;
    ensure!(bitrate.0 >= 100_000, "--bitrate must be at least 100K");
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let mut rows = rows(args);
    for row in &rows {
        if let Some(what) = &row.skipped {
            eprintln!("bench peers: {}: skipped: {what}", row.name);
        }
    }
    let setup = turns.setup(args.options.size, args.options.scene_fps);
    let presses = if turns.quick { 2 } else { args.presses };
    let own_ms = Rig::start(setup, &stop)?.application_reaction(presses)?;
    let bench = Bench {
        args,
        setup,
        bitrate,
        seconds: turns.seconds,
        presses,
        stop: &stop,
    };
    let mut floors = Vec::new();
    for repetition in 1..=turns.repetitions {
        if args.links.contains(&Link::Direct) {
            eprintln!("bench peers: {repetition}/{} floor", turns.repetitions);
            floors.push(Rig::start(setup, &stop)?.floor(turns.seconds)?);
        }
        for link in &args.links {
            for row in &mut rows {
                let (name, link) = (row.name, *link);
                if row.skipped.is_some()
                    || row.failed.is_some()
                    || !supports_link(row.contender, link)
                {
                    continue;
                }
                eprintln!(
                    "bench peers: {repetition}/{} {name}, {link:?}",
                    turns.repetitions
                );
                match bench.once(row.contender, link) {
                    Ok(run) => row.runs[link as usize].push(run),
                    Err(error) if stop.load(Ordering::Relaxed) => return Err(error),
                    Err(error) => {
                        eprintln!("bench peers: {name}: {error:#}");
                        row.failed = Some(format!("{error:#}"));
                    }
                }
            }
        }
    }
    for row in &mut rows {
        [row.direct, row.loss] = [0, 1].map(|link| Figures::of(&row.runs[link]));
    }
    let streams = rows.iter().flat_map(|row| row.runs.iter().flatten());
    let head = Heading::new(&args.options, turns, streams.map(|run| &run.stream));
    let failed = rows.iter().filter(|row| row.failed.is_some());
    let floor = Floor::of(&floors);
    let loud = head.withheld();
    let mut verdicts = floor_share::verdicts(&rows, floor.as_ref(), args.options.size, loud);
    verdicts.extend(windows::verdicts(&rows, loud));
    let found = Output {
        floor,
        verdicts,
        incomplete: failed.map(|row| row.name).collect(),
        report: Report { head, ways: rows },
        own_reaction_ms: own_ms,
    };
    print::print(&found);
    if let Some(folder) = &args.out {
        write_json(folder, "peers", &found)?;
    }
    let failed = found.incomplete.join(", ");
    ensure!(failed.is_empty(), "these failed: {failed}");
    Ok(())
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Output {
    #[serde(flatten)]
    report: Report<Row>,
    /// The latency without a stream; `None` if it was not measured.
    floor: Option<Floor>,
    /// Time from each key press to its effect on the scene's own display, in ms.
    own_reaction_ms: Vec<f64>,
    /// Names of the programs whose measurement failed. Their runs before the failure still count.
    incomplete: Vec<&'static str>,
    verdicts: Vec<Verdict>,
}

/// The requested programs, and whether they are installed.
fn rows(args: &Args) -> Vec<Row> {
    let empty = |name, what, contender| Row {
        name,
        what,
        versions: Vec::new(),
        commands: Vec::new(),
        takes_input: true,
        skipped: None,
        failed: None,
        direct: None,
        loss: None,
        contender,
        runs: Default::default(),
    };
    let ours = OURS.iter().map(|(name, what, more)| Row {
        versions: vec![format!("openuvr {}", env!("CARGO_PKG_VERSION"))],
        ..empty(name, what, Contender::Ours(more))
    });
    let others = PEERS.iter().map(|peer| {
        let missing = presence::missing(peer.needs);
        let there = missing.is_empty();
        Row {
            versions: if there {
                presence::versions(peer)
            } else {
                Vec::new()
            },
            commands: [peer.sender, peer.receiver].map(str::to_owned).to_vec(),
            takes_input: peer.takes_input,
            skipped: (!there).then(|| format!("install {}", missing.join(" "))),
            ..empty(peer.name, peer.what, Contender::Other(peer))
        }
    });
    let browser = chromium::program().and_then(chromium::version);
    let windows = WINDOWS.iter().map(|window| Row {
        versions: browser.iter().cloned().collect(),
        commands: Vec::from_iter(Some(arguments(window, args)).filter(|all| !all.is_empty())),
        takes_input: window.takes_input(),
        skipped: browser
            .is_none()
            .then(|| format!("install {}", chromium::PACKAGE)),
        ..empty(window.name, window.what, Contender::Window(window))
    });
    let missing = moonlight::missing();
    let moonlight = Row {
        versions: Vec::from_iter(moonlight::version()),
        takes_input: false,
        skipped: missing.map(|what| format!("install {what}")),
        ..empty(moonlight::NAME, moonlight::WHAT, Contender::Moonlight)
    };
    let is_selected = |row: &Row| match row.contender {
        Contender::Window(window) if window.by_name => args.only.contains(&row.name),
        _ => args.only.is_empty() || args.only.contains(&row.name),
    };
    ours.chain(others)
        .chain(windows)
        .chain([moonlight])
        .filter(is_selected)
        .collect()
}

/// Additional arguments of a browser.
fn arguments(window: &Window, args: &Args) -> String {
    let both = format!("{} {}", window.arguments, args.browser_args);
    both.trim().to_owned()
}

/// Whether the program can be measured over this link.
fn supports_link(contender: Contender, link: Link) -> bool {
    let direct_alone = match contender {
        Contender::Ours(_) => false,
        Contender::Other(peer) => peer.transport == Transport::Tcp,
        Contender::Window(_) | Contender::Moonlight => true,
    };
    link == Link::Direct || !direct_alone
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("can't write {}", file.display()))
}

/// Parameters of all measurements.
struct Bench<'a> {
    args: &'a Args,
    setup: Setup,
    bitrate: Bitrate,
    seconds: f64,
    presses: u32,
    stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// Measures one program once, on its own displays.
    fn once(&self, contender: Contender, link: Link) -> Result<Run> {
        let dir = TemporaryDir::new()?;
        let mut rig = Rig::start(self.setup, self.stop)?;
        let mut slices = Slices::new();
        let (stream, link) = match contender {
            Contender::Ours(more) => self.ours(&mut rig, more, link, dir.path())?,
            Contender::Other(peer) => self.other(&mut rig, peer, link, dir.path())?,
            Contender::Window(window) => {
                let (stream, traced) = self.window(&mut rig, window, dir.path())?;
                slices = traced;
                (stream, None)
            }
            Contender::Moonlight => (self.moonlight(&mut rig, dir.path())?, None),
        };
        let report = link.map(Emulated::end).transpose()?;
        let late = report.and_then(|report| report.lateness.quantile(990));
        Ok(Run {
            stream,
            slices,
            link_late_ms: late.map(|late| late.as_secs_f64() * 1e3),
        })
    }

    fn ours(
        &self,
        rig: &mut Rig<'_>,
        more: &[&str],
        link: Link,
        dir: &Path,
    ) -> Result<(Stream, Option<Emulated>)> {
        let more = Vec::from_iter(more.iter().map(|word| (*word).to_owned()));
        let of = StreamSetup {
            source: Source::Screen,
            cable: None,
            impaired: None,
            // The scene draws slightly faster than this limit, but no frame is dropped, because the host admits 5 %
            // more frames than the limit. The rate control divides the bitrate by the limit.
            fps: self.polled_fps(),
            bitrate: &self.args.options.bitrate,
            seconds: self.seconds,
            presses: self.presses,
            compare: true,
            dir,
            csv: &dir.join("frames.csv"),
            sound: None,
            pads: None,
            more_host: &more,
            more_client: &more,
        };
        let Some(impairment) = link.impairment() else {
            return Ok((rig.stream(&of)?, None));
        };
        let mut carried = None;
        let stream = rig.stream_over(&of, |host| {
            let link = self.carry(host, &impairment)?;
            let (listens, meter) = (link.listens, link.meter.clone());
            carried = Some(link);
            Ok((listens, meter))
        })?;
        Ok((stream, carried))
    }

    fn other(
        &self,
        rig: &mut Rig<'_>,
        peer: &Peer,
        link: Link,
        dir: &Path,
    ) -> Result<(Stream, Option<Emulated>)> {
        let port = match peer.transport {
            // For `Agreed`, the port must also be free for TCP, which is usually the case; otherwise the sender fails
            // with a message.
            Transport::Udp | Transport::Agreed => pair::free_port()?,
            Transport::Tcp => pair::free_tcp_port()?,
        };
        let link = match link.impairment() {
            Some(impairment) => Some(self.carry((Ipv4Addr::LOCALHOST, port).into(), &impairment)?),
            None => None,
        };
        let sent_to = link.as_ref().map_or(port, |link| link.listens.port());
        let size = self.setup.size;
        let (width, height) = (size.width.to_string(), size.height.to_string());
        let fps = self.polled_fps();
        let (kbps, two_frames) = (self.bitrate.0 / 1000, 2.0 / fps);
        let two_frames_ms = format!("{:.0}", two_frames * 1e3);
        let two_frames_kbit = format!("{:.0}", two_frames * kbps as f64);
        let (fps, kbps) = (fps.to_string(), kbps.to_string());
        let (near, far) = (rig.near().to_owned(), rig.far().to_owned());
        let dir_name = dir.display().to_string();
        let webrtc = dir.join("webrtc.py");
        write(&webrtc, table::WEBRTC)?;
        let webrtc = webrtc.display().to_string();
        let gaminganywhere = gaminganywhere::folder().display().to_string();
        let to = sent_to.to_string();
        let fixed = [
            ("near", near.as_str()),
            ("far", &far),
            ("width", &width),
            ("height", &height),
            ("fps", &fps),
            ("kbps", &kbps),
            ("two_frames_ms", &two_frames_ms),
            ("two_frames_kbit", &two_frames_kbit),
            ("to", &to),
            ("webrtc", &webrtc),
            ("dir", &dir_name),
            ("gaminganywhere", &gaminganywhere),
        ];
        let own_port = port.to_string();
        let values = |port| [&fixed[..], &[("port", port)]].concat();
        for (name, text) in peer.files {
            write(&dir.join(name), &table::filled(text, &values(&own_port)))?;
        }
        // If there is a link, a UDP sender uses the link's port instead of the receiver's port.
        let sends_to = match peer.transport {
            Transport::Udp => &to,
            Transport::Tcp | Transport::Agreed => &own_port,
        };
        let sender = table::command(peer.sender, &values(sends_to));
        let receiver = table::command(peer.receiver, &values(&own_port));
        let stream = rig.peer(PeerSetup {
            sender,
            receiver,
            listens: match peer.transport {
                Transport::Udp => Listens::Receiver(port),
                Transport::Tcp | Transport::Agreed => Listens::Sender(port),
            },
            meter: link.as_ref().map(|link| link.meter.clone()),
            seconds: self.seconds,
            presses: if peer.takes_input { self.presses } else { 0 },
            dir,
        })?;
        Ok((stream, link))
    }

    fn window(&self, rig: &mut Rig<'_>, window: &Window, dir: &Path) -> Result<(Stream, Slices)> {
        rig.window(&WindowSetup {
            shows: window.shows,
            browser: chromium::program().context("Chromium is not installed")?,
            arguments: &arguments(window, self.args),
            fps: self.polled_fps(),
            bitrate: &self.args.options.bitrate,
            seconds: self.seconds,
            presses: self.presses,
            dir,
        })
    }

    fn moonlight(&self, rig: &mut Rig<'_>, dir: &Path) -> Result<Stream> {
        rig.moonlight(&MoonlightSetup {
            python: &moonlight::python(),
            fps: self.polled_fps(),
            bitrate: self.bitrate,
            seconds: self.seconds,
            dir,
        })
    }

    /// Starts an emulated link that carries datagrams to `to`.
    fn carry(&self, to: SocketAddr, impairment: &Impairment) -> Result<Emulated> {
        let courses = [(); 2].map(|()| impairment.clone().into());
        Emulated::start(courses, None, to, self.args.seed, true)
    }

    /// The rate at which the other programs poll, in pictures per second: the scene's rate, rounded down. With the
    /// default options, this is 60, and the scene draws slightly faster.
    fn polled_fps(&self) -> f64 {
        self.args.options.scene_fps.floor().max(1.0)
    }
}
