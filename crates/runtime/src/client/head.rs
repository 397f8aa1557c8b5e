//! The head thread. As soon as a head pose is sampled, the thread sends it to the host and to reprojection, or uses it
//! to control a game.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::head::HeadPoseSource;
use openuvr_media::head::recentre::Recentre;
use openuvr_media::motion::{Effect, Motion};
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;

use super::{Notice, PanicReporter, Shared};
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// How often the thread checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// After this time without a pose, a deflected stick is released (guess: far more than the interval of any tracker).
const SILENCE: Duration = Duration::from_secs(1);

/// How the poses are used.
pub(super) enum PoseTarget {
    /// Poses are sent, and pictures are reprojected for them.
    Host(Recentre),
    /// Poses are input for a game.
    Game(Motion),
}

/// Starts the thread that reads head poses until the client stops or the source fails.
///
/// # Errors
/// Returns the system's error if the thread cannot be started.
pub(super) fn start(
    shared: &Arc<Shared>,
    scheduler: &Scheduler,
    mut source: Box<dyn HeadPoseSource>,
    mut target: PoseTarget,
) -> std::io::Result<JoinHandle<()>> {
    let panic_reporter = PanicReporter(Arc::clone(shared), "head");
    scheduler.spawn(ThreadRole::Input, "ouvr-head", move || {
        let shared = &panic_reporter.0;
        let mut heard = clock::now();
        while !shared.stopping() {
            match source.next(POLL_INTERVAL) {
                Ok(Some((pose, sampled))) => {
                    heard = clock::now();
                    let recentres = shared.recentre.swap(false, Ordering::Relaxed);
                    match &mut target {
                        PoseTarget::Host(recentre) => {
                            if recentres {
                                recentre.set(&pose);
                            }
                            shared.head_pose(&recentre.apply(&pose), sampled);
                        }
                        PoseTarget::Game(motion) => {
                            shared.moves_game(motion, &pose, sampled, recentres);
                        }
                    }
                    source.aim(shared.pose_schedule());
                }
                Ok(None) if clock::now().since(heard) >= SILENCE => {
                    shared.release_stick(&mut target);
                }
                Ok(None) => {}
                Err(e) => {
                    shared.release_stick(&mut target);
                    shared.notice(Notice::Warning(format!("{e}: head tracking stopped")));
                    return;
                }
            }
        }
    })
}

impl Shared {
    /// Sends a head pose, and the state of the emulated controllers in front of the head.
    fn head_pose(&self, pose: &Pose, sampled: Instant) {
        let _ = self.pose(pose, sampled);
        let hands = lock(&self.hands);
        let held = hands.as_ref().map(|hands| hands.controllers(pose));
        drop(hands);
        let _ = held.and_then(|held| self.controllers(sampled, held));
    }

    /// Controls a game with a pose: sends the resulting input while there is a session and the window has the focus.
    fn moves_game(&self, motion: &mut Motion, pose: &Pose, sampled: Instant, recentres: bool) {
        let sent = self.session().is_some() && self.pads.is_focused();
        let effect = match sent {
            true => motion.pose(pose),
            false => motion.pause(pose),
        };
        let effects = match recentres && sent {
            true => motion.recentre(),
            false => Vec::new(),
        };
        for effect in effect.into_iter().chain(effects) {
            match effect {
                Effect::Pointer(event) => self.input(event, Some(sampled)),
                Effect::Stick(deflection) => self.deflect(deflection, sampled),
            }
        }
    }

    /// Releases the stick that the last pose has deflected, because there are no poses any more. Otherwise, the game
    /// would not stop turning.
    fn release_stick(&self, target: &mut PoseTarget) {
        if let PoseTarget::Game(motion) = target
            && let Some(Effect::Stick(deflection)) = motion.release()
        {
            self.deflect(deflection, clock::now());
        }
    }
}
