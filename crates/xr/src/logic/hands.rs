//! The client's controllers as input devices of the action system.
//!
//! They use the profile `oculus/touch_controller`. An application with bindings only for
//! `khr/simple_controller` gets that profile: select is the trigger or the lower button, menu is the menu
//! button.

use openuvr_proto::controller::{Buttons, Controlled, ControllerState, Hand};
use openuvr_proto::motion::{self, Velocity};
use openuvr_proto::time::Instant;

use super::input::{Input, Value};
use super::pose::Pose;

const TOUCH: &str = "/interaction_profiles/oculus/touch_controller";
const SIMPLE: &str = "/interaction_profiles/khr/simple_controller";

/// Controllers without an update for this many seconds are lost (guess: the same as for the head).
const STALE: f32 = 0.33;

fn user(hand: Hand) -> &'static str {
    match hand {
        Hand::Left => "/user/hand/left",
        Hand::Right => "/user/hand/right",
    }
}

/// The hand with this top level user path.
pub(crate) fn hand(path: &str) -> Option<Hand> {
    Hand::ALL.into_iter().find(|hand| user(*hand) == path)
}

/// The client's newest controller state.
#[derive(Debug, Default)]
pub(crate) struct Hands {
    newest: Option<Controlled>,
    /// The client's controllers are active input devices.
    holds: bool,
}

impl Hands {
    /// Sets the newest state; `None`: no player, or no report from it.
    pub(crate) fn heard(&mut self, newest: Option<Controlled>) {
        self.newest = newest;
    }

    /// Updates the input devices at `now`. `knows` returns whether the application has bindings for a
    /// profile.
    pub(crate) fn tell(&mut self, input: &mut Input, now: Instant, knows: impl Fn(&str) -> bool) {
        let newest = self.newest;
        if newest.is_none() && !self.holds {
            // Without controllers of a client, `XR_EXT_conformance_automation` may have set other devices.
            return;
        }
        let fresh = newest.filter(|newest| seconds(newest.received, now) < STALE);
        let profile = match knows(TOUCH) || !knows(SIMPLE) {
            true => TOUCH,
            false => SIMPLE,
        };
        self.holds = fresh.is_some();
        for hand in Hand::ALL {
            let state = fresh.and_then(|fresh| fresh.states[hand.index()]);
            input.holds(user(hand), profile, state.is_some());
            if let Some(state) = state {
                tell_one(input, profile, &state);
            }
        }
    }

    /// The predicted pose of a component (`/input/grip/pose`) at `at`; `None` if unknown, or if no controller
    /// of the client has it.
    pub(crate) fn lies(&self, user: &str, place: &str, at: Instant) -> Option<Pose> {
        let newest = self.newest.filter(|_| self.holds)?;
        let state = newest.states[hand(user)?.index()]?;
        let pose = match place {
            "/input/grip/pose" => state.grip?,
            "/input/aim/pose" => state.aim?,
            _ => return None,
        };
        // Before the clocks are synchronised, the arrival time is used.
        let sampled = newest
            .sampled_here
            .map_or(newest.received, |mapped| mapped.at.min(newest.received));
        let later = seconds(sampled, at);
        let (at, turned) = motion::carried(&pose, &Velocity::of(&pose), later);
        Some(Pose { turned, at })
    }
}

fn tell_one(input: &mut Input, profile: &str, state: &ControllerState) {
    let user = user(state.hand);
    let pressed = |button| state.buttons.contains(button);
    let pulled = |value: u16| f32::from(value) / f32::from(u16::MAX);
    let (trigger, squeeze) = (pulled(state.trigger), pulled(state.squeeze));
    let mut say = |place: &str, value| input.says(user, place, value);
    if profile == SIMPLE {
        // Threshold for a click (guess).
        let select = pressed(Buttons::A_X) || trigger >= 0.5;
        say("/input/select/click", Value::Bool(select));
        say(
            "/input/menu/click",
            Value::Bool(pressed(Buttons::MENU_SYSTEM)),
        );
        return;
    }
    let (lower, upper, menu) = match state.hand {
        Hand::Left => ("x", "y", "menu"),
        Hand::Right => ("a", "b", "system"),
    };
    let bits = [
        (lower, "click", Buttons::A_X),
        (lower, "touch", Buttons::A_X_TOUCH),
        (upper, "click", Buttons::B_Y),
        (upper, "touch", Buttons::B_Y_TOUCH),
        (menu, "click", Buttons::MENU_SYSTEM),
        ("thumbstick", "click", Buttons::THUMBSTICK),
        ("thumbstick", "touch", Buttons::THUMBSTICK_TOUCH),
        ("trigger", "touch", Buttons::TRIGGER_TOUCH),
        ("thumbrest", "touch", Buttons::THUMBREST_TOUCH),
    ];
    for (thing, what, bit) in bits {
        say(&format!("/input/{thing}/{what}"), Value::Bool(pressed(bit)));
    }
    say("/input/trigger/value", Value::Number(trigger));
    say("/input/squeeze/value", Value::Number(squeeze));
    let axis = |value: i16| (f32::from(value) / f32::from(i16::MAX)).max(-1.0);
    let (x, y) = (axis(state.thumbstick.0), axis(state.thumbstick.1));
    say("/input/thumbstick", Value::Pair([x, y]));
    say("/input/thumbstick/x", Value::Number(x));
    say("/input/thumbstick/y", Value::Number(y));
}

#[allow(
    clippy::cast_precision_loss,
    reason = "spans of interest are far below a second"
)]
fn seconds(from: Instant, to: Instant) -> f32 {
    to.0.saturating_sub(from.0) as f32 / 1e9
}
