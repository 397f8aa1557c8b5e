//! Spaces (OpenXR 1.0, section 7).

use std::sync::Arc;

use openuvr_runtime::lock::lock;
use openxr_sys as xr;
use openxr_sys::Handle as _;

use super::time;
use crate::extensions::Extension;
use crate::ffi::{self, DONE, Outcome, call, chained, input, output, write_output};
use crate::handles;
use crate::instance::Action;
use crate::logic::pose::{Pose, vector};
use crate::logic::spaces::{self, Location, Origin};
use crate::session::{Player, Session, Space};

/// Maximum number of spaces that one call locates (guess: a skeleton has several dozen joints).
const MAX_LOCATED: u32 = 4096;

fn has_floor(session: &Session) -> bool {
    let extensions = session.instance.extensions;
    extensions.is_1_1() || extensions.has(Extension::LocalFloor)
}

pub(crate) unsafe extern "system" fn enumerate(
    session: xr::Session,
    capacity: u32,
    count: *mut u32,
    out: *mut xr::ReferenceSpaceType,
) -> xr::Result {
    call(c"xrEnumerateReferenceSpaces", || {
        let session = handles::get::<Session>(session)?;
        let mut all = vec![
            xr::ReferenceSpaceType::VIEW,
            xr::ReferenceSpaceType::LOCAL,
            xr::ReferenceSpaceType::STAGE,
        ];
        if has_floor(&session) {
            all.push(xr::ReferenceSpaceType::LOCAL_FLOOR);
        }
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::values(&all, capacity, count, out) }
    })
}

fn make(
    handle: xr::Session,
    session: Arc<Session>,
    origin: Origin,
    offset: &xr::Posef,
    out: *mut xr::Space,
) -> Outcome {
    let offset = Pose::read(offset)?;
    if out.is_null() {
        return Err(xr::Result::ERROR_VALIDATION_FAILURE);
    }
    let space = Space {
        session,
        space: spaces::Space { origin, offset },
    };
    let made = handles::add(handle.into_raw(), Arc::new(space))?;
    // SAFETY: the application passes valid pointers.
    unsafe { write_output(out, made)? };
    DONE
}

pub(crate) unsafe extern "system" fn create(
    handle: xr::Session,
    info: *const xr::ReferenceSpaceCreateInfo,
    out: *mut xr::Space,
) -> xr::Result {
    call(c"xrCreateReferenceSpace", || {
        let session = handles::get::<Session>(handle)?;
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        let origin = Origin::of(info.reference_space_type, has_floor(&session))?;
        make(handle, session, origin, &info.pose_in_reference_space, out)
    })
}

pub(crate) unsafe extern "system" fn create_of_action(
    handle: xr::Session,
    info: *const xr::ActionSpaceCreateInfo,
    out: *mut xr::Space,
) -> xr::Result {
    call(c"xrCreateActionSpace", || {
        let session = handles::get::<Session>(handle)?;
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        let action = handles::get::<Action>(info.action)?;
        let instance = &session.instance;
        let (actions, paths) = (lock(&instance.actions), lock(&instance.paths));
        let pose = xr::ActionType::POSE_INPUT;
        actions.check(action.id, pose, info.subaction_path, &paths)?;
        drop((actions, paths));
        let origin = Origin::Action(action.id, info.subaction_path);
        make(handle, session, origin, &info.pose_in_action_space, out)
    })
}

pub(crate) unsafe extern "system" fn destroy(space: xr::Space) -> xr::Result {
    call(c"xrDestroySpace", || handles::destroy::<Space>(space))
}

pub(crate) unsafe extern "system" fn bounds(
    session: xr::Session,
    kind: xr::ReferenceSpaceType,
    bounds: *mut xr::Extent2Df,
) -> xr::Result {
    call(c"xrGetReferenceSpaceBoundsRect", || {
        let session = handles::get::<Session>(session)?;
        Origin::of(kind, has_floor(&session))?;
        let none = xr::Extent2Df {
            width: 0.0,
            height: 0.0,
        };
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(bounds, none)? };
        // Clients do not report their play area.
        Ok(xr::Result::SPACE_BOUNDS_UNAVAILABLE)
    })
}

pub(crate) unsafe extern "system" fn locate(
    space: xr::Space,
    base: xr::Space,
    at: xr::Time,
    location: *mut xr::SpaceLocation,
) -> xr::Result {
    call(c"xrLocateSpace", || {
        let space = handles::get::<Space>(space)?;
        let base = handles::get::<Space>(base)?;
        // SAFETY: the application passes valid pointers.
        let location = unsafe { output(location)? };
        let at = time(at)?;
        let session = &space.session;
        let head = session.head(at);
        let found = space
            .space
            .locate_in(&base.space, &Player { session, head, at });
        location.location_flags = flags(found.as_ref());
        location.pose = found.map_or(Pose::IDENTITY, |found| found.pose).raw();
        // SAFETY: the application passes valid pointers.
        let velocity = unsafe { chained::<xr::SpaceVelocity>(location.next) };
        if let Some(velocity) = velocity {
            // SAFETY: the application passes a valid chain of an output structure.
            let to = unsafe { &mut *velocity.cast_mut() };
            (to.velocity_flags, to.linear_velocity, to.angular_velocity) =
                self::velocity(found.as_ref());
        }
        DONE
    })
}

pub(crate) unsafe extern "system" fn locate_all(
    session: xr::Session,
    info: *const xr::SpacesLocateInfo,
    locations: *mut xr::SpaceLocations,
) -> xr::Result {
    call(c"xrLocateSpaces", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application passes valid pointers.
        let (info, to) = unsafe { (input(info)?, output(locations)?) };
        let base = handles::get::<Space>(info.base_space)?;
        let at = time(info.time)?;
        // SAFETY: the application passes valid pointers.
        let (spaces, velocities) = unsafe {
            let spaces = ffi::array(info.spaces, info.space_count, MAX_LOCATED)?;
            let velocities = chained::<xr::SpaceVelocities>(to.next);
            (spaces, velocities.map(|v| &mut *v.cast_mut()))
        };
        let wrong = xr::Result::ERROR_VALIDATION_FAILURE;
        let room = to.location_count == info.space_count && !to.locations.is_null();
        if spaces.is_empty() || !room {
            return Err(wrong);
        }
        if let Some(velocities) = &velocities
            && (velocities.velocity_count != info.space_count || velocities.velocities.is_null())
        {
            return Err(wrong);
        }
        let spaces: Outcome<Vec<_>> = spaces.iter().map(|s| handles::get::<Space>(*s)).collect();
        let head = session.head(at);
        let player = Player {
            session: &session,
            head,
            at,
        };
        for (index, space) in spaces?.iter().enumerate() {
            let found = space.space.locate_in(&base.space, &player);
            let location = xr::SpaceLocationData {
                location_flags: flags(found.as_ref()),
                pose: found.map_or(Pose::IDENTITY, |found| found.pose).raw(),
            };
            let (velocity_flags, linear_velocity, angular_velocity) = velocity(found.as_ref());
            // SAFETY: the application passes valid pointers; the counts were checked.
            unsafe {
                to.locations.add(index).write(location);
                if let Some(velocities) = &velocities {
                    let velocity = xr::SpaceVelocityData {
                        velocity_flags,
                        linear_velocity,
                        angular_velocity,
                    };
                    velocities.velocities.add(index).write(velocity);
                }
            }
        }
        DONE
    })
}

fn flags(found: Option<&Location>) -> xr::SpaceLocationFlags {
    let valid = xr::SpaceLocationFlags::ORIENTATION_VALID | xr::SpaceLocationFlags::POSITION_VALID;
    let tracked =
        xr::SpaceLocationFlags::ORIENTATION_TRACKED | xr::SpaceLocationFlags::POSITION_TRACKED;
    match found {
        None => xr::SpaceLocationFlags::EMPTY,
        Some(found) if found.tracked => valid | tracked,
        Some(_) => valid,
    }
}

/// Linear and angular velocity. The flags say which of them are valid.
fn velocity(found: Option<&Location>) -> (xr::SpaceVelocityFlags, xr::Vector3f, xr::Vector3f) {
    let (linear, angular) = found.map_or((None, None), |found| (found.linear, found.angular));
    let mut flags = xr::SpaceVelocityFlags::EMPTY;
    if linear.is_some() {
        flags |= xr::SpaceVelocityFlags::LINEAR_VALID;
    }
    if angular.is_some() {
        flags |= xr::SpaceVelocityFlags::ANGULAR_VALID;
    }
    let put = |v: Option<[f32; 3]>| v.map_or(vector(0.0, 0.0, 0.0), |[x, y, z]| vector(x, y, z));
    (flags, put(linear), put(angular))
}
