//! Converts between OpenXR poses and the wire protocol's poses.

use openuvr_proto::pose::Pose;
use openuvr_proto::wire::video::View as WireView;
use openxr as xr;

use crate::session::View;

/// The pose of a location, if valid.
pub(super) fn pose(location: &xr::SpaceLocation) -> Option<Pose> {
    let known = xr::SpaceLocationFlags::POSITION_VALID | xr::SpaceLocationFlags::ORIENTATION_VALID;
    if !location.location_flags.contains(known) {
        return None;
    }
    let (at, q) = (location.pose.position, location.pose.orientation);
    Pose::new([at.x, at.y, at.z], [q.x, q.y, q.z, q.w]).ok()
}

/// The pose of a location. It includes the velocities that are valid.
pub(super) fn moving_pose(
    location: &xr::SpaceLocation,
    velocity: &xr::SpaceVelocity,
) -> Option<Pose> {
    let known = |flag| velocity.velocity_flags.contains(flag);
    let vector = |v: xr::Vector3f| [v.x, v.y, v.z];
    let linear = known(xr::SpaceVelocityFlags::LINEAR_VALID);
    let angular = known(xr::SpaceVelocityFlags::ANGULAR_VALID);
    let pose = pose(location)?;
    let moving = pose.moving(
        linear.then(|| vector(velocity.linear_velocity)),
        angular.then(|| vector(velocity.angular_velocity)),
    );
    Some(moving.unwrap_or(pose))
}

/// The pose and field of view that a picture was rendered with.
pub(super) fn view_of(view: &WireView) -> View {
    let ([x, y, z], [i, j, k, w]) = (view.pose.position(), view.pose.orientation());
    let [angle_left, angle_right, angle_up, angle_down] = view.fov.angles();
    View {
        pose: xr::Posef {
            orientation: xr::Quaternionf {
                x: i,
                y: j,
                z: k,
                w,
            },
            position: xr::Vector3f { x, y, z },
        },
        fov: xr::Fovf {
            angle_left,
            angle_right,
            angle_up,
            angle_down,
        },
    }
}
