//! Actions (OpenXR 1.0, section 11): action sets, bindings and action states.

use std::sync::Arc;
use std::time::Duration;

use openuvr_proto::controller::{ControllerState, Hand, Haptic};
use openuvr_runtime::lock::lock;
use openxr_sys as xr;
use openxr_sys::Handle as _;

use crate::ffi::{self, DONE, Outcome, Structure, call, field_text, input, output, write_output};
use crate::handles;
use crate::instance::{Action, ActionSet, Instance};
use crate::logic::actions::{ActionId, ActionInfo};
use crate::logic::controllers;
use crate::logic::input::{ActiveSet, State, Value};
use crate::logic::profiles::USER_PATHS;
use crate::session::Session;

/// Maximum length of an array parameter (guess: far more than the number of components of any profile).
const MAX_ELEMENTS: u32 = 4096;

pub(crate) unsafe extern "system" fn create_set(
    handle: xr::Instance,
    info: *const xr::ActionSetCreateInfo,
    out: *mut xr::ActionSet,
) -> xr::Result {
    call(c"xrCreateActionSet", || {
        let instance = handles::get::<Instance>(handle)?;
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        if out.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let name = field_text(&info.action_set_name)?;
        let localized = field_text(&info.localized_action_set_name)?;
        let id = lock(&instance.actions).create_set(name, localized, info.priority)?;
        let set = ActionSet {
            instance: Arc::downgrade(&instance),
            id,
        };
        let made = handles::add(handle.into_raw(), Arc::new(set))?;
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(out, made)? };
        DONE
    })
}

pub(crate) unsafe extern "system" fn destroy_set(set: xr::ActionSet) -> xr::Result {
    call(c"xrDestroyActionSet", || handles::destroy::<ActionSet>(set))
}

pub(crate) unsafe extern "system" fn create(
    handle: xr::ActionSet,
    info: *const xr::ActionCreateInfo,
    out: *mut xr::Action,
) -> xr::Result {
    call(c"xrCreateAction", || {
        let set = handles::get::<ActionSet>(handle)?;
        let instance = of(&set)?;
        // SAFETY: the application passes valid pointers.
        let (info, subaction_paths) = unsafe {
            let info = input(info)?;
            let subaction_paths = ffi::array(
                info.subaction_paths,
                info.count_subaction_paths,
                MAX_ELEMENTS,
            )?;
            (info, subaction_paths)
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
        let action = ActionInfo {
            name: field_text(&info.action_name)?,
            localized: field_text(&info.localized_action_name)?,
            kind: info.action_type,
            subaction_paths: subaction_paths.to_vec(),
        };
        let mut actions = lock(&instance.actions);
        let id = actions.create(set.id, action, &lock(&instance.paths))?;
        drop(actions);
        let action = Action {
            instance: Arc::downgrade(&instance),
            id,
        };
        let made = handles::add(handle.into_raw(), Arc::new(action))?;
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(out, made)? };
        DONE
    })
}

fn of(set: &ActionSet) -> Outcome<Arc<Instance>> {
    let instance = set.instance.upgrade();
    instance.ok_or(xr::Result::ERROR_HANDLE_INVALID)
}

pub(crate) unsafe extern "system" fn destroy(action: xr::Action) -> xr::Result {
    call(c"xrDestroyAction", || handles::destroy::<Action>(action))
}

pub(crate) unsafe extern "system" fn suggest(
    instance: xr::Instance,
    info: *const xr::InteractionProfileSuggestedBinding,
) -> xr::Result {
    call(c"xrSuggestInteractionProfileBindings", || {
        let instance = handles::get::<Instance>(instance)?;
        // SAFETY: the application passes valid pointers.
        let (info, given) = unsafe {
            let info = input(info)?;
            let count = info.count_suggested_bindings;
            (
                info,
                ffi::array(info.suggested_bindings, count, MAX_ELEMENTS)?,
            )
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
    call(c"xrAttachSessionActionSets", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application passes valid pointers.
        let given = unsafe {
            let info = input(info)?;
            ffi::array(info.action_sets, info.count_action_sets, MAX_ELEMENTS)?
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
    call(c"xrGetCurrentInteractionProfile", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application passes valid pointers.
        let state = unsafe { output(state)? };
        let mut paths = lock(&session.instance.paths);
        let user = paths.text(user)?.to_owned();
        if !USER_PATHS.contains(&user.as_str()) {
            return Err(xr::Result::ERROR_PATH_UNSUPPORTED);
        }
        session.check_any_attached()?;
        let input = lock(&session.input);
        state.interaction_profile = match input.profile(&user) {
            Some(profile) => paths.number(profile)?,
            None => xr::Path::NULL,
        };
        DONE
    })
}

pub(crate) unsafe extern "system" fn sync(
    session: xr::Session,
    info: *const xr::ActionsSyncInfo,
) -> xr::Result {
    call(c"xrSyncActions", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application passes valid pointers.
        let given = unsafe {
            let info = input(info)?;
            ffi::array(
                info.active_action_sets,
                info.count_active_action_sets,
                MAX_ELEMENTS,
            )?
        };
        let mut active = Vec::new();
        for one in given {
            let set = handles::get::<ActionSet>(one.action_set)?;
            session.check_attached(set.id)?;
            let instance = &session.instance;
            let (actions, paths) = (lock(&instance.actions), lock(&instance.paths));
            actions.check_set_path(set.id, one.subaction_path, &paths)?;
            active.push(ActiveSet {
                set: set.id,
                user: one.subaction_path,
            });
        }
        match session.is_focused() {
            true => {
                session.sync(&active);
                DONE
            }
            false => {
                // Without input focus, no action set is active.
                session.sync(&[]);
                Ok(xr::Result::SESSION_NOT_FOCUSED)
            }
        }
    })
}

/// Checks that an action has this type and subaction path, and that its set is attached.
fn check(
    session: &Session,
    action: xr::Action,
    user: xr::Path,
    kind: xr::ActionType,
) -> Outcome<ActionId> {
    let action = handles::get::<Action>(action)?;
    let instance = &session.instance;
    let (actions, paths) = (lock(&instance.actions), lock(&instance.paths));
    actions.check(action.id, kind, user, &paths)?;
    session.check_attached(action.id.0)?;
    Ok(action.id)
}

/// Reads the state of an action of this type. Returns the output structure and the state; `None` if the action is inactive.
///
/// # Safety
/// All pointers must come from the application.
unsafe fn state<'a, T: Structure>(
    session: xr::Session,
    info: *const xr::ActionStateGetInfo,
    state: *mut T,
    kind: xr::ActionType,
) -> Outcome<(&'a mut T, Option<State>)> {
    let session = handles::get::<Session>(session)?;
    // SAFETY: the application passes valid pointers.
    let (info, state) = unsafe { (input(info)?, output(state)?) };
    let action = check(&session, info.action, info.subaction_path, kind)?;
    let found = lock(&session.input).state(action, info.subaction_path);
    Ok((state, found))
}

/// `isActive`, `changedSinceLastSync` and `lastChangeTime`.
fn history(state: Option<State>) -> (xr::Bool32, xr::Bool32, xr::Time) {
    let changed = state.map_or(NEVER, |state| state.changed.0);
    (
        state.is_some().into(),
        state.is_some_and(|state| state.has_changed).into(),
        xr::Time::from_nanos(changed),
    )
}

const NEVER: i64 = 0;

pub(crate) unsafe extern "system" fn boolean(
    session: xr::Session,
    info: *const xr::ActionStateGetInfo,
    out: *mut xr::ActionStateBoolean,
) -> xr::Result {
    call(c"xrGetActionStateBoolean", || {
        // SAFETY: the application passes valid pointers.
        let (to, state) = unsafe { state(session, info, out, xr::ActionType::BOOLEAN_INPUT)? };
        let value = state.map(|state| state.value);
        to.current_state = (value == Some(Value::Bool(true))).into();
        (
            to.is_active,
            to.changed_since_last_sync,
            to.last_change_time,
        ) = history(state);
        DONE
    })
}

pub(crate) unsafe extern "system" fn float(
    session: xr::Session,
    info: *const xr::ActionStateGetInfo,
    out: *mut xr::ActionStateFloat,
) -> xr::Result {
    call(c"xrGetActionStateFloat", || {
        // SAFETY: the application passes valid pointers.
        let (to, state) = unsafe { state(session, info, out, xr::ActionType::FLOAT_INPUT)? };
        to.current_state = match state.map(|state| state.value) {
            Some(Value::Float(number)) => number,
            _ => 0.0,
        };
        (
            to.is_active,
            to.changed_since_last_sync,
            to.last_change_time,
        ) = history(state);
        DONE
    })
}

pub(crate) unsafe extern "system" fn vector(
    session: xr::Session,
    info: *const xr::ActionStateGetInfo,
    out: *mut xr::ActionStateVector2f,
) -> xr::Result {
    call(c"xrGetActionStateVector2f", || {
        // SAFETY: the application passes valid pointers.
        let (to, state) = unsafe { state(session, info, out, xr::ActionType::VECTOR2F_INPUT)? };
        to.current_state = match state.map(|state| state.value) {
            Some(Value::Vector2f([x, y])) => xr::Vector2f { x, y },
            _ => xr::Vector2f::default(),
        };
        (
            to.is_active,
            to.changed_since_last_sync,
            to.last_change_time,
        ) = history(state);
        DONE
    })
}

pub(crate) unsafe extern "system" fn pose(
    session: xr::Session,
    info: *const xr::ActionStateGetInfo,
    to: *mut xr::ActionStatePose,
) -> xr::Result {
    call(c"xrGetActionStatePose", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application passes valid pointers.
        let (info, to) = unsafe { (input(info)?, output(to)?) };
        let user = info.subaction_path;
        let action = check(&session, info.action, user, xr::ActionType::POSE_INPUT)?;
        let is_active = lock(&session.input).pose_source(action, user).is_some();
        to.is_active = is_active.into();
        DONE
    })
}

/// Sends haptic feedback to each hand whose haptics are bound to the action.
///
/// # Safety
/// All pointers must come from the application.
unsafe fn send_haptic(
    session: xr::Session,
    info: *const xr::HapticActionInfo,
    feedback: impl Fn(Hand) -> Haptic,
) -> Outcome {
    let session = handles::get::<Session>(session)?;
    // SAFETY: the application passes valid pointers.
    let info = unsafe { input(info)? };
    let kind = xr::ActionType::VIBRATION_OUTPUT;
    let action = check(&session, info.action, info.subaction_path, kind)?;
    if !session.is_focused() {
        return Ok(xr::Result::SESSION_NOT_FOCUSED);
    }
    // The specification requires success if no device with haptics is present.
    let hands = lock(&session.input).haptic_users(action, info.subaction_path);
    for hand in hands.iter().filter_map(|user| controllers::hand(user)) {
        session.haptic(feedback(hand));
    }
    DONE
}

/// Converts a vibration to the wire representation.
fn haptic(vibration: &xr::HapticVibration, hand: Hand) -> Haptic {
    // `XR_MIN_HAPTIC_DURATION` is negative. It is converted to zero.
    let nanos = u64::try_from(vibration.duration.as_nanos()).unwrap_or(0);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float is brought into the range"
    )]
    let frequency = vibration.frequency.round() as u16;
    Haptic {
        hand,
        amplitude: ControllerState::pull(vibration.amplitude),
        frequency,
        duration: Duration::from_nanos(nanos),
    }
}

pub(crate) unsafe extern "system" fn apply_haptic(
    session: xr::Session,
    info: *const xr::HapticActionInfo,
    feedback: *const xr::HapticBaseHeader,
) -> xr::Result {
    call(c"xrApplyHapticFeedback", || {
        // SAFETY: the application passes valid pointers.
        unsafe {
            let vibration = input::<xr::HapticVibration>(feedback.cast())?;
            send_haptic(session, info, |hand| haptic(vibration, hand))
        }
    })
}

pub(crate) unsafe extern "system" fn stop_haptic(
    session: xr::Session,
    info: *const xr::HapticActionInfo,
) -> xr::Result {
    // SAFETY: the application passes valid pointers.
    call(c"xrStopHapticFeedback", || unsafe {
        send_haptic(session, info, Haptic::stop)
    })
}
