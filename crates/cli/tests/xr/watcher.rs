//! A client in this process that looks at its pictures, and has a head that turns.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use openuvr_media::cursor::Cursor;
use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, Presenter, to_bgrx};
use openuvr_proto::id::FrameId;
use openuvr_proto::pose::Pose;
use openuvr_proto::units::Size;
use openuvr_runtime::client::{self, ClientRuntime, ClientSetup, Notice, Target};
use openuvr_runtime::clock;

use crate::support::{PIN, Shot, TIMEOUT};

/// Pictures that wait to be looked at; what comes while all wait is not.
const MOST: usize = 4;

struct Presented(SyncSender<Shot>);

impl Presenter for Presented {
    fn present(&mut self, _: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        let mut pixels = vec![0; picture.size.pixels() * 4];
        to_bgrx(picture, &mut pixels)?;
        let size = picture.size;
        let _ = self.0.try_send(Shot { size, pixels });
        Ok(())
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        Ok(())
    }
}

pub(crate) struct Watcher {
    client: ClientRuntime,
    pictures: Receiver<Shot>,
    with_pose: usize,
}

impl Watcher {
    pub(crate) fn start(port: u16, folder: &Path) -> Watcher {
        let target: Target = format!("127.0.0.1:{port}").parse().expect("an address");
        let config = client::config::Config {
            pin: Some(PIN[1].to_owned()),
            config_dir: Some(folder.join("watcher")),
            realtime: false,
            sound: "off".to_owned(),
            ..client::config::Config::new(target)
        };
        let opened = config.open().expect("a client");
        let (to, pictures) = sync_channel(MOST);
        let surface = move || Box::new(Presented(to.clone())) as Box<dyn Presenter>;
        let client = ClientRuntime::start(ClientSetup {
            identity: opened.identity,
            name: opened.name,
            hosts: opened.hosts,
            host: opened.host,
            target: opened.target,
            paths: opened.paths,
            pin: opened.pin,
            portal: opened.portal,
            pair_again: false,
            offer: opened.offer,
            decoder: opened.decoder,
            link: opened.link,
            only: opened.only,
            surface: Box::new(move |_, _, _| Ok((surface(), None))),
            input: None,
            send_input: true,
            audio: opened.audio,
            microphone: None,
            clipboard: None,
            pads: None,
            overlay: false,
            reconnect: false,
            scheduler: config.scheduler(),
        });
        Watcher {
            client: client.expect("a client"),
            pictures,
            with_pose: 0,
        }
    }

    /// Turns the head so far around its vertical axis, to the left, until a picture is as is wanted; its size.
    pub(crate) fn sees(&mut self, what: &str, yaw: f32, wanted: impl Fn(&Shot) -> bool) -> Size {
        let (sin, cos) = (yaw / 2.0).sin_cos();
        let pose = Pose::new([0.0; 3], [0.0, sin, 0.0, cos]).expect("a rotation");
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            let _ = self.client.set_pose(&pose, clock::now());
            while let Some(notice) = self.client.notice(Duration::ZERO) {
                if let Notice::Report(report) = notice {
                    self.with_pose += usize::from(report.pose.is_some());
                }
            }
            let shot = self.pictures.recv_timeout(Duration::from_millis(10));
            if let Some(shot) = shot.ok().filter(&wanted) {
                return shot.size;
            }
        }
        panic!("it did not come: {what}");
    }

    /// Frames that have said with which pose they were drawn.
    pub(crate) fn frames_with_pose(&self) -> usize {
        self.with_pose
    }
}
