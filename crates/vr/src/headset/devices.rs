//! The controllers of the headset's runtime, as states of the wire protocol.

use openuvr_proto::controller::{Buttons, ControllerState, Controllers, Hand, Haptic};
use openuvr_proto::pose::Pose;
use openxr as xr;

use super::head::pose;
use crate::error::VrError;
use crate::session::Session;

/// The OpenXR paths of the left and the right hand.
const HANDS: [&str; 2] = ["/user/hand/left", "/user/hand/right"];

const SIMPLE: &str = "/interaction_profiles/khr/simple_controller";
const TOUCH: &str = "/interaction_profiles/oculus/touch_controller";

/// Buttons, and their inputs on the left and the right controller of [`TOUCH`]. An input is empty if that controller
/// does not have the button.
const BUTTONS: [(Buttons, &str, [&str; 2]); 9] = [
    (Buttons::A_X, "a_x", ["x/click", "a/click"]),
    (Buttons::B_Y, "b_y", ["y/click", "b/click"]),
    // The runtime reserves the menu button of the right controller.
    (Buttons::MENU_SYSTEM, "menu", ["menu/click", ""]),
    (Buttons::THUMBSTICK, "stick", ["thumbstick/click"; 2]),
    (Buttons::A_X_TOUCH, "a_x_touch", ["x/touch", "a/touch"]),
    (Buttons::B_Y_TOUCH, "b_y_touch", ["y/touch", "b/touch"]),
    (
        Buttons::TRIGGER_TOUCH,
        "trigger_touch",
        ["trigger/touch"; 2],
    ),
    (
        Buttons::THUMBSTICK_TOUCH,
        "stick_touch",
        ["thumbstick/touch"; 2],
    ),
    (
        Buttons::THUMBREST_TOUCH,
        "rest_touch",
        ["thumbrest/touch"; 2],
    ),
];

/// The actions of the controllers. They are used only on the session's thread.
pub(super) struct Devices {
    set: xr::ActionSet,
    paths: [xr::Path; 2],
    grips: [xr::Space; 2],
    aims: [xr::Space; 2],
    grip: xr::Action<xr::Posef>,
    buttons: Vec<(Buttons, xr::Action<bool>)>,
    trigger: xr::Action<f32>,
    squeeze: xr::Action<f32>,
    stick: xr::Action<xr::Vector2f>,
    haptic: xr::Action<xr::Haptic>,
}

impl Devices {
    pub(super) fn new(session: &Session) -> Result<Devices, VrError> {
        let what = VrError::openxr("set up controllers");
        let instance = &session.instance;
        let path = |text: &str| instance.string_to_path(text).map_err(&what);
        let paths = [path(HANDS[0])?, path(HANDS[1])?];
        let set = instance.create_action_set("headset", "Headset", 0);
        let set = set.map_err(&what)?;
        let pose_action = |name: &str| set.create_action::<xr::Posef>(name, name, &paths);
        let grip = pose_action("grip").map_err(&what)?;
        let aim = pose_action("aim").map_err(&what)?;
        let float_action = |name: &str| set.create_action::<f32>(name, name, &paths);
        let trigger = float_action("trigger").map_err(&what)?;
        let squeeze = float_action("squeeze").map_err(&what)?;
        let stick = set.create_action::<xr::Vector2f>("thumbstick", "thumbstick", &paths);
        let stick = stick.map_err(&what)?;
        let haptic = set.create_action::<xr::Haptic>("feel", "feel", &paths);
        let haptic = haptic.map_err(&what)?;
        let mut buttons = Vec::new();
        let (mut simple, mut touch) = (Vec::new(), Vec::new());
        for hand in HANDS {
            let at = |end: &str| path(&format!("{hand}/{end}"));
            for bindings in [&mut simple, &mut touch] {
                bindings.push(xr::Binding::new(&grip, at("input/grip/pose")?));
                bindings.push(xr::Binding::new(&aim, at("input/aim/pose")?));
                bindings.push(xr::Binding::new(&haptic, at("output/haptic")?));
            }
            // The select button maps to the trigger.
            simple.push(xr::Binding::new(&trigger, at("input/select/click")?));
            touch.push(xr::Binding::new(&trigger, at("input/trigger/value")?));
            touch.push(xr::Binding::new(&squeeze, at("input/squeeze/value")?));
            touch.push(xr::Binding::new(&stick, at("input/thumbstick")?));
        }
        for (button, name, _) in BUTTONS {
            let action = set.create_action::<bool>(name, name, &paths);
            buttons.push((button, action.map_err(&what)?));
        }
        for ((_, action), (button, _, inputs)) in buttons.iter().zip(BUTTONS) {
            for (hand, input) in HANDS.iter().zip(inputs) {
                if !input.is_empty() {
                    let input = path(&format!("{hand}/input/{input}"))?;
                    touch.push(xr::Binding::new(action, input));
                }
                if button == Buttons::MENU_SYSTEM {
                    let input = path(&format!("{hand}/input/menu/click"))?;
                    simple.push(xr::Binding::new(action, input));
                }
            }
        }
        for (profile, bindings) in [(SIMPLE, &simple), (TOUCH, &touch)] {
            instance
                .suggest_interaction_profile_bindings(path(profile)?, bindings)
                .map_err(&what)?;
        }
        session.handle.attach_action_sets(&[&set]).map_err(&what)?;
        let space = |action: &xr::Action<xr::Posef>, path| {
            let space = action.create_space(&session.handle, path, xr::Posef::IDENTITY);
            space.map_err(&what)
        };
        Ok(Devices {
            grips: [space(&grip, paths[0])?, space(&grip, paths[1])?],
            aims: [space(&aim, paths[0])?, space(&aim, paths[1])?],
            set,
            paths,
            grip,
            buttons,
            trigger,
            squeeze,
            stick,
            haptic,
        })
    }

    /// The states of the controllers at `time`; none while another application has the input focus.
    pub(super) fn states_at(
        &self,
        session: &Session,
        time: xr::Time,
    ) -> Result<Controllers, VrError> {
        if !session.is_focused() {
            return Ok([None; 2]);
        }
        let what = VrError::openxr("read the controllers");
        let sets = [xr::ActiveActionSet::new(&self.set)];
        session.handle.sync_actions(&sets).map_err(&what)?;
        let mut states = [None; 2];
        for hand in Hand::ALL {
            let path = self.paths[hand.index()];
            let active = self.grip.is_active(&session.handle, path);
            if active.map_err(&what)? {
                let state = self.state(session, time, hand).map_err(&what)?;
                states[hand.index()] = Some(state);
            }
        }
        Ok(states)
    }

    fn state(&self, session: &Session, time: xr::Time, hand: Hand) -> xr::Result<ControllerState> {
        let (handle, path) = (&session.handle, self.paths[hand.index()]);
        let mut state = ControllerState::new(hand);
        let located = |space: &xr::Space| -> xr::Result<Option<Pose>> {
            Ok(pose(&space.locate(&session.space, time)?))
        };
        state.grip = located(&self.grips[hand.index()])?;
        state.aim = located(&self.aims[hand.index()])?;
        for (button, action) in &self.buttons {
            if action.state(handle, path)?.current_state {
                state.buttons = state.buttons.with(*button);
            }
        }
        let pulled = |action: &xr::Action<f32>| -> xr::Result<u16> {
            let state = action.state(handle, path)?;
            Ok(ControllerState::pull(state.current_state))
        };
        state.trigger = pulled(&self.trigger)?;
        state.squeeze = pulled(&self.squeeze)?;
        let stick = self.stick.state(handle, path)?.current_state;
        state.thumbstick = (
            ControllerState::deflection(stick.x),
            ControllerState::deflection(stick.y),
        );
        Ok(state)
    }

    /// Starts or stops the vibration of a controller.
    pub(super) fn vibrate(&self, session: &Session, haptic: &Haptic) -> Result<(), VrError> {
        let path = self.paths[haptic.hand.index()];
        let result = if haptic.amplitude == 0 {
            self.haptic.stop_feedback(&session.handle, path)
        } else {
            // A duration of zero means the shortest one that the device supports.
            let nanos = match i64::try_from(haptic.duration.as_nanos()) {
                Ok(0) => xr::Duration::MIN_HAPTIC,
                Ok(nanos) => xr::Duration::from_nanos(nanos),
                Err(_) => xr::Duration::from_nanos(i64::MAX),
            };
            let feedback = xr::HapticVibration::new()
                .amplitude(f32::from(haptic.amplitude) / f32::from(u16::MAX))
                .frequency(f32::from(haptic.frequency))
                .duration(nanos);
            self.haptic.apply_feedback(&session.handle, path, &feedback)
        };
        result.map_err(VrError::openxr("vibrate a controller"))
    }
}
