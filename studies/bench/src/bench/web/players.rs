//! Measures the latency of video players that show our stream, from the drawing of a frame until it is visible. The
//! bench reads the pixels of their windows.

use anyhow::{Result, bail};
use openuvr_testbed::pair::{self, Host, TemporaryDir};
use openuvr_testbed::reader::Sighting;
use openuvr_testbed::stats::Summary;
use serde::Serialize;

use super::Bench;
use crate::bench::case::Stream;
use crate::bench::peers::presence;
use crate::bench::peers::table::{Need, Peer, Proof, Transport, command, element, program};
use crate::bench::rig::{Listens, PeerSetup, Rig};

/// The token in the URL. It can be fixed, because the port is not reachable from outside.
const TOKEN: &str = "bench-web-token";

/// The program of the player that receives without decoding.
static TAKER: Need = program("ffmpeg", "ffmpeg", "-version");

/// The measured players, configured as docs/clients.md advises. They show their pictures on the display whose pixels
/// the bench reads.
static PLAYERS: [Peer; 2] = [
    Peer {
        name: "ffplay",
        what: "ffplay: RTP over UDP, pictures shown at the pace of ffplay's own clock",
        needs: &[program("ffmpeg", "ffplay", "-version")],
        files: &[],
        sender: "",
        receiver: "SDL_VIDEODRIVER=x11 SDL_RENDER_DRIVER=software DISPLAY={far} ffplay -loglevel error \
                   -nostats -flags low_delay -framedrop -probesize 32 -analyzeduration 0 \
                   -sync video -rtsp_transport udp -noborder -left 0 -top 0 -x {width} -y {height} {url}",
        transport: Transport::Tcp,
        takes_input: false,
    },
    Peer {
        name: "gstreamer",
        what: "GStreamer: rtspsrc latency=0, avdec_h264, a window that shows pictures without a clock",
        needs: &[
            program("gstreamer1.0-tools", "gst-launch-1.0", "--version"),
            element("gstreamer1.0-plugins-base", "videoconvert"),
            element("gstreamer1.0-plugins-good", "rtspsrc"),
            element("gstreamer1.0-libav", "avdec_h264"),
            element("gstreamer1.0-x", "ximagesink"),
        ],
        files: &[],
        sender: "",
        receiver: "gst-launch-1.0 -q rtspsrc location={url} latency=0 ! rtph264depay ! avdec_h264 ! \
                   videoconvert ! ximagesink display={far} sync=false",
        transport: Transport::Tcp,
        takes_input: false,
    },
];

/// A player and its measurements.
#[derive(Debug, Serialize)]
pub(super) struct Player {
    name: &'static str,
    what: &'static str,
    versions: Vec<String>,
    command: &'static str,
    latency_ms: Option<Summary>,
    seen_fps: f64,
    #[serde(skip)]
    stream: Stream,
}

impl Player {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn what(&self) -> &'static str {
        self.what
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Latency from the drawing of a frame until it is visible, for every frame with a readable number.
    pub(super) fn latency_ms(&self) -> Option<Summary> {
        self.latency_ms
    }

    /// Distinct frames seen per second.
    pub(super) fn seen_fps(&self) -> f64 {
        self.seen_fps
    }
}

/// Missing packages of the observers.
pub(super) fn missing() -> Vec<&'static str> {
    let Proof::Program(name, _) = TAKER.proof else {
        return Vec::new();
    };
    let there = presence::is_on_path(name);
    (!there).then_some(TAKER.package).into_iter().collect()
}

/// Measures each installed player once. For the others, reports the missing packages.
pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Player>> {
    let mut found = Vec::new();
    for player in &PLAYERS {
        let missing = presence::missing(player.needs);
        if !missing.is_empty() {
            eprintln!(
                "bench web: {}: skipped: install {}",
                player.name,
                missing.join(" ")
            );
            continue;
        }
        eprintln!("bench web: {}", player.name);
        let stream = one(bench, player)?;
        let spans = stream
            .case
            .samples
            .iter()
            .map(|sample| Sighting::latency_ms(&sample.sighting));
        found.push(Player {
            name: player.name,
            what: player.what,
            versions: presence::versions(player),
            command: player.receiver,
            latency_ms: Summary::of(&spans.collect::<Vec<_>>()),
            seen_fps: stream.case.frames.visible as f64 / stream.case.seconds,
            stream,
        });
    }
    Ok(found)
}

fn one(bench: &Bench<'_>, player: &Peer) -> Result<Stream> {
    let dir = TemporaryDir::new()?;
    let mut rig = Rig::start(bench.setup, bench.stop)?;
    let port = pair::free_tcp_port()?;
    let (near, far) = (rig.near().to_owned(), rig.far().to_owned());
    let address = format!("127.0.0.1:{port}");
    let words = ["--rtsp", &address, "--rtsp-token", TOKEN, "--sound", "off"].map(str::to_owned);
    let sender = Host::command(&pair::Options {
        pads: None,
        serve: pair::Serve::Host,
        host_display: &near,
        client_display: &far,
        fps: bench.fps(),
        bitrate: &bench.args.options.bitrate,
        dir: dir.path(),
        csv: None,
        sound: None,
        show_host: false,
        more_host: &words,
        more_client: &[],
    })?;
    let size = bench.setup.size;
    let url = format!("rtsp://{address}/{TOKEN}");
    let (width, height) = (size.width.to_string(), size.height.to_string());
    let values = [
        ("far", &*far),
        ("width", &width),
        ("height", &height),
        ("url", &url),
    ];
    let stream = rig.peer(PeerSetup {
        sender,
        receiver: command(player.receiver, &values),
        listens: Listens::Sender(port),
        meter: None,
        seconds: bench.turns.seconds,
        presses: 0,
        dir: dir.path(),
    })?;
    if stream.case.samples.is_empty() {
        bail!("no picture from {}", player.name);
    }
    Ok(stream)
}
