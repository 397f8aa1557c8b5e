//! A client in this process that inspects its pictures and has a movable head.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use openuvr_clock as clock;
use openuvr_media::cursor::Cursor;
use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, Presenter, to_bgrx};
use openuvr_proto::controller::{ControllerState, Haptic};
use openuvr_proto::id::FrameId;
use openuvr_proto::pose::Pose;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::Viewpoint;
use openuvr_runtime::client::{self, ClientRuntime, Notice, Target};

use crate::support::{PIN, Shot, TIMEOUT};

/// Maximum number of queued pictures. If the queue is full, a new picture is dropped.
const MAX_PICTURES: usize = 4;

struct Presented {
    newest: Viewpoint,
    to: SyncSender<(Shot, Viewpoint)>,
}

impl Presenter for Presented {
    fn viewpoint(&mut self, viewpoint: &Viewpoint) {
        self.newest = *viewpoint;
    }

    fn present(&mut self, _: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        let mut pixels = vec![0; picture.size.pixels() * 4];
        to_bgrx(picture, &mut pixels)?;
        let size = picture.size;
        let _ = self.to.try_send((Shot { size, pixels }, self.newest));
        Ok(())
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        Ok(())
    }
}

pub(crate) struct Watcher {
    client: ClientRuntime,
    pictures: Receiver<(Shot, Viewpoint)>,
    with_pose: usize,
    /// All haptic feedback received.
    pub(crate) felt: Vec<Haptic>,
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
        let (to, pictures) = sync_channel(MAX_PICTURES);
        let surface = move || {
            let (newest, to) = (Viewpoint::default(), to.clone());
            Box::new(Presented { newest, to }) as Box<dyn Presenter>
        };
        let client = ClientRuntime::start(opened.setup(
            Box::new(move |_, _, _| Ok((surface(), None))),
            config.scheduler(),
        ));
        Watcher {
            client: client.expect("a client"),
            pictures,
            with_pose: 0,
            felt: Vec::new(),
        }
    }

    /// Holds the head turned to the left by `yaw` until a picture satisfies `condition`; returns the picture's size.
    pub(crate) fn wait_for(
        &mut self,
        what: &str,
        yaw: f32,
        condition: impl Fn(&Shot) -> bool,
    ) -> Size {
        let turned = head_pose(yaw, 0.0);
        let (shot, _) = self.wait_for_view(what, &turned, None, |shot, _| condition(shot));
        shot.size
    }

    /// Sends the poses of the head and the controllers until a picture satisfies `condition`. Returns the picture with
    /// its viewpoint.
    pub(crate) fn wait_for_view(
        &mut self,
        what: &str,
        head: &Pose,
        held: Option<ControllerState>,
        condition: impl Fn(&Shot, &Viewpoint) -> bool,
    ) -> (Shot, Viewpoint) {
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            let _ = self.client.set_pose(head, clock::now());
            let _ = self.client.push_controllers(clock::now(), [None, held]);
            while let Some(notice) = self.client.notice(Duration::ZERO) {
                match notice {
                    Notice::Report(report) => self.with_pose += usize::from(report.pose.is_some()),
                    Notice::Haptic(haptic) => self.felt.push(haptic),
                    _ => {}
                }
            }
            let seen = self.pictures.recv_timeout(Duration::from_millis(10));
            if let Some(seen) = seen.ok().filter(|(shot, with)| condition(shot, with)) {
                return seen;
            }
        }
        panic!("timeout: {what}");
    }

    pub(crate) fn frames_with_pose(&self) -> usize {
        self.with_pose
    }
}

/// A head at the origin that looks to the left and upwards by these angles, in radians.
pub(crate) fn head_pose(yaw: f32, pitch: f32) -> Pose {
    let ((sin, cos), (up, level)) = ((yaw / 2.0).sin_cos(), (pitch / 2.0).sin_cos());
    // The rotation around x is applied first, then the rotation around y.
    let turned = [cos * up, sin * level, -sin * up, cos * level];
    Pose::new([0.0; 3], turned).expect("a rotation")
}
