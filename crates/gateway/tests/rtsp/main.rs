//! Tests with emulated video players, which allow full control of each step, and with real players. The sockets and the
//! host are real.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod beside;
mod ffmpeg;
mod gstreamer;
mod hostile;
mod interleaved;
mod live555;
mod player;
mod retina;
mod still;
mod stops;
#[path = "../support/mod.rs"]
mod support;

use openuvr_gateway::rtsp::{RtspServer, RtspSetup};
use openuvr_media::capture::Capture;
use openuvr_media::capture::pattern::Pattern;
use openuvr_proto::units::Size;
use openuvr_runtime::host::SoundCodec;
use openuvr_runtime::host::config::Config;

use self::support::Rig;

const SIZE: Size = Size::new(640, 384);

const TOKEN: &str = "the-secret-of-tests";

/// A host with sound, and its server for video players.
struct Players {
    // Declared before the host, to be dropped first: the server holds the host.
    server: RtspServer,
    rig: Rig,
}

impl Players {
    fn new(name: &str) -> Players {
        Players::showing(name, Box::new(Pattern::open(SIZE, 60.0).unwrap()))
    }

    /// Like `Players::new`, with other pictures.
    fn showing(name: &str, capture: Box<dyn Capture>) -> Players {
        Players::sounding(name, capture, "tone:440")
    }

    /// Like `Players::showing`, with other sound.
    fn sounding(name: &str, capture: Box<dyn Capture>, sound: &str) -> Players {
        Players::hearing(name, capture, sound, SoundCodec::Opus)
    }

    /// Like `Players::sounding`, with the sound in this codec.
    fn hearing(name: &str, capture: Box<dyn Capture>, sound: &str, codec: SoundCodec) -> Players {
        let sound = |config: &mut Config| {
            config.sound = openuvr_runtime::sound_choice::SoundChoice::parse(sound)
        };
        let rig = Rig::showing(name, capture, Vec::new(), sound);
        let setup = RtspSetup {
            bind: ([127, 0, 0, 1], 0).into(),
            token: TOKEN.parse().unwrap(),
            name: "the test".to_owned(),
            sound: Some(codec),
        };
        let server = RtspServer::start(setup, rig.host.clone(), &rig.scheduler()).unwrap();
        Players { server, rig }
    }

    fn url(&self) -> String {
        format!("rtsp://{}/{TOKEN}", self.server.address())
    }
}
