//! A client in the application's process, with a head and controllers. It records the viewpoints of received frames.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use openuvr_media::cursor::Cursor;
use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, Presenter};
use openuvr_proto::id::FrameId;
use openuvr_proto::wire::video::Viewpoint;
use openuvr_runtime::client::{self, ClientRuntime, ClientSetup, Target};
use openuvr_runtime::host;
use openuvr_runtime::launch_protocol::{LaunchSettings, XR_SETTINGS};
use openuvr_runtime::sound_choice::SoundChoice;

const PIN: &str = "135790";

/// Maximum number of queued viewpoints. Additional viewpoints are dropped.
const MAX_VIEWPOINTS: usize = 4;

struct ViewpointRecorder {
    newest: Viewpoint,
    to: SyncSender<Viewpoint>,
}

impl Presenter for ViewpointRecorder {
    fn viewpoint(&mut self, viewpoint: &Viewpoint) {
        self.newest = *viewpoint;
    }

    fn present(&mut self, _: FrameId, _: &Picture<'_>) -> Result<(), PresentError> {
        let _ = self.to.try_send(self.newest);
        Ok(())
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        Ok(())
    }
}

/// Writes the host configuration of the next session, as `openuvr xr install` does. Returns the port.
pub(crate) fn write_settings() -> u16 {
    let folder = std::env::var("XDG_CONFIG_HOME").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let bind = socket.local_addr().unwrap();
    let settings = LaunchSettings {
        input: false,
        window: None,
        eye: Some(openuvr_proto::units::Size::new(64, 32)),
        gateways: false,
        host: host::config::Config {
            bind,
            pin: Some(PIN.parse().unwrap()),
            encoders: vec![host::EncoderName("raw")],
            sound: SoundChoice::Off,
            realtime: false,
            ..host::config::Config::default()
        },
    };
    let file = Path::new(&folder).join("openuvr").join(XR_SETTINGS);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, settings.to_toml().unwrap()).unwrap();
    bind.port()
}

/// A client of the host that [`write_settings`] configures.
pub(crate) struct Viewer {
    pub(crate) client: ClientRuntime,
    viewpoints: Receiver<Viewpoint>,
}

impl Viewer {
    pub(crate) fn start(port: u16) -> Viewer {
        let folder = std::env::var("XDG_CONFIG_HOME").unwrap();
        let target: Target = format!("127.0.0.1:{port}").parse().unwrap();
        let config = client::config::Config {
            pin: Some(PIN.to_owned()),
            config_dir: Some(Path::new(&folder).join("viewer")),
            realtime: false,
            sound: "off".to_owned(),
            ..client::config::Config::new(target)
        };
        let opened = config.open().unwrap();
        let (to, viewpoints) = sync_channel(MAX_VIEWPOINTS);
        let surface = move || {
            let (newest, to) = (Viewpoint::default(), to.clone());
            Box::new(ViewpointRecorder { newest, to }) as Box<dyn Presenter>
        };
        let client = ClientRuntime::start(ClientSetup {
            reconnect: true,
            ..opened.setup(
                Box::new(move |_, _, _| Ok((surface(), None))),
                config.scheduler(),
            )
        });
        Viewer {
            client: client.unwrap(),
            viewpoints,
        }
    }

    /// The viewpoint of the next picture, if one arrives within the timeout.
    pub(crate) fn next_viewpoint(&self, timeout: Duration) -> Option<Viewpoint> {
        self.viewpoints.recv_timeout(timeout).ok()
    }
}
