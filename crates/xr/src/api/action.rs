//! Actions (OpenXR 1.0, section 11). No client has hands yet: what is asked after is checked, and inactive.

use std::ffi::c_char;
use std::sync::Arc;

use openuvr_runtime::lock::lock;
use openxr_sys as xr;
use openxr_sys::Handle as _;

use crate::border::{self, DONE, Outcome, Structure, answer, call, field_text, input, output};
use crate::handles;
use crate::instance::{Action, ActionSet, Instance};
use crate::logic::actions::NewAction;
use crate::logic::profiles::USERS;
use crate::session::Session;

/// Elements of one list that the application gives at most (guess: far more than profiles have places).
const MOST: u32 = 4096;

pub(crate) unsafe extern "system" fn create_set(
    handle: xr::Instance,
    info: *const xr::ActionSetCreateInfo,
    out: *mut xr::ActionSet,
) -> xr::Result {
    call(|| {
        let instance = handles::get::<Instance>(handle)?;
        // SAFETY: the application's.
        let info = unsafe { input(info)? };
        if out.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let name = field_text(&info.action_set_name)?;
        let localized = field_text(&info.localized_action_set_name)?;
        let id = lock(&instance.actions).create_set(name, localized)?;
        let set = ActionSet {
            instance: Arc::downgrade(&instance),
            id,
        };
        let made = handles::add(handle.into_raw(), Arc::new(set))?;
        // SAFETY: the application's.
        unsafe { answer(out, made)? };
        DONE
    })
}

pub(crate) unsafe extern "system" fn destroy_set(set: xr::ActionSet) -> xr::Result {
    call(|| handles::destroy::<ActionSet>(set))
}

pub(crate) unsafe extern "system" fn create(
    handle: xr::ActionSet,
    info: *const xr::ActionCreateInfo,
    out: *mut xr::Action,
) -> xr::Result {
    call(|| {
        let set = handles::get::<ActionSet>(handle)?;
        let instance = of(&set)?;
        // SAFETY: the application's.
        let (info, users) = unsafe {
            let info = input(info)?;
            let users = border::array(info.subaction_paths, info.count_subaction_paths, MOST)?;
            (info, users)
        };
        let kinds = [
            xr::ActionType::BOOLEAN_INPUT,
            xr::ActionType::FLOAT_INPUT,
            xr::ActionType::VECTOR2F_INPUT,
            xr::ActionType::POSE_INPUT,
            xr::ActionType::VIBRATION_OUTPUT,
        ];
        if out.is_null() || !kinds.contains(&info.action_type) {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let action = NewAction {
            name: field_text(&info.action_name)?,
            localized: field_text(&info.localized_action_name)?,
            kind: info.action_type,
            users: users.to_vec(),
        };
        let mut actions = lock(&instance.actions);
        let id = actions.create(set.id, action, &lock(&instance.paths))?;
        drop(actions);
        let action = Action {
            instance: Arc::downgrade(&instance),
            id,
        };
        let made = handles::add(handle.into_raw(), Arc::new(action))?;
        // SAFETY: the application's.
        unsafe { answer(out, made)? };
        DONE
    })
}

fn of(set: &ActionSet) -> Outcome<Arc<Instance>> {
    let instance = set.instance.upgrade();
    instance.ok_or(xr::Result::ERROR_HANDLE_INVALID)
}

pub(crate) unsafe extern "system" fn destroy(action: xr::Action) -> xr::Result {
    call(|| handles::destroy::<Action>(action))
}

pub(crate) unsafe extern "system" fn suggest(
    instance: xr::Instance,
    info: *const xr::InteractionProfileSuggestedBinding,
) -> xr::Result {
    call(|| {
        let instance = handles::get::<Instance>(instance)?;
        // SAFETY: the application's.
        let (info, given) = unsafe {
            let info = input(info)?;
            let count = info.count_suggested_bindings;
            (info, border::array(info.suggested_bindings, count, MOST)?)
        };
        if given.is_empty() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let mut bindings = Vec::new();
        for binding in given {
            let action = handles::get::<Action>(binding.action)?;
            bindings.push((action.id, binding.binding));
        }
        let mut actions = lock(&instance.actions);
        actions.suggest(info.interaction_profile, bindings, &lock(&instance.paths))?;
        DONE
    })
}

pub(crate) unsafe extern "system" fn attach(
    session: xr::Session,
    info: *const xr::SessionActionSetsAttachInfo,
) -> xr::Result {
    call(|| {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application's.
        let given = unsafe {
            let info = input(info)?;
            border::array(info.action_sets, info.count_action_sets, MOST)?
        };
        if given.is_empty() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let mut sets = Vec::new();
        for set in given {
            sets.push(handles::get::<ActionSet>(*set)?.id);
        }
        session.attach(sets.clone())?;
        lock(&session.instance.actions).attach(&sets)?;
        DONE
    })
}

pub(crate) unsafe extern "system" fn current_profile(
    session: xr::Session,
    user: xr::Path,
    state: *mut xr::InteractionProfileState,
) -> xr::Result {
    call(|| {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application's.
        let state = unsafe { output(state)? };
        let paths = lock(&session.instance.paths);
        if !USERS.contains(&paths.text(user)?) {
            return Err(xr::Result::ERROR_PATH_UNSUPPORTED);
        }
        session.has_sets()?;
        // It holds nothing.
        state.interaction_profile = xr::Path::NULL;
        DONE
    })
}

pub(crate) unsafe extern "system" fn sync(
    session: xr::Session,
    info: *const xr::ActionsSyncInfo,
) -> xr::Result {
    call(|| {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application's.
        let given = unsafe {
            let info = input(info)?;
            border::array(info.active_action_sets, info.count_active_action_sets, MOST)?
        };
        for active in given {
            let set = handles::get::<ActionSet>(active.action_set)?;
            session.has_set(set.id)?;
            let instance = &session.instance;
            let (actions, paths) = (lock(&instance.actions), lock(&instance.paths));
            actions.check_set_user(set.id, active.subaction_path, &paths)?;
        }
        match session.is_focused() {
            true => DONE,
            false => Ok(xr::Result::SESSION_NOT_FOCUSED),
        }
    })
}

/// That an action of this kind may be asked after, or told something.
fn check(
    session: &Session,
    action: xr::Action,
    user: xr::Path,
    kind: xr::ActionType,
) -> Outcome<()> {
    let action = handles::get::<Action>(action)?;
    let instance = &session.instance;
    let (actions, paths) = (lock(&instance.actions), lock(&instance.paths));
    actions.check(action.id, kind, user, &paths)?;
    session.has_set(action.id.0)
}

/// Asks after the state of an action of this kind.
///
/// # Safety
/// All are the application's.
unsafe fn state<'a, T: Structure>(
    session: xr::Session,
    info: *const xr::ActionStateGetInfo,
    state: *mut T,
    kind: xr::ActionType,
) -> Outcome<&'a mut T> {
    let session = handles::get::<Session>(session)?;
    // SAFETY: the application's.
    let (info, state) = unsafe { (input(info)?, output(state)?) };
    check(&session, info.action, info.subaction_path, kind)?;
    Ok(state)
}

const NEVER: i64 = 0;

pub(crate) unsafe extern "system" fn boolean(
    session: xr::Session,
    info: *const xr::ActionStateGetInfo,
    out: *mut xr::ActionStateBoolean,
) -> xr::Result {
    call(|| {
        // SAFETY: the application's.
        let to = unsafe { state(session, info, out, xr::ActionType::BOOLEAN_INPUT)? };
        (to.current_state, to.changed_since_last_sync) = (xr::FALSE, xr::FALSE);
        (to.is_active, to.last_change_time) = (xr::FALSE, xr::Time::from_nanos(NEVER));
        DONE
    })
}

pub(crate) unsafe extern "system" fn float(
    session: xr::Session,
    info: *const xr::ActionStateGetInfo,
    out: *mut xr::ActionStateFloat,
) -> xr::Result {
    call(|| {
        // SAFETY: the application's.
        let to = unsafe { state(session, info, out, xr::ActionType::FLOAT_INPUT)? };
        (to.current_state, to.changed_since_last_sync) = (0.0, xr::FALSE);
        (to.is_active, to.last_change_time) = (xr::FALSE, xr::Time::from_nanos(NEVER));
        DONE
    })
}

pub(crate) unsafe extern "system" fn vector(
    session: xr::Session,
    info: *const xr::ActionStateGetInfo,
    out: *mut xr::ActionStateVector2f,
) -> xr::Result {
    call(|| {
        // SAFETY: the application's.
        let to = unsafe { state(session, info, out, xr::ActionType::VECTOR2F_INPUT)? };
        (to.current_state, to.changed_since_last_sync) = (xr::Vector2f::default(), xr::FALSE);
        (to.is_active, to.last_change_time) = (xr::FALSE, xr::Time::from_nanos(NEVER));
        DONE
    })
}

pub(crate) unsafe extern "system" fn pose(
    session: xr::Session,
    info: *const xr::ActionStateGetInfo,
    out: *mut xr::ActionStatePose,
) -> xr::Result {
    call(|| {
        // SAFETY: the application's.
        let to = unsafe { state(session, info, out, xr::ActionType::POSE_INPUT)? };
        to.is_active = xr::FALSE;
        DONE
    })
}

pub(crate) unsafe extern "system" fn bound_sources(
    session: xr::Session,
    info: *const xr::BoundSourcesForActionEnumerateInfo,
    capacity: u32,
    count: *mut u32,
    sources: *mut xr::Path,
) -> xr::Result {
    call(|| {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application's.
        let info = unsafe { input(info)? };
        let action = handles::get::<Action>(info.action)?;
        session.has_set(action.id.0)?;
        // SAFETY: the application's.
        unsafe { border::values(&[], capacity, count, sources) }
    })
}

pub(crate) unsafe extern "system" fn source_name(
    session: xr::Session,
    info: *const xr::InputSourceLocalizedNameGetInfo,
    capacity: u32,
    count: *mut u32,
    buffer: *mut c_char,
) -> xr::Result {
    call(|| {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application's.
        let info = unsafe { input(info)? };
        if info.which_components == xr::InputSourceLocalizedNameFlags::EMPTY {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let paths = lock(&session.instance.paths);
        paths.text(info.source_path)?;
        session.has_sets()?;
        // No source was ever named to the application: what it asks after is bound to nothing.
        // SAFETY: the application's.
        unsafe { border::text("", capacity, count, buffer) }
    })
}

/// That an action that vibrates may be told to.
///
/// # Safety
/// All are the application's.
unsafe fn vibrates(session: xr::Session, info: *const xr::HapticActionInfo) -> Outcome {
    let session = handles::get::<Session>(session)?;
    // SAFETY: the application's.
    let info = unsafe { input(info)? };
    let kind = xr::ActionType::VIBRATION_OUTPUT;
    check(&session, info.action, info.subaction_path, kind)?;
    match session.is_focused() {
        // Nothing is there that could vibrate: the specification's answer to that is that it was done.
        true => DONE,
        false => Ok(xr::Result::SESSION_NOT_FOCUSED),
    }
}

pub(crate) unsafe extern "system" fn apply_haptic(
    session: xr::Session,
    info: *const xr::HapticActionInfo,
    feedback: *const xr::HapticBaseHeader,
) -> xr::Result {
    call(|| {
        // SAFETY: the application's.
        unsafe {
            input::<xr::HapticVibration>(feedback.cast())?;
            vibrates(session, info)
        }
    })
}

pub(crate) unsafe extern "system" fn stop_haptic(
    session: xr::Session,
    info: *const xr::HapticActionInfo,
) -> xr::Result {
    // SAFETY: the application's.
    call(|| unsafe { vibrates(session, info) })
}
