//! Input devices and action states: selects the bindings in effect, reads their components, and computes the
//! states at each `xrSyncActions` (OpenXR 1.0, sections 11.5 to 11.8).
//!
//! ```text
//! devices: /user/hand/left has oculus/touch_controller, its trigger is at 0.7
//!    │ bindings suggested for that profile
//!    ▼
//! actions of the active sets; for a shared component only the set of the highest priority
//!    │ OR of booleans, largest float, longest vector
//!    ▼
//! a state for each action and each top level user path, constant until the next xrSyncActions
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};

use openuvr_proto::time::Instant;
use openxr_sys as xr;

use super::actions::{ActionId, Actions, SetId};
use super::devices::Profile;
use super::paths::Paths;
use super::pose::Pose;
use super::profiles::Reading;

/// Hysteresis of a float component that is bound to a boolean action (guess: as in most runtimes).
const PULLED: f32 = 0.7;
const LET_GO: f32 = 0.6;

/// Maximum number of component states of a device: more than any profile has.
const MOST_PLACES: usize = 256;

/// State of a component.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    Bool(bool),
    Number(f32),
    Pair([f32; 2]),
}

/// An input device at a top level user path.
#[derive(Clone, Debug, Default)]
struct Held {
    /// Path of its interaction profile.
    profile: String,
    is_active: bool,
    values: HashMap<String, Value>,
    /// In the player's space.
    poses: HashMap<String, Pose>,
}

/// A binding in effect.
#[derive(Clone, PartialEq, Debug)]
struct Binding {
    action: ActionId,
    user: &'static str,
    /// Path as suggested.
    path: xr::Path,
    reading: Reading,
}

/// An action set to synchronise, optionally for one subaction path only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ActiveSet {
    pub(crate) set: SetId,
    pub(crate) user: xr::Path,
}

/// The source of a pose action. It stays selected, connected or not, until another device replaces it.
#[derive(Clone, PartialEq, Debug)]
struct Chosen {
    user: &'static str,
    profile: String,
    place: String,
}

/// State of an action.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct State {
    pub(crate) value: Value,
    pub(crate) has_changed: bool,
    pub(crate) changed: Instant,
}

/// The input of a session.
#[derive(Debug, Default)]
pub(crate) struct Input {
    held: BTreeMap<String, Held>,
    bindings: Vec<Binding>,
    /// States of active actions, by subaction path or `XR_NULL_PATH`.
    states: HashMap<(ActionId, xr::Path), State>,
    /// Sources of active pose and haptic actions.
    poses: HashMap<(ActionId, xr::Path), (&'static str, String)>,
    /// The source of pose actions that are bound to several devices: the first, which stays selected.
    chosen: HashMap<ActionId, Chosen>,
    /// The interaction profiles in effect since the last `xrSyncActions`.
    profiles: BTreeMap<&'static str, String>,
}

impl Input {
    /// Connects, replaces or disconnects a device.
    pub(crate) fn holds(&mut self, user: &str, profile: &str, is_active: bool) {
        let held = self.held.entry(user.to_owned()).or_default();
        if held.profile != profile {
            *held = Held::default();
            profile.clone_into(&mut held.profile);
        }
        held.is_active = is_active;
    }

    /// Sets the state of a component, effective at the next `xrSyncActions`.
    pub(crate) fn says(&mut self, user: &str, place: &str, value: Value) {
        let held = self.held.entry(user.to_owned()).or_default();
        if held.values.len() < MOST_PLACES || held.values.contains_key(place) {
            held.values.insert(place.to_owned(), value);
        }
    }

    /// Sets the pose of a component, in the player's space.
    pub(crate) fn lies(&mut self, user: &str, place: &str, pose: Option<Pose>) {
        let held = self.held.entry(user.to_owned()).or_default();
        match pose {
            None => drop(held.poses.remove(place)),
            Some(pose) if held.poses.len() < MOST_PLACES => {
                held.poses.insert(place.to_owned(), pose);
            }
            Some(_) => {}
        }
    }

    /// Sets the pose of a component unless it has one.
    pub(crate) fn lies_at_first(&mut self, user: &str, place: &str, pose: Pose) {
        let known = |held: &Held| held.poses.contains_key(place);
        if !self.held.get(user).is_some_and(known) {
            self.lies(user, place, Some(pose));
        }
    }

    /// `xrSyncActions`. Returns whether an interaction profile has changed.
    pub(crate) fn sync(
        &mut self,
        active: &[ActiveSet],
        attached: &[SetId],
        (actions, paths): (&Actions, &mut Paths),
        now: Instant,
    ) -> bool {
        let before = self.profiles.clone();
        self.bind(attached, actions, paths);
        let counting = self.counting(active, actions, paths);
        let mut states = HashMap::new();
        let mut poses = HashMap::new();
        for binding in &counting {
            let action = binding.action;
            let user = paths.number(binding.user).unwrap_or(xr::Path::NULL);
            for key in [(action, user), (action, xr::Path::NULL)] {
                match &binding.reading {
                    Reading::Pose(place) if key.1 == xr::Path::NULL => {
                        if self.stays_with(action, binding.user, place) {
                            poses.insert(key, (binding.user, place.clone()));
                        }
                    }
                    Reading::Pose(place) | Reading::Haptic(place) => {
                        poses.entry(key).or_insert((binding.user, place.clone()));
                    }
                    reading => {
                        let was = self.states.get(&key).map(|state| state.value);
                        if let Some(value) = self.read(binding.user, reading, was) {
                            let known = states.entry(key).or_insert(value);
                            *known = joined(*known, value);
                        }
                    }
                }
            }
        }
        let old = std::mem::take(&mut self.states);
        self.states = states
            .into_iter()
            .map(|(key, value)| (key, since(old.get(&key), value, now)))
            .collect();
        self.poses = poses;
        before != self.profiles
    }

    /// Whether this is the selected source of a pose action that is queried without a subaction path: the
    /// first of its bindings, which stays selected.
    fn stays_with(&mut self, action: ActionId, user: &'static str, place: &str) -> bool {
        let profile = |user: &str| {
            let held = self.held.get(user).filter(|held| held.is_active);
            held.map(|held| held.profile.clone())
        };
        let is_there =
            |chosen: &Chosen| profile(chosen.user).is_none_or(|its| its == chosen.profile);
        if !self.chosen.get(&action).is_some_and(is_there) {
            let chosen = Chosen {
                user,
                profile: profile(user).unwrap_or_default(),
                place: place.to_owned(),
            };
            self.chosen.insert(action, chosen);
        }
        let chosen = self.chosen.get(&action);
        chosen.is_some_and(|chosen| chosen.user == user && chosen.place == place)
    }

    /// Collects the bindings suggested for the active devices.
    fn bind(&mut self, attached: &[SetId], actions: &Actions, paths: &Paths) {
        self.bindings.clear();
        self.profiles.clear();
        for (user, held) in self.held.iter().filter(|(_, held)| held.is_active) {
            let Some(profile) = Profile::find(&held.profile) else {
                continue;
            };
            for (action, path) in actions.suggested(&held.profile, paths) {
                let Ok(text) = paths.text(path) else { continue };
                let Some((its, kind)) = profile.user_of(text).zip(actions.kind(action)) else {
                    continue;
                };
                if its != user || !attached.contains(&action.0) {
                    continue;
                }
                self.profiles.insert(its, held.profile.clone());
                if let Some(reading) = profile.reading(text, kind) {
                    self.bindings.push(Binding {
                        action,
                        user: its,
                        path,
                        reading,
                    });
                }
            }
        }
    }

    /// The bindings of active sets, except those suppressed by a set of higher priority.
    fn counting(&self, active: &[ActiveSet], actions: &Actions, paths: &Paths) -> Vec<Binding> {
        let is_active = |binding: &&Binding| {
            active.iter().any(|set| {
                let everywhere = set.user == xr::Path::NULL;
                let here = || paths.text(set.user) == Ok(binding.user);
                set.set == binding.action.0
                    && (everywhere || here())
                    && actions.asks_for(binding.action, binding.user, paths)
            })
        };
        let all: Vec<&Binding> = self.bindings.iter().filter(is_active).collect();
        let mut highest: HashMap<(&str, &str), u32> = HashMap::new();
        for binding in &all {
            let priority = actions.priority(binding.action.0);
            for place in binding.reading.places() {
                let known = highest.entry((binding.user, thing(place))).or_default();
                *known = priority.max(*known);
            }
        }
        let counts = |binding: &&&Binding| {
            let priority = actions.priority(binding.action.0);
            let mut places = binding.reading.places().into_iter();
            // Poses are shared between sets: reading one suppresses no other binding.
            matches!(binding.reading, Reading::Pose(_))
                || places.all(|place| highest.get(&(binding.user, thing(place))) == Some(&priority))
        };
        all.iter()
            .filter(counts)
            .map(|binding| (*binding).clone())
            .collect()
    }

    /// Reads the state of a component; zero before the device's first report.
    fn read(&self, user: &str, reading: &Reading, was: Option<Value>) -> Option<Value> {
        let held = self.held.get(user)?;
        let number = |place: &String| match held.values.get(place) {
            Some(Value::Number(number)) => *number,
            Some(Value::Bool(true)) => 1.0,
            _ => 0.0,
        };
        match reading {
            Reading::Bool(place) => Some(Value::Bool(match held.values.get(place) {
                Some(Value::Bool(pressed)) => *pressed,
                Some(Value::Number(number)) => {
                    let least = if was == Some(Value::Bool(true)) {
                        LET_GO
                    } else {
                        PULLED
                    };
                    *number >= least
                }
                _ => false,
            })),
            Reading::Number(place) => Some(Value::Number(number(place))),
            Reading::Pair(whole, [x, y]) => Some(Value::Pair(match held.values.get(whole) {
                Some(Value::Pair(pair)) => *pair,
                _ => [number(x), number(y)],
            })),
            Reading::Pose(_) | Reading::Haptic(_) => None,
        }
    }

    /// The state of an action; `None`: it is inactive.
    pub(crate) fn state(&self, action: ActionId, user: xr::Path) -> Option<State> {
        self.states.get(&(action, user)).copied()
    }

    /// The top level user path and component of a pose or haptic action; `None`: it is inactive.
    pub(crate) fn place(&self, action: ActionId, user: xr::Path) -> Option<(&'static str, &str)> {
        let (user, place) = self.poses.get(&(action, user))?;
        Some((*user, place.as_str()))
    }

    /// The pose of that component.
    pub(crate) fn pose(&self, action: ActionId, user: xr::Path) -> Option<Pose> {
        let (user, place) = self.place(action, user)?;
        let held = self.held.get(user).filter(|held| held.is_active)?;
        held.poses.get(place).copied()
    }

    /// The paths of the sources that an action is bound to.
    pub(crate) fn sources(&self, action: ActionId) -> Vec<xr::Path> {
        let mut seen = HashSet::new();
        let own = self.bindings.iter().filter(|b| b.action == action);
        own.map(|b| b.path)
            .filter(|path| seen.insert(*path))
            .collect()
    }

    /// The top level user paths at which a haptic action is bound; with `XR_NULL_PATH`, all of them.
    pub(crate) fn vibrating(&self, action: ActionId, user: xr::Path) -> Vec<&'static str> {
        let own = |binding: &&Binding| {
            binding.action == action && matches!(binding.reading, Reading::Haptic(_))
        };
        let here = self.place(action, user).map(|(user, _)| user);
        let mut places: Vec<_> = (self.bindings.iter().filter(own))
            .map(|binding| binding.user)
            .filter(|place| here.is_some() && (user == xr::Path::NULL || here == Some(*place)))
            .collect();
        places.dedup();
        places
    }

    /// The interaction profile in effect at a top level user path.
    pub(crate) fn profile(&self, user: &str) -> Option<&str> {
        self.profiles.get(user).map(String::as_str)
    }
}

/// The identifier of a component: `/input/trigger` of its value and of its touch.
fn thing(place: &str) -> &str {
    let mut ends = place.match_indices('/').map(|(at, _)| at);
    // "/input/trigger/value": up to the third slash.
    ends.nth(2).map_or(place, |end| &place[..end])
}

/// Combines the states of two sources of an action.
fn joined(a: Value, b: Value) -> Value {
    let length = |[x, y]: [f32; 2]| x * x + y * y;
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Value::Bool(a || b),
        (Value::Number(a), Value::Number(b)) => {
            Value::Number(if b.abs() > a.abs() { b } else { a })
        }
        (Value::Pair(a), Value::Pair(b)) => Value::Pair(if length(b) > length(a) { b } else { a }),
        // The sources of an action have the same type.
        _ => a,
    }
}

fn since(old: Option<&State>, value: Value, now: Instant) -> State {
    match old {
        Some(old) if old.value == value => State {
            has_changed: false,
            ..*old
        },
        Some(_) => State {
            value,
            has_changed: true,
            changed: now,
        },
        None => {
            let rest = match value {
                Value::Bool(_) => Value::Bool(false),
                Value::Number(_) => Value::Number(0.0),
                Value::Pair(_) => Value::Pair([0.0; 2]),
            };
            State {
                value,
                has_changed: value != rest,
                changed: now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::actions::NewAction;
    use super::*;

    const TOUCH: &str = "/interaction_profiles/oculus/touch_controller";
    const SIMPLE: &str = "/interaction_profiles/khr/simple_controller";
    const LEFT: &str = "/user/hand/left";
    const RIGHT: &str = "/user/hand/right";

    /// An application with action sets, and its player.
    #[derive(Default)]
    struct Game {
        actions: Actions,
        paths: Paths,
        input: Input,
        sets: Vec<SetId>,
        now: i64,
    }

    impl Game {
        fn set(&mut self, name: &str, priority: u32) -> SetId {
            let set = self
                .actions
                .create_set(name.to_owned(), name.to_owned(), priority);
            self.sets.push(set.unwrap());
            set.unwrap()
        }

        fn path(&mut self, text: &str) -> xr::Path {
            self.paths.number(text).unwrap()
        }

        fn action(&mut self, set: SetId, name: &str, kind: xr::ActionType) -> ActionId {
            let users = [LEFT, RIGHT].map(|user| self.path(user)).to_vec();
            let new = NewAction {
                name: name.to_owned(),
                localized: name.to_owned(),
                kind,
                users,
            };
            self.actions.create(set, new, &self.paths).unwrap()
        }

        fn suggest(&mut self, profile: &str, bindings: &[(ActionId, &str)]) {
            let bindings = bindings
                .iter()
                .map(|(action, path)| (*action, self.paths.number(path).unwrap()));
            let bindings = bindings.collect();
            let profile = self.path(profile);
            self.actions
                .suggest(profile, bindings, &self.paths)
                .unwrap();
        }

        /// Synchronises these sets. Returns whether an interaction profile has changed.
        fn sync(&mut self, sets: &[SetId]) -> bool {
            self.now += 1;
            let active: Vec<_> = sets
                .iter()
                .map(|set| ActiveSet {
                    set: *set,
                    user: xr::Path::NULL,
                })
                .collect();
            let of = (&self.actions, &mut self.paths);
            self.input.sync(&active, &self.sets, of, Instant(self.now))
        }

        fn state(&mut self, action: ActionId, user: Option<&str>) -> Option<(Value, bool, i64)> {
            let user = user.map_or(xr::Path::NULL, |user| self.path(user));
            let state = self.input.state(action, user)?;
            Some((state.value, state.has_changed, state.changed.0))
        }
    }

    #[test]
    fn actions_are_active_with_a_device() {
        let mut game = Game::default();
        let set = game.set("game", 0);
        let grab = game.action(set, "grab", xr::ActionType::FLOAT_INPUT);
        let trigger = |user: &str| format!("{user}/input/trigger/value");
        let (left, right) = (trigger(LEFT), trigger(RIGHT));
        game.suggest(TOUCH, &[(grab, left.as_str()), (grab, right.as_str())]);
        assert!(!game.sync(&[set]));
        assert_eq!(game.state(grab, None), None);
        game.input.holds(LEFT, TOUCH, true);
        assert!(game.sync(&[set]), "the device is new");
        assert_eq!(game.input.profile(LEFT), Some(TOUCH));
        assert_eq!(
            game.state(grab, Some(LEFT)),
            Some((Value::Number(0.0), false, 2))
        );
        assert_eq!(game.state(grab, Some(RIGHT)), None);
        game.input
            .says(LEFT, "/input/trigger/value", Value::Number(0.5));
        assert_eq!(
            game.state(grab, None),
            Some((Value::Number(0.0), false, 2)),
            "unchanged before the next sync"
        );
        assert!(!game.sync(&[set]));
        assert_eq!(game.state(grab, None), Some((Value::Number(0.5), true, 3)));
        assert!(!game.sync(&[set]));
        assert_eq!(game.state(grab, None), Some((Value::Number(0.5), false, 3)));
        // The larger of two values counts.
        game.input.holds(RIGHT, TOUCH, true);
        game.input
            .says(RIGHT, "/input/trigger/value", Value::Number(0.8));
        assert!(game.sync(&[set]));
        assert_eq!(game.state(grab, None), Some((Value::Number(0.8), true, 5)));
        // Without focus, or without an active set, no action is active.
        assert!(!game.sync(&[]));
        assert_eq!(game.state(grab, None), None);
        game.input.holds(LEFT, TOUCH, false);
        assert!(game.sync(&[set]));
        assert_eq!(game.state(grab, Some(LEFT)), None);
        assert_eq!(game.input.sources(grab).len(), 1);
    }

    #[test]
    fn a_trigger_as_a_boolean_has_hysteresis() {
        let mut game = Game::default();
        let set = game.set("game", 0);
        let fire = game.action(set, "fire", xr::ActionType::BOOLEAN_INPUT);
        game.suggest(TOUCH, &[(fire, "/user/hand/left/input/trigger")]);
        game.input.holds(LEFT, TOUCH, true);
        for (pulled, pressed) in [(0.65, false), (0.75, true), (0.65, true), (0.5, false)] {
            game.input
                .says(LEFT, "/input/trigger/value", Value::Number(pulled));
            game.sync(&[set]);
            let value = game.state(fire, Some(LEFT)).map(|(value, ..)| value);
            assert_eq!(value, Some(Value::Bool(pressed)), "{pulled}");
        }
    }

    #[test]
    fn a_shared_source_goes_to_the_higher_priority() {
        let mut game = Game::default();
        let (walk, menu) = (game.set("walk", 0), game.set("menu", 5));
        let jump = game.action(walk, "jump", xr::ActionType::BOOLEAN_INPUT);
        let choose = game.action(menu, "choose", xr::ActionType::BOOLEAN_INPUT);
        let hand = game.action(walk, "hand", xr::ActionType::POSE_INPUT);
        let select = "/user/hand/left/input/select/click";
        game.suggest(
            SIMPLE,
            &[
                (jump, select),
                (choose, select),
                (hand, "/user/hand/left/input/grip/pose"),
            ],
        );
        game.input.holds(LEFT, SIMPLE, true);
        game.input
            .says(LEFT, "/input/select/click", Value::Bool(true));
        game.sync(&[walk]);
        assert!(game.state(jump, None).is_some() && game.state(choose, None).is_none());
        game.sync(&[walk, menu]);
        assert!(game.state(jump, None).is_none() && game.state(choose, None).is_some());
        assert!(
            game.input.place(hand, xr::Path::NULL).is_some(),
            "a pose is shared"
        );
    }

    #[test]
    fn a_pose_action_keeps_its_first_source() {
        let mut game = Game::default();
        let set = game.set("game", 0);
        let hand = game.action(set, "hand", xr::ActionType::POSE_INPUT);
        let grips = [
            (hand, "/user/hand/left/input/grip/pose"),
            (hand, "/user/hand/right/input/grip/pose"),
        ];
        game.suggest(SIMPLE, &grips);
        game.suggest(TOUCH, &grips[1..]);
        let places = [(LEFT, -1.0), (RIGHT, 1.0)].map(|(user, x)| {
            let pose = Pose::moved([x, 0.0, 0.0]);
            game.input.holds(user, SIMPLE, true);
            game.input.lies(user, "/input/grip/pose", Some(pose));
            pose
        });
        let whole = xr::Path::NULL;
        game.sync(&[set]);
        assert_eq!(game.input.pose(hand, whole), Some(places[0]));
        game.input.holds(LEFT, SIMPLE, false);
        for _ in 0..2 {
            assert_eq!(game.input.pose(hand, whole), None, "not the other hand");
            let right = game.path(RIGHT);
            assert_eq!(game.input.pose(hand, right), Some(places[1]));
            game.sync(&[set]);
        }
        game.input.holds(LEFT, SIMPLE, true);
        game.sync(&[set]);
        assert_eq!(game.input.pose(hand, whole), Some(places[0]));
        // Another device at the same path, without suggested bindings.
        game.input.holds(LEFT, TOUCH, true);
        game.sync(&[set]);
        assert_eq!(game.input.pose(hand, whole), Some(places[1]));
    }

    #[test]
    fn thumbsticks_and_poses_are_read() {
        let mut game = Game::default();
        let set = game.set("game", 0);
        let walk = game.action(set, "walk", xr::ActionType::VECTOR2F_INPUT);
        let hand = game.action(set, "hand", xr::ActionType::POSE_INPUT);
        game.suggest(
            TOUCH,
            &[
                (walk, "/user/hand/right/input/thumbstick"),
                (hand, "/user/hand/right/input/aim"),
            ],
        );
        game.input.holds(RIGHT, TOUCH, true);
        game.input
            .says(RIGHT, "/input/thumbstick/y", Value::Number(-1.0));
        let ahead = Pose::moved([0.0, 0.0, -1.0]);
        game.input.lies(RIGHT, "/input/aim/pose", Some(ahead));
        game.sync(&[set]);
        assert_eq!(
            game.state(walk, None),
            Some((Value::Pair([0.0, -1.0]), true, 1))
        );
        let right = game.path(RIGHT);
        assert_eq!(game.input.pose(hand, right), Some(ahead));
        assert_eq!(game.input.pose(hand, xr::Path::NULL), Some(ahead));
        let elsewhere = Pose::moved([0.0, 1.0, 0.0]);
        game.input
            .lies_at_first(RIGHT, "/input/aim/pose", elsewhere);
        assert_eq!(game.input.pose(hand, right), Some(ahead));
        game.input.holds(RIGHT, TOUCH, false);
        assert_eq!(game.input.pose(hand, right), None, "disconnected");
        game.input.holds(RIGHT, TOUCH, true);
        assert_eq!(game.input.pose(hand, right), Some(ahead));
        game.input.lies(RIGHT, "/input/aim/pose", None);
        assert_eq!(
            game.input.pose(hand, right),
            None,
            "no pose, but the action is active"
        );
        assert!(game.input.place(hand, right).is_some());
    }
}
