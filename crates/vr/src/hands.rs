//! The person's two controllers: where they are held, and one button each, which makes them vibrate.

use std::time::Duration;

use openxr as xr;

use crate::error::VrError;
use crate::session::Session;

/// What a press feels like.
const TICK: Duration = Duration::from_millis(40);
const STRENGTH: f32 = 0.5;

/// The hands, left and right, as OpenXR names them.
const HANDS: [&str; 2] = ["/user/hand/left", "/user/hand/right"];

/// Profiles, and what is pressed in each.
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

/// Where the controllers are. It belongs to the session's thread.
pub(crate) struct Hands {
    set: xr::ActionSet,
    press: xr::Action<bool>,
    tick: xr::Action<xr::Haptic>,
    paths: [xr::Path; 2],
    spaces: [xr::Space; 2],
    pressed: [bool; 2],
}

impl Hands {
    /// Tells the runtime what is wanted of the controllers.
    pub(crate) fn new(session: &Session) -> Result<Hands, VrError> {
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
        let tick = set.create_action::<xr::Haptic>("tick", "Tick", &paths);
        let tick = tick.map_err(&what)?;
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
                    &tick,
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
        Ok(Hands {
            spaces: [space(paths[0])?, space(paths[1])?],
            set,
            press,
            tick,
            paths,
            pressed: [false; 2],
        })
    }

    /// Where they are at `time`, those that are held, and whether they are pressed; a new press is felt.
    pub(crate) fn at(
        &mut self,
        session: &Session,
        time: xr::Time,
    ) -> Result<[Option<(xr::Posef, bool)>; 2], VrError> {
        let mut found = [None; 2];
        if !session.is_focused() {
            return Ok(found);
        }
        let what = VrError::openxr("tell of the controllers");
        let sets = [xr::ActiveActionSet::new(&self.set)];
        session.handle.sync_actions(&sets).map_err(&what)?;
        for (hand, found) in found.iter_mut().enumerate() {
            let press = self.press.state(&session.handle, self.paths[hand]);
            let press = press.map_err(&what)?;
            let pressed = press.is_active && press.current_state;
            if pressed && !std::mem::replace(&mut self.pressed[hand], pressed) {
                self.tick(session, hand)?;
            }
            self.pressed[hand] = pressed;
            let location = self.spaces[hand].locate(&session.space, time);
            let location = location.map_err(&what)?;
            let known =
                xr::SpaceLocationFlags::POSITION_VALID | xr::SpaceLocationFlags::ORIENTATION_VALID;
            if location.location_flags.contains(known) {
                *found = Some((location.pose, pressed));
            }
        }
        Ok(found)
    }

    fn tick(&self, session: &Session, hand: usize) -> Result<(), VrError> {
        let duration = i64::try_from(TICK.as_nanos()).unwrap_or(i64::MAX);
        let tick = xr::HapticVibration::new()
            .amplitude(STRENGTH)
            .duration(xr::Duration::from_nanos(duration))
            .frequency(xr::FREQUENCY_UNSPECIFIED);
        let felt = (self.tick).apply_feedback(&session.handle, self.paths[hand], &tick);
        felt.map_err(VrError::openxr("vibrate a controller"))
    }
}
