//! Spaces, and their poses relative to each other at a given time.
//!
//! The player's space is `LOCAL`: the client's poses refer to it. The origins of `STAGE` and `LOCAL_FLOOR` are
//! [`EYE_HEIGHT`] below it, because clients do not report their floor yet.

use openxr_sys as xr;

use super::actions::ActionId;
use super::head::HeadState;
use super::pose::{Pose, Vector, add, cross};
use crate::ffi::Outcome;

/// Height of the origin of `LOCAL` above the floor, in metres (guess: the eyes of a standing person).
pub(crate) const EYE_HEIGHT: f32 = 1.6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The player's space.
    Local,
    /// On the floor.
    Floor,
    /// The head.
    View,
    /// The pose of an action, restricted to a subaction path.
    Action(ActionId, xr::Path),
}

/// Poses of the player at a given time.
pub(crate) trait PoseProvider {
    fn head(&self) -> &HeadState;

    /// The pose of an action's device.
    fn action_pose(&self, action: ActionId, user: xr::Path) -> Option<Pose>;
}

/// A player without devices.
impl PoseProvider for HeadState {
    fn head(&self) -> &HeadState {
        self
    }

    fn action_pose(&self, _: ActionId, _: xr::Path) -> Option<Pose> {
        None
    }
}

impl Origin {
    /// The origin of a reference space.
    ///
    /// # Errors
    /// Returns an error if the type is not supported.
    pub(crate) fn of(kind: xr::ReferenceSpaceType, floor: bool) -> Outcome<Origin> {
        match kind {
            xr::ReferenceSpaceType::VIEW => Ok(Origin::View),
            xr::ReferenceSpaceType::LOCAL => Ok(Origin::Local),
            xr::ReferenceSpaceType::STAGE => Ok(Origin::Floor),
            xr::ReferenceSpaceType::LOCAL_FLOOR if floor => Ok(Origin::Floor),
            _ => Err(xr::Result::ERROR_REFERENCE_SPACE_UNSUPPORTED),
        }
    }
}

/// A space: an offset from its origin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Space {
    pub(crate) origin: Origin,
    pub(crate) offset: Pose,
}

/// Result of locating a space.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Location {
    pub(crate) pose: Pose,
    /// Whether the pose was measured recently.
    pub(crate) tracked: bool,
    pub(crate) linear: Option<Vector>,
    pub(crate) angular: Option<Vector>,
}

impl Space {
    /// Locates the space in the player's space; `None` if the space has no pose.
    pub(crate) fn in_local(&self, player: &impl PoseProvider) -> Option<Location> {
        let head = player.head();
        let still = |pose| Location {
            pose,
            tracked: true,
            linear: Some([0.0; 3]),
            angular: Some([0.0; 3]),
        };
        match self.origin {
            Origin::Local => Some(still(self.offset)),
            Origin::Floor => Some(still(
                Pose::translation([0.0, -EYE_HEIGHT, 0.0]).of(self.offset),
            )),
            Origin::View => {
                // A rotating head also moves a space that is offset from the head.
                let arm = head.pose.orientation.turn(self.offset.at);
                let swing = head.angular.map(|angular| cross(angular, arm));
                let linear = head.linear.map(|v| add(v, swing.unwrap_or_default()));
                Some(Location {
                    pose: head.pose.of(self.offset),
                    tracked: head.tracked,
                    linear,
                    angular: head.angular,
                })
            }
            Origin::Action(action, user) => Some(Location {
                pose: player.action_pose(action, user)?.of(self.offset),
                tracked: true,
                linear: None,
                angular: None,
            }),
        }
    }

    /// Locates the space in `base`; `None` if one of the two spaces has no pose.
    pub(crate) fn locate_in(&self, base: &Space, player: &impl PoseProvider) -> Option<Location> {
        let (own, base_location) = (self.in_local(player)?, base.in_local(player)?);
        let same = self.origin == base.origin;
        let back = base_location.pose.inverse();
        // Velocities in the player's space are rotated into the base space. This is exact only if the base does not
        // move; otherwise, the velocities are unknown. Spaces of the same origin do not move relative to each other.
        let seen = |velocity: Option<Vector>| match same {
            true => Some([0.0; 3]),
            false => velocity.map(|velocity| back.orientation.turn(velocity)),
        };
        let base_stands = matches!(base.origin, Origin::Local | Origin::Floor);
        Some(Location {
            pose: match same {
                true => base.offset.inverse().of(self.offset),
                false => back.of(own.pose),
            },
            tracked: same || (own.tracked && base_location.tracked),
            linear: seen(own.linear).filter(|_| same || base_stands),
            angular: seen(own.angular).filter(|_| same || base_stands),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::f32::consts::FRAC_PI_2;

    use super::super::pose::Rotation;
    use super::super::pose::tests::near;
    use super::*;

    const HEAD: HeadState = HeadState {
        pose: Pose::translation([1.0, 0.0, 0.0]),
        linear: Some([0.0, 0.0, 1.0]),
        angular: Some([0.0, 2.0, 0.0]),
        tracked: true,
    };

    fn space(origin: Origin, at: Vector) -> Space {
        Space {
            origin,
            offset: Pose::translation(at),
        }
    }

    #[test]
    fn the_floor_is_below_local() {
        let (stage, local) = (
            space(Origin::Floor, [0.0; 3]),
            space(Origin::Local, [0.0; 3]),
        );
        let located = local.locate_in(&stage, &HEAD).unwrap();
        assert!(near(&located.pose.at, &[0.0, EYE_HEIGHT, 0.0]));
        assert_eq!(located.linear, Some([0.0; 3]));
    }

    #[test]
    fn an_offset_from_a_rotating_head_has_velocity() {
        let nose = space(Origin::View, [0.0, 0.0, -1.0]);
        let rotated = HeadState {
            pose: Pose {
                orientation: Rotation::around([0.0, FRAC_PI_2, 0.0]),
                ..HEAD.pose
            },
            ..HEAD
        };
        let local = space(Origin::Local, [0.0; 3]);
        let located = nose.locate_in(&local, &rotated).unwrap();
        assert!(
            near(&located.pose.at, &[0.0, 0.0, 0.0]),
            "one metre to the left"
        );
        assert!(near(&located.linear.unwrap(), &[0.0, 0.0, 3.0]));
        assert_eq!(located.angular, HEAD.angular);
    }

    #[test]
    fn spaces_of_the_same_origin_are_always_tracked() {
        let lost = HeadState {
            tracked: false,
            linear: None,
            ..HEAD
        };
        let [a, b] = [[0.5, 0.0, 0.0], [0.25, 0.0, 0.0]].map(|at| space(Origin::View, at));
        let located = a.locate_in(&b, &lost).unwrap();
        assert!(near(&located.pose.at, &[0.25, 0.0, 0.0]) && located.tracked);
        let local = space(Origin::Local, [0.0; 3]);
        assert!(!a.locate_in(&local, &lost).unwrap().tracked);
    }
}
