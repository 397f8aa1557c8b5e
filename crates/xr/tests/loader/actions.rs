//! Actions without input devices, and actions with simulated devices.

use std::ffi::CStr;
use std::ptr::null;

use openxr_sys as xr;

use crate::rig::{Application, alone, field};

const HEADLESS: &[&[u8]] = &[xr::MND_HEADLESS_EXTENSION_NAME];

pub(crate) fn set(app: &Application, name: &str) -> xr::ActionSet {
    let info = xr::ActionSetCreateInfo {
        ty: xr::ActionSetCreateInfo::TYPE,
        next: null(),
        action_set_name: field(name),
        localized_action_set_name: field(name),
        priority: 0,
    };
    let mut set = xr::ActionSet::default();
    done!(app, CreateActionSet(app.instance, &info, &mut set));
    set
}

pub(crate) fn action(
    app: &Application,
    set: xr::ActionSet,
    name: &str,
    kind: xr::ActionType,
) -> Result<xr::Action, xr::Result> {
    let info = xr::ActionCreateInfo {
        ty: xr::ActionCreateInfo::TYPE,
        next: null(),
        action_name: field(name),
        action_type: kind,
        count_subaction_paths: 0,
        subaction_paths: null(),
        localized_action_name: field(name),
    };
    let mut action = xr::Action::default();
    match call!(app, CreateAction(set, &info, &mut action)) {
        xr::Result::SUCCESS => Ok(action),
        error => Err(error),
    }
}

pub(crate) fn attach(app: &Application, session: xr::Session, set: xr::ActionSet) -> xr::Result {
    let info = xr::SessionActionSetsAttachInfo {
        ty: xr::SessionActionSetsAttachInfo::TYPE,
        next: null(),
        count_action_sets: 1,
        action_sets: &raw const set,
    };
    call!(app, AttachSessionActionSets(session, &info))
}

pub(crate) fn sync(app: &Application, session: xr::Session, set: xr::ActionSet) -> xr::Result {
    let active = xr::ActiveActionSet {
        action_set: set,
        subaction_path: xr::Path::NULL,
    };
    let info = xr::ActionsSyncInfo {
        ty: xr::ActionsSyncInfo::TYPE,
        next: null(),
        count_active_action_sets: 1,
        active_action_sets: &raw const active,
    };
    call!(app, SyncActions(session, &info))
}

#[test]
fn actions_without_devices_are_inactive() {
    let name = "actions::actions_without_devices_are_inactive";
    alone(name, || {
        let Some(app) = Application::open(HEADLESS) else {
            return;
        };
        let game = set(&app, "game");
        let grab = action(&app, game, "grab", xr::ActionType::BOOLEAN_INPUT).unwrap();
        let buzz = action(&app, game, "buzz", xr::ActionType::VIBRATION_OUTPUT).unwrap();
        let session = app.session(null()).unwrap();
        let not_attached = xr::Result::ERROR_ACTIONSET_NOT_ATTACHED;
        assert_eq!(sync(&app, session, game), not_attached);
        assert_eq!(attach(&app, session, game), xr::Result::SUCCESS);
        let again = xr::Result::ERROR_ACTIONSETS_ALREADY_ATTACHED;
        assert_eq!(attach(&app, session, game), again);
        let late = action(&app, game, "late", xr::ActionType::BOOLEAN_INPUT);
        assert_eq!(late, Err(again));
        let unfocused = xr::Result::SESSION_NOT_FOCUSED;
        assert_eq!(sync(&app, session, game), unfocused);
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        assert_eq!(sync(&app, session, game), xr::Result::SUCCESS);

        let get = |action| xr::ActionStateGetInfo {
            ty: xr::ActionStateGetInfo::TYPE,
            next: null(),
            action,
            subaction_path: xr::Path::NULL,
        };
        // SAFETY: zero is valid for all fields.
        let mut state: xr::ActionStateBoolean = unsafe { std::mem::zeroed() };
        state.ty = xr::ActionStateBoolean::TYPE;
        state.is_active = xr::TRUE;
        done!(app, GetActionStateBoolean(session, &get(grab), &mut state));
        assert_eq!(
            (state.is_active, state.current_state),
            (xr::FALSE, xr::FALSE)
        );
        let mismatch = xr::Result::ERROR_ACTION_TYPE_MISMATCH;
        let wrong = call!(app, GetActionStateBoolean(session, &get(buzz), &mut state));
        assert_eq!(wrong, mismatch);

        let left = app.path(c"/user/hand/left");
        // SAFETY: zero is valid for all fields.
        let mut profile: xr::InteractionProfileState = unsafe { std::mem::zeroed() };
        profile.ty = xr::InteractionProfileState::TYPE;
        done!(
            app,
            GetCurrentInteractionProfile(session, left, &mut profile)
        );
        assert_eq!(profile.interaction_profile, xr::Path::NULL);

        let vibration = xr::HapticVibration {
            ty: xr::HapticVibration::TYPE,
            next: null(),
            duration: xr::Duration::MIN_HAPTIC,
            frequency: 0.0,
            amplitude: 0.5,
        };
        let info = xr::HapticActionInfo {
            ty: xr::HapticActionInfo::TYPE,
            next: null(),
            action: buzz,
            subaction_path: xr::Path::NULL,
        };
        let feedback = (&raw const vibration).cast();
        done!(app, ApplyHapticFeedback(session, &info, feedback));
        done!(app, StopHapticFeedback(session, &info));
    });
}

#[test]
fn bindings_of_known_profiles_are_accepted() {
    alone("actions::bindings_of_known_profiles_are_accepted", || {
        let Some(app) = Application::open(HEADLESS) else {
            return;
        };
        let game = set(&app, "game");
        let grab = action(&app, game, "grab", xr::ActionType::FLOAT_INPUT).unwrap();
        let suggest = |profile, binding| {
            let bindings = [xr::ActionSuggestedBinding {
                action: grab,
                binding: app.path(binding),
            }];
            let info = xr::InteractionProfileSuggestedBinding {
                ty: xr::InteractionProfileSuggestedBinding::TYPE,
                next: null(),
                interaction_profile: app.path(profile),
                count_suggested_bindings: 1,
                suggested_bindings: bindings.as_ptr(),
            };
            call!(app, SuggestInteractionProfileBindings(app.instance, &info))
        };
        let touch = c"/interaction_profiles/oculus/touch_controller";
        let simple = c"/interaction_profiles/khr/simple_controller";
        let squeeze = c"/user/hand/left/input/squeeze/value";
        assert_eq!(suggest(touch, squeeze), xr::Result::SUCCESS);
        let unsupported = xr::Result::ERROR_PATH_UNSUPPORTED;
        assert_eq!(suggest(simple, squeeze), unsupported);
        let select = c"/user/hand/right/input/select/click";
        assert_eq!(suggest(simple, select), xr::Result::SUCCESS);
        let glove = c"/interaction_profiles/acme/glove";
        assert_eq!(suggest(glove, select), unsupported);
    });
}

/// A simulated device in the left hand, set by `XR_EXT_conformance_automation`.
struct SimulatedHand<'a> {
    app: &'a Application,
    session: xr::Session,
    left: xr::Path,
}

impl SimulatedHand<'_> {
    fn set_active(&self, profile: &CStr, is_active: bool) {
        let profile = self.app.path(profile);
        done!(
            self.app,
            SetInputDeviceActiveEXT(self.session, profile, self.left, is_active.into())
        );
    }

    fn set_trigger(&self, value: f32) {
        let trigger = self.app.path(c"/user/hand/left/input/trigger/value");
        done!(
            self.app,
            SetInputDeviceStateFloatEXT(self.session, self.left, trigger, value)
        );
    }

    fn float_state(&self, action: xr::Action) -> xr::ActionStateFloat {
        let get = xr::ActionStateGetInfo {
            ty: xr::ActionStateGetInfo::TYPE,
            next: null(),
            action,
            subaction_path: xr::Path::NULL,
        };
        // SAFETY: zero is valid for all fields.
        let mut state: xr::ActionStateFloat = unsafe { std::mem::zeroed() };
        state.ty = xr::ActionStateFloat::TYPE;
        done!(
            self.app,
            GetActionStateFloat(self.session, &get, &mut state)
        );
        state
    }
}

#[test]
fn device_state_takes_effect_at_the_next_sync() {
    let name = "actions::device_state_takes_effect_at_the_next_sync";
    alone(name, || {
        // SAFETY: no other thread of this process reads the environment now.
        unsafe { std::env::set_var("OPENUVR_XR_AUTOMATION", "1") };
        let extensions = [HEADLESS[0], xr::EXT_CONFORMANCE_AUTOMATION_EXTENSION_NAME];
        let Some(app) = Application::open(&extensions) else {
            return;
        };
        let game = set(&app, "game");
        let pull = action(&app, game, "pull", xr::ActionType::FLOAT_INPUT).unwrap();
        let hand = action(&app, game, "hand", xr::ActionType::POSE_INPUT).unwrap();
        let touch = c"/interaction_profiles/oculus/touch_controller";
        let bindings = [
            (pull, c"/user/hand/left/input/trigger"),
            (hand, c"/user/hand/left/input/grip/pose"),
        ];
        let bindings = bindings.map(|(action, path)| xr::ActionSuggestedBinding {
            action,
            binding: app.path(path),
        });
        let info = xr::InteractionProfileSuggestedBinding {
            ty: xr::InteractionProfileSuggestedBinding::TYPE,
            next: null(),
            interaction_profile: app.path(touch),
            count_suggested_bindings: 2,
            suggested_bindings: bindings.as_ptr(),
        };
        done!(app, SuggestInteractionProfileBindings(app.instance, &info));
        let session = app.session(null()).unwrap();
        assert_eq!(attach(&app, session, game), xr::Result::SUCCESS);
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        let left = SimulatedHand {
            app: &app,
            session,
            left: app.path(c"/user/hand/left"),
        };
        left.set_active(touch, true);
        left.set_trigger(0.5);
        assert_eq!(
            left.float_state(pull).is_active,
            xr::FALSE,
            "not synchronised yet"
        );
        assert_eq!(sync(&app, session, game), xr::Result::SUCCESS);
        let state = left.float_state(pull);
        assert_eq!((state.is_active, state.current_state), (xr::TRUE, 0.5));
        assert_eq!(state.changed_since_last_sync, xr::TRUE);
        assert!(state.last_change_time.as_nanos() > 0);

        // A pose that was set in one space can be located in any space.
        let local = app.space(session, xr::ReferenceSpaceType::LOCAL);
        let mut ahead = xr::Posef::IDENTITY;
        ahead.position.z = -0.5;
        let grip = app.path(c"/user/hand/left/input/grip/pose");
        done!(
            app,
            SetInputDeviceLocationEXT(session, left.left, grip, local, ahead)
        );
        let info = xr::ActionSpaceCreateInfo {
            ty: xr::ActionSpaceCreateInfo::TYPE,
            next: null(),
            action: hand,
            subaction_path: xr::Path::NULL,
            pose_in_action_space: xr::Posef::IDENTITY,
        };
        let mut space = xr::Space::default();
        done!(app, CreateActionSpace(session, &info, &mut space));
        let (time, _) = app.frame(session);
        // SAFETY: zero is valid for all fields.
        let mut location: xr::SpaceLocation = unsafe { std::mem::zeroed() };
        location.ty = xr::SpaceLocation::TYPE;
        done!(app, LocateSpace(space, local, time, &mut location));
        assert_eq!(location.pose.position.z, -0.5);
        let tracked = xr::SpaceLocationFlags::POSITION_TRACKED;
        assert!(location.location_flags.contains(tracked));

        // Disconnect the device.
        left.set_active(touch, false);
        assert_eq!(sync(&app, session, game), xr::Result::SUCCESS);
        let state = left.float_state(pull);
        assert_eq!((state.is_active, state.current_state), (xr::FALSE, 0.0));
        done!(app, LocateSpace(space, local, time, &mut location));
        assert_eq!(location.location_flags, xr::SpaceLocationFlags::EMPTY);
    });
}

#[test]
fn simulated_devices_are_off_by_default() {
    alone("actions::simulated_devices_are_off_by_default", || {
        let Some(mut app) = Application::open(&[]) else {
            return;
        };
        done!(app, DestroyInstance(app.instance));
        app.instance = xr::Instance::default();
        let mut instance = xr::Instance::default();
        let extensions = [xr::EXT_CONFORMANCE_AUTOMATION_EXTENSION_NAME];
        let made = app.create(&extensions, xr::Version::new(1, 0, 0), &mut instance);
        assert_eq!(made, xr::Result::ERROR_EXTENSION_NOT_PRESENT);
    });
}
