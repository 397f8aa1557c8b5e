//! The two controllers: their poses, and one button each. Pressing the button makes the controller vibrate.

use std::time::Duration;

use openxr as xr;

use crate::error::VrError;
use crate::session::Session;

/// The duration and amplitude of the vibration after a press.
const VIBRATION: Duration = Duration::from_millis(40);
const AMPLITUDE: f32 = 0.5;

/// The OpenXR paths of the left and the right hand.
const HANDS: [&str; 2] = ["/user/hand/left", "/user/hand/right"];

/// Interaction profiles, and the button of each.
const PROFILES: [(&str, &str); 2] = [
    (
        "/interaction_profiles/khr/simple_controller",
        "select/click",
    ),
    (
        "/interaction_profiles/oculus/touch_controller",
        "trigger/value",
    ),
];

/// The actions of the controllers. They are used only on the session's thread.
pub(crate) struct Controllers {
    set: xr::ActionSet,
    press: xr::Action<bool>,
    vibration: xr::Action<xr::Haptic>,
    paths: [xr::Path; 2],
    spaces: [xr::Space; 2],
    pressed: [bool; 2],
}

impl Controllers {
    /// Registers the actions with the runtime.
    pub(crate) fn new(session: &Session) -> Result<Controllers, VrError> {
        let what = VrError::openxr("set up controllers");
        let instance = &session.instance;
        let path = |text: &str| instance.string_to_path(text).map_err(&what);
        let paths = [path(HANDS[0])?, path(HANDS[1])?];
        let set = instance.create_action_set("room", "The room", 0);
        let set = set.map_err(&what)?;
        let grip = set.create_action::<xr::Posef>("grip", "Controller", &paths);
        let grip = grip.map_err(&what)?;
        let press = set.create_action::<bool>("press", "Press", &paths);
        let press = press.map_err(&what)?;
        let vibration = set.create_action::<xr::Haptic>("tick", "Tick", &paths);
        let vibration = vibration.map_err(&what)?;
        for (profile, button) in PROFILES {
            let mut bindings = Vec::new();
            for hand in HANDS {
                bindings.push(xr::Binding::new(
                    &grip,
                    path(&format!("{hand}/input/grip/pose"))?,
                ));
                bindings.push(xr::Binding::new(
                    &press,
                    path(&format!("{hand}/input/{button}"))?,
                ));
                bindings.push(xr::Binding::new(
                    &vibration,
                    path(&format!("{hand}/output/haptic"))?,
                ));
            }
            instance
                .suggest_interaction_profile_bindings(path(profile)?, &bindings)
                .map_err(&what)?;
        }
        session.handle.attach_action_sets(&[&set]).map_err(&what)?;
        let space = |path| {
            let space = grip.create_space(&session.handle, path, xr::Posef::IDENTITY);
            space.map_err(&what)
        };
        Ok(Controllers {
            spaces: [space(paths[0])?, space(paths[1])?],
            set,
            press,
            vibration,
            paths,
            pressed: [false; 2],
        })
    }

    /// The pose of each tracked controller at `time`, and whether its button is pressed. A new press makes the
    /// controller vibrate.
    pub(crate) fn states_at(
        &mut self,
        session: &Session,
        time: xr::Time,
    ) -> Result<[Option<(xr::Posef, bool)>; 2], VrError> {
        let mut states = [None; 2];
        if !session.is_focused() {
            return Ok(states);
        }
        let what = VrError::openxr("read the controllers");
        let sets = [xr::ActiveActionSet::new(&self.set)];
        session.handle.sync_actions(&sets).map_err(&what)?;
        for (hand, state) in states.iter_mut().enumerate() {
            let press = self.press.state(&session.handle, self.paths[hand]);
            let press = press.map_err(&what)?;
            let pressed = press.is_active && press.current_state;
            if pressed && !std::mem::replace(&mut self.pressed[hand], pressed) {
                self.vibrate(session, hand)?;
            }
            self.pressed[hand] = pressed;
            let location = self.spaces[hand].locate(&session.space, time);
            let location = location.map_err(&what)?;
            let known =
                xr::SpaceLocationFlags::POSITION_VALID | xr::SpaceLocationFlags::ORIENTATION_VALID;
            if location.location_flags.contains(known) {
                *state = Some((location.pose, pressed));
            }
        }
        Ok(states)
    }

    fn vibrate(&self, session: &Session, hand: usize) -> Result<(), VrError> {
        let duration = i64::try_from(VIBRATION.as_nanos()).unwrap_or(i64::MAX);
        let vibration = xr::HapticVibration::new()
            .amplitude(AMPLITUDE)
            .duration(xr::Duration::from_nanos(duration))
            .frequency(xr::FREQUENCY_UNSPECIFIED);
        let result = (self.vibration).apply_feedback(&session.handle, self.paths[hand], &vibration);
        result.map_err(VrError::openxr("vibrate a controller"))
    }
}
