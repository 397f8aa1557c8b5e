//! The client's controllers as input devices of the action system.
//!
//! The controllers use the profile `oculus/touch_controller`. If an application has bindings for
//! `khr/simple_controller` but not for the touch profile, the controllers use the simple profile: select is the trigger
//! or the lower button, and menu is the menu button.

use openuvr_proto::controller::{Buttons, ControllerState, Hand, ReceivedControllers};
use openuvr_proto::motion::{self, Velocity};
use openuvr_proto::time::Instant;

use super::input::{Input, Value};
use super::pose::Pose;

const TOUCH: &str = "/interaction_profiles/oculus/touch_controller";
const SIMPLE: &str = "/interaction_profiles/khr/simple_controller";

/// Controllers without an update for this many seconds count as lost (guess: the same as for the head).
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
pub(crate) struct Controllers {
    newest: Option<ReceivedControllers>,
    /// Whether the client's controllers are active input devices.
    has_devices: bool,
}

impl Controllers {
    /// Sets the newest state; `None` if there is no player, or if the player has not reported controllers.
    pub(crate) fn update(&mut self, newest: Option<ReceivedControllers>) {
        self.newest = newest;
    }

    /// Updates the input devices at `now`. `has_bindings` returns whether the application has bindings for a
    /// profile.
    pub(crate) fn apply(
        &mut self,
        input: &mut Input,
        now: Instant,
        has_bindings: impl Fn(&str) -> bool,
    ) {
        let newest = self.newest;
        if newest.is_none() && !self.has_devices {
            // If no client has controllers, keep the devices that `XR_EXT_conformance_automation` may have set.
            return;
        }
        let fresh = newest.filter(|newest| seconds(newest.received, now) < STALE);
        let profile = match has_bindings(TOUCH) || !has_bindings(SIMPLE) {
            true => TOUCH,
            false => SIMPLE,
        };
        self.has_devices = fresh.is_some();
        for hand in Hand::ALL {
            let state = fresh.and_then(|fresh| fresh.states[hand.index()]);
            input.set_device(user(hand), profile, state.is_some());
            if let Some(state) = state {
                apply_one(input, profile, &state);
            }
        }
    }

    /// The predicted pose of a component (`/input/grip/pose`) at `at`. `None` if the pose is unknown, or if no
    /// controller of the client has the component.
    pub(crate) fn predict(&self, user: &str, component: &str, at: Instant) -> Option<Pose> {
        let newest = self.newest.filter(|_| self.has_devices)?;
        let state = newest.states[hand(user)?.index()]?;
        let pose = match component {
            "/input/grip/pose" => state.grip?,
            "/input/aim/pose" => state.aim?,
            _ => return None,
        };
        // Before the clocks are synchronised, the arrival time is used.
        let sampled = newest
            .sampled_here
            .map_or(newest.received, |mapped| mapped.at.min(newest.received));
        let later = seconds(sampled, at);
        let (at, orientation) = motion::extrapolated(&pose, &Velocity::of(&pose), later);
        Some(Pose { orientation, at })
    }
}

fn apply_one(input: &mut Input, profile: &str, state: &ControllerState) {
    let user = user(state.hand);
    let pressed = |button| state.buttons.contains(button);
    let pulled = |value: u16| f32::from(value) / f32::from(u16::MAX);
    let (trigger, squeeze) = (pulled(state.trigger), pulled(state.squeeze));
    let mut set = |component: &str, value| input.set_value(user, component, value);
    if profile == SIMPLE {
        // Threshold for a click (guess).
        let select = pressed(Buttons::A_X) || trigger >= 0.5;
        set("/input/select/click", Value::Bool(select));
        set(
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
    for (identifier, component, bit) in bits {
        set(
            &format!("/input/{identifier}/{component}"),
            Value::Bool(pressed(bit)),
        );
    }
    set("/input/trigger/value", Value::Float(trigger));
    set("/input/squeeze/value", Value::Float(squeeze));
    let axis = |value: i16| (f32::from(value) / f32::from(i16::MAX)).max(-1.0);
    let (x, y) = (axis(state.thumbstick.0), axis(state.thumbstick.1));
    set("/input/thumbstick", Value::Vector2f([x, y]));
    set("/input/thumbstick/x", Value::Float(x));
    set("/input/thumbstick/y", Value::Float(y));
}

#[allow(
    clippy::cast_precision_loss,
    reason = "the spans are far below a second"
)]
fn seconds(from: Instant, to: Instant) -> f32 {
    to.0.saturating_sub(from.0) as f32 / 1e9
}
