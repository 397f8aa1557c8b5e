//! `XR_EXT_conformance_automation`: simulated input devices, only for the Khronos conformance suite. They are available
//! only if an environment variable enables them (`extensions.rs`), because a game must not find devices that do not
//! exist.

use openuvr_runtime::lock::lock;
use openxr_sys as xr;

use crate::ffi::{DONE, Outcome, call};
use crate::handles;
use crate::logic::input::{Input, Value};
use crate::logic::pose::Pose;
use crate::logic::profile_table::Profile;
use crate::logic::profiles::USER_PATHS;
use crate::session::{Player, Session, Space};

/// The pose components.
const POSES: [&str; 3] = [
    "/input/grip/pose",
    "/input/aim/pose",
    "/input/grip_surface/pose",
];

/// Changes the input state of a source. Its path is passed to `change` as a top level user path and a component.
fn set_input(
    session: xr::Session,
    user: xr::Path,
    source: xr::Path,
    change: impl FnOnce(&mut Input, &str, &str),
) -> Outcome {
    let session = handles::get::<Session>(session)?;
    let paths = lock(&session.instance.paths);
    let (user, source) = (paths.text(user)?, paths.text(source)?);
    let unsupported = xr::Result::ERROR_PATH_UNSUPPORTED;
    if !USER_PATHS.contains(&user) {
        return Err(unsupported);
    }
    let component = source.strip_prefix(user).ok_or(unsupported)?;
    change(&mut lock(&session.input), user, component);
    DONE
}

pub(crate) unsafe extern "system" fn set_active(
    session: xr::Session,
    profile: xr::Path,
    user: xr::Path,
    is_active: xr::Bool32,
) -> xr::Result {
    call(c"xrSetInputDeviceActiveEXT", || {
        let session = handles::get::<Session>(session)?;
        let paths = lock(&session.instance.paths);
        let (profile, user) = (paths.text(profile)?, paths.text(user)?);
        if Profile::find(profile).is_none() || !USER_PATHS.contains(&user) {
            return Err(xr::Result::ERROR_PATH_UNSUPPORTED);
        }
        let mut input = lock(&session.input);
        input.set_device(user, profile, is_active.into());
        if is_active.into() {
            // The suite expects that an active device has a pose, and that the poses of the hands differ.
            let aside = match user {
                "/user/hand/left" => -0.2,
                _ => 0.2,
            };
            for component in POSES {
                input.set_default_pose(user, component, Pose::translation([aside, 0.0, 0.0]));
            }
        }
        DONE
    })
}

pub(crate) unsafe extern "system" fn set_bool(
    session: xr::Session,
    user: xr::Path,
    source: xr::Path,
    state: xr::Bool32,
) -> xr::Result {
    call(c"xrSetInputDeviceStateBoolEXT", || {
        set_input(session, user, source, |input, user, component| {
            input.set_value(user, component, Value::Bool(state.into()));
        })
    })
}

pub(crate) unsafe extern "system" fn set_float(
    session: xr::Session,
    user: xr::Path,
    source: xr::Path,
    state: f32,
) -> xr::Result {
    call(c"xrSetInputDeviceStateFloatEXT", || {
        set_input(session, user, source, |input, user, component| {
            input.set_value(user, component, Value::Float(state));
        })
    })
}

pub(crate) unsafe extern "system" fn set_vector(
    session: xr::Session,
    user: xr::Path,
    source: xr::Path,
    state: xr::Vector2f,
) -> xr::Result {
    call(c"xrSetInputDeviceStateVector2fEXT", || {
        set_input(session, user, source, |input, user, component| {
            input.set_value(user, component, Value::Vector2f([state.x, state.y]));
            input.set_value(user, &format!("{component}/x"), Value::Float(state.x));
            input.set_value(user, &format!("{component}/y"), Value::Float(state.y));
        })
    })
}

pub(crate) unsafe extern "system" fn set_location(
    session: xr::Session,
    user: xr::Path,
    source: xr::Path,
    space: xr::Space,
    pose: xr::Posef,
) -> xr::Result {
    call(c"xrSetInputDeviceLocationEXT", || {
        let space = handles::get::<Space>(space)?;
        let pose = Pose::read(&pose)?;
        let of = &space.session;
        let at = openuvr_clock::now();
        let head = of.head(at);
        let base = space.space.in_local(&Player {
            session: of,
            head,
            at,
        });
        let pose = base.map(|base| base.pose.of(pose));
        set_input(session, user, source, |input, user, component| {
            input.set_pose(user, component, pose);
        })
    })
}
