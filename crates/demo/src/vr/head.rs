//! The simulated head of the demo: it turns from side to side, and nods.

use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use openuvr_proto::id::PoseId;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;
use openuvr_runtime::client::ClientRuntime;

use openuvr_testbed::background::Background;

/// The turn's amplitude to each side, in degrees, and its period, in seconds. The maximum speed is 63 degrees per
/// second, a brisk turn.
const TURN: f64 = 40.0;
const THERE_AND_BACK: f64 = 4.0;
/// The nod's amplitude and period, in the same units.
const NOD: f64 = 10.0;
const UP_AND_DOWN: f64 = 2.7;

/// Interval of poses: 500 per second, as with the trackers of headsets.
const EVERY: Duration = Duration::from_millis(2);

/// Number of stored poses to which frames may refer: two seconds.
const REMEMBERED: usize = 1000;

/// Fraction of the amplitude beyond which the head turns too slowly to derive a time from an angle. At this fraction,
/// it turns at half its maximum speed.
const TOLD: f64 = 0.85;

/// The motion of the head, as a function of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadMotion {
    began: Instant,
}

impl HeadMotion {
    pub(super) fn from(began: Instant) -> HeadMotion {
        HeadMotion { began }
    }

    fn seconds(self, at: Instant) -> f64 {
        at.0.saturating_sub(self.began.0) as f64 / 1e9
    }

    /// The degrees by which the head is turned to the left, and up.
    pub(super) fn at(self, at: Instant) -> [f64; 2] {
        let seconds = self.seconds(at);
        [
            TURN * (seconds / THERE_AND_BACK * TAU).sin(),
            NOD * (seconds / UP_AND_DOWN * TAU).sin(),
        ]
    }

    /// The time nearest to `near` at which the head was turned `yaw` degrees to the left. `None` if the head turns too
    /// slowly at this angle to determine a time.
    pub(super) fn when(self, yaw: f64, near: Instant) -> Option<Instant> {
        let part = yaw / TURN;
        if part.abs() > TOLD {
            return None;
        }
        let after = part.asin() / TAU * THERE_AND_BACK;
        // The head has this angle once while it turns left, and once while it turns right.
        let half = THERE_AND_BACK / 2.0;
        let times = [after, half - after].map(|first| {
            let rounds = ((self.seconds(near) - first) / THERE_AND_BACK).round();
            first + rounds * THERE_AND_BACK
        });
        let distance = |at: &f64| (at - self.seconds(near)).abs();
        let nearest = times
            .into_iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        Some(Instant(self.began.0 + (nearest * 1e9) as i64))
    }

    fn pose(self, at: Instant) -> Result<Pose> {
        let [yaw, pitch] = self.at(at).map(f64::to_radians);
        let ((sin, cos), (up, level)) = ((yaw / 2.0).sin_cos(), (pitch / 2.0).sin_cos());
        // The rotation around x comes first, then the rotation around y.
        let turned = [cos * up, sin * level, -sin * up, cos * level].map(|v| v as f32);
        let pose = Pose::new([0.0; 3], turned).context("the head's pose")?;
        // The angular velocity of both rotations. The axis of the nod turns with the head.
        let seconds = self.seconds(at);
        let speed = |angle: f64, round: f64| {
            angle.to_radians() * TAU / round * (seconds / round * TAU).cos()
        };
        let nods = speed(NOD, UP_AND_DOWN);
        let angular = [
            nods * yaw.cos(),
            speed(TURN, THERE_AND_BACK),
            -nods * yaw.sin(),
        ];
        Ok(pose.moving(None, Some(angular.map(|v| v as f32)))?)
    }
}

type Sampled = Arc<Mutex<VecDeque<(PoseId, Instant)>>>;

/// A turning head that feeds its poses to a client.
pub(super) struct SimulatedHead {
    pub(super) way: HeadMotion,
    sampled: Sampled,
    _thread: Background,
}

impl SimulatedHead {
    pub(super) fn start(client: Arc<ClientRuntime>) -> Result<SimulatedHead> {
        let way = HeadMotion::from(clock::now());
        let sampled = Sampled::default();
        let remembered = Arc::clone(&sampled);
        let thread = Background::start("head", move |stop| {
            let mut next = clock::now();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let now = clock::now();
                if let Some(id) = way
                    .pose(now)
                    .ok()
                    .and_then(|pose| client.set_pose(&pose, now))
                {
                    let mut sampled = lock(&remembered);
                    sampled.push_back((id, now));
                    let gone = sampled.len().saturating_sub(REMEMBERED);
                    sampled.drain(..gone);
                }
                next = (next + EVERY).max(now);
                clock::sleep_until(next);
            }
        })?;
        Ok(SimulatedHead {
            way,
            sampled,
            _thread: thread,
        })
    }

    /// When a pose was sampled, if it was in the last two seconds.
    pub(super) fn sampled(&self, pose: PoseId) -> Option<Instant> {
        let sampled = lock(&self.sampled);
        let found = sampled.iter().rev().find(|(id, _)| *id == pose);
        found.map(|(_, at)| *at)
    }
}

fn lock(
    sampled: &Mutex<VecDeque<(PoseId, Instant)>>,
) -> MutexGuard<'_, VecDeque<(PoseId, Instant)>> {
    sampled.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use openuvr_media::barcode::view::ViewStamp;

    use super::*;

    #[test]
    fn an_angle_gives_its_time() {
        let way = HeadMotion::from(Instant(5_000_000_000));
        for ms in (5000..17_000).step_by(7) {
            let at = Instant(ms * 1_000_000);
            let yaw = way.at(at)[0];
            for off in [-50, 0, 50] {
                let near = Instant(at.0 + off * 1_000_000);
                let Some(found) = way.when(yaw, near) else {
                    assert!(yaw.abs() > 0.84 * TURN);
                    continue;
                };
                assert!((found.0 - at.0).abs() < 10_000, "{ms} {off}: {found:?}");
            }
        }
    }

    #[test]
    fn pose_and_velocity_follow_the_motion() {
        let way = HeadMotion::from(Instant(0));
        for ms in [0, 300, 1000, 1900, 3300] {
            let at = Instant(ms * 1_000_000);
            let pose = way.pose(at).unwrap();
            let seen = ViewStamp::default().looking(pose.orientation());
            let [yaw, pitch] = way.at(at);
            assert!((f64::from(seen.yaw_degrees()) - yaw).abs() < 0.01);
            assert!((f64::from(seen.pitch_degrees()) - pitch).abs() < 0.01);
            let later = way.at(Instant(at.0 + 1_000_000))[0];
            let speed = pose.angular_velocity().unwrap()[1].to_degrees();
            assert!((f64::from(speed) - (later - yaw) * 1000.0).abs() < 0.5);
        }
    }
}
