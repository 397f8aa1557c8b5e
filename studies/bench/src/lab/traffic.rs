//! `openuvr lab traffic`: analysis of a stream's capture.
//!
//! The analysis is in crate `lab`; this module has the options and the output folder.

mod generate;
mod tables;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use openuvr_lab::traffic::join::{JoinedCaptures, join};
use openuvr_lab::traffic::reader::Window;
use openuvr_lab::traffic::{Analysis, analyse};
use openuvr_proto::units::Bitrate;
use openuvr_sim::script;
use openuvr_terminal::usage::UsageError;
use serde_json::json;

use super::folder::Folder;

/// Analyse a capture of a stream: RTP, WebRTC, or OpenUVR.
///
/// Reads pcap and pcapng files (Ethernet, Linux cooked, raw IP; a snapshot length of 66 bytes suffices). For each
/// stream, determines the load; the timing of packets, batches and frames; losses, reordering, retransmissions, jitter,
/// assembly delay, and aggregated arrivals, as in sections 5 to 7 of the Unity Render Streaming study (Casasnovas et
/// al.). No keys are needed. OpenUVR encrypts the frame numbers, so frames, assembly and retransmissions of its streams
/// are not determined.
///
/// If there are two files, they are the captures of both ends, the server's first. The offset and drift between their
/// clocks are estimated and removed. Each packet's delay and fate are reported.
///
/// Writes a folder with tables and distributions (CSV), and with the results, machine and command (traffic.json).
/// `openuvr bench report --from FOLDER` draws the results next to the study's figures. If a capture is corrupt in the
/// middle, the packets before the fault are analysed, and the exit code is 1.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct TrafficArgs {
    /// The capture of one end; or the server's capture and the client's capture
    #[arg(value_name = "FILE", num_args = 1..=2, required_unless_present = "generate")]
    files: Vec<PathBuf>,
    /// The end at which a single capture was made; some figures are meaningful only at one end
    #[arg(long, value_name = "END")]
    end: Option<End>,
    /// The frame rate configured at the sender. The result file contains it; `openuvr bench report` needs it to compare
    /// the capture with the study
    #[arg(long, value_name = "NUMBER", conflicts_with = "generate")]
    sent_fps: Option<f64>,
    /// The medium between the ends. The result file contains it; `openuvr bench report` compares the study's statements
    /// about Wi-Fi only with captures of the media wifi and wifi-model
    #[arg(long, value_name = "MEDIUM", conflicts_with = "generate")]
    medium: Option<Medium>,
    /// The variant of a stream that differs from the study's. The result file contains it; `openuvr bench report`
    /// compares captures of variants only with each other and with captures without this option
    #[arg(long, value_name = "VARIANT", conflicts_with = "generate")]
    variant: Option<Variant>,
    /// Start of the analysed part, counted from the first packet
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = script::time)]
    from: Duration,
    /// Duration of the analysed part (default: up to the end of the capture). With --generate: duration of the capture
    /// (default: 30s)
    #[arg(long = "duration", value_name = "TIME", value_parser = script::time)]
    lasting: Option<Duration>,
    /// Generate the study's traffic with a model of the study's Wi-Fi, and capture it at both ends (server.pcapng and
    /// client.pcapng), and write the ground truth (truth.json)
    #[arg(long, conflicts_with_all = ["files", "end", "from"])]
    generate: bool,
    /// With --generate: frames per second
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 90.0,
        requires = "generate"
    )]
    fps: f64,
    /// With --generate: video bitrate, in bits per second
    #[arg(long, value_name = "BITS", default_value = "50M", value_parser = script::rate,
        requires = "generate")]
    bitrate: Bitrate,
    /// With --generate: share of the video packets that are lost and retransmitted
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = script::share,
        requires = "generate")]
    loss: f64,
    /// With --generate: offset of the client's clock
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = script::time,
        requires = "generate")]
    offset: Duration,
    /// With --generate: drift of the client's clock, in ppm
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0.0,
        requires = "generate",
        allow_negative_numbers = true
    )]
    drift: f64,
    /// With --generate: seed of frame sizes, losses and the channel
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        requires = "generate"
    )]
    seed: u64,
    /// Output folder; created if it does not exist
    #[arg(long, value_name = "FOLDER", default_value = "traffic-study")]
    out: PathBuf,
}

/// The medium that carried the captured packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Medium {
    /// A radio link (802.11)
    Wifi,
    /// The Wi-Fi model of `openuvr bench web` and `openuvr lab hop`
    WifiModel,
    /// Cables, a loopback device, or another emulated link
    Wired,
}

impl Medium {
    fn name(self) -> &'static str {
        match self {
            Medium::Wifi => "wifi",
            Medium::WifiModel => "wifi-model",
            Medium::Wired => "wired",
        }
    }
}

/// A variant of a stream, of which one property differs from H.264 with a dynamic bitrate (appendix B of the study).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Variant {
    /// H.264 with a constant bitrate
    Constant,
    /// VP9 with a dynamic bitrate
    Vp9,
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Variant::Constant => "constant",
            Variant::Vp9 => "vp9",
        }
    }
}

/// An end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum End {
    /// The sender of the video
    Server,
    /// The receiver of the video
    Client,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Server => "server",
            End::Client => "client",
        }
    }
}

const HELP: &str = "\
Examples:
  tcpdump -i eth0 -s 128 --time-stamp-precision=nano -w server.pcap udp
  openuvr lab traffic server.pcap --end server --from 10s --duration 30s
  openuvr lab traffic server.pcap client.pcap --sent-fps 90 --medium wifi
  openuvr lab hop --to 127.0.0.1:47000 --delay 5ms --capture ends
  openuvr lab traffic ends/host.pcapng ends/client.pcapng
  openuvr lab traffic --generate --fps 60 --loss 0.1% --out known";

/// Exit code of a partly analysed capture.
const BROKEN: u8 = 1;

/// A capture with its analysis.
struct Capture {
    path: PathBuf,
    end: Option<End>,
    analysis: Analysis,
}

/// Analyses or generates captures.
///
/// # Errors
/// Returns a one-line error if the command fails.
pub(super) fn run(args: &TrafficArgs) -> Result<ExitCode> {
    if args.generate {
        return generate::run(args);
    }
    ensure!(
        args.end.is_none() || args.files.len() == 1,
        UsageError::new(
            "--end is for a single capture: with two captures, name the server's capture first"
        )
    );
    ensure!(
        args.lasting.is_none_or(|lasting| !lasting.is_zero()),
        UsageError::new("--duration 0s selects nothing; try 30s")
    );
    let window = Window {
        from: nanos(args.from)?,
        lasting: args.lasting.map(nanos).transpose()?,
    };
    let ends = match args.files.len() {
        1 => [args.end, None],
        _ => [Some(End::Server), Some(End::Client)],
    };
    let mut captures = Vec::new();
    for (path, end) in args.files.iter().zip(ends) {
        // The window applies only to the first capture; of two captures, this is the server's. All packets of the
        // client's capture are kept here, because a packet sent within the window can arrive after the window's end.
        let window = match captures.is_empty() {
            true => window,
            false => Window::default(),
        };
        let analysis = analyse(&mut || open(path), window);
        let analysis = analysis.with_context(|| path.display().to_string())?;
        captures.push(Capture {
            path: path.clone(),
            end,
            analysis,
        });
    }
    let joined = joined(&mut captures, window)?;
    write(&captures, joined.as_ref(), args)?;
    let mut broken = false;
    for capture in &captures {
        if let Some(error) = &capture.analysis.ended {
            broken = true;
            let path = capture.path.display();
            eprintln!(
                "openuvr lab traffic: {path}: {error}; only the packets before this error were analysed"
            );
        }
    }
    Ok(match broken {
        true => ExitCode::from(BROKEN),
        false => ExitCode::SUCCESS,
    })
}

fn nanos(time: Duration) -> Result<u64> {
    Ok(u64::try_from(time.as_nanos())?)
}

fn open(path: &Path) -> std::io::Result<Box<dyn Read>> {
    Ok(Box::new(BufReader::new(File::open(path)?)))
}

/// Joins two captures: first the server's, then the client's.
fn joined(captures: &mut [Capture], window: Window) -> Result<Option<JoinedCaptures>> {
    let [server, client] = captures else {
        return Ok(None);
    };
    let mut open_server = || open(&server.path);
    let mut open_client = || open(&client.path);
    let joined = join(
        (&mut open_server, &server.analysis),
        (&mut open_client, &client.analysis),
        window,
    )?;
    if joined.swapped {
        std::mem::swap(server, client);
        std::mem::swap(&mut server.end, &mut client.end);
    }
    Ok(Some(joined))
}

fn write(captures: &[Capture], joined: Option<&JoinedCaptures>, args: &TrafficArgs) -> Result<()> {
    let mut folder = Folder::make(&args.out, "traffic")?;
    for capture in captures {
        tables::capture(&mut folder, capture, captures.len() > 1)?;
    }
    if let Some(joined) = joined {
        tables::joined(&mut folder, joined)?;
    }
    let all = captures.iter().map(tables::as_json);
    folder.add_data("captures", all.collect());
    folder.add_data("joined", json!(joined));
    folder.add_data("nominal_fps", json!(args.sent_fps));
    folder.add_data("medium", json!(args.medium.map(Medium::name)));
    folder.add_data("variant", json!(args.variant.map(Variant::name)));
    folder.finish()
}

/// The name of an output file for a capture. It begins with the name of the capture's end if there are two captures.
fn file(name: &str, capture: &Capture, is_one_of_two: bool) -> String {
    match capture.end.filter(|_| is_one_of_two) {
        Some(end) => format!("{}-{name}", end.name()),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
