//! The pose of a user's head: position, orientation and, where known, velocities.
//!
//! Conventions are those of OpenXR (1.0, section 2.16): right-handed, y up, -z forward, metres and seconds. The space
//! is the client's, with its own origin. A pose is not an input event: only the newest pose matters, and lost poses are
//! not retransmitted.
//!
//! The application extrapolates a pose with the pose's velocities from `sampled`, the time for which the pose is valid.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bytes::{Reader, Reject, Writer};
use crate::id::{PoseId, SubscriberId};
use crate::time::{Instant, Mapped, PeerInstant};

/// Minimum interval between sent poses. It permits 2000 Hz, twice the 1000 Hz of today's fastest trackers (guess).
pub const POSE_INTERVAL: Duration = Duration::from_micros(500);

/// Permitted deviation of an orientation's length from 1. OpenXR 1.0, section 2.16, specifies 1 %.
const LENGTH_TOLERANCE: f32 = 0.01;

const LINEAR: u8 = 1;
const ANGULAR: u8 = 2;

/// A pose with finite fields and a unit quaternion as orientation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "PoseFields", into = "PoseFields")]
pub struct Pose {
    position: [f32; 3],
    orientation: [f32; 4],
    linear: Option<[f32; 3]>,
    angular: Option<[f32; 3]>,
}

/// Position, orientation, linear and angular velocity.
type PoseFields = ([f32; 3], [f32; 4], Option<[f32; 3]>, Option<[f32; 3]>);

impl TryFrom<PoseFields> for Pose {
    type Error = PoseError;

    fn try_from((position, orientation, linear, angular): PoseFields) -> Result<Pose, PoseError> {
        Pose::new(position, orientation)?.moving(linear, angular)
    }
}

impl From<Pose> for PoseFields {
    fn from(pose: Pose) -> PoseFields {
        (pose.position, pose.orientation, pose.linear, pose.angular)
    }
}

// All fields are finite, so equality is reflexive.
impl Eq for Pose {}

/// The reason why values are not a valid pose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PoseError {
    /// A value is infinite or NaN.
    #[error("a pose has a value that is not finite")]
    NotFinite,
    /// The quaternion is not a rotation.
    #[error("the length of a pose's orientation quaternion differs from 1 by more than 1 %")]
    NotUnit,
}

impl Pose {
    /// Position in metres; orientation as a quaternion x, y, z, w of length 1, within 1 %.
    ///
    /// # Errors
    /// [`PoseError`] if a value is not finite or the orientation is not a rotation.
    pub fn new(position: [f32; 3], orientation: [f32; 4]) -> Result<Pose, PoseError> {
        if !(position.iter().chain(&orientation)).all(|v| v.is_finite()) {
            return Err(PoseError::NotFinite);
        }
        let length = orientation.iter().map(|v| v * v).sum::<f32>().sqrt();
        if (length - 1.0).abs() > LENGTH_TOLERANCE {
            return Err(PoseError::NotUnit);
        }
        Ok(Pose {
            position,
            orientation,
            linear: None,
            angular: None,
        })
    }

    /// The same pose with velocities: in metres per second and in radians per second around each axis.
    ///
    /// # Errors
    /// [`PoseError::NotFinite`] if a value is not finite.
    pub fn moving(
        self,
        linear: Option<[f32; 3]>,
        angular: Option<[f32; 3]>,
    ) -> Result<Pose, PoseError> {
        let finite = |v: &[f32; 3]| v.iter().all(|v| v.is_finite());
        if !linear.iter().chain(&angular).all(finite) {
            return Err(PoseError::NotFinite);
        }
        Ok(Pose {
            linear,
            angular,
            ..self
        })
    }

    /// x, y, z in metres.
    #[must_use]
    pub fn position(&self) -> [f32; 3] {
        self.position
    }

    /// The quaternion x, y, z, w; its length is 1 within 1 %.
    #[must_use]
    pub fn orientation(&self) -> [f32; 4] {
        self.orientation
    }

    /// Metres per second, if known.
    #[must_use]
    pub fn linear_velocity(&self) -> Option<[f32; 3]> {
        self.linear
    }

    /// Radians per second, if known.
    #[must_use]
    pub fn angular_velocity(&self) -> Option<[f32; 3]> {
        self.angular
    }

    /// The same pose with unknown velocities.
    #[must_use]
    pub fn still(self) -> Pose {
        Pose {
            linear: None,
            angular: None,
            ..self
        }
    }

    /// Encoded size of position and orientation in bytes.
    pub(crate) const PLACE_LEN: usize = 12 + 16;

    /// Its encoded size in bytes.
    pub(crate) fn len(&self) -> usize {
        let three = |v: Option<_>| if v.is_some() { 12 } else { 0 };
        Pose::PLACE_LEN + 1 + three(self.linear) + three(self.angular)
    }

    /// Position and orientation.
    pub(crate) fn write_place(&self, w: &mut Writer<'_>) {
        for v in self.position.iter().chain(&self.orientation) {
            w.f32(*v);
        }
    }

    /// Returns `None` for an invalid pose.
    pub(crate) fn parse_place(r: &mut Reader<'_>) -> Result<Option<Pose>, Reject> {
        let position = three(r)?;
        let [x, y, z] = three(r)?;
        Ok(Pose::new(position, [x, y, z, r.f32()?]).ok())
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        let flag = |v: Option<_>, bit: u8| if v.is_some() { bit } else { 0 };
        self.write_place(w);
        w.u8(flag(self.linear, LINEAR) | flag(self.angular, ANGULAR));
        for v in self.linear.iter().chain(&self.angular).flatten() {
            w.f32(*v);
        }
    }

    /// Returns `None` for an invalid pose.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Option<Pose>, Reject> {
        let place = Pose::parse_place(r)?;
        let flags = r.u8()?;
        let linear = (flags & LINEAR != 0).then(|| three(r)).transpose()?;
        let angular = (flags & ANGULAR != 0).then(|| three(r)).transpose()?;
        Ok(place.and_then(|pose| pose.moving(linear, angular).ok()))
    }
}

fn three(r: &mut Reader<'_>) -> Result<[f32; 3], Reject> {
    Ok([r.f32()?, r.f32()?, r.f32()?])
}

/// A pose received by the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedPose {
    /// The player.
    pub subscriber: SubscriberId,
    /// Its number among the poses of this player.
    pub id: PoseId,
    /// The pose.
    pub pose: Pose,
    /// Sampling time (client clock).
    pub sampled: PeerInstant,
    /// Sampling time on the host's clock; `None` until the clocks are synchronised.
    pub sampled_here: Option<Mapped<Instant>>,
    /// Receive time.
    pub received: Instant,
}

/// The client's send queue of poses or other states. Only the newest state is kept.
#[derive(Clone, Debug)]
pub(crate) struct LatestSender<T> {
    newest: PoseId,
    waits: Option<(Instant, T)>,
    not_before: Option<Instant>,
}

impl<T> Default for LatestSender<T> {
    fn default() -> LatestSender<T> {
        LatestSender {
            newest: PoseId::default(),
            waits: None,
            not_before: None,
        }
    }
}

impl<T> LatestSender<T> {
    /// Adds a state, replacing a queued one; returns its number.
    pub(crate) fn push(&mut self, sampled: Instant, state: T) -> PoseId {
        if self.waits.replace((sampled, state)).is_none() {
            self.newest = PoseId(self.newest.0.wrapping_add(1).max(1));
        }
        self.newest
    }

    /// The state to be sent now.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<(PoseId, Instant, T)> {
        if self.not_before.is_some_and(|at| at > now) {
            return None;
        }
        let (sampled, state) = self.waits.take()?;
        self.not_before = Some(now + POSE_INTERVAL);
        Some((self.newest, sampled, state))
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let at = self.not_before.unwrap_or(Instant(i64::MIN));
        self.waits.is_some().then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: [f32; 4] = [0.0, 0.0, 0.0, 1.0];

    #[test]
    fn only_finite_numbers_and_rotations_are_poses() {
        let pose = |position, orientation| Pose::new(position, orientation).err();
        assert_eq!(pose([0.0; 3], UP), None);
        assert_eq!(pose([1e30, -0.0, 2.0], [0.0, 1.005, 0.0, 0.0]), None);
        for bad in [f32::NAN, f32::INFINITY] {
            assert_eq!(pose([0.0, bad, 0.0], UP), Some(PoseError::NotFinite));
            let moving = |l, a| Pose::new([0.0; 3], UP).unwrap().moving(l, a).err();
            let bad = Some([0.0, 0.0, bad]);
            assert_eq!(moving(bad, None), Some(PoseError::NotFinite));
            assert_eq!(moving(None, bad), Some(PoseError::NotFinite));
        }
        for bad in [[0.0; 4], [0.0, 0.0, 0.0, 1.02], [f32::MAX; 4]] {
            assert_eq!(pose([0.0; 3], bad), Some(PoseError::NotUnit));
        }
    }

    #[test]
    fn the_newest_is_sent_at_a_limited_rate() {
        let mut sender = LatestSender::default();
        let at = |x| Pose::new([x, 0.0, 0.0], UP).unwrap();
        let us = |us: i64| Instant(us * 1000);
        assert_eq!(sender.push(us(0), at(0.0)), PoseId(1));
        assert_eq!(sender.poll(us(0)), Some((PoseId(1), us(0), at(0.0))));
        assert_eq!(sender.push(us(100), at(1.0)), PoseId(2));
        assert_eq!(sender.poll(us(100)), None, "too soon");
        assert_eq!(sender.push(us(200), at(2.0)), PoseId(2));
        assert_eq!(sender.next_timeout(), Some(us(500)));
        assert_eq!(sender.poll(us(500)), Some((PoseId(2), us(200), at(2.0))));
        assert_eq!((sender.poll(us(2000)), sender.next_timeout()), (None, None));
    }
}
