//! What the player holds, and what each action makes of it: which bindings count, what they read, and what an
//! application is told at its next `xrSyncActions` (OpenXR 1.0, section 11.5 to 11.8).
//!
//! ```text
//! devices: /user/hand/left holds oculus/touch_controller, its trigger is at 0.7
//!    │ bindings that were suggested for that profile
//!    ▼
//! actions of the sets that are active now; of those that share a place only the set of the highest priority
//!    │ OR of booleans, the largest number, the longest stick
//!    ▼
//! a state for each action and each place of the person's, as it stays until the next synchronisation
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};

use openuvr_proto::time::Instant;
use openxr_sys as xr;

use super::actions::{ActionId, Actions, SetId};
use super::paths::Paths;
use super::pose::Pose;
use super::profiles::{Profile, Reading};

/// A number from which on a trigger counts as pulled, and below which as let go of again (guess: as most runtimes
/// have it; between the two it stays what it was).
const PULLED: f32 = 0.7;
const LET_GO: f32 = 0.6;

/// States of one device at most: more places than any profile has are nobody's.
const MOST_PLACES: usize = 256;

/// What a place of a device says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    Bool(bool),
    Number(f32),
    Pair([f32; 2]),
}

/// A device in one place of the person's.
#[derive(Clone, Debug, Default)]
struct Held {
    /// Its profile, by its path.
    profile: String,
    is_active: bool,
    values: HashMap<String, Value>,
    /// In the player's space.
    poses: HashMap<String, Pose>,
}

/// A binding that counts: what an action reads or tells.
#[derive(Clone, PartialEq, Debug)]
struct Binding {
    action: ActionId,
    user: &'static str,
    /// As it was suggested, and what is there.
    path: xr::Path,
    reading: Reading,
}

/// A set that is synchronised, perhaps for one place of the person's only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ActiveSet {
    pub(crate) set: SetId,
    pub(crate) user: xr::Path,
}

/// What an application is told of an action.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct State {
    pub(crate) value: Value,
    pub(crate) has_changed: bool,
    pub(crate) changed: Instant,
}

/// All of a session's.
#[derive(Debug, Default)]
pub(crate) struct Input {
    held: BTreeMap<String, Held>,
    bindings: Vec<Binding>,
    /// Of actions that are active, for each place or for all (null).
    states: HashMap<(ActionId, xr::Path), State>,
    /// Places whose pose, and whose haptics, belong to an action that is synchronised.
    poses: HashMap<(ActionId, xr::Path), (&'static str, String)>,
    /// The profiles that bindings were taken from at the last synchronisation.
    profiles: BTreeMap<&'static str, String>,
}

impl Input {
    /// A device comes, is another, or goes.
    pub(crate) fn holds(&mut self, user: &str, profile: &str, is_active: bool) {
        let held = self.held.entry(user.to_owned()).or_default();
        if held.profile != profile {
            *held = Held::default();
            profile.clone_into(&mut held.profile);
        }
        held.is_active = is_active;
    }

    /// A place of a device says something, from the next synchronisation on.
    pub(crate) fn says(&mut self, user: &str, place: &str, value: Value) {
        let held = self.held.entry(user.to_owned()).or_default();
        if held.values.len() < MOST_PLACES || held.values.contains_key(place) {
            held.values.insert(place.to_owned(), value);
        }
    }

    /// A place of a device is there, in the player's space.
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

    /// `xrSyncActions`. Whether a place of the person's has bindings of another profile now.
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

    /// What was suggested for what is held now.
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

    /// The bindings of active sets, but for those whose place another of higher priority has.
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
            // Poses are shared: where a hand is takes nothing from others.
            matches!(binding.reading, Reading::Pose(_))
                || places.all(|place| highest.get(&(binding.user, thing(place))) == Some(&priority))
        };
        all.iter()
            .filter(counts)
            .map(|binding| (*binding).clone())
            .collect()
    }

    /// What the places say. A device that was not heard of yet says nothing's value.
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

    /// What an application is told of an action; `None`: it is inactive.
    pub(crate) fn state(&self, action: ActionId, user: xr::Path) -> Option<State> {
        self.states.get(&(action, user)).copied()
    }

    /// Which place of whom an action for poses or vibration stands for; `None`: it is inactive.
    pub(crate) fn place(&self, action: ActionId, user: xr::Path) -> Option<(&'static str, &str)> {
        let (user, place) = self.poses.get(&(action, user))?;
        Some((*user, place.as_str()))
    }

    /// Where that place is.
    pub(crate) fn pose(&self, action: ActionId, user: xr::Path) -> Option<Pose> {
        let (user, place) = self.place(action, user)?;
        self.held.get(user)?.poses.get(place).copied()
    }

    /// The places that an action is bound to.
    pub(crate) fn sources(&self, action: ActionId) -> Vec<xr::Path> {
        let mut seen = HashSet::new();
        let own = self.bindings.iter().filter(|b| b.action == action);
        own.map(|b| b.path)
            .filter(|path| seen.insert(*path))
            .collect()
    }

    /// The places of the person's where an action that vibrates is bound, at `user` or, if that is null, at all.
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

    /// The profile that a place of the person's has bindings of.
    pub(crate) fn profile(&self, user: &str) -> Option<&str> {
        self.profiles.get(user).map(String::as_str)
    }
}

/// The thing that a place belongs to: the trigger, of its value and its touch.
fn thing(place: &str) -> &str {
    let mut ends = place.match_indices('/').map(|(at, _)| at);
    // "/input/trigger/value": up to the third.
    ends.nth(2).map_or(place, |end| &place[..end])
}

/// What two places say together.
fn joined(a: Value, b: Value) -> Value {
    let length = |[x, y]: [f32; 2]| x * x + y * y;
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Value::Bool(a || b),
        (Value::Number(a), Value::Number(b)) => {
            Value::Number(if b.abs() > a.abs() { b } else { a })
        }
        (Value::Pair(a), Value::Pair(b)) => Value::Pair(if length(b) > length(a) { b } else { a }),
        // An action has one kind.
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

    /// An application with sets of actions, and its player.
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

        /// Synchronises these sets; whether devices have changed.
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
    fn actions_are_active_where_a_device_is_held() {
        let mut game = Game::default();
        let set = game.set("game", 0);
        let grab = game.action(set, "grab", xr::ActionType::FLOAT_INPUT);
        let trigger = |user: &str| format!("{user}/input/trigger/value");
        let (left, right) = (trigger(LEFT), trigger(RIGHT));
        game.suggest(TOUCH, &[(grab, left.as_str()), (grab, right.as_str())]);
        assert!(!game.sync(&[set]));
        assert_eq!(game.state(grab, None), None);
        game.input.holds(LEFT, TOUCH, true);
        assert!(game.sync(&[set]), "a device has come");
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
            "until then"
        );
        assert!(!game.sync(&[set]));
        assert_eq!(game.state(grab, None), Some((Value::Number(0.5), true, 3)));
        assert!(!game.sync(&[set]));
        assert_eq!(game.state(grab, None), Some((Value::Number(0.5), false, 3)));
        // The further of two counts.
        game.input.holds(RIGHT, TOUCH, true);
        game.input
            .says(RIGHT, "/input/trigger/value", Value::Number(0.8));
        assert!(game.sync(&[set]));
        assert_eq!(game.state(grab, None), Some((Value::Number(0.8), true, 5)));
        // Nobody's focus, or no set: nothing is active.
        assert!(!game.sync(&[]));
        assert_eq!(game.state(grab, None), None);
        game.input.holds(LEFT, TOUCH, false);
        assert!(game.sync(&[set]));
        assert_eq!(game.state(grab, Some(LEFT)), None);
        assert_eq!(game.input.sources(grab).len(), 1);
    }

    #[test]
    fn a_trigger_is_a_button_with_two_thresholds() {
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
    fn the_set_of_higher_priority_has_a_shared_place() {
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
    fn sticks_and_hands_say_where_they_are() {
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
        game.input.lies(RIGHT, "/input/aim/pose", None);
        assert_eq!(
            game.input.pose(hand, right),
            None,
            "it is lost, and the action active"
        );
        assert!(game.input.place(hand, right).is_some());
    }
}
