//! The programs with which OpenUVR is compared: the packages that each needs, and the command lines of its sender and
//! receiver.
//!
//! The command lines request the lowest latency that each program's options offer. They request the same size and
//! bitrate as for OpenUVR, if the program has such options.

use std::process::Command;

use super::gaminganywhere;

/// A compared program, with its sender and its receiver.
#[derive(Debug)]
pub(in crate::bench) struct Peer {
    pub(in crate::bench) name: &'static str,
    pub(in crate::bench) what: &'static str,
    pub(in crate::bench) needs: &'static [Need],
    /// Configuration files in `{dir}`: their names and contents. Names in braces are [replaced](Values).
    pub(in crate::bench) files: &'static [(&'static str, &'static str)],
    /// The sender's command line: environment variables, the program, and its arguments. The variable `PWD` also sets
    /// the working folder. Names in braces are [replaced](Values). `receiver` is the receiver's command line.
    pub(in crate::bench) sender: &'static str,
    pub(in crate::bench) receiver: &'static str,
    pub(in crate::bench) transport: Transport,
    /// Whether keys reach the application.
    pub(in crate::bench) takes_input: bool,
}

/// The transport of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bench) enum Transport {
    /// The receiver waits for datagrams.
    Udp,
    /// The sender waits for the receiver's connection. If both agree on UDP ports over this connection, the emulated
    /// link cannot carry their datagrams.
    Tcp,
    /// The sender waits for the receiver's TCP connection. Both negotiate over the connection. The datagrams go to the
    /// receiver's UDP port, which has the same number as the sender's TCP port.
    Agreed,
}

/// A package, and how to detect it.
#[derive(Debug)]
pub(in crate::bench) struct Need {
    /// The name of the package in Debian.
    pub(in crate::bench) package: &'static str,
    pub(in crate::bench) proof: Proof,
}

#[derive(Debug)]
pub(in crate::bench) enum Proof {
    /// A program on PATH, and the argument with which it prints its version.
    Program(&'static str, &'static str),
    /// An element of GStreamer.
    Element(&'static str),
    /// A library that Debian's Python can load through GObject.
    Typelib(&'static str),
    /// A program without a version argument, in the folder that an environment variable names: variable and program.
    Built(&'static str, &'static str),
}

pub(in crate::bench) const fn program(
    package: &'static str,
    name: &'static str,
    version: &'static str,
) -> Need {
    Need {
        package,
        proof: Proof::Program(name, version),
    }
}

pub(in crate::bench) const fn element(package: &'static str, name: &'static str) -> Need {
    Need {
        package,
        proof: Proof::Element(name),
    }
}

/// Debian's Python: no other Python can load Debian's libraries.
pub(super) const PYTHON: &str = "/usr/bin/python3";
/// The Python program that is sender and receiver of `webrtc`.
pub(super) const WEBRTC: &str = include_str!("webrtc.py");

/// The programs of GamingAnywhere.
const GAMINGANYWHERE: &[Need] = &[built("ga-server-periodic"), built("ga-client")];

const fn built(program: &'static str) -> Need {
    Need {
        package: gaminganywhere::PACKAGE,
        proof: Proof::Built(gaminganywhere::FOLDER, program),
    }
}

/// The other programs that are compared.
pub(in crate::bench) static PEERS: [Peer; 6] = [
    Peer {
        name: "gstreamer",
        what: "GStreamer: x264enc, RTP over UDP, avdec_h264; polls at the scene's rate, rounded down",
        needs: &[
            program("gstreamer1.0-tools", "gst-launch-1.0", "--version"),
            element("gstreamer1.0-plugins-base", "videoconvert"),
            element("gstreamer1.0-plugins-good", "ximagesrc"),
            element("gstreamer1.0-plugins-good", "rtpjitterbuffer"),
            element("gstreamer1.0-plugins-ugly", "x264enc"),
            element("gstreamer1.0-libav", "avdec_h264"),
            element("gstreamer1.0-x", "ximagesink"),
        ],
        files: &[],
        // The encoder makes a key frame each second, because otherwise damage would be permanent. An intra refresh over
        // one second would not help: at this loss rate, some datagram is lost in each second. Each datagram contains a
        // slice of its own, so a lost datagram damages only a strip. Damaged pictures are displayed, because without
        // them there would be hardly any pictures. The encoder's buffer holds two frames.
        sender: "gst-launch-1.0 -q ximagesrc display-name={near} use-damage=false show-pointer=false ! \
                 video/x-raw,framerate={fps}/1 ! videoconvert ! x264enc tune=zerolatency \
                 speed-preset=ultrafast bitrate={kbps} vbv-buf-capacity={two_frames_ms} \
                 key-int-max={fps} option-string=slice-max-size=1300 ! rtph264pay mtu=1400 \
                 config-interval=-1 aggregate-mode=zero-latency ! udpsink host=127.0.0.1 \
                 port={port} sync=false async=false",
        receiver: "gst-launch-1.0 -q udpsrc port={port} \
                   caps=application/x-rtp,media=video,encoding-name=H264,clock-rate=90000,payload=96 \
                   buffer-size=4194304 ! rtpjitterbuffer latency=0 ! rtph264depay ! avdec_h264 \
                   thread-type=slice output-corrupt=true ! videoconvert ! \
                   ximagesink display={far} sync=false",
        transport: Transport::Udp,
        takes_input: false,
    },
    Peer {
        name: "webrtc",
        what: "GStreamer's webrtcbin: x264enc, WebRTC with retransmission, avdec_h264; polls at the scene's rate, \
               rounded down",
        needs: &[
            program("gstreamer1.0-tools", "gst-launch-1.0", "--version"),
            program("python3", PYTHON, "--version"),
            element("gstreamer1.0-plugins-base", "videoconvert"),
            element("gstreamer1.0-plugins-good", "ximagesrc"),
            element("gstreamer1.0-plugins-good", "rtpjitterbuffer"),
            element("gstreamer1.0-plugins-ugly", "x264enc"),
            element("gstreamer1.0-libav", "avdec_h264"),
            element("gstreamer1.0-x", "ximagesink"),
            element("gstreamer1.0-plugins-bad", "webrtcbin"),
            element("gstreamer1.0-plugins-bad", "dtlsdec"),
            element("gstreamer1.0-nice", "nicesrc"),
            Need {
                package: "python3-gi",
                proof: Proof::Typelib("GLib-2.0"),
            },
            Need {
                package: "gir1.2-gst-plugins-base-1.0",
                proof: Proof::Typelib("GstSdp-1.0"),
            },
            Need {
                package: "gir1.2-gst-plugins-bad-1.0",
                proof: Proof::Typelib("GstWebRTC-1.0"),
            },
        ],
        files: &[],
        sender: "/usr/bin/python3 {webrtc} send {port} {to} {near} {width} {height} {fps} {kbps} \
                 {two_frames_ms}",
        receiver: "/usr/bin/python3 {webrtc} show {port} {port} {far}",
        transport: Transport::Agreed,
        takes_input: false,
    },
    Peer {
        name: "ffmpeg",
        what: "ffmpeg with libx264, MPEG-TS over UDP, ffplay; polls at the scene's rate, rounded down",
        needs: &[
            program("ffmpeg", "ffmpeg", "-version"),
            program("ffmpeg", "ffplay", "-version"),
        ],
        files: &[],
        // Key frames and slices are the same as for GStreamer. The colour matrix is stated, because otherwise sender
        // and receiver guess different ones. ffplay displays pictures at the pace of its own clock (-sync video),
        // because its latency is then a third of that with an external clock.
        sender: "ffmpeg -loglevel error -nostdin -f x11grab -framerate {fps} -draw_mouse 0 \
                 -video_size {width}x{height} -i {near} -vf scale=out_color_matrix=bt709,format=yuv420p \
                 -colorspace bt709 -c:v libx264 -preset ultrafast -tune zerolatency -g {fps} \
                 -x264-params slice-max-size=1200 -b:v {kbps}k -maxrate {kbps}k \
                 -bufsize {two_frames_kbit}k -f mpegts -muxdelay 0 -flush_packets 1 \
                 udp://127.0.0.1:{port}?pkt_size=1316",
        receiver: "SDL_VIDEODRIVER=x11 SDL_RENDER_DRIVER=software DISPLAY={far} ffplay \
                   -loglevel error -nostats -fflags nobuffer -flags low_delay -framedrop \
                   -probesize 32 -analyzeduration 0 -sync video -noborder -left 0 -top 0 -x {width} -y {height} udp://127.0.0.1:{port}",
        transport: Transport::Udp,
        takes_input: false,
    },
    Peer {
        name: "tigervnc",
        what: "TigerVNC server and viewer: JPEG over TCP, without a bitrate setting",
        needs: &[
            program("tigervnc-scraping-server", "X0tigervnc", "--version"),
            program("tigervnc-viewer", "vncviewer", "--version"),
        ],
        files: &[],
        // At this JPEG quality, the pictures are about as good as those of the other programs. The default quality of 8
        // is better and takes three times the data. The default limit of 60 frames a second is raised, so that it has
        // no effect.
        sender: "HOME={dir} X0tigervnc -display {near} -rfbport {port} -SecurityTypes None -localhost \
                 -MaxProcessorUsage 100 -PollingCycle 5 -FrameRate 120",
        receiver: "HOME={dir} DISPLAY={far} vncviewer -SecurityTypes=None -FullScreen=1 \
                   -RemoteResize=0 -AutoSelect=0 -QualityLevel=1 -CompressLevel=1 \
                   -ReconnectOnError=0 -AlertOnFatalError=0 127.0.0.1::{port}",
        transport: Transport::Tcp,
        takes_input: true,
    },
    Peer {
        name: "gaminganywhere",
        what: "GamingAnywhere: libx264, RTP over UDP, SDL client; polls at the scene's rate, rounded down",
        needs: GAMINGANYWHERE,
        files: &[
            ("shipped.conf", gaminganywhere::SERVER),
            ("server.conf", gaminganywhere::SERVER_AS_FAST),
            ("client.conf", gaminganywhere::CLIENT),
        ],
        sender: gaminganywhere::SENDER,
        receiver: gaminganywhere::RECEIVER,
        transport: Transport::Tcp,
        takes_input: true,
    },
    Peer {
        name: "gaminganywhere-24",
        what: "GamingAnywhere with its own rate and bitrate: 24 pictures/s, 3 Mb/s",
        needs: GAMINGANYWHERE,
        files: &[
            ("server.conf", gaminganywhere::SERVER),
            ("client.conf", gaminganywhere::CLIENT),
        ],
        sender: gaminganywhere::SENDER,
        receiver: gaminganywhere::RECEIVER,
        transport: Transport::Tcp,
        takes_input: true,
    },
];

/// The names in braces, and their replacements.
pub(in crate::bench) type Values<'a> = [(&'static str, &'a str)];

/// Creates the command for a command line, with the names in braces replaced.
pub(in crate::bench) fn command(line: &str, values: &Values<'_>) -> Command {
    let words = line.split_whitespace().map(|word| filled(word, values));
    let (environment, words): (Vec<String>, Vec<String>) = {
        let mut words = words.peekable();
        let is_variable = |word: &String| {
            let name = word.split_once('=').map(|(name, _)| name);
            name.is_some_and(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        };
        let mut environment = Vec::new();
        while let Some(word) = words.next_if(is_variable) {
            environment.push(word);
        }
        (environment, words.collect())
    };
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    let variables = environment.iter().filter_map(|word| word.split_once('='));
    command.args(words).envs(variables.clone());
    if let Some((_, folder)) = variables.into_iter().find(|(name, _)| *name == "PWD") {
        command.current_dir(folder);
    }
    command
}

/// The text with the names in braces replaced.
pub(in crate::bench) fn filled(text: &str, values: &Values<'_>) -> String {
    let mut word = text.to_owned();
    for (name, value) in values {
        word = word.replace(&format!("{{{name}}}"), value);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [(&str, &str); 13] = [
        ("near", ":7"),
        ("far", ":8"),
        ("width", "1280"),
        ("height", "720"),
        ("fps", "60"),
        ("kbps", "10000"),
        ("two_frames_ms", "33"),
        ("two_frames_kbit", "333"),
        ("port", "5004"),
        ("to", "5005"),
        ("webrtc", "/d/webrtc.py"),
        ("dir", "/d"),
        ("gaminganywhere", "/g"),
    ];

    #[test]
    fn a_line_becomes_environment_program_and_words() {
        let made = command("A_B=c D=:{far} prog x=1 udp://h:{port}?p=1", &VALUES);
        assert_eq!(made.get_program(), "prog");
        let words: Vec<_> = made.get_args().collect();
        assert_eq!(words, ["x=1", "udp://h:5004?p=1"]);
        let variables: Vec<_> = made.get_envs().collect();
        assert_eq!(variables.len(), 2);
        assert_eq!(variables[0].1, Some("c".as_ref()));
        assert_eq!(variables[1].1, Some("::8".as_ref()));
        assert_eq!(made.get_current_dir(), None);
    }

    #[test]
    fn pwd_is_the_working_folder() {
        let made = command("PWD={dir} prog", &VALUES);
        assert_eq!(made.get_current_dir(), Some("/d".as_ref()));
    }

    #[test]
    fn each_line_is_filled_and_starts_a_program_it_needs() {
        for peer in &PEERS {
            for line in [peer.sender, peer.receiver] {
                let made = command(line, &VALUES);
                let words = made.get_args().map(|word| word.to_string_lossy());
                for word in words {
                    assert!(!word.contains(['{', '}']), "{}: {word}", peer.name);
                }
                let program = made.get_program().to_string_lossy().into_owned();
                let starts = |need: &Need| match need.proof {
                    Proof::Program(name, _) => name == program,
                    Proof::Built(_, name) => format!("/g/{name}") == program,
                    Proof::Element(_) | Proof::Typelib(_) => false,
                };
                assert!(peer.needs.iter().any(starts), "{program}");
            }
            let mut texts = peer.files.iter().map(|(_, text)| *text);
            assert!(
                texts.all(|text| !filled(text, &VALUES).contains(['{', '}'])),
                "{}",
                peer.name
            );
            for line in [peer.sender, peer.receiver] {
                let mut texts = peer.files.iter().map(|(_, text)| *text).chain([line]);
                assert!(texts.any(|text| text.contains("{port}")), "{line}");
            }
        }
    }
}
